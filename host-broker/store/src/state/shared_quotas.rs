//! Quotas of a day that all callers share, also those on the other hosts of a fleet.
//!
//! The home counts the use of its own callers. In a fleet, the database counts that of all hosts, and each transaction
//! charges it there: see [`crate::fleet`]. A host knows the use of the others as of its last charge. If that was too
//! little, its transaction fails with [`FleetError::UsedUp`](crate::fleet::FleetError::UsedUp), and the next attempt
//! knows more.

use super::counters::{self, Counter};
use crate::{StoreError, Transaction, View};
use shared::Timestamp;

/// The key under which the use of all callers counts.
pub const EVERYONE: &str = "all";

fn counter<'a>((provider, scope): (&'a str, &'a str)) -> Counter<'a> {
    Counter { counted_as: EVERYONE, provider, scope }
}

/// Returns the use of today's quota by all callers, in calls or millionths, as far as it is known.
///
/// # Errors
/// [`StoreError`] if it cannot be read; nothing may then be permitted.
pub fn used(view: &View, quota: (&str, &str), now: Timestamp) -> Result<i64, StoreError> {
    let own = counters::used(view, &counter(quota), now)?;
    Ok(view.shared_use().borrow().used(quota).map_or(own, |of_all| of_all.max(own)))
}

/// Uses this much of today's quota, which permits at most `most`.
///
/// # Errors
/// [`StoreError`], also if the quota does not permit it; the intent must then not be written.
pub fn use_up(tx: &Transaction<'_>, quota: (&str, &str), uses: i64, most: i64) -> Result<(), StoreError> {
    counters::use_up(tx, &counter(quota), uses, Some(most))?;
    tx.view().shared_use().borrow_mut().charge(quota, uses, most);
    Ok(())
}
