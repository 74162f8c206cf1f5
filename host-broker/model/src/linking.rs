//! An account link in progress: the OAuth flow that a person began, as it is stored.

use crate::Ciphertext;
use shared::{AccountRef, Timestamp};
use std::time::Duration;

/// A flow that can be continued.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Flow {
    /// The state that goes back to the provider.
    pub sealed: Ciphertext,
    /// The `state` that the redirect address must carry.
    pub expected: Option<String>,
    /// The interval between polls of the provider; `None` if it is not polled.
    pub pace: Option<Duration>,
    /// The time of the last poll.
    pub polled_at: Option<Timestamp>,
    /// The end of the flow.
    pub expires_at: Timestamp,
}

impl Flow {
    /// Returns whether the provider may be polled now.
    pub fn is_due(&self, now: Timestamp) -> bool {
        let due = |pace| self.polled_at.is_none_or(|polled| now.since(polled) >= pace);
        self.pace.is_some_and(due)
    }
}

/// The state of a flow, for the person who began it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LinkSessionState {
    /// There is no such flow of this person in this group, or it was used.
    Missing,
    /// The flow has expired.
    Expired,
    /// The flow can be continued.
    Open(Box<Flow>),
    /// The flow is done, and an approval request about the account was sent.
    Asked {
        /// The provider's name of the account.
        account: AccountRef,
        /// The state of the approval request: `waiting`, `approved`, `denied`, `expired` or `cancelled`.
        state: String,
    },
}
