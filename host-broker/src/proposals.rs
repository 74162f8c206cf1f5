//! Proposals: changes to files that were described and not made.
//!
//! A proposal is an approval of kind `file`, and what it would change. The request that proposed it is over; whoever
//! applies it spends the yes. What was changed is kept for a while, so that it can be undone.

use crate::approvals::{self, Approval, State};
use crate::ledger::transaction::Transaction;
use crate::ledger::{LedgerError, at};
use crate::providers::contract::{Listed, Stored};
use rusqlite::{Connection, OptionalExtension as _, Row, params};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use shared::digest::Digest;
use shared::{RequestId, Timestamp};
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// How long what was applied can be undone.
const KEPT: Duration = Duration::from_secs(7 * 24 * 3600);
/// How many proposals a list shows, the latest.
const LISTED_MAX: usize = 50;

/// A proposal's name: `hitl-` and a UUID (RFC 9562) in lower case.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
pub struct ProposalId(#[schemars(regex(pattern = r"^hitl-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$"))] String);

/// Not a proposal's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a proposal's name: hitl- and a UUID in lower case")]
pub struct BadProposalId;

impl ProposalId {
    /// A name made of sixteen random bytes, a UUID of version 4.
    pub fn of(mut random: [u8; 16]) -> Self {
        for (at, keep, set) in [(6, 0x0f, 0x40), (8, 0x3f, 0x80)] {
            if let Some(byte) = random.get_mut(at) {
                *byte = *byte & keep | set;
            }
        }
        let hex = base16ct::lower::encode_string(&random);
        let mut name = String::from("hitl");
        let mut rest = hex.as_str();
        for length in [8, 4, 4, 4, 12] {
            let (part, after) = rest.split_at_checked(length).unwrap_or((rest, ""));
            name.push('-');
            name.push_str(part);
            rest = after;
        }
        Self(name)
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for ProposalId {
    type Err = BadProposalId;

    fn from_str(text: &str) -> Result<Self, BadProposalId> {
        let parts: Vec<&str> = text.strip_prefix("hitl-").ok_or(BadProposalId)?.split('-').collect();
        let is_hex = |part: &str| part.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
        let lengths: Vec<usize> = parts.iter().map(|part| part.len()).collect();
        let fits = lengths == [8, 4, 4, 4, 12] && parts.iter().all(|part| is_hex(part));
        if fits { Ok(Self(text.to_owned())) } else { Err(BadProposalId) }
    }
}

impl TryFrom<String> for ProposalId {
    type Error = BadProposalId;

    fn try_from(text: String) -> Result<Self, BadProposalId> {
        text.parse()
    }
}

impl From<ProposalId> for String {
    fn from(id: ProposalId) -> Self {
        id.0
    }
}

impl fmt::Display for ProposalId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A proposal, without what it would change.
#[derive(Debug, Clone, PartialEq)]
pub struct Proposal {
    /// The proposer's name for it.
    pub id: ProposalId,
    /// The question about it, and where that stands.
    pub approval: Approval,
    /// The request that proposed it.
    pub proposed_by: RequestId,
    /// The path that it goes by.
    pub path: String,
    /// What it does, in one line.
    pub summary: String,
    /// SHA-256 of the whole diff.
    pub patch_hash: Digest,
    /// When it can no longer be applied.
    pub until: Timestamp,
    /// When it was applied, if it is known that it was.
    pub applied_at: Option<Timestamp>,
}

impl Proposal {
    /// Where it stands, in one word.
    pub fn standing(&self, now: Timestamp) -> &str {
        match self.approval.state {
            State::Waiting if self.approval.expires_at <= now => "expired",
            State::Approved if self.until <= now => "expired",
            State::Waiting | State::Approved | State::Denied | State::Expired | State::Cancelled => {
                self.approval.state.word()
            }
            State::Closed if self.applied_at.is_some() => "applied",
            State::Closed => match self.approval.became.as_deref() {
                Some("spent") => "not applied",
                Some(became) => became,
                None => "over",
            },
        }
    }

    /// As a list shows it.
    pub fn listed(&self, now: Timestamp) -> Listed {
        let until = if self.approval.state == State::Waiting { self.approval.expires_at } else { self.until };
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

/// What is stored of a proposal beside its question.
#[derive(Debug, Clone, Copy)]
pub struct Entry<'a> {
    /// The proposer's name for it.
    pub id: &'a ProposalId,
    /// The number of the question about it.
    pub approval: i64,
    /// Who may apply it, as the ledger writes callers.
    pub caller: &'a str,
    /// The request that proposed it.
    pub proposed_by: &'a RequestId,
    /// The path that it goes by.
    pub path: &'a str,
    /// What it does, in one line.
    pub summary: &'a str,
    /// SHA-256 of the whole diff.
    pub patch_hash: Digest,
    /// When it can no longer be applied.
    pub until: Timestamp,
    /// What it would change.
    pub changes: &'a [u8],
}

const COLUMNS: &str = "id, approval, proposed_by, path, summary, patch_hash, until, applied_at";

fn read(connection: &Connection, row: &Row<'_>) -> Result<Proposal, LedgerError> {
    let bad = |what: &'static str| LedgerError::Stored { what };
    let text = |index: usize| row.get::<_, String>(index).map_err(at("read a proposal"));
    let number = |index: usize| row.get::<_, i64>(index).map_err(at("read a proposal"));
    let applied_at: Option<i64> = row.get(7).map_err(at("read a proposal"))?;
    let approval = approvals::numbered(connection, number(1)?)?;
    Ok(Proposal {
        id: text(0)?.parse().map_err(|_bad| bad("proposal"))?,
        approval: approval.ok_or_else(|| bad("proposal"))?,
        proposed_by: text(2)?.parse().map_err(|_bad| bad("request id"))?,
        path: text(3)?,
        summary: text(4)?,
        patch_hash: Digest::from_bytes(row.get(5).map_err(at("read a proposal"))?),
        until: Timestamp::from_millis(number(6)?),
        applied_at: applied_at.map(Timestamp::from_millis),
    })
}

fn select(connection: &Connection, condition: &str, with: impl rusqlite::Params) -> Result<Vec<Proposal>, LedgerError> {
    let statement = format!("SELECT {COLUMNS} FROM proposals WHERE {condition}");
    let mut statement = connection.prepare_cached(&statement).map_err(at("look proposals up"))?;
    let mut rows = statement.query(with).map_err(at("look proposals up"))?;
    let mut found = Vec::new();
    while let Some(row) = rows.next().map_err(at("look proposals up"))? {
        found.push(read(connection, row)?);
    }
    Ok(found)
}

/// The caller's proposal of this name; `None` also for another's.
///
/// # Errors
/// [`LedgerError`] if it cannot be read; nothing may then be applied.
pub fn find(connection: &Connection, caller: &str, id: &ProposalId) -> Result<Option<Proposal>, LedgerError> {
    select(connection, "caller = ?1 AND id = ?2", params![caller, id.as_str()]).map(|found| found.into_iter().next())
}

/// The proposal of this name, whosever it is.
///
/// # Errors
/// [`LedgerError`] if it cannot be read.
pub fn named(connection: &Connection, id: &ProposalId) -> Result<Option<Proposal>, LedgerError> {
    select(connection, "id = ?1", params![id.as_str()]).map(|found| found.into_iter().next())
}

/// The proposal that this question is about.
///
/// # Errors
/// [`LedgerError`] if it cannot be read.
pub fn asked_by(connection: &Connection, approval: i64) -> Result<Option<Proposal>, LedgerError> {
    select(connection, "approval = ?1", params![approval]).map(|found| found.into_iter().next())
}

/// The latest proposals, of one caller or of all, oldest first.
///
/// # Errors
/// [`LedgerError`] if they cannot be read.
pub fn latest(connection: &Connection, caller: Option<&str>) -> Result<Vec<Proposal>, LedgerError> {
    let most = i64::try_from(LISTED_MAX).unwrap_or(i64::MAX);
    let condition = "?1 IS NULL OR caller = ?1 ORDER BY approval DESC LIMIT ?2";
    let mut found = select(connection, condition, params![caller, most])?;
    found.reverse();
    Ok(found)
}

/// What it would change, as long as that is kept.
///
/// # Errors
/// [`LedgerError`] if it cannot be read.
pub fn changes(connection: &Connection, id: &ProposalId) -> Result<Option<Vec<u8>>, LedgerError> {
    connection
        .prepare_cached("SELECT changes FROM proposals WHERE id = ?1")
        .and_then(|mut s| s.query_row(params![id.as_str()], |row| row.get(0)).optional())
        .map(Option::flatten)
        .map_err(at("read a proposal"))
}

/// The proposal as whoever applies it gets it; `None` if what it would change is no longer kept.
///
/// # Errors
/// [`LedgerError`] if it cannot be read.
pub fn stored(connection: &Connection, proposal: &Proposal) -> Result<Option<Stored>, LedgerError> {
    let Some(group) = proposal.approval.group.clone() else { return Ok(None) };
    Ok(changes(connection, &proposal.id)?.map(|changes| Stored {
        id: proposal.id.clone(),
        group,
        path: proposal.path.clone(),
        changes,
        patch_hash: proposal.patch_hash,
        proposed_by: proposal.proposed_by.clone(),
    }))
}

/// Stores a proposal.
///
/// # Errors
/// [`LedgerError`]; nothing was proposed.
pub fn put(tx: &Transaction<'_>, entry: &Entry<'_>) -> Result<(), LedgerError> {
    const INSERT: &str = "INSERT INTO proposals
        (id, approval, caller, proposed_by, path, summary, patch_hash, until, changes)
        VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)";
    tx.connection()
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
            ])
        })
        .map_err(at("store a proposal"))?;
    Ok(())
}

/// Notes that this request spends the yes.
///
/// # Errors
/// [`LedgerError`].
pub fn begin(tx: &Transaction<'_>, approval: i64, by: &RequestId) -> Result<(), LedgerError> {
    change(tx, "UPDATE proposals SET applied_by = ?2 WHERE approval = ?1", params![approval, by.as_str()])
}

/// Notes that the request has applied what it spent the yes for.
///
/// # Errors
/// [`LedgerError`].
pub fn applied(tx: &Transaction<'_>, caller: &str, by: &RequestId) -> Result<(), LedgerError> {
    let with = params![caller, by.as_str(), tx.now().millis()];
    change(tx, "UPDATE proposals SET applied_at = ?3 WHERE caller = ?1 AND applied_by = ?2", with)
}

/// Forgets what would have been changed: it will not be.
///
/// # Errors
/// [`LedgerError`].
pub fn drop_changes(tx: &Transaction<'_>, approval: i64) -> Result<(), LedgerError> {
    change(tx, "UPDATE proposals SET changes = NULL WHERE approval = ?1", params![approval])
}

/// The same, by the request that spent the yes in vain.
///
/// # Errors
/// [`LedgerError`].
pub fn in_vain(tx: &Transaction<'_>, caller: &str, by: &RequestId) -> Result<(), LedgerError> {
    let with = params![caller, by.as_str()];
    change(tx, "UPDATE proposals SET changes = NULL WHERE caller = ?1 AND applied_by = ?2", with)
}

/// Forgets what was changed so long ago that it is not undone any more.
///
/// # Errors
/// [`LedgerError`].
pub fn forget_old(tx: &Transaction<'_>) -> Result<(), LedgerError> {
    let before = tx.now().minus(KEPT).millis();
    change(tx, "UPDATE proposals SET changes = NULL WHERE changes IS NOT NULL AND until < ?1", params![before])
}

/// Those that were approved and that nobody has applied in time.
///
/// # Errors
/// [`LedgerError`] if they cannot be read.
pub fn uncollected(connection: &Connection, now: Timestamp) -> Result<Vec<Proposal>, LedgerError> {
    let condition = "until <= ?1 AND approval IN
        (SELECT id FROM approvals WHERE state <> 'closed' AND state = 'approved' AND kind = 'file')";
    select(connection, condition, params![now.millis()])
}

/// When the next of them is due.
///
/// # Errors
/// [`LedgerError`] if it cannot be read.
pub fn next_due(connection: &Connection) -> Result<Option<Timestamp>, LedgerError> {
    const FIRST: &str = "SELECT min(until) FROM proposals WHERE approval IN
        (SELECT id FROM approvals WHERE state <> 'closed' AND state = 'approved' AND kind = 'file')";
    let first: Option<i64> = connection
        .prepare_cached(FIRST)
        .and_then(|mut s| s.query_row([], |row| row.get(0)))
        .map_err(at("look for the next expiry"))?;
    Ok(first.map(Timestamp::from_millis))
}

fn change(tx: &Transaction<'_>, statement: &str, with: impl rusqlite::Params) -> Result<(), LedgerError> {
    tx.connection().prepare_cached(statement).and_then(|mut s| s.execute(with)).map_err(at("change a proposal"))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_a_uuid_of_version_4_and_nothing_else_is_one() {
        let id = ProposalId::of([0xff; 16]);
        assert_eq!(id.as_str(), "hitl-ffffffff-ffff-4fff-bfff-ffffffffffff");
        assert_eq!(id.as_str().parse(), Ok(id.clone()));
        for bad in ["", "hitl-", "hitl-FFFFFFFF-ffff-4fff-bfff-ffffffffffff", "ffffffff-ffff-4fff-bfff-ffffffffffff"] {
            assert_eq!(bad.parse::<ProposalId>(), Err(BadProposalId), "{bad}");
        }
        assert!(format!("{id}\n").parse::<ProposalId>().is_err());
        assert!(format!("{id}-0000").parse::<ProposalId>().is_err());
    }
}
