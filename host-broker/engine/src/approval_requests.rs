//! Approval requests, and the requests that wait for their answers.
//!
//! `Broker::ask` sends the approval request; `Broker::answer_approval_request` takes an approver's answer; `Broker::lapse`
//! turns a missing answer into a denial. A request whose approval request is resolved is admitted again, and decided on
//! like the first time. Answers are in `approval_requests/answering`, cards in
//! `approval_requests/call_card`, and the replies of callers in `approval_requests/pending_reply`.

mod answering;
mod call_card;
mod pending_reply;
mod unanswerable;

pub use answering::{AnswerChannel, ApprovalAnswer, may_answer};
pub(crate) use answering::{AnswerOutcome, Given};
pub(crate) use call_card::{add_subject, describe};
pub use unanswerable::{Unanswerable, Why};

pub(crate) use pending_reply::{Ended, answer, behind, ended, keep, pending, said_no, still_asked, told};

use crate::accounts;
use crate::approval_subjects;
use crate::approval_subjects::{Continuation, Resolution};
use crate::approvals::{OPEN_MAX, sealing};
use crate::broker::Broker;
use crate::event::Event;
use crate::event_results::event_of;
use crate::features::FEATURES;
use crate::file_proposals::Collected;
use crate::replies::{copy_of, still_running};
use crate::standing_approvals;
use kernel::authorize::Refusal;
use kernel::call::{ApprovalPhase, Call, Header};
use kernel::contract::{Invocation, StoreRequest};
use kernel::{Answer, Step, WriteError};
use model::Caller;
use model::approval::{Approval, ApprovalReason, ApprovalState, NewApproval, SubjectKind};
use model::card::Card;
use model::standing_approval::StandingOffer;
use serde_json::json;
use shared::digest::Digest;
use shared::time::Timestamp;
use shared::{Action, Code, Group, Level, Provider, RequestId, TaskId};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use store::ledger::chain::Draft;
use store::state::counters;
use store::state::external_grants;
use store::state::external_grants::session_of;
use store::state::intents;
use store::state::plan_steps;
use store::state::requests;
use store::state::sessions;
use store::state::{approvals, denials};
use store::{Receipt, StoreError, Transaction};
use tokio::time::Instant;

/// An approval request to be sent.
pub(crate) struct ApprovalDraft<'a> {
    pub(crate) kind: SubjectKind,
    /// The caller, in the ledger's form.
    pub(crate) caller: &'a str,
    /// The group whose calls, grant or files it is about, if it is about a group's.
    pub(crate) group: Option<&'a Group>,
    /// The request that the answer is for.
    pub(crate) request_id: &'a RequestId,
    pub(crate) provider: &'a Provider,
    pub(crate) action: &'a Action,
    pub(crate) level: Level,
    pub(crate) digest: Digest,
    /// The subject that is not asked about again for a while after a denial, as [`denials`] notes it.
    pub(crate) subject: Option<Digest>,
    /// The number of approvers, and the time until expiry.
    pub(crate) asking: (usize, Duration),
    /// The row that is the approval already, if no person needs to be asked.
    pub(crate) born_approved: Option<i64>,
    /// The reasons for asking.
    pub(crate) asks: BTreeSet<ApprovalReason>,
    /// The providers of the other calls that it covers.
    pub(crate) others: BTreeSet<Provider>,
    /// The standing approval that a person can give with the answer.
    pub(crate) standing: Option<&'a StandingOffer>,
    pub(crate) card: &'a Card,
    /// The document that is admitted again after the answer.
    pub(crate) document: Option<&'a [u8]>,
    pub(crate) params_digest: Option<Digest>,
    pub(crate) summary: Option<String>,
    pub(crate) task_id: Option<&'a TaskId>,
    /// The calls of a plan, for the row.
    pub(crate) calls: Option<serde_json::Value>,
}

/// A resolved approval request.
#[derive(Debug)]
pub struct Resolved {
    /// The way on for the request.
    pub continuation: Continuation,
    /// The caller and the request.
    pub key: (Arc<str>, RequestId),
}

enum Put {
    Asked,
    Joined(RequestId),
    Waits(RequestId),
    Answered(Option<Answer>),
}

/// Returns why no approval request about this may be sent now, if one was denied. A person may ask at any time.
pub(crate) fn paused(
    tx: &Transaction<'_>,
    header: &Header,
    (kind, digest): (SubjectKind, &Digest),
    (provider, action): (&Provider, &Action),
) -> Result<Option<Refusal>, StoreError> {
    if matches!(header.caller, Caller::Person(_) | Caller::Broker) {
        return Ok(None);
    }
    let person = header.behalf.key();
    let subject = denials::Subject { caller: &header.caller_key, person: person.as_deref(), provider, action, digest };
    Ok(denials::paused_until(tx, &subject)?.map(|until| {
        let (what, until_clock) = (kind.noun(), until.clock());
        let reason = if kind == SubjectKind::Access {
            format!("A person has denied access to {provider}, so the broker does not ask about it again before {until_clock}.")
        } else {
            format!(
                "A person has denied exactly this {what}, so the broker does not ask about it again before {until_clock}. \
                 It may ask about another {what}."
            )
        };
        Refusal { retry_after: Some(until.since(tx.now())), ..Refusal::new(Code::ApprovalDenied, reason) }
    }))
}

impl Broker {
    /// Sends an approval request about this call, once.
    pub(crate) fn ask<'tx>(
        &mut self,
        tx: &Transaction<'tx>,
        mut call: Box<Call>,
        reasons: &[(ApprovalReason, String)],
    ) -> Result<Step<'tx, Event>, WriteError<Event>> {
        match self.put(tx, &call, reasons) {
            Ok(Put::Asked) => Ok(kernel::ask(tx, event_of(call))),
            Ok(Put::Joined(of)) => {
                call.asked = ApprovalPhase::AboutAnother(of.clone());
                Ok(Step::Wait(event_of(call), of))
            }
            Ok(Put::Waits(of)) => Ok(Step::Wait(event_of(call), of)),
            Ok(Put::Answered(answer)) => Ok(kernel::close(tx, event_of(call), answer)),
            Err(error) => Err(WriteError { event: event_of(call), error }),
        }
    }

    fn put(
        &mut self,
        tx: &Transaction<'_>,
        call: &Call,
        reasons: &[(ApprovalReason, String)],
    ) -> Result<Put, StoreError> {
        let header = &call.header;
        let no = |broker: &mut Self, code: Code, reason: String| {
            broker.refuse(tx, call, &Refusal::new(code, reason)).map(Put::Answered)
        };
        if let Some(StoreRequest::ToApply(id, path)) = call.target.invocation().map(Invocation::needs) {
            return Ok(match self.collect(tx, call, id, path)? {
                Collected::Waits(of) => Put::Waits(of),
                Collected::Answered(answer) => Put::Answered(answer),
            });
        }
        if call.is_resumed() {
            // No second approval request is sent about one request.
            return self.refuse(tx, call, &differs()).map(Put::Answered);
        }
        let (Caller::Group(_) | Caller::External(_)) = &header.caller else {
            return no(self, Code::ApprovalRequired, Code::ApprovalRequired.meaning().to_owned());
        };
        if let ApprovalPhase::AboutAnother(of) = &call.asked {
            // The call has expired, or the approval request has.
            let open = approvals::of_request(tx.view(), &header.caller_key, of)?;
            return match open.filter(|approval| approval.state != ApprovalState::Closed) {
                Some(approval) => told(tx, header, &approval).map(Some).map(Put::Answered),
                None if intents::is_open(tx.view(), &header.caller_key, of)? => {
                    still_running(tx, header, of).map(Some).map(Put::Answered)
                }
                None => copy_of(tx, header, of).map(Some).map(Put::Answered),
            };
        }
        let open = approvals::open(tx.view(), Some(&header.caller_key))?;
        let lives = |approval: &Approval| match approval.state {
            ApprovalState::Waiting => approval.expires_at > tx.now(),
            ApprovalState::Approved => true,
            ApprovalState::Denied | ApprovalState::Expired | ApprovalState::Cancelled | ApprovalState::Closed => false,
        };
        let is_like = |approval: &&Approval| {
            approval.kind == SubjectKind::Call && approval.provider == call.provider && approval.action == call.action
        };
        for equal in open.iter().filter(is_like).filter(|approval| lives(approval)) {
            if !sealing::is_about(tx.view(), equal, call, &self.policy)? {
                continue;
            }
            // An equal call of a plan runs in its turn, and for the plan alone.
            if plan_steps::of_request(tx.view(), &equal.caller, &equal.request_id)?.is_some() {
                continue;
            }
            if self.may_wait(header) {
                return Ok(Put::Joined(equal.request_id.clone()));
            }
            return told(tx, header, equal).map(Some).map(Put::Answered);
        }
        if let Some(refusal) =
            paused(tx, header, (SubjectKind::Call, &call.params_digest), (&call.provider, &call.action))?
        {
            return self.refuse(tx, call, &refusal).map(Put::Answered);
        }
        // The person sees and approves exactly the bytes that leave.
        let sealed = call.target.invocation().and_then(|invocation| invocation.seal(&call.planted.nonce));
        let access = match &header.caller {
            Caller::External(access) => external_grants::find(tx.view(), access)?,
            Caller::Group(_) | Caller::Person(_) | Caller::Operator(_) | Caller::Broker => None,
        };
        let earlier = sessions::exposures(tx.view(), &session_of(tx.view(), &header.caller_key)?)?;
        let together = call_card::together(&earlier, call, reasons, &self.policy.profiles);
        let offer = standing_approvals::offer(call, &self.policy, (&earlier, together.as_ref()));
        let Some(mut card) = call_card::card(call, access.as_ref(), sealed.as_ref(), reasons, together) else {
            let reason = "The call is too large for an approval request, which shows it in full.".to_owned();
            return no(self, Code::Guardrail, reason);
        };
        card.may_vary = offer.as_ref().map(|offer| offer.may_vary.clone());
        let Some(group) = header.caller.policy_group() else {
            return no(self, Code::ApprovalRequired, Code::ApprovalRequired.meaning().to_owned());
        };
        let draft = ApprovalDraft {
            kind: SubjectKind::Call,
            caller: &header.caller_key,
            group: Some(group),
            request_id: &header.request_id,
            provider: &call.provider,
            action: &call.action,
            level: call.target.demanded(),
            digest: crate::approvals::digest_of(call, sealed.as_ref(), &self.policy),
            // The denials were checked above.
            subject: None,
            asking: self.asking(call),
            born_approved: None,
            asks: reasons.iter().map(|(ask, _)| *ask).collect(),
            others: call.nested.iter().map(|nested| nested.call.provider.clone()).collect(),
            standing: offer.as_ref(),
            card: &card,
            document: Some(&call.to_be_made_again()),
            params_digest: Some(call.params_digest),
            summary: call.target.invocation().map(Invocation::summary),
            task_id: call.task_id.as_ref(),
            calls: None,
        };
        match self.request_approval(tx, header, &draft)? {
            Ok(approval_request) => {
                if let Some(sealed) = &sealed {
                    approvals::keep_sealed(tx, approval_request, sealed)?;
                }
                accounts::keep_shown(tx, approval_request, call)?;
                Ok(Put::Asked)
            }
            Err(refusal) => self.refuse(tx, call, &refusal).map(Put::Answered),
        }
    }

    /// Stores an approval request of any kind, and returns its number. One that was born approved is sent to no
    /// approver.
    pub(crate) fn request_approval(
        &mut self,
        tx: &Transaction<'_>,
        header: &Header,
        draft: &ApprovalDraft<'_>,
    ) -> Result<Result<i64, Refusal>, StoreError> {
        // Requests of agents do not delay a person's own.
        let by_agent = header.caller.policy_group().is_some() && approval_subjects::of(draft.kind).is_limited();
        if by_agent && approvals::count_open(tx.view(), draft.caller)? >= OPEN_MAX {
            return Ok(Err(too_many()));
        }
        if draft.born_approved.is_none()
            && let Some(subject) = &draft.subject
            && let Some(refusal) = paused(tx, header, (draft.kind, subject), (draft.provider, draft.action))?
        {
            return Ok(Err(refusal));
        }
        let counted_as = external_grants::counted_as(tx.view(), draft.caller)?;
        if by_agent
            && draft.born_approved.is_none()
            && let Some(wait) = counters::charge_approval_request(tx, &counted_as, header.behalf.key().as_deref())?
        {
            let reason = "People were asked too often on behalf of this caller.".to_owned();
            return Ok(Err(Refusal { retry_after: Some(wait), ..Refusal::new(Code::RateLimited, reason) }));
        }
        // After the limits, because a long card takes long to search.
        if self.card_shows_own(draft.card) {
            let reason = "The approval request would show a secret of the broker's own, so it is not sent.";
            return Ok(Err(Refusal::new(Code::OwnSecret, reason.to_owned())));
        }
        let taken = |code: &str| approvals::with_code(tx.view(), code).map(|found| found.is_some());
        let Ok(code) = crate::approvals::fresh_code(self.ids.as_ref(), taken)? else {
            let reason = "The system's random source failed.".to_owned();
            return Ok(Err(Refusal::new(Code::EvidenceUnavailable, reason)));
        };
        let (quorum, timeout) = draft.asking;
        let expires_at = tx.now().plus(timeout);
        let asked_seq = match draft.born_approved {
            Some(row) => row,
            None => asked(tx, header, draft, expires_at)?.seq,
        };
        let left = header.reply_deadline().saturating_duration_since(Instant::now());
        let id = approvals::ask(
            tx,
            &NewApproval {
                code: &code,
                kind: draft.kind,
                state: if draft.born_approved.is_some() { ApprovalState::Approved } else { ApprovalState::Waiting },
                caller: draft.caller,
                group: draft.group,
                request_id: draft.request_id,
                reply_as: header.reply_as(),
                provider: draft.provider,
                action: draft.action,
                level: draft.level,
                document: draft.document,
                person: header.behalf.person(),
                digest: draft.digest,
                quorum,
                asked_seq,
                expires_at,
                reply_by: tx.now().plus(left),
                asks: &draft.asks,
                others: &draft.others,
                standing: draft.standing,
                card: draft.card,
            },
        )?;
        self.follow_ups.approvals_changed = true;
        Ok(Ok(id))
    }

    /// Turns missing answers into denials, and records them as expired.
    pub(crate) fn lapse(&mut self, tx: &Transaction<'_>) -> Result<(), StoreError> {
        // The next expiry time changes in any case.
        self.follow_ups.approvals_changed = true;
        for approval in approvals::overdue(tx.view(), tx.now())? {
            let id = approval_subjects::of(approval.kind).requested_by(tx.view(), &approval)?;
            tx.append(&Draft {
                person: requests::person_of(tx, &approval.caller, &id)?,
                request_id: Some(&id),
                provider: Some(&approval.provider),
                action: Some(&approval.action),
                approval: Some(approval.reference()),
                body: json!({ "answers": approvals::answers(tx.view(), approval.id)?.len() }),
                ..Draft::new(store::ledger::chain::RowKind::Lapsed, &approval.caller)
            })?;
            self.resolve(tx, &approval, ApprovalState::Expired, "broker")?;
        }
        FEATURES.iter().try_for_each(|feature| feature.on_expiry(self, tx))
    }

    /// Resolves an approval request: its request goes on, or its subject is put into effect or dropped.
    pub(crate) fn resolve(
        &mut self,
        tx: &Transaction<'_>,
        approval: &Approval,
        state: ApprovalState,
        by: &str,
    ) -> Result<(), StoreError> {
        approvals::resolve(tx, approval.id, state)?;
        self.follow_ups.approvals_changed = true;
        approval_subjects::of(approval.kind).on_resolved(self, tx, &Resolution { approval, state, by })
    }
}

/// Appends the row of an approval request.
fn asked(
    tx: &Transaction<'_>,
    header: &Header,
    draft: &ApprovalDraft<'_>,
    expires_at: Timestamp,
) -> Result<Receipt, StoreError> {
    let mut body = json!({
        "request": header.request_digest,
        "kind": draft.kind,
        "agrees_to": draft.digest,
        "expires_at": expires_at,
        "quorum": draft.asking.0,
        "why": draft.card.reasons,
    });
    if let (Some(calls), Some(members)) = (&draft.calls, body.as_object_mut()) {
        members.insert("calls".to_owned(), calls.clone());
    }
    tx.append(&Draft {
        provider: Some(draft.provider),
        action: Some(draft.action),
        level: Some(draft.level),
        params_digest: draft.params_digest,
        summary: draft.summary.clone(),
        task_id: draft.task_id,
        body,
        ..header.draft(store::ledger::chain::RowKind::Asked)
    })
}

impl Broker {
    /// Returns the quorum and the expiry of approval requests about a call. The stricter ones of a nested call count.
    pub(crate) fn asking(&self, call: &Call) -> (usize, Duration) {
        let own = self.config.asking(&call.provider, &call.action);
        let Some(nested) = &call.nested else { return own };
        let nested = self.config.asking(&nested.call.provider, &nested.call.action);
        (own.0.max(nested.0), own.1.min(nested.1))
    }
}

/// Refuses a call because the approver approved a different one.
pub(crate) fn differs() -> Refusal {
    let reason = "The approved call differs from the call that would run now.".to_owned();
    Refusal::new(Code::ApprovalRequired, reason)
}

/// Refuses a call because too many approval requests wait.
pub(crate) fn too_many() -> Refusal {
    Refusal::new(Code::Busy, format!("{OPEN_MAX} approval requests of this group wait for people already."))
}
