//! The vocabulary of rules: groups, providers, levels, and actions with their parameters.

use crate::RulesError;
use crate::shape::{self, Record, Unseen};
use cedar_policy::{
    Entities, Entity, EntityId, EntityTypeName, EntityUid, RestrictedExpression, Schema, SchemaFragment,
};
use model::Declaration;
use serde_json::{Map, Value, json};
use shared::{Action, Group, Level, Provider};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

/// The levels that a call can demand. A call that demands none counts as a read.
const LEVELS: [Level; 3] = [Level::Read, Level::Write, Level::Production];

/// A provider, as rules name it.
pub struct NamedProvider<'a> {
    /// Its name.
    pub name: &'a Provider,
    /// Its kind, as the configuration names it.
    pub kind: &'a str,
    /// Whether it takes calls. If not, its actions may be unknown.
    pub is_ready: bool,
    /// Its actions.
    pub actions: Vec<NamedAction<'a>>,
}

/// An action, as rules name it.
pub struct NamedAction<'a> {
    /// Its declaration.
    pub declaration: &'a Declaration,
    /// Whether parsing fills in the defaults of its parameters.
    pub fills_defaults: bool,
}

/// The names that rules can use, with their Cedar schema.
pub struct Vocabulary {
    pub(super) schema: Schema,
    written: Value,
    pub(super) params: BTreeMap<(Provider, Action), Record>,
    unseen: BTreeMap<(Provider, Action), Vec<Unseen>>,
    groups: BTreeSet<Group>,
    providers: BTreeSet<Provider>,
    stores: [Entities; 3],
    types: Types,
}

struct Types {
    group: EntityTypeName,
    provider: EntityTypeName,
    action: EntityTypeName,
}

impl Vocabulary {
    /// Makes the vocabulary of these providers and groups.
    ///
    /// # Errors
    /// [`RulesError::Names`] if two names would be one in rules.
    pub fn new(named: &[NamedProvider<'_>], groups: BTreeSet<Group>) -> Result<Self, RulesError> {
        distinct(named)?;
        let (mut params, mut unseen) = (BTreeMap::new(), BTreeMap::new());
        for provider in named {
            for NamedAction { declaration, fills_defaults } in &provider.actions {
                let (record, left_out) = shape::of_params(&declaration.input_schema, *fills_defaults);
                let key = (provider.name.clone(), declaration.action.clone());
                params.insert(key.clone(), record);
                unseen.insert(key, left_out);
            }
        }
        let written = written(named, &params);
        let schema = Schema::from_json_value(written.clone()).map_err(|error| RulesError::Schema(error.to_string()))?;
        let types = Types::new()?;
        let [read, write, production] = LEVELS.map(|level| store(named, level, &types));
        let stores = [read?, write?, production?];
        let providers = named.iter().map(|provider| provider.name.clone()).collect();
        Ok(Self { schema, written, params, unseen, groups, providers, stores, types })
    }

    /// Returns the schema in Cedar's form, for people and editors.
    ///
    /// # Errors
    /// [`RulesError::Schema`] if it has no such form.
    pub fn text(&self) -> Result<String, RulesError> {
        let fault = |error: &dyn std::fmt::Display| RulesError::Schema(error.to_string());
        let fragment = SchemaFragment::from_json_value(self.written.clone()).map_err(|error| fault(&error))?;
        fragment.to_cedarschema().map_err(|error| fault(&error))
    }

    /// Returns the parameters of each action that rules cannot see.
    pub fn unseen(&self) -> impl Iterator<Item = (&Provider, &Action, &[Unseen])> {
        self.unseen.iter().map(|((provider, action), unseen)| (provider, action, unseen.as_slice()))
    }

    /// Returns the fault of a name in a rule that the schema does not check, with the remedy: there is none of that
    /// name.
    pub(super) fn unknown(&self, named: &EntityUid) -> Option<(String, String)> {
        let (kind, name) = (named.type_name().basename(), named.id().unescaped());
        let (known, place) = match kind {
            "Group" => (
                self.groups.iter().any(|group| group.as_str() == name),
                format!("[groups.{name}] to broker.toml; in a published policy, add profiles/{name}.toml"),
            ),
            "Provider" => (
                self.providers.iter().any(|provider| provider.as_str() == name),
                format!("[providers.{name}] to broker.toml"),
            ),
            // The schema checks actions and other types.
            _ => return None,
        };
        let what = kind.to_lowercase();
        (!known).then(|| (format!("there is no {what} `{name}`"), format!("correct the name, or add {place}")))
    }

    pub(super) fn group(&self, group: &Group) -> EntityUid {
        uid(&self.types.group, group.as_str())
    }

    pub(super) fn provider(&self, provider: &Provider) -> EntityUid {
        uid(&self.types.provider, provider.as_str())
    }

    pub(super) fn action(&self, provider: &Provider, action: &Action) -> EntityUid {
        uid(&self.types.action, &pair(provider, action))
    }

    /// Returns the hierarchy of names for a call that demands this level. An action is within the level that the call
    /// demands, which may be above its declared level.
    pub(super) fn store(&self, demanded: Level) -> &Entities {
        let [read, write, production] = &self.stores;
        match demanded {
            Level::None | Level::Read => read,
            Level::Write => write,
            Level::Production => production,
        }
    }
}

impl Types {
    fn new() -> Result<Self, RulesError> {
        let named = |name: &str| name.parse::<EntityTypeName>().map_err(|error| RulesError::Schema(error.to_string()));
        Ok(Self { group: named("Group")?, provider: named("Provider")?, action: named("Action")? })
    }
}

/// Returns the level's name among the actions.
pub(super) fn level_name(level: Level) -> &'static str {
    match level {
        Level::None | Level::Read => Level::Read.word(),
        Level::Write | Level::Production => level.word(),
    }
}

fn uid(kind: &EntityTypeName, name: &str) -> EntityUid {
    EntityUid::from_type_name_and_id(kind.clone(), EntityId::new(name))
}

/// Returns the name of an action in rules.
pub(super) fn pair(provider: &Provider, action: &Action) -> String {
    format!("{provider}.{action}")
}

/// SECURITY: a rule about one object must not apply to another of the same name.
fn distinct(named: &[NamedProvider<'_>]) -> Result<(), RulesError> {
    let mut seen: BTreeMap<String, String> =
        LEVELS.map(|level| (level.word().to_owned(), format!("the level {}", level.word()))).into();
    let mut add = |name: String, what: String| match seen.insert(name.clone(), what.clone()) {
        None => Ok(()),
        Some(other) => Err(RulesError::Names { name, one: other, other: what }),
    };
    for NamedProvider { name: provider, actions, .. } in named {
        add(provider.to_string(), format!("provider {provider}"))?;
        for NamedAction { declaration, .. } in actions {
            let action = &declaration.action;
            add(pair(provider, action), format!("action {action} of provider {provider}"))?;
        }
    }
    Ok(())
}

/// Writes the schema, in Cedar's JSON form.
fn written(named: &[NamedProvider<'_>], params: &BTreeMap<(Provider, Action), Record>) -> Value {
    let mut actions: Map<String, Value> =
        LEVELS.map(|level| (level.word().to_owned(), json!({}))).into_iter().collect();
    for provider in named {
        let (provider, its_actions) = (provider.name, &provider.actions);
        actions.insert(provider.to_string(), json!({}));
        for NamedAction { declaration, .. } in its_actions {
            let (action, level) = (&declaration.action, level_name(declaration.level));
            let record = params.get(&(provider.clone(), action.clone())).cloned().unwrap_or_default();
            let within = json!([{ "id": provider }, { "id": level }]);
            let whole = json!({ "memberOf": within, "appliesTo": applies_to(&record) });
            actions.insert(pair(provider, action), whole);
        }
    }
    let kind = json!({ "type": "Record", "attributes": { "kind": { "type": "String" } } });
    let said = json!({ "type": "String", "required": false });
    let flag = json!({ "type": "Boolean" });
    let flags = json!({ "untrusted": flag, "sensitive": flag, "egress": flag });
    json!({ "": {
        "commonTypes": {
            "Session": { "type": "Record", "attributes": flags },
            "Chat": { "type": "Record", "attributes": { "id": said, "kind": said } },
        },
        "entityTypes": { "Group": {}, "Provider": { "shape": kind } },
        "actions": actions,
    } })
}

fn applies_to(params: &Record) -> Value {
    let context = json!({ "type": "Record", "attributes": {
        "params": shape::written_record(params),
        "level": { "type": "String" },
        "task": { "type": "String", "required": false },
        "person": { "type": "String", "required": false },
        "chat": { "type": "Chat", "required": false },
        "session": { "type": "Session" },
        "now": { "type": "Extension", "name": "datetime" },
        "hour": { "type": "Long" },
        "weekday": { "type": "String" },
    } });
    json!({ "principalTypes": ["Group"], "resourceTypes": ["Provider"], "context": context })
}

fn store(named: &[NamedProvider<'_>], demanded: Level, types: &Types) -> Result<Entities, RulesError> {
    let level = uid(&types.action, level_name(demanded));
    let alone = |uid: EntityUid| Entity::new_no_attrs(uid, HashSet::new());
    let mut entities: Vec<Entity> = LEVELS.map(|level| alone(uid(&types.action, level.word()))).into();
    for NamedProvider { name: provider, kind, is_ready: _, actions } in named {
        let group = uid(&types.action, provider.as_str());
        entities.push(alone(group.clone()));
        for NamedAction { declaration, .. } in actions {
            let action = &declaration.action;
            let within = HashSet::from([group.clone(), level.clone()]);
            entities.push(Entity::new_no_attrs(uid(&types.action, &pair(provider, action)), within));
        }
        let kind = RestrictedExpression::new_string((*kind).to_owned());
        let attributes = HashMap::from([("kind".to_owned(), kind)]);
        let entity = Entity::new(uid(&types.provider, provider.as_str()), attributes, HashSet::new());
        entities.push(entity.map_err(|error| RulesError::Schema(error.to_string()))?);
    }
    Entities::from_entities(entities, None).map_err(|error| RulesError::Schema(error.to_string()))
}
