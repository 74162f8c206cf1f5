//! `read_attachment`.

use crate::failures::read;
use crate::imap::gone;
use crate::read_email::{content_type, name, part};
use crate::reference::MessageRef;
use crate::{Mail, READS};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use mail_parser::{Message, PartType};
use model::Exposure;
use provider::contract::{Execution, Failure, Guard};
use provider::native::NativeAction;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use shared::{Level, Timestamp};

/// A longer message is not read for an attachment.
const MESSAGE_BYTES_MAX: usize = 16 * 1024 * 1024;

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

impl NativeAction for ReadAttachment {
    type Shared = Mail;
    type Facts = ();
    type Output = ReadPart;

    const NAME: &'static str = "read_attachment";
    const LEVEL: Level = Level::Read;
    const DESCRIPTION: &'static str = "Reads an attachment of a message, in parts.";
    const IDEMPOTENT: bool = true;
    const EXPOSES: Exposure = READS;

    fn summary(&self) -> String {
        "read an attachment".to_owned()
    }

    fn guard(&self, _mail: &Mail, _facts: Option<&()>, _now: Timestamp) -> Guard {
        Guard::Pass
    }

    async fn run(self, mail: &Mail, _: Option<()>, execution: &Execution) -> Result<(ReadPart, String), Failure> {
        read(execution, async {
            let mut mailbox = mail.mailbox(execution).await?;
            if mailbox.examine(&self.id.folder).await?.0 != self.id.validity {
                return Err(gone());
            }
            let size = mailbox.fetch(self.id.uid, "(UID RFC822.SIZE)").await?.ok_or_else(gone)?.size;
            if size.is_none_or(|size| usize::try_from(size).is_ok_and(|size| size > MESSAGE_BYTES_MAX)) {
                let message = "The message has more than 16 MiB. Its attachments cannot be read here.";
                return Err(Failure::Refused { message: message.into() });
            }
            let bytes = mailbox.content(self.id.uid, MESSAGE_BYTES_MAX).await?;
            mailbox.close().await;
            let part = mail.parse(bytes, move |message| self.part_of(message)).await?;
            Ok((part?, "read an attachment".to_owned()))
        })
        .await
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
