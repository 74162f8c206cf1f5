//! Documents that never became a request, counted.
//!
//! The first of a caller and code in a minute has its own row; the others of that minute are counted here and
//! written as one `folded` row. The counts are not evidence of their own: a crash loses at most a minute of them,
//! never the row that they are counted with.

use crate::ledger::LedgerError;
use crate::ledger::chain::{Draft, Kind};
use crate::ledger::transaction::Transaction;
use serde_json::json;
use shared::reply::Evidence;
use shared::{Code, Timestamp};
use std::collections::BTreeMap;
use std::time::Duration;

const WINDOW: Duration = Duration::from_secs(60);

/// What is being counted, by caller and code.
#[derive(Debug, Default)]
pub struct Folding(BTreeMap<(String, Code), Fold>);

#[derive(Debug)]
struct Fold {
    first: Evidence,
    since: Timestamp,
    more: u64,
}

impl Folding {
    /// Counts one more, if a row of the last minute stands for it; that row is its evidence.
    pub fn count(&mut self, caller: &str, code: Code, now: Timestamp) -> Option<Evidence> {
        let fold = self.0.get_mut(&(caller.to_owned(), code))?;
        if now.since(fold.since) >= WINDOW {
            return None;
        }
        fold.more = fold.more.saturating_add(1);
        Some(fold.first)
    }

    /// This row stands for the others of the next minute; what was counted with the last one is written.
    ///
    /// # Errors
    /// [`LedgerError`].
    pub fn begin(
        &mut self,
        tx: &Transaction<'_>,
        caller: &str,
        code: Code,
        first: Evidence,
    ) -> Result<(), LedgerError> {
        let fold = Fold { first, since: tx.now(), more: 0 };
        match self.0.insert((caller.to_owned(), code), fold) {
            Some(last) => append(tx, caller, code, &last),
            None => Ok(()),
        }
    }

    /// Forgets everything that rests on rows that were not committed.
    pub fn forget_after(&mut self, seq: i64) {
        self.0.retain(|_, fold| fold.first.seq <= seq);
    }

    /// Writes what is over.
    ///
    /// # Errors
    /// [`LedgerError`].
    pub fn write_finished(&mut self, tx: &Transaction<'_>) -> Result<(), LedgerError> {
        self.write(tx, |fold| tx.now().since(fold.since) >= WINDOW)
    }

    /// Writes everything.
    ///
    /// # Errors
    /// [`LedgerError`].
    pub fn write_all(&mut self, tx: &Transaction<'_>) -> Result<(), LedgerError> {
        self.write(tx, |_| true)
    }

    /// Whether something is over and has to be written.
    pub fn has_finished(&self, now: Timestamp) -> bool {
        self.0.values().any(|fold| now.since(fold.since) >= WINDOW)
    }

    fn write(&mut self, tx: &Transaction<'_>, is_over: impl Fn(&Fold) -> bool) -> Result<(), LedgerError> {
        for ((caller, code), fold) in self.0.iter().filter(|(_, fold)| is_over(fold)) {
            append(tx, caller, *code, fold)?;
        }
        self.0.retain(|_, fold| !is_over(fold));
        Ok(())
    }
}

fn append(tx: &Transaction<'_>, caller: &str, code: Code, fold: &Fold) -> Result<(), LedgerError> {
    if fold.more > 0 {
        tx.append(&Draft {
            reason_code: Some(code),
            body: json!({ "count": fold.more, "with": fold.first.seq }),
            ..Draft::new(Kind::Folded, caller)
        })?;
    }
    Ok(())
}
