//! `read_email`.

use crate::Mail;
use crate::backend::{Content, Mailbox};
use crate::list_messages::{addresses, bracketed};
use crate::read::Read;
use crate::reference::MessageRef;
use mail_parser::{HeaderName, Message, MimeHeaders as _};
use provider::contract::{Failure, Guard};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The most bytes of a message that the broker reads for its text.
const MESSAGE_BYTES_MAX: usize = 4 * 1024 * 1024;
/// The most attachments that are listed.
const ATTACHMENTS_MAX: usize = 100;

/// The parameters of `read_email`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ReadEmail {
    /// The id of the message, from a list.
    id: MessageRef,
    /// The first byte of the text to return.
    #[serde(default)]
    offset: usize,
    /// The most bytes of the text to return.
    #[serde(default = "text_bytes")]
    #[schemars(range(min = 1, max = 131_072))]
    max_bytes: usize,
}

fn text_bytes() -> usize {
    32_000
}

/// A message.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Email {
    /// Its id.
    id: String,
    /// The senders. Nothing proves that the message is theirs.
    from: Vec<String>,
    /// The recipients.
    to: Vec<String>,
    /// The recipients of copies.
    cc: Vec<String>,
    /// Where answers go, if not to the senders.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    reply_to: Vec<String>,
    /// The subject.
    subject: String,
    /// The time that the sender gives (RFC 3339).
    #[serde(skip_serializing_if = "Option::is_none")]
    date: Option<String>,
    /// Its own id (`Message-ID`), for an answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    message_id: Option<String>,
    /// The ids of the messages before it in its thread, the oldest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    references: Vec<String>,
    /// The text, or this part of it. The text of an HTML message has no markup.
    text: String,
    /// The number of bytes of the whole text.
    text_bytes: usize,
    /// The offset of the rest of the text, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_offset: Option<usize>,
    /// The attachments.
    attachments: Vec<Attached>,
    /// Whether the message is so long that only its beginning was read. Text and attachments can be missing.
    is_cut: bool,
    /// Whether it was read before. This call does not change that.
    is_read: bool,
}

/// An attachment.
#[derive(Debug, Serialize, JsonSchema)]
struct Attached {
    /// Its number, for `read_attachment`.
    index: u32,
    /// Its name, as the sender gives it.
    name: String,
    /// Its media type, as the sender gives it.
    content_type: String,
    /// The number of its bytes.
    bytes: usize,
}

impl Read for ReadEmail {
    type Output = Email;

    const NAME: &'static str = "read_email";
    const DESCRIPTION: &'static str = "Reads a message: its header fields, its text, and a list of its attachments.";

    fn summary(&self) -> String {
        "read a message".to_owned()
    }

    fn guard(&self, mail: &Mail) -> Guard {
        mail.guard_id(&self.id)
    }

    async fn perform(self, mail: &Mail, mailbox: &mut Mailbox) -> Result<(Email, String), Failure> {
        let opened = mailbox.open(&self.id).await?;
        let Content { bytes, is_cut } = mailbox.content(&self.id, opened, MESSAGE_BYTES_MAX).await?;
        let email = mail.parse(bytes, move |message| self.told(message, is_cut, opened.is_read)).await?;
        Ok((email, "read a message".to_owned()))
    }
}

impl ReadEmail {
    fn told(&self, message: &Message<'_>, is_cut: bool, is_read: bool) -> Email {
        let bodies = (0..message.text_body_count()).filter_map(|index| message.body_text(index));
        let whole = bodies.collect::<Vec<_>>().join("\n");
        let (text, next_offset) = part(&whole, self.offset, self.max_bytes);
        let references = message.header(HeaderName::References);
        Email {
            id: self.id.to_string(),
            from: addresses(message.from()),
            to: addresses(message.to()),
            cc: addresses(message.cc()),
            reply_to: addresses(message.reply_to()),
            subject: message.subject().unwrap_or_default().to_owned(),
            date: message.date().map(mail_parser::DateTime::to_rfc3339),
            message_id: message.message_id().map(bracketed),
            references: references
                .and_then(|value| value.as_text_list())
                .into_iter()
                .flatten()
                .map(|id| bracketed(id))
                .collect(),
            text: text.to_owned(),
            text_bytes: whole.len(),
            next_offset,
            attachments: (0..).zip(message.attachments()).take(ATTACHMENTS_MAX).map(Attached::of).collect(),
            is_cut,
            is_read,
        }
    }
}

impl Attached {
    fn of((index, part): (u32, &mail_parser::MessagePart<'_>)) -> Self {
        Self { index, name: name(part), content_type: content_type(part), bytes: part.contents().len() }
    }
}

/// Returns the name of an attachment; empty if it has none.
pub(crate) fn name(part: &mail_parser::MessagePart<'_>) -> String {
    part.attachment_name().unwrap_or_default().to_owned()
}

/// Returns the media type of an attachment.
pub(crate) fn content_type(part: &mail_parser::MessagePart<'_>) -> String {
    let Some(given) = part.content_type() else { return "application/octet-stream".to_owned() };
    match given.subtype() {
        Some(subtype) => format!("{}/{subtype}", given.ctype()),
        None => given.ctype().to_owned(),
    }
}

/// Returns a part of a text, cut between characters, and the offset of the rest.
pub(crate) fn part(text: &str, offset: usize, most: usize) -> (&str, Option<usize>) {
    let start = text.ceil_char_boundary(offset.min(text.len()));
    let mut end = text.floor_char_boundary(start.saturating_add(most).min(text.len()));
    if end == start && end < text.len() {
        // A character can be longer than the part.
        end = text.ceil_char_boundary(end + 1);
    }
    (text.get(start..end).unwrap_or_default(), (end < text.len()).then_some(end))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_a_text_put_together_are_the_text() {
        let text = "aä€😀".repeat(5);
        for most in 1..9 {
            let (mut whole, mut offset) = (String::new(), Some(0));
            while let Some(at) = offset {
                let (piece, next) = part(&text, at, most);
                assert!(!piece.is_empty());
                whole.push_str(piece);
                offset = next;
            }
            assert_eq!(whole, text);
        }
        assert_eq!(part("abc", 10, 5), ("", None));
    }
}
