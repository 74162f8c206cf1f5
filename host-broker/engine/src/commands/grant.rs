//! Grants. The main group's agent grants up to a ceiling; above it an approval is needed.

use super::grant_approval::{GrantQuestion, answered};
use super::{CommandResult, RowSubject, write};
use crate::approval_requests;
use crate::broker::Broker;
use crate::commands::CommandOutcome;
use crate::request::{Command, CommandRequest};
use config::near_miss;
use kernel::call::Header;
use model::approval::{Approval, ApprovalState, SubjectKind};
use model::card::Card;
use model::{ChatType, Exposure, Subject};
use serde_json::{Value, json};
use shared::digest::Digest;
use shared::request::GrantRequest;
use shared::{Action, Code, Gate, Group, Level, Provider, Timestamp};
use std::collections::BTreeMap;
use store::ledger::chain::RowKind;
use store::state::approvals;
use store::state::grants;
use store::state::grants::Grant;
use store::state::sessions;
use store::{StoreError, Transaction};

impl Broker {
    /// Makes a grant, or sends an approval request for it.
    pub(super) fn grant(
        &mut self,
        tx: &Transaction<'_>,
        command_request: &CommandRequest,
        request: &GrantRequest,
    ) -> Result<CommandOutcome, StoreError> {
        let header = &command_request.header;
        let no = |approval: Option<&Approval>, code: Code, reason: String| {
            write(tx, command_request, approval, CommandResult::No { code, reason }).map(CommandOutcome::Answered)
        };
        let asked = match answered(tx, command_request)? {
            Ok(asked) => asked,
            Err(over) => return Ok(over),
        };
        let catalogue = match self.grantable(request) {
            Ok(catalogue) => catalogue,
            Err(reason) => return no(asked.as_ref(), Code::InvalidParams, reason),
        };
        // The grant is the one on the card, so its time runs from the approval request.
        let since = asked.as_ref().map_or(tx.now(), |approval| approval.asked_at);
        let mut grant = Grant::of(request, &header.caller_key, since, catalogue);
        if grant.expires_at.is_some_and(|at| at > Timestamp::LATEST) {
            let reason = "The grant would end after the year 9999; let it end earlier, or never.";
            return no(asked.as_ref(), Code::InvalidParams, reason.into());
        }
        if grant.is_expired(tx.now()) {
            return no(asked.as_ref(), Code::InvalidParams, "The grant would have expired already.".into());
        }
        let stored = grants::find(tx.view(), &grant.group, &grant.provider)?.own.clone();
        if matches!(command_request.command, Command::Narrow(_)) {
            let Some(narrower) = stored.as_ref().and_then(|stored| grant.within(stored)) else {
                let reason = "The present grant or its provider has changed, so this would not narrow it.";
                return no(None, Code::InvalidParams, reason.into());
            };
            grant = narrower;
        }
        let above = match header.caller.group() {
            Some(group) => match self.above_the_ceiling(group, &grant, stored.as_ref()) {
                Some(reason) => Some((group, reason)),
                None => self.lets_out(tx, &header.caller_key, group, &grant)?.map(|reason| (group, reason)),
            },
            None => None,
        };
        if let Some((granter, reason)) = &above {
            let digest = agreement(granter, &header.behalf, request, &grant, stored.as_ref());
            match &asked {
                None => return self.ask_for(tx, command_request, granter, request, &grant, stored.as_ref(), reason),
                Some(approval) if approval.state == ApprovalState::Approved && approval.digest == digest => {
                    approvals::spend(tx, approval.id)?;
                    // An agent later gives no more than an approver approved.
                    let answers = approvals::answers(tx.view(), approval.id)?;
                    if let Some(person) = answers.into_iter().find(|answer| answer.yes) {
                        grant.granted_by = person.by;
                    }
                }
                Some(approval) => {
                    let reason = "The approved grant differs from the grant that would be given now.".into();
                    return no(Some(approval), Code::ApprovalRequired, reason);
                }
            }
        }
        if above.is_none()
            && header.caller.group().is_some()
            && let Some(stored) = stored.as_ref().filter(|stored| stored.was_set_by_person())
        {
            // SECURITY: a grant that an agent repeats or narrows remains a person's; the next one must not widen it.
            grant.granted_by.clone_from(&stored.granted_by);
        }
        grant.granted_at = tx.now();
        grants::put(tx, &grant)?;
        self.follow_ups.stale_snapshots.insert(grant.group.clone());
        let expiry = grant.expires_at.map_or_else(|| "without expiry".to_owned(), |at| format!("until {at}"));
        let said = CommandResult::Done {
            kind: RowKind::Granted,
            subject: RowSubject { provider: Some(grant.provider.clone()), level: Some(grant.level), task_id: None },
            body: json!({ "grant": grant_value(&grant) }),
            data: json!({ "granted": true, "grant": grant_value(&grant) }),
            summary: format!(
                "{} now has {} access to {} {expiry}.{}{}{}{}",
                grant.group,
                grant.level,
                grant.provider,
                only_in_chats(&grant),
                gives_nothing(request, &grant),
                lacks_gate(&grant),
                self.outage(header, &grant)
            ),
        };
        let gives = grant.level > Level::None;
        let answer = write(tx, command_request, asked.as_ref(), said)?;
        if gives && header.caller.group().is_some() {
            // The row of the grant is the last one now.
            sessions::let_out(tx, &header.caller_key, (&grant.provider, "ext_grant"), tx.head().seq)?;
        }
        Ok(CommandOutcome::Answered(answer))
    }

    /// Returns the sentence for a person about a provider that takes no calls now; empty if it takes some. The reason is not
    /// for agents.
    fn outage(&self, header: &Header, grant: &Grant) -> String {
        let state = self.catalogue.provider(&grant.provider).map(|listed| &listed.state);
        match state {
            Some(Err(reason)) if header.caller.group().is_none() && grant.level > Level::None => {
                format!(" {} takes no calls now: {}.", grant.provider, reason.trim_end_matches('.'))
            }
            Some(_) | None => String::new(),
        }
    }

    /// Returns the reason why a person must make the grant, if the session of its agent has read private data and
    /// untrusted content: a grant is a way out to another group.
    fn lets_out(
        &self,
        tx: &Transaction<'_>,
        caller: &str,
        granter: &Group,
        grant: &Grant,
    ) -> Result<Option<String>, StoreError> {
        let both = grant.level > Level::None && self.completes_trifecta(tx, caller, granter, &grant.provider)?;
        Ok(both.then(|| {
            "The main group's session has read private data and untrusted content, and a grant is an egress channel; a \
             person must make it."
                .to_owned()
        }))
    }

    /// Returns whether a way out to this provider completes the trifecta in the session of the main group's agent.
    pub(super) fn completes_trifecta(
        &self,
        tx: &Transaction<'_>,
        caller: &str,
        granter: &Group,
        provider: &Provider,
    ) -> Result<bool, StoreError> {
        if self.policy.profiles.waives(granter, provider) {
            return Ok(false);
        }
        let exposed = sessions::exposures(tx.view(), caller)?;
        let of = |is: fn(&Exposure) -> bool| exposed.iter().any(|exposed| is(&exposed.exposes));
        Ok(of(|exposes| exposes.sensitive) && of(|exposes| exposes.untrusted))
    }

    /// Sends an approval request for a grant above the ceiling.
    #[expect(clippy::too_many_arguments, reason = "everything that a person is shown")]
    fn ask_for(
        &mut self,
        tx: &Transaction<'_>,
        command_request: &CommandRequest,
        granter: &Group,
        request: &GrantRequest,
        grant: &Grant,
        stored: Option<&Grant>,
        reason: &str,
    ) -> Result<CommandOutcome, StoreError> {
        let digest = agreement(granter, &command_request.header.behalf, request, grant, stored);
        let mut card = Card::new();
        card.say("Workspace", granter.as_str());
        approval_requests::add_subject(&mut card, &command_request.header.behalf);
        card.say("Action", "give access");
        card.say("In short", &format!("{} gets {} access to {}", grant.group, grant.level, grant.provider));
        card.reasons.push(reason.to_owned());
        let question = GrantQuestion {
            kind: SubjectKind::Grant,
            grant,
            digest,
            pause_key: digest,
            card,
            shown: json!({ "gives": shown(grant), "instead_of": stored.map(shown) }),
            document: serde_json::to_vec(request).unwrap_or_default(),
            summary: format!("asks that {} gets {} access to {}", grant.group, grant.level, grant.provider),
        };
        self.ask_about_grant(tx, command_request, question)
    }

    /// Returns the catalogue that the grant would be bound to, or every error of the request.
    fn grantable(&self, request: &GrantRequest) -> Result<BTreeMap<Action, Level>, String> {
        if let Some(fault) = self.unknown_group(&request.group_folder) {
            return Err(fault);
        }
        let Some(catalogue) = self.catalogue.levels(&request.provider) else {
            return Err(self.unknown_provider(&request.provider).unwrap_or_default());
        };
        let mut faults: Vec<String> = [&request.allowed_actions, &request.denied_actions]
            .into_iter()
            .flatten()
            .flatten()
            .filter(|action| !catalogue.contains_key(*action))
            .map(|action| {
                let hint = near_miss(action.as_str(), catalogue.keys().map(Action::as_str));
                format!("provider '{}' has no action '{action}'{hint}", request.provider)
            })
            .collect();
        if let Some(gate) = request.requires_task_gate.as_ref().filter(|gate| !self.config.gates.contains_key(*gate)) {
            let hint = near_miss(gate.as_str(), self.config.gates.keys().map(Gate::as_str));
            faults.push(format!("there is no gate '{gate}' in the configuration{hint}"));
        }
        let unknown = |kind: &&String| ChatType::of(kind).is_none();
        faults.extend(request.chat_types.iter().flatten().filter(unknown).map(|_unknown| {
            "chat_types has a kind that no chat is of: private, group and channel are kinds".to_owned()
        }));
        if request.rate_per_minute == Some(0) {
            faults.push("rate_per_minute must be at least 1; access_level 0 gives nothing".to_owned());
        }
        if let Some(allowed) = request.allowed_actions.as_deref()
            && faults.is_empty()
            && request.access_level > Level::None
            && !allowed.is_empty()
            && !allowed.iter().any(|action| is_given(request, action, catalogue.get(action).copied()))
        {
            faults.push(format!("none of the allowed actions is within {}", request.access_level));
        }
        if faults.is_empty() { Ok(catalogue) } else { Err(format!("The grant is not valid: {}.", faults.join("; "))) }
    }

    /// Returns why a main group's agent may not make this grant by itself, if it may not. An agent never widens a grant
    /// that a person has set, revoked or not.
    fn above_the_ceiling(&self, granter: &Group, grant: &Grant, stored: Option<&Grant>) -> Option<String> {
        let ceiling = self.config.grant_ceiling;
        let set_by_person = stored.filter(|stored| stored.was_set_by_person());
        if granter == &grant.group {
            Some("The main group may not grant access to itself; a person must.".to_owned())
        } else if grant.level > ceiling.max_level {
            Some(format!(
                "The main group may grant up to {} by itself; a person must grant {}.",
                ceiling.max_level, grant.level
            ))
        } else if !ceiling.sensitive && self.includes_sensitive(grant) {
            Some("The grant includes actions that read private data; a person must make it.".to_owned())
        } else if set_by_person.is_some_and(|stored| grant.is_wider_than(stored)) {
            Some("The grant is wider than the grant that a person has set; a person must widen it.".to_owned())
        } else {
            None
        }
    }

    fn includes_sensitive(&self, grant: &Grant) -> bool {
        let Some(listed) = self.catalogue.provider(&grant.provider) else { return true };
        listed.operations.values().map(|operation| operation.declaration()).any(|declaration| {
            declaration.exposes.sensitive
                && declaration.level <= grant.level
                && !grant.denied.contains(&declaration.action)
                && grant.allowed.as_ref().is_none_or(|allowed| allowed.contains(&declaration.action))
        })
    }
}

/// Returns the note on a grant that gives no action; empty if it gives one.
fn gives_nothing(request: &GrantRequest, grant: &Grant) -> &'static str {
    let gives = |(action, level): (&Action, &Level)| is_given(request, action, Some(*level));
    if grant.level == Level::None || grant.catalogue.iter().any(gives) {
        ""
    } else {
        " It gives nothing now: the provider has no action that it allows."
    }
}

/// Returns a sentence about the chats to which a grant is limited; empty if it is not.
fn only_in_chats(grant: &Grant) -> String {
    let of = |name: &str, values: &Option<Vec<String>>| {
        values
            .as_ref()
            .map(|values| format!("{name} {}", if values.is_empty() { "none".into() } else { values.join(", ") }))
    };
    let limits: Vec<String> =
        [of("of kind", &grant.chat_types), of("with id", &grant.chat_ids)].into_iter().flatten().collect();
    if limits.is_empty() {
        String::new()
    } else {
        format!(" It covers persons in chats {} only.", limits.join(" and "))
    }
}

/// Returns the note on a grant whose production actions are always refused; empty if there are none.
fn lacks_gate(grant: &Grant) -> String {
    let is_production = |(action, level): (&Action, &Level)| {
        *level >= Level::Production
            && grant.level >= *level
            && !grant.denied.contains(action)
            && grant.allowed.as_ref().is_none_or(|allowed| allowed.contains(action))
    };
    let production: Vec<&str> =
        grant.catalogue.iter().filter(|entry| is_production(*entry)).map(|(action, _)| action.as_str()).collect();
    if grant.gate.is_some() || production.is_empty() {
        return String::new();
    }
    format!(
        " It names no gate, so every call of a production action is refused: {}. To allow them, grant again with a gate.",
        production.join(", ")
    )
}

/// Returns whether the request gives this action, which demands this level.
fn is_given(request: &GrantRequest, action: &Action, demands: Option<Level>) -> bool {
    let denied = request.denied_actions.as_ref().is_some_and(|denied| denied.contains(action));
    let allowed = request.allowed_actions.as_ref().is_none_or(|allowed| allowed.contains(action));
    allowed && !denied && demands.is_some_and(|level| level <= request.access_level)
}

/// Returns the digest of the approved grant: exactly this request, with the present grant and the provider's present
/// actions.
fn agreement(
    granter: &Group,
    behalf: &Subject,
    request: &GrantRequest,
    grant: &Grant,
    stored: Option<&Grant>,
) -> Digest {
    let mut agreed = json!({
        "granter": granter,
        "grant": request,
        "catalogue": grant.catalogue,
        "instead_of": stored.map(grant_value),
    });
    if let (Some(person), Some(members)) = (behalf.key(), agreed.as_object_mut()) {
        members.insert("person".to_owned(), Value::from(person));
    }
    Digest::of(&shared::json::canonical(&agreed))
}

/// Returns a grant for a card, with every action that it allows.
fn shown(grant: &Grant) -> Value {
    let may: Vec<&Action> = grant
        .catalogue
        .iter()
        .filter(|(action, level)| {
            **level <= grant.level
                && !grant.denied.contains(*action)
                && grant.allowed.as_ref().is_none_or(|allowed| allowed.contains(*action))
        })
        .map(|(action, _)| action)
        .collect();
    let mut shown = grant_value(grant);
    if let Some(object) = shown.as_object_mut() {
        object.retain(|name, value| !value.is_null() && !matches!(name.as_str(), "granted_by" | "granted_at"));
        object.insert("actions".into(), json!(may));
        object.entry("expires_at").or_insert_with(|| json!("never"));
    }
    shown
}

/// Returns a grant for lists and rows.
pub fn grant_value(grant: &Grant) -> Value {
    json!({
        "group_folder": grant.group,
        "provider": grant.provider,
        "access_level": grant.level,
        "allowed_actions": grant.allowed_list(),
        "denied_actions": grant.denied_list(),
        "requires_task_gate": grant.gate,
        "granted_by": grant.granted_by,
        "granted_at": grant.granted_at,
        "expires_at": grant.expires_at,
        "active": grant.active,
        "rate_per_minute": grant.rate_per_minute,
        "daily_quota": grant.daily_quota,
        "chat_types": grant.chat_types,
        "chat_ids": grant.chat_ids,
        "temporary": grant.is_temporary,
    })
}
