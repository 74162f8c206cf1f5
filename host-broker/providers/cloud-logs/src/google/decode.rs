//! Answers of Google Cloud Logging.
//!
//! Source: Cloud Logging API reference, `entries.list`, `LogEntry`, `projects.logs.list` and `Status`.

use super::{NAME_MAX, NANOS, PAGE_MAX};
use crate::entry::{Parsed, Record, bounded_labels};
use crate::format::{Format, undated};
use crate::position::{Position, StreamKey, check};
use crate::severity::Severity;
use crate::time::{Frame, Order, Zone};
use chrono::DateTime;
use provider::remote::AtMost;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// The zone of times in texts; those of entries are in UTC.
const ZONE: Zone = Zone::Named(chrono_tz::Tz::UTC);
/// The longest entry that is read. Google takes no entry of more than 256 KiB.
const ENTRY_BYTES_MAX: usize = 512 * 1024;
/// The longest token of a next answer.
const TOKEN_MAX: usize = 8 * 1024;

/// Entries of an answer.
#[derive(Debug, Default)]
pub(super) struct Page {
    pub(super) records: Vec<Record>,
    /// The oldest instant, in nanoseconds since 1970.
    pub(super) oldest: Option<i64>,
    /// Whether there are entries that cannot be read, or that are not of the project.
    pub(super) has_odd: bool,
    /// The token of the next answer.
    pub(super) next: Option<String>,
}

/// An answer to `entries.list`. Without entries and without a next answer it is empty.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Answer<'a> {
    #[serde(borrow, default)]
    entries: AtMost<&'a RawValue, PAGE_MAX>,
    #[serde(default)]
    next_page_token: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct LogEntry {
    log_name: String,
    #[serde(default)]
    resource: Resource,
    #[serde(default)]
    timestamp: Option<String>,
    #[serde(default)]
    receive_timestamp: Option<String>,
    #[serde(default)]
    severity: String,
    #[serde(default)]
    labels: BTreeMap<String, String>,
    #[serde(default)]
    http_request: Map<String, Value>,
    #[serde(default)]
    trace: Option<String>,
    #[serde(default)]
    text_payload: Option<String>,
    #[serde(default)]
    json_payload: Option<Map<String, Value>>,
    #[serde(default)]
    proto_payload: Option<Map<String, Value>>,
}

#[derive(Default, Deserialize)]
struct Resource {
    #[serde(default, rename = "type")]
    kind: String,
    #[serde(default)]
    labels: BTreeMap<String, String>,
}

/// Reads an answer with entries of a project; `None` if it is none.
pub(super) fn page(body: &[u8], server: &str, project: &str, format: Format) -> Option<Page> {
    let Answer { entries, next_page_token } = serde_json::from_slice(body).ok()?;
    if next_page_token.len() > TOKEN_MAX {
        return None;
    }
    let mut page = Page { next: next(next_page_token), ..Page::default() };
    for entry in entries.0 {
        match record(entry, server, project, format) {
            Some((nanos, record)) => {
                page.oldest = Some(page.oldest.map_or(nanos, |oldest| oldest.min(nanos)));
                page.records.push(record);
            }
            None => page.has_odd = true,
        }
    }
    Some(page)
}

/// Reads an entry. Returns its time in nanoseconds, too. `None` if it cannot be read, or is not of the project.
fn record(entry: &RawValue, server: &str, project: &str, format: Format) -> Option<(i64, Record)> {
    let entry = entry.get();
    let entry: Value = if entry.len() <= ENTRY_BYTES_MAX { serde_json::from_str(entry).ok()? } else { return None };
    // Google gives each entry an id.
    let whole = || entry.to_string();
    let id = entry.get("insertId").and_then(Value::as_str).filter(|id| !id.is_empty());
    let check = id.map_or_else(|| check(whole().as_bytes()), |id| check(id.as_bytes()));
    let entry = LogEntry::deserialize(entry).ok()?;
    // SECURITY: only entries of projects that the operator has configured are shown.
    let service = service_of(&entry.log_name, project)?;
    let nanos = nanos_of(entry.timestamp.as_deref().or(entry.receive_timestamp.as_deref())?)?;
    let position = Position {
        time: nanos.div_euclid(NANOS),
        stream: StreamKey::of(format!("google {server} {}", entry.log_name).as_bytes()),
        born: 0,
        place: project_check(server, project) << 32 | u64::try_from(nanos.rem_euclid(NANOS)).unwrap_or_default(),
        check,
    };
    let parsed = entry.content(project, format, position.time);
    Some((nanos, Record { position, service, parsed, cut: false }))
}

impl LogEntry {
    fn content(self, project: &str, format: Format, time: i64) -> Parsed {
        let frame = Frame { zone: ZONE, latest: time, order: Order::default() };
        let json = |payload: Map<String, Value>| undated(Format::Json, &Value::Object(payload).to_string(), frame);
        let mut parsed = match (self.text_payload, self.json_payload, self.proto_payload) {
            (Some(text), _, _) => undated(format, text.trim_end_matches(['\r', '\n']), frame),
            (None, Some(payload), _) => json(payload),
            (None, None, Some(payload)) => json(with_method(payload)),
            (None, None, None) => Parsed::default(),
        };
        // The default severity says nothing.
        parsed.level = Severity::of_word(&self.severity).or(parsed.level);
        if parsed.message.is_empty() {
            let parts = ["requestMethod", "requestUrl", "status"].map(|name| self.http_request.get(name));
            let words: Vec<String> = parts.into_iter().flatten().map(text).collect();
            parsed.message = words.join(" ");
        }
        parsed.fields.extend(self.http_request.iter().map(|(name, value)| (name.clone(), text(value))));
        parsed.fields.extend(self.trace.map(|trace| ("trace".to_owned(), trace)));
        // A writer cannot pretend another resource than its own.
        parsed.fields.extend(bounded_labels(self.labels));
        parsed.fields.extend(bounded_labels(self.resource.labels));
        let own = [("resource", self.resource.kind), ("project", project.to_owned())];
        parsed.fields.extend(own.map(|(name, value)| (name.to_owned(), value)));
        parsed
    }
}

/// Returns an audit entry with its method as the message.
fn with_method(mut payload: Map<String, Value>) -> Map<String, Value> {
    if let Some(method) = payload.remove("methodName") {
        payload.insert("message".to_owned(), method);
    }
    payload
}

fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Returns the name of a log as a service: `run.googleapis.com_stdout` for
/// `projects/acme-prod/logs/run.googleapis.com%2Fstdout`. `None` if it is not of the project.
fn service_of(log: &str, project: &str) -> Option<String> {
    let id = log.strip_prefix("projects/")?.strip_prefix(project)?.strip_prefix("/logs/")?;
    let id = id.replace("%2F", "/").replace("%2f", "/");
    (!id.is_empty()).then(|| crate::public_name(&id, NAME_MAX))
}

/// Returns the nanoseconds since 1970 of a time (RFC 3339).
fn nanos_of(time: &str) -> Option<i64> {
    // Entry ids and cursors write no sign.
    DateTime::parse_from_rfc3339(time).ok()?.timestamp_nanos_opt().filter(|nanos| *nanos >= 0)
}

/// Returns the first 32 bits of the digest of a project, by which an id leads to it.
pub(super) fn project_check(server: &str, project: &str) -> u64 {
    check(format!("google {server} {project}").as_bytes()) >> 32
}

/// An answer to `projects.logs.list`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Logs {
    #[serde(default)]
    log_names: AtMost<String, PAGE_MAX>,
    #[serde(default)]
    next_page_token: String,
}

/// Reads the services of a project, and the token of the next answer; `None` if it is no such answer.
pub(super) fn services(body: &[u8], project: &str) -> Option<(Vec<String>, Option<String>)> {
    let Logs { log_names, next_page_token } = serde_json::from_slice(body).ok()?;
    let services = log_names.0.iter().filter_map(|log| service_of(log, project)).collect();
    (next_page_token.len() <= TOKEN_MAX).then(|| (services, next(next_page_token)))
}

/// Returns the token of the next answer, if there is one.
fn next(token: String) -> Option<String> {
    Some(token).filter(|token| !token.is_empty())
}
