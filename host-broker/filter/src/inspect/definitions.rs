//! The inspection of a program's descriptions of its own tools, before an operator accepts them.
//!
//! An agent reads them as it reads its own instructions. A definition says what a tool does and what it takes. So
//! stricter rules apply to it than to results. A definition gives no orders about other tools, hides nothing, and keeps
//! nothing from the user. It asks for no files, conversations, instructions or credentials. The rules apply to every
//! name and text, also to hidden and encoded ones.
//!
//! Like the rest of this module it knows known tricks, and nothing relies on it.

mod blocks;
mod calls;
mod labels;
mod orders;
mod requests;
mod secrecy;

use super::encoded::{self, Budget};
use super::hidden;
use super::rules::Book;
use super::signs::Signs;
use super::verdict::{Reason, Verdict};
use super::words::Words;
use serde_json::Value;
use std::borrow::Cow;
use std::sync::LazyLock;

/// Rules for every text, on the view with one space between words.
static TEXTS: LazyLock<Book> = LazyLock::new(|| {
    let mut rules = orders::rules();
    rules.extend(secrecy::rules());
    rules.extend(requests::rules());
    Book::new(5, rules)
});

/// Rules for every text as it is written.
static WRITTEN: LazyLock<Book> = LazyLock::new(|| {
    let mut rules = blocks::rules();
    rules.extend(requests::written());
    Book::new(6, rules)
});

/// Rules for descriptions of parameters.
static PARAMETERS: LazyLock<Book> = LazyLock::new(|| Book::new(7, requests::of_parameters()));

/// Rules for names, titles and the values of a choice.
static LABELS: LazyLock<Book> = LazyLock::new(|| Book::new(8, labels::rules()));

/// Rules for the same, as they are written.
static WRITTEN_LABELS: LazyLock<Book> = LazyLock::new(|| Book::new(9, labels::written()));

/// Rules about calls of other tools, on the text without the name of the tool itself.
static CALLS: LazyLock<Book> = LazyLock::new(|| Book::new(10, calls::rules()));

/// How often a decoded text is decoded again.
const LEVELS: usize = 1;

/// The fewest bytes of a name that is left out of the text.
const OWN_NAME_BYTES_MIN: usize = 4;

/// Inspects a definition: `{"name", "description", "inputSchema", …}` of a tool, or a bridge's description of an
/// operation. `Clean` says only that nothing was found.
///
/// The value must not nest deeper than the filter allows.
pub fn inspect_definition(definition: &Value) -> Verdict {
    let mut found = Verdict::Clean;
    let own = definition.get("name").and_then(Value::as_str).unwrap_or_default();
    walk(definition, Place::default(), own, &mut found);
    found.max(super::all_of(definition, super::Way::Definition))
}

/// The place of a text in a definition.
#[derive(Debug, Clone, Copy, Default)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts of a place")]
struct Place {
    /// Whether it is below the input schema.
    is_input: bool,
    /// Whether it is below the description of a parameter.
    is_parameter: bool,
    /// Whether the author chooses the names of this object's members.
    has_names: bool,
    /// Whether it is a name, a title or a value.
    is_label: bool,
}

impl Place {
    /// Returns the place of this member of the object.
    fn member(self, key: &str) -> Self {
        let is_input = self.is_input || matches!(key, "inputSchema" | "input_schema");
        if self.has_names {
            return Self { is_input, is_parameter: is_input, has_names: false, is_label: false };
        }
        Self {
            is_input,
            is_parameter: self.is_parameter,
            has_names: matches!(key, "properties" | "patternProperties" | "$defs" | "definitions"),
            is_label: matches!(key, "name" | "title" | "enum" | "const" | "default" | "examples"),
        }
    }
}

fn walk(value: &Value, place: Place, own: &str, found: &mut Verdict) {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
        Value::String(text) => note(text, place, own, found),
        Value::Array(items) => items.iter().for_each(|item| walk(item, place, own, found)),
        Value::Object(members) => {
            for (key, item) in members {
                if place.has_names {
                    note(key, Place { is_label: true, ..Place::default() }, own, found);
                }
                walk(item, place.member(key), own, found);
            }
        }
    }
}

fn note(text: &str, place: Place, own: &str, found: &mut Verdict) {
    let verdict = one(text, place, own, LEVELS, &mut Budget::of(text.len()));
    *found = std::mem::replace(found, Verdict::Clean).max(verdict);
}

/// Inspects one text, and the texts encoded in it, `levels` deep.
fn one(text: &str, place: Place, own: &str, levels: usize, budget: &mut Budget) -> Verdict {
    let mut signs = Signs::default();
    plain(text, place, own, &mut signs);
    if let Some(message) = hidden::note(text, &mut signs) {
        plain(&message, place, own, &mut signs);
    }
    if let Some(levels) = levels.checked_sub(1)
        && let (Some(decoded), _) = encoded::decoded(text, budget)
    {
        let verdict = one(&decoded.text, place, own, levels, budget);
        if !verdict.is_clean() {
            signs.note_strong(Reason::EncodedPayload, decoded.first);
        }
        signs.note_verdict(&verdict, decoded.first);
    }
    signs.verdict()
}

fn plain(text: &str, place: Place, own: &str, signs: &mut Signs) {
    let words = Words::of(text).spaced;
    let mut note = |book: &Book| book.note(words.text(), |at| words.origin(at), signs);
    note(&TEXTS);
    if place.is_parameter {
        note(&PARAMETERS);
    }
    if place.is_label {
        note(&LABELS);
        WRITTEN_LABELS.note(text, |at| at, signs);
    }
    WRITTEN.note(text, |at| at, signs);
    let of_others = without(text, own);
    CALLS.note(&of_others, |at| at, signs);
}

/// Returns the text without the tool's own name. A short name is an ordinary word.
fn without<'a>(text: &'a str, own: &str) -> Cow<'a, str> {
    if own.len() < OWN_NAME_BYTES_MIN || !text.contains(own) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(text.replace(own, "it"))
}

#[cfg(test)]
mod tests;
