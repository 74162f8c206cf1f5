//! `create_event`.

use crate::api::Effect;
use crate::change::{Change, Facts, Request, mark};
use crate::content_lines::{Component, Line};
use crate::fields::{Fields, Reminders, Repeat, define_zone};
use crate::moment::{When, Zone};
use crate::reference::CalendarId;
use crate::{Calendar, WRITES};
use model::{Exposure, Nonce};
use schemars::JsonSchema;
use serde::Deserialize;

/// The parameters of `create_event`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CreateEvent {
    /// The calendar.
    calendar: CalendarId,
    /// The title, in one line.
    #[schemars(length(min = 1, max = 500))]
    summary: String,
    /// The start: a day `2026-12-01`, or a time `2026-12-01T10:00`.
    start: When,
    /// The end: the day after the last one, or a time.
    end: When,
    /// The time zone of times without an offset; that of the account, unless set.
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
    /// Reminders, in minutes before the start; an empty list means none.
    #[serde(default)]
    #[schemars(length(max = 10))]
    reminders: Option<Reminders>,
}

impl CreateEvent {
    fn fields(&self) -> Fields<'_> {
        Fields {
            summary: Some(&self.summary),
            start: Some(self.start),
            end: Some(self.end),
            time_zone: self.time_zone,
            location: self.location.as_deref(),
            description: self.description.as_deref(),
            repeat: self.repeat.as_ref(),
            reminders: self.reminders.as_ref(),
        }
    }
}

impl Change for CreateEvent {
    const NAME: &'static str = "create_event";
    const DESCRIPTION: &'static str = "Creates an event without guests, once or repeated.";
    const EXPOSES: Exposure = WRITES;
    const MAY_VARY: &[&str] =
        &["summary", "start", "end", "time_zone", "location", "description", "repeat", "reminders"];
    const VERBS: [&'static str; 2] = ["create", "created"];

    fn calendar(&self) -> &CalendarId {
        &self.calendar
    }

    fn fault(&self, calendar: &Calendar) -> Option<&'static str> {
        self.fields().fault(&calendar.settings)
    }

    fn request(&self, calendar: &Calendar, facts: &Facts, nonce: &Nonce) -> Result<Request, &'static str> {
        let mut event = Component::new("VEVENT");
        event.push(Line::raw(format!("UID:{}", nonce.as_str())));
        mark(&mut event, nonce);
        self.fields().apply(&mut event, calendar.settings.time_zone)?;
        if self.reminders.is_none() {
            facts.place.add_default_reminders(&mut event);
        }
        let mut object = Component::new("VCALENDAR");
        object.push(Line::raw("VERSION:2.0".to_owned()));
        object.push(Line::raw("PRODID:-//host-broker//calendar//EN".to_owned()));
        object.push_component(event);
        if let Some(times) = self.fields().times(calendar.settings.time_zone) {
            define_zone(&mut object, times);
        }
        let event = facts.place.new_event(&self.calendar, nonce).ok_or("No event can be named so.")?;
        Ok(Request { event, effect: Effect::Create(object) })
    }
}
