//! Found entries, and their shown part.

use crate::position::{EntryId, Position};
use crate::severity::Severity;
use schemars::JsonSchema;
use serde::Serialize;
use shared::Timestamp;
use std::collections::BTreeMap;

/// The content of a line, apart from its time.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Parsed {
    /// How bad it says it is.
    pub(crate) level: Option<Severity>,
    /// The program that wrote it, where many write into one file.
    pub(crate) program: Option<String>,
    /// The message.
    pub(crate) message: String,
    /// Everything else, as text.
    pub(crate) fields: BTreeMap<String, String>,
}

impl Parsed {
    /// Checks whether message or fields contain a text; the text must be in lower case.
    pub(crate) fn mentions(&self, needle: &str) -> bool {
        let has = |text: &str| text.to_lowercase().contains(needle);
        has(&self.message) || self.fields.values().any(|value| has(value))
    }
}

/// One entry as it was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Record {
    /// Its place among all.
    pub(crate) position: Position,
    /// The service it belongs to.
    pub(crate) service: String,
    /// The content.
    pub(crate) parsed: Parsed,
    /// Whether the entry is longer than the kept part.
    pub(crate) cut: bool,
}

impl Record {
    /// Its id.
    pub(crate) fn id(&self) -> EntryId {
        let Position { time, stream, place, check, .. } = self.position;
        EntryId { time, stream, place, check }
    }
}

/// One log entry. Its text was written by others and is not to be believed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub(crate) struct Entry {
    /// For `get_log_entry`; it stays the same when logs are rotated.
    pub(crate) id: String,
    /// When it was written, RFC 3339 in UTC.
    pub(crate) timestamp: String,
    /// The service that wrote it, as in `list_services`.
    pub(crate) service: String,
    /// How bad it says it is; absent where it does not say.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) level: Option<Severity>,
    /// The message, several lines where it has them.
    pub(crate) message: String,
    /// Other fields: remote address, status, host, keys of a structured line.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) fields: BTreeMap<String, String>,
    /// Whether message or fields were cut; `get_log_entry` shows more.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) cut: bool,
}

/// How much of an entry is shown.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TextLimits {
    message: usize,
    fields: usize,
    value: usize,
}

/// In a list.
pub(crate) const BRIEF: TextLimits = TextLimits { message: 1000, fields: 24, value: 200 };
/// Alone.
pub(crate) const WHOLE: TextLimits = TextLimits { message: 32_000, fields: 200, value: 4000 };
/// The most bytes of a message, and of all fields, that are kept while others are read.
const KEPT_BYTES: usize = 8 * 1024;
/// The cost of a field beside its text.
const FIELD_BYTES: usize = 64;
/// The most bytes of the labels of a stream or a resource. Loki's own limit is lower.
const LABELS_BYTES: usize = 4 * 1024;
/// The longest name of a field that is shown.
const NAME_MAX: usize = 64;

impl Entry {
    /// Returns the shown part of a record.
    pub(crate) fn shown(record: Record, limits: TextLimits) -> Self {
        let id = record.id().to_string();
        let Record { position, service, parsed: Parsed { level, message, mut fields, program }, mut cut } = record;
        if let Some(program) = program
            && program != service
        {
            fields.insert("program".into(), program);
        }
        cut |= fields.len() > limits.fields;
        let fields = fields
            .into_iter()
            .take(limits.fields)
            .map(|(name, value)| (clip(name, NAME_MAX, &mut cut), clip(value, limits.value, &mut cut)))
            .collect();
        let message = clip(message, limits.message, &mut cut);
        Self { id, timestamp: Timestamp::from_millis(position.time).to_string(), service, level, message, fields, cut }
    }
}

/// Returns an entry that is kept while others are read. Only a long one loses the end of its message, and fields.
pub(crate) fn shortened(mut record: Record) -> Record {
    let message = &mut record.parsed.message;
    if message.len() > KEPT_BYTES {
        message.truncate(message.floor_char_boundary(KEPT_BYTES));
        message.shrink_to_fit();
        record.cut = true;
    }
    let (mut left, all) = (KEPT_BYTES, record.parsed.fields.len());
    let fits = |(name, value): &(String, String)| {
        let bytes = name.len() + value.len() + FIELD_BYTES;
        let fits = bytes <= left;
        left = left.saturating_sub(bytes);
        fits
    };
    record.parsed.fields = std::mem::take(&mut record.parsed.fields).into_iter().take_while(fits).collect();
    record.cut |= record.parsed.fields.len() < all;
    record
}

/// Returns the first labels of a stream or a resource, which each of its entries gets.
pub(crate) fn bounded_labels(labels: BTreeMap<String, String>) -> BTreeMap<String, String> {
    let mut left = LABELS_BYTES;
    let fits = |(label, value): &(String, String)| {
        let bytes = label.len() + value.len();
        let fits = bytes <= left;
        left = left.saturating_sub(bytes);
        fits
    };
    labels.into_iter().take_while(fits).collect()
}

/// The first so many characters; the rest is replaced by one that says that there was more.
fn clip(text: String, max: usize, cut: &mut bool) -> String {
    match text.char_indices().nth(max) {
        None => text,
        Some((end, _)) => {
            *cut = true;
            let mut clipped = text;
            clipped.truncate(end);
            clipped.push('…');
            clipped
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::position::StreamKey;

    #[test]
    fn shown_entries_are_bounded_and_marked_as_cut() {
        let position = Position { time: 0, stream: StreamKey::of(b"x"), born: 0, place: 0, check: 0 };
        let fields = (0..300).map(|n| (format!("{n}{}", "k".repeat(100)), "ä".repeat(5000))).collect();
        let parsed = Parsed { message: "ä".repeat(100_000), fields, ..Parsed::default() };
        let record = Record { position, service: "x".into(), parsed, cut: false };
        let brief = Entry::shown(record.clone(), BRIEF);
        assert!(brief.cut);
        assert_eq!((brief.message.chars().count(), brief.fields.len()), (1001, 24));
        assert!(brief.fields.iter().all(|(k, v)| k.chars().count() <= 65 && v.chars().count() <= 201));
        let short = Record { parsed: Parsed { message: "hello".into(), ..Parsed::default() }, ..record };
        assert!(!Entry::shown(short.clone(), WHOLE).cut);
        assert!(Entry::shown(Record { cut: true, ..short }, WHOLE).cut);
    }

    #[test]
    fn a_text_is_found_in_message_and_fields_in_any_case() {
        let fields = [("path".to_owned(), "/ÄPFEL".to_owned())].into();
        let parsed = Parsed { message: "GET it".into(), fields, ..Parsed::default() };
        assert!(parsed.mentions("get") && parsed.mentions("/äpfel") && !parsed.mentions("path"));
    }
}
