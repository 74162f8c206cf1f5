//! Hunks put in their places.
//!
//! Every context line and every removed line must be there, byte for byte: there is no fuzz. A hunk's place is the first
//! of these where that is so: the one its head states; where git looks for a hunk that its author saw at the beginning
//! or the end of the file; the nearest to the stated one, of two equally near the later, as git does it. What one hunk
//! wrote, no other may match.

use crate::providers::files::patch::sections::HunkText;
use diffy::{Line, Patch};
use std::collections::HashMap;

/// How many lines may be compared or moved for one patch. An honest one needs some thousands; without a limit, a hostile
/// one of the size that is allowed needs minutes.
const WORK_MAX: usize = 50_000_000;
/// How many lines are moved in the time in which one is compared.
const MOVED_AT_ONCE: usize = 16;
/// The number of a line that a hunk wrote.
const WRITTEN: u32 = u32::MAX;

/// What is left of the work that one patch may cause.
pub(super) struct Work(usize);

impl Default for Work {
    fn default() -> Self {
        Self(WORK_MAX)
    }
}

impl Work {
    fn spend(&mut self, lines: usize) -> Result<(), HunkFault> {
        self.0 = self.0.checked_sub(lines).ok_or(HunkFault::TooMuchWork)?;
        Ok(())
    }
}

/// Why a hunk has no place.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HunkFault {
    /// Its lines are no hunk's.
    #[error("{0}")]
    Malformed(String),
    /// It changes nothing.
    #[error("it changes nothing")]
    Nothing,
    /// Only new lines, and nothing that says where in a file with content.
    #[error("it has neither context nor removed lines, so nothing says where it belongs")]
    NoContext,
    /// The lines are not there.
    #[error(
        "its context and removed lines are nowhere in the file; where it says, line {line} of the file is different"
    )]
    NoPlace {
        /// The first line of the file that differs at the stated place.
        line: usize,
    },
    /// What it would make is there already.
    #[error("it does not fit, and what it would make is already there")]
    Done,
    /// A line without a newline that is not the last one.
    #[error("a line before the last one has no newline")]
    NewlineInside,
    /// Finding a place takes too long.
    #[error("finding its place takes too long: the file has too many lines that are alike")]
    TooMuchWork,
}

/// The base after all hunks; or which one has no place, and why.
pub(super) fn fit(base: &[u8], hunks: &[HunkText<'_>], work: &mut Work) -> Result<Vec<u8>, (usize, HunkFault)> {
    // A hunk lends its lines only as long as its patch lives.
    let mut patches = Vec::with_capacity(hunks.len());
    for (index, hunk) in hunks.iter().enumerate() {
        let patch = Patch::from_bytes(hunk.bytes);
        patches.push(patch.map_err(|e| (index, HunkFault::Malformed(e.to_string())))?);
    }
    let mut numbers = Numbers::default();
    let mut image = Image { lines: base.split_inclusive(|byte| *byte == b'\n').collect(), numbers: Vec::new() };
    image.numbers = image.lines.iter().map(|line| numbers.of(line)).collect();
    for (index, patch) in patches.iter().enumerate() {
        let put = Hunk::read(patch, &mut numbers).and_then(|hunk| image.put(&hunk, work));
        put.map_err(|fault| (index, fault))?;
    }
    let last = image.lines.len().saturating_sub(1);
    if image.lines.iter().take(last).any(|line| line.last() != Some(&b'\n')) {
        return Err((hunks.len().saturating_sub(1), HunkFault::NewlineInside));
    }
    Ok(image.lines.concat())
}

/// Equal lines have equal numbers.
#[derive(Default)]
struct Numbers<'a>(HashMap<&'a [u8], u32>);

impl<'a> Numbers<'a> {
    fn of(&mut self, line: &'a [u8]) -> u32 {
        // There are fewer lines than bytes, and far fewer bytes than numbers.
        let next = u32::try_from(self.0.len()).unwrap_or(WRITTEN);
        *self.0.entry(line).or_insert(next)
    }
}

struct Hunk<'a> {
    /// Where it is in the new file and how it knows: counted from 0.
    place: usize,
    at_beginning: bool,
    at_end: bool,
    before: Vec<u32>,
    after: Vec<&'a [u8]>,
    after_numbers: Vec<u32>,
}

impl<'a> Hunk<'a> {
    fn read(patch: &'a Patch<'a, [u8]>, numbers: &mut Numbers<'a>) -> Result<Self, HunkFault> {
        let [hunk] = patch.hunks() else { return Err(HunkFault::Malformed("it is not one hunk".to_owned())) };
        let (mut before, mut after) = (Vec::new(), Vec::new());
        let mut changes = false;
        for line in hunk.lines() {
            match *line {
                Line::Context(line) => {
                    before.push(numbers.of(line));
                    after.push(line);
                }
                Line::Delete(line) => before.push(numbers.of(line)),
                Line::Insert(line) => after.push(line),
            }
            changes |= !matches!(line, Line::Context(_));
        }
        if !changes {
            return Err(HunkFault::Nothing);
        }
        Ok(Self {
            place: hunk.new_range().start().saturating_sub(1),
            at_beginning: hunk.old_range().start() <= 1,
            at_end: !matches!(hunk.lines().last(), Some(Line::Context(_))),
            before,
            after_numbers: after.iter().map(|line| numbers.of(line)).collect(),
            after,
        })
    }
}

struct Image<'a> {
    lines: Vec<&'a [u8]>,
    numbers: Vec<u32>,
}

impl<'a> Image<'a> {
    fn put(&mut self, hunk: &Hunk<'a>, work: &mut Work) -> Result<(), HunkFault> {
        let place = self.place(hunk, work)?;
        work.spend(self.lines.len() / MOVED_AT_ONCE + hunk.after.len())?;
        let end = place + hunk.before.len();
        self.lines.splice(place..end, hunk.after.iter().copied());
        self.numbers.splice(place..end, std::iter::repeat_n(WRITTEN, hunk.after.len()));
        Ok(())
    }

    fn place(&self, hunk: &Hunk<'_>, work: &mut Work) -> Result<usize, HunkFault> {
        let count = self.numbers.len();
        if hunk.before.is_empty() {
            return if count == 0 { Ok(0) } else { Err(HunkFault::NoContext) };
        }
        let stated = hunk.place.min(count);
        let last = count.checked_sub(hunk.before.len());
        let first = Some(0).filter(|_| hunk.at_beginning && (!hunk.at_end || last == Some(0)));
        let end = last.filter(|_| hunk.at_end && !hunk.at_beginning);
        for place in [Some(stated), first, end].into_iter().flatten() {
            if self.matches(&hunk.before, place, work)? {
                return Ok(place);
            }
        }
        for distance in 1..=count {
            let near = [stated.checked_add(distance), stated.checked_sub(distance)];
            for place in near.into_iter().flatten().filter(|place| last.is_some_and(|last| *place <= last)) {
                if self.matches(&hunk.before, place, work)? {
                    return Ok(place);
                }
            }
        }
        Err(self.why_not(hunk, stated, work)?)
    }

    fn matches(&self, lines: &[u32], place: usize, work: &mut Work) -> Result<bool, HunkFault> {
        let there = self.numbers.get(place..place + lines.len());
        let equal = there.map_or(0, |there| there.iter().zip(lines).take_while(|(one, other)| one == other).count());
        work.spend(equal + 1)?;
        Ok(there.is_some() && equal == lines.len())
    }

    fn why_not(&self, hunk: &Hunk<'_>, stated: usize, work: &mut Work) -> Result<HunkFault, HunkFault> {
        if !hunk.after_numbers.is_empty() && self.matches(&hunk.after_numbers, stated, work)? {
            return Ok(HunkFault::Done);
        }
        let there = self.numbers.get(stated..).unwrap_or_default();
        let equal = there.iter().zip(&hunk.before).take_while(|(one, other)| one == other).count();
        Ok(HunkFault::NoPlace { line: stated + equal + 1 })
    }
}
