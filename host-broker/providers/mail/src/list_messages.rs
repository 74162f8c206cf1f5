//! `list_messages` and `search`: the newest messages of a folder, all or those that match.

use crate::Mail;
use crate::backend::Mailbox;
use crate::failures::guardrail;
use crate::read::Read;
use crate::reference::{Cursor, Folder};
use mail_parser::{HeaderName, Message, MessageParser};
use provider::contract::{Failure, Guard};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use shared::Timestamp;
use shared::numbers::counted;

/// The most addresses that a field of a list shows.
const ADDRESSES_MAX: usize = 20;

/// The parameters of `list_messages`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ListMessages {
    /// The folder.
    #[serde(default)]
    folder: Folder,
    /// Only messages that are not read yet.
    #[serde(default)]
    unread: bool,
    /// The most messages to return.
    #[serde(default = "twenty")]
    #[schemars(range(min = 1, max = 100))]
    limit: usize,
    /// The `next_cursor` of the list before.
    #[serde(default)]
    cursor: Option<Cursor>,
}

/// The parameters of `search`. A message must match all of them.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Search {
    /// The folder.
    #[serde(default)]
    pub(crate) folder: Folder,
    /// A part of the sender; in Gmail, words of it.
    #[serde(default)]
    #[schemars(length(min = 1, max = 200))]
    pub(crate) from: Option<String>,
    /// A part of a recipient; in Gmail, words of it.
    #[serde(default)]
    #[schemars(length(min = 1, max = 200))]
    pub(crate) to: Option<String>,
    /// A part of the subject; in Gmail, words of it.
    #[serde(default)]
    #[schemars(length(min = 1, max = 200))]
    pub(crate) subject: Option<String>,
    /// A part of the message; in Gmail, words of it.
    #[serde(default)]
    #[schemars(length(min = 1, max = 200))]
    pub(crate) text: Option<String>,
    /// The first day: `2026-11-26`.
    #[serde(default)]
    pub(crate) since: Option<Day>,
    /// The day after the last day.
    #[serde(default)]
    pub(crate) before: Option<Day>,
    /// Only messages that are not read yet.
    #[serde(default)]
    pub(crate) unread: bool,
    /// The most messages to return.
    #[serde(default = "twenty")]
    #[schemars(range(min = 1, max = 100))]
    pub(crate) limit: usize,
    /// The `next_cursor` of the list before.
    #[serde(default)]
    pub(crate) cursor: Option<Cursor>,
}

fn twenty() -> usize {
    20
}

/// A day: `2026-11-26`.
#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[serde(try_from = "String")]
pub(crate) struct Day {
    #[schemars(with = "String")]
    pub(crate) year: u16,
    #[schemars(skip)]
    pub(crate) month: usize,
    #[schemars(skip)]
    pub(crate) of_month: u8,
}

/// A text is not a day.
#[derive(Debug, thiserror::Error)]
#[error("it is no day such as 2026-11-26")]
pub(crate) struct BadDay;

impl Day {
    /// Returns the beginning of the day in UTC, in seconds since 1970.
    pub(crate) fn seconds(self) -> i64 {
        let Self { year, month, of_month } = self;
        let midnight = format!("{year:04}-{month:02}-{of_month:02}T00:00:00Z").parse::<Timestamp>();
        midnight.map_or(0, |midnight| midnight.millis() / 1000)
    }
}

impl TryFrom<String> for Day {
    type Error = BadDay;

    fn try_from(text: String) -> Result<Self, BadDay> {
        let is_day = format!("{text}T00:00:00Z").parse::<Timestamp>().is_ok();
        let mut parts = text.split('-');
        let parsed = (|| {
            let year = parts.next()?.parse().ok()?;
            let (month, of_month) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
            Some(Self { year, month, of_month })
        })();
        parsed.filter(|_| is_day).ok_or(BadDay)
    }
}

/// Some messages of a folder, the newest first.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Listed {
    /// The messages.
    pub(crate) messages: Vec<Summary>,
    /// The cursor of the next page, if there may be one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) next_cursor: Option<String>,
}

/// A message in a list.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Summary {
    /// Its id, as other actions take it.
    id: String,
    /// The senders: `Ada <ada@example.com>`. Nothing proves that the message is theirs. Gmail gives the whole field as one
    /// text.
    from: Vec<String>,
    /// The recipients.
    to: Vec<String>,
    /// The recipients of copies.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    cc: Vec<String>,
    /// The subject.
    subject: String,
    /// The time that the sender gives (RFC 3339).
    #[serde(skip_serializing_if = "Option::is_none")]
    date: Option<String>,
    /// Its own id (`Message-ID`), for an answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    message_id: Option<String>,
    /// The `Message-ID` of the message that it answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    in_reply_to: Option<String>,
    /// The number of its bytes.
    bytes: u32,
    /// Whether it was read.
    is_read: bool,
    /// Whether it was answered; absent if the server does not tell it.
    #[serde(skip_serializing_if = "Option::is_none")]
    is_answered: Option<bool>,
}

impl Read for ListMessages {
    type Output = Listed;

    const NAME: &'static str = "list_messages";
    const DESCRIPTION: &'static str = "Lists the newest messages of a mail folder, without their texts.";

    fn summary(&self) -> String {
        "list messages".to_owned()
    }

    fn guard(&self, mail: &Mail) -> Guard {
        mail.guard_cursor(self.cursor.as_ref(), &self.folder)
    }

    async fn perform(self, _mail: &Mail, mailbox: &mut Mailbox) -> Result<(Listed, String), Failure> {
        let Self { folder, unread, limit, cursor } = self;
        let all = Search {
            from: None,
            to: None,
            subject: None,
            text: None,
            since: None,
            before: None,
            folder,
            unread,
            limit,
            cursor,
        };
        all.list(mailbox).await
    }
}

impl Read for Search {
    type Output = Listed;

    const NAME: &'static str = "search";
    const DESCRIPTION: &'static str = "Searches a mail folder, and lists the newest messages that match.";

    fn summary(&self) -> String {
        "search messages".to_owned()
    }

    fn guard(&self, mail: &Mail) -> Guard {
        let texts = [&self.from, &self.to, &self.subject, &self.text];
        let mut texts = texts.into_iter().flatten();
        // SECURITY: the texts go into a command line. A server of IMAP needs an extension for other characters than ASCII.
        let (is_fit, remedy): (fn(&str) -> bool, _) = if mail.takes_unicode() {
            (
                |text| text.contains(char::is_alphanumeric) && !text.contains(char::is_control),
                "A search takes texts with a letter or a digit, and without control characters.",
            )
        } else {
            (
                |text| text.chars().all(|c| c == ' ' || c.is_ascii_graphic()),
                "A search takes printable ASCII characters only.",
            )
        };
        if !texts.all(|text| is_fit(text)) {
            return Guard::Refuse(guardrail(remedy));
        }
        mail.guard_cursor(self.cursor.as_ref(), &self.folder)
    }

    async fn perform(self, _mail: &Mail, mailbox: &mut Mailbox) -> Result<(Listed, String), Failure> {
        self.list(mailbox).await
    }
}

impl Search {
    async fn list(self, mailbox: &mut Mailbox) -> Result<(Listed, String), Failure> {
        let listed = mailbox.list(&self).await?;
        let summary = counted(listed.messages.len(), "message", "messages");
        Ok((listed, summary))
    }
}

/// The properties of a message beside its header.
pub(crate) struct Marks {
    pub(crate) bytes: u32,
    pub(crate) is_read: bool,
    /// `None` if the server does not tell it.
    pub(crate) is_answered: Option<bool>,
}

impl Summary {
    /// Returns the entry of a message whose header cannot be read.
    pub(crate) fn without_header(id: String) -> Self {
        Self::of(id, &[], &Marks { bytes: 0, is_read: false, is_answered: None })
    }

    /// Shows these fields whole. A server that has decoded them may have changed the places of their addresses.
    pub(crate) fn with_whole_fields(self, from: Vec<String>, to: Vec<String>, cc: Vec<String>) -> Self {
        Self { from, to, cc, ..self }
    }

    /// Returns the entry of a message. `header` has the fields that a list shows (RFC 5322).
    pub(crate) fn of(id: String, header: &[u8], marks: &Marks) -> Self {
        // A message without a header has none of the fields.
        let parsed = MessageParser::new().parse_headers(header);
        let parsed = parsed.as_ref();
        let in_reply_to = parsed.and_then(|message| message.header(HeaderName::InReplyTo)?.as_text());
        Self {
            id,
            from: addresses(parsed.and_then(Message::from)),
            to: addresses(parsed.and_then(Message::to)),
            cc: addresses(parsed.and_then(Message::cc)),
            subject: parsed.and_then(Message::subject).unwrap_or_default().to_owned(),
            date: parsed.and_then(Message::date).map(mail_parser::DateTime::to_rfc3339),
            message_id: parsed.and_then(Message::message_id).map(bracketed),
            in_reply_to: in_reply_to.map(bracketed),
            bytes: marks.bytes,
            is_read: marks.is_read,
            is_answered: marks.is_answered,
        }
    }
}

/// The library leaves the brackets of an id out.
pub(crate) fn bracketed(id: &str) -> String {
    format!("<{id}>")
}

/// Returns addresses with their names: `Ada <ada@example.com>`.
pub(crate) fn addresses(field: Option<&mail_parser::Address<'_>>) -> Vec<String> {
    let all = field.into_iter().flat_map(mail_parser::Address::iter).take(ADDRESSES_MAX);
    all.map(|address| match (address.name(), address.address()) {
        (Some(name), Some(address)) => format!("{name} <{address}>"),
        (None, Some(only)) | (Some(only), None) => only.to_owned(),
        (None, None) => String::new(),
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_day_is_a_day_of_the_calendar() {
        for bad in ["2026-13-01", "2026-02-30", "26-1-1", "2026-1-1", "2026-01-01 OR ALL", ""] {
            assert!(serde_json::from_value::<Search>(json!({ "since": bad })).is_err(), "{bad}");
        }
    }
}
