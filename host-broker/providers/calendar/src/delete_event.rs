//! `delete_event`: a single event, a series, or one occurrence of it.

use crate::api::{Effect, Present, UNREAD};
use crate::change::{Change, Facts, Request, mark};
use crate::content_lines::{Component, Part};
use crate::event::Event;
use crate::occurrence::{start_of, whole_mut};
use crate::reference::{CalendarId, EventId, Occurrence};
use crate::{Calendar, DELETES};
use model::{Exposure, Nonce, Tier};
use schemars::JsonSchema;
use serde::Deserialize;

/// The parameters of `delete_event`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct DeleteEvent {
    /// The id of the event.
    id: EventId,
    /// The occurrence of a series that alone is deleted; the whole series, unless set.
    #[serde(default)]
    occurrence: Option<Occurrence>,
}

impl Change for DeleteEvent {
    const NAME: &'static str = "delete_event";
    const TIER: Option<Tier> = Some(Tier::Human);
    const DESCRIPTION: &'static str = "Deletes an event permanently, with all its occurrences or only one.";
    const EXPOSES: Exposure = DELETES;
    const VERBS: [&'static str; 2] = ["delete", "deleted"];

    fn calendar(&self) -> &CalendarId {
        &self.id.calendar
    }

    fn event(&self) -> Option<&EventId> {
        Some(&self.id)
    }

    fn occurrence(&self) -> Option<Occurrence> {
        self.occurrence
    }

    fn fault(&self, _calendar: &Calendar) -> Option<&'static str> {
        None
    }

    fn request(&self, _calendar: &Calendar, facts: &Facts, nonce: &Nonce) -> Result<Request, &'static str> {
        let Some(Present { object, .. }) = &facts.present else { return Err(UNREAD) };
        let Some(occurrence) = self.occurrence else {
            return Ok(Request { event: self.id.clone(), effect: Effect::Delete });
        };
        let (first, start) = start_of(object, occurrence)?;
        let skipped = first.with_value("EXDATE", &start.value());
        let mut object = object.clone();
        let is_own = |event: &Component| Event(event).is_occurrence(occurrence);
        object.parts.retain(|part| !matches!(part, Part::Component(event) if is_own(event)));
        let event = whole_mut(&mut object).ok_or("The event is not a series.")?;
        event.push(skipped);
        mark(event, nonce);
        Ok(Request { event: self.id.clone(), effect: Effect::Skip(object) })
    }
}
