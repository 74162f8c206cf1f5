//! The cost of each event of a batch, and the events that wait for a later sync.

use crate::ledger::{Batch, Ledger};
use crate::proofs::{Effect, Parts};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// The time that an event took.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Cost {
    /// The time of its own step in the transaction.
    pub own: Duration,
    /// Its share of the time of the commit and the sync.
    pub shared: Duration,
}

impl Cost {
    /// Returns the sum.
    pub fn total(self) -> Duration {
        self.own + self.shared
    }
}

/// An event that is committed and not synced yet. Nothing follows from it before [`Ledger::release`].
#[must_use]
#[derive(Debug)]
pub struct Held<E> {
    pub(crate) part: Parts<E>,
    // The number of the last row of its batch.
    pub(crate) seq: i64,
    pub(crate) cost: Cost,
}

impl Ledger {
    /// Returns whether all of these are synced.
    pub fn has_synced<E>(&self, held: &[Held<E>]) -> bool {
        held.iter().all(|held| held.seq <= self.store.synced())
    }

    /// Returns the events that waited for a sync, and syncs first if no sync happened since. If the sync fails, the
    /// events that a person or caller would have heard of count as unwritten.
    pub fn release<E: From<Effect>>(&mut self, held: Vec<Held<E>>) -> Batch<E> {
        let (began, count) = (Instant::now(), u32::try_from(held.len()).unwrap_or(u32::MAX).max(1));
        let is_synced = self.has_synced(&held);
        let synced = if is_synced { Ok(()) } else { self.store.sync().map_err(Arc::new) };
        let took = began.elapsed();
        let commit = if is_synced { Duration::ZERO } else { took };
        let mut done = Batch { unsynced: synced.as_ref().err().cloned(), commit, ..Batch::default() };
        for Held { part, cost, .. } in held {
            match &synced {
                Err(error) if part.is_heard() => done.unwritten.push((part.undo(), Arc::clone(error))),
                Ok(()) | Err(_) => {
                    done.committed.push(part.committed());
                    done.costs.push(Cost { shared: cost.shared + took / count, ..cost });
                }
            }
        }
        done
    }
}

/// Divides the time of a commit by the bytes that each event wrote. If no event wrote any, all get the same share.
pub(crate) fn shares(took: Duration, bytes: &[usize]) -> Vec<Duration> {
    let all: u128 = bytes.iter().map(|bytes| wide(*bytes)).sum();
    let count = wide(bytes.len()).max(1);
    let share = |bytes: &usize| {
        let share = (took.as_nanos() * wide(*bytes)).checked_div(all).unwrap_or(took.as_nanos() / count);
        Duration::from_nanos(u64::try_from(share).unwrap_or(u64::MAX))
    };
    bytes.iter().map(share).collect()
}

fn wide(number: usize) -> u128 {
    u128::try_from(number).unwrap_or(u128::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_commits_time_is_shared_by_the_bytes_that_each_event_wrote() {
        let ms = Duration::from_millis;
        assert_eq!(shares(ms(10), &[100, 300, 0, 600]), [ms(1), ms(3), ms(0), ms(6)]);
        assert_eq!(shares(ms(10), &[0, 0]), [ms(5), ms(5)]);
        assert_eq!(shares(ms(10), &[7]), [ms(10)]);
        assert!(shares(ms(10), &[]).is_empty());
        assert_eq!(shares(Duration::MAX, &[1]), [Duration::from_nanos(u64::MAX)]);
    }
}
