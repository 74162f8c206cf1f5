//! What a decision may look at: everything about one call, and nothing else.

use crate::limits::Charge;
use crate::profile::ApprovalMode;
use model::approval::ApprovalReason;
use model::{Exposed, Exposure};
use shared::{Action, Code, Gate, Level, Provider};
use std::collections::BTreeSet;
use std::time::Duration;

/// The facts of one call, as they are in one transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facts {
    /// Who asks, for sentences: `Group 'developer'`.
    pub caller: String,
    /// The provider asked for.
    pub provider: Provider,
    /// The action asked for.
    pub action: Action,
    /// Which kill switch stops the caller or everything.
    pub kill: Option<KilledBy>,
    /// What the caller was granted at the provider.
    pub grant: GrantFact,
    /// Who stands behind the call.
    pub person: PersonFact,
    /// The provider's state.
    pub provider_state: ProviderFact,
    /// The action, if the catalogue has it.
    pub operation: Option<OperationFact>,
    /// The account that the action works with.
    pub account: AccountFact,
    /// The parameters, or every fault in them.
    pub params: ParamsFact,
    /// What the guardrails say.
    pub guard: GuardFact,
    /// The governance task.
    pub task: TaskFact,
    /// The gate of production actions.
    pub gate: GateFact,
    /// What the rules say.
    pub rules: RulesFact,
    /// What the caller's session has been exposed to, and what this call would add.
    pub session: SessionFact,
    /// What an inspection found in what the call would let leave.
    pub departing: EgressFact,
    /// The key under which its use and exposure count.
    pub counted_as: String,
    /// Rate, quota and breaker.
    pub limits: LimitsFact,
    /// A person's yes to exactly this call, which no intent has spent.
    pub agreed: Option<Agreed>,
}

/// A person's yes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Agreed {
    /// The approval's number.
    pub id: i64,
    /// The name that the caller knows it by.
    pub reference: String,
    /// What stood on the card.
    pub covers: BTreeSet<ApprovalReason>,
}

/// What the rules say of a call. They are asked where the profile says `rules`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RulesFact {
    /// They were not asked.
    Unasked,
    /// They could not be asked about this call.
    NotEvaluable {
        /// Why, without a period.
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
        /// Its own words: one sentence with a period.
        reason: Option<String>,
    },
    /// This rule could not be evaluated.
    Failed {
        /// The rule.
        rule: String,
    },
}

/// What a caller's session has been exposed to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionFact {
    /// The actions that it has called, in the order of their first calls.
    pub earlier: Vec<Exposed>,
    /// What this call would add.
    pub adds: Exposure,
    /// Whether the profile has switched the step off for this provider.
    pub waived: bool,
}

impl SessionFact {
    /// What the session has been exposed to before this call.
    pub fn so_far(&self) -> Exposure {
        self.earlier.iter().fold(Exposure::NONE, |all, exposed| all.and(exposed.exposes))
    }
}

/// What an inspection found in what a call would let leave; the reasons are sentences with a period.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EgressFact {
    /// Nothing, or nothing leaves.
    Clean,
    /// A person should look at it.
    Suspicious(Vec<String>),
    /// It must not leave.
    Hostile(Vec<String>),
}

/// How much a caller may do in a time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LimitsFact {
    /// There is room for this call, which uses this up.
    Within(Vec<Charge>),
    /// There is none.
    Exceeded {
        /// `rate_limited`, `quota_exceeded` or `breaker_open`.
        code: Code,
        /// One sentence with a period.
        reason: String,
        /// When there may be room.
        retry_after: Option<Duration>,
    },
}

/// What a kill switch stops.
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
    /// Over.
    Expired,
    /// In force.
    Live(LiveGrant),
    /// The access of an external agent does not hold, for this reason.
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
    /// From which chats.
    pub chats: ChatsFact,
}

/// From which chats a grant, or the action itself, lets call, held against the one that this call comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChatsFact {
    /// It does not matter.
    Any,
    /// From certain ones, and this is one.
    Here,
    /// From certain ones, and this is none, or there is none.
    Elsewhere,
}

/// Who stands behind a call, as far as a token proves it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PersonFact {
    /// A person.
    Known,
    /// Nobody who is known.
    Unknown {
        /// `context_token_missing`, `context_token_invalid` or `context_token_expired`.
        code: Code,
        /// One sentence with a period.
        reason: String,
    },
}

/// Why a provider takes no calls.
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
    /// The level that this very call demands.
    pub demanded: Level,
    /// Who else must agree, if it is not switched off.
    pub setting: ApprovalMode,
    /// In which chats it may be used at all, held against the one that this call comes from.
    pub chats: ChatsFact,
}

/// The account of a person that an action works with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AccountFact {
    /// It works with none.
    NotNeeded,
    /// The person has it.
    Linked,
    /// The person has none there, or none of that name.
    NotLinked,
    /// The person has these, and the call does not say which.
    Ambiguous(Vec<String>),
}

/// The parameters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ParamsFact {
    /// They were not looked at, because there is no such action.
    Unparsed,
    /// They fit.
    Valid,
    /// Every fault: where, and what.
    Faulty(Vec<String>),
}

/// What the guardrails say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GuardFact {
    /// They were not asked, because the parameters do not fit.
    Unasked,
    /// Within them.
    Pass,
    /// Only the remote can tell.
    NeedsRemote,
    /// Outside.
    Refuse {
        /// `guardrail`, `repo_not_allowed` or `range_too_wide`.
        code: Code,
        /// One sentence.
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
    /// Fewer approvals by others than it takes.
    Closed(Gate),
    /// Enough; these will be spent.
    Open(Gate, Vec<i64>),
}
