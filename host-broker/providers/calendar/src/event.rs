//! The fields of an event, as they are read.

use crate::content_lines::Component;
use crate::moment::{Moment, duration};
use crate::reference::Occurrence;
use chrono::{DateTime, TimeDelta, Utc};
use chrono_tz::Tz;

/// The longest name, title or place that is returned.
pub(crate) const NAME_CHARS_MAX: usize = 1000;

/// An event or one occurrence of it: `VEVENT`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Event<'a>(pub(crate) &'a Component);

impl Event<'_> {
    /// Returns the start; `None` if the event has none.
    pub(crate) fn start(self) -> Option<Moment> {
        Moment::read(self.0.line("DTSTART")?)
    }

    /// Returns the end: the given one, the start and the duration, or the end of the day (RFC 5545, section 3.6.1).
    pub(crate) fn end(self) -> Option<Moment> {
        if let Some(end) = self.0.line("DTEND").and_then(Moment::read) {
            return Some(end);
        }
        let start = self.start()?;
        let length = self.0.line("DURATION").and_then(|line| duration(line.value()));
        let whole_day = if matches!(start, Moment::Day(_)) { TimeDelta::days(1) } else { TimeDelta::zero() };
        start.plus(length.unwrap_or(whole_day))
    }

    /// Returns the start of the occurrence before anybody moved it; `None` for a series or a single event.
    pub(crate) fn occurrence(self) -> Option<Moment> {
        Moment::read(self.0.line("RECURRENCE-ID")?)
    }

    /// Returns whether it is this occurrence of a series.
    pub(crate) fn is_occurrence(self, occurrence: Occurrence) -> bool {
        self.occurrence().is_some_and(|own| own.key() == occurrence.0.key())
    }

    /// Returns a text without escapes, at most so many characters of it.
    pub(crate) fn text(self, name: &str, chars: usize) -> Option<String> {
        let text = self.0.line(name)?.unescaped();
        (!text.is_empty()).then(|| shortened(&text, chars))
    }

    /// Returns whether the event is a series.
    pub(crate) fn is_series(self) -> bool {
        self.0.line("RRULE").is_some() || self.0.line("RDATE").is_some()
    }

    /// Returns whether the event takes place within a time.
    pub(crate) fn is_within(self, from: DateTime<Utc>, to: DateTime<Utc>, zone: Tz) -> bool {
        let Some(start) = self.start().map(|start| start.instant(zone)) else { return false };
        let end = self.end().map_or(start, |end| end.instant(zone));
        start < to && (end > from || start >= from)
    }
}

/// Returns at most so many characters of a text.
pub(crate) fn shortened(text: &str, chars: usize) -> String {
    match text.char_indices().nth(chars) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ends(lines: &str) -> Option<String> {
        let component = Component::parse(&format!("BEGIN:VEVENT\n{lines}\nEND:VEVENT")).unwrap();
        Event(&component).end().map(Moment::key)
    }

    #[test]
    fn an_event_ends_as_it_says_or_with_its_day() {
        assert_eq!(ends("DTSTART:20261201T090000Z\nDTEND:20261201T100000Z").unwrap(), "2026-12-01T10:00:00Z");
        assert_eq!(ends("DTSTART:20261201T090000Z\nDURATION:PT30M").unwrap(), "2026-12-01T09:30:00Z");
        assert_eq!(ends("DTSTART:20261201T090000Z").unwrap(), "2026-12-01T09:00:00Z");
        assert_eq!(ends("DTSTART;VALUE=DATE:20261201").unwrap(), "2026-12-02");
        assert_eq!(ends("SUMMARY:x"), None);
        // A server can claim any length.
        for length in ["P95003000D", "P90000000D", "-P900000D"] {
            assert_eq!(ends(&format!("DTSTART;TZID=Europe/Berlin:20261201T100000\nDURATION:{length}")), None);
        }
    }
}
