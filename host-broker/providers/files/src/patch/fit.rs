//! Hunks put in their places.
//!
//! Every context line and every removed line must be there, byte for byte: there is no fuzz. The engine refuses what
//! `git apply` refuses, and puts every other hunk where `git apply` puts it:
//!
//! - A hunk whose head states line 1 belongs to the file's beginning, and nowhere else.
//! - A hunk without context behind its last change belongs to the file's end, and nowhere else.
//! - Any other belongs where its head states, else to the nearest place that fits, of two equally near the later.
//! - No hunk may match what another hunk wrote.
//!
//! Two things that git takes are refused, because GNU patch puts them elsewhere or refuses them too. One is a hunk that
//! belongs before the one that precedes it. The other is new lines without any context that are not stated to be the
//! file's last ones.

use crate::patch::sections::HunkText;
use diffy::{Line, Patch};
use std::collections::HashMap;

/// How many lines may be compared or moved for one patch. An honest one needs some thousands; without a limit, a hostile
/// one of the size that is allowed needs minutes.
const WORK_MAX: usize = 50_000_000;
/// How many lines are moved in the time in which one is compared.
const MOVED_AT_ONCE: usize = 16;
/// The number of a line that a hunk wrote.
const WRITTEN: u32 = u32::MAX;

/// The remaining work that one patch may cause.
pub(super) struct Work(usize);

impl Default for Work {
    fn default() -> Self {
        Self(WORK_MAX)
    }
}

impl Work {
    fn spend(&mut self, lines: usize) -> Result<(), HunkError> {
        self.0 = self.0.checked_sub(lines).ok_or(HunkError::TooMuchWork)?;
        Ok(())
    }
}

/// Why a hunk has no place.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HunkError {
    /// Its lines are no hunk's.
    #[error("{0}")]
    Malformed(String),
    /// It changes nothing.
    #[error("it changes nothing")]
    Nothing,
    /// Only new lines, and nothing that says where in a file with content.
    #[error("it has neither context nor removed lines, so nothing says where it belongs")]
    NoContext,
    /// It states line 1, and its lines are not the file's first ones.
    #[error(
        "it starts at line 1, so it belongs to the beginning of the file, and line {line} of the file is different"
    )]
    NotAtBeginning {
        /// The first line of the file that differs.
        line: usize,
    },
    /// It has no context behind its last change, and its lines are not the file's last ones.
    #[error(
        "it has no context behind its last change, so it belongs to the end of the file, and line {line} of the file is \
         different; a hunk for another place needs context lines behind the change"
    )]
    NotAtEnd {
        /// The first line of the file that differs.
        line: usize,
    },
    /// The only place for it is before the hunk that precedes it.
    #[error("it belongs before the hunk that precedes it; hunks come in the order of their places")]
    OutOfOrder,
    /// The lines are not there.
    #[error(
        "its context and removed lines are nowhere in the file; where it says, line {line} of the file is different"
    )]
    NoPlace {
        /// The first line of the file that differs at the stated place.
        line: usize,
    },
    /// Its result is there already.
    #[error("it does not fit, and its result is already there")]
    Done,
    /// A line without a newline that is not the last one.
    #[error("a line before the last one has no newline")]
    NewlineInside,
    /// Finding a place takes too long.
    #[error("finding its place takes too long: the file has too many lines that are alike")]
    TooMuchWork,
}

/// The base after all hunks; or which one has no place, and why.
pub(super) fn fit(base: &[u8], hunks: &[HunkText<'_>], work: &mut Work) -> Result<Vec<u8>, (usize, HunkError)> {
    // A hunk lends its lines only as long as its patch lives.
    let mut patches = Vec::with_capacity(hunks.len());
    for (index, hunk) in hunks.iter().enumerate() {
        let patch = Patch::from_bytes(hunk.bytes);
        patches.push(patch.map_err(|e| (index, HunkError::Malformed(e.to_string())))?);
    }
    let mut numbers = Numbers::default();
    let lines = base.split_inclusive(|byte| *byte == b'\n').collect();
    let mut image = Image { lines, numbers: Vec::new(), done: 0 };
    image.numbers = image.lines.iter().map(|line| numbers.of(line)).collect();
    for (index, patch) in patches.iter().enumerate() {
        let put = Hunk::read(patch, &mut numbers).and_then(|hunk| image.put(&hunk, work));
        put.map_err(|fault| (index, fault))?;
    }
    let last = image.lines.len().saturating_sub(1);
    if image.lines.iter().take(last).any(|line| line.last() != Some(&b'\n')) {
        return Err((hunks.len().saturating_sub(1), HunkError::NewlineInside));
    }
    Ok(image.lines.concat())
}

/// Equal lines have equal numbers, with and without a newline.
#[derive(Default)]
struct Numbers<'a>(HashMap<&'a [u8], u32>);

impl<'a> Numbers<'a> {
    fn of(&mut self, line: &'a [u8]) -> u32 {
        // There are fewer lines than bytes, and far fewer bytes than numbers.
        let next = u32::try_from(self.0.len()).unwrap_or(WRITTEN);
        *self.0.entry(line.strip_suffix(b"\n").unwrap_or(line)).or_insert(next)
    }
}

struct Hunk<'a> {
    /// Whether the last of the lines that must be there has no newline.
    is_open: bool,
    /// Where it is in the new file and how it knows: counted from 0.
    place: usize,
    at_beginning: bool,
    at_end: bool,
    before: Vec<u32>,
    after: Vec<&'a [u8]>,
    after_numbers: Vec<u32>,
}

impl<'a> Hunk<'a> {
    fn read(patch: &'a Patch<'a, [u8]>, numbers: &mut Numbers<'a>) -> Result<Self, HunkError> {
        let [hunk] = patch.hunks() else { return Err(HunkError::Malformed("it is not one hunk".to_owned())) };
        let (mut before, mut after) = (Vec::new(), Vec::new());
        let (mut changes, mut is_open) = (false, false);
        for line in hunk.lines() {
            match *line {
                Line::Context(line) => {
                    is_open = is_open_ended(line);
                    before.push(numbers.of(line));
                    after.push(line);
                }
                Line::Delete(line) => {
                    is_open = is_open_ended(line);
                    before.push(numbers.of(line));
                }
                Line::Insert(line) => after.push(line),
            }
            changes |= !matches!(line, Line::Context(_));
        }
        if !changes {
            return Err(HunkError::Nothing);
        }
        Ok(Self {
            is_open,
            place: hunk.new_range().start().saturating_sub(1),
            at_beginning: hunk.old_range().start() <= 1,
            at_end: !matches!(hunk.lines().last(), Some(Line::Context(_))),
            before,
            after_numbers: after.iter().map(|line| numbers.of(line)).collect(),
            after,
        })
    }
}

fn is_open_ended(line: &[u8]) -> bool {
    line.last() != Some(&b'\n')
}

struct Image<'a> {
    lines: Vec<&'a [u8]>,
    numbers: Vec<u32>,
    /// Where the last hunk ends.
    done: usize,
}

impl<'a> Image<'a> {
    fn put(&mut self, hunk: &Hunk<'a>, work: &mut Work) -> Result<(), HunkError> {
        let place = self.place(hunk, work)?;
        if place < self.done {
            return Err(HunkError::OutOfOrder);
        }
        work.spend(self.lines.len() / MOVED_AT_ONCE + hunk.after.len())?;
        let end = place + hunk.before.len();
        self.lines.splice(place..end, hunk.after.iter().copied());
        self.numbers.splice(place..end, std::iter::repeat_n(WRITTEN, hunk.after.len()));
        self.done = place + hunk.after.len();
        Ok(())
    }

    fn place(&self, hunk: &Hunk<'_>, work: &mut Work) -> Result<usize, HunkError> {
        let count = self.numbers.len();
        let stated = hunk.place.min(count);
        let last = count.checked_sub(hunk.before.len());
        if hunk.before.is_empty() {
            // Git would put them at the end, even if their head states another place.
            let is_end = count == 0 || !hunk.at_beginning && hunk.place == count;
            return if is_end { Ok(count) } else { Err(HunkError::NoContext) };
        }
        if hunk.at_beginning || hunk.at_end {
            let only = if hunk.at_beginning { Some(0).filter(|_| !hunk.at_end || last == Some(0)) } else { last };
            return match only {
                Some(place) if self.fits(hunk, place, work)? => Ok(place),
                Some(_) | None => Err(self.why_not(hunk, stated, work)?),
            };
        }
        if self.fits(hunk, stated, work)? {
            return Ok(stated);
        }
        for distance in 1..=count {
            let near = [stated.checked_add(distance), stated.checked_sub(distance)];
            for place in near.into_iter().flatten().filter(|place| last.is_some_and(|last| *place <= last)) {
                if self.fits(hunk, place, work)? {
                    return Ok(place);
                }
            }
        }
        Err(self.why_not(hunk, stated, work)?)
    }

    /// Returns whether the hunk's lines are there.
    fn fits(&self, hunk: &Hunk<'_>, place: usize, work: &mut Work) -> Result<bool, HunkError> {
        let is_end = place + hunk.before.len() == self.lines.len();
        let is_open = is_end && self.lines.last().is_some_and(|line| is_open_ended(line));
        // Git also finds context without a final newline where there is one, and then takes the newline away.
        let ends_fit = hunk.is_open == is_open || hunk.is_open && !hunk.at_end;
        Ok(self.matches(&hunk.before, place, work)? && ends_fit)
    }

    fn matches(&self, lines: &[u32], place: usize, work: &mut Work) -> Result<bool, HunkError> {
        let there = self.numbers.get(place..place + lines.len());
        let equal = there.map_or(0, |there| there.iter().zip(lines).take_while(|(one, other)| one == other).count());
        work.spend(equal + 1)?;
        Ok(there.is_some() && equal == lines.len())
    }

    fn why_not(&self, hunk: &Hunk<'_>, stated: usize, work: &mut Work) -> Result<HunkError, HunkError> {
        if !hunk.after_numbers.is_empty() && self.matches(&hunk.after_numbers, stated, work)? {
            return Ok(HunkError::Done);
        }
        let differs = |place: usize| {
            let there = self.numbers.get(place..).unwrap_or_default();
            place + there.iter().zip(&hunk.before).take_while(|(one, other)| one == other).count() + 1
        };
        Ok(if hunk.at_beginning && differs(0) <= hunk.before.len() {
            HunkError::NotAtBeginning { line: differs(0) }
        } else if hunk.at_end {
            HunkError::NotAtEnd { line: differs(self.numbers.len().saturating_sub(hunk.before.len())) }
        } else {
            HunkError::NoPlace { line: differs(stated) }
        })
    }
}
