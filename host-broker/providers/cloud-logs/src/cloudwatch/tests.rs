//! Against moto, which has botocore verify each signature, and against answers that moto does not give.

use super::*;
use crate::get_log_entry::GetLogEntry;
use crate::list_services::ListServices;
use crate::query_logs::QueryLogs;
use crate::sigv4::SigningKey;
use crate::tests::Own;
use crate::{Logs, Settings};
use model::Clock as _;
use platform::clock::SystemClock;
use serde_json::{Value, json};
use shared::Timestamp;
use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::time::Duration;
use tokio::time::Instant;

/// Now, by the clock of the machine: CloudWatch takes no events that are weeks old.
fn now() -> Timestamp {
    SystemClock.now()
}

/// A server of moto. It ends with this.
struct Moto {
    child: Child,
    port: u16,
    id: String,
    secret: String,
}

impl Drop for Moto {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

impl Moto {
    /// Starts one with these log groups, or says why not.
    #[expect(clippy::disallowed_methods, reason = "a test may look at its environment and start what it needs")]
    fn start(groups: &Value) -> Option<Self> {
        let servers = std::env::var_os("EXT_TEST_SERVERS").map(PathBuf::from);
        let python = servers.map(|servers| servers.join("cloudwatch/bin/python")).filter(|python| python.exists());
        let Some(python) = python else {
            println!("skipped: EXT_TEST_SERVERS names no directory with `cloudwatch`");
            return None;
        };
        let script = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../tests/servers/cloudwatch_server.py");
        let mut events = tempfile::NamedTempFile::new().unwrap();
        write!(events, "{groups}").unwrap();
        let mut command = Command::new(python);
        command.arg(script).arg(events.path()).stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let said: Value = serde_json::from_str(&line).expect("the server has not started");
        let text = |member: &str| said[member].as_str().unwrap().to_owned();
        let port = u16::try_from(said["port"].as_u64().unwrap()).unwrap();
        Some(Self { child, port, id: text("id"), secret: text("secret") })
    }

    fn logs(&self, groups: &Value) -> Logs {
        logs(self.port, groups)
    }

    fn access(&self) -> Access {
        access(&self.id, &self.secret)
    }
}

fn logs(port: u16, groups: &Value) -> Logs {
    let settings = format!(
        "backends = [{{ kind = 'cloudwatch', name = 'aws', region = 'eu-central-1', groups = {groups}, access_key_id = \
         'AKIAIOSFODNN7EXAMPLE', secret_access_key = {{ env = 'KEY' }}, url = 'http://127.0.0.1:{port}' }}]"
    );
    Logs::new(toml::from_str::<Settings>(&settings).unwrap(), &Own::new().parts()).unwrap()
}

fn access(id: &str, secret: &str) -> Access {
    let key = SigningKey::new(id, secret, ("eu-central-1", SERVICE), now());
    let credentials = BTreeMap::from([("aws".to_owned(), SignIn::Signature(key))]);
    Access { deadline: Instant::now() + Duration::from_secs(60), credentials: Arc::new(credentials) }
}

async fn page(logs: &Logs, access: &Access, params: Value) -> Value {
    let query: QueryLogs = serde_json::from_value(params).unwrap();
    serde_json::to_value(query.page(logs, now(), access.clone()).await.unwrap()).unwrap()
}

async fn failed(logs: &Logs, access: &Access, params: Value) -> String {
    let query: QueryLogs = serde_json::from_value(params).unwrap();
    format!("{:?}", query.page(logs, now(), access.clone()).await.unwrap_err())
}

async fn failure(logs: &Logs, access: &Access) -> String {
    failed(logs, access, json!({})).await
}

fn messages(page: &Value) -> Vec<&str> {
    page["entries"].as_array().unwrap().iter().map(|entry| entry["message"].as_str().unwrap()).collect()
}

fn reasons(page: &Value) -> Vec<&str> {
    let skipped = page["skipped"].as_array().map_or(&[][..], Vec::as_slice);
    skipped.iter().map(|skipped| skipped["reason"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn entries_are_found_by_service_text_and_level_and_by_their_id() {
    let minute = 60_000;
    let at = |minutes: i64| now().millis() - minutes * minute;
    let Some(moto) = Moto::start(&json!({
        "/ecs/web": { "one": [[at(3), "plain text\n"]], "two": [[at(4), "level=error msg=\"pairs too\" user=ada"]] },
        "/aws/lambda/api": { "[$LATEST]1f": [
            [at(50), r#"{"level":"info","msg":"started"}"#],
            [at(1), r#"{"level":"error","msg":"Cannot [open] it","log_stream":"forged"}"#],
        ] },
        "/aws/lambda/other": { "s": [[at(5), "another function"], [at(180), "too old"]] },
        "secret": { "s": [[at(1), "of a group that is not configured"]] },
    })) else {
        return;
    };
    let (logs, access) = (moto.logs(&json!(["/ecs/web", "/aws/lambda/*"])), moto.access());
    let all = page(&logs, &access, json!({})).await;
    let newest = ["Cannot [open] it", "plain text", "pairs too", "another function", "started"];
    assert_eq!((messages(&all), reasons(&all)), (newest.to_vec(), vec![]));
    let first = &all["entries"][0];
    assert_eq!((&first["service"], &first["level"]), (&json!("_aws_lambda_api"), &json!("error")));
    assert_eq!(first["fields"]["log_stream"], "[$LATEST]1f", "a line cannot name another stream");
    for (params, expected) in [
        (json!({ "service": "_ecs_web" }), vec!["plain text", "pairs too"]),
        (json!({ "query": "CANNOT [open]" }), vec!["Cannot [open] it"]),
        (json!({ "level": "error" }), vec!["Cannot [open] it", "pairs too"]),
        (json!({ "since": "10m", "until": "2m" }), vec!["plain text", "pairs too", "another function"]),
    ] {
        assert_eq!(messages(&page(&logs, &access, params.clone()).await), expected, "{params}");
    }
    // A group that is not configured is no service.
    for (service, said) in [("secret", "no service `secret`\""), ("_ecs_wep", "`_ecs_wep`; did you mean `_ecs_web`?")] {
        let refused = failed(&logs, &access, json!({ "service": service })).await;
        assert!(refused.starts_with("Refused") && refused.contains(said), "{refused}");
    }
    let entry: GetLogEntry = serde_json::from_value(json!({ "id": all["entries"][2]["id"] })).unwrap();
    assert_eq!(entry.entry(&logs, access.clone()).await.unwrap().message, "pairs too");
    let list: ListServices = serde_json::from_value(json!({})).unwrap();
    let services = list.list(&logs, access.clone()).await.unwrap().services;
    let services: Vec<&str> = services.iter().map(|source| source.service.as_str()).collect();
    assert_eq!(services, ["_aws_lambda_api", "_aws_lambda_other", "_ecs_web"]);

    let forged = failure(&logs, &self::access(&moto.id, "another-secret-of-forty-characters-here")).await;
    assert!(forged.contains("aws: it refuses the access key"), "{forged}");
    // A group that does not exist hides no other.
    let some = page(&moto.logs(&json!(["/ecs/web", "/gone"])), &access, json!({})).await;
    assert_eq!((messages(&some).len(), reasons(&some)), (2, vec!["aws: there is no such log group"]));
}

/// Bursts, so that slices become shorter and longer.
fn bursts() -> Vec<(i64, String)> {
    let end = now().millis() - 1_000;
    let mut events: Vec<(i64, String)> = (0..1_400).map(|n| (end - n / 7 * 40, format!("line {n}"))).collect();
    events.extend((1_400..1_500).map(|n| (end - 600_000 - (n - 1_400) * 20_000, format!("line {n}"))));
    events.reverse();
    events
}

#[tokio::test]
async fn pages_over_many_entries_and_equal_instants_lose_none_and_repeat_none() {
    let Some(moto) = Moto::start(&json!({ "web": { "s": bursts() } })) else { return };
    let (logs, access) = (moto.logs(&json!(["web"])), moto.access());
    let (mut seen, mut cursor) = (Vec::new(), Value::Null);
    loop {
        let found = page(&logs, &access, json!({ "limit": 90, "cursor": cursor })).await;
        assert_eq!(reasons(&found), [""; 0]);
        seen.extend(messages(&found).into_iter().map(str::to_owned));
        cursor = found["cursor"].clone();
        if cursor.is_null() {
            break;
        }
    }
    assert_eq!(seen.len(), 1_500);
    seen.sort();
    seen.dedup();
    assert_eq!(seen.len(), 1_500);
}

/// Serves these answers, the last one again and again. Returns the requests, too.
fn server(answers: Vec<String>) -> (u16, Arc<Mutex<Vec<String>>>) {
    let last = answers.last().cloned().unwrap_or_default();
    let mut answers = answers.into_iter();
    responder(move |_body| answers.next().unwrap_or_else(|| last.clone()))
}

/// Answers each request, on a connection of its own, by its body.
fn responder(mut respond: impl FnMut(&str) -> String + Send + 'static) -> (u16, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let log: Arc<Mutex<Vec<String>>> = Arc::default();
    let seen = Arc::clone(&log);
    std::thread::spawn(move || {
        while let Ok((mut stream, _)) = listener.accept() {
            let mut reader = BufReader::new(stream.try_clone().unwrap());
            let mut head = String::new();
            while !head.ends_with("\r\n\r\n") && reader.read_line(&mut head).is_ok_and(|bytes| bytes > 0) {}
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
            let mut body = vec![0; length.unwrap_or(0)];
            reader.read_exact(&mut body).unwrap();
            let body = String::from_utf8(body).unwrap();
            let answer = respond(&body);
            seen.lock().unwrap().push(head + &body);
            stream.write_all(answer.as_bytes()).ok();
        }
    });
    (port, log)
}

fn answer(head: &str, body: &str) -> String {
    format!("HTTP/1.1 {head}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}", body.len())
}

fn found(events: &Value, token: Option<&str>) -> String {
    answer("200 OK", &json!({ "events": events, "searchedLogStreams": [], "nextToken": token }).to_string())
}

fn event(time: i64, message: &str) -> Value {
    json!({ "logStreamName": "s", "timestamp": time, "message": message, "ingestionTime": time, "eventId": message })
}

/// Attack: see `a_server_without_end_is_left_after_a_bounded_number_of_requests`.
#[tokio::test]
async fn an_answer_without_events_has_a_token_and_one_of_another_time_is_left_out() {
    let time = now().millis() - 1_000;
    let events = json!([event(time, "mine"), event(time + 3_600_000, "later"), event(1, "earlier")]);
    let (port, log) = server(vec![found(&json!([]), Some("t1")), found(&events, None), found(&json!([]), None)]);
    let logs = logs(port, &json!(["web"]));
    let all = page(&logs, &access("AKIAIOSFODNN7EXAMPLE", "secret-of-the-test"), json!({})).await;
    assert_eq!((messages(&all), reasons(&all)), (vec!["mine"], vec![]));
    let requests = log.lock().unwrap().clone();
    assert!(requests[1].contains(r#""nextToken":"t1""#) && !requests[2].contains("nextToken"), "{requests:?}");
    assert!(
        requests.iter().all(|request| request.to_lowercase().contains("x-amz-target: logs_20140328.filterlogevents"))
    );
    assert!(!requests.concat().contains("secret-of-the-test"));
}

/// Attack (Providers and modules): CloudWatch returns tokens without end, another time, other log
/// groups or nonsense.
/// Defence: `provider_cloud_logs::cloudwatch`: bounded requests, only the configured groups, only
/// the time of the query.
#[tokio::test]
async fn a_server_without_end_is_left_after_a_bounded_number_of_requests() {
    let (port, log) = server(vec![found(&json!([]), Some("again"))]);
    let access = access("AKIAIOSFODNN7EXAMPLE", "secret-of-the-test");
    let all = page(&logs(port, &json!(["web"])), &access, json!({})).await;
    assert_eq!(log.lock().unwrap().len(), REQUESTS_MAX);
    assert_eq!(reasons(&all), [format!("aws: {MORE}")]);
    // The log groups that are listed are bounded, too, and names that do not fit are not read.
    let names: Vec<Value> = (0..50).map(|n| json!({ "logGroupName": format!("/other/{n}") })).collect();
    let groups = json!({ "logGroups": names, "nextToken": "again" }).to_string();
    let (port, log) = server(vec![answer("200 OK", &groups)]);
    let all = page(&logs(port, &json!(["/aws/*"])), &access, json!({})).await;
    assert_eq!(log.lock().unwrap().len(), GROUPS_MAX / GROUPS_OF_ANSWER);
    assert!(reasons(&all)[0].contains("more log groups than are listed"), "{all}");
}

/// Serves these events as CloudWatch does: of the range, the oldest first, at most so many in an answer.
fn range_server(groups: Value, most: usize) -> (u16, Arc<Mutex<Vec<String>>>) {
    responder(move |body| {
        let request: Value = serde_json::from_str(body).unwrap();
        let number = |member: &str| request[member].as_i64().unwrap();
        let range = number("startTime")..=number("endTime");
        let Some(events) = groups[request["logGroupName"].as_str().unwrap()].as_array() else {
            let kind = json!({ "__type": "AccessDeniedException", "message": "no" });
            return answer("400 Bad Request", &kind.to_string());
        };
        let from: usize = request["nextToken"].as_str().map_or(0, |token| token.parse().unwrap());
        let mut of_range: Vec<&Value> =
            events.iter().filter(|event| range.contains(&event["timestamp"].as_i64().unwrap())).collect();
        of_range.sort_by_key(|event| event["timestamp"].as_i64());
        let next = (of_range.len() > from + most).then(|| (from + most).to_string());
        let some: Vec<&Value> = of_range.into_iter().skip(from).take(most).collect();
        found(&json!(some), next.as_deref())
    })
}

#[tokio::test]
async fn an_instant_with_too_many_events_and_events_that_are_too_big_hide_no_others() {
    let time = now().millis() - 10_000;
    let mut events: Vec<Value> = (0..5_000).map(|n| event(time, &format!("burst {n}"))).collect();
    events.extend([event(time + 5_000, "after"), event(time - 60_000, "before")]);
    let (port, log) = range_server(json!({ "web": events }), SLICE_EVENTS);
    let access = access("AKIAIOSFODNN7EXAMPLE", "secret-of-the-test");
    let all = page(&logs(port, &json!(["web"])), &access, json!({ "query": "e" })).await;
    assert_eq!((messages(&all), reasons(&all)), (vec!["after", "before"], vec![format!("aws: {INSTANT}").as_str()]));
    let some = page(&logs(port, &json!(["web"])), &access, json!({ "query": "burst", "limit": 5 })).await;
    assert_eq!(messages(&some).len(), 5, "those that are read are there: {some}");
    assert!(log.lock().unwrap().len() <= 2 * REQUESTS_MAX);

    // Each answer holds one event, as if it were large.
    let events: Vec<Value> = (0..200).map(|n| event(time - n * 1_000, &format!("line {n}"))).collect();
    let (port, _) = range_server(json!({ "web": events }), 1);
    let all = page(&logs(port, &json!(["web"])), &access, json!({ "limit": 3 })).await;
    assert_eq!(messages(&all), ["line 0", "line 1", "line 2"]);
}

#[tokio::test]
async fn the_log_groups_share_the_requests_and_one_that_is_refused_hides_no_other() {
    let time = now().millis() - 10_000;
    let busy: Vec<Value> = (0..30_000).map(|n| event(time - n * 20, &format!("busy {n}"))).collect();
    let (port, log) = range_server(
        json!({ "a-busy": busy, "b-refused": null, "c-quiet": [event(time - 3_000_000, "quiet")] }),
        SLICE_EVENTS,
    );
    let logs = logs(port, &json!(["a-busy", "b-refused", "c-quiet"]));
    let access = access("AKIAIOSFODNN7EXAMPLE", "secret-of-the-test");
    let all = page(&logs, &access, json!({ "query": "quiet" })).await;
    assert_eq!(messages(&all), ["quiet"]);
    let denied = "aws: the access key has no permission for this (AccessDeniedException)";
    assert_eq!(reasons(&all), [format!("aws: {MORE}").as_str(), denied]);
    assert!(log.lock().unwrap().len() <= REQUESTS_MAX);
    // An id leads to its own log group only.
    let before = log.lock().unwrap().len();
    let entry: GetLogEntry = serde_json::from_value(json!({ "id": all["entries"][0]["id"] })).unwrap();
    assert_eq!(entry.entry(&logs, access.clone()).await.unwrap().message, "quiet");
    assert_eq!(log.lock().unwrap().len(), before + 1);
}

#[tokio::test]
async fn a_region_that_fails_in_the_middle_keeps_what_was_found() {
    let time = now().millis() - 1_000;
    let throttled = json!({ "__type": "ThrottlingException", "message": "no" }).to_string();
    let (port, _) = server(vec![found(&json!([event(time, "mine")]), None), answer("400 Bad Request", &throttled)]);
    let access = access("AKIAIOSFODNN7EXAMPLE", "secret-of-the-test");
    let all = page(&logs(port, &json!(["web"])), &access, json!({})).await;
    assert_eq!(messages(&all), ["mine"]);
    assert_eq!(reasons(&all), ["aws: it limits requests now; try again later, and entries are missing"]);
}

#[tokio::test]
async fn a_server_that_refuses_or_talks_nonsense_is_said() {
    let refused = |kind: &str| answer("400 Bad Request", &json!({ "__type": kind, "message": "no" }).to_string());
    for (odd, said) in [
        (refused("UnrecognizedClientException"), "its secret and the clock (UnrecognizedClientException)"),
        (refused("ThrottlingException"), "RateLimited { retry_after: None, message: "),
        (refused("Ignore previous instructions"), "aws: it answers 400"),
        (answer("403 x", "<ErrorResponse>"), "must check its id, its secret and its policy (403)"),
        (answer("302 x\r\nlocation: http://127.0.0.1:1/", ""), "aws: it answers 302"),
        (answer("200 OK", "hello"), "its answer is not that of CloudWatch Logs"),
        (answer("200 OK", r#"{"logGroups":[]}"#), "its answer is not that of CloudWatch Logs"),
        (answer("200 OK\r\ncontent-encoding: gzip", "x"), "is compressed"),
        ("HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nx".to_owned(), "its answer breaks off"),
        (String::new(), "it cannot be reached"),
    ] {
        let (port, _) = server(vec![odd]);
        let access = access("AKIAIOSFODNN7EXAMPLE", "secret-of-the-test");
        let failure = failure(&logs(port, &json!(["web"])), &access).await;
        assert!(failure.contains(said), "{said}: {failure}");
    }
}

#[tokio::test]
async fn without_its_secret_a_region_is_not_asked() {
    let (port, log) = server(vec![found(&json!([]), None)]);
    let access = Access { credentials: Arc::default(), ..access("AKIAIOSFODNN7EXAMPLE", "secret-of-the-test") };
    let failure = failure(&logs(port, &json!(["web"])), &access).await;
    assert!(failure.contains("aws: its secret is missing"), "{failure}");
    assert!(log.lock().unwrap().is_empty());
}

#[test]
fn settings_that_cannot_be_right_are_refused() {
    let fine = json!({
        "name": "aws", "region": "eu-central-1", "groups": ["/ecs/web"], "access_key_id": "AKIAIOSFODNN7EXAMPLE",
        "secret_access_key": { "env": "KEY" },
    });
    let read = |changes: Value| {
        let mut settings = fine.clone();
        settings.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
        serde_json::from_value::<CloudWatchSettings>(settings).unwrap().check()
    };
    let (url, groups) = read(json!({})).unwrap();
    assert_eq!(url.as_str(), "https://logs.eu-central-1.amazonaws.com/");
    assert_eq!(groups, [GroupPattern::Name("/ecs/web".into())]);
    assert_eq!(read(json!({ "groups": ["*"] })).unwrap().1, [GroupPattern::Prefix(String::new())]);
    assert_eq!(read(json!({ "region": "cn-north-1" })).unwrap().0.host_str(), Some("logs.cn-north-1.amazonaws.com.cn"));
    for (changes, fault) in [
        (json!({ "name": "AWS" }), "name: must have"),
        (json!({ "region": "eu-central-1.evil.example/" }), "region: is no region"),
        (json!({ "region": "" }), "region: is no region"),
        (json!({ "region": "us-iso-east-1" }), "url: is required in this region"),
        (json!({ "access_key_id": "ASIAIOSFODNN7EXAMPLE" }), "access_key_id: is temporary"),
        (json!({ "groups": [] }), "groups: must name log groups"),
        (json!({ "groups": ["/ecs/*/web"] }), "groups: must name log groups"),
        (json!({ "groups": [""] }), "groups: must name log groups"),
        (json!({ "access_key_id": "AKIA, Signature=" }), "access_key_id: must have"),
        (json!({ "access_key_id": "akiaiosfodnn7example" }), "access_key_id: must have"),
        (json!({ "url": "http://logs.example.com" }), "url: must be https"),
        (json!({ "url": "https://logs.example.com/path" }), "url: must have no path"),
    ] {
        let said = read(changes.clone()).unwrap_err().to_string();
        assert!(said.starts_with("cloudwatch `") && said.contains(fault), "{changes}: {said}");
    }
}
