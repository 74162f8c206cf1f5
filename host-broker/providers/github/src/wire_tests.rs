//! The bytes on the wire, and the results of the answers.

use crate::base::{BaseUrl, Target};
use crate::client::{Change, Client, NoClient};
use crate::fields::is_pull_request;
use crate::pages::{BadPlace, Place, listed};
use crate::responses::Issue;
use crate::scripted::{Caller, NOW, Reply, SHORT, Scripted, TIMEOUT, TOKEN};
use http::Method;
use provider::contract::Failure;
use serde_json::{Value, json};
use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

fn issues() -> Target {
    let (owner, name) = (&"octocat".parse().unwrap(), &"hello-world".parse().unwrap());
    Target::repo(crate::params::Repo { owner, name }).then("issues")
}

async fn read(server: &Scripted) -> Result<Value, Failure> {
    Caller::to(&server.base()).session(TIMEOUT).get(&issues()).await
}

/// A new issue that says this.
fn opened(body: Value) -> Change {
    Change { method: Method::POST, target: issues(), body }
}

async fn write(server: &Scripted) -> Result<Value, Failure> {
    Caller::to(&server.base()).session(TIMEOUT).write(&opened(json!({ "title": "x" }))).await
}

fn has_no_token(failure: &Failure) {
    assert!(!format!("{failure:?}").contains("CANARY"), "{failure:?}");
}

#[tokio::test]
async fn a_request_is_what_github_documents_and_nothing_more() {
    let server = Scripted::new([Reply::ok(&json!([])), Reply::json(201, "", "{}")]);
    read(&server).await.unwrap();
    write(&server).await.unwrap();
    let [get, post]: [String; 2] = server.requests().try_into().unwrap();
    let (head, body) = post.split_once("\r\n\r\n").unwrap();
    assert_eq!(body, r#"{"title":"x"}"#);
    assert!(head.starts_with("POST /repos/octocat/hello-world/issues HTTP/1.1\r\n"), "{head}");
    for (head, length) in [(&*get, None), (head, Some("content-length: 13"))] {
        let lines: Vec<_> = head.to_ascii_lowercase().lines().skip(1).map(str::to_owned).collect();
        let count = |start: &str| lines.iter().filter(|line| line.starts_with(start)).count();
        for name in
            ["authorization:", "accept: application/vnd.github+json", "x-github-api-version:", "user-agent:", "host:"]
        {
            assert_eq!(count(name), 1, "{name} in {head}");
        }
        assert_eq!(count("accept-encoding:") + count("transfer-encoding:") + count("cookie:"), 0, "{head}");
        assert!(length.is_none_or(|line| count(line) == 1 && count("content-length:") == 1), "{head}");
    }
    assert!(head.contains(&format!("Bearer {TOKEN}")));
}

#[tokio::test]
async fn an_enterprise_servers_path_stays_before_every_request() {
    let server = Scripted::new([Reply::ok(&json!([]))]);
    // The trap: octocrab leaves out the base's path where the request's begins with the same letters.
    let caller = Caller::to(&format!("{}/repos", server.base()));
    caller.session(TIMEOUT).get(&issues()).await.unwrap();
    assert_eq!(server.lines(), ["GET /repos/repos/octocat/hello-world/issues"]);
}

#[tokio::test]
async fn a_write_is_sent_once_for_every_response() {
    let html = || Reply::json(502, "", "<html>");
    let cases = [
        html(),
        Reply::json(500, "", "{}"),
        Reply::json(503, "Retry-After: 1\r\n", "{}"),
        Reply::Cut(Vec::new()),
        Reply::Cut(b"HTTP/1.1 201 Created\r\nContent-Le".to_vec()),
        Reply::Cut(b"HTTP/1.1 201 Created\r\nContent-Length: 100\r\n\r\n{\"number\":".to_vec()),
        Reply::Bytes(b"rubbish\r\n\r\n".to_vec()),
        Reply::json(201, "", "{\"id\": 1, \"title\": \"x"),
        Reply::json(200, "Content-Encoding: gzip\r\n", "{}"),
        Reply::json(304, "", ""),
        Reply::json(408, "", "{}"),
    ];
    for reply in cases {
        let server = Scripted::new([reply, html(), html()]);
        let failure = write(&server).await.unwrap_err();
        assert!(matches!(failure, Failure::Unknown { .. }), "{failure:?}");
        assert_eq!(server.requests().len(), 1);
        has_no_token(&failure);
    }
}

#[tokio::test]
async fn a_read_is_tried_three_times_and_only_where_trying_can_help() {
    let bad = || Reply::json(502, "", "<html>");
    let cases: [(Vec<Reply>, usize, bool); 8] = [
        (vec![bad(), Reply::json(503, "", ""), Reply::ok(&json!([]))], 3, true),
        (vec![Reply::Cut(Vec::new()), Reply::ok(&json!([]))], 2, true),
        (vec![bad(), bad(), bad(), Reply::ok(&json!([]))], 3, false),
        (vec![Reply::json(503, "Retry-After: 2\r\n", "{}"), Reply::ok(&json!([]))], 1, false),
        (vec![Reply::json(500, "", "{}"), Reply::ok(&json!([]))], 1, false),
        (vec![Reply::json(404, "", "{}"), Reply::ok(&json!([]))], 1, false),
        (vec![Reply::json(429, "Retry-After: 1\r\n", "{}"), Reply::ok(&json!([]))], 1, false),
        (vec![Reply::json(200, "", "{"), Reply::ok(&json!([]))], 1, false),
    ];
    for (n, (replies, requests, works)) in cases.into_iter().enumerate() {
        let server = Scripted::new(replies);
        let outcome = read(&server).await;
        assert_eq!((outcome.is_ok(), server.requests().len()), (works, requests), "case {n}: {outcome:?}");
    }
}

#[tokio::test]
async fn a_look_for_a_lost_effect_outlasts_a_connection_that_stays_broken_for_a_while() {
    let broken = || Reply::Cut(Vec::new());
    let server = Scripted::new([broken(), broken(), broken(), Reply::ok(&json!({ "number": 1 }))]);
    let caller = Caller::to(&server.base());
    let read = caller.session(TIMEOUT).patient().get(&issues()).await;
    assert_eq!(read, Ok(json!({ "number": 1 })));
    assert_eq!(server.requests().len(), 4);
}

/// Attack (Providers and modules): A provider redirects, floods, sends half an answer, or a
/// decompression bomb.
/// Defence: `provider_github`: no redirects, bounded bodies, no transparent decompression.
#[tokio::test]
async fn no_redirect_is_followed() {
    let elsewhere = Scripted::new([]);
    for location in [elsewhere.base(), "http://169.254.169.254/latest".into(), "file:///etc/passwd".into(), "/x".into()]
    {
        for status in [301, 302, 303, 307, 308] {
            let line = format!("Location: {location}\r\n");
            let server = Scripted::new([Reply::json(status, &line, ""), Reply::json(status, &line, "")]);
            for failure in [read(&server).await.unwrap_err(), write(&server).await.unwrap_err()] {
                assert!(matches!(&failure, Failure::Refused { message } if message.contains("moved")), "{failure:?}");
            }
            assert_eq!(server.requests().len(), 2);
        }
    }
    assert_eq!(elsewhere.requests().len(), 0);
}

#[tokio::test]
async fn a_write_that_could_not_leave_is_no_unknown_outcome() {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let caller = Caller::to(&format!("http://127.0.0.1:{port}"));
    let failure = caller.session(TIMEOUT).write(&opened(json!({}))).await.unwrap_err();
    assert!(matches!(&failure, Failure::Unavailable { message } if message.contains("reached")), "{failure:?}");

    // Something listens and never speaks TLS: the deadline passes before the request is begun.
    let silent = Scripted::new([]);
    let caller = Caller::to(&silent.base().replace("http:", "https:"));
    let failure = caller.session(SHORT).write(&opened(json!({}))).await.unwrap_err();
    assert_eq!(failure, Failure::Timeout);
}

#[tokio::test]
async fn nothing_is_sent_after_the_deadline() {
    let server = Scripted::new([]);
    let caller = Caller::to(&server.base());
    let session = caller.session(Duration::ZERO);
    assert_eq!(session.write(&opened(json!({}))).await, Err(Failure::Timeout));
    assert_eq!(session.get(&issues()).await, Err(Failure::Timeout));
    assert_eq!(server.requests().len(), 0);
}

#[tokio::test]
async fn silence_ends_at_the_deadline() {
    let begun = b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{".to_vec();
    for stall in [Vec::new(), b"HTTP/1.1 20".to_vec(), begun] {
        let server = Scripted::new([Reply::Stall(stall.clone()), Reply::Stall(stall)]);
        let caller = Caller::to(&server.base());
        let start = Instant::now();
        let read = caller.session(SHORT).get(&issues()).await;
        let written = caller.session(SHORT).write(&opened(json!({}))).await;
        assert!(start.elapsed() < TIMEOUT);
        assert_eq!(read, Err(Failure::Timeout));
        assert!(matches!(written, Err(Failure::Unknown { .. })), "{written:?}");
    }
}

/// Attack: see `no_redirect_is_followed`.
#[tokio::test]
async fn a_body_without_end_is_left_early() {
    let announced = b"HTTP/1.1 200 OK\r\nContent-Length: 50000000\r\n\r\n".to_vec();
    let chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec();
    let gzip = b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec();
    for (head, most) in [(announced, 8), (chunked, 12), (gzip, 8)] {
        let server = Scripted::new([Reply::Flood(head.clone()), Reply::Flood(head)]);
        let failure = read(&server).await.unwrap_err();
        assert!(matches!(failure, Failure::InvalidOutput { .. }), "{failure:?}");
        let failure = write(&server).await.unwrap_err();
        assert!(matches!(failure, Failure::Unknown { .. }), "{failure:?}");
        // Twice the capacity of the sockets' buffers, and the limit twice.
        assert!(server.flooded() < most * 2 * 1024 * 1024, "{}", server.flooded());
    }
}

/// Attack: see `no_redirect_is_followed`.
#[tokio::test]
async fn a_flood_of_header_fields_breaks_nothing() {
    let lines = "X-Junk: vvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvv\r\n".repeat(5000);
    let flood = || Reply::json(200, &lines, "[]");
    let server = Scripted::new([flood(), flood(), flood(), flood()]);
    assert!(matches!(read(&server).await, Err(Failure::Unavailable { .. } | Failure::InvalidOutput { .. })));
    assert!(matches!(write(&server).await, Err(Failure::Unknown { .. })));
}

#[tokio::test]
async fn a_read_is_revalidated_and_a_304_brings_the_kept_answer() {
    let next = "Link: </x?page=2>; rel=\"prev\"\r\n";
    let server = Scripted::new([
        Reply::json(200, &format!("ETag: \"one\"\r\n{next}"), "[1]"),
        Reply::json(304, "ETag: \"one\"\r\n", ""),
        Reply::json(200, "ETag: \"two\"\r\n", "[2]"),
        Reply::json(304, "", ""),
    ]);
    let caller = Caller::to(&server.base());
    let get = || async { caller.session(TIMEOUT).get(&issues()).await.unwrap() };
    assert_eq!([get().await, get().await, get().await, get().await], [json!([1]), json!([1]), json!([2]), json!([2])]);
    let sent: Vec<_> = server
        .requests()
        .iter()
        .map(|r| r.contains("if-none-match: \"one\"") || r.contains("if-none-match: \"two\""))
        .collect();
    assert_eq!(sent, [false, true, true, true]);
    let stray = Scripted::new([Reply::json(304, "", "")]);
    assert!(matches!(read(&stray).await, Err(Failure::InvalidOutput { .. })));
}

fn page(base: &str, next: Option<&str>, entries: &[u64]) -> Reply {
    // Every third number is a pull request.
    let entry =
        |n: &u64| if n.is_multiple_of(3) { json!({ "number": n, "pull_request": {} }) } else { json!({ "number": n }) };
    let link = next.map_or_else(String::new, |query| format!("Link: <{base}{query}>; rel=\"next\"\r\n"));
    Reply::json(200, &link, &entries.iter().map(entry).collect::<Value>().to_string())
}

#[tokio::test]
async fn a_list_goes_on_until_its_limit_counting_only_what_is_wanted() {
    // The port is part of the links, so the answers are written once it is known.
    for (limit, numbers, more, requests) in
        [(2, &[1, 2][..], true, 1), (5, &[1, 2, 4, 5, 7], true, 3), (9, &[1, 2, 4, 5, 7, 8], false, 3)]
    {
        let server = Scripted::late(|base| {
            vec![
                page(base, Some("/repositories/1/issues?page=2&per_page=99"), &[1, 2, 3, 4]),
                page(base, Some("/repositories/1/issues?page=3"), &[5, 6]),
                page(base, None, &[7, 8, 9]),
            ]
        });
        let caller = Caller::to(&server.base());
        let list = issues().with("per_page", "30");
        let found =
            listed(&caller.session(TIMEOUT), &list, (None, limit), |v| !is_pull_request(v), Issue::from).await.unwrap();
        assert_eq!(found.entries.iter().map(|issue| issue.number).collect::<Vec<_>>(), numbers);
        assert_eq!(found.more(), more);
        let at = "GET /repos/octocat/hello-world/issues?per_page=30";
        assert_eq!(server.lines(), [at.to_owned(), format!("{at}&page=2"), format!("{at}&page=3")][..requests]);
    }
}

/// A list of twelve entries on four pages, of which every third is not wanted.
fn long_list() -> Scripted {
    Scripted::by_path(|base, path| {
        let number = path.split_once("page=").map_or(1, |(_, page)| page.parse().unwrap());
        let next = format!("/x?page={}", number + 1);
        let entries: Vec<u64> = (1..=3).map(|n| (number - 1) * 3 + n).collect();
        page(base, Some(next.as_str()).filter(|_| number < 4), &entries)
    })
}

#[tokio::test]
async fn a_list_goes_on_where_an_earlier_answer_ended_and_comes_to_its_end() {
    for limit in 1..=9 {
        let server = long_list();
        let caller = Caller::to(&server.base());
        let session = caller.session(TIMEOUT);
        let (mut numbers, mut from) = (Vec::new(), None);
        loop {
            let found = listed(&session, &issues(), (from.as_ref(), limit), |v| !is_pull_request(v), Issue::from)
                .await
                .unwrap();
            assert!(found.entries.len() <= limit);
            assert_eq!(found.cursor().is_some(), found.more());
            numbers.extend(found.entries.iter().map(|issue| issue.number));
            // As an agent passes it back: as a text.
            let Some(cursor) = found.cursor() else { break };
            from = Some(Place::try_from(cursor).unwrap());
        }
        assert_eq!(numbers, [1, 2, 4, 5, 7, 8, 10, 11], "by {limit}");
    }
}

#[test]
fn a_cursor_is_a_position_and_nothing_else() {
    for text in [";0", ";12", "page=3;0", "after=Y3Vyc29y%3D%3D&page=2;100"] {
        assert_eq!(Place::try_from(text.to_owned()).unwrap().to_string(), text);
    }
    let long = format!("page={};0", "1".repeat(300));
    for text in [
        "",
        "page=3",
        "page=3;101",
        "page=3;-1",
        "page=3;",
        "per_page=100;0",
        "page=;0",
        "page=3&state=all;0",
        "page=3#;0",
        "page=3 ;0",
        "page=/../x;0",
        "page=3;0;0",
        "https://evil.example?page=3;0",
        &long,
    ] {
        assert_eq!(Place::try_from(text.to_owned()), Err(BadPlace), "{text}");
    }
}

#[tokio::test]
async fn the_link_to_the_next_page_may_stand_in_any_of_several_headers() {
    let server = Scripted::late(|base| {
        let links = format!(
            "Link: <{base}/x?page=1>; rel=\"prev\"\r\nLink: <{base}/x?page=9>; rel=\"last\"; title=\"a, b\"\r\nlink: <{base}/x?page=2>; rel=\"next\"\r\n"
        );
        vec![Reply::json(200, &links, r#"[{"number":1}]"#), page(base, None, &[2])]
    });
    let caller = Caller::to(&server.base());
    let found = listed(&caller.session(TIMEOUT), &issues(), (None, 5), |_| true, Issue::from).await.unwrap();
    assert_eq!(found.entries.iter().map(|issue| issue.number).collect::<Vec<_>>(), [1, 2]);
    assert!(!found.more());
}

#[tokio::test]
async fn a_list_that_never_ends_or_leads_away_is_left() {
    let endless = Scripted::late(|base| vec![page(base, Some("/x?page=2"), &[3]); 50]);
    let caller = Caller::to(&endless.base());
    let found =
        listed(&caller.session(TIMEOUT), &issues(), (None, 5), |v| !is_pull_request(v), Issue::from).await.unwrap();
    assert!(found.more() && found.entries.is_empty());
    assert!(endless.requests().len() <= 11, "{}", endless.requests().len());

    let evil = Scripted::new([]);
    let server = Scripted::new([page(&evil.base(), Some("/x?page=2"), &[1])]);
    let caller = Caller::to(&server.base());
    let failure = listed(&caller.session(TIMEOUT), &issues(), (None, 5), |_| true, Issue::from).await.unwrap_err();
    assert!(matches!(failure, Failure::InvalidOutput { .. }), "{failure:?}");
    assert_eq!((server.requests().len(), evil.requests().len()), (1, 0));
}

#[tokio::test]
async fn bodies_that_are_no_list_are_invalid_output() {
    for body in [json!({}), json!(null), json!([{ "id": 1 }]), json!([1]), json!("x")] {
        let server = Scripted::new([Reply::ok(&body)]);
        let caller = Caller::to(&server.base());
        let failure = listed(&caller.session(TIMEOUT), &issues(), (None, 5), |_| true, Issue::from).await.unwrap_err();
        assert!(matches!(failure, Failure::InvalidOutput { .. }), "{failure:?}");
    }
}

#[tokio::test]
async fn a_token_that_cannot_be_sent_or_comes_back_is_not_shown() {
    let server = Scripted::new([Reply::json(403, "", &json!({ "message": format!("bad {TOKEN}") }).to_string())]);
    let failure = write(&server).await.unwrap_err();
    assert_eq!(
        failure,
        Failure::Refused { message: "GitHub forbids this to the broker's token: bad <redacted>.".into() }
    );

    let client =
        Client::new(BaseUrl::parse("http://127.0.0.1:1").unwrap(), Arc::new(platform::clock::SystemClock)).unwrap();
    let nonce = model::Nonce::fresh(&platform::random::SystemRandom).unwrap();
    let opened = crate::client::Session::open(&client, "CANARY\n", Instant::now(), &nonce);
    has_no_token(&opened.err().unwrap());
}

#[tokio::test]
async fn a_limit_that_ends_at_a_point_in_time_says_how_long_that_is() {
    let reset = NOW.millis() / 1000 + 90;
    let lines = format!("X-RateLimit-Remaining: 0\r\nX-RateLimit-Reset: {reset}\r\n");
    let server = Scripted::new([Reply::json(403, &lines, r#"{"message":"API rate limit exceeded"}"#)]);
    let failure = write(&server).await.unwrap_err();
    let Failure::RateLimited { retry_after, .. } = failure else { panic!("{failure:?}") };
    assert_eq!(retry_after, Some(Duration::from_secs(90)));
}

#[test]
fn without_a_runtime_there_is_no_client() {
    let client = Client::new(BaseUrl::parse("https://api.github.com").unwrap(), Arc::new(platform::clock::SystemClock));
    assert!(matches!(client.err(), Some(NoClient::NoRuntime)));
}

/// Certificates are found through the environment, so the test runs itself again in another one.
#[tokio::test]
#[expect(clippy::disallowed_methods, reason = "a test may look at its environment and start itself")]
async fn without_root_certificates_there_is_no_client_but_a_remedy() {
    const MARK: &str = "EXT_TEST_NO_CERTIFICATES";
    if std::env::var_os(MARK).is_some() {
        let base = BaseUrl::parse("https://api.github.com").unwrap();
        let fault = Client::new(base, Arc::new(platform::clock::SystemClock)).err().unwrap();
        let said = fault.to_string();
        assert!(said.contains("(no native root CA certificates found") && said.contains("ca-certificates"), "{said}");
        return;
    }
    let name = "wire_tests::without_root_certificates_there_is_no_client_but_a_remedy";
    let again = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", name])
        .env(MARK, "1")
        .env("SSL_CERT_FILE", "/nonexistent/file")
        .env("SSL_CERT_DIR", "/nonexistent/directory")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&again.stdout);
    assert!(again.status.success() && said.contains("1 passed"), "{said}");
}
