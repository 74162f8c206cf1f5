//! The decision: a pure, total function of the facts.
//!
//! Every step is judged, so that `explain` can show them all. The strictest verdict wins, and of equally strict ones
//! the earliest. An error cannot be represented here: a caller that cannot gather a fact refuses.

use crate::facts::{
    AccountFact, ChatsFact, EgressFact, Facts, GateFact, GrantFact, GuardFact, KilledBy, LimitsFact, LiveGrant,
    OperationFact, Outage, ParamsFact, PersonFact, ProviderFact, RulesFact, TaskFact,
};
use crate::profile::ApprovalMode;
use model::Exposure;
use model::approval::ApprovalReason;
use shared::{Code, Level};
use std::fmt;

/// The steps, in their order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Step {
    /// Kill switches of everything and of the caller.
    KillSwitch,
    /// The policy of this host is the one that is in force.
    Policy,
    /// A grant in force.
    Grant,
    /// The person on whose behalf the call is made, and the chat.
    Person,
    /// The provider takes calls, and the action is in the grant's catalogue.
    Catalogue,
    /// The level suffices.
    Level,
    /// The grant's lists.
    Lists,
    /// The person's account.
    Account,
    /// The parameters fit.
    Parameters,
    /// The guardrails.
    Guardrails,
    /// The task and its gate.
    Governance,
    /// The rules, where they decide.
    Rules,
    /// Private data, untrusted content and an egress channel do not come together.
    Trifecta,
    /// The outgoing data.
    Departing,
    /// Rate, quota and breaker.
    Limits,
    /// The required approval.
    Tier,
}

/// The verdict of one step, or of all together, in the order of strictness.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// Permitted.
    Permit,
    /// Permitted, if a person approves.
    RequireApproval {
        /// The kind of the reason.
        ask: ApprovalReason,
        /// The reason for asking a person, in one sentence.
        reason: String,
    },
    /// Not decidable before the remote has been asked.
    NeedsRemote,
    /// Refused.
    Refuse {
        /// The stable reason.
        code: Code,
        /// The reason: one sentence with a period.
        reason: String,
    },
}

/// One step's verdict.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Judgement {
    /// The step.
    pub step: Step,
    /// The verdict.
    pub verdict: Verdict,
}

/// The decision.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub struct Decision {
    /// The strictest verdict, and of equally strict ones the earliest.
    pub verdict: Verdict,
    /// The judgement of every step.
    pub judgements: Vec<Judgement>,
}

impl Decision {
    /// Returns every reason for asking a person.
    pub fn asks(&self) -> Vec<(ApprovalReason, String)> {
        let ask = |judgement: &Judgement| match &judgement.verdict {
            Verdict::RequireApproval { ask, reason } => Some((*ask, reason.clone())),
            Verdict::Permit | Verdict::NeedsRemote | Verdict::Refuse { .. } => None,
        };
        self.judgements.iter().filter_map(ask).collect()
    }

    /// Returns whether the call is refused only for this moment: other hosts use a shared quota, or have a newer policy.
    pub fn is_transient(&self) -> bool {
        matches!(self.verdict, Verdict::Refuse { code: Code::Busy | Code::PolicyStale, .. })
    }

    /// Returns whether the caller has the authority (the steps up to the lists), independent of the other steps.
    pub fn has_authority(&self) -> bool {
        let refuses = |judgement: &Judgement| matches!(judgement.verdict, Verdict::Refuse { .. });
        !self.judgements.iter().any(|judgement| judgement.step <= Step::Lists && refuses(judgement))
    }
}

impl Verdict {
    fn strictness(&self) -> u8 {
        match self {
            Self::Permit => 0,
            Self::RequireApproval { .. } => 1,
            Self::NeedsRemote => 2,
            Self::Refuse { .. } => 3,
        }
    }

    fn refuse(code: Code, reason: String) -> Self {
        Self::Refuse { code, reason }
    }

    fn refuse_plainly(code: Code) -> Self {
        Self::Refuse { code, reason: code.meaning().to_owned() }
    }
}

/// Decides on a call. A call that makes another one is permitted if both are.
pub fn decide(facts: &Facts) -> Decision {
    let verdict = |judge: Judge| match facts.nested.as_deref().map(judge) {
        Some(nested) => stricter(judge(facts), nested),
        None => judge(facts),
    };
    let judgements: Vec<Judgement> =
        STEPS.iter().map(|(step, judge)| Judgement { step: *step, verdict: verdict(*judge) }).collect();
    // `max_by_key` would take the last of equals.
    let strictest = judgements.iter().rev().max_by_key(|judgement| judgement.verdict.strictness());
    let verdict = strictest.map_or(Verdict::refuse_plainly(Code::NoGrant), |judgement| judgement.verdict.clone());
    Decision { verdict, judgements }
}

type Judge = fn(&Facts) -> Verdict;

/// Returns the stricter verdict of a step, and of equally strict ones that of the call itself.
fn stricter(own: Verdict, nested: Verdict) -> Verdict {
    if nested.strictness() > own.strictness() { nested } else { own }
}

const STEPS: [(Step, Judge); 16] = [
    (Step::KillSwitch, kill_switch),
    (Step::Policy, policy),
    (Step::Grant, grant_verdict),
    (Step::Person, person),
    (Step::Catalogue, catalogue),
    (Step::Level, level),
    (Step::Lists, lists),
    (Step::Account, account),
    (Step::Parameters, parameters),
    (Step::Guardrails, guardrails),
    (Step::Governance, governance),
    (Step::Rules, rules),
    (Step::Trifecta, trifecta),
    (Step::Departing, departing),
    (Step::Limits, limits),
    (Step::Tier, tier),
];

fn kill_switch(facts: &Facts) -> Verdict {
    match facts.kill {
        None => Verdict::Permit,
        Some(KilledBy::Everything) => Verdict::refuse(Code::KillSwitch, "An operator has stopped all calls.".into()),
        Some(KilledBy::Caller) => Verdict::refuse(
            Code::KillSwitch,
            format!("An operator has stopped all calls of {}.", uncapped(&facts.caller)),
        ),
    }
}

/// Requires the newest policy. The other steps are judged with the policy that this host has.
fn policy(facts: &Facts) -> Verdict {
    facts.stale.as_ref().map_or(Verdict::Permit, |used| {
        let reason = format!("The policy of this host is {used}, which is not in force.");
        Verdict::refuse(Code::PolicyStale, reason)
    })
}

fn grant_verdict(facts: &Facts) -> Verdict {
    match &facts.grant {
        GrantFact::None => {
            Verdict::refuse(Code::NoGrant, format!("{} has no access to {}.", facts.caller, facts.provider))
        }
        GrantFact::Expired => Verdict::refuse(
            Code::GrantExpired,
            format!("The access of {} to {} has expired.", uncapped(&facts.caller), facts.provider),
        ),
        GrantFact::Refused(code) => Verdict::refuse_plainly(*code),
        GrantFact::Live(_) => Verdict::Permit,
    }
}

/// Requires a known person for personal accounts and for grants that are limited to certain chats.
fn person(facts: &Facts) -> Verdict {
    let Some(grant) = live(facts) else { return grant_verdict(facts) };
    let own = facts.operation.map_or(ChatsFact::Any, |operation| operation.chats);
    let matters = facts.provider.is_namespaced() || grant.chats != ChatsFact::Any || own != ChatsFact::Any;
    match (&facts.person, grant.chats) {
        (PersonFact::Unknown { code, reason }, _) if matters => Verdict::refuse(*code, reason.clone()),
        (PersonFact::Known, ChatsFact::Elsewhere) => Verdict::refuse(
            Code::NoGrant,
            format!(
                "The access of {} to {} is for other chats than the one that this call comes from.",
                uncapped(&facts.caller),
                facts.provider
            ),
        ),
        (PersonFact::Known, _) if own == ChatsFact::Elsewhere => Verdict::refuse(
            Code::CapabilityAccessDenied,
            format!("Capability {} may not be used in a chat of the kind that this call comes from.", facts.provider),
        ),
        (PersonFact::Known | PersonFact::Unknown { .. }, _) => Verdict::Permit,
    }
}

fn catalogue(facts: &Facts) -> Verdict {
    match facts.provider_state {
        ProviderFact::Killed => {
            return Verdict::refuse(
                Code::KillSwitch,
                format!("An operator has stopped all calls to {}.", facts.provider),
            );
        }
        ProviderFact::Missing => {
            return Verdict::refuse(Code::ProviderDisabled, format!("There is no provider {}.", facts.provider));
        }
        ProviderFact::Disabled(outage) => {
            let why = match outage {
                Outage::SwitchedOff => "is switched off",
                Outage::NoSecret => "lacks its secret",
                Outage::Unusable => "cannot be used as it is configured",
            };
            return Verdict::refuse(Code::ProviderDisabled, format!("Provider {} {why}.", facts.provider));
        }
        ProviderFact::Enabled => {}
    }
    let Some(operation) = facts.operation else {
        return Verdict::refuse(
            Code::UnknownAction,
            format!("Provider {} has no action '{}'.", facts.provider, facts.action),
        );
    };
    match live(facts).map(|grant| grant.catalogued) {
        Some(Some(level)) if level == operation.declared => Verdict::Permit,
        Some(Some(_)) => Verdict::refuse(
            Code::ActionNotAllowed,
            format!("Action '{}' has changed its level since the grant was made.", facts.action),
        ),
        Some(None) => {
            Verdict::refuse(Code::ActionNotAllowed, format!("Action '{}' is newer than the grant.", facts.action))
        }
        None => grant_verdict(facts),
    }
}

fn level(facts: &Facts) -> Verdict {
    let (Some(grant), Some(operation)) = (live(facts), facts.operation) else { return without_action(facts) };
    if operation.demanded <= grant.level {
        return Verdict::Permit;
    }
    Verdict::refuse(
        Code::LevelTooLow,
        format!(
            "{} has {} access to {}, but action '{}' requires {}.",
            facts.caller, grant.level, facts.provider, facts.action, operation.demanded
        ),
    )
}

fn lists(facts: &Facts) -> Verdict {
    let Some(grant) = live(facts) else { return grant_verdict(facts) };
    if matches!(facts.operation, Some(OperationFact { setting: ApprovalMode::Off, .. })) {
        Verdict::refuse(
            Code::ActionDenied,
            format!("Action '{}' is switched off for {}.", facts.action, uncapped(&facts.caller)),
        )
    } else if grant.denied {
        Verdict::refuse(
            Code::ActionDenied,
            format!("Action '{}' is explicitly denied to {}.", facts.action, uncapped(&facts.caller)),
        )
    } else if !grant.allowed {
        Verdict::refuse(
            Code::ActionNotAllowed,
            format!("Action '{}' is not among the allowed actions of {}.", facts.action, uncapped(&facts.caller)),
        )
    } else {
        Verdict::Permit
    }
}

fn account(facts: &Facts) -> Verdict {
    match &facts.account {
        AccountFact::NotNeeded | AccountFact::Linked => Verdict::Permit,
        AccountFact::NotLinked => Verdict::refuse_plainly(Code::CapabilityAuthRequired),
        AccountFact::Ambiguous(choices) => Verdict::refuse(
            Code::CapabilityAccountAmbiguous,
            format!("Several accounts are linked, so name one in account_ref: {}.", choices.join(", ")),
        ),
    }
}

fn parameters(facts: &Facts) -> Verdict {
    let code = if facts.provider.is_namespaced() { Code::CapabilityInvalidInput } else { Code::InvalidParams };
    match &facts.params {
        ParamsFact::Valid => Verdict::Permit,
        ParamsFact::Unparsed if facts.operation.is_none() || facts.provider_state != ProviderFact::Enabled => {
            without_action(facts)
        }
        ParamsFact::Unparsed => Verdict::refuse_plainly(code),
        ParamsFact::Faulty(faults) => {
            Verdict::refuse(code, format!("The parameters do not fit: {}.", faults.join("; ")))
        }
    }
}

fn guardrails(facts: &Facts) -> Verdict {
    match &facts.guard {
        GuardFact::Pass => Verdict::Permit,
        GuardFact::NeedsRemote | GuardFact::NeedsRenewal => Verdict::NeedsRemote,
        GuardFact::Refuse { code, reason } => Verdict::refuse(*code, reason.clone()),
        // This happens only when the parameters do not fit, which is refused before.
        GuardFact::Unasked => match parameters(facts) {
            Verdict::Permit => Verdict::refuse_plainly(Code::InvalidParams),
            other @ (Verdict::RequireApproval { .. } | Verdict::NeedsRemote | Verdict::Refuse { .. }) => other,
        },
    }
}

fn governance(facts: &Facts) -> Verdict {
    let Some(OperationFact { demanded, .. }) = facts.operation else { return without_action(facts) };
    if demanded < Level::Write {
        return Verdict::Permit;
    }
    match (facts.task, demanded < Level::Production) {
        (TaskFact::Unusable, _) => Verdict::refuse_plainly(Code::TaskUnknown),
        (TaskFact::NotGiven | TaskFact::Usable, true) => Verdict::Permit,
        (TaskFact::NotGiven, false) => Verdict::refuse(
            Code::TaskRequired,
            format!("Action '{}' is {} and needs a task_id.", facts.action, Level::Production),
        ),
        (TaskFact::Usable, false) => gate(facts),
    }
}

fn gate(facts: &Facts) -> Verdict {
    match &facts.gate {
        GateFact::Open(..) => Verdict::Permit,
        GateFact::Closed(gate) => {
            Verdict::refuse(Code::GateMissing, format!("The {gate} gate is not open for this task."))
        }
        GateFact::NotConfigured => Verdict::refuse(
            Code::GateMissing,
            format!(
                "The access of {} to {} names no gate for production actions.",
                uncapped(&facts.caller),
                facts.provider
            ),
        ),
    }
}

fn tier(facts: &Facts) -> Verdict {
    match facts.operation {
        Some(OperationFact { setting: ApprovalMode::Human, .. }) => {
            unless_agreed(facts, ApprovalReason::Tier, format!("A person must agree to action '{}'.", facts.action))
        }
        Some(_) | None => Verdict::Permit,
    }
}

/// Requires an approval, unless a person has approved a card with this reason.
fn unless_agreed(facts: &Facts, ask: ApprovalReason, reason: String) -> Verdict {
    match &facts.agreed {
        Some(agreed) if agreed.covers.contains(&ask) => Verdict::Permit,
        Some(_) | None => Verdict::RequireApproval { ask, reason },
    }
}

fn rules(facts: &Facts) -> Verdict {
    let no = |reason: String| Verdict::refuse(Code::RuleDenied, reason);
    match (&facts.rules, facts.operation.map(|operation| operation.setting)) {
        // If they were not asked, the tier decides, or there is no action to ask them about.
        (RulesFact::Permit { .. }, _)
        | (RulesFact::Unasked, None | Some(ApprovalMode::Auto | ApprovalMode::Human | ApprovalMode::Off)) => {
            Verdict::Permit
        }
        (RulesFact::Unasked, Some(ApprovalMode::Rules)) => no("The rules were not asked.".into()),
        (RulesFact::NotEvaluable { why }, _) => no(format!("The call cannot be put to the rules: {why}.")),
        (RulesFact::NoMatch, _) => no(format!("No rule permits action '{}' like this.", facts.action)),
        (RulesFact::Forbid { rule, reason: None }, _) => no(format!("The rule '{rule}' forbids this.")),
        (RulesFact::Forbid { rule, reason: Some(reason) }, _) => {
            no(format!("The rule '{rule}' forbids this: {reason}"))
        }
        (RulesFact::Failed { rule }, _) => no(format!("The rule '{rule}' could not be evaluated for this call.")),
    }
}

/// Requires an approval when all three come together, and afterwards for each further way out.
fn trifecta(facts: &Facts) -> Verdict {
    let session = &facts.session;
    let before = session.so_far();
    let completes = before.and(session.adds) == Exposure::ALL
        && session.adds != Exposure::NONE
        && (session.adds.egress || before != Exposure::ALL);
    if session.waived || !completes {
        return Verdict::Permit;
    }
    let of = |what: &str, is: fn(&Exposure) -> bool| {
        let mut calls: Vec<String> = session
            .earlier
            .iter()
            .filter(|exposed| is(&exposed.exposes))
            .map(|exposed| format!("{}.{} at {}", exposed.provider, exposed.action, exposed.at.clock()))
            .collect();
        let more = calls.len().saturating_sub(NAMED_MAX);
        calls.truncate(NAMED_MAX);
        if is(&session.adds) {
            calls.push("this call".to_owned());
        }
        if more > 0 {
            calls.push(format!("{more} more"));
        }
        format!("{what} ({})", calls.join(", "))
    };
    let reason = format!(
        "The session would combine {}, {} and {}.",
        of("untrusted content", |exposes| exposes.untrusted),
        of("private data", |exposes| exposes.sensitive),
        of("an egress channel", |exposes| exposes.egress),
    );
    unless_agreed(facts, ApprovalReason::Trifecta, reason)
}

/// The number of earlier calls that are named for each of the three.
const NAMED_MAX: usize = 8;

fn departing(facts: &Facts) -> Verdict {
    match &facts.departing {
        EgressFact::Clean => Verdict::Permit,
        EgressFact::Suspicious(found) => unless_agreed(
            facts,
            ApprovalReason::Departing,
            format!("The outgoing data looks suspicious. {}", found.join(" ")),
        ),
        EgressFact::Hostile(found) => {
            Verdict::refuse(Code::Trifecta, format!("The outgoing data is not permitted: {}", found.join(" ")))
        }
    }
}

fn limits(facts: &Facts) -> Verdict {
    match &facts.limits {
        LimitsFact::Within(_) => Verdict::Permit,
        LimitsFact::Exceeded { code, reason, .. } => Verdict::refuse(*code, reason.clone()),
    }
}

/// Returns the verdict of a step that needs the action, if there is none to judge.
fn without_action(facts: &Facts) -> Verdict {
    match grant_verdict(facts) {
        Verdict::Permit => catalogue(facts),
        other @ (Verdict::RequireApproval { .. } | Verdict::NeedsRemote | Verdict::Refuse { .. }) => other,
    }
}

fn live(facts: &Facts) -> Option<&LiveGrant> {
    match &facts.grant {
        GrantFact::Live(grant) => Some(grant),
        GrantFact::None | GrantFact::Expired | GrantFact::Refused(_) => None,
    }
}

/// Returns the form within a sentence: `group 'developer'`.
fn uncapped(caller: &str) -> String {
    let mut chars = caller.chars();
    chars.next().map_or_else(String::new, |first| format!("{}{}", first.to_lowercase(), chars.as_str()))
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::KillSwitch => "kill switch",
            Self::Policy => "policy",
            Self::Grant => "grant",
            Self::Person => "person and chat",
            Self::Catalogue => "catalogue",
            Self::Level => "level",
            Self::Lists => "allowed and denied",
            Self::Account => "account",
            Self::Parameters => "parameters",
            Self::Guardrails => "guardrails",
            Self::Governance => "task and gate",
            Self::Rules => "rules",
            Self::Trifecta => "what comes together",
            Self::Departing => "what would leave",
            Self::Limits => "limits",
            Self::Tier => "who must agree",
        })
    }
}
