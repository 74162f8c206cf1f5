//! Where an entry is: the total order of all entries, the ids and the cursors.
//!
//! Everything here is made of what stays the same when a file is renamed, compressed or continued: the entry's time,
//! its stream, the time of the first entry of its file, its place in the uncompressed file, the digest of its first
//! line. So an entry has the same id after rotation, and a cursor goes on where it stopped.

use shared::digest::Digest;
use std::fmt;
use std::str::FromStr;

/// One sequence of log entries: a log file with its rotated predecessors, or a journal. The number says nothing about
/// the path from which it was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct StreamKey(u64);

impl StreamKey {
    /// The key of the stream with this name.
    pub(crate) fn of(name: &[u8]) -> Self {
        // 48 bits: short in an id, and a thousand streams share a key once in half a billion machines.
        Self(check(name) >> 16)
    }
}

/// The first 64 bits of a text's digest.
pub(crate) fn check(text: &[u8]) -> u64 {
    let digest = Digest::of(text);
    digest.as_bytes().first_chunk().map_or(0, |bytes| u64::from_be_bytes(*bytes))
}

/// A place in the total order of entries: later times are greater, and within the same time what stands later in its
/// stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Position {
    /// Milliseconds since 1970.
    pub(crate) time: i64,
    /// The stream.
    pub(crate) stream: StreamKey,
    /// Orders the files of a stream: the time of the file's first entry.
    pub(crate) born: i64,
    /// Orders the entries of a file: the offset in its uncompressed text.
    pub(crate) place: u64,
    /// Tells entries apart that are equal otherwise: files that begin within the same second share places. The first
    /// 64 bits of the digest of its first line, or of the journal's own cursor.
    pub(crate) check: u64,
}

/// The permanent name of an entry: `1771063200000-3fa9c2d17e55-2f4a0-9b1c6c3d5e7f8091`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct EntryId {
    /// Milliseconds since 1970.
    pub(crate) time: i64,
    /// The stream.
    pub(crate) stream: StreamKey,
    /// The offset in the uncompressed file, or the journal's sequence number.
    pub(crate) place: u64,
    /// The first 64 bits of the digest of its first line, or of the journal's own cursor.
    pub(crate) check: u64,
}

/// The form of every entry id, as a regular expression.
pub(crate) const ID_PATTERN: &str = "^[0-9]{1,15}-[0-9a-f]{12}-[0-9a-f]{1,16}-[0-9a-f]{16}$";

/// The text is no entry id, or no cursor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not one that was given out")]
pub(crate) struct NotGivenOut;

impl fmt::Display for EntryId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{:012x}-{:x}-{:016x}", self.time, self.stream.0, self.place, self.check)
    }
}

impl FromStr for EntryId {
    type Err = NotGivenOut;

    fn from_str(text: &str) -> Result<Self, NotGivenOut> {
        let mut parts = text.split('-');
        let mut next = || parts.next().ok_or(NotGivenOut);
        let id = Self {
            time: decimal(next()?)?,
            stream: StreamKey(hexadecimal(next()?)?),
            place: hexadecimal(next()?)?,
            check: hexadecimal(next()?)?,
        };
        // Only the one form that is written is read: anything else would be a second name of the same entry.
        if id.to_string() == text { Ok(id) } else { Err(NotGivenOut) }
    }
}

/// Where the next older page starts. It carries the window of the first page, which would otherwise move with the
/// clock: `since.until.time.stream.born.place.check`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Cursor {
    /// The window's beginning, in milliseconds since 1970.
    pub(crate) since: i64,
    /// The window's end.
    pub(crate) until: i64,
    /// The last entry that was given out.
    pub(crate) after: Position,
}

/// The form of every cursor, as a regular expression.
pub(crate) const CURSOR_PATTERN: &str =
    r"^[0-9]{1,15}\.[0-9]{1,15}\.[0-9]{1,15}\.[0-9a-f]{12}\.[0-9]{1,18}\.[0-9a-f]{1,16}\.[0-9a-f]{1,16}$";

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Position { time, stream, born, place, check } = self.after;
        write!(f, "{}.{}.{time}.{:012x}.{born}.{place:x}.{check:x}", self.since, self.until, stream.0)
    }
}

impl FromStr for Cursor {
    type Err = NotGivenOut;

    fn from_str(text: &str) -> Result<Self, NotGivenOut> {
        let mut parts = text.split('.');
        let mut next = || parts.next().ok_or(NotGivenOut);
        let (since, until) = (decimal(next()?)?, decimal(next()?)?);
        let after = Position {
            time: decimal(next()?)?,
            stream: StreamKey(hexadecimal(next()?)?),
            born: decimal(next()?)?,
            place: hexadecimal(next()?)?,
            check: hexadecimal(next()?)?,
        };
        let cursor = Self { since, until, after };
        if cursor.to_string() == text { Ok(cursor) } else { Err(NotGivenOut) }
    }
}

fn decimal(text: &str) -> Result<i64, NotGivenOut> {
    text.parse().map_err(|_not_a_number| NotGivenOut)
}

fn hexadecimal(text: &str) -> Result<u64, NotGivenOut> {
    u64::from_str_radix(text, 16).map_err(|_not_a_number| NotGivenOut)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_and_cursors_have_one_written_form() {
        let stream = StreamKey::of(b"/var/log/x.log");
        let id = EntryId { time: 1_771_063_200_000, stream, place: 0x2f4a0, check: check(b"line") };
        assert_eq!(id.to_string().parse(), Ok(id));
        let after = Position { time: 5, stream, born: 1, place: u64::MAX, check: 7 };
        let cursor = Cursor { since: 0, until: 10, after };
        assert_eq!(cursor.to_string().parse(), Ok(cursor));
        for text in ["", "-", "1-2-3-4", "../x", &id.to_string().to_uppercase(), &format!("{id}-0"), &format!("+{id}")]
        {
            assert_eq!(text.parse::<EntryId>(), Err(NotGivenOut), "{text}");
            assert_eq!(text.parse::<Cursor>(), Err(NotGivenOut), "{text}");
        }
    }

    #[test]
    fn the_patterns_fit_what_is_written() {
        let stream = StreamKey::of(b"x");
        let id = EntryId { time: 1_771_063_200_000, stream, place: u64::MAX, check: 0 };
        assert!(regex::Regex::new(ID_PATTERN).unwrap().is_match(&id.to_string()));
        let after = Position { time: 5, stream, born: 1_771_063_200_000_000, place: 0, check: u64::MAX };
        let cursor = Cursor { since: 0, until: 10, after };
        assert!(regex::Regex::new(CURSOR_PATTERN).unwrap().is_match(&cursor.to_string()));
    }
}
