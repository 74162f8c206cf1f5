//! Entries of the journal as `journalctl --output=json` writes them.
//!
//! A field is a text, a list of bytes where it is not UTF-8 or not printable, `null` where it is too big, or a list of
//! such values where an entry has the field several times.

use crate::entry::{Parsed, Record};
use crate::position::{Position, StreamKey, check};
use crate::severity::Severity;
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// How much of an entry is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shown {
    /// The best known fields.
    Brief,
    /// All of them.
    Whole,
}

/// One entry, and where it is in the journal.
#[derive(Debug)]
pub(crate) struct Decoded {
    /// The journal's own name for the place; it is not shown to anybody.
    pub(crate) cursor: String,
    /// The entry.
    pub(crate) record: Record,
}

/// The output of `journalctl`.
#[derive(Debug, Default)]
pub(crate) struct Output {
    /// The entries, in its order.
    pub(crate) entries: Vec<Decoded>,
    /// How many lines are no entries.
    pub(crate) undecoded: usize,
}

/// Returns the entries among the lines. If the output was cut, its last line counts for nothing.
pub(crate) fn entries(output: &[u8], cut: bool, stream: StreamKey, shown: Shown) -> Output {
    let mut found = Output::default();
    let mut lines = output.split(|b| *b == b'\n').peekable();
    while let Some(line) = lines.next() {
        match entry(line, stream, shown) {
            Some(decoded) => found.entries.push(decoded),
            None if line.is_empty() || line.starts_with(b"-- ") || cut && lines.peek().is_none() => {}
            None => found.undecoded += 1,
        }
    }
    found
}

fn entry(line: &[u8], stream: StreamKey, shown: Shown) -> Option<Decoded> {
    let map: Map<String, Value> = serde_json::from_slice(line).ok()?;
    let cursor = map.get("__CURSOR")?.as_str()?.to_owned();
    let micros: i64 = map.get("__REALTIME_TIMESTAMP")?.as_str()?.parse().ok()?;
    let sequence = cursor.split(';').find_map(|part| part.strip_prefix("i="));
    let place = sequence.and_then(|hex| u64::from_str_radix(hex, 16).ok()).unwrap_or(0);
    let position =
        Position { time: micros.div_euclid(1000), stream, born: micros, place, check: check(cursor.as_bytes()) };
    let get = |name: &str| map.get(name).map(text).filter(|text| !text.is_empty());
    let service = ["SYSLOG_IDENTIFIER", "_SYSTEMD_UNIT", "_COMM"].iter().find_map(|name| get(name));
    let service = service.map_or_else(|| "journal".into(), |name| crate::public_name(&name, super::NAME_MAX));
    let level = get("PRIORITY").and_then(|priority| priority.parse().ok()).map(Severity::of_syslog);
    let message = map.get("MESSAGE").map(text).unwrap_or_default();
    let parsed = Parsed { level, program: None, message, fields: fields(&map, shown) };
    Some(Decoded { record: Record { position, service, parsed, cut: false }, cursor })
}

fn fields(map: &Map<String, Value>, shown: Shown) -> BTreeMap<String, String> {
    const KNOWN: [(&str, &str); 4] =
        [("_SYSTEMD_UNIT", "unit"), ("_PID", "pid"), ("_HOSTNAME", "host"), ("_TRANSPORT", "transport")];
    let name_of = |field: &str| {
        let known = KNOWN.iter().find(|(name, _)| *name == field).map(|(_, short)| (*short).to_owned());
        let own = field.starts_with("__") || matches!(field, "MESSAGE" | "PRIORITY" | "SYSLOG_IDENTIFIER");
        known.or_else(|| (shown == Shown::Whole && !own).then(|| field.to_owned()))
    };
    map.iter().filter_map(|(field, value)| Some((name_of(field)?, text(value)))).collect()
}

/// The text of a field.
fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(items) => bytes(items).unwrap_or_else(|| {
            let texts: Vec<String> = items.iter().map(single).collect();
            texts.join("\n")
        }),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => single(value),
    }
}

/// One value of a field that an entry has several times: a list in a list is always bytes.
fn single(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        Value::Array(items) => bytes(items).unwrap_or_default(),
        Value::Bool(_) | Value::Number(_) | Value::Object(_) => value.to_string(),
    }
}

fn bytes(items: &[Value]) -> Option<String> {
    let bytes: Option<Vec<u8>> = items.iter().map(|item| u8::try_from(item.as_u64()?).ok()).collect();
    bytes.map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(value: &str) -> Decoded {
        let line = format!(
            r#"{{"__CURSOR":"s=1;i=2a;b=3","__REALTIME_TIMESTAMP":"1771063200250999","MESSAGE":{value},"PRIORITY":"3","_PID":"7","X":"y","_COMM":"a b"}}"#
        );
        entry(line.as_bytes(), StreamKey::of(b"x"), Shown::Brief).unwrap()
    }

    #[test]
    fn a_message_has_many_shapes() {
        for (value, text) in [
            (r#""plain""#, "plain"),
            ("null", ""),
            ("[104,105,255]", "hi\u{fffd}"),
            (r#"["one","two"]"#, "one\ntwo"),
            (r#"["one",[104,105],null]"#, "one\nhi\n"),
            ("[]", ""),
            ("7", "7"),
        ] {
            assert_eq!(message(value).record.parsed.message, text, "{value}");
        }
    }

    #[test]
    fn time_service_and_severity_come_from_their_fields() {
        let Decoded { cursor, record } = message("\"x\"");
        assert_eq!(cursor, "s=1;i=2a;b=3");
        assert_eq!((record.position.time, record.position.place), (1_771_063_200_250, 0x2a));
        assert_eq!((record.service.as_str(), record.parsed.level), ("a_b", Some(Severity::Error)));
        assert_eq!(record.parsed.fields, [("pid".to_owned(), "7".to_owned())].into());
    }

    #[test]
    fn undecodable_journal_lines_are_counted() {
        let output = b"-- No entries --\n\n{}\n[1]\n{\"__CURSOR\":1}\n{\"__CURSOR\":\"x\",\"__REALTIME_TIMESTAMP\":\"9";
        for (cut, undecoded) in [(true, 3), (false, 4)] {
            let found = entries(output, cut, StreamKey::of(b"x"), Shown::Whole);
            assert_eq!((found.entries.len(), found.undecoded), (0, undecoded));
        }
    }
}
