//! The table of credentials of accounts.

use super::change;
use crate::Transaction;
use crate::View;
use crate::{StoreError, at};
use model::Ciphertext;
use model::{Renewal, StoredCredential};
use rusqlite::{OptionalExtension as _, Row, params};
use shared::{Provider, Timestamp};

/// Stores the credential of an account, with the time until which it can be used without renewal. `None` means that the
/// broker has none for it.
///
/// # Errors
/// [`StoreError`]; it is as it was.
pub fn keep_credential(
    tx: &Transaction<'_>,
    (person, capability, account): (&str, &Provider, &str),
    credential: Option<(&Ciphertext, Option<Timestamp>)>,
) -> Result<(), StoreError> {
    let Some((sealed, fresh_until)) = credential else {
        let delete = "DELETE FROM credentials WHERE person = ?1 AND capability = ?2 AND account_ref = ?3";
        return change(tx, delete, params![person, capability.as_str(), account]).map(drop);
    };
    let until = fresh_until.map(Timestamp::millis);
    let with = params![person, capability.as_str(), account, sealed.bytes(), until, tx.now().millis()];
    change(tx, "INSERT OR REPLACE INTO credentials VALUES (?1, ?2, ?3, ?4, ?5, ?6)", with).map(drop)
}

/// Returns the credential of an account, if the broker has it, and the time until which it can be used without renewal.
///
/// # Errors
/// [`StoreError`] if it cannot be read; the account must then not be used.
pub fn credential(
    view: &View,
    person: &str,
    capability: &Provider,
    account: &str,
) -> Result<Option<(Ciphertext, Option<Timestamp>)>, StoreError> {
    const FIND: &str =
        "SELECT sealed, fresh_until FROM credentials WHERE person = ?1 AND capability = ?2 AND account_ref = ?3";
    let read = |row: &Row<'_>| Ok((Ciphertext::from_bytes(row.get(0)?), row.get::<_, Option<i64>>(1)?));
    let found = view
        .prepare_cached(FIND)
        .and_then(|mut s| s.query_row(params![person, capability.as_str(), account], read).optional())
        .map_err(at("look a credential up"))?;
    Ok(found.map(|(sealed, until)| (sealed, until.map(Timestamp::from_millis))))
}

/// Returns at most so many credentials of a person, the shortest first. None is longer than so many bytes.
///
/// # Errors
/// [`StoreError`] if they cannot be read.
pub fn short_credentials(
    view: &View,
    person: &str,
    bytes_max: usize,
    most: usize,
) -> Result<Vec<StoredCredential>, StoreError> {
    const FIND: &str = "SELECT capability, account_ref, sealed FROM credentials
        WHERE person = ?1 AND length(sealed) <= ?2
        ORDER BY length(sealed), capability, account_ref LIMIT ?3";
    let read = |row: &Row<'_>| {
        let capability = row.get::<_, String>(0)?.parse().ok();
        let (name, sealed) = (row.get(1)?, Ciphertext::from_bytes(row.get(2)?));
        Ok(capability.map(|capability| StoredCredential { person: person.to_owned(), capability, name, sealed }))
    };
    let limits = [bytes_max, most].map(|limit| i64::try_from(limit).unwrap_or(i64::MAX));
    view.prepare_cached(FIND)
        .and_then(|mut s| s.query_map(params![person, limits[0], limits[1]], read)?.collect::<Result<Vec<_>, _>>())
        .map(|found| found.into_iter().flatten().collect())
        .map_err(at("look the credentials of a person up"))
}

/// Replaces the credential of an account, if the stored one is still the expected one. Returns whether it was.
///
/// # Errors
/// [`StoreError`]; it is as it was.
pub fn renew(
    tx: &Transaction<'_>,
    person: &str,
    capability: &Provider,
    account: &str,
    renewal: &Renewal,
) -> Result<bool, StoreError> {
    let Renewal { old, new, fresh_until } = renewal;
    let until = fresh_until.map(Timestamp::millis);
    let key = (person, capability.as_str(), account);
    let with = params![key.0, key.1, key.2, old.bytes(), new.bytes(), until, tx.now().millis()];
    let update = "UPDATE credentials SET sealed = ?5, fresh_until = ?6, stored_at = ?7
        WHERE person = ?1 AND capability = ?2 AND account_ref = ?3 AND sealed = ?4";
    change(tx, update, with).map(|count| count > 0)
}

/// Forgets the credentials of accounts: those of this person, at this capability, of this name, or all.
///
/// # Errors
/// [`StoreError`]; they are as they were.
pub fn drop_credentials(
    tx: &Transaction<'_>,
    person: &str,
    capability: Option<&Provider>,
    account: Option<&str>,
) -> Result<(), StoreError> {
    let delete = "DELETE FROM credentials WHERE person = ?1 AND capability = coalesce(?2, capability)
        AND account_ref = coalesce(?3, account_ref)";
    change(tx, delete, params![person, capability.map(Provider::as_str), account]).map(drop)
}
