//! Idempotency keys: one holder for each owner, for a day.

use crate::{StoreError, Transaction, View, at};
use rusqlite::{OptionalExtension as _, params};
use shared::digest::Digest;
use shared::{Action, Provider, RequestId, limits};

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
    // Without the name of the index, SQLite reads all keys of the caller by the primary key.
    const ANYBODYS: &str = "SELECT params_digest, request_id, person <> ?6
        FROM idempotency INDEXED BY idempotency_key
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

/// Releases the idempotency key of a request that did not begin.
///
/// # Errors
/// [`StoreError`]; the key stays claimed.
pub fn release(tx: &Transaction<'_>, claim: &ClaimKey<'_>, request_id: &RequestId) -> Result<(), StoreError> {
    const DELETE: &str = "DELETE FROM idempotency WHERE caller = ?1 AND person = ?6 AND account = ?2 AND provider = ?3
        AND action = ?4 AND key = ?5 AND request_id = ?7";
    let ClaimKey { caller, person, account, provider, action, key } = claim;
    let person = person.unwrap_or_default();
    tx.view()
        .prepare_cached(DELETE)
        .and_then(|mut s| {
            s.execute(params![caller, account, provider.as_str(), action.as_str(), key, person, request_id.as_str()])
        })
        .map_err(at("release an idempotency key"))?;
    Ok(())
}

/// The most rows that are deleted at once, so that the loop does not block.
const FORGOTTEN_MAX: i64 = 1_000;

/// Forgets keys that no caller may use any more. A key stays while its outcome is open or unknown.
///
/// # Errors
/// [`StoreError`].
pub fn forget_old(tx: &Transaction<'_>) -> Result<(), StoreError> {
    const DELETE: &str = "DELETE FROM idempotency WHERE (caller, person, account, provider, action, key) IN (
         SELECT caller, person, account, provider, action, key FROM idempotency
         WHERE claimed_at < ?1 AND seq NOT IN (SELECT seq FROM open_intents)
           AND seq NOT IN (SELECT seq FROM unknown_outcomes) LIMIT ?2)";
    let before = tx.steady().minus(limits::REPEAT_KEEP).millis();
    tx.view()
        .prepare_cached(DELETE)
        .and_then(|mut s| s.execute(params![before, FORGOTTEN_MAX]))
        .map_err(at("forget old idempotency keys"))?;
    Ok(())
}
