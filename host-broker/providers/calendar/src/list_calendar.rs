//! `list_calendar`: the events of a time.

use crate::Calendar;
use crate::api::Occurrences;
use crate::client::Session;
use crate::event::{Event, NAME_CHARS_MAX};
use crate::failures::guardrail;
use crate::moment::When;
use crate::query::Window;
use crate::reading::{Read, is_zero};
use crate::reference::CalendarId;
use chrono::{DateTime, TimeDelta, Utc};
use chrono_tz::Tz;
use provider::contract::{Failure, Guard};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use shared::Timestamp;

/// The longest time that one call reads, and the time that it reads unless told.
const DAYS_MAX: i64 = 370;
const DAYS: i64 = 7;
/// The most calendars, and the most events, that one call reads.
const CALENDARS_MAX: usize = 20;
const EVENTS_MAX: usize = 2_000;

/// The parameters of `list_calendar`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ListCalendar {
    /// The calendar; all of the account, unless set.
    #[serde(default)]
    calendar: Option<CalendarId>,
    /// The first day or time; now, unless set.
    #[serde(default)]
    from: Option<When>,
    /// The day or time after the last one; seven days after the first, unless set. At most 370 days after it.
    #[serde(default)]
    to: Option<When>,
    /// Only events with this text in title, place or description.
    #[serde(default)]
    #[schemars(length(min = 1, max = 200))]
    text: Option<String>,
    /// The most events to return.
    #[serde(default = "fifty")]
    #[schemars(range(min = 1, max = 100))]
    limit: usize,
    /// The `next_offset` of the list before.
    #[serde(default)]
    #[schemars(range(max = 100_000))]
    offset: usize,
}

fn fifty() -> usize {
    50
}

/// The events of a time, the earliest first.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Listed {
    /// The events. Each occurrence of a repeated event is one.
    events: Vec<Entry>,
    /// The offset of the next page, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_offset: Option<usize>,
    /// The number of events and calendars that cannot be read.
    #[serde(skip_serializing_if = "is_zero")]
    unreadable: usize,
    /// The calendars that the server refuses to list. Their events are missing.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    refused: Vec<CalendarId>,
}

/// An event in a list.
#[derive(Debug, Serialize, JsonSchema)]
struct Entry {
    /// Its id.
    id: String,
    /// The occurrence of a repeated event.
    #[serde(skip_serializing_if = "Option::is_none")]
    occurrence: Option<String>,
    /// Its title.
    #[serde(skip_serializing_if = "Option::is_none")]
    summary: Option<String>,
    /// Its start: a day, or a time.
    start: String,
    /// Its end: the day after the last, or a time.
    #[serde(skip_serializing_if = "Option::is_none")]
    end: Option<String>,
    /// Its place.
    #[serde(skip_serializing_if = "Option::is_none")]
    location: Option<String>,
    /// `tentative` or `cancelled`, if it is one of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<String>,
    /// Whether it is a repeated event whose occurrences the server did not compute. `start` is then the first one.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    is_series: bool,
    #[serde(skip)]
    #[schemars(skip)]
    order: DateTime<Utc>,
}

impl ListCalendar {
    /// Returns the time that is asked for; `None` if a time is skipped by the clocks, or out of bounds.
    fn window(&self, zone: Tz, now: Timestamp) -> Option<Window> {
        let instant = |when: When| Some(when.0.placed(zone)?.instant(zone));
        let from = match self.from {
            Some(from) => instant(from)?,
            None => DateTime::from_timestamp_millis(now.millis())?,
        };
        let to = match self.to {
            Some(to) => instant(to)?,
            None => from.checked_add_signed(TimeDelta::days(DAYS))?,
        };
        (from < to && to - from <= TimeDelta::days(DAYS_MAX)).then_some(Window { from, to })
    }
}

impl Read for ListCalendar {
    type Output = Listed;

    const NAME: &'static str = "list_calendar";
    const DESCRIPTION: &'static str =
        "Lists the events of a time in one calendar or in all, the earliest first. The next seven days, unless told.";

    fn summary(&self) -> String {
        "list events".to_owned()
    }

    fn guard(&self, calendar: &Calendar, now: Timestamp) -> Guard {
        match self.window(calendar.settings.time_zone.tz(), now) {
            Some(_) => Guard::Pass,
            None => Guard::Refuse(guardrail("from must be before to, by at most 370 days; both must exist.")),
        }
    }

    async fn perform(self, session: &Session<'_>) -> Result<(Listed, String), Failure> {
        let calendar = session.calendar;
        let zone = calendar.settings.time_zone.tz();
        let Some(window) = self.window(zone, calendar.now()) else {
            return Err(Failure::Refused { message: "from must be before to.".into() });
        };
        let place = session.place().await?;
        let (ids, mut unreadable) = if let Some(id) = &self.calendar {
            (vec![id.clone()], 0)
        } else {
            let (found, unreadable) = place.calendars(session).await?;
            (found.into_iter().map(|found| found.id).collect(), unreadable)
        };
        if ids.len() > CALENDARS_MAX {
            let message = format!("The account has more than {CALENDARS_MAX} calendars. Name one of them.");
            return Err(Failure::Refused { message });
        }
        let (mut events, mut refused, all) = (Vec::new(), Vec::new(), ids.len());
        for id in ids {
            let found = match place.occurrences(session, &id, window).await {
                Ok(found) => found,
                // A calendar of somebody else must not hide those of the account.
                Err(Failure::Refused { .. } | Failure::InvalidOutput { .. }) if refused.len() + 1 < all => {
                    refused.push(id);
                    continue;
                }
                Err(failure) => return Err(failure),
            };
            let wanted = self.text.as_ref().map(|text| text.to_lowercase());
            let read = move || Ok(entries(&found, window, zone, wanted.as_deref()));
            let (more, bad) = calendar.parse(read).await?;
            events.extend(more);
            unreadable += bad;
            if events.len() > EVENTS_MAX {
                let message =
                    format!("There are more than {EVENTS_MAX} events. Ask for a shorter time or one calendar.");
                return Err(Failure::Refused { message });
            }
        }
        events.sort_by(|one, other| (one.order, &one.id).cmp(&(other.order, &other.id)));
        let total = events.len();
        let events: Vec<Entry> = events.into_iter().skip(self.offset).take(self.limit).collect();
        let end = self.offset.saturating_add(events.len());
        let summary = format!("{} event{}", events.len(), if events.len() == 1 { "" } else { "s" });
        Ok((Listed { events, next_offset: (end < total).then_some(end), unreadable, refused }, summary))
    }
}

/// Returns the events that are asked for, and the number of those that cannot be read.
fn entries(found: &Occurrences, window: Window, zone: Tz, wanted: Option<&str>) -> (Vec<Entry>, usize) {
    let (mut entries, mut unreadable) = (Vec::new(), found.unreadable);
    for (id, object) in &found.events {
        for component in object.components("VEVENT") {
            let event = Event(component);
            if event.start().is_none() {
                unreadable += 1;
            } else if (event.is_series() || event.is_within(window.from, window.to, zone)) && has(event, wanted) {
                entries.extend(entry(&id.to_string(), event, zone));
            }
        }
    }
    (entries, unreadable)
}

fn has(event: Event<'_>, wanted: Option<&str>) -> bool {
    let Some(wanted) = wanted else { return true };
    let lines = ["SUMMARY", "LOCATION", "DESCRIPTION"].into_iter().filter_map(|name| event.0.line(name));
    lines.into_iter().any(|line| line.unescaped().to_lowercase().contains(wanted))
}

fn entry(id: &str, event: Event<'_>, zone: Tz) -> Option<Entry> {
    let start = event.start()?;
    let status = event.text("STATUS", 40).map(|status| status.to_ascii_lowercase());
    Some(Entry {
        id: id.to_owned(),
        occurrence: event.occurrence().map(crate::moment::Moment::key),
        summary: event.text("SUMMARY", NAME_CHARS_MAX),
        start: start.text(zone),
        end: event.end().map(|end| end.text(zone)),
        location: event.text("LOCATION", NAME_CHARS_MAX),
        status: status.filter(|status| status == "tentative" || status == "cancelled"),
        is_series: event.is_series(),
        order: start.instant(zone),
    })
}
