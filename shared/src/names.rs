//! Names: parsed once at the edge, then never a bare string again.
//!
//! A name that exists satisfies its grammar, so it may be part of a path, a table key or a sentence
//! without further checks.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;
use std::str::FromStr;

/// The rules that distinguish one kind of name from another.
pub trait Grammar {
    /// The kind of the name, for messages: `group`.
    const WHAT: &'static str;
    /// The grammar as an anchored regular expression, for schemas and messages.
    const PATTERN: &'static str;
    /// Checks whether the text satisfies the grammar.
    fn accepts(text: &str) -> bool;
}

/// A text that satisfies grammar `G`.
pub struct Name<G>(Box<str>, PhantomData<fn() -> G>);

/// The text does not satisfy the grammar.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not a valid {what}: it must match {pattern}")]
pub struct BadName {
    what: &'static str,
    pattern: &'static str,
}

/// A group's name, which is also its directory's: `developer`.
pub type Group = Name<GroupGrammar>;
/// A provider's name, `github`, or a namespaced capability's, `person.email`.
pub type Provider = Name<ProviderGrammar>;
/// An action's name within its provider: `merge_pr`.
pub type Action = Name<ActionGrammar>;
/// The key that matches replies to requests: `ext-1707900000000-a1b2c3`.
pub type RequestId = Name<RequestIdGrammar>;
/// A governance task: `gov-123-abc`.
pub type TaskId = Name<TaskIdGrammar>;
/// A named condition that a task must have passed: `Security`.
pub type Gate = Name<GateGrammar>;
/// The key with which a client marks a repeated call as the same call.
pub type IdempotencyKey = Name<IdempotencyKeyGrammar>;

/// A person's account at a capability, as its provider calls it: `work`.
pub type AccountRef = Name<AccountRefGrammar>;
/// The handle of a link session: `caf_gog.email_` and 32 hexadecimal digits that cannot be guessed.
pub type FlowId = Name<FlowIdGrammar>;

/// Grammar of [`Group`].
#[derive(Debug)]
pub struct GroupGrammar;
/// Grammar of [`Provider`].
#[derive(Debug)]
pub struct ProviderGrammar;
/// Grammar of [`Action`]; upstream tools keep their own names, so it is wider than the native actions need.
#[derive(Debug)]
pub struct ActionGrammar;
/// Grammar of [`RequestId`].
#[derive(Debug)]
pub struct RequestIdGrammar;
/// Grammar of [`TaskId`].
#[derive(Debug)]
pub struct TaskIdGrammar;
/// Grammar of [`Gate`].
#[derive(Debug)]
pub struct GateGrammar;
/// Grammar of [`IdempotencyKey`].
#[derive(Debug)]
pub struct IdempotencyKeyGrammar;
/// Grammar of [`AccountRef`].
#[derive(Debug)]
pub struct AccountRefGrammar;
/// Grammar of [`FlowId`].
#[derive(Debug)]
pub struct FlowIdGrammar;

impl Grammar for GroupGrammar {
    const WHAT: &'static str = "group";
    const PATTERN: &'static str = "^[a-z0-9][a-z0-9_-]{0,63}$";
    fn accepts(text: &str) -> bool {
        is_part(text)
    }
}

impl Grammar for ProviderGrammar {
    const WHAT: &'static str = "provider";
    const PATTERN: &'static str = r"^[a-z0-9][a-z0-9_-]{0,63}(\.[a-z0-9][a-z0-9_-]{0,63})?$";
    fn accepts(text: &str) -> bool {
        match text.split_once('.') {
            Some((namespace, name)) => is_part(namespace) && is_part(name),
            None => is_part(text),
        }
    }
}

impl Grammar for ActionGrammar {
    const WHAT: &'static str = "action";
    const PATTERN: &'static str = "^[A-Za-z0-9_.-]{1,128}$";
    fn accepts(text: &str) -> bool {
        (1..=128).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"_.-".contains(&b))
    }
}

impl Grammar for RequestIdGrammar {
    const WHAT: &'static str = "request_id";
    const PATTERN: &'static str = "^[A-Za-z0-9][A-Za-z0-9_-]{0,127}$";
    fn accepts(text: &str) -> bool {
        text.len() <= 128
            && text.as_bytes().first().is_some_and(u8::is_ascii_alphanumeric)
            && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-".contains(&b))
    }
}

impl Grammar for TaskIdGrammar {
    const WHAT: &'static str = "task_id";
    const PATTERN: &'static str = "^[A-Za-z0-9][A-Za-z0-9_.-]{0,127}$";
    fn accepts(text: &str) -> bool {
        text.len() <= 128
            && text.as_bytes().first().is_some_and(u8::is_ascii_alphanumeric)
            && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"_.-".contains(&b))
    }
}

impl Grammar for GateGrammar {
    const WHAT: &'static str = "gate";
    const PATTERN: &'static str = "^[A-Za-z][A-Za-z0-9_-]{0,63}$";
    fn accepts(text: &str) -> bool {
        text.len() <= 64
            && text.as_bytes().first().is_some_and(u8::is_ascii_alphabetic)
            && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-".contains(&b))
    }
}

impl Grammar for IdempotencyKeyGrammar {
    const WHAT: &'static str = "idempotency_key";
    const PATTERN: &'static str = r"^[^\x00-\x1f\x7f]{1,128}$";
    fn accepts(text: &str) -> bool {
        (1..=128).contains(&text.chars().count()) && !text.chars().any(|c| c.is_ascii_control())
    }
}

impl Grammar for AccountRefGrammar {
    const WHAT: &'static str = "account_ref";
    const PATTERN: &'static str = "^[A-Za-z0-9._@+-]{1,128}$";
    fn accepts(text: &str) -> bool {
        (1..=128).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"._@+-".contains(&b))
    }
}

impl Grammar for FlowIdGrammar {
    const WHAT: &'static str = "flow_id";
    const PATTERN: &'static str = r"^caf_[a-z0-9][a-z0-9_-]{0,63}(\.[a-z0-9][a-z0-9_-]{0,63})?_[0-9a-f]{32}$";
    fn accepts(text: &str) -> bool {
        let parts = text.strip_prefix("caf_").and_then(|rest| rest.rsplit_once('_'));
        parts.is_some_and(|(capability, handle)| {
            ProviderGrammar::accepts(capability)
                && handle.len() == 32
                && handle.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
        })
    }
}

impl Name<FlowIdGrammar> {
    /// A handle at this capability, of these random bytes.
    pub fn of(capability: &Provider, random: [u8; 16]) -> Self {
        Self(format!("caf_{capability}_{}", base16ct::lower::encode_string(&random)).into(), PhantomData)
    }

    /// At which capability.
    ///
    /// ```
    /// let flow = shared::FlowId::of(&"gog.mail_box".parse().unwrap(), [0xab; 16]);
    /// assert_eq!(flow.as_str(), "caf_gog.mail_box_abababababababababababababababab");
    /// assert_eq!(flow.capability().as_str(), "gog.mail_box");
    /// ```
    pub fn capability(&self) -> Provider {
        let parts = self.0.strip_prefix("caf_").and_then(|rest| rest.rsplit_once('_'));
        Name(parts.map_or("", |(capability, _)| capability).into(), PhantomData)
    }
}

fn is_part(text: &str) -> bool {
    let word = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    text.len() <= 64 && text.bytes().next().is_some_and(word) && text.bytes().all(|b| word(b) || b == b'_' || b == b'-')
}

impl Name<ProviderGrammar> {
    /// Checks whether it is a capability of a person: a name in two parts, `person.email`.
    pub fn is_namespaced(&self) -> bool {
        self.0.contains('.')
    }

    /// Its namespace: `person` of `person.email`.
    pub fn namespace(&self) -> Option<&str> {
        self.0.split_once('.').map(|(namespace, _)| namespace)
    }

    /// Checks whether a statement about this name covers the other: it is the same name, or this is its namespace.
    ///
    /// ```
    /// let name = |text: &str| text.parse::<shared::Provider>().unwrap();
    /// assert!(name("person").covers(&name("person.email")));
    /// assert!(!name("person.email").covers(&name("person.calendar")));
    /// assert!(!name("person").covers(&name("personal.email")));
    /// ```
    pub fn covers(&self, other: &Self) -> bool {
        self == other || other.namespace() == Some(self.as_str())
    }
}

impl<G: Grammar> Name<G> {
    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl<G: Grammar> FromStr for Name<G> {
    type Err = BadName;

    fn from_str(text: &str) -> Result<Self, BadName> {
        if G::accepts(text) {
            Ok(Self(text.into(), PhantomData))
        } else {
            Err(BadName { what: G::WHAT, pattern: G::PATTERN })
        }
    }
}

impl<G> Clone for Name<G> {
    fn clone(&self) -> Self {
        Self(self.0.clone(), PhantomData)
    }
}

impl<G> PartialEq for Name<G> {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}

impl<G> Eq for Name<G> {}

impl<G> PartialOrd for Name<G> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<G> Ord for Name<G> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.cmp(&other.0)
    }
}

impl<G> std::hash::Hash for Name<G> {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.0.hash(state);
    }
}

impl<G> fmt::Debug for Name<G> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl<G> fmt::Display for Name<G> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl<G> Serialize for Name<G> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de, G: Grammar> Deserialize<'de> for Name<G> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Cow::<'de, str>::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

impl<G: Grammar> JsonSchema for Name<G> {
    fn schema_name() -> Cow<'static, str> {
        G::WHAT.into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "pattern": G::PATTERN })
    }
}

/// The MCP tool name of every action of a catalogue, in the order given.
///
/// A tool name is `<provider>__<action>` in `[A-Za-z0-9_-]{1,64}`: other characters become `_`;
/// a name that would be too long, or that two actions would share, ends in 8 characters of the pair's digest.
/// The actions of files go by their own names ([`FILE_TOOLS`]).
pub fn tool_names<'a>(pairs: impl IntoIterator<Item = (&'a Provider, &'a Action)>) -> Vec<String> {
    let pairs: Vec<_> = pairs.into_iter().collect();
    let plain: Vec<String> = pairs.iter().map(|(provider, action)| plain_tool_name(provider, action)).collect();
    let mut uses: BTreeMap<&str, usize> = BTreeMap::new();
    for name in &plain {
        *uses.entry(name).or_default() += 1;
    }
    pairs
        .iter()
        .zip(&plain)
        .map(|((provider, action), name)| {
            let shared = uses.get(name.as_str()).is_some_and(|n| *n > 1);
            if name.len() > TOOL_NAME_MAX || shared { digested_tool_name(name, provider, action) } else { name.clone() }
        })
        .collect()
}

const TOOL_NAME_MAX: usize = 64;

/// The actions of provider `files` whose tools agents know by their own names.
pub const FILE_TOOLS: [&str; 7] =
    ["read_file", "list_dir", "write_file", "apply_patch", "apply_proposal", "list_proposals", "withdraw_proposal"];

fn plain_tool_name(provider: &Provider, action: &Action) -> String {
    if provider.as_str() == "files" && FILE_TOOLS.contains(&action.as_str()) {
        return action.to_string();
    }
    let allowed = |c: char| if c.is_ascii_alphanumeric() || c == '_' || c == '-' { c } else { '_' };
    format!("{provider}__{action}").chars().map(allowed).collect()
}

fn digested_tool_name(name: &str, provider: &Provider, action: &Action) -> String {
    // The pair's digest, not the name's: `a.b` + `c` and `a_b` + `c` print alike.
    let digest = crate::digest::Digest::of(format!("{provider}\n{action}").as_bytes()).hex();
    let stem: String = name.chars().take(TOOL_NAME_MAX - 9).collect();
    let tail: String = digest.chars().take(8).collect();
    format!("{stem}_{tail}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn yes<G: Grammar>(text: &str) {
        assert!(text.parse::<Name<G>>().is_ok(), "{} {text:?}", G::WHAT);
    }

    fn no<G: Grammar>(text: &str) {
        assert!(text.parse::<Name<G>>().is_err(), "{} {text:?}", G::WHAT);
    }

    #[test]
    fn groups_are_safe_as_directory_names() {
        yes::<GroupGrammar>("developer");
        yes::<GroupGrammar>("0-a_b");
        yes::<GroupGrammar>(&"a".repeat(64));
        for text in ["", ".", "..", "a/b", "A", "-a", "_a", "a.b", "a\0", "ä", " a", "a\n", &"a".repeat(65)] {
            no::<GroupGrammar>(text);
        }
    }

    #[test]
    fn a_provider_may_have_one_namespace() {
        yes::<ProviderGrammar>("cloud-logs");
        yes::<ProviderGrammar>("person.email");
        for text in ["", ".", "a.", ".a", "a.b.c", "a..b", "person/email"] {
            no::<ProviderGrammar>(text);
        }
    }

    #[test]
    fn request_ids_never_leave_their_directory() {
        yes::<RequestIdGrammar>("ext-1707900000000-a1b2c3");
        for text in ["", "../x", "a.b", "a/b", "-a", "_a", "a b", "a\0b", &"a".repeat(129)] {
            no::<RequestIdGrammar>(text);
        }
    }

    #[test]
    fn tool_names_are_short_unique_and_stable() {
        let p = |s: &str| s.parse::<Provider>().unwrap();
        let a = |s: &str| s.parse::<Action>().unwrap();
        let pairs = [
            (p("github"), a("merge_pr")),
            (p("person.email"), a("send")),
            (p("person_email"), a("send")),
            (p("x"), a(&"n".repeat(100))),
            (p("files"), a("read_file")),
            (p("files"), a("read")),
            (p("file"), a("read_file")),
        ];
        let names = tool_names(pairs.iter().map(|(p, a)| (p, a)));
        assert_eq!(names[0], "github__merge_pr");
        assert_eq!(names[4..], ["read_file", "files__read", "file__read_file"]);
        assert_ne!(names[1], names[2]);
        assert!(names[1].starts_with("person_email__send_"));
        assert!(
            names.iter().all(|n| n.len() <= 64 && n.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-".contains(&b)))
        );
        assert_eq!(names, tool_names(pairs.iter().map(|(p, a)| (p, a))));
    }
}
