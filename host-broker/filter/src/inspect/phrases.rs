//! Words that talk to an agent: set instructions aside, give new ones, ask for hidden ones, or for data to be sent.
//!
//! English is looked for with words in between, other languages by the order of a verb, a qualifier and a noun
//! (`phrases/languages.rs`). Letters that are set apart are found in the view without spaces.

mod direct;
mod english;
mod instructions;
mod languages;

use super::rules::{Book, Rule};
use super::signs::{Signs, Strength};
use super::verdict::Reason;
use super::words::Words;
use aho_corasick::AhoCorasick;
use std::sync::LazyLock;

static SPACED: LazyLock<Book> = LazyLock::new(|| {
    let mut rules = english::rules();
    rules.extend(instructions::rules());
    rules.extend(direct::rules());
    rules.extend(languages::spaced());
    Book::new(1, rules)
});

static COMPACT: LazyLock<Book> = LazyLock::new(|| {
    let mut rules = vec![set_apart()];
    rules.extend(languages::compact());
    Book::new(2, rules)
});

/// An override whose words are not separated where words are: only known words may stand in it.
fn set_apart() -> Rule {
    let pattern = concat!(
        "(?-u)(?:ignore|disregard|forget|override)",
        "(?:all|any|of|the|your|my|these|those|every|other|and){0,5}",
        "(?:previous|prior|preceding|above|earlier|foregoing|former|initial|original)",
        "(?:and|or|above|system|user|given|ly|safety|security){0,3}",
        "(?:instruction|direction|directive|prompt|command|order|guideline|rule|programming)",
    );
    let words =
        &["instruction", "direction", "directive", "prompt", "command", "order", "guideline", "rule", "programming"];
    Rule::new(Reason::InstructionOverride, Strength::Strong, words, pattern.to_owned())
}

/// Notes every phrase in the views of a text.
pub(super) fn note(words: &Words, signs: &mut Signs) {
    SPACED.note(words.spaced.text(), |at| words.spaced.origin(at), signs);
    COMPACT.note(words.compact.text(), |at| words.compact.origin(at), signs);
}

/// Words that only occur in overrides, shifted by thirteen letters and written backwards.
static TURNED: LazyLock<AhoCorasick> = LazyLock::new(|| {
    let words = ["instruction", "previous", "disregard", "systemprompt"];
    let patterns = words.iter().flat_map(|word| [shifted(word), backwards(word)]);
    #[expect(clippy::expect_used, reason = "eight short constant words")]
    AhoCorasick::new(patterns).expect("an automaton")
});

/// The text shifted by thirteen letters and the text backwards, if it has words that are only read that way.
pub(super) fn turned(words: &Words) -> Option<[String; 2]> {
    let text = words.spaced.text();
    TURNED.is_match(words.compact.text()).then(|| [shifted(text), backwards(text)])
}

fn shifted(text: &str) -> String {
    let shift = |c: char| match c {
        'a'..='m' => char::from_u32(u32::from(c) + 13).unwrap_or(c),
        'n'..='z' => char::from_u32(u32::from(c) - 13).unwrap_or(c),
        _ => c,
    };
    text.chars().map(shift).collect()
}

fn backwards(text: &str) -> String {
    text.chars().rev().collect()
}

#[cfg(test)]
mod tests;
