//! Quarantine: results that look hostile, kept back until a person has looked at them.
//!
//! What is kept went through the filter like any result: credentials are out of it. It goes with its row's number, and is
//! gone when it is released or after a week.

use crate::call::Call;
use crate::filter::finished::KeptBack;
use crate::ledger::transaction::Transaction;
use crate::ledger::{LedgerError, at};
use rusqlite::{Connection, OptionalExtension as _, Row, params};
use serde_json::Value;
use shared::{Action, Level, Provider, RequestId, Timestamp};
use std::time::Duration;

/// So many of one caller, the newest.
const KEPT_MAX: i64 = 100;
/// How long it is kept.
const KEPT: Duration = Duration::from_secs(7 * 24 * 3600);

/// A result in quarantine.
#[derive(Debug, Clone, PartialEq)]
pub struct Kept {
    /// The outcome's row, whose number is its name.
    pub seq: i64,
    /// Whose call it was, as the ledger writes callers.
    pub caller: String,
    /// The request.
    pub request_id: RequestId,
    /// The provider.
    pub provider: Provider,
    /// The action.
    pub action: Action,
    /// The level that the call demanded.
    pub level: Level,
    /// `suspicious` or `hostile`.
    pub verdict: String,
    /// Why: words that never change.
    pub reasons: Vec<String>,
    /// The result, before a fence.
    pub data: Value,
    /// Its line.
    pub summary: String,
    /// When.
    pub at: Timestamp,
}

/// The name under which people and agents know it.
pub fn name(seq: i64) -> String {
    format!("q-{seq}")
}

/// The row behind a name, if it is one.
pub fn seq(name: &str) -> Option<i64> {
    let seq = name.strip_prefix("q-")?.parse().ok()?;
    (self::name(seq) == name).then_some(seq)
}

/// Keeps a result back, under its outcome's row.
///
/// # Errors
/// [`LedgerError`]; it must then not be handed over either.
pub fn put(tx: &Transaction<'_>, seq: i64, call: &Call, kept: &KeptBack) -> Result<(), LedgerError> {
    const ENOUGH: &str = "DELETE FROM quarantine WHERE caller = ?1 AND seq <=
        (SELECT seq FROM quarantine WHERE caller = ?1 ORDER BY seq DESC LIMIT 1 OFFSET ?2)";
    const INSERT: &str = "INSERT INTO quarantine VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)";
    let reasons: Vec<&str> = kept.verdict.reasons().iter().map(crate::filter::inspect::Reason::word).collect();
    tx.connection()
        .prepare_cached(INSERT)
        .and_then(|mut s| {
            s.execute(params![
                seq,
                &*call.header.caller_key,
                call.header.request_id.as_str(),
                call.provider.as_str(),
                call.action.as_str(),
                i64::from(call.target.demanded().number()),
                kept.verdict.word(),
                serde_json::to_string(&reasons).unwrap_or_default(),
                kept.data.to_string(),
                kept.summary,
                tx.now().millis(),
            ])
        })
        .map_err(at("keep a result back"))?;
    tx.connection()
        .prepare_cached(ENOUGH)
        .and_then(|mut s| s.execute(params![&*call.header.caller_key, KEPT_MAX]))
        .map_err(at("forget kept results"))?;
    Ok(())
}

/// One of them.
///
/// # Errors
/// [`LedgerError`] if it cannot be read.
pub fn find(connection: &Connection, seq: i64) -> Result<Option<Kept>, LedgerError> {
    connection
        .prepare_cached("SELECT * FROM quarantine WHERE seq = ?1")
        .and_then(|mut s| s.query_row(params![seq], |row| Ok(read(row))).optional())
        .map_err(at("look a kept result up"))?
        .transpose()
}

/// All of them, oldest first.
///
/// # Errors
/// [`LedgerError`] if they cannot be read.
pub fn list(connection: &Connection) -> Result<Vec<Kept>, LedgerError> {
    let mut statement =
        connection.prepare("SELECT * FROM quarantine ORDER BY seq").map_err(at("list what is kept back"))?;
    let rows = statement.query_map([], |row| Ok(read(row))).map_err(at("list what is kept back"))?;
    rows.map(|row| row.map_err(at("list what is kept back")).and_then(|kept| kept)).collect()
}

/// It is kept no longer; `false` if it was not.
///
/// # Errors
/// [`LedgerError`].
pub fn forget(tx: &Transaction<'_>, seq: i64) -> Result<bool, LedgerError> {
    let gone = tx
        .connection()
        .prepare_cached("DELETE FROM quarantine WHERE seq = ?1")
        .and_then(|mut s| s.execute(params![seq]))
        .map_err(at("forget a kept result"))?;
    Ok(gone == 1)
}

/// Forgets what nobody has released in a week.
///
/// # Errors
/// [`LedgerError`].
pub fn forget_old(tx: &Transaction<'_>) -> Result<(), LedgerError> {
    tx.connection()
        .prepare_cached("DELETE FROM quarantine WHERE at < ?1")
        .and_then(|mut s| s.execute(params![tx.now().minus(KEPT).millis()]))
        .map_err(at("forget kept results"))?;
    Ok(())
}

fn read(row: &Row<'_>) -> Result<Kept, LedgerError> {
    let bad = |what: &'static str| LedgerError::Stored { what };
    let text = |index: usize| row.get::<_, String>(index).map_err(at("read a kept result"));
    let number = |index: usize| row.get::<_, i64>(index).map_err(at("read a kept result"));
    Ok(Kept {
        seq: number(0)?,
        caller: text(1)?,
        request_id: text(2)?.parse().map_err(|_bad| bad("request id"))?,
        provider: text(3)?.parse().map_err(|_bad| bad("provider"))?,
        action: text(4)?.parse().map_err(|_bad| bad("action"))?,
        level: crate::ledger::store::level(number(5)?)?,
        verdict: text(6)?,
        reasons: serde_json::from_str(&text(7)?).map_err(|_bad| bad("reasons"))?,
        data: serde_json::from_str(&text(8)?).map_err(|_bad| bad("result"))?,
        summary: text(9)?,
        at: Timestamp::from_millis(number(10)?),
    })
}
