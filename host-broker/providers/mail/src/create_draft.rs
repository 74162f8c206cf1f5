//! `create_draft`.

use crate::backend::Purpose;
use crate::compose::{Bcc, Fields, dated, message_id};
use crate::failures::{Sending, change, guardrail};
use crate::outgoing;
use crate::reference::Folder;
use crate::{Mail, SENDS};
use model::{EffectMarker, Exposure};
use provider::contract::{Execution, Failure, Guard, Probed};
use provider::native::NativeAction;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use shared::{Level, Timestamp};

/// The parameters of `create_draft`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(transparent)]
pub(crate) struct CreateDraft(Fields);

/// A draft that was saved.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Saved {
    /// Its `Message-ID`.
    message_id: String,
    /// The folder in which it is.
    folder: Folder,
}

impl NativeAction for CreateDraft {
    type Shared = Mail;
    type Facts = ();
    type Output = Saved;

    const NAME: &'static str = "create_draft";
    const LEVEL: Level = Level::Write;
    const DESCRIPTION: &'static str = "Saves a draft in the mail account. It sends nothing.";
    const IDEMPOTENT: bool = false;
    // The draft goes to the server, where every other program of the account sees it.
    const EXPOSES: Exposure = SENDS;
    const MAY_VARY: &[&str] = &["subject", "text", "in_reply_to", "attachments"];

    fn summary(&self) -> String {
        "save a draft".to_owned()
    }

    fn guard(&self, _mail: &Mail, _facts: Option<&()>, _now: Timestamp) -> Guard {
        self.0.fault().map_or(Guard::Pass, |fault| Guard::Refuse(guardrail(fault)))
    }

    fn probe_handle(&self, _facts: Option<&()>, planted: &EffectMarker) -> Option<Value> {
        Some(outgoing::handle(planted))
    }

    async fn probe(mail: &Mail, handle: Value, execution: &Execution) -> Result<Probed, Failure> {
        outgoing::look(&handle, mail, Purpose::Drafts, execution, "saved a draft").await
    }

    async fn run(self, mail: &Mail, _: Option<()>, execution: &Execution) -> Result<(Saved, String), Failure> {
        let nonce = execution.nonce();
        let address = mail.address()?;
        let message = self.0.message(mail, nonce, Bcc::Named).ok_or_else(unmade)?;
        let folder = mail.folder(Purpose::Drafts);
        let sending = Sending::default();
        change(execution, &sending, async {
            let mut mailbox = mail.mailbox(execution).await?;
            mailbox.save_draft(&folder, &dated(&message, mail.now()), &sending).await
        })
        .await?;
        let saved = Saved { message_id: message_id(address, nonce), folder };
        Ok((saved, "saved a draft".to_owned()))
    }
}

/// The fields make no message, although they have no fault.
pub(crate) fn unmade() -> Failure {
    Failure::Refused { message: "No message can be made of these fields.".into() }
}
