//! Fields of GitHub's documents, read leniently: a field that is missing, or of another type, is absent.

use crate::params::CommitSha;
use serde_json::Value;

/// Checks whether an issue's document is a pull request's.
pub(super) fn is_pull_request(v: &Value) -> bool {
    v.get("pull_request").is_some_and(|p| !p.is_null())
}

/// The text at a pointer.
pub(super) fn text(v: &Value, at: &str) -> Option<String> {
    v.pointer(at).and_then(Value::as_str).map(str::to_owned)
}

/// The number at a pointer.
pub(super) fn count(v: &Value, at: &str) -> Option<u64> {
    v.pointer(at).and_then(Value::as_u64)
}

/// Checks whether there is a `true` at a pointer.
pub(super) fn flag(v: &Value, at: &str) -> bool {
    v.pointer(at).and_then(Value::as_bool).unwrap_or(false)
}

/// The commit id at a pointer.
pub(super) fn commit(v: &Value, at: &str) -> Option<String> {
    text(v, at).filter(|sha| sha.parse::<CommitSha>().is_ok())
}
