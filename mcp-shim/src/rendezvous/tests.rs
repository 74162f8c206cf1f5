//! The file protocol on a clock that jumps: no test here waits.

use super::*;
use shared::mailbox::Directory;
use shared::reply::Progress;
use shared::request::{CallRequest, ListRequest};
use shared::{Status, Timestamp};
use std::future::pending;
use std::path::Path;

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
async fn patience_ends_and_takes_the_request_back() {
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
