//! Credential keys: members of objects whose name says that their value is a credential.

mod embedded;
mod inside;
mod pairs;

use self::inside::{Inside, Judged};
use self::pairs::Part;
use super::values;
use secrets::names;
use secrets::search::mark::Stamp;
use serde_json::Value;

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
                any |= items.get_mut(at).is_some_and(|item| replace(item, kind, Judged::ByName, stamp));
            }
            items.iter_mut().fold(any, |any, item| redact(item, stamp) | any)
        }
        Value::Object(entries) => {
            let mut any = false;
            let found = pairs::in_object(entries.iter().map(|(key, item)| (key.as_str(), item)));
            let mut found = found.into_iter().peekable();
            let is_table = is_table(entries.keys().map(String::as_str));
            for (at, (key, item)) in entries.iter_mut().enumerate() {
                let by_pair = found.next_if(|(found, _)| *found == at).map(|(_, kind)| (kind, Judged::ByName));
                any |= match credential(key, item, is_table).or(by_pair) {
                    Some((kind, judged)) => replace(item, kind, judged, stamp),
                    None => redact(item, stamp),
                };
            }
            any
        }
    }
}

/// Returns the kind of credential that this member is, and how the values in it are judged. Its whole name decides, or
/// the end of its name and its value.
fn credential<T: Part>(key: &str, value: &T, is_table: bool) -> Option<(&'static str, Judged)> {
    if let Some(name) = names::whole(key) {
        let is_package =
            name.kind.starts_with("cookie") && (value.text().is_some_and(inside::is_version) || is_place(value));
        let is_file = name.kind == "privatekey" && value.text().is_some_and(is_file);
        let judged = if is_table && value.text().is_some() { Judged::ByLook } else { Judged::ByName };
        return (!is_package && !is_file).then_some((name.kind, judged));
    }
    if let Some(name) = names::ending(key) {
        let is_one = value.text().is_some_and(|text| values::in_json(text, name.sort));
        return is_one.then_some((name.kind, Judged::ByName));
    }
    let name = names::plural(key).filter(|_| value.items().iter().any(|item| item.text().is_some()))?;
    Some((name.kind, Judged::ByLook))
}

/// Replaces what is a credential in the value of such a member. Says whether there was one.
fn replace(value: &mut Value, kind: &str, judged: Judged, stamp: &Stamp) -> bool {
    let text = match value {
        _ if judged == Judged::Apart => return redact(value, stamp),
        Value::Null | Value::Bool(_) => return false,
        Value::String(text) if holds_none(text, stamp) => return false,
        Value::String(text) if judged.spares(text) => return redact(value, stamp),
        Value::Number(_) if judged == Judged::ByLook => return false,
        Value::String(text) => std::mem::take(text),
        Value::Number(number) => number.to_string(),
        Value::Array(items) => {
            return items.iter_mut().fold(false, |any, item| replace(item, kind, judged, stamp) | any);
        }
        Value::Object(entries) => {
            let members: Vec<_> = entries.iter().map(|(name, member)| (name.as_str(), member)).collect();
            let inside = Inside::of(&members);
            return entries.iter_mut().fold(false, |any, (name, member)| {
                let judged = inside.judged(name, member, judged);
                replace(member, kind, judged, stamp) | any
            });
        }
    };
    *value = Value::String(stamp.mark(kind, &text));
    true
}

/// Checks whether a text is no credential: it is empty, a mark, a reference, a placeholder or encrypted.
fn holds_none(text: &str, stamp: &Stamp) -> bool {
    text.is_empty()
        || stamp.is_mark(text)
        || values::is_reference(text)
        || values::is_stand_in(text)
        || ENCRYPTED.iter().any(|start| text.starts_with(start))
}

/// Checks whether an object with these names gives words for words, as translations do: `{"Sign in": "Entrar", …}`.
fn is_table<'a>(names: impl Iterator<Item = &'a str>) -> bool {
    const SENTENCES_MIN: usize = 2;
    names.filter(|name| name.contains(' ')).take(SENTENCES_MIN).count() == SENTENCES_MIN
}

/// Checks whether this is the path of a file with a key.
fn is_file(text: &str) -> bool {
    let is_of_path = |byte: u8| byte.is_ascii_alphanumeric() || b"./_-~\\".contains(&byte);
    [".pem", ".key", ".p12", ".pfx", ".der"].iter().any(|end| text.ends_with(end)) && text.bytes().all(is_of_path)
}

/// Checks whether this is the path of such a package, or of a page about it.
fn is_place<T: Part>(value: &T) -> bool {
    value.text().is_some_and(values::is_path) || !value.items().is_empty() && value.items().iter().all(is_place)
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
    fn an_object_under_a_credential_key_keeps_its_form() {
        for value in [
            json!({"password": {"type": ["string", "null"]}}),
            json!({"access_token": {"oneOf": [{"type": "string", "pattern": "^x+$"}, {"type": "integer", "description":
                "The duration in seconds"}], "title": "Lifespan"}}),
            json!({"client_secret": {"get_secret": "agent_key_private"}}),
            json!({"password": {"secretKeyRef": {"name": "db", "key": "password"}}}),
            json!({"password": {"Fn::GetAtt": ["Database", "Password"]}}),
            json!({"password": {"description": "The password of the user", "required": true}}),
            json!({"cookie": {"version": "0.4.2", "resolved": "https://registry.npmjs.org/cookie/-/cookie-0.4.2.tgz",
                "integrity": "sha512-aSWTXFzaKWkvHO1Ny", "engines": {"node": ">= 0.6"}}}),
            json!({"private_key": "agents/resources/key.pem"}),
            json!({"Password": "Senha", "Sign in": "Entrar", "Reset password?": "Redefinir senha?"}),
            json!(["password", "relationship"]),
            json!({"tokens": ["identifier", "string"]}),
        ] {
            assert_eq!(redacted(value.clone()), (false, value.to_string()));
            let text = json!(value.to_string());
            assert_eq!(redacted(text.clone()), (false, text.to_string()));
        }
        let held = json!({"password": {"type": "string", "default": "hunter2", "properties": {"x": {"value": 12345}}}});
        let (any, text) = redacted(held.clone());
        assert!(any && text.contains("\"type\":\"string\"") && !text.contains("hunter2") && !text.contains("12345"));
        let (_, inner) = redacted(json!(held.to_string()));
        assert_eq!(inner, json!(text).to_string());
        for value in [
            json!({"client_secret": {"get_secret": "hunter22"}}),
            json!({"cookie": {"version": "0.4.2", "sid": "hunter22"}}),
            json!({"password": {"description": "hunter22"}}),
            json!({"private_key": "hunter22.pem!"}),
            json!({"password": "hunter22", "Sign in": "Entrar", "Reset password?": "x y"}),
            json!({"tokens": ["hunter22k7Qz9fXw"]}),
        ] {
            let (any, text) = redacted(value);
            assert!(any && !text.contains("hunter22"), "{text}");
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
