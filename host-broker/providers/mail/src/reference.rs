//! The ids of messages and of places in a list.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// A folder's name, as the server writes it: `INBOX`, `Projects/2026`. Other characters than ASCII are in modified UTF-7.
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

/// The id of a message: `INBOX/1700000000/42`, the folder, the validity of its numbers (UIDVALIDITY), and the number
/// (UID). A message that is moved gets another one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
pub(crate) struct MessageRef {
    #[schemars(with = "String")]
    pub(crate) folder: Folder,
    #[schemars(skip)]
    pub(crate) validity: u32,
    #[schemars(skip)]
    pub(crate) uid: u32,
}

impl FromStr for MessageRef {
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
        write!(f, "{}/{}/{}", self.folder.as_str(), self.validity, self.uid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_survives_and_nothing_else_is_one() {
        for text in ["INBOX/1700000000/42", "Projects/2026/7/1", "A b/1/1"] {
            assert_eq!(text.parse::<MessageRef>().unwrap().to_string(), text);
        }
        for bad in [
            "",
            "INBOX",
            "INBOX/1",
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
    }
}
