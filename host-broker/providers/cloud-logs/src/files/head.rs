//! The beginning of a log file: how its lines are read, and where its first entry is.

use super::lines::Lines;
use super::scan::PROBE;
use crate::format::{Format, Profile, unmarked};
use crate::time::Frame;
use std::io::{self, Read};

/// How many of a file's first lines decide how it is read, and how far into it they may reach.
const HEAD_LINES: usize = 32;
/// How far into a file its first time stamp may stand.
pub(super) const HEAD_BYTES: u64 = 256 * 1024;

/// The facts that a file's beginning gives.
pub(super) struct Head {
    /// How its lines are read.
    pub(super) profile: Profile,
    /// The time of its first entry.
    pub(super) born: i64,
    /// The least time near its front.
    pub(super) earliest: i64,
    /// How many lines before its first entry are not empty.
    pub(super) leading: u64,
    /// Whether it is compressed.
    pub(super) packed: bool,
}

impl Head {
    /// Reads the beginning of a file; `None` if no line there has a time.
    ///
    /// # Errors
    /// The source's.
    pub(super) fn read<R: Read>(source: R, format: Format, frame: Frame, packed: bool) -> io::Result<Option<Self>> {
        let mut lines = Lines::new(source, 0, PROBE);
        let first_lines = first_lines(&mut lines)?;
        let profile = Profile::learn(format, &first_lines, frame);
        let times: Vec<i64> = first_lines.iter().filter_map(|line| profile.time(line)).collect();
        if let Some(born) = times.first().copied() {
            let earliest = times.into_iter().fold(born, i64::min);
            let leading = texts_before_entry(&first_lines, &profile);
            return Ok(Some(Self { profile, born, earliest, leading, packed }));
        }
        // No time among them: the first line that has one decides.
        let mut leading = 0;
        while let Some(line) = lines.next()? {
            let profile = Profile::learn(format, &[line.text.to_vec()], frame);
            if let Some(time) = profile.time(line.text) {
                // Read like that, one of the first may have a time as well.
                let first = first_lines.iter().find_map(|line| profile.time(line));
                let between = if first.is_some() { 0 } else { leading };
                let leading = texts_before_entry(&first_lines, &profile) + between;
                let born = first.unwrap_or(time);
                return Ok(Some(Self { profile, born, earliest: born.min(time), leading, packed }));
            }
            leading += u64::from(!line.text.is_empty());
        }
        Ok(None)
    }
}

/// Returns how many of a file's first lines stand before its first entry, empty ones left out.
///
/// # Errors
/// The source's.
pub(super) fn leading<R: Read>(source: R, profile: &Profile) -> io::Result<u64> {
    let mut lines = Lines::new(source, 0, PROBE);
    let mut leading = 0;
    while let Some(line) = lines.next()?
        && profile.time(line.text).is_none()
    {
        leading += u64::from(!unmarked(line.text).is_empty());
    }
    Ok(leading)
}

/// Returns a file's first lines. An empty line may end a paragraph; further empty lines end nothing.
fn first_lines<R: Read>(lines: &mut Lines<R>) -> io::Result<Vec<Vec<u8>>> {
    let mut first: Vec<Vec<u8>> = Vec::new();
    let mut texts = 0;
    while texts < HEAD_LINES
        && let Some(line) = lines.next()?
    {
        let text = unmarked(line.text);
        if !text.is_empty() || first.last().is_none_or(|before| !before.is_empty()) {
            texts += usize::from(!text.is_empty());
            first.push(text.to_vec());
        }
    }
    Ok(first)
}

/// Returns how many of the lines, empty ones left out, stand before the first that begins an entry.
fn texts_before_entry(lines: &[Vec<u8>], profile: &Profile) -> u64 {
    let before = lines.iter().take_while(|line| profile.time(line).is_none());
    before.map(|line| u64::from(!line.is_empty())).sum()
}
