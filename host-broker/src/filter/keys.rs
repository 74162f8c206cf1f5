//! Credential keys: members of objects whose name says that their value is a credential.

use super::mark::Stamp;
use serde_json::Value;

/// The names, without separators and in lower case.
const NAMES: [&str; 10] = [
    "accesstoken",
    "refreshtoken",
    "idtoken",
    "clientsecret",
    "cookie",
    "setcookie",
    "authorization",
    "apikey",
    "password",
    "privatekey",
];

/// How deep JSON is looked for inside strings: upstream servers like to send their results as text.
const EMBEDDED_MAX: usize = 3;

/// The kind of a string that two readers of JSON would read differently.
const AMBIGUOUS: &str = "ambiguous json";

/// The kinds that [`redact`] marks.
pub(super) fn kinds() -> impl Iterator<Item = &'static str> {
    NAMES.into_iter().chain([AMBIGUOUS])
}

/// Replaces the value of every credential key, at any depth, also in strings that are JSON themselves.
/// Says whether there was one.
///
/// `null`, `true`, `false` and empty strings hold no credential and stay.
pub(super) fn redact(value: &mut Value, stamp: &Stamp) -> bool {
    redact_in(value, stamp, 0)
}

fn redact_in(value: &mut Value, stamp: &Stamp, embedded: usize) -> bool {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
        Value::String(text) => match redact_embedded(text, stamp, embedded) {
            Some(redacted) => {
                *text = redacted;
                true
            }
            None => false,
        },
        Value::Array(items) => items.iter_mut().fold(false, |any, item| redact_in(item, stamp, embedded) | any),
        Value::Object(entries) => {
            let mut any = false;
            for (key, item) in entries.iter_mut() {
                any |= match credential_key(key) {
                    Some(kind) => redact_whole(item, kind, stamp),
                    None => redact_in(item, stamp, embedded),
                };
            }
            any
        }
    }
}

fn redact_whole(value: &mut Value, kind: &str, stamp: &Stamp) -> bool {
    let text = match value {
        Value::Null | Value::Bool(_) => return false,
        Value::String(text) if text.is_empty() || stamp.is_mark(text) => return false,
        Value::String(text) => std::mem::take(text),
        Value::Number(_) | Value::Array(_) | Value::Object(_) => value.to_string(),
    };
    *value = Value::String(stamp.mark(kind, &text));
    true
}

/// The text with its credentials replaced, if it is JSON and has any. It is written anew only then.
fn redact_embedded(text: &str, stamp: &Stamp, embedded: usize) -> Option<String> {
    if embedded >= EMBEDDED_MAX || !text.trim_start().starts_with(['{', '[', '"']) {
        return None;
    }
    let mut value: Value = serde_json::from_str(text).ok()?;
    if redact_in(&mut value, stamp, embedded + 1) {
        return Some(value.to_string());
    }
    // Of a key that occurs twice only the last was looked at.
    let hides = mentions_credential(text) && shared::json::parse(text.as_bytes()).is_err();
    hides.then(|| stamp.mark(AMBIGUOUS, text))
}

fn mentions_credential(text: &str) -> bool {
    let letters: String = letters(text).collect();
    NAMES.into_iter().any(|name| letters.contains(name))
}

/// The listed name that this key is a spelling of: camel, Pascal, kebab or snake case.
fn credential_key(key: &str) -> Option<&'static str> {
    NAMES.into_iter().find(|name| letters(key).eq(name.chars()))
}

fn letters(text: &str) -> impl Iterator<Item = char> {
    text.chars().filter(|c| !matches!(c, '_' | '-' | ' ')).map(|c| c.to_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn stamp() -> Stamp {
        let mut stamp = Stamp::new([3; 32]);
        kinds().for_each(|kind| stamp.learn(kind));
        stamp
    }

    fn redacted(mut value: Value) -> (bool, String) {
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
    fn whatever_hangs_under_a_credential_key_goes() {
        for value in [json!(12345), json!(["hunter2"]), json!({"x": "hunter2"}), json!("hunter2")] {
            let (any, text) = redacted(json!({"cookie": value}));
            assert!(any && !text.contains("hunter2") && !text.contains("12345"), "{text}");
        }
        for value in [json!(null), json!(false), json!("")] {
            assert_eq!(redacted(json!({ "password": value })), (false, json!({ "password": value }).to_string()));
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
    fn other_keys_stay() {
        let value = json!({"password_changed_at": "today", "cookies": "two", "keys": ["{not json", "{\"a\":  1}"]});
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
