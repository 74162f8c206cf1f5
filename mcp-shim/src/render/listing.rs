//! The listing of a group's capabilities, in few words: first a summary, then one provider or one action.
//!
//! [`summary`] names the providers, how many actions each has at which level, and which of them can be used.
//! [`provider`] has everything that a call needs; [`action`] has all that the host says of one. The words are those of
//! the snapshot: the listing says repeated words once, and leaves open points out.

use serde_json::{Map, Value, json};
use shared::snapshot::{ActionEntry, Availability, Capability, Snapshot};
use shared::{Action, Provider};
use std::collections::BTreeMap;

/// How the details are had.
const MORE: &str =
    "ext_capabilities with provider gives the parameters of its actions; with provider and action all of one";

/// Returns the word of a status, as the snapshot has it.
fn word(status: Availability) -> Value {
    json!(status)
}

/// The members that are neither `null` nor empty.
fn said(members: Value) -> Value {
    let Value::Object(mut members) = members else { return members };
    members.retain(|_, value| match value {
        Value::Null => false,
        Value::Array(items) => !items.is_empty(),
        Value::Object(items) => !items.is_empty(),
        Value::Bool(_) | Value::Number(_) | Value::String(_) => true,
    });
    Value::Object(members)
}

/// Returns all providers, without the parameters of their actions.
pub fn summary(snapshot: &Snapshot) -> Value {
    let is_granted = |name: &Provider| snapshot.capabilities.iter().any(|capability| capability.provider == *name);
    // Only the main group hears of more than it has.
    let names_more = !snapshot.providers_available.iter().all(is_granted);
    let capabilities: Vec<Value> = snapshot.capabilities.iter().map(summed).collect();
    let mut listing = said(json!({
        "generatedAt": snapshot.generated_at,
        "group": snapshot.group,
        "is_main": snapshot.is_main,
        "opens_gates": snapshot.opens_gates,
        "may_request": snapshot.may_request,
        "providers_available": names_more.then_some(&snapshot.providers_available),
        "more": (!capabilities.is_empty()).then_some(MORE),
    }));
    if let Some(listing) = listing.as_object_mut() {
        listing.insert("capabilities".to_owned(), capabilities.into());
    }
    listing
}

/// Returns one provider of the summary.
fn summed(capability: &Capability) -> Value {
    let mut levels = BTreeMap::<String, usize>::new();
    let mut usable = Map::new();
    let mut unusable = 0_usize;
    for (name, entry) in &capability.actions {
        *levels.entry(format!("L{}", entry.level.number())).or_default() += 1;
        if !entry.is_usable() {
            unusable += 1;
        } else if let Value::String(status) = word(entry.shown_status())
            && let Some(names) = usable.entry(status).or_insert_with(|| json!([])).as_array_mut()
        {
            names.push(json!(name));
        }
    }
    let mut listed = head(capability);
    if let Some(listed) = listed.as_object_mut() {
        listed.insert("actions".to_owned(), json!(levels));
        listed.extend(usable);
        listed.extend((unusable > 0).then(|| ("unavailable".to_owned(), json!(unusable))));
    }
    listed
}

/// Returns the description of a provider besides its actions.
fn head(capability: &Capability) -> Value {
    said(json!({
        "provider": capability.provider,
        "description": capability.description,
        "access_level": capability.access_level,
        "expires_at": capability.expires_at,
        "accounts": capability.accounts,
        "chat_types": capability.chat_types,
    }))
}

/// Returns one provider with the input of its usable actions, and the names of the others.
///
/// Returns nothing if it is not granted.
pub fn provider(snapshot: &Snapshot, name: &Provider) -> Option<Value> {
    let capability = snapshot.capabilities.iter().find(|capability| capability.provider == *name)?;
    let (mut actions, mut unusable) = (Map::new(), Map::new());
    for (name, entry) in &capability.actions {
        if entry.is_usable() {
            actions.insert(name.to_string(), called(entry));
        } else if let Value::String(status) = word(entry.shown_status())
            && let Some(names) = unusable.entry(status).or_insert_with(|| json!([])).as_array_mut()
        {
            names.push(json!(name));
        }
    }
    let mut listed = head(capability);
    if let Some(listed) = listed.as_object_mut() {
        listed.insert("actions".to_owned(), actions.into());
        listed.extend(unusable);
    }
    Some(listed)
}

/// Returns the input that a call of an action needs.
fn called(entry: &ActionEntry) -> Value {
    said(json!({
        "level": entry.level,
        "status": (entry.status != Availability::Available).then(|| word(entry.status)),
        "description": entry.description,
        "input_schema": entry.input_schema.as_ref().map(plain),
        "expires_at": entry.expires_at,
        "requires_auth": entry.requires_auth.then_some(true),
    }))
}

/// Returns all that the host says of an action; nothing if there is none.
pub fn action(snapshot: &Snapshot, provider: &Provider, name: &Action) -> Option<Value> {
    let capability = snapshot.capabilities.iter().find(|capability| capability.provider == *provider)?;
    let entry = capability.actions.get(name)?;
    let mut all = json!({ "provider": provider, "action": name });
    if let (Some(all), Value::Object(said)) = (all.as_object_mut(), said(json!(entry))) {
        all.extend(said);
        for schema in ["input_schema", "output_schema"] {
            if let Some(schema) = all.get_mut(schema) {
                *schema = plain(schema);
            }
        }
    }
    Some(all)
}

/// Returns a schema without the additions of generators: its dialect, and titles that repeat the name of a type.
fn plain(schema: &Value) -> Value {
    let mut schema = schema.clone();
    if let Some(members) = schema.as_object_mut() {
        members.remove("$schema");
        members.remove("title");
    }
    schema
}

#[cfg(test)]
mod tests {
    use super::*;

    fn snapshot(document: Value) -> Snapshot {
        serde_json::from_value(document).unwrap()
    }

    #[test]
    fn a_host_that_knows_no_status_says_in_the_description_what_is_denied() {
        let actions = json!({
            "list": {"level": 1, "description": "Lists"},
            "merge": {"level": 3, "description": "Merges (DENIED)"},
        });
        let capability = json!({"provider": "github", "access_level": 1, "actions": actions});
        let of_source = snapshot(json!({"generatedAt": "x", "capabilities": [capability]}));
        let listed = &summary(&of_source)["capabilities"][0];
        assert_eq!((&listed["available"], &listed["unavailable"]), (&json!(["list"]), &json!(1)));
        let whole = provider(&of_source, &"github".parse().unwrap()).unwrap();
        assert_eq!((&whole["DENIED"], whole["actions"].get("merge")), (&json!(["merge"]), None));
    }

    #[test]
    fn the_main_group_hears_of_providers_that_it_has_no_access_to() {
        let capability = json!({"provider": "a", "access_level": 1, "actions": {}});
        let of = |names: Value| {
            let document = json!({"generatedAt": "x", "capabilities": [capability], "providers_available": names});
            summary(&snapshot(document)).get("providers_available").cloned()
        };
        assert_eq!(of(json!(["a", "b"])), Some(json!(["a", "b"])));
        assert_eq!(of(json!(["a"])), None);
    }

    #[test]
    fn nothing_is_said_twice_and_nothing_of_a_call_is_left_out() {
        let schema =
            json!({"$schema": "x", "title": "ListParams", "type": "object", "properties": {"repo": {"title": "r"}}});
        let entry = json!({
            "level": 2, "tier": "human", "description": "Lists", "status": "needs_approval", "input_schema": schema,
            "output_schema": {"title": "Listed", "type": "array"}, "idempotent": true, "requires_auth": true,
        });
        let capability = json!({"provider": "p", "access_level": 2, "expires_at": null, "actions": {"list": entry}});
        let document = snapshot(json!({"generatedAt": "x", "capabilities": [capability]}));
        let (name, list): (Provider, Action) = ("p".parse().unwrap(), "list".parse().unwrap());
        let plain = json!({"type": "object", "properties": {"repo": {"title": "r"}}});
        let called = json!({
            "level": 2, "status": "needs_approval", "description": "Lists", "input_schema": plain, "requires_auth": true,
        });
        let whole = json!({"provider": "p", "access_level": 2, "actions": {"list": called}});
        assert_eq!(provider(&document, &name), Some(whole));
        let one = action(&document, &name, &list).unwrap();
        assert_eq!((&one["output_schema"], &one["idempotent"]), (&json!({"type": "array"}), &json!(true)));
        assert_eq!((&one["action"], &one["tier"], &one["input_schema"]), (&json!("list"), &json!("human"), &plain));
    }
}
