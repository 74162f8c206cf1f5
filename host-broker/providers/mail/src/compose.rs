//! The message that is sent or kept as a draft (RFC 5322).
//!
//! The same fields and nonce give the same bytes, so a person approves exactly the message that is sent. Its date is not
//! among them: it is the time of sending, and is put before them.

use crate::Mail;
use crate::address::Address;
use crate::backend::Backend;
use crate::gmail;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use lettre::message::header::{ContentTransferEncoding, ContentType, Date, HeaderName, HeaderValue, Headers};
use lettre::message::{Attachment, Body, Mailbox, Message, MultiPart, SinglePart};
use model::{Destination, DestinationKind, Nonce};
use provider::contract::Failure;
use schemars::JsonSchema;
use serde::Deserialize;
use shared::Timestamp;
use std::time::{Duration, SystemTime};

/// The most bytes of all attachments together.
///
/// The card of a mail has them twice, in the parameters and in the message, and must fit in whole.
pub(crate) const ATTACHMENTS_BYTES_MAX: usize = 128 * 1024;
/// The longest text, in characters.
pub(crate) const TEXT_CHARS_MAX: u32 = 100_000;

/// The fields of a message.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Fields {
    /// The recipients.
    #[serde(default)]
    #[schemars(length(max = 50))]
    pub(crate) to: Vec<Address>,
    /// The recipients of copies.
    #[serde(default)]
    #[schemars(length(max = 50))]
    pub(crate) cc: Vec<Address>,
    /// The recipients that the others do not see.
    #[serde(default)]
    #[schemars(length(max = 50))]
    pub(crate) bcc: Vec<Address>,
    /// The subject, in one line.
    #[serde(default)]
    #[schemars(length(max = 500))]
    pub(crate) subject: String,
    /// The text.
    #[serde(default)]
    #[schemars(length(max = TEXT_CHARS_MAX))]
    pub(crate) text: String,
    /// The `message_id` of the message that this one answers.
    #[serde(default)]
    #[schemars(length(max = 500))]
    pub(crate) in_reply_to: Option<String>,
    /// Files.
    #[serde(default)]
    #[schemars(length(max = 20))]
    pub(crate) attachments: Vec<File>,
}

/// Whether a message names the recipients that the others do not see.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Bcc {
    /// It does not. The server gets them beside the message.
    Hidden,
    /// It does. A server that sends the message removes them.
    Named,
}

/// A file in a message.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct File {
    /// Its name, without a path.
    #[schemars(length(min = 1, max = 200))]
    name: String,
    /// Its media type; `application/octet-stream` unless set.
    #[serde(default)]
    #[schemars(length(max = 100))]
    content_type: Option<String>,
    /// Its content in base64 (RFC 4648, section 4), at most 128 KiB of all files together.
    content: String,
}

impl Fields {
    /// Returns the fault of the fields, as a sentence; `None` if a message can be made of them.
    pub(crate) fn fault(&self) -> Option<&'static str> {
        let lines = [Some(&self.subject), self.in_reply_to.as_ref()].into_iter().flatten();
        let names = self.attachments.iter().flat_map(|file| [Some(&file.name), file.content_type.as_ref()]).flatten();
        if lines.chain(names).any(|line| line.chars().any(char::is_control)) {
            return Some("subject, in_reply_to and the names of files are one line each, without control characters.");
        }
        if self.in_reply_to.as_ref().is_some_and(|id| !(id.starts_with('<') && id.ends_with('>') && id.is_ascii())) {
            return Some("in_reply_to is the message_id of a message: <…@…>.");
        }
        // SECURITY: a CR or LF alone could end the message for a server that reads it so, and begin another one.
        let is_control = |c: char| c.is_control() && !matches!(c, '\n' | '\t');
        if self.text.replace("\r\n", "\n").contains(is_control) {
            return Some("The text has control characters other than ends of lines and tabs.");
        }
        let mut bytes = 0_usize;
        for file in &self.attachments {
            let Ok(content) = BASE64_STANDARD.decode(&file.content) else {
                return Some("The content of an attachment is not base64.");
            };
            bytes = bytes.saturating_add(content.len());
            if file.content_type().is_none() {
                return Some("The content_type of an attachment is no media type such as text/plain.");
            }
        }
        (bytes > ATTACHMENTS_BYTES_MAX).then_some("The attachments have more than 128 KiB together.")
    }

    /// Returns all recipients.
    pub(crate) fn recipients(&self) -> Vec<&Address> {
        self.to.iter().chain(&self.cc).chain(&self.bcc).collect()
    }

    /// Returns the recipients as destinations. `None` if there are none, or if one is no single place.
    pub(crate) fn destinations(&self) -> Option<Vec<Destination>> {
        let recipients = self.recipients();
        let read = |address: &Address| DestinationKind::Address.read(address.as_str());
        (!recipients.is_empty()).then(|| recipients.into_iter().map(read).collect())?
    }

    /// Returns the message without its date; `None` if the fields have a [fault](Self::fault).
    pub(crate) fn message(&self, mail: &Mail, nonce: &Nonce, bcc: Bcc) -> Option<String> {
        let address = mail.address.as_ref()?;
        let own = Mailbox::new(mail.settings.display_name.clone(), address.inner().clone());
        let mut builder = Message::builder().from(own).subject(self.subject.as_str());
        for address in &self.to {
            builder = builder.to(Mailbox::new(None, address.inner().clone()));
        }
        for address in &self.cc {
            builder = builder.cc(Mailbox::new(None, address.inner().clone()));
        }
        for address in self.bcc.iter().filter(|_| bcc == Bcc::Named) {
            builder = builder.bcc(Mailbox::new(None, address.inner().clone())).keep_bcc();
        }
        if matches!(*mail.backend, Backend::Gmail(_)) {
            let name = HeaderName::new_from_ascii_str(gmail::NONCE_FIELD);
            builder = builder.raw_header(HeaderValue::new(name, nonce.as_str().to_owned()));
        }
        if let Some(earlier) = &self.in_reply_to {
            builder = builder.in_reply_to(earlier.clone()).references(earlier.clone());
        }
        let builder = builder
            .message_id(Some(message_id(address, nonce)))
            // The library adds the present time where there is none.
            .date(SystemTime::UNIX_EPOCH)
            // A draft has no recipients yet, and the library would refuse it.
            .envelope(lettre::address::Envelope::new(None, vec![address.inner().clone()]).ok()?);
        let text = SinglePart::plain(self.text.clone());
        let message = if self.attachments.is_empty() {
            builder.singlepart(text)
        } else {
            let parts = MultiPart::mixed().boundary(format!("=_{}", nonce.as_str())).singlepart(text);
            let parts = self.attachments.iter().try_fold(parts, |parts, file| {
                let content = BASE64_STANDARD.decode(&file.content).ok()?;
                // The library would send plain ASCII as it is, with its ends of lines.
                let body = Body::new_with_encoding(content, ContentTransferEncoding::Base64).ok()?;
                Some(parts.singlepart(Attachment::new(file.name.clone()).body(body, file.content_type()?)))
            })?;
            builder.multipart(parts)
        };
        let formatted = String::from_utf8(message.ok()?.formatted()).ok()?;
        let message = formatted.replacen(&format!("\r\n{EPOCH}"), "\r\n", 1);
        ends_of_lines_are_whole(&message).then_some(message)
    }
}

/// Returns whether each CR is followed by LF, and each LF comes after CR.
fn ends_of_lines_are_whole(message: &str) -> bool {
    let rest = message.replace("\r\n", "");
    !rest.contains(['\r', '\n', '\0'])
}

impl File {
    fn content_type(&self) -> Option<ContentType> {
        ContentType::parse(self.content_type.as_deref().unwrap_or("application/octet-stream")).ok()
    }
}

/// The date that no message keeps.
const EPOCH: &str = "Date: Thu, 01 Jan 1970 00:00:00 +0000\r\n";

/// Returns the `Message-ID` of the message with this nonce. A lost effect is looked for by it.
pub(crate) fn message_id(sender: &Address, nonce: &Nonce) -> String {
    format!("<{}@{}>", nonce.as_str(), sender.domain())
}

/// Returns the message with its date.
pub(crate) fn dated(message: &str, now: Timestamp) -> String {
    let millis = u64::try_from(now.millis()).unwrap_or_default();
    let mut headers = Headers::new();
    headers.set(Date::new(SystemTime::UNIX_EPOCH + Duration::from_millis(millis)));
    format!("Date: {}\r\n{message}", headers.get_raw("Date").unwrap_or_default())
}

/// Checks an approved message against the one that would be sent now.
pub(crate) fn agreed<T: PartialEq>(approved: Option<&T>, now: &T) -> Result<(), Failure> {
    // SECURITY: the approved message is sent, or nothing.
    if approved.is_some_and(|approved| approved != now) { Err(crate::failures::not_approved()) } else { Ok(()) }
}
