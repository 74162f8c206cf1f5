//! The access of all groups: a matrix of groups and providers, and the button that ends a grant.

use super::decide::{FormOutcome, send};
use super::{Shared, html, page};
use axum::extract::rejection::FormRejection;
use axum::extract::{Form, Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use engine::request::Command;
use serde::Deserialize;
use shared::request::RevokeRequest;
use shared::{Group, Provider};
use std::sync::Arc;
use store::state::grants::{self, Grant};

/// The path of the page.
const PATH: &str = "/access";

/// The title of a page about a grant that stays.
const NOTHING: &str = "Nothing was revoked";

/// The content of the form.
#[derive(Deserialize)]
pub(super) struct RevokeForm {
    // Of the session.
    form: String,
}

/// `GET /access`
pub(super) async fn matrix(State(shared): State<Shared>, headers: HeaderMap) -> Response {
    let visitor = match shared.auditor(&headers, PATH) {
        Ok(visitor) => visitor,
        Err(refused) => return *refused,
    };
    let (now, config) = (shared.web.clock.now(), Arc::clone(&shared.web.config));
    let show = move |mut found: Vec<Grant>| {
        found.retain(|grant| grant.is_live(now));
        html(StatusCode::OK, page::access::page(&visitor, now, &config, &found))
    };
    shared.read(|ledger| grants::list(ledger, None), show).await
}

/// `POST /access/GROUP/PROVIDER/revoke`
pub(super) async fn revoke(
    State(shared): State<Shared>,
    Path((group, provider)): Path<(String, String)>,
    headers: HeaderMap,
    form: Result<Form<RevokeForm>, FormRejection>,
) -> Response {
    let visitor = match shared.auditor(&headers, PATH) {
        Ok(visitor) => visitor,
        Err(refused) => return *refused,
    };
    let told = |status: StatusCode, title: &str, words: &str| shared.told(status, Some(&visitor), title, words);
    let form = match form {
        Ok(Form(form)) => form,
        Err(rejection) => return told(rejection.status(), NOTHING, "The form cannot be read."),
    };
    if !visitor.sent(&form.form) {
        let words = "The page is older than your sign-in. Open it again.";
        return told(StatusCode::FORBIDDEN, NOTHING, words);
    }
    let (Ok(group_folder), Ok(provider)) = (group.parse::<Group>(), provider.parse::<Provider>()) else {
        return told(StatusCode::NOT_FOUND, NOTHING, "There is no such grant.");
    };
    // The broker checks that the person administers.
    match send(&shared, &visitor, Command::Revoke(RevokeRequest { group_folder, provider })).await {
        FormOutcome::Counted(words) => told(StatusCode::OK, "Revoked", &words),
        FormOutcome::Refused(words) => told(StatusCode::CONFLICT, NOTHING, &words),
        FormOutcome::Unknown(words) => {
            told(StatusCode::SERVICE_UNAVAILABLE, "It is not known whether it was revoked", &words)
        }
    }
}
