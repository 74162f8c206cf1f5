//! `archive_email` and `delete_email`: a message is moved to another folder. Nothing is deleted for good.

use crate::failures::{Sending, change, explained, read};
use crate::reference::MessageRef;
use crate::{KEEPS, Mail};
use model::{EffectMarker, Exposure, Tier};
use provider::contract::{Execution, Failure, Guard, Probed};
use provider::native::NativeAction;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use shared::{Level, Timestamp};

/// The parameters of `archive_email`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ArchiveEmail {
    /// The id of the message, from a list.
    id: MessageRef,
}

/// The parameters of `delete_email`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct DeleteEmail {
    /// The id of the message, from a list.
    id: MessageRef,
}

/// A message that was moved.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Moved {
    /// The folder in which it is now. Its id there is another one.
    folder: String,
}

impl NativeAction for ArchiveEmail {
    type Shared = Mail;
    type Facts = ();
    type Output = Moved;

    const NAME: &'static str = "archive_email";
    const LEVEL: Level = Level::Write;
    const DESCRIPTION: &'static str = "Moves a message to the archive folder.";
    const IDEMPOTENT: bool = false;
    const EXPOSES: Exposure = KEEPS;

    fn summary(&self) -> String {
        "archive a message".to_owned()
    }

    fn guard(&self, mail: &Mail, _facts: Option<&()>, _now: Timestamp) -> Guard {
        elsewhere(&self.id, &mail.settings.archive)
    }

    fn probe_handle(&self, _facts: Option<&()>, _planted: &EffectMarker) -> Option<Value> {
        serde_json::to_value(&self.id).ok()
    }

    async fn probe(mail: &Mail, handle: Value, execution: &Execution) -> Result<Probed, Failure> {
        look(mail, handle, execution).await
    }

    async fn run(self, mail: &Mail, _: Option<()>, execution: &Execution) -> Result<(Moved, String), Failure> {
        let folder = &mail.settings.archive;
        moved(mail, &self.id, ("archive", folder), execution).await?;
        Ok((Moved { folder: folder.clone() }, "archived a message".to_owned()))
    }
}

impl NativeAction for DeleteEmail {
    type Shared = Mail;
    type Facts = ();
    type Output = Moved;

    const NAME: &'static str = "delete_email";
    const LEVEL: Level = Level::Write;
    const TIER: Option<Tier> = Some(Tier::Human);
    const DESCRIPTION: &'static str = "Moves a message to the folder for deleted mail.";
    const IDEMPOTENT: bool = false;
    const EXPOSES: Exposure = KEEPS;

    fn summary(&self) -> String {
        "delete a message".to_owned()
    }

    fn guard(&self, mail: &Mail, _facts: Option<&()>, _now: Timestamp) -> Guard {
        elsewhere(&self.id, &mail.settings.trash)
    }

    fn probe_handle(&self, _facts: Option<&()>, _planted: &EffectMarker) -> Option<Value> {
        serde_json::to_value(&self.id).ok()
    }

    async fn probe(mail: &Mail, handle: Value, execution: &Execution) -> Result<Probed, Failure> {
        look(mail, handle, execution).await
    }

    async fn run(self, mail: &Mail, _: Option<()>, execution: &Execution) -> Result<(Moved, String), Failure> {
        let folder = &mail.settings.trash;
        moved(mail, &self.id, ("trash", folder), execution).await?;
        Ok((Moved { folder: folder.clone() }, "deleted a message".to_owned()))
    }
}

fn elsewhere(message: &MessageRef, folder: &str) -> Guard {
    if message.folder.as_str() == folder {
        return Guard::Refuse(crate::failures::guardrail("The message is in that folder already."));
    }
    Guard::Pass
}

async fn moved(
    mail: &Mail,
    message: &MessageRef,
    (key, folder): (&str, &str),
    execution: &Execution,
) -> Result<(), Failure> {
    let sending = Sending::default();
    change(execution, &sending, async {
        let mut mailbox = mail.mailbox(execution).await?;
        mailbox.select(message).await?;
        if !mailbox.can("MOVE").await? {
            let message = "The mail server cannot move messages in one step (RFC 6851).";
            return Err(Failure::Refused { message: message.into() });
        }
        sending.begin();
        let remedy = format!("Does the folder `{folder}` exist? The table of the account names it: `{key}`.");
        let is_moved = mailbox.move_to(message.uid, folder).await;
        is_moved.map_err(|failure| explained(failure, |message| format!("{message} {remedy}")))?;
        sending.end();
        Ok(())
    })
    .await
}

/// Looks whether the message is still in its folder. Somebody else can have moved it, too.
async fn look(mail: &Mail, handle: Value, execution: &Execution) -> Result<Probed, Failure> {
    let message: MessageRef = serde_json::from_value(handle).map_err(|_unreadable| Failure::Refused {
        message: "The stored description of the effect is unreadable.".into(),
    })?;
    read(execution, async {
        let mut mailbox = mail.mailbox(execution).await?;
        let is_there = mailbox.has(&message).await?;
        mailbox.close().await;
        let folder = message.folder.as_str();
        Ok(if is_there {
            Probed::Absent { message: format!("The message is still in {folder}.") }
        } else {
            Probed::State { message: format!("The message is no longer in {folder}.") }
        })
    })
    .await
}
