//! One log file, looked through from its newest entry backwards.
//!
//! A plain file is searched by time: a binary search finds where the window ends, and from there segments are read
//! towards the front until the window begins or enough was found. So what is read depends on the answer and not on
//! the file. A compressed one can only be read from its front.
//!
//! INVARIANT: lines are in the order of time except for a disorder of at most [`slack`], and whatever is left unread
//! is left because this excludes it.
//!
//! SECURITY: that order is the writers' word, and a line break in a request may forge a line with any time, to make a
//! search stop or turn away before it reaches what it should not see. So no single line decides: medians do, and a
//! place that was found by searching is looked at once more. Hiding takes a flood of forged lines, which shows.

use super::gather::{Gather, REST_KEPT, append};
use super::lines::{Lines, Meter, Span, Unpacked};
use super::listing::{FileRef, Stream};
use crate::providers::cloud_logs::entry::Record;
use crate::providers::cloud_logs::format::{Format, Profile};
use crate::providers::cloud_logs::position::{EntryId, Position, check};
use crate::providers::cloud_logs::search::{Newest, Search};
use crate::providers::cloud_logs::time::{Frame, Zone};
use crate::providers::cloud_logs::window::Window;
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
/// How many of a file's first lines decide how it is read, and how far into it they may reach.
const HEAD_LINES: usize = 32;
const HEAD_BYTES: u64 = 256 * 1024;
/// What is read at once when looking for a place.
const PROBE: usize = 8 * 1024;
/// What is read at once when reading on.
const BLOCK: usize = 64 * 1024;
/// How far apart the places are that are read from backwards.
const SEGMENT: u64 = 512 * 1024;
/// How many entries are asked what time it is at a place.
const WITNESSES: usize = 9;
/// How many entries in a row must be too late before the rest of a compressed file is left alone.
const LATE_MAX: u32 = 4096;
/// A binary search ends when so little is left.
const NEAR: u64 = 32 * 1024;
/// How files begin that are compressed, but not with gzip.
const OTHER_COMPRESSIONS: [(&[u8], &str); 3] =
    [(&[0xfd, b'7', b'z', b'X', b'Z'], "xz"), (&[0x28, 0xb5, 0x2f, 0xfd], "zstd"), (b"BZh", "bzip2")];

/// Why a file could not be looked through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ScanFault {
    /// The meter said so.
    Stopped,
    /// It cannot be read.
    Read,
    /// It is compressed, and damaged.
    Damaged,
    /// It is compressed in another way.
    Compression(&'static str),
}

/// How much of a file was looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Depth {
    /// All that the search asks for.
    AsAsked,
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

/// What a file's beginning tells.
struct Head {
    profile: Profile,
    /// The time of its first entry.
    born: i64,
    /// The least time near its front.
    earliest: i64,
    packed: bool,
}

impl LogFile {
    /// A file that was listed and opened.
    pub(super) fn new(file: File, listed: &FileRef, format: Format, zone: Zone, now: Timestamp) -> Self {
        // What is appended from now on is another search's.
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
    ) -> Result<Depth, ScanFault> {
        let Some(head) = self.head(meter)? else {
            return Ok(if self.len == 0 { Depth::AsAsked } else { Depth::NoTimes });
        };
        if !whole_stream && !head.profile.names_programs() {
            return Ok(Depth::AsAsked);
        }
        let window = search.open_window();
        let slack = slack(&head.profile, window);
        if head.earliest.saturating_sub(slack) >= window.until {
            return Ok(Depth::AsAsked);
        }
        let program = search.service.as_deref().filter(|_| !whole_stream);
        let mut gather = Gather::new(&head.profile, head.born, stream, search, program, newest);
        if head.packed {
            return self.packed_newest(&mut gather, window, slack, meter);
        }
        self.plain_newest(&head.profile, &mut gather, window, slack, meter).map_err(|e| fault(&e, meter, false))?;
        Ok(Depth::AsAsked)
    }

    /// The entry with this id.
    pub(super) fn entry(&mut self, stream: &Stream, id: EntryId, meter: &Meter) -> Result<Option<Record>, ScanFault> {
        let Some(head) = self.head(meter)? else { return Ok(None) };
        if head.earliest.saturating_sub(DAY_MS) > id.time || (!head.packed && id.place >= self.len) {
            return Ok(None);
        }
        let capped = Cell::new(false);
        let found = if head.packed {
            let lines = Lines::new(Unpacked::new(&self.file, self.len, meter, &capped), 0, BLOCK);
            entry_in(lines, &head, stream, id)
        } else {
            // From the byte before it: only behind a line's end there is a line's beginning.
            let start = id.place.saturating_sub(1);
            entry_in(Lines::new(Span::new(&self.file, start, self.len, meter), start, PROBE), &head, stream, id)
        };
        found.map_err(|e| fault(&e, meter, head.packed))
    }

    /// The times of the first and the last entry; a compressed file's last is when it last changed.
    pub(super) fn span(&mut self, meter: &Meter) -> Result<Option<(i64, i64)>, ScanFault> {
        let Some(head) = self.head(meter)? else { return Ok(None) };
        if head.packed {
            return Ok(Some((head.born, self.changed.max(head.born))));
        }
        let latest = self.tail(&head.profile, meter).map_err(|e| fault(&e, meter, false))?;
        Ok(Some((head.born, latest.unwrap_or(head.born))))
    }

    fn head(&mut self, meter: &Meter) -> Result<Option<Head>, ScanFault> {
        let mut magic = Vec::new();
        Span::new(&self.file, 0, 6, meter).read_to_end(&mut magic).map_err(|e| fault(&e, meter, false))?;
        let packed = magic.starts_with(&[0x1f, 0x8b]);
        if let Some((_, name)) = OTHER_COMPRESSIONS.iter().find(|(start, _)| magic.starts_with(start)) {
            return Err(ScanFault::Compression(name));
        }
        let capped = Cell::new(false);
        let read = if packed {
            self.learn(Unpacked::new(&self.file, self.len, meter, &capped).take(HEAD_BYTES), packed)
        } else {
            self.learn(Span::new(&self.file, 0, self.len.min(HEAD_BYTES), meter), packed)
        };
        read.map_err(|e| fault(&e, meter, packed))
    }

    fn learn<R: Read>(&self, source: R, packed: bool) -> io::Result<Option<Head>> {
        let frame = Frame { zone: self.zone, latest: self.changed };
        let mut lines = Lines::new(source, 0, PROBE);
        let mut first_lines: Vec<Vec<u8>> = Vec::new();
        while first_lines.len() < HEAD_LINES
            && let Some(line) = lines.next()?
        {
            if !line.text.is_empty() {
                first_lines.push(line.text.to_vec());
            }
        }
        let profile = Profile::learn(self.format, &first_lines, frame);
        let mut times = first_lines.iter().filter_map(|line| profile.time(line));
        if let Some(born) = times.next() {
            let earliest = times.fold(born, i64::min);
            return Ok(Some(Head { profile, born, earliest, packed }));
        }
        // No time among them: the first line that has one decides.
        while let Some(line) = lines.next()? {
            let profile = Profile::learn(self.format, &[line.text.to_vec()], frame);
            if let Some(born) = profile.time(line.text) {
                return Ok(Some(Head { profile, born, earliest: born, packed }));
            }
        }
        Ok(None)
    }

    /// The latest time near the end.
    fn tail(&self, profile: &Profile, meter: &Meter) -> io::Result<Option<i64>> {
        let mut reach = NEAR;
        loop {
            let start = self.len.saturating_sub(reach);
            let mut lines = self.lines_behind(start, self.len, PROBE, meter)?;
            let mut latest = None;
            while let Some(line) = lines.next()? {
                latest = latest.max(profile.time(line.text));
            }
            if latest.is_some() || start == 0 {
                return Ok(latest);
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

    /// An offset, the start of an entry or the file's end, behind which everything is at least as late as `time`;
    /// what stands before it may be as well.
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
        // What follows must bear it out; else only reading everything is certain.
        let mut lines = self.lines_behind(found, self.len.min(found.saturating_add(NEAR)), PROBE, meter)?;
        let mut times = Vec::new();
        while let Some(line) = lines.next()? {
            times.extend(profile.time(line.text));
        }
        Ok(if median(times).is_none_or(|t| t.saturating_add(slack) >= time) { found } else { self.len })
    }

    fn plain_newest(
        &self,
        profile: &Profile,
        gather: &mut Gather<'_>,
        window: Window,
        slack: i64,
        meter: &Meter,
    ) -> io::Result<()> {
        let Some(last) = self.tail(profile, meter)? else { return Ok(()) };
        if last.max(self.changed.saturating_add(DAY_MS)).saturating_add(slack) < window.since {
            return Ok(());
        }
        let late = window.until.saturating_add(slack);
        let mut end = if last < late { self.len } else { self.boundary(profile, late, slack, meter)? };
        let mut reach = SEGMENT;
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
            gather.lines(&mut lines, self.settled, |time| {
                times.push(time);
                true
            })?;
            // No entry before this segment is later than this.
            let bound = median(times).map(|time| time.saturating_add(slack));
            if bound.is_some_and(|b| b < window.since || gather.floor().is_some_and(|floor| b < floor.time)) {
                break;
            }
            end = start;
            reach = SEGMENT;
        }
        Ok(())
    }

    fn packed_newest(
        &self,
        gather: &mut Gather<'_>,
        window: Window,
        slack: i64,
        meter: &Meter,
    ) -> Result<Depth, ScanFault> {
        // Compressing keeps the time of the last change; a day covers whatever zone the writer was in.
        let last = self.changed.saturating_add(DAY_MS);
        if last < window.since || gather.floor().is_some_and(|floor| last < floor.time) {
            return Ok(Depth::AsAsked);
        }
        let capped = Cell::new(false);
        let mut lines = Lines::new(Unpacked::new(&self.file, self.len, meter, &capped), 0, BLOCK);
        let late = window.until.saturating_add(slack);
        let mut late_ones = 0;
        let more = |time| {
            late_ones = if time < late { 0 } else { late_ones + 1 };
            late_ones < LATE_MAX
        };
        gather.lines(&mut lines, true, more).map_err(|e| fault(&e, meter, true))?;
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

/// The entry with this id, if it is among the lines.
fn entry_in<R: Read>(mut lines: Lines<R>, head: &Head, stream: &Stream, id: EntryId) -> io::Result<Option<Record>> {
    let text = loop {
        match lines.next()? {
            Some(line) if line.offset < id.place => {}
            Some(line) if line.offset == id.place => break line.text.to_vec(),
            Some(_) | None => return Ok(None),
        }
    };
    if head.profile.time(&text) != Some(id.time) || check(&text) != id.check {
        return Ok(None);
    }
    let mut rest = Vec::new();
    while let Some(line) = lines.next()? {
        if head.profile.time(line.text).is_some() || rest.len() >= REST_KEPT {
            break;
        }
        append(&mut rest, line.text);
    }
    let position = Position { time: id.time, stream: id.stream, born: head.born, place: id.place };
    let parsed = head.profile.parse(&text, &rest);
    Ok(Some(Record { position, check: id.check, service: stream.service.clone(), parsed }))
}

fn fault(error: &io::Error, meter: &Meter, packed: bool) -> ScanFault {
    if error.kind() == io::ErrorKind::TimedOut && meter.stopped() {
        ScanFault::Stopped
    } else if packed {
        ScanFault::Damaged
    } else {
        ScanFault::Read
    }
}
