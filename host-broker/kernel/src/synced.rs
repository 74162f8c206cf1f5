//! Rows that are durable, as a proof: only such rows leave for a sink.

use crate::ledger::Ledger;

/// Every row up to a number is durable: the only key to the secrets of the sinks, and to the rows for them.
///
/// A row that is committed and not synced can be lost with the machine's power. A sink that had it would have a row that
/// the ledger does not have.
#[must_use]
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SyncedRows(i64);

impl SyncedRows {
    /// Returns the number of the last one; 0 if there is none.
    pub fn last(&self) -> i64 {
        self.0
    }
}

impl Ledger {
    /// Returns the rows that are durable now.
    pub fn synced_rows(&self) -> SyncedRows {
        SyncedRows(self.store.synced().max(0))
    }
}
