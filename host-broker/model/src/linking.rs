//! An account link in progress: the OAuth flow that a person began, as it is stored.

use crate::Ciphertext;
use shared::{AccountRef, Timestamp};
use std::time::Duration;

/// A flow that can be gone on with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Flow {
    /// What goes back to the provider.
    pub sealed: Ciphertext,
    /// The `state` that the address must come back with.
    pub expected: Option<String>,
    /// How often the provider may be asked how far it is; `None` where it is not asked.
    pub pace: Option<Duration>,
    /// When it was asked last.
    pub polled_at: Option<Timestamp>,
    /// When its time is over.
    pub expires_at: Timestamp,
}

impl Flow {
    /// Whether the provider may be asked now how far it is.
    pub fn is_due(&self, now: Timestamp) -> bool {
        let due = |pace| self.polled_at.is_none_or(|polled| now.since(polled) >= pace);
        self.pace.is_some_and(due)
    }
}

/// Where a flow stands, for whoever began it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Standing {
    /// There is no such flow of this person in this group, or it was used.
    Missing,
    /// Its time is over.
    Expired,
    /// It can be gone on with.
    Open(Box<Flow>),
    /// It is done, and a person is, or was, asked about the account.
    Asked {
        /// What the provider calls the account.
        account: AccountRef,
        /// What became of the question: `waiting`, `approved`, `denied`, `expired` or `cancelled`.
        state: String,
    },
}
