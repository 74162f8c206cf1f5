//! Single events, series and their occurrences, in the object that holds them.

use crate::content_lines::{Component, Line};
use crate::event::Event;
use crate::moment::Moment;
use crate::reference::Occurrence;

/// Returns the series, or the single event, of an object.
pub(crate) fn whole(object: &Component) -> Option<Event<'_>> {
    object.components("VEVENT").map(Event).find(|event| event.0.line("RECURRENCE-ID").is_none())
}

/// The same, to be changed.
pub(crate) fn whole_mut(object: &mut Component) -> Option<&mut Component> {
    object.components_mut("VEVENT").find(|event| event.line("RECURRENCE-ID").is_none())
}

/// Returns an occurrence of an object that somebody has changed.
pub(crate) fn changed(object: &Component, occurrence: Occurrence) -> Option<Event<'_>> {
    object.components("VEVENT").map(Event).find(|event| event.is_occurrence(occurrence))
}

/// Returns the first start of the series in an object, as it stands there, and the start of one occurrence.
///
/// # Errors
/// The reason, as a sentence.
pub(crate) fn start_of(object: &Component, occurrence: Occurrence) -> Result<(&Line, Moment), &'static str> {
    // A change of all later occurrences is written at the first of them.
    let is_range = |line: &Line| line.is("RECURRENCE-ID") && line.param("RANGE").is_some();
    if object.components("VEVENT").any(|event| event.lines().any(is_range)) {
        return Err("The series has a change of all later occurrences, so single ones stay.");
    }
    let series = whole(object).filter(|event| event.is_series()).ok_or("The event is not a series.")?;
    let first = series.0.line("DTSTART").ok_or("The event has no start.")?;
    let start = Moment::read(first).and_then(|first| occurrence.0.like(first));
    Ok((first, start.ok_or("The event has no such occurrence.")?))
}
