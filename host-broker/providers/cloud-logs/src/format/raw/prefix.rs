//! The text before the time stamps of a file's lines, learned from its first lines.
//!
//! An entry must not be taken for the continuation of another. So if stamps stand behind a prefix, every line with a
//! stamp begins an entry, with any prefix. There are two exceptions. In a file of paragraphs only the first line of a
//! paragraph begins one. `Start-Date: …` begins an entry of apt's history, and `End-Date: …` a few lines later does
//! not. If stamps stand at the front, a stamp further in counts only if the first lines repeat its form, or later lines
//! do ([`late`](super::super::late)).

use super::{FRONT, at_front, epoch};
use crate::time;
use crate::time::{Frame, Stamp};
use std::collections::BTreeMap;

/// Where the stamp of a line that begins an entry stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::format) struct Prefix {
    /// At the front, behind at most an opening bracket.
    front: bool,
    inside: Inside,
}

/// Which lines with a stamp further in begin an entry.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Inside {
    None,
    /// All of them.
    Any,
    /// Those with this text before the stamp, each run of digits written as `0`.
    Text(Vec<u8>),
    /// Those with one of these forms before the stamp, each word written as `w`.
    Forms(Vec<Vec<u8>>),
    /// Those whose word of this number has a count of seconds or milliseconds since 1970.
    Epoch(usize),
}

/// The place and the content of a line's stamp.
pub(super) enum Found<'l> {
    /// A date and a time, and the text after it.
    Stamp(Stamp, &'l [u8]),
    /// Milliseconds since 1970, and the text after them.
    Epoch(i64, &'l [u8]),
}

impl Prefix {
    /// Only the front.
    pub(in crate::format) const FRONT: Self = Self { front: true, inside: Inside::None };
    /// Any place near the front.
    pub(in crate::format) const ANY: Self = Self { front: true, inside: Inside::Any };

    /// Returns the prefix of a file with these first lines, empty ones included.
    pub(in crate::format) fn learn(head: &[Vec<u8>], frame: Frame) -> Self {
        if let Some(column) = epoch::column(head, frame) {
            return Self { front: false, inside: Inside::Epoch(column) };
        }
        let (front, behind): (Vec<&Vec<u8>>, Vec<&Vec<u8>>) = head.iter().partition(|line| at_front(line).is_some());
        let behind: Vec<&[u8]> = behind.iter().filter_map(|line| inside(line)).map(|(before, ..)| before).collect();
        let inside = if behind.is_empty() {
            Inside::None
        } else if front.is_empty() {
            paragraph(head).map_or(Inside::Any, |text| Inside::Text(without_digits(text)))
        } else if front.len() < behind.len() {
            Inside::Any
        } else {
            let mut forms: BTreeMap<Vec<u8>, usize> = BTreeMap::new();
            for before in behind {
                *forms.entry(form(before)).or_default() += 1;
            }
            Inside::Forms(forms.into_iter().filter(|(_, count)| *count > 1).map(|(form, _)| form).collect())
        };
        Self { front: !front.is_empty() || inside == Inside::None, inside }
    }

    /// Returns whether only the first line of a paragraph begins an entry.
    pub(in crate::format) fn is_of_paragraphs(&self) -> bool {
        matches!(self.inside, Inside::Text(_))
    }

    /// Returns the stamp of a line, if it begins an entry.
    pub(super) fn find<'l>(&self, line: &'l [u8], frame: Frame) -> Option<Found<'l>> {
        if self.front
            && let Some((stamp, after)) = at_front(line)
        {
            return Some(Found::Stamp(stamp, after));
        }
        if let Inside::Epoch(column) = self.inside {
            return epoch::at(line, column, frame).map(|(millis, after)| Found::Epoch(millis, after));
        }
        if self.inside == Inside::None {
            return None;
        }
        if let Some((stamp, after)) = at_front(line) {
            return (self.inside == Inside::Any).then_some(Found::Stamp(stamp, after));
        }
        let (before, stamp, after) = inside(line)?;
        let begins = match &self.inside {
            Inside::None | Inside::Epoch(_) => false,
            Inside::Any => true,
            Inside::Text(text) => without_digits(before) == *text,
            Inside::Forms(forms) => forms.contains(&form(before)),
        };
        begins.then_some(Found::Stamp(stamp, after))
    }
}

/// Returns the text before the first stamp, if every line with that text begins a paragraph.
fn paragraph(head: &[Vec<u8>]) -> Option<&[u8]> {
    let first = head.iter().position(|line| inside(line).is_some())?;
    let (text, ..) = inside(head.get(first)?)?;
    let begins = |at: usize| at.checked_sub(1).and_then(|before| head.get(before)).is_some_and(Vec::is_empty);
    let own = without_digits(text);
    let mut same = head
        .iter()
        .enumerate()
        .filter(|(_, line)| inside(line).is_some_and(|(before, ..)| without_digits(before) == own))
        .map(|(at, _)| at);
    same.all(begins).then_some(text)
}

/// Returns the first stamp further in, and the text before and behind it. An indented line begins nothing.
pub(super) fn inside(line: &[u8]) -> Option<(&[u8], Stamp, &[u8])> {
    if line.first().is_none_or(u8::is_ascii_whitespace) {
        return None;
    }
    let starts = line.iter().take(FRONT).enumerate().filter(|(_, b)| b" [(=\"|".contains(b)).map(|(at, _)| at + 1);
    for at in starts {
        if let Some((before, rest)) = line.split_at_checked(at)
            && let Some((stamp, after)) = time::stamp(rest)
        {
            return Some((before, stamp, after));
        }
    }
    None
}

fn without_digits(text: &[u8]) -> Vec<u8> {
    let mut out: Vec<u8> = text.iter().map(|b| if b.is_ascii_digit() { b'0' } else { *b }).collect();
    out.dedup_by(|a, b| *a == b'0' && *b == b'0');
    out
}

/// Returns the text with each word as `w` and each run of spaces as one: `web-1   | ` is `w | `.
pub(super) fn form(text: &[u8]) -> Vec<u8> {
    let mut out: Vec<u8> = text
        .iter()
        .map(|b| if b.is_ascii_alphanumeric() || b"_-./@".contains(b) || !b.is_ascii() { b'w' } else { *b })
        .collect();
    out.dedup_by(|a, b| a == b && matches!(a, b'w' | b' '));
    out
}
