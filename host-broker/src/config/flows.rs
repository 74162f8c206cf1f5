//! Flows, and what agents outside may be given: `[flows]`.

use super::{ConfigError, Environment};
use crate::providers::registry::Catalogue;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use shared::flow::{Opaque, Vault};
use shared::{Action, Provider};
use std::collections::BTreeSet;

/// Flows, and what agents outside may be given.
///
/// ```toml
/// [flows]
/// vaults = ["default"]
///
/// [flows.external_agent]
/// enabled = true
/// allowed_tools = [{ id = "list_issues", description = "Open issues", provider = "github", action = "list_issues" }]
/// ```
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct FlowsTable {
    /// Where flows are kept apart.
    pub vaults: Vec<Vault>,
    /// What agents outside may be given.
    pub external_agent: ExternalAgentTable,
}

/// What agents outside may be given. Nothing, unless it is switched on.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ExternalAgentTable {
    /// Whether there are agents outside. `FLOW_EXTERNAL_AGENT_ENABLED` of the environment says it, too.
    pub enabled: bool,
    /// Whether there must never be any, whatever else says so.
    pub forbidden: bool,
    /// The tools that steps may name for them.
    pub allowed_tools: Vec<ToolTable>,
    /// What becomes of a flow from elsewhere that names another tool.
    pub import_policy: ImportPolicy,
}

/// A tool for agents outside: an action of a provider here, under a name that says nothing of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ToolTable {
    /// Its name in flows.
    pub id: Opaque,
    /// What it does, for whoever is given it.
    pub description: String,
    /// The provider here.
    pub provider: Provider,
    /// Its action.
    pub action: Action,
}

/// What becomes of a flow from elsewhere that names a tool that is not allowed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ImportPolicy {
    /// It is refused as a whole.
    #[default]
    Reject,
    /// It comes without that tool.
    StripInert,
}

impl Default for FlowsTable {
    fn default() -> Self {
        #[expect(clippy::expect_used, reason = "letters satisfy the grammar")]
        let only = "default".parse().expect("a vault");
        Self { vaults: vec![only], external_agent: ExternalAgentTable::default() }
    }
}

impl FlowsTable {
    /// Whether agents outside may read flows.
    pub fn serves_outside(&self) -> bool {
        self.external_agent.enabled && !self.external_agent.forbidden
    }

    /// The tools that agents outside may be given.
    pub fn tools(&self) -> BTreeSet<Opaque> {
        self.external_agent.allowed_tools.iter().map(|tool| tool.id.clone()).collect()
    }

    pub(super) fn apply(&mut self, environment: &Environment) -> Result<(), ConfigError> {
        const NAME: &str = "FLOW_EXTERNAL_AGENT_ENABLED";
        let Some(text) = environment.get(NAME) else { return Ok(()) };
        self.external_agent.enabled = match text.trim() {
            "1" | "true" => true,
            "" | "0" | "false" => false,
            _ => return Err(ConfigError::Environment { name: NAME, fault: "it must be true or false".to_owned() }),
        };
        Ok(())
    }

    /// What is wrong with it.
    ///
    /// # Errors
    /// The first fault, with the remedy.
    pub(super) fn check(&self) -> Result<(), String> {
        if self.vaults.is_empty() {
            return Err("flows.vaults: there must be one; without the line it is `default`".to_owned());
        }
        let tools = &self.external_agent.allowed_tools;
        match tools.iter().find(|tool| tools.iter().filter(|other| other.id == tool.id).count() > 1) {
            Some(tool) => Err(format!("flows.external_agent.allowed_tools: `{}` is there twice", tool.id)),
            None => Ok(()),
        }
    }

    /// What of it there is no action for.
    ///
    /// # Errors
    /// The first fault.
    pub(super) fn check_against(&self, catalogue: &Catalogue) -> Result<(), String> {
        let has = |tool: &&ToolTable| {
            catalogue.may_be_of_a_bridge(&tool.provider)
                || catalogue.provider(&tool.provider).is_some_and(|listed| listed.operations.contains_key(&tool.action))
        };
        match self.external_agent.allowed_tools.iter().find(|tool| !has(tool)) {
            Some(ToolTable { id, provider, action, .. }) => {
                Err(format!("flows.external_agent.allowed_tools.{id}: provider {provider} has no action `{action}`"))
            }
            None => Ok(()),
        }
    }
}
