//! Open intents and unknown outcomes.
//!
//! An intent is open from its row to the row of its outcome. An unknown outcome waits for a probe or a person. Both
//! tables change in the transaction of the row, and prove nothing.

use crate::{StoreError, Transaction, View, at};
use rusqlite::{OptionalExtension as _, params};
use serde_json::Value;
use shared::{RequestId, Timestamp};
use std::time::Duration;

/// Returns whether an effect of the request is under way, or an approval request about it is open.
///
/// # Errors
/// [`StoreError`].
pub fn is_open(view: &View, caller: &str, id: &RequestId) -> Result<bool, StoreError> {
    view.prepare_cached(
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
    const OF_CALLER: &str = "SELECT count(*) FROM open_intents WHERE caller = ?1";
    const OF_AGENT: &str = "SELECT count(*) FROM open_intents WHERE caller IN (
        SELECT 'outside:' || ?1 UNION SELECT 'outside:' || other.grant_id
        FROM flow_grants AS own JOIN flow_grants AS other USING (issued_by, actor) WHERE own.grant_id = ?1)";
    let (count, of) = match caller.strip_prefix("outside:") {
        Some(access) => (OF_AGENT, access),
        None => (OF_CALLER, caller),
    };
    let count: i64 = tx
        .view()
        .prepare_cached(count)
        .and_then(|mut s| s.query_row(params![of], |row| row.get(0)))
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

/// Returns whether the row of an intent says that a plan waits for it.
///
/// # Errors
/// [`StoreError`].
pub fn is_for_plan(tx: &Transaction<'_>, seq: i64) -> Result<bool, StoreError> {
    tx.view()
        .prepare_cached("SELECT 1 FROM ledger WHERE seq = ?1 AND json_extract(body, '$.plan') IS NOT NULL")
        .and_then(|mut s| s.exists(params![seq]))
        .map_err(at("look for the plan of an intent"))
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
