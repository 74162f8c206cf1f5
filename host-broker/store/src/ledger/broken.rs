//! Evidence that was found broken. The finding is stored until a verification of all rows finds nothing wrong, because
//! a restart verifies the last rows only.

use crate::Transaction;
use crate::View;
use crate::ledger::health::Verification;
use crate::{StoreError, at};
use rusqlite::{OptionalExtension as _, params};

/// Returns the break that was found last, if no verification has ended well since.
///
/// # Errors
/// [`StoreError`] if it cannot be read.
pub fn stored(view: &View) -> Result<Option<Verification>, StoreError> {
    view.prepare_cached("SELECT row, error FROM broken_evidence WHERE one = 1")
        .and_then(|mut s| {
            s.query_row([], |found| Ok(Verification::Broken { row: found.get(0)?, error: found.get(1)? })).optional()
        })
        .map_err(at("read whether the evidence is broken"))
}

/// Stores a break, or forgets it if all rows are right.
///
/// # Errors
/// [`StoreError`]; nothing was written.
pub fn note(tx: &Transaction<'_>, found: &Verification) -> Result<(), StoreError> {
    let view = tx.view();
    let noted = match found {
        Verification::Broken { row, error } => view
            .prepare_cached("INSERT OR REPLACE INTO broken_evidence VALUES (1, ?1, ?2)")
            .and_then(|mut s| s.execute(params![row, error])),
        Verification::Whole { .. } => {
            view.prepare_cached("DELETE FROM broken_evidence WHERE one = 1").and_then(|mut s| s.execute([]))
        }
        Verification::Waiting | Verification::Running { .. } | Verification::Unfinished { .. } => return Ok(()),
    };
    noted.map(drop).map_err(at("note whether the evidence is broken"))
}
