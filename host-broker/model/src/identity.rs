//! Persons: the subject that a signed context token proves.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use shared::Code;
use std::fmt;
use std::sync::Arc;

/// The claims of a context token about a person. The broker stores these claims and never the token.
///
/// ```json
/// {"issuer": "ash", "sub": "user-1", "chat_id": "c7", "chat_type": "private"}
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Person {
    /// The issuer, by its name in the configuration.
    pub issuer: String,
    /// The person's id at the issuer.
    pub sub: String,
    /// The chat of the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chat_id: Option<String>,
    /// The kind of that chat.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chat_type: Option<ChatType>,
    /// The thread within the chat.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thread_id: Option<String>,
    /// The messenger of the chat.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    /// The conversation of the agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_key: Option<String>,
    /// The person's user name there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_username: Option<String>,
    /// The person's display name there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_display_name: Option<String>,
    /// The id of the token (RFC 7519, `jti`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jti: Option<String>,
}

/// A kind of chat.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ChatType {
    /// One person and the agent.
    Private,
    /// Several persons.
    Group,
    /// A broadcast channel.
    Channel,
}

impl ChatType {
    /// All kinds.
    const ALL: [Self; 3] = [Self::Private, Self::Group, Self::Channel];

    /// Parses the word.
    pub fn of(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.word() == word)
    }

    /// Returns the word in tokens and grants.
    pub fn word(self) -> &'static str {
        match self {
            Self::Private => "private",
            Self::Group => "group",
            Self::Channel => "channel",
        }
    }
}

impl Person {
    /// Makes a person with no further claims.
    pub fn new(issuer: String, sub: String) -> Self {
        Self {
            issuer,
            sub,
            chat_id: None,
            chat_type: None,
            thread_id: None,
            provider: None,
            session_key: None,
            source_username: None,
            source_display_name: None,
            jti: None,
        }
    }

    /// The person's name in the ledger and in every key: `ash:user-1`. Issuers' names have no colon, so no two persons
    /// share one.
    pub fn key(&self) -> String {
        format!("{}:{}", self.issuer, self.sub)
    }
}

/// The person on whose behalf a request is made, or the reason why none is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Subject {
    /// A person.
    Person(Arc<Person>),
    /// No person: the group itself.
    Nobody(TokenError),
}

/// The reason why a request has no person.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TokenError {
    /// The request has no token.
    Missing,
    /// The token has expired.
    Expired,
    /// The token is invalid. The reason quotes nothing of it.
    Invalid(&'static str),
}

impl Subject {
    /// A request without a token.
    pub const NOBODY: Self = Self::Nobody(TokenError::Missing);

    /// Parses the stored form: the person as JSON, or nothing.
    ///
    /// # Errors
    /// The text is not a person.
    pub fn stored(person: Option<&str>) -> Result<Self, serde_json::Error> {
        let person = person.map(serde_json::from_str).transpose()?;
        Ok(person.map_or(Self::NOBODY, |person| Self::Person(Arc::new(person))))
    }

    /// Returns the person.
    pub fn person(&self) -> Option<&Person> {
        match self {
            Self::Person(person) => Some(person),
            Self::Nobody(_) => None,
        }
    }

    /// Returns the person's name in the ledger.
    pub fn key(&self) -> Option<String> {
        self.person().map(Person::key)
    }
}

impl TokenError {
    /// Returns the code of a call that needs a person.
    pub fn code(self) -> Code {
        match self {
            Self::Missing => Code::ContextTokenMissing,
            Self::Expired => Code::ContextTokenExpired,
            Self::Invalid(_) => Code::ContextTokenInvalid,
        }
    }

    /// Returns the reason, as a sentence for the caller.
    pub fn reason(self) -> String {
        match self {
            Self::Missing | Self::Expired => self.code().meaning().to_owned(),
            Self::Invalid(why) => format!("The context token is not valid for this call: {why}."),
        }
    }
}

impl fmt::Display for TokenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing => f.write_str("there is no context token"),
            Self::Expired => f.write_str("the context token has expired"),
            Self::Invalid(why) => write!(f, "the context token is not valid: {why}"),
        }
    }
}

/// Claims that only a token may make. As parameters of a call for a person they are errors.
const IDENTITY: [&str; 11] = [
    "user_id",
    "effective_user_id",
    "sub",
    "chat_id",
    "chat_type",
    "thread_id",
    "session_key",
    "source_username",
    "source_display_name",
    "context_token",
    "account_ref",
];

/// Returns the parameters that claim an identity.
pub fn claimed_in(params: &Map<String, Value>) -> impl Iterator<Item = &str> {
    params.keys().map(String::as_str).filter(|name| IDENTITY.contains(name))
}
