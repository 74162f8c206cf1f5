//! `get_event`: one event with all its fields.

use crate::api::Present;
use crate::client::Session;
use crate::content_lines::{Component, Line};
use crate::event::{Event, NAME_CHARS_MAX, shortened};
use crate::failures::{no_event, no_occurrence};
use crate::moment::Moment;
use crate::occurrence::{changed, whole};
use crate::reading::{Read, is_zero};
use crate::reference::{EventId, Occurrence};
use chrono_tz::Tz;
use provider::contract::Failure;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The longest description that is returned.
const DESCRIPTION_CHARS_MAX: usize = 32_000;
/// The most guests, reminders and occurrences that are returned.
const ENTRIES_MAX: usize = 200;

/// The parameters of `get_event`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct GetEvent {
    /// The id of the event.
    id: EventId,
    /// The occurrence of a repeated event; the series, unless set.
    #[serde(default)]
    occurrence: Option<Occurrence>,
}

/// An event.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Details {
    /// Its id.
    id: String,
    /// The occurrence.
    #[serde(skip_serializing_if = "Option::is_none")]
    occurrence: Option<String>,
    /// Its title.
    #[serde(skip_serializing_if = "Option::is_none")]
    summary: Option<String>,
    /// Its start: a day, or a time.
    #[serde(skip_serializing_if = "Option::is_none")]
    start: Option<String>,
    /// Its end: the day after the last, or a time.
    #[serde(skip_serializing_if = "Option::is_none")]
    end: Option<String>,
    /// The time zone in which it was written.
    #[serde(skip_serializing_if = "Option::is_none")]
    time_zone: Option<String>,
    /// Its place.
    #[serde(skip_serializing_if = "Option::is_none")]
    location: Option<String>,
    /// Its description, at most 32,000 characters.
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<String>,
    /// The address of a page.
    #[serde(skip_serializing_if = "Option::is_none")]
    url: Option<String>,
    /// `confirmed`, `tentative` or `cancelled`.
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<String>,
    /// The address of the person who invites.
    #[serde(skip_serializing_if = "Option::is_none")]
    organizer: Option<String>,
    /// The guests, at most 200.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    guests: Vec<Guest>,
    /// The rule of the series (RFC 5545, section 3.3.10): `FREQ=WEEKLY;COUNT=10`.
    #[serde(skip_serializing_if = "Option::is_none")]
    rule: Option<String>,
    /// The occurrences of the series that do not take place, at most 200.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    skipped: Vec<String>,
    /// The occurrences of the series that somebody changed, at most 200.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    changed: Vec<String>,
    /// The number of changed occurrences of the series that cannot be read.
    #[serde(skip_serializing_if = "is_zero")]
    unreadable: usize,
    /// The reminders, relative to the start or as times: `-PT15M`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    reminders: Vec<String>,
}

/// A guest of an event.
#[derive(Debug, Serialize, JsonSchema)]
struct Guest {
    /// The address.
    address: String,
    /// The answer: `accepted`, `declined`, `tentative`, `needs-action`.
    #[serde(skip_serializing_if = "Option::is_none")]
    answer: Option<String>,
}

impl Read for GetEvent {
    type Output = Details;

    const NAME: &'static str = "get_event";
    const DESCRIPTION: &'static str = "Reads one event with its description, guests and reminders.";

    fn summary(&self) -> String {
        "read an event".to_owned()
    }

    async fn perform(self, session: &Session<'_>) -> Result<(Details, String), Failure> {
        let present = session.place().await?.read(session, &self.id, self.occurrence).await?;
        let Present { object, unreadable, .. } = present.ok_or_else(|| no_event(&self.id))?;
        let zone = session.calendar.settings.time_zone.tz();
        let details = Details { unreadable, ..details(&self.id, self.occurrence, &object, zone)? };
        Ok((details, "an event".to_owned()))
    }
}

fn details(id: &EventId, occurrence: Option<Occurrence>, object: &Component, zone: Tz) -> Result<Details, Failure> {
    let nothing = || Failure::Refused { message: "There is no event under that name.".into() };
    let own = occurrence.and_then(|occurrence| changed(object, occurrence));
    let event = own.or_else(|| whole(object)).ok_or_else(nothing)?;
    // An occurrence that nobody has changed is the series at another time.
    let (start, end) = match occurrence.filter(|_| own.is_none()) {
        None => (event.start(), event.end()),
        Some(occurrence) => {
            let times = || {
                let first = event.start()?;
                let start = occurrence.0.like(first)?;
                Some((start, event.end().and_then(|end| start.plus(first.until(end)))))
            };
            let (start, end) = times().ok_or_else(|| no_occurrence(id, occurrence))?;
            (Some(start), end)
        }
    };
    let lines = |name: &'static str| event.0.lines().filter(move |line| line.is(name)).take(ENTRIES_MAX);
    let others = object.components("VEVENT").map(Event).filter_map(Event::occurrence);
    let is_series = occurrence.is_none() && event.is_series();
    Ok(Details {
        id: id.to_string(),
        occurrence: occurrence.map(|occurrence| occurrence.0.key()),
        summary: event.text("SUMMARY", NAME_CHARS_MAX),
        start: start.map(|start| start.text(zone)),
        end: end.map(|end| end.text(zone)),
        time_zone: event
            .0
            .line("DTSTART")
            .and_then(|line| line.param("TZID"))
            .map(|name| shortened(name, NAME_CHARS_MAX)),
        location: event.text("LOCATION", NAME_CHARS_MAX),
        description: event.text("DESCRIPTION", DESCRIPTION_CHARS_MAX),
        url: event.text("URL", NAME_CHARS_MAX),
        status: event.text("STATUS", 40).map(|status| status.to_ascii_lowercase()),
        organizer: event.0.line("ORGANIZER").map(address),
        guests: lines("ATTENDEE").map(guest).collect(),
        rule: event.text("RRULE", NAME_CHARS_MAX).filter(|_| is_series),
        skipped: if is_series {
            lines("EXDATE").flat_map(Moment::read_all).map(Moment::key).take(ENTRIES_MAX).collect()
        } else {
            Vec::new()
        },
        unreadable: 0,
        changed: if is_series { others.map(Moment::key).take(ENTRIES_MAX).collect() } else { Vec::new() },
        reminders: event
            .0
            .components("VALARM")
            .filter_map(|alarm| alarm.line("TRIGGER"))
            .map(|trigger| shortened(trigger.value(), 100))
            .take(ENTRIES_MAX)
            .collect(),
    })
}

fn address(line: &Line) -> String {
    let address = line.value();
    let is_mail = address.get(..7).is_some_and(|scheme| scheme.eq_ignore_ascii_case("mailto:"));
    shortened(address.get(7..).filter(|_| is_mail).unwrap_or(address), NAME_CHARS_MAX)
}

fn guest(line: &Line) -> Guest {
    Guest {
        address: address(line),
        answer: line.param("PARTSTAT").map(|answer| shortened(&answer.to_ascii_lowercase(), 40)),
    }
}
