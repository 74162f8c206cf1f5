//! The definitions of a bridge, and the rules for their registration.
//!
//! A fault anywhere refuses all of them, and the refusal lists all faults: an author repairs them in one go.

use filter::inspect::{Reason, Verdict, inspect_definition};
use model::{ChatType, Tier};
use provider::schemas::validator;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value, json};
use shared::{Action, Level, Provider};
use std::collections::{BTreeMap, BTreeSet};

/// So many capabilities, and so many operations of each.
const COUNT_MAX: usize = 128;
/// The longest description, in bytes.
const DESCRIPTION_MAX: usize = 4096;

/// A capability: a provider of its own, `gog.email`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Definition {
    /// `<namespace>.<name>`
    pub id: String,
    /// The description of the capability, for an agent.
    pub description: String,
    /// Whether it is about private things; then it may be used in private chats unless more are named.
    #[serde(default)]
    pub sensitive: bool,
    /// In which kinds of chats it may be used; empty means all.
    #[serde(default)]
    pub allowed_chat_types: Vec<String>,
    /// The operations.
    #[serde(deserialize_with = "list_or_map")]
    pub operations: Vec<Defined>,
}

/// One operation of a capability.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Defined {
    /// Its name: `list_messages`.
    pub name: String,
    /// The description of the operation, for an agent.
    pub description: String,
    /// Whether it needs an account of the person.
    #[serde(default = "yes")]
    pub requires_auth: bool,
    /// Whether it changes anything.
    #[serde(default)]
    pub mutating: bool,
    /// A higher level than that makes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub level: Option<u8>,
    /// The tier of each call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tier: Option<String>,
    /// The input schema; absent means any object.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub input_schema: Map<String, Value>,
    /// The output schema; absent means any object.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub output_schema: Map<String, Value>,
}

fn yes() -> bool {
    true
}

fn list_or_map<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Defined>, D::Error> {
    use serde::de::Error as _;
    let defined = |value: Value| serde_json::from_value(value).map_err(D::Error::custom);
    match Value::deserialize(deserializer)? {
        Value::Array(list) => list.into_iter().map(defined).collect(),
        Value::Object(map) => map
            .into_iter()
            .map(|(name, value)| {
                let Value::Object(mut value) = value else { return Err(D::Error::custom("an operation is no object")) };
                let own = value.entry("name").or_insert_with(|| name.clone().into());
                if own.as_str() != Some(&name) {
                    return Err(D::Error::custom(format!("operation `{name}` has another `name`")));
                }
                defined(value.into())
            })
            .collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            Err(D::Error::custom("`operations` is neither a list nor an object"))
        }
    }
}

/// A capability that may be registered.
#[derive(Debug, Clone, PartialEq)]
pub struct Registered {
    /// Its id.
    pub provider: Provider,
    /// The description.
    pub description: String,
    /// In which kinds of chats it may be used; empty means all.
    pub chat_types: Vec<ChatType>,
    /// The operations.
    pub operations: Vec<Operation>,
}

/// One operation of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Operation {
    /// Its name.
    pub action: Action,
    /// The description.
    pub description: String,
    /// Whether it needs an account of the person.
    pub requires_auth: bool,
    /// Whether it changes anything.
    pub mutating: bool,
    /// The level it demands.
    pub level: Level,
    /// The tier.
    pub tier: Option<Tier>,
    /// The input schema.
    pub input_schema: Value,
    /// The output schema.
    pub output_schema: Option<Value>,
}

/// Parses the definitions in the result of `definitions`.
///
/// # Errors
/// The fault in its shape.
pub fn read(result: Map<String, Value>) -> Result<Vec<Definition>, String> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Result {
        definitions: Vec<Definition>,
    }
    let result: Result = serde_json::from_value(result.into()).map_err(|error| error.to_string())?;
    Ok(result.definitions)
}

/// Returns the flagged items of these definitions, by name. The name is a capability's id; for an operation, a period
/// and its name follow.
pub fn flagged(definitions: &[Definition]) -> BTreeMap<String, Verdict> {
    let mut flagged = BTreeMap::new();
    for definition in definitions {
        let own = inspect_definition(&json!({ "name": definition.id, "description": definition.description }));
        flagged.insert(named(&definition.id), own);
        for operation in &definition.operations {
            // The form in which an agent reads it.
            let text = json!({
                "name": operation.name,
                "description": operation.description,
                "inputSchema": operation.input_schema,
                "outputSchema": operation.output_schema,
            });
            flagged.insert(format!("{}.{}", named(&definition.id), named(&operation.name)), inspect_definition(&text));
        }
    }
    flagged.retain(|_, verdict| !verdict.is_clean());
    flagged
}

/// Checks definitions against the rules of registration. `accepted` has the flagged names that were accepted.
///
/// # Errors
/// Every fault, each a sentence that begins with its subject.
pub fn register(
    namespace: &Provider,
    definitions: &[Definition],
    accepted: &BTreeSet<String>,
) -> Result<Vec<Registered>, Vec<String>> {
    let mut faults = Vec::new();
    if definitions.is_empty() {
        faults.push("definitions: there are none".to_owned());
    }
    if definitions.len() > COUNT_MAX {
        faults.push(format!("definitions: there are more than {COUNT_MAX}"));
    }
    let mut ids = BTreeSet::new();
    let mut registered = Vec::new();
    for definition in definitions {
        if !ids.insert(&definition.id) {
            faults.push(format!("{}: this id is there twice", named(&definition.id)));
        }
        registered.extend(capability(namespace, definition, &mut faults));
    }
    // SECURITY: agents read it in every list of tools. The person who accepts it may not have read it as they do.
    for (name, verdict) in flagged(definitions).into_iter().filter(|(name, _)| !accepted.contains(name)) {
        let why: Vec<&str> = verdict.reasons().iter().map(Reason::sentence).collect();
        let why = why.join(" ");
        faults.push(format!("{name}: its description looks like an attack on an agent: {why} Accept it by name"));
    }
    if faults.is_empty() { Ok(registered) } else { Err(faults) }
}

fn capability(namespace: &Provider, definition: &Definition, faults: &mut Vec<String>) -> Option<Registered> {
    let name = named(&definition.id);
    let before = faults.len();
    let mut wrong = |what: String| faults.push(format!("{name}: {what}"));
    let provider = definition
        .id
        .parse::<Provider>()
        .ok()
        .filter(|id| id.as_str().split_once('.').is_some_and(|(prefix, _)| prefix == namespace.as_str()));
    if provider.is_none() {
        wrong(format!("its id must be `{namespace}.` and a name of small letters, digits, `_` and `-`"));
    }
    described(&definition.description).map(&mut wrong);
    let mut chat_types = Vec::new();
    for word in &definition.allowed_chat_types {
        match ChatType::of(word) {
            Some(kind) => chat_types.push(kind),
            None => wrong("allowed_chat_types: only `private`, `group` and `channel` are known".to_owned()),
        }
    }
    if chat_types.is_empty() && definition.sensitive {
        chat_types.push(ChatType::Private);
    }
    if definition.operations.is_empty() {
        wrong("it has no operations".to_owned());
    }
    if definition.operations.len() > COUNT_MAX {
        wrong(format!("it has more than {COUNT_MAX} operations"));
    }
    let mut names = BTreeSet::new();
    let mut operations = Vec::new();
    for defined in &definition.operations {
        let name = format!("{name}.{}", named(&defined.name));
        if !names.insert(&defined.name) {
            faults.push(format!("{name}: this operation is there twice"));
        }
        operations.extend(operation(&name, defined, faults));
    }
    let provider = provider.filter(|_| faults.len() == before)?;
    Some(Registered { provider, description: definition.description.trim().to_owned(), chat_types, operations })
}

fn operation(name: &str, defined: &Defined, faults: &mut Vec<String>) -> Option<Operation> {
    let before = faults.len();
    let mut wrong = |what: String| faults.push(format!("{name}: {what}"));
    let action = defined.name.parse::<Action>().ok();
    if action.is_none() {
        wrong("its name must be 1 to 128 letters, digits, `_`, `.` and `-`".to_owned());
    }
    described(&defined.description).map(&mut wrong);
    let least = if defined.mutating { Level::Write } else { Level::Read };
    let stated =
        defined.level.map_or(Some(least), |stated| Level::ALL.into_iter().find(|level| level.number() == stated));
    let level = stated.filter(|level| *level >= least);
    if level.is_none() {
        wrong(format!("level: it must be {} to 3, because it is {}", least.number(), change(defined.mutating)));
    }
    let tier = match defined.tier.as_deref() {
        None => None,
        Some("auto") => Some(Tier::Auto),
        Some("rules") => Some(Tier::Rules),
        Some("human") => Some(Tier::Human),
        Some(_) => {
            wrong("tier: only `auto`, `rules` and `human` are known".to_owned());
            None
        }
    };
    for (which, schema) in [("input_schema", &defined.input_schema), ("output_schema", &defined.output_schema)] {
        let _checked = checked(schema).map(|fault| wrong(format!("{which}: {fault}")));
    }
    let (action, level) = (action?, level.filter(|_| faults.len() == before)?);
    let schema = |schema: &Map<String, Value>| (!schema.is_empty()).then(|| Value::Object(schema.clone()));
    Some(Operation {
        action,
        description: defined.description.trim().to_owned(),
        requires_auth: defined.requires_auth,
        mutating: defined.mutating,
        level,
        tier,
        input_schema: schema(&defined.input_schema).unwrap_or_else(|| json!({ "type": "object" })),
        output_schema: schema(&defined.output_schema),
    })
}

fn change(mutating: bool) -> &'static str {
    if mutating { "`mutating`" } else { "not `mutating`" }
}

fn described(text: &str) -> Option<String> {
    if text.trim().is_empty() {
        return Some("its description is empty".to_owned());
    }
    if text.len() > DESCRIPTION_MAX {
        return Some(format!("its description is longer than {DESCRIPTION_MAX} bytes"));
    }
    None
}

fn checked(schema: &Map<String, Value>) -> Option<String> {
    validator(&Value::Object(schema.clone())).err()
}

/// A text of the bridge's, as a message shows it.
fn named(text: &str) -> String {
    let short: String = text.chars().filter(|c| !c.is_control()).take(128).collect();
    if short.is_empty() { "(without a name)".to_owned() } else { short }
}
