//! Forms of lines that appear behind the first lines of a file.
//!
//! A line in another form than the first lines may begin an entry, or may be quoted in one. An entry quotes what was
//! written before it. So a form begins entries if two of its lines fit between the entries around them: they are later
//! than the entry before and not later than the next one, and the second is not before the first.

use super::{Kind, raw};
use crate::time::Frame;
use std::collections::{BTreeMap, BTreeSet};

/// How many forms are compared at a time.
const FORMS_MAX: usize = 64;
/// How many lines of a form are compared between two entries.
const LINES_MAX: usize = 8;

/// The form of a line that has a time.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Form {
    /// A structured one.
    Structured(Kind),
    /// The text before a stamp, each word written as `w`.
    Text(Vec<u8>),
}

impl Form {
    /// Returns the form and the time of a line, in milliseconds since 1970. An indented line has none.
    pub(super) fn of(line: &[u8], frame: Frame) -> Option<(Self, i64)> {
        if line.first().is_none_or(u8::is_ascii_whitespace) {
            return None;
        }
        match Kind::structured(line, frame) {
            Some((kind, time)) => Some((Self::Structured(kind), time)),
            None => raw::form(line, frame).map(|(text, time)| (Self::Text(text), time)),
        }
    }
}

/// Finds the forms that begin entries, among the lines that do not begin one in a known form.
#[derive(Debug, Default)]
pub(crate) struct LateForms {
    entry: Option<i64>,
    seen: BTreeMap<Form, Seen>,
    are_open: bool,
}

#[derive(Debug, Default)]
struct Seen {
    /// Times behind the last entry.
    open: Vec<i64>,
    /// The last time that fits between two entries.
    last: Option<i64>,
    repeats: bool,
}

impl LateForms {
    /// Adds an entry in a known form.
    pub(crate) fn add_entry(&mut self, time: i64) {
        self.close(time);
        self.entry = Some(time);
    }

    /// Adds a line in another form.
    pub(crate) fn add(&mut self, form: Form, time: i64) {
        let is_later = self.entry.is_some_and(|entry| time > entry);
        if is_later && (self.seen.len() < FORMS_MAX || self.seen.contains_key(&form)) {
            let open = &mut self.seen.entry(form).or_default().open;
            if open.len() < LINES_MAX {
                open.push(time);
            }
            self.are_open = true;
        }
    }

    /// Returns the forms that begin entries. No entry is later than `ceiling`.
    pub(crate) fn into_forms(mut self, ceiling: i64) -> BTreeSet<Form> {
        self.close(ceiling);
        self.seen.into_iter().filter(|(_, seen)| seen.repeats).map(|(form, _)| form).collect()
    }

    fn close(&mut self, next: i64) {
        if !std::mem::take(&mut self.are_open) {
            return;
        }
        for seen in self.seen.values_mut() {
            for time in seen.open.drain(..).filter(|time| *time <= next) {
                seen.repeats |= seen.last.is_some_and(|last| time >= last);
                seen.last = Some(time);
            }
        }
        // A form that never fits leaves its place to another.
        self.seen.retain(|_, seen| seen.last.is_some());
    }
}
