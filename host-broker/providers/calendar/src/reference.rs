//! The ids of calendars, of events and of their occurrences.

use crate::moment::Moment;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt::{self, Write as _};
use std::str::FromStr;

/// The longest name of a calendar.
const CALENDAR_BYTES_MAX: usize = 255;
/// The longest name of an event. An id of Google has up to 1024 bytes, and that of an occurrence its start behind it.
const EVENT_BYTES_MAX: usize = 1024 + "_20261208T090000Z".len();

/// The id of a calendar: its name in the server's address of it, such as `work`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
pub struct CalendarId(#[schemars(length(min = 1, max = 255))] String);

/// The id of an event: `work/7f3a.ics`, the calendar and the name of the event in it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
pub(crate) struct EventId {
    #[schemars(with = "String", length(min = 3, max = 1297))]
    pub(crate) calendar: CalendarId,
    #[schemars(skip)]
    pub(crate) name: String,
}

/// A text is not an id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("it is not an id that this provider has given")]
pub struct BadReference;

/// Returns whether a text of at most `most` bytes is one segment of a path, as it stands in an address.
///
/// SECURITY: a segment that a server or a library reads as several, or as the directory above, would leave the calendar.
/// Some servers cut a segment at `;`, and some decode twice.
fn is_segment(text: &str, most: usize) -> bool {
    const ALLOWED: &str = "-._~!$&'()*+,=:@%";
    let is_plain = |c: char| c.is_ascii_alphanumeric() || ALLOWED.contains(c);
    let is_name = |name: &str| {
        let is_bad = |c: char| c.is_control() || matches!(c, '/' | '\\' | '%' | ';');
        !name.contains(is_bad) && !name.chars().all(|c| c == '.')
    };
    !text.is_empty()
        && text.len() <= most
        && text.chars().all(is_plain)
        && !text.to_ascii_lowercase().contains("%2e")
        && decoded(text).as_deref().is_some_and(is_name)
}

/// Returns a text without its percent-encoding; `None` if that is not well formed, or not UTF-8.
fn decoded(text: &str) -> Option<String> {
    let mut parts = text.split('%');
    let mut bytes = parts.next()?.as_bytes().to_vec();
    for part in parts {
        let (digits, rest) = part.split_at_checked(2)?;
        let is_hexadecimal = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
        bytes.push(u8::from_str_radix(digits, 16).ok().filter(|_| is_hexadecimal)?);
        bytes.extend(rest.as_bytes());
    }
    String::from_utf8(bytes).ok()
}

/// Returns a server's own id as one segment of a path (RFC 3986, section 3.3); `None` if it cannot be one.
pub(crate) fn segment(id: &str) -> Option<String> {
    let mut text = String::with_capacity(id.len());
    for byte in Some(id).filter(|id| id.len() <= EVENT_BYTES_MAX)?.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~@".contains(&byte) {
            text.push(char::from(byte));
        } else {
            write!(text, "%{byte:02X}").ok()?;
        }
    }
    is_segment(&text, EVENT_BYTES_MAX).then_some(text)
}

impl TryFrom<String> for CalendarId {
    type Error = BadReference;

    fn try_from(text: String) -> Result<Self, BadReference> {
        if is_segment(&text, CALENDAR_BYTES_MAX) { Ok(Self(text)) } else { Err(BadReference) }
    }
}

impl From<CalendarId> for String {
    fn from(id: CalendarId) -> Self {
        id.0
    }
}

impl fmt::Display for CalendarId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl EventId {
    /// Makes the id of an event in a calendar.
    ///
    /// # Errors
    /// [`BadReference`]: the name is not one segment of a path.
    pub(crate) fn new(calendar: CalendarId, name: String) -> Result<Self, BadReference> {
        if is_segment(&name, EVENT_BYTES_MAX) { Ok(Self { calendar, name }) } else { Err(BadReference) }
    }
}

impl FromStr for EventId {
    type Err = BadReference;

    fn from_str(text: &str) -> Result<Self, BadReference> {
        let (calendar, name) = text.split_once('/').ok_or(BadReference)?;
        Self::new(calendar.to_owned().try_into()?, name.to_owned())
    }
}

impl TryFrom<String> for EventId {
    type Error = BadReference;

    fn try_from(text: String) -> Result<Self, BadReference> {
        text.parse()
    }
}

impl From<EventId> for String {
    fn from(id: EventId) -> Self {
        id.to_string()
    }
}

impl fmt::Display for EventId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.calendar, self.name)
    }
}

/// One occurrence of a repeated event, by its start before anybody moved it: `2026-12-08T09:00:00Z`, or `2026-12-08` of
/// an event of whole days.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(try_from = "String")]
pub(crate) struct Occurrence(#[schemars(with = "String", length(min = 10, max = 20))] pub(crate) Moment);

impl TryFrom<String> for Occurrence {
    type Error = BadReference;

    fn try_from(text: String) -> Result<Self, BadReference> {
        let moment: Moment = text.parse().map_err(|_fault| BadReference)?;
        // One form only, so that equal occurrences have equal texts.
        (moment.key() == text).then_some(Self(moment)).ok_or(BadReference)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_survives_and_nothing_else_is_one() {
        for text in ["work/7f3a.ics", "Ada's-home/a@b.ics", "a%20b/%C3%84.ics", "work/..ics"] {
            assert_eq!(text.parse::<EventId>().unwrap().to_string(), text);
        }
        let longest = format!("{}/{}", "w".repeat(CALENDAR_BYTES_MAX), "x".repeat(EVENT_BYTES_MAX));
        assert_eq!((longest.parse::<EventId>().unwrap().to_string().len(), longest.len()), (1297, 1297));
        assert!(format!("{longest}x").parse::<EventId>().is_err() && format!("w{longest}").parse::<EventId>().is_err());
        for bad in [
            "",
            "work",
            "work/",
            "/x.ics",
            "work/a/b.ics",
            "../x.ics",
            "work/..",
            "work/.",
            "work/%2e%2e",
            "work/a%2Fb",
            "work/a%5cb",
            "work/a%",
            "work/a%g0",
            "work/a%+1",
            "work/.;",
            "work/..;a",
            "work/%252e%252e%252f",
            "work/%c0%ae",
            "work/a%3b",
            "work/a%0a",
            "work/a b",
            "work/a?b",
            "work/a#b",
            "work/a\r\nb",
            "work/ä.ics",
        ] {
            assert!(bad.parse::<EventId>().is_err(), "{bad}");
        }
    }

    #[test]
    fn an_occurrence_has_one_form() {
        for text in ["2026-12-08T09:00:00Z", "2026-12-08", "2026-12-08T09:00:00"] {
            assert!(Occurrence::try_from(text.to_owned()).is_ok(), "{text}");
        }
        for bad in ["2026-12-08T09:00", "2026-12-08T09:00:00+00:00", "2026-12-08T10:00:00+01:00", "2026-12-8", "x"] {
            assert!(Occurrence::try_from(bad.to_owned()).is_err(), "{bad}");
        }
    }
}
