//! An event of Google Calendar (<https://developers.google.com/workspace/calendar/api/v3/reference/events>), as iCalendar.
//!
//! The form in iCalendar stays in memory. A change is written back as the fields that differ, so all others stay as they are.

use crate::api::MARK;
use crate::content_lines::{Component, Line};
use crate::event::Event;
use crate::moment::{Moment, duration};
use chrono::SecondsFormat;
use chrono_tz::Tz;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// The private property of an event with the nonce of the call that last changed it.
const PROPERTY: &str = "host-broker-call";
/// The most reminders that Google keeps for an event.
pub(crate) const REMINDERS_MAX: usize = 5;
pub(crate) const TOO_MANY_REMINDERS: &str = "Google Calendar keeps at most five reminders of an event.";
/// The lines of a series, as Google keeps them.
const SERIES: [&str; 4] = ["RRULE", "EXRULE", "RDATE", "EXDATE"];

/// An event, or one occurrence of a series.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Item {
    pub(crate) id: String,
    pub(crate) etag: Option<String>,
    #[serde(rename = "iCalUID")]
    pub(crate) ical_uid: Option<String>,
    pub(crate) recurring_event_id: Option<String>,
    original_start_time: Option<EventDateTime>,
    status: Option<String>,
    summary: Option<String>,
    location: Option<String>,
    description: Option<String>,
    start: Option<EventDateTime>,
    end: Option<EventDateTime>,
    #[serde(default)]
    recurrence: Vec<String>,
    organizer: Option<Person>,
    #[serde(default)]
    attendees: Vec<Person>,
    #[serde(default)]
    attendees_omitted: bool,
    reminders: Option<Reminders>,
    source: Option<Source>,
    #[serde(default)]
    extended_properties: Properties,
}

/// A day or a time, by the name that Google gives it.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
struct EventDateTime {
    date: Option<String>,
    date_time: Option<String>,
    time_zone: Option<String>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Person {
    email: Option<String>,
    #[serde(rename = "self", default)]
    is_self: bool,
    response_status: Option<String>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Reminders {
    #[serde(default)]
    use_default: bool,
    #[serde(default)]
    overrides: Vec<Reminder>,
}

#[derive(Debug, Clone, Deserialize)]
struct Reminder {
    minutes: u32,
}

#[derive(Debug, Clone, Deserialize)]
struct Source {
    url: Option<String>,
}

#[derive(Debug, Clone, Default, Deserialize)]
struct Properties {
    #[serde(default)]
    private: BTreeMap<String, String>,
}

impl EventDateTime {
    fn moment(&self) -> Option<Moment> {
        match (&self.date, &self.date_time) {
            (Some(day), None) => day.parse().ok().filter(|day| matches!(day, Moment::Day(_))),
            (None, Some(time)) => {
                let time = time.parse().ok().filter(|time| !matches!(time, Moment::Day(_)))?;
                let zone = self.time_zone.as_ref().and_then(|zone| zone.parse::<Tz>().ok());
                let Some(zone) = zone.filter(|zone| *zone != Tz::UTC) else { return Some(time) };
                // The second of two equal times on the clocks is written in UTC.
                let placed = time.placed(zone).filter(|placed| placed.instant(zone) == time.instant(zone));
                Some(placed.unwrap_or(time))
            }
            (Some(_), Some(_)) | (None, None) => None,
        }
    }
}

impl Item {
    /// Returns whether it is deleted.
    pub(crate) fn is_cancelled(&self) -> bool {
        self.status.as_deref() == Some("cancelled")
    }

    /// Returns whether it is a series.
    pub(crate) fn is_series(&self) -> bool {
        !self.recurrence.is_empty()
    }

    /// Returns the start of an occurrence before anybody moved it.
    pub(crate) fn original_start(&self) -> Option<Moment> {
        self.original_start_time.as_ref()?.moment()
    }

    /// Returns it in iCalendar; `None` if its times or its rule cannot be read.
    pub(crate) fn component(&self, uid: &str) -> Option<Component> {
        let mut event = Component::new("VEVENT");
        event.push(Line::text("UID", uid));
        event.push(self.start.as_ref()?.moment()?.line("DTSTART"));
        if let Some(end) = &self.end {
            event.push(end.moment()?.line("DTEND"));
        }
        if self.recurring_event_id.is_some() {
            event.push(self.original_start()?.line("RECURRENCE-ID"));
        }
        let texts = [
            ("SUMMARY", &self.summary),
            ("LOCATION", &self.location),
            ("DESCRIPTION", &self.description),
            ("URL", &self.source.as_ref().and_then(|source| source.url.clone())),
            ("STATUS", &self.status.as_ref().map(|status| status.to_ascii_uppercase())),
        ];
        for (name, text) in texts {
            if let Some(text) = text.as_ref().filter(|text| !text.is_empty()) {
                event.push(Line::text(name, text));
            }
        }
        for rule in &self.recurrence {
            let line = Line::raw(rule.clone());
            let is_known = SERIES.iter().any(|name| line.is(name)) && !rule.contains(char::is_control);
            event.push(Some(line).filter(|_| is_known)?);
        }
        self.push_people(&mut event);
        self.push_reminders(&mut event);
        if let Some(nonce) = self.extended_properties.private.get(PROPERTY) {
            event.push(Line::text(MARK, nonce));
        }
        Some(event)
    }

    fn push_people(&self, event: &mut Component) {
        let has_guests = self.attendees_omitted || !self.attendees.is_empty();
        let organizer = self.organizer.as_ref().filter(|organizer| has_guests || !organizer.is_self);
        if let Some(address) = organizer.and_then(|organizer| organizer.email.as_ref()) {
            event.push(Line::raw(format!("ORGANIZER:mailto:{address}")));
        }
        for guest in &self.attendees {
            let answer = match guest.response_status.as_deref() {
                Some("accepted") => ";PARTSTAT=ACCEPTED",
                Some("declined") => ";PARTSTAT=DECLINED",
                Some("tentative") => ";PARTSTAT=TENTATIVE",
                Some("needsAction") => ";PARTSTAT=NEEDS-ACTION",
                Some(_) | None => "",
            };
            let address = guest.email.as_deref().unwrap_or_default();
            event.push(Line::raw(format!("ATTENDEE{answer}:mailto:{address}")));
        }
        if self.attendees_omitted && self.attendees.is_empty() {
            event.push(Line::raw("ATTENDEE:".to_owned()));
        }
    }

    fn push_reminders(&self, event: &mut Component) {
        // Without a word about them, an event has the reminders of its calendar.
        let Some(Reminders { use_default, overrides }) = &self.reminders else {
            event.push_component(default_reminders());
            return;
        };
        if *use_default {
            event.push_component(default_reminders());
        }
        for Reminder { minutes } in overrides {
            let mut alarm = Component::new("VALARM");
            alarm.push(Line::raw(format!("TRIGGER:-PT{minutes}M")));
            event.push_component(alarm);
        }
    }
}

/// Returns the reminders of the calendar, which are known by their place only.
pub(crate) fn default_reminders() -> Component {
    Component::new("VALARM")
}

/// Returns a new event with this id. One with other reminders than those of the calendar says so, also if it has none.
///
/// # Errors
/// The reason, as a sentence, why Google cannot keep it.
pub(crate) fn whole(id: &str, event: Event<'_>) -> Result<Value, &'static str> {
    let mut empty = Component::new("VEVENT");
    empty.push_component(default_reminders());
    let mut members = differences(Event(&empty), event)?;
    members.insert("id".to_owned(), json!(id));
    // A member that is null is one that a change removes.
    for name in ["start", "end"] {
        if let Some(Value::Object(time)) = members.get_mut(name) {
            time.retain(|_, value| !value.is_null());
        }
    }
    Ok(Value::Object(members))
}

/// Returns the fields that a change sets, and no others. `null` removes one.
///
/// # Errors
/// The reason, as a sentence, why Google cannot keep it.
pub(crate) fn patch(before: Event<'_>, after: Event<'_>) -> Result<Value, &'static str> {
    differences(before, after).map(Value::Object)
}

fn differences(before: Event<'_>, after: Event<'_>) -> Result<Map<String, Value>, &'static str> {
    let mut members = Map::new();
    for (name, member) in [("SUMMARY", "summary"), ("LOCATION", "location"), ("DESCRIPTION", "description")] {
        let text = |event: Event<'_>| event.0.line(name).map(Line::unescaped);
        if text(before) != text(after) {
            members.insert(member.to_owned(), json!(text(after)));
        }
    }
    if (before.start(), before.end()) != (after.start(), after.end()) {
        let (start, end) = after.start().zip(after.end()).ok_or("The event has no start.")?;
        members.insert("start".to_owned(), time(start)?);
        members.insert("end".to_owned(), time(end)?);
    }
    let rules = |event: Event<'_>| {
        let lines = event.0.lines().filter(|line| SERIES.iter().any(|name| line.is(name)));
        lines.map(ToString::to_string).collect::<Vec<String>>()
    };
    if rules(before) != rules(after) {
        members.insert("recurrence".to_owned(), json!(rules(after)));
    }
    let alarms = |event: Event<'_>| event.0.components("VALARM").map(minutes).collect::<Vec<Option<i64>>>();
    if alarms(before) != alarms(after) {
        let overrides: Vec<i64> = alarms(after).into_iter().flatten().collect();
        if overrides.len() > REMINDERS_MAX {
            return Err(TOO_MANY_REMINDERS);
        }
        let overrides: Vec<Value> =
            overrides.iter().map(|minutes| json!({ "method": "popup", "minutes": minutes })).collect();
        members.insert("reminders".to_owned(), json!({ "useDefault": false, "overrides": overrides }));
    }
    let nonce = after.0.line(MARK).ok_or("The change has no mark.")?.value();
    members.insert("extendedProperties".to_owned(), json!({ "private": { PROPERTY: nonce } }));
    Ok(members)
}

/// Returns the minutes before the start at which a program reminds; `None` of the reminders of the calendar.
fn minutes(alarm: &Component) -> Option<i64> {
    duration(alarm.line("TRIGGER")?.value()).map(|before| -before.num_minutes())
}

/// Returns a day or a time. The members of the other form are removed.
fn time(moment: Moment) -> Result<Value, &'static str> {
    let zone = match moment {
        Moment::Day(day) => return Ok(json!({ "date": day.to_string(), "dateTime": null, "timeZone": null })),
        Moment::Utc(_) => Tz::UTC,
        Moment::Zoned(_, zone) => zone,
        Moment::Floating(_) => return Err("Google Calendar keeps no time without a time zone."),
    };
    let time = moment.instant(zone).with_timezone(&zone).to_rfc3339_opts(SecondsFormat::Secs, zone == Tz::UTC);
    Ok(json!({ "date": null, "dateTime": time, "timeZone": zone.name() }))
}

#[cfg(test)]
#[path = "google_event_tests.rs"]
mod tests;
