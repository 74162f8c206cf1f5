//! A server that answers as the documentation of Loki says (HTTP API, `query_range`). No real one can be had from a
//! package registry.

use super::*;
use crate::query_logs::QueryLogs;
use crate::tests::Own;
use crate::{Logs, Settings};
use serde_json::{Value, json};
use shared::Timestamp;
use shared::limits::RESULT_BYTES_MAX;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::Mutex;
use tokio::time::Instant;

/// The instant of the tests, in nanoseconds.
fn now() -> i64 {
    let now: Timestamp = "2026-02-14T12:00:00Z".parse().unwrap();
    now.millis() * NANOS
}

/// An entry: how long ago in nanoseconds, the service, the line.
type Line = (i64, &'static str, String);

/// The requests, as path and query.
type Log = Arc<Mutex<Vec<String>>>;

/// Serves these entries, or the answer of `odd` to each request.
fn server(lines: Vec<Line>, odd: Option<Vec<u8>>) -> (String, Log) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/proxy/", listener.local_addr().unwrap());
    let log = Log::default();
    let seen = Arc::clone(&log);
    std::thread::spawn(move || {
        while let Ok((stream, _)) = listener.accept() {
            serve(stream, &lines, odd.as_deref(), &seen);
        }
    });
    (url, log)
}

fn serve(mut stream: TcpStream, lines: &[Line], odd: Option<&[u8]>, log: &Log) {
    let mut head = String::new();
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    while !head.ends_with("\r\n\r\n") && reader.read_line(&mut head).is_ok_and(|bytes| bytes > 0) {}
    let target = head.split(' ').nth(1).unwrap().to_owned();
    log.lock().unwrap().push(head);
    if let Some(odd) = odd {
        stream.write_all(odd).ok();
        return;
    }
    let url = Url::parse(&format!("http://localhost{target}")).unwrap();
    let get = |name: &str| url.query_pairs().find(|(own, _)| own == name).map(|(_, value)| value.into_owned());
    let answer = if url.path() == "/proxy/loki/api/v1/query_range" {
        assert_eq!(get("direction").as_deref(), Some("backward"));
        let number = |name: &str| get(name).unwrap().parse::<i64>().unwrap();
        result(lines, &get("query").unwrap(), number("start")..number("end"), usize::try_from(number("limit")).unwrap())
    } else {
        assert_eq!(url.path(), "/proxy/loki/api/v1/label/service_name/values");
        let mut names: Vec<&str> = lines.iter().map(|(_, service, _)| *service).collect();
        names.sort_unstable();
        names.dedup();
        json!({ "status": "success", "data": names })
    };
    let body = answer.to_string();
    write!(stream, "HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len()).ok();
}

/// The newest entries, each service as a stream of its own.
fn result(lines: &[Line], query: &str, range: std::ops::Range<i64>, limit: usize) -> Value {
    let (selector, filter) =
        query.split_once(" |~ ").map_or((query, None), |(selector, filter)| (selector, Some(filter)));
    let pattern = filter.map(|filter| regex::Regex::new(&serde_json::from_str::<String>(filter).unwrap()).unwrap());
    // The last matcher is that of the service.
    let matcher = selector.trim_end_matches('}').rsplit("service_name=").next().unwrap();
    let pattern_of = |matcher: &str| serde_json::from_str::<String>(matcher).unwrap();
    let services = match matcher.strip_prefix('~') {
        Some(matcher) => format!("^(?:{})$", pattern_of(matcher)),
        None => format!("^(?:{})$", regex::escape(&pattern_of(matcher))),
    };
    let services = regex::Regex::new(&services).unwrap();
    let fits = |service: &str| services.is_match(service);
    let mut found: Vec<(i64, &str, &str)> = lines
        .iter()
        .map(|(ago, service, line)| (now() - ago, *service, line.as_str()))
        .filter(|(at, service, line)| {
            range.contains(at) && fits(service) && pattern.as_ref().is_none_or(|pattern| pattern.is_match(line))
        })
        .collect();
    found.sort_by_key(|(at, ..)| std::cmp::Reverse(*at));
    found.truncate(limit);
    let mut streams: BTreeMap<&str, Vec<Value>> = BTreeMap::new();
    for (at, service, line) in found {
        streams.entry(service).or_default().push(json!([at.to_string(), line]));
    }
    let streams: Vec<Value> = streams
        .into_iter()
        .map(|(service, values)| json!({ "stream": { "service_name": service, "env": "prod", "level": "warn" }, "values": values }))
        .collect();
    json!({ "status": "success", "data": { "resultType": "streams", "result": streams, "stats": {} } })
}

fn logs(url: &str, lines: &str) -> Logs {
    let settings = format!("backends = [{{ kind = 'loki', name = 'prod', url = '{url}', {lines} }}]");
    let settings: Settings = toml::from_str(&settings).unwrap();
    Logs::new(settings, &Own::new().parts()).unwrap()
}

fn access() -> Access {
    let credential = SignIn::Header(HeaderValue::from_static("Bearer token-of-the-test"));
    let credentials = BTreeMap::from([("prod".to_owned(), credential)]);
    Access { deadline: Instant::now() + Duration::from_secs(60), credentials: Arc::new(credentials) }
}

async fn page(logs: &Logs, params: Value) -> Value {
    let query: QueryLogs = serde_json::from_value(params).unwrap();
    let now = "2026-02-14T12:00:00Z".parse().unwrap();
    serde_json::to_value(query.page(logs, now, access()).await.unwrap()).unwrap()
}

fn messages(page: &Value) -> Vec<&str> {
    page["entries"].as_array().unwrap().iter().map(|entry| entry["message"].as_str().unwrap()).collect()
}

/// Attack (Providers and modules): A service name or a text of a query becomes LogQL, or a Loki
/// server redirects, floods or talks nonsense.
/// Defence: `provider_cloud_logs::loki`: values in quotes, one origin, bounded answers.
#[tokio::test]
async fn entries_are_found_by_service_text_and_level_and_by_their_id() {
    let minute = 60_000 * NANOS;
    let (url, log) = server(
        vec![
            (minute, "api", r#"{"level":"error","msg":"Cannot [open] it","user":"ada"}"#.to_owned()),
            (2 * minute, "api", r#"{"level":"info","msg":"started"}"#.to_owned()),
            (3 * minute, "web", "plain text".to_owned()),
            (4 * minute, "web", "level=error msg=\"pairs too\" user=ada".to_owned()),
            (5 * minute, "a/b", "listed with another name".to_owned()),
            (3 * 60 * minute, "web", "too old".to_owned()),
        ],
        None,
    );
    let logs = logs(&url, "labels = { env = 'prod' }, tenant = 'team-a'");
    let all = page(&logs, json!({})).await;
    assert_eq!(messages(&all), ["Cannot [open] it", "started", "plain text", "pairs too", "listed with another name"]);
    assert_eq!((&all["entries"][0]["level"], &all["entries"][2]["level"]), (&json!("error"), &json!("warning")));
    assert_eq!(all["entries"][0]["fields"]["user"], json!("ada"));
    assert_eq!(messages(&page(&logs, json!({ "service": "api" })).await), ["Cannot [open] it", "started"]);
    assert_eq!(messages(&page(&logs, json!({ "query": "CANNOT [open]" })).await), ["Cannot [open] it"]);
    assert_eq!(messages(&page(&logs, json!({ "query": "o\" } | x {" })).await), [""; 0]);
    let unlisted = page(&logs, json!({ "service": "w_b" })).await;
    let note = "no list has this service, so there may be none; did you mean `a_b`, `web`?";
    assert_eq!((messages(&unlisted).len(), &unlisted["skipped"][0]["reason"]), (0, &json!(note)));
    assert_eq!(messages(&page(&logs, json!({ "service": "a_b" })).await), ["listed with another name"]);
    assert_eq!(messages(&page(&logs, json!({ "level": "error" })).await), ["Cannot [open] it", "pairs too"]);
    let one = serde_json::from_value::<crate::get_log_entry::GetLogEntry>(json!({ "id": all["entries"][1]["id"] }))
        .unwrap()
        .entry(&logs, access())
        .await
        .unwrap();
    assert_eq!(one.message, "started");
    let services = serde_json::from_value::<crate::list_services::ListServices>(json!({}))
        .unwrap()
        .list(&logs, access())
        .await
        .unwrap();
    assert_eq!(
        services.services.iter().map(|source| source.service.as_str()).collect::<Vec<_>>(),
        ["a_b", "api", "web"]
    );
    let requests = log.lock().unwrap().concat().to_lowercase();
    assert!(requests.contains("x-scope-orgid: team-a") && requests.contains("authorization: bearer token-of-the-test"));
    let first = log.lock().unwrap()[0].clone();
    let url = Url::parse(&format!("http://localhost{}", first.split(' ').nth(1).unwrap())).unwrap();
    let query = url.query_pairs().find(|(name, _)| name == "query").unwrap().1.into_owned();
    assert_eq!(query, r#"{env="prod",service_name=~".+"}"#);
}

fn line(n: i64) -> String {
    if (1_000..1_020).contains(&n) { format!("line {n} {}", "x".repeat(250_000)) } else { format!("line {n}") }
}

#[tokio::test]
async fn pages_over_many_entries_and_equal_instants_lose_none_and_repeat_none() {
    let lines: Vec<Line> =
        (0..2_500).map(|n| (1 + n / 3 * 1_000, if n % 2 == 0 { "a" } else { "b" }, line(n))).collect();
    let (url, _) = server(lines, None);
    let logs = logs(&url, "format = 'raw'");
    let (mut seen, mut cursor) = (Vec::new(), Value::Null);
    loop {
        let found = page(&logs, json!({ "limit": 100, "cursor": cursor })).await;
        seen.extend(messages(&found).into_iter().map(str::to_owned));
        cursor = found["cursor"].clone();
        if cursor.is_null() {
            break;
        }
    }
    let mut all: Vec<String> = (0..2_500).map(|n| format!("line {n}")).collect();
    let mut seen: Vec<String> = seen.iter().map(|message| message.split(" x").next().unwrap().to_owned()).collect();
    seen.sort();
    all.sort();
    assert_eq!(seen, all);
}

/// Attack: see `entries_are_found_by_service_text_and_level_and_by_their_id`.
#[tokio::test]
async fn a_server_that_refuses_or_talks_nonsense_is_said() {
    let answer = |head: &str, body: &str| format!("HTTP/1.1 {head}\r\ncontent-length: {}\r\n\r\n{body}", body.len());
    let large = "x".repeat(RESULT_BYTES_MAX + 1);
    let never = r#"{"data":{"resultType":"streams","result":[{"stream":{},"values":[VALUES]}]}}"#;
    let never = never.replace("VALUES", &vec![r#"["9223372036854775807","x"]"#; BATCH].join(","));
    let (url, log) = server(Vec::new(), Some(answer("200 OK", &never).into_bytes()));
    assert_eq!(messages(&page(&logs(&url, ""), json!({})).await), [""; 0]);
    assert_eq!(log.lock().unwrap().len(), 1, "a server that returns another time is left");
    for (odd, said) in [
        (answer("401 x", "no"), "prod: it refuses the credential (401)"),
        (answer("302 x\r\nlocation: http://127.0.0.1:1/", ""), "prod: it answers 302"),
        (answer("200 OK", "hello"), "its answer is not that of Loki"),
        (answer("200 OK", r#"{"data":{"resultType":"matrix","result":[]}}"#), "its answer is not that of Loki"),
        (answer("200 OK\r\ncontent-encoding: gzip", "x"), "is compressed"),
        (answer("200 OK", &never.replacen("[[", "[[\"1\",\"x\"],[", 1)), "its answer is not that of Loki"),
        ("HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nx".to_owned(), "its answer breaks off"),
        (String::new(), "it cannot be reached"),
    ] {
        let (url, _) = server(Vec::new(), Some(odd.into_bytes()));
        let query: QueryLogs = serde_json::from_value(json!({})).unwrap();
        let now = "2026-02-14T12:00:00Z".parse().unwrap();
        let failure = query.page(&logs(&url, ""), now, access()).await.unwrap_err();
        let failure = format!("{failure:?}");
        assert!(failure.contains(said), "{said}: {failure}");
    }
    // Each time it asks for fewer entries, and then says that there are some which it cannot read.
    let (url, log) = server(Vec::new(), Some(answer("200 OK", &large).into_bytes()));
    let found = page(&logs(&url, ""), json!({})).await;
    assert_eq!((messages(&found), log.lock().unwrap().len()), (vec![""; 0], 4));
    assert!(found["skipped"][0]["reason"].as_str().unwrap().contains("too big to be read"), "{found}");
}

#[tokio::test]
async fn without_its_secret_a_server_is_not_asked() {
    let (url, log) = server(Vec::new(), None);
    let logs = logs(&url, "password = { env = 'LOKI_TOKEN' }");
    let query: QueryLogs = serde_json::from_value(json!({})).unwrap();
    let access = Access { credentials: Arc::default(), ..access() };
    let now = "2026-02-14T12:00:00Z".parse().unwrap();
    let failure = query.page(&logs, now, access).await.unwrap_err();
    let failure = format!("{failure:?}");
    assert!(failure.contains("prod: its secret is missing"), "{failure}");
    assert!(log.lock().unwrap().is_empty());
}

/// Attack (Providers and modules): A Loki server is silent.
/// Defence: It gets two thirds of the time of a call, and the other backends answer.
#[tokio::test]
async fn a_silent_server_hides_no_other_backend() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("a.log"), "2026-02-14T11:00:00Z one\n").unwrap();
    let settings = format!(
        "backends = [{{ kind = 'loki', name = 'prod', url = 'http://{}' }}, {{ kind = 'files', paths = ['{}/*.log'] }}]",
        silent.local_addr().unwrap(),
        directory.path().display()
    );
    let logs = Logs::new(toml::from_str(&settings).unwrap(), &Own::new().parts()).unwrap();
    let query: QueryLogs = serde_json::from_value(json!({})).unwrap();
    let access = Access { deadline: Instant::now() + Duration::from_secs(6), ..access() };
    let found = query.page(&logs, "2026-02-14T12:00:00Z".parse().unwrap(), access).await.unwrap();
    let found = serde_json::to_value(found).unwrap();
    assert_eq!(messages(&found), ["one"]);
    assert!(found["skipped"][0]["reason"].as_str().unwrap().contains("does not answer in time"), "{found}");
}

/// Attack (Providers and modules): A log line pretends the labels of another service.
/// Defence: `provider_cloud_logs::loki::decode`: the labels of the stream win.
#[test]
fn a_line_with_a_bare_word_is_text() {
    for (line, message) in [
        ("user=bob msg=\"x y\"", "x y"),
        ("user=bob deleted it msg=ok", "user=bob deleted it msg=ok"),
        ("level=warn end", "level=warn end"),
    ] {
        let body = json!({ "data": { "resultType": "streams", "result": [{ "stream": { "user": "real" }, "values": [["1", line]] }] } });
        let batch =
            Streams::read(body.to_string().as_bytes(), 1).unwrap().records("prod", "service_name", Format::Auto);
        let parsed = &batch.records[0].parsed;
        assert_eq!((parsed.message.as_str(), parsed.fields["user"].as_str()), (message, "real"), "{line}");
    }
}
