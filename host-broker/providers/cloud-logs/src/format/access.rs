//! The common and combined log formats of web servers, with or without a virtual host in front.

use super::logfmt::unquote;
use crate::entry::Parsed;
use crate::severity::Severity;
use crate::time;
use crate::time::{Frame, Stamp};
use std::collections::BTreeMap;

/// How far into a line its time may stand: behind a host name and a user's name.
const FRONT: usize = 512;

/// The time of a line.
pub(super) fn time(line: &[u8], frame: Frame) -> Option<i64> {
    let (_, stamp, _) = split(line)?;
    stamp.instant(frame)
}

/// Returns the length of the text before ` [time]`, the time, and the text behind it.
fn split(line: &[u8]) -> Option<(usize, Stamp, &[u8])> {
    let brackets = line.iter().take(FRONT).enumerate().filter(|(_, b)| **b == b'[').map(|(at, _)| at);
    for at in brackets {
        if let Some((_, inside)) = line.split_at_checked(at + 1)
            && let Some((stamp, after)) = time::stamp(inside)
            && let Some(after) = after.strip_prefix(b"]")
        {
            // A time at the very front is another format's.
            return (at > 1).then_some((at, stamp, after));
        }
    }
    None
}

/// Parses a line; `None` if it has no request and status.
pub(super) fn parse(line: &str) -> Option<Parsed> {
    let (before, _, after) = split(line.as_bytes())?;
    let before = line.get(..before)?;
    let after = line.get(line.len() - after.len()..)?.strip_prefix(" \"")?;
    let (request, rest) = unquote(after);
    let mut words = rest.split_ascii_whitespace();
    let status: u16 = words.next()?.parse().ok()?;
    (100..600).contains(&status).then_some(())?;
    let bytes = words.next().unwrap_or("-");

    let mut fields = BTreeMap::new();
    let mut put = |name: &str, value: &str| {
        if !value.is_empty() && value != "-" {
            fields.insert(name.to_owned(), value.to_owned());
        }
    };
    put("status", &status.to_string());
    put("bytes", bytes);
    let mut caller: Vec<&str> = before.split_ascii_whitespace().collect();
    put("user", caller.pop().unwrap_or("-"));
    caller.pop();
    put("remote", caller.pop().unwrap_or("-"));
    put("vhost", caller.pop().unwrap_or("-"));
    let mut parts = request.split(' ');
    if let (Some(method), Some(path), Some(_), None) = (parts.next(), parts.next(), parts.next(), parts.next()) {
        put("method", method);
        put("path", path);
    }
    if let Some((_, quoted)) = rest.split_once('"') {
        let (referer, rest) = unquote(quoted);
        put("referer", &referer);
        if let Some((_, quoted)) = rest.split_once('"') {
            put("agent", &unquote(quoted).0);
        }
    }
    let level = Some(Severity::of_http(status));
    Some(Parsed { level, program: None, message: format!("{request} {status}"), fields })
}
