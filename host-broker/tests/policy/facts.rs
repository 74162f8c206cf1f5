//! Facts for the tests: some that permit, and random ones.

use model::Exposed;
use model::Exposure;
use model::Publication;
use model::approval::ApprovalReason;
use policy::facts::{
    AccountFact, Agreed, AgreedBy, ChatsFact, EgressFact, Facts, GateFact, GrantFact, GuardFact, KilledBy, LimitsFact,
    LiveGrant, OperationFact, Outage, ParamsFact, PersonFact, ProviderFact, RulesFact, SessionFact, TaskFact,
};
use policy::profile::ApprovalMode;
use proptest::prelude::*;
use shared::digest::Digest;
use shared::{Code, Level, Timestamp};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

/// A developer who may write reads something: everything is in order.
pub(super) fn orderly() -> Facts {
    Facts {
        caller: "Group 'developer'".to_owned(),
        provider: "github".parse().unwrap(),
        action: "merge_pr".parse().unwrap(),
        kill: None,
        stale: None,
        grant: GrantFact::Live(live(Level::Write, Level::Read)),
        person: PersonFact::Known,
        provider_state: ProviderFact::Enabled,
        operation: Some(operation(Level::Read)),
        account: AccountFact::NotNeeded,
        params: ParamsFact::Valid,
        guard: GuardFact::Pass,
        task: TaskFact::NotGiven,
        gate: GateFact::NotConfigured,
        rules: RulesFact::Permit { rule: "default".to_owned() },
        session: SessionFact { earlier: Arc::default(), adds: Exposure::NONE, own: false, waived: false },
        departing: EgressFact::Clean,
        counted_as: "group:developer".to_owned(),
        limits: LimitsFact::Within(Vec::new()),
        nested: None,
        agreed: None,
    }
}

/// A grant of this level that knows the action at that level and restricts nothing.
pub(super) fn live(level: Level, catalogued: Level) -> LiveGrant {
    LiveGrant { level, catalogued: Some(catalogued), allowed: true, denied: false, chats: ChatsFact::Any }
}

/// An action that demands what it declares.
pub(super) fn operation(level: Level) -> OperationFact {
    OperationFact { declared: level, demanded: level, setting: ApprovalMode::Rules, chats: ChatsFact::Any }
}

pub(super) fn closed() -> GateFact {
    GateFact::Closed("Security".parse().unwrap())
}

pub(super) fn open() -> GateFact {
    GateFact::Open("Security".parse().unwrap(), vec![7])
}

/// Any facts at all, but such that a permit is not too rare to be met. Each byte chooses one fact, and 0 chooses
/// what is in order, so that a failing case shrinks towards orderly facts.
pub(super) fn any_facts() -> impl Strategy<Value = Facts> {
    prop::array::uniform26(any::<u8>()).prop_map(|bytes| chosen(&bytes))
}

/// One of these; a byte below 160 chooses the first.
fn choose<T: Clone, const N: usize>(byte: u8, choices: &[T; N]) -> T {
    let index = if byte < 160 { 0 } else { usize::from(byte) % N };
    choices[index].clone()
}

/// One of these, each as often.
fn evenly<T: Clone, const N: usize>(byte: u8, choices: &[T; N]) -> T {
    choices[usize::from(byte) % N].clone()
}

/// A person's yes to the call.
pub(super) fn agreed() -> Agreed {
    Agreed { by: AgreedBy::Approval(1), reference: "ask-1".to_owned(), covers: BTreeSet::from([ApprovalReason::Tier]) }
}

/// The exposure of these bits.
pub(super) fn exposure(bits: u8) -> Exposure {
    Exposure { untrusted: bits & 1 != 0, sensitive: bits & 2 != 0, egress: bits & 4 != 0 }
}

/// A session that called one action, which exposed it to this, and now calls one that exposes it to that.
pub(super) fn session(before: Exposure, adds: Exposure) -> SessionFact {
    let earlier = Exposed {
        provider: "mail".parse().unwrap(),
        action: "read".parse().unwrap(),
        at: Timestamp::from_millis(0),
        exposes: before,
    };
    SessionFact { earlier: Arc::from([earlier]), adds, own: false, waived: false }
}

/// Another publication is in force than this one.
pub(super) fn stale() -> Publication {
    Publication { host: "a".parse().unwrap(), number: 3, digest: Digest::ZERO }
}

/// Nothing says who stands behind the call.
pub(super) fn nobody(code: Code) -> PersonFact {
    PersonFact::Unknown { code, reason: code.meaning().to_owned() }
}

/// More than one may do.
pub(super) fn exceeded(code: Code) -> LimitsFact {
    LimitsFact::Exceeded { code, reason: "It is too much.".to_owned(), retry_after: Some(Duration::from_secs(1)) }
}

fn chosen_operation(bytes: &[u8; 26], declared: Level, demanded: Level) -> OperationFact {
    OperationFact {
        declared,
        demanded,
        setting: if bytes[2] > 230 {
            ApprovalMode::Off
        } else if bytes[2] > 180 {
            ApprovalMode::Human
        } else if bytes[2] > 140 {
            ApprovalMode::Auto
        } else {
            ApprovalMode::Rules
        },
        chats: match bytes[25] % 32 {
            31 => ChatsFact::Elsewhere,
            29..31 => ChatsFact::Here,
            _ => ChatsFact::Any,
        },
    }
}

fn chosen(bytes: &[u8; 26]) -> Facts {
    let rule = || "a".to_owned();
    let found_in_it = vec!["It has hidden characters.".to_owned()];
    let covers = [ApprovalReason::Trifecta, ApprovalReason::Departing, ApprovalReason::Tier].into_iter().zip([1, 2, 4]);
    let covers = covers.filter(|(_, bit)| bytes[16] & bit != 0).map(|(ask, _)| ask).collect();
    let refuse = |code: Code| GuardFact::Refuse { code, reason: format!("The {} says no.", code.word()) };
    let declared = evenly(bytes[0], &Level::ALL);
    let demanded = choose(bytes[1], &[declared, Level::Read, Level::Write, Level::Production]);
    let found = chosen_operation(bytes, declared, demanded);
    let live = chosen_grant(bytes, declared);
    Facts {
        kill: choose(bytes[8], &[None, None, Some(KilledBy::Everything), Some(KilledBy::Caller)]),
        stale: (bytes[24] % 16 == 1).then(stale),
        grant: choose(
            bytes[9],
            &[
                GrantFact::Live(live.clone()),
                GrantFact::Live(live),
                GrantFact::None,
                GrantFact::Expired,
                GrantFact::Refused(Code::FlowExternalGrantRevoked),
            ],
        ),
        // Every sixteenth is a person's own.
        provider: if bytes[24].is_multiple_of(16) { "person.mail" } else { "github" }.parse().unwrap(),
        person: choose(
            bytes[23],
            &[
                PersonFact::Known,
                nobody(Code::ContextTokenMissing),
                nobody(Code::ContextTokenInvalid),
                nobody(Code::ContextTokenExpired),
            ],
        ),
        provider_state: choose(
            bytes[10],
            &[
                ProviderFact::Enabled,
                ProviderFact::Missing,
                ProviderFact::Disabled(Outage::NoSecret),
                ProviderFact::Killed,
            ],
        ),
        operation: choose(bytes[11], &[Some(found), Some(found), Some(found), None]),
        account: match bytes[25] {
            250..252 => AccountFact::NotLinked,
            248..250 => AccountFact::Ambiguous(vec!["home".to_owned(), "work".to_owned()]),
            240..248 => AccountFact::Linked,
            _ => AccountFact::NotNeeded,
        },
        params: choose(
            bytes[12],
            &[ParamsFact::Valid, ParamsFact::Unparsed, ParamsFact::Faulty(vec!["/number: is missing".to_owned()])],
        ),
        guard: choose(
            bytes[13],
            &[
                GuardFact::Pass,
                GuardFact::NeedsRemote,
                refuse(Code::Guardrail),
                refuse(Code::RepoNotAllowed),
                refuse(Code::RangeTooWide),
                GuardFact::Unasked,
            ],
        ),
        task: evenly(bytes[14], &[TaskFact::NotGiven, TaskFact::Usable, TaskFact::Unusable]),
        gate: evenly(bytes[15], &[open(), GateFact::NotConfigured, closed()]),
        rules: choose(
            bytes[17],
            &[
                RulesFact::Permit { rule: rule() },
                RulesFact::Unasked,
                RulesFact::NotEvaluable { why: "they cannot represent `/cents`".to_owned() },
                RulesFact::NoMatch,
                RulesFact::Forbid { rule: rule(), reason: None },
                RulesFact::Forbid { rule: rule(), reason: Some("Not today.".to_owned()) },
                RulesFact::Failed { rule: rule() },
            ],
        ),
        session: SessionFact {
            waived: bytes[18] > 200,
            // Half of the sessions have called nothing yet.
            ..session(exposure(if bytes[19] < 128 { 0 } else { bytes[19] }), exposure(bytes[20]))
        },
        departing: choose(
            bytes[21],
            &[EgressFact::Clean, EgressFact::Suspicious(found_in_it.clone()), EgressFact::Hostile(found_in_it)],
        ),
        limits: choose(
            bytes[22],
            &[
                LimitsFact::Within(Vec::new()),
                exceeded(Code::RateLimited),
                exceeded(Code::QuotaExceeded),
                exceeded(Code::BreakerOpen),
            ],
        ),
        nested: None,
        agreed: bytes[2].is_multiple_of(3).then(|| Agreed { covers, ..agreed() }),
        ..orderly()
    }
}

fn chosen_grant(bytes: &[u8; 26], declared: Level) -> LiveGrant {
    LiveGrant {
        level: evenly(bytes[3], &[Level::Production, Level::Write, Level::Read]),
        catalogued: choose(bytes[4], &[Some(declared), None, Some(Level::Read), Some(Level::Write)]),
        allowed: bytes[5] <= 220,
        denied: bytes[6] > 220,
        chats: if bytes[7] > 245 {
            ChatsFact::Elsewhere
        } else if bytes[7] > 230 {
            ChatsFact::Here
        } else {
            ChatsFact::Any
        },
    }
}
