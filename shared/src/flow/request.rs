//! What can be asked about flows: the same on every surface.

use super::{Bundle, Id, Scope, Version};
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
    pub const WORDS: [&str; 8] = [
        "flow_list",
        "flow_get",
        "flow_propose",
        "flow_import",
        "flow_export",
        "flow_approve",
        "flow_deprecate",
        "flow_project",
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
        }
    }

    /// Whether it changes what is stored.
    pub fn changes(&self) -> bool {
        match self {
            Self::FlowList(_) | Self::FlowGet(_) | Self::FlowExport(_) | Self::FlowProject(_) => false,
            Self::FlowPropose(_) | Self::FlowImport(_) | Self::FlowApprove(_) | Self::FlowDeprecate(_) => true,
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
