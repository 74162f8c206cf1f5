//! Secrets in several parts, in any order, with anything between the parts.
//!
//! A part of four bytes or more begins or ends a piece. The search compares both edges of each piece with the patterns.
//! The equal bytes of an edge and a pattern are a run. A part of one to three bytes is a whole piece, because shorter
//! edges are in every document. Runs and such pieces that cover a pattern from its beginning to its end are a secret, if
//! chance does not make as many ([`parts_max`]).
//!
//! An outer part of base64 may also have one character and padding between it and the edge: the character depends on
//! the bytes beside the secret, so the pattern lacks it. Other bytes that are encoded together with the secret are text
//! like any other: a part that has them on one side and text on the other side touches no edge, and is not found.
//! A part must not end between the two `\u` escapes of one character.
//!
//! The work is linear: each edge of a piece is compared with the places of its first bytes, and each pattern is looked
//! at from its beginning to the first place that no part covers.

mod cover;
#[cfg(test)]
mod tests;

use self::cover::{Cover, Runs};
use super::automata::{Patterns, pieces};
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::ops::Range;

/// The fewest bytes of a part at an edge. Shorter ones are in every document.
const PART_BYTES_MIN: usize = 4;

/// The most characters of padding at the end of base64.
const PADDING_MAX: usize = 2;

/// How unlikely it must be, in bits, that the edges of random pieces cover a pattern by chance.
const CHANCE_BITS: usize = 16;

/// The places of groups of bytes in the patterns.
pub(crate) struct Groups {
    /// All groups of four bytes: the group, the pattern, and the offset in it.
    places: Vec<(u32, u32, u32)>,
    /// The first one, two and three bytes of each pattern.
    beginnings: Vec<(u32, u32)>,
}

/// The equal bytes of a pattern and of an edge of a piece.
pub(crate) struct Run {
    pub(crate) pattern: usize,
    /// The bytes of the pattern.
    covered: Range<usize>,
    /// The bytes of the view.
    pub(crate) range: Range<usize>,
}

/// The secrets of which all parts are in a view.
#[derive(Default)]
pub(crate) struct Scattered {
    patterns: BTreeSet<usize>,
    /// The pieces of fewer than four bytes that are a part, each with a pattern.
    shorts: BTreeMap<u32, usize>,
}

impl Scattered {
    pub(crate) fn is_empty(&self) -> bool {
        self.patterns.is_empty()
    }

    /// Returns whether the runs of this pattern are parts of a secret.
    pub(crate) fn has(&self, pattern: usize) -> bool {
        self.patterns.contains(&pattern)
    }

    /// Returns the pattern of which a whole piece of fewer than four bytes is a part.
    pub(crate) fn of_short(&self, piece: &[u8]) -> Option<usize> {
        self.shorts.get(&short_key(piece)?).copied()
    }
}

/// The pieces of fewer than four bytes, each once, in order.
struct Shorts(Vec<u32>);

impl Shorts {
    fn of<'a>(pieces: impl Iterator<Item = &'a [u8]>) -> Self {
        let mut keys: Vec<u32> = pieces.filter_map(short_key).collect();
        keys.sort_unstable();
        keys.dedup();
        Self(keys)
    }

    /// Returns whether these bytes are a whole piece.
    fn has(&self, part: &[u8]) -> bool {
        work::add(1);
        short_key(part).is_some_and(|key| self.0.binary_search(&key).is_ok())
    }
}

/// Returns fewer than four bytes as a number that differs for each length, with ASCII letters in lower case.
fn short_key(part: &[u8]) -> Option<u32> {
    let is_short = (1..PART_BYTES_MIN).contains(&part.len());
    is_short.then(|| part.iter().fold(1, |key, byte| (key << 8) | u32::from(byte.to_ascii_lowercase())))
}

impl Groups {
    /// Reads the patterns at these indices.
    pub(crate) fn of<'a>(patterns: impl Iterator<Item = (usize, &'a [u8])>) -> Self {
        let (mut places, mut beginnings) = (Vec::new(), Vec::new());
        for (pattern, bytes) in patterns {
            let Ok(pattern) = u32::try_from(pattern) else { continue };
            places.extend(bytes.windows(PART_BYTES_MIN).zip(0..).map(|(group, at)| (key(group), pattern, at)));
            let keys = (1..PART_BYTES_MIN).filter_map(|length| short_key(bytes.get(..length)?));
            beginnings.extend(keys.map(|key| (key, pattern)));
        }
        places.sort_unstable();
        beginnings.sort_unstable();
        Self { places, beginnings }
    }

    /// Returns the places of this group: a pattern, and an offset in it.
    fn places(&self, group: &[u8]) -> impl Iterator<Item = (usize, usize)> {
        let key = key(group);
        let from = self.places.partition_point(|(other, ..)| *other < key);
        let places = self.places.iter().skip(from).take_while(move |(other, ..)| *other == key);
        places.filter_map(|(_, pattern, at)| Some((usize::try_from(*pattern).ok()?, usize::try_from(*at).ok()?)))
    }

    /// Returns the patterns that begin with one of the short pieces.
    fn beginning(&self, shorts: &Shorts) -> impl Iterator<Item = usize> {
        let of_short = |key: &u32| {
            let key = *key;
            let from = self.beginnings.partition_point(|(other, _)| *other < key);
            self.beginnings.iter().skip(from).take_while(move |(other, _)| *other == key)
        };
        shorts.0.iter().flat_map(of_short).filter_map(|(_, pattern)| usize::try_from(*pattern).ok())
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
    pub(crate) fn scattered(&self, bytes: &[u8]) -> Scattered {
        let pieces = pieces(bytes);
        let text = |piece: &Range<usize>| bytes.get(piece.clone()).unwrap_or_default();
        let mut runs: BTreeMap<usize, Runs> = BTreeMap::new();
        // A text that repeats a piece with many runs must not cost them each time.
        let mut known: HashSet<&[u8]> = HashSet::new();
        let mut count = 0;
        for piece in pieces.iter().filter(|piece| piece.len() >= PART_BYTES_MIN) {
            count += 1;
            if known.contains(text(piece)) {
                continue;
            }
            let mut has_runs = false;
            self.runs(bytes, piece, &mut |Run { pattern, covered, .. }| {
                has_runs = true;
                runs.entry(pattern).or_default().add(covered);
            });
            known.extend(has_runs.then(|| text(piece)));
        }
        let shorts = Shorts::of(pieces.iter().map(text));
        let mut found = Scattered::default();
        let beginning: BTreeSet<usize> = self.groups().beginning(&shorts).chain(runs.keys().copied()).collect();
        for pattern in beginning {
            let Some(needle) = self.bytes(pattern) else { continue };
            let cover = Cover { needle, runs: runs.get(&pattern), shorts: &Shorts(Vec::new()) };
            let is_there = cover.parts().is_some_and(|parts| parts <= parts_max(needle, count, false));
            let most = parts_max(needle, count + shorts.0.len(), true);
            let cover = Cover { shorts: &shorts, ..cover };
            if is_there || cover.parts().is_some_and(|parts| parts <= most) {
                found.patterns.insert(pattern);
                found.shorts.extend(cover.shorts_within(most).into_iter().map(|key| (key, pattern)));
            }
        }
        found
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
    let count = one.zip(other).take_while(|(one, other)| one.eq_ignore_ascii_case(other)).count();
    work::add(count + 1);
    count
}

/// Returns in how many parts the pattern is looked for among so many pieces.
///
/// Each edge of a piece is a chance for each part, and each byte of the pattern makes chance less likely. A long list of
/// short hexadecimal numbers covers any pattern of hexadecimal digits, so it says nothing. Short pieces count less: the
/// numbers of all letters in a row make any text of letters.
fn parts_max(needle: &[u8], pieces: usize, with_shorts: bool) -> usize {
    let bits_per_byte = match needle {
        digits if digits.iter().all(u8::is_ascii_digit) => 3 - usize::from(with_shorts),
        digits if digits.iter().all(u8::is_ascii_hexdigit) => 4 - usize::from(with_shorts),
        _ => 5,
    };
    let bits = needle.len() * bits_per_byte;
    let bits_per_part = (2 * pieces).checked_ilog2().map_or(1, |bits| bits + 1);
    bits.saturating_sub(CHANCE_BITS) / usize::try_from(bits_per_part).unwrap_or(usize::MAX)
}

/// The compared bytes and look-ups, for the tests that bound them.
pub(crate) mod work {
    #[cfg(test)]
    thread_local! {
        static DONE: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
    }

    #[cfg(test)]
    pub(crate) fn add(count: usize) {
        DONE.set(DONE.get() + count);
    }

    #[cfg(not(test))]
    pub(crate) fn add(_count: usize) {}

    /// Returns what was done since the last call.
    #[cfg(test)]
    pub(crate) fn take() -> usize {
        DONE.replace(0)
    }
}
