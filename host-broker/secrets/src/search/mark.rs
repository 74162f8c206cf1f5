//! The redaction mark in the place of a removed text: `<redacted: GITHUB_TOKEN, 40 bytes, #a1b2c3d4>`.
//!
//! The fingerprint is keyed, so that two marks can be compared and neither can be guessed back. Marks are recognised
//! again: nothing inside one is looked at twice, which makes the filter idempotent. Only the kinds that the filter
//! itself writes count, or else a secret could be carried out in the place of the kind.

use shared::digest::Digest;
use std::collections::BTreeSet;
use std::fmt;
use std::ops::Range;

const OPEN: &str = "<redacted: ";
const KIND_BYTES_MAX: usize = 64;
const COUNT_DIGITS_MAX: usize = 8;
const FINGERPRINT_DIGITS: usize = 8;

/// The key of the fingerprints, and the kinds whose marks are recognised.
pub struct Stamp {
    key: [u8; 32],
    kinds: BTreeSet<String>,
}

impl Stamp {
    /// Takes the key: 32 random bytes that stay on the host.
    pub fn new(key: [u8; 32]) -> Self {
        Self { key, kinds: BTreeSet::new() }
    }

    /// From now on, marks of this kind are recognised.
    pub fn learn(&mut self, kind: &str) {
        self.kinds.insert(kind_word(kind));
    }

    /// The mark for a text that is taken out.
    pub fn mark(&self, kind: &str, text: &str) -> String {
        let fingerprint = Digest::keyed(&self.key, text.as_bytes()).hex();
        let fingerprint: String = fingerprint.chars().take(FINGERPRINT_DIGITS).collect();
        format!("{OPEN}{}, {} bytes, #{fingerprint}>", kind_word(kind), text.len())
    }

    /// Where marks of our own are, in order.
    pub fn marks(&self, text: &str) -> Vec<Range<usize>> {
        let known = marks(text).filter(|(_, kind)| self.kinds.contains(*kind));
        known.map(|(range, _)| range).collect()
    }

    /// Checks whether the text is one mark of ours and nothing else.
    pub fn is_mark(&self, text: &str) -> bool {
        self.marks(text).first().is_some_and(|mark| *mark == (0..text.len()))
    }
}

impl fmt::Debug for Stamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Stamp(…)")
    }
}

/// The kind as it is written in a mark: letters, digits, `_`, `-`, `.` and space; anything else becomes `_`.
fn kind_word(kind: &str) -> String {
    kind.chars().take(KIND_BYTES_MAX).map(|c| if is_kind_char(c) { c } else { '_' }).collect()
}

fn is_kind_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | ' ')
}

/// Everything in the text that looks like a mark: such text must not be written back as if it were the original.
pub fn marks_of(text: &str) -> impl Iterator<Item = &str> {
    marks(text).filter_map(|(range, _)| text.get(range))
}

/// Returns the kind of a text that has the form of a mark and nothing more.
pub fn kind_of(mark: &str) -> Option<&str> {
    marks(mark).find(|(range, _)| *range == (0..mark.len())).map(|(_, kind)| kind)
}

/// Everything that looks like a mark, in order, and its kind.
fn marks(text: &str) -> impl Iterator<Item = (Range<usize>, &str)> {
    text.match_indices(OPEN).filter_map(|(at, open)| {
        let rest = text.get(at + open.len()..)?;
        let (kind, length) = kind_and_length(rest)?;
        Some((at..at + open.len() + length, kind))
    })
}

/// The kind, and how long the rest of a mark is after its opening; `None` if this is no mark.
fn kind_and_length(rest: &str) -> Option<(&str, usize)> {
    let kind = rest.bytes().take(KIND_BYTES_MAX + 1).take_while(|b| is_kind_char(char::from(*b))).count();
    let (kind, tail) = rest.split_at_checked(kind)?;
    let tail = tail.strip_prefix(", ")?;
    let count = tail.bytes().take(COUNT_DIGITS_MAX + 1).take_while(u8::is_ascii_digit).count();
    let tail = tail.get(count..)?.strip_prefix(" bytes, #")?;
    let is_fingerprint = |b: u8| b.is_ascii_digit() || (b'a'..=b'f').contains(&b);
    let fingerprint = tail.bytes().take(FINGERPRINT_DIGITS).take_while(|b| is_fingerprint(*b)).count();
    let tail = tail.get(fingerprint..)?.strip_prefix('>')?;
    let whole = (1..=KIND_BYTES_MAX).contains(&kind.len())
        && (1..=COUNT_DIGITS_MAX).contains(&count)
        && fingerprint == FINGERPRINT_DIGITS;
    whole.then(|| (kind, rest.len() - tail.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stamp(kinds: &[&str]) -> Stamp {
        let mut stamp = Stamp::new([7; 32]);
        for kind in kinds {
            stamp.learn(kind);
        }
        stamp
    }

    #[test]
    fn a_mark_is_recognised_wherever_it_stands() {
        let stamp = stamp(&["GITHUB_TOKEN"]);
        let mark = stamp.mark("GITHUB_TOKEN", "ghp_secret");
        assert!(mark.starts_with("<redacted: GITHUB_TOKEN, 10 bytes, #"), "{mark}");
        assert!(stamp.is_mark(&mark));
        let text = format!("a {mark}<redacted: {mark} z");
        assert_eq!(stamp.marks(&text), [2..2 + mark.len(), 13 + mark.len()..13 + 2 * mark.len()]);
    }

    #[test]
    fn a_mark_of_another_kind_is_not_ours() {
        let text = "<redacted: a-secret-carried-out, 40 bytes, #0a1b2c3d>";
        assert!(marks_of(text).next().is_some() && stamp(&["S"]).marks(text).is_empty());
    }

    #[test]
    fn texts_that_resemble_a_redaction_mark_are_none() {
        for text in [
            "<redacted: a, 1 bytes, #0000000>",
            "<redacted: a, 1 bytes, #0000000G>",
            "<redacted: , 1 bytes, #00000000>",
            "<redacted: a,b, 1 bytes, #00000000>",
            "<redacted: a, 123456789 bytes, #00000000>",
            "<redacted: a, 1 bytes, #00000000",
            "<redacted: é, 1 bytes, #00000000>",
        ] {
            assert_eq!(marks_of(text).next(), None);
        }
    }

    #[test]
    fn any_name_makes_a_mark() {
        for kind in ["a>b, c", "ключ", &"x".repeat(500)] {
            let stamp = stamp(&[kind]);
            assert!(stamp.is_mark(&stamp.mark(kind, "12345678")), "{kind}");
        }
    }

    #[test]
    fn the_fingerprint_depends_on_the_key() {
        assert_ne!(Stamp::new([0; 32]).mark("a", "12345678"), Stamp::new([1; 32]).mark("a", "12345678"));
    }
}
