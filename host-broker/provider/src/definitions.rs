//! The definitions of a server, which can change while the broker runs.
//!
//! An operator accepts the definitions of a server once ([`PinnedDefinitions`]). The source compares each later listing
//! with them. A tool that differs is withdrawn until an operator accepts the new definitions.

use crate::contract::Operation;
use crate::pinned_definitions::PinnedDefinitions;
use filter::inspect::{Reason, Verdict};
use serde::Serialize;
use serde_json::{Map, Value};
use shared::digest::Digest;
use shared::{Action, Level, Provider};
use std::any::Any;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;

/// How long a server may take until it answers for the first time: some are fetched, compiled or unpacked first.
pub const LISTING_TIMEOUT: Duration = Duration::from_secs(60);

/// The digest of each accepted tool.
pub type Pinned = BTreeMap<Action, Digest>;

/// The tools that cannot be called, each with the reason. The reasons are the broker's own words.
pub type Withdrawn = BTreeMap<Action, &'static str>;

/// The result of a listing: the definitions, or the reason why there are none.
pub type Listing = Result<PinnedDefinitions, String>;

/// A listing that changed which tools are withdrawn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Changed {
    /// The provider.
    pub provider: Provider,
    /// The withdrawn tools.
    pub withdrawn: Withdrawn,
    /// The value of [`DefinitionSource::epoch`] at the time of the listing.
    pub epoch: u64,
}

/// The state of a server, for operators.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Health {
    /// `idle`, `starting`, `up` or `down`.
    pub state: &'static str,
    /// The number of starts.
    pub starts: u64,
    /// The reason of the last failed start.
    pub fault: Option<String>,
    /// The withdrawn tools.
    pub withdrawn: Withdrawn,
}

/// Returns the state of a server as words for people.
pub fn described(state: &str, starts: u64, fault: Option<&str>) -> String {
    let mut words = match state {
        "up" if starts > 1 => format!("running, started {starts} times"),
        "up" => "running".to_owned(),
        "idle" => "ready, starts with the first call".to_owned(),
        other => other.to_owned(),
    };
    if let Some(fault) = fault {
        words.push_str("; did not start: ");
        words.push_str(fault);
    }
    words
}

/// Receives each listing that changes which tools are withdrawn, with the definitions of the server.
pub type OnChange = Box<dyn Fn(Changed, &dyn ListedDefinitions) + Send + Sync>;

/// The definitions that a server lists now.
pub trait ListedDefinitions {
    /// Returns the document that an operator would accept: `{"tools": […]}`.
    ///
    /// # Errors
    /// The reason why the definitions cannot be accepted.
    fn document(&self) -> Result<Map<String, Value>, String>;

    /// Returns everything that the server wrote, to be searched for secrets.
    fn text(&self) -> Value;

    /// Returns the actions that would be offered with these definitions, and the level of each. `flagged` holds the
    /// accepted names of flagged tools.
    ///
    /// # Errors
    /// The reason why an action cannot be offered.
    fn offered(&self, flagged: &BTreeSet<String>) -> Result<Vec<(Action, Level)>, String>;

    /// Returns a sentence for each definition that looks like an attack on an agent.
    fn warnings(&self) -> Vec<String>;
}

/// A server whose definitions can change while the broker runs.
pub trait DefinitionSource: Any + Send + Sync {
    /// Compares the tools with these digests from now on. Open connections stay open.
    fn accept(&self, pinned: Pinned);

    /// Returns how often other definitions were accepted.
    fn epoch(&self) -> u64;

    /// Returns the state of the server.
    fn health(&self) -> Health;

    /// Sets the receiver of changes. Only the first call has an effect.
    fn on_change(&self, receiver: OnChange);

    /// Returns an operation that lists the definitions with the server's secrets, and the receiver of the result. The
    /// catalogue does not contain the operation; the broker runs it as its own read.
    fn list(self: Arc<Self>) -> (Arc<dyn Operation>, oneshot::Receiver<Listing>);
}

/// Returns a sentence if an agent could obey the definition `of`; `None` if it is clean.
pub fn warning(of: &str, verdict: &Verdict) -> Option<String> {
    let why: Vec<&str> = verdict.reasons().iter().map(Reason::sentence).collect();
    (!verdict.is_clean()).then(|| format!("{of} looks {}: {}", verdict.word(), why.join(" ")))
}
