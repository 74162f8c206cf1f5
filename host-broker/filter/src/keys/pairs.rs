//! Credentials whose name and value are two strings of JSON: the headers and cookies of an HTTP archive, the
//! environment of a container, the export of a browser's cookies, the arguments of a command.
//!
//! A name beside a value is weaker than the name of a member: forms and descriptions of APIs have it, too. So the value
//! must look like a credential, as it must in a text. Only the value of a whole cookie needs no look.

use super::values;
use secrets::names::{self, Name};
use serde_json::Value;

/// The kind of a cookie's value: that of a member which holds cookies.
const COOKIE: &str = "cookies";

/// The names of members that hold the name of a value, in small letters.
const NAME_MEMBERS: [&str; 4] = ["name", "key", "header", "variable"];

/// Members that describe a cookie, in small letters and without separators. A browser's database has `host`.
const COOKIE_MEMBERS: [&str; 8] =
    ["httponly", "ishttponly", "samesite", "secure", "issecure", "expires", "expirationdate", "path"];

/// A value, of which strings and lists of strings matter.
pub(super) trait Part: Sized {
    /// Returns the text of a string.
    fn text(&self) -> Option<&str>;

    /// Returns the items of a list.
    fn items(&self) -> &[Self];

    /// Returns the members of an object.
    fn members(&self) -> Option<Vec<(&str, &Self)>>;
}

impl Part for Value {
    fn text(&self) -> Option<&str> {
        self.as_str()
    }

    fn items(&self) -> &[Self] {
        self.as_array().map_or(&[], Vec::as_slice)
    }

    fn members(&self) -> Option<Vec<(&str, &Self)>> {
        self.as_object().map(|members| members.iter().map(|(name, member)| (name.as_str(), member)).collect())
    }
}

/// Returns the positions of the members that are credentials by the members beside them, in order, and their kinds.
///
/// A name may occur twice. Then every pair of a name and a value counts, because readers differ in which they take.
pub(super) fn in_object<'a, T: Part + 'a>(
    entries: impl Iterator<Item = (&'a str, &'a T)> + Clone,
) -> Vec<(usize, &'static str)> {
    let is_value = |key: &str| key.eq_ignore_ascii_case("value");
    let is_name = |key: &str| NAME_MEMBERS.iter().any(|name| key.eq_ignore_ascii_case(name));
    let mut names = entries.clone().filter(|(key, _)| is_name(key)).filter_map(|(_, name)| name.text()).peekable();
    if names.peek().is_none() || !entries.clone().any(|(key, _)| is_value(key)) {
        return Vec::new();
    }
    let is_cookie = is_cookie(entries.clone().map(|(key, _)| key));
    // Each kind of name is tried once, however many names there are.
    let mut kinds: Vec<Named> = names.filter_map(Named::of).collect();
    kinds.sort_by_key(|named| (named.listed.kind, named.is_whole));
    kinds.dedup();
    let kind = |value: &T| {
        if is_cookie { Some(COOKIE) } else { kinds.iter().find_map(|named| named.credential(value)) }
    };
    let values = entries.enumerate().filter(|(_, (key, _))| is_value(key));
    values.filter_map(|(at, (_, value))| Some((at, kind(value)?))).collect()
}

/// Returns the positions of the items that are credentials by the items before them, and their kinds.
///
/// Node's `rawHeaders` and lists of two have a name at each even position. Arguments have it anywhere.
pub(super) fn in_items<T: Part>(items: &[T]) -> Vec<(usize, &'static str)> {
    let are_pairs = items.len().is_multiple_of(2) && items.iter().all(|item| item.text().is_some());
    let pair = |(at, (name, value)): (usize, (&T, &T))| {
        let name = name.text()?;
        let is_name = are_pairs && at.is_multiple_of(2) || name.starts_with("--");
        // `["password", "relationship"]` is a list of words, in which no look at a name helps.
        let is_told = |named: Named| value.text().is_some_and(|text| values::in_json(text, named.listed.sort));
        let named = Named::of(name).filter(|named| is_name && (name.starts_with("--") || is_told(*named)));
        named?.credential(value).map(|kind| (at + 1, kind))
    };
    items.iter().zip(items.iter().skip(1)).enumerate().filter_map(pair).collect()
}

/// A name beside a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Named {
    listed: Name,
    is_whole: bool,
}

impl Named {
    fn of(name: &str) -> Option<Self> {
        Some(Self { listed: names::ending(name)?, is_whole: names::whole(name).is_some() })
    }

    /// Returns the kind of credential that a value of this name is.
    fn credential<T: Part>(self, value: &T) -> Option<&'static str> {
        let Self { listed, is_whole } = self;
        let is_one =
            |text: &str| values::in_json(text, listed.sort) || is_whole && values::in_setting(text, listed.sort);
        let mut texts = value.text().into_iter().chain(value.items().iter().filter_map(T::text));
        texts.any(is_one).then_some(listed.kind)
    }
}

/// Returns whether an object with a name and a value is a cookie.
fn is_cookie<'a>(keys: impl Iterator<Item = &'a str>) -> bool {
    let letters: Vec<String> = keys.map(|key| key.replace('_', "").to_ascii_lowercase()).collect();
    let has = |wanted: &[&str]| letters.iter().any(|key| wanted.contains(&key.as_str()));
    has(&["domain"]) && has(&COOKIE_MEMBERS) || has(&["host"]) && has(&["httponly", "ishttponly", "samesite"])
}

#[cfg(test)]
mod tests {
    use super::super::tests::redacted;
    use serde_json::json;

    const SECRET: &str = "k7Qz9fXw2LmP4vRt";

    /// Attack (Providers and modules): A result has credentials of others whose name and value are
    /// two strings: headers, environments, exported cookies.
    /// Defence: `filter::keys` judges a value by the name beside it.
    #[test]
    fn a_value_beside_its_name_is_judged_by_that_name() {
        let cookie = format!("sid={SECRET}");
        for value in [
            json!({"name": "Cookie", "value": cookie}),
            json!({"key": "Set-Cookie", "value": format!("{cookie}; Path=/")}),
            json!({"name": "Authorization", "value": format!("Bearer {SECRET}")}),
            json!({"spec": {"containers": [{"env": [{"name": "DB_PASSWORD", "value": SECRET}]}]}}),
            json!({"Name": "API_KEY", "Value": SECRET, "Type": "PLAINTEXT"}),
            json!({"key": "X-Api-Key", "value": SECRET, "type": "text", "enabled": true}),
            json!({"name": "Set-Cookie", "value": ["a=b", cookie]}),
            json!({"name": "password", "value": SECRET}),
            json!(["Set-Cookie", cookie]),
            json!([["host", "x"], ["set-cookie", cookie]]),
            json!({"rawHeaders": ["Host", "x", "Cookie", cookie, "Accept", "*/*"]}),
            json!(["psql", "--password", SECRET]),
            json!({"text": json!([{"name": "Cookie", "value": cookie}]).to_string()}),
        ] {
            let (any, text) = redacted(value);
            assert!(any && !text.contains(SECRET), "{text}");
        }
        assert!(redacted(json!({"name": "password", "value": "wossname"})).0);
    }

    #[test]
    fn a_form_a_schema_and_a_list_of_words_stay() {
        for value in [
            json!({"name": "password", "value": "required"}),
            json!({"name": "password", "type": "string", "value": "At least 8 characters"}),
            json!({"key": "password", "value": "Passwort"}),
            json!({"name": "token", "value": "access"}),
            json!({"name": "Cookie", "value": "theme=dark"}),
            json!({"name": "DB_PASSWORD", "value": "${DB_PASSWORD}"}),
            json!({"name": "DB_PASSWORD", "valueFrom": {"secretKeyRef": {"name": "db", "key": "password1"}}}),
            json!({"name": "Authorization", "value": "Bearer {{token}}"}),
            json!({"name": "password", "value": null}),
            json!({"name": "colour", "value": SECRET}),
            json!({"name": ["password"], "value": SECRET}),
            json!(["username", "password"]),
            json!(["password", "password_confirmation", "token", "tokens"]),
            json!(["user", "password", SECRET, "name"]),
            json!(["user", "password", SECRET]),
            json!(["cookie", 1]),
            json!({"name": "www", "value": "198.51.100.7", "domain": "example.com", "ttl": 300}),
            json!({"name": "x", "value": "y", "path": "/"}),
        ] {
            assert_eq!(redacted(value.clone()), (false, value.to_string()));
        }
    }

    /// Attack: see `a_value_beside_its_name_is_judged_by_that_name`.
    #[test]
    fn every_export_of_a_browsers_cookies_loses_their_values() {
        for value in [
            json!([{"name": "sid", "value": "hunter2", "domain": "x", "path": "/", "httpOnly": true, "sameSite": "Lax"}]),
            json!([{"domain": "x", "expirationDate": 1.5, "hostOnly": true, "name": "sid", "value": "hunter2"}]),
            json!([{"Name": "sid", "Value": "hunter2", "Domain": "", "HttpOnly": true}]),
            json!([{"key": "sid", "value": "hunter2", "domain": "x", "secure": false}]),
            json!([{"name": "sid", "value": "hunter2", "host": "x", "is_http_only": 1}]),
        ] {
            let (any, text) = redacted(value);
            assert!(any && !text.contains("hunter2") && text.contains("sid"), "{text}");
        }
        let value = json!([{"name": "sid", "value": "", "domain": "x", "secure": true}]);
        assert_eq!(redacted(value.clone()), (false, value.to_string()));
    }
}
