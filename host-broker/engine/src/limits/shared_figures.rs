//! The shared quotas and their use on this host, for people and metrics.

use super::{MILLION, amount_scope, word};
use policy::shared_quotas::SharedQuotas;
use shared::{Level, Timestamp};
use store::state::shared_quotas;
use store::{StoreError, View};

/// A shared quota.
pub(super) struct Shared {
    pub(super) provider: String,
    pub(super) scope: String,
    /// The number of calls a day; `None` for an amount.
    pub(super) calls: Option<u32>,
    /// The most use of a day: calls, or an amount.
    most: f64,
}

/// Returns each shared quota, by provider.
pub(super) fn all(shared: &SharedQuotas) -> impl Iterator<Item = Shared> {
    shared.tables().flat_map(|(provider, table)| {
        let levels = [Level::Read, Level::Write, Level::Production].into_iter();
        let calls = levels.filter_map(|level| {
            let calls = table.calls(level)?;
            Some((word(level).to_owned(), Some(calls), f64::from(calls)))
        });
        let amounts =
            table.amounts.iter().filter_map(|(action, table)| Some((amount_scope(action), None, table.per_day?)));
        calls.chain(amounts).map(|(scope, calls, most)| Shared { provider: provider.to_string(), scope, calls, most })
    })
}

/// Returns the provider and the scope of each shared quota.
pub fn scopes(shared: &SharedQuotas) -> Vec<(String, String)> {
    all(shared).map(|Shared { provider, scope, .. }| (provider, scope)).collect()
}

/// The use of a shared quota by the callers of this host.
#[derive(Debug, Clone, PartialEq)]
pub struct SharedUse {
    /// The provider, or its namespace.
    pub provider: String,
    /// The quota: a level, or `amount:<action>`.
    pub scope: String,
    /// The use of today: calls, or an amount.
    pub used: f64,
    /// The most use of a day.
    pub most: f64,
}

/// Returns the use of each shared quota by the callers of this host.
///
/// # Errors
/// [`StoreError`] if it cannot be read.
pub fn used(view: &View, now: Timestamp, shared: &SharedQuotas) -> Result<Vec<SharedUse>, StoreError> {
    all(shared)
        .map(|Shared { provider, scope, calls, most }| {
            let used = shared_quotas::own(view, (&provider, &scope), now)?;
            let used = if calls.is_some() { number(used) } else { number(used) / MILLION };
            Ok(SharedUse { provider, scope, used, most })
        })
        .collect()
}

fn number(count: i64) -> f64 {
    #[expect(
        clippy::as_conversions,
        clippy::cast_precision_loss,
        reason = "for people; a day's use is smaller than 2^53"
    )]
    let number = count as f64;
    number
}
