//! `archive_email` and `delete_email`: a message is moved to another folder. Nothing is deleted for good.

use crate::failures::{Sending, change, explained, guardrail, unreadable_handle};
use crate::read::in_time;
use crate::reference::{Folder, MessageRef};
use crate::settings::Settings;
use crate::{KEEPS, Mail};
use model::{EffectMarker, Exposure, Tier};
use provider::contract::{Execution, Failure, Guard, Probed};
use provider::native::NativeAction;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use shared::{Level, Timestamp};
use std::marker::PhantomData;

/// The folder to which an action moves a message.
pub(crate) trait Destination: Send + Sync + 'static {
    /// The name of the action.
    const NAME: &'static str;
    /// The description for an agent.
    const DESCRIPTION: &'static str;
    /// A stricter tier than the level's own.
    const TIER: Option<Tier>;
    /// The parameters that may vary under a standing approval.
    const MAY_VARY: &[&str];
    /// The key of the folder in the table of the account.
    const KEY: &'static str;
    /// The action in two words, before and after it.
    const VERBS: [&'static str; 2];

    /// Returns the folder.
    fn folder(settings: &Settings) -> &Folder;
}

/// The folder for archived mail.
pub(crate) struct Archive;

impl Destination for Archive {
    const NAME: &'static str = "archive_email";
    const DESCRIPTION: &'static str = "Moves a message to the archive folder.";
    const TIER: Option<Tier> = None;
    const MAY_VARY: &[&str] = &["id"];
    const KEY: &'static str = "archive";
    const VERBS: [&'static str; 2] = ["archive", "archived"];

    fn folder(settings: &Settings) -> &Folder {
        &settings.archive
    }
}

/// The folder for deleted mail.
pub(crate) struct Trash;

impl Destination for Trash {
    const NAME: &'static str = "delete_email";
    const DESCRIPTION: &'static str = "Moves a message to the folder for deleted mail.";
    const TIER: Option<Tier> = Some(Tier::Human);
    // A standing approval for every id would be one for the whole mailbox.
    const MAY_VARY: &[&str] = &[];
    const KEY: &'static str = "trash";
    const VERBS: [&'static str; 2] = ["delete", "deleted"];

    fn folder(settings: &Settings) -> &Folder {
        &settings.trash
    }
}

/// The parameters.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, bound = "")]
#[schemars(bound = "")]
pub(crate) struct MoveMessage<D> {
    /// The id of the message, from a list.
    id: MessageRef,
    #[serde(skip)]
    destination: PhantomData<fn() -> D>,
}

/// A message that was moved.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Moved {
    /// The folder in which it is now. Its id there is another one.
    folder: Folder,
}

impl<D: Destination> NativeAction for MoveMessage<D> {
    type Shared = Mail;
    type Facts = ();
    type Output = Moved;

    const NAME: &'static str = D::NAME;
    const LEVEL: Level = Level::Write;
    const TIER: Option<Tier> = D::TIER;
    const DESCRIPTION: &'static str = D::DESCRIPTION;
    const IDEMPOTENT: bool = false;
    const EXPOSES: Exposure = KEEPS;
    const MAY_VARY: &[&str] = D::MAY_VARY;

    fn summary(&self) -> String {
        let [verb, _] = D::VERBS;
        format!("{verb} a message")
    }

    fn guard(&self, mail: &Mail, _facts: Option<&()>, _now: Timestamp) -> Guard {
        if self.id.folder == *D::folder(&mail.settings) {
            return Guard::Refuse(guardrail("The message is in that folder already."));
        }
        Guard::Pass
    }

    fn probe_handle(&self, _facts: Option<&()>, _planted: &EffectMarker) -> Option<Value> {
        serde_json::to_value(&self.id).ok()
    }

    async fn probe(mail: &Mail, handle: Value, execution: &Execution) -> Result<Probed, Failure> {
        look(mail, handle, execution).await
    }

    async fn run(self, mail: &Mail, _: Option<()>, execution: &Execution) -> Result<(Moved, String), Failure> {
        let (folder, [_, verb]) = (D::folder(&mail.settings), D::VERBS);
        moved(mail, &self.id, (D::KEY, folder.as_str()), execution).await?;
        Ok((Moved { folder: folder.clone() }, format!("{verb} a message")))
    }
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
    let message: MessageRef = serde_json::from_value(handle).map_err(|_unreadable| unreadable_handle())?;
    in_time(execution, async {
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
