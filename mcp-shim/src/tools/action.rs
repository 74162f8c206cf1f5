//! One typed tool for each action that the group may use: the same `ext_call`, with the action's own schema.

use super::{Effect, hints};
use crate::render::words;
use crate::schema;
use rmcp::model::Tool;
use serde_json::{Map, Value, json};
use shared::request::Request;
use shared::snapshot::{ActionEntry, Capability, Snapshot};
use shared::{Action, Level, Provider, auth};
use std::collections::BTreeSet;

/// An action as a tool.
#[derive(Debug, Clone)]
pub struct ActionTool {
    /// The tool that clients see.
    pub tool: Tool,
    provider: Provider,
    action: Action,
    /// The broker's own options beside the action's parameters.
    options: Vec<&'static str>,
}

/// The options that a tool can carry beside the action's own parameters, from the level at which they are of use.
const OPTIONS: [(&str, Level, &str); 2] = [
    ("task_id", Level::Production, words::TASK_ID_OPTION),
    ("idempotency_key", Level::Write, words::IDEMPOTENCY_KEY_OPTION),
];

/// The tools of a snapshot.
pub fn all(snapshot: &Snapshot) -> Vec<ActionTool> {
    let offered: Vec<(&Provider, &Action, &ActionEntry)> = snapshot
        .capabilities
        .iter()
        .flat_map(|capability| {
            let single = capability.actions.iter().filter(|(name, _)| !links(capability, name));
            single.map(move |(name, entry)| (&capability.provider, name, entry))
        })
        .filter(|(_, _, entry)| entry.is_usable())
        .collect();
    let names = shared::names::tool_names(offered.iter().map(|(provider, action, _)| (*provider, *action)));
    let mut taken = BTreeSet::new();
    let tools = offered.iter().zip(names).map(|((provider, action, entry), name)| make(name, provider, action, entry));
    // A provider that is listed twice must not give two tools of one name.
    tools.filter(|action| taken.insert(action.tool.name.clone())).collect()
}

/// Checks whether the group may begin to link a person's account at some capability.
pub fn links_accounts(snapshot: &Snapshot) -> bool {
    snapshot.capabilities.iter().filter_map(beginning).any(ActionEntry::is_usable)
}

/// Checks whether this is an action to which `ext_auth_begin` and its like are the way; a second tool for it would be
/// one to choose between.
fn links(capability: &Capability, action: &Action) -> bool {
    beginning(capability).is_some() && auth::is_linking(action.as_str())
}

/// Returns the action that begins to link an account, at a capability whose accounts can be linked.
///
/// An action of that name at a provider without persons' accounts is just an action.
fn beginning(capability: &Capability) -> Option<&ActionEntry> {
    let mut actions = capability.actions.iter().filter(|_| capability.provider.is_namespaced());
    actions.find(|(name, _)| name.as_str() == auth::BEGIN).map(|(_, entry)| entry)
}

fn make(name: String, provider: &Provider, action: &Action, entry: &ActionEntry) -> ActionTool {
    let mut input = schema::object(entry.input_schema.clone().unwrap_or_default());
    let options = add_options(&mut input, entry.level);
    let effect = match entry.level {
        Level::None | Level::Read => Effect::Reads,
        // A write may replace earlier data; a client that asks its user first should ask here.
        Level::Write | Level::Production => {
            Effect::Changes { destructive: true, idempotent: entry.idempotent.unwrap_or(false) }
        }
    };
    // REJECTED: the action's output schema as the tool's. A client must refuse a result that does not fit it, and a pending,
    // a withheld or a cut result cannot fit; nor does the reply around the data. Nor in `_meta`: it made the list twice as
    // long. `ext_capabilities` with `provider` and `action` shows it.
    let tool = Tool::new(name, words::action(provider, action, entry), input)
        .with_title(format!("{provider}: {action}"))
        .with_annotations(hints(effect, true));
    ActionTool { tool, provider: provider.clone(), action: action.clone(), options }
}

/// Adds the options whose names the action does not use itself. A schema that is put together from others may forbid
/// members that it does not know, so it is left as it is; `ext_call` takes the options of every action.
fn add_options(input: &mut Map<String, Value>, level: Level) -> Vec<&'static str> {
    let composed = ["$ref", "allOf", "anyOf", "oneOf", "not", "if", "propertyNames", "patternProperties"];
    if composed.iter().any(|keyword| input.contains_key(*keyword)) {
        return Vec::new();
    }
    let properties = input.entry("properties").or_insert_with(|| json!({}));
    let Some(properties) = properties.as_object_mut() else { return Vec::new() };
    let wanted = OPTIONS.into_iter().filter(|(_, from, _)| level >= *from);
    let free: Vec<_> = wanted.filter(|(name, ..)| !properties.contains_key(*name)).collect();
    for (name, _, description) in &free {
        properties.insert((*name).to_owned(), json!({"type": "string", "description": description}));
    }
    free.into_iter().map(|(name, ..)| name).collect()
}

impl ActionTool {
    /// Returns the call of this tool's arguments.
    ///
    /// # Errors
    /// The fault. The action's own parameters are checked by the host, against the action's own schema.
    pub fn request(&self, mut params: Map<String, Value>) -> Result<Request, String> {
        let mut arguments = Map::new();
        for option in &self.options {
            if let Some(value) = params.remove(*option) {
                arguments.insert((*option).to_owned(), value);
            }
        }
        arguments.insert("provider".to_owned(), self.provider.as_str().into());
        arguments.insert("action".to_owned(), self.action.as_str().into());
        arguments.insert("params".to_owned(), Value::Object(params));
        super::request("ext_call", arguments)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tools(actions: &Value) -> Vec<ActionTool> {
        let snapshot = json!({"generatedAt": "x", "capabilities": [
            {"provider": "github", "access_level": 3, "actions": actions}]});
        all(&serde_json::from_value(snapshot).unwrap())
    }

    #[test]
    fn only_what_may_be_used_is_a_tool() {
        let tools = tools(&json!({
            "a": {"level": 1, "description": "A", "status": "available"},
            "b": {"level": 2, "description": "B", "status": "needs_approval"},
            "c": {"level": 3, "description": "C", "status": "needs_gate"},
            "d": {"level": 3, "description": "D (DENIED)", "status": "requires_higher_level"},
            "e": {"level": 3, "description": "E (DENIED)", "status": "DENIED"},
            "f": {"level": 3, "description": "of another host (DENIED)"},
            "g": {"level": 1, "description": "of another host"},
        }));
        let names: Vec<_> = tools.iter().map(|action| action.tool.name.as_ref()).collect();
        assert_eq!(names, ["github__a", "github__b", "github__c", "github__g"]);
    }

    #[test]
    fn actions_of_account_linking_are_offered_only_as_tools_of_their_own() {
        let action = json!({"level": 1, "description": "x"});
        let offered = ["auth_begin", "auth_complete", "auth_poll", "auth_list", "auth_unlink", "send"];
        let mut actions = Map::from_iter(offered.map(|name| (name.to_owned(), action.clone())));
        let names = |provider: &str, actions: &Map<String, Value>| {
            let capability = json!({"provider": provider, "access_level": 1, "actions": actions});
            let snapshot = json!({"generatedAt": "x", "capabilities": [capability]});
            let tools = all(&serde_json::from_value(snapshot).unwrap());
            tools.into_iter().map(|action| action.tool.name.to_string()).collect::<Vec<_>>()
        };
        assert_eq!(names("gog.email", &actions), ["gog_email__send"]);
        // A group that may not begin has no use for the rest.
        actions.insert(auth::BEGIN.to_owned(), json!({"level": 1, "description": "x", "status": "DENIED"}));
        assert_eq!(names("gog.email", &actions), ["gog_email__send"]);
        // A provider that links no accounts may name its actions freely.
        assert!(names("server", &actions).contains(&"server__auth_list".to_owned()));
        actions.remove(auth::BEGIN);
        assert!(names("gog.email", &actions).contains(&"gog_email__auth_list".to_owned()));
    }

    #[test]
    fn options_never_hide_an_actions_own_parameters() {
        let tools = tools(&json!({
            "own": {"level": 3, "description": "x", "input_schema":
                {"type": "object", "properties": {"task_id": {"type": "integer"}}, "additionalProperties": false}},
            "plain": {"level": 3, "description": "x"},
            "read": {"level": 1, "description": "x"},
            "composed": {"level": 3, "description": "x", "input_schema": {"$ref": "#/$defs/x"}},
        }));
        let call = |name: &str, arguments: &Value| {
            let tool = tools.iter().find(|action| action.action.as_str() == name).unwrap();
            let request = tool.request(arguments.as_object().unwrap().clone()).unwrap();
            let Request::Call(call) = request else { panic!("{request:?}") };
            call
        };
        let own = call("own", &json!({"task_id": 7, "idempotency_key": "k"}));
        assert_eq!((own.task_id, Value::Object(own.params)), (None, json!({"task_id": 7})));
        assert_eq!(own.idempotency_key.unwrap().as_str(), "k");
        let plain = call("plain", &json!({"task_id": "t-1", "x": null}));
        assert_eq!((plain.task_id.unwrap().as_str(), Value::Object(plain.params)), ("t-1", json!({"x": null})));
        for name in ["read", "composed"] {
            let read = call(name, &json!({"task_id": "t-1"}));
            assert_eq!((read.task_id, Value::Object(read.params)), (None, json!({"task_id": "t-1"})), "{name}");
        }
    }

    #[test]
    fn a_provider_listed_twice_gives_each_tool_once() {
        let capability =
            json!({"provider": "p", "access_level": 1, "actions": {"a": {"level": 1, "description": "x"}}});
        let snapshot = json!({"generatedAt": "x", "capabilities": [capability, capability]});
        assert_eq!(all(&serde_json::from_value(snapshot).unwrap()).len(), 1);
    }

    #[test]
    fn no_tool_of_the_list_carries_the_schema_of_its_output() {
        let tools = tools(&json!({"a": {"level": 1, "description": "x", "output_schema": {"type": "object"}}}));
        assert_eq!((&tools[0].tool.output_schema, &tools[0].tool.meta), (&None, &None));
    }
}
