//! Senders of a chat who wrote wrong codes, and senders who are locked out for a while.

use crate::{StoreError, Transaction, at};
use rusqlite::{OptionalExtension as _, params};
use shared::Timestamp;
use std::time::Duration;

/// Counts a wrong code. Returns the number of wrong codes within this time.
///
/// # Errors
/// [`StoreError`]; it is not counted.
pub fn miss(tx: &Transaction<'_>, sender: &str, within: Duration) -> Result<i64, StoreError> {
    let view = tx.view();
    let count = (|| {
        view.prepare_cached("DELETE FROM chat_misses WHERE at <= ?1")?
            .execute(params![tx.steady().minus(within).millis()])?;
        view.prepare_cached("INSERT INTO chat_misses (sender, at) VALUES (?1, ?2)")?
            .execute(params![sender, tx.steady().millis()])?;
        view.prepare_cached("SELECT count(*) FROM chat_misses WHERE sender = ?1")?
            .query_row(params![sender], |row| row.get(0))
    })();
    count.map_err(at("count wrong codes"))
}

/// Locks a sender out for this time. `row` is the row of the ledger about it.
///
/// # Errors
/// [`StoreError`]; the sender is not locked out.
pub fn lock_out(tx: &Transaction<'_>, sender: &str, time: Duration, row: i64) -> Result<(), StoreError> {
    tx.view()
        .prepare_cached("INSERT OR REPLACE INTO chat_silence VALUES (?1, ?2, ?3)")
        .and_then(|mut s| s.execute(params![sender, tx.steady().plus(time).millis(), row]))
        .map_err(at("lock a sender out"))?;
    Ok(())
}

/// Returns the end of this sender's lockout, and the row about it.
///
/// # Errors
/// [`StoreError`]; no message of the sender may then be accepted.
pub fn locked_out(tx: &Transaction<'_>, sender: &str) -> Result<Option<(Timestamp, i64)>, StoreError> {
    let wall = |until| tx.now().plus(Timestamp::from_millis(until).since(tx.steady()));
    tx.view()
        .prepare_cached("SELECT until, row FROM chat_silence WHERE sender = ?1 AND until > ?2")
        .and_then(|mut s| {
            let read = |row: &rusqlite::Row<'_>| Ok((wall(row.get(0)?), row.get(1)?));
            s.query_row(params![sender, tx.steady().millis()], read).optional()
        })
        .map_err(at("look a sender up"))
}
