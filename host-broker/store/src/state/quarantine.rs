//! Quarantine: results that look hostile, withheld until a person has looked at them.
//!
//! A withheld result went through the filter like any result, so it contains no credentials. Its name is its row's
//! number. It is deleted when it is released or after a week.

use crate::Transaction;
use crate::View;
use crate::{StoreError, at};
use rusqlite::{OptionalExtension as _, Row, params};
use serde_json::Value;
use shared::{Action, Level, Provider, RequestId, Timestamp};
use std::time::Duration;

/// The most withheld results of one caller, the newest.
const KEPT_MAX: i64 = 100;
/// The time for which a result is withheld.
const KEPT: Duration = Duration::from_secs(7 * 24 * 3600);

/// A result in quarantine.
#[derive(Debug, Clone, PartialEq)]
pub struct Quarantined {
    /// The outcome's row, whose number is its name.
    pub seq: i64,
    /// The caller, in the ledger's form.
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
    /// The reasons: words that never change.
    pub reasons: Vec<String>,
    /// The result, without delimiters.
    pub data: Value,
    /// The summary.
    pub summary: String,
    /// The time of the outcome.
    pub at: Timestamp,
}

/// Returns the name under which people and agents know it.
pub fn name(seq: i64) -> String {
    format!("q-{seq}")
}

/// Returns the row behind a name, if it is one.
pub fn seq(name: &str) -> Option<i64> {
    let seq = name.strip_prefix("q-")?.parse().ok()?;
    (self::name(seq) == name).then_some(seq)
}

/// A result to be withheld.
#[derive(Debug, Clone, Copy)]
pub struct NewQuarantined<'a> {
    /// The row of its outcome.
    pub seq: i64,
    /// The caller, in the ledger's form.
    pub caller: &'a str,
    /// The request.
    pub request_id: &'a RequestId,
    /// The provider.
    pub provider: &'a Provider,
    /// The action.
    pub action: &'a Action,
    /// The level that the call demanded.
    pub level: Level,
    /// The verdict of the inspection.
    pub verdict: &'a str,
    /// The reasons for it.
    pub reasons: &'a [&'a str],
    /// The result.
    pub data: &'a Value,
    /// The summary.
    pub summary: &'a str,
}

/// Withholds a result, under its outcome's row.
///
/// # Errors
/// [`StoreError`]; it must then not be delivered either.
pub fn put(tx: &Transaction<'_>, entry: &NewQuarantined<'_>) -> Result<(), StoreError> {
    const ENOUGH: &str = "DELETE FROM quarantine WHERE caller = ?1 AND seq <=
        (SELECT seq FROM quarantine WHERE caller = ?1 ORDER BY seq DESC LIMIT 1 OFFSET ?2)";
    const INSERT: &str = "INSERT INTO quarantine VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)";
    let data = entry.data.to_string();
    tx.charge_bytes(entry.caller, data.len())?;
    tx.view()
        .prepare_cached(INSERT)
        .and_then(|mut s| {
            s.execute(params![
                entry.seq,
                entry.caller,
                entry.request_id.as_str(),
                entry.provider.as_str(),
                entry.action.as_str(),
                i64::from(entry.level.number()),
                entry.verdict,
                serde_json::to_string(entry.reasons).unwrap_or_default(),
                data,
                entry.summary,
                tx.now().millis(),
            ])
        })
        .map_err(at("keep a result back"))?;
    tx.view()
        .prepare_cached(ENOUGH)
        .and_then(|mut s| s.execute(params![entry.caller, KEPT_MAX]))
        .map_err(at("forget kept results"))?;
    Ok(())
}

/// Returns one of them.
///
/// # Errors
/// [`StoreError`] if it cannot be read.
pub fn find(view: &View, seq: i64) -> Result<Option<Quarantined>, StoreError> {
    view.prepare_cached("SELECT * FROM quarantine WHERE seq = ?1")
        .and_then(|mut s| s.query_row(params![seq], |row| Ok(read(row))).optional())
        .map_err(at("look a kept result up"))?
        .transpose()
}

/// Returns all of them, oldest first.
///
/// # Errors
/// [`StoreError`] if they cannot be read.
pub fn list(view: &View) -> Result<Vec<Quarantined>, StoreError> {
    let mut statement = view.prepare("SELECT * FROM quarantine ORDER BY seq").map_err(at("list withheld results"))?;
    let rows = statement.query_map([], |row| Ok(read(row))).map_err(at("list withheld results"))?;
    rows.map(|row| row.map_err(at("list withheld results")).and_then(|kept| kept)).collect()
}

/// Deletes a withheld result; `false` if there was none.
///
/// # Errors
/// [`StoreError`].
pub fn forget(tx: &Transaction<'_>, seq: i64) -> Result<bool, StoreError> {
    let gone = tx
        .view()
        .prepare_cached("DELETE FROM quarantine WHERE seq = ?1")
        .and_then(|mut s| s.execute(params![seq]))
        .map_err(at("forget a kept result"))?;
    Ok(gone == 1)
}

/// Forgets results that were not released in a week.
///
/// # Errors
/// [`StoreError`].
pub fn forget_old(tx: &Transaction<'_>) -> Result<(), StoreError> {
    tx.view()
        .prepare_cached("DELETE FROM quarantine WHERE at < ?1")
        .and_then(|mut s| s.execute(params![tx.now().minus(KEPT).millis()]))
        .map_err(at("forget kept results"))?;
    Ok(())
}

fn read(row: &Row<'_>) -> Result<Quarantined, StoreError> {
    let bad = |what: &'static str| StoreError::Stored { what };
    let text = |index: usize| row.get::<_, String>(index).map_err(at("read a kept result"));
    let number = |index: usize| row.get::<_, i64>(index).map_err(at("read a kept result"));
    Ok(Quarantined {
        seq: number(0)?,
        caller: text(1)?,
        request_id: text(2)?.parse().map_err(|_bad| bad("request id"))?,
        provider: text(3)?.parse().map_err(|_bad| bad("provider"))?,
        action: text(4)?.parse().map_err(|_bad| bad("action"))?,
        level: crate::state::requests::level(number(5)?)?,
        verdict: text(6)?,
        reasons: serde_json::from_str(&text(7)?).map_err(|_bad| bad("reasons"))?,
        data: serde_json::from_str(&text(8)?).map_err(|_bad| bad("result"))?,
        summary: text(9)?,
        at: Timestamp::from_millis(number(10)?),
    })
}
