//! The parsers of this provider on arbitrary bytes, without files or a journal.
//!
//! They serve fuzzing and the test that runs its targets. The parsed bytes come back as text; nothing is searched or
//! shown.

use super::format::{Format, Profile};
use super::journald::decode::{Shown, entries};
use super::position::StreamKey;
use super::time::{Frame, Order, Zone};

const FORMATS: [Format; 6] = [Format::Auto, Format::Json, Format::Logfmt, Format::Syslog, Format::Access, Format::Raw];

/// Reads the bytes as a file of every format, and gives every message that each finds.
pub fn lines(content: &[u8]) -> Vec<String> {
    let lines: Vec<Vec<u8>> = content.split(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect();
    // Where clocks are changed, and at a time from which years can be inferred.
    let frame =
        Frame { zone: Zone::Named(chrono_tz::Europe::Berlin), latest: 1_798_000_000_000, order: Order::default() };
    let mut messages = Vec::new();
    for format in FORMATS {
        let profile = Profile::learn(format, &lines, frame);
        for (line, rest) in lines.iter().zip(lines.iter().skip(1)) {
            if profile.time(line).is_some() {
                messages.push(profile.parse(line, rest).message);
            }
        }
    }
    messages
}

/// Reads the bytes as output of `journalctl`, and returns every message.
pub fn journal(output: &[u8]) -> Vec<String> {
    let found = entries(output, false, StreamKey::of(b"journal"), Shown::Whole).entries;
    found.into_iter().map(|decoded| decoded.record.parsed.message).collect()
}
