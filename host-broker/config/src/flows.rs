//! Flows, and the access of external agents to them: `[flows]`.

use super::ConfigError;
use super::administrators::Administrators;
use crate::known::Known;
use platform::Environment;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use shared::flow::{Opaque, Vault};
use shared::{Action, Gate, Level, Provider, TaskId};
use std::collections::BTreeSet;

/// Flows, and the access of external agents to them.
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
    /// The namespaces that separate flows; at least one.
    pub vaults: Vec<Vault>,
    /// The access of external agents.
    pub external_agent: ExternalAgentTable,
    /// The administrators, whose rights the external grants need. They come from the whole configuration, and are no
    /// key of this table.
    #[serde(skip)]
    pub administrators: Administrators,
}

/// The access of external agents; off by default.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a switch of its own, under the name that its source gave it"
)]
pub struct ExternalAgentTable {
    /// Whether external agents have access. The environment variable `FLOW_EXTERNAL_AGENT_ENABLED` takes precedence.
    pub enabled: bool,
    /// Whether external agents are forbidden regardless of all other settings.
    pub forbidden: bool,
    /// The tools that flow steps can name for external agents.
    pub allowed_tools: Vec<ToolTable>,
    /// The treatment of an imported flow that names a tool outside `allowed_tools`.
    pub import_policy: ImportPolicy,
    /// The lifetime of an external grant if the request names none, in seconds: 1 to `max_ttl_seconds`.
    pub default_ttl_seconds: u64,
    /// The longest lifetime of an external grant, in seconds: 1 to 86400, which is a day.
    pub max_ttl_seconds: u64,
    /// The number of tool calls that one external grant permits. 0 means no limit and requires `allow_unlimited`.
    pub max_invocations: u32,
    /// Whether external grants without a limit on tool calls are permitted.
    pub allow_unlimited: bool,
    /// Whether flows are also available under host names other than this machine's own. The environment variable
    /// `FLOW_HOSTED_PROJECTION_ENABLED` takes precedence.
    pub hosted_projection: bool,
    /// The other host names, as in the `Host` header: `flows.example.com`. A port other than that of HTTPS is included.
    pub hosted_hostnames: Vec<String>,
}

/// The longest lifetime of an external grant, in seconds, regardless of the configuration.
pub const TTL_MAX: u64 = 86_400;

/// The tools at `/mcp` with which an external agent manages its own calls. The names are reserved.
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

/// A tool for external agents: an action of a provider under an opaque name.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ToolTable {
    /// The tool's name in flows.
    pub id: Opaque,
    /// The description that external agents see.
    pub description: String,
    /// The provider that executes the action.
    pub provider: Provider,
    /// The action that the tool performs.
    pub action: Action,
    /// Parameters with fixed values.
    #[serde(default)]
    pub params: Map<String, Value>,
    /// The parameters that the external agent can set. All other parameters are refused.
    #[serde(default)]
    pub open: Vec<String>,
    /// The gate of a production action; requires `task_id`.
    #[serde(default)]
    pub gate: Option<Gate>,
    /// The task of a production action; requires `gate`.
    #[serde(default)]
    pub task_id: Option<TaskId>,
}

impl ToolTable {
    /// Returns the parameters of a call with these given ones.
    ///
    /// # Errors
    /// The first parameter that may not be given.
    pub fn params_with(&self, given: &Map<String, Value>) -> Result<Map<String, Value>, String> {
        if let Some(closed) = given.keys().find(|name| !self.open.contains(name)) {
            return Err(closed.clone());
        }
        Ok(self.params.iter().chain(given).map(|(name, value)| (name.clone(), value.clone())).collect())
    }

    /// Returns the schema of the parameters that the external agent can set, derived from the action's schema.
    pub fn input_schema(&self, of_action: &Value) -> Value {
        let open = |name: &String| self.open.contains(name);
        // Some actions have no schema of their parameters.
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

/// The treatment of an imported flow that names a tool that is not allowed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ImportPolicy {
    /// The flow is refused as a whole.
    #[default]
    Reject,
    /// The flow is imported without that tool.
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
    /// Returns whether external agents have access.
    pub fn serves_outside(&self) -> bool {
        self.external_agent.enabled && !self.external_agent.forbidden
    }

    /// Returns the tools that are allowed for external agents.
    pub fn tools(&self) -> BTreeSet<Opaque> {
        self.external_agent.allowed_tools.iter().map(|tool| tool.id.clone()).collect()
    }

    /// Returns the tool of this name, if it is allowed for external agents.
    pub fn tool(&self, id: &Opaque) -> Option<&ToolTable> {
        self.external_agent.allowed_tools.iter().find(|tool| tool.id == *id)
    }

    pub(super) fn apply(&mut self, environment: &Environment) -> Result<(), ConfigError> {
        let external_agent = &mut self.external_agent;
        for (name, switch) in [
            ("FLOW_EXTERNAL_AGENT_ENABLED", &mut external_agent.enabled),
            ("FLOW_HOSTED_PROJECTION_ENABLED", &mut external_agent.hosted_projection),
        ] {
            let Some(text) = environment.get(name) else { continue };
            *switch = match text.trim() {
                "1" | "true" => true,
                "" | "0" | "false" => false,
                _ => return Err(ConfigError::Environment { name, fault: "must be true or false".to_owned() }),
            };
        }
        Ok(())
    }

    /// Checks the table.
    ///
    /// # Errors
    /// The first fault, with the remedy.
    pub(super) fn check(&self) -> Result<(), String> {
        if self.vaults.is_empty() {
            return Err("flows.vaults must not be empty; remove the line for `default`".to_owned());
        }
        let tools = &self.external_agent.allowed_tools;
        if let Some(tool) = tools.iter().find(|tool| tools.iter().filter(|other| other.id == tool.id).count() > 1) {
            return Err(format!(
                "flows.external_agent.allowed_tools: the id `{}` occurs twice; choose another id",
                tool.id
            ));
        }
        for ToolTable { id, params, open, gate, task_id, .. } in tools {
            let place = format!("flows.external_agent.allowed_tools.{id}");
            if BROKERS_OWN.contains(&id.as_str()) {
                return Err(format!("{place}: the broker has its own tool of this name at /mcp; choose another id"));
            }
            if let Some(both) = open.iter().find(|name| params.contains_key(*name)) {
                return Err(format!("{place}.open: `{both}` is also in `params`; remove it from one of them"));
            }
            if gate.is_some() != task_id.is_some() {
                return Err(format!("{place}: `gate` and `task_id` need each other; add or remove both"));
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
                "{place}.max_invocations: 0 means no limit; add allow_unlimited = true to permit this"
            ));
        }
        Ok(())
    }

    /// Checks whether all its actions exist.
    ///
    /// # Errors
    /// The first fault.
    pub(super) fn check_against(&self, known: Known<'_>) -> Result<(), String> {
        for tool in &self.external_agent.allowed_tools {
            let ToolTable { id, provider, action, .. } = tool;
            let place = format!("flows.external_agent.allowed_tools.{id}");
            if provider.is_namespaced() {
                return Err(format!(
                    "{place}: {provider} needs a person as its subject, but an external agent has none; use another provider"
                ));
            }
            if known.has_workspaces(provider) {
                return Err(format!(
                    "{place}: {provider} uses files of groups, but an external agent has none; use another provider"
                ));
            }
            let Some(declaration) = known.action(provider, action) else {
                // A bridge's or a server's actions may be accepted later.
                if known.may_be_of_a_bridge(provider) {
                    continue;
                }
                return Err(format!("{place}: provider {provider} has no action `{action}`"));
            };
            if declaration.level >= Level::Production && tool.gate.is_none() {
                return Err(format!("{place}: `{action}` is a production action; add `gate` and `task_id`"));
            }
            let declared = declaration.input_schema.get("properties").and_then(Value::as_object);
            let unknown = |name: &&String| declared.is_some_and(|declared| !declared.contains_key(*name));
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
            let external_agent = &table.external_agent;
            let found = applied.ok().map(|()| (external_agent.enabled, external_agent.hosted_projection));
            assert_eq!(found, switched, "{name}={text}");
        }
        // The environment switches off the external access of the file.
        let mut table = FlowsTable::default();
        table.external_agent.enabled = true;
        table.apply(&Environment::from([("FLOW_EXTERNAL_AGENT_ENABLED".to_owned(), "false".to_owned())])).unwrap();
        assert!(!table.external_agent.enabled);
    }
}
