//! Text with a time stamp somewhere near its front.
//!
//! What stands before the stamp of a file's first entry stands before the stamp of each: `Start-Date: ` begins an
//! entry of apt's history, and `End-Date: ` a few lines later does not.

use crate::providers::cloud_logs::entry::Parsed;
use crate::providers::cloud_logs::severity::Severity;
use crate::providers::cloud_logs::time::{self, Frame, Stamp};

/// How far into a line its stamp may stand.
const FRONT: usize = 80;

/// What stands before the stamp.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Prefix {
    /// At most an opening bracket.
    Front,
    /// This text, each run of digits written as `0`.
    Text(Vec<u8>),
}

impl Prefix {
    /// The prefix of a file with these first lines: none if any of them has none, else the first one's.
    pub(super) fn learn(head: &[Vec<u8>]) -> Self {
        if head.iter().any(|line| at_front(line).is_some()) {
            return Self::Front;
        }
        head.iter().find_map(|line| inside(line)).map_or(Self::Front, |(prefix, _)| Self::Text(prefix))
    }
}

/// The time of a line that begins an entry.
pub(super) fn time(line: &[u8], prefix: &Prefix, frame: Frame) -> Option<i64> {
    let stamp = match prefix {
        Prefix::Front => at_front(line)?.0,
        Prefix::Text(expected) => {
            let (found, stamp) = inside(line)?;
            (found == *expected).then_some(stamp)?
        }
    };
    stamp.instant(frame)
}

/// What a line says.
pub(super) fn parse(line: &str) -> Parsed {
    let message = match at_front(line.as_bytes()) {
        Some((_, rest)) => {
            let text = line.get(line.len() - rest.len()..).unwrap_or(line);
            text.trim_start_matches(']').trim_start().trim_start_matches("- ").trim_end()
        }
        None => line.trim_end(),
    };
    let letter = line.as_bytes().first_chunk::<2>().filter(|[_, digit]| digit.is_ascii_digit());
    let level = match letter {
        Some([b'I', _]) => Some(Severity::Info),
        Some([b'W', _]) => Some(Severity::Warning),
        Some([b'E', _]) => Some(Severity::Error),
        Some([b'F', _]) => Some(Severity::Critical),
        Some(_) | None => Severity::announced(message),
    };
    Parsed { level, message: message.to_owned(), ..Parsed::default() }
}

fn at_front(line: &[u8]) -> Option<(Stamp, &[u8])> {
    let text = match line.split_first() {
        Some((b'[' | b'(' | b'<' | b'"', rest)) => rest,
        _ => line,
    };
    time::stamp(text)
}

/// The first stamp further in, and what stands before it. An indented line begins nothing.
fn inside(line: &[u8]) -> Option<(Vec<u8>, Stamp)> {
    if line.first().is_none_or(u8::is_ascii_whitespace) {
        return None;
    }
    let starts = line.iter().take(FRONT).enumerate().filter(|(_, b)| b" [(=\"|".contains(b)).map(|(at, _)| at + 1);
    for at in starts {
        if let Some((before, rest)) = line.split_at_checked(at)
            && let Some((stamp, _)) = time::stamp(rest)
        {
            return Some((without_digits(before), stamp));
        }
    }
    None
}

fn without_digits(text: &[u8]) -> Vec<u8> {
    let mut out: Vec<u8> = text.iter().map(|b| if b.is_ascii_digit() { b'0' } else { *b }).collect();
    out.dedup_by(|a, b| *a == b'0' && *b == b'0');
    out
}
