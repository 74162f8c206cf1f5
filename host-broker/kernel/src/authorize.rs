//! The decision, which turns a permit into [`Authorized`].
//!
//! To audit: `Authorized { ` is constructed in this file only, in [`authorize`] and [`authorize_probe`].

use crate::call::{Call, Preparation, Prepared};
use crate::proofs::{Effect, Probe};
use model::approval::ApprovalReason;
use model::{Caller, Exposure};
use policy::decide::{Verdict, decide};
use policy::facts::{Agreed, Facts, GateFact, GuardFact, LimitsFact, OperationFact};
use policy::limits::Charge;
use shared::flow::GrantId;
use shared::reply::Notice;
use shared::{Code, Level};
use std::marker::PhantomData;
use std::time::Duration;
use store::state::sessions;
use store::{Brand, Transaction};

/// An effect permitted inside this transaction. No intent can be written without one.
#[must_use]
#[derive(Debug)]
pub struct Authorized<'tx> {
    effect: Effect,
    obligations: Obligations,
    tx: PhantomData<Brand<'tx>>,
}

/// The obligations of a permit.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Obligations {
    /// The gate approvals that the intent spends.
    pub(crate) spend_gates: Vec<i64>,
    /// The approval that the intent spends.
    pub(crate) spend_approval: Option<Agreed>,
    /// The exposure to the action that is recorded for the session, unless the session has it.
    pub(crate) exposes: Option<Exposure>,
    /// The external grant that loses one call.
    pub(crate) invokes: Option<GrantId>,
    /// The rates, quotas and amounts that the intent uses up.
    pub(crate) charges: Vec<Charge>,
    /// The key under which the use counts.
    pub(crate) counted_as: String,
    /// The charges of the nested call, and the same exposure to its action.
    pub(crate) nested: Option<(Vec<Charge>, Option<Exposure>)>,
}

impl Authorized<'_> {
    /// Spends the permit.
    pub(crate) fn into_parts(self) -> (Effect, Obligations) {
        (self.effect, self.obligations)
    }
}

/// The outcome of a decision.
#[derive(Debug)]
pub enum Outcome<'tx> {
    /// The call may be attempted, or its remote facts may be fetched.
    Authorized(Authorized<'tx>),
    /// The call is refused.
    Refused(Box<Call>, Refusal),
    /// The call needs an approval, for these reasons.
    Ask(Box<Call>, Vec<(ApprovalReason, String)>),
}

/// Decides on a call with facts that were gathered in this transaction. No caller can pass a decision in.
pub fn authorize<'tx>(tx: &Transaction<'tx>, mut call: Box<Call>, facts: Facts) -> Outcome<'tx> {
    let decision = decide(&facts);
    let is_refused = matches!(decision.verdict, Verdict::Refuse { .. });
    if !is_refused && call.nested.is_some() != facts.nested.is_some() {
        let reason = "The call that this call makes was not judged.".to_owned();
        return Outcome::Refused(call, Refusal::new(Code::Guardrail, reason));
    }
    if let Some(nested) = &mut call.nested {
        nested.permitted_at = Some(tx.now());
    }
    match decision.verdict {
        // SECURITY: a call whose plan waits is prepared and never run. It runs when a person has approved the plan.
        Verdict::Permit if call.plan.is_some() => {
            let reason = "A call of a plan does not run before the plan is approved.".to_owned();
            Outcome::Refused(call, Refusal::new(Code::Guardrail, reason))
        }
        Verdict::Permit => {
            let spend_gates = match facts.gate {
                GateFact::Open(_, approvals) if demanded(facts.operation) >= Level::Production => approvals,
                GateFact::Open(..) | GateFact::Closed(_) | GateFact::NotConfigured => Vec::new(),
            };
            let added = |call: &Call, exposes: Exposure| {
                let is_known = sessions::knows(&facts.session.earlier, (&call.provider, &call.action), exposes);
                (!is_known).then_some(exposes)
            };
            let exposes = added(&call, facts.session.adds);
            let charges = charges(facts.limits);
            // The approval is spent and stands on the row, independent of the reason for asking.
            let invokes = match &call.header.caller {
                Caller::External(access) => Some(access.clone()),
                Caller::Group(_) | Caller::Person(_) | Caller::Operator(_) | Caller::Broker => None,
            };
            let counted_as = facts.counted_as;
            let nested = facts.nested.map(|nested| {
                let operation = call.nested.as_ref().and_then(|nested| nested.call.target.operation());
                let exposes = operation.map(|operation| operation.declaration().exposes);
                let added =
                    call.nested.as_ref().zip(exposes).and_then(|(nested, exposes)| added(&nested.call, exposes));
                (self::charges(nested.limits), added)
            });
            let mut all = charges.iter().chain(nested.iter().flat_map(|(charges, _)| charges));
            // Replaced and not appended: a call that could not be written is decided again.
            call.notices = all.any(Charge::is_near).then_some(Notice::NearQuota).into_iter().collect();
            let obligations = Obligations {
                spend_gates,
                spend_approval: facts.agreed,
                exposes,
                invokes,
                charges,
                counted_as,
                nested,
            };
            Outcome::Authorized(Authorized { effect: Effect::Run(call), obligations, tx: PhantomData })
        }
        // Facts are fetched once: facts that do not satisfy the guard then will not do so later.
        Verdict::NeedsRemote if call.prepared != Prepared::Complete => {
            let is_renewal = facts.guard == GuardFact::NeedsRenewal;
            call.preparation = if is_renewal { Preparation::Renewal } else { Preparation::Facts };
            let (charges, counted_as) = (charges(facts.limits), facts.counted_as);
            let obligations = Obligations { charges, counted_as, ..Obligations::default() };
            Outcome::Authorized(Authorized { effect: Effect::Prepare(call), obligations, tx: PhantomData })
        }
        Verdict::NeedsRemote => Outcome::Refused(
            call,
            Refusal::new(Code::Guardrail, "The remote did not return the facts that the guardrail needs.".into()),
        ),
        Verdict::RequireApproval { .. } => Outcome::Ask(call, decision.asks()),
        Verdict::Refuse { code, reason } => {
            let nested = facts.nested.as_ref().and_then(|nested| nested.limits.retry_after(code));
            let retry_after = facts.limits.retry_after(code).max(nested);
            Outcome::Refused(call, Refusal { code, reason, retry_after })
        }
    }
}

/// Authorizes a probe: the broker's own read about an earlier permitted effect, under a fixed policy.
pub fn authorize_probe<'tx>(_tx: &Transaction<'tx>, probe: Box<Probe>) -> Authorized<'tx> {
    Authorized { effect: Effect::Probe(probe), obligations: Obligations::default(), tx: PhantomData }
}

fn charges(limits: LimitsFact) -> Vec<Charge> {
    match limits {
        LimitsFact::Within(charges) => charges,
        LimitsFact::Exceeded { .. } => Vec::new(),
    }
}

fn demanded(operation: Option<OperationFact>) -> Level {
    operation.map_or(Level::None, |operation| operation.demanded)
}

/// A refusal, before anything was executed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The stable reason.
    pub code: Code,
    /// The reason: one sentence with a period.
    pub reason: String,
    /// The time after which to try again, if it is known.
    pub retry_after: Option<Duration>,
}

impl Refusal {
    /// Makes a refusal without a known end.
    pub fn new(code: Code, reason: String) -> Self {
        Self { code, reason, retry_after: None }
    }
}
