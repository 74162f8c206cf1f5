//! What can be asked about flows: the same on every surface.

use super::{Bundle, GrantId, Id, Opaque, Scope, Version};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// What is asked about flows.
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

/// Access for an agent outside: to one version of one flow, and to some of the tools that its steps name.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GrantMint {
    /// Which flow.
    pub flow_id: Id,
    /// Which version of it: the canonical one.
    pub flow_version: Version,
    /// Which tools, at least one.
    pub requested_tools: Vec<Opaque>,
    /// For how many seconds; absent means the operator's default, and the operator's maximum is never exceeded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttl_seconds: Option<u64>,
    /// Who it is for, in words of whoever asks. Only its hash is kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub actor_label: Option<String>,
}

/// Access of an agent outside.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GrantNamed {
    /// Which.
    pub grant_id: GrantId,
}

/// Which accesses of agents outside to list.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GrantList {
    /// Only those to this flow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flow_id: Option<Id>,
    /// How many; at most 200, absent means 100.
    #[serde(default, skip_serializing_if = "Option::is_none")]
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
    /// How many; at most 200, absent means 100.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<usize>,
    /// Where to go on: what `next_cursor` was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
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

/// Who reads a flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Harness {
    /// A rule of an editor's agent: Markdown.
    CursorRule,
    /// Somebody at a terminal: a text of comments.
    CliRunbook,
    /// An agent outside: JSON.
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
    /// The words of all types.
    pub const WORDS: [&str; 11] = [
        "flow_list",
        "flow_get",
        "flow_propose",
        "flow_import",
        "flow_export",
        "flow_approve",
        "flow_deprecate",
        "flow_project",
        "flow_external_grant_mint",
        "flow_external_grant_revoke",
        "flow_external_grant_list",
    ];

    /// The word in the document's `type`.
    pub fn word(&self) -> &'static str {
        match self {
            Self::FlowList(_) => "flow_list",
            Self::FlowGet(_) => "flow_get",
            Self::FlowPropose(_) => "flow_propose",
            Self::FlowImport(_) => "flow_import",
            Self::FlowExport(_) => "flow_export",
            Self::FlowApprove(_) => "flow_approve",
            Self::FlowDeprecate(_) => "flow_deprecate",
            Self::FlowProject(_) => "flow_project",
            Self::FlowExternalGrantMint(_) => "flow_external_grant_mint",
            Self::FlowExternalGrantRevoke(_) => "flow_external_grant_revoke",
            Self::FlowExternalGrantList(_) => "flow_external_grant_list",
        }
    }

    /// Whether it changes what is stored.
    pub fn changes(&self) -> bool {
        match self {
            Self::FlowList(_)
            | Self::FlowGet(_)
            | Self::FlowExport(_)
            | Self::FlowProject(_)
            | Self::FlowExternalGrantList(_) => false,
            Self::FlowPropose(_)
            | Self::FlowImport(_)
            | Self::FlowApprove(_)
            | Self::FlowDeprecate(_)
            | Self::FlowExternalGrantMint(_)
            | Self::FlowExternalGrantRevoke(_) => true,
        }
    }

    /// The body as an object.
    pub fn body(&self) -> Map<String, Value> {
        match serde_json::to_value(self) {
            Ok(Value::Object(body)) => body,
            Ok(_) | Err(_) => Map::new(),
        }
    }
}
