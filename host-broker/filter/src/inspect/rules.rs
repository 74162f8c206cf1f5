//! Rules that are a pattern each: one pass looks for the words without which no rule can match, and only the patterns
//! whose word is there are compiled (once) and run, in linear time.

use super::signs::{Signs, Strength};
use super::verdict::Reason;
use aho_corasick::AhoCorasick;
use regex::bytes::Regex;
use std::sync::OnceLock;

/// One rule.
pub(super) struct Rule {
    pub(super) reason: Reason,
    pub(super) strength: Strength,
    /// Lower-case words of which one is in every match.
    pub(super) words: Vec<String>,
    /// A match is a sign. Repetitions are bounded, so that no match looks far ahead.
    pub(super) pattern: String,
    compiled: OnceLock<Regex>,
}

impl Rule {
    pub(super) fn new(reason: Reason, strength: Strength, words: &[impl AsRef<str>], pattern: String) -> Self {
        let words = words.iter().map(|word| word.as_ref().to_owned()).collect();
        Self { reason, strength, words, pattern, compiled: OnceLock::new() }
    }

    fn regex(&self) -> &Regex {
        #[expect(clippy::expect_used, reason = "constant patterns; a test compiles every one")]
        self.compiled.get_or_init(|| Regex::new(&self.pattern).expect("a valid pattern"))
    }
}

/// Rules for one kind of view.
pub(super) struct Book {
    rules: Vec<Rule>,
    words: AhoCorasick,
    /// For each word, the rule it belongs to.
    rule_of_word: Vec<usize>,
    /// The number that distinguishes this book's rules from those of others.
    number: usize,
}

impl Book {
    /// The rules of one view; each book has another number.
    pub(super) fn new(number: usize, rules: Vec<Rule>) -> Self {
        let words = rules.iter().flat_map(|rule| &rule.words);
        #[expect(clippy::expect_used, reason = "a few hundred short constant words")]
        let words = AhoCorasick::builder().ascii_case_insensitive(true).build(words).expect("an automaton");
        let each = rules.iter().enumerate();
        let rule_of_word = each.flat_map(|(number, rule)| rule.words.iter().map(move |_| number)).collect();
        Self { rules, words, rule_of_word, number }
    }

    /// Notes every match in the text. `origin` leads from its offsets to those of the source.
    pub(super) fn note(&self, text: &str, origin: impl Fn(usize) -> usize, signs: &mut Signs) {
        let mut present = vec![false; self.rules.len()];
        for hit in self.words.find_overlapping_iter(text) {
            let rule = self.rule_of_word.get(hit.pattern().as_usize());
            if let Some(flag) = rule.and_then(|rule| present.get_mut(*rule)) {
                *flag = true;
            }
        }
        for ((number, rule), _) in self.rules.iter().enumerate().zip(present).filter(|(_, present)| *present) {
            for found in rule.regex().find_iter(text.as_bytes()) {
                signs.note(rule.reason, rule.strength, self.number * 1_000 + number, origin(found.start()));
            }
        }
    }

    /// Compiles every pattern, for a test.
    #[cfg(test)]
    pub(super) fn compile(&self) {
        for rule in &self.rules {
            assert!(!rule.words.is_empty() && !rule.regex().is_match(b""), "{}", rule.pattern);
        }
    }
}
