//! The ids of messages and of places in a list.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

/// A folder's name, as the server writes it: `INBOX`, `Projects/2026`. Over IMAP, other characters than ASCII are in modified UTF-7.
/// In Gmail it is the name or the id of a label.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
pub struct Folder(#[schemars(length(min = 1, max = 255))] String);

/// A text is no name of a folder, or no id of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("it is not a name or an id that this provider has given")]
pub struct BadReference;

impl Folder {
    /// A name of this crate.
    pub(crate) fn known(name: &'static str) -> Self {
        Self(name.to_owned())
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

impl Default for Folder {
    fn default() -> Self {
        Self::known("INBOX")
    }
}

impl TryFrom<String> for Folder {
    type Error = BadReference;

    fn try_from(name: String) -> Result<Self, BadReference> {
        let is_plain = !name.is_empty() && name.len() <= 255 && name.chars().all(|c| c == ' ' || c.is_ascii_graphic());
        // Wildcards mean something only in a list of folders.
        if is_plain && !name.contains(['*', '%']) { Ok(Self(name)) } else { Err(BadReference) }
    }
}

impl From<Folder> for String {
    fn from(folder: Folder) -> Self {
        folder.0
    }
}

/// The place of a message in an account of IMAP: `INBOX/1700000000/42`, the folder, the validity of its numbers
/// (UIDVALIDITY), and the number (UID). A message that is moved gets another one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) folder: Folder,
    pub(crate) validity: u32,
    pub(crate) uid: u32,
}

impl FromStr for Place {
    type Err = BadReference;

    fn from_str(text: &str) -> Result<Self, BadReference> {
        let mut parts = text.rsplitn(3, '/');
        let (uid, validity) = (parts.next().and_then(number), parts.next().and_then(number));
        let folder = parts.next().ok_or(BadReference)?.to_owned().try_into()?;
        match (validity, uid) {
            (Some(validity), Some(uid)) => Ok(Self { folder, validity, uid }),
            _ => Err(BadReference),
        }
    }
}

/// A number of IMAP: never zero, and in one form only.
fn number(text: &str) -> Option<u32> {
    let number: u32 = text.parse().ok()?;
    (number > 0 && number.to_string() == text).then_some(number)
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.folder.as_str(), self.validity, self.uid)
    }
}

/// The id of a message: its [`Place`], or its id in Gmail, such as `18c2f0a1b2c3d4e5`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub(crate) enum MessageRef {
    Imap(Place),
    Gmail(String),
}

/// The longest id of a message in Gmail.
const GMAIL_ID_MAX: usize = 64;

impl FromStr for MessageRef {
    type Err = BadReference;

    fn from_str(text: &str) -> Result<Self, BadReference> {
        let is_gmail = |text: &str| {
            (1..=GMAIL_ID_MAX).contains(&text.len())
                && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_'))
        };
        if is_gmail(text) { Ok(Self::Gmail(text.to_owned())) } else { text.parse().map(Self::Imap) }
    }
}

impl TryFrom<String> for MessageRef {
    type Error = BadReference;

    fn try_from(text: String) -> Result<Self, BadReference> {
        text.parse()
    }
}

impl From<MessageRef> for String {
    fn from(reference: MessageRef) -> Self {
        reference.to_string()
    }
}

impl fmt::Display for MessageRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Imap(place) => place.fmt(f),
            Self::Gmail(id) => f.write_str(id),
        }
    }
}

impl JsonSchema for MessageRef {
    fn schema_name() -> Cow<'static, str> {
        "MessageRef".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string" })
    }
}

/// A position in a list: below a place, or a page of Gmail (`page/09876543210987654321`).
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub(crate) enum Cursor {
    Below(Place),
    Page(String),
}

/// The longest token of a page of Gmail.
const PAGE_MAX: usize = 500;

impl Cursor {
    /// Returns the cursor of a page; `None` if the token cannot be one.
    pub(crate) fn page(token: &str) -> Option<Self> {
        let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '=' | '~' | '+');
        let is_token = (1..=PAGE_MAX).contains(&token.len()) && token.chars().all(is_part);
        is_token.then(|| Self::Page(token.to_owned()))
    }
}

impl TryFrom<String> for Cursor {
    type Error = BadReference;

    fn try_from(text: String) -> Result<Self, BadReference> {
        // A place has two slashes, and a token has none.
        match text.strip_prefix("page/").and_then(Self::page) {
            Some(page) => Ok(page),
            None => text.parse().map(Self::Below),
        }
    }
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Below(place) => place.fmt(f),
            Self::Page(token) => write!(f, "page/{token}"),
        }
    }
}

impl JsonSchema for Cursor {
    fn schema_name() -> Cow<'static, str> {
        "Cursor".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_survives_and_nothing_else_is_one() {
        for text in ["INBOX/1700000000/42", "Projects/2026/7/1", "A b/1/1"] {
            assert!(matches!(text.parse(), Ok(MessageRef::Imap(_))), "{text}");
            assert_eq!(text.parse::<MessageRef>().unwrap().to_string(), text);
        }
        for text in ["18c2f0a1b2c3d4e5", "INBOX", "msg_1-a"] {
            assert_eq!(text.parse(), Ok(MessageRef::Gmail(text.to_owned())));
            assert_eq!(text.parse::<MessageRef>().unwrap().to_string(), text);
        }
        for bad in [
            "",
            "a.b",
            "../a",
            "a?b",
            "a%2fb",
            "/1/1",
            "INBOX/0/1",
            "INBOX/1/0",
            "INBOX/01/1",
            "INBOX/1/+1",
            "INBOX/1/-1",
            "INBOX/1/4294967296",
            "IN\r\nBOX/1/1",
            "*/1/1",
            "Ärchiv/1/1",
        ] {
            assert!(bad.parse::<MessageRef>().is_err(), "{bad}");
        }
        assert!("a".repeat(GMAIL_ID_MAX + 1).parse::<MessageRef>().is_err());
    }

    #[test]
    fn a_cursor_is_a_place_or_a_page() {
        let cursor = |text: &str| Cursor::try_from(text.to_owned());
        assert!(matches!(cursor("INBOX/7/1"), Ok(Cursor::Below(_))));
        assert!(matches!(cursor("page/7/1"), Ok(Cursor::Below(_))), "a folder may have that name");
        for text in ["page/09876543210987654321", "page/a-b_c.d="] {
            assert!(matches!(cursor(text), Ok(Cursor::Page(_))), "{text}");
            assert_eq!(cursor(text).unwrap().to_string(), text);
        }
        for bad in ["", "page/", "page/a b", "page/a&q=b", "09876543210987654321"] {
            assert!(cursor(bad).is_err(), "{bad}");
        }
    }
}
