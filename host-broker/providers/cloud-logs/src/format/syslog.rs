//! The formats of syslog daemons: the traditional form, its modern variant with an ISO time, and RFC 5424.

use super::logfmt::unquote;
use crate::entry::Parsed;
use crate::severity::Severity;
use crate::time;
use crate::time::Frame;
use std::collections::BTreeMap;

const NAME_MAX: usize = 128;

/// The time of a line.
pub(super) fn time(line: &[u8], frame: Frame) -> Option<i64> {
    let (stamp, _) = time::stamp(header(line).body)?;
    stamp.instant(frame)
}

/// Parses a line; `None` if it names no host and program.
pub(super) fn parse(line: &str) -> Option<Parsed> {
    let header = header(line.as_bytes());
    let body = line.get(line.len() - header.body.len()..)?;
    // Daemons join date and time with a `T`; with a space between them it is some program's own log.
    if body.starts_with(|c: char| c.is_ascii_digit()) && !matches!(body.as_bytes().get(10), Some(b'T' | b't')) {
        return None;
    }
    let (_, after) = time::stamp(body.as_bytes())?;
    let after = body.get(body.len() - after.len()..)?.strip_prefix(' ')?;
    let level = header.priority.map(Severity::of_syslog);
    let mut parsed = if header.modern { modern(after)? } else { traditional(after)? };
    parsed.level = level.or_else(|| Severity::announced(&parsed.message));
    Some(parsed)
}

struct Header<'a> {
    priority: Option<u64>,
    modern: bool,
    body: &'a [u8],
}

/// `<165>` and, in RFC 5424, the version.
fn header(line: &[u8]) -> Header<'_> {
    let none = Header { priority: None, modern: false, body: line };
    let Some(inside) = line.strip_prefix(b"<") else { return none };
    let Some(end) = inside.iter().take(4).position(|b| *b == b'>') else { return none };
    let Some((digits, rest)) = inside.split_at_checked(end) else { return none };
    let Some(priority) = std::str::from_utf8(digits).ok().and_then(|text| text.parse().ok()) else { return none };
    let body = rest.strip_prefix(b">").unwrap_or(rest);
    match body.strip_prefix(b"1 ") {
        Some(body) => Header { priority: Some(priority), modern: true, body },
        None => Header { priority: Some(priority), modern: false, body },
    }
}

/// `host tag[pid]: message`.
fn traditional(text: &str) -> Option<Parsed> {
    let (host, rest) = text.split_once(' ')?;
    let end = rest.find([':', '[', ' '])?;
    let (tag, after) = rest.split_at_checked(end)?;
    let (pid, message) = match after.strip_prefix('[') {
        Some(inside) => {
            let (pid, message) = inside.split_once("]:")?;
            (Some(pid), message)
        }
        None => (None, after.strip_prefix(':')?),
    };
    let named = !host.is_empty() && !tag.is_empty() && tag.len() <= NAME_MAX;
    (named && (message.is_empty() || message.starts_with(' '))).then_some(())?;
    let mut fields = BTreeMap::from([("host".to_owned(), host.to_owned())]);
    fields.extend(pid.map(|pid| ("pid".to_owned(), pid.to_owned())));
    Some(Parsed { level: None, program: Some(tag.to_owned()), message: message.trim().to_owned(), fields })
}

/// `host app procid msgid structured-data message` (RFC 5424, section 6).
fn modern(text: &str) -> Option<Parsed> {
    let mut parts = text.splitn(5, ' ');
    let (host, app, pid, id) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
    let (mut fields, message) = structured_data(parts.next().unwrap_or("-"));
    for (name, value) in [("host", host), ("pid", pid), ("msgid", id)] {
        if value != "-" {
            fields.insert(name.to_owned(), value.to_owned());
        }
    }
    let program = (app != "-").then(|| app.to_owned());
    Some(Parsed { level: None, program, message: message.trim_start_matches('\u{feff}').trim_end().to_owned(), fields })
}

/// Returns `[id name="value" …]…` as `id.name` fields, and the text after it.
fn structured_data(text: &str) -> (BTreeMap<String, String>, &str) {
    let mut fields = BTreeMap::new();
    if let Some(rest) = text.strip_prefix('-') {
        return (fields, rest.strip_prefix(' ').unwrap_or(rest));
    }
    let mut rest = text;
    while let Some(inside) = rest.strip_prefix('[') {
        let end = inside.find([' ', ']']).unwrap_or(inside.len());
        let (id, mut params) = inside.split_at_checked(end).unwrap_or((inside, ""));
        while let Some((name, value)) = params.strip_prefix(' ').and_then(|p| p.split_once("=\"")) {
            let text;
            (text, params) = unquote(value);
            fields.insert(format!("{id}.{name}"), text);
        }
        // A fault in the structure ends it; the rest is shown as message.
        let Some(after) = params.strip_prefix(']') else { return (fields, rest) };
        rest = after;
    }
    (fields, rest.strip_prefix(' ').unwrap_or(rest))
}
