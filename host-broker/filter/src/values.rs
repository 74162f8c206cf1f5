//! Credentials of other people, known by their shape: tokens of well-known services, private keys, JWTs,
//! passwords in URLs, `Authorization` headers in text.
//!
//! One pass looks for the words without which no format can occur. Only the patterns of formats whose word is there
//! are compiled (once), and those that are data are tried only around the words. Three sources, in this order where
//! two agree on a place: `crafted` formats with checks of their own, the list `values/rules.toml`, and what the
//! operator adds: [rules](rule) of broker.toml and whole [rule sets](gitleaks).
//!
//! A rule's length is read from its pattern, so no search sees more of the text than a match could cover; the whole
//! work is at most a pass over the text for each rule whose words are everywhere.

mod assigned;
mod checks;
mod crafted;
pub mod gitleaks;
mod plausible;
pub mod rule;

pub(super) use self::checks::is_stand_in;
pub(super) use self::plausible::{in_json, in_setting, is_path, is_reference};

use self::crafted::FORMATS;
use self::rule::{Rule, RuleTable};
use aho_corasick::{AhoCorasick, BuildError};
use secrets::names;
use secrets::search::Found;
use secrets::search::mark::Stamp;
use serde::Deserialize;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::sync::{Arc, LazyLock};

/// In how large steps the places of words are noted, in bytes. Coarse, so that a text made of nothing but words
/// needs little memory.
const BLOCK_BYTES: usize = 256;

/// The formats beside the broker's own secrets.
pub struct Formats {
    rules: Vec<Arc<Rule>>,
    words: AhoCorasick,
    /// For each word, whom it wakes.
    woken: Vec<Vec<Woken>>,
}

#[derive(Clone, Copy)]
enum Woken {
    Crafted(usize),
    Rule(usize),
}

/// The lists beside this file: the broker's own, and the vendored one.
static LISTED: LazyLock<Vec<Arc<Rule>>> = LazyLock::new(|| {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct List {
        credentials: Vec<RuleTable>,
    }
    #[expect(clippy::expect_used, reason = "a constant text; a test reads it")]
    let list: List = toml::from_str(include_str!("values/rules.toml")).expect("the list is TOML");
    #[expect(clippy::expect_used, reason = "a constant text; a test reads it")]
    let vendored = gitleaks::unchecked(include_str!("values/betterleaks.toml"), &[]).expect("the set is one");
    let own = list.credentials.into_iter().map(Rule::listed);
    own.chain(vendored.into_iter().map(|(_, rule)| rule)).map(Arc::new).collect()
});

impl Formats {
    /// The broker's own formats, and these.
    ///
    /// # Errors
    /// The words are too many or too long for an automaton: some two billion bytes.
    pub fn with(added: impl IntoIterator<Item = Rule>) -> Result<Self, BuildError> {
        let mut rules = LISTED.clone();
        rules.extend(added.into_iter().map(Arc::new));
        let mut woken: BTreeMap<&str, Vec<Woken>> = BTreeMap::new();
        for (index, format) in FORMATS.iter().enumerate() {
            format.words.iter().for_each(|word| woken.entry(word).or_default().push(Woken::Crafted(index)));
        }
        for (index, rule) in rules.iter().enumerate() {
            rule.words().for_each(|word| woken.entry(word).or_default().push(Woken::Rule(index)));
        }
        let words = AhoCorasick::builder().ascii_case_insensitive(true).build(woken.keys())?;
        let woken = woken.into_values().collect();
        Ok(Self { rules, words, woken })
    }

    /// The kinds that [`Formats::find`] marks.
    pub(super) fn kinds(&self) -> Vec<&str> {
        let mut kinds: Vec<&str> = self.rules.iter().map(|rule| rule.kind()).collect();
        kinds.extend(FORMATS.iter().map(|format| format.kind));
        names::kinds().for_each(|kind| kinds.push(kind));
        kinds
    }

    /// Every credential of a known format in the text, in no particular order; places may overlap.
    pub(super) fn find(&self, text: &str, stamp: &Stamp) -> Vec<Found> {
        let places = self.places(text);
        let mut crafted = [false; FORMATS.len()];
        let mut rules: BTreeMap<usize, Vec<&[usize]>> = BTreeMap::new();
        for (woken, blocks) in self.woken.iter().zip(&places).filter(|(_, blocks)| !blocks.is_empty()) {
            for woken in woken {
                match woken {
                    Woken::Crafted(format) => crafted.iter_mut().skip(*format).take(1).for_each(|flag| *flag = true),
                    Woken::Rule(rule) => rules.entry(*rule).or_default().push(blocks),
                }
            }
        }
        let mut found = Vec::new();
        for (format, _) in FORMATS.iter().zip(crafted).filter(|(_, woken)| *woken) {
            format.find(text, stamp, &mut found);
        }
        // A pattern for a word and the text after it could otherwise take the mark for that text.
        let marks = stamp.marks(text);
        for (rule, blocks) in rules {
            let Some(rule) = self.rules.get(rule) else { continue };
            rule.find(text, &together(&blocks), |range, secret| {
                if !overlaps(&marks, &range) {
                    found.push(Found { range, mark: stamp.mark(rule.kind(), secret) });
                }
            });
        }
        assigned::find(text, stamp, &marks, &mut found);
        found
    }

    /// For each word, the blocks of the text in which it begins, in order; empty if there is no word at all.
    fn places(&self, text: &str) -> Vec<Vec<usize>> {
        let mut places = Vec::new();
        for hit in self.words.find_overlapping_iter(text) {
            // Most texts are short and have none.
            if places.is_empty() {
                places.resize(self.woken.len(), Vec::new());
            }
            let block = hit.start() / BLOCK_BYTES;
            if let Some(blocks) = places.get_mut(hit.pattern().as_usize())
                && blocks.last() != Some(&block)
            {
                blocks.push(block);
            }
        }
        places
    }
}

/// The blocks of several words, in order, each once.
fn together<'a>(blocks: &[&'a [usize]]) -> Cow<'a, [usize]> {
    match blocks {
        [one] => Cow::Borrowed(one),
        several => {
            let mut all = several.concat();
            all.sort_unstable();
            all.dedup();
            Cow::Owned(all)
        }
    }
}

/// Checks whether the range shares a byte with one of these, which are in order.
fn overlaps(marks: &[Range<usize>], range: &Range<usize>) -> bool {
    let next = marks.partition_point(|mark| mark.end <= range.start);
    marks.get(next).is_some_and(|mark| mark.start < range.end)
}

impl fmt::Debug for Formats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Formats({} of our own, {} rules)", FORMATS.len(), self.rules.len())
    }
}

#[cfg(test)]
mod tests;
