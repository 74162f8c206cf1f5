//! Stored replies: a caller can ask for its reply again for a day, and a restart delivers what is due.

use crate::ledger::segments;
use crate::{StoreError, Transaction, View, at};
use rusqlite::{OptionalExtension as _, params};
use shared::digest::Digest;
use shared::reply::Evidence;
use shared::{Reply, RequestId, Timestamp, limits};

/// Whether a reply is still to be delivered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Delivery {
    /// The reply is to be delivered, also after a restart.
    Due,
    /// The caller has had its one reply and asks for this one.
    Over,
}

/// Keeps a reply with the row it rests on, until no caller may ask for it any more.
///
/// # Errors
/// [`StoreError`].
pub fn keep(
    tx: &Transaction<'_>,
    seq: i64,
    caller: &str,
    id: &RequestId,
    document: &[u8],
    handing: Delivery,
) -> Result<(), StoreError> {
    tx.view()
        .prepare_cached("INSERT OR REPLACE INTO replies VALUES (?1, ?2, ?3, ?4, ?5, ?6)")
        .and_then(|mut s| {
            s.execute(params![seq, caller, id.as_str(), tx.steady().millis(), document, handing == Delivery::Over])
        })
        .map_err(at("keep a reply"))?;
    tx.charge_bytes(caller, document.len())
}

/// The longest chain of requests that were answered with each other's reply.
const COPIES_MAX: usize = 4;

/// Returns the last reply to a request, if it is still kept. A request that was answered with another one's reply has
/// no copy. Its row names the other request, and is the reply's evidence.
///
/// # Errors
/// [`StoreError`].
pub fn find(tx: &Transaction<'_>, caller: &str, id: &RequestId) -> Result<Option<Box<[u8]>>, StoreError> {
    stored(tx.view(), tx.steady(), caller, id)
}

/// The same, beside a transaction.
///
/// # Errors
/// [`StoreError`].
pub fn stored(view: &View, steady: Timestamp, caller: &str, id: &RequestId) -> Result<Option<Box<[u8]>>, StoreError> {
    if let Some(own) = own_reply(view, steady, caller, id.as_str())? {
        return Ok(Some(own));
    }
    let Some((mut of, evidence)) = answered_with(view, caller, id.as_str())? else { return Ok(None) };
    for _ in 0..COPIES_MAX {
        if let Some(document) = own_reply(view, steady, caller, &of)? {
            let reply = serde_json::from_slice::<Reply>(&document).ok();
            let copy = reply.map(|reply| Reply { request_id: id.clone(), evidence: Some(evidence), ..reply });
            return Ok(copy.and_then(|copy| serde_json::to_vec(&copy).ok()).map(Vec::into_boxed_slice));
        }
        let Some((next, _)) = answered_with(view, caller, &of)? else { return Ok(None) };
        of = next;
    }
    Ok(None)
}

fn own_reply(view: &View, steady: Timestamp, caller: &str, id: &str) -> Result<Option<Box<[u8]>>, StoreError> {
    // An empty reply only marks that a copy is due.
    const SELECT: &str = "SELECT reply FROM replies
        WHERE caller = ?1 AND request_id = ?2 AND stored_at >= ?3 AND length(reply) > 0 ORDER BY seq DESC LIMIT 1";
    let since = steady.minus(limits::REPEAT_KEEP).millis();
    view.prepare_cached(SELECT)
        .and_then(|mut s| s.query_row(params![caller, id, since], |row| row.get(0)).optional())
        .map_err(at("look a reply up"))
}

/// Returns the request whose reply answered this one, and this one's first row, if that row says so.
fn answered_with(view: &View, caller: &str, id: &str) -> Result<Option<(String, Evidence)>, StoreError> {
    const FIRST: &str = "SELECT kind = 'answered', json_extract(body, '$.of_request'), seq, event_hash, prev_hash
        FROM ledger WHERE caller = ?1 AND request_id = ?2 ORDER BY seq LIMIT 1";
    if segments::is_burnt(view, caller, id)? {
        return Ok(None);
    }
    let found: Option<(bool, Option<String>, Evidence)> = view
        .prepare_cached(FIRST)
        .and_then(|mut s| {
            s.query_row(params![caller, id], |row| {
                let hash = |index| row.get(index).map(Digest::from_bytes);
                let evidence = Evidence { seq: row.get(2)?, event_hash: hash(3)?, prev_hash: hash(4)? };
                Ok((row.get(0)?, row.get(1)?, evidence))
            })
            .optional()
        })
        .map_err(at("look a reply up"))?;
    Ok(found.and_then(|(answered, of, evidence)| Some((of.filter(|_| answered)?, evidence))))
}

/// Replaces the last reply to a request, if it is still kept. Whether the reply is due stays as it is.
///
/// # Errors
/// [`StoreError`].
pub fn amend(tx: &Transaction<'_>, caller: &str, id: &RequestId, document: &[u8]) -> Result<(), StoreError> {
    const UPDATE: &str = "UPDATE replies SET reply = ?3
        WHERE seq = (SELECT seq FROM replies WHERE caller = ?1 AND request_id = ?2 ORDER BY seq DESC LIMIT 1)";
    tx.view()
        .prepare_cached(UPDATE)
        .and_then(|mut s| s.execute(params![caller, id.as_str(), document]))
        .map_err(at("amend a reply"))?;
    Ok(())
}

/// A reply that may not have left: its row, its recipient, and the document.
pub type Undelivered = (i64, String, Vec<u8>);

/// Returns the replies after the mark, to be delivered again at start.
///
/// # Errors
/// [`StoreError`].
pub fn undelivered(view: &View, steady: Timestamp) -> Result<Vec<Undelivered>, StoreError> {
    const SELECT: &str = "SELECT seq, caller, request_id, reply FROM replies
        WHERE seq > (SELECT seq FROM delivered) AND NOT kept ORDER BY seq";
    let read = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?));
    let stored: Vec<(i64, String, String, Vec<u8>)> = view
        .prepare(SELECT)
        .and_then(|mut s| s.query_map([], read)?.collect())
        .map_err(at("read the undelivered replies"))?;
    let mut found = Vec::new();
    for (seq, caller, id, document) in stored {
        let document = match id.parse() {
            Ok(id) if document.is_empty() => self::stored(view, steady, &caller, &id)?.map(Vec::from),
            Ok(_) | Err(_) => Some(document),
        };
        found.extend(document.map(|document| (seq, caller, document)));
    }
    Ok(found)
}

/// Moves the mark: replies up to this row have left.
///
/// # Errors
/// [`StoreError`].
pub fn mark_delivered(tx: &Transaction<'_>, seq: i64) -> Result<(), StoreError> {
    tx.view()
        .prepare_cached("UPDATE delivered SET seq = max(seq, ?1)")
        .and_then(|mut s| s.execute(params![seq]))
        .map_err(at("mark replies as delivered"))?;
    Ok(())
}

/// Returns the request whose result a request was answered with, in the way of [`find`]: itself if its own reply is
/// kept or its row names no other.
///
/// # Errors
/// [`StoreError`].
pub fn answered_by(view: &View, steady: Timestamp, caller: &str, id: &RequestId) -> Result<RequestId, StoreError> {
    let mut source = id.clone();
    for _ in 0..COPIES_MAX {
        if own_reply(view, steady, caller, source.as_str())?.is_some() {
            break;
        }
        let Some((of, _)) = answered_with(view, caller, source.as_str())? else { break };
        source = of.parse().map_err(|_bad| StoreError::Stored { what: "request id" })?;
    }
    Ok(source)
}

/// The most bytes of stored replies of one caller. Above it the oldest delivered ones are deleted first.
const BYTES_KEPT: i64 = 64 * 1024 * 1024;
/// The most rows that are deleted at once, so that the loop does not block.
const FORGOTTEN_MAX: i64 = 1_000;

/// Forgets replies that no caller may ask for any more.
///
/// # Errors
/// [`StoreError`].
pub fn forget_old(tx: &Transaction<'_>) -> Result<(), StoreError> {
    // Rows are in the order of time, so the statement looks only at the oldest.
    const DELETE: &str = "DELETE FROM replies WHERE seq <= (SELECT max(seq) FROM (
         SELECT seq, stored_at FROM replies ORDER BY seq LIMIT ?2) WHERE stored_at < ?1)";
    let before = tx.steady().minus(limits::REPEAT_KEEP).millis();
    tx.view()
        .prepare_cached(DELETE)
        .and_then(|mut s| s.execute(params![before, FORGOTTEN_MAX]))
        .map_err(at("forget old replies"))?;
    shed(tx)
}

/// Deletes the oldest replies of callers that have too many bytes stored.
fn shed(tx: &Transaction<'_>) -> Result<(), StoreError> {
    const LARGE: &str = "SELECT caller FROM reply_bytes WHERE bytes > ?1";
    const SHED: &str = "DELETE FROM replies WHERE seq IN (
         SELECT seq FROM replies WHERE caller = ?1 AND seq <= (SELECT seq FROM delivered) ORDER BY seq LIMIT ?2)";
    let large: Vec<String> = tx
        .view()
        .prepare_cached(LARGE)
        .and_then(|mut s| s.query_map(params![BYTES_KEPT], |row| row.get(0))?.collect())
        .map_err(at("look for large replies"))?;
    for caller in large {
        tx.view()
            .prepare_cached(SHED)
            .and_then(|mut s| s.execute(params![caller, FORGOTTEN_MAX / 10]))
            .map_err(at("forget old replies"))?;
    }
    Ok(())
}
