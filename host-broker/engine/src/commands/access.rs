//! `ext_request`: a group requests access, and a person gives it for a while.
//!
//! ```text
//! request ── may the group request it? ── has it already? ──► card ──► answer, perhaps with less or more
//!                                                                        └──► temporary grant, until it expires
//! ```
//! A temporary grant stands beside the group's own grant and takes nothing from it. It has the restrictions of the own
//! grant, expired and revoked ones too. A new grant and a revocation end it.

use super::grant::grant_value;
use super::grant_approval::{GrantQuestion, answered};
use super::{CommandOutcome, CommandResult, RowSubject, write};
use crate::approval_requests;
use crate::broker::Broker;
use crate::request::CommandRequest;
use config::near_miss;
use model::access::{AccessScope, duration};
use model::approval::{Approval, ApprovalState, SubjectKind};
use model::card::Card;
use serde_json::{Value, json};
use shared::digest::Digest;
use shared::request::AccessRequest;
use shared::{Action, Code, Gate, Group, Level, Provider, Timestamp, limits};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use store::ledger::chain::RowKind;
use store::state::grants::{Grant, Grants, TEMPORARY_MAX};
use store::state::{approvals, grants, kill};
use store::{StoreError, Transaction};

impl Broker {
    /// Sends an approval request for access, or gives the access after the answer.
    pub(super) fn request_access(
        &mut self,
        tx: &Transaction<'_>,
        command_request: &CommandRequest,
        request: &AccessRequest,
    ) -> Result<CommandOutcome, StoreError> {
        let header = &command_request.header;
        let no = |approval: Option<&Approval>, code: Code, reason: String| {
            write(tx, command_request, approval, CommandResult::No { code, reason }).map(CommandOutcome::Answered)
        };
        let asked = match answered(tx, command_request)? {
            Ok(asked) => asked,
            Err(over) => return Ok(over),
        };
        // SECURITY: the refusal is the same for a provider that does not exist.
        let group = header.caller.group().filter(|group| self.config.may_request(group, &request.provider));
        let Some(group) = group else { return no(asked.as_ref(), Code::NoGrant, MAY_NOT.to_owned()) };
        if kill::find(tx.view(), Some(group), &request.provider)?.is_some() {
            return no(asked.as_ref(), Code::KillSwitch, Code::KillSwitch.meaning().to_owned());
        }
        let grants = grants::find(tx.view(), group, &request.provider)?;
        let requested = match self.temporary_grant(group, request, (&AccessScope::default(), &grants), tx.now()) {
            Ok(grant) => grant,
            Err((code, reason)) => return no(asked.as_ref(), code, reason),
        };
        let digest = agreement(header.behalf.key().as_deref(), request, &requested, &grants);
        let Some(approval) = asked else {
            if is_given(&grants, &requested, tx.now()) {
                let summary = format!("{group} has this access already.");
                let said = CommandResult::told(json!({ "granted": false }), summary);
                return write(tx, command_request, None, said).map(CommandOutcome::Answered);
            }
            return self.ask_for_access(tx, command_request, (group, request), (&requested, &grants, digest));
        };
        if approval.state != ApprovalState::Approved || approval.digest != digest {
            let reason = "The approved access differs from the access that would be given now.".to_owned();
            return no(Some(&approval), Code::ApprovalRequired, reason);
        }
        let answers = approvals::answers(tx.view(), approval.id)?;
        let Some(person) = answers.into_iter().rfind(|answer| answer.yes) else {
            return no(Some(&approval), Code::ApprovalRequired, Code::ApprovalRequired.meaning().to_owned());
        };
        let scope = approvals::access(tx.view(), approval.id)?;
        // The time runs from the answer, which a restart does not move.
        let mut grant = match self.temporary_grant(group, request, (&scope, &grants), person.at) {
            Ok(grant) => grant,
            Err((code, reason)) => return no(Some(&approval), code, reason),
        };
        if grant.is_expired(tx.now()) {
            let reason = "The access would have expired already.".to_owned();
            return no(Some(&approval), Code::ApprovalExpired, reason);
        }
        approvals::spend(tx, approval.id)?;
        grant.granted_by = person.by;
        grants::add_temporary(tx, &grant)?;
        self.follow_ups.stale_snapshots.insert(group.clone());
        let changed = if scope.is_empty() { "" } else { " A person changed the request." };
        let said = CommandResult::Done {
            kind: RowKind::Granted,
            subject: RowSubject { provider: Some(grant.provider.clone()), level: Some(grant.level), task_id: None },
            body: json!({ "grant": grant_value(&grant) }),
            data: json!({ "granted": true, "grant": grant_value(&grant) }),
            summary: format!(
                "{group} has {} access to {} until {}: {}.{changed}",
                grant.level,
                grant.provider,
                grant.expires_at.map_or_else(String::new, |at| at.to_string()),
                listed(&grant)
            ),
        };
        write(tx, command_request, Some(&approval), said).map(CommandOutcome::Answered)
    }

    /// Sends the approval request.
    fn ask_for_access(
        &mut self,
        tx: &Transaction<'_>,
        command_request: &CommandRequest,
        (group, request): (&Group, &AccessRequest),
        (grant, grants, digest): (&Grant, &Grants, Digest),
    ) -> Result<CommandOutcome, StoreError> {
        let time = duration(request.duration_s);
        let mut card = Card::new();
        card.say("Workspace", group.as_str());
        approval_requests::add_subject(&mut card, &command_request.header.behalf);
        card.say("Action", "get access for a while");
        card.say("Holds for", "every call of the workspace, for any person and chat that the grant allows");
        card.say("In short", &format!("{group} gets {} access to {} for {time}", grant.level, grant.provider));
        card.say("Own grant", &own_grant(grants, tx.now()));
        card.reasons.push("The agent requests access that the group does not have.".to_owned());
        let question = GrantQuestion {
            kind: SubjectKind::Access,
            grant,
            digest,
            pause_key: pause_key(&grant.provider),
            card,
            shown: shown(request, grant),
            document: serde_json::to_vec(request).unwrap_or_default(),
            summary: format!("asks for {} access to {} for {time}", grant.level, grant.provider),
        };
        self.ask_about_grant(tx, command_request, question)
    }

    /// Checks whether this person may give this access with the answer.
    ///
    /// # Errors
    /// Outside: [`StoreError`]. Inside: the reason; nothing is answered then.
    pub(crate) fn check_access(
        &self,
        tx: &Transaction<'_>,
        (approval, person): (&Approval, &str),
        scope: &AccessScope,
    ) -> Result<Result<(), (Code, String)>, StoreError> {
        let no = |code, reason: &str| Ok(Err((code, reason.to_owned())));
        let (SubjectKind::Access, Some(group)) = (approval.kind, &approval.group) else {
            return no(Code::InvalidParams, "Only a request for access takes a level, actions, a time or a gate.");
        };
        if approval.quorum > 1 {
            return no(
                Code::Guardrail,
                "It takes several approvers, so the access is given as requested or not at all.",
            );
        }
        let stored = approvals::waiting(tx.view(), &approval.caller, &approval.request_id)?;
        let request = stored.and_then(|stored| serde_json::from_slice::<AccessRequest>(&stored.document).ok());
        let Some(request) = request else { return Err(StoreError::Stored { what: "request for access" }) };
        let grants = grants::find(tx.view(), group, &request.provider)?;
        let of = |scope: &AccessScope| self.temporary_grant(group, &request, (scope, &grants), tx.now());
        let (requested, grant) = match of(&AccessScope::default()).and_then(|requested| Ok((requested, of(scope)?))) {
            Ok(both) => both,
            Err(fault) => return Ok(Err(fault)),
        };
        let approves = self.config.may_approve(person, Some(group), &grant.provider, grant.level);
        if approves && (self.config.administers(person) || is_within(&grant, &requested)) {
            return Ok(Ok(()));
        }
        let needed = if approves {
            "`admin = true` to give more than is requested".to_owned()
        } else {
            "`approves` with this group, provider and level".to_owned()
        };
        let reason = format!(
            "{person} may not give {} at {}: [people.{person}] in broker.toml needs {needed}.",
            grant.level, grant.provider
        );
        no(Code::Guardrail, &reason)
    }

    /// Makes the temporary grant of a request. Where `scope` has a value, it replaces the requested one.
    ///
    /// # Errors
    /// Why it cannot be given.
    fn temporary_grant(
        &self,
        group: &Group,
        request: &AccessRequest,
        (scope, grants): (&AccessScope, &Grants),
        now: Timestamp,
    ) -> Result<Grant, (Code, String)> {
        let provider = &request.provider;
        let invalid = |reason: String| Err((Code::InvalidParams, reason));
        let Some(catalogue) = self.catalogue.levels(provider) else {
            return Err((Code::ProviderDisabled, Code::ProviderDisabled.meaning().to_owned()));
        };
        let level = scope.access_level.unwrap_or(request.access_level);
        let seconds = scope.duration_s.unwrap_or(request.duration_s);
        let (shortest, longest) = limits::ACCESS_S.into_inner();
        if level == Level::None {
            return invalid("The level must be 1, 2 or 3; deny the request to give nothing.".to_owned());
        }
        if !limits::ACCESS_S.contains(&seconds) {
            return invalid(format!("The access must last {} to {}.", duration(shortest), duration(longest)));
        }
        // SECURITY: restrictions hold in any state of the own grant. An agent could wait for its expiry.
        let own = grants.own.as_ref();
        let allowed = allowed(request, scope, &catalogue, own).map_err(|reason| (Code::InvalidParams, reason))?;
        if let Some(gate) = scope.gate.as_ref().filter(|gate| !self.config.gates.contains_key(*gate)) {
            let hint = near_miss(gate.as_str(), self.config.gates.keys().map(Gate::as_str));
            return invalid(format!("There is no gate '{gate}' in the configuration{hint}."));
        }
        if grants.temporary.iter().filter(|grant| grant.is_live(now)).count() >= TEMPORARY_MAX {
            let reason = format!("The group has {TEMPORARY_MAX} temporary grants at this provider already.");
            return Err((Code::Guardrail, reason));
        }
        Ok(Grant {
            group: group.clone(),
            provider: provider.clone(),
            level,
            allowed: Some(allowed),
            denied: BTreeSet::new(),
            gate: scope.gate.clone().or_else(|| own.and_then(|own| own.gate.clone())),
            granted_by: String::new(),
            granted_at: now,
            expires_at: Some(now.plus(Duration::from_secs(seconds))),
            active: true,
            catalogue,
            rate_per_minute: own.and_then(|own| own.rate_per_minute),
            daily_quota: own.and_then(|own| own.daily_quota),
            chat_types: own.and_then(|own| own.chat_types.clone()),
            chat_ids: own.and_then(|own| own.chat_ids.clone()),
            revoked_by: None,
            is_temporary: true,
        })
    }
}

/// The refusal of a request that the configuration does not allow.
const MAY_NOT: &str = "This group may not request access to this provider. An operator can add the provider to \
                       `may_request` of the group in broker.toml.";

/// Returns the actions of the access. Without a list it has those of the card: each that the requested level covers.
fn allowed(
    request: &AccessRequest,
    scope: &AccessScope,
    catalogue: &BTreeMap<Action, Level>,
    own: Option<&Grant>,
) -> Result<BTreeSet<Action>, String> {
    let level = scope.access_level.unwrap_or(request.access_level);
    let is_above = |action: &Action, level: Level| catalogue.get(action).is_some_and(|demanded| *demanded > level);
    let is_denied = |action: &Action| own.is_some_and(|own| own.denied.contains(action));
    let requested: Option<BTreeSet<Action>> = request.actions.as_ref().map(|list| list.iter().cloned().collect());
    let allowed: BTreeSet<Action> = if let Some(named) = scope.actions.clone().or(requested) {
        if let Some(unknown) = named.iter().find(|action| !catalogue.contains_key(*action)) {
            let hint = near_miss(unknown.as_str(), catalogue.keys().map(Action::as_str));
            return Err(format!("Provider '{}' has no action '{unknown}'{hint}.", request.provider));
        }
        if let Some(denied) = named.iter().find(|action| is_denied(action)) {
            return Err(format!("The group's grant denies '{denied}'; only another grant can allow it."));
        }
        // A person who lowers the level alone leaves out the actions above it.
        let is_lowered = scope.actions.is_none() && level < request.access_level;
        if let Some(above) = named.iter().find(|action| is_above(action, level) && !is_lowered) {
            return Err(format!("Action '{above}' is above {level}."));
        }
        named.into_iter().filter(|action| !is_above(action, level)).collect()
    } else {
        let most = level.min(request.access_level);
        catalogue.keys().filter(|action| !is_above(action, most) && !is_denied(action)).cloned().collect()
    };
    if allowed.is_empty() {
        return Err(format!("Provider '{}' has no such action within {level}.", request.provider));
    }
    Ok(allowed)
}

/// Returns whether the group has all of the access for at least the requested time.
fn is_given(grants: &Grants, wanted: &Grant, now: Timestamp) -> bool {
    let lasts = |grant: &Grant| grant.expires_at.is_none_or(|at| Some(at) >= wanted.expires_at);
    wanted.allowed.iter().flatten().all(|action| {
        let level = wanted.catalogue.get(action).copied();
        let levels = (level, level.unwrap_or(Level::Production));
        grants.own.iter().chain(&grants.temporary).any(|grant| grant.gives(action, levels, now) && lasts(grant))
    })
}

/// Returns the digest of the approved access: exactly this request, with the group's own grant and the provider's
/// present actions.
fn agreement(person: Option<&str>, request: &AccessRequest, grant: &Grant, grants: &Grants) -> Digest {
    Digest::of(&shared::json::canonical(&json!({
        "group": grant.group,
        "person": person,
        "gives": shown(request, grant),
        "access": request,
        "catalogue": grant.catalogue,
        "own": grants.own.as_ref().map(grant_value),
    })))
}

/// Returns the digest that is not asked about again for a while after a denial. It has no reason and no actions, which
/// an agent can vary.
pub(crate) fn pause_key(provider: &Provider) -> Digest {
    Digest::of(&shared::json::canonical(&json!({ "access": provider })))
}

/// Returns whether a grant gives no more than the requested one.
fn is_within(grant: &Grant, requested: &Grant) -> bool {
    let actions = |grant: &Grant| grant.allowed.clone().unwrap_or_default();
    grant.level <= requested.level
        && actions(grant).is_subset(&actions(requested))
        && grant.expires_at <= requested.expires_at
        && grant.gate == requested.gate
}

/// Returns the group's own grant in words: `L1 (read), expired; denies delete_email`.
fn own_grant(grants: &Grants, now: Timestamp) -> String {
    let Some(own) = &grants.own else { return "none".to_owned() };
    let state = match own.expires_at {
        _ if !own.active => "revoked".to_owned(),
        Some(at) if at <= now => format!("expired {at}"),
        Some(at) => format!("until {at}"),
        None => "without expiry".to_owned(),
    };
    let names: Vec<&str> = own.denied.iter().map(Action::as_str).collect();
    let ban = if names.is_empty() { String::new() } else { format!("; denies {}", names.join(", ")) };
    format!("{}, {state}{ban}", own.level)
}

/// Returns the actions of a grant in words: `send_email, delete_email`.
fn listed(grant: &Grant) -> String {
    let names: Vec<&str> = grant.allowed.iter().flatten().map(Action::as_str).collect();
    names.join(", ")
}

/// Returns the request for a card, with the level of each action.
fn shown(request: &AccessRequest, grant: &Grant) -> Value {
    let actions: BTreeMap<&Action, Option<Level>> =
        grant.allowed.iter().flatten().map(|action| (action, grant.catalogue.get(action).copied())).collect();
    let mut shown = json!({
        "provider": request.provider,
        "access_level": request.access_level,
        "actions": actions,
        "duration": duration(request.duration_s),
        "reason": request.reason,
        "requires_task_gate": grant.gate,
        "rate_per_minute": grant.rate_per_minute,
        "daily_quota": grant.daily_quota,
        "chat_types": grant.chat_types,
        "chat_ids": grant.chat_ids,
    });
    if let Some(members) = shown.as_object_mut() {
        members.retain(|_, value| !value.is_null());
    }
    shown
}
