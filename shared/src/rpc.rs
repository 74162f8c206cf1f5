//! JSON-RPC 2.0 (<https://www.jsonrpc.org/specification>), as far as both transports of MCP need it before the SDK
//! reads a message: the kind of a text, the id for its answer, and the messages of a batch.
//!
//! This module reads a text leniently. It passes over strings, numbers and depths that the reader of messages refuses.
//! So a request that cannot be read is still answered under its id.

use crate::limits::BATCH_MAX;
use serde::de::{Deserialize, Deserializer, IgnoredAny};
use serde_json::Value;
use serde_json::value::RawValue;

/// The only revision of MCP that has batches.
pub const BATCH_REVISION: &str = "2025-03-26";

/// The kind of a text.
#[derive(Debug, Clone, PartialEq)]
pub enum Text {
    /// Not JSON.
    NotJson,
    /// JSON, but not an object that could be a message.
    NoMessage,
    /// An object, which need not be a message either.
    Message(Envelope),
}

/// The parts of a message that identify it.
#[derive(Debug, Clone, PartialEq)]
pub struct Envelope {
    /// The id under which it is answered: a string or an integer. MCP has no request with the id `null`.
    pub id: Option<Value>,
    /// The method, if it is a string.
    pub method: Option<String>,
    /// The kind of the message.
    pub kind: Kind,
}

/// The kinds of messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// It is answered under its id.
    Request,
    /// It is never answered.
    Notification,
    /// It is never answered either.
    Response,
    /// None of them: it is answered with -32600.
    Invalid,
}

#[derive(serde::Deserialize)]
struct Members<'a> {
    #[serde(default, borrow, deserialize_with = "present")]
    jsonrpc: Option<&'a RawValue>,
    #[serde(default, borrow, deserialize_with = "present")]
    id: Option<&'a RawValue>,
    #[serde(default, borrow, deserialize_with = "present")]
    method: Option<&'a RawValue>,
    #[serde(default, deserialize_with = "present")]
    result: Option<IgnoredAny>,
    #[serde(default, deserialize_with = "present")]
    error: Option<IgnoredAny>,
}

/// A member that is there, also if it is `null`.
fn present<'de, D: Deserializer<'de>, T: Deserialize<'de>>(deserializer: D) -> Result<Option<T>, D::Error> {
    T::deserialize(deserializer).map(Some)
}

/// Returns the kind of a text.
///
/// ```
/// use shared::rpc::{Kind, Text, read};
///
/// let Text::Message(ping) = read(br#"{"jsonrpc":"2.0","id":7,"method":"ping"}"#) else { panic!() };
/// assert_eq!((ping.kind, ping.id), (Kind::Request, Some(7.into())));
/// assert_eq!(read(b"ping"), Text::NotJson);
/// ```
pub fn read(text: &[u8]) -> Text {
    let Ok(members) = serde_json::from_slice::<Members<'_>>(text) else {
        let is_json = serde_json::from_slice::<IgnoredAny>(text).is_ok();
        return if is_json { Text::NoMessage } else { Text::NotJson };
    };
    if text.trim_ascii_start().first() != Some(&b'{') {
        return Text::NoMessage;
    }
    let is_ours = members.jsonrpc.is_some_and(|version| version.get() == r#""2.0""#);
    let id = members.id.and_then(|raw| serde_json::from_str(raw.get()).ok()).filter(is_id);
    let method: Option<String> = members.method.and_then(|raw| serde_json::from_str(raw.get()).ok());
    let is_outcome = members.result.is_some() || members.error.is_some();
    let kind = match (members.id.is_some(), members.method.is_some()) {
        // An answer to an answer may never end, even if the answer has other faults.
        (_, false) if is_outcome => Kind::Response,
        (true, true) if is_ours && !is_outcome && id.is_some() && method.is_some() => Kind::Request,
        (false, true) if is_ours && !is_outcome && method.is_some() => Kind::Notification,
        (_, true | false) => Kind::Invalid,
    };
    Text::Message(Envelope { id, method, kind })
}

fn is_id(id: &Value) -> bool {
    id.is_string() || id.is_i64()
}

/// Why a batch is refused as a whole. Nothing of it was executed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BatchError {
    /// Not JSON.
    #[error("the batch is no JSON; nothing of it was executed")]
    NotJson,
    /// The conversation has another revision, or none yet.
    #[error("only revision {BATCH_REVISION} has batches; send each message by itself, nothing was executed")]
    Revision,
    /// No message in it.
    #[error("the batch is empty")]
    Empty,
    /// More than [`BATCH_MAX`] messages.
    #[error("a batch has at most {BATCH_MAX} messages; nothing of it was executed")]
    TooLong,
}

/// Returns the messages of a batch, each as it was written; nothing if the text is no array.
///
/// # Errors
/// [`BatchError`], in the order of its variants.
pub fn batch<'a>(text: &'a [u8], revision: Option<&str>) -> Option<Result<Vec<&'a RawValue>, BatchError>> {
    if text.trim_ascii_start().first() != Some(&b'[') {
        return None;
    }
    let Ok(messages) = serde_json::from_slice::<Vec<&RawValue>>(text) else { return Some(Err(BatchError::NotJson)) };
    Some(match messages.len() {
        _ if revision != Some(BATCH_REVISION) => Err(BatchError::Revision),
        0 => Err(BatchError::Empty),
        1..=BATCH_MAX => Ok(messages),
        _ => Err(BatchError::TooLong),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The examples of the specification, and common errors of clients.
    #[test]
    fn a_message_is_what_the_specification_says() {
        for (text, kind) in [
            (r#"{"jsonrpc":"2.0","method":"m","params":[42,23],"id":1}"#, Kind::Request),
            (r#"{"jsonrpc":"2.0","method":"m","id":"a"}"#, Kind::Request),
            (r#"{"jsonrpc":"2.0","method":"update","params":[1]}"#, Kind::Notification),
            (r#"{"jsonrpc":"2.0","method":1,"params":"bar"}"#, Kind::Invalid),
            (r#"{"foo":"boo"}"#, Kind::Invalid),
            (r#"{"jsonrpc":"2.0","method":"m","id":null}"#, Kind::Invalid),
            (r#"{"jsonrpc":"2.0","method":"m","id":1.5}"#, Kind::Invalid),
            (r#"{"jsonrpc":"2.0","method":"m","id":{}}"#, Kind::Invalid),
            (r#"{"jsonrpc":"1.0","method":"m","id":1}"#, Kind::Invalid),
            (r#"{"method":"m","id":1}"#, Kind::Invalid),
            (r#"{"jsonrpc":"2.0","method":"m","id":1,"result":{}}"#, Kind::Invalid),
            (r#"{"jsonrpc":"2.0","id":1,"result":null}"#, Kind::Response),
            (r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"x"}}"#, Kind::Response),
            (r#"{"error":{}}"#, Kind::Response),
        ] {
            let Text::Message(envelope) = read(text.as_bytes()) else { panic!("{text}") };
            assert_eq!(envelope.kind, kind, "{text}");
        }
        for text in ["1", "[]", "null", "\"a\"", r#"{"id":1,"id":2}"#] {
            assert_eq!(read(text.as_bytes()), Text::NoMessage, "{text}");
        }
        for text in ["", "{", "nonsense", r#"{"jsonrpc":"2.0","method":"foobar,"params":"bar","baz]"#] {
            assert_eq!(read(text.as_bytes()), Text::NotJson, "{text}");
        }
    }

    #[test]
    fn messages_with_unreadable_parameters_keep_their_id() {
        let deep = "[".repeat(1000) + &"]".repeat(1000);
        for params in [r#"{"x":"\ud83d"}"#, "1e400", deep.as_str()] {
            let text = format!(r#"{{"jsonrpc":"2.0","id":"a","method":"tools/call","params":{params}}}"#);
            let Text::Message(envelope) = read(text.as_bytes()) else { panic!("{text}") };
            assert_eq!((envelope.kind, envelope.id), (Kind::Request, Some("a".into())), "{params}");
        }
    }

    #[test]
    fn a_batch_has_its_revision_and_its_bound() {
        let of = |n: usize| format!("[{}]", vec!["1"; n].join(","));
        let read = |text: &str, revision| batch(text.as_bytes(), revision).map(|read| read.map(|all| all.len()));
        let own = Some(BATCH_REVISION);
        assert_eq!(read("{}", own), None);
        assert_eq!(read(&of(BATCH_MAX), own), Some(Ok(BATCH_MAX)));
        assert_eq!(read(&of(BATCH_MAX + 1), own), Some(Err(BatchError::TooLong)));
        assert_eq!(read("[]", own), Some(Err(BatchError::Empty)));
        assert_eq!(read("[1,", own), Some(Err(BatchError::NotJson)));
        for other in [None, Some("2024-11-05"), Some("2025-06-18"), Some("2026-07-28")] {
            assert_eq!(read(&of(1), other), Some(Err(BatchError::Revision)), "{other:?}");
        }
    }
}
