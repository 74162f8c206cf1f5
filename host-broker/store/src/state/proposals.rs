//! Proposals: changes to files that were described and not made.
//!
//! A proposal is an approval of kind `file` with its changes. The request that proposed it is over; the request that
//! applies it spends the approval. Applied changes are kept for a while, so that they can be undone.

use crate::Transaction;
use crate::View;
use crate::state::approvals;
use crate::{StoreError, at};
use model::ProposalId;
use model::Subject;
use model::approval::{Approval, ApprovalState};
use model::proposal::{Listed, StoredProposal};
use rusqlite::{OptionalExtension as _, Row, params};
use shared::digest::Digest;
use shared::{Group, Provider, RequestId, Timestamp};
use std::time::Duration;

/// The number of a caller's applied proposals that can be undone, the latest.
const KEPT_MAX: usize = 20;
/// The time for which an applied proposal can be undone, from the end of the time to apply it.
const KEPT: Duration = Duration::from_secs(7 * 24 * 3600);
/// The number of proposals that a list shows, the latest.
const LISTED_MAX: usize = 50;

/// A proposal, without its changes.
#[derive(Debug, Clone, PartialEq)]
pub struct Proposal {
    /// The proposer's name for it.
    pub id: ProposalId,
    /// The approval, with its state.
    pub approval: Approval,
    /// The request that proposed it.
    pub proposed_by: RequestId,
    /// The path that names it.
    pub path: String,
    /// The summary of the changes, in one line.
    pub summary: String,
    /// SHA-256 of the whole diff.
    pub patch_hash: Digest,
    /// The time after which it cannot be applied.
    pub until: Timestamp,
    /// The time at which it was applied, if that is known.
    pub applied_at: Option<Timestamp>,
    /// Whether it undoes another: then it is a person's, and its group neither lists nor withdraws it.
    pub is_revert: bool,
    /// Whether it is being applied now.
    pub is_under_way: bool,
    /// Whether the outcome of applying it is unknown.
    pub is_unknown: bool,
    /// The request that applies it: the one that spent the approval, or the one that a person wants at once.
    pub applied_by: Option<RequestId>,
}

impl Proposal {
    /// Returns the state in one word.
    pub fn standing(&self, now: Timestamp) -> &str {
        match self.approval.state {
            ApprovalState::Waiting if self.approval.expires_at <= now => "expired",
            ApprovalState::Approved if self.until <= now => "expired",
            ApprovalState::Waiting
            | ApprovalState::Approved
            | ApprovalState::Denied
            | ApprovalState::Expired
            | ApprovalState::Cancelled => self.approval.state.word(),
            ApprovalState::Closed if self.applied_at.is_some() => "applied",
            ApprovalState::Closed if self.is_under_way => "applying",
            ApprovalState::Closed if self.is_unknown => "unknown",
            ApprovalState::Closed => match self.approval.became.as_deref() {
                Some("spent") => "not applied",
                Some(became) => became,
                None => "over",
            },
        }
    }

    /// Returns the form for an action, with these changes.
    pub fn stored(&self, changes: Vec<u8>) -> Option<StoredProposal> {
        Some(StoredProposal {
            id: self.id.clone(),
            group: self.approval.group.clone()?,
            path: self.path.clone(),
            changes,
            patch_hash: self.patch_hash,
            proposed_by: self.proposed_by.clone(),
        })
    }

    /// Returns the form for a list.
    pub fn listed(&self, now: Timestamp) -> Listed {
        let until = if self.approval.state == ApprovalState::Waiting { self.approval.expires_at } else { self.until };
        Listed {
            hitl_id: self.id.to_string(),
            path: self.path.clone(),
            summary: self.summary.clone(),
            state: self.standing(now).to_owned(),
            until: until.to_string(),
            proposed_by: self.proposed_by.to_string(),
        }
    }
}

/// A proposal to be stored beside its approval request.
#[derive(Debug, Clone, Copy)]
pub struct NewProposal<'a> {
    /// The proposer's name for it.
    pub id: &'a ProposalId,
    /// The number of the approval request about it.
    pub approval: i64,
    /// The caller that may apply it, in the ledger's form.
    pub caller: &'a str,
    /// The request that proposed it.
    pub proposed_by: &'a RequestId,
    /// The path that names it.
    pub path: &'a str,
    /// The summary of the changes, in one line.
    pub summary: &'a str,
    /// SHA-256 of the whole diff.
    pub patch_hash: Digest,
    /// The time after which it cannot be applied.
    pub until: Timestamp,
    /// The changes.
    pub changes: &'a [u8],
    /// The whole diff, for a person's eyes.
    pub diff: &'a str,
    /// Whether it undoes another.
    pub is_revert: bool,
}

/// A proposal that a person wants applied at once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PendingApplication {
    /// The group.
    pub group: Group,
    /// The provider.
    pub provider: Provider,
    /// The proposal.
    pub id: ProposalId,
    /// The path that names it.
    pub path: String,
    /// The request that applies it.
    pub request_id: RequestId,
    /// The person on whose behalf it was proposed.
    pub behalf: Subject,
}

const COLUMNS: &str = "id, approval, proposed_by, path, summary, patch_hash, until, applied_at, is_revert,
    EXISTS (SELECT 1 FROM open_intents o WHERE o.caller = p.caller AND o.request_id = p.applied_by),
    EXISTS (SELECT 1 FROM unknown_outcomes u WHERE u.caller = p.caller AND u.request_id = p.applied_by),
    coalesce(applied_by, apply_as)";

fn read(view: &View, row: &Row<'_>) -> Result<Proposal, StoreError> {
    let bad = |what: &'static str| StoreError::Stored { what };
    let text = |index: usize| row.get::<_, String>(index).map_err(at("read a proposal"));
    let number = |index: usize| row.get::<_, i64>(index).map_err(at("read a proposal"));
    let flag = |index: usize| row.get::<_, bool>(index).map_err(at("read a proposal"));
    let applied_at: Option<i64> = row.get(7).map_err(at("read a proposal"))?;
    let applied_by: Option<String> = row.get(11).map_err(at("read a proposal"))?;
    let approval = approvals::numbered(view, number(1)?)?;
    Ok(Proposal {
        id: text(0)?.parse().map_err(|_bad| bad("proposal"))?,
        approval: approval.ok_or_else(|| bad("proposal"))?,
        proposed_by: text(2)?.parse().map_err(|_bad| bad("request id"))?,
        path: text(3)?,
        summary: text(4)?,
        patch_hash: Digest::from_bytes(row.get(5).map_err(at("read a proposal"))?),
        until: Timestamp::from_millis(number(6)?),
        applied_at: applied_at.map(Timestamp::from_millis),
        is_revert: flag(8)?,
        is_under_way: flag(9)?,
        is_unknown: flag(10)?,
        applied_by: applied_by.map(|id| id.parse().map_err(|_bad| bad("request id"))).transpose()?,
    })
}

fn select(view: &View, condition: &str, with: impl rusqlite::Params) -> Result<Vec<Proposal>, StoreError> {
    let statement = format!("SELECT {COLUMNS} FROM proposals p WHERE {condition}");
    let mut statement = view.prepare_cached(&statement).map_err(at("look proposals up"))?;
    let mut rows = statement.query(with).map_err(at("look proposals up"))?;
    let mut found = Vec::new();
    while let Some(row) = rows.next().map_err(at("look proposals up"))? {
        found.push(read(view, row)?);
    }
    Ok(found)
}

/// Returns the caller's proposal of this name; `None` also for another caller's.
///
/// # Errors
/// [`StoreError`] if it cannot be read; nothing may then be applied.
pub fn find(view: &View, caller: &str, id: &ProposalId) -> Result<Option<Proposal>, StoreError> {
    select(view, "caller = ?1 AND id = ?2", params![caller, id.as_str()]).map(|found| found.into_iter().next())
}

/// Returns the caller's proposal of this name, if it has this path.
///
/// # Errors
/// [`StoreError`] if it cannot be read; nothing may then be applied.
pub fn find_at(view: &View, caller: &str, id: &ProposalId, path: &str) -> Result<Option<Proposal>, StoreError> {
    Ok(find(view, caller, id)?.filter(|proposal| proposal.path == path))
}

/// Returns the proposal of this name, of any caller.
///
/// # Errors
/// [`StoreError`] if it cannot be read.
pub fn named(view: &View, id: &ProposalId) -> Result<Option<Proposal>, StoreError> {
    select(view, "id = ?1", params![id.as_str()]).map(|found| found.into_iter().next())
}

/// Returns the proposal that this approval request is about.
///
/// # Errors
/// [`StoreError`] if it cannot be read.
pub fn asked_by(view: &View, approval: i64) -> Result<Option<Proposal>, StoreError> {
    select(view, "approval = ?1", params![approval]).map(|found| found.into_iter().next())
}

/// Returns the latest proposals, of one caller or of all, oldest first.
///
/// # Errors
/// [`StoreError`] if they cannot be read.
pub fn latest(view: &View, caller: Option<&str>) -> Result<Vec<Proposal>, StoreError> {
    let most = i64::try_from(LISTED_MAX).unwrap_or(i64::MAX);
    // One statement for each, so that each finds its rows by an index.
    let mut found = match caller {
        Some(caller) => select(view, "caller = ?1 ORDER BY approval DESC LIMIT ?2", params![caller, most])?,
        None => select(view, "1 ORDER BY approval DESC LIMIT ?1", params![most])?,
    };
    found.reverse();
    Ok(found)
}

/// Returns the changes, as long as they are kept.
///
/// # Errors
/// [`StoreError`] if it cannot be read.
pub fn changes(view: &View, id: &ProposalId) -> Result<Option<Vec<u8>>, StoreError> {
    view.prepare_cached("SELECT changes FROM proposals WHERE id = ?1")
        .and_then(|mut s| s.query_row(params![id.as_str()], |row| row.get(0)).optional())
        .map(Option::flatten)
        .map_err(at("read a proposal"))
}

/// Returns the diff that a person was shown, as long as it is kept.
///
/// # Errors
/// [`StoreError`] if it cannot be read.
pub fn diff(view: &View, id: &ProposalId) -> Result<Option<String>, StoreError> {
    view.prepare_cached("SELECT diff FROM proposals WHERE id = ?1")
        .and_then(|mut s| s.query_row(params![id.as_str()], |row| row.get(0)).optional())
        .map(Option::flatten)
        .map_err(at("read a proposal"))
}

/// Returns the proposals that people want applied at once and that are not yet: all, or the one of this approval.
///
/// # Errors
/// [`StoreError`] if it cannot be read.
pub fn wanted(view: &View, approval: Option<i64>) -> Result<Vec<PendingApplication>, StoreError> {
    const SELECT: &str =
        "SELECT p.id, p.path, p.apply_as, a.provider, coalesce(a.for_group, substr(a.caller, 7)), a.person
        FROM approvals a JOIN proposals p ON p.approval = a.id
        WHERE a.state <> 'closed' AND a.state = 'approved' AND p.apply_as IS NOT NULL AND (?1 IS NULL OR a.id = ?1)";
    let bad = |what: &'static str| StoreError::Stored { what };
    let mut statement = view.prepare_cached(SELECT).map_err(at("look proposals up"))?;
    let rows = statement.query_map(params![approval], |row| {
        let texts = [row.get::<_, String>(0)?, row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?];
        Ok((texts, row.get(5)?))
    });
    let rows: Vec<([String; 5], Option<String>)> = rows.and_then(Iterator::collect).map_err(at("look proposals up"))?;
    rows.into_iter()
        .map(|([id, path, request_id, provider, group], person)| {
            Ok(PendingApplication {
                group: group.parse().map_err(|_bad| bad("group"))?,
                provider: provider.parse().map_err(|_bad| bad("provider"))?,
                id: id.parse().map_err(|_bad| bad("proposal"))?,
                path,
                request_id: request_id.parse().map_err(|_bad| bad("request id"))?,
                behalf: Subject::stored(person.as_deref()).map_err(|_bad| bad("person"))?,
            })
        })
        .collect()
}

/// Notes that a person wants it applied at once, by this request, unless that was noted before.
///
/// # Errors
/// [`StoreError`].
pub fn wish(tx: &Transaction<'_>, approval: i64, request_id: &RequestId) -> Result<(), StoreError> {
    let with = params![approval, request_id.as_str()];
    change(tx, "UPDATE proposals SET apply_as = ?2 WHERE approval = ?1 AND apply_as IS NULL", with)
}

/// Stores a proposal.
///
/// # Errors
/// [`StoreError`]; nothing was proposed.
pub fn put(tx: &Transaction<'_>, entry: &NewProposal<'_>) -> Result<(), StoreError> {
    const INSERT: &str = "INSERT INTO proposals
        (id, approval, caller, proposed_by, path, summary, patch_hash, until, changes, is_revert, diff)
        VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)";
    tx.view()
        .prepare_cached(INSERT)
        .and_then(|mut s| {
            s.execute(params![
                entry.id.as_str(),
                entry.approval,
                entry.caller,
                entry.proposed_by.as_str(),
                entry.path,
                entry.summary,
                entry.patch_hash.as_bytes(),
                entry.until.millis(),
                entry.changes,
                entry.is_revert,
                entry.diff,
            ])
        })
        .map_err(at("store a proposal"))?;
    tx.charge_bytes(entry.caller, entry.changes.len() + entry.diff.len())
}

/// Notes that this request spends the approval.
///
/// # Errors
/// [`StoreError`], also if another request has spent it; the intent must then not be written.
pub fn begin(tx: &Transaction<'_>, approval: i64, by: &RequestId) -> Result<(), StoreError> {
    let begun = tx
        .view()
        .prepare_cached("UPDATE proposals SET applied_by = ?2 WHERE approval = ?1 AND applied_by IS NULL")
        .and_then(|mut s| s.execute(params![approval, by.as_str()]))
        .map_err(at("begin to apply a proposal"))?;
    if begun == 1 { Ok(()) } else { Err(StoreError::Conflict { what: "proposal" }) }
}

/// Notes that the request has applied the proposal of its spent approval.
///
/// # Errors
/// [`StoreError`].
pub fn applied(tx: &Transaction<'_>, caller: &str, by: &RequestId) -> Result<(), StoreError> {
    let with = params![caller, by.as_str(), tx.now().millis()];
    change(tx, "UPDATE proposals SET applied_at = ?3 WHERE caller = ?1 AND applied_by = ?2", with)?;
    // The changes that can be undone are bounded in number as well as in time. Otherwise an agent could fill a disk
    // through a path that needs no approval.
    let surplus = "UPDATE proposals SET changes = NULL, diff = NULL WHERE changes IS NOT NULL AND approval IN
        (SELECT approval FROM proposals WHERE caller = ?1 AND applied_at IS NOT NULL AND changes IS NOT NULL
         ORDER BY approval DESC LIMIT -1 OFFSET ?2)";
    change(tx, surplus, params![caller, i64::try_from(KEPT_MAX).unwrap_or(i64::MAX)])
}

/// Forgets the changes of a proposal that will not be applied.
///
/// # Errors
/// [`StoreError`].
pub fn drop_changes(tx: &Transaction<'_>, approval: i64) -> Result<(), StoreError> {
    change(tx, "UPDATE proposals SET changes = NULL, diff = NULL WHERE approval = ?1", params![approval])
}

/// Forgets the changes of a proposal whose approval a request spent without an effect.
///
/// # Errors
/// [`StoreError`].
pub fn mark_failed(tx: &Transaction<'_>, caller: &str, by: &RequestId) -> Result<(), StoreError> {
    let with = params![caller, by.as_str()];
    change(tx, "UPDATE proposals SET changes = NULL, diff = NULL WHERE caller = ?1 AND applied_by = ?2", with)
}

/// Forgets changes that were applied too long ago to be undone.
///
/// # Errors
/// [`StoreError`].
pub fn forget_old(tx: &Transaction<'_>) -> Result<(), StoreError> {
    let before = tx.now().minus(KEPT).millis();
    change(
        tx,
        "UPDATE proposals SET changes = NULL, diff = NULL WHERE changes IS NOT NULL AND until < ?1",
        params![before],
    )
}

/// Returns the approved proposals that were not applied in time.
///
/// # Errors
/// [`StoreError`] if they cannot be read.
pub fn uncollected(view: &View, now: Timestamp) -> Result<Vec<Proposal>, StoreError> {
    let condition = "until <= ?1 AND approval IN
        (SELECT id FROM approvals WHERE state <> 'closed' AND state = 'approved' AND kind = 'file')";
    select(view, condition, params![now.millis()])
}

/// Returns the time at which the next of them is due.
///
/// # Errors
/// [`StoreError`] if it cannot be read.
pub fn next_due(view: &View) -> Result<Option<Timestamp>, StoreError> {
    const FIRST: &str = "SELECT min(until) FROM proposals WHERE approval IN
        (SELECT id FROM approvals WHERE state <> 'closed' AND state = 'approved' AND kind = 'file')";
    let first: Option<i64> = view
        .prepare_cached(FIRST)
        .and_then(|mut s| s.query_row([], |row| row.get(0)))
        .map_err(at("look for the next expiry"))?;
    Ok(first.map(Timestamp::from_millis))
}

fn change(tx: &Transaction<'_>, statement: &str, with: impl rusqlite::Params) -> Result<(), StoreError> {
    tx.view().prepare_cached(statement).and_then(|mut s| s.execute(with)).map_err(at("change a proposal"))?;
    Ok(())
}
