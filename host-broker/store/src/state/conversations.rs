//! Conversations: the present one of each group whose exposure ends with a conversation.

use crate::Transaction;
use crate::View;
use crate::{StoreError, at};
use rusqlite::{OptionalExtension as _, params};
use shared::RequestId;

/// Returns the caller's conversation, if one has begun: the id of the request that began it.
///
/// # Errors
/// [`StoreError`] if it cannot be read; nothing may then be permitted.
pub fn current(view: &View, caller: &str) -> Result<Option<RequestId>, StoreError> {
    let id: Option<String> = view
        .prepare_cached("SELECT id FROM conversations WHERE caller = ?1")
        .and_then(|mut s| s.query_row(params![caller], |row| row.get(0)).optional())
        .map_err(at("look a conversation up"))?;
    id.map(|id| id.parse().map_err(|_bad| StoreError::Stored { what: "conversation" })).transpose()
}

/// Notes that a conversation begins, which ends the earlier one.
///
/// # Errors
/// [`StoreError`]; the earlier conversation continues.
pub fn begin(tx: &Transaction<'_>, caller: &str, id: &RequestId) -> Result<(), StoreError> {
    const UPSERT: &str =
        "INSERT INTO conversations VALUES (?1, ?2) ON CONFLICT (caller) DO UPDATE SET id = excluded.id";
    tx.view()
        .prepare_cached(UPSERT)
        .and_then(|mut s| s.execute(params![caller, id.as_str()]))
        .map_err(at("begin a conversation"))?;
    Ok(())
}
