//! Plans: the calls that a person approved together, one after the other.
//!
//! ```text
//! approved ──► first call: started ──► readmitted ──► outcome ──► next call: started ──► …
//!                                                        └─ not a success, or the plan has ended: the rest is skipped
//! all over ──► the plan's own request goes on, and has its reply
//! ```
//! A call has an approval of its own when its turn comes, and is admitted like every call that a person approved. The
//! change that ends a call starts the next one, in one transaction. So a restart continues at the same place.

use crate::approval_requests::Resolved;
use crate::approval_subjects::Continuation;
use crate::approvals::fresh_code;
use crate::broker::Broker;
use crate::clean::{Filtered, Outcome};
use crate::features::Feature;
use kernel::Effect;
use kernel::authorize::Refusal;
use kernel::call::Call;
use model::approval::{Approval, ApprovalState, NewApproval, SubjectKind};
use model::card::Card;
use model::plan::{PlanStep, StepState};
use shared::{Code, RequestId, Timestamp};
use std::collections::BTreeSet;
use std::sync::Arc;
use store::state::{approvals, plan_steps};
use store::{StoreError, Transaction, View};

/// The calls of plans.
pub(crate) struct Plans;

impl Feature for Plans {
    fn before_decision(&self, _: &View, _: Timestamp, _: &mut Call) -> Result<(), StoreError> {
        Ok(())
    }

    /// Refuses a call of a plan whose turn it is not, or whose plan has ended since.
    fn precondition(&self, view: &View, call: &Call) -> Result<Option<Refusal>, StoreError> {
        if !call.is_resumed() {
            return Ok(None);
        }
        let Some(own) = plan_steps::of_request(view, &call.header.caller_key, &call.header.request_id)? else {
            return Ok(None);
        };
        let is_approved =
            approvals::numbered(view, own.plan)?.is_some_and(|plan| plan.state == ApprovalState::Approved);
        let steps = plan_steps::of_plan(view, own.plan)?;
        let is_turn = own.state == StepState::Started
            && steps.iter().take_while(|step| step.step < own.step).all(|step| step.state == StepState::Succeeded);
        let refusal = || Refusal::new(Code::Cancelled, "The plan of this call has ended.".to_owned());
        Ok((!is_approved || !is_turn).then(refusal))
    }

    fn with_intent(&self, _: &mut Broker, _: &Transaction<'_>, _: &mut Call) -> Result<(), StoreError> {
        Ok(())
    }

    fn with_refusal(
        &self,
        broker: &mut Broker,
        tx: &Transaction<'_>,
        call: &Call,
        refusal: &Refusal,
    ) -> Result<(), StoreError> {
        if !call.is_resumed() {
            return Ok(());
        }
        let failed = (StepState::Failed, Some(refusal.code));
        broker.end_step(tx, (&call.header.caller_key, &call.header.request_id), failed)
    }

    fn with_outcome(
        &self,
        broker: &mut Broker,
        tx: &Transaction<'_>,
        filtered: &mut Filtered,
    ) -> Result<(), StoreError> {
        let (Effect::Run(call) | Effect::Prepare(call)) = &filtered.effect else { return Ok(()) };
        let ended = match &filtered.outcome {
            Outcome::Succeeded(_) => (StepState::Succeeded, None),
            Outcome::Failed { code, .. } => (StepState::Failed, Some(*code)),
            Outcome::Prepared(_) | Outcome::Probed { .. } => return Ok(()),
        };
        if !call.is_resumed() {
            return Ok(());
        }
        broker.end_step(tx, (&call.header.caller_key, &call.header.request_id), ended)
    }

    fn with_loss(
        &self,
        broker: &mut Broker,
        tx: &Transaction<'_>,
        (caller, call): (&str, &RequestId),
        code: Code,
    ) -> Result<(), StoreError> {
        broker.end_step(tx, (caller, call), (StepState::Failed, Some(code)))?;
        // A plan whose own request is closed starts no further call.
        match approvals::of_request(tx.view(), caller, call)? {
            Some(plan) if plan.kind == SubjectKind::Plan => plan_steps::skip_rest(tx, plan.id),
            Some(_) | None => Ok(()),
        }
    }

    fn forget_old(&self, _: &Transaction<'_>) -> Result<(), StoreError> {
        Ok(())
    }
}

impl Broker {
    /// Records the end of a call, if it is one of a plan, and continues the plan.
    fn end_step(
        &mut self,
        tx: &Transaction<'_>,
        (caller, call): (&str, &RequestId),
        (state, code): (StepState, Option<Code>),
    ) -> Result<(), StoreError> {
        let found = plan_steps::of_request(tx.view(), caller, call)?;
        let Some(step) = found.filter(|step| step.state == StepState::Started) else { return Ok(()) };
        plan_steps::end(tx, &step, state, code.map(Code::word))?;
        self.continue_plan(tx, step.plan)
    }

    /// Starts the next call of an approved plan. Any other plan ends, once its last call is over.
    pub(crate) fn continue_plan(&mut self, tx: &Transaction<'_>, plan: i64) -> Result<(), StoreError> {
        let Some(plan) = approvals::numbered(tx.view(), plan)? else { return Ok(()) };
        let steps = plan_steps::of_plan(tx.view(), plan.id)?;
        let goes_on = plan.state == ApprovalState::Approved
            && steps.iter().all(|step| matches!(step.state, StepState::Succeeded | StepState::Waiting));
        if let Some(next) = steps.iter().find(|step| step.state == StepState::Waiting).filter(|_| goes_on) {
            return self.start_step(tx, &plan, next);
        }
        plan_steps::skip_rest(tx, plan.id)?;
        if !steps.iter().any(|step| step.state == StepState::Started) {
            let key = (Arc::from(plan.caller.as_str()), plan.request_id);
            self.follow_ups.resolved.push(Resolved { continuation: Continuation::Readmit, key });
        }
        Ok(())
    }

    /// Gives a call the approval of its plan, and has it admitted.
    fn start_step(&mut self, tx: &Transaction<'_>, plan: &Approval, step: &PlanStep) -> Result<(), StoreError> {
        let (document, sealed) = plan_steps::start(tx, step)?;
        let taken = |code: &str| approvals::with_code(tx.view(), code).map(|found| found.is_some());
        let Ok(code) = fresh_code(self.ids.as_ref(), taken)? else {
            let failed = (StepState::Failed, Some(Code::EvidenceUnavailable));
            return self.end_step(tx, (&plan.caller, &step.request_id), failed);
        };
        let waiting = approvals::waiting(tx.view(), &plan.caller, &plan.request_id)?;
        let Some(waiting) = waiting else { return Err(StoreError::Stored { what: "plan" }) };
        let approval = approvals::ask(
            tx,
            &NewApproval {
                code: &code,
                kind: SubjectKind::Call,
                state: ApprovalState::Approved,
                caller: &plan.caller,
                group: plan.group.as_ref(),
                request_id: &step.request_id,
                reply_as: None,
                provider: &step.provider,
                action: &step.action,
                level: step.level,
                document: Some(&document),
                person: waiting.behalf.person(),
                digest: step.digest,
                quorum: plan.quorum,
                // The row in which the person was asked about the plan.
                asked_seq: plan.asked_seq,
                // The turn of a call passes: a restart long after it does not run the call.
                expires_at: tx.now(),
                reply_by: tx.now(),
                asks: &step.asks,
                others: &BTreeSet::new(),
                standing: None,
                card: &Card::new(),
            },
        )?;
        if let Some(sealed) = &sealed {
            approvals::keep_sealed(tx, approval, sealed)?;
        }
        // Nobody waits for the reply of the call; the caller gets that of the plan.
        approvals::tell(tx, approval)?;
        let key = (Arc::from(plan.caller.as_str()), step.request_id.clone());
        self.follow_ups.resolved.push(Resolved { continuation: Continuation::Readmit, key });
        Ok(())
    }
}
