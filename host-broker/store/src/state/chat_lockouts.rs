//! Senders of a chat who wrote wrong codes, and those to whom nobody listens for a while.

use crate::{StoreError, Transaction, at};
use rusqlite::{OptionalExtension as _, params};
use shared::Timestamp;
use std::time::Duration;

/// Counts a wrong code. Returns how many there were within this time.
///
/// # Errors
/// [`StoreError`]; it is not counted.
pub fn miss(tx: &Transaction<'_>, sender: &str, within: Duration) -> Result<i64, StoreError> {
    let view = tx.view();
    let count = (|| {
        view.prepare_cached("DELETE FROM chat_misses WHERE at <= ?1")?
            .execute(params![tx.steady().minus(within).millis()])?;
        view.prepare_cached("INSERT INTO chat_misses VALUES (?1, ?2)")?
            .execute(params![sender, tx.steady().millis()])?;
        view.prepare_cached("SELECT count(*) FROM chat_misses WHERE sender = ?1")?
            .query_row(params![sender], |row| row.get(0))
    })();
    count.map_err(at("count wrong codes"))
}

/// Locks a sender out for this time; the row says so.
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

/// Until when this sender is locked out, and the row that says so.
///
/// # Errors
/// [`StoreError`]; nothing may then be taken from the sender.
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
