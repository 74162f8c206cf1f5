//! The snapshot `ext_capabilities.json`: the capabilities of a group, as the host last wrote them.

use crate::level::Level;
use crate::names::{Action, Group, Provider};
use crate::time::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

/// The revision of the directory protocol that this crate speaks.
pub const PROTOCOL: &str = "ext-broker/1";

/// The whole document. Fields that other hosts do not write have defaults; unknown fields are passed over.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Snapshot {
    /// When the host wrote it.
    #[serde(rename = "generatedAt")]
    pub generated_at: String,
    /// The revision of the protocol; absent for other hosts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protocol: Option<String>,
    /// The group that this is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<Group>,
    /// Whether it is the main group.
    #[serde(default)]
    pub is_main: bool,
    /// Whether the exposure of the group ends with a conversation, so that each request needs one.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub needs_conversation: bool,
    /// One entry for each provider with a grant.
    pub capabilities: Vec<Capability>,
    /// The names of all providers for the main group, else of the granted ones.
    #[serde(default)]
    pub providers_available: Vec<Provider>,
    /// The providers to which this group may request access.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub may_request: Vec<Provider>,
    /// The gates that this group may open.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub opens_gates: Vec<String>,
    /// Why nothing is known of the person who asks, where a context token was bad or one is needed; never in the group's
    /// directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token_fault: Option<TokenFault>,
}

impl Snapshot {
    /// Returns whether the group can use the action, perhaps after an approval.
    pub fn is_usable(&self, provider: &Provider, action: &Action) -> bool {
        let own = self.capabilities.iter().find(|capability| capability.provider == *provider);
        own.and_then(|capability| capability.actions.get(action)).is_some_and(ActionEntry::is_usable)
    }
}

/// Why a context token proves nothing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenFault {
    /// `context_token_missing`, `context_token_invalid` or `context_token_expired`.
    pub code: String,
    /// The reason and the remedy, each a sentence.
    pub error: String,
}

/// The permissions of the group at one provider.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Capability {
    /// The provider.
    pub provider: Provider,
    /// The description for an agent that chooses between many; absent if only the actions are known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The accounts of the caller there; empty in the group's directory.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub accounts: Vec<String>,
    /// In which kinds of chats it may be used; absent means in all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub chat_types: Vec<String>,
    /// The granted level.
    pub access_level: Level,
    /// Only these actions; `null` means all of the catalogue at the time of the grant.
    #[serde(default)]
    pub allowed_actions: Option<Vec<Action>>,
    /// Never these.
    #[serde(default)]
    pub denied_actions: Option<Vec<Action>>,
    /// When the grant ends; `null` means never.
    #[serde(default)]
    pub expires_at: Option<Timestamp>,
    /// How long a caller should wait, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// The provider's whole catalogue.
    #[serde(default)]
    pub actions: BTreeMap<Action, ActionEntry>,
}

/// One action of the catalogue, as this group sees it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ActionEntry {
    /// The level it demands.
    pub level: Level,
    /// The tier: `auto`, `rules`, `human`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tier: Option<String>,
    /// The description; ends with ` (DENIED)` if the group may not use the action.
    pub description: String,
    /// Whether the group may use it.
    #[serde(default)]
    pub status: Availability,
    /// The schema of its parameters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input_schema: Option<Value>,
    /// The schema of its result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_schema: Option<Value>,
    /// Whether repeating it does no harm.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idempotent: Option<bool>,
    /// When a temporary grant that gives it ends; absent if the group's own grant gives it, or none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
    /// Whether it works with an account of the person on whose behalf it is called.
    #[serde(default, skip_serializing_if = "is_false")]
    pub requires_auth: bool,
}

/// The mark of hosts without a status, in the description of an action that may not be used.
const DENIED: &str = "(DENIED)";

impl ActionEntry {
    /// Returns the status, also where the host says it in the description only.
    pub fn shown_status(&self) -> Availability {
        let is_denied = self.is_offered() && self.description.ends_with(DENIED);
        if is_denied { Availability::Denied } else { self.status }
    }

    /// Returns whether the group can use it, perhaps after an approval.
    pub fn is_usable(&self) -> bool {
        self.is_offered() && !self.description.ends_with(DENIED)
    }

    fn is_offered(&self) -> bool {
        match self.status {
            Availability::Available | Availability::NeedsApproval | Availability::NeedsGate => true,
            Availability::RequiresHigherLevel | Availability::Denied => false,
        }
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_false(value: &bool) -> bool {
    !value
}

/// Whether a group may use an action.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Availability {
    /// Yes.
    #[default]
    #[serde(rename = "available")]
    Available,
    /// After a person has agreed.
    #[serde(rename = "needs_approval")]
    NeedsApproval,
    /// With a task whose gate is open.
    #[serde(rename = "needs_gate")]
    NeedsGate,
    /// Not at the granted level.
    #[serde(rename = "requires_higher_level")]
    RequiresHigherLevel,
    /// No.
    #[serde(rename = "DENIED")]
    Denied,
}

/// `host.json`: who answers here. The host renews its modification time every two seconds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostInfo {
    /// The host's version.
    pub version: String,
    /// The revision of the protocol.
    pub protocol: String,
    /// When the host started.
    pub started_at: Timestamp,
}
