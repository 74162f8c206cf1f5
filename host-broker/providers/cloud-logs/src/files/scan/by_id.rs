//! The entry with an id.

use super::super::gather::Text;
use super::super::head::Head;
use super::super::lines::{Lines, Meter, Span};
use super::super::listing::Stream;
use super::{BLOCK, LogFile, PROBE, ScanError, fault};
use crate::entry::Record;
use crate::position::{EntryId, Position, check};
use std::cell::Cell;
use std::io::{self, Read};

impl LogFile {
    /// The entry with this id.
    pub(in crate::files) fn entry(
        &mut self,
        stream: &Stream,
        id: EntryId,
        meter: &Meter,
    ) -> Result<Option<Record>, ScanError> {
        let Some(mut head) = self.head(meter)? else { return Ok(None) };
        if !head.packed && id.place >= self.len {
            return Ok(None);
        }
        let (mut found, has_stamped) = self.entry_of(&head, stream, id, meter)?;
        if has_stamped && self.learn_late_forms(&mut head, meter) {
            (found, _) = self.entry_of(&head, stream, id, meter)?;
        }
        Ok(found)
    }

    fn entry_of(
        &self,
        head: &Head,
        stream: &Stream,
        id: EntryId,
        meter: &Meter,
    ) -> Result<(Option<Record>, bool), ScanError> {
        let capped = Cell::new(false);
        let found = if head.packed {
            entry_in(Lines::new(self.content(true, meter, &capped), 0, BLOCK), head, stream, id)
        } else {
            // From the byte before it: only behind a line's end there is a line's beginning.
            let start = id.place.saturating_sub(1);
            entry_in(Lines::new(Span::new(&self.file, start, self.len, meter), start, PROBE), head, stream, id)
        };
        found.map_err(|e| fault(&e, meter, head.packed))
    }
}

/// The entry with this id, if it is among the lines, and whether a line with a time is taken for a part of it.
fn entry_in<R: Read>(
    mut lines: Lines<R>,
    head: &Head,
    stream: &Stream,
    id: EntryId,
) -> io::Result<(Option<Record>, bool)> {
    let profile = &head.profile;
    let mut text = loop {
        match lines.next()? {
            Some(line) if line.offset < id.place => {}
            Some(line) if line.offset == id.place => break Text::of(line),
            Some(_) | None => return Ok((None, false)),
        }
    };
    let stamped = |line: &[u8]| profile.stamped(line).map(|(_, time)| time);
    let time = profile.time(text.line());
    let mut has_stamped = time.is_none();
    // A file that has grown may show its form no more, but the id is of this line.
    if time.or_else(|| stamped(text.line())) != Some(id.time) || check(text.line()) != id.check {
        return Ok((None, false));
    }
    while !text.is_full()
        && let Some(line) = lines.next()?
        && profile.time(line.text).is_none()
    {
        has_stamped |= stamped(line.text).is_some();
        text.append(line);
    }
    let position = Position { time: id.time, stream: id.stream, born: head.born, place: id.place, check: id.check };
    Ok((Some(text.record(profile, stream, position)), has_stamped))
}
