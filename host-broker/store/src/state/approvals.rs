//! The table of approvals.

use crate::Transaction;
use crate::View;
use crate::{StoreError, at};
use model::access::AccessScope;
use model::approval::{Answered, Approval, ApprovalState, NewApproval, SubjectKind, reference};
use model::standing_approval::StandingOffer;
use model::{SealedRequest, Subject};
use rusqlite::{OptionalExtension as _, Row, params};
use shared::digest::Digest;
use shared::{Group, Provider, RequestId, Timestamp};
use std::collections::BTreeSet;

const COLUMNS: &str = "id, code, caller, request_id, reply_as, provider, action, level, digest, quorum, state, became, \
     asked_seq, asked_at, expires_at, reply_by, told, kind, for_group, asks, nested";

/// Finds approvals without the cards, which may be long, and which only people read.
fn find(view: &View, condition: &str, with: impl rusqlite::Params) -> Result<Vec<Approval>, StoreError> {
    select(view, "NULL", condition, with)
}

fn select(view: &View, card: &str, condition: &str, with: impl rusqlite::Params) -> Result<Vec<Approval>, StoreError> {
    let statement = format!("SELECT {COLUMNS}, {card} FROM approvals WHERE {condition}");
    let mut statement = view.prepare_cached(&statement).map_err(at("look approvals up"))?;
    let mut rows = statement.query(with).map_err(at("look approvals up"))?;
    let mut found = Vec::new();
    while let Some(row) = rows.next().map_err(at("look approvals up"))? {
        found.push(read(row)?);
    }
    Ok(found)
}

fn read(row: &Row<'_>) -> Result<Approval, StoreError> {
    let bad = |what: &'static str| StoreError::Stored { what };
    let text = |index: usize| row.get::<_, String>(index).map_err(at("read an approval"));
    let number = |index: usize| row.get::<_, i64>(index).map_err(at("read an approval"));
    let optional = |index: usize| row.get::<_, Option<String>>(index).map_err(at("read an approval"));
    let state = text(10)?;
    let (kind, group) = (text(17)?, optional(18)?);
    let caller = text(2)?;
    let group = group.as_deref().or_else(|| caller.strip_prefix("group:"));
    let card = optional(21)?.map(|card| serde_json::from_str(&card).map_err(|_bad| bad("card"))).transpose()?;
    Ok(Approval {
        id: number(0)?,
        code: text(1)?,
        kind: SubjectKind::ALL.into_iter().find(|known| known.word() == kind).ok_or_else(|| bad("kind"))?,
        group: group.map(|group| group.parse().map_err(|_bad| bad("group"))).transpose()?,
        caller,
        request_id: text(3)?.parse().map_err(|_bad| bad("request id"))?,
        reply_as: optional(4)?.map(|id| id.parse().map_err(|_bad| bad("request id"))).transpose()?,
        provider: text(5)?.parse().map_err(|_bad| bad("provider"))?,
        action: text(6)?.parse().map_err(|_bad| bad("action"))?,
        level: crate::state::requests::level(number(7)?)?,
        digest: Digest::from_bytes(row.get(8).map_err(at("read an approval"))?),
        quorum: usize::try_from(number(9)?).map_err(|_bad| bad("quorum"))?,
        state: ApprovalState::ALL.into_iter().find(|known| known.word() == state).ok_or_else(|| bad("state"))?,
        became: optional(11)?,
        asked_seq: number(12)?,
        asked_at: Timestamp::from_millis(number(13)?),
        expires_at: Timestamp::from_millis(number(14)?),
        reply_by: Timestamp::from_millis(number(15)?),
        told: number(16)? != 0,
        asks: serde_json::from_str(&text(19)?).map_err(|_bad| bad("reasons"))?,
        others: others(&optional(20)?.unwrap_or_default())?,
        card,
    })
}

/// Reads the providers of the other calls, which spaces separate.
fn others(stored: &str) -> Result<BTreeSet<Provider>, StoreError> {
    let bad = |_bad| StoreError::Stored { what: "provider" };
    stored.split_ascii_whitespace().map(|provider| provider.parse().map_err(bad)).collect()
}

/// Returns the approval that belongs to this request.
///
/// # Errors
/// [`StoreError`] if it cannot be read.
pub fn of_request(view: &View, caller: &str, id: &RequestId) -> Result<Option<Approval>, StoreError> {
    find(view, "caller = ?1 AND request_id = ?2", params![caller, id.as_str()]).map(|found| found.into_iter().next())
}

/// Returns the approval that is answered with this code.
///
/// # Errors
/// [`StoreError`] if it cannot be read.
pub fn with_code(view: &View, code: &str) -> Result<Option<Approval>, StoreError> {
    select(view, "card", "code = ?1", params![code]).map(|found| found.into_iter().next())
}

/// Returns the approval with this number.
///
/// # Errors
/// [`StoreError`] if it cannot be read.
pub fn numbered(view: &View, id: i64) -> Result<Option<Approval>, StoreError> {
    find(view, "id = ?1", params![id]).map(|found| found.into_iter().next())
}

/// Returns the digest of the parameters that the row of an approval request names.
///
/// # Errors
/// [`StoreError`] if it cannot be read.
pub fn params_digest(view: &View, approval: &Approval) -> Result<Option<Digest>, StoreError> {
    view.prepare_cached("SELECT params_digest FROM ledger WHERE seq = ?1")
        .and_then(|mut s| s.query_row(params![approval.asked_seq], |row| row.get(0)).optional())
        .map(|digest: Option<Option<[u8; 32]>>| digest.flatten().map(Digest::from_bytes))
        .map_err(at("look approvals up"))
}

/// Returns the approval with this number, with its card.
///
/// # Errors
/// [`StoreError`] if it cannot be read.
pub fn with_id(view: &View, id: i64) -> Result<Option<Approval>, StoreError> {
    select(view, "card", "id = ?1", params![id]).map(|found| found.into_iter().next())
}

/// Returns every approval that is not closed, oldest first; of one caller, or of all.
///
/// # Errors
/// [`StoreError`] if they cannot be read.
pub fn open(view: &View, caller: Option<&str>) -> Result<Vec<Approval>, StoreError> {
    match caller {
        Some(caller) => find(view, "state <> 'closed' AND caller = ?1 ORDER BY id", params![caller]),
        None => find(view, "state <> 'closed' ORDER BY id", []),
    }
}

/// Returns the number of open approvals of a caller. All grants of one external agent count together.
///
/// # Errors
/// [`StoreError`] if they cannot be read.
pub fn count_open(view: &View, caller: &str) -> Result<usize, StoreError> {
    const COUNT: &str = "SELECT count(*) FROM approvals WHERE state <> 'closed' AND caller IN (
        SELECT ?1 UNION SELECT 'outside:' || other.grant_id
        FROM flow_grants AS own JOIN flow_grants AS other USING (issued_by, actor) WHERE own.grant_id = ?2)";
    let access = caller.strip_prefix("outside:").unwrap_or_default();
    let count: i64 = view
        .prepare_cached(COUNT)
        .and_then(|mut s| s.query_row(params![caller, access], |row| row.get(0)))
        .map_err(at("count approvals"))?;
    Ok(usize::try_from(count).unwrap_or(usize::MAX))
}

/// Returns every approval that is not closed, oldest first, with its card.
///
/// # Errors
/// [`StoreError`] if they cannot be read.
pub fn shown(view: &View) -> Result<Vec<Approval>, StoreError> {
    select(view, "card", "state <> 'closed' ORDER BY id", [])
}

/// Returns every approval that is not closed, oldest first, with the caller, the reasons, and the beginnings of the
/// first parameters: at most 24, with 160 characters of each.
///
/// # Errors
/// [`StoreError`] if they cannot be read.
pub fn heads(view: &View) -> Result<Vec<Approval>, StoreError> {
    const HEAD: &str = "iif(card IS NULL, NULL, json_object('head', json_extract(card, '$.head'), \
         'params', json((SELECT json_group_array(json_object( \
             'field', substr(json_extract(value, '$.field'), 1, 160), \
             'value', substr(json_extract(value, '$.value'), 1, 160))) \
             FROM (SELECT value FROM json_each(card, '$.params') LIMIT 24))), \
         'reasons', json_extract(card, '$.reasons'), 'together', json_extract(card, '$.together')))";
    select(view, HEAD, "state <> 'closed' ORDER BY id", [])
}

/// Returns the approval with this name, with its card.
///
/// # Errors
/// [`StoreError`] if it cannot be read.
pub fn named(view: &View, reference: &str) -> Result<Option<Approval>, StoreError> {
    let Some(seq) = asked_seq(reference) else { return Ok(None) };
    select(view, "card", "asked_seq = ?1 ORDER BY id", params![seq]).map(|found| found.into_iter().next())
}

/// Returns whether a text has the form of a name of an approval request. No code has it.
pub fn is_name(text: &str) -> bool {
    asked_seq(&text.trim().to_ascii_lowercase()).is_some()
}

/// Returns the row behind a name, if it is one, written as the function `reference` writes it.
fn asked_seq(name: &str) -> Option<i64> {
    let seq = name.strip_prefix("ask-")?.parse().ok()?;
    (reference(seq) == name).then_some(seq)
}

/// Returns the approval that a caller knows by this name.
///
/// # Errors
/// [`StoreError`] if it cannot be read.
pub fn referred(view: &View, caller: &str, name: &str) -> Result<Option<Approval>, StoreError> {
    let Some(seq) = asked_seq(name) else { return Ok(None) };
    find(view, "caller = ?1 AND asked_seq = ?2 ORDER BY id", params![caller, seq]).map(|found| found.into_iter().next())
}

/// Returns the latest approvals of this provider's definitions, newest first.
///
/// # Errors
/// [`StoreError`] if they cannot be read.
pub fn about_definitions(view: &View, provider: &Provider) -> Result<Vec<Approval>, StoreError> {
    let condition = "kind = 'definition' AND provider = ?1 ORDER BY id DESC LIMIT 100";
    find(view, condition, params![provider.as_str()])
}

/// Returns the latest closed ones, newest first.
///
/// # Errors
/// [`StoreError`] if they cannot be read.
pub fn closed(view: &View, most: usize) -> Result<Vec<Approval>, StoreError> {
    // The approval of a plan stands for those of its calls.
    const CLOSED: &str = "NOT EXISTS (SELECT 1 FROM plan_steps WHERE plan_steps.caller = approvals.caller
         AND plan_steps.request_id = approvals.request_id) AND state = 'closed' ORDER BY id DESC LIMIT ?1";
    find(view, CLOSED, params![i64::try_from(most).unwrap_or(i64::MAX)])
}

/// Returns the approvals that no approver answered in time.
///
/// # Errors
/// [`StoreError`] if they cannot be read.
pub fn overdue(view: &View, now: Timestamp) -> Result<Vec<Approval>, StoreError> {
    find(view, "state <> 'closed' AND state = 'waiting' AND expires_at <= ?1 ORDER BY id", params![now.millis()])
}

/// Returns the next time at which a missing answer becomes a denial.
///
/// # Errors
/// [`StoreError`] if it cannot be read.
pub fn next_expiry(view: &View) -> Result<Option<Timestamp>, StoreError> {
    let first: Option<i64> = view
        .prepare_cached("SELECT min(expires_at) FROM approvals WHERE state <> 'closed' AND state = 'waiting'")
        .and_then(|mut s| s.query_row([], |row| row.get(0)))
        .map_err(at("look for the next expiry"))?;
    Ok(first.map(Timestamp::from_millis))
}

/// A request that waits, as it was at its arrival.
#[derive(Debug)]
pub struct Waiting {
    /// The subject of the approval request.
    pub kind: SubjectKind,
    /// Its document.
    pub document: Vec<u8>,
    /// The person on whose behalf it is made.
    pub behalf: Subject,
}

/// Returns the request that waits.
///
/// # Errors
/// [`StoreError`] if it cannot be read.
pub fn waiting(view: &View, caller: &str, id: &RequestId) -> Result<Option<Waiting>, StoreError> {
    const SELECT: &str = "SELECT kind, document, person FROM approvals WHERE caller = ?1 AND request_id = ?2";
    let found: Option<(String, Option<Vec<u8>>, Option<String>)> = view
        .prepare_cached(SELECT)
        .and_then(|mut s| {
            s.query_row(params![caller, id.as_str()], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?))).optional()
        })
        .map_err(at("read a request that waits"))?;
    let Some((kind, Some(document), person)) = found else { return Ok(None) };
    let bad = |what: &'static str| StoreError::Stored { what };
    let kind = SubjectKind::ALL.into_iter().find(|known| known.word() == kind).ok_or_else(|| bad("kind"))?;
    let behalf = Subject::stored(person.as_deref()).map_err(|_bad| bad("person"))?;
    Ok(Some(Waiting { kind, document, behalf }))
}

/// Returns the answers, oldest first.
///
/// # Errors
/// [`StoreError`] if it cannot be read.
pub fn answers(view: &View, approval: i64) -> Result<Vec<Answered>, StoreError> {
    view.prepare_cached("SELECT by, channel, yes, reason, at FROM approval_answers WHERE approval = ?1 ORDER BY at, by")
        .and_then(|mut s| {
            s.query_map(params![approval], |row| {
                Ok(Answered {
                    by: row.get(0)?,
                    channel: row.get(1)?,
                    yes: row.get(2)?,
                    reason: row.get(3)?,
                    at: Timestamp::from_millis(row.get(4)?),
                })
            })?
            .collect()
        })
        .map_err(at("read the answers"))
}

/// Stores an approval request, and returns its number.
///
/// # Errors
/// [`StoreError`]; no approver is asked.
pub fn ask(tx: &Transaction<'_>, approval_request: &NewApproval<'_>) -> Result<i64, StoreError> {
    const INSERT: &str = "INSERT INTO approvals
        (code, kind, caller, for_group, request_id, reply_as, provider, action, level, digest, quorum, state, asked_seq,
         asked_at, expires_at, reply_by, told, card, document, asks, person, nested, standing)
        VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?18, ?12, ?13, ?14, ?15, 0, ?16, ?17, ?19, ?20, ?21, ?22)";
    let asks = serde_json::to_string(approval_request.asks).map_err(|_bad| StoreError::Stored { what: "reasons" })?;
    let card = serde_json::to_string(approval_request.card).map_err(|_bad| StoreError::Stored { what: "card" })?;
    let standing = approval_request.standing.map(serde_json::to_string).transpose();
    let standing = standing.map_err(|_bad| StoreError::Stored { what: "standing approval" })?;
    let person = approval_request.person.map(serde_json::to_string).transpose();
    let person = person.map_err(|_bad| StoreError::Stored { what: "person" })?;
    let others = approval_request.others.iter().map(Provider::as_str).collect::<Vec<_>>().join(" ");
    tx.charge_bytes(approval_request.caller, card.len() + approval_request.document.map_or(0, <[u8]>::len))?;
    tx.view()
        .prepare_cached(INSERT)
        .and_then(|mut s| {
            s.insert(params![
                approval_request.code,
                approval_request.kind.word(),
                approval_request.caller,
                approval_request.group.map(Group::as_str),
                approval_request.request_id.as_str(),
                approval_request.reply_as.map(RequestId::as_str),
                approval_request.provider.as_str(),
                approval_request.action.as_str(),
                i64::from(approval_request.level.number()),
                approval_request.digest.as_bytes(),
                i64::try_from(approval_request.quorum).unwrap_or(i64::MAX),
                approval_request.asked_seq,
                tx.now().millis(),
                approval_request.expires_at.millis(),
                approval_request.reply_by.millis(),
                card,
                approval_request.document,
                approval_request.state.word(),
                asks,
                person,
                (!others.is_empty()).then_some(others),
                standing,
            ])
        })
        .map_err(at("store an approval request"))
}

/// Stores an answer; `false` if this person has answered before.
///
/// # Errors
/// [`StoreError`]; nothing was answered.
pub fn answer(tx: &Transaction<'_>, approval: i64, answered: &Answered) -> Result<bool, StoreError> {
    let stored = tx
        .view()
        .prepare_cached("INSERT INTO approval_answers VALUES (?1, ?2, ?3, ?4, ?5, ?6) ON CONFLICT DO NOTHING")
        .and_then(|mut s| {
            s.execute(params![
                approval,
                answered.by,
                answered.channel,
                answered.yes,
                answered.reason,
                answered.at.millis()
            ])
        })
        .map_err(at("store an answer"))?;
    Ok(stored == 1)
}

/// Stores a denial in place of the approver's earlier answer.
///
/// # Errors
/// [`StoreError`]; nothing was answered.
pub fn retract(tx: &Transaction<'_>, approval: i64, answered: &Answered) -> Result<(), StoreError> {
    let forget = "DELETE FROM approval_answers WHERE approval = ?1 AND by = ?2";
    tx.view()
        .prepare_cached(forget)
        .and_then(|mut s| s.execute(params![approval, answered.by]))
        .map_err(at("store an answer"))?;
    answer(tx, approval, answered).map(drop)
}

/// Changes the state of an approval from `waiting`. An approved one that has not started can still be cancelled. Changes
/// to files that were not applied can still be denied, and so can the calls of a plan that have not started.
///
/// # Errors
/// [`StoreError`], also if it is in another state.
pub fn resolve(tx: &Transaction<'_>, approval: i64, state: ApprovalState) -> Result<(), StoreError> {
    const UPDATE: &str = "UPDATE approvals SET state = ?2
         WHERE id = ?1 AND (state = 'waiting' OR state = 'approved' AND (?2 = 'cancelled' OR kind IN ('file', 'plan')))";
    changed_one(tx, UPDATE, params![approval, state.word()])
}

/// Spends an approval for an intent: once, and only while it is approved.
///
/// # Errors
/// [`StoreError`], also if it is not approved or was spent before; the intent must then not be written.
pub fn spend(tx: &Transaction<'_>, approval: i64) -> Result<(), StoreError> {
    const UPDATE: &str = "UPDATE approvals
         SET state = 'closed', became = 'spent', card = NULL, document = NULL, person = NULL, sealed = NULL,
             standing = NULL, access = NULL
         WHERE id = ?1 AND state = 'approved'";
    changed_one(tx, UPDATE, params![approval])
}

/// Closes an approval that had no effect, unless it is closed.
///
/// # Errors
/// [`StoreError`].
pub fn close(tx: &Transaction<'_>, caller: &str, id: &RequestId, became: &str) -> Result<(), StoreError> {
    tx.view()
        .prepare_cached(
            "UPDATE approvals
             SET state = 'closed', became = ?3, card = NULL, document = NULL, person = NULL, sealed = NULL,
                 standing = NULL, access = NULL
             WHERE caller = ?1 AND request_id = ?2 AND state <> 'closed'",
        )
        .and_then(|mut s| s.execute(params![caller, id.as_str(), became]))
        .map_err(at("close an approval"))?;
    Ok(())
}

/// Notes that the caller has had its one reply, `pending`.
///
/// # Errors
/// [`StoreError`], also if it had one.
pub fn tell(tx: &Transaction<'_>, approval: i64) -> Result<(), StoreError> {
    changed_one(tx, "UPDATE approvals SET told = 1 WHERE id = ?1 AND told = 0", params![approval])
}

/// Returns whether the request's caller has had the reply `pending`. Its outcome is then kept, and not delivered.
///
/// # Errors
/// [`StoreError`] if it cannot be read.
pub fn is_told(tx: &Transaction<'_>, caller: &str, id: &RequestId) -> Result<bool, StoreError> {
    tx.view()
        .prepare_cached("SELECT 1 FROM approvals WHERE caller = ?1 AND request_id = ?2 AND told = 1")
        .and_then(|mut s| s.exists(params![caller, id.as_str()]))
        .map_err(at("look a reply up"))
}

pub(super) fn changed_one(
    tx: &Transaction<'_>,
    statement: &str,
    with: impl rusqlite::Params,
) -> Result<(), StoreError> {
    let changed =
        tx.view().prepare_cached(statement).and_then(|mut s| s.execute(with)).map_err(at("change an approval"))?;
    if changed == 1 { Ok(()) } else { Err(StoreError::Conflict { what: "approval" }) }
}

/// Stores the request that would be sent, with its approval request.
///
/// # Errors
/// [`StoreError`]; the approval request must then not be stored either.
pub fn keep_sealed(tx: &Transaction<'_>, approval: i64, sealed: &SealedRequest) -> Result<(), StoreError> {
    let sealed = serde_json::to_string(sealed).map_err(|_bad| StoreError::Stored { what: "sealed request" })?;
    let caller: String = tx
        .view()
        .prepare_cached("SELECT caller FROM approvals WHERE id = ?1")
        .and_then(|mut s| s.query_row(params![approval], |row| row.get(0)))
        .map_err(at("read an approval request"))?;
    tx.charge_bytes(&caller, sealed.len())?;
    changed_one(tx, "UPDATE approvals SET sealed = ?2 WHERE id = ?1", params![approval, sealed])
}

/// Returns the request that the card showed. An unreadable one counts as none, and an approval that needs one then does
/// not hold.
///
/// # Errors
/// [`StoreError`] if the approval cannot be read.
pub fn sealed(view: &View, approval: i64) -> Result<Option<SealedRequest>, StoreError> {
    let text: Option<String> = view
        .prepare_cached("SELECT sealed FROM approvals WHERE id = ?1")
        .and_then(|mut s| s.query_row(params![approval], |row| row.get(0)))
        .map_err(at("read a sealed request"))?;
    Ok(text.and_then(|text| serde_json::from_str(&text).ok()))
}

/// Stores the access that a person gives with the answer.
///
/// # Errors
/// [`StoreError`]; the answer must then not count.
pub fn keep_access(tx: &Transaction<'_>, approval: i64, access: &AccessScope) -> Result<(), StoreError> {
    let access = serde_json::to_string(access).map_err(|_bad| StoreError::Stored { what: "access" })?;
    changed_one(tx, "UPDATE approvals SET access = ?2 WHERE id = ?1", params![approval, access])
}

/// Returns the access that a person gave with the answer; an empty one if it is the requested access.
///
/// # Errors
/// [`StoreError`] if it cannot be read; nothing may then be given.
pub fn access(view: &View, approval: i64) -> Result<AccessScope, StoreError> {
    let stored: Option<String> = view
        .prepare_cached("SELECT access FROM approvals WHERE id = ?1")
        .and_then(|mut s| s.query_row(params![approval], |row| row.get(0)))
        .map_err(at("read the access of an answer"))?;
    let access = stored.map(|text| serde_json::from_str(&text)).transpose();
    access.map(Option::unwrap_or_default).map_err(|_bad| StoreError::Stored { what: "access" })
}

/// Returns the standing approval that a person can give with the answer. An unreadable one counts as none.
///
/// # Errors
/// [`StoreError`] if the approval cannot be read.
pub fn standing_offer(view: &View, approval: i64) -> Result<Option<StandingOffer>, StoreError> {
    let text: Option<String> = view
        .prepare_cached("SELECT standing FROM approvals WHERE id = ?1")
        .and_then(|mut s| s.query_row(params![approval], |row| row.get(0)))
        .map_err(at("read the offer of a standing approval"))?;
    Ok(text.and_then(|text| serde_json::from_str(&text).ok()))
}
