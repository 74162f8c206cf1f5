//! Persons: on whose behalf a group asks, as far as a signed token proves it.
//!
//! A group is known from its directory; the person at the other end of its chat only from a context token that somebody
//! on the host has signed. Nothing else that a request says of a person is ever read. [`issuers`] knows who may sign,
//! [`token`] what a token must be.

pub mod issuers;
pub mod shared_secret;
pub mod token;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use shared::Code;
use std::fmt;
use std::sync::Arc;

/// What a token proves of the person behind a request. It is what is kept of the token, which itself is kept nowhere.
///
/// ```json
/// {"issuer": "ash", "sub": "user-1", "chat_id": "c7", "chat_type": "private"}
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Person {
    /// Who says so: a name of the configuration.
    pub issuer: String,
    /// Who it is, among the persons whom the issuer knows.
    pub sub: String,
    /// The chat in which the person asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chat_id: Option<String>,
    /// What kind of chat that is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chat_type: Option<ChatType>,
    /// The thread within it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thread_id: Option<String>,
    /// The messenger that the chat belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    /// The conversation that the agent is in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_key: Option<String>,
    /// What the person is called there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_username: Option<String>,
    /// And what the person chose to be shown as.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_display_name: Option<String>,
    /// The token's own name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jti: Option<String>,
}

/// A kind of chat.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ChatType {
    /// Of one person with the agent.
    Private,
    /// Of several.
    Group,
    /// Which many read.
    Channel,
}

impl ChatType {
    /// All of them.
    const ALL: [Self; 3] = [Self::Private, Self::Group, Self::Channel];

    /// The one of this word.
    pub fn of(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.word() == word)
    }

    /// The word in tokens and grants.
    pub fn word(self) -> &'static str {
        match self {
            Self::Private => "private",
            Self::Group => "group",
            Self::Channel => "channel",
        }
    }
}

impl Person {
    /// Somebody of whom nothing more is known.
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

/// On whose behalf a request is made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Behalf {
    /// A person's.
    Person(Arc<Person>),
    /// The group's own, because nothing proves anything else.
    Nobody(Unproven),
}

/// Why nobody is known to stand behind a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unproven {
    /// There is no token.
    Missing,
    /// Its time is over.
    Expired,
    /// It is not to be believed, for this reason, which quotes nothing of it.
    Invalid(&'static str),
}

impl Behalf {
    /// There is no token.
    pub const NOBODY: Self = Self::Nobody(Unproven::Missing);

    /// As it was stored: the person as JSON, or nothing.
    ///
    /// # Errors
    /// It is no person.
    pub fn stored(person: Option<&str>) -> Result<Self, serde_json::Error> {
        let person = person.map(serde_json::from_str).transpose()?;
        Ok(person.map_or(Self::NOBODY, |person| Self::Person(Arc::new(person))))
    }

    /// The person.
    pub fn person(&self) -> Option<&Person> {
        match self {
            Self::Person(person) => Some(person),
            Self::Nobody(_) => None,
        }
    }

    /// The person's name in the ledger.
    pub fn key(&self) -> Option<String> {
        self.person().map(Person::key)
    }
}

impl Unproven {
    /// The code of a call that needs a person.
    pub fn code(self) -> Code {
        match self {
            Self::Missing => Code::ContextTokenMissing,
            Self::Expired => Code::ContextTokenExpired,
            Self::Invalid(_) => Code::ContextTokenInvalid,
        }
    }

    /// Why, in a sentence for who asks.
    pub fn reason(self) -> String {
        match self {
            Self::Missing | Self::Expired => self.code().meaning().to_owned(),
            Self::Invalid(why) => format!("The context token does not prove on whose behalf this call is made: {why}."),
        }
    }
}

impl fmt::Display for Unproven {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing => f.write_str("there is no context token"),
            Self::Expired => f.write_str("the context token has expired"),
            Self::Invalid(why) => write!(f, "the context token is not valid: {why}"),
        }
    }
}

/// What only a token may say. In the parameters of a call on a person's behalf it is a fault.
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

/// The parameters that say who the person is, which only the token may.
pub fn claimed_in(params: &Map<String, Value>) -> impl Iterator<Item = &str> {
    params.keys().map(String::as_str).filter(|name| IDENTITY.contains(name))
}
