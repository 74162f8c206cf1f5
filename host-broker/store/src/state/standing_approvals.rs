//! The table of standing approvals.

use super::approvals::changed_one;
use crate::{StoreError, Transaction, View, at};
use model::standing_approval::StandingApproval;
use rusqlite::{Row, params};
use serde::de::DeserializeOwned;
use shared::digest::Digest;
use shared::{Action, Provider, Timestamp};

const COLUMNS: &str = "id, caller, person, provider, action, level, terms, policy, pattern, covers, exposures, asked_seq, \
     given_by, given_at, until, of_session, ended_at, ended_by, uses, used_at";

/// The one that ends a standing approval whose time is over.
pub const EXPIRY: &str = "expiry";
/// The most standing approvals of one caller that are in force.
pub const IN_FORCE_MAX: usize = 100;

fn select(view: &View, condition: &str, with: impl rusqlite::Params) -> Result<Vec<StandingApproval>, StoreError> {
    let statement = format!("SELECT {COLUMNS} FROM standing_approvals WHERE {condition}");
    let mut statement = view.prepare_cached(&statement).map_err(at("look standing approvals up"))?;
    let mut rows = statement.query(with).map_err(at("look standing approvals up"))?;
    let mut found = Vec::new();
    while let Some(row) = rows.next().map_err(at("look standing approvals up"))? {
        found.push(read(row)?);
    }
    Ok(found)
}

fn read(row: &Row<'_>) -> Result<StandingApproval, StoreError> {
    let bad = |what: &'static str| StoreError::Stored { what };
    let text = |index: usize| row.get::<_, String>(index).map_err(at("read a standing approval"));
    let number = |index: usize| row.get::<_, i64>(index).map_err(at("read a standing approval"));
    let optional = |index: usize| row.get::<_, Option<String>>(index).map_err(at("read a standing approval"));
    let time = |index: usize| row.get::<_, Option<i64>>(index).map_err(at("read a standing approval"));
    let digest = |index: usize| row.get(index).map(Digest::from_bytes).map_err(at("read a standing approval"));
    let ended_by = optional(17)?.unwrap_or_default();
    Ok(StandingApproval {
        id: number(0)?,
        caller: text(1)?,
        person: optional(2)?,
        provider: text(3)?.parse().map_err(|_bad| bad("provider"))?,
        action: text(4)?.parse().map_err(|_bad| bad("action"))?,
        level: crate::state::requests::level(number(5)?)?,
        terms: digest(6)?,
        policy: digest(7)?,
        pattern: optional(8)?.map(|pattern| json(&pattern, "pattern")).transpose()?,
        covers: json(&text(9)?, "reasons")?,
        exposures: json(&text(10)?, "exposures")?,
        asked_seq: number(11)?,
        given_by: text(12)?,
        given_at: Timestamp::from_millis(number(13)?),
        until: Timestamp::from_millis(number(14)?),
        of_session: number(15)? != 0,
        ended: time(16)?.map(|at| (Timestamp::from_millis(at), ended_by)),
        uses: u64::try_from(number(18)?).map_err(|_bad| bad("uses"))?,
        used_at: time(19)?.map(Timestamp::from_millis),
    })
}

fn json<T: DeserializeOwned>(text: &str, what: &'static str) -> Result<T, StoreError> {
    serde_json::from_str(text).map_err(|_bad| StoreError::Stored { what })
}

fn written(value: &impl serde::Serialize, what: &'static str) -> Result<String, StoreError> {
    serde_json::to_string(value).map_err(|_bad| StoreError::Stored { what })
}

/// Returns the standing approvals of a caller for an action that are in force, with these digests, oldest first.
///
/// # Errors
/// [`StoreError`] if they cannot be read; none may then cover a call.
pub fn in_force(
    view: &View,
    caller: &str,
    (provider, action): (&Provider, &Action),
    (terms, policy): (Digest, Digest),
    now: Timestamp,
) -> Result<Vec<StandingApproval>, StoreError> {
    let condition = "ended_at IS NULL AND caller = ?1 AND provider = ?2 AND action = ?3 AND terms = ?4 AND policy = ?5
         AND until > ?6 ORDER BY id";
    let (terms, policy, now) = (terms.as_bytes(), policy.as_bytes(), now.millis());
    select(view, condition, params![caller, provider.as_str(), action.as_str(), terms, policy, now])
}

/// Returns the standing approvals of all callers that are not ended, oldest first.
///
/// # Errors
/// [`StoreError`] if they cannot be read.
pub fn not_ended(view: &View) -> Result<Vec<StandingApproval>, StoreError> {
    select(view, "ended_at IS NULL ORDER BY id", [])
}

/// Returns the latest ones that are ended, newest first.
///
/// # Errors
/// [`StoreError`] if they cannot be read.
pub fn ended(view: &View, most: usize) -> Result<Vec<StandingApproval>, StoreError> {
    let most = i64::try_from(most).unwrap_or(i64::MAX);
    select(view, "ended_at IS NOT NULL ORDER BY id DESC LIMIT ?1", params![most])
}

/// Returns the standing approval with this number.
///
/// # Errors
/// [`StoreError`] if it cannot be read.
pub fn find(view: &View, id: i64) -> Result<Option<StandingApproval>, StoreError> {
    select(view, "id = ?1", params![id]).map(|found| found.into_iter().next())
}

/// Returns whether the caller can get no further standing approval.
///
/// # Errors
/// [`StoreError`] if they cannot be read.
pub fn is_full(view: &View, caller: &str) -> Result<bool, StoreError> {
    let count: i64 = view
        .prepare_cached("SELECT count(*) FROM standing_approvals WHERE ended_at IS NULL AND caller = ?1")
        .and_then(|mut s| s.query_row(params![caller], |row| row.get(0)))
        .map_err(at("count standing approvals"))?;
    Ok(usize::try_from(count).unwrap_or(usize::MAX) >= IN_FORCE_MAX)
}

/// Stores a standing approval, and returns its number. The `id`, the end and the uses of `given` are not looked at.
///
/// # Errors
/// [`StoreError`]; it is not given.
pub fn give(tx: &Transaction<'_>, given: &StandingApproval) -> Result<i64, StoreError> {
    const INSERT: &str = "INSERT INTO standing_approvals
        (caller, person, provider, action, level, terms, policy, pattern, covers, exposures, asked_seq, given_by, given_at,
         until, of_session)
        VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15)";
    tx.view()
        .prepare_cached(INSERT)
        .map_err(at("store a standing approval"))?
        .insert(params![
            given.caller,
            given.person,
            given.provider.as_str(),
            given.action.as_str(),
            i64::from(given.level.number()),
            given.terms.as_bytes(),
            given.policy.as_bytes(),
            written(&given.pattern, "pattern")?,
            written(&given.covers, "reasons")?,
            written(&given.exposures, "exposures")?,
            given.asked_seq,
            given.given_by,
            given.given_at.millis(),
            given.until.millis(),
            given.of_session,
        ])
        .map_err(at("store a standing approval"))
}

/// Counts a call that the standing approval covers, while it is in force.
///
/// # Errors
/// [`StoreError`], also if it is over; the intent must then not be written.
pub fn count_use(tx: &Transaction<'_>, id: i64) -> Result<(), StoreError> {
    const UPDATE: &str = "UPDATE standing_approvals SET uses = uses + 1, used_at = ?2
         WHERE id = ?1 AND ended_at IS NULL AND until > ?2";
    changed_one(tx, UPDATE, params![id, tx.now().millis()])
}

/// Ends a standing approval; `false` if it was over.
///
/// # Errors
/// [`StoreError`]; it is still in force.
pub fn end(tx: &Transaction<'_>, id: i64, by: &str) -> Result<bool, StoreError> {
    const UPDATE: &str = "UPDATE standing_approvals SET ended_at = ?2, ended_by = ?3, pattern = NULL
         WHERE id = ?1 AND ended_at IS NULL";
    tx.view()
        .prepare_cached(UPDATE)
        .and_then(|mut s| s.execute(params![id, tx.now().millis(), by]))
        .map(|changed| changed == 1)
        .map_err(at("end a standing approval"))
}

/// Ends the standing approvals that last as long as this session, and returns their numbers.
///
/// # Errors
/// [`StoreError`]; they are still in force.
pub fn end_with_session(tx: &Transaction<'_>, caller: &str, by: &str) -> Result<Vec<i64>, StoreError> {
    const UPDATE: &str = "UPDATE standing_approvals SET ended_at = ?2, ended_by = ?3, pattern = NULL
         WHERE caller = ?1 AND ended_at IS NULL AND of_session = 1 RETURNING id";
    let now = tx.now().millis();
    tx.view()
        .prepare_cached(UPDATE)
        .and_then(|mut s| s.query_map(params![caller, now, by], |row| row.get(0))?.collect())
        .map_err(at("end standing approvals"))
}

/// Ends the standing approvals that have expired, and deletes their parameters.
///
/// # Errors
/// [`StoreError`]; nothing is changed.
pub fn end_expired(tx: &Transaction<'_>) -> Result<(), StoreError> {
    const UPDATE: &str = "UPDATE standing_approvals SET ended_at = until, ended_by = ?2, pattern = NULL
         WHERE ended_at IS NULL AND until <= ?1";
    tx.view()
        .prepare_cached(UPDATE)
        .and_then(|mut s| s.execute(params![tx.now().millis(), EXPIRY]))
        .map_err(at("end standing approvals"))?;
    Ok(())
}
