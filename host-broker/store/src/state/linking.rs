//! The tables of link sessions, of accounts that wait for an approval (`asked`) and of credentials (`credentials`). The
//! sealed records of all three are in `records`. Secrets are sealed before they arrive here; this crate cannot open
//! them.

mod asked;
mod credentials;
mod records;

pub use asked::*;
pub use credentials::*;
pub use records::*;

use crate::Transaction;
use crate::View;
use crate::state::accounts;
use crate::state::approvals;
use crate::{StoreError, at};
use model::approval::ApprovalState;
use model::{Ciphertext, Flow, LinkSessionState, Person, Subject};
use rusqlite::{OptionalExtension as _, Row, params};
use shared::{FlowId, Provider, Timestamp};
use std::time::Duration;

/// The time for which a flow that has ended is remembered, so that its owner gets the right reply.
const REMEMBERED: Duration = Duration::from_secs(24 * 3600);

/// The owner of a flow.
#[derive(Debug, Clone, Copy)]
pub struct Owner<'a> {
    /// The group, in the ledger's form.
    pub caller: &'a str,
    /// The person.
    pub person: &'a str,
}

/// A flow to be stored.
#[derive(Debug, Clone, Copy)]
pub struct NewLinkSession<'a> {
    /// The handle.
    pub id: &'a FlowId,
    /// The owner.
    pub owner: Owner<'a>,
    /// The same person in full, with the chat.
    pub behalf: &'a Person,
    /// The state from which it can be continued.
    pub flow: &'a Flow,
}

/// A flow to which a browser returns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Begun {
    /// The handle.
    pub id: FlowId,
    /// The group, in the ledger's form.
    pub caller: String,
    /// The person on whose behalf it was begun.
    pub behalf: Subject,
}

/// Stores a flow.
///
/// # Errors
/// [`StoreError`]; no flow is stored.
pub fn begin(tx: &Transaction<'_>, entry: &NewLinkSession<'_>) -> Result<(), StoreError> {
    const INSERT: &str = "INSERT INTO auth_flows VALUES (?1, ?2, ?3, ?4, ?5, 'open', ?6, ?7, ?8, ?9, ?10, ?11)";
    let NewLinkSession { id, owner, behalf, flow } = entry;
    let behalf = serde_json::to_string(behalf).unwrap_or_default();
    let capability = id.capability();
    let pace = flow.pace.map(|pace| i64::try_from(pace.as_millis()).unwrap_or(i64::MAX));
    let with = params![
        id.as_str(),
        owner.caller,
        owner.person,
        behalf,
        capability.as_str(),
        flow.sealed.bytes(),
        flow.expected,
        pace,
        flow.polled_at.map(Timestamp::millis),
        tx.now().millis(),
        flow.expires_at.millis(),
    ];
    change(tx, INSERT, with).map(drop)
}

/// Counts the flows of this person in this group that were begun within the longest life of one, in any state.
///
/// # Errors
/// [`StoreError`] if they cannot be counted; none may then be begun.
pub fn begun_since(view: &View, owner: &Owner<'_>, since: Timestamp) -> Result<usize, StoreError> {
    const COUNT: &str = "SELECT count(*) FROM auth_flows WHERE caller = ?1 AND person = ?2 AND begun_at > ?3";
    let count: i64 = view
        .prepare_cached(COUNT)
        .and_then(|mut s| s.query_row(params![owner.caller, owner.person, since.millis()], |row| row.get(0)))
        .map_err(at("count the flows"))?;
    Ok(usize::try_from(count).unwrap_or(usize::MAX))
}

/// Returns the state of a flow of this owner. A flow of another owner is missing, like one that never existed.
///
/// # Errors
/// [`StoreError`] if it cannot be read; it may then not be continued.
pub fn find(view: &View, owner: &Owner<'_>, id: &FlowId, now: Timestamp) -> Result<LinkSessionState, StoreError> {
    const FIND: &str = "SELECT f.state, f.sealed, f.expected, f.pace_ms, f.polled_at, f.expires_at,
            l.account_ref, l.approval
        FROM auth_flows f LEFT JOIN account_links l ON l.flow = f.id
        WHERE f.id = ?1 AND f.caller = ?2 AND f.person = ?3";
    type Found = (String, Flow, Option<String>, Option<i64>);
    let read = |row: &Row<'_>| -> rusqlite::Result<Found> {
        let pace = row.get::<_, Option<i64>>(3)?.map(|pace| u64::try_from(pace).unwrap_or_default());
        let flow = Flow {
            sealed: Ciphertext::from_bytes(row.get::<_, Option<Vec<u8>>>(1)?.unwrap_or_default()),
            expected: row.get(2)?,
            pace: pace.map(Duration::from_millis),
            polled_at: row.get::<_, Option<i64>>(4)?.map(Timestamp::from_millis),
            expires_at: Timestamp::from_millis(row.get(5)?),
        };
        Ok((row.get(0)?, flow, row.get(6)?, row.get(7)?))
    };
    let found = view
        .prepare_cached(FIND)
        .and_then(|mut s| s.query_row(params![id.as_str(), owner.caller, owner.person], read).optional())
        .map_err(at("look a flow up"))?;
    let Some((state, flow, account, approval)) = found else { return Ok(LinkSessionState::Missing) };
    if let (Some(account), Some(approval)) = (account, approval) {
        let is_linked = accounts::own(view, owner.person, &id.capability())?.contains(&account);
        let bad = || StoreError::Stored { what: "account" };
        let asked = approvals::numbered(view, approval)?.ok_or_else(bad)?;
        let waits_in_vain = asked.state == ApprovalState::Waiting && asked.expires_at <= now;
        let state = match asked.became.as_deref().unwrap_or(asked.state.word()) {
            _ if waits_in_vain => "expired",
            "approved" if !is_linked => "unlinked",
            state => state,
        };
        return Ok(LinkSessionState::Asked {
            account: account.parse().map_err(|_bad| bad())?,
            state: state.to_owned(),
        });
    }
    Ok(match state.as_str() {
        "open" if flow.expires_at > now => LinkSessionState::Open(Box::new(flow)),
        "open" => LinkSessionState::Expired,
        _ => LinkSessionState::Missing,
    })
}

/// Returns whether a flow of this owner is being continued, and no approval request about its account was sent.
///
/// # Errors
/// [`StoreError`] if it cannot be read; no approval request may be sent then.
pub fn is_under_way(view: &View, owner: &Owner<'_>, id: &FlowId) -> Result<bool, StoreError> {
    const FIND: &str = "SELECT EXISTS (SELECT 1 FROM auth_flows
        WHERE id = ?1 AND caller = ?2 AND person = ?3 AND state IN ('open', 'spent'))";
    view.prepare_cached(FIND)
        .and_then(|mut s| s.query_row(params![id.as_str(), owner.caller, owner.person], |row| row.get(0)))
        .map_err(at("look a flow up"))
}

/// The least length of a `state`. A shorter one could be guessed, so no browser returns with it.
const STATE_MIN: usize = 16;

/// Returns the one open flow whose redirect address has this `state`.
///
/// # Errors
/// [`StoreError`] if it cannot be read; it may then not be continued.
pub fn by_state(view: &View, state: &str, now: Timestamp) -> Result<Option<Begun>, StoreError> {
    const FIND: &str =
        "SELECT id, caller, behalf FROM auth_flows WHERE expected = ?1 AND state = 'open' AND expires_at > ?2 LIMIT 2";
    if state.len() < STATE_MIN {
        return Ok(None);
    }
    let found: Vec<[String; 3]> = view
        .prepare_cached(FIND)
        .and_then(|mut s| {
            s.query_map(params![state, now.millis()], |row| Ok([row.get(0)?, row.get(1)?, row.get(2)?]))?.collect()
        })
        .map_err(at("look a flow up"))?;
    // If two flows have the same state, the owner is unknown.
    let Ok([[id, caller, behalf]]) = <[[String; 3]; 1]>::try_from(found) else { return Ok(None) };
    let bad = || StoreError::Stored { what: "flow" };
    let behalf = Subject::stored(Some(&behalf)).map_err(|_bad| bad())?;
    Ok(Some(Begun { id: id.parse().map_err(|_bad| bad())?, caller, behalf }))
}

/// Spends a flow, which works once; `false` if it was spent before.
///
/// # Errors
/// [`StoreError`]; it is as it was.
pub fn spend(tx: &Transaction<'_>, id: &FlowId) -> Result<bool, StoreError> {
    let spent =
        change(tx, "UPDATE auth_flows SET state = 'spent' WHERE id = ?1 AND state = 'open'", params![id.as_str()]);
    spent.map(|rows| rows > 0)
}

/// Restores a spent flow for which no approval request was sent.
///
/// # Errors
/// [`StoreError`]; it is as it was.
pub fn give_back(tx: &Transaction<'_>, id: &FlowId) -> Result<(), StoreError> {
    let given = "UPDATE auth_flows SET state = 'open' WHERE id = ?1 AND state = 'spent'";
    change(tx, given, params![id.as_str()]).map(drop)
}

/// Notes that the provider is polled now.
///
/// # Errors
/// [`StoreError`].
pub fn polled(tx: &Transaction<'_>, id: &FlowId) -> Result<(), StoreError> {
    let with = params![id.as_str(), tx.now().millis()];
    change(tx, "UPDATE auth_flows SET polled_at = ?2 WHERE id = ?1", with).map(drop)
}

/// Notes that the provider is to be polled less often.
///
/// # Errors
/// [`StoreError`].
pub fn slower(tx: &Transaction<'_>, id: &FlowId, pace: Duration) -> Result<(), StoreError> {
    let with = params![id.as_str(), i64::try_from(pace.as_millis()).unwrap_or(i64::MAX)];
    change(tx, "UPDATE auth_flows SET pace_ms = max(pace_ms, ?2) WHERE id = ?1", with).map(drop)
}

/// Ends the flows of this group. Returns their number.
///
/// # Errors
/// [`StoreError`]; they are as they were.
pub fn end_flows_of(tx: &Transaction<'_>, caller: &str) -> Result<usize, StoreError> {
    change(tx, "DELETE FROM auth_flows WHERE caller = ?1", params![caller])
}

/// Ends the flows of this person, at this capability or at all.
///
/// # Errors
/// [`StoreError`]; they are as they were.
pub fn end_flows(tx: &Transaction<'_>, person: &str, capability: Option<&Provider>) -> Result<(), StoreError> {
    let end = "DELETE FROM auth_flows WHERE person = ?1 AND capability = coalesce(?2, capability)";
    change(tx, end, params![person, capability.map(Provider::as_str)]).map(drop)
}

/// Forgets the provider states of expired flows, and the flows that ended long ago.
///
/// # Errors
/// [`StoreError`].
pub fn forget_old(tx: &Transaction<'_>) -> Result<(), StoreError> {
    let (now, before) = (tx.now().millis(), tx.now().minus(REMEMBERED).millis());
    let over = "UPDATE auth_flows SET sealed = NULL, expected = NULL
        WHERE expires_at < ?1 AND (sealed IS NOT NULL OR expected IS NOT NULL)";
    change(tx, over, params![now])?;
    change(tx, "DELETE FROM auth_flows WHERE expires_at < ?1", params![before]).map(drop)
}

fn change(tx: &Transaction<'_>, statement: &str, with: impl rusqlite::Params) -> Result<usize, StoreError> {
    tx.view().prepare_cached(statement).and_then(|mut s| s.execute(with)).map_err(at("change an account"))
}
