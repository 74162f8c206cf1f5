//! Lines put together to entries, of which those are kept that are searched for.

use super::lines::{Line, Lines};
use super::listing::Stream;
use crate::providers::cloud_logs::entry::Record;
use crate::providers::cloud_logs::format::Profile;
use crate::providers::cloud_logs::position::{Position, check};
use crate::providers::cloud_logs::search::{Newest, Search};
use std::io::{self, Read};

/// How many bytes of the lines that continue an entry are kept.
pub(super) const REST_KEPT: usize = 64 * 1024;

/// Puts lines together to entries and keeps those that are searched for.
pub(super) struct Gather<'a> {
    profile: &'a Profile,
    born: i64,
    stream: &'a Stream,
    search: &'a Search,
    program: Option<&'a str>,
    newest: &'a mut Newest,
    pending: Option<Pending>,
}

struct Pending {
    position: Position,
    line: Vec<u8>,
    rest: Vec<u8>,
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
        Self { profile, born, stream, search, program, newest, pending: None }
    }

    /// The position below which nothing is kept any more.
    pub(super) fn floor(&self) -> Option<Position> {
        self.newest.floor()
    }

    /// All entries that start in the lines; each one's time is shown to `more`, which says whether to go on. A last
    /// line without an end is left for later unless the file is settled: the rest of it would change its id.
    pub(super) fn lines<R: Read>(
        &mut self,
        lines: &mut Lines<R>,
        settled: bool,
        more: impl FnMut(i64) -> bool,
    ) -> io::Result<()> {
        let read = self.read(lines, settled, more);
        self.flush();
        read
    }

    fn read<R: Read>(
        &mut self,
        lines: &mut Lines<R>,
        settled: bool,
        mut more: impl FnMut(i64) -> bool,
    ) -> io::Result<()> {
        while let Some(line) = lines.next()? {
            if !line.ended && !settled {
                return Ok(());
            }
            match self.profile.time(line.text) {
                Some(time) => {
                    self.flush();
                    if !more(time) {
                        return Ok(());
                    }
                    self.begin(time, line);
                }
                None => self.go_on(line),
            }
        }
        Ok(())
    }

    fn begin(&mut self, time: i64, line: Line<'_>) {
        let position = Position { time, stream: self.stream.key, born: self.born, place: line.offset };
        if self.search.admits(position) && self.newest.floor().is_none_or(|floor| position >= floor) {
            self.pending = Some(Pending { position, line: line.text.to_vec(), rest: Vec::new() });
        }
    }

    fn go_on(&mut self, line: Line<'_>) {
        if let Some(pending) = &mut self.pending
            && pending.rest.len() < REST_KEPT
        {
            append(&mut pending.rest, line.text);
        }
    }

    fn flush(&mut self) {
        let Some(Pending { position, line, rest }) = self.pending.take() else { return };
        let parsed = self.profile.parse(&line, &rest);
        let of_program = self.program.is_none_or(|program| parsed.program.as_deref() == Some(program));
        if of_program && self.search.wants(&parsed) {
            let service = self.stream.service.clone();
            self.newest.offer(Record { position, check: check(&line), service, parsed });
        }
    }
}

/// Adds one more line to those that continue an entry.
pub(super) fn append(rest: &mut Vec<u8>, line: &[u8]) {
    rest.extend_from_slice(line);
    rest.push(b'\n');
}
