//! The tables that make each call happen exactly once: open intents, unknown outcomes, replies, keys.
//!
//! They are read and changed inside the transaction that writes the row they belong to, and prove nothing.

use crate::Transaction;
use crate::View;
use crate::ledger::segments;
use crate::state::approvals;
use crate::{StoreError, at};
use rusqlite::{OptionalExtension as _, params};
use serde_json::Value;
use shared::digest::Digest;
use shared::reply::Evidence;
use shared::{Action, Level, Provider, Reply, RequestId, Timestamp, limits};
use std::time::Duration;

/// An earlier request of the same caller under the same id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Earlier {
    /// The digest of its body, if it was well formed.
    pub request_digest: Option<Digest>,
    /// Whether an effect of it is still under way.
    pub open: bool,
    /// The reply, if it is still kept.
    pub reply: Option<Box<[u8]>>,
}

impl Earlier {
    /// Returns whether it is the same request as this one, and is over.
    pub fn is_same_and_over(&self, request_digest: Digest) -> bool {
        self.request_digest == Some(request_digest) && !self.open
    }
}

/// Returns the first request of this caller with this id, if there is one. An id is used up permanently.
///
/// # Errors
/// [`StoreError`].
pub fn earlier(tx: &Transaction<'_>, caller: &str, id: &RequestId) -> Result<Option<Earlier>, StoreError> {
    const FIRST: &str = "SELECT json_extract(body, '$.request') FROM ledger
        WHERE caller = ?1 AND request_id = ?2 ORDER BY seq LIMIT 1";
    let first: Option<Option<String>> = tx
        .view()
        .prepare_cached(FIRST)
        .and_then(|mut s| s.query_row(params![caller, id.as_str()], |row| row.get(0)).optional())
        .map_err(at("look the request up"))?;
    if segments::is_burnt(tx.view(), caller, id.as_str())? {
        return Ok(Some(Earlier { request_digest: None, open: false, reply: None }));
    }
    let Some(digest) = first else { return Ok(None) };
    let request_digest = digest.and_then(|text| text.parse().ok());
    // A caller that got the reply `pending` has had a reply, which can be given again.
    let open = is_open(tx, caller, id)? && !approvals::is_told(tx, caller, id)?;
    Ok(Some(Earlier { request_digest, open, reply: reply(tx, caller, id)? }))
}

/// The owner of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owner {
    /// The person on whose behalf it was made, if that is known.
    pub person: Option<String>,
    /// The time of arrival.
    pub at: Timestamp,
    /// The called action; nothing if it was no call.
    pub called: Option<Called>,
}

/// The action that a request called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Called {
    /// The provider.
    pub provider: Provider,
    /// The action.
    pub action: Action,
    /// The level that the call demanded, as far as that is known.
    pub level: Level,
}

/// Returns the owner of a request, if there was one.
///
/// # Errors
/// [`StoreError`].
pub fn owner(view: &View, caller: &str, id: &RequestId) -> Result<Option<Owner>, StoreError> {
    // An approval request about anything but a call has an action, too.
    const FIRST: &str = "SELECT person, ts, provider, action, level FROM (
             SELECT person, ts, provider, level,
                    iif(kind = 'asked' AND json_extract(body, '$.kind') IS NOT 'call', NULL, action) AS action
             FROM ledger WHERE caller = ?1 AND request_id = ?2 ORDER BY seq LIMIT 1)";
    type Raw = (Option<String>, i64, Option<String>, Option<String>, Option<i64>);
    // SECURITY: its first row is in a segment. The first remaining row may be of any person who has used the id since.
    if segments::is_burnt(view, caller, id.as_str())? {
        return Ok(None);
    }
    let read = |row: &rusqlite::Row<'_>| -> rusqlite::Result<Raw> {
        Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?))
    };
    let found = view
        .prepare_cached(FIRST)
        .and_then(|mut s| s.query_row(params![caller, id.as_str()], read).optional())
        .map_err(at("look the request up"))?;
    let Some((person, ts, provider, action, number)) = found else { return Ok(None) };
    let target = match (provider, action) {
        (Some(provider), Some(action)) => Some(Called {
            provider: provider.parse().map_err(|_bad| StoreError::Stored { what: "provider" })?,
            action: action.parse().map_err(|_bad| StoreError::Stored { what: "action" })?,
            level: number.map_or(Ok(Level::None), level)?,
        }),
        (None | Some(_), None) | (None, Some(_)) => None,
    };
    Ok(Some(Owner { person, at: Timestamp::from_millis(ts), called: target }))
}

/// Returns the request whose result a request was answered with, in the way of [`reply`]: itself if its own reply is
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

/// Returns the person on whose behalf a request was made, for later rows about it.
///
/// # Errors
/// [`StoreError`].
pub fn person_of(tx: &Transaction<'_>, caller: &str, id: &RequestId) -> Result<Option<String>, StoreError> {
    Ok(owner(tx.view(), caller, id)?.and_then(|owner| owner.person))
}

/// Returns whether an effect of the request is under way, or an approval request about it is open.
///
/// # Errors
/// [`StoreError`].
pub fn is_open(tx: &Transaction<'_>, caller: &str, id: &RequestId) -> Result<bool, StoreError> {
    tx.view()
        .prepare_cached(
            "SELECT 1 FROM open_intents WHERE caller = ?1 AND request_id = ?2
             UNION ALL
             SELECT 1 FROM approvals WHERE caller = ?1 AND request_id = ?2 AND state <> 'closed' LIMIT 1",
        )
        .and_then(|mut s| s.exists(params![caller, id.as_str()]))
        .map_err(at("look for an open intent"))
}

/// Returns the stage of the request's effect that is under way, if one is.
///
/// # Errors
/// [`StoreError`].
pub fn open_stage(tx: &Transaction<'_>, caller: &str, id: &RequestId) -> Result<Option<String>, StoreError> {
    tx.view()
        .prepare_cached("SELECT stage FROM open_intents WHERE caller = ?1 AND request_id = ?2 LIMIT 1")
        .and_then(|mut s| s.query_row(params![caller, id.as_str()], |row| row.get(0)).optional())
        .map_err(at("look for an open intent"))
}

/// Counts the effects of this caller that are under way. All grants of one external agent count together.
///
/// # Errors
/// [`StoreError`].
pub fn in_flight(tx: &Transaction<'_>, caller: &str) -> Result<usize, StoreError> {
    const COUNT: &str = "SELECT count(*) FROM open_intents WHERE caller IN (
        SELECT ?1 UNION SELECT 'outside:' || other.grant_id
        FROM flow_grants AS own JOIN flow_grants AS other USING (issued_by, actor) WHERE own.grant_id = ?2)";
    let access = caller.strip_prefix("outside:").unwrap_or_default();
    let count: i64 = tx
        .view()
        .prepare_cached(COUNT)
        .and_then(|mut s| s.query_row(params![caller, access], |row| row.get(0)))
        .map_err(at("count open intents"))?;
    Ok(usize::try_from(count).unwrap_or(usize::MAX))
}

/// An intent to be noted as open.
#[derive(Debug, Clone, Copy)]
pub struct OpenIntent<'a> {
    /// The intent's row.
    pub seq: i64,
    /// The caller, in the ledger's form.
    pub caller: &'a str,
    /// The request.
    pub request_id: &'a RequestId,
    /// `prepare`, `run` or `probe`.
    pub stage: &'static str,
    /// Whether it may change something.
    pub mutating: bool,
    /// The nonce that is planted.
    pub nonce: &'a str,
    /// The data that a probe needs.
    pub handle: Option<&'a Value>,
}

/// Notes an intent as open.
///
/// # Errors
/// [`StoreError`].
pub fn open(tx: &Transaction<'_>, intent: &OpenIntent<'_>) -> Result<(), StoreError> {
    let OpenIntent { seq, caller, request_id, stage, mutating, nonce, handle } = intent;
    tx.view()
        .prepare_cached("INSERT INTO open_intents VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)")
        .and_then(|mut s| {
            let handle = handle.map(ToString::to_string);
            s.execute(params![caller, seq, request_id.as_str(), stage, mutating, nonce, handle])
        })
        .map_err(at("note an open intent"))?;
    Ok(())
}

/// An intent that is no longer open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Closed {
    /// The intent's row.
    pub seq: i64,
    /// The caller.
    pub caller: String,
    /// The request.
    pub request_id: RequestId,
    /// `prepare`, `run` or `probe`.
    pub stage: String,
    /// Whether it may have changed something.
    pub mutating: bool,
    /// The planted nonce.
    pub nonce: String,
    /// The data that a probe needs.
    pub probe: Option<String>,
}

/// Notes an intent as closed.
///
/// # Errors
/// [`StoreError`], also if it was not open.
pub fn close(tx: &Transaction<'_>, caller: &str, seq: i64) -> Result<Closed, StoreError> {
    tx.view()
        .prepare_cached(
            "DELETE FROM open_intents WHERE caller = ?1 AND seq = ?2
             RETURNING seq, caller, request_id, stage, mutating, nonce, probe",
        )
        .and_then(|mut s| s.query_row(params![caller, seq], read_closed))
        .map_err(at("close an intent"))
}

/// Returns all open intents, which a dead daemon left behind.
///
/// # Errors
/// [`StoreError`].
pub fn left_open(tx: &Transaction<'_>) -> Result<Vec<Closed>, StoreError> {
    tx.view()
        .prepare("SELECT seq, caller, request_id, stage, mutating, nonce, probe FROM open_intents ORDER BY seq")
        .and_then(|mut s| s.query_map([], read_closed)?.collect())
        .map_err(at("read the open intents"))
}

fn read_closed(row: &rusqlite::Row<'_>) -> Result<Closed, rusqlite::Error> {
    let request_id: String = row.get(2)?;
    Ok(Closed {
        seq: row.get(0)?,
        caller: row.get(1)?,
        request_id: request_id.parse().map_err(|_bad| rusqlite::Error::InvalidQuery)?,
        stage: row.get(3)?,
        mutating: row.get(4)?,
        nonce: row.get(5)?,
        probe: row.get(6)?,
    })
}

/// Notes that the outcome of an intent is unknown.
///
/// # Errors
/// [`StoreError`].
pub fn note_unknown(tx: &Transaction<'_>, intent: &Closed) -> Result<(), StoreError> {
    const INSERT: &str = "INSERT INTO unknown_outcomes
        SELECT seq, caller, request_id, provider, action, ?2, ?3, ?4 FROM ledger WHERE seq = ?1";
    tx.view()
        .prepare_cached(INSERT)
        .and_then(|mut s| s.execute(params![intent.seq, intent.nonce, intent.probe, tx.now().millis()]))
        .map_err(at("note an unknown outcome"))?;
    Ok(())
}

/// An outcome that is unknown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownOutcome {
    /// The intent's row.
    pub seq: i64,
    /// The caller.
    pub caller: String,
    /// The request.
    pub request_id: RequestId,
    /// The provider.
    pub provider: shared::Provider,
    /// The action.
    pub action: shared::Action,
    /// The planted nonce.
    pub nonce: String,
    /// The data that a probe needs.
    pub probe: Option<String>,
}

/// The time for which the broker probes an unknown outcome at each start. After that no probe is expected to settle it.
pub(crate) const ASKED_FOR: Duration = Duration::from_secs(7 * 24 * 3600);

/// Returns the unknown outcomes of the last week.
///
/// # Errors
/// [`StoreError`].
pub fn unknown_outcomes(view: &View, now: Timestamp) -> Result<Vec<UnknownOutcome>, StoreError> {
    const SELECT: &str = "SELECT seq, caller, request_id, provider, action, nonce, probe FROM unknown_outcomes
        WHERE since > ?1 ORDER BY seq";
    let bad = |_| rusqlite::Error::InvalidQuery;
    view.prepare(SELECT)
        .and_then(|mut s| {
            s.query_map(params![now.minus(ASKED_FOR).millis()], |row| {
                Ok(UnknownOutcome {
                    seq: row.get(0)?,
                    caller: row.get(1)?,
                    request_id: row.get::<_, String>(2)?.parse().map_err(bad)?,
                    provider: row.get::<_, String>(3)?.parse().map_err(bad)?,
                    action: row.get::<_, String>(4)?.parse().map_err(bad)?,
                    nonce: row.get(5)?,
                    probe: row.get(6)?,
                })
            })?
            .collect()
        })
        .map_err(at("read the unknown outcomes"))
}

/// Forgets an unknown outcome that has been settled; `false` if it was forgotten before.
///
/// # Errors
/// [`StoreError`].
pub fn forget_unknown(tx: &Transaction<'_>, seq: i64) -> Result<bool, StoreError> {
    let gone = tx
        .view()
        .prepare_cached("DELETE FROM unknown_outcomes WHERE seq = ?1")
        .and_then(|mut s| s.execute(params![seq]))
        .map_err(at("forget an unknown outcome"))?;
    Ok(gone == 1)
}

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
pub fn keep_reply(
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
    tx.charge_reply(caller, document.len())
}

/// The longest chain of requests that were answered with each other's reply.
const COPIES_MAX: usize = 4;

/// Returns the last reply to a request, if it is still kept. A request that was answered with another one's reply has
/// no copy. Its row names the other request, and is the reply's evidence.
///
/// # Errors
/// [`StoreError`].
pub fn reply(tx: &Transaction<'_>, caller: &str, id: &RequestId) -> Result<Option<Box<[u8]>>, StoreError> {
    reply_at(tx.view(), tx.steady(), caller, id)
}

fn reply_at(view: &View, steady: Timestamp, caller: &str, id: &RequestId) -> Result<Option<Box<[u8]>>, StoreError> {
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
pub fn amend_reply(tx: &Transaction<'_>, caller: &str, id: &RequestId, document: &[u8]) -> Result<(), StoreError> {
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
            Ok(id) if document.is_empty() => reply_at(view, steady, &caller, &id)?.map(Vec::from),
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

/// A call with the same idempotency key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claimed {
    /// The digest of its parameters.
    pub params_digest: Digest,
    /// The request that holds the key.
    pub request_id: RequestId,
    /// Whether it is a person's, while the call is on no person's behalf.
    pub is_a_persons: bool,
}

/// A call's idempotency key, and its owner.
#[derive(Debug, Clone, Copy)]
pub struct ClaimKey<'a> {
    /// The caller, in the ledger's form.
    pub caller: &'a str,
    /// The person on whose behalf the call is made, if there is one.
    pub person: Option<&'a str>,
    /// The account; empty for the provider's own.
    pub account: &'a str,
    /// The provider.
    pub provider: &'a Provider,
    /// The action.
    pub action: &'a Action,
    /// The key.
    pub key: &'a str,
}

/// Returns the holder of an idempotency key, if there is one: its person, or the group itself. If the call is on no
/// person's behalf, any person's key counts too, because it may be that person's call once more.
///
/// # Errors
/// [`StoreError`].
pub fn claimed(view: &View, claim: &ClaimKey<'_>) -> Result<Option<Claimed>, StoreError> {
    // One statement for each, so that each finds the key by an index.
    const OWN: &str = "SELECT params_digest, request_id, 0 FROM idempotency
        WHERE caller = ?1 AND person IN (?6, '') AND account = ?2 AND provider = ?3 AND action = ?4 AND key = ?5
        ORDER BY person = ?6 DESC LIMIT 1";
    const ANYBODYS: &str = "SELECT params_digest, request_id, person <> ?6 FROM idempotency
        WHERE caller = ?1 AND account = ?2 AND provider = ?3 AND action = ?4 AND key = ?5
        ORDER BY person = ?6 DESC LIMIT 1";
    let ClaimKey { caller, person, account, provider, action, key } = claim;
    let read = |row: &rusqlite::Row<'_>| {
        Ok(Claimed {
            params_digest: Digest::from_bytes(row.get(0)?),
            request_id: row.get::<_, String>(1)?.parse().map_err(|_bad| rusqlite::Error::InvalidQuery)?,
            is_a_persons: row.get(2)?,
        })
    };
    view.prepare_cached(if person.is_some() { OWN } else { ANYBODYS })
        .and_then(|mut s| {
            let person = person.unwrap_or_default();
            s.query_row(params![caller, account, provider.as_str(), action.as_str(), key, person], read).optional()
        })
        .map_err(at("look an idempotency key up"))
}

/// Claims an idempotency key for the request with this intent.
///
/// # Errors
/// [`StoreError`], also if another request holds it.
pub fn claim(
    tx: &Transaction<'_>,
    claim: &ClaimKey<'_>,
    (request_id, params_digest): (&RequestId, &Digest),
    seq: i64,
) -> Result<(), StoreError> {
    let ClaimKey { caller, person, account, provider, action, key } = claim;
    tx.view()
        .prepare_cached("INSERT INTO idempotency VALUES (?1, ?10, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)")
        .and_then(|mut s| {
            s.execute(params![
                caller,
                account,
                provider.as_str(),
                action.as_str(),
                key,
                params_digest.as_bytes(),
                request_id.as_str(),
                seq,
                tx.steady().millis(),
                person.unwrap_or_default(),
            ])
        })
        .map_err(at("claim an idempotency key"))?;
    Ok(())
}

/// The most bytes of stored replies of one caller. Above it the oldest delivered ones are deleted first.
const REPLY_BYTES_KEPT: i64 = 64 * 1024 * 1024;
/// The most rows that are deleted at once, so that the loop does not block.
const FORGOTTEN_MAX: i64 = 1_000;

/// Forgets replies and keys that no caller may ask for any more. A key stays while its outcome is open or unknown.
///
/// # Errors
/// [`StoreError`].
pub fn forget_old(tx: &Transaction<'_>) -> Result<(), StoreError> {
    // Rows are in the order of time, so the statement looks only at the oldest.
    const OLD_REPLIES: &str = "DELETE FROM replies WHERE seq <= (SELECT max(seq) FROM (
         SELECT seq, stored_at FROM replies ORDER BY seq LIMIT ?2) WHERE stored_at < ?1)";
    const OLD_KEYS: &str = "DELETE FROM idempotency WHERE (caller, person, account, provider, action, key) IN (
         SELECT caller, person, account, provider, action, key FROM idempotency
         WHERE claimed_at < ?1 AND seq NOT IN (SELECT seq FROM open_intents)
           AND seq NOT IN (SELECT seq FROM unknown_outcomes) LIMIT ?2)";
    let before = tx.steady().minus(limits::REPEAT_KEEP).millis();
    for statement in [OLD_REPLIES, OLD_KEYS] {
        tx.view()
            .prepare_cached(statement)
            .and_then(|mut s| s.execute(params![before, FORGOTTEN_MAX]))
            .map_err(at("forget old replies"))?;
    }
    shed_replies(tx)
}

/// Deletes the oldest replies of callers that have too many bytes stored.
fn shed_replies(tx: &Transaction<'_>) -> Result<(), StoreError> {
    const LARGE: &str = "SELECT caller FROM reply_bytes WHERE bytes > ?1";
    const SHED: &str = "DELETE FROM replies WHERE seq IN (
         SELECT seq FROM replies WHERE caller = ?1 AND seq <= (SELECT seq FROM delivered) ORDER BY seq LIMIT ?2)";
    let large: Vec<String> = tx
        .view()
        .prepare_cached(LARGE)
        .and_then(|mut s| s.query_map(params![REPLY_BYTES_KEPT], |row| row.get(0))?.collect())
        .map_err(at("look for large replies"))?;
    for caller in large {
        tx.view()
            .prepare_cached(SHED)
            .and_then(|mut s| s.execute(params![caller, FORGOTTEN_MAX / 10]))
            .map_err(at("forget old replies"))?;
    }
    Ok(())
}

/// Returns the level of a stored number.
///
/// # Errors
/// [`StoreError::Stored`] if there is no such level.
pub fn level(number: i64) -> Result<Level, StoreError> {
    Level::from_number(number).ok_or(StoreError::Stored { what: "level" })
}
