//! `read_attachment`.

use crate::Mail;
use crate::backend::{Content, Mailbox};
use crate::read::Read;
use crate::read_email::{content_type, name, part};
use crate::reference::MessageRef;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use mail_parser::{Message, PartType};
use provider::contract::{Failure, Guard};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A longer message is not read for an attachment.
pub(crate) const MESSAGE_BYTES_MAX: usize = 16 * 1024 * 1024;

/// The parameters of `read_attachment`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ReadAttachment {
    /// The id of the message, from a list.
    id: MessageRef,
    /// The number of the attachment, from `read_email`.
    index: u32,
    /// The first byte to return.
    #[serde(default)]
    offset: usize,
    /// The most bytes to return.
    #[serde(default = "content_bytes")]
    #[schemars(range(min = 1, max = 131_072))]
    max_bytes: usize,
}

fn content_bytes() -> usize {
    65_536
}

/// An attachment, or a part of it.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ReadPart {
    /// Its name, as the sender gives it.
    name: String,
    /// Its media type, as the sender gives it.
    content_type: String,
    /// The number of its bytes.
    bytes: usize,
    /// The content, if it is text.
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<String>,
    /// The content in base64, if it is not text.
    #[serde(skip_serializing_if = "Option::is_none")]
    base64: Option<String>,
    /// The offset of the rest, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_offset: Option<usize>,
}

impl Read for ReadAttachment {
    type Output = ReadPart;

    const NAME: &'static str = "read_attachment";
    const DESCRIPTION: &'static str = "Reads an attachment of a message, in parts.";

    fn summary(&self) -> String {
        "read an attachment".to_owned()
    }

    fn guard(&self, mail: &Mail) -> Guard {
        mail.guard_id(&self.id)
    }

    async fn perform(self, mail: &Mail, mailbox: &mut Mailbox) -> Result<(ReadPart, String), Failure> {
        let opened = mailbox.open(&self.id).await?;
        if opened.size.is_none_or(|size| size > MESSAGE_BYTES_MAX) {
            let message = "The message has more than 16 MiB. Its attachments cannot be read here.";
            return Err(Failure::Refused { message: message.into() });
        }
        let Content { bytes, is_cut: _ } = mailbox.content(&self.id, opened, MESSAGE_BYTES_MAX).await?;
        let part = mail.parse(bytes, move |message| self.part_of(message)).await?;
        Ok((part?, "read an attachment".to_owned()))
    }
}

impl ReadAttachment {
    fn part_of(&self, message: &Message<'_>) -> Result<ReadPart, Failure> {
        let Some(attachment) = message.attachment(self.index) else {
            return Err(Failure::Refused { message: format!("The message has no attachment {}.", self.index) });
        };
        let contents = attachment.contents();
        let (text, base64, next_offset) = if let PartType::Text(text) | PartType::Html(text) = &attachment.body {
            let (text, next) = part(text, self.offset, self.max_bytes);
            (Some(text.to_owned()), None, next)
        } else {
            let start = self.offset.min(contents.len());
            let end = start.saturating_add(self.max_bytes).min(contents.len());
            let piece = contents.get(start..end).unwrap_or_default();
            (None, Some(BASE64_STANDARD.encode(piece)), (end < contents.len()).then_some(end))
        };
        let (name, content_type, bytes) = (name(attachment), content_type(attachment), contents.len());
        Ok(ReadPart { name, content_type, bytes, text, base64, next_offset })
    }
}
