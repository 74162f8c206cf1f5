//! Requests that changed nothing and have no row of their own.
//!
//! The first request of a caller, kind and code has its own row. That row stands for the others of the next minute; a
//! later row gives their number. So no caller can fill the disk that all callers need. A crash loses the count of the
//! last minute at most, never the row that stands for it.

use crate::Receipt;
use crate::StoreError;
use crate::Transaction;
use crate::ledger::chain::{Draft, RowKind};
use serde_json::json;
use shared::{Code, Timestamp};
use std::collections::BTreeMap;
use std::time::Duration;

const WINDOW: Duration = Duration::from_secs(60);

/// The key of a count: the caller, the kind of row, and the code.
pub(crate) type Key = (String, &'static str, Option<Code>);

/// The running counts.
#[derive(Debug, Default)]
pub struct Folding(BTreeMap<Key, Fold>);

#[derive(Debug)]
struct Fold {
    first: Receipt,
    since: Timestamp,
    more: u64,
}

impl Folding {
    /// Counts one more, if a row of the last minute stands for it. Returns that row as its evidence.
    pub(crate) fn count(&mut self, key: &Key, now: Timestamp) -> Option<Receipt> {
        let fold = self.0.get_mut(key)?;
        if now.since(fold.since) >= WINDOW {
            return None;
        }
        fold.more = fold.more.saturating_add(1);
        Some(fold.first)
    }

    /// Makes this row stand for the others of the next minute. Returns the count of the last one, to be written.
    pub(crate) fn begin(&mut self, key: Key, first: Receipt, now: Timestamp) -> Option<Counted> {
        let last = self.0.insert(key.clone(), Fold { first, since: now, more: 0 })?;
        Counted::of(key, &last)
    }

    /// Forgets the counts of rows that were not committed.
    pub(crate) fn forget_after(&mut self, seq: i64) {
        self.0.retain(|_, fold| fold.first.seq <= seq);
    }

    /// Takes out the counts whose minute is over, or all.
    pub(crate) fn take(&mut self, now: Timestamp, all: bool) -> Vec<Counted> {
        let is_over = |fold: &Fold| all || now.since(fold.since) >= WINDOW;
        let over: Vec<Key> = self.0.iter().filter(|(_, fold)| is_over(fold)).map(|(key, _)| key.clone()).collect();
        let taken = over.into_iter().filter_map(|key| self.0.remove(&key).map(|fold| (key, fold)));
        taken.filter_map(|(key, fold)| Counted::of(key, &fold)).collect()
    }

    /// Returns whether the minute of a count is over.
    pub fn has_finished(&self, now: Timestamp) -> bool {
        self.0.values().any(|fold| now.since(fold.since) >= WINDOW)
    }
}

/// The number of requests that a row stands for.
#[derive(Debug)]
pub(crate) struct Counted {
    key: Key,
    more: u64,
    with: i64,
}

impl Counted {
    fn of(key: Key, fold: &Fold) -> Option<Self> {
        (fold.more > 0).then_some(Self { key, more: fold.more, with: fold.first.seq })
    }

    /// Writes the row.
    pub(crate) fn write(&self, tx: &Transaction<'_>) -> Result<(), StoreError> {
        let (caller, _, code) = &self.key;
        tx.append(&Draft {
            reason_code: *code,
            body: json!({ "count": self.more, "with": self.with }),
            ..Draft::new(RowKind::Folded, caller)
        })
        .map(|_evidence| ())
    }
}
