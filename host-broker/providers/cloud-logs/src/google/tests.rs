//! A server that answers as the API reference of Cloud Logging says (`entries.list`, `projects.logs.list`), and the token
//! server. No package registry has an emulator of it.

mod accounts;
mod hostile;

use super::*;
use crate::get_log_entry::GetLogEntry;
use crate::list_services::ListServices;
use crate::query_logs::QueryLogs;
use crate::tests::Own;
use crate::{Logs, Settings};
use chrono::{DateTime, SecondsFormat};
use provider::contract::Failure;
use regex::Regex;
use serde_json::{Value, json};
use shared::Timestamp;
use shared::limits::RESULT_BYTES_MAX;
use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::Mutex;
use std::time::Duration;

const TOKEN: &str = "ya29.c.token-CANARY-of-the-test";
const ASSERTION: &str = "eyJhbGciOiJSUzI1NiJ9.CANARY.signature";
const PROJECT: &str = "acme-prod";

fn now() -> Timestamp {
    "2026-02-14T12:00:00Z".parse().unwrap()
}

/// A request: its first line, its head and its body.
struct Request {
    line: String,
    head: String,
    body: String,
}

impl Request {
    fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap()
    }
}

type Log = Arc<Mutex<Vec<Request>>>;

/// Answers each request, on a connection of its own.
fn responder(respond: impl Fn(&Request) -> String + Send + Sync + 'static) -> (u16, Log) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let (log, respond) = (Log::default(), Arc::new(respond));
    let seen = Arc::clone(&log);
    std::thread::spawn(move || {
        while let Ok((stream, _)) = listener.accept() {
            let (respond, seen) = (Arc::clone(&respond), Arc::clone(&seen));
            std::thread::spawn(move || serve(stream, respond.as_ref(), &seen));
        }
    });
    (port, log)
}

fn serve(mut stream: TcpStream, respond: &(impl Fn(&Request) -> String + ?Sized), log: &Log) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") && reader.read_line(&mut head).is_ok_and(|bytes| bytes > 0) {}
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
    let mut body = vec![0; length.unwrap_or(0)];
    reader.read_exact(&mut body).unwrap();
    let line = head.lines().next().unwrap_or_default().trim_end_matches(" HTTP/1.1").to_owned();
    let request = Request { line, head, body: String::from_utf8(body).unwrap() };
    let answer = respond(&request);
    log.lock().unwrap().push(request);
    if answer.is_empty() {
        // The other side ends the connection.
        reader.read_to_end(&mut Vec::new()).ok();
    }
    stream.write_all(answer.as_bytes()).ok();
}

fn answer(head: &str, body: &str) -> String {
    format!("HTTP/1.1 {head}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}", body.len())
}

fn ok(body: &Value) -> String {
    answer("200 OK", &body.to_string())
}

fn issued() -> String {
    ok(&json!({ "access_token": TOKEN, "expires_in": 3599, "token_type": "Bearer" }))
}

/// Issues a token, and gives these answers to requests with it.
fn with_token(respond: impl Fn(&Request) -> String + Send + Sync + 'static) -> (u16, Log) {
    responder(move |request| if request.line == "POST /token" { issued() } else { respond(request) })
}

/// Serves these entries as Google does.
fn google(entries: Vec<Value>) -> (u16, Log) {
    with_token(move |request| list(&entries, request))
}

fn list(entries: &[Value], request: &Request) -> String {
    assert!(request.head.contains(&format!("authorization: Bearer {TOKEN}\r\n")), "{}", request.head);
    if let Some(target) = request.line.strip_prefix("GET /v2/projects/") {
        let (project, query) = target.split_once("/logs?").unwrap();
        assert_eq!(query, "pageSize=1000");
        let prefix = format!("projects/{project}/logs/");
        let logs =
            entries.iter().map(|entry| entry["logName"].as_str().unwrap()).filter(|log| log.starts_with(&prefix));
        return ok(&json!({ "logNames": logs.collect::<BTreeSet<_>>() }));
    }
    assert_eq!(request.line, "POST /v2/entries:list");
    let request = request.json();
    assert_eq!(request["orderBy"], "timestamp desc");
    let (project, filter) = (request["resourceNames"][0].as_str().unwrap(), request["filter"].as_str().unwrap());
    let is_wanted = |entry: &&Value| {
        let is_own = entry["logName"].as_str().unwrap().starts_with(&format!("{project}/logs/"));
        is_own && filter.split(" AND ").all(|term| admits(term, entry))
    };
    let mut wanted: Vec<&Value> = entries.iter().filter(is_wanted).collect();
    let place = |entry: &Value| (entry["timestamp"].to_string(), entry["insertId"].to_string());
    wanted.sort_by_key(|entry| std::cmp::Reverse(place(entry)));
    let from: usize = request["pageToken"].as_str().map_or(0, |token| token.parse().unwrap());
    let size = usize::try_from(request["pageSize"].as_u64().unwrap()).unwrap();
    let mut page = json!({});
    if wanted.len() > from + size {
        page["nextPageToken"] = json!((from + size).to_string());
    }
    if wanted.len() > from {
        page["entries"] = wanted.into_iter().skip(from).take(size).cloned().collect();
    }
    ok(&page)
}

/// Judges one term of a filter.
fn admits(term: &str, entry: &Value) -> bool {
    const SEVERITIES: [&str; 9] =
        ["DEFAULT", "DEBUG", "INFO", "NOTICE", "WARNING", "ERROR", "CRITICAL", "ALERT", "EMERGENCY"];
    let quoted = |operator: &str| {
        let value = term.strip_prefix(operator)?.strip_prefix('"')?.strip_suffix('"')?;
        assert!(!value.contains(['"', '\\']), "{term}");
        Some(value)
    };
    let (time, log) = (entry["timestamp"].as_str().unwrap(), entry["logName"].as_str().unwrap());
    if let Some(first) = quoted("timestamp>=") {
        time >= first
    } else if let Some(last) = quoted("timestamp<=") {
        time <= last
    } else if let Some(name) = quoted("logName=") {
        // Google compares texts without regard to case.
        log.eq_ignore_ascii_case(name)
    } else if let Some(pattern) = quoted("logName=~") {
        Regex::new(pattern).unwrap().is_match(log)
    } else if let Some(least) = term.strip_prefix("(severity>=") {
        let rank = |name: &str| SEVERITIES.iter().position(|known| *known == name).unwrap();
        let own = rank(entry["severity"].as_str().unwrap_or("DEFAULT"));
        own == 0 || own >= rank(least.strip_suffix(" OR severity=DEFAULT)").unwrap())
    } else {
        mentions(entry, quoted("").unwrap_or_else(|| panic!("{term} is no term")))
    }
}

/// Checks whether one of the texts of an entry contains a word.
fn mentions(value: &Value, word: &str) -> bool {
    match value {
        Value::String(text) => text.to_lowercase().contains(word),
        Value::Array(items) => items.iter().any(|item| mentions(item, word)),
        Value::Object(members) => members.values().any(|item| mentions(item, word)),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

/// An entry of a log, so many nanoseconds ago, with these members.
fn entry(log: &str, ago: i64, members: &Value) -> Value {
    let time = DateTime::from_timestamp_nanos(now().millis() * NANOS - ago);
    let mut entry = json!({
        "logName": format!("projects/{log}"), "timestamp": time.to_rfc3339_opts(SecondsFormat::Nanos, true),
        "receiveTimestamp": "2026-02-14T12:00:01.000000000Z", "insertId": format!("id-{ago}"),
        "resource": { "type": "cloud_run_revision", "labels": { "service_name": "web", "project_id": PROJECT } },
    });
    entry.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
    entry
}

const SECOND: i64 = 1_000_000_000;

fn logs(port: u16, projects: &Value) -> Logs {
    limited_logs(port, projects, 6000)
}

/// Logs of these projects, with so many requests for entries a minute.
fn limited_logs(port: u16, projects: &Value, requests: u32) -> Logs {
    let settings = format!(
        "backends = [{{ kind = 'google', name = 'gcp', projects = {projects}, client_email = \
         'broker@acme-prod.iam.gserviceaccount.com', private_key = {{ env = 'KEY' }}, url = 'http://127.0.0.1:{port}', \
         token_url = 'http://127.0.0.1:{port}/token', requests_per_minute = {requests} }}]"
    );
    Logs::new(toml::from_str::<Settings>(&settings).unwrap(), &Own::new().parts()).unwrap()
}

fn account(port: u16) -> Arc<Account> {
    let url = Url::parse(&format!("http://127.0.0.1:{port}/token")).unwrap();
    Arc::new(Account::new("broker@acme-prod.iam.gserviceaccount.com".to_owned(), url))
}

fn access(port: u16) -> Access {
    of(&account(port), Duration::from_secs(60))
}

fn of(account: &Arc<Account>, timeout: Duration) -> Access {
    let credentials = BTreeMap::from([("gcp".to_owned(), SignIn::Account(Pass::signed(account, ASSERTION)))]);
    Access { deadline: Instant::now() + timeout, credentials: Arc::new(credentials) }
}

async fn page(logs: &Logs, access: &Access, params: Value) -> Value {
    let query: QueryLogs = serde_json::from_value(params).unwrap();
    serde_json::to_value(query.page(logs, now(), access.clone()).await.unwrap()).unwrap()
}

async fn failed(logs: &Logs, access: &Access, params: Value) -> Failure {
    let query: QueryLogs = serde_json::from_value(params).unwrap();
    query.page(logs, now(), access.clone()).await.unwrap_err()
}

async fn failure(logs: &Logs, access: &Access) -> String {
    format!("{:?}", failed(logs, access, json!({})).await)
}

async fn find(logs: &Logs, access: &Access, id: &Value) -> Result<Value, String> {
    let get: GetLogEntry = serde_json::from_value(json!({ "id": id })).unwrap();
    let found = get.entry(logs, access.clone()).await;
    found.map(|entry| serde_json::to_value(entry).unwrap()).map_err(|failure| format!("{failure:?}"))
}

fn messages(page: &Value) -> Vec<&str> {
    page["entries"].as_array().unwrap().iter().map(|entry| entry["message"].as_str().unwrap()).collect()
}

fn reasons(page: &Value) -> Vec<&str> {
    let skipped = page["skipped"].as_array().map_or(&[][..], Vec::as_slice);
    skipped.iter().map(|skipped| skipped["reason"].as_str().unwrap()).collect()
}

fn of_all_payloads() -> Vec<Value> {
    let run = |stream: &str| format!("{PROJECT}/logs/run.googleapis.com%2F{stream}");
    vec![
        entry(
            &run("stdout"),
            SECOND,
            &json!({
                "severity": "ERROR",
                "jsonPayload": { "message": "Cannot [open] \"it\"", "user": { "name": "ada" }, "project": "forged" },
            }),
        ),
        entry(&run("stderr"), 2 * SECOND, &json!({ "textPayload": "level=warn msg=\"pairs too\" code=4711\n" })),
        entry(
            &run("requests"),
            3 * SECOND,
            &json!({
                "severity": "INFO",
                "httpRequest": { "requestMethod": "GET", "requestUrl": "https://acme.example/a", "status": 503 },
            }),
        ),
        entry(
            &format!("{PROJECT}/logs/cloudaudit.googleapis.com%2Factivity"),
            4 * SECOND,
            &json!({
                "severity": "NOTICE",
                "protoPayload": {
                    "@type": "type.googleapis.com/google.cloud.audit.AuditLog", "methodName": "SetIamPolicy",
                    "authenticationInfo": { "principalEmail": "eve@acme.example" }, "note": "x".repeat(3_000),
                },
            }),
        ),
        entry(
            &format!("{PROJECT}/logs/syslog"),
            5 * SECOND,
            &json!({ "severity": "EMERGENCY", "textPayload": "on fire" }),
        ),
        entry(&format!("{PROJECT}/logs/SysLog"), 6 * SECOND, &json!({ "textPayload": "of a log in other letters" })),
        entry(&format!("{PROJECT}/logs/syslog"), 7200 * SECOND, &json!({ "textPayload": "too old" })),
        entry("acme-secret/logs/syslog", SECOND, &json!({ "textPayload": "of a project that is not configured" })),
    ]
}

#[tokio::test]
async fn entries_of_all_payloads_are_found_by_service_text_and_level_and_by_their_id() {
    let (port, log) = google(of_all_payloads());
    let (logs, access) = (logs(port, &json!([PROJECT])), access(port));
    let all = page(&logs, &access, json!({})).await;
    let request = "GET https://acme.example/a 503";
    let other = "of a log in other letters";
    let newest = ["Cannot [open] \"it\"", "pairs too", request, "SetIamPolicy", "on fire", other];
    assert_eq!((messages(&all), reasons(&all)), (newest.to_vec(), vec![]));
    let levels: Vec<&Value> = all["entries"].as_array().unwrap().iter().map(|entry| &entry["level"]).collect();
    assert_eq!(levels[..5], ["error", "warning", "info", "notice", "critical"]);
    assert_eq!(levels[5], &Value::Null);
    let first = &all["entries"][0];
    assert_eq!(first["service"], "run.googleapis.com_stdout");
    let fields = &first["fields"];
    assert_eq!((&fields["service_name"], &fields["user"]), (&json!("web"), &json!(r#"{"name":"ada"}"#)));
    assert_eq!(fields["project"], PROJECT, "a writer cannot pretend another project");
    for (params, expected) in [
        (json!({ "service": "run.googleapis.com_stderr" }), vec!["pairs too"]),
        (json!({ "service": "syslog" }), vec!["on fire"]),
        (json!({ "query": "CANNOT [open] \"IT\"" }), vec!["Cannot [open] \"it\""]),
        (json!({ "query": "eve@acme" }), vec!["SetIamPolicy"]),
        (json!({ "query": "4711" }), vec!["pairs too"]),
        (json!({ "query": "503" }), vec![request]),
        (json!({ "query": "\" OR severity>=DEFAULT OR \"" }), vec![]),
        (json!({ "level": "warning" }), vec!["Cannot [open] \"it\"", "pairs too", "on fire"]),
        (json!({ "since": "4s", "until": "2s" }), vec![request, "SetIamPolicy"]),
    ] {
        assert_eq!(messages(&page(&logs, &access, params.clone()).await), expected, "{params}");
    }
    for (service, hint) in [
        ("run.googleapis.com", "run.googleapis.com_stderr`, `run.googleapis.com_stdout`, `run.googleapis.com_requests"),
        ("sys1og", "SysLog`, `syslog"),
    ] {
        let message = format!("there is no service `{service}`; did you mean `{hint}`?");
        assert_eq!(failed(&logs, &access, json!({ "service": service })).await, Failure::Refused { message });
    }
    for entry in all["entries"].as_array().unwrap() {
        assert_eq!(find(&logs, &access, &entry["id"]).await.unwrap()["message"], entry["message"]);
    }
    let audit = find(&logs, &access, &all["entries"][3]["id"]).await.unwrap();
    assert_eq!((&all["entries"][3]["cut"], &audit["fields"]["note"]), (&json!(true), &json!("x".repeat(3_000))));
    let list: ListServices = serde_json::from_value(json!({})).unwrap();
    let services = list.list(&logs, access.clone()).await.unwrap().services;
    let services: Vec<(&str, &str)> = services.iter().map(|own| (own.service.as_str(), own.kind.as_str())).collect();
    let names =
        ["SysLog", "cloudaudit.googleapis.com_activity", "run.googleapis.com_requests", "run.googleapis.com_stderr"];
    let names = names.into_iter().chain(["run.googleapis.com_stdout", "syslog"]);
    assert_eq!(services, names.map(|name| (name, "google")).collect::<Vec<_>>());
    let requests = log.lock().unwrap();
    assert_eq!(requests.iter().filter(|request| request.line == "POST /token").count(), 1, "the token is kept");
}

#[tokio::test]
async fn an_id_leads_to_one_instant_of_its_own_project_only() {
    let line = |log: &str, ago: i64, id: &str| entry(log, ago, &json!({ "textPayload": id, "insertId": id }));
    let entries = ["acme-one", "acme-two"].map(|project| {
        let log = format!("{project}/logs/app");
        // The first two have the same instant, and the third only the same millisecond.
        [line(&log, 500, "a"), line(&log, 500, "b"), line(&log, 501, "c")]
    });
    let (port, log) = google(entries.concat());
    let (logs, access) = (logs(port, &json!(["acme-one", "acme-two"])), access(port));
    let all = page(&logs, &access, json!({})).await;
    assert_eq!(messages(&all).len(), 6);
    for entry in all["entries"].as_array().unwrap() {
        let before = log.lock().unwrap().len();
        let found = find(&logs, &access, &entry["id"]).await.unwrap();
        assert_eq!((&found["message"], &found["id"]), (&entry["message"], &entry["id"]));
        let requests = log.lock().unwrap();
        assert_eq!(requests.len(), before + 1);
        assert_eq!(
            requests[before].json()["resourceNames"][0],
            json!(format!("projects/{}", entry["fields"]["project"].as_str().unwrap()))
        );
    }
    let before = log.lock().unwrap().len();
    let id = all["entries"][0]["id"].as_str().unwrap();
    let parts: Vec<&str> = id.split('-').collect();
    let foreign = format!("{}-{}-1-{}", parts[0], parts[1], parts[3]);
    assert!(find(&logs, &access, &json!(foreign)).await.unwrap_err().contains("there is no such entry"));
    assert_eq!(log.lock().unwrap().len(), before, "an id of another backend costs no request");
    let other = format!("{}-{}-{}-{}", parts[0], parts[1], parts[2], "0".repeat(16));
    assert!(find(&logs, &access, &json!(other)).await.unwrap_err().contains("there is no such entry"));
}

#[tokio::test]
async fn pages_over_many_entries_and_equal_instants_lose_none_and_repeat_none() {
    let line = |n: i64| {
        let log = format!("{}/logs/app{}", ["acme-one", "acme-two"][usize::from(n % 3 == 0)], n % 2);
        // Seven have the same instant, and more the same millisecond.
        entry(
            &log,
            SECOND + n / 7 * 300_000,
            &json!({ "textPayload": format!("line {n}"), "insertId": format!("id-{n}") }),
        )
    };
    let (port, log) = google((0..1_500).map(line).collect());
    let (logs, access) = (logs(port, &json!(["acme-one", "acme-two"])), access(port));
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
    // A page needs two answers of each project.
    assert!(log.lock().unwrap().len() < 90, "{}", log.lock().unwrap().len());
}
