//! Lines put together to entries, of which those are kept that are searched for.

use super::lines::{Line, Lines};
use super::listing::Stream;
use crate::entry::Record;
use crate::format::Profile;
use crate::position::{Position, check};
use crate::search::{Newest, Search};
use std::io::{self, Read};

/// How many bytes of the lines that continue an entry are kept.
const REST_KEPT: usize = 64 * 1024;

/// Puts lines together to entries and keeps those that are searched for.
pub(super) struct Gather<'a> {
    profile: &'a Profile,
    born: i64,
    stream: &'a Stream,
    search: &'a Search,
    program: Option<&'a str>,
    newest: &'a mut Newest,
    /// The time of the entry to which the next lines belong.
    entry_time: Option<i64>,
    pending: Option<Pending>,
    unsearched: u64,
    misplaced: u64,
    has_late_lines: bool,
}

struct Pending {
    position: Position,
    text: Text,
    /// How many of its lines would match if they were entries.
    misplaced: u64,
}

/// The line that begins an entry, and as much as is kept of the lines that continue it.
pub(super) struct Text {
    line: Vec<u8>,
    rest: Vec<u8>,
    cut: bool,
}

impl<'a> Gather<'a> {
    /// Nothing yet. The profile and the time of the first entry are the file's; with a program, only its entries
    /// are kept.
    pub(super) fn new(
        profile: &'a Profile,
        born: i64,
        stream: &'a Stream,
        search: &'a Search,
        program: Option<&'a str>,
        newest: &'a mut Newest,
    ) -> Self {
        Self {
            profile,
            born,
            stream,
            search,
            program,
            newest,
            entry_time: None,
            pending: None,
            unsearched: 0,
            misplaced: 0,
            has_late_lines: false,
        }
    }

    /// The position below which nothing is kept any more.
    pub(super) fn floor(&self) -> Option<Position> {
        self.newest.floor()
    }

    /// Returns how many entries may match in the part that was not kept.
    pub(super) fn unsearched(&self) -> u64 {
        self.unsearched
    }

    /// Returns how many lines have a time of their own that is searched for, and stand in entries that are not.
    pub(super) fn misplaced(&self) -> u64 {
        self.misplaced
    }

    /// Returns whether a line has a time that is later than that of its entry.
    pub(super) fn has_late_lines(&self) -> bool {
        self.has_late_lines
    }

    /// Resets the counts: everything is read once more.
    pub(super) fn begin_again(&mut self) {
        self.unsearched = 0;
        self.misplaced = 0;
    }

    /// Gathers all entries that start in the lines, and shows the time of each one to `seen`. A last line without an
    /// end waits unless the file is settled: the rest of it would change its id.
    pub(super) fn lines<R: Read>(
        &mut self,
        lines: &mut Lines<R>,
        settled: bool,
        seen: impl FnMut(i64),
    ) -> io::Result<()> {
        self.entry_time = None;
        let read = self.read(lines, settled, seen);
        self.flush();
        read
    }

    fn read<R: Read>(&mut self, lines: &mut Lines<R>, settled: bool, mut seen: impl FnMut(i64)) -> io::Result<()> {
        while let Some(line) = lines.next()? {
            if !line.ended && !settled {
                return Ok(());
            }
            match self.profile.time(line.text) {
                Some(time) => {
                    self.flush();
                    seen(time);
                    self.begin(time, line);
                }
                None => self.go_on(line),
            }
        }
        Ok(())
    }

    fn begin(&mut self, time: i64, line: Line<'_>) {
        self.entry_time = Some(time);
        let at = |check| Position { time, stream: self.stream.key, born: self.born, place: line.offset, check };
        // The digest is made only of offered entries.
        if self.search.admits(at(0)) && self.newest.floor().is_none_or(|floor| at(u64::MAX) >= floor) {
            self.pending = Some(Pending { position: at(0), text: Text::of(line), misplaced: 0 });
        }
    }

    fn go_on(&mut self, line: Line<'_>) {
        self.count(line.text);
        if let Some(pending) = &mut self.pending {
            pending.text.append(line);
        }
    }

    /// Counts a line with a time of its own, unless its entry is found anyway.
    fn count(&mut self, line: &[u8]) {
        // Lines before the first entry are counted otherwise.
        let Some(entry_time) = self.entry_time else { return };
        let Some((_, time)) = self.profile.stamped(line) else { return };
        self.has_late_lines |= time > entry_time;
        // If only a program's entries are searched for, nothing says that it wrote this line.
        let is_wanted =
            self.program.is_none() && self.search.window.has(time) && self.search.wants(&self.profile.parse(line, b""));
        match &mut self.pending {
            Some(pending) => pending.misplaced += u64::from(is_wanted),
            // An entry in the window has its place on another page.
            None => self.misplaced += u64::from(is_wanted && !self.search.window.has(entry_time)),
        }
    }

    fn flush(&mut self) {
        let Some(Pending { position, text, misplaced }) = self.pending.take() else { return };
        let parsed = self.profile.parse(&text.line, &text.rest);
        if self.program.is_some_and(|program| parsed.program.as_deref() != Some(program)) {
            return;
        }
        if !self.search.wants(&parsed) {
            self.unsearched += u64::from(text.cut && self.search.could_want(&parsed));
            self.misplaced += misplaced;
            return;
        }
        let position = Position { check: check(&text.line), ..position };
        if self.search.admits(position) {
            let service = self.stream.service.clone();
            self.newest.offer(Record { position, service, parsed, cut: text.cut });
        }
    }
}

impl Text {
    /// Begins with a line.
    pub(super) fn of(line: Line<'_>) -> Self {
        Self { line: line.text.to_vec(), rest: Vec::new(), cut: line.cut }
    }

    /// Adds one more line to those that continue the entry.
    pub(super) fn append(&mut self, line: Line<'_>) {
        if self.rest.len() < REST_KEPT {
            self.rest.extend_from_slice(line.text);
            self.rest.push(b'\n');
            self.cut |= line.cut;
        } else {
            self.cut |= !line.text.is_empty();
        }
    }

    /// Returns whether nothing more is kept, and there was more.
    pub(super) fn is_full(&self) -> bool {
        self.cut && self.rest.len() >= REST_KEPT
    }

    /// Returns the line that begins the entry.
    pub(super) fn line(&self) -> &[u8] {
        &self.line
    }

    /// Returns the entry at this position.
    pub(super) fn record(&self, profile: &Profile, stream: &Stream, position: Position) -> Record {
        let parsed = profile.parse(&self.line, &self.rest);
        Record { position, service: stream.service.clone(), parsed, cut: self.cut }
    }
}
