//! The provider's own description of an account, for the card.

use serde_json::Value;

/// The members of a description that name the account, and those that are its id.
const NAMES: [&str; 9] = [
    "account_email",
    "email",
    "account_name",
    "name",
    "display_name",
    "preferred_username",
    "username",
    "user_name",
    "login",
];
const IDS: [&str; 6] = ["account_id", "user_id", "sub", "id", "uid", "team_id"];

/// Returns the provider's description in one line: a name and an id, or that it gives neither.
pub(super) fn said(shown: &Value) -> String {
    let of = |members: &[&str]| {
        let is_said = |value: &&Value| value.is_number() || value.as_str().is_some_and(|text| !text.trim().is_empty());
        members.iter().find_map(|member| shown.get(*member).filter(is_said)).map(Value::to_string)
    };
    match (of(&NAMES), of(&IDS)) {
        (Some(name), Some(id)) => format!("name {name}, id {id}"),
        (Some(name), None) => format!("name {name}; it gives no id"),
        (None, Some(id)) => format!("id {id}; it gives no name"),
        (None, None) => "nothing: neither a name nor an id, so it is not known whose account this is".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn account_text_has_the_name_and_id_or_says_that_both_are_absent() {
        for (shown, expected) in [
            (json!({ "email": "ann@example.com", "sub": "42" }), r#"name "ann@example.com", id "42""#),
            (json!({ "account_email": "ann@example.com" }), r#"name "ann@example.com"; it gives no id"#),
            (json!({ "id": 7, "server": "https://a.example" }), "id 7; it gives no name"),
        ] {
            assert_eq!(said(&shown), expected);
        }
        // Other values are no names: a place, a permission, an empty text, an object.
        for shown in [
            json!({}),
            json!({ "server": "https://a.example", "scopes": "read" }),
            json!({ "name": " ", "id": null }),
            json!({ "name": { "first": "Ann" } }),
        ] {
            assert!(said(&shown).starts_with("nothing: neither a name nor an id"), "{shown}");
        }
    }
}
