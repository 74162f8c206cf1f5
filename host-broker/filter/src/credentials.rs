//! Takes credentials out of values: the broker's own secrets, then known formats.

use super::document;
use super::pieces::{self, Order, Pieces};
use super::scrub::Scrubber;
use secrets::search::view::SEAM;
use serde_json::Value;

/// How often a value is gone over. One round finds everything that is there, the next sees that nothing is left;
/// only secrets that were wrapped into each other on purpose need more.
const ROUNDS_MAX: usize = 4;

/// How deep JSON is looked for inside strings: upstream servers like to send their results as text.
const EMBEDDED_MAX: usize = 3;

/// Which credentials are looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    /// The broker's own.
    Own,
    /// Those, and everything of a known format.
    All,
}

/// The result of the redaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Scrubbed {
    /// There was nothing.
    Untouched,
    /// Something was removed, and the rest is clean.
    Redacted,
    /// Every round revealed something new; the rest must not be shown.
    Hopeless,
}

/// Takes credentials out of keys, strings and numbers, also where one is split over several of them.
///
/// INVARIANT: a value that was not found hopeless is one in which a further round finds nothing, so scrubbing
/// twice is scrubbing once.
pub fn scrub(value: &mut Value, scrubber: &Scrubber, extent: Extent) -> Scrubbed {
    scrub_in(value, None, scrubber, extent, 0)
}

/// Scrubs a value and a text that are shown together. A secret may be split over both.
pub(super) fn scrub_both(value: &mut Value, text: &mut String, scrubber: &Scrubber, extent: Extent) -> Scrubbed {
    scrub_in(value, Some(text), scrubber, extent, 0)
}

fn scrub_in(
    value: &mut Value,
    mut beside: Option<&mut String>,
    scrubber: &Scrubber,
    extent: Extent,
    depth: usize,
) -> Scrubbed {
    for round in 0..ROUNDS_MAX {
        let inner = match scrub_embedded(value, scrubber, depth) {
            Scrubbed::Hopeless => return Scrubbed::Hopeless,
            Scrubbed::Redacted => true,
            Scrubbed::Untouched => false,
        };
        let (mut replaced, added) = {
            let mut pieces = Pieces::of(value);
            let added = beside.as_deref().map(|text| pieces.add(text));
            (pieces.replaced(find(&pieces, scrubber, extent)), added)
        };
        if replaced.is_empty() && !inner {
            return if round == 0 { Scrubbed::Untouched } else { Scrubbed::Redacted };
        }
        if let (Some(text), Some(new)) = (beside.as_deref_mut(), added.and_then(|added| replaced.remove(&added))) {
            *text = new;
        }
        pieces::put_back(value, replaced);
    }
    Scrubbed::Hopeless
}

/// Takes the broker's own secrets out of strings that are JSON, whose strings have neighbours of their own.
fn scrub_embedded(value: &mut Value, scrubber: &Scrubber, depth: usize) -> Scrubbed {
    if depth >= EMBEDDED_MAX || !scrubber.knows_own() {
        return Scrubbed::Untouched;
    }
    let together = |all: Scrubbed, one: Scrubbed| match (all, one) {
        (Scrubbed::Hopeless, _) | (_, Scrubbed::Hopeless) => Scrubbed::Hopeless,
        (Scrubbed::Redacted, _) | (_, Scrubbed::Redacted) => Scrubbed::Redacted,
        (Scrubbed::Untouched, Scrubbed::Untouched) => Scrubbed::Untouched,
    };
    let none = Scrubbed::Untouched;
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => none,
        Value::String(text) => {
            let Some(mut document) = Embedded::in_text(text) else { return none };
            let outcome = scrub_in(&mut document.value, None, scrubber, Extent::Own, depth + 1);
            if outcome == Scrubbed::Redacted {
                *text = document.written(text);
            }
            outcome
        }
        Value::Array(items) => {
            items.iter_mut().fold(none, |all, item| together(all, scrub_embedded(item, scrubber, depth)))
        }
        Value::Object(entries) => {
            entries.values_mut().fold(none, |all, item| together(all, scrub_embedded(item, scrubber, depth)))
        }
    }
}

/// A string that is JSON: one document, or one on each line.
struct Embedded {
    value: Value,
    is_lines: bool,
}

impl Embedded {
    fn in_text(text: &str) -> Option<Self> {
        let is_container = |text: &str| text.trim_start().starts_with(['{', '[']);
        if !is_container(text) {
            return None;
        }
        if let Ok(value) = serde_json::from_str(text) {
            return Some(Self { value, is_lines: false });
        }
        let lines = text.lines().filter(|line| !line.trim().is_empty());
        let read = |line: &str| if is_container(line) { serde_json::from_str(line).ok() } else { None };
        let value = Value::Array(lines.map(read).collect::<Option<_>>()?);
        Some(Self { value, is_lines: true })
    }

    /// Returns the text with the values of the document. What did not change stays as it was, where that is possible.
    fn written(&self, text: &str) -> String {
        let Some(items) = self.value.as_array().filter(|_| self.is_lines) else {
            return document::rewritten(text, &self.value).unwrap_or_else(|| self.value.to_string());
        };
        let mut items = items.iter();
        let mut write = |line: &str| {
            if line.trim().is_empty() {
                return line.to_owned();
            }
            let value = items.next().unwrap_or(&Value::Null);
            document::rewritten(line, value).unwrap_or_else(|| format!("{value}\n"))
        };
        text.split_inclusive('\n').map(&mut write).collect()
    }
}

fn find(pieces: &Pieces<'_>, scrubber: &Scrubber, extent: Extent) -> Vec<pieces::Edit> {
    let mut edits = Vec::new();
    if scrubber.knows_own() {
        // A secret may be split anywhere, so parts are joined without anything between them.
        for sequence in pieces.orders(&[Order::Document, Order::Texts, Order::Columns, Order::Cells, Order::Keys]) {
            let joined = pieces.joined(&sequence, "");
            joined.edits(scrubber.find(&joined.text), &mut edits);
        }
        for sequence in pieces.orders(&[Order::Numbers]) {
            let joined = pieces.joined(&sequence, "");
            joined.edits(scrubber.find_in_numbers(&joined.text), &mut edits);
        }
        // Parts may stand at edges of pieces or of lines, with anything between them. Two parts of a piece with several
        // lines may be broken over lines, too.
        let mut seam = [0; 4];
        let seam = SEAM.encode_utf8(&mut seam);
        if pieces.are_several() && pieces.have_lines() {
            for sequence in pieces.orders(&[Order::Document]) {
                let joined = pieces.joined(&sequence, seam);
                joined.edits(scrubber.find_apart(&joined.text), &mut edits);
            }
        }
        let lines = pieces.lines(seam);
        if lines.are_several() {
            lines.edits(scrubber.find_parts(&lines.text), &mut edits);
        }
    }
    if extent == Extent::All {
        // Tokens are not split; private keys are, at line ends.
        for sequence in pieces.orders(&[Order::Document, Order::Texts, Order::Columns]) {
            let joined = pieces.joined(&sequence, "\n");
            joined.edits(scrubber.find_foreign(&joined.text), &mut edits);
        }
    }
    edits
}
