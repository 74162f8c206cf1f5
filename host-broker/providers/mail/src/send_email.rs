//! `send_email`.

use crate::backend::{Backend, Purpose};
use crate::compose::{Bcc, Fields, agreed, dated, message_id};
use crate::create_draft::unmade;
use crate::failures::{Sending, change, guardrail};
use crate::outgoing;
use crate::reference::Folder;
use crate::settings::Encryption;
use crate::{Mail, SENDS};
use model::{Destination, DestinationKind, EffectMarker, Exposure, Nonce, SealedRequest, Tier};
use provider::contract::{Execution, Failure, Guard, Probed};
use provider::native::NativeAction;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use shared::{Level, Timestamp};
use std::time::Duration;
use tokio::time::{Instant, timeout_at};

/// Saving a sent message takes no longer, and ends so long before the deadline of the call. It is sent already.
const SAVING: Duration = Duration::from_secs(5);
const MARGIN: Duration = Duration::from_secs(1);

/// The parameters of `send_email`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(transparent)]
pub(crate) struct SendEmail(Fields);

/// A message that was sent.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Sent {
    /// Its `Message-ID`. Gmail can give the message another one.
    message_id: String,
    /// The number of recipients that the server took.
    recipients: usize,
    /// The folder in which the broker saved it; absent if it did not.
    #[serde(skip_serializing_if = "Option::is_none")]
    saved_in: Option<Folder>,
}

impl SendEmail {
    fn summary_of(&self, verb: &str) -> String {
        let count = self.0.recipients().len();
        format!("{verb} a mail to {count} recipient{}", if count == 1 { "" } else { "s" })
    }

    /// Returns everything that leaves but the date and the credential: the envelope and the message.
    fn sealed(&self, mail: &Mail, nonce: &Nonce) -> Option<SealedRequest> {
        let address = mail.address.as_ref()?;
        let (url, headers, names) = match &*mail.backend {
            Backend::Imap(servers) => {
                let server = servers.smtp.as_ref()?;
                let scheme = if server.tls == Encryption::Implicit { "smtps" } else { "smtp" };
                let sender = ("MAIL FROM".to_owned(), address.to_string());
                let recipients = self.0.recipients().into_iter();
                let recipients = recipients.map(|address| ("RCPT TO".to_owned(), address.to_string()));
                let envelope = std::iter::once(sender).chain(recipients).collect();
                (format!("{scheme}://{}:{}", server.host, server.port), envelope, Bcc::Hidden)
            }
            // The header has all recipients. Gmail removes `Bcc` from the message.
            Backend::Gmail(gmail) => (gmail.resource(address, &["messages", "send"]).into(), Vec::new(), Bcc::Named),
        };
        let body = self.0.message(mail, nonce, names)?;
        Some(SealedRequest { nonce: nonce.clone(), method: "SEND".to_owned(), url, headers, body })
    }
}

impl NativeAction for SendEmail {
    type Shared = Mail;
    type Facts = ();
    type Output = Sent;

    const NAME: &'static str = "send_email";
    const LEVEL: Level = Level::Write;
    const TIER: Option<Tier> = Some(Tier::Human);
    const DESCRIPTION: &'static str = "Sends a mail from the account, in plain text, to all recipients or to none.";
    const IDEMPOTENT: bool = false;
    const EXPOSES: Exposure = SENDS;
    const MAY_VARY: &[&str] = &["subject", "text", "in_reply_to", "attachments"];
    const DESTINATIONS: Option<DestinationKind> = Some(DestinationKind::Address);

    fn summary(&self) -> String {
        self.summary_of("send")
    }

    fn guard(&self, mail: &Mail, _facts: Option<&()>, _now: Timestamp) -> Guard {
        if let Some(fault) = self.0.fault() {
            return Guard::Refuse(guardrail(fault));
        }
        let recipients = self.0.recipients();
        if recipients.is_empty() {
            return Guard::Refuse(guardrail("The mail has no recipient."));
        }
        if recipients.len() > 50 {
            return Guard::Refuse(guardrail("The mail has more than 50 recipients."));
        }
        if !mail.can_send() {
            return Guard::Refuse(guardrail("The mail account has no server to send with (`smtp` in its table)."));
        }
        let allowed = &mail.settings.recipients;
        match recipients.into_iter().find(|address| !allowed.iter().any(|pattern| pattern.allows(address))) {
            Some(address) => Guard::Refuse(guardrail(format!(
                "{address} may not get mail. An operator allows recipients in `recipients` of the account's table."
            ))),
            None => Guard::Pass,
        }
    }

    fn destinations(&self, _mail: &Mail) -> Option<Vec<Destination>> {
        self.0.destinations()
    }

    fn seal(&self, mail: &Mail, _facts: Option<&()>, nonce: &Nonce) -> Option<SealedRequest> {
        self.sealed(mail, nonce)
    }

    fn probe_handle(&self, _facts: Option<&()>, planted: &EffectMarker) -> Option<Value> {
        Some(outgoing::handle(planted))
    }

    async fn probe(mail: &Mail, handle: Value, execution: &Execution) -> Result<Probed, Failure> {
        outgoing::look(&handle, mail, Purpose::Sent, execution, "sent a mail").await
    }

    async fn run(self, mail: &Mail, _: Option<()>, execution: &Execution) -> Result<(Sent, String), Failure> {
        let nonce = execution.nonce();
        let address = mail.address()?;
        let sealed = self.sealed(mail, nonce).ok_or_else(unmade)?;
        agreed(execution.sealed(), &sealed)?;
        let (message, recipients) = (dated(&sealed.body, mail.now()), self.0.recipients());
        let sending = Sending::default();
        change(execution, &sending, mail.send(&recipients, &message, &sending, execution)).await?;
        // It is sent, even if the copy fails.
        let saved_in = if mail.saves_sent() {
            let folder = mail.folder(Purpose::Sent);
            let last = execution.deadline().checked_sub(MARGIN).unwrap_or_else(Instant::now);
            let until = (Instant::now() + SAVING).min(last);
            let saving = async {
                let mut mailbox = mail.mailbox(execution).await?;
                mailbox.save_sent(&folder, &message).await
            };
            matches!(timeout_at(until, saving).await, Ok(Ok(()))).then_some(folder)
        } else {
            None
        };
        let sent = Sent { message_id: message_id(address, nonce), recipients: recipients.len(), saved_in };
        Ok((sent, self.summary_of("sent")))
    }
}
