//! The card of a call, with the person on whose behalf it is made.

use crate::facts;
use kernel::call::Call;
use kernel::contract::Invocation;
use model::approval::ApprovalReason;
use model::card::{Card, Together};
use model::{Caller, ChatType, Exposed, Exposure, SealedRequest, Subject};
use policy::profile::Profiles;
use shared::Level;
use store::state::external_grants::Access;
use store::state::sessions;

/// Returns everything that a person approves; `None` if it cannot be shown in full.
pub(super) fn card(
    call: &Call,
    access: Option<&Access>,
    sealed: Option<&SealedRequest>,
    reasons: &[(ApprovalReason, String)],
    together: Option<Together>,
) -> Option<Card> {
    let mut card = Card::new();
    match &call.header.caller {
        Caller::Group(group) => card.say("Workspace", group.as_str()),
        Caller::External(access) => card.say("External agent", access.as_str()),
        Caller::Person(_) | Caller::Operator(_) | Caller::Broker => {}
    }
    if let Some(access) = access {
        card.say("Flow", &format!("{}@{}", access.flow_id, access.version));
        card.say("Access given by", &access.issued_by);
    }
    if let Some(tool) = &call.tool {
        card.say("Tool", tool.as_str());
    }
    add_subject(&mut card, &call.header.behalf);
    card.together = together;
    describe(card, call, sealed, reasons)
}

/// Adds the call itself to a card; returns `None` if it cannot be shown in full.
pub(crate) fn describe(
    mut card: Card,
    call: &Call,
    sealed: Option<&SealedRequest>,
    reasons: &[(ApprovalReason, String)],
) -> Option<Card> {
    let level = call.target.demanded();
    card.say("Action", &format!("{}.{}", call.provider, call.action));
    card.say("Level", &level.to_string());
    if let Some(invocation) = call.target.invocation() {
        card.say("In short", &invocation.summary());
    }
    if let Some(task) = &call.task_id {
        card.say("Task", task.as_str());
    }
    if let Some(account) = &call.account_ref {
        card.say("Account", account);
    }
    if level >= Level::Production {
        card.say("Note", "a production action");
    }
    if let Some(key) = &call.idempotency_key {
        card.say("Idempotency key", key.as_str());
    }
    let condition = call.target.invocation().and_then(Invocation::precondition).unwrap_or_default();
    card.reasons.extend(reasons.iter().map(|(_, reason)| reason.clone()));
    let mut params = call.params.value().clone();
    // The code that completes a flow works for its first reader, so the card does not show it.
    for name in ["code", "callback_url"] {
        let brought = params.get_mut(name).filter(|_| call.flow.is_some());
        if let Some(brought) = brought {
            *brought = "(the code or address from the person, not shown)".into();
        }
    }
    let shown = card.list(&params)
        && (condition.is_null() || card.holds(&condition))
        && sealed.is_none_or(|sealed| card.sends(sealed));
    shown.then_some(card)
}

/// Returns the calls behind the trifecta reason, if that is one of the reasons.
/// `earlier` is the exposure of the session.
pub(super) fn together(
    earlier: &[Exposed],
    call: &Call,
    reasons: &[(ApprovalReason, String)],
    profiles: &Profiles,
) -> Option<Together> {
    let reason = reasons.iter().position(|(ask, _)| *ask == ApprovalReason::Trifecta)?;
    let nested = call.nested.as_ref().and_then(|nested| nested.call.target.operation());
    let nested = nested.map_or(Exposure::NONE, |operation| operation.declaration().exposes);
    let (own, _) = facts::exposure(call, profiles);
    Some(sessions::together(earlier, own.and(nested), reason))
}

/// Adds the person on whose behalf it is made. The key and the kind of chat are proved. Names are the person's own
/// choice, so each stands on a line of its own, between quotes.
pub(crate) fn add_subject(card: &mut Card, behalf: &Subject) {
    let Some(person) = behalf.person() else { return };
    let quoted = |text: &str| serde_json::Value::from(text).to_string();
    card.say("On behalf of", &person.key());
    if let Some(name) = person.source_display_name.as_ref().or(person.source_username.as_ref()) {
        card.say("Who goes by", &quoted(name));
    }
    let kind = person.chat_type.map(ChatType::word);
    let chat = person.chat_id.as_deref().map(quoted);
    let words: Vec<&str> = kind.into_iter().chain(chat.as_deref()).collect();
    if !words.is_empty() {
        card.say("Chat", &words.join(" "));
    }
}
