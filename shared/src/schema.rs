//! Schemas that every client can read.
//!
//! Clients differ in how much JSON Schema they know. One schema that a client cannot read may cost it the whole list of
//! tools. So published schemas are a plain subset: an object at the top, no boolean subschemas, no two-type unions for
//! optional members, no integer formats of one programming language.

use schemars::transform::{RecursiveTransform, ReplaceBoolSchemas, Transform as _};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde_json::{Map, Value};
use std::sync::Arc;

/// The portable schema of a type's members, without those named in `hidden`.
pub fn of<T: JsonSchema>(hidden: &[&str]) -> Arc<Map<String, Value>> {
    let mut map = object(SchemaGenerator::default().into_root_schema_for::<T>().into());
    // The tool's own title and description say it better.
    for member in ["$schema", "title", "description"] {
        map.remove(member);
    }
    if let Some(Value::Object(properties)) = map.get_mut("properties") {
        properties.retain(|name, _| !hidden.contains(&name.as_str()));
    }
    Arc::new(map)
}

/// Returns the portable form of a foreign schema. A value that is no schema of an object becomes one that takes any.
pub fn object(schema: Value) -> Map<String, Value> {
    let mut schema = match schema {
        Value::Object(map) => Schema::from(map),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => Schema::default(),
    };
    let mut booleans = ReplaceBoolSchemas::default();
    // `additionalProperties: false` is the one boolean that all clients know, and the one that matters.
    booleans.skip_additional_properties = true;
    booleans.transform(&mut schema);
    RecursiveTransform(plain).transform(&mut schema);
    let mut map = schema.as_object().cloned().unwrap_or_default();
    map.insert("type".into(), "object".into());
    map
}

fn plain(schema: &mut Schema) {
    if schema.get("format").and_then(Value::as_str).is_some_and(|f| f.starts_with("uint") || f.starts_with("int")) {
        schema.remove("format");
    }
    if let Some(only) = only_type(schema) {
        schema.insert("type".into(), only);
        drop_null_default(schema);
    }
    collapse_optional(schema);
}

/// The other type of a union of two with `null`.
fn only_type(schema: &Schema) -> Option<Value> {
    let Some(Value::Array(types)) = schema.get("type") else { return None };
    match types.as_slice() {
        [only, null] | [null, only] if null == "null" => Some(only.clone()),
        _ => None,
    }
}

/// Removes `null` as a default from a type that no longer has it.
fn drop_null_default(schema: &mut Schema) {
    if schema.get("default").is_some_and(Value::is_null) {
        schema.remove("default");
    }
}

/// `anyOf: [T, null]` is how generators write an optional reference; an optional member is optional anyway.
fn collapse_optional(schema: &mut Schema) {
    let Some(Value::Array(choices)) = schema.get("anyOf") else { return };
    let null = |choice: &Value| choice.get("type").is_some_and(|kind| kind == "null");
    let others: Vec<&Value> = choices.iter().filter(|choice| !null(choice)).collect();
    let ([Value::Object(only)], true) = (others.as_slice(), choices.len() == 2) else { return };
    let only = only.clone();
    schema.remove("anyOf");
    drop_null_default(schema);
    for (member, value) in only {
        // A description beside the choice is the more precise one.
        if schema.get(&member).is_none() {
            schema.insert(member, value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::{AuthBeginRequest, AuthCompleteRequest};
    use crate::request::{CallRequest, GrantRequest, ListRequest};
    use serde_json::json;

    /// Every place that holds a subschema must hold an object, and no type may be a list.
    fn assert_portable(value: &Value) {
        match value {
            Value::Object(map) => {
                assert!(!matches!(map.get("type"), Some(Value::Array(_))), "{value}");
                assert!(!map.get("format").is_some_and(|f| f.as_str().is_some_and(|f| f.contains("int"))), "{value}");
                if let Some(Value::Object(properties)) = map.get("properties") {
                    assert!(properties.values().all(Value::is_object), "{value}");
                }
                map.values().for_each(assert_portable);
            }
            Value::Array(items) => items.iter().for_each(assert_portable),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }

    #[test]
    fn our_own_schemas_are_portable() {
        for schema in [
            of::<CallRequest>(&["timeout_ms"]),
            of::<GrantRequest>(&["timeout_ms"]),
            of::<ListRequest>(&[]),
            of::<AuthBeginRequest>(&["timeout_ms"]),
            of::<AuthCompleteRequest>(&["timeout_ms"]),
        ] {
            assert_portable(&Value::Object((*schema).clone()));
            assert_eq!(schema["type"], "object");
            assert_eq!(schema["additionalProperties"], false);
        }
        let call = of::<CallRequest>(&["timeout_ms"]);
        assert_eq!(call["required"], json!(["provider", "action"]));
        assert_eq!(call["properties"]["params"]["type"], "object");
        assert!(call["properties"].get("timeout_ms").is_none());
        assert!(call["properties"]["provider"]["pattern"].is_string());
        let complete = of::<AuthCompleteRequest>(&["timeout_ms"]);
        assert_eq!(complete["required"], json!(["flow_id"]));
        assert_eq!(complete["properties"]["callback_url"]["type"], "string");
    }

    #[test]
    fn a_foreign_schema_becomes_portable() {
        let foreign = json!({
            "type": ["object", "null"],
            "properties": {
                "any": true,
                "n": {"type": ["integer", "null"], "format": "uint32", "default": null},
                "o": {"anyOf": [{"$ref": "#/$defs/o"}, {"type": "null"}], "description": "kept"},
                "list": {"type": "array", "items": true},
            },
            "additionalProperties": false,
            "$defs": {"o": {"type": ["string", "null"]}},
        });
        let schema = Value::Object(object(foreign));
        assert_portable(&schema);
        assert_eq!(schema["additionalProperties"], false);
        assert_eq!(schema["properties"]["n"], json!({"type": "integer"}));
        assert_eq!(schema["properties"]["o"], json!({"$ref": "#/$defs/o", "description": "kept"}));
        assert_eq!(schema["properties"]["any"], json!({}));
    }

    #[test]
    fn schemas_of_no_object_become_schemas_of_any_object() {
        for schema in [json!(true), json!(null), json!("x"), json!([]), json!({}), json!({"type": "string"})] {
            assert_eq!(object(schema)["type"], "object");
        }
    }
}
