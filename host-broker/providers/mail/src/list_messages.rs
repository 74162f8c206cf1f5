//! `list_messages` and `search`: the newest messages of a folder, all or those that match.

use crate::Mail;
use crate::failures::guardrail;
use crate::imap::{Mailbox, quoted};
use crate::read::Read;
use crate::reference::{Folder, MessageRef};
use async_imap::types::{Fetch, Flag};
use mail_parser::{HeaderName, Message, MessageParser};
use provider::contract::{Failure, Guard};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use shared::Timestamp;
use std::fmt::Write as _;

/// The fields of a message that a list shows, with a bound for the header.
const ITEMS: &str =
    "(UID FLAGS RFC822.SIZE BODY.PEEK[HEADER.FIELDS (FROM TO CC SUBJECT DATE MESSAGE-ID IN-REPLY-TO)]<0.16384>)";
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
    cursor: Option<MessageRef>,
}

/// The parameters of `search`. A message must match all of them.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Search {
    /// The folder.
    #[serde(default)]
    folder: Folder,
    /// A part of the sender.
    #[serde(default)]
    #[schemars(length(min = 1, max = 200))]
    from: Option<String>,
    /// A part of a recipient.
    #[serde(default)]
    #[schemars(length(min = 1, max = 200))]
    to: Option<String>,
    /// A part of the subject.
    #[serde(default)]
    #[schemars(length(min = 1, max = 200))]
    subject: Option<String>,
    /// A part of the message.
    #[serde(default)]
    #[schemars(length(min = 1, max = 200))]
    text: Option<String>,
    /// The first day: `2026-11-26`.
    #[serde(default)]
    since: Option<Day>,
    /// The day after the last day.
    #[serde(default)]
    before: Option<Day>,
    /// Only messages that are not read yet.
    #[serde(default)]
    unread: bool,
    /// The most messages to return.
    #[serde(default = "twenty")]
    #[schemars(range(min = 1, max = 100))]
    limit: usize,
    /// The `next_cursor` of the list before.
    #[serde(default)]
    cursor: Option<MessageRef>,
}

fn twenty() -> usize {
    20
}

/// A day: `2026-11-26`.
#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[serde(try_from = "String")]
struct Day {
    #[schemars(with = "String")]
    year: u16,
    #[schemars(skip)]
    month: usize,
    #[schemars(skip)]
    of_month: u8,
}

/// A text is not a day.
#[derive(Debug, thiserror::Error)]
#[error("it is no day such as 2026-11-26")]
struct BadDay;

const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

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

impl Day {
    /// Returns the day as IMAP writes it: `26-Nov-2026`.
    fn imap(self) -> String {
        let month = self.month.checked_sub(1).and_then(|index| MONTHS.get(index)).unwrap_or(&"Jan");
        format!("{}-{month}-{}", self.of_month, self.year)
    }
}

/// Some messages of a folder, the newest first.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Listed {
    /// The messages.
    messages: Vec<Summary>,
    /// The cursor of the next page, if there may be one.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_cursor: Option<String>,
}

/// A message in a list.
#[derive(Debug, Serialize, JsonSchema)]
struct Summary {
    /// Its id, as other actions take it.
    id: String,
    /// The senders: `Ada <ada@example.com>`. Nothing proves that the message is theirs.
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
    /// Whether it was answered.
    is_answered: bool,
}

impl Read for ListMessages {
    type Output = Listed;

    const NAME: &'static str = "list_messages";
    const DESCRIPTION: &'static str = "Lists the newest messages of a mail folder, without their texts.";

    fn summary(&self) -> String {
        "list messages".to_owned()
    }

    fn guard(&self) -> Guard {
        self.page().guard()
    }

    async fn perform(self, _mail: &Mail, mailbox: &mut Mailbox) -> Result<(Listed, String), Failure> {
        self.page().list(mailbox, if self.unread { "UNSEEN" } else { "ALL" }).await
    }
}

impl Read for Search {
    type Output = Listed;

    const NAME: &'static str = "search";
    const DESCRIPTION: &'static str = "Searches a mail folder, and lists the newest messages that match.";

    fn summary(&self) -> String {
        "search messages".to_owned()
    }

    fn guard(&self) -> Guard {
        // SECURITY: the texts go into a command line. A server needs an extension for other characters than ASCII.
        let texts = [&self.from, &self.to, &self.subject, &self.text];
        if texts.into_iter().flatten().any(|text| !text.chars().all(|c| c == ' ' || c.is_ascii_graphic())) {
            return Guard::Refuse(guardrail("A search takes printable ASCII characters only."));
        }
        self.page().guard()
    }

    async fn perform(self, _mail: &Mail, mailbox: &mut Mailbox) -> Result<(Listed, String), Failure> {
        self.page().list(mailbox, &self.criteria()).await
    }
}

impl ListMessages {
    fn page(&self) -> Page<'_> {
        Page { folder: &self.folder, limit: self.limit, cursor: self.cursor.as_ref() }
    }
}

impl Search {
    fn page(&self) -> Page<'_> {
        Page { folder: &self.folder, limit: self.limit, cursor: self.cursor.as_ref() }
    }

    fn criteria(&self) -> String {
        let mut criteria = String::from(if self.unread { "UNSEEN" } else { "ALL" });
        let texts = [("FROM", &self.from), ("TO", &self.to), ("SUBJECT", &self.subject), ("TEXT", &self.text)];
        for (key, text) in texts {
            if let Some(text) = text {
                write!(criteria, " {key} {}", quoted(text)).ok();
            }
        }
        for (key, day) in [("SINCE", self.since), ("BEFORE", self.before)] {
            if let Some(day) = day {
                write!(criteria, " {key} {}", day.imap()).ok();
            }
        }
        criteria
    }
}

/// A part of a list.
#[derive(Clone, Copy)]
struct Page<'a> {
    folder: &'a Folder,
    limit: usize,
    cursor: Option<&'a MessageRef>,
}

impl Page<'_> {
    fn guard(self) -> Guard {
        match self.cursor {
            Some(cursor) if cursor.folder != *self.folder => {
                Guard::Refuse(guardrail("The cursor is of another folder."))
            }
            Some(_) | None => Guard::Pass,
        }
    }

    /// Lists the messages that match.
    async fn list(self, mailbox: &mut Mailbox, criteria: &str) -> Result<(Listed, String), Failure> {
        let (validity, next) = mailbox.examine(self.folder).await?;
        if self.cursor.is_some_and(|cursor| cursor.validity != validity) {
            let message = "The server has numbered the messages again since the cursor was given. List the folder from its beginning.";
            return Err(Failure::Refused { message: message.into() });
        }
        let below = self.cursor.map(|cursor| cursor.uid).or(next);
        let (page, rest) = mailbox.newest(criteria, below, self.limit).await?;
        let reference = |uid: u32| MessageRef { folder: self.folder.clone(), validity, uid }.to_string();
        let mut messages = Vec::new();
        if !page.is_empty() {
            let fetched = mailbox.fetch_all(&page, ITEMS).await?;
            for uid in &page {
                // A message can be removed while it is listed.
                if let Some(fetch) = fetched.iter().find(|fetch| fetch.uid == Some(*uid)) {
                    messages.push(Summary::of(reference(*uid), fetch));
                }
            }
        }
        let summary = format!("{} messages", messages.len());
        Ok((Listed { messages, next_cursor: rest.map(reference) }, summary))
    }
}

impl Summary {
    fn of(id: String, fetch: &Fetch) -> Self {
        let header = fetch.header().unwrap_or_default();
        // A message without a header has none of the fields.
        let parsed = MessageParser::new().parse_headers(header);
        let parsed = parsed.as_ref();
        let has = |flag: &Flag<'_>| fetch.flags().any(|of| of == *flag);
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
            bytes: fetch.size.unwrap_or_default(),
            is_read: has(&Flag::Seen),
            is_answered: has(&Flag::Answered),
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
    use serde_json::{Value, json};

    fn search(params: Value) -> Search {
        serde_json::from_value(params).unwrap()
    }

    #[test]
    fn criteria_are_quoted_and_days_are_in_the_form_of_imap() {
        let all = search(
            json!({ "from": "a\"b\\c", "subject": "x", "since": "2026-02-01", "before": "2026-12-31", "unread": true }),
        );
        assert_eq!(all.criteria(), r#"UNSEEN FROM "a\"b\\c" SUBJECT "x" SINCE 1-Feb-2026 BEFORE 31-Dec-2026"#);
        assert_eq!(search(json!({})).criteria(), "ALL");
        for bad in ["2026-13-01", "2026-02-30", "26-1-1", "2026-1-1", "2026-01-01 OR ALL", ""] {
            assert!(serde_json::from_value::<Search>(json!({ "since": bad })).is_err(), "{bad}");
        }
    }
}
