//! `archive_email` and `delete_email`: a message is moved to another folder. Nothing is deleted for good.

use crate::backend::Target;
use crate::failures::{Sending, change, guardrail, unreadable_handle};
use crate::read::in_time;
use crate::reference::{Folder, MessageRef};
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
    /// The folder.
    const TARGET: Target;
    /// The action in two words, before and after it.
    const VERBS: [&'static str; 2];
}

/// The folder for archived mail.
pub(crate) struct Archive;

impl Destination for Archive {
    const NAME: &'static str = "archive_email";
    const DESCRIPTION: &'static str = "Moves a message to the archive folder.";
    const TIER: Option<Tier> = None;
    const MAY_VARY: &[&str] = &["id"];
    const TARGET: Target = Target::Archive;
    const VERBS: [&'static str; 2] = ["archive", "archived"];
}

/// The folder for deleted mail.
pub(crate) struct Trash;

impl Destination for Trash {
    const NAME: &'static str = "delete_email";
    const DESCRIPTION: &'static str = "Moves a message to the folder for deleted mail.";
    const TIER: Option<Tier> = Some(Tier::Human);
    // A standing approval for every id would be one for the whole mailbox.
    const MAY_VARY: &[&str] = &[];
    const TARGET: Target = Target::Trash;
    const VERBS: [&'static str; 2] = ["delete", "deleted"];
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
    /// The folder in which it is now. Over IMAP, its id there is another one.
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
        if let Guard::Refuse(refusal) = mail.guard_id(&self.id) {
            return Guard::Refuse(refusal);
        }
        match &self.id {
            MessageRef::Imap(place) if place.folder == mail.folder(D::TARGET.purpose()) => {
                Guard::Refuse(guardrail("The message is in that folder already."))
            }
            MessageRef::Imap(_) | MessageRef::Gmail(_) => Guard::Pass,
        }
    }

    fn probe_handle(&self, _facts: Option<&()>, _planted: &EffectMarker) -> Option<Value> {
        serde_json::to_value(&self.id).ok()
    }

    async fn probe(mail: &Mail, handle: Value, execution: &Execution) -> Result<Probed, Failure> {
        let message: MessageRef = serde_json::from_value(handle).map_err(|_unreadable| unreadable_handle())?;
        in_time(execution, async {
            let mut mailbox = mail.mailbox(execution).await?;
            let probed = mailbox.probe_move(&message, D::TARGET).await?;
            mailbox.close().await;
            Ok(probed)
        })
        .await
    }

    async fn run(self, mail: &Mail, _: Option<()>, execution: &Execution) -> Result<(Moved, String), Failure> {
        let (folder, [_, verb]) = (mail.folder(D::TARGET.purpose()), D::VERBS);
        let sending = Sending::default();
        change(execution, &sending, async {
            let mut mailbox = mail.mailbox(execution).await?;
            mailbox.move_to(&self.id, D::TARGET, &folder, &sending).await
        })
        .await?;
        Ok((Moved { folder }, format!("{verb} a message")))
    }
}
