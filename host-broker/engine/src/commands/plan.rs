//! `ext_plan`: an agent proposes several calls, a person answers once, and the calls run in order.
//!
//! ```text
//! plan ── is each call permitted, if people approve? ──► reads ──► one card ──► answer
//!                                                                    └──► the calls, one after the other ──► one reply
//! ```
//! Each call is decided on twice: here, and when its turn comes. Here its exposure includes that of the calls before
//! it. [`reads`] has the facts of the calls that depend on the state of their targets. [`crate::plans`] runs the calls.

mod reads;

pub(crate) use reads::{read_of_plan, rejoined};

use super::grant_approval::answered;
use super::{CommandOutcome, CommandResult, refuse, refuse_with, write};
use crate::accounts;
use crate::approval_requests;
use crate::approval_requests::{ApprovalDraft, paused};
use crate::approvals::{digest_of, is_plannable};
use crate::broker::Broker;
use crate::facts;
use crate::request::{CommandRequest, FailedRead};
use kernel::authorize::Refusal;
use kernel::call::{Call, Prepared};
use kernel::contract::Invocation;
use model::approval::{Approval, ApprovalReason, ApprovalState, SubjectKind};
use model::card::Card;
use model::plan::{PlanStep, StepState};
use model::{Exposed, SealedRequest};
use policy::decide::{Verdict, decide};
use policy::facts::GuardFact;
use serde_json::{Value, json};
use shared::digest::Digest;
use shared::request::PlanRequest;
use shared::{Action, Code, Level, Reply};
use std::collections::BTreeSet;
use store::ledger::chain::{Draft, RowKind};
use store::state::{approvals, plan_steps};
use store::{StoreError, Transaction};

/// A call that a person can be asked about.
struct Judged<'a> {
    call: &'a Call,
    reasons: Vec<(ApprovalReason, String)>,
    /// The request as it will be sent.
    sealed: Option<SealedRequest>,
    digest: Digest,
}

/// A call of a plan that is refused, with its place.
struct Refused<'a> {
    place: usize,
    call: &'a Call,
    refusal: Refusal,
}

impl Broker {
    /// Sends an approval request about a plan, or answers when its calls are over.
    pub(super) fn plan_calls(
        &mut self,
        tx: &Transaction<'_>,
        command_request: &CommandRequest,
        request: &PlanRequest,
    ) -> Result<CommandOutcome, StoreError> {
        if command_request.asked {
            return plan_over(tx, command_request);
        }
        if self.is_cancelled(&command_request.header.key()) {
            let refusal = Refusal::new(Code::Cancelled, Code::Cancelled.meaning().to_owned());
            return refuse(tx, command_request, None, &refusal).map(CommandOutcome::Answered);
        }
        if let Some(failed) = &command_request.failed_read {
            return refuse_read(tx, command_request, failed).map(CommandOutcome::Answered);
        }
        let unread = reads::next(command_request, tx.now());
        // Between two reads the others are not judged. All are judged before the first one and before the question.
        if let Some(place) = unread.filter(|_| command_request.is_being_read()) {
            return Ok(CommandOutcome::Reads(place));
        }
        let judged = match self.judge_plan(tx, command_request)? {
            Ok(judged) => judged,
            Err(refused) => return refuse_call(tx, command_request, &refused).map(CommandOutcome::Answered),
        };
        let pause_key = pause_key(&judged);
        if let Some(place) = unread {
            // A plan that a person has denied is not read again.
            let names = judged.first().map(|first| (&first.call.provider, plan_action()));
            if let Some((provider, action)) = names
                && let Some(refusal) =
                    paused(tx, &command_request.header, (SubjectKind::Plan, &pause_key), (provider, &action))?
            {
                return refuse(tx, command_request, None, &refusal).map(CommandOutcome::Answered);
            }
            return Ok(CommandOutcome::Reads(place));
        }
        let open = approvals::open(tx.view(), Some(&command_request.header.caller_key))?;
        for equal in open.iter().filter(|approval| approval.kind == SubjectKind::Plan) {
            let lives = equal.state == ApprovalState::Waiting && equal.expires_at > tx.now();
            // ORDER: the digest spares the loop the documents of other plans.
            let is_alike = lives && approvals::params_digest(tx.view(), equal)? == Some(pause_key);
            if is_alike
                && is_equal(tx, equal, (command_request, request))?
                && self.has_same_facts(tx, equal, &judged)?
            {
                let told = approval_requests::told(tx, &command_request.header, equal)?;
                return Ok(CommandOutcome::Answered(Some(told)));
            }
        }
        self.ask_about_plan(tx, command_request, request, (&judged, pause_key))
    }

    /// Decides on each call as if the calls before it had run.
    fn judge_plan<'a>(
        &self,
        tx: &Transaction<'_>,
        command_request: &'a CommandRequest,
    ) -> Result<Result<Vec<Judged<'a>>, Refused<'a>>, StoreError> {
        let mut judged = Vec::with_capacity(command_request.calls.len());
        let mut before: Vec<Exposed> = Vec::new();
        for (place, call) in (1..).zip(&command_request.calls) {
            let no = |refusal| Ok(Err(Refused { place, call, refusal }));
            let times = (tx.now(), tx.steady());
            let by = (&self.policy, self.filters.as_deref());
            let (mut facts, _) = facts::judge_after(tx.view(), times, call, by, &before)?;
            // A person sees every reason, also one that a standing approval covers.
            facts.agreed = None;
            // Each call of the plan renews its credential when its turn comes.
            if facts.guard == GuardFact::NeedsRenewal {
                facts.guard = facts::guard_of(&call.target, tx.now());
            }
            let decision = decide(&facts);
            match decision.verdict {
                Verdict::Permit | Verdict::RequireApproval { .. } => {}
                Verdict::Refuse { code, reason } => {
                    let retry_after = facts.limits.retry_after(code);
                    return no(Refusal { code, reason, retry_after });
                }
                // It is judged again once its facts are read.
                Verdict::NeedsRemote if call.prepared != Prepared::Complete => {}
                Verdict::NeedsRemote => {
                    let reason = "The remote did not return the facts that the guardrail needs.";
                    return no(Refusal::new(Code::Guardrail, reason.to_owned()));
                }
            }
            if !is_plannable(call) {
                return no(Refusal::new(Code::InvalidParams, UNPLANNABLE.to_owned()));
            }
            if call.claimed(tx.view())?.is_some_and(|claimed| claimed.params_digest != call.params_digest) {
                let reason = Code::IdempotencyConflict.meaning().to_owned();
                return no(Refusal::new(Code::IdempotencyConflict, reason));
            }
            // A call that a person has denied is not asked about again as a part of a plan.
            let (kind, names) = ((SubjectKind::Call, &call.params_digest), (&call.provider, &call.action));
            if let Some(refusal) = paused(tx, &command_request.header, kind, names)? {
                return no(refusal);
            }
            let (provider, action) = (call.provider.clone(), call.action.clone());
            before.push(Exposed { provider, action, at: tx.now(), exposes: facts.session.adds });
            let sealed = call.target.invocation().and_then(|invocation| invocation.seal(&call.planted.nonce));
            let digest = digest_of(call, sealed.as_ref(), &self.policy);
            judged.push(Judged { call, reasons: decision.asks(), sealed, digest });
        }
        Ok(Ok(judged))
    }

    /// Returns whether the calls of a plan that waits would send the same requests to targets in the same state.
    fn has_same_facts(
        &self,
        tx: &Transaction<'_>,
        equal: &Approval,
        judged: &[Judged<'_>],
    ) -> Result<bool, StoreError> {
        let steps = plan_steps::of_plan(tx.view(), equal.id)?;
        for (step, Judged { call, .. }) in steps.iter().zip(judged) {
            let stored = plan_steps::sealed(tx.view(), step)?;
            // An equal call has another nonce than the one that waits.
            let nonce = stored.as_ref().map_or(&call.planted.nonce, |sealed| &sealed.nonce);
            let sealed = call.target.invocation().and_then(|invocation| invocation.seal(nonce));
            if sealed != stored || digest_of(call, sealed.as_ref(), &self.policy) != step.digest {
                return Ok(false);
            }
        }
        Ok(steps.len() == judged.len())
    }

    fn ask_about_plan(
        &mut self,
        tx: &Transaction<'_>,
        command_request: &CommandRequest,
        request: &PlanRequest,
        (judged, pause_key): (&[Judged<'_>], Digest),
    ) -> Result<CommandOutcome, StoreError> {
        let header = &command_request.header;
        let no = |code: Code, reason: &str| {
            let refusal = Refusal::new(code, reason.to_owned());
            refuse(tx, command_request, None, &refusal).map(CommandOutcome::Answered)
        };
        let (Some(group), Some(first)) = (header.caller.group(), judged.first()) else {
            return no(Code::ActionDenied, "Only an agent of a group can propose a plan.");
        };
        let level = judged.iter().map(|one| one.call.target.demanded()).max().unwrap_or(Level::Production);
        let Some(card) = card(command_request, request, judged, level) else {
            return no(Code::Guardrail, "The plan is too large for an approval request, which shows it in full.");
        };
        let asking = judged.iter().map(|one| self.asking(one.call));
        let asking = asking.fold(self.asking(first.call), |all, one| (all.0.max(one.0), all.1.min(one.1)));
        let mut asks: BTreeSet<ApprovalReason> = reasons(judged).collect();
        asks.insert(ApprovalReason::Tier);
        let mut others: BTreeSet<_> = judged.iter().map(|one| one.call.provider.clone()).collect();
        others.remove(&first.call.provider);
        let digests: Vec<Digest> = judged.iter().map(|one| one.digest).collect();
        let action = plan_action();
        let document = serde_json::to_vec(request).unwrap_or_default();
        let draft = ApprovalDraft {
            kind: SubjectKind::Plan,
            caller: &header.caller_key,
            group: Some(group),
            request_id: &header.request_id,
            provider: &first.call.provider,
            action: &action,
            level,
            digest: Digest::of(&shared::json::canonical(&json!({ "plan": digests }))),
            subject: Some(pause_key),
            asking,
            born_approved: None,
            asks,
            others,
            standing: None,
            card: &card,
            document: Some(&document),
            params_digest: Some(pause_key),
            summary: Some(in_short(judged)),
            task_id: None,
            calls: Some(judged.iter().map(in_row).collect()),
        };
        let plan = match self.request_approval(tx, header, &draft)? {
            Ok(plan) => plan,
            Err(refusal) => return refuse(tx, command_request, None, &refusal).map(CommandOutcome::Answered),
        };
        for (place, Judged { call, reasons, sealed, digest }) in (1..).zip(judged) {
            let step = PlanStep {
                plan,
                step: place,
                request_id: call.header.request_id.clone(),
                provider: call.provider.clone(),
                action: call.action.clone(),
                level: call.target.demanded(),
                digest: *digest,
                asks: reasons.iter().map(|(ask, _)| *ask).collect(),
                state: StepState::Waiting,
                code: None,
            };
            accounts::keep_shown(tx, plan, call)?;
            plan_steps::add(tx, &header.caller_key, &step, (&call.to_be_made_again(), sealed.as_ref()))?;
        }
        Ok(CommandOutcome::Asked)
    }
}

/// Returns whether a plan that waits has the same calls, on behalf of the same person.
fn is_equal(
    tx: &Transaction<'_>,
    approval: &Approval,
    (command_request, request): (&CommandRequest, &PlanRequest),
) -> Result<bool, StoreError> {
    let waiting = approvals::waiting(tx.view(), &approval.caller, &approval.request_id)?;
    Ok(waiting.is_some_and(|waiting| {
        let stored = serde_json::from_slice::<PlanRequest>(&waiting.document);
        waiting.behalf.key() == command_request.header.behalf.key()
            && stored.is_ok_and(|stored| stored.calls == request.calls)
    }))
}

const UNPLANNABLE: &str = "A plan takes no call that reveals or uses a password, links an account, or applies a \
                           proposal. Send it as a call of its own.";

/// Returns the word for a plan in the place of an action.
#[expect(clippy::expect_used, reason = "the words of the kinds satisfy the grammar")]
fn plan_action() -> Action {
    SubjectKind::Plan.word().parse().expect("an action")
}

fn reasons<'a>(judged: &'a [Judged<'_>]) -> impl Iterator<Item = ApprovalReason> + 'a {
    judged.iter().flat_map(|one| one.reasons.iter().map(|(ask, _)| *ask))
}

/// Returns the digest that is not asked about again for a while after a denial. It has no reason, which an agent can
/// vary.
fn pause_key(judged: &[Judged<'_>]) -> Digest {
    let calls: Vec<Value> =
        judged.iter().map(|Judged { call, .. }| json!([call.provider, call.action, call.params_digest])).collect();
    Digest::of(&shared::json::canonical(&json!({ "plan": calls })))
}

/// Returns the card: the plan, then each call with its number.
fn card(command_request: &CommandRequest, request: &PlanRequest, judged: &[Judged<'_>], level: Level) -> Option<Card> {
    let header = &command_request.header;
    let mut card = Card::new();
    card.say("Workspace", header.caller.group()?.as_str());
    approval_requests::add_subject(&mut card, &header.behalf);
    card.say("Action", &format!("run {} calls in this order", judged.len()));
    card.say("Level", &level.to_string());
    card.reasons.push("The agent proposes several calls at once.".to_owned());
    let mut fits = card.list(&json!({ "reason": request.reason }));
    for (place, Judged { call, reasons, sealed, .. }) in (1..).zip(judged) {
        let own = approval_requests::describe(Card::new(), call, sealed.as_ref(), reasons)?;
        fits = fits && card.add_call(place, own);
    }
    fits.then_some(card)
}

/// Returns the plan in one line.
fn in_short(judged: &[Judged<'_>]) -> String {
    let calls: Vec<String> = judged.iter().map(|one| format!("{}.{}", one.call.provider, one.call.action)).collect();
    format!("proposes {} calls: {}", calls.len(), calls.join(", "))
}

/// Returns a call for the row of the approval request.
fn in_row(Judged { call, digest, .. }: &Judged<'_>) -> Value {
    json!({
        "request_id": call.header.request_id,
        "provider": call.provider,
        "action": call.action,
        "level": call.target.demanded(),
        "params_digest": call.params_digest,
        "summary": call.target.invocation().map(Invocation::summary),
        "agrees_to": digest,
    })
}

/// Refuses a plan because of one of its calls. Nobody is asked, and no call runs.
fn refuse_call(
    tx: &Transaction<'_>,
    command_request: &CommandRequest,
    refused: &Refused<'_>,
) -> Result<Option<kernel::Answer>, StoreError> {
    let (header, Refused { place, call, refusal }) = (&command_request.header, refused);
    let row = Draft {
        provider: Some(&call.provider),
        action: Some(&call.action),
        params_digest: Some(call.params_digest),
        task_id: call.task_id.as_ref(),
        body: json!({ "request": header.request_digest, "call": place }),
        ..header.draft(RowKind::Refused)
    };
    let (provider, action) = (&call.provider, &call.action);
    let reason = format!("Call {place} of the plan, {provider}.{action}, cannot run: {}", refusal.reason);
    refuse_with(tx, command_request, row, &Refusal { reason, ..refusal.clone() })
}

/// Refuses a plan because the facts of one of its calls could not be read.
fn refuse_read(
    tx: &Transaction<'_>,
    command_request: &CommandRequest,
    FailedRead { place, refusal }: &FailedRead,
) -> Result<Option<kernel::Answer>, StoreError> {
    match command_request.calls.get(*place) {
        Some(call) => refuse_call(tx, command_request, &Refused { place: place + 1, call, refusal: refusal.clone() }),
        None => refuse(tx, command_request, None, refusal),
    }
}

/// Answers a plan whose approval request is resolved.
fn plan_over(tx: &Transaction<'_>, command_request: &CommandRequest) -> Result<CommandOutcome, StoreError> {
    let header = &command_request.header;
    let Some(approval) = approvals::of_request(tx.view(), &header.caller_key, &header.request_id)? else {
        let no = CommandResult::no(Code::ApprovalRequired, Code::ApprovalRequired.meaning());
        return write(tx, command_request, None, no).map(CommandOutcome::Answered);
    };
    let steps = plan_steps::of_plan(tx.view(), approval.id)?;
    match (approval.state, has_started(&steps)) {
        (ApprovalState::Closed, _) => Ok(CommandOutcome::Answered(None)),
        (_, true) if steps.iter().all(|step| step.state.is_over()) => report(tx, command_request, &approval, &steps),
        (ApprovalState::Approved | ApprovalState::Waiting, _) | (_, true) => Ok(CommandOutcome::Asked),
        (ApprovalState::Denied | ApprovalState::Expired | ApprovalState::Cancelled, false) => {
            match answered(tx, command_request)? {
                Err(over) => Ok(over),
                Ok(_) => Ok(CommandOutcome::Asked),
            }
        }
    }
}

/// Answers with the outcome of each call.
fn report(
    tx: &Transaction<'_>,
    command_request: &CommandRequest,
    approval: &Approval,
    steps: &[PlanStep],
) -> Result<CommandOutcome, StoreError> {
    let header = &command_request.header;
    let done = steps.iter().filter(|step| step.state == StepState::Succeeded).count();
    let calls: Vec<Value> = steps.iter().map(in_reply).collect();
    let data = json!({ "calls": calls });
    let is_done = done == steps.len();
    let row = tx.append(&Draft {
        reason_code: (!is_done).then_some(Code::PlanEnded),
        approval: Some(approval.reference()),
        body: json!({ "request": header.request_digest, "calls": calls }),
        ..header.draft(RowKind::Answered)
    })?;
    let reply = if is_done {
        Reply::executed(header.request_id.clone(), data, format!("All {done} calls succeeded."), tx.now())
    } else {
        let why = match steps.iter().find(|step| step.state == StepState::Failed) {
            Some(PlanStep { step, provider, action, .. }) => {
                format!("Call {step}, {provider}.{action}, did not succeed.")
            }
            None if approval.state == ApprovalState::Denied => "A person has stopped the plan.".to_owned(),
            None => "The plan was cancelled.".to_owned(),
        };
        let (skipped, all) = (steps.iter().filter(|step| step.state == StepState::Skipped).count(), steps.len());
        let reason = format!("{why} Of {all} calls, {done} succeeded and {skipped} did not start.");
        Reply { data: Some(data), ..Reply::of_reason(header.request_id.clone(), Code::PlanEnded, &reason, tx.now()) }
    };
    approval_requests::answer(tx, header, true, reply, row).map(CommandOutcome::Answered)
}

/// Returns the reply to a plan that cannot be continued, if one of its calls has started.
pub(crate) fn cut_short(tx: &Transaction<'_>, plan: &Approval, reason: &str) -> Result<Option<Reply>, StoreError> {
    let steps = plan_steps::of_plan(tx.view(), plan.id)?;
    if !has_started(&steps) {
        return Ok(None);
    }
    let reason = format!("The plan cannot be continued. {reason}");
    let reply = Reply::of_reason(plan.request_id.clone(), Code::PlanEnded, &reason, tx.now());
    let calls: Vec<Value> = steps.iter().map(in_reply).collect();
    Ok(Some(Reply { data: Some(json!({ "calls": calls })), ..reply }))
}

fn has_started(steps: &[PlanStep]) -> bool {
    steps.iter().any(|step| !matches!(step.state, StepState::Waiting | StepState::Skipped))
}

/// Returns the state of a call, with the request id for its result. `ext_result` checks whether the caller may have the
/// result.
fn in_reply(step: &PlanStep) -> Value {
    let has_started = step.state != StepState::Skipped;
    let mut value = json!({
        "call": step.step,
        "provider": step.provider,
        "action": step.action,
        "state": step.state,
        "request_id": has_started.then_some(&step.request_id),
        "code": step.code,
    });
    if let Some(members) = value.as_object_mut() {
        members.retain(|_, value| !value.is_null());
    }
    value
}
