//! The table of versions of flows.

use crate::Transaction;
use crate::View;
use crate::{StoreError, at};
use rusqlite::{OptionalExtension as _, Row, params};
use serde::Serialize;
use shared::Timestamp;
use shared::digest::Digest;
use shared::flow::request::State;
use shared::flow::{Bundle, Id, Scope, Vault, Version};

/// The most proposed versions of flows of one caller.
pub const PROPOSED_MAX: usize = 50;

/// A version of a flow.
#[derive(Debug, Clone, PartialEq)]
pub struct Stored {
    /// The flow and its steps.
    pub bundle: Bundle,
    /// The state.
    pub state: State,
    /// The digest of the bundle's canonical form.
    pub digest: Digest,
    /// The proposer, in the ledger's form.
    pub proposed_by: String,
    /// The time of the proposal.
    pub proposed_at: Timestamp,
    /// The number of the approval request about it, if there is one.
    pub approval: Option<i64>,
}

/// A version of a flow, without its steps.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Listed {
    /// The flow.
    pub flow_id: String,
    /// The version.
    pub version: String,
    /// The state.
    pub state: String,
    /// The scope.
    pub scope: String,
    /// The title.
    pub title: String,
    /// The number of steps.
    pub steps: i64,
    /// The digest of the bundle's canonical form.
    pub digest: Digest,
    /// The proposer.
    pub proposed_by: String,
    /// The time of the proposal.
    pub proposed_at: Timestamp,
}

const COLUMNS: &str = "document, state, digest, proposed_by, proposed_at, approval";
const FROM: &str = "flow_versions v JOIN flow_documents d USING (vault, flow_id, version)";

fn find(view: &View, condition: &str, with: impl rusqlite::Params) -> Result<Option<Stored>, StoreError> {
    let statement = format!("SELECT {COLUMNS} FROM {FROM} WHERE {condition}");
    let read = |row: &Row<'_>| {
        let texts: (Vec<u8>, String, [u8; 32], String) = (row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?);
        Ok((texts, row.get::<_, i64>(4)?, row.get::<_, Option<i64>>(5)?))
    };
    let found = view
        .prepare_cached(&statement)
        .and_then(|mut s| s.query_row(with, read).optional())
        .map_err(at("look a flow up"))?;
    let bad = |what: &'static str| StoreError::Stored { what };
    found
        .map(|((document, state, digest, proposed_by), proposed_at, approval)| {
            Ok(Stored {
                bundle: serde_json::from_slice(&document).map_err(|_bad| bad("flow"))?,
                state: State::ALL.into_iter().find(|known| known.word() == state).ok_or_else(|| bad("flow's state"))?,
                digest: Digest::from_bytes(digest),
                proposed_by,
                proposed_at: Timestamp::from_millis(proposed_at),
                approval,
            })
        })
        .transpose()
}

/// Returns one version.
///
/// # Errors
/// [`StoreError`] if it cannot be read.
pub fn version(view: &View, vault: &Vault, flow: &Id, version: &Version) -> Result<Option<Stored>, StoreError> {
    let with = params![vault.as_str(), flow.as_str(), version.to_string()];
    find(view, "vault = ?1 AND flow_id = ?2 AND version = ?3", with)
}

/// Returns the canonical version.
///
/// # Errors
/// [`StoreError`] if it cannot be read.
pub fn canonical(view: &View, vault: &Vault, flow: &Id) -> Result<Option<Stored>, StoreError> {
    let with = params![vault.as_str(), flow.as_str()];
    find(view, "vault = ?1 AND flow_id = ?2 AND state = 'approved'", with)
}

/// Returns the version that this approval request is about, and its vault.
///
/// # Errors
/// [`StoreError`] if it cannot be read.
pub fn asked_by(view: &View, approval: i64) -> Result<Option<(Vault, Stored)>, StoreError> {
    let vault: Option<String> = view
        .prepare_cached("SELECT vault FROM flow_versions WHERE approval = ?1")
        .and_then(|mut s| s.query_row(params![approval], |row| row.get(0)).optional())
        .map_err(at("look a flow up"))?;
    let Some(vault) = vault else { return Ok(None) };
    let vault = vault.parse().map_err(|_bad| StoreError::Stored { what: "vault" })?;
    Ok(find(view, "approval = ?1", params![approval])?.map(|stored| (vault, stored)))
}

/// Returns the version that was made canonical last, even if it no longer is.
///
/// # Errors
/// [`StoreError`] if it cannot be read.
pub fn last_approved(view: &View, vault: &Vault, flow: &Id) -> Result<Option<Stored>, StoreError> {
    let with = params![vault.as_str(), flow.as_str()];
    find(view, "vault = ?1 AND flow_id = ?2 AND approved_seq IS NOT NULL ORDER BY approved_seq DESC LIMIT 1", with)
}

/// Counts the versions of this caller that are still only proposed.
///
/// # Errors
/// [`StoreError`] if they cannot be counted; no more may then be proposed.
pub fn proposed_by(view: &View, vault: &Vault, caller: &str) -> Result<usize, StoreError> {
    const COUNT: &str =
        "SELECT count(*) FROM flow_versions WHERE vault = ?1 AND state = 'proposed' AND proposed_by = ?2";
    let count: i64 = view
        .prepare_cached(COUNT)
        .and_then(|mut s| s.query_row(params![vault.as_str(), caller], |row| row.get(0)))
        .map_err(at("count flows"))?;
    Ok(usize::try_from(count).unwrap_or(usize::MAX))
}

/// The position in a list: after this version of this flow.
pub type Cursor = (String, String);

/// Returns versions in this state, of these scopes, by flow and version, after the cursor; at most `most`.
///
/// # Errors
/// [`StoreError`] if they cannot be read.
pub fn list(
    view: &View,
    vault: &Vault,
    (state, scopes): &(State, Vec<Scope>),
    after: Option<&Cursor>,
    most: usize,
) -> Result<Vec<Listed>, StoreError> {
    const SELECT: &str = "SELECT flow_id, version, state, scope, title, steps, digest, proposed_by, proposed_at
        FROM flow_versions
        WHERE vault = ?1 AND state = ?2 AND (flow_id, version) > (?3, ?4) AND scope IN (SELECT value FROM json_each(?5))
        ORDER BY flow_id, version LIMIT ?6";
    let (flow, version) = after.map_or(("", ""), |(flow, version)| (flow, version));
    let most = i64::try_from(most).unwrap_or(i64::MAX);
    let scopes = serde_json::json!(scopes).to_string();
    let read = |row: &Row<'_>| {
        Ok(Listed {
            flow_id: row.get(0)?,
            version: row.get(1)?,
            state: row.get(2)?,
            scope: row.get(3)?,
            title: row.get(4)?,
            steps: row.get(5)?,
            digest: Digest::from_bytes(row.get(6)?),
            proposed_by: row.get(7)?,
            proposed_at: Timestamp::from_millis(row.get(8)?),
        })
    };
    view.prepare_cached(SELECT)
        .and_then(|mut s| {
            let with = params![vault.as_str(), state.word(), flow, version, scopes, most];
            s.query_map(with, read)?.collect()
        })
        .map_err(at("list flows"))
}

/// Stores a version as proposed, and replaces an earlier proposal of it.
///
/// # Errors
/// [`StoreError`]; nothing was stored. A version that is more than proposed is not replaced.
pub fn propose(tx: &Transaction<'_>, vault: &Vault, bundle: &Bundle, by: &str) -> Result<Digest, StoreError> {
    const UPSERT: &str = "INSERT INTO flow_versions
            (vault, flow_id, version, state, scope, title, steps, digest, proposed_by, proposed_at)
            VALUES (?1, ?2, ?3, 'proposed', ?4, ?5, ?6, ?7, ?8, ?9)
        ON CONFLICT (vault, flow_id, version) DO UPDATE SET
            scope = excluded.scope, title = excluded.title, steps = excluded.steps, digest = excluded.digest, proposed_by = excluded.proposed_by, proposed_at = excluded.proposed_at,
            approval = NULL, decided_by = NULL, decided_at = NULL
        WHERE state = 'proposed'";
    let document = shared::json::canonical(bundle);
    let digest = Digest::of(&document);
    let flow = &bundle.flow;
    let with = params![
        vault.as_str(),
        flow.flow_id.as_str(),
        flow.version.to_string(),
        flow.scope.word(),
        flow.title,
        i64::try_from(bundle.steps.len()).unwrap_or(i64::MAX),
        digest.as_bytes(),
        by,
        tx.now().millis(),
    ];
    change_one(tx, UPSERT, with)?;
    let with = params![vault.as_str(), flow.flow_id.as_str(), flow.version.to_string(), document];
    change_one(tx, "INSERT OR REPLACE INTO flow_documents VALUES (?1, ?2, ?3, ?4)", with)?;
    Ok(digest)
}

/// Notes the approval request about a version.
///
/// # Errors
/// [`StoreError`], also if it is not proposed.
pub fn ask(tx: &Transaction<'_>, vault: &Vault, bundle: &Bundle, approval: i64) -> Result<(), StoreError> {
    const UPDATE: &str = "UPDATE flow_versions SET approval = ?4
        WHERE vault = ?1 AND flow_id = ?2 AND version = ?3 AND state = 'proposed'";
    let flow = &bundle.flow;
    change_one(tx, UPDATE, params![vault.as_str(), flow.flow_id.as_str(), flow.version.to_string(), approval])
}

/// Makes a proposed version canonical, and deprecates the canonical one before it.
///
/// # Errors
/// [`StoreError`], also if it is not proposed; nothing is changed once the transaction is undone.
pub fn approve(tx: &Transaction<'_>, vault: &Vault, bundle: &Bundle, by: &str) -> Result<(), StoreError> {
    const APPROVE: &str =
        "UPDATE flow_versions SET state = 'approved', decided_by = ?4, decided_at = ?5, approved_seq = ?6
        WHERE vault = ?1 AND flow_id = ?2 AND version = ?3 AND state = 'proposed'";
    deprecate(tx, vault, &bundle.flow.flow_id, by)?;
    let flow = &bundle.flow;
    let (id, version) = (flow.flow_id.as_str(), flow.version.to_string());
    change_one(tx, APPROVE, params![vault.as_str(), id, version, by, tx.now().millis(), tx.head().seq])
}

/// Deprecates the canonical version; `false` if there is none.
///
/// # Errors
/// [`StoreError`]; it is as it was.
pub fn deprecate(tx: &Transaction<'_>, vault: &Vault, flow: &Id, by: &str) -> Result<bool, StoreError> {
    const UPDATE: &str = "UPDATE flow_versions SET state = 'deprecated', decided_by = ?3, decided_at = ?4
        WHERE vault = ?1 AND flow_id = ?2 AND state = 'approved'";
    change(tx, UPDATE, params![vault.as_str(), flow.as_str(), by, tx.now().millis()]).map(|changed| changed > 0)
}

/// Forgets a proposed version; `false` if it is not proposed.
///
/// # Errors
/// [`StoreError`]; it is as it was.
pub fn withdraw(tx: &Transaction<'_>, vault: &Vault, flow: &Id, version: &Version) -> Result<bool, StoreError> {
    const DELETE: &str =
        "DELETE FROM flow_versions WHERE vault = ?1 AND flow_id = ?2 AND version = ?3 AND state = 'proposed'";
    const FORGET: &str = "DELETE FROM flow_documents WHERE vault = ?1 AND flow_id = ?2 AND version = ?3";
    let is_gone = change(tx, DELETE, params![vault.as_str(), flow.as_str(), version.to_string()])? > 0;
    if is_gone {
        change(tx, FORGET, params![vault.as_str(), flow.as_str(), version.to_string()])?;
    }
    Ok(is_gone)
}

fn change(tx: &Transaction<'_>, statement: &str, with: impl rusqlite::Params) -> Result<usize, StoreError> {
    tx.view().prepare_cached(statement).and_then(|mut s| s.execute(with)).map_err(at("change a flow"))
}

fn change_one(tx: &Transaction<'_>, statement: &str, with: impl rusqlite::Params) -> Result<(), StoreError> {
    if change(tx, statement, with)? == 1 { Ok(()) } else { Err(StoreError::Stored { what: "flow" }) }
}
