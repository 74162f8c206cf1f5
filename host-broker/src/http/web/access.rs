//! The access of all groups: a matrix of groups and providers, and the button that ends a grant.

use super::ending::{EndForm, EndingWords, end};
use super::{Shared, html, page};
use axum::extract::rejection::FormRejection;
use axum::extract::{Form, Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use engine::request::Command;
use shared::request::RevokeRequest;
use shared::{Group, Provider};
use std::sync::Arc;
use store::state::grants::{self, Grant};

/// The path of the page.
const PATH: &str = "/access";

const WORDS: EndingWords = EndingWords {
    done: "Revoked",
    nothing: "Nothing was revoked",
    unknown: "It is not known whether it was revoked",
    missing: "There is no such grant.",
};

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
    form: Result<Form<EndForm>, FormRejection>,
) -> Response {
    let visitor = match shared.auditor(&headers, PATH) {
        Ok(visitor) => visitor,
        Err(refused) => return *refused,
    };
    let named = group.parse::<Group>().ok().zip(provider.parse::<Provider>().ok());
    let command = named.map(|(group_folder, provider)| Command::Revoke(RevokeRequest { group_folder, provider }));
    end(&shared, &visitor, form, command, &WORDS).await
}
