//! Accounts: a person's own accounts at a capability, and shares of them.
//!
//! A key of three parts names one: the person in the ledger's form, the capability, and the provider's name of the
//! account. A call may use the accounts of the person that the token proves. It may also use accounts that a person on
//! the host shared with that person, and no others. A shared one is named with its owner: `ash:user-1/work`.
//!
//! `account_keys` gives each link a number, to which approvals are bound. `account_refusals` has the accounts whose
//! credential was refused last.

use crate::Transaction;
use crate::View;
use crate::{StoreError, at};
use model::{Account, Share};
use rusqlite::{OptionalExtension as _, params};
use shared::{Provider, Timestamp};
use std::collections::{BTreeMap, BTreeSet};

/// Links an account; `false` if it was linked already, and then only its label changes.
///
/// # Errors
/// [`StoreError`]; nothing was linked.
pub fn link(tx: &Transaction<'_>, account: &Account) -> Result<bool, StoreError> {
    const KEY: &str = "INSERT OR REPLACE INTO account_keys (person, capability, account_ref) VALUES (?1, ?2, ?3)";
    const REFUSAL: &str = "DELETE FROM account_refusals WHERE person = ?1 AND capability = ?2 AND account_ref = ?3";
    let linked = own(tx.view(), &account.person, &account.capability)?.contains(&account.account_ref);
    tx.view()
        .prepare_cached(
            "INSERT INTO accounts VALUES (?1, ?2, ?3, ?4, ?5, ?6)
             ON CONFLICT (person, capability, account_ref) DO UPDATE SET label = coalesce(excluded.label, accounts.label)",
        )
        .and_then(|mut s| {
            s.execute(params![
                account.person,
                account.capability.as_str(),
                account.account_ref,
                account.label,
                account.linked_at.millis(),
                account.linked_by,
            ])
        })
        .map_err(at("link an account"))?;
    let name = (account.person.as_str(), &account.capability, account.account_ref.as_str());
    // SECURITY: a link replaces the credential, which may be of another account with the same name. So it has a number of its
    // own, and nobody has refused its credential.
    for statement in [KEY, REFUSAL] {
        let (person, capability, account_ref) = name;
        tx.view()
            .prepare_cached(statement)
            .and_then(|mut s| s.execute(params![person, capability.as_str(), account_ref]))
            .map_err(at("link an account"))?;
    }
    Ok(!linked)
}

/// Returns the number of the link of an account; `None` if there is no account, or if an earlier version linked it.
///
/// # Errors
/// [`StoreError`]; an approval then covers no call with the account.
pub fn key(view: &View, (person, capability, account_ref): (&str, &Provider, &str)) -> Result<Option<i64>, StoreError> {
    view.prepare_cached("SELECT id FROM account_keys WHERE person = ?1 AND capability = ?2 AND account_ref = ?3")
        .and_then(|mut s| s.query_row(params![person, capability.as_str(), account_ref], |row| row.get(0)).optional())
        .map_err(at("look accounts up"))
}

/// An account that a call on a card uses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShownAccount {
    /// The person on whose behalf the call is made.
    pub person: String,
    /// The capability.
    pub capability: Provider,
    /// The account, with its owner if it is a shared one.
    pub account_ref: String,
    /// The number of its link.
    pub key: Option<i64>,
}

/// Stores the account of a call on the card of an approval request.
///
/// # Errors
/// [`StoreError`]; the approval request must not be sent.
pub fn keep_shown(tx: &Transaction<'_>, approval: i64, shown: &ShownAccount) -> Result<(), StoreError> {
    let ShownAccount { person, capability, account_ref, key } = shown;
    tx.view()
        .prepare_cached("INSERT OR IGNORE INTO approval_accounts VALUES (?1, ?2, ?3, ?4, ?5)")
        .and_then(|mut s| s.execute(params![approval, person, capability.as_str(), account_ref, key]))
        .map(drop)
        .map_err(at("store the account of an approval request"))
}

/// Returns an account on the card of an approval request that the person can no longer use: it was unlinked, or another one
/// of the name was linked, or its share has ended.
///
/// # Errors
/// [`StoreError`]; the approval request must not be approved.
pub fn gone_since_shown(view: &View, approval: i64) -> Result<Option<ShownAccount>, StoreError> {
    const SHOWN: &str =
        "SELECT person, capability, account_ref, account_key FROM approval_accounts WHERE approval = ?1";
    let step = "look accounts up";
    let read = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get::<_, String>(1)?, row.get(2)?, row.get(3)?));
    let found: Vec<(String, String, String, Option<i64>)> =
        view.prepare_cached(SHOWN).and_then(|mut s| s.query_map([approval], read)?.collect()).map_err(at(step))?;
    for (person, capability, account_ref, stored) in found {
        let capability: Provider = capability.parse().map_err(|_bad| StoreError::Stored { what: "account" })?;
        let (owner, name) = model::owned(&account_ref);
        let present = key(view, (owner.unwrap_or(&person), &capability, name))?;
        if present != stored || !of(view, &person, &capability)?.contains(&account_ref) {
            return Ok(Some(ShownAccount { person, capability, account_ref, key: stored }));
        }
    }
    Ok(None)
}

/// The number of the newest rows of the ledger in which persons are looked for.
const KNOWN_ROWS: i64 = 5_000;

/// Returns the persons whom the broker knows: those with an account or a share, and those in the newest rows of the ledger.
///
/// # Errors
/// [`StoreError`].
pub fn known(view: &View) -> Result<BTreeSet<String>, StoreError> {
    const KNOWN: &str = "SELECT person FROM accounts
        UNION SELECT person FROM account_shares UNION SELECT with_person FROM account_shares
        UNION SELECT person FROM ledger
            WHERE seq > (SELECT coalesce(max(seq), 0) FROM ledger) - ?1 AND person IS NOT NULL";
    view.prepare_cached(KNOWN)
        .and_then(|mut s| s.query_map([KNOWN_ROWS], |row| row.get(0))?.collect())
        .map_err(at("look persons up"))
}

/// Notes that the credential of an account was refused by an attempt with this intent. A credential that was stored later was
/// not part of the attempt.
///
/// # Errors
/// [`StoreError`]; it is as it was.
pub fn note_refusal(
    tx: &Transaction<'_>,
    (person, capability, account_ref): (&str, &Provider, &str),
    intent: i64,
) -> Result<(), StoreError> {
    const NOTE: &str =
        "INSERT OR REPLACE INTO account_refusals SELECT person, capability, account_ref, ?4 FROM accounts a
        WHERE person = ?1 AND capability = ?2 AND account_ref = ?3 AND NOT EXISTS (SELECT 1 FROM credentials c
            WHERE c.person = ?1 AND c.capability = ?2 AND c.account_ref = ?3
                AND c.stored_at > (SELECT ts FROM ledger WHERE seq = ?5))";
    tx.view()
        .prepare_cached(NOTE)
        .and_then(|mut s| s.execute(params![person, capability.as_str(), account_ref, tx.now().millis(), intent]))
        .map(drop)
        .map_err(at("note a refused account"))
}

/// Notes that the credential of an account was accepted in an attempt with this intent. A credential that was stored later
/// was not part of the attempt.
///
/// # Errors
/// [`StoreError`]; it is as it was.
pub fn clear_refusal(
    tx: &Transaction<'_>,
    (person, capability, account_ref): (&str, &Provider, &str),
    intent: i64,
) -> Result<(), StoreError> {
    const CLEAR: &str = "DELETE FROM account_refusals
        WHERE person = ?1 AND capability = ?2 AND account_ref = ?3 AND NOT EXISTS (SELECT 1 FROM credentials c
            WHERE c.person = ?1 AND c.capability = ?2 AND c.account_ref = ?3
                AND c.stored_at > (SELECT ts FROM ledger WHERE seq = ?4))";
    tx.view()
        .prepare_cached(CLEAR)
        .and_then(|mut s| s.execute(params![person, capability.as_str(), account_ref, intent]))
        .map(drop)
        .map_err(at("note a refused account"))
}

/// Returns the time of the last refusal of each account whose credential was refused last, by person, capability and name.
///
/// # Errors
/// [`StoreError`].
pub fn refusals(view: &View) -> Result<BTreeMap<(String, String, String), Timestamp>, StoreError> {
    let step = "list the accounts";
    let mut statement =
        view.prepare("SELECT person, capability, account_ref, refused_at FROM account_refusals").map_err(at(step))?;
    let read =
        |row: &rusqlite::Row<'_>| Ok(((row.get(0)?, row.get(1)?, row.get(2)?), Timestamp::from_millis(row.get(3)?)));
    statement.query_map([], read).and_then(Iterator::collect).map_err(at(step))
}

/// Shares an account with another person; `false` if it was shared already, `None` if there is no such account.
///
/// # Errors
/// [`StoreError`]; it is as it was.
pub fn share(tx: &Transaction<'_>, share: &Share, by: &str) -> Result<Option<bool>, StoreError> {
    let Share { person, capability, account_ref, with } = share;
    if !own(tx.view(), person, capability)?.contains(account_ref) {
        return Ok(None);
    }
    let insert = "INSERT OR IGNORE INTO account_shares VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
    tx.view()
        .prepare_cached(insert)
        .and_then(|mut s| s.execute(params![person, capability.as_str(), account_ref, with, tx.now().millis(), by]))
        .map(|rows| Some(rows > 0))
        .map_err(at("share an account"))
}

/// Ends a share of an account; `false` if there was none.
///
/// # Errors
/// [`StoreError`]; it is as it was.
pub fn unshare(tx: &Transaction<'_>, share: &Share) -> Result<bool, StoreError> {
    let Share { person, capability, account_ref, with } = share;
    let delete = "DELETE FROM account_shares
        WHERE person = ?1 AND capability = ?2 AND account_ref = ?3 AND with_person = ?4";
    tx.view()
        .prepare_cached(delete)
        .and_then(|mut s| s.execute(params![person, capability.as_str(), account_ref, with]))
        .map(|rows| rows > 0)
        .map_err(at("share an account"))
}

/// Returns every share.
///
/// # Errors
/// [`StoreError`].
pub fn shares(view: &View) -> Result<Vec<Share>, StoreError> {
    let step = "list the shared accounts";
    let mut statement = view
        .prepare("SELECT person, capability, account_ref, with_person FROM account_shares ORDER BY 1, 2, 3, 4")
        .map_err(at(step))?;
    let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get::<_, String>(1)?, row.get(2)?, row.get(3)?)));
    let rows: Vec<_> = rows.and_then(Iterator::collect).map_err(at(step))?;
    let share = |(person, capability, account_ref, with): (_, String, _, _)| {
        let capability = capability.parse().map_err(|_bad| StoreError::Stored { what: "account" })?;
        Ok(Share { person, capability, account_ref, with })
    };
    rows.into_iter().map(share).collect()
}

/// Unlinks a person's accounts: those at this capability, of this name, or all of them. Returns their number.
///
/// # Errors
/// [`StoreError`]; they are linked as they were.
pub fn unlink(
    tx: &Transaction<'_>,
    person: &str,
    capability: Option<&Provider>,
    account_ref: Option<&str>,
) -> Result<usize, StoreError> {
    const SHARES: &str = "DELETE FROM account_shares
        WHERE person = ?1 AND capability = coalesce(?2, capability) AND account_ref = coalesce(?3, account_ref)";
    const ACCOUNTS: &str = "DELETE FROM accounts
        WHERE person = ?1 AND capability = coalesce(?2, capability) AND account_ref = coalesce(?3, account_ref)";
    const KEYS: &str = "DELETE FROM account_keys
        WHERE person = ?1 AND capability = coalesce(?2, capability) AND account_ref = coalesce(?3, account_ref)";
    const REFUSALS: &str = "DELETE FROM account_refusals
        WHERE person = ?1 AND capability = coalesce(?2, capability) AND account_ref = coalesce(?3, account_ref)";
    let delete = |statement: &str| {
        tx.view()
            .prepare_cached(statement)
            .and_then(|mut s| s.execute(params![person, capability.map(Provider::as_str), account_ref]))
            .map_err(at("unlink accounts"))
    };
    for own in [SHARES, KEYS, REFUSALS] {
        delete(own)?;
    }
    delete(ACCOUNTS)
}

/// Ends the shares of others' accounts with this person: those at this capability, or all of them.
///
/// # Errors
/// [`StoreError`]; it is as it was.
pub fn forget_shared_with(tx: &Transaction<'_>, person: &str, capability: Option<&Provider>) -> Result<(), StoreError> {
    tx.view()
        .prepare_cached("DELETE FROM account_shares WHERE with_person = ?1 AND capability = coalesce(?2, capability)")
        .and_then(|mut s| s.execute(params![person, capability.map(Provider::as_str)]))
        .map(drop)
        .map_err(at("share an account"))
}

/// Returns the names of the accounts that a person may use at a capability: the own ones, then the shared ones.
///
/// # Errors
/// [`StoreError`]; nothing may then be permitted that works with one.
pub fn of(view: &View, person: &str, capability: &Provider) -> Result<Vec<String>, StoreError> {
    Ok(labelled(view, person, capability)?.into_iter().map(|(name, _label)| name).collect())
}

/// Returns the names of a person's own accounts at a capability.
///
/// # Errors
/// [`StoreError`].
pub fn own(view: &View, person: &str, capability: &Provider) -> Result<Vec<String>, StoreError> {
    view.prepare_cached("SELECT account_ref FROM accounts WHERE person = ?1 AND capability = ?2 ORDER BY account_ref")
        .and_then(|mut s| s.query_map(params![person, capability.as_str()], |row| row.get(0))?.collect())
        .map_err(at("look accounts up"))
}

/// Returns the names and labels of the accounts that a person may use.
///
/// # Errors
/// [`StoreError`].
pub fn labelled(view: &View, person: &str, capability: &Provider) -> Result<Vec<(String, Option<String>)>, StoreError> {
    // A share without its account is void: unlinking the account ends the share, and this checks it again.
    view.prepare_cached(
        "SELECT account_ref, label, 0 AS shared FROM accounts WHERE person = ?1 AND capability = ?2
             UNION ALL
             SELECT s.person || '/' || s.account_ref, a.label, 1
             FROM account_shares s JOIN accounts a USING (person, capability, account_ref)
             WHERE s.with_person = ?1 AND s.capability = ?2
             ORDER BY shared, 1",
    )
    .and_then(|mut s| {
        s.query_map(params![person, capability.as_str()], |row| Ok((row.get(0)?, row.get(1)?)))?.collect()
    })
    .map_err(at("look accounts up"))
}

/// Returns every account.
///
/// # Errors
/// [`StoreError`].
pub fn list(view: &View) -> Result<Vec<Account>, StoreError> {
    let step = "list the accounts";
    let mut statement = view
        .prepare(
            "SELECT person, capability, account_ref, label, linked_at, linked_by FROM accounts
             ORDER BY person, capability, account_ref",
        )
        .map_err(at(step))?;
    let mut rows = statement.query([]).map_err(at(step))?;
    let mut accounts = Vec::new();
    while let Some(row) = rows.next().map_err(at(step))? {
        let capability: String = row.get(1).map_err(at(step))?;
        accounts.push(Account {
            person: row.get(0).map_err(at(step))?,
            capability: capability.parse().map_err(|_bad| StoreError::Stored { what: "account" })?,
            account_ref: row.get(2).map_err(at(step))?,
            label: row.get(3).map_err(at(step))?,
            linked_at: Timestamp::from_millis(row.get(4).map_err(at(step))?),
            linked_by: row.get(5).map_err(at(step))?,
        });
    }
    Ok(accounts)
}
