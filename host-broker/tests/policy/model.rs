//! The decision once more, from the policy's text and not from the code: a list of clauses, each with the code it
//! gives when it speaks. The strictest clause that speaks wins, and of equally strict ones the first in the list.

use model::Exposure;
use model::approval::ApprovalReason;
use policy::decide::{Decision, Step, Verdict};
use policy::facts::{
    AccountFact, ChatsFact, EgressFact, Facts, GateFact, GrantFact, GuardFact, LimitsFact, LiveGrant, ParamsFact,
    PersonFact, ProviderFact, RulesFact, TaskFact,
};
use policy::profile::ApprovalMode;
use shared::{Code, Level};

/// The result of a decision, without its words; in the order of strictness.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Answer {
    Yes,
    AskPerson,
    AskRemote,
    No(Code),
}

impl Answer {
    pub(super) fn strictness(self) -> u8 {
        match self {
            Self::Yes => 0,
            Self::AskPerson => 1,
            Self::AskRemote => 2,
            Self::No(_) => 3,
        }
    }

    /// The answer of a verdict.
    pub(super) fn of(verdict: &Verdict) -> Self {
        match verdict {
            Verdict::Permit => Self::Yes,
            Verdict::RequireApproval { .. } => Self::AskPerson,
            Verdict::NeedsRemote => Self::AskRemote,
            Verdict::Refuse { code, .. } => Self::No(*code),
        }
    }

    /// Whether it is final: nobody's yes could change it.
    pub(super) fn is_refusal(self) -> bool {
        matches!(self, Self::No(_))
    }
}

/// A sentence of the policy: `Some` when it has something to say against the call.
type Clause = (Step, fn(&Facts) -> Option<Answer>);

/// The numbered list of the policy, clause by clause.
const CLAUSES: &[Clause] = &[
    // 1. Global and group kill switch.
    (Step::KillSwitch, |f| no(Code::KillSwitch, f.kill.is_some())),
    // In a fleet with one policy, its last publication.
    (Step::Policy, |f| no(Code::PolicyStale, f.stale.is_some())),
    // 2. An active grant; not over.
    (Step::Grant, |f| no(Code::NoGrant, f.grant == GrantFact::None)),
    (Step::Grant, |f| no(Code::GrantExpired, f.grant == GrantFact::Expired)),
    (Step::Grant, |f| match f.grant {
        GrantFact::Refused(why) => Some(Answer::No(why)),
        GrantFact::None | GrantFact::Expired | GrantFact::Live(_) => None,
    }),
    // A person's own capability, and a grant bound to chats, need a good token; and the chat must be one of them.
    (Step::Person, |f| match &f.person {
        PersonFact::Known => None,
        PersonFact::Unknown { code, .. } => {
            let bound = grant(f)?.chats != ChatsFact::Any || f.operation.is_some_and(|of| of.chats != ChatsFact::Any);
            no(*code, bound || f.provider.as_str().contains('.'))
        }
    }),
    (Step::Person, |f| no(Code::NoGrant, grant(f)?.chats == ChatsFact::Elsewhere)),
    // An action that is for certain kinds of chats is not for others.
    (Step::Person, |f| no(Code::CapabilityAccessDenied, f.operation?.chats == ChatsFact::Elsewhere)),
    // 3. The provider takes calls; the action is known, and in the grant's catalogue at this level.
    (Step::Catalogue, |f| no(Code::KillSwitch, f.provider_state == ProviderFact::Killed)),
    (Step::Catalogue, |f| no(Code::ProviderDisabled, matches!(f.provider_state, ProviderFact::Disabled(_)))),
    (Step::Catalogue, |f| no(Code::ProviderDisabled, f.provider_state == ProviderFact::Missing)),
    (Step::Catalogue, |f| no(Code::UnknownAction, f.operation.is_none())),
    (Step::Catalogue, |f| {
        let (grant, action) = (grant(f)?, f.operation?);
        no(Code::ActionNotAllowed, grant.catalogued != Some(action.declared))
    }),
    // 4. The level.
    (Step::Level, |f| no(Code::LevelTooLow, grant(f)?.level < f.operation?.demanded)),
    // 5. What the group's profile switches off; the denied list, then the allowed list.
    (Step::Lists, |f| no(Code::ActionDenied, f.operation?.setting == ApprovalMode::Off)),
    (Step::Lists, |f| no(Code::ActionDenied, grant(f)?.denied)),
    (Step::Lists, |f| no(Code::ActionNotAllowed, !grant(f)?.allowed)),
    // An operation with an account of the person needs one that is linked.
    (Step::Account, |f| no(Code::CapabilityAuthRequired, f.account == AccountFact::NotLinked)),
    // Of several it is not guessed which.
    (Step::Account, |f| no(Code::CapabilityAccountAmbiguous, matches!(f.account, AccountFact::Ambiguous(_)))),
    // 6. The parameters: what was not looked at is not known to fit.
    (Step::Parameters, |f| {
        let own = f.provider.as_str().contains('.');
        let code = if own { Code::CapabilityInvalidInput } else { Code::InvalidParams };
        no(code, f.operation.is_some() && f.params != ParamsFact::Valid)
    }),
    // 7. The guardrails: one that was not asked, because there was nothing to ask it about, has not agreed.
    (Step::Guardrails, |f| match &f.guard {
        GuardFact::Refuse { code, .. } => Some(Answer::No(*code)),
        GuardFact::NeedsRemote | GuardFact::NeedsRenewal => Some(Answer::AskRemote),
        GuardFact::Unasked => Some(Answer::No(Code::InvalidParams)),
        GuardFact::Pass => None,
    }),
    // 8. From L2 on, a task that is named is usable; L3 names one, and has its gate open.
    (Step::Governance, |f| no(Code::TaskUnknown, demands(f, Level::Write) && f.task == TaskFact::Unusable)),
    (Step::Governance, |f| no(Code::TaskRequired, demands(f, Level::Production) && f.task == TaskFact::NotGiven)),
    (Step::Governance, |f| {
        no(Code::GateMissing, demands(f, Level::Production) && !matches!(f.gate, GateFact::Open(..)))
    }),
    // 9. The rules, where the tier is `rules`: no permit is a no, and so is a rule that cannot be evaluated.
    (Step::Rules, |f| match &f.rules {
        RulesFact::Permit { .. } => None,
        RulesFact::Unasked => no(Code::RuleDenied, f.operation?.setting == ApprovalMode::Rules),
        RulesFact::NotEvaluable { .. } | RulesFact::NoMatch | RulesFact::Forbid { .. } | RulesFact::Failed { .. } => {
            no(Code::RuleDenied, true)
        }
    }),
    // 10. Content that others wrote, private data and a way out do not come together without a person, nor does more
    // leave once they have; unless the profile has switched that off for the provider.
    (Step::Trifecta, |f| {
        let has = |of: fn(&Exposure) -> bool| f.session.earlier.iter().any(|earlier| of(&earlier.exposes));
        let adds = f.session.adds;
        let three: [(bool, bool); 3] = [
            (has(|e| e.untrusted), adds.untrusted),
            (has(|e| e.sensitive), adds.sensitive),
            (has(|e| e.egress), adds.egress),
        ];
        let all_after = three.iter().all(|(before, now)| *before || *now);
        let all_before = three.iter().all(|(before, _)| *before);
        let exposes = three.iter().any(|(_, now)| *now);
        let asks = all_after && exposes && (adds.egress || !all_before) && !f.session.waived;
        ask(f, ApprovalReason::Trifecta, asks)
    }),
    // And what would leave is looked at: suspicious asks, hostile refuses.
    (Step::Departing, |f| match &f.departing {
        EgressFact::Clean => None,
        EgressFact::Suspicious(_) => ask(f, ApprovalReason::Departing, true),
        EgressFact::Hostile(_) => no(Code::Trifecta, true),
    }),
    // 11. Rate, quota, breaker.
    (Step::Limits, |f| match &f.limits {
        LimitsFact::Within(_) => None,
        LimitsFact::Exceeded { code, .. } => no(*code, true),
    }),
    // 12. Who else must agree: at tier `human` a person is asked each time, also behind a gate, unless one has said yes
    // to exactly this call.
    (Step::Tier, |f| ask(f, ApprovalReason::Tier, f.operation?.setting == ApprovalMode::Human)),
];

/// A person's yes is to what stood on the card.
fn ask(facts: &Facts, why: ApprovalReason, applies: bool) -> Option<Answer> {
    let agreed = facts.agreed.as_ref().is_some_and(|agreed| agreed.covers.contains(&why));
    (applies && !agreed).then_some(Answer::AskPerson)
}

fn no(code: Code, applies: bool) -> Option<Answer> {
    applies.then_some(Answer::No(code))
}

fn grant(facts: &Facts) -> Option<&LiveGrant> {
    match &facts.grant {
        GrantFact::Live(live) => Some(live),
        GrantFact::None | GrantFact::Expired | GrantFact::Refused(_) => None,
    }
}

fn demands(facts: &Facts, at_least: Level) -> bool {
    facts.operation.is_some_and(|action| action.demanded >= at_least)
}

/// The answer of the policy's text for these facts, and its step.
pub(super) fn model(facts: &Facts) -> (Answer, Option<Step>) {
    let mut found = (Answer::Yes, None);
    for (step, clause) in CLAUSES {
        if let Some(answer) = clause(facts)
            && answer.strictness() > found.0.strictness()
        {
            found = (answer, Some(*step));
        }
    }
    found
}

/// The answer of the code for the same facts, in the same form: the step is the earliest of the strictest.
pub(super) fn decided(decision: &Decision) -> (Answer, Option<Step>) {
    let answer = Answer::of(&decision.verdict);
    let step = decision
        .judgements
        .iter()
        .find(|judgement| judgement.verdict != Verdict::Permit && judgement.verdict == decision.verdict)
        .map(|judgement| judgement.step);
    (answer, step)
}
