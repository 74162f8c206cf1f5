//! The publication of the policy with which a host of a fleet decides, and the one that it makes.

use model::Publication;
use std::time::{Duration, Instant};

/// The time after which a host tries again whether its publication is in force. It hears of a new one earlier.
const TRIED_AGAIN: Duration = Duration::from_secs(1);
/// The time after which a host tries again to publish. It is longer than the other waits of a batch, which is decided again
/// in between.
const PUBLISHED_AGAIN: Duration = Duration::from_secs(10);

/// The publication of the one writer.
#[derive(Debug, Default)]
pub(crate) struct PublicationUse {
    /// Absent, the policy is that of the home.
    known: Option<Publication>,
    /// Whether another publication is known to be in force.
    is_superseded: bool,
    /// Whether the open transaction writes an intent, so that it commits only if the publication is in force.
    is_used: bool,
    /// The time of the next attempt, if the publication was not in force.
    stale_until: Option<Instant>,
    /// The time of the next attempt to publish, if other hosts still used the former publication.
    used_until: Option<Instant>,
}

impl PublicationUse {
    /// Decides with this publication from now on.
    pub(crate) fn follow(&mut self, known: Option<Publication>) {
        *self = Self { known, used_until: self.used_until, ..Self::default() };
    }

    /// Notes whether another publication is known to be in force.
    pub(crate) fn note_superseded(&mut self, is_superseded: bool) {
        self.is_superseded = is_superseded;
    }

    /// Returns the publication, if it was not in force at the last attempt, or if another one is known to be.
    pub(crate) fn stale(&self) -> Option<&Publication> {
        let is_stale = self.is_superseded || self.stale_until.is_some_and(|until| Instant::now() < until);
        self.known.as_ref().filter(|_| is_stale)
    }

    /// Notes that the open transaction writes an intent.
    pub(crate) fn note_intent(&mut self) {
        self.is_used = true;
    }

    /// Returns the publication that must be in force when the open transaction commits.
    pub(crate) fn needed(&self) -> Option<&Publication> {
        self.known.as_ref().filter(|_| self.is_used)
    }

    /// Notes that the publication is not in force.
    pub(crate) fn note_stale(&mut self) {
        self.stale_until = Some(Instant::now() + TRIED_AGAIN);
    }

    /// Returns whether other hosts still used the former publication of this one at the last attempt to publish.
    pub(crate) fn is_used_elsewhere(&self) -> bool {
        self.used_until.is_some_and(|until| Instant::now() < until)
    }

    /// Notes that other hosts still use the former publication of this one.
    pub(crate) fn note_used_elsewhere(&mut self) {
        self.used_until = Some(Instant::now() + PUBLISHED_AGAIN);
    }

    /// Notes the end of the transaction.
    pub(crate) fn end(&mut self) {
        self.is_used = false;
    }
}
