//! `ext_capabilities`: the snapshot, without asking the host; a summary first, then a provider or an action.

use super::{Effect, Entry, SeenBy};
use crate::document::{now, request_id};
use crate::render::{listing, words};
use crate::schema;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};
use shared::snapshot::Snapshot;
use shared::{Action, Code, Provider, Reply};

pub(super) const ENTRY: Entry = Entry {
    name: "ext_capabilities",
    words: words::EXT_CAPABILITIES,
    seen_by: SeenBy::All,
    effect: Effect::Reads,
    open_world: false,
    schema: || schema::of::<Wanted>(&[]),
};

/// Which part of the snapshot is wanted.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Wanted {
    /// Only this provider, with the parameters of its actions.
    #[serde(default)]
    provider: Option<Provider>,
    /// Only this action of the provider, with all that the host says of it.
    #[serde(default)]
    action: Option<Action>,
}

impl Wanted {
    /// Reads the arguments.
    ///
    /// # Errors
    /// The fault, in words that name the tool and the member.
    pub(super) fn read(arguments: Map<String, Value>) -> Result<Self, String> {
        let wanted: Self =
            serde_json::from_value(Value::Object(arguments)).map_err(|fault| format!("ext_capabilities: {fault}"))?;
        if wanted.action.is_some() && wanted.provider.is_none() {
            return Err("ext_capabilities: `action` is of a `provider`, which is missing".to_owned());
        }
        Ok(wanted)
    }

    /// Returns the part.
    ///
    /// # Errors
    /// The refusal if the group has no such provider or the provider no such action.
    pub(super) fn of(&self, snapshot: &Snapshot) -> Result<Value, Box<Reply>> {
        let Some(provider) = &self.provider else { return Ok(listing::summary(snapshot)) };
        let refused = |code| Box::new(Reply::of_code(request_id(), code, now()));
        let whole = listing::provider(snapshot, provider).ok_or_else(|| refused(Code::NoGrant))?;
        match &self.action {
            None => Ok(whole),
            Some(action) => listing::action(snapshot, provider, action).ok_or_else(|| refused(Code::UnknownAction)),
        }
    }
}
