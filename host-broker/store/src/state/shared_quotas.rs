//! Quotas of a day that all callers share, also those on the other hosts of a fleet.
//!
//! A home counts the use of its own callers. In a fleet, the database counts that of all hosts and decides: each
//! transaction charges it there ([`crate::fleet`]). A host knows the use of the others as of its last charge. If that was
//! too little, its transaction fails with [`FleetError::UsedUp`](crate::fleet::FleetError::UsedUp), and the next attempt
//! knows more.

use super::counters::{self, Counter};
use crate::{StoreError, Transaction, View};
use shared::Timestamp;
use std::time::Duration;

/// The key under which the use of all callers counts.
pub const EVERYONE: &str = "all";

/// The state of a shared quota.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SharedQuota {
    /// The use of today by all callers, in calls or millionths, as far as it is known.
    pub used: i64,
    /// The time until the quota begins again.
    pub left: Duration,
    /// The time after which the quota can be charged again, if another host holds it.
    pub held: Option<Duration>,
}

fn counter<'a>((provider, scope): (&'a str, &'a str)) -> Counter<'a> {
    Counter { counted_as: EVERYONE, provider, scope }
}

/// Returns the state of a shared quota. Only the writer of a host of a fleet knows the use of other hosts.
///
/// # Errors
/// [`StoreError`] if it cannot be read; nothing may then be permitted.
pub fn find(view: &View, quota: (&str, &str), now: Timestamp) -> Result<SharedQuota, StoreError> {
    let left = counters::tomorrow(now).since(now);
    match view.shared_use() {
        Some(shared) => {
            let shared = shared.borrow();
            let left = shared.left(quota).unwrap_or(left);
            Ok(SharedQuota { used: shared.used(quota), left, held: shared.held(quota) })
        }
        None => Ok(SharedQuota { used: own(view, quota, now)?, left, held: None }),
    }
}

/// Returns the use of today's quota by the callers of this host, in calls or millionths.
///
/// # Errors
/// [`StoreError`] if it cannot be read.
pub fn own(view: &View, quota: (&str, &str), now: Timestamp) -> Result<i64, StoreError> {
    counters::used(view, &counter(quota), now)
}

/// Uses this much of today's quota, which permits at most `most`.
///
/// # Errors
/// [`StoreError`], also if the quota does not permit it; the intent must then not be written.
pub fn use_up(tx: &Transaction<'_>, quota: (&str, &str), uses: i64, most: i64) -> Result<(), StoreError> {
    let shared = tx.view().shared_use();
    if shared.is_some_and(|shared| !shared.borrow_mut().charge(quota, uses, most)) {
        return Err(StoreError::Conflict { what: "quota" });
    }
    // In a fleet, this is the use of the host, and the database decides.
    let most = if shared.is_some() { None } else { Some(most) };
    counters::use_up(tx, &counter(quota), uses, most).map(drop)
}
