//! The bodies of requests: the members of a document beside its envelope.

use crate::level::Level;
use crate::names::{Action, Gate, Group, IdempotencyKey, Provider, RequestId, TaskId};
use crate::time::Timestamp;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};
use std::borrow::Cow;

/// Perform an action at a provider.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CallRequest {
    /// The provider's name, for example `github`.
    pub provider: Provider,
    /// The action's name, for example `list_issues`.
    pub action: Action,
    /// The action's parameters.
    #[serde(default)]
    pub params: Map<String, Value>,
    /// The governance task; production actions need one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_id: Option<TaskId>,
    /// Makes a repeated call the same call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idempotency_key: Option<IdempotencyKey>,
    /// Which of the person's accounts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub account_ref: Option<String>,
    /// How long the caller will wait, in milliseconds. It can only shorten the host's own limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// Decide, explain, and do nothing.
    #[serde(default, skip_serializing_if = "is_false")]
    pub dry_run: bool,
}

/// List what the group may do, now.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CapabilitiesRequest {
    /// Also list the actions that the group may not perform.
    #[serde(default, skip_serializing_if = "is_false")]
    pub include_unavailable: bool,
}

/// Give a group access to a provider. Repeating a grant replaces it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GrantRequest {
    /// The group that is to have access.
    pub group_folder: Group,
    /// The provider.
    pub provider: Provider,
    /// How much: 0 = none, 1 = read, 2 = write with guardrails, 3 = production or money.
    pub access_level: Level,
    /// Only these actions; absent means all that the catalogue has now, an empty list means none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allowed_actions: Option<Vec<Action>>,
    /// Actions that stay denied at every level.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub denied_actions: Option<Vec<Action>>,
    /// The gate that production actions need.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requires_task_gate: Option<Gate>,
    /// When the grant ends: a time, or the word `never`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Expiry>,
    /// When the grant ends, in seconds from now; not together with `expires_at`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_in_s: Option<u64>,
    /// At most this many calls a minute.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_per_minute: Option<u32>,
    /// At most this many calls a day.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub daily_quota: Option<u32>,
    /// Only on behalf of persons in chats of these types.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chat_types: Option<Vec<String>>,
    /// Only on behalf of persons in these chats.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chat_ids: Option<Vec<String>>,
    /// How long the caller will wait, in milliseconds. It can only shorten the host's own limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
}

/// End a group's access to a provider.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RevokeRequest {
    /// The group.
    pub group_folder: Group,
    /// The provider.
    pub provider: Provider,
}

/// Ask for access to a provider, for a while. A person decides, and may give less or more.
///
/// ```
/// let document = br#"{"type": "ext_request", "provider": "mail", "access_level": 2, "actions": ["send_email"],
///     "reason": "To send the invitations.", "duration_s": 3600}"#;
/// let shared::request::Request::Access(request) = shared::request::parse(document).unwrap().request else { panic!() };
/// assert_eq!(request.duration_s, 3600);
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AccessRequest {
    /// The provider.
    pub provider: Provider,
    /// How much: 1 = read, 2 = write with guardrails, 3 = production or money.
    pub access_level: Level,
    /// Only these actions; absent means all that the provider has now at this level.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub actions: Option<Vec<Action>>,
    /// Why it is needed, for the person who decides.
    pub reason: String,
    /// How long it is needed, in seconds, from the person's answer.
    pub duration_s: u64,
    /// How long the caller will wait, in milliseconds. It can only shorten the host's own limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
}

/// Ask a person once for several calls, which then run in order. The first one that does not succeed ends the plan.
///
/// ```
/// let document = br#"{"type": "ext_plan", "reason": "To report the fault and tell Ann.", "calls": [
///     {"provider": "github", "action": "create_issue", "params": {"owner": "acme", "repo": "app", "title": "Fault"}},
///     {"provider": "mail", "action": "send_email", "params": {"to": ["ann@example.com"], "text": "Done."}}]}"#;
/// let shared::request::Request::Plan(plan) = shared::request::parse(document).unwrap().request else { panic!() };
/// assert_eq!(plan.calls.len(), 2);
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PlanRequest {
    /// The calls, in the order in which they run: 2 to 16.
    pub calls: Vec<PlannedCall>,
    /// Why they are needed, for the person who decides.
    pub reason: String,
    /// How long the caller will wait, in milliseconds. It can only shorten the host's own limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
}

/// A call of a plan.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(inline)]
pub struct PlannedCall {
    /// The provider's name, for example `github`.
    pub provider: Provider,
    /// The action's name, for example `create_issue`.
    pub action: Action,
    /// The action's parameters.
    #[serde(default)]
    pub params: Map<String, Value>,
    /// The governance task; production actions need one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_id: Option<TaskId>,
    /// Which of the person's accounts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub account_ref: Option<String>,
}

impl From<PlannedCall> for CallRequest {
    fn from(planned: PlannedCall) -> Self {
        let PlannedCall { provider, action, params, task_id, account_ref } = planned;
        Self { provider, action, params, task_id, idempotency_key: None, account_ref, timeout_ms: None, dry_run: false }
    }
}

/// Begin a conversation. Its name is the `request_id`, and each later request of it has it as `conversation`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BeginRequest {}

/// List grants.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ListRequest {
    /// Only this group's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group_folder: Option<Group>,
}

/// List the latest external calls, newest first.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CallsRequest {
    /// Only this group's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group_folder: Option<Group>,
    /// Only to this provider.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<Provider>,
    /// Only older ones: the value of `next_before` in an earlier list.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<i64>,
    /// The number of calls, 1 to 100; absent means 20.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
}

/// List the latest governance tasks, newest first.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TasksRequest {
    /// Only this group's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group_folder: Option<Group>,
    /// Whether tasks that are done or cancelled are listed, too.
    #[serde(default, skip_serializing_if = "is_false")]
    pub all: bool,
}

/// Create a governance task.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TaskRequest {
    /// The title, for people.
    pub title: String,
    /// The group that may use it.
    pub group_folder: Group,
    /// Its name; absent means that the host makes one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_id: Option<TaskId>,
}

/// Open a gate for a task.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GateRequest {
    /// The task.
    pub task_id: TaskId,
    /// The gate.
    pub gate: Gate,
}

/// Ask for the reply of an earlier request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ResultRequest {
    /// The earlier request's id.
    pub of: RequestId,
    /// How long the caller will wait, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
}

/// Stop an earlier request if it has not started.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CancelRequest {
    /// The earlier request's id.
    pub of: RequestId,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes what it may skip by reference")]
fn is_false(value: &bool) -> bool {
    !value
}

/// When a grant ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expiry {
    /// At this time.
    At(Timestamp),
    /// Not at all; must be spelled.
    Never,
}

impl Serialize for Expiry {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::At(time) => time.serialize(serializer),
            Self::Never => serializer.serialize_str("never"),
        }
    }
}

impl<'de> Deserialize<'de> for Expiry {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        if text == "never" { Ok(Self::Never) } else { text.parse().map(Self::At).map_err(D::Error::custom) }
    }
}

impl JsonSchema for Expiry {
    fn schema_name() -> Cow<'static, str> {
        "Expiry".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "description": "a time such as 2026-02-14T10:00:00Z, or the word never" })
    }
}
