//! One log file, looked through for the newest of its entries.
//!
//! A file of up to 32 MiB is read whole, and so is a compressed one, up to a limit. A larger one is searched by time: a
//! binary search finds where the window ends. From there, segments are read towards the front until the window begins or
//! enough was found. So the amount that is read depends on the answer and not on the file.
//!
//! INVARIANT: a large file stays partly unread only if its lines are in the order of time, within [`slack`], as far as
//! samples from the whole file and all that is read show. Otherwise the file is read whole, if it is not too large for
//! that. Whenever a part that may hold entries of the window stays unread, the answer says so.
//!
//! A form of lines that appears behind the first lines is learned on demand ([`late`]).
//!
//! SECURITY: that order is the writers' word, and a line break in a request may forge a line with any time, to make a
//! search stop or turn away before it reaches what it should not see. So no single line decides: medians do, and a
//! place that was found by searching is looked at once more. Hiding takes a flood of forged lines, which shows.

mod by_id;
mod late;

use super::gather::Gather;
use super::head::{HEAD_BYTES, Head};
use super::lines::{Lines, Meter, Span, Unpacked};
use super::listing::{FileRef, Stream};
use crate::format::{Format, Profile};
use crate::search::{Newest, Search};
use crate::time::{Frame, Order, Zone};
use crate::window::Window;
use shared::Timestamp;
use std::cell::Cell;
use std::fs::File;
use std::io::{self, Read};

const MINUTE_MS: i64 = 60 * 1000;
const HOUR_MS: i64 = 60 * MINUTE_MS;
const DAY_MS: i64 = 24 * HOUR_MS;

/// How much disorder is expected of writers that buffer or race.
const DISORDER_MS: i64 = MINUTE_MS;
/// A file that has not changed for so long will not get the rest of its last line.
const SETTLED_MS: i64 = MINUTE_MS;
/// The bytes of one read in the search for a place.
pub(super) const PROBE: usize = 8 * 1024;
/// The bytes of one read in sequential reading.
const BLOCK: usize = 64 * 1024;
/// How far apart the places are that are read from backwards.
const SEGMENT: u64 = 512 * 1024;
/// The number of entries whose time determines the time at a place.
const WITNESSES: usize = 9;
/// A file of at most so many bytes is read whole.
const WHOLE_MAX: u64 = 32 * 1024 * 1024;
/// A larger one whose lines are not in the order of time is read whole up to so many.
const UNORDERED_MAX: u64 = 512 * 1024 * 1024;
/// In how many places a large file is looked at to find whether it is in the order of time.
const SAMPLES: u64 = 32;
/// A binary search ends when so little is left.
const NEAR: u64 = 32 * 1024;
/// How files begin that are compressed, but not with gzip.
const OTHER_COMPRESSIONS: [(&[u8], &str); 3] =
    [(&[0xfd, b'7', b'z', b'X', b'Z'], "xz"), (&[0x28, 0xb5, 0x2f, 0xfd], "zstd"), (b"BZh", "bzip2")];

/// Why a file could not be looked through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ScanError {
    /// The meter said so.
    Stopped,
    /// It cannot be read.
    Read,
    /// It is compressed, and damaged.
    Damaged,
    /// It is compressed in another way.
    Compression(&'static str),
}

/// The part of a file that was looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Looked {
    /// The depth to which the file was read.
    pub(super) depth: Depth,
    /// The counts of what is not in the answer.
    pub(super) counts: Counts,
}

/// Counts of lines and entries that a search does not return.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Counts {
    /// How many lines, empty ones left out, stand before the first entry and belong to none.
    pub(super) leading: u64,
    /// How many lines have a time of their own that is searched for, and stand in entries that are not.
    pub(super) misplaced: u64,
    /// How many entries may match in the part that was not kept.
    pub(super) unsearched: u64,
}

/// How much of a file was looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Depth {
    /// All that the search asks for.
    AsAsked,
    /// All that the search asks for, if the part that was not read is in the order of time.
    Sampled,
    /// Only a part: the file is not in the order of time, and too large to be read whole.
    Unordered,
    /// Only so much of it as a compressed file may unfold to.
    Capped,
    /// Nothing: no line says when it was written.
    NoTimes,
}

/// An open log file.
#[derive(Debug)]
pub(super) struct LogFile {
    file: File,
    len: u64,
    changed: i64,
    settled: bool,
    format: Format,
    zone: Zone,
}

/// Where a large file is searched, and for what.
struct Scope<'s> {
    profile: &'s Profile,
    window: Window,
    slack: i64,
    meter: &'s Meter,
}

impl LogFile {
    /// A file that was listed and opened.
    pub(super) fn new(file: File, listed: &FileRef, format: Format, zone: Zone, now: Timestamp) -> Self {
        // Lines that are appended from now on belong to another search.
        let len = file.metadata().map_or(0, |meta| meta.len());
        let settled = now.millis().saturating_sub(listed.changed) > SETTLED_MS;
        Self { file, len, changed: listed.changed, settled, format, zone }
    }

    /// Offers the newest entries that are searched for. If the search is for a service that is not the stream's own,
    /// only entries count whose program is that service.
    pub(super) fn newest(
        &mut self,
        stream: &Stream,
        search: &Search,
        whole_stream: bool,
        meter: &Meter,
        newest: &mut Newest,
    ) -> Result<Looked, ScanError> {
        let looked = |depth| Looked { depth, counts: Counts::default() };
        let Some(mut head) = self.head(meter)? else {
            return Ok(looked(if self.len == 0 { Depth::AsAsked } else { Depth::NoTimes }));
        };
        if !whole_stream && !head.profile.names_programs() {
            return Ok(looked(Depth::AsAsked));
        }
        let program = search.service.as_deref().filter(|_| !whole_stream);
        if !self.is_read_whole(&head) {
            // The search by time needs all forms.
            self.learn_late_forms(&mut head, meter);
        }
        let mut part = newest.part();
        let (mut result, has_late_lines) = self.gather(&head, stream, search, program, meter, &mut part);
        if has_late_lines && self.is_read_whole(&head) && self.learn_late_forms(&mut head, meter) {
            part = newest.part();
            (result, _) = self.gather(&head, stream, search, program, meter, &mut part);
        }
        // Also of a file that cannot be read to its end.
        newest.offer_all(part.into_records());
        result
    }

    /// Offers the newest entries. Returns whether lines of a form that was not learned may be entries, too.
    fn gather(
        &self,
        head: &Head,
        stream: &Stream,
        search: &Search,
        program: Option<&str>,
        meter: &Meter,
        newest: &mut Newest,
    ) -> (Result<Looked, ScanError>, bool) {
        let window = search.open_window();
        let scope = Scope { profile: &head.profile, window, slack: slack(&head.profile, window), meter };
        let mut gather = Gather::new(&head.profile, head.born, stream, search, program, newest);
        let depth = if head.packed {
            self.packed_newest(&mut gather, window, meter)
        } else {
            self.plain_newest(head, &mut gather, &scope).map_err(|e| fault(&e, meter, false))
        };
        // The leading lines of a file that was last changed before the window do not count.
        let leading = if self.changed.saturating_add(DAY_MS) < window.since { 0 } else { head.leading };
        let counts = Counts { leading, misplaced: gather.misplaced(), unsearched: gather.unsearched() };
        (depth.map(|depth| Looked { depth, counts }), gather.has_late_lines())
    }

    /// The times of the first and the last entry; a compressed file's last is when it last changed.
    pub(super) fn span(&mut self, meter: &Meter) -> Result<Option<(i64, i64)>, ScanError> {
        let Some(mut head) = self.head(meter)? else { return Ok(None) };
        if head.packed {
            return Ok(Some((head.born, self.changed.max(head.born))));
        }
        let (mut latest, stamped) = self.tail(&head.profile, meter).map_err(|e| fault(&e, meter, false))?;
        if stamped.is_some() && self.learn_late_forms(&mut head, meter) {
            (latest, _) = self.tail(&head.profile, meter).map_err(|e| fault(&e, meter, false))?;
        }
        Ok(Some((head.born, latest.unwrap_or(head.born))))
    }

    fn head(&mut self, meter: &Meter) -> Result<Option<Head>, ScanError> {
        let mut magic = Vec::new();
        Span::new(&self.file, 0, 6, meter).read_to_end(&mut magic).map_err(|e| fault(&e, meter, false))?;
        let packed = magic.starts_with(&[0x1f, 0x8b]);
        if let Some((_, name)) = OTHER_COMPRESSIONS.iter().find(|(start, _)| magic.starts_with(start)) {
            return Err(ScanError::Compression(name));
        }
        let frame = Frame { zone: self.zone, latest: self.changed, order: Order::default() };
        let capped = Cell::new(false);
        let source = self.content(packed, meter, &capped).take(HEAD_BYTES);
        Head::read(source, self.format, frame, packed).map_err(|e| fault(&e, meter, packed))
    }

    /// The text of the file.
    fn content<'m>(&'m self, packed: bool, meter: &'m Meter, capped: &'m Cell<bool>) -> Box<dyn Read + 'm> {
        if packed {
            Box::new(Unpacked::new(&self.file, self.len, meter, capped))
        } else {
            Box::new(Span::new(&self.file, 0, self.len, meter))
        }
    }

    /// The latest time of an entry near the end, and of the lines there that have a time and begin no entry.
    fn tail(&self, profile: &Profile, meter: &Meter) -> io::Result<(Option<i64>, Option<i64>)> {
        let mut reach = NEAR;
        loop {
            let start = self.len.saturating_sub(reach);
            let mut lines = self.lines_behind(start, self.len, PROBE, meter)?;
            let (mut latest, mut stamped) = (None, None);
            while let Some(line) = lines.next()? {
                match profile.time(line.text) {
                    Some(time) => latest = latest.max(Some(time)),
                    None => stamped = stamped.max(profile.stamped(line.text).map(|(_, time)| time)),
                }
            }
            if latest.is_some() || start == 0 {
                return Ok((latest, stamped));
            }
            reach = reach.saturating_mul(4);
        }
    }

    /// The lines that start at or behind an offset and before another.
    fn lines_behind<'m>(&'m self, start: u64, end: u64, block: usize, meter: &'m Meter) -> io::Result<Lines<Span<'m>>> {
        let before = start.saturating_sub(1);
        let mut lines = Lines::new(Span::new(&self.file, before, end, meter), before, block);
        if start > 0 {
            lines.next()?;
        }
        Ok(lines)
    }

    /// The first entry that starts at or behind an offset and before another, and the median time of the first few.
    fn probe(&self, profile: &Profile, start: u64, end: u64, meter: &Meter) -> io::Result<Option<(u64, i64)>> {
        let mut lines = self.lines_behind(start, end, PROBE, meter)?;
        let mut first = None;
        let mut times = Vec::new();
        while times.len() < WITNESSES
            && let Some(line) = lines.next()?
        {
            if let Some(time) = profile.time(line.text) {
                first.get_or_insert(line.offset);
                times.push(time);
            }
        }
        Ok(first.zip(median(times)))
    }

    /// Returns an offset, the start of an entry or the file's end, behind which every entry is at least as late as
    /// `time`.
    ///
    /// Entries before it may be as late, too.
    fn boundary(&self, profile: &Profile, time: i64, slack: i64, meter: &Meter) -> io::Result<u64> {
        let (mut low, mut high, mut found) = (0, self.len, self.len);
        while high.saturating_sub(low) > NEAR {
            let middle = low + (high - low) / 2;
            match self.probe(profile, middle, high, meter)? {
                Some((offset, t)) if t < time => low = offset + 1,
                Some((offset, _)) => (found, high) = (offset, middle),
                // One entry reaches from before the middle to `high`.
                None => high = middle,
            }
        }
        // The lines behind it must confirm it; else only reading everything is certain.
        let mut lines = self.lines_behind(found, self.len.min(found.saturating_add(NEAR)), PROBE, meter)?;
        let mut times = Vec::new();
        while let Some(line) = lines.next()? {
            times.extend(profile.time(line.text));
        }
        Ok(if median(times).is_none_or(|t| t.saturating_add(slack) >= time) { found } else { self.len })
    }

    fn plain_newest(&self, head: &Head, gather: &mut Gather<'_>, scope: &Scope<'_>) -> io::Result<Depth> {
        let (Some(last), stamped) = self.tail(scope.profile, scope.meter)? else { return Ok(Depth::AsAsked) };
        let latest =
            last.max(stamped.unwrap_or(last)).max(self.changed.saturating_add(DAY_MS)).saturating_add(scope.slack);
        if latest < scope.window.since || gather.floor().is_some_and(|floor| latest < floor.time) {
            return Ok(Depth::AsAsked);
        }
        if self.len > WHOLE_MAX {
            let sampled = self.samples_are_ordered(scope)?;
            if sampled && head.earliest.saturating_sub(scope.slack) >= scope.window.until {
                return Ok(Depth::Sampled);
            }
            if sampled && let Some(is_whole) = self.walk(last, gather, scope)? {
                return Ok(if is_whole { Depth::AsAsked } else { Depth::Sampled });
            }
            if self.len > UNORDERED_MAX {
                if !sampled {
                    self.walk(last, gather, scope)?;
                }
                return Ok(Depth::Unordered);
            }
        }
        gather.begin_again();
        let mut lines = Lines::new(Span::new(&self.file, 0, self.len, scope.meter), 0, BLOCK);
        gather.lines(&mut lines, self.settled, |_| {})?;
        Ok(Depth::AsAsked)
    }

    /// Returns whether the lines are in the order of time, judged by a few places.
    fn samples_are_ordered(&self, scope: &Scope<'_>) -> io::Result<bool> {
        let mut latest = i64::MIN;
        for sample in 0..SAMPLES {
            let place = self.len / SAMPLES * sample;
            let Some((_, time)) = self.probe(scope.profile, place, self.len, scope.meter)? else { break };
            if time.saturating_add(scope.slack) < latest {
                return Ok(false);
            }
            latest = latest.max(time);
        }
        Ok(true)
    }

    /// Reads segments from the window's end towards the front. Returns whether that was the whole file.
    ///
    /// Returns `None` if the read entries are not in the order of time.
    fn walk(&self, last: i64, gather: &mut Gather<'_>, scope: &Scope<'_>) -> io::Result<Option<bool>> {
        let Scope { profile, window, slack, meter } = *scope;
        let late = window.until.saturating_add(slack);
        let mut end = if last < late { self.len } else { self.boundary(profile, late, slack, meter)? };
        let begins_at_end = end == self.len;
        let mut reach = SEGMENT;
        let mut is_ordered = true;
        let mut earliest_behind = i64::MAX;
        while end > 0 {
            let wanted = end.saturating_sub(reach);
            let start =
                if wanted == 0 { Some(0) } else { self.probe(profile, wanted, end, meter)?.map(|found| found.0) };
            let Some(start) = start else {
                // One entry is longer than the segment.
                reach = reach.saturating_mul(2);
                continue;
            };
            let mut times = Vec::new();
            let mut lines = Lines::new(Span::new(&self.file, start, end, meter), start, BLOCK);
            gather.lines(&mut lines, self.settled, |time| times.push(time))?;
            let latest = times.iter().fold(i64::MIN, |latest, time| {
                is_ordered &= time.saturating_add(slack) >= latest;
                latest.max(*time)
            });
            is_ordered &= earliest_behind.saturating_add(slack) >= latest;
            earliest_behind = times.iter().fold(earliest_behind, |earliest, time| earliest.min(*time));
            // No entry before this segment is later than this.
            let bound = median(times).map(|time| time.saturating_add(slack));
            if bound.is_some_and(|b| b < window.since || gather.floor().is_some_and(|floor| b < floor.time)) {
                break;
            }
            end = start;
            reach = SEGMENT;
        }
        Ok(is_ordered.then_some(begins_at_end && end == 0))
    }

    fn packed_newest(&self, gather: &mut Gather<'_>, window: Window, meter: &Meter) -> Result<Depth, ScanError> {
        // Compressing keeps the time of the last change; a day covers any zone of the writer.
        let last = self.changed.saturating_add(DAY_MS);
        if last < window.since || gather.floor().is_some_and(|floor| last < floor.time) {
            return Ok(Depth::AsAsked);
        }
        let capped = Cell::new(false);
        let mut lines = Lines::new(self.content(true, meter, &capped), 0, BLOCK);
        gather.lines(&mut lines, true, |_| {}).map_err(|e| fault(&e, meter, true))?;
        Ok(if capped.get() { Depth::Capped } else { Depth::AsAsked })
    }
}

fn median(mut times: Vec<i64>) -> Option<i64> {
    let middle = times.len() / 2;
    if times.is_empty() { None } else { Some(*times.select_nth_unstable(middle).1) }
}

/// How much later than an entry one before it may be.
fn slack(profile: &Profile, window: Window) -> i64 {
    // Wall clocks that are put back repeat an hour.
    let (from, to) = (window.since.saturating_sub(3 * HOUR_MS), window.until.saturating_add(3 * HOUR_MS));
    if profile.shifts_between(from, to) { DISORDER_MS + HOUR_MS } else { DISORDER_MS }
}

fn fault(error: &io::Error, meter: &Meter, packed: bool) -> ScanError {
    if error.kind() == io::ErrorKind::TimedOut && meter.stopped() {
        ScanError::Stopped
    } else if packed {
        ScanError::Damaged
    } else {
        ScanError::Read
    }
}
