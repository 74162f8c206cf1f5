//! Credential keys: members of objects whose name says that their value is a credential.

mod embedded;
mod pairs;

use super::values;
use secrets::names;
use secrets::search::mark::Stamp;
use serde_json::Value;

/// The words with which JSON Schema describes a value. Those that hold a value (`default`, `const`, `enum`, `examples`)
/// are not among them.
const DESCRIBING: [&str; 13] = [
    "$ref",
    "type",
    "title",
    "description",
    "format",
    "pattern",
    "minLength",
    "maxLength",
    "required",
    "nullable",
    "readOnly",
    "writeOnly",
    "sensitive",
];

/// Beginnings of values that Ansible and SOPS have encrypted.
const ENCRYPTED: [&str; 2] = ["$ANSIBLE_VAULT;", "ENC[AES256_GCM,"];

/// The kinds that [`redact`] marks.
pub(super) fn kinds() -> impl Iterator<Item = &'static str> {
    names::kinds().chain([embedded::AMBIGUOUS])
}

/// Replaces the value of every credential key, at any depth, also in strings that are JSON themselves. A name and its
/// value may be two strings. Says whether there was one.
///
/// `null`, `true`, `false` and empty strings hold no credential and stay.
pub(super) fn redact(value: &mut Value, stamp: &Stamp) -> bool {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
        Value::String(text) => match embedded::redact(text, stamp) {
            Some(redacted) => {
                *text = redacted;
                true
            }
            None => false,
        },
        Value::Array(items) => {
            let mut any = false;
            for (at, kind) in pairs::in_items(items) {
                any |= items.get_mut(at).is_some_and(|item| redact_whole(item, kind, stamp));
            }
            items.iter_mut().fold(any, |any, item| redact(item, stamp) | any)
        }
        Value::Object(entries) => {
            let mut any = false;
            let found = pairs::in_object(entries.iter().map(|(key, item)| (key.as_str(), item)));
            let mut found = found.into_iter().peekable();
            for (at, (key, item)) in entries.iter_mut().enumerate() {
                let by_pair = found.next_if(|(found, _)| *found == at).map(|(_, kind)| kind);
                any |= match credential(key, item).or(by_pair) {
                    Some(kind) => redact_whole(item, kind, stamp),
                    None => redact(item, stamp),
                };
            }
            any
        }
    }
}

/// Returns the kind of credential that this member is. Its whole name decides, or the end of its name and its value.
fn credential(key: &str, value: &Value) -> Option<&'static str> {
    if let Some(name) = names::whole(key) {
        let is_package = name.kind.starts_with("cookie") && (is_version(value) || is_place(value));
        return (!describes(value) && !is_package).then_some(name.kind);
    }
    let name = names::ending(key)?;
    value.as_str().is_some_and(|text| values::in_json(text, name.sort)).then_some(name.kind)
}

fn redact_whole(value: &mut Value, kind: &str, stamp: &Stamp) -> bool {
    if holds_none(value, stamp) {
        return false;
    }
    let text = match value {
        Value::Null | Value::Bool(_) => return false,
        Value::String(text) => std::mem::take(text),
        Value::Number(_) | Value::Array(_) | Value::Object(_) => value.to_string(),
    };
    *value = Value::String(stamp.mark(kind, &text));
    true
}

/// Checks whether nothing in the value is a credential: it is empty, a mark, a reference, a placeholder or encrypted.
fn holds_none(value: &Value, stamp: &Stamp) -> bool {
    match value {
        Value::Null | Value::Bool(_) => true,
        Value::Number(_) => false,
        Value::String(text) => {
            text.is_empty()
                || stamp.is_mark(text)
                || values::is_reference(text)
                || values::is_stand_in(text)
                || ENCRYPTED.iter().any(|start| text.starts_with(start))
        }
        Value::Array(items) => items.iter().all(|item| holds_none(item, stamp)),
        Value::Object(entries) => entries.values().all(|item| holds_none(item, stamp)),
    }
}

/// Checks whether this is how OpenAPI says in which header, query or cookie a key is sent.
fn is_security_scheme(entries: &serde_json::Map<String, Value>) -> bool {
    let is =
        |key: &str, words: &[&str]| entries.get(key).and_then(Value::as_str).is_some_and(|text| words.contains(&text));
    is("type", &["apiKey"])
        && is("in", &["header", "query", "cookie"])
        && entries.keys().all(|key| matches!(key.as_str(), "type" | "in" | "name" | "description"))
}

/// Checks whether this is no value of the member but a schema for one: `"password": {"type": "string"}` in an API's
/// description.
fn describes(value: &Value) -> bool {
    let Value::Object(entries) = value else { return false };
    if is_security_scheme(entries) {
        return true;
    }
    let says_what = match (entries.get("type"), entries.get("$ref")) {
        (Some(Value::String(name)), _) => name.parse::<jsonschema::JsonType>().is_ok(),
        (_, Some(Value::String(place))) => place.starts_with("#/"),
        _ => false,
    };
    let within = |value: &Value| value.is_boolean() || describes(value);
    says_what
        && entries.iter().all(|(key, value)| match (key.as_str(), value) {
            ("properties", Value::Object(properties)) => properties.values().all(within),
            ("items" | "additionalProperties" | "unevaluatedProperties", value) => within(value),
            ("allOf" | "anyOf" | "oneOf", Value::Array(schemas)) => schemas.iter().all(within),
            ("default", Value::String(text)) => text.is_empty(),
            ("properties", _) => false,
            (other, _) => DESCRIBING.contains(&other),
        })
}

/// Checks whether this is the version of the package `cookie`, on which half of the web's servers depend.
///
/// A browser's cookie is never one.
fn is_version(value: &Value) -> bool {
    let Value::String(text) = value else { return false };
    let version = text.strip_prefix(['^', '~']).unwrap_or(text);
    let is_number = |part: &str| (1..=3).contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_digit());
    version.split('.').count() == 3 && version.split('.').all(is_number)
}

/// Checks whether this is the path of such a package, or of a page about it.
fn is_place(value: &Value) -> bool {
    match value {
        Value::String(text) => values::is_path(text),
        Value::Array(items) => !items.is_empty() && items.iter().all(is_place),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    pub(super) fn stamp() -> Stamp {
        let mut stamp = Stamp::new([3; 32]);
        kinds().for_each(|kind| stamp.learn(kind));
        stamp
    }

    pub(super) fn redacted(mut value: Value) -> (bool, String) {
        let any = redact(&mut value, &stamp());
        (any, value.to_string())
    }

    #[test]
    fn every_spelling_is_known_at_any_depth() {
        for key in ["access_token", "accessToken", "AccessToken", "ACCESS-TOKEN", "Set-Cookie", "apiKey", "API_KEY"] {
            let (any, text) = redacted(json!({"a": [{"b": {key: "hunter2"}}]}));
            assert!(any && !text.contains("hunter2"), "{text}");
        }
    }

    #[test]
    fn every_value_under_a_credential_key_is_redacted() {
        for value in [json!(12345), json!(["hunter2"]), json!({"x": "hunter2"}), json!("hunter2")] {
            let (any, text) = redacted(json!({"cookie": value}));
            assert!(any && !text.contains("hunter2") && !text.contains("12345"), "{text}");
        }
        for value in [json!(null), json!(false), json!("")] {
            assert_eq!(redacted(json!({ "password": value })), (false, json!({ "password": value }).to_string()));
        }
    }

    #[test]
    fn a_schema_of_a_credential_stays_unless_it_holds_one() {
        for schema in [
            json!({"type": "string", "minLength": 8, "writeOnly": true}),
            json!({"$ref": "#/definitions/secret"}),
            json!({"type": "object", "properties": {"apiKey": {"type": "string"}}, "required": ["apiKey"]}),
            json!({"type": "array", "items": {"type": "object", "additionalProperties": false}}),
            json!({"type": "object", "properties": {}, "unevaluatedProperties": false}),
            json!({"type": "object", "allOf": [{"$ref": "#/$defs/flow"}]}),
            json!({"type": "string", "title": "Key", "sensitive": true, "required": false, "default": ""}),
        ] {
            let value = json!({"properties": {"password": schema}});
            assert_eq!(redacted(value.clone()), (false, value.to_string()));
        }
        for held in [
            json!({"type": "string", "default": "hunter2"}),
            json!({"type": "hunter2"}),
            json!({"$ref": "hunter2"}),
            json!({"description": "hunter2"}),
            json!({"type": "object", "allOf": ["hunter2"]}),
            json!({"type": "object", "unevaluatedProperties": "hunter2"}),
            json!({"type": "object", "properties": {"apiKey": "hunter2"}}),
            json!({"type": "object", "properties": {"x": "hunter2"}}),
            json!({"type": "object", "properties": {"x": {"type": "string", "value": "hunter2"}}}),
            json!({"type": "object", "properties": "hunter2"}),
            json!({"type": "array", "items": ["hunter2"]}),
            json!({"type": "object", "additionalProperties": {"x": "hunter2"}}),
        ] {
            let (any, text) = redacted(json!({"password": held}));
            assert!(any && !text.contains("hunter2"), "{text}");
        }
    }

    #[test]
    fn a_reference_to_a_credential_stays() {
        for value in [
            json!("${TOKEN}"),
            json!("Bearer $GITHUB_TOKEN"),
            json!("{{ token }}"),
            json!({}),
            json!([]),
            json!("<password>"),
            json!("changeme"),
            json!("Secret"),
            json!({"constant_value": "secret", "references": []}),
            json!({"__ansible_vault": "$ANSIBLE_VAULT;1.1;AES256\n34646264306632313333393636316562"}),
            json!({"type": "apiKey", "in": "header", "name": "X-Key"}),
        ] {
            assert_eq!(redacted(json!({ "api_key": value })), (false, json!({ "api_key": value }).to_string()));
        }
        for value in [
            json!("${hunter2}"),
            json!("$hunter2"),
            json!("x ${TOKEN}"),
            json!([1]),
            json!("changeme2"),
            json!("secrets"),
            json!({"constant_value": "hunter2"}),
            json!(["secret", "hunter2"]),
            json!({"__ansible_vault": "hunter2"}),
            json!({"type": "apiKey", "in": "header", "value": "hunter2"}),
            json!({"type": "apiKey", "in": "hunter2"}),
        ] {
            assert!(redacted(json!({ "api_key": value })).0, "{value}");
        }
    }

    #[test]
    fn the_version_of_a_package_is_no_cookie() {
        for version in ["0.7.1", "^0.7.1", "~1.0.12"] {
            let value = json!({"dependencies": {"cookie": version}});
            assert_eq!(redacted(value.clone()), (false, value.to_string()));
            assert!(redacted(json!({"password": version})).0);
        }
        for cookie in ["sid=0.7.1", "1.2", "1.2.3.4", "1..2", "12345.1.1", "a.b.c"] {
            assert!(redacted(json!({"cookie": cookie})).0, "{cookie}");
        }
    }

    #[test]
    fn the_path_of_a_package_is_no_cookie() {
        for path in [json!(["./dist/types/helper/cookie"]), json!("/api/Cookies.html#cookie"), json!("../cookie.js")] {
            let value = json!({"*": {"cookie": path}});
            assert_eq!(redacted(value.clone()), (false, value.to_string()));
            assert!(redacted(json!({"password": path})).0);
        }
        for cookie in ["/sid=x", "/k7Qz9fXw2LmP4vRt", "./k7Qz", "dist/types", "/a; b"] {
            assert!(redacted(json!({"cookie": [cookie]})).0, "{cookie}");
        }
    }

    #[test]
    fn json_inside_a_string_is_looked_into() {
        let inner = json!({"ok": 1, "refreshToken": "hunter2"}).to_string();
        let (any, text) = redacted(json!([{"type": "text", "text": json!([inner]).to_string()}]));
        assert!(any && !text.contains("hunter2") && text.contains("ok"), "{text}");
    }

    #[test]
    fn a_key_that_occurs_twice_in_a_string_hides_nothing() {
        let (any, text) = redacted(json!(r#"{"password":"hunter2","password":""}"#));
        assert!(any && !text.contains("hunter2"), "{text}");
        assert!(!redacted(json!(r#"{"a":1,"a":2}"#)).0);
    }

    #[test]
    fn a_name_that_ends_so_says_it_of_what_looks_like_a_credential() {
        for (key, value) in
            [("DB_PASSWORD", "hunter22"), ("githubToken", "k7Qz9fXw2LmP4vRt8Yb"), ("auth", "k7Qz9fXw2LmP=")]
        {
            assert!(redacted(json!({ key: value })).0, "{key}");
        }
        for (key, value) in [
            ("new_password", "New password"),
            ("token", "word"),
            ("nextPageToken", "k7Qz9fXw2LmP4vRt8Yb"),
            ("pass", "リスト項目に<ul>、<ol>の親要素が存在します"),
            ("pass", "元素具有足夠的顏色對比4"),
        ] {
            assert!(!redacted(json!({ key: value })).0, "{key}");
        }
        for key in ["cookies", "cookie_jar", "session_token"] {
            assert!(redacted(json!({"data": [{ key: {"a": "b"} }]})).0, "{key}");
        }
    }

    #[test]
    fn other_keys_stay() {
        let value = json!({"password_changed_at": "today", "passwords": "two", "keys": ["{not json", "{\"a\":  1}"]});
        assert_eq!(redacted(value.clone()), (false, value.to_string()));
    }

    #[test]
    fn a_second_look_changes_nothing() {
        let mut value = json!({"api_key": "hunter2", "text": "{\"password\":\"x\"}"});
        let stamp = stamp();
        assert!(redact(&mut value, &stamp));
        let once = value.clone();
        assert!(!redact(&mut value, &stamp));
        assert_eq!(value, once);
    }
}
