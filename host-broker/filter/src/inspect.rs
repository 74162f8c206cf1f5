//! Content inspection: a check of a text from outside before an agent reads it, and of a text that is about to leave.
//!
//! **Nothing relies on it.** It knows the marks of known tricks: invisible characters, phrases that set instructions
//! aside, imitated turns and tools, addresses that are to be filled with data, and all of that in an encoding. An
//! attacker who words an instruction as an ordinary sentence passes, and so does one who has read this file. It does
//! not understand a text, know many languages, read images, look into archives, or follow a trick over several results.
//! The gate that cannot be talked to is the policy.
//!
//! Enter at [`inspect`] for received values and [`departing`] for values to send. Everything here is a computation, in
//! time and memory linear in the text: patterns are matched without going back, and decoded bytes count against a
//! budget that grows with the text.
//!
//! `Clean` says only that nothing was found. A text that is not clean stays so with any additional lines.

mod definitions;
mod encoded;
pub(super) mod fold;
mod hidden;
mod links;
mod mimicry;
mod opaque;
mod phrases;
mod rules;
mod signs;
mod strings;
mod terms;
pub mod verdict;
mod words;

pub use self::definitions::inspect_definition;
pub use self::verdict::{Reason, Reasons, Verdict};

use self::encoded::Budget;
use self::signs::{Signs, Strength};
use self::words::Words;
use super::delimiters;
use serde_json::Value;

/// The most levels of encoding that are decoded.
const LEVELS: usize = 2;

/// Strings shorter than this say nothing by themselves, in bytes.
const TEXT_BYTES_MIN: usize = 12;

/// How many needless escapes are an encoding and no accident.
const NEEDLESS_ESCAPES: usize = 8;

/// Where a text is going.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    In,
    Out,
    /// A program's description of its own tools.
    Definition,
}

/// Inspects a value that came from outside: its strings, its keys, and the seams between them.
///
/// The value must not nest deeper than the filter allows.
pub fn inspect(value: &Value) -> Verdict {
    all_of(value, Way::In)
}

/// Inspects one text that came from outside.
pub fn inspect_text(text: &str) -> Verdict {
    one(text, Way::In)
}

/// Inspects a value that an action would send.
///
/// In addition to the marks that [`inspect`] looks for, unreadable values are suspicious here: long ones in addresses,
/// long blobs, and any encoding of a text that could be plain.
pub fn departing(value: &Value) -> Verdict {
    all_of(value, Way::Out)
}

fn all_of(value: &Value, way: Way) -> Verdict {
    let pieces = strings::pieces(value);
    let long = pieces.iter().filter(|piece| piece.text.len() >= TEXT_BYTES_MIN);
    let verdict = long.map(|piece| one(piece.text, way)).fold(Verdict::Clean, Verdict::max);
    // Texts of different strings may be near by chance, so a seam alone is never hostile.
    let seams = strings::seams(&pieces).into_iter().map(|seam| one(&seam, way).softened());
    seams.fold(verdict, Verdict::max)
}

fn one(text: &str, way: Way) -> Verdict {
    look(text, way, LEVELS, &mut Budget::of(text.len()))
}

/// Inspects a text and its encoded parts, as deep as `levels` says.
fn look(text: &str, way: Way, levels: usize, budget: &mut Budget) -> Verdict {
    // A definition tells an agent which calls to make: that is its purpose.
    let mut signs = if way == Way::Definition { Signs::without_weak() } else { Signs::default() };
    note_plain(text, way, &mut signs);
    if let Some(message) = hidden::note(text, &mut signs) {
        let mut said = Signs::default();
        note_plain(&message, way, &mut said);
        signs.note_verdict(&said.verdict(), 0);
    }
    if let Some(levels) = levels.checked_sub(1) {
        note_encoded(text, way, levels, budget, &mut signs);
    }
    signs.verdict()
}

/// Notes the signs of the plain text.
fn note_plain(text: &str, way: Way, signs: &mut Signs) {
    let plain = fold::plain(text);
    mimicry::note(&plain, signs);
    links::note(&plain, signs);
    if let Some(at) = delimiters::look_alike(text) {
        signs.note_strong(Reason::FenceMimicry, at);
    }
    if way == Way::Out {
        opaque::note(text, signs);
    }
    let words = Words::of(text);
    phrases::note(&words, signs);
    for turned in phrases::turned(&words).into_iter().flatten() {
        let mut said = Signs::default();
        phrases::note(&Words::of(&turned), &mut said);
        note_encoded_verdict(&said.verdict(), 0, signs);
    }
}

/// Notes the signs of decoded blobs and escapes.
fn note_encoded(text: &str, way: Way, levels: usize, budget: &mut Budget, signs: &mut Signs) {
    let (decoded, whole) = encoded::decoded(text, budget);
    if !whole {
        signs.note_strong(Reason::NotReadWhole, 0);
    }
    if let Some(decoded) = decoded {
        if way == Way::Out {
            signs.note_strong(Reason::EncodedPayload, decoded.first);
        }
        note_encoded_verdict(&look(&decoded.text, Way::In, levels, budget), decoded.first, signs);
    }
    let Some(unescaped) = encoded::unescaped(text) else { return };
    if !budget.take(unescaped.text.len()) {
        return signs.note_strong(Reason::NotReadWhole, 0);
    }
    let verdict = look(&unescaped.text, Way::In, levels, budget);
    if unescaped.needless >= NEEDLESS_ESCAPES {
        note_encoded_verdict(&verdict, 0, signs);
    } else {
        signs.note_verdict(&verdict, 0);
    }
}

/// Notes the verdict on an encoded text. An instruction that was encoded is no accident.
fn note_encoded_verdict(verdict: &Verdict, at: usize, signs: &mut Signs) {
    if verdict.is_clean() {
        return;
    }
    let instructs = verdict.reasons().contains(Reason::InstructionOverride);
    let strength = if instructs { Strength::Certain } else { Strength::Strong };
    signs.note(Reason::EncodedPayload, strength, usize::MAX, at);
    signs.note_verdict(verdict, at);
}

#[cfg(test)]
mod tests;
