//! External grants: each gives one version of one flow and some tools of its steps, for a limited time.
//!
//! The bearer token opens the grant. Only its hash is stored. Each use checks the grant, in the transaction of the
//! decision. [`spend`] counts the use in the transaction of the intent.
//!
//! Source: flow-external-agent-gate, sections 2 to 4.

use crate::Transaction;
use crate::View;
use crate::{StoreError, at};
use model::Caller;
use model::NoRandomness;
use model::Random;
use model::bearer::{Prefix, fresh_name};
use rusqlite::{OptionalExtension as _, Row, params};
use serde_json::{Value, json};
use shared::digest::Digest;
use shared::flow::request::Harness;
use shared::flow::{GrantId, Id, Opaque, Scope, Vault, Version};
use shared::{Code, Timestamp};
use std::borrow::Cow;
use std::collections::BTreeSet;
use std::time::Duration;

/// The most external grants, including those that have ended and are not forgotten yet.
pub const GRANTS_MAX: i64 = 100_000;
/// The most external grants of one issuer, so that one token or group cannot use up the places of others.
pub const GRANTS_MAX_OF_ONE: i64 = 10_000;
/// The most active grants that one issuer gives to one agent.
pub const LIVING_MAX_OF_AGENT: i64 = 16;
/// The most active grants that one issuer gives in all. People give as many as they want.
pub const LIVING_MAX_OF_ISSUER: i64 = 64;
/// The time for which an ended grant is still told apart from one that never existed.
const REMEMBERED: Duration = Duration::from_hours(24);
/// The prefix of every bearer token.
pub const BEARER: Prefix = "fgrnt_bearer_";

/// An external grant.
#[derive(Debug, Clone, PartialEq)]
pub struct Access {
    /// The name, which opens nothing.
    pub grant_id: GrantId,
    /// The vault of the flow.
    pub vault: Vault,
    /// The scope of the flow.
    pub scope: Scope,
    /// The flow.
    pub flow_id: Id,
    /// The version.
    pub version: Version,
    /// The tools.
    pub tools: Vec<Opaque>,
    /// The hash of the external agent's name.
    pub actor: Digest,
    /// The issuer, in the ledger's form.
    pub issued_by: String,
    /// The time of issue.
    pub issued_at: Timestamp,
    /// The time of expiry.
    pub expires_at: Timestamp,
    /// The time of revocation.
    pub revoked_at: Option<Timestamp>,
    /// The most calls of tools; 0 means no limit.
    pub max_invocations: u32,
    /// The number of calls so far.
    pub invocations: u32,
}

impl Access {
    /// Returns the grant as a document. Every field may be shown.
    pub fn document(&self) -> Value {
        json!({
            "schema": "knowtation.flow_external_grant/v0",
            "grant_id": self.grant_id,
            "vault_id": self.vault,
            "scope": self.scope,
            "flow_id": self.flow_id,
            "flow_version": self.version,
            "allowed_tools": self.tools,
            "allowed_harnesses": [Harness::AgentBundle],
            "issued_at": self.issued_at,
            "expires_at": self.expires_at,
            "revoked_at": self.revoked_at,
            "actor_hash": self.actor.hex(),
            "max_invocations": self.max_invocations,
            "invocation_count": self.invocations,
        })
    }

    /// Checks that it is neither revoked nor expired.
    ///
    /// # Errors
    /// The code of the refusal.
    pub fn check_end(&self, now: Timestamp) -> Result<(), Code> {
        match self.revoked_at {
            Some(_) => Err(Code::FlowExternalGrantRevoked),
            None if self.expires_at <= now => Err(Code::FlowExternalGrantExpired),
            None => Ok(()),
        }
    }
}

/// Makes a name.
///
/// # Errors
/// [`NoRandomness`].
pub fn fresh_id(ids: &dyn Random) -> Result<GrantId, NoRandomness> {
    #[expect(clippy::expect_used, clippy::missing_panics_doc, reason = "digits and small letters satisfy the grammar")]
    fresh_name("fgrnt_", ids).map(|name| name.parse().expect("a grant id"))
}

const COLUMNS: &str = "grant_id, vault, scope, flow_id, version, tools, actor, issued_by, issued_at, expires_at,
    revoked_at, max_invocations, invocations";

/// A row as it is stored.
type Raw = ([String; 7], [u8; 32], [i64; 4], Option<i64>);

fn raw(row: &Row<'_>) -> rusqlite::Result<Raw> {
    let texts = [row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?, row.get(5)?, row.get(7)?];
    Ok((texts, row.get(6)?, [row.get(8)?, row.get(9)?, row.get(11)?, row.get(12)?], row.get(10)?))
}

fn read((texts, actor, numbers, revoked_at): Raw) -> Result<Access, StoreError> {
    let [grant_id, vault, scope, flow_id, version, tools, issued_by] = texts;
    let [issued_at, expires_at, max_invocations, invocations] = numbers;
    let bad = || StoreError::Stored { what: "access" };
    let count = |number: i64| u32::try_from(number).map_err(|_bad| bad());
    Ok(Access {
        grant_id: grant_id.parse().map_err(|_bad| bad())?,
        vault: vault.parse().map_err(|_bad| bad())?,
        scope: Scope::ALL.into_iter().find(|known| known.word() == scope).ok_or_else(bad)?,
        flow_id: flow_id.parse().map_err(|_bad| bad())?,
        version: version.parse().map_err(|_bad| bad())?,
        tools: serde_json::from_str(&tools).map_err(|_bad| bad())?,
        actor: Digest::from_bytes(actor),
        issued_by,
        issued_at: Timestamp::from_millis(issued_at),
        expires_at: Timestamp::from_millis(expires_at),
        revoked_at: revoked_at.map(Timestamp::from_millis),
        max_invocations: count(max_invocations)?,
        invocations: count(invocations)?,
    })
}

/// Returns the grant of this name.
///
/// # Errors
/// [`StoreError`] if it cannot be read.
pub fn find(view: &View, id: &GrantId) -> Result<Option<Access>, StoreError> {
    let select = format!("SELECT {COLUMNS} FROM flow_grants WHERE grant_id = ?1");
    view.prepare_cached(&select)
        .and_then(|mut s| s.query_row(params![id.as_str()], raw).optional())
        .map_err(at("look an access up"))?
        .map(read)
        .transpose()
}

/// Returns the name of the grant that this bearer token opens.
///
/// # Errors
/// [`StoreError`] if it cannot be read.
pub fn opened_by(view: &View, bearer: &Digest) -> Result<Option<GrantId>, StoreError> {
    let found: Option<String> = view
        .prepare_cached("SELECT grant_id FROM flow_grants WHERE bearer = ?1")
        .and_then(|mut s| s.query_row(params![bearer.as_bytes()], |row| row.get(0)).optional())
        .map_err(at("look an access up"))?;
    found.map(|id| id.parse().map_err(|_bad| StoreError::Stored { what: "access" })).transpose()
}

/// Returns the key under which a caller's use, approval requests and evidence count; [`session_of`] has that of its
/// exposure. All grants of one external agent share one key; every other caller has its own.
///
/// # Errors
/// [`StoreError`] if the grant cannot be read.
pub fn counted_as<'a>(view: &View, caller: &'a str) -> Result<Cow<'a, str>, StoreError> {
    const SELECT: &str = "SELECT actor FROM flow_grants WHERE grant_id = ?1";
    let Some(access) = caller.strip_prefix("outside:") else { return Ok(Cow::Borrowed(caller)) };
    let actor: Option<[u8; 32]> = view
        .prepare_cached(SELECT)
        .and_then(|mut s| s.query_row(params![access], |row| row.get(0)).optional())
        .map_err(at("look an access up"))?;
    Ok(actor.map_or(Cow::Borrowed(caller), |actor| Cow::Owned(key_of(&Digest::from_bytes(actor)))))
}

/// Returns the key under which a caller's exposure counts. All agents of an issuer share one key, because the issuer
/// names the agents as it wants. A person tells one agent from another, so each agent of a person has its own key.
///
/// # Errors
/// [`StoreError`] if the grant cannot be read.
pub fn session_of<'a>(view: &View, caller: &'a str) -> Result<Cow<'a, str>, StoreError> {
    const SELECT: &str = "SELECT actor, issued_by FROM flow_grants WHERE grant_id = ?1";
    let Some(access) = caller.strip_prefix("outside:") else { return Ok(Cow::Borrowed(caller)) };
    let found: Option<([u8; 32], String)> = view
        .prepare_cached(SELECT)
        .and_then(|mut s| s.query_row(params![access], |row| Ok((row.get(0)?, row.get(1)?))).optional())
        .map_err(at("look an access up"))?;
    Ok(match found {
        Some((actor, issuer)) if is_a_persons(&issuer) => Cow::Owned(key_of(&Digest::from_bytes(actor))),
        Some((_, issuer)) => Cow::Owned(key_of_issuer(&issuer)),
        None => Cow::Borrowed(caller),
    })
}

/// Returns the key under which the amounts of all agents of one issuer count, beside each agent's own. It exists
/// because the issuer names the agents as it wants. `None` for grants of a person, and for every other caller.
///
/// # Errors
/// [`StoreError`] if the grant cannot be read.
pub fn issuer_key(view: &View, caller: &Caller) -> Result<Option<String>, StoreError> {
    let Caller::External(access) = caller else { return Ok(None) };
    let issuer = find(view, access)?.map(|access| access.issued_by).filter(|issuer| !is_a_persons(issuer));
    Ok(issuer.as_deref().map(key_of_issuer))
}

fn is_a_persons(issuer: &str) -> bool {
    issuer.starts_with("person:")
}

fn key_of_issuer(issuer: &str) -> String {
    format!("issuer:{issuer}")
}

/// Writes `agent:` and 32 digits of the actor's hash.
fn key_of(actor: &Digest) -> String {
    let digits: String = actor.hex().chars().take(32).collect();
    format!("agent:{digits}")
}

/// Returns the canonical version of a flow.
///
/// # Errors
/// [`StoreError`] if it cannot be read.
pub fn canonical_version(view: &View, vault: &Vault, flow: &Id) -> Result<Option<String>, StoreError> {
    view.prepare_cached("SELECT version FROM flow_versions WHERE vault = ?1 AND flow_id = ?2 AND state = 'approved'")
        .and_then(|mut s| s.query_row(params![vault.as_str(), flow.as_str()], |row| row.get(0)).optional())
        .map_err(at("look a flow up"))
}

/// Returns grants of a vault to flows of these scopes, by flow and name, after the one of this name; at most `most`.
///
/// # Errors
/// [`StoreError`] if they cannot be read.
pub fn list(
    view: &View,
    vault: &Vault,
    (scopes, flow): (&BTreeSet<Scope>, Option<&Id>),
    after: Option<&Access>,
    most: usize,
) -> Result<Vec<Access>, StoreError> {
    let condition = if flow.is_some() { "flow_id = ?2" } else { "?2 IS NULL" };
    let select = format!(
        "SELECT {COLUMNS} FROM flow_grants WHERE vault = ?1 AND {condition} AND scope IN (SELECT value FROM json_each(?6)) AND (flow_id, grant_id) > (?3, ?4)
         ORDER BY flow_id, grant_id LIMIT ?5"
    );
    let (after_flow, after_id) = after.map_or(("", ""), |after| (after.flow_id.as_str(), after.grant_id.as_str()));
    let most = i64::try_from(most).unwrap_or(i64::MAX);
    let scopes = json!(scopes).to_string();
    let with = params![vault.as_str(), flow.map(Id::as_str), after_flow, after_id, most, scopes];
    let found: Vec<Raw> = view
        .prepare_cached(&select)
        .and_then(|mut s| s.query_map(with, raw)?.collect())
        .map_err(at("list accesses"))?;
    found.into_iter().map(read).collect()
}

/// Returns grants of all vaults, those that expire last first, after this one; at most `most`. No grant is stored long
/// after its end, so all of them are recent.
///
/// # Errors
/// [`StoreError`] if they cannot be read.
pub fn latest(view: &View, after: Option<&Access>, most: u32) -> Result<Vec<Access>, StoreError> {
    let select = format!(
        "SELECT {COLUMNS} FROM flow_grants WHERE (expires_at, grant_id) < (?1, ?2)
         ORDER BY expires_at DESC, grant_id DESC LIMIT ?3"
    );
    let (expires_at, id) = after.map_or((i64::MAX, ""), |after| (after.expires_at.millis(), after.grant_id.as_str()));
    let found: Vec<Raw> = view
        .prepare_cached(&select)
        .and_then(|mut s| s.query_map(params![expires_at, id, most], raw)?.collect())
        .map_err(at("list accesses"))?;
    found.into_iter().map(read).collect()
}

/// Returns the issuers of active grants, and the number that each has issued.
///
/// # Errors
/// [`StoreError`] if they cannot be read.
pub fn living_by_issuer(view: &View, now: Timestamp) -> Result<Vec<(String, i64)>, StoreError> {
    const SELECT: &str = "SELECT issued_by, count(*) FROM flow_grants WHERE revoked_at IS NULL AND expires_at > ?1
        GROUP BY issued_by ORDER BY issued_by";
    view.prepare_cached(SELECT)
        .and_then(|mut s| s.query_map([now.millis()], |row| Ok((row.get(0)?, row.get(1)?)))?.collect())
        .map_err(at("count accesses"))
}

/// The result of issuing a grant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Issued {
    /// The grant is stored.
    Stored,
    /// There are [`GRANTS_MAX`].
    Full,
    /// The issuer has issued [`GRANTS_MAX_OF_ONE`].
    FullOfOne,
    /// The agent has [`LIVING_MAX_OF_AGENT`] active grants.
    FullOfAgent,
    /// The issuer has [`LIVING_MAX_OF_ISSUER`] active grants.
    FullOfIssuer,
}

/// Stores a new grant, if no limit is reached.
///
/// # Errors
/// [`StoreError`]; nothing was stored.
pub fn issue(tx: &Transaction<'_>, access: &Access, bearer: &Digest) -> Result<Issued, StoreError> {
    const INSERT: &str = "INSERT INTO flow_grants (grant_id, bearer, vault, scope, flow_id, version, tools, actor,
            issued_by, issued_at, expires_at, max_invocations)
        VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)";
    const LIVING: &str = "SELECT count(*) FILTER (WHERE actor = ?2), count(*) FROM flow_grants
        WHERE issued_by = ?1 AND revoked_at IS NULL AND expires_at > ?3";
    const COUNT: &str = "SELECT n, coalesce((SELECT n FROM flow_grants_by WHERE issued_by = ?1), 0)
        FROM flow_grants_count";
    let (all, of_one): (i64, i64) = tx
        .view()
        .prepare_cached(COUNT)
        .and_then(|mut s| s.query_row([&access.issued_by], |row| Ok((row.get(0)?, row.get(1)?))))
        .map_err(at("count accesses"))?;
    if of_one >= GRANTS_MAX_OF_ONE {
        return Ok(Issued::FullOfOne);
    }
    if all >= GRANTS_MAX {
        return Ok(Issued::Full);
    }
    let (of_agent, of_issuer): (i64, i64) = tx
        .view()
        .prepare_cached(LIVING)
        .and_then(|mut s| {
            let living = params![access.issued_by, access.actor.as_bytes(), tx.now().millis()];
            s.query_row(living, |row| Ok((row.get(0)?, row.get(1)?)))
        })
        .map_err(at("count accesses"))?;
    if of_agent >= LIVING_MAX_OF_AGENT {
        return Ok(Issued::FullOfAgent);
    }
    if of_issuer >= LIVING_MAX_OF_ISSUER && !is_a_persons(&access.issued_by) {
        return Ok(Issued::FullOfIssuer);
    }
    let tools = serde_json::to_string(&access.tools).map_err(|_bad| StoreError::Stored { what: "access" })?;
    change(
        tx,
        INSERT,
        params![
            access.grant_id.as_str(),
            bearer.as_bytes(),
            access.vault.as_str(),
            access.scope.word(),
            access.flow_id.as_str(),
            access.version.to_string(),
            tools,
            access.actor.as_bytes(),
            access.issued_by,
            access.issued_at.millis(),
            access.expires_at.millis(),
            access.max_invocations,
        ],
    )?;
    Ok(Issued::Stored)
}

/// Revokes a grant permanently; a revoked one stays as it is.
///
/// # Errors
/// [`StoreError`]; it is as it was.
pub fn revoke(tx: &Transaction<'_>, id: &GrantId) -> Result<(), StoreError> {
    const UPDATE: &str = "UPDATE flow_grants SET revoked_at = ?2 WHERE grant_id = ?1 AND revoked_at IS NULL";
    change(tx, UPDATE, params![id.as_str(), tx.now().millis()]).map(drop)
}

/// Revokes every grant that this token has issued; returns their number.
///
/// # Errors
/// [`StoreError`]; it is as it was.
pub fn revoke_all_of(tx: &Transaction<'_>, issuer: &Caller) -> Result<usize, StoreError> {
    const UPDATE: &str = "UPDATE flow_grants SET revoked_at = ?2 WHERE issued_by = ?1 AND revoked_at IS NULL";
    change(tx, UPDATE, params![issuer.to_string(), tx.now().millis()])
}

/// Counts a call, for its intent: only while the grant is active and a call is left.
///
/// # Errors
/// [`StoreError`], also if none is left; the intent must then not be written.
pub fn spend(tx: &Transaction<'_>, id: &GrantId) -> Result<(), StoreError> {
    const UPDATE: &str = "UPDATE flow_grants SET invocations = invocations + 1
        WHERE grant_id = ?1 AND revoked_at IS NULL AND expires_at > ?2
          AND (max_invocations = 0 OR invocations < max_invocations)";
    if change(tx, UPDATE, params![id.as_str(), tx.now().millis()])? == 1 {
        Ok(())
    } else {
        Err(StoreError::Conflict { what: "external grant" })
    }
}

/// Forgets grants that ended a day ago, a limited number at a time.
///
/// # Errors
/// [`StoreError`]; nothing was forgotten.
pub fn forget_old(tx: &Transaction<'_>) -> Result<(), StoreError> {
    const DELETE: &str = "DELETE FROM flow_grants WHERE grant_id IN (
        SELECT grant_id FROM flow_grants WHERE expires_at < ?1 LIMIT 1000)";
    let before = tx.now().minus(REMEMBERED).millis();
    change(tx, DELETE, params![before]).map(drop)
}

fn change(tx: &Transaction<'_>, statement: &str, with: impl rusqlite::Params) -> Result<usize, StoreError> {
    tx.view().prepare_cached(statement).and_then(|mut s| s.execute(with)).map_err(at("change an access"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::bearer::Bearer;
    use platform::random::SystemRandom;

    #[test]
    fn a_bearer_is_never_accepted_as_a_name() {
        let bearer = Bearer::fresh(BEARER, &SystemRandom).unwrap();
        assert!(bearer.reveal().parse::<GrantId>().is_err());
        assert!(fresh_id(&SystemRandom).unwrap().as_str().starts_with("fgrnt_"));
    }
}
