//! `update_event`: a single event, a series, or one occurrence of it.

use crate::api::{Effect, Present, UNREAD};
use crate::change::{Change, Facts, Request, mark};
use crate::content_lines::Component;
use crate::event::Event;
use crate::fields::{Fields, Reminders, Repeat, define_zone};
use crate::moment::{Moment, When, Zone};
use crate::occurrence::{changed, start_of, whole, whole_mut};
use crate::reference::{CalendarId, EventId, Occurrence};
use crate::{Calendar, WRITES};
use model::{Exposure, Nonce};
use schemars::JsonSchema;
use serde::Deserialize;

/// The parameters of `update_event`. Only the given fields are changed; an empty text removes a field.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct UpdateEvent {
    /// The id of the event.
    id: EventId,
    /// The occurrence of a series that alone is changed; the whole series, unless set.
    #[serde(default)]
    occurrence: Option<Occurrence>,
    /// The title, in one line.
    #[serde(default)]
    #[schemars(length(max = 500))]
    summary: Option<String>,
    /// The start, with the end.
    #[serde(default)]
    start: Option<When>,
    /// The end: the day after the last one, or a time.
    #[serde(default)]
    end: Option<When>,
    /// The time zone of start and end without an offset; that of the account, unless set.
    #[serde(default)]
    time_zone: Option<Zone>,
    /// The place, in one line.
    #[serde(default)]
    #[schemars(length(max = 500))]
    location: Option<String>,
    /// The description.
    #[serde(default)]
    #[schemars(length(max = 10_000))]
    description: Option<String>,
    /// The rule by which it is repeated.
    #[serde(default)]
    repeat: Option<Repeat>,
    /// Reminders, in minutes before the start. They replace all earlier ones; an empty list removes these.
    #[serde(default)]
    #[schemars(length(max = 10))]
    reminders: Option<Reminders>,
}

impl UpdateEvent {
    fn fields(&self) -> Fields<'_> {
        Fields {
            summary: self.summary.as_deref(),
            start: self.start,
            end: self.end,
            time_zone: self.time_zone,
            location: self.location.as_deref(),
            description: self.description.as_deref(),
            repeat: self.repeat.as_ref(),
            reminders: self.reminders.as_ref(),
        }
    }

    /// Changes a single event or a series.
    fn change_whole(&self, object: &mut Component, calendar: &Calendar, nonce: &Nonce) -> Result<(), &'static str> {
        let default = calendar.settings.time_zone;
        let has_changed_occurrences = object.components("VEVENT").any(|event| event.line("RECURRENCE-ID").is_some());
        let event = whole_mut(object).ok_or("The event has single occurrences only.")?;
        let is_moved = self.start.is_some() || self.repeat.is_some();
        if is_moved && (has_changed_occurrences || event.line("EXDATE").is_some() || event.line("RDATE").is_some()) {
            return Err("Occurrences of the series were changed, so its times stay. Create another event.");
        }
        let times = self.fields().times(default);
        if let (true, None, Some(first), Some(times)) =
            (Event(event).is_series(), &self.repeat, Event(event).start(), times)
            && !is_same_day(first, times.start)
        {
            return Err("A series is moved to another day or time zone together with its rule (repeat).");
        }
        self.fields().apply(event, default)?;
        mark(event, nonce);
        Ok(())
    }

    /// Changes one occurrence of a series. The others stay.
    fn change_occurrence(
        &self,
        object: &mut Component,
        occurrence: Occurrence,
        calendar: &Calendar,
        nonce: &Nonce,
    ) -> Result<(), &'static str> {
        let own = own_event(object, occurrence)?;
        if changed(object, occurrence).is_none() {
            object.push_component(own);
        }
        let event = object.components_mut("VEVENT").find(|event| Event(event).is_occurrence(occurrence));
        let event = event.ok_or("The event has no such occurrence.")?;
        self.fields().apply(event, calendar.settings.time_zone)?;
        mark(event, nonce);
        Ok(())
    }
}

/// Returns whether two starts are on the same day, in the same form and time zone.
fn is_same_day(one: Moment, other: Moment) -> bool {
    let is_alike = match (one, other) {
        (Moment::Zoned(_, zone), Moment::Zoned(_, own)) => zone == own,
        (Moment::Day(_), Moment::Day(_))
        | (Moment::Utc(_), Moment::Utc(_))
        | (Moment::Floating(_), Moment::Floating(_)) => true,
        (Moment::Day(_) | Moment::Utc(_) | Moment::Zoned(..) | Moment::Floating(_), _) => false,
    };
    is_alike && one.day() == other.day()
}

/// Returns an occurrence of a series as an event of its own.
fn own_event(object: &Component, occurrence: Occurrence) -> Result<Component, &'static str> {
    let (first, start) = start_of(object, occurrence)?;
    let series = whole(object).ok_or("The event is not a series.")?;
    let mut event = series.0.clone();
    for name in ["RRULE", "RDATE", "EXDATE", "EXRULE", "DURATION", "DTEND"] {
        event.remove(name);
    }
    // The time zone keeps the name that it has in the series.
    event.replace("DTSTART", first.with_value("DTSTART", &start.value()));
    let length = series.start().zip(series.end()).map(|(start, end)| start.until(end));
    let end = length.filter(|length| !length.is_zero()).and_then(|length| start.plus(length));
    if let Some(end) = end {
        event.push(first.with_value("DTEND", &end.value()));
    }
    event.replace("RECURRENCE-ID", first.with_value("RECURRENCE-ID", &start.value()));
    Ok(event)
}

impl Change for UpdateEvent {
    const NAME: &'static str = "update_event";
    const DESCRIPTION: &'static str = "Changes fields of an event, of a series, or of one occurrence of it.";
    const EXPOSES: Exposure = WRITES;
    const VERBS: [&'static str; 2] = ["update", "updated"];

    fn calendar(&self) -> &CalendarId {
        &self.id.calendar
    }

    fn event(&self) -> Option<&EventId> {
        Some(&self.id)
    }

    fn occurrence(&self) -> Option<Occurrence> {
        self.occurrence
    }

    fn fault(&self, calendar: &Calendar) -> Option<&'static str> {
        let Fields { summary, start, location, description, repeat, reminders, .. } = self.fields();
        let is_empty = summary.is_none()
            && start.is_none()
            && location.is_none()
            && description.is_none()
            && repeat.is_none()
            && reminders.is_none();
        if is_empty && self.end.is_none() {
            return Some("The call changes no field.");
        }
        if self.occurrence.is_some() && repeat.is_some() {
            return Some("One occurrence is not repeated.");
        }
        self.fields().fault(&calendar.settings)
    }

    fn request(&self, calendar: &Calendar, facts: &Facts, nonce: &Nonce) -> Result<Request, &'static str> {
        let Some(Present { object, .. }) = &facts.present else { return Err(UNREAD) };
        let mut object = object.clone();
        match self.occurrence {
            Some(occurrence) => self.change_occurrence(&mut object, occurrence, calendar, nonce)?,
            None => self.change_whole(&mut object, calendar, nonce)?,
        }
        if let Some(times) = self.fields().times(calendar.settings.time_zone) {
            define_zone(&mut object, times);
        }
        Ok(Request { event: self.id.clone(), effect: Effect::Replace(object) })
    }
}
