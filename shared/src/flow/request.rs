//! The requests about flows: the same on every surface.

use super::operations::{self, Effect, Operation};
use super::{Bundle, GrantId, Id, Opaque, Scope, Version};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// How many a list has at most.
pub const LISTED_MAX: usize = 200;
/// How many characters the words have for whom an access is.
pub const LABEL_MAX: usize = 256;

/// A request about flows.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum FlowRequest {
    /// `flow_list`
    FlowList(FlowList),
    /// `flow_get`
    FlowGet(FlowNamed),
    /// `flow_propose`
    FlowPropose(Bundle),
    /// `flow_import`
    FlowImport(Bundle),
    /// `flow_export`
    FlowExport(FlowNamed),
    /// `flow_approve`
    FlowApprove(FlowVersion),
    /// `flow_deprecate`
    FlowDeprecate(FlowVersion),
    /// `flow_project`
    FlowProject(FlowProject),
    /// `flow_external_grant_mint`
    FlowExternalGrantMint(GrantMint),
    /// `flow_external_grant_revoke`
    FlowExternalGrantRevoke(GrantNamed),
    /// `flow_external_grant_list`
    FlowExternalGrantList(GrantList),
}

/// Access for an external agent: to one version of one flow, and to some of the tools that its steps name.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GrantMint {
    /// Which flow.
    pub flow_id: Id,
    /// Which version of it: the canonical one.
    pub flow_version: Version,
    /// Which tools, at least one.
    #[schemars(length(min = 1))]
    pub requested_tools: Vec<Opaque>,
    /// For how many seconds; absent means the operator's default, and the operator's maximum is never exceeded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 4_294_967_295_u32))]
    pub ttl_seconds: Option<u32>,
    /// A name of the external agent, chosen by the caller. Only its hash is stored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = LABEL_MAX))]
    pub actor_label: Option<String>,
}

/// Access of an external agent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GrantNamed {
    /// Which.
    pub grant_id: GrantId,
}

/// Which accesses of external agents to list.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GrantList {
    /// Only those to this flow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flow_id: Option<Id>,
    /// How many, from 1 to 200; absent means 100.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = LISTED_MAX))]
    pub limit: Option<usize>,
    /// Where to go on: what `next_cursor` was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<GrantId>,
}

/// Which flows to list.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FlowList {
    /// Only versions that stand there; absent means the canonical ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<State>,
    /// Only those of this scope.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope: Option<Scope>,
    /// How many, from 1 to 200; absent means 100.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = LISTED_MAX))]
    pub limit: Option<usize>,
    /// Where to go on: what `next_cursor` was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = "@"))]
    pub cursor: Option<String>,
}

/// Where a version of a flow stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// Somebody wants it.
    Proposed,
    /// It is the canonical one.
    Approved,
    /// It was.
    Deprecated,
}

impl State {
    /// Every state.
    pub const ALL: [Self; 3] = [Self::Proposed, Self::Approved, Self::Deprecated];

    /// The word in documents.
    pub fn word(self) -> &'static str {
        match self {
            Self::Proposed => "proposed",
            Self::Approved => "approved",
            Self::Deprecated => "deprecated",
        }
    }
}

/// A flow.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FlowNamed {
    /// Which.
    pub flow_id: Id,
    /// Which version of it; absent means the canonical one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<Version>,
}

/// A version of a flow.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FlowVersion {
    /// Which flow.
    pub flow_id: Id,
    /// Which version of it.
    pub version: Version,
}

/// A flow as some harness reads it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FlowProject {
    /// Which flow.
    pub flow_id: Id,
    /// Which version of it; absent means the canonical one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<Version>,
    /// For which harness.
    pub harness: Harness,
}

/// The reader of a flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Harness {
    /// A rule of an editor's agent: Markdown.
    CursorRule,
    /// Somebody at a terminal: a text of comments.
    CliRunbook,
    /// An external agent: JSON.
    AgentBundle,
}

impl Harness {
    /// The word in documents.
    pub fn word(self) -> &'static str {
        match self {
            Self::CursorRule => "cursor_rule",
            Self::CliRunbook => "cli_runbook",
            Self::AgentBundle => "agent_bundle",
        }
    }
}

impl FlowRequest {
    /// The word in the document's `type`.
    pub fn word(&self) -> &'static str {
        self.operation().name
    }

    /// Returns the operation of the request.
    pub fn operation(&self) -> &'static Operation {
        match self {
            Self::FlowList(_) => &operations::FLOW_LIST,
            Self::FlowGet(_) => &operations::FLOW_GET,
            Self::FlowPropose(_) => &operations::FLOW_PROPOSE,
            Self::FlowImport(_) => &operations::FLOW_IMPORT,
            Self::FlowExport(_) => &operations::FLOW_EXPORT,
            Self::FlowApprove(_) => &operations::FLOW_APPROVE,
            Self::FlowDeprecate(_) => &operations::FLOW_DEPRECATE,
            Self::FlowProject(_) => &operations::FLOW_PROJECT,
            Self::FlowExternalGrantMint(_) => &operations::FLOW_EXTERNAL_GRANT_MINT,
            Self::FlowExternalGrantRevoke(_) => &operations::FLOW_EXTERNAL_GRANT_REVOKE,
            Self::FlowExternalGrantList(_) => &operations::FLOW_EXTERNAL_GRANT_LIST,
        }
    }

    /// Checks whether the request changes the stored data.
    pub fn changes(&self) -> bool {
        self.operation().effect != Effect::Reads
    }

    /// The body as an object.
    pub fn body(&self) -> Map<String, Value> {
        match serde_json::to_value(self) {
            Ok(Value::Object(body)) => body,
            Ok(_) | Err(_) => Map::new(),
        }
    }
}
