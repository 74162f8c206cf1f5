//! The caller's replies about an approval request: that it is open, the answer, and the outcome.

use crate::approval_subjects;
use crate::approval_subjects::Continuation;
use kernel::Answer;
use kernel::authorize::Refusal;
use kernel::call::Header;
use model::approval::{Approval, ApprovalState};
use serde_json::json;
use shared::reply::ApprovalRef;
use shared::{Code, Reply, RequestId, limits};
use store::ledger::chain;
use store::ledger::chain::Draft;
use store::ledger::minor::MinorRow;
use store::state::approvals;
use store::state::intents;
use store::state::replies;
use store::state::requests;
use store::{Receipt, StoreError, Transaction};

/// The end of a request before it is decided again.
pub(crate) enum Ended {
    /// It does not end.
    No,
    /// It ends with a refusal.
    Refused(Refusal),
    /// It has ended before.
    Before,
}

/// Returns whether a request with an approval request ends before it is decided again.
pub(crate) fn ended(tx: &Transaction<'_>, header: &Header) -> Result<Ended, StoreError> {
    let no = |code: Code| Ok(Ended::Refused(Refusal::new(code, code.meaning().to_owned())));
    let Some(approval) = approvals::of_request(tx.view(), &header.caller_key, &header.request_id)? else {
        return no(Code::ApprovalRequired);
    };
    let (code, reason) = match approval.state {
        // An approval expires too: the approver meant it for the present.
        ApprovalState::Approved if approval.expires_at.plus(limits::TIMEOUT_MAX) <= tx.now() => {
            return no(Code::ApprovalExpired);
        }
        // The decision checks whether the approval covers exactly this call.
        ApprovalState::Approved | ApprovalState::Waiting => return Ok(Ended::No),
        ApprovalState::Closed => return Ok(Ended::Before),
        ApprovalState::Denied => (Code::ApprovalDenied, said_no(tx, &approval)?),
        ApprovalState::Expired => return no(Code::ApprovalExpired),
        ApprovalState::Cancelled => return no(Code::Cancelled),
    };
    Ok(Ended::Refused(Refusal::new(code, reason)))
}

/// Returns the sentence that a person denied it, with the reason.
pub(crate) fn said_no(tx: &Transaction<'_>, approval: &Approval) -> Result<String, StoreError> {
    let answers = approvals::answers(tx.view(), approval.id)?;
    let why = answers.into_iter().filter(|answer| !answer.yes).find_map(|answer| answer.reason);
    let why = why.filter(|why| !why.trim().is_empty());
    let said = why.map_or_else(String::new, |why| format!(" Their reason: {}.", model::card::visible(&why)));
    Ok(format!("A person has denied this {}.{said}", approval.kind.noun()))
}

/// Ends a request with its reply. An approval request about it is closed with it. A caller that got the reply `pending`
/// has had its one reply.
pub(crate) fn answer(
    tx: &Transaction<'_>,
    header: &Header,
    asked: bool,
    reply: Reply,
    evidence: Receipt,
) -> Result<Option<Answer>, StoreError> {
    if asked && approvals::is_told(tx, &header.caller_key, &header.request_id)? {
        return keep(tx, header, asked, reply, evidence).map(|()| None);
    }
    close(tx, header, asked, &reply)?;
    kernel::answer(tx, &header.caller_key, reply, evidence).map(Some)
}

/// Ends a request whose caller has had its one reply. The caller can ask for this one.
pub(crate) fn keep(
    tx: &Transaction<'_>,
    header: &Header,
    asked: bool,
    reply: Reply,
    evidence: Receipt,
) -> Result<(), StoreError> {
    close(tx, header, asked, &reply)?;
    kernel::keep(tx, &header.caller_key, reply, evidence)
}

fn close(tx: &Transaction<'_>, header: &Header, asked: bool, reply: &Reply) -> Result<(), StoreError> {
    if !asked {
        return Ok(());
    }
    approvals::close(tx, &header.caller_key, &header.request_id, reply.code.as_deref().unwrap_or("spent"))
}

/// Answers `pending`: the caller stops waiting before an approver has answered, or before the approved call is over.
pub(crate) fn pending(tx: &Transaction<'_>, caller: &str, id: &RequestId) -> Result<Option<Answer>, StoreError> {
    let Some(approval) = approvals::of_request(tx.view(), caller, id)? else { return Ok(None) };
    if approval.told {
        return Ok(None);
    }
    if approval.state == ApprovalState::Closed && !intents::is_open(tx.view(), caller, id)? {
        // The call is over, and its reply could not be delivered.
        let kept = replies::find(tx, caller, id)?;
        return Ok(kept.map(|reply| kernel::answer_again(id.clone(), reply.into_vec(), approval.asked_seq)));
    }
    approvals::tell(tx, approval.id)?;
    let evidence = tx.append(&Draft {
        person: requests::person_of(tx, caller, id)?,
        request_id: Some(id),
        reason_code: Some(Code::ApprovalRequired),
        approval: Some(approval.reference()),
        ..Draft::new(chain::RowKind::Answered, caller)
    })?;
    kernel::answer(tx, caller, Reply::pending(id.clone(), known(&approval), tx.now()), evidence).map(Some)
}

/// Answers `pending` to another request that joined the same approval request.
pub(crate) fn told(tx: &Transaction<'_>, header: &Header, approval: &Approval) -> Result<Answer, StoreError> {
    let (reply, row) = told_of(tx, header, approval)?;
    kernel::answer_minor(tx, &header.caller_key, reply, row)
}

/// Answers a request for the result of a call that waits for a person. No reply is kept: the next request makes it
/// again.
pub(crate) fn still_asked(tx: &Transaction<'_>, header: &Header, approval: &Approval) -> Result<Answer, StoreError> {
    let (reply, row) = told_of(tx, header, approval)?;
    Ok(kernel::answer_unkept(reply, row))
}

fn told_of(tx: &Transaction<'_>, header: &Header, approval: &Approval) -> Result<(Reply, MinorRow), StoreError> {
    let row = tx.append_minor(&Draft {
        reason_code: Some(Code::ApprovalRequired),
        approval: Some(approval.reference()),
        body: json!({ "request": header.request_digest, "of_request": approval.request_id }),
        ..header.draft(chain::RowKind::Answered)
    })?;
    Ok((Reply::pending(header.request_id.clone(), known(approval), tx.now()), row))
}

/// Returns the request whose outcome is also this one's: the one of the approval request, if this one's reply is
/// `pending`.
pub(crate) fn behind(tx: &Transaction<'_>, header: &Header, of: &RequestId) -> Result<RequestId, StoreError> {
    let reply = replies::find(tx, &header.caller_key, of)?;
    let reply = reply.and_then(|document| serde_json::from_slice::<Reply>(&document).ok());
    let Some(asked) = reply.and_then(|reply| reply.approval) else { return Ok(of.clone()) };
    let asked = approvals::referred(tx.view(), &header.caller_key, &asked.reference)?;
    // A caller that waited to apply a proposal applies it again: no other request does.
    let is_readmitted =
        |approval: &Approval| approval_subjects::of(approval.kind).continuation() == Continuation::Readmit;
    let asked = asked.filter(is_readmitted);
    Ok(asked.map_or_else(|| of.clone(), |approval| approval.request_id))
}

/// Returns the part of an approval request that an agent may know.
fn known(approval: &Approval) -> ApprovalRef {
    ApprovalRef {
        reference: approval.reference(),
        expires_at: approval.expires_at,
        summary: approval_subjects::of(approval.kind).waiting(approval),
    }
}
