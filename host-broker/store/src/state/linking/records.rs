//! Sealed records of all kinds: their master keys, and the change to another one.

use super::change;
use crate::Transaction;
use crate::View;
use crate::state::accounts;
use crate::{StoreError, at};
use model::{Ciphertext, Place, RecordKind};
use rusqlite::params;
use shared::Provider;

/// A record of the vault, with its place.
struct Record {
    table: &'static Table,
    person: String,
    capability: Provider,
    name: String,
    sealed: Ciphertext,
    approval_request: Option<i64>,
}

/// A table of records, with the statements for it. The record itself is part of each condition, because two approval
/// requests may be about one account.
struct Table {
    name: &'static str,
    select: &'static str,
    replace: &'static str,
    // Without this statement, a forgotten record is set to none.
    delete: Option<&'static str>,
}

/// The tables of all sealed records.
static TABLES: [Table; 3] = [
    Table {
        name: "credentials",
        select: "SELECT person, capability, account_ref, sealed, NULL FROM credentials",
        replace: "UPDATE credentials SET sealed = ?5
            WHERE person = ?1 AND capability = ?2 AND account_ref = ?3 AND sealed = ?4",
        delete: Some(
            "DELETE FROM credentials WHERE person = ?1 AND capability = ?2 AND account_ref = ?3 AND sealed = ?4",
        ),
    },
    Table {
        name: "account_links",
        select: "SELECT person, capability, account_ref, sealed, approval FROM account_links WHERE sealed IS NOT NULL",
        replace: "UPDATE account_links SET sealed = ?5
            WHERE person = ?1 AND capability = ?2 AND account_ref = ?3 AND sealed = ?4",
        delete: None,
    },
    Table {
        name: "auth_flows",
        select: "SELECT person, capability, id, sealed, NULL FROM auth_flows WHERE sealed IS NOT NULL",
        replace: "UPDATE auth_flows SET sealed = ?5 WHERE person = ?1 AND capability = ?2 AND id = ?3 AND sealed = ?4",
        delete: Some("DELETE FROM auth_flows WHERE person = ?1 AND capability = ?2 AND id = ?3 AND sealed = ?4"),
    },
];

fn records(view: &View) -> Result<Vec<Record>, StoreError> {
    let mut all = Vec::new();
    for table in &TABLES {
        let mut statement = view.prepare(table.select).map_err(at("read the vault"))?;
        let rows = statement.query_map([], |row| {
            let sealed = Ciphertext::from_bytes(row.get(3)?);
            Ok((row.get(0)?, row.get::<_, String>(1)?, row.get(2)?, sealed, row.get(4)?))
        });
        let rows: Vec<_> = rows.and_then(Iterator::collect).map_err(at("read the vault"))?;
        for (person, capability, name, sealed, approval_request) in rows {
            let capability = capability.parse().map_err(|_bad| StoreError::Stored { what: "capability" })?;
            all.push(Record { table, person, capability, name, sealed, approval_request });
        }
    }
    Ok(all)
}

/// Returns every record as it is stored.
///
/// # Errors
/// [`StoreError`] if they cannot be read.
pub fn ciphertexts(view: &View) -> Result<Vec<Ciphertext>, StoreError> {
    Ok(records(view)?.into_iter().map(|record| record.sealed).collect())
}

/// Counts the records by kind: credentials, accounts that wait for an approval, flows.
///
/// # Errors
/// [`StoreError`] if they cannot be read.
pub fn count(view: &View) -> Result<[usize; 3], StoreError> {
    let all = records(view)?;
    Ok(TABLES.each_ref().map(|table| all.iter().filter(|record| record.table.name == table.name).count()))
}

/// The result of sealing every record again.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Resealed {
    /// The number of records that are newly under the present master key.
    pub renewed: usize,
    /// The number of records that cannot be opened, and are unchanged.
    pub unreadable: usize,
    /// The number of records that could not be opened and are deleted, with their accounts.
    pub forgotten: usize,
    /// The approval requests about accounts that could not be opened. They cannot be answered any more.
    pub approval_requests: Vec<i64>,
}

/// Replaces every record by the result of `rewrap`: `Ok(None)` leaves it, and an error leaves it or forgets it.
///
/// # Errors
/// [`StoreError`]; all records are unchanged, once the transaction is undone.
pub fn reseal<E>(
    tx: &Transaction<'_>,
    rewrap: impl Fn(&Place<'_>, &Ciphertext) -> Result<Option<Ciphertext>, E>,
    forget: bool,
) -> Result<Resealed, StoreError> {
    let mut done = Resealed::default();
    for record in records(tx.view())? {
        let Record { table, person, capability, name, sealed, approval_request: _ } = &record;
        let what = if table.name == "auth_flows" { RecordKind::Flow } else { RecordKind::Credential };
        match rewrap(&Place { what, person, capability, name }, sealed) {
            Ok(None) => {}
            Ok(Some(renewed)) => done.renewed += record.replace(tx, Some(&renewed))?,
            Err(_) if forget => {
                done.approval_requests.extend(record.approval_request);
                done.forgotten += record.replace(tx, None)?;
            }
            Err(_) => done.unreadable += 1,
        }
    }
    Ok(done)
}

impl Record {
    /// Replaces the record by another one, or by none. Returns the number of rows.
    fn replace(&self, tx: &Transaction<'_>, with: Option<&Ciphertext>) -> Result<usize, StoreError> {
        let Self { table, person, capability, name, sealed, approval_request: _ } = self;
        let rows = if let Some(delete) = table.delete.filter(|_| with.is_none()) {
            change(tx, delete, params![person, capability.as_str(), name, sealed.bytes()])?
        } else {
            let new = params![person, capability.as_str(), name, sealed.bytes(), with.map(Ciphertext::bytes)];
            change(tx, table.replace, new)?
        };
        if with.is_none() && table.name == "credentials" {
            accounts::unlink(tx, person, Some(capability), Some(name))?;
        }
        Ok(rows)
    }
}
