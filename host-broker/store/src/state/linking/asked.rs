//! The table of accounts that wait for an approval.

use super::{Owner, change};
use crate::Transaction;
use crate::View;
use crate::{StoreError, at};
use model::Ciphertext;
use rusqlite::{OptionalExtension as _, Row, params};
use shared::{AccountRef, FlowId, Provider, Timestamp};

/// An account to be approved.
#[derive(Debug, Clone, Copy)]
pub struct Link<'a> {
    /// The number of the approval request.
    pub approval: i64,
    /// The flow that brought it.
    pub flow: &'a FlowId,
    /// The owner.
    pub person: &'a str,
    /// The provider's name of the account.
    pub account: &'a AccountRef,
    /// The label for people.
    pub label: Option<&'a str>,
    /// The credential.
    pub sealed: Option<&'a Ciphertext>,
    /// The time until which the credential can be used without renewal.
    pub fresh_until: Option<Timestamp>,
    /// Whether the card says that it replaces a linked account.
    pub replaces: bool,
}

/// An account of an approval request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PendingLink {
    /// The owner.
    pub person: String,
    /// The capability.
    pub capability: Provider,
    /// The provider's name of the account.
    pub account: AccountRef,
    /// The label for people.
    pub label: Option<String>,
    /// The credential.
    pub sealed: Option<Ciphertext>,
    /// The time until which the credential can be used without renewal.
    pub fresh_until: Option<Timestamp>,
    /// Whether the card said that it replaces a linked account.
    pub replaces: bool,
}

/// Stores an account with its approval request, and ends its flow.
///
/// # Errors
/// [`StoreError`]; nothing was stored.
pub fn ask(tx: &Transaction<'_>, link: &Link<'_>) -> Result<(), StoreError> {
    const INSERT: &str =
        "INSERT INTO account_links VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9) ON CONFLICT (flow) DO NOTHING";
    let capability = link.flow.capability();
    let with = params![
        link.approval,
        link.flow.as_str(),
        link.person,
        capability.as_str(),
        link.account.as_str(),
        link.label,
        link.fresh_until.map(Timestamp::millis),
        link.replaces,
        link.sealed.map(Ciphertext::bytes),
    ];
    change(tx, INSERT, with)?;
    change(
        tx,
        "UPDATE auth_flows SET state = 'asked', sealed = NULL, expected = NULL WHERE id = ?1",
        params![link.flow.as_str()],
    )
    .map(drop)
}

/// Returns the account of this approval request, as long as it is not answered.
///
/// # Errors
/// [`StoreError`] if it cannot be read; it may then not be linked.
pub fn asked_by(view: &View, approval: i64) -> Result<Option<PendingLink>, StoreError> {
    const FIND: &str = "SELECT person, capability, account_ref, label, sealed, fresh_until, replaces
        FROM account_links WHERE approval = ?1";
    let read = |row: &Row<'_>| {
        let texts = [row.get::<_, String>(0)?, row.get(1)?, row.get(2)?];
        Ok((texts, row.get(3)?, row.get::<_, Option<Vec<u8>>>(4)?, row.get::<_, Option<i64>>(5)?, row.get(6)?))
    };
    let found = view
        .prepare_cached(FIND)
        .and_then(|mut s| s.query_row(params![approval], read).optional())
        .map_err(at("look an account up"))?;
    let bad = || StoreError::Stored { what: "account" };
    found
        .map(|([person, capability, account], label, sealed, fresh_until, replaces)| {
            Ok(PendingLink {
                person,
                capability: capability.parse().map_err(|_bad| bad())?,
                account: account.parse().map_err(|_bad| bad())?,
                label,
                sealed: sealed.map(Ciphertext::from_bytes),
                fresh_until: fresh_until.map(Timestamp::from_millis),
                replaces,
            })
        })
        .transpose()
}

/// Forgets the label and the credential of the account of this approval request.
///
/// # Errors
/// [`StoreError`]; it is as it was.
pub fn drop_asked(tx: &Transaction<'_>, approval: i64) -> Result<(), StoreError> {
    change(tx, "UPDATE account_links SET sealed = NULL, label = NULL WHERE approval = ?1", params![approval]).map(drop)
}

/// Returns the open approval requests about accounts of this person: at this capability, of this name, or all.
///
/// # Errors
/// [`StoreError`] if they cannot be read.
pub fn waiting(
    view: &View,
    person: &str,
    capability: Option<&Provider>,
    account: Option<&str>,
) -> Result<Vec<i64>, StoreError> {
    const FIND: &str = "SELECT l.approval FROM account_links l JOIN approvals a ON a.id = l.approval
        WHERE a.state <> 'closed' AND l.person = ?1 AND l.capability = coalesce(?2, l.capability)
          AND l.account_ref = coalesce(?3, l.account_ref)";
    view.prepare_cached(FIND)
        .and_then(|mut s| {
            s.query_map(params![person, capability.map(Provider::as_str), account], |row| row.get(0))?.collect()
        })
        .map_err(at("look accounts up"))
}

/// Returns the open approval requests about accounts that this group began to link.
///
/// # Errors
/// [`StoreError`] if they cannot be read.
pub fn waiting_of(view: &View, caller: &str) -> Result<Vec<i64>, StoreError> {
    const FIND: &str = "SELECT l.approval FROM account_links l JOIN approvals a ON a.id = l.approval
        WHERE a.state <> 'closed' AND a.caller = ?1";
    view.prepare_cached(FIND)
        .and_then(|mut s| s.query_map(params![caller], |row| row.get(0))?.collect())
        .map_err(at("look accounts up"))
}

/// Counts the approval requests about accounts of this person that wait in this group.
///
/// # Errors
/// [`StoreError`] if they cannot be counted; none may then be sent.
pub fn approval_requests(view: &View, owner: &Owner<'_>) -> Result<usize, StoreError> {
    const COUNT: &str = "SELECT count(*) FROM account_links l JOIN approvals a ON a.id = l.approval
        WHERE a.state <> 'closed' AND a.state = 'waiting' AND a.caller = ?1 AND l.person = ?2";
    let count: i64 = view
        .prepare_cached(COUNT)
        .and_then(|mut s| s.query_row(params![owner.caller, owner.person], |row| row.get(0)))
        .map_err(at("count the approval requests"))?;
    Ok(usize::try_from(count).unwrap_or(usize::MAX))
}

/// Forgets the approval requests about accounts of this person, at this capability or at all.
///
/// # Errors
/// [`StoreError`]; it is as it was.
pub fn forget_asked(tx: &Transaction<'_>, person: &str, capability: Option<&Provider>) -> Result<(), StoreError> {
    let delete = "DELETE FROM account_links WHERE person = ?1 AND capability = coalesce(?2, capability)";
    change(tx, delete, params![person, capability.map(Provider::as_str)]).map(drop)
}
