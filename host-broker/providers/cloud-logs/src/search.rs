//! A search, and the newest of the entries that it found.

use crate::entry::{Parsed, Record};
use crate::position::{Cursor, Position};
use crate::severity::Severity;
use crate::window::Window;
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;

/// One query.
#[derive(Debug, Clone)]
pub(crate) struct Search {
    /// The stretch of time.
    pub(crate) window: Window,
    /// Only entries before this one.
    pub(crate) before: Option<Position>,
    /// Only this service's.
    pub(crate) service: Option<String>,
    /// Only entries that contain this, in lower case.
    pub(crate) needle: Option<String>,
    /// Only entries at least so severe; entries that do not say how severe they are are left out.
    pub(crate) level: Option<Severity>,
    /// How many.
    pub(crate) limit: usize,
}

impl Search {
    /// The window without what the cursor has passed already.
    pub(crate) fn open_window(&self) -> Window {
        let Window { since, until } = self.window;
        Window { since, until: self.before.map_or(until, |p| until.min(p.time.saturating_add(1))) }
    }

    /// Checks whether an entry at this position may be part of the answer.
    pub(crate) fn admits(&self, position: Position) -> bool {
        self.window.has(position.time) && self.before.is_none_or(|before| position < before)
    }

    /// Checks whether what an entry says is looked for. The service is the caller's business.
    pub(crate) fn wants(&self, parsed: &Parsed) -> bool {
        self.level.is_none_or(|least| parsed.level.is_some_and(|level| level >= least))
            && self.needle.as_deref().is_none_or(|needle| parsed.mentions(needle))
    }

    /// Returns whether the part of an entry that was not kept could match, although the kept part does not.
    pub(crate) fn could_want(&self, parsed: &Parsed) -> bool {
        self.level.is_none_or(|least| parsed.level.is_none_or(|level| level >= least))
    }

    /// The cursor that goes on behind an entry of this search.
    pub(crate) fn cursor_after(&self, after: Position) -> Cursor {
        Cursor { since: self.window.since, until: self.window.until, after }
    }
}

/// The newest entries of a search, and one more, which tells whether there is a next page.
#[derive(Debug)]
pub(crate) struct Newest {
    capacity: usize,
    kept: BTreeMap<Position, Record>,
    /// The floor of the search that this is a part of.
    least: Option<Position>,
}

impl Newest {
    /// Nothing yet.
    pub(crate) fn new(limit: usize) -> Self {
        Self { capacity: limit.saturating_add(1), kept: BTreeMap::new(), least: None }
    }

    /// Returns an empty one for a part of the search. What it keeps can be offered, or dropped.
    pub(crate) fn part(&self) -> Self {
        Self { capacity: self.capacity, kept: BTreeMap::new(), least: self.floor() }
    }

    /// The position below which nothing is kept any more.
    pub(crate) fn floor(&self) -> Option<Position> {
        let first = self.kept.first_key_value().map(|(position, _)| *position);
        first.filter(|_| self.kept.len() >= self.capacity).max(self.least)
    }

    /// Keeps a record if it is among the newest. The same entry seen twice, in a file and in its half-made
    /// compressed copy, is one.
    pub(crate) fn offer(&mut self, record: Record) {
        self.kept.insert(record.position, record);
        if self.kept.len() > self.capacity {
            self.kept.pop_first();
        }
    }

    /// Keeps those of the records that are among the newest.
    pub(crate) fn offer_all(&mut self, records: Vec<Record>) {
        for record in records {
            self.offer(record);
        }
    }

    /// The records, newest first.
    pub(crate) fn into_records(self) -> Vec<Record> {
        self.kept.into_values().rev().collect()
    }
}

/// Something that was not read.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
pub(crate) struct Skipped {
    /// The service whose entries may be missing from the answer.
    pub(crate) service: String,
    /// Why.
    pub(crate) reason: String,
}

impl Skipped {
    /// A note.
    pub(crate) fn new(service: &str, reason: &str) -> Self {
        Self { service: service.to_owned(), reason: reason.to_owned() }
    }
}
