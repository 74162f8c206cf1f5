//! Callers: the subject of a request, known from its channel and never from its text.

use crate::TokenId;
use serde::{Deserialize, Serialize};
use shared::flow::GrantId;
use shared::{Group, Provider};
use std::fmt;
use std::sync::LazyLock;

/// The subject of a request. It is known from the channel of the request, never from its text.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Caller {
    /// A group, known from its directory.
    Group(Group),
    /// A person at the command line, known from the peer of the control socket.
    Person(String),
    /// An external agent, known from its bearer token.
    External(GrantId),
    /// A remote operator, known from an operator token.
    Operator(TokenId),
    /// The broker itself, for probes.
    Broker,
}

impl Caller {
    /// Returns the group, if the caller is one.
    pub fn group(&self) -> Option<&Group> {
        match self {
            Self::Group(group) => Some(group),
            Self::Person(_) | Self::External(_) | Self::Operator(_) | Self::Broker => None,
        }
    }

    /// Returns the group whose profile, rules, limits and kill switch apply: the caller's own, or the [group](external)
    /// of all external agents.
    pub fn policy_group(&self) -> Option<&Group> {
        match self {
            Self::Group(group) => Some(group),
            Self::External(_) => Some(external()),
            Self::Person(_) | Self::Operator(_) | Self::Broker => None,
        }
    }

    /// Parses the form in the ledger. Returns `None` for callers whose calls are never resumed.
    pub fn stored(text: &str) -> Option<Self> {
        let (kind, name) = text.split_once(':')?;
        match kind {
            "group" => name.parse().ok().map(Self::Group),
            "outside" => name.parse().ok().map(Self::External),
            _ => None,
        }
    }
}

/// Returns the group name of all external agents: `external`. The configuration cannot use it.
#[expect(clippy::expect_used, reason = "letters satisfy the grammar")]
pub fn external() -> &'static Group {
    static EXTERNAL: LazyLock<Group> = LazyLock::new(|| "external".parse().expect("a name"));
    &EXTERNAL
}

impl fmt::Display for Caller {
    /// `group:developer`, `person:alice`, `outside:fgrnt_3f9a…`, `operator:optk_0c1d…`, `broker`: the form in the
    /// ledger.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Group(group) => write!(f, "group:{group}"),
            Self::Person(name) => write!(f, "person:{name}"),
            Self::External(grant) => write!(f, "outside:{grant}"),
            Self::Operator(token) => write!(f, "operator:{token}"),
            Self::Broker => f.write_str("broker"),
        }
    }
}

/// The scope of a kill switch. In a document: `"all"`, `{"provider": "github"}` or `{"group": "developer"}`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KillScope {
    /// Every call.
    All,
    /// Every call to this provider.
    Provider(Provider),
    /// Every call of this group.
    Group(Group),
}

impl fmt::Display for KillScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All => f.write_str("all"),
            Self::Provider(provider) => write!(f, "provider:{provider}"),
            Self::Group(group) => write!(f, "group:{group}"),
        }
    }
}
