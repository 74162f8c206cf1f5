//! The pages without changes: the inbox, and one approval request.

use super::{Shared, html, page, plain, read_pool};
use crate::http::web::sessions::Use;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use std::sync::Arc;

/// `GET /`
pub(super) async fn page(State(shared): State<Shared>, headers: HeaderMap) -> Response {
    let Some(visitor) = shared.visitor(&headers, Use::Page) else { return shared.sign_in_first(&headers, "/") };
    let (config, person, now) = (Arc::clone(&shared.web.config), visitor.person.clone(), shared.web.clock.now());
    let show = move |found| html(StatusCode::OK, page::inbox::page(&visitor, now, &found));
    shared.read(move |ledger| read_pool::waiting(ledger, &config, &person, now), show).await
}

/// `GET /fragment`: the part of the inbox that renews itself.
pub(super) async fn fragment(State(shared): State<Shared>, headers: HeaderMap) -> Response {
    let Some(visitor) = shared.visitor(&headers, Use::Watch) else { return stranger() };
    let (config, now) = (Arc::clone(&shared.web.config), shared.web.clock.now());
    let look = move |ledger: &_| read_pool::waiting(ledger, &config, &visitor.person, now);
    shared.read(look, move |found| html(StatusCode::OK, page::inbox::fragment(now, &found))).await
}

/// `GET /approvals/ask-N`
pub(super) async fn approval(
    State(shared): State<Shared>,
    Path(reference): Path<String>,
    headers: HeaderMap,
) -> Response {
    let Some(visitor) = shared.visitor(&headers, Use::Page) else {
        return shared.sign_in_first(&headers, &format!("/approvals/{reference}"));
    };
    let (config, person, now) = (Arc::clone(&shared.web.config), visitor.person.clone(), shared.web.clock.now());
    let here = shared.clone();
    let longest = config.approvals.standing_max_s;
    let show = move |found: Option<read_pool::Listed>| match found {
        Some(listed) => html(StatusCode::OK, page::approval::page(&visitor, now, &listed, longest)),
        None => here.told(StatusCode::NOT_FOUND, Some(&visitor), "Not here", NOT_YOURS),
    };
    shared.read(move |ledger| read_pool::one(ledger, &config, &person, &reference), show).await
}

/// The text for an approval request that does not exist, or that this person may not answer.
pub(super) const NOT_YOURS: &str = "There is no such approval request, or it is not yours to answer.";

/// `GET /approvals/ask-N/standing`: the part of an approval request's page that renews itself.
pub(super) async fn standing(
    State(shared): State<Shared>,
    Path(reference): Path<String>,
    headers: HeaderMap,
) -> Response {
    let Some(visitor) = shared.visitor(&headers, Use::Watch) else { return stranger() };
    let (config, now) = (Arc::clone(&shared.web.config), shared.web.clock.now());
    let show = move |found: Option<read_pool::Listed>| match found {
        Some(listed) => html(StatusCode::OK, page::approval::standing(now, &listed)),
        None => plain(StatusCode::NOT_FOUND, NOT_YOURS),
    };
    shared.read(move |ledger| read_pool::one(ledger, &config, &visitor.person, &reference), show).await
}

pub(super) fn stranger() -> Response {
    plain(StatusCode::UNAUTHORIZED, "Sign in first.")
}
