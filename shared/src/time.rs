//! Points in time, as documents and tables carry them.

use chrono::{DateTime, Datelike as _, SecondsFormat, Utc};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};
use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// A point in time in UTC with milliseconds, written `2026-02-14T10:00:00.000Z`.
///
/// Holding one says nothing about which clock made it; only the host's `platform::clock` reads the real one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(i64);

/// The text is not an RFC 3339 time.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a time such as 2026-02-14T10:00:00Z")]
pub struct NotATime(String);

impl Timestamp {
    /// The last time that documents can carry: a year has four digits.
    pub const LATEST: Self = Self(253_402_300_799_999);

    /// The time this many milliseconds after 1970-01-01T00:00:00Z.
    pub const fn from_millis(millis: i64) -> Self {
        Self(millis)
    }

    /// Milliseconds since 1970-01-01T00:00:00Z.
    pub const fn millis(self) -> i64 {
        self.0
    }

    /// This much later; at the end of time it stays there.
    pub fn plus(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(millis_of(duration)))
    }

    /// This much earlier; at the beginning of time it stays there.
    pub fn minus(self, duration: Duration) -> Self {
        Self(self.0.saturating_sub(millis_of(duration)))
    }

    /// The time of day in UTC, for people: `12:03:05`.
    pub fn clock(self) -> String {
        let time = DateTime::<Utc>::from_timestamp_millis(self.0);
        time.map_or_else(|| self.to_string(), |time| time.format("%H:%M:%S UTC").to_string())
    }

    /// How long after `earlier` this is; zero if it is before.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }
}

fn millis_of(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match DateTime::<Utc>::from_timestamp_millis(self.0) {
            Some(time) => f.write_str(&time.to_rfc3339_opts(SecondsFormat::Millis, true)),
            None => write!(f, "{} ms after 1970", self.0),
        }
    }
}

impl FromStr for Timestamp {
    type Err = NotATime;

    fn from_str(text: &str) -> Result<Self, NotATime> {
        match DateTime::parse_from_rfc3339(text) {
            // In UTC its year may have more or fewer than the four digits that it must have to be read again.
            Ok(time) if (0..=9999).contains(&time.with_timezone(&Utc).year()) => Ok(Self(time.timestamp_millis())),
            Ok(_) | Err(_) => Err(NotATime(text.chars().take(40).collect())),
        }
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl JsonSchema for Timestamp {
    fn schema_name() -> Cow<'static, str> {
        "Timestamp".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "format": "date-time", "description": "a time such as 2026-02-14T10:00:00Z" })
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_written_in_utc_with_milliseconds() {
        let time: Timestamp = "2026-02-14T11:00:00.25+01:00".parse().unwrap();
        assert_eq!(time.to_string(), "2026-02-14T10:00:00.250Z");
        assert_eq!(time.plus(Duration::from_secs(1)).since(time), Duration::from_secs(1));
        assert_eq!(time.since(time.plus(Duration::from_secs(1))), Duration::ZERO);
    }

    #[test]
    fn texts_that_are_no_timestamp_are_refused() {
        for text in ["", "never", "2026-02-14", "2026-02-30T00:00:00Z", "1700000000"] {
            assert!(text.parse::<Timestamp>().is_err(), "{text}");
        }
    }
}
