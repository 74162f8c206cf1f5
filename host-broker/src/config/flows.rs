//! Flows, and what agents outside may be given: `[flows]`.

use super::administrators::Administrators;
use super::{ConfigError, Environment};
use crate::providers::registry::Catalogue;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use shared::flow::{Opaque, Vault};
use shared::{Action, Gate, Level, Provider, TaskId};
use std::collections::BTreeSet;

/// Flows, and what agents outside may be given.
///
/// ```toml
/// [flows]
/// vaults = ["default"]
///
/// [flows.external_agent]
/// enabled = true
/// default_ttl_seconds = 3600
///
/// [[flows.external_agent.allowed_tools]]
/// id = "list_issues"
/// description = "Open issues of the website"
/// provider = "github"
/// action = "list_issues"
/// params = { owner = "acme", repo = "website", state = "open" }
/// open = ["labels"]
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct FlowsTable {
    /// Where flows are kept apart.
    pub vaults: Vec<Vault>,
    /// What agents outside may be given.
    pub external_agent: ExternalAgentTable,
    /// On whose rights accesses rest. It is of the whole configuration, and no key of this table.
    #[serde(skip)]
    pub administrators: Administrators,
}

/// What agents outside may be given. Nothing, unless it is switched on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a switch of its own, under the name that its source gave it"
)]
pub struct ExternalAgentTable {
    /// Whether there are agents outside. `FLOW_EXTERNAL_AGENT_ENABLED` of the environment says it, too.
    pub enabled: bool,
    /// Whether there must never be any, whatever else says so.
    pub forbidden: bool,
    /// The tools that steps may name for them.
    pub allowed_tools: Vec<ToolTable>,
    /// What becomes of a flow from elsewhere that names another tool.
    pub import_policy: ImportPolicy,
    /// For how long an access is, if whoever asks does not say.
    pub default_ttl_seconds: u64,
    /// For how long it is at most; never for more than a day.
    pub max_ttl_seconds: u64,
    /// How often tools can be called with one access. 0 is without end, which `allow_unlimited` must say, too.
    pub max_invocations: u32,
    /// Whether there may be accesses without an end of calls.
    pub allow_unlimited: bool,
    /// Whether flows are also given to agents that come by another name than this machine's own.
    /// `FLOW_HOSTED_PROJECTION_ENABLED` of the environment says it, too.
    pub hosted_projection: bool,
    /// Those names, each as the `Host` of a request has it: `flows.example.com`, or with a port that is not HTTPS's.
    pub hosted_hostnames: Vec<String>,
}

/// No access is longer, in seconds, whatever the configuration says.
pub const TTL_MAX: u64 = 86_400;

/// The tools with which an agent outside asks about its own calls at `/mcp`. No other tool has these names.
pub const BROKERS_OWN: [&str; 2] = ["ext_result", "ext_cancel"];

impl Default for ExternalAgentTable {
    fn default() -> Self {
        Self {
            enabled: false,
            forbidden: false,
            allowed_tools: Vec::new(),
            import_policy: ImportPolicy::default(),
            default_ttl_seconds: 3_600,
            max_ttl_seconds: TTL_MAX,
            max_invocations: 100,
            allow_unlimited: false,
            hosted_projection: false,
            hosted_hostnames: Vec::new(),
        }
    }
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
    /// Parameters that are always these.
    #[serde(default)]
    pub params: Map<String, Value>,
    /// Parameters that whoever calls the tool may give. There are no others.
    #[serde(default)]
    pub open: Vec<String>,
    /// The gate that a production action takes.
    #[serde(default)]
    pub gate: Option<Gate>,
    /// The task that it is done for; a production action takes one.
    #[serde(default)]
    pub task_id: Option<TaskId>,
}

impl ToolTable {
    /// The parameters of a call in which these were given.
    ///
    /// # Errors
    /// The first that may not be given.
    pub fn params_with(&self, given: &Map<String, Value>) -> Result<Map<String, Value>, String> {
        if let Some(closed) = given.keys().find(|name| !self.open.contains(name)) {
            return Err(closed.clone());
        }
        Ok(self.params.iter().chain(given).map(|(name, value)| (name.clone(), value.clone())).collect())
    }

    /// What whoever calls the tool may give, out of the action's own schema.
    pub fn input_schema(&self, of_action: &Value) -> Value {
        let open = |name: &String| self.open.contains(name);
        // Not every action says what its parameters are.
        let own = |name: &String| of_action.get("properties").and_then(|own| own.get(name)).cloned();
        let properties: Map<String, Value> =
            self.open.iter().map(|name| (name.clone(), own(name).unwrap_or_else(|| json!({})))).collect();
        let required = of_action.get("required").and_then(Value::as_array).into_iter().flatten();
        let required: Vec<&Value> =
            required.filter(|name| name.as_str().is_some_and(|name| open(&name.to_owned()))).collect();
        let mut schema = json!({
            "type": "object", "properties": properties, "required": required, "additionalProperties": false,
        });
        for definitions in ["$defs", "definitions"] {
            if let (Some(own), Some(schema)) = (of_action.get(definitions), schema.as_object_mut()) {
                schema.insert(definitions.to_owned(), own.clone());
            }
        }
        schema
    }
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
        Self {
            vaults: vec![only],
            external_agent: ExternalAgentTable::default(),
            administrators: Administrators::default(),
        }
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

    /// The tool of this name, if agents outside may be given it.
    pub fn tool(&self, id: &Opaque) -> Option<&ToolTable> {
        self.external_agent.allowed_tools.iter().find(|tool| tool.id == *id)
    }

    pub(super) fn apply(&mut self, environment: &Environment) -> Result<(), ConfigError> {
        let outside = &mut self.external_agent;
        for (name, switch) in [
            ("FLOW_EXTERNAL_AGENT_ENABLED", &mut outside.enabled),
            ("FLOW_HOSTED_PROJECTION_ENABLED", &mut outside.hosted_projection),
        ] {
            let Some(text) = environment.get(name) else { continue };
            *switch = match text.trim() {
                "1" | "true" => true,
                "" | "0" | "false" => false,
                _ => return Err(ConfigError::Environment { name, fault: "it must be true or false".to_owned() }),
            };
        }
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
        if let Some(tool) = tools.iter().find(|tool| tools.iter().filter(|other| other.id == tool.id).count() > 1) {
            return Err(format!("flows.external_agent.allowed_tools: `{}` is there twice", tool.id));
        }
        for ToolTable { id, params, open, gate, task_id, .. } in tools {
            let place = format!("flows.external_agent.allowed_tools.{id}");
            if BROKERS_OWN.contains(&id.as_str()) {
                return Err(format!("{place}: /mcp has a tool of the broker's own under this name; choose another"));
            }
            if let Some(both) = open.iter().find(|name| params.contains_key(*name)) {
                return Err(format!("{place}.open: `{both}` is in `params`, too; it is either fixed or given"));
            }
            if gate.is_some() != task_id.is_some() {
                return Err(format!("{place}: a production action takes both, `gate` and `task_id`"));
            }
        }
        let ExternalAgentTable { default_ttl_seconds, max_ttl_seconds, max_invocations, allow_unlimited, .. } =
            self.external_agent;
        let place = "flows.external_agent";
        if !(1..=TTL_MAX).contains(&max_ttl_seconds) {
            return Err(format!("{place}.max_ttl_seconds must be 1 to {TTL_MAX}"));
        }
        if !(1..=max_ttl_seconds).contains(&default_ttl_seconds) {
            return Err(format!(
                "{place}.default_ttl_seconds must be 1 to max_ttl_seconds, which is {max_ttl_seconds}"
            ));
        }
        if max_invocations == 0 && !allow_unlimited {
            return Err(format!(
                "{place}.max_invocations: 0 is without end; write allow_unlimited = true if that is meant"
            ));
        }
        Ok(())
    }

    /// What of it there is no action for.
    ///
    /// # Errors
    /// The first fault.
    pub(super) fn check_against(&self, catalogue: &Catalogue) -> Result<(), String> {
        for tool in &self.external_agent.allowed_tools {
            let ToolTable { id, provider, action, .. } = tool;
            let place = format!("flows.external_agent.allowed_tools.{id}");
            if provider.is_namespaced() {
                return Err(format!(
                    "{place}: {provider} is used on a person's behalf, and an agent outside is nobody's"
                ));
            }
            if catalogue.provider(provider).is_some_and(|listed| listed.kind == "files") {
                return Err(format!("{place}: {provider} are the files of groups, and an agent outside has none"));
            }
            let listed = catalogue.provider(provider).and_then(|listed| listed.operations.get(action));
            let Some(operation) = listed else {
                // What a bridge or a server can do may be accepted later.
                if catalogue.may_be_of_a_bridge(provider) {
                    continue;
                }
                return Err(format!("{place}: provider {provider} has no action `{action}`"));
            };
            let declaration = operation.declaration();
            if declaration.level >= Level::Production && tool.gate.is_none() {
                return Err(format!("{place}: `{action}` is a production action; name the `gate` and the `task_id`"));
            }
            let known = declaration.input_schema.get("properties").and_then(Value::as_object);
            let unknown = |name: &&String| known.is_some_and(|known| !known.contains_key(*name));
            if let Some(name) = tool.params.keys().chain(&tool.open).find(unknown) {
                return Err(format!("{place}: `{action}` has no parameter `{name}`"));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_tool_has_the_name_of_one_of_the_brokers_own() {
        for (id, is_taken) in [("ext_result", true), ("ext_cancel", true), ("result", false)] {
            let tool = json!({ "id": id, "description": "x", "provider": "demo", "action": "echo" });
            let table: FlowsTable =
                serde_json::from_value(json!({ "external_agent": { "allowed_tools": [tool] } })).unwrap();
            let checked = table.check();
            assert_eq!(checked.is_err_and(|fault| fault.contains("choose another")), is_taken, "{id}");
        }
    }

    #[test]
    fn the_environment_switches_as_the_file_does_and_says_what_it_does_not_understand() {
        for (name, text, switched) in [
            ("FLOW_EXTERNAL_AGENT_ENABLED", "1", Some((true, false))),
            ("FLOW_EXTERNAL_AGENT_ENABLED", " true ", Some((true, false))),
            ("FLOW_HOSTED_PROJECTION_ENABLED", "true", Some((false, true))),
            ("FLOW_EXTERNAL_AGENT_ENABLED", "0", Some((false, false))),
            ("FLOW_EXTERNAL_AGENT_ENABLED", "", Some((false, false))),
            ("FLOW_EXTERNAL_AGENT_ENABLED", "yes", None),
            ("FLOW_HOSTED_PROJECTION_ENABLED", "on", None),
        ] {
            let mut table = FlowsTable::default();
            let applied = table.apply(&Environment::from([(name.to_owned(), text.to_owned())]));
            let outside = &table.external_agent;
            let found = applied.ok().map(|()| (outside.enabled, outside.hosted_projection));
            assert_eq!(found, switched, "{name}={text}");
        }
        // What the file has switched on, the environment switches off.
        let mut table = FlowsTable::default();
        table.external_agent.enabled = true;
        table.apply(&Environment::from([("FLOW_EXTERNAL_AGENT_ENABLED".to_owned(), "false".to_owned())])).unwrap();
        assert!(!table.external_agent.enabled);
    }
}
