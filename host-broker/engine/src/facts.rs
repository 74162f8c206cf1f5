//! Gathers the facts of a call in the transaction of its decision.
//!
//! [`judge`] decides for the preparations: a dry run, and the input of a permitted call. `kernel::authorize` decides
//! again on the same facts, and only that makes a permit.

mod external;
mod nested;

use crate::accounts;
use crate::approvals::sealing;
use crate::clean::Filters;
use crate::limits;
use crate::standing_approvals;
use config::Policy;
use kernel::call::{Call, Prepared, Target};
use kernel::contract::{Guard, Invocation, StoreRequest};
use model::approval::{Approval, ApprovalState};
use model::{Caller, ChatType, Declaration, Exposed, Exposure, KillScope, Person, Subject};
use policy::decide::{Decision, Verdict, decide};
use policy::facts::{
    Agreed, AgreedBy, ChatsFact, EgressFact, Facts, GateFact, GrantFact, GuardFact, KilledBy, LiveGrant, OperationFact,
    Outage, ParamsFact, PersonFact, ProviderFact, RulesFact, SessionFact, TaskFact,
};
use policy::profile::{ApprovalMode, Profiles};
use rules::Asking;
use shared::{Action, Gate, Group, TaskId, Timestamp};
use std::borrow::Cow;
use std::sync::Arc;
use store::state::approvals;
use store::state::external_grants::session_of;
use store::state::gates;
use store::state::grants;
use store::state::grants::Grant;
use store::state::kill;
use store::state::proposals;
use store::state::publications;
use store::state::sessions;
use store::{StoreError, View};

/// Returns the facts of a call, and the decision on them. `filters` inspect the outgoing data. `times` are the times of
/// the machine's clock and of the steady clock.
///
/// # Errors
/// [`StoreError`] if a fact cannot be read; the call must then be refused.
pub fn judge(
    connection: &View,
    times: (Timestamp, Timestamp),
    call: &Call,
    policy: &Policy,
    filters: Option<&Filters>,
) -> Result<(Facts, Decision), StoreError> {
    judge_after(connection, times, call, (policy, filters), &[])
}

/// Does the same as if the calls with these exposures had run before.
///
/// # Errors
/// [`StoreError`] if a fact cannot be read; the call must then be refused.
pub(crate) fn judge_after(
    connection: &View,
    times: (Timestamp, Timestamp),
    call: &Call,
    (policy, filters): (&Policy, Option<&Filters>),
    before: &[Exposed],
) -> Result<(Facts, Decision), StoreError> {
    let mut facts = facts(connection, times, call, (policy, filters), before)?;
    let decision = decide(&facts);
    // A caller without the authority for a call costs the others no time for the nested one.
    if let Some(nested) = call.nested.as_ref().filter(|_| decision.has_authority()) {
        facts.nested = Some(Box::new(nested::facts(connection, times, (&nested.call, &facts), policy, filters)?));
        let decision = decide(&facts);
        return Ok((facts, decision));
    }
    // A standing approval is looked for only where a person would be asked.
    if facts.agreed.is_none() && matches!(decision.verdict, Verdict::RequireApproval { .. }) {
        let asks = decision.asks().into_iter().map(|(ask, _)| ask).collect();
        facts.agreed = standing_approvals::covering(connection, times.0, call, policy, (&facts.session, &asks))?;
        let decision = if facts.agreed.is_some() { decide(&facts) } else { decision };
        return Ok((facts, decision));
    }
    Ok((facts, decision))
}

fn facts(
    connection: &View,
    (now, steady): (Timestamp, Timestamp),
    call: &Call,
    (policy, filters): (&Policy, Option<&Filters>),
    before: &[Exposed],
) -> Result<Facts, StoreError> {
    let killed = kill::find(connection, call.header.caller.policy_group(), &call.provider)?;
    let grants = match call.header.caller.group() {
        Some(group) => grants::find(connection, group, &call.provider)?,
        None => Arc::default(),
    };
    let declared = call.target.operation().map(|operation| operation.declaration().level);
    let stored = grants.deciding(&call.action, (declared, call.target.demanded()), now);
    let counted_as = counted_as(connection, call)?;
    let tables = (&policy.limits, &policy.shared_quotas);
    let limits = limits::fact(connection, (now, steady), (call, &counted_as), tables, stored)?;
    let session = session_fact(connection, call, policy, before)?;
    let (grant, gate) = match &call.header.caller {
        Caller::External(access) => external::grant_fact(connection, now, call, access, &policy.flows)?,
        Caller::Group(_) | Caller::Person(_) | Caller::Operator(_) | Caller::Broker => {
            let gate = stored.and_then(|grant| grant.gate.clone());
            (grant_fact(stored, &call.action, call.header.behalf.person(), now), gate)
        }
    };
    let departing = departing_fact(call, &grant, filters);
    let rules = rules_fact(call, now, policy, &session, &grant);
    Ok(Facts {
        grant,
        caller: sentence_subject(&call.header.caller),
        provider: call.provider.clone(),
        action: call.action.clone(),
        kill: match &killed {
            Some(KillScope::All) => Some(KilledBy::Everything),
            Some(KillScope::Group(_)) => Some(KilledBy::Caller),
            Some(KillScope::Provider(_)) | None => None,
        },
        stale: publications::stale(connection),
        person: person_fact(&call.header.behalf),
        provider_state: match (&call.target, killed) {
            (_, Some(KillScope::Provider(_))) => ProviderFact::Killed,
            (Target::NoProvider, _) => ProviderFact::Missing,
            (Target::Disabled(_, outage), _) => ProviderFact::Disabled(*outage),
            (Target::Unusable, _) => ProviderFact::Disabled(Outage::Unusable),
            (Target::NoAction | Target::Action(..) | Target::Started(..), _) => ProviderFact::Enabled,
        },
        operation: operation_fact(call, &policy.profiles),
        account: accounts::fact(connection, call)?,
        params: params_fact(call),
        guard: guard_fact(call, now),
        task: task_fact(connection, &call.header.caller, call.task_id.as_ref())?,
        gate: gate_fact(connection, &call.header.caller, call.task_id.as_ref(), gate, policy)?,
        rules,
        session,
        departing,
        limits,
        counted_as,
        agreed: agreed(connection, now, call, policy)?,
        nested: None,
    })
}

/// Returns the approval of exactly this call. A call that has changed since is a different one.
fn agreed(connection: &View, now: Timestamp, call: &Call, policy: &Policy) -> Result<Option<Agreed>, StoreError> {
    if let Some(StoreRequest::ToApply(id, path)) = call.target.invocation().map(Invocation::needs) {
        let caller = &call.header.caller_key;
        let Some(proposal) = proposals::find_at(connection, caller, id, path)? else { return Ok(None) };
        let free = proposal.approval.quorum == 0;
        let digest =
            crate::approvals::digest_of_proposal(caller, &call.provider, policy, id, proposal.patch_hash, free);
        let approval = proposal.approval;
        let agreed = approval.state == ApprovalState::Approved && proposal.until > now && approval.digest == digest;
        return Ok(agreed.then(|| yes(approval)));
    }
    if !call.is_resumed() {
        return Ok(None);
    }
    let approval = approvals::of_request(connection, &call.header.caller_key, &call.header.request_id)?;
    let Some(approval) = approval.filter(|approval| approval.state == ApprovalState::Approved) else { return Ok(None) };
    let agreed = sealing::is_about(connection, &approval, call, policy)?;
    Ok(agreed.then(|| yes(approval)))
}

fn yes(approval: Approval) -> Agreed {
    Agreed { by: AgreedBy::Approval(approval.id), reference: approval.reference(), covers: approval.asks }
}

/// Returns the judgement of the rules. They decide where the profile leaves the call to them; elsewhere they can only
/// forbid. They are asked about valid parameters only.
fn rules_fact(call: &Call, now: Timestamp, policy: &Policy, session: &SessionFact, grant: &GrantFact) -> RulesFact {
    // Only a call from a mailbox has a weight. Any other (`explain`, an external agent, a readmitted call) reaches the
    // rules without a grant, too.
    let is_made = call.header.weight.is_some();
    if is_made && !is_granted(grant, call) {
        return RulesFact::Unasked;
    }
    let group = call.header.caller.policy_group();
    let operation = operation_fact(call, &policy.profiles);
    let (Some(OperationFact { setting, demanded, .. }), Some(group), Some(_fits)) =
        (operation, group, call.target.invocation())
    else {
        return RulesFact::Unasked;
    };
    let decides = setting == ApprovalMode::Rules;
    // The parameters are only read if there are rules to ask about them.
    if setting == ApprovalMode::Off || !policy.rules.are_asked(decides) {
        return RulesFact::Unasked;
    }
    let asking = Asking {
        group,
        provider: &call.provider,
        action: &call.action,
        demanded,
        decides,
        task: call.task_id.as_ref(),
        person: call.header.behalf.person(),
        session: session.so_far(),
        now,
    };
    match call.params.members() {
        Some(params) => policy.rules.decide(&asking, params),
        None => RulesFact::NotEvaluable { why: "its parameters cannot be read".to_owned() },
    }
}

/// Returns the findings in the outgoing data, if the caller has the authority. A caller without it costs the others no
/// time.
fn departing_fact(call: &Call, grant: &GrantFact, filters: Option<&Filters>) -> EgressFact {
    let leaves = call.target.operation().is_some_and(|operation| operation.declaration().exposes.egress);
    match (filters, call.target.invocation()) {
        (Some(filters), Some(_fits)) if leaves && is_granted(grant, call) => {
            call.departing.clone().unwrap_or_else(|| filters.departing(call.params.value()))
        }
        (Some(_) | None, Some(_) | None) => EgressFact::Clean,
    }
}

/// Returns whether the caller has the authority for the call. Only then are the costly checks made: an attacker without
/// a grant costs the others no time.
fn is_granted(grant: &GrantFact, call: &Call) -> bool {
    let GrantFact::Live(grant) = grant else { return false };
    grant.level >= call.target.demanded() && grant.allowed && !grant.denied && grant.chats != ChatsFact::Elsewhere
}

/// Returns the key under which a call's use counts. All grants of one external agent share one key.
///
/// # Errors
/// [`StoreError`] if the external grant cannot be read.
fn counted_as(connection: &View, call: &Call) -> Result<String, StoreError> {
    store::state::external_grants::counted_as(connection, &call.header.caller_key).map(Cow::into_owned)
}

fn session_fact(
    connection: &View,
    call: &Call,
    policy: &Policy,
    before: &[Exposed],
) -> Result<SessionFact, StoreError> {
    let (adds, own) = exposure(call, &policy.profiles);
    let stored = sessions::exposures(connection, &session_of(connection, &call.header.caller_key)?)?;
    Ok(SessionFact {
        earlier: if before.is_empty() { stored } else { stored.iter().chain(before).cloned().collect() },
        adds,
        own,
        waived: call.header.caller.policy_group().is_some_and(|group| policy.profiles.waives(group, &call.provider)),
    })
}

/// Returns the exposure of a call, and whether it has no egress channel because all of its destinations are the owner's
/// own.
pub(crate) fn exposure(call: &Call, profiles: &Profiles) -> (Exposure, bool) {
    let Some(declaration) = call.target.operation().map(|operation| operation.declaration()) else {
        return (Exposure::NONE, false);
    };
    let exposes = declaration.exposes;
    let own = || {
        let (group, kind) = (call.header.caller.policy_group()?, declaration.destinations?);
        let destinations = call.target.invocation()?.destinations()?;
        Some(profiles.own(group, &call.provider, (kind, &destinations)))
    };
    if exposes.egress && own() == Some(true) {
        return (Exposure { egress: false, ..exposes }, true);
    }
    (exposes, false)
}

fn sentence_subject(caller: &Caller) -> String {
    match caller {
        Caller::Group(group) => format!("Group '{group}'"),
        Caller::Person(name) => format!("Person '{name}'"),
        Caller::External(access) => format!("External agent '{access}'"),
        Caller::Operator(token) => format!("Operator '{token}'"),
        Caller::Broker => "The broker".to_owned(),
    }
}

/// Returns the fact of a grant for this action, in the chat of this person.
pub(crate) fn grant_fact(grant: Option<&Grant>, action: &Action, person: Option<&Person>, now: Timestamp) -> GrantFact {
    match grant {
        Some(grant) if grant.active && grant.is_expired(now) => GrantFact::Expired,
        Some(grant) if grant.is_live(now) => GrantFact::Live(LiveGrant {
            level: grant.level,
            catalogued: grant.catalogue.get(action).copied(),
            allowed: grant.allowed.as_ref().is_none_or(|allowed| allowed.contains(action)),
            denied: grant.denied.contains(action),
            chats: chats_fact(grant, person),
        }),
        Some(_) | None => GrantFact::None,
    }
}

/// Compares the chats of a grant with the chat of this person.
pub(crate) fn chats_fact(grant: &Grant, person: Option<&Person>) -> ChatsFact {
    let kind = person.and_then(|person| person.chat_type).map(ChatType::word);
    let chat = person.and_then(|person| person.chat_id.as_deref());
    let among = |listed: &Option<Vec<String>>, here: Option<&str>| {
        listed.as_ref().is_none_or(|listed| here.is_some_and(|here| listed.iter().any(|chat| chat == here)))
    };
    match (&grant.chat_types, &grant.chat_ids) {
        (None, None) => ChatsFact::Any,
        (types, ids) if among(types, kind) && among(ids, chat) => ChatsFact::Here,
        (_, _) => ChatsFact::Elsewhere,
    }
}

/// Compares the kinds of chats of an action with the chat of this person.
pub(crate) fn kinds_fact(declaration: &Declaration, person: Option<&Person>) -> ChatsFact {
    let kind = person.and_then(|person| person.chat_type);
    match declaration.chat_types.as_slice() {
        [] => ChatsFact::Any,
        kinds if kind.is_some_and(|kind| kinds.contains(&kind)) => ChatsFact::Here,
        _ => ChatsFact::Elsewhere,
    }
}

fn person_fact(behalf: &Subject) -> PersonFact {
    match behalf {
        Subject::Person(_) => PersonFact::Known,
        Subject::Nobody(why) => PersonFact::Unknown { code: why.code(), reason: why.reason() },
    }
}

fn operation_fact(call: &Call, profiles: &Profiles) -> Option<OperationFact> {
    let declaration = call.target.operation()?.declaration();
    let demanded = call.target.demanded();
    Some(OperationFact {
        declared: declaration.level,
        demanded,
        setting: profiles.setting(call.header.caller.policy_group(), declaration, demanded),
        chats: kinds_fact(declaration, call.header.behalf.person()),
    })
}

fn params_fact(call: &Call) -> ParamsFact {
    let mut faults: Vec<String> = match &call.target {
        Target::Action(_, Ok(_)) => Vec::new(),
        Target::Action(_, Err(faults)) => faults
            .iter()
            .map(|fault| match fault.pointer.as_str() {
                "" => fault.fault.clone(),
                pointer => format!("{pointer}: {}", fault.fault),
            })
            .collect(),
        Target::Started(..) | Target::Disabled(..) | Target::Unusable | Target::NoAction | Target::NoProvider => {
            return ParamsFact::Unparsed;
        }
    };
    let has_accounts = call.target.operation().is_some_and(|operation| operation.declaration().needs_account);
    // A named account must be used. Otherwise the call would run with other credentials.
    if call.account_ref.is_some() && !has_accounts {
        faults.push(format!("{} works with no account, so call again without account_ref", call.action));
    }
    if faults.is_empty() { ParamsFact::Valid } else { ParamsFact::Faulty(faults) }
}

fn guard_fact(call: &Call, now: Timestamp) -> GuardFact {
    let judged = guard_of(&call.target, now);
    let is_due = || call.target.invocation().is_some_and(|invocation| invocation.is_renewal_due(now));
    match judged {
        // A dry run tells of the rules, and not of the age of a token.
        GuardFact::Pass | GuardFact::NeedsRemote if call.prepared == Prepared::Not && !call.dry_run && is_due() => {
            GuardFact::NeedsRenewal
        }
        GuardFact::Pass
        | GuardFact::NeedsRemote
        | GuardFact::NeedsRenewal
        | GuardFact::Unasked
        | GuardFact::Refuse { .. } => judged,
    }
}

/// Returns the judgement of the guardrails alone, for any age of the credential.
pub(crate) fn guard_of(target: &Target, now: Timestamp) -> GuardFact {
    if let Some(refusal) = target.operation().and_then(|operation| operation.withdrawn()) {
        return GuardFact::Refuse { code: refusal.code, reason: refusal.reason };
    }
    match target.invocation().map(|invocation| invocation.guard(now)) {
        None => GuardFact::Unasked,
        Some(Guard::Pass) => GuardFact::Pass,
        Some(Guard::NeedsRemote) => GuardFact::NeedsRemote,
        Some(Guard::Refuse(refusal)) => GuardFact::Refuse { code: refusal.code, reason: refusal.reason },
    }
}

fn task_fact(connection: &View, caller: &Caller, id: Option<&TaskId>) -> Result<TaskFact, StoreError> {
    let Some(id) = id else { return Ok(TaskFact::NotGiven) };
    // For external agents the operator has named the task, and it need not be theirs.
    let is_theirs = |group: &Group| matches!(caller, Caller::External(_)) || Some(group) == caller.group();
    let usable =
        gates::task(connection, id)?.is_some_and(|task| task.state == gates::TaskState::Open && is_theirs(&task.group));
    Ok(if usable { TaskFact::Usable } else { TaskFact::Unusable })
}

fn gate_fact(
    connection: &View,
    caller: &Caller,
    task: Option<&TaskId>,
    gate: Option<Gate>,
    policy: &Policy,
) -> Result<GateFact, StoreError> {
    let Some((gate, quorum)) = gate.and_then(|gate| policy.quorum.get(&gate).copied().map(|quorum| (gate, quorum)))
    else {
        return Ok(GateFact::NotConfigured);
    };
    let Some(task) = task else { return Ok(GateFact::Closed(gate)) };
    let spent = gates::unspent(connection, task, &gate, (&caller.to_string(), quorum))?;
    Ok(if quorum > 0 && spent.len() == quorum { GateFact::Open(gate, spent) } else { GateFact::Closed(gate) })
}
