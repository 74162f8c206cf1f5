//! The parts of a line: the start of an entry, its time, its content.
//!
//! A file's first lines decide how all its lines are read ([`Profile`]): a line that does not begin an entry in that
//! form continues the entry before it, unless its form begins entries further behind ([`LateForms`]). No parser here
//! fails; a line that is not understood is shown as it is.

mod access;
mod json;
mod late;
mod logfmt;
mod raw;
mod syslog;

use crate::entry::Parsed;
use crate::time;
use crate::time::{Frame, Order};
pub(crate) use late::{Form, LateForms};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeSet;

/// Where structured lines keep their time, the most telling name first.
const TIME_KEYS: [&str; 9] = ["timestamp", "@timestamp", "time", "ts", "datetime", "date", "eventTime", "asctime", "t"];
/// Where they keep their severity.
const LEVEL_KEYS: [&str; 7] = ["level", "severity", "levelname", "lvl", "log.level", "loglevel", "levelName"];
/// Where they keep their message.
const MESSAGE_KEYS: [&str; 7] = ["message", "msg", "@message", "log", "event", "text", "MESSAGE"];

/// The format of log lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Format {
    /// The format that the first lines of the file suggest.
    #[default]
    Auto,
    /// One JSON object per line.
    Json,
    /// `key=value` pairs.
    Logfmt,
    /// RFC 3164, RFC 5424, or rsyslog's form with an ISO time.
    Syslog,
    /// The common or combined log format of web servers.
    Access,
    /// Text with a time stamp near its start.
    Raw,
}

/// How the lines of one file are read.
#[derive(Debug, Clone)]
pub(crate) struct Profile {
    kind: Kind,
    frame: Frame,
    prefix: raw::Prefix,
    late: BTreeSet<Form>,
}

/// How a line is structured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    Json,
    Logfmt,
    Syslog,
    Access,
    Raw,
}

impl Profile {
    /// Learns how to read a file with these first lines, empty ones included.
    pub(crate) fn learn(format: Format, head: &[Vec<u8>], frame: Frame) -> Self {
        let mut head: Vec<Vec<u8>> = head.to_vec();
        if let Some(first) = head.first_mut() {
            *first = unmarked(first).to_vec();
        }
        let frame = ordered(&head, frame);
        let kind = match format {
            Format::Auto => Kind::suggested(&head, frame, &raw::Prefix::learn(&head, frame)),
            Format::Json => Kind::Json,
            Format::Logfmt => Kind::Logfmt,
            Format::Syslog => Kind::Syslog,
            Format::Access => Kind::Access,
            Format::Raw => Kind::Raw,
        };
        let foreign: Vec<Vec<u8>> = head.into_iter().filter(|line| kind.time(line, frame).is_none()).collect();
        let prefix = if kind == Kind::Raw || foreign.iter().any(|line| !line.is_empty()) {
            raw::Prefix::learn(&foreign, frame)
        } else {
            raw::Prefix::FRONT
        };
        Self { kind, frame, prefix, late: BTreeSet::new() }
    }

    /// Checks whether forms that appear later may begin entries: not where only the first line of a paragraph does.
    pub(crate) fn takes_late_forms(&self) -> bool {
        self.kind != Kind::Raw || !self.prefix.is_of_paragraphs()
    }

    /// Adds forms in which lines begin entries, too.
    pub(crate) fn add_forms(&mut self, forms: BTreeSet<Form>) {
        self.late.extend(forms);
    }

    /// Returns the latest time that a line can have, in milliseconds since 1970.
    pub(crate) fn ceiling(&self) -> i64 {
        self.frame.ceiling()
    }

    /// The time of a line that begins an entry, in milliseconds since 1970.
    pub(crate) fn time(&self, line: &[u8]) -> Option<i64> {
        let line = unmarked(line);
        self.first_time(line).or_else(|| self.late(line).map(|(_, time)| time))
    }

    /// Returns the form and the time of a line with a time near its front. It need not begin an entry.
    pub(crate) fn stamped(&self, line: &[u8]) -> Option<(Form, i64)> {
        Form::of(unmarked(line), self.frame)
    }

    /// Returns the form and the time of a line that begins an entry in a form that was added.
    fn late(&self, line: &[u8]) -> Option<(Form, i64)> {
        if self.late.is_empty() {
            return None;
        }
        self.stamped(line).filter(|(form, _)| self.late.contains(form))
    }

    /// Returns the time of a line that begins an entry in a form of the first lines.
    fn first_time(&self, line: &[u8]) -> Option<i64> {
        let raw = |prefix| raw::time(line, prefix, self.frame);
        if self.kind == Kind::Raw {
            return raw(&self.prefix);
        }
        // A foreign line with a time at its front, or in the form of the first lines, is an entry.
        self.kind.time(line, self.frame).or_else(|| raw(&raw::Prefix::FRONT)).or_else(|| raw(&self.prefix))
    }

    /// Returns the content of an entry: the line that begins it, and the lines that continue it.
    pub(crate) fn parse(&self, line: &[u8], rest: &[u8]) -> Parsed {
        let line = unmarked(line);
        let late = self.late(line).filter(|_| self.first_time(line).is_none());
        let line = String::from_utf8_lossy(line);
        let (kind, prefix) = match late {
            None => (self.kind, &self.prefix),
            Some((Form::Structured(kind), _)) => (kind, &self.prefix),
            Some((Form::Text(_), _)) => (Kind::Raw, &raw::Prefix::ANY),
        };
        let mut parsed = kind.parse(&line).unwrap_or_else(|| raw::parse(&line, prefix, self.frame));
        if !rest.is_empty() {
            parsed.message.push('\n');
            parsed.message.push_str(String::from_utf8_lossy(rest).trim_end());
        }
        parsed
    }

    /// Checks whether several programs write into such a file and every entry says which.
    pub(crate) fn names_programs(&self) -> bool {
        self.kind == Kind::Syslog
    }

    /// Checks whether times without an offset of this file may have been written while clocks were changed.
    pub(crate) fn shifts_between(&self, from: i64, to: i64) -> bool {
        self.frame.zone.shifts_between(from, to)
    }
}

/// Returns the content of a line whose time is known otherwise. [`Format::Auto`] is the form that the line shows.
pub(crate) fn undated(format: Format, line: &str, frame: Frame) -> Parsed {
    let syslog = || syslog::time(line.as_bytes(), frame).and_then(|_| syslog::parse(line));
    let access = || access::time(line.as_bytes(), frame).and_then(|_| access::parse(line));
    let structured = match format {
        Format::Auto => json::parse(line).or_else(|| logfmt::parse_undated(line)).or_else(syslog).or_else(access),
        Format::Json => json::parse(line),
        Format::Logfmt => logfmt::parse_undated(line),
        Format::Syslog => syslog(),
        Format::Access => access(),
        Format::Raw => None,
    };
    structured.unwrap_or_else(|| raw::parse(line, &raw::Prefix::FRONT, frame))
}

/// Returns the line without the byte order mark with which a file, or a part of it, begins.
pub(crate) fn unmarked(line: &[u8]) -> &[u8] {
    line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line)
}

/// Returns the frame whose order of two-digit dates fits most of the first lines; of equals, the latest.
fn ordered(head: &[Vec<u8>], frame: Frame) -> Frame {
    if !head.iter().any(|line| raw::is_short(line)) {
        return frame;
    }
    let frames = Order::ALL.map(|order| Frame { order, ..frame });
    let fits = |frame: &Frame| {
        let prefix = raw::Prefix::learn(head, *frame);
        let times = head.iter().filter_map(|line| raw::time(line, &prefix, *frame));
        times.fold((0, i64::MIN), |(count, latest), time| (count + 1, latest.max(time)))
    };
    // Of equals the last wins, and the most usual order is the first.
    frames.into_iter().rev().max_by_key(fits).unwrap_or(frame)
}

impl Kind {
    /// Returns the time of a line in this form, in milliseconds since 1970.
    fn time(self, line: &[u8], frame: Frame) -> Option<i64> {
        match self {
            Self::Json => json::time(line, frame),
            Self::Logfmt => logfmt::time(line, frame),
            Self::Syslog => syslog::time(line, frame),
            Self::Access => access::time(line, frame),
            Self::Raw => None,
        }
    }

    /// Returns the content of a line in this form.
    fn parse(self, line: &str) -> Option<Parsed> {
        match self {
            Self::Json => json::parse(line),
            Self::Logfmt => logfmt::parse(line),
            Self::Syslog => syslog::parse(line),
            Self::Access => access::parse(line),
            Self::Raw => None,
        }
    }

    /// Returns the structured form of a line, and its time.
    fn structured(line: &[u8], frame: Frame) -> Option<(Self, i64)> {
        [Self::Json, Self::Access, Self::Syslog, Self::Logfmt].into_iter().find_map(|kind| {
            let time = kind.time(line, frame)?;
            // The time alone is not telling in these.
            let is_certain = matches!(kind, Self::Json | Self::Logfmt);
            (is_certain || kind.parse(&String::from_utf8_lossy(line)).is_some()).then_some((kind, time))
        })
    }

    /// The form that most of the first lines have.
    fn suggested(head: &[Vec<u8>], frame: Frame, prefix: &raw::Prefix) -> Self {
        let of_line = |line: &[u8]| match Self::structured(line, frame) {
            Some((kind, _)) => Some(kind),
            None => raw::time(line, prefix, frame).map(|_| Self::Raw),
        };
        let seen: Vec<Self> = head.iter().filter_map(|line| of_line(line)).collect();
        let votes = |kind: Self| seen.iter().filter(|k| **k == kind).count();
        // Of equals the last wins, so the most telling form stands last.
        [Self::Raw, Self::Logfmt, Self::Syslog, Self::Access, Self::Json]
            .into_iter()
            .max_by_key(|kind| votes(*kind))
            .filter(|kind| votes(*kind) > 0)
            .unwrap_or(Self::Raw)
    }
}

/// A time in a structured line: a text or a number.
fn time_of_value(value: &Value, frame: Frame) -> Option<i64> {
    match value {
        Value::String(text) => time_of_text(text, frame),
        Value::Number(number) => time::epoch(number),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    }
}

fn time_of_text(text: &str, frame: Frame) -> Option<i64> {
    match time::stamp(text.as_bytes()) {
        Some((stamp, _)) => stamp.instant(frame),
        None => serde_json::from_str::<serde_json::Number>(text).ok().and_then(|number| time::epoch(&number)),
    }
}

#[cfg(test)]
mod tests;
