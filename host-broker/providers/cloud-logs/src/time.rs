//! Points in time as log lines write them.
//!
//! A stamp is read at the front of a text ([`stamp()`]) and then placed in a [`Frame`], which supplies what the text
//! leaves out: the zone, and for the traditional syslog form the year.

mod stamp;

use chrono::{DateTime, Duration, FixedOffset, Local, MappedLocalTime, NaiveDate, NaiveDateTime, TimeZone, Utc};
pub(crate) use stamp::stamp;
use std::str::FromStr;

const DAY_MS: i64 = 24 * 3600 * 1000;

/// The zone in which times without an offset were written.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Zone {
    /// This machine's.
    Local,
    /// A constant distance from UTC.
    Fixed(FixedOffset),
    /// A named one.
    Named(chrono_tz::Tz),
}

/// The text names no zone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a time zone: it must be `local`, `UTC`, an offset such as `+02:00`, or a name such as `Europe/Berlin`")]
pub struct NotAZone;

impl FromStr for Zone {
    type Err = NotAZone;

    fn from_str(text: &str) -> Result<Self, NotAZone> {
        if text == "local" {
            return Ok(Self::Local);
        }
        if let Ok(zone) = text.parse::<chrono_tz::Tz>() {
            return Ok(Self::Named(zone));
        }
        text.parse().map(Self::Fixed).map_err(|_not_an_offset| NotAZone)
    }
}

impl Zone {
    /// The instant of a wall-clock time, in milliseconds. Of a time that the clock showed twice it is the first; a
    /// time that the clock skipped is read as if it had not yet been put forward.
    fn instant(self, naive: NaiveDateTime) -> Option<i64> {
        fn place<Z: TimeZone>(zone: &Z, naive: NaiveDateTime) -> Option<i64> {
            match zone.from_local_datetime(&naive) {
                MappedLocalTime::Single(time) | MappedLocalTime::Ambiguous(time, _) => Some(time.timestamp_millis()),
                MappedLocalTime::None => {
                    let hour = Duration::hours(1);
                    let before = zone.from_local_datetime(&naive.checked_sub_signed(hour)?).earliest()?;
                    Some(before.checked_add_signed(hour)?.timestamp_millis())
                }
            }
        }
        match self {
            Self::Local => place(&Local, naive),
            Self::Fixed(zone) => place(&zone, naive),
            Self::Named(zone) => place(&zone, naive),
        }
    }

    /// Checks whether clocks in this zone were changed between two instants.
    pub(crate) fn shifts_between(self, from: i64, to: i64) -> bool {
        fn offset<Z: TimeZone>(zone: &Z, millis: i64) -> Option<i32> {
            use chrono::Offset as _;
            let time = DateTime::<Utc>::from_timestamp_millis(millis)?.naive_utc();
            Some(zone.offset_from_utc_datetime(&time).fix().local_minus_utc())
        }
        match self {
            Self::Local => offset(&Local, from) != offset(&Local, to),
            Self::Fixed(_) => false,
            Self::Named(zone) => offset(&zone, from) != offset(&zone, to),
        }
    }
}

/// The values that complete a stamp.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Frame {
    /// The zone of stamps without an offset.
    pub(crate) zone: Zone,
    /// Nothing in the text was written later than this, in milliseconds: when the file last changed.
    pub(crate) latest: i64,
    /// How dates of three two-digit numbers are written.
    pub(crate) order: Order,
}

impl Frame {
    /// Returns the latest time that a line can have, in milliseconds; a day of grace for clocks and zones.
    pub(crate) fn ceiling(self) -> i64 {
        self.latest.saturating_add(DAY_MS)
    }
}

/// The order of a date's three two-digit numbers: `17/06/09`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Order {
    /// Year, month, day.
    #[default]
    Ymd,
    /// Month, day, year.
    Mdy,
    /// Day, month, year.
    Dmy,
}

impl Order {
    /// All of them, the most usual in logs first.
    pub(crate) const ALL: [Self; 3] = [Self::Ymd, Self::Mdy, Self::Dmy];
}

/// A point in time as written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stamp {
    date: Date,
    clock: Clock,
    offset: Option<i32>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Date {
    Full { year: i32, month: u32, day: u32 },
    NoYear { month: u32, day: u32 },
    Short([u32; 3]),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Clock {
    hour: u32,
    minute: u32,
    second: u32,
    millis: u32,
}

impl Stamp {
    /// Milliseconds since 1970, if the stamp is a possible time.
    pub(crate) fn instant(self, frame: Frame) -> Option<i64> {
        let instant = match self.date {
            Date::Full { year, month, day } => self.on(year, month, day, frame.zone),
            Date::NoYear { month, day } => self.infer_year(month, day, frame),
            Date::Short([one, two, three]) => {
                let (year, month, day) = match frame.order {
                    Order::Ymd => (one, two, three),
                    Order::Mdy => (three, one, two),
                    Order::Dmy => (three, two, one),
                };
                let instant = self.on(2000 + i32::try_from(year).ok()?, month, day, frame.zone);
                instant.filter(|instant| *instant <= frame.ceiling())
            }
        };
        // Entry ids and cursors write no sign.
        instant.filter(|instant| *instant >= 0)
    }

    /// Returns whether its date is read according to [`Frame::order`].
    pub(crate) fn is_short(self) -> bool {
        matches!(self.date, Date::Short(_))
    }

    fn on(self, year: i32, month: u32, day: u32, zone: Zone) -> Option<i64> {
        let Clock { hour, minute, second, millis } = self.clock;
        // A leap second belongs to the second before it.
        let naive =
            NaiveDate::from_ymd_opt(year, month, day)?.and_hms_milli_opt(hour, minute, second.min(59), millis)?;
        match self.offset {
            Some(seconds) => Zone::Fixed(FixedOffset::east_opt(seconds)?).instant(naive),
            None => zone.instant(naive),
        }
    }

    /// Returns the latest year in which the stamp is not later than the frame allows.
    fn infer_year(self, month: u32, day: u32, frame: Frame) -> Option<i64> {
        use chrono::Datelike as _;
        let ceiling = frame.ceiling();
        let last = DateTime::<Utc>::from_timestamp_millis(ceiling)?.year();
        // Nine years always hold a 29 February.
        (0..9).filter_map(|back| self.on(last - back, month, day, frame.zone)).find(|millis| *millis <= ceiling)
    }
}

/// Milliseconds since 1970 of a number that counts seconds, milli-, micro- or nanoseconds: whichever puts it between
/// 1973 and 5138.
pub(crate) fn epoch(number: &serde_json::Number) -> Option<i64> {
    if let Some(whole) = number.as_i64() {
        return match whole {
            100_000_000..100_000_000_000 => Some(whole * 1000),
            100_000_000_000..100_000_000_000_000 => Some(whole),
            100_000_000_000_000..100_000_000_000_000_000 => Some(whole / 1000),
            100_000_000_000_000_000.. => Some(whole / 1_000_000),
            _ => None,
        };
    }
    // Written with a fraction: by the digits, because binary fractions would move the last millisecond.
    let text = number.to_string();
    let (whole, fraction) = text.split_once('.')?;
    let whole: i64 = whole.parse().ok()?;
    match whole {
        100_000_000..100_000_000_000 => {
            let millis: String = fraction.chars().chain("000".chars()).take(3).collect();
            Some(whole * 1000 + millis.parse::<i64>().ok()?)
        }
        100_000_000_000..100_000_000_000_000 => Some(whole),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use shared::Timestamp;

    fn at(text: &str) -> i64 {
        text.parse::<Timestamp>().unwrap().millis()
    }

    fn read(text: &str, zone: &str, latest: &str) -> Option<String> {
        let frame = Frame { zone: zone.parse().unwrap(), latest: at(latest), order: Order::default() };
        let (stamp, _) = stamp(text.as_bytes())?;
        Some(Timestamp::from_millis(stamp.instant(frame)?).to_string())
    }

    #[test]
    fn every_usual_way_of_writing_a_time_is_read() {
        for text in [
            "2026-02-14T10:00:00.25Z",
            "2026-02-14T11:00:00.250999+01:00",
            "2026-02-14 10:00:00,250",
            "2026-02-14 10:00:00.250 UTC [7] LOG:  x",
            "2026-02-14 05:00:00.250-05",
            "2026-02-14  10:00:00.25",
            "2026/02/14 10:00:00.250",
            "14/Feb/2026:12:00:00.250 +0200",
            "Feb 14 10:00:00.250 host",
            "Sat Feb 14 10:00:00.250000 2026]",
            "Feb 14 2026 10:00:00.250",
            "14 Feb 2026 10:00:00.250 * ready",
            "14-Feb-2026 10:00:00.250 general: info",
            "I0214 10:00:00.250000       1 main.go:7] x",
            "26/02/14 10:00:00.250 INFO",
            "26-02-14 10:00:00,250 INFO",
            "02-14 10:00:00.250  1702  2395 D x",
            "02.14 10:00:00.250] x",
            "260214 10:00:00.250 x",
            "20260214-10:0:0:250|x",
            "20260214 10:00:00.250",
        ] {
            assert_eq!(
                read(text, "UTC", "2026-03-01T00:00:00Z").as_deref(),
                Some("2026-02-14T10:00:00.250Z"),
                "{text}"
            );
        }
    }

    #[test]
    fn texts_that_are_no_timestamp_give_none() {
        for text in [
            "",
            "2026",
            "2026-02-30 10:00:00",
            "2026-13-01 10:00:00",
            "2026-02-14 24:00:00",
            "2026-02-14",
            "Foo 14 10:00:00",
            "Feb 14",
            "Mon",
            "99/Feb/2026:10:00:00",
            "2026-02/14 10:00:00",
            "\u{ff12}026-02-14 10:00:00",
        ] {
            assert_eq!(read(text, "UTC", "2026-03-01T00:00:00Z"), None, "{text}");
        }
    }

    #[test]
    fn a_missing_year_is_the_latest_that_is_not_in_the_future() {
        let new_year = "2026-01-01T00:00:05Z";
        assert_eq!(read("Dec 31 23:59:59", "UTC", new_year).unwrap(), "2025-12-31T23:59:59.000Z");
        assert_eq!(read("Jan  1 00:00:01", "UTC", new_year).unwrap(), "2026-01-01T00:00:01.000Z");
        // A clock that is a little ahead of the file's last change.
        assert_eq!(read("Jan  1 00:30:00", "UTC", new_year).unwrap(), "2026-01-01T00:30:00.000Z");
        assert_eq!(read("Jan  1 00:00:01", "UTC", "2025-12-31T23:59:59Z").unwrap(), "2026-01-01T00:00:01.000Z");
        assert_eq!(read("Feb 29 12:00:00", "UTC", new_year).unwrap(), "2024-02-29T12:00:00.000Z");
    }

    #[test]
    fn zones_change_their_clocks() {
        let latest = "2026-12-01T00:00:00Z";
        let berlin = |text| read(text, "Europe/Berlin", latest).unwrap();
        assert_eq!(berlin("2026-02-14 10:00:00"), "2026-02-14T09:00:00.000Z");
        assert_eq!(berlin("2026-07-14 10:00:00"), "2026-07-14T08:00:00.000Z");
        // Shown twice: the first.
        assert_eq!(berlin("2026-10-25 02:30:00"), "2026-10-25T00:30:00.000Z");
        // Never shown.
        assert_eq!(berlin("2026-03-29 02:30:00"), "2026-03-29T01:30:00.000Z");
        assert_eq!(read("2026-02-14 10:00:00", "-03:30", latest).unwrap(), "2026-02-14T13:30:00.000Z");
        let zone: Zone = "Europe/Berlin".parse().unwrap();
        assert!(zone.shifts_between(at("2026-10-24T22:00:00Z"), at("2026-10-25T04:00:00Z")));
        assert!(!zone.shifts_between(at("2026-10-23T22:00:00Z"), at("2026-10-24T04:00:00Z")));
        assert_eq!("Mars/Olympus".parse::<Zone>().unwrap_err(), NotAZone);
    }

    #[test]
    fn numbers_count_from_1970_in_the_unit_that_fits() {
        for text in ["1771063200", "1771063200.25", "1771063200250", "1771063200250000", "1771063200250000123"] {
            let number = serde_json::from_str(text).unwrap();
            let expected = if text == "1771063200" { 1_771_063_200_000 } else { 1_771_063_200_250 };
            assert_eq!(epoch(&number), Some(expected), "{text}");
        }
        assert_eq!(epoch(&serde_json::from_str("42").unwrap()), None);
        assert_eq!(epoch(&serde_json::from_str("-5.5").unwrap()), None);
    }
}
