//! Minor rows: rows about requests that changed nothing. A caller that causes too many shares one row for them.

use crate::Receipt;
use crate::StoreError;
use crate::Transaction;
use crate::ledger::budget::Budgets;
use crate::ledger::chain::{Draft, Row, RowKind};
use crate::ledger::folding::Folding;
use crate::state::external_grants::counted_as;
use std::time::Duration;

/// The bounds of minor rows: each caller's budget, and the requests that share a row.
#[derive(Debug, Default)]
pub(crate) struct Minor {
    pub(crate) budgets: Budgets,
    pub(crate) folding: Folding,
}

/// The evidence of a request that changed nothing: its own row, or one that it shares.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MinorRow {
    receipt: Receipt,
    folded: bool,
}

impl MinorRow {
    /// Makes a row of the request's own.
    pub fn own(receipt: Receipt) -> Self {
        Self { receipt, folded: false }
    }

    /// Returns whether the caller has caused too many rows.
    pub fn is_folded(&self) -> bool {
        self.folded
    }

    /// Returns the row.
    pub fn receipt(&self) -> Receipt {
        self.receipt
    }
}

impl Transaction<'_> {
    /// Appends a minor row. If the caller has caused too many, an earlier row of the same kind and code stands for it.
    /// The ledger then writes the count within a minute.
    ///
    /// # Errors
    /// [`StoreError`]; nothing was written.
    pub fn append_minor(&self, draft: &Draft<'_>) -> Result<MinorRow, StoreError> {
        if self.folds(draft.caller)? {
            return self.append_counted(draft);
        }
        self.append(draft).map(MinorRow::own)
    }

    /// Appends a row for all requests of this caller, kind and code in the next minute, or counts with one.
    ///
    /// # Errors
    /// [`StoreError`]; nothing was written.
    pub fn append_counted(&self, draft: &Draft<'_>) -> Result<MinorRow, StoreError> {
        let key = (draft.caller.to_owned(), draft.kind.word(), draft.reason_code);
        if let Some(receipt) = self.minor.borrow_mut().folding.count(&key, self.steady()) {
            return Ok(MinorRow { receipt, folded: true });
        }
        let receipt = self.append(draft)?;
        let before = self.minor.borrow_mut().folding.begin(key, receipt, self.steady());
        if let Some(before) = before {
            before.write(self)?;
        }
        Ok(MinorRow { receipt, folded: self.folds(draft.caller)? })
    }

    /// Writes how many requests shared a row, for the minutes that are over or for all.
    ///
    /// # Errors
    /// [`StoreError`]; the counts are lost.
    pub fn write_counts(&self, all: bool) -> Result<(), StoreError> {
        let counted = self.minor.borrow_mut().folding.take(self.steady(), all);
        counted.iter().try_for_each(|counted| counted.write(self))
    }

    /// Returns the reason to refuse a caller that has caused too much evidence, and the wait if it is known.
    ///
    /// # Errors
    /// [`StoreError`] if the external grant cannot be read.
    pub fn refuses(&self, caller: &str) -> Result<Option<(String, Option<Duration>)>, StoreError> {
        let key = counted_as(self.view(), caller)?;
        let minor = self.minor.borrow();
        Ok(minor.budgets.refuses(&key, self.steady()).map(|wait| match wait {
            Some(wait) => {
                let mib = minor.budgets.hourly().unwrap_or(0) >> 20;
                (format!("The evidence of this caller's calls has used up its {mib} MiB an hour."), Some(wait))
            }
            None => ("The broker's disk is nearly full, and this caller has used most of it.".to_owned(), None),
        }))
    }

    /// Charges a row to the budget of its caller.
    pub(crate) fn charge_row(&self, row: &Row, kind: RowKind) -> Result<(), StoreError> {
        self.count(row.cost());
        let is_minor = matches!(kind, RowKind::Refused | RowKind::Answered | RowKind::Repeated | RowKind::Folded);
        let key = counted_as(self.view(), &row.caller)?;
        self.minor.borrow_mut().budgets.charge(&key, row.cost(), is_minor, self.steady());
        Ok(())
    }

    /// Charges stored bytes beside the rows to the budget of their caller: replies, requests, cards, changes.
    pub(crate) fn charge_bytes(&self, caller: &str, bytes: usize) -> Result<(), StoreError> {
        self.count(bytes);
        let key = counted_as(self.view(), caller)?;
        self.minor.borrow_mut().budgets.charge(&key, bytes, false, self.steady());
        Ok(())
    }

    fn folds(&self, caller: &str) -> Result<bool, StoreError> {
        let key = counted_as(self.view(), caller)?;
        Ok(self.minor.borrow().budgets.folds(&key, self.steady()))
    }
}
