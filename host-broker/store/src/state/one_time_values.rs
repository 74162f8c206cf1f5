//! Values that one reply delivers and no other. They are encrypted, and the stored reply lacks them.
//!
//! The reply that delivers a value takes it in its own transaction. The value is deleted once that reply has left. After
//! a restart, a value is free again if the reply that took it is not delivered again.

use crate::{StoreError, Transaction, View, at};
use model::Ciphertext;
use rusqlite::{OptionalExtension as _, Row, params};
use shared::{Provider, RequestId, Timestamp, limits};

/// A stored value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredValue {
    /// The caller, in the ledger's form.
    pub caller: String,
    /// The call whose result lacks the value.
    pub request_id: RequestId,
    /// The provider.
    pub provider: Provider,
    /// The member of the result that holds the value.
    pub field: String,
    /// The value.
    pub sealed: Ciphertext,
}

/// The columns of [`StoredValue`].
const COLUMNS: &str = "caller, request_id, provider, field, sealed";

fn stored(row: &Row<'_>) -> rusqlite::Result<Result<StoredValue, StoreError>> {
    let (request_id, provider): (String, String) = (row.get(1)?, row.get(2)?);
    let (caller, field, sealed) = (row.get(0)?, row.get(3)?, Ciphertext::from_bytes(row.get(4)?));
    let (Ok(request_id), Ok(provider)) = (request_id.parse(), provider.parse()) else {
        return Ok(Err(StoreError::Stored { what: "one-time value" }));
    };
    Ok(Ok(StoredValue { caller, request_id, provider, field, sealed }))
}

/// Keeps a value for the reply that delivers it.
///
/// # Errors
/// [`StoreError`]; the value is not kept.
pub fn keep(tx: &Transaction<'_>, value: &StoredValue) -> Result<(), StoreError> {
    let StoredValue { caller, request_id, provider, field, sealed } = value;
    let until = tx.steady().plus(limits::ONE_TIME_KEEP).millis();
    tx.view()
        .prepare_cached("INSERT OR REPLACE INTO one_time_values VALUES (?1, ?2, ?3, ?4, ?5, ?6, NULL)")
        .and_then(|mut s| {
            s.execute(params![caller, request_id.as_str(), provider.as_str(), field, sealed.bytes(), until])
        })
        .map_err(at("keep a one-time value"))?;
    Ok(())
}

/// Returns whether the next reply with this call's result delivers its value.
///
/// # Errors
/// [`StoreError`] if it cannot be read.
pub fn is_free(tx: &Transaction<'_>, caller: &str, of: &RequestId) -> Result<bool, StoreError> {
    const SELECT: &str = "SELECT 1 FROM one_time_values
        WHERE caller = ?1 AND request_id = ?2 AND taken IS NULL AND until > ?3";
    tx.view()
        .prepare_cached(SELECT)
        .and_then(|mut s| s.exists(params![caller, of.as_str(), tx.steady().millis()]))
        .map_err(at("look a one-time value up"))
}

/// Takes the value of a call for the reply that rests on the row `seq`. Returns `None` if another reply has taken it, if
/// it has expired, or if there is none.
///
/// # Errors
/// [`StoreError`]; the value is not taken.
pub fn take(tx: &Transaction<'_>, caller: &str, of: &RequestId, seq: i64) -> Result<Option<StoredValue>, StoreError> {
    let take = format!(
        "UPDATE one_time_values SET taken = ?4 WHERE caller = ?1 AND request_id = ?2 AND taken IS NULL AND until > ?3
         RETURNING {COLUMNS}"
    );
    tx.view()
        .prepare_cached(&take)
        .and_then(|mut s| s.query_row(params![caller, of.as_str(), tx.steady().millis(), seq], stored).optional())
        .map_err(at("take a one-time value"))?
        .transpose()
}

/// Returns the values that replies have taken and that have not expired, with the rows of these replies.
///
/// # Errors
/// [`StoreError`] if they cannot be read.
pub fn taken(view: &View, steady: Timestamp) -> Result<Vec<(i64, StoredValue)>, StoreError> {
    let select = format!("SELECT {COLUMNS}, taken FROM one_time_values WHERE taken IS NOT NULL AND until > ?1");
    let found: Vec<(i64, Result<StoredValue, StoreError>)> = view
        .prepare(&select)
        .and_then(|mut s| s.query_map([steady.millis()], |row| Ok((row.get(5)?, stored(row)?)))?.collect())
        .map_err(at("read the one-time values"))?;
    found.into_iter().map(|(seq, value)| Ok((seq, value?))).collect()
}

/// Frees the values whose replies did not leave before the last stop and are not delivered again.
///
/// # Errors
/// [`StoreError`]; nothing is changed.
pub fn free_undelivered(tx: &Transaction<'_>) -> Result<(), StoreError> {
    const FREE: &str = "UPDATE one_time_values SET taken = NULL WHERE taken > (SELECT seq FROM delivered)
        AND taken NOT IN (SELECT seq FROM replies WHERE seq > (SELECT seq FROM delivered) AND NOT kept)";
    tx.view().prepare_cached(FREE).and_then(|mut s| s.execute([])).map_err(at("free one-time values"))?;
    Ok(())
}

/// Deletes the values that were delivered or have expired.
///
/// # Errors
/// [`StoreError`]; nothing is changed.
pub fn forget_old(tx: &Transaction<'_>) -> Result<(), StoreError> {
    const DELETE: &str = "DELETE FROM one_time_values WHERE until <= ?1 OR taken <= (SELECT seq FROM delivered)";
    tx.view()
        .prepare_cached(DELETE)
        .and_then(|mut s| s.execute(params![tx.steady().millis()]))
        .map_err(at("forget one-time values"))?;
    Ok(())
}

/// Deletes all values.
///
/// # Errors
/// [`StoreError`]; nothing is changed.
pub fn forget_all(tx: &Transaction<'_>) -> Result<(), StoreError> {
    tx.view()
        .prepare_cached("DELETE FROM one_time_values")
        .and_then(|mut s| s.execute([]))
        .map_err(at("forget one-time values"))?;
    Ok(())
}
