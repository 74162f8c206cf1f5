//! The file protocol on a clock that jumps, so that no test waits; and a broken connection.

use super::*;
use shared::frame::{self, Decoder, HostHello, Kind};
use shared::mailbox::Directory;
use shared::reply::Progress;
use shared::request::{CallRequest, ListRequest};
use shared::snapshot::PROTOCOL;
use shared::{Status, Timestamp};
use std::future::{pending, ready};
use std::io::{Read as _, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use tokio::io::AsyncWriteExt as _;

struct Heard(Vec<Progress>);

impl Listener for Heard {
    async fn hear(&mut self, progress: Progress) {
        self.0.push(progress);
    }
}

fn mailbox() -> (tempfile::TempDir, Rendezvous) {
    let directory = tempfile::tempdir().unwrap();
    for name in [mailbox::TASKS, mailbox::RESPONSES] {
        std::fs::create_dir(directory.path().join(name)).unwrap();
    }
    let mut settings = Settings::read(|_| None).unwrap();
    settings.ipc = directory.path().to_owned();
    (directory, Rendezvous::new(settings, Watch::blind()))
}

fn list() -> Request {
    Request::List(ListRequest { group_folder: None })
}

fn answer(directory: &Path, id: &RequestId) {
    let reply = Reply::executed(id.clone(), 7.into(), "Seven.".into(), Timestamp::from_millis(0));
    let responses = Directory::open(&directory.join(mailbox::RESPONSES)).unwrap();
    responses.write(&mailbox::reply_name(id), &serde_json::to_vec(&reply).unwrap(), 0o644).unwrap();
}

fn tasks(directory: &Path) -> usize {
    std::fs::read_dir(directory.join(mailbox::TASKS)).unwrap().count()
}

#[tokio::test(start_paused = true)]
async fn without_any_notification_polling_finds_the_reply() {
    let (directory, way) = mailbox();
    let id = document::request_id();
    let late = async {
        tokio::time::sleep(Duration::from_secs(20)).await;
        answer(directory.path(), &id);
        pending::<()>().await;
    };
    let request = list();
    let mut heard = Heard(Vec::new());
    let reply = tokio::select! {
        reply = way.ask(id.clone(), &request, Duration::from_secs(30), pending(), &mut heard) => reply,
        () = late => unreachable!(),
    };
    assert_eq!(reply.status, Status::Executed);
    assert!(heard.0.len() >= 2, "{heard:?}", heard = heard.0);
}

#[tokio::test(start_paused = true)]
async fn a_timeout_takes_the_request_back() {
    let (directory, way) = mailbox();
    let id = document::request_id();
    let reply = way.ask(id, &list(), Duration::from_secs(120), pending(), &mut Heard(Vec::new())).await;
    assert_eq!(reply.code.as_deref(), Some("withdrawn"));
    assert_eq!(tasks(directory.path()), 0);
}

#[tokio::test(start_paused = true)]
async fn a_host_that_stops_beating_while_we_wait_is_reported() {
    let (directory, way) = mailbox();
    std::fs::write(directory.path().join(mailbox::HOST), "{}").unwrap();
    let began = Instant::now();
    let id = document::request_id();
    let reply = way.ask(id, &list(), Duration::from_secs(120), pending(), &mut Heard(Vec::new())).await;
    assert_eq!(reply.code.as_deref(), Some("host_down"));
    assert!(began.elapsed() < Duration::from_secs(12), "{:?}", began.elapsed());
    assert_eq!(tasks(directory.path()), 0);
}

#[tokio::test(start_paused = true)]
async fn responses_may_appear_while_we_wait() {
    let (directory, way) = mailbox();
    std::fs::remove_dir(directory.path().join(mailbox::RESPONSES)).unwrap();
    let id = document::request_id();
    let late = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        std::fs::create_dir(directory.path().join(mailbox::RESPONSES)).unwrap();
        answer(directory.path(), &id);
        pending::<()>().await;
    };
    let request = list();
    let mut heard = Heard(Vec::new());
    tokio::select! {
        reply = way.ask(id.clone(), &request, Duration::from_secs(30), pending(), &mut heard) => {
            assert_eq!(reply.status, Status::Executed);
        }
        () = late => unreachable!(),
    }
}

#[tokio::test(start_paused = true)]
async fn a_question_about_an_earlier_request_takes_its_late_reply() {
    let (directory, way) = mailbox();
    let earlier = document::request_id();
    answer(directory.path(), &earlier);
    let about = Request::Result(shared::request::ResultRequest { of: earlier.clone(), timeout_ms: None });
    let id = document::request_id();
    let reply = way.ask(id, &about, Duration::from_secs(30), pending(), &mut Heard(Vec::new())).await;
    assert_eq!((reply.request_id, reply.status), (earlier, Status::Executed));
    assert_eq!(tasks(directory.path()), 0);
}

#[tokio::test(start_paused = true)]
async fn a_question_that_is_taken_back_says_nothing_about_its_call() {
    let (directory, way) = mailbox();
    let earlier = document::request_id();
    let about = Request::Result(shared::request::ResultRequest { of: earlier.clone(), timeout_ms: None });
    let ask = async || {
        let id = document::request_id();
        way.ask(id, &about, Duration::from_secs(30), pending(), &mut Heard(Vec::new())).await
    };
    let reply = ask().await;
    assert_eq!((reply.code.as_deref(), &reply.request_id), (Some("no_answer"), &earlier));
    let text = reply.error.unwrap();
    assert!(text.contains(earlier.as_str()) && !text.contains("withdrawn"), "{text}");
    // A host that has stopped gives signs of life for a while.
    std::fs::write(directory.path().join(mailbox::HOST), "{}").unwrap();
    let reply = ask().await;
    assert_eq!(reply.code.as_deref(), Some("host_down"));
    let text = reply.error.unwrap();
    assert!(text.contains(earlier.as_str()) && !text.contains("not executed"), "{text}");
    assert_eq!(tasks(directory.path()), 0);
}

#[tokio::test]
async fn a_request_that_is_too_large_is_not_written() {
    let (directory, way) = mailbox();
    let mut call = CallRequest {
        provider: "p".parse().unwrap(),
        action: "a".parse().unwrap(),
        params: serde_json::Map::new(),
        task_id: None,
        idempotency_key: None,
        account_ref: None,
        timeout_ms: None,
        dry_run: false,
    };
    call.params.insert("x".into(), "x".repeat(shared::limits::REQUEST_BYTES_MAX).into());
    let id = document::request_id();
    let request = Request::Call(call);
    let reply = way.ask(id, &request, Duration::from_secs(30), pending(), &mut Heard(Vec::new())).await;
    assert_eq!(reply.code.as_deref(), Some("oversized_request"));
    assert_eq!(tasks(directory.path()), 0);
}

#[tokio::test(start_paused = true)]
async fn rubbish_that_rests_is_replaced_by_the_reply_all_the_same() {
    let (directory, way) = mailbox();
    let id = document::request_id();
    let place = directory.path().join(mailbox::RESPONSES).join(mailbox::reply_name(&id));
    let late = async {
        std::fs::write(&place, "{").unwrap();
        tokio::time::sleep(Duration::from_secs(10)).await;
        answer(directory.path(), &id);
        pending::<()>().await;
    };
    let request = list();
    let mut heard = Heard(Vec::new());
    tokio::select! {
        reply = way.ask(id.clone(), &request, Duration::from_secs(30), pending(), &mut heard) => {
            assert_eq!(reply.status, Status::Executed);
        }
        () = late => unreachable!(),
    }
}

/// The first frame of a host.
fn hello() -> Vec<u8> {
    let hello = HostHello {
        protocol: PROTOCOL.to_owned(),
        group: "developer".parse().unwrap(),
        request_bytes_max: shared::limits::REQUEST_BYTES_MAX,
        reply_bytes_max: shared::limits::REPLY_BYTES_MAX,
        started_at: Timestamp::from_millis(0),
    };
    frame::of(Kind::Hello, &hello).unwrap()
}

/// A host that takes one request of each connection. It closes the first connection without an answer, and refuses the
/// request of the second.
fn forgetful_host(listener: UnixListener) -> std::thread::JoinHandle<Vec<RequestId>> {
    let take = |stream: &mut UnixStream| -> RequestId {
        let (mut decoder, mut buffer) = (Decoder::of_requests(), [0; 4096]);
        loop {
            while let Some(frame) = decoder.take().unwrap() {
                if frame.kind == Kind::Request {
                    let document: serde_json::Value = serde_json::from_slice(&frame.document).unwrap();
                    return document["request_id"].as_str().unwrap().parse().unwrap();
                }
            }
            let read = stream.read(&mut buffer).unwrap();
            decoder.push(&buffer[..read]);
        }
    };
    std::thread::spawn(move || {
        let hello = hello();
        let (mut first, _) = listener.accept().unwrap();
        let lost = take(&mut first);
        first.write_all(&hello).unwrap();
        drop(first);
        let (mut second, _) = listener.accept().unwrap();
        let again = take(&mut second);
        let refusal = Reply::of_code(again.clone(), Code::NoGrant, Timestamp::from_millis(0));
        second.write_all(&hello).unwrap();
        second.write_all(&frame::encode(Kind::Reply, &refusal.to_bytes()).unwrap()).unwrap();
        vec![lost, again]
    })
}

#[tokio::test]
async fn a_refusal_of_a_request_that_an_earlier_connection_may_have_brought_says_nothing_of_its_outcome() {
    let (directory, way) = mailbox();
    let host = forgetful_host(UnixListener::bind(directory.path().join(mailbox::SOCKET)).unwrap());
    let id = document::request_id();
    let reply = way.ask(id.clone(), &list(), Duration::from_secs(30), pending(), &mut Heard(Vec::new())).await;
    assert_eq!(reply.code.as_deref(), Some("no_answer"));
    assert!(reply.error.unwrap().contains("connection to the host broke"));
    assert_eq!(host.join().unwrap(), [id.clone(), id]);
}

#[tokio::test(start_paused = true)]
async fn a_connection_lives_on_if_its_first_call_takes_longer_than_the_greeting_may() {
    let (directory, way) = mailbox();
    let listener = tokio::net::UnixListener::bind(directory.path().join(mailbox::SOCKET)).unwrap();
    let id = document::request_id();
    let reply = Reply::executed(id.clone(), 7.into(), "Seven.".into(), Timestamp::from_millis(0));
    let host = async {
        let (mut stream, _) = listener.accept().await.unwrap();
        sleep(ANSWER_TIMEOUT / 2).await;
        stream.write_all(&hello()).await.unwrap();
        sleep(ANSWER_TIMEOUT * 3).await;
        stream.write_all(&frame::encode(Kind::Reply, &reply.to_bytes()).unwrap()).await.unwrap();
        // A second connection would mean that the first one was left.
        drop(listener.accept().await);
    };
    let (request, mut heard) = (list(), Heard(Vec::new()));
    tokio::select! {
        reply = way.ask(id.clone(), &request, Duration::from_secs(30), pending(), &mut heard) => {
            assert_eq!(reply.status, Status::Executed, "{reply:?}");
        }
        () = host => panic!("the shim connects a second time"),
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_that_was_cancelled_before_it_was_sent_is_not_sent() {
    for has_socket in [false, true] {
        let (directory, way) = mailbox();
        let socket = directory.path().join(mailbox::SOCKET);
        let listener = has_socket.then(|| tokio::net::UnixListener::bind(socket).unwrap());
        let mut heard = Heard(Vec::new());
        let reply = way.ask(document::request_id(), &list(), Duration::from_secs(30), ready(()), &mut heard).await;
        assert_eq!(reply.code.as_deref(), Some("cancelled"));
        assert_eq!(tasks(directory.path()), 0);
        if let Some(listener) = listener {
            let accepted = tokio::time::timeout(Duration::from_secs(60), listener.accept()).await;
            assert!(accepted.is_err(), "it has connected");
        }
    }
}
