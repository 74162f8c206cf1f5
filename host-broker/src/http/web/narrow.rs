//! A grant narrowed to the actions that were used: the page that proposes it, and its confirmation.

use super::access::{AccessFacts, PATH, catalogue, facts, named};
use super::decide::{action_names, level, look};
use super::ending::{FormWords, NoCommand, of_session, submit};
use super::{Shared, html, page};
use crate::http::web::sessions::Visitor;
use crate::narrowing::{Narrowed, given, request};
use axum::extract::rejection::FormRejection;
use axum::extract::{Form, Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use engine::request::Command;
use page::narrow::NarrowPage;
use serde::Deserialize;
use shared::{Action, Group, Level, Provider, Timestamp};
use std::collections::{BTreeMap, BTreeSet};
use store::View;
use store::state::grants::{self, Grant};

const WORDS: FormWords = FormWords {
    done: "Narrowed",
    nothing: "Nothing was narrowed",
    unknown: "It is not known whether it was narrowed",
    missing: "There is no grant of the group's own to narrow. A temporary grant is not narrowed.",
};

/// The sentence if the grant is not the one on the page any more.
const CHANGED: &str = "The grant or its provider has changed since the page was loaded. Open it again.";

/// The content of the form.
#[derive(Deserialize)]
pub(super) struct NarrowForm {
    // Of the session.
    form: String,
    // The grants that the page showed.
    shown: String,
    level: String,
    actions: String,
}

/// Returns the text that stands for these grants in a form: another grant has another one.
fn mark(grants: &[Grant]) -> String {
    let times: Vec<String> = grants.iter().map(|grant| grant.granted_at.millis().to_string()).collect();
    times.join(".")
}

/// Returns the person, the group and the provider; otherwise the page to show instead. The page is for people who can
/// change the grant.
fn wanted(
    shared: &Shared,
    headers: &HeaderMap,
    (group, provider): (&str, &str),
) -> Result<(Visitor, Group, Provider), Box<Response>> {
    let visitor = shared.auditor(headers, PATH)?;
    let told = |status, words: &str| Box::new(shared.told(status, Some(&visitor), WORDS.nothing, words));
    if !shared.web.config.administers(&visitor.person) {
        let words =
            format!("To narrow a grant, a person needs `admin = true` in [people.{}] of broker.toml.", visitor.person);
        return Err(told(StatusCode::FORBIDDEN, &words));
    }
    let Some((group, provider)) = named(group, provider) else {
        return Err(told(StatusCode::NOT_FOUND, WORDS.missing));
    };
    Ok((visitor, group, provider))
}

/// `GET /access/GROUP/PROVIDER/narrow`
pub(super) async fn page(
    State(shared): State<Shared>,
    Path((group, provider)): Path<(String, String)>,
    headers: HeaderMap,
) -> Response {
    let (visitor, group, provider) = match wanted(&shared, &headers, (&group, &provider)) {
        Ok(wanted) => wanted,
        Err(refused) => return *refused,
    };
    let now = shared.web.clock.now();
    let levels = catalogue(&shared).levels(&provider).unwrap_or_default();
    let missing = shared.told(StatusCode::NOT_FOUND, Some(&visitor), WORDS.nothing, WORDS.missing);
    let of_group = group.clone();
    let look = move |ledger: &View| ledger.at_one_moment(|ledger| facts(ledger, Some(&of_group), now));
    let show = move |mut found: AccessFacts| {
        found.grants.retain(|grant| grant.provider == provider);
        let Some((own, temporary)) = found.grants.split_first().filter(|(own, _)| !own.is_temporary) else {
            return missing;
        };
        let unused = BTreeMap::new();
        let used = found.usage.of(&group, &provider).unwrap_or(&unused);
        let shown = NarrowPage {
            visitor: &visitor,
            now,
            own,
            temporary,
            cut_before: found.usage.cut_before,
            narrowed: Narrowed::of(own, used, &levels, now),
            mark: mark(&found.grants),
        };
        html(StatusCode::OK, shown.page())
    };
    shared.read_long(look, show).await
}

/// `POST /access/GROUP/PROVIDER/narrow`
pub(super) async fn confirm(
    State(shared): State<Shared>,
    Path((group, provider)): Path<(String, String)>,
    headers: HeaderMap,
    form: Result<Form<NarrowForm>, FormRejection>,
) -> Response {
    let (visitor, group, provider) = match wanted(&shared, &headers, (&group, &provider)) {
        Ok(wanted) => wanted,
        Err(refused) => return *refused,
    };
    let form = match of_session(&shared, &visitor, form, |form| &form.form, &WORDS) {
        Ok(form) => form,
        Err(refused) => return *refused,
    };
    let (now, levels) = (shared.web.clock.now(), catalogue(&shared).levels(&provider).unwrap_or_default());
    let found = look(&shared, move |ledger| {
        let mut found = grants::list(ledger, Some(&group))?;
        found.retain(|grant| grant.is_live(now) && grant.provider == provider);
        Ok(found)
    });
    let command = match found.await {
        Some(found) => command(&form, &found, &levels, now),
        None => Err((
            StatusCode::SERVICE_UNAVAILABLE,
            "The ledger cannot be read now. For the reason: host-broker logs".to_owned(),
        )),
    };
    submit(&shared, &visitor, command, &WORDS).await
}

/// Returns the command of a confirmation. It gives nothing that the present grant does not give.
fn command(
    form: &NarrowForm,
    found: &[Grant],
    levels: &BTreeMap<Action, Level>,
    now: Timestamp,
) -> Result<Command, NoCommand> {
    let own = found.first().filter(|own| !own.is_temporary);
    let own = own.ok_or_else(|| (StatusCode::NOT_FOUND, WORDS.missing.to_owned()))?;
    let wrong = || (StatusCode::BAD_REQUEST, "The level or the actions are not valid.".to_owned());
    let level = level(&form.level).filter(|level| *level > Level::None).ok_or_else(wrong)?;
    let actions: BTreeSet<Action> =
        action_names(&form.actions).filter(|actions| !actions.is_empty()).ok_or_else(wrong)?;
    let given = given(own, levels, now);
    let is_within = level <= own.level && actions.iter().all(|action| given.contains_key(action));
    if form.shown != mark(found) || !is_within {
        return Err((StatusCode::CONFLICT, CHANGED.to_owned()));
    }
    Ok(Command::Narrow(request(own, level, actions)))
}
