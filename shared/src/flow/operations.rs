//! The operations on flows, as every surface offers them: the main group's tools, `/mcp`, HTTP and its OpenAPI
//! document.

use super::Bundle;
use super::request::{FlowList, FlowNamed, FlowProject, FlowVersion, GrantList, GrantMint, GrantNamed};
use crate::schema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// One of them.
#[derive(Debug, Clone, Copy)]
pub struct Operation {
    /// The type of its request, and the name of its tool.
    pub name: &'static str,
    /// The title for people.
    pub title: &'static str,
    /// The description, for the choice between operations.
    pub description: &'static str,
    /// The part of the permissions that the operation needs.
    pub part: Part,
    /// The effect on the stored data.
    pub effect: Effect,
    /// The schema of the input.
    pub schema: fn() -> Arc<Map<String, Value>>,
}

/// A part of the permissions on flows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Part {
    /// See flows, and external grants without their bearers.
    #[serde(rename = "flows:read")]
    Read,
    /// Propose versions, ask people about them, and end them.
    #[serde(rename = "flows:write")]
    Write,
    /// Give external agents access, and end it.
    #[serde(rename = "flows:grants")]
    Grants,
}

/// The effect of an operation, for clients that ask before they allow it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// Nothing.
    Reads,
    /// Something.
    Changes {
        /// Whether something is gone afterwards.
        destructive: bool,
        /// Whether a repetition has no further effect.
        idempotent: bool,
    },
}

impl Effect {
    /// Returns the hints of MCP: read-only, destructive, idempotent.
    pub fn hints(self) -> (bool, bool, bool) {
        match self {
            Self::Reads => (true, false, true),
            Self::Changes { destructive, idempotent } => (false, destructive, idempotent),
        }
    }
}

impl Part {
    /// Every part.
    pub const ALL: [Self; 3] = [Self::Read, Self::Write, Self::Grants];

    /// The word in documents: `flows:read`.
    pub fn word(self) -> &'static str {
        match self {
            Self::Read => "flows:read",
            Self::Write => "flows:write",
            Self::Grants => "flows:grants",
        }
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

impl FromStr for Part {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let known = || Self::ALL.map(Self::word).join(", ");
        let found = Self::ALL.into_iter().find(|part| part.word() == text);
        found.ok_or_else(|| format!("it is not one of {}", known()))
    }
}

/// `flow_list`
pub const FLOW_LIST: Operation = Operation {
    name: "flow_list",
    title: "List flows",
    description: "Lists versions of flows: the canonical ones, or those that are proposed or deprecated.",
    part: Part::Read,
    effect: Effect::Reads,
    schema: || schema::of::<FlowList>(&[]),
};
/// `flow_get`
pub const FLOW_GET: Operation = Operation {
    name: "flow_get",
    title: "Read a flow",
    description: "Shows a flow with its steps: the canonical version, or the one that is named.",
    part: Part::Read,
    effect: Effect::Reads,
    schema: || schema::of::<FlowNamed>(&[]),
};
/// `flow_propose`
pub const FLOW_PROPOSE: Operation = Operation {
    name: "flow_propose",
    title: "Propose a flow",
    description: "Stores a version of a flow as proposed. It becomes canonical with a person's yes: flow_approve asks for it.",
    part: Part::Write,
    effect: Effect::Changes { destructive: false, idempotent: true },
    schema: || schema::of::<Bundle>(&[]),
};
/// `flow_import`
pub const FLOW_IMPORT: Operation = Operation {
    name: "flow_import",
    title: "Import a flow",
    description: "Proposes a flow from another system. A flow that names a tool outside the operator's list for external agents \
                  is refused as a whole.",
    part: Part::Write,
    effect: Effect::Changes { destructive: false, idempotent: true },
    schema: || schema::of::<Bundle>(&[]),
};
/// `flow_export`
pub const FLOW_EXPORT: Operation = Operation {
    name: "flow_export",
    title: "Export a flow",
    description: "Exports a flow with its steps as one document for flow_import.",
    part: Part::Read,
    effect: Effect::Reads,
    schema: || schema::of::<FlowNamed>(&[]),
};
/// `flow_approve`
pub const FLOW_APPROVE: Operation = Operation {
    name: "flow_approve",
    title: "Request approval of a flow",
    description: "Requests approval to make a proposed version of a flow canonical.",
    part: Part::Write,
    effect: Effect::Changes { destructive: false, idempotent: true },
    schema: || schema::of::<FlowVersion>(&[]),
};
/// `flow_deprecate`
pub const FLOW_DEPRECATE: Operation = Operation {
    name: "flow_deprecate",
    title: "Deprecate a flow",
    description: "Ends a canonical version of a flow, or withdraws a proposed version.",
    part: Part::Write,
    effect: Effect::Changes { destructive: true, idempotent: true },
    schema: || schema::of::<FlowVersion>(&[]),
};
/// `flow_project`
pub const FLOW_PROJECT: Operation = Operation {
    name: "flow_project",
    title: "Render a flow",
    description: "Renders a flow for a harness: cursor_rule, cli_runbook or agent_bundle.",
    part: Part::Read,
    effect: Effect::Reads,
    schema: || schema::of::<FlowProject>(&[]),
};
/// `flow_external_grant_mint`
pub const FLOW_EXTERNAL_GRANT_MINT: Operation = Operation {
    name: "flow_external_grant_mint",
    title: "Create a grant for an external agent",
    description: "Creates a short-lived grant for an external agent: the canonical version of a flow and some of the tools that \
                  its steps name. The reply shows the bearer once. Pass it to that agent only.",
    part: Part::Grants,
    effect: Effect::Changes { destructive: false, idempotent: false },
    schema: || schema::of::<GrantMint>(&[]),
};
/// `flow_external_grant_revoke`
pub const FLOW_EXTERNAL_GRANT_REVOKE: Operation = Operation {
    name: "flow_external_grant_revoke",
    title: "Revoke the grant of an external agent",
    description: "Revokes a grant of an external agent immediately and permanently.",
    part: Part::Grants,
    effect: Effect::Changes { destructive: true, idempotent: true },
    schema: || schema::of::<GrantNamed>(&[]),
};
/// `flow_external_grant_list`
pub const FLOW_EXTERNAL_GRANT_LIST: Operation = Operation {
    name: "flow_external_grant_list",
    title: "List grants of external agents",
    description: "Lists the grants of external agents, including those that ended recently.",
    part: Part::Read,
    effect: Effect::Reads,
    schema: || schema::of::<GrantList>(&[]),
};

/// All of them.
pub const ALL: [&Operation; 11] = [
    &FLOW_LIST,
    &FLOW_GET,
    &FLOW_PROPOSE,
    &FLOW_IMPORT,
    &FLOW_EXPORT,
    &FLOW_APPROVE,
    &FLOW_DEPRECATE,
    &FLOW_PROJECT,
    &FLOW_EXTERNAL_GRANT_MINT,
    &FLOW_EXTERNAL_GRANT_REVOKE,
    &FLOW_EXTERNAL_GRANT_LIST,
];

/// The operation of this name.
pub fn named(name: &str) -> Option<&'static Operation> {
    ALL.into_iter().find(|operation| operation.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::{Malformed, Request, parse};

    #[test]
    fn an_operations_name_is_the_type_of_its_request_and_its_effect_is_told_as_it_is() {
        let minimal = serde_json::json!({
            "flow_id": "flow_a", "version": "1.0.0", "flow_version": "1.0.0", "requested_tools": [],
            "harness": "agent_bundle", "grant_id": "fgrnt_00000000",
        });
        for operation in ALL {
            let known = (operation.schema)();
            let known = known["properties"].as_object().unwrap();
            let mut document: Map<String, Value> =
                minimal.as_object().unwrap().clone().into_iter().filter(|(name, _)| known.contains_key(name)).collect();
            document.insert("type".to_owned(), operation.name.into());
            match parse(Value::Object(document).to_string().as_bytes()) {
                Ok(parsed) => {
                    let Request::Flow(request) = parsed.request else { panic!("{}", operation.name) };
                    assert_eq!(request.word(), operation.name);
                    assert_eq!(operation.part == Part::Read, operation.effect == Effect::Reads, "{}", operation.name);
                }
                // A bundle is longer than the samples above.
                Err(refused) => assert!(matches!(refused.why, Malformed::Body { .. }), "{}", operation.name),
            }
        }
    }

    #[test]
    fn a_part_is_known_by_its_word() {
        for part in Part::ALL {
            assert_eq!(part.word().parse::<Part>(), Ok(part));
            assert_eq!(serde_json::to_value(part).unwrap(), part.word());
        }
        assert!("read".parse::<Part>().unwrap_err().contains("flows:grants"));
    }
}
