//! Dates, times and time zones, as a caller and as iCalendar write them.

use crate::content_lines::Line;
use chrono::{
    DateTime, Datelike as _, LocalResult, NaiveDate, NaiveDateTime, SecondsFormat, TimeDelta, TimeZone as _, Utc,
};
use chrono_tz::Tz;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::str::FromStr;

/// A time zone of the IANA database: `Europe/Berlin`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
pub struct Zone(#[schemars(with = "String", length(min = 1, max = 64))] Tz);

/// A text is not a time zone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("it is no time zone of the IANA database, such as Europe/Berlin")]
pub struct BadZone;

impl Zone {
    pub(crate) fn tz(self) -> Tz {
        self.0
    }
}

impl Default for Zone {
    fn default() -> Self {
        Self(Tz::UTC)
    }
}

impl TryFrom<String> for Zone {
    type Error = BadZone;

    fn try_from(name: String) -> Result<Self, BadZone> {
        name.parse().map(Self).map_err(|_unknown| BadZone)
    }
}

impl From<Zone> for String {
    fn from(zone: Zone) -> Self {
        zone.0.name().to_owned()
    }
}

/// A day, or a time in one of the three forms of iCalendar (RFC 5545, section 3.3.5).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Moment {
    /// A whole day.
    Day(NaiveDate),
    /// A time in UTC.
    Utc(DateTime<Utc>),
    /// A time on the clocks of a zone.
    Zoned(NaiveDateTime, Tz),
    /// A time on the clock of anybody who looks at it, or in a zone that is not known.
    Floating(NaiveDateTime),
}

/// A day or a time that a caller gives. A time without an offset is in the time zone of the call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(try_from = "String")]
pub(crate) struct When(#[schemars(with = "String", length(min = 10, max = 40))] pub(crate) Moment);

impl TryFrom<String> for When {
    type Error = BadMoment;

    fn try_from(text: String) -> Result<Self, BadMoment> {
        text.parse().map(Self)
    }
}

/// A text is not a day or a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("it is neither a day such as 2026-12-01 nor a time such as 2026-12-01T10:00 or 2026-12-01T10:00:00+01:00")]
pub(crate) struct BadMoment;

/// The years of calendars. An event can claim others; arithmetic with them would overflow.
const YEARS: std::ops::RangeInclusive<i32> = 1900..=2200;

impl FromStr for Moment {
    type Err = BadMoment;

    fn from_str(text: &str) -> Result<Self, BadMoment> {
        let is_plain = text.len() <= 40 && text.bytes().take(4).all(|byte| byte.is_ascii_digit());
        let moment = if let Ok(day) = NaiveDate::parse_from_str(text, "%Y-%m-%d") {
            (day.to_string() == text).then_some(Self::Day(day))
        } else if let Ok(time) = DateTime::parse_from_rfc3339(text) {
            Some(Self::Utc(time.to_utc()))
        } else {
            let forms = ["%Y-%m-%dT%H:%M:%S", "%Y-%m-%dT%H:%M"];
            forms.iter().find_map(|form| NaiveDateTime::parse_from_str(text, form).ok()).map(Self::Floating)
        };
        moment.filter(|moment| is_plain && YEARS.contains(&moment.year())).ok_or(BadMoment)
    }
}

impl Moment {
    fn year(self) -> i32 {
        match self {
            Self::Day(day) => day.year(),
            Self::Utc(time) => time.year(),
            Self::Zoned(local, _) | Self::Floating(local) => local.year(),
        }
    }

    /// Returns the day, on the clocks of its own zone.
    pub(crate) fn day(self) -> NaiveDate {
        match self {
            Self::Day(day) => day,
            Self::Utc(time) => time.date_naive(),
            Self::Zoned(local, _) | Self::Floating(local) => local.date(),
        }
    }

    /// Reads a property such as `DTSTART;TZID=Europe/Berlin:20261201T100000`.
    pub(crate) fn read(line: &Line) -> Option<Self> {
        Self::read_value(line.value(), line.param("TZID"))
    }

    fn read_value(value: &str, zone: Option<&str>) -> Option<Self> {
        let moment = if let Ok(day) = NaiveDate::parse_from_str(value, "%Y%m%d") {
            (value.len() == 8).then_some(Self::Day(day))
        } else if let Some(utc) = value.strip_suffix('Z') {
            NaiveDateTime::parse_from_str(utc, "%Y%m%dT%H%M%S").ok().map(|time| Self::Utc(time.and_utc()))
        } else {
            let local = NaiveDateTime::parse_from_str(value, "%Y%m%dT%H%M%S").ok()?;
            // Some programs put a path before the name of the zone.
            let zone = zone.and_then(|name| {
                let parts: Vec<&str> = name.rsplitn(3, '/').collect();
                let end = parts.get(..2).map(|end| end.iter().rev().copied().collect::<Vec<_>>().join("/"));
                name.parse().ok().or_else(|| end?.parse().ok())
            });
            Some(zone.map_or(Self::Floating(local), |zone| Self::Zoned(local, zone)))
        };
        moment.filter(|moment| YEARS.contains(&moment.year()))
    }

    /// Reads the values of a property that has several: `EXDATE:20261201T090000Z,20261208T090000Z`.
    pub(crate) fn read_all(line: &Line) -> Vec<Self> {
        line.value().split(',').filter_map(|value| Self::read_value(value, line.param("TZID"))).collect()
    }

    /// Writes a property: `DTSTART;TZID=Europe/Berlin:20261201T100000`.
    pub(crate) fn line(self, name: &str) -> Line {
        let value = self.value();
        Line::raw(match self {
            Self::Day(_) => format!("{name};VALUE=DATE:{value}"),
            Self::Zoned(_, zone) => format!("{name};TZID={}:{value}", zone.name()),
            Self::Utc(_) | Self::Floating(_) => format!("{name}:{value}"),
        })
    }

    /// Writes the value of a property, without its time zone.
    pub(crate) fn value(self) -> String {
        const LOCAL: &str = "%Y%m%dT%H%M%S";
        match self {
            Self::Day(day) => day.format("%Y%m%d").to_string(),
            Self::Utc(time) => format!("{}Z", time.format(LOCAL)),
            Self::Zoned(local, _) | Self::Floating(local) => local.format(LOCAL).to_string(),
        }
    }

    /// Returns the instant; a time without a zone is taken in `zone`, and a day begins with its first instant.
    pub(crate) fn instant(self, zone: Tz) -> DateTime<Utc> {
        match self {
            Self::Day(day) => in_zone(day.and_time(chrono::NaiveTime::MIN), zone),
            Self::Utc(time) => time,
            Self::Zoned(local, zone) => in_zone(local, zone),
            Self::Floating(local) => in_zone(local, zone),
        }
    }

    /// Returns the text for an agent: a day, or the time on the clocks of `zone` with its offset.
    pub(crate) fn text(self, zone: Tz) -> String {
        match self {
            Self::Day(day) => day.to_string(),
            Self::Floating(local) => local.format("%Y-%m-%dT%H:%M:%S").to_string(),
            Self::Utc(_) | Self::Zoned(..) => {
                let time = self.instant(zone);
                let is_utc = zone == Tz::UTC;
                time.with_timezone(&zone).to_rfc3339_opts(SecondsFormat::Secs, is_utc)
            }
        }
    }

    /// Returns the text that names an occurrence: in UTC, for every zone.
    pub(crate) fn key(self) -> String {
        self.text(Tz::UTC)
    }

    /// Places a time that a caller gave in a zone; `None` if the clocks of the zone skip it.
    pub(crate) fn placed(self, zone: Tz) -> Option<Self> {
        let placed = match self {
            Self::Day(_) => return Some(self),
            Self::Utc(time) => time.with_timezone(&zone).naive_local(),
            Self::Zoned(local, _) | Self::Floating(local) => local,
        };
        let time = zone.from_local_datetime(&placed).earliest()?;
        Some(if zone == Tz::UTC { Self::Utc(time.to_utc()) } else { Self::Zoned(placed, zone) })
    }

    /// Returns the same moment in the form of `other`; `None` if only one of them is a day, or has no zone.
    pub(crate) fn like(self, other: Self) -> Option<Self> {
        match (self, other) {
            (Self::Day(_), Self::Day(_)) | (Self::Floating(_), Self::Floating(_)) => Some(self),
            (Self::Utc(_) | Self::Zoned(..), Self::Utc(_)) => Some(Self::Utc(self.instant(Tz::UTC))),
            (Self::Utc(_) | Self::Zoned(..), Self::Zoned(_, zone)) => {
                Some(Self::Zoned(self.instant(zone).with_timezone(&zone).naive_local(), zone))
            }
            (Self::Day(_) | Self::Utc(_) | Self::Zoned(..) | Self::Floating(_), _) => None,
        }
    }

    /// Returns the time from `self` to `end`, on the clocks of a zone if both have the same one.
    pub(crate) fn until(self, end: Self) -> TimeDelta {
        match (self, end) {
            (Self::Day(start), Self::Day(end)) => end.signed_duration_since(start),
            (Self::Zoned(start, one), Self::Zoned(end, other)) if one == other => end.signed_duration_since(start),
            (Self::Floating(start), Self::Floating(end)) => end.signed_duration_since(start),
            (start, end) => end.instant(Tz::UTC).signed_duration_since(start.instant(Tz::UTC)),
        }
    }

    /// Returns the moment so much later, in the same form; `None` if it is in no [year](YEARS) of calendars.
    pub(crate) fn plus(self, time: TimeDelta) -> Option<Self> {
        let later = match self {
            Self::Day(day) => Self::Day(day.checked_add_signed(time)?),
            Self::Utc(at) => Self::Utc(at.checked_add_signed(time)?),
            Self::Zoned(local, zone) => Self::Zoned(local.checked_add_signed(time)?, zone),
            Self::Floating(local) => Self::Floating(local.checked_add_signed(time)?),
        };
        YEARS.contains(&later.year()).then_some(later)
    }
}

/// Returns the instant of a local time: the first of two, and the first after a gap.
fn in_zone(local: NaiveDateTime, zone: Tz) -> DateTime<Utc> {
    match zone.from_local_datetime(&local) {
        LocalResult::Single(time) | LocalResult::Ambiguous(time, _) => time.to_utc(),
        LocalResult::None => {
            // The offset before the gap (RFC 5545, section 3.3.5).
            let before = local.checked_sub_signed(TimeDelta::hours(3)).unwrap_or(local);
            let offset = zone.from_local_datetime(&before).earliest().map(|time| time.naive_utc() - before);
            local.checked_add_signed(offset.unwrap_or_default()).unwrap_or(local).and_utc()
        }
    }
}

/// Reads a duration (RFC 5545, section 3.3.6): `PT1H30M`, `P1D`, `P2W`, `-PT15M`.
pub(crate) fn duration(text: &str) -> Option<TimeDelta> {
    let (is_negative, rest) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let mut rest = rest.strip_prefix('P')?;
    let mut seconds = 0_i64;
    let mut is_time = false;
    while !rest.is_empty() {
        if let Some(after) = rest.strip_prefix('T') {
            (is_time, rest) = (true, after);
            continue;
        }
        let end = rest.find(|c: char| !c.is_ascii_digit())?;
        let (number, unit) = rest.split_at_checked(end)?;
        let number: i64 = number.parse().ok()?;
        let unit_seconds = match (unit.chars().next()?, is_time) {
            ('W', false) => 604_800,
            ('D', false) => 86_400,
            ('H', true) => 3_600,
            ('M', true) => 60,
            ('S', true) => 1,
            _ => return None,
        };
        seconds = seconds.checked_add(number.checked_mul(unit_seconds)?)?;
        rest = unit.get(1..)?;
    }
    TimeDelta::try_seconds(if is_negative { seconds.checked_neg()? } else { seconds })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moment(text: &str) -> Moment {
        text.parse().unwrap()
    }

    #[test]
    fn a_time_survives_in_each_form() {
        for line in [
            "DTSTART;VALUE=DATE:20261201",
            "DTSTART:20261201T090000Z",
            "DTSTART;TZID=Europe/Berlin:20261201T100000",
            "DTSTART:20261201T100000",
        ] {
            let read = Moment::read(&Line::raw(line.to_owned())).unwrap();
            assert_eq!(read.line("DTSTART").to_string(), line);
        }
        let strange =
            Line::raw("DTSTART;TZID=/freeassociation.sourceforge.net/Europe/Berlin:20261201T100000".to_owned());
        assert!(matches!(Moment::read(&strange), Some(Moment::Zoned(..))));
        for bad in ["", "2026-12-1", "+026-12-01", "2026-12-01T", "2026-13-01", "12026-12-01", "2026-12-01T25:00"] {
            assert!(bad.parse::<Moment>().is_err(), "{bad}");
        }
    }

    #[test]
    fn a_local_time_is_one_instant_or_none() {
        let berlin = chrono_tz::Europe::Berlin;
        assert_eq!(moment("2026-07-01T10:00").placed(berlin).unwrap().key(), "2026-07-01T08:00:00Z");
        assert_eq!(moment("2026-12-01T10:00").placed(berlin).unwrap().text(berlin), "2026-12-01T10:00:00+01:00");
        // The clocks go from 02:00 to 03:00.
        assert_eq!(moment("2026-03-29T02:30").placed(berlin), None);
        // A calendar can have it, and means the offset before.
        let gap = Moment::Zoned("2026-03-29T02:30:00".parse().unwrap(), berlin);
        assert_eq!(gap.key(), "2026-03-29T01:30:00Z");
        // The clocks go from 03:00 to 02:00; the first of both is meant.
        assert_eq!(moment("2026-10-25T02:30").placed(berlin).unwrap().key(), "2026-10-25T00:30:00Z");
        let elsewhere = moment("2026-12-01T10:00:00-05:00").placed(berlin).unwrap();
        assert_eq!(elsewhere.line("X").to_string(), "X;TZID=Europe/Berlin:20261201T160000");
    }

    #[test]
    fn an_occurrence_takes_the_form_of_its_series() {
        let berlin = chrono_tz::Europe::Berlin;
        let series = Moment::Zoned("2026-06-02T10:00:00".parse().unwrap(), berlin);
        let winter = moment("2026-12-08T09:00:00Z").like(series).unwrap();
        assert_eq!(winter.line("RECURRENCE-ID").to_string(), "RECURRENCE-ID;TZID=Europe/Berlin:20261208T100000");
        assert_eq!(moment("2026-12-08").like(series), None);
        assert_eq!(moment("2026-12-08T09:00:00").like(series), None);
    }

    #[test]
    fn durations_are_those_of_the_specification() {
        for (text, seconds) in
            [("PT1H30M", 5400), ("P1D", 86_400), ("P2W", 1_209_600), ("-PT15M", -900), ("P1DT1S", 86_401)]
        {
            assert_eq!(duration(text), TimeDelta::try_seconds(seconds), "{text}");
        }
        for bad in ["", "1D", "P1H", "PT1D", "P99999999999999999999D", "P9223372036854775807W", "PT1"] {
            assert_eq!(duration(bad), None, "{bad}");
        }
    }
}
