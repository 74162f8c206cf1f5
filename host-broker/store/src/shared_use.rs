//! The use of shared quotas on all hosts of a fleet, as far as one host knows it.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// A quota: the provider and the scope.
pub(crate) type Quota<'a> = (&'a str, &'a str);
type Key = (String, String);

/// The time for which a host decides with the use that it knows. So it soon learns of a row that an administrator has
/// corrected.
const KNOWN: Duration = Duration::from_secs(60);
/// The time for which a quota that another host holds is not tried again.
const HELD: Duration = Duration::from_secs(10);
/// The longest time for which the charges of a batch wait for other hosts. All events of the batch wait.
const WAIT_MS: i64 = 3_000;
/// The same if other hosts have held a quota in this time.
const SECOND_WAIT_MS: i64 = 500;
const HELD_BEFORE: Duration = Duration::from_secs(60);
/// The same while a quota is not tried again. A batch can charge many that other hosts hold, and learns of one at a time.
const NEXT_WAIT_MS: i64 = 200;

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
    /// The time until the quota begins again, from the question on.
    pub(crate) left: Duration,
}

/// The use of shared quotas. The one writer of a host of a fleet has one.
#[derive(Debug, Default)]
pub(crate) struct SharedUse {
    /// The use, the time of the question, and the end of the day. No two clocks are compared.
    counted: BTreeMap<Key, (i64, Instant, Instant)>,
    /// The quotas that other hosts hold, and the time of the next attempt.
    held: BTreeMap<Key, Instant>,
    /// The charges of the open transaction.
    charged: BTreeMap<Key, SharedCharge>,
}

impl SharedUse {
    /// Returns the use of a quota, with the charges of the open transaction. A use that is not known counts as 0, because the
    /// database decides.
    pub(crate) fn used(&self, quota: Quota<'_>) -> i64 {
        let key = owned(quota);
        let charged = self.charged.get(&key).map_or(0, |charge| charge.uses);
        self.known(&key).map_or(0, |(used, _)| used).saturating_add(charged)
    }

    /// Returns the time until a quota begins again, if it is known.
    pub(crate) fn left(&self, quota: Quota<'_>) -> Option<Duration> {
        self.known(&owned(quota)).map(|(_, left)| left)
    }

    fn known(&self, key: &Key) -> Option<(i64, Duration)> {
        let (used, asked, end) = self.counted.get(key)?;
        let left = end.saturating_duration_since(Instant::now());
        (!left.is_zero() && asked.elapsed() < KNOWN).then_some((*used, left))
    }

    /// Returns the time after which a quota that another host holds can be charged again.
    pub(crate) fn held(&self, quota: Quota<'_>) -> Option<Duration> {
        let left = self.held.get(&owned(quota))?.saturating_duration_since(Instant::now());
        (!left.is_zero()).then_some(left)
    }

    /// Returns the longest time for which the charges of a batch wait for other hosts, in milliseconds.
    pub(crate) fn wait_ms(&self) -> i64 {
        // The stored time is that of the next attempt.
        let now = Instant::now();
        let last = self.held.values().max();
        match last {
            Some(next) if *next > now => NEXT_WAIT_MS,
            Some(next) if next.elapsed() < HELD_BEFORE => SECOND_WAIT_MS,
            Some(_) | None => WAIT_MS,
        }
    }

    /// Notes a charge of the open transaction. Returns whether the known use permits it.
    pub(crate) fn charge(&mut self, quota: Quota<'_>, uses: i64, most: i64) -> bool {
        if self.used(quota).saturating_add(uses) > most {
            return false;
        }
        let (provider, scope) = owned(quota);
        let none = || SharedCharge { provider: provider.clone(), scope: scope.clone(), uses: 0, most };
        let charge = self.charged.entry((provider.clone(), scope.clone())).or_insert_with(none);
        charge.uses = charge.uses.saturating_add(uses);
        charge.most = charge.most.min(most);
        true
    }

    /// Returns the charges of the open transaction, in one order: two hosts must not wait for each other.
    pub(crate) fn charges(&self) -> Vec<SharedCharge> {
        self.charged.values().filter(|charge| charge.uses > 0).cloned().collect()
    }

    /// Notes the end of the transaction.
    pub(crate) fn end(&mut self) {
        self.charged.clear();
    }

    /// Notes the use that the database has counted. It was asked at this time.
    pub(crate) fn note(&mut self, counted: Counted, asked: Instant) {
        let Counted { provider, scope, used, left } = counted;
        self.counted.insert((provider, scope), (used, asked, asked + left));
    }

    /// Notes that another host holds a quota.
    pub(crate) fn note_held(&mut self, quota: Quota<'_>) {
        self.held.insert(owned(quota), Instant::now() + HELD);
    }
}

fn owned((provider, scope): Quota<'_>) -> Key {
    (provider.to_owned(), scope.to_owned())
}
