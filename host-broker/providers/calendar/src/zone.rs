//! The definition of a time zone in a calendar (RFC 5545, section 3.6.5).

use crate::content_lines::{Component, Line};
use chrono::{
    DateTime, Datelike as _, Days, FixedOffset, NaiveDate, NaiveDateTime, Offset as _, TimeDelta, TimeZone as _, Utc,
};
use chrono_tz::{OffsetComponents as _, OffsetName as _, Tz};

/// The changes of the clocks are looked for in such steps. No zone has gone forward and back within one.
const STEP: TimeDelta = TimeDelta::days(7);
/// The clocks of a zone keep to a rule if they did so in so many years.
const YEARS: i32 = 6;
/// No more changes are written.
const CHANGES_MAX: usize = 200;

/// The state of the clocks of a zone.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Clocks {
    offset: FixedOffset,
    is_daylight: bool,
    name: String,
}

/// A change of the clocks.
struct Change {
    /// The time on the clocks as they were.
    at: NaiveDateTime,
    from: FixedOffset,
    to: Clocks,
}

fn clocks(zone: Tz, at: DateTime<Utc>) -> Clocks {
    let offset = zone.offset_from_utc_datetime(&at.naive_utc());
    Clocks {
        offset: offset.fix(),
        is_daylight: !offset.dst_offset().is_zero(),
        name: offset.abbreviation().unwrap_or_default().to_owned(),
    }
}

/// Returns the definition of a zone from `from` on: with the yearly rules of its clocks, if they keep to some. Otherwise
/// it lists the changes up to a year after `to`.
pub(crate) fn definition(zone: Tz, from: DateTime<Utc>, to: DateTime<Utc>) -> Component {
    const YEAR: TimeDelta = TimeDelta::days(366);
    let mut component = Component::new("VTIMEZONE");
    component.push(Line::raw(format!("TZID:{}", zone.name())));
    let start = from.checked_sub_signed(YEAR).unwrap_or(from);
    let later = |time: DateTime<Utc>, years: i32| time.checked_add_signed(YEAR * years).unwrap_or(time);
    let parts = yearly(&changes_between(zone, start, later(from, YEARS))).unwrap_or_else(|| {
        // The state before the first change.
        let before = clocks(zone, start);
        let first = Change { at: start.with_timezone(&zone).naive_local(), from: before.offset, to: before };
        let changes = changes_between(zone, start, later(to, 1));
        std::iter::once(&first).chain(&changes).map(observance).collect()
    });
    for part in parts {
        component.push_component(part);
    }
    component
}

/// Returns one change.
fn observance(change: &Change) -> Component {
    let mut part = Component::new(if change.to.is_daylight { "DAYLIGHT" } else { "STANDARD" });
    part.push(Line::raw(format!("DTSTART:{}", change.at.format("%Y%m%dT%H%M%S"))));
    part.push(Line::raw(format!("TZOFFSETFROM:{}", written(change.from))));
    part.push(Line::raw(format!("TZOFFSETTO:{}", written(change.to.offset))));
    part.push(Line::text("TZNAME", &change.to.name));
    part
}

/// Returns the changes as yearly rules; `None` if they keep to none.
fn yearly(changes: &[Change]) -> Option<Vec<Component>> {
    let mut parts = Vec::new();
    let mut rest: Vec<&Change> = changes.iter().collect();
    while let Some(&first) = rest.first() {
        let (alike, others): (Vec<&Change>, Vec<&Change>) =
            rest.into_iter().partition(|change| change.from == first.from && change.to == first.to);
        rest = others;
        let mut part = observance(first);
        part.push(Line::raw(format!("RRULE:{}", rule(&alike)?)));
        parts.push(part);
    }
    (!parts.is_empty()).then_some(parts)
}

/// Returns the rule that changes of one kind keep to, once in each year: `FREQ=YEARLY;BYMONTH=3;BYDAY=-1SU`.
fn rule(changes: &[&Change]) -> Option<String> {
    let days: Vec<NaiveDate> = changes.iter().map(|change| change.at.date()).collect();
    let (first, years) = (days.first()?, usize::try_from(YEARS).ok()?);
    let is_regular = days.len() >= years
        && days.windows(2).all(|pair| matches!(pair, [one, next] if next.year() - one.year() == 1))
        && days.iter().all(|day| (day.month(), day.weekday()) == (first.month(), first.weekday()))
        && changes.iter().all(|change| Some(change.at.time()) == changes.first().map(|first| first.at.time()));
    let week = |day: &NaiveDate| day.day0() / 7 + 1;
    let is_last = |day: &NaiveDate| day.checked_add_days(Days::new(7)).is_some_and(|next| next.month() != day.month());
    let nth = if days.iter().all(is_last) {
        "-1".to_owned()
    } else if days.iter().all(|day| week(day) == week(first)) {
        week(first).to_string()
    } else {
        return None;
    };
    let weekday = first.weekday().to_string().to_ascii_uppercase();
    is_regular.then(|| format!("FREQ=YEARLY;BYMONTH={};BYDAY={nth}{}", first.month(), weekday.get(..2).unwrap_or("")))
}

fn changes_between(zone: Tz, start: DateTime<Utc>, end: DateTime<Utc>) -> Vec<Change> {
    let mut changes = Vec::new();
    let (mut at, mut state) = (start, clocks(zone, start));
    while at < end && changes.len() < CHANGES_MAX {
        let Some(next) = at.checked_add_signed(STEP) else { break };
        let then = clocks(zone, next);
        if then != state {
            let moment = instant_of_change(zone, at, next, &state);
            let local = moment.naive_utc().checked_add_offset(state.offset).unwrap_or(moment.naive_utc());
            changes.push(Change { at: local, from: state.offset, to: then.clone() });
            state = then;
        }
        at = next;
    }
    changes
}

/// Returns the first second that is no longer in the state of `before`.
fn instant_of_change(zone: Tz, mut before: DateTime<Utc>, mut after: DateTime<Utc>, state: &Clocks) -> DateTime<Utc> {
    while after - before > TimeDelta::seconds(1) {
        let middle = before + TimeDelta::seconds((after - before).num_seconds() / 2);
        if clocks(zone, middle) == *state { before = middle } else { after = middle }
    }
    after
}

/// Writes an offset: `+0100`, `-0330`.
fn written(offset: FixedOffset) -> String {
    let seconds = offset.local_minus_utc();
    let sign = if seconds < 0 { '-' } else { '+' };
    let (hours, minutes, rest) = (seconds.abs() / 3600, seconds.abs() / 60 % 60, seconds.abs() % 60);
    if rest == 0 { format!("{sign}{hours:02}{minutes:02}") } else { format!("{sign}{hours:02}{minutes:02}{rest:02}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn defined(zone: Tz, from: &str, to: &str) -> String {
        definition(zone, from.parse().unwrap(), to.parse().unwrap()).to_string().replace("\r\n ", "")
    }

    #[test]
    fn a_zone_with_summer_time_has_both_states() {
        let berlin = defined(chrono_tz::Europe::Berlin, "2026-12-01T00:00:00Z", "2027-06-01T00:00:00Z");
        assert!(berlin.starts_with("BEGIN:VTIMEZONE\r\nTZID:Europe/Berlin\r\n"), "{berlin}");
        let summer = "BEGIN:DAYLIGHT\r\nDTSTART:20260329T020000\r\nTZOFFSETFROM:+0100\r\nTZOFFSETTO:+0200\r\n\
                      TZNAME:CEST\r\nRRULE:FREQ=YEARLY;BYMONTH=3;BYDAY=-1SU\r\nEND:DAYLIGHT";
        assert!(berlin.contains(summer), "{berlin}");
        let winter = "DTSTART:20261025T030000\r\nTZOFFSETFROM:+0200\r\nTZOFFSETTO:+0100";
        assert!(berlin.contains(winter) && berlin.contains("BYMONTH=10;BYDAY=-1SU"), "{berlin}");
        assert_eq!(berlin.matches("BEGIN:").count(), 3, "{berlin}");
        let new_york = defined(chrono_tz::America::New_York, "2026-12-01T00:00:00Z", "2026-12-01T00:00:00Z");
        assert!(new_york.contains("BYMONTH=3;BYDAY=2SU") && new_york.contains("BYMONTH=11;BYDAY=1SU"), "{new_york}");
    }

    #[test]
    fn a_zone_without_a_rule_has_its_changes() {
        // They follow the moon.
        let casablanca = defined(chrono_tz::Africa::Casablanca, "2026-12-01T00:00:00Z", "2028-12-01T00:00:00Z");
        assert!(!casablanca.contains("RRULE"), "{casablanca}");
        assert!(casablanca.matches("BEGIN:").count() > 6, "{casablanca}");
    }

    #[test]
    fn a_zone_without_changes_has_one_state() {
        let kolkata = defined(chrono_tz::Asia::Kolkata, "2026-12-01T00:00:00Z", "2036-12-01T00:00:00Z");
        assert_eq!(kolkata.matches("BEGIN:STANDARD").count(), 1);
        assert!(kolkata.contains("TZOFFSETTO:+0530"), "{kolkata}");
    }

    #[test]
    fn each_zone_is_defined_as_its_clocks_go() {
        // Each change that is written is a change of the clocks, for all zones with the rules of their own.
        for zone in chrono_tz::TZ_VARIANTS {
            let start: DateTime<Utc> = "2026-01-01T00:00:00Z".parse().unwrap();
            let end = start + TimeDelta::days(5 * 365);
            for change in changes_between(zone, start, end) {
                let at = (change.at - change.from).and_utc();
                assert_eq!(clocks(zone, at), change.to, "{zone} {at}");
                assert_ne!(clocks(zone, at - TimeDelta::seconds(1)), change.to, "{zone} {at}");
            }
        }
    }
}
