//! Whether parts cover a pattern from its beginning to its end.

use super::{PART_BYTES_MIN, Shorts, short_key};
use std::collections::BTreeMap;
use std::ops::Range;

/// The runs of one pattern.
#[derive(Default)]
pub(super) struct Runs {
    /// The farthest end for each beginning.
    ends: BTreeMap<usize, usize>,
    /// The farthest beginning for each end.
    beginnings: BTreeMap<usize, usize>,
}

impl Runs {
    pub(super) fn add(&mut self, covered: Range<usize>) {
        let end = self.ends.entry(covered.start).or_insert(covered.end);
        *end = covered.end.max(*end);
        let beginning = self.beginnings.entry(covered.end).or_insert(covered.start);
        *beginning = covered.start.min(*beginning);
    }

    /// Returns the bytes that runs cover, in order and without touching each other.
    fn covered(&self) -> Vec<Range<usize>> {
        let mut all: Vec<Range<usize>> = Vec::new();
        for (start, end) in &self.ends {
            match all.last_mut() {
                Some(last) if *start <= last.end => last.end = last.end.max(*end),
                _ => all.push(*start..*end),
            }
        }
        all
    }
}

/// A pattern, and the parts of it that a text has.
pub(super) struct Cover<'a> {
    pub(super) needle: &'a [u8],
    pub(super) runs: Option<&'a Runs>,
    pub(super) shorts: &'a Shorts,
}

impl Cover<'_> {
    /// Returns the fewest parts that cover the pattern.
    pub(super) fn parts(&self) -> Option<usize> {
        self.forwards().get(self.needle.len()).copied()
    }

    /// Returns the short pieces with which so many parts cover the pattern. Those that only repeat bytes of another part
    /// are none of them.
    pub(super) fn shorts_within(&self, most: usize) -> Vec<u32> {
        let (before, after) = (self.forwards(), self.backwards());
        let covered = self.runs.map(Runs::covered).unwrap_or_default();
        let repeats = |place: &Range<usize>| {
            let next = covered.partition_point(|run| run.end < place.end);
            covered.get(next).is_some_and(|run| run.start <= place.start) || self.is_in_longer(place)
        };
        let key = |place: Range<usize>| {
            let part = self.needle.get(place.clone()).filter(|part| self.shorts.has(part))?;
            let parts = before.get(place.start)? + 1 + after.get(self.needle.len() - place.end)?;
            if parts <= most && !repeats(&place) { short_key(part) } else { None }
        };
        let places = (0..self.needle.len()).flat_map(|from| (1..PART_BYTES_MIN).map(move |length| from..from + length));
        places.filter_map(key).collect()
    }

    /// Returns whether a longer short piece holds this place.
    fn is_in_longer(&self, place: &Range<usize>) -> bool {
        let lengths = place.len() + 1..PART_BYTES_MIN;
        let mut longer = lengths.flat_map(|length| {
            let starts = place.end.saturating_sub(length)..=place.start;
            starts.map(move |start| start..start + length)
        });
        longer.any(|place| self.needle.get(place).is_some_and(|part| self.shorts.has(part)))
    }

    /// Returns the fewest parts that cover the first bytes, for each number of bytes that parts cover.
    fn forwards(&self) -> Vec<usize> {
        let lengths = || (1..PART_BYTES_MIN).rev();
        levels(self.needle.len(), |at| {
            let short =
                lengths().find(|length| self.needle.get(at..at + length).is_some_and(|part| self.shorts.has(part)));
            let run = self.runs.and_then(|runs| runs.ends.get(&at)).copied().unwrap_or_default();
            run.max(at + short.unwrap_or_default())
        })
    }

    /// The same for the last bytes.
    fn backwards(&self) -> Vec<usize> {
        let lengths = || (1..PART_BYTES_MIN).rev();
        let all = self.needle.len();
        levels(all, |at| {
            let end = all - at;
            let part = |length: usize| self.needle.get(end.checked_sub(length)?..end);
            let short = lengths().find(|length| part(*length).is_some_and(|part| self.shorts.has(part)));
            let run = self.runs.and_then(|runs| runs.beginnings.get(&end)).map_or(0, |beginning| all - beginning);
            run.max(at + short.unwrap_or_default())
        })
    }
}

/// Returns the fewest steps to each place up to the end, as far as steps lead without a gap. Parts may overlap, because
/// the text beside a part may equal the next bytes by chance.
fn levels(end: usize, farthest: impl Fn(usize) -> usize) -> Vec<usize> {
    let mut levels = vec![0];
    let (mut next, mut reached, mut steps) = (0, 0, 0);
    while levels.len() <= end {
        while next < levels.len() {
            reached = farthest(next).max(reached);
            next += 1;
        }
        if reached < levels.len() {
            break;
        }
        steps += 1;
        levels.resize(reached + 1, steps);
    }
    levels
}
