//! The use of shared quotas on all hosts of a fleet, as far as one host knows it.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// A quota: the provider and the scope.
type Key = (String, String);

/// The charge of one transaction to a shared quota.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SharedCharge {
    pub(crate) provider: String,
    pub(crate) scope: String,
    /// The amount: calls, or millionths of an amount.
    pub(crate) uses: i64,
    /// The most use of a day.
    pub(crate) most: i64,
}

/// The use of a shared quota on all hosts, as the fleet's database has counted it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Counted {
    pub(crate) provider: String,
    pub(crate) scope: String,
    pub(crate) used: i64,
    /// The time until the day of the database ends.
    pub(crate) left: Duration,
}

/// The use of shared quotas.
#[derive(Debug, Default)]
pub(crate) struct SharedUse {
    /// The use, and the end of its day. No two clocks are compared.
    counted: BTreeMap<Key, (i64, Instant)>,
    /// The charges of the open transaction.
    charged: BTreeMap<Key, SharedCharge>,
}

impl SharedUse {
    /// Returns the use of a quota, with the charges of the open transaction; `None` if no database has counted it today.
    pub(crate) fn used(&self, (provider, scope): (&str, &str)) -> Option<i64> {
        let key = (provider.to_owned(), scope.to_owned());
        let (used, end) = self.counted.get(&key)?;
        let charged = self.charged.get(&key).map_or(0, |charge| charge.uses);
        (Instant::now() < *end).then(|| used.saturating_add(charged))
    }

    /// Notes a charge of the open transaction.
    pub(crate) fn charge(&mut self, (provider, scope): (&str, &str), uses: i64, most: i64) {
        let key = (provider.to_owned(), scope.to_owned());
        let none = || SharedCharge { provider: provider.to_owned(), scope: scope.to_owned(), uses: 0, most };
        let charge = self.charged.entry(key).or_insert_with(none);
        charge.uses = charge.uses.saturating_add(uses);
        charge.most = charge.most.min(most);
    }

    /// Returns the charges of the open transaction, in one order: two hosts must not wait for each other.
    pub(crate) fn charges(&self) -> Vec<SharedCharge> {
        self.charged.values().filter(|charge| charge.uses > 0).cloned().collect()
    }

    /// Notes the end of the transaction.
    pub(crate) fn end(&mut self) {
        self.charged.clear();
    }

    /// Notes the use that the database has counted.
    pub(crate) fn note(&mut self, counted: Counted) {
        let end = Instant::now() + counted.left;
        self.counted.insert((counted.provider, counted.scope), (counted.used, end));
    }
}
