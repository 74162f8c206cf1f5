//! The form that gives a group access: the command `grant` of a person.

use super::Shared;
use super::access::{PATH, catalogue};
use super::decide::{action_names, level, look};
use super::ending::{FormWords, NoCommand, of_session, submit};
use axum::extract::rejection::FormRejection;
use axum::extract::{Form, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use engine::request::Command;
use serde::Deserialize;
use shared::request::{Expiry, GrantRequest};
use shared::{Action, Level, Timestamp};
use std::collections::{BTreeMap, BTreeSet};
use store::state::grants::{self, Grant};

/// The words of the pages that follow a grant.
pub(super) const WORDS: FormWords = FormWords {
    done: "Granted",
    nothing: "Nothing was granted",
    unknown: "It is not known whether it was granted",
    missing: "There is no such grant.",
};

/// The content of the form.
#[derive(Deserialize)]
pub(super) struct GrantForm {
    // Of the session.
    form: String,
    group: String,
    provider: String,
    level: String,
    // The only actions; empty for all present ones.
    #[serde(default)]
    actions: String,
    #[serde(default)]
    denied: String,
    #[serde(default)]
    gate: String,
    // Seconds from now, or `never`; empty as at the command line.
    #[serde(default)]
    expires: String,
}

impl GrantForm {
    /// Returns the request, or the refusal of a field, with the rules of the command line.
    fn request(&self) -> Result<GrantRequest, NoCommand> {
        let wrong = |field: &str| (StatusCode::BAD_REQUEST, format!("The {field} of the grant is not valid."));
        let list = |text: &str, field| action_names(text).ok_or_else(|| wrong(field));
        let (allowed, denied) =
            (list(&self.actions, "list of actions")?, list(&self.denied, "list of denied actions")?);
        if let Some(both) = allowed.intersection(&denied).next() {
            return Err((StatusCode::BAD_REQUEST, format!("The action {both} is in both lists; leave it out of one.")));
        }
        let (expires_at, expires_in_s) = match self.expires.trim() {
            "" => (None, None),
            "never" => (Some(Expiry::Never), None),
            seconds => (None, Some(seconds.parse().map_err(|_bad| wrong("expiry"))?)),
        };
        let listed = |set: BTreeSet<Action>| (!set.is_empty()).then(|| set.into_iter().collect());
        let gate = Some(self.gate.trim()).filter(|gate| !gate.is_empty());
        Ok(GrantRequest {
            group_folder: self.group.parse().map_err(|_bad| wrong("group"))?,
            provider: self.provider.parse().map_err(|_bad| wrong("provider"))?,
            access_level: level(&self.level).ok_or_else(|| wrong("level"))?,
            allowed_actions: listed(allowed),
            denied_actions: listed(denied),
            requires_task_gate: gate.map(str::parse).transpose().map_err(|_bad| wrong("gate"))?,
            expires_at,
            expires_in_s,
            rate_per_minute: None,
            daily_quota: None,
            chat_types: None,
            chat_ids: None,
            timeout_ms: None,
        })
    }
}

/// Returns the sentence about restrictions of the present grant that the form would remove without showing them.
fn lost(own: &Grant, request: &GrantRequest, levels: &BTreeMap<Action, Level>, now: Timestamp) -> Option<String> {
    if !own.is_live(now) {
        return None;
    }
    if own.allowed.is_some() && request.allowed_actions.is_none() {
        return Some(
            "The present grant allows some actions only. Name the actions under “Only these actions”, or revoke the present \
             grant first."
                .to_owned(),
        );
    }
    let named = request.denied_actions.iter().flatten().collect::<BTreeSet<_>>();
    let allowed = request.allowed_actions.as_ref();
    let ends = |action: &&Action| {
        levels.contains_key(*action)
            && !named.contains(action)
            && allowed.is_none_or(|allowed| allowed.contains(action))
    };
    let denied: Vec<&str> = own.denied.iter().filter(ends).map(Action::as_str).collect();
    if !denied.is_empty() {
        return Some(format!(
            "The present grant denies {}. Add them to “Not these actions”, or revoke the present grant first.",
            denied.join(", ")
        ));
    }
    let has_limits = own.rate_per_minute.is_some() || own.daily_quota.is_some();
    (has_limits || own.chat_types.is_some() || own.chat_ids.is_some()).then(|| {
        format!(
            "The present grant has a rate, a quota or chats, which this form cannot keep. Use host-broker grant {} {}, or \
             revoke the present grant first.",
            own.group, own.provider
        )
    })
}

/// `POST /access/grant`
pub(super) async fn grant(
    State(shared): State<Shared>,
    headers: HeaderMap,
    form: Result<Form<GrantForm>, FormRejection>,
) -> Response {
    let visitor = match shared.auditor(&headers, PATH) {
        Ok(visitor) => visitor,
        Err(refused) => return *refused,
    };
    let form = match of_session(&shared, &visitor, form, |form| &form.form, &WORDS) {
        Ok(form) => form,
        Err(refused) => return *refused,
    };
    let request = match form.request() {
        Ok(request) => request,
        Err(wrong) => return submit(&shared, &visitor, Err(wrong), &WORDS).await,
    };
    let (group, provider) = (request.group_folder.clone(), request.provider.clone());
    let (levels, now) = (catalogue(&shared).levels(&provider).unwrap_or_default(), shared.web.clock.now());
    let command = match look(&shared, move |ledger| grants::find(ledger, &group, &provider)).await {
        Some(present) => match present.own.as_ref().and_then(|own| lost(own, &request, &levels, now)) {
            Some(lost) => Err((StatusCode::CONFLICT, lost)),
            None => Ok(Command::Grant(request)),
        },
        None => Err((
            StatusCode::SERVICE_UNAVAILABLE,
            "The ledger cannot be read now. For the reason: host-broker logs".to_owned(),
        )),
    };
    submit(&shared, &visitor, command, &WORDS).await
}
