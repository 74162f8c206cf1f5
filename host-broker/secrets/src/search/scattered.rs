//! Secrets in several parts, in any order, with anything between the parts.
//!
//! A part has four bytes or more and begins or ends a piece. The search compares both edges of each piece with the
//! patterns. The equal bytes of an edge and a pattern are a run. Runs that cover a pattern from its beginning to its end
//! are a secret, if they are no more than [`parts_max`].
//!
//! An outer part of base64 may also have one character and padding between it and the edge: the character depends on
//! the bytes beside the secret, so the pattern lacks it. Other bytes that are encoded together with the secret are text
//! like any other: a part that has them on one side and text on the other side touches no edge, and is not found.
//! A part must not end between the two `\u` escapes of one character.

use super::automata::{Patterns, pieces};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// The fewest bytes of a part. Shorter ones are in every document.
const PART_BYTES_MIN: usize = 4;

/// The most characters of padding at the end of base64.
const PADDING_MAX: usize = 2;

/// How unlikely it must be, in bits, that the edges of random pieces cover a pattern by chance.
const CHANCE_BITS: usize = 16;

/// The places of all groups of four bytes in the patterns, by group.
pub(crate) struct Groups(Vec<(u32, u32, u32)>);

/// The equal bytes of a pattern and of an edge of a piece.
pub(crate) struct Run {
    pub(crate) pattern: usize,
    /// The bytes of the pattern.
    covered: Range<usize>,
    /// The bytes of the view.
    pub(crate) range: Range<usize>,
}

impl Groups {
    /// Reads the patterns at these indices.
    pub(crate) fn of<'a>(patterns: impl Iterator<Item = (usize, &'a [u8])>) -> Self {
        let mut places = Vec::new();
        for (pattern, bytes) in patterns {
            let Ok(pattern) = u32::try_from(pattern) else { continue };
            places.extend(bytes.windows(PART_BYTES_MIN).zip(0..).map(|(group, at)| (key(group), pattern, at)));
        }
        places.sort_unstable();
        Self(places)
    }

    /// Returns the places of this group: a pattern, and an offset in it.
    fn places(&self, group: &[u8]) -> impl Iterator<Item = (usize, usize)> {
        let key = key(group);
        let from = self.0.partition_point(|(other, ..)| *other < key);
        let places = self.0.iter().skip(from).take_while(move |(other, ..)| *other == key);
        places.filter_map(|(_, pattern, at)| Some((usize::try_from(*pattern).ok()?, usize::try_from(*at).ok()?)))
    }
}

/// Returns the first four bytes as a number, with ASCII letters in lower case.
fn key(group: &[u8]) -> u32 {
    group.iter().take(PART_BYTES_MIN).fold(0, |key, byte| (key << 8) | u32::from(byte.to_ascii_lowercase()))
}

impl Patterns {
    /// Returns the patterns of which all parts are there.
    ///
    /// Each edge costs one look-up, and one comparison for each place of its group.
    pub(crate) fn scattered(&self, bytes: &[u8]) -> BTreeSet<usize> {
        let mut longest: BTreeMap<usize, BTreeMap<usize, usize>> = BTreeMap::new();
        let mut count = 0;
        for piece in pieces(bytes).into_iter().filter(|piece| piece.len() >= PART_BYTES_MIN) {
            count += 1;
            self.runs(bytes, &piece, &mut |Run { pattern, covered, .. }| {
                let end = longest.entry(pattern).or_default().entry(covered.start).or_default();
                *end = covered.end.max(*end);
            });
        }
        let are_all = |(pattern, runs): (usize, BTreeMap<usize, usize>)| {
            let needle = self.bytes(pattern)?;
            let parts = parts(&runs, needle.len())?;
            (parts <= parts_max(needle, count)).then_some(pattern)
        };
        longest.into_iter().filter_map(are_all).collect()
    }

    /// Visits the runs at both edges of a piece.
    pub(crate) fn runs(&self, bytes: &[u8], piece: &Range<usize>, each: &mut dyn FnMut(Run)) {
        let text = bytes.get(piece.clone()).unwrap_or_default();
        for beside in 0..=beside_max(text.iter()) {
            let text = text.get(beside..).unwrap_or_default();
            let Some(group) = text.get(..PART_BYTES_MIN) else { break };
            for (pattern, from) in self.groups().places(group) {
                let Some(needle) = self.needle(pattern) else { continue };
                if beside == 0 || (needle.before && from == 0) {
                    let length = common(text.iter(), needle.bytes.iter().skip(from));
                    let start = piece.start + beside;
                    each(Run { pattern, covered: from..from + length, range: start..start + length });
                }
            }
        }
        for beside in 0..=beside_max(text.iter().rev()) {
            let text = text.len().checked_sub(beside).and_then(|end| text.get(..end)).unwrap_or_default();
            let Some(group) = text.last_chunk::<PART_BYTES_MIN>() else { break };
            for (pattern, at) in self.groups().places(group) {
                let Some(needle) = self.needle(pattern) else { continue };
                let to = at + PART_BYTES_MIN;
                if beside == 0 || (needle.after && to == needle.bytes.len()) {
                    let length = common(text.iter().rev(), needle.bytes.iter().take(to).rev());
                    let end = piece.end - beside;
                    each(Run { pattern, covered: to - length..to, range: end - length..end });
                }
            }
        }
    }
}

/// Returns how many characters may stand between an outer part of base64 and the edge at which this text begins.
fn beside_max<'a>(text: impl Iterator<Item = &'a u8>) -> usize {
    text.take(PADDING_MAX).take_while(|byte| **byte == b'=').count() + 1
}

/// Returns how many bytes are equal at the beginning.
fn common<'a>(one: impl Iterator<Item = &'a u8>, other: impl Iterator<Item = &'a u8>) -> usize {
    one.zip(other).take_while(|(one, other)| one.eq_ignore_ascii_case(other)).count()
}

/// Returns the fewest runs that cover everything up to the end. Each run has its beginning for a key.
fn parts(runs: &BTreeMap<usize, usize>, end: usize) -> Option<usize> {
    let (mut parts, mut covered, mut farthest) = (0, 0, 0);
    for (from, to) in runs {
        if *from > covered {
            (parts, covered) = (parts + 1, farthest);
        }
        if *from > covered {
            return None;
        }
        farthest = farthest.max(*to);
    }
    if farthest > covered {
        (parts, covered) = (parts + 1, farthest);
    }
    (covered >= end).then_some(parts)
}

/// Returns in how many parts the pattern is looked for among so many pieces.
///
/// Each edge of a piece is a chance for each part, and each byte of the pattern makes chance less likely. A long list of
/// short hexadecimal numbers covers any pattern of hexadecimal digits, so it says nothing.
fn parts_max(needle: &[u8], pieces: usize) -> usize {
    let bits_per_byte = match needle {
        digits if digits.iter().all(u8::is_ascii_digit) => 3,
        digits if digits.iter().all(u8::is_ascii_hexdigit) => 4,
        _ => 5,
    };
    let bits = needle.len() * bits_per_byte;
    let bits_per_part = (2 * pieces).checked_ilog2().map_or(1, |bits| bits + 1);
    bits.saturating_sub(CHANCE_BITS) / usize::try_from(bits_per_part).unwrap_or(usize::MAX)
}
