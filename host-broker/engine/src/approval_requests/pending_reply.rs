//! What the caller hears of a question: that a person is asked, what was answered, and what became of it.

use kernel::Answer;
use kernel::authorize::Refusal;
use kernel::call::Header;
use model::approval::{Approval, Kind, State};
use serde_json::json;
use shared::reply::ApprovalRef;
use shared::{Code, Reply, RequestId, limits};
use store::ledger::chain;
use store::ledger::chain::Draft;
use store::ledger::minor::MinorRow;
use store::state::approvals;
use store::state::requests;
use store::{Receipt, StoreError, Transaction};

/// How a request ends before it is decided on again.
pub(crate) enum Ended {
    /// It does not.
    No,
    /// With a no that was given.
    Refused(Refusal),
    /// It has ended before.
    Before,
}

/// Whether this request, about which a person was asked, ends before it is decided on again.
pub(crate) fn ended(tx: &Transaction<'_>, header: &Header) -> Result<Ended, StoreError> {
    let no = |code: Code| Ok(Ended::Refused(Refusal::new(code, code.meaning().to_owned())));
    let Some(approval) = approvals::of_request(tx.view(), &header.caller_key, &header.request_id)? else {
        return no(Code::ApprovalRequired);
    };
    let (code, reason) = match approval.state {
        // A yes does not wait for ever either: whoever gave it meant now.
        State::Approved if approval.expires_at.plus(limits::TIMEOUT_MAX) <= tx.now() => {
            return no(Code::ApprovalExpired);
        }
        // Whether the yes is to exactly this is the decision's business.
        State::Approved | State::Waiting => return Ok(Ended::No),
        State::Closed => return Ok(Ended::Before),
        State::Denied => (Code::ApprovalDenied, said_no(tx, &approval)?),
        State::Expired => return no(Code::ApprovalExpired),
        State::Cancelled => return no(Code::Cancelled),
    };
    Ok(Ended::Refused(Refusal::new(code, reason)))
}

/// That a person said no, and why.
pub(crate) fn said_no(tx: &Transaction<'_>, approval: &Approval) -> Result<String, StoreError> {
    let answers = approvals::answers(tx.view(), approval.id)?;
    let why = answers.into_iter().filter(|answer| !answer.yes).find_map(|answer| answer.reason);
    let why = why.filter(|why| !why.trim().is_empty());
    let said = why.map_or_else(String::new, |why| format!(" Their reason: {}.", model::card::visible(&why)));
    Ok(format!("A person said no to this {}.{said}", approval.kind.noun()))
}

/// Ends a request with its reply. A person may have been asked about it: then the question is closed with it, and a caller
/// who was told `pending` has had its one reply.
pub(crate) fn answer(
    tx: &Transaction<'_>,
    header: &Header,
    asked: bool,
    reply: Reply,
    evidence: Receipt,
) -> Result<Option<Answer>, StoreError> {
    let caller = &header.caller_key;
    if !asked {
        return kernel::answer(tx, caller, reply, evidence).map(Some);
    }
    approvals::close(tx, caller, &header.request_id, reply.code.as_deref().unwrap_or("spent"))?;
    if approvals::is_told(tx, caller, &header.request_id)? {
        return kernel::keep(tx, caller, reply, evidence).map(|()| None);
    }
    kernel::answer(tx, caller, reply, evidence).map(Some)
}

/// The caller stops waiting before a person has answered, or before what a person agreed to is over.
pub(crate) fn pending(tx: &Transaction<'_>, caller: &str, id: &RequestId) -> Result<Option<Answer>, StoreError> {
    let Some(approval) = approvals::of_request(tx.view(), caller, id)? else { return Ok(None) };
    if approval.told {
        return Ok(None);
    }
    if approval.state == State::Closed && !requests::is_open(tx, caller, id)? {
        // It is over, and the reply did not find its way.
        let kept = requests::reply(tx, caller, id)?;
        return Ok(kept.map(|reply| kernel::answer_again(id.clone(), reply.into_vec(), approval.asked_seq)));
    }
    approvals::tell(tx, approval.id)?;
    let evidence = tx.append(&Draft {
        person: requests::person_of(tx, caller, id)?,
        request_id: Some(id),
        reason_code: Some(Code::ApprovalRequired),
        approval: Some(approval.reference()),
        ..Draft::new(chain::Kind::Answered, caller)
    })?;
    kernel::answer(tx, caller, Reply::pending(id.clone(), known(&approval), tx.now()), evidence).map(Some)
}

/// Another request about the same question, whose caller stops waiting.
pub(crate) fn told(tx: &Transaction<'_>, header: &Header, approval: &Approval) -> Result<Answer, StoreError> {
    let (reply, row) = told_of(tx, header, approval)?;
    kernel::answer_minor(tx, &header.caller_key, reply, row)
}

/// A request for the result of what waits for a person. No reply is kept: the next one makes it again.
pub(crate) fn still_asked(tx: &Transaction<'_>, header: &Header, approval: &Approval) -> Result<Answer, StoreError> {
    let (reply, row) = told_of(tx, header, approval)?;
    Ok(kernel::answer_unkept(reply, row))
}

fn told_of(tx: &Transaction<'_>, header: &Header, approval: &Approval) -> Result<(Reply, MinorRow), StoreError> {
    let row = tx.append_minor(&Draft {
        reason_code: Some(Code::ApprovalRequired),
        approval: Some(approval.reference()),
        body: json!({ "request": header.request_digest, "of_request": approval.request_id }),
        ..header.draft(chain::Kind::Answered)
    })?;
    Ok((Reply::pending(header.request_id.clone(), known(approval), tx.now()), row))
}

/// The request whose outcome is this one's: the one that was asked about, if this one's reply says that a person is asked.
pub(crate) fn behind(tx: &Transaction<'_>, header: &Header, of: &RequestId) -> Result<RequestId, StoreError> {
    let reply = requests::reply(tx, &header.caller_key, of)?;
    let reply = reply.and_then(|document| serde_json::from_slice::<Reply>(&document).ok());
    let Some(asked) = reply.and_then(|reply| reply.approval) else { return Ok(of.clone()) };
    let asked = approvals::referred(tx.view(), &header.caller_key, &asked.reference)?;
    // Whoever waited to apply a proposal applies it again: there is no other request that does.
    let asked = asked.filter(|approval| approval.kind != Kind::File);
    Ok(asked.map_or_else(|| of.clone(), |approval| approval.request_id))
}

/// What an agent may know of a question.
fn known(approval: &Approval) -> ApprovalRef {
    ApprovalRef {
        reference: approval.reference(),
        expires_at: approval.expires_at,
        summary: match approval.kind {
            Kind::Call => format!("{}.{} waits for a person", approval.provider, approval.action),
            Kind::Grant => format!("a grant for {} waits for a person", approval.provider),
            Kind::Account => format!("an account at {} waits for a person", approval.provider),
            Kind::Flow => "a version of a flow waits for a person".to_owned(),
            Kind::Definition => format!("what {} says of its tools waits for a person", approval.provider),
            Kind::File => "the proposal waits for a person; apply it again later".to_owned(),
        },
    }
}
