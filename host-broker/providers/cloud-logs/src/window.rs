//! Which stretch of time a query looks at.

use crate::position::Cursor;
use model::Refusal;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, de::Error as _};
use shared::numbers::counted;
use shared::{Code, Timestamp};
use std::borrow::Cow;
use std::str::FromStr;
use std::time::Duration;

/// How far back a query looks that does not say since when.
const DEFAULT: Duration = Duration::from_secs(3600);
const HOUR: Duration = Duration::from_secs(3600);

/// A point in time as an agent writes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum When {
    /// `2026-02-14T10:00:00Z`.
    At(Timestamp),
    /// `15m` or `-15m`: so long before now.
    Ago(Duration),
}

/// The text is no point in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a time: it must be RFC 3339, such as 2026-02-14T10:00:00Z, or how long ago, such as 15m, 2h or 1d")]
pub(crate) struct NotAWhen;

impl FromStr for When {
    type Err = NotAWhen;

    fn from_str(text: &str) -> Result<Self, NotAWhen> {
        if text == "now" {
            return Ok(Self::Ago(Duration::ZERO));
        }
        let ago = text.strip_prefix('-').unwrap_or(text);
        for (unit, seconds) in [('s', 1), ('m', 60), ('h', 3600), ('d', 86400)] {
            if let Some(count) = ago.strip_suffix(unit) {
                let digits = (1..=6).contains(&count.len()) && count.bytes().all(|b| b.is_ascii_digit());
                let count: u64 =
                    if digits { count.parse().map_err(|_too_large| NotAWhen)? } else { return Err(NotAWhen) };
                return Ok(Self::Ago(Duration::from_secs(count * seconds)));
            }
        }
        text.parse().map(Self::At).map_err(|_not_a_time| NotAWhen)
    }
}

impl When {
    fn instant(self, now: Timestamp) -> Timestamp {
        match self {
            Self::At(time) => time,
            Self::Ago(duration) => now.minus(duration),
        }
    }
}

impl<'de> Deserialize<'de> for When {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

impl JsonSchema for When {
    fn schema_name() -> Cow<'static, str> {
        "when".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "pattern": r"^(now|-?[0-9]{1,6}[smhd]|[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt ][0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,9})?([Zz]|[+-][0-9]{2}:[0-9]{2}))$",
            "description": "RFC 3339 (`2026-02-14T10:00:00Z`), or how long ago (`15m`, `-15m`, `2h`, `1d`), or `now`"
        })
    }
}

/// A stretch of time: from `since` to before `until`, in milliseconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Window {
    /// Its beginning, included.
    pub(crate) since: i64,
    /// Its end, excluded.
    pub(crate) until: i64,
}

impl Window {
    /// The window that a query asks for: the cursor's if it has one, else from `since` (an hour before the end) until
    /// `until` (now).
    ///
    /// # Errors
    /// [`Refusal`] if it runs backwards or is wider than allowed.
    pub(crate) fn asked(
        since: Option<When>,
        until: Option<When>,
        cursor: Option<Cursor>,
        max_hours: u32,
        now: Timestamp,
    ) -> Result<Self, Refusal> {
        let (since, until) = if let Some(Cursor { since, until, .. }) = cursor {
            (Timestamp::from_millis(since), Timestamp::from_millis(until))
        } else {
            let until = until.unwrap_or(When::Ago(Duration::ZERO)).instant(now);
            (since.map_or_else(|| until.minus(DEFAULT), |when| when.instant(now)), until)
        };
        if since >= until {
            return Err(Refusal { code: Code::Guardrail, reason: "`since` must be earlier than `until`.".into() });
        }
        if until.since(since) > HOUR * max_hours {
            let most = counted(max_hours, "hour", "hours");
            let reason = format!("The range must not be wider than {most}; ask for a part of it.");
            return Err(Refusal { code: Code::RangeTooWide, reason });
        }
        Ok(Self { since: since.millis(), until: until.millis() })
    }

    /// Checks whether a time is inside.
    pub(crate) fn has(self, time: i64) -> bool {
        (self.since..self.until).contains(&time)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::from_millis(1_771_063_200_000);

    fn asked(since: Option<&str>, until: Option<&str>) -> Result<(i64, i64), Code> {
        let parse = |text: &str| text.parse::<When>().unwrap();
        Window::asked(since.map(parse), until.map(parse), None, 24, NOW)
            .map(|w| (NOW.millis() - w.since, NOW.millis() - w.until))
            .map_err(|refusal| refusal.code)
    }

    #[test]
    fn the_default_is_the_last_hour() {
        assert_eq!(asked(None, None), Ok((3_600_000, 0)));
        assert_eq!(asked(None, Some("2h")), Ok((3 * 3_600_000, 2 * 3_600_000)));
        assert_eq!(asked(Some("-15m"), None), asked(Some("15m"), Some("now")));
        assert_eq!(asked(Some("2026-02-14T09:00:00Z"), None), Ok((3_600_000, 0)));
    }

    #[test]
    fn a_range_is_neither_too_wide_nor_backwards() {
        assert_eq!(asked(Some("24h"), None), Ok((24 * 3_600_000, 0)));
        assert_eq!(asked(Some("86401s"), None), Err(Code::RangeTooWide));
        assert_eq!(asked(Some("1h"), Some("2h")), Err(Code::Guardrail));
        assert_eq!(asked(Some("now"), Some("now")), Err(Code::Guardrail));
        let after = crate::position::Position {
            time: 0,
            stream: crate::position::StreamKey::of(b"x"),
            born: 0,
            place: 0,
            check: 0,
        };
        let forged = Cursor { since: 0, until: NOW.millis(), after };
        assert_eq!(Window::asked(None, None, Some(forged), 24, NOW).unwrap_err().code, Code::RangeTooWide);
    }

    #[test]
    fn texts_that_are_no_age_and_no_time_are_refused() {
        for text in ["", "-", "m", "1", "1w", "1.5h", "--1h", "+1h", "1234567h", "yesterday", "2026-02-30T00:00:00Z"] {
            assert_eq!(text.parse::<When>(), Err(NotAWhen), "{text}");
        }
    }
}
