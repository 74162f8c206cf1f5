//! The claims of an ID token about the owner of the account.

use super::Tokens;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use oauth2::TokenResponse as _;
use serde_json::{Map, Value, json};
use shared::AccountRef;

/// Returns the claims of an ID token.
///
/// It comes from the server itself, over a connection that proves it, so its signature adds nothing (`OpenID Connect
/// Core 1.0`, section 3.1.3.7). Only the person who decides sees the claims.
pub(super) fn claims(token: &str) -> Map<String, Value> {
    let body = token.split('.').nth(1).and_then(|body| URL_SAFE_NO_PAD.decode(body).ok());
    body.and_then(|body| serde_json::from_slice(&body).ok()).unwrap_or_default()
}

/// Returns the name of the account: from the server, or else from the person.
pub(super) fn named(claims: &Map<String, Value>, hint: Option<&str>) -> AccountRef {
    // A person who may claim any address could take the name of a linked account.
    let is_unproven = claims.get("email_verified") == Some(&Value::Bool(false));
    let names = ["email", "preferred_username", "sub"].into_iter().filter(|name| !(is_unproven && *name == "email"));
    let said = names.filter_map(|name| claims.get(name)?.as_str());
    let mut names = said.chain(hint).filter_map(|name| name.parse().ok());
    #[expect(clippy::expect_used, reason = "letters satisfy the grammar")]
    names.next().unwrap_or_else(|| "default".parse().expect("an account's name"))
}

/// Returns the address of the account, from the server alone. Without one, the name is no address: `default`.
pub(super) fn address(claims: &Map<String, Value>) -> AccountRef {
    let only =
        ["email", "email_verified"].iter().filter_map(|name| Some(((*name).to_owned(), claims.get(*name)?.clone())));
    named(&only.collect(), None)
}

/// Returns the description for the person who decides.
pub(super) fn shown(claims: &Map<String, Value>, resource: &str, tokens: &Tokens) -> Map<String, Value> {
    let mut shown = Map::from_iter([("server".to_owned(), json!(resource))]);
    for name in ["email", "name", "preferred_username", "sub", "iss"] {
        shown.extend(claims.get(name).filter(|value| value.is_string()).map(|value| (name.to_owned(), value.clone())));
    }
    shown.extend(claims.get("email_verified").map(|is| ("email_verified".to_owned(), json!(is == &Value::Bool(true)))));
    let scopes = tokens.scopes().map(|scopes| scopes.iter().map(|scope| scope.as_str()).collect::<Vec<_>>().join(" "));
    shown.extend(scopes.map(|scopes| ("scopes".to_owned(), json!(scopes))));
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(body: &[u8]) -> String {
        format!("e30.{}.x", URL_SAFE_NO_PAD.encode(body))
    }

    #[test]
    fn an_account_is_called_what_the_server_says_or_else_what_the_person_said() {
        let of = |body: &str, hint| named(&claims(&token(body.as_bytes())), hint).to_string();
        assert_eq!(of(r#"{"sub":"1","email":"ann@example.com"}"#, Some("work")), "ann@example.com");
        assert_eq!(of(r#"{"sub":"1","email":"Ann <ann@example.com>"}"#, Some("work")), "1");
        assert_eq!(of(r#"{"sub":"auth0|1","email":7}"#, Some("work")), "work");
        assert_eq!(of(r#"{"sub":"../../etc"}"#, Some("my mail")), "default");
        assert_eq!(of("[]", None), "default");
        // A claim that the server has not proved is no name.
        assert_eq!(of(r#"{"sub":"1","email":"ann@example.com","email_verified":false}"#, None), "1");
        assert_eq!(of(r#"{"sub":"1","email":"ann@example.com","email_verified":true}"#, None), "ann@example.com");
    }

    #[test]
    fn an_address_is_what_the_server_says_and_nothing_else() {
        let of = |body: &str| address(&claims(&token(body.as_bytes()))).to_string();
        assert_eq!(of(r#"{"sub":"1","email":"ann@example.com"}"#), "ann@example.com");
        for other in [
            r#"{"sub":"ceo@example.com"}"#,
            r#"{"preferred_username":"ceo@example.com"}"#,
            r#"{"email":"ceo@example.com","email_verified":false}"#,
            r#"{"email":"ceo@example.com","email_verified":false,"preferred_username":"ceo@example.com"}"#,
        ] {
            assert_eq!(of(other), "default", "{other}");
        }
    }

    #[test]
    fn texts_that_are_no_id_token_have_no_claims() {
        for odd in ["", "a", "a.b.c", "..", "a.!!.c", &token(b"\xff\xfe"), &token(b"{\"sub\":")] {
            assert!(claims(odd).is_empty(), "{odd}");
        }
    }
}
