//! The facts of one call: the complete input of a decision.

use crate::limits::Charge;
use crate::profile::ApprovalMode;
use model::approval::ApprovalReason;
use model::{Exposed, Exposure, Publication};
use shared::{Action, Code, Gate, Level, Provider};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

/// The facts of one call, as they are in one transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facts {
    /// The caller, for sentences: `Group 'developer'`.
    pub caller: String,
    /// The requested provider.
    pub provider: Provider,
    /// The requested action.
    pub action: Action,
    /// The kill switch that stops the caller or everything.
    pub kill: Option<KilledBy>,
    /// The publication of the policy with which this host decides, if it is not the one that is in force.
    pub stale: Option<Publication>,
    /// The caller's grant at the provider.
    pub grant: GrantFact,
    /// The person behind the call.
    pub person: PersonFact,
    /// The provider's state.
    pub provider_state: ProviderFact,
    /// The action, if the catalogue has it.
    pub operation: Option<OperationFact>,
    /// The account that the action works with.
    pub account: AccountFact,
    /// The parameters, or every fault in them.
    pub params: ParamsFact,
    /// The judgement of the guardrails.
    pub guard: GuardFact,
    /// The governance task.
    pub task: TaskFact,
    /// The gate of production actions.
    pub gate: GateFact,
    /// The judgement of the rules.
    pub rules: RulesFact,
    /// The exposure of the caller's session, and the exposure that this call would add.
    pub session: SessionFact,
    /// The findings of an inspection of the outgoing data.
    pub departing: EgressFact,
    /// The key under which its use and exposure count.
    pub counted_as: String,
    /// Rate, quota and breaker.
    pub limits: LimitsFact,
    /// A person's approval of exactly this call, which no intent has spent, or a standing approval that covers it.
    pub agreed: Option<Agreed>,
    /// The facts of the call of another provider that this call makes.
    pub nested: Option<Box<Facts>>,
}

/// A person's approval.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Agreed {
    /// The approval.
    pub by: AgreedBy,
    /// The name that the caller knows it by.
    pub reference: String,
    /// The reasons on the card.
    pub covers: BTreeSet<ApprovalReason>,
}

/// An approval, by its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AgreedBy {
    /// The approval of exactly this call, which the intent spends.
    Approval(i64),
    /// A standing approval, which counts the call.
    Standing(i64),
}

/// The judgement of the rules on a call. They are asked where the profile says `rules`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RulesFact {
    /// They were not asked.
    Unasked,
    /// They could not be asked about this call.
    NotEvaluable {
        /// The reason, without a period.
        why: String,
    },
    /// This rule permits it, and none forbids it.
    Permit {
        /// The rule.
        rule: String,
    },
    /// No rule permits it.
    NoMatch,
    /// This rule forbids it.
    Forbid {
        /// The rule.
        rule: String,
        /// The text of the rule: one sentence with a period.
        reason: Option<String>,
    },
    /// This rule could not be evaluated.
    Failed {
        /// The rule.
        rule: String,
    },
}

/// The exposure of a caller's session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionFact {
    /// The actions that it has called, in the order of their first calls.
    pub earlier: Arc<[Exposed]>,
    /// The exposure that this call would add.
    pub adds: Exposure,
    /// Whether the call sends data to the owner's own destinations alone, so that it adds no egress channel.
    pub own: bool,
    /// Whether the profile has switched the step off for this provider.
    pub waived: bool,
}

impl SessionFact {
    /// Returns the exposure of the session before this call.
    pub fn so_far(&self) -> Exposure {
        self.earlier.iter().fold(Exposure::NONE, |all, exposed| all.and(exposed.exposes))
    }
}

/// The findings of an inspection of outgoing data; the reasons are sentences with a period.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EgressFact {
    /// No finding, or no outgoing data.
    Clean,
    /// A person should look at it.
    Suspicious(Vec<String>),
    /// It must not leave.
    Hostile(Vec<String>),
}

/// The judgement of the limits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LimitsFact {
    /// The call is within the limits and uses this up.
    Within(Vec<Charge>),
    /// The call exceeds a limit.
    Exceeded {
        /// `rate_limited`, `quota_exceeded`, `busy` or `breaker_open`.
        code: Code,
        /// The reason: one sentence with a period.
        reason: String,
        /// The time after which the call may be within the limits.
        retry_after: Option<Duration>,
    },
}

impl LimitsFact {
    /// Returns the time after which a call that was refused with this code may be within the limits.
    pub fn retry_after(&self, code: Code) -> Option<Duration> {
        match self {
            Self::Exceeded { code: limit, retry_after, .. } if *limit == code => *retry_after,
            Self::Exceeded { .. } | Self::Within(_) => None,
        }
    }
}

/// The scope of a kill switch that stops a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KilledBy {
    /// Every call.
    Everything,
    /// Every call of this caller.
    Caller,
}

/// A caller's grant at a provider.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GrantFact {
    /// None, revoked, or of level 0.
    None,
    /// Expired.
    Expired,
    /// In force.
    Live(LiveGrant),
    /// The external grant is refused, for this reason.
    Refused(Code),
}

/// A grant in force, as far as it concerns this call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LiveGrant {
    /// The granted level.
    pub level: Level,
    /// The level that the action had when the grant was made; `None` if there was no such action.
    pub catalogued: Option<Level>,
    /// Whether the grant lists the action; `true` if it has no list.
    pub allowed: bool,
    /// Whether the grant denies the action.
    pub denied: bool,
    /// The chats from which it may be used.
    pub chats: ChatsFact,
}

/// The chats that a grant or an action permits, compared with the chat of this call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChatsFact {
    /// Any chat.
    Any,
    /// Certain chats, and the call comes from one of them.
    Here,
    /// Certain chats, and the call comes from another one or from none.
    Elsewhere,
}

/// The person behind a call, as far as a token proves it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PersonFact {
    /// A person.
    Known,
    /// No known person.
    Unknown {
        /// `context_token_missing`, `context_token_invalid` or `context_token_expired`.
        code: Code,
        /// The reason: one sentence with a period.
        reason: String,
    },
}

/// The reason why a provider takes no calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outage {
    /// The configuration switches it off.
    SwitchedOff,
    /// A secret that it needs is missing or refused.
    NoSecret,
    /// It cannot be set up as it is configured.
    Unusable,
}

/// A provider's state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProviderFact {
    /// There is none of that name.
    Missing,
    /// It takes no calls, for this reason.
    Disabled(Outage),
    /// An operator has stopped it.
    Killed,
    /// It takes calls.
    Enabled,
}

/// An action of the catalogue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OperationFact {
    /// The level it declares.
    pub declared: Level,
    /// The level that this call demands.
    pub demanded: Level,
    /// The required approval, unless the action is switched off.
    pub setting: ApprovalMode,
    /// The chats in which it may be used at all, compared with the chat of this call.
    pub chats: ChatsFact,
}

/// The account of a person that an action works with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AccountFact {
    /// The action needs no account.
    NotNeeded,
    /// The person has the account.
    Linked,
    /// The person has no account at the provider, or none of that name.
    NotLinked,
    /// The person has these accounts, and the call names none.
    Ambiguous(Vec<String>),
}

/// The parameters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ParamsFact {
    /// They were not parsed, because there is no such action.
    Unparsed,
    /// They fit.
    Valid,
    /// Every error, with its place.
    Faulty(Vec<String>),
}

/// The judgement of the guardrails.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GuardFact {
    /// They were not asked, because the parameters do not fit.
    Unasked,
    /// The call is within the guardrails.
    Pass,
    /// Only the remote can tell.
    NeedsRemote,
    /// The credential of the account must be renewed first.
    NeedsRenewal,
    /// The call is outside the guardrails.
    Refuse {
        /// `guardrail`, `repo_not_allowed` or `range_too_wide`.
        code: Code,
        /// The reason: one sentence.
        reason: String,
    },
}

/// The governance task that the call names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TaskFact {
    /// It names none.
    NotGiven,
    /// There is none of that name that is open and assigned to the caller.
    Unusable,
    /// It is open and assigned to the caller.
    Usable,
}

/// The gate of production actions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GateFact {
    /// The grant names no gate, or one that the configuration does not know.
    NotConfigured,
    /// Fewer approvals by others than the gate needs.
    Closed(Gate),
    /// Enough approvals; these will be spent.
    Open(Gate, Vec<i64>),
}
