//! Parameters as rules see them.

use super::shape::{Unseen, of_params, params, written_record};
use super::*;

/// Returns the types that rules see, as the schema writes them, and the unseen parts.
fn seen(schema: &Value) -> (Value, Vec<(String, &'static str)>) {
    let (record, unseen) = of_params(schema, false);
    let unseen = unseen.into_iter().map(|Unseen { place, why }| (place, why)).collect();
    (written_record(&record)["attributes"].clone(), unseen)
}

/// Returns the type that rules see of one required parameter.
fn one(schema: &Value) -> Result<Value, &'static str> {
    let whole =
        json!({ "type": "object", "properties": { "p": schema }, "required": ["p"], "additionalProperties": false });
    let (mut types, unseen) = seen(&whole);
    match unseen.as_slice() {
        [] => Ok(types["p"].take()),
        [(place, why)] if place == "/p" => Err(why),
        others => panic!("{others:?}"),
    }
}

fn of(kind: &str, required: bool) -> Value {
    json!({ "type": kind, "required": required })
}

#[test]
fn schemas_with_a_type_of_the_rules_get_it() {
    assert_eq!(one(&json!({ "type": "string", "maxLength": 5 })), Ok(of("String", true)));
    assert_eq!(one(&json!({ "type": "boolean" })), Ok(of("Boolean", true)));
    assert_eq!(one(&json!({ "type": "integer", "minimum": 1 })), Ok(of("Long", true)));
    assert_eq!(one(&json!({ "enum": ["open", "closed"] })), Ok(of("String", true)));
    assert_eq!(one(&json!({ "const": 5 })), Ok(of("Long", true)));
    assert_eq!(
        one(&json!({ "oneOf": [{ "const": "a" }, { "const": "b", "description": "B" }] })),
        Ok(of("String", true))
    );
    assert_eq!(
        one(&json!({ "type": "array", "items": { "type": "string" } })),
        Ok(json!({ "type": "Set", "element": { "type": "String" }, "required": true }))
    );
}

#[test]
fn nullable_parameters_are_optional() {
    assert_eq!(one(&json!({ "type": ["string", "null"] })), Ok(of("String", false)));
    assert_eq!(one(&json!({ "anyOf": [{ "type": "integer" }, { "type": "null" }] })), Ok(of("Long", false)));
    assert_eq!(one(&json!({ "enum": ["a", null] })), Ok(of("String", false)));
}

#[test]
fn parameters_without_a_type_of_the_rules_are_left_out_and_named() {
    for (schema, why) in [
        (json!({ "type": "number" }), "is a number that may have a fraction"),
        (json!({ "type": ["string", "integer"] }), "may be of several types"),
        (json!({ "anyOf": [{ "type": "string" }, { "type": "integer" }] }), "may be of several types"),
        (json!({ "enum": ["a", 1] }), "may be of several types"),
        (json!({ "type": "array" }), "has elements of any type"),
        (json!({ "type": "array", "items": { "type": ["string", "null"] } }), "has elements that may be null"),
        (json!({ "$ref": "#/$defs/gone" }), "refers to a schema that is not there"),
        (json!({ "$ref": "#/properties/p" }), "is nested too deep"),
        (json!({ "type": "null" }), "may be of several types"),
        (json!({}), "may be anything"),
        (json!(true), "may be anything"),
    ] {
        assert_eq!(one(&schema), Err(why), "{schema}");
    }
}

#[test]
fn objects_are_records_and_what_their_schema_does_not_name_is_not_seen() {
    let schema = json!({
        "type": "object",
        "properties": { "range": { "type": "object", "properties": { "from": { "type": "integer" }, "to": { "type": "number" } } } },
    });
    let range =
        json!({ "type": "Record", "attributes": { "from": { "type": "Long", "required": false } }, "required": false });
    let unseen = [
        ("/range/to", "is a number that may have a fraction"),
        ("/range/*", "is not named by the schema"),
        ("/*", "is not named by the schema"),
    ];
    assert_eq!(seen(&schema), (json!({ "range": range }), unseen.map(|(place, why)| (place.to_owned(), why)).into()));
}

#[test]
fn a_default_is_seen_where_the_action_takes_it() {
    let schema = json!({ "type": "object", "properties": { "state": { "type": "string", "default": "open" }, "n": { "type": ["integer", "null"], "default": null } } });
    let text = |fills: bool, given: &Value| {
        let (record, _) = of_params(&schema, fills);
        let params = params(&record, given.as_object().unwrap()).unwrap();
        cedar_policy::Context::from_pairs([("p".to_owned(), params)]).unwrap().to_string()
    };
    assert_eq!(text(true, &json!({})), "{p: {state: \"open\"}}");
    assert_eq!(text(true, &json!({ "state": null })), "{p: {state: \"open\"}}");
    assert_eq!(text(true, &json!({ "state": "closed", "n": 7.0, "more": 1 })), "{p: {n: 7, state: \"closed\"}}");
    assert_eq!(text(false, &json!({})), "{p: {}}");
}

#[test]
fn nesting_ends_and_the_last_level_that_is_read_is_the_sixteenth() {
    type Wrap = fn(Value) -> Value;
    let wraps: [Wrap; 3] = [
        |inner| json!({ "type": "array", "items": inner }),
        |inner| json!({ "anyOf": [inner, { "type": "null" }] }),
        |inner| json!({ "allOf": [inner] }),
    ];
    for wrap in wraps {
        let nested = |times: usize| (0..times).fold(json!({ "type": "string" }), |inner, _| wrap(inner));
        assert!(one(&nested(15)).is_ok());
        assert_eq!(one(&nested(16)), Err("is nested too deep"));
    }
    let objects = |times: usize| {
        (0..times).fold(
            json!({ "type": "string" }),
            |inner, _| json!({ "type": "object", "properties": { "a": inner }, "additionalProperties": false }),
        )
    };
    assert_eq!(seen(&objects(16)).1, []);
    assert_eq!(seen(&objects(17)).1, [("/a".repeat(17), "is nested too deep")]);
    for reference in [json!({ "$ref": "#/properties/p" }), json!({ "allOf": [{ "$ref": "#/properties/p" }] })] {
        assert_eq!(one(&reference), Err("is nested too deep"), "it refers to itself");
    }
}

#[test]
fn one_schema_in_all_of_is_that_schema_and_several_are_none() {
    let text = || json!({ "type": "string" });
    assert_eq!(one(&json!({ "allOf": [text()] })), Ok(of("String", true)));
    for all in [json!([]), json!([text(), { "maxLength": 5 }])] {
        assert_eq!(one(&json!({ "allOf": all })), Err("is put together from several schemas"));
    }
}

#[test]
fn constants_have_the_type_that_all_of_them_have() {
    assert_eq!(one(&json!({ "enum": [true, false] })), Ok(of("Boolean", true)));
    assert_eq!(one(&json!({ "const": null })), Err("may only be null"));
    assert_eq!(one(&json!({ "enum": [null] })), Err("may only be null"));
}

#[test]
fn parameters_that_lack_a_required_member_cannot_be_evaluated() {
    let schema = json!({ "type": "object", "properties": { "p": { "type": "string" } }, "required": ["p"] });
    let (record, _) = of_params(&schema, false);
    assert_eq!(params(&record, &Map::new()).unwrap_err(), "/p");
    let optional = json!({ "type": "object", "properties": { "p": { "type": "string" } } });
    assert!(params(&of_params(&optional, false).0, &Map::new()).is_ok());
}
