//! Text with a time stamp somewhere near its front. [`prefix`] says which stamps begin an entry.

mod epoch;
mod prefix;

use crate::entry::Parsed;
use crate::severity::Severity;
use crate::time;
use crate::time::{Frame, Stamp};
use prefix::Found;
pub(super) use prefix::Prefix;

/// How far into a line its stamp may stand.
const FRONT: usize = 80;

/// Returns the time of a line that begins an entry.
pub(super) fn time(line: &[u8], prefix: &Prefix, frame: Frame) -> Option<i64> {
    match prefix.find(line, frame)? {
        Found::Stamp(stamp, _) => stamp.instant(frame),
        Found::Epoch(millis, _) => Some(millis),
    }
}

/// Returns the text before a line's first stamp, with each word as `w`, and the time in milliseconds since 1970.
pub(super) fn form(line: &[u8], frame: Frame) -> Option<(Vec<u8>, i64)> {
    let (form, stamp) = match at_front(line) {
        Some((stamp, _)) => (Vec::new(), stamp),
        None => prefix::inside(line).map(|(before, stamp, _)| (prefix::form(before), stamp))?,
    };
    stamp.instant(frame).map(|time| (form, time))
}

/// Returns whether a line has a date of three two-digit numbers.
pub(super) fn is_short(line: &[u8]) -> bool {
    let stamp = at_front(line).map(|(stamp, _)| stamp).or_else(|| prefix::inside(line).map(|(_, stamp, _)| stamp));
    stamp.is_some_and(Stamp::is_short)
}

/// Parses a line.
pub(super) fn parse(line: &str, prefix: &Prefix, frame: Frame) -> Parsed {
    let bytes = line.as_bytes();
    let behind = |rest: &[u8]| line.get(line.len() - rest.len()..).unwrap_or(line).trim_start_matches(']');
    let (message, after) = match at_front(bytes) {
        Some((_, rest)) => (behind(rest).trim_start_matches(',').trim_start().trim_start_matches("- "), behind(rest)),
        None => match prefix.find(bytes, frame) {
            Some(Found::Stamp(_, rest) | Found::Epoch(_, rest)) => (line, behind(rest)),
            None => (line, line),
        },
    };
    let letter = bytes.first_chunk::<2>().filter(|[_, digit]| digit.is_ascii_digit());
    let level = match letter {
        Some([b'I', _]) => Some(Severity::Info),
        Some([b'W', _]) => Some(Severity::Warning),
        Some([b'E', _]) => Some(Severity::Error),
        Some([b'F', _]) => Some(Severity::Critical),
        Some(_) | None => logcat(after).or_else(|| Severity::announced(after)).or_else(|| Severity::announced(message)),
    };
    Parsed { level, message: message.trim_end().to_owned(), ..Parsed::default() }
}

/// Returns the severity in `  1702  2395 D WindowManager: …` and in ` D/Camera( 1702): …`.
fn logcat(after: &str) -> Option<Severity> {
    let mut words = after.split_ascii_whitespace();
    let is_number = |word: &str| !word.is_empty() && word.bytes().all(|b| b.is_ascii_digit());
    let first = words.next()?;
    if let Some((letter, tag)) = first.split_once('/') {
        return if tag.is_empty() { None } else { Severity::of_letter(letter) };
    }
    let (second, letter, tag) = (words.next()?, words.next()?, words.next()?);
    if is_number(first) && is_number(second) && !tag.is_empty() { Severity::of_letter(letter) } else { None }
}

fn at_front(line: &[u8]) -> Option<(Stamp, &[u8])> {
    let text = match line.split_first() {
        Some((b'[' | b'(' | b'<' | b'"', rest)) => rest,
        _ => line,
    };
    time::stamp(text)
}
