//! `evidence export --format files`: the events of files, in the records of the file broker's specification.

use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use store::ledger::chain::Row;

/// The public members of calls under way, by the number of their intent's row.
pub(super) type Intended = BTreeMap<i64, Map<String, Value>>;

/// Returns the record of a row, if it holds the outcome of a call to `files`.
///
/// ```json
/// {"ts": "2025-01-13T12:00:00.000Z", "op": "write_file_propose", "path": "src/main.py", "created": false,
///  "base_hash": "sha256:…", "patch_hash": "sha256:…", "tool_call_id": "tc-123", "context_id": "group:developer",
///  "status": "hitl_required", "prev_hash": "sha256:…", "event_hash": "sha256:…"}
/// ```
///
/// The caller passes rows in their order. An unsuccessful call has its path from the row that refuses it, or from its
/// intent.
pub(super) fn record(row: &Row, intended: &mut Intended) -> Option<Value> {
    if row.provider.as_deref() != Some("files") {
        return None;
    }
    let body: Value = serde_json::from_str(&row.body).unwrap_or_default();
    if row.caller == "broker" {
        // A look at an outcome is no event of a file.
        return None;
    }
    let member = |name: &str| body.get(name).and_then(Value::as_object).cloned();
    if row.kind == "intended" {
        intended.extend(member("about").map(|about| (row.seq, about)));
        return None;
    }
    let begun = body.get("of").and_then(Value::as_i64).and_then(|of| intended.remove(&of));
    let noted = member("noted").or_else(|| member("about")).or(begun).unwrap_or_default();
    let op = noted.get("op").cloned().unwrap_or_else(|| json!(row.action));
    let proposed = op.as_str().is_some_and(|op| op.ends_with("_propose"));
    let status = match row.kind.as_str() {
        "succeeded" if proposed => "hitl_required",
        "settled" if body.get("as").is_some_and(|found| found == "failed") => "error",
        "succeeded" | "settled" => "allowed",
        "refused" => "denied",
        "failed" | "unknown" | "timed_out" => "error",
        _ => return None,
    };
    let mut record = Map::new();
    record.insert("ts".into(), json!(row.time()));
    record.insert("op".into(), op);
    record.extend(noted.into_iter().filter(|(name, _)| name != "op"));
    record.insert("tool_call_id".into(), json!(row.request_id));
    record.insert("context_id".into(), json!(row.caller));
    record.insert("status".into(), json!(status));
    if let Some(code) = &row.reason_code {
        record.insert("code".into(), json!(code));
    }
    record.insert("prev_hash".into(), json!(row.prev_hash));
    record.insert("event_hash".into(), json!(row.event_hash));
    Some(Value::Object(record))
}
