//! Declarations: the properties of an action that decisions look at.

use crate::{ChatType, DestinationKind};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use shared::{Action, Code, Level, Provider};
use std::time::Duration;

/// The approval that each call of an action needs beside the level.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Tier {
    /// None.
    Auto,
    /// The rules decide.
    Rules,
    /// A person approves.
    Human,
}

impl Tier {
    /// Returns the word in configuration and snapshot.
    pub fn word(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Rules => "rules",
            Self::Human => "human",
        }
    }
}

/// The exposure of an action. An action without a declaration has all three.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Exposure {
    /// It returns untrusted content.
    pub untrusted: bool,
    /// It reads private data.
    pub sensitive: bool,
    /// It sends data out.
    pub egress: bool,
}

impl Exposure {
    /// All three: the default of an action that declares nothing.
    pub const ALL: Self = Self { untrusted: true, sensitive: true, egress: true };
    /// None.
    pub const NONE: Self = Self { untrusted: false, sensitive: false, egress: false };

    /// Returns its words in configuration and rules.
    pub fn words(self) -> Vec<&'static str> {
        let words = [(self.untrusted, "untrusted"), (self.sensitive, "sensitive"), (self.egress, "egress")];
        words.into_iter().filter_map(|(is, word)| is.then_some(word)).collect()
    }

    /// Returns the union of both.
    pub fn and(self, other: Self) -> Self {
        Self {
            untrusted: self.untrusted || other.untrusted,
            sensitive: self.sensitive || other.sensitive,
            egress: self.egress || other.egress,
        }
    }
}

/// One kind of exposure, as configuration and definitions name it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Exposes {
    /// It returns untrusted content.
    Untrusted,
    /// It reads private data.
    Sensitive,
    /// It sends data out.
    Egress,
}

impl Exposes {
    /// Returns the word in the configuration.
    pub fn word(self) -> &'static str {
        match self {
            Self::Untrusted => "untrusted",
            Self::Sensitive => "sensitive",
            Self::Egress => "egress",
        }
    }

    /// Returns the exposure of exactly the listed kinds.
    pub fn all(listed: &[Self]) -> Exposure {
        Exposure {
            untrusted: listed.contains(&Self::Untrusted),
            sensitive: listed.contains(&Self::Sensitive),
            egress: listed.contains(&Self::Egress),
        }
    }
}

/// The catalogue entry of an action.
#[derive(Debug, Clone, PartialEq)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts of an action")]
pub struct Declaration {
    /// The provider.
    pub provider: Provider,
    /// The action.
    pub action: Action,
    /// The minimum level. A call may need a higher one.
    pub level: Level,
    /// A stricter tier than that of the level.
    pub tier: Option<Tier>,
    /// The description for agents: one or two sentences.
    pub description: String,
    /// The schema of its parameters.
    pub input_schema: Value,
    /// The schema of its result.
    pub output_schema: Option<Value>,
    /// Whether a repeat is harmless.
    pub idempotent: bool,
    /// Its exposure.
    pub exposes: Exposure,
    /// The kind of its destinations, if each call names all places to which its data goes. An owner's own destinations are
    /// no egress channel.
    pub destinations: Option<DestinationKind>,
    /// Its own time limit, instead of the configured timeout.
    pub deadline: Option<Duration>,
    /// Whether it only proposes a change or withdraws a proposal. It needs no approval; the change does.
    pub proposes: bool,
    /// Whether results stay unchanged because callers write them back. Only the broker's own secrets are redacted.
    pub verbatim: bool,
    /// Whether its result has a one-time value, such as a password. A person approves each call, and a call of it changes
    /// nothing.
    pub reveals: bool,
    /// The kinds of chats in which it is allowed. Empty allows all, and callers without a chat.
    pub chat_types: Vec<ChatType>,
    /// Whether it needs a linked account of the person.
    pub needs_account: bool,
    /// The parameters that may vary under a standing approval; all others stay as they were on the card.
    pub may_vary: Vec<String>,
}

impl Declaration {
    /// Makes the declaration of an action that states nothing else: it exposes everything and is not idempotent.
    pub fn new(provider: Provider, action: Action, level: Level) -> Self {
        Self {
            provider,
            action,
            level,
            tier: None,
            description: String::new(),
            input_schema: Value::Null,
            output_schema: None,
            idempotent: false,
            exposes: Exposure::ALL,
            destinations: None,
            deadline: None,
            proposes: false,
            verbatim: false,
            reveals: false,
            chat_types: Vec::new(),
            needs_account: false,
            may_vary: Vec::new(),
        }
    }
}

/// An invalid parameter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParamError {
    /// The JSON pointer (RFC 6901) of the parameter; empty for the whole object.
    pub pointer: String,
    /// The error, without the value.
    pub fault: String,
}

/// The refusal of a guardrail, or of a call that was withdrawn before it began.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// `guardrail`, `repo_not_allowed`, `range_too_wide` or `cancelled`.
    pub code: Code,
    /// One sentence of public parts.
    pub reason: String,
}
