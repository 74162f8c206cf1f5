//! The parsers of this provider on arbitrary bytes, without files or a journal.
//!
//! They serve fuzzing and the test that runs its targets. The parsed bytes come back as text; nothing is searched or
//! shown.

use super::format::{Format, LateForms, Profile};
use super::journald::decode::{Shown, entries};
use super::position::StreamKey;
use super::time::{Frame, Order, Zone};

const FORMATS: [Format; 6] = [Format::Auto, Format::Json, Format::Logfmt, Format::Syslog, Format::Access, Format::Raw];

/// How many lines the profile is learned from, so that others are behind them.
const HEAD_LINES: usize = 8;

/// Reads the bytes as a file of every format, and gives every message that each finds.
pub fn lines(content: &[u8]) -> Vec<String> {
    let lines: Vec<Vec<u8>> = content.split(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect();
    // Where clocks are changed, and at a time from which years can be inferred.
    let frame =
        Frame { zone: Zone::Named(chrono_tz::Europe::Berlin), latest: 1_798_000_000_000, order: Order::default() };
    let mut messages = Vec::new();
    for format in FORMATS {
        let head = lines.get(..lines.len().min(HEAD_LINES)).unwrap_or_default();
        let mut profile = Profile::learn(format, head, frame);
        let mut forms = LateForms::default();
        for line in &lines {
            match profile.time(line) {
                Some(time) => forms.add_entry(time),
                None => profile.stamped(line).into_iter().for_each(|(form, time)| forms.add(form, time)),
            }
        }
        profile.add_forms(forms.into_forms(profile.ceiling()));
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
