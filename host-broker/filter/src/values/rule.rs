//! A format that is data: from the list `rules.toml`, from the operator's configuration, or from a rule set.
//!
//! An operator's rule is checked when it is made: its pattern compiles within bounds and matches nothing short. So a
//! faulty rule shows at the start. A test checks the rules of the broker's own lists. The compiled pattern is dropped
//! after the check, and compiled again when a word of the rule occurs. A thousand compiled rules would waste memory,
//! because few of them ever occur.

use super::BLOCK_BYTES;
use regex::bytes::{Captures, Match, Regex, RegexBuilder};
use regex_syntax::ParserBuilder;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::ops::Range;
use std::sync::OnceLock;

/// The fewest characters of a word: fewer are in every text, and then the word saves nothing.
const WORD_CHARS_MIN: usize = 3;

/// The most bytes of a word.
const WORD_BYTES_MAX: usize = 64;

/// The most bytes of a pattern as it is written, which bounds how long it takes to read.
const PATTERN_BYTES_MAX: usize = 4096;

/// The most bytes of a compiled pattern.
const COMPILED_BYTES_MAX: usize = 2 << 20;

/// The most bytes of the automaton that a search remembers.
const AUTOMATON_BYTES_MAX: usize = 512 << 10;

/// How deep a pattern may nest.
const NEST_MAX: u32 = 32;

/// The fewest bytes that a pattern may match. Fewer would be found in ordinary text.
const MATCH_BYTES_MIN: usize = secrets::SECRET_CHARS_MIN;

/// How far from its word a match of unlimited length is looked for, before it is followed to its end.
const REACH_MAX: usize = 1024;

/// The longest stretch that is searched at once. Between the matches of a pattern a search may look far ahead, again
/// and again; in a stretch that is a bounded amount of work.
const STRETCH_BYTES_MAX: usize = 64 << 10;

/// A format of credentials.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RuleTable {
    /// The name in the redaction mark, such as `acme token`: lower-case letters, digits, spaces, `.`, `_` and `-`.
    pub kind: String,
    /// Lower-case words of at least three characters; every match contains one of them in any case. At least one word
    /// is required. The pattern is only tried near these words.
    pub words: Vec<String>,
    /// A regular expression without look-around. Its group `secret` is redacted, or the whole match if there is no such
    /// group. `\d`, `\w`, `\s` and case-insensitive letters are limited to ASCII.
    pub pattern: String,
    /// The minimum entropy of a match, in bits per character, which excludes placeholders; absent means no minimum.
    #[serde(default)]
    pub entropy: Option<f64>,
    /// A regular expression for exceptions. A match is not redacted if the expression occurs in the text to redact.
    #[serde(default)]
    pub except: Option<String>,
}

/// The reason why a format cannot be used; the sentence names the repair.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct RuleError(pub(super) String);

/// A format that can be used.
#[derive(Debug)]
pub struct Rule {
    kind: String,
    words: Vec<String>,
    pattern: String,
    group: Group,
    entropy: f64,
    except: Except,
    compiled: OnceLock<Option<Compiled>>,
}

/// Which part of a match is the secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Group {
    /// The group `secret`, or everything.
    Named,
    /// The group of this number; of 0, the first group that takes part, or everything.
    Number(usize),
}

/// The exceptions from a match.
#[derive(Debug, Clone, Default)]
pub(super) struct Except {
    /// Looked for in the secret.
    pub(super) secret: Vec<String>,
    /// Looked for in the whole match.
    pub(super) whole: Vec<String>,
    /// Words in lower case; a secret that contains one is none.
    pub(super) words: Vec<String>,
}

#[derive(Debug)]
struct Compiled {
    pattern: Regex,
    except_secret: Vec<Regex>,
    except_whole: Vec<Regex>,
    /// The longest match in bytes. If there is no longest, how far the search looks.
    reach: usize,
    is_endless: bool,
}

impl Rule {
    /// Checks a format as it is written in a configuration.
    ///
    /// # Errors
    /// The fault, and its repair.
    pub fn new(table: RuleTable) -> Result<Self, RuleError> {
        Self::listed(table).checked()
    }

    /// Makes a format of a list that a test checks, so that the start does not wait for the check.
    pub(super) fn listed(table: RuleTable) -> Self {
        let RuleTable { kind, words, pattern, entropy, except } = table;
        let except = Except { secret: except.into_iter().collect(), ..Except::default() };
        Self::of(kind, words, pattern, Group::Named, entropy, except)
    }

    /// The same, with everything that a rule set may say.
    pub(super) fn of(
        kind: String,
        words: Vec<String>,
        pattern: String,
        group: Group,
        entropy: Option<f64>,
        except: Except,
    ) -> Self {
        let entropy = entropy.unwrap_or(0.0);
        Self { kind, words, pattern, group, entropy, except, compiled: OnceLock::new() }
    }

    /// Returns the format if it can be used. The pattern that is compiled for this is dropped.
    ///
    /// # Errors
    /// The fault, and its repair.
    pub(super) fn checked(self) -> Result<Self, RuleError> {
        check_kind(&self.kind)?;
        check_words(&self.words)?;
        if !(0.0..=8.0).contains(&self.entropy) {
            return Err(RuleError("`entropy` must be 0 to 8 bits a character".into()));
        }
        self.compile()?;
        Ok(self)
    }

    /// Returns its kind in the mark.
    pub(super) fn kind(&self) -> &str {
        &self.kind
    }

    /// The words near which it is looked for.
    pub(super) fn words(&self) -> impl Iterator<Item = &str> {
        self.words.iter().map(String::as_str)
    }

    fn compile(&self) -> Result<Compiled, RuleError> {
        let longest = longest(&self.pattern)?;
        let reach = longest.unwrap_or(REACH_MAX).min(STRETCH_BYTES_MAX / 4);
        let built = |pattern: &String| {
            build(pattern).map_err(|fault| RuleError(format!("`pattern`: {}", in_one_line(&fault.to_string()))))
        };
        let all = |patterns: &[String]| patterns.iter().map(built).collect::<Result<_, _>>();
        Ok(Compiled {
            pattern: built(&self.pattern)?,
            except_secret: all(&self.except.secret)?,
            except_whole: all(&self.except.whole)?,
            reach,
            is_endless: longest != Some(reach),
        })
    }

    /// Gives `each` every place near these blocks, from left to right.
    pub(super) fn find(&self, text: &str, blocks: &[usize], mut each: impl FnMut(Range<usize>, &str)) {
        // It has been compiled before, so there is no other outcome.
        let Some(compiled) = self.compiled.get_or_init(|| self.compile().ok()) else { return };
        let mut from = 0;
        for stretch in compiled.stretches(text.len(), blocks) {
            let mut at = stretch.start.max(from);
            while at < stretch.end
                && let Some(captures) = compiled.next(text.as_bytes(), at, stretch.end)
            {
                let whole = captures.get_match();
                // Every match is longer than nothing, so this goes on.
                at = whole.end();
                from = at;
                let secret = self.secret(&captures);
                let range = text.floor_char_boundary(secret.start())..text.ceil_char_boundary(secret.end());
                if let Some(text) = text.get(range.clone())
                    && self.accepts(compiled, secret.as_bytes(), whole.as_bytes())
                {
                    each(range, text);
                }
            }
        }
    }

    fn secret<'t>(&self, captures: &Captures<'t>) -> Match<'t> {
        let group = match self.group {
            Group::Named => captures.name("secret"),
            Group::Number(0) => captures.iter().skip(1).flatten().find(|group| !group.is_empty()),
            Group::Number(number) => captures.get(number),
        };
        group.unwrap_or_else(|| captures.get_match())
    }

    fn accepts(&self, compiled: &Compiled, secret: &[u8], whole: &[u8]) -> bool {
        let is_any = |patterns: &[Regex], text: &[u8]| patterns.iter().any(|pattern| pattern.is_match(text));
        let lower = secret.to_ascii_lowercase();
        !secret.is_empty()
            && (self.entropy <= 0.0 || entropy(secret) >= self.entropy)
            && !is_any(&compiled.except_secret, secret)
            && !is_any(&compiled.except_whole, whole)
            && !self.except.words.iter().any(|word| lower.windows(word.len()).any(|part| part == word.as_bytes()))
    }
}

impl Compiled {
    /// Returns the next match that begins in the stretch.
    ///
    /// One that reaches the end of the searched part may be the beginning of a longer one, so it is followed, in steps
    /// that double.
    fn next<'t>(&self, text: &'t [u8], at: usize, end: usize) -> Option<Captures<'t>> {
        let mut end = end.min(text.len());
        loop {
            let captures = self.pattern.captures_at(text.get(..end)?, at)?;
            let whole = captures.get_match();
            if !self.is_endless || whole.end() < end || end == text.len() {
                return Some(captures);
            }
            end = (end + 2 * (end - whole.start())).min(text.len());
        }
    }

    /// The parts of the text in which a match can lie.
    fn stretches(&self, length: usize, blocks: &[usize]) -> Vec<Range<usize>> {
        let mut stretches: Vec<Range<usize>> = Vec::new();
        for block in blocks {
            let start = (block * BLOCK_BYTES).saturating_sub(self.reach);
            let end = ((block + 1) * BLOCK_BYTES + WORD_BYTES_MAX + self.reach).min(length);
            match stretches.last_mut() {
                Some(last) if start <= last.end && end - last.start <= STRETCH_BYTES_MAX => last.end = end,
                _ => stretches.push(start..end),
            }
        }
        stretches
    }
}

fn check_kind(kind: &str) -> Result<(), RuleError> {
    let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, ' ' | '.' | '_' | '-');
    let fits = (1..=WORD_BYTES_MAX).contains(&kind.len()) && kind.chars().all(is_plain) && kind.trim() == kind;
    let fault = "`kind` must be 1 to 64 small letters, digits, spaces, `.`, `_` or `-`, such as \"acme token\"";
    if fits { Ok(()) } else { Err(RuleError(fault.into())) }
}

fn check_words(words: &[String]) -> Result<(), RuleError> {
    if words.is_empty() {
        return Err(RuleError("`words` must name at least one word that every match contains".into()));
    }
    let fits = |word: &str| {
        (WORD_CHARS_MIN..=WORD_BYTES_MAX).contains(&word.len())
            && word.is_ascii()
            && !word.bytes().any(|byte| byte.is_ascii_uppercase())
    };
    match words.iter().find(|word| !fits(word)) {
        None => Ok(()),
        Some(word) => Err(RuleError(format!(
            "`words`: {word:?} must be {WORD_CHARS_MIN} to {WORD_BYTES_MAX} characters of ASCII in lower case; it is \
             met in either case"
        ))),
    }
}

/// The longest match of a pattern, if there is one.
fn longest(pattern: &str) -> Result<Option<usize>, RuleError> {
    if pattern.len() > PATTERN_BYTES_MAX {
        return Err(RuleError(format!("`pattern` must be at most {PATTERN_BYTES_MAX} bytes")));
    }
    let parsed = ParserBuilder::new().unicode(false).utf8(false).nest_limit(NEST_MAX).build().parse(pattern);
    let parsed = parsed.map_err(|fault| RuleError(format!("`pattern`: {}", in_one_line(&fault.to_string()))))?;
    let lengths = parsed.properties();
    if lengths.minimum_len().is_none_or(|shortest| shortest < MATCH_BYTES_MIN) {
        return Err(RuleError(format!(
            "`pattern` matches fewer than {MATCH_BYTES_MIN} bytes, which would be found in ordinary text; make it \
             longer or add what stands before it, with the group (?P<secret>…) around what is to be taken out"
        )));
    }
    Ok(lengths.maximum_len())
}

/// The parser's drawing of the pattern with marks under it, without the drawing.
fn in_one_line(fault: &str) -> String {
    let last = fault.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or(fault);
    last.trim().trim_start_matches("error: ").to_owned()
}

fn build(pattern: &str) -> Result<Regex, regex::Error> {
    RegexBuilder::new(pattern)
        .unicode(false)
        .nest_limit(NEST_MAX)
        .size_limit(COMPILED_BYTES_MAX)
        .dfa_size_limit(AUTOMATON_BYTES_MAX)
        .build()
}

/// Shannon's entropy, in bits a byte.
#[expect(clippy::cast_precision_loss, clippy::as_conversions, reason = "a count of bytes is far below 2^52")]
pub(super) fn entropy(text: &[u8]) -> f64 {
    let mut counts = [0usize; 256];
    for byte in text {
        counts.iter_mut().skip(usize::from(*byte)).take(1).for_each(|count| *count += 1);
    }
    let length = text.len() as f64;
    let shares = counts.into_iter().filter(|count| *count > 0).map(|count| count as f64 / length);
    -shares.map(|share| share * share.log2()).sum::<f64>()
}

#[cfg(test)]
mod tests;
