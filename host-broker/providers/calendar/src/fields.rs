//! The fields of an event that a caller gives, and what they change.

use crate::content_lines::{Component, Line, Part};
use crate::google_event::{REMINDERS_MAX, TOO_MANY_REMINDERS};
use crate::moment::{Moment, When, Zone};
use crate::settings::{Api, Settings};
use crate::zone;
use chrono::{DateTime, NaiveTime, TimeDelta, Utc};
use chrono_tz::Tz;
use schemars::JsonSchema;
use serde::Deserialize;
use std::fmt::Write as _;

/// The definition of a zone whose clocks keep to no rule covers so many days.
const SERIES: TimeDelta = TimeDelta::days(3650);

/// A rule by which an event is repeated.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Repeat {
    /// The unit.
    every: Unit,
    /// The number of units from one occurrence to the next.
    #[serde(default = "one")]
    #[schemars(range(min = 1, max = 999))]
    interval: u32,
    /// The days of the week, with the unit `week`; the day of the start, unless set.
    #[serde(default)]
    #[schemars(length(max = 7))]
    weekdays: Vec<Weekday>,
    /// The number of occurrences.
    #[serde(default)]
    #[schemars(range(min = 1, max = 1000))]
    count: Option<u32>,
    /// The last day or time at which an occurrence can start.
    #[serde(default)]
    until: Option<When>,
}

fn one() -> u32 {
    1
}

/// A unit of a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Unit {
    Day,
    Week,
    Month,
    Year,
}

/// A day of the week.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Weekday {
    Monday,
    Tuesday,
    Wednesday,
    Thursday,
    Friday,
    Saturday,
    Sunday,
}

impl Repeat {
    fn fault(&self) -> Option<&'static str> {
        if self.count.is_some() && self.until.is_some() {
            return Some("repeat has count or until, not both.");
        }
        (!self.weekdays.is_empty() && self.every != Unit::Week)
            .then_some("repeat has weekdays with the unit week only.")
    }

    /// Returns whether the start is an occurrence. Programs differ about a series whose start is none.
    fn begins_with(&self, start: Moment) -> bool {
        let day = start.day().format("%a").to_string().to_ascii_uppercase();
        self.weekdays.is_empty() || self.weekdays.iter().any(|weekday| day.starts_with(weekday.short()))
    }

    /// Returns the rule (RFC 5545, section 3.3.10) of a series that starts at `start`; `None` if `until` does not exist.
    fn rule(&self, start: Moment, zone: Tz) -> Option<String> {
        let unit = match self.every {
            Unit::Day => "DAILY",
            Unit::Week => "WEEKLY",
            Unit::Month => "MONTHLY",
            Unit::Year => "YEARLY",
        };
        let mut rule = format!("RRULE:FREQ={unit}");
        if self.interval > 1 {
            write!(rule, ";INTERVAL={}", self.interval).ok()?;
        }
        let days: Vec<&str> = self.weekdays.iter().map(|day| day.short()).collect();
        if !days.is_empty() {
            write!(rule, ";BYDAY={}", days.join(",")).ok()?;
        }
        if let Some(count) = self.count {
            write!(rule, ";COUNT={count}").ok()?;
        }
        if let Some(until) = self.until {
            let until = match (start, until.0) {
                (Moment::Day(_), Moment::Day(day)) => day.format("%Y%m%d").to_string(),
                (Moment::Day(_), other) => {
                    other.placed(zone)?.instant(zone).with_timezone(&zone).format("%Y%m%d").to_string()
                }
                // A series without a zone ends without one.
                (Moment::Floating(_), other) => {
                    last(other, zone)?.with_timezone(&zone).format("%Y%m%dT%H%M%S").to_string()
                }
                (Moment::Utc(_) | Moment::Zoned(..), other) => {
                    format!("{}Z", last(other, zone)?.format("%Y%m%dT%H%M%S"))
                }
            };
            write!(rule, ";UNTIL={until}").ok()?;
        }
        Some(rule)
    }
}

/// Returns the last instant of a day or time.
fn last(until: Moment, zone: Tz) -> Option<DateTime<Utc>> {
    match until {
        Moment::Day(day) => {
            let end = day.and_time(NaiveTime::from_hms_opt(23, 59, 59)?);
            Some(Moment::Floating(end).placed(zone)?.instant(zone))
        }
        Moment::Utc(_) | Moment::Zoned(..) | Moment::Floating(_) => Some(until.placed(zone)?.instant(zone)),
    }
}

impl Weekday {
    fn short(self) -> &'static str {
        match self {
            Self::Monday => "MO",
            Self::Tuesday => "TU",
            Self::Wednesday => "WE",
            Self::Thursday => "TH",
            Self::Friday => "FR",
            Self::Saturday => "SA",
            Self::Sunday => "SU",
        }
    }
}

/// The minutes before the start at which a program reminds.
pub(crate) type Reminders = Vec<Minutes>;

/// Some minutes, at most four weeks.
#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[serde(transparent)]
pub(crate) struct Minutes(#[schemars(range(max = 40_320))] u32);

/// The fields of an event that a call sets. An empty text removes the field.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Fields<'a> {
    pub(crate) summary: Option<&'a str>,
    pub(crate) start: Option<When>,
    pub(crate) end: Option<When>,
    pub(crate) time_zone: Option<Zone>,
    pub(crate) location: Option<&'a str>,
    pub(crate) description: Option<&'a str>,
    pub(crate) repeat: Option<&'a Repeat>,
    pub(crate) reminders: Option<&'a Reminders>,
}

/// The start and the end of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Times {
    pub(crate) start: Moment,
    pub(crate) end: Moment,
}

impl Fields<'_> {
    /// Returns the fault of the fields, as a sentence.
    pub(crate) fn fault(&self, settings: &Settings) -> Option<&'static str> {
        let default = settings.time_zone;
        let lines = [self.summary, self.location].into_iter().flatten();
        if lines.into_iter().any(|line| line.chars().any(char::is_control)) {
            return Some("summary and location are one line each, without control characters.");
        }
        let is_control = |c: char| c.is_control() && !matches!(c, '\n' | '\t');
        if self.description.is_some_and(|text| text.replace("\r\n", "\n").contains(is_control)) {
            return Some("The description has control characters other than ends of lines and tabs.");
        }
        if self.start.is_some() != self.end.is_some() {
            return Some("start and end are given together.");
        }
        if self.time_zone.is_some() && self.start.is_none() {
            return Some("time_zone is given with start and end.");
        }
        let is_over = self.reminders.is_some_and(|reminders| reminders.len() > REMINDERS_MAX);
        if is_over && settings.api == Api::Google {
            return Some(TOO_MANY_REMINDERS);
        }
        if let Some(fault) = self.repeat.and_then(Repeat::fault) {
            return Some(fault);
        }
        match (self.start, self.times(default)) {
            (Some(_), None) => Some("The clocks of the time zone skip the start or the end."),
            (_, Some(Times { start, end })) => {
                if matches!(start, Moment::Day(_)) != matches!(end, Moment::Day(_)) {
                    return Some("start and end are two days or two times.");
                }
                let zone = self.zone(default);
                (end.instant(zone) <= start.instant(zone))
                    .then_some("The end must be after the start. The end of a day is the day after it.")
            }
            (None, None) => None,
        }
    }

    fn zone(&self, default: Zone) -> Tz {
        self.time_zone.unwrap_or(default).tz()
    }

    /// Returns the given times in their zone.
    pub(crate) fn times(&self, default: Zone) -> Option<Times> {
        let zone = self.zone(default);
        Some(Times { start: self.start?.0.placed(zone)?, end: self.end?.0.placed(zone)? })
    }

    /// Changes an event.
    ///
    /// # Errors
    /// The fault, as a sentence.
    pub(crate) fn apply(&self, event: &mut Component, default: Zone) -> Result<(), &'static str> {
        for (name, text) in [("SUMMARY", self.summary), ("LOCATION", self.location), ("DESCRIPTION", self.description)]
        {
            match text {
                Some("") => event.remove(name),
                Some(text) => event.replace(name, Line::text(name, text)),
                None => {}
            }
        }
        if let Some(Times { start, end }) = self.times(default) {
            event.replace("DTSTART", start.line("DTSTART"));
            event.remove("DURATION");
            event.replace("DTEND", end.line("DTEND"));
        }
        if let Some(repeat) = self.repeat {
            let first = event.line("DTSTART").ok_or("The event has no start.")?;
            let start = Moment::read(first).ok_or("The event has no start.")?;
            // The end of a series is in the time zone of its start.
            let zone = match start {
                Moment::Zoned(_, zone) => zone,
                Moment::Floating(_) if first.param("TZID").is_some() => {
                    return Err("The time zone of the event is not known, so its rule stays.");
                }
                Moment::Day(_) | Moment::Utc(_) | Moment::Floating(_) => self.zone(default),
            };
            if !repeat.begins_with(start) {
                return Err("The event starts on none of the weekdays of repeat.");
            }
            let rule = repeat.rule(start, zone).ok_or("The clocks of the time zone skip until.")?;
            event.replace("RRULE", Line::raw(rule));
        }
        if let Some(reminders) = self.reminders {
            event.parts.retain(|part| !matches!(part, Part::Component(alarm) if alarm.name == "VALARM"));
            for Minutes(minutes) in reminders {
                let mut alarm = Component::new("VALARM");
                alarm.push(Line::raw("ACTION:DISPLAY".to_owned()));
                alarm.push(Line::raw("DESCRIPTION:Reminder".to_owned()));
                alarm.push(Line::raw(format!("TRIGGER:-PT{minutes}M")));
                event.push_component(alarm);
            }
        }
        Ok(())
    }
}

/// Adds the definition of the time zone of given times to an object that lacks it (RFC 5545, section 3.2.19).
pub(crate) fn define_zone(object: &mut Component, times: Times) {
    for moment in [times.start, times.end] {
        let Moment::Zoned(_, zone) = moment else { continue };
        let is_own = |definition: &Component| definition.line("TZID").is_some_and(|line| line.value() == zone.name());
        if object.components("VTIMEZONE").any(is_own) {
            continue;
        }
        let from = times.start.instant(zone);
        let to = from.checked_add_signed(SERIES).unwrap_or(from);
        let at = object.parts.iter().position(|part| matches!(part, Part::Component(_))).unwrap_or(object.parts.len());
        object.parts.insert(at, Part::Component(zone::definition(zone, from, to)));
    }
}
