//! The pages without changes: the inbox, and one approval request.

use super::read_pool::{Listed, Waiting};
use super::{Shared, html, page, plain, read_pool};
use crate::http::web::sessions::{Use, Visitor};
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use maud::Markup;
use model::HostName;
use std::sync::Arc;

/// `GET /`
pub(super) async fn page(State(shared): State<Shared>, headers: HeaderMap) -> Response {
    let Some(visitor) = shared.visitor(&headers, Use::Page) else { return shared.sign_in_first(&headers, "/") };
    let (person, now) = (visitor.person.clone(), shared.web.clock.now());
    waiting(shared, person, move |found| page::inbox::page(&visitor, now, found)).await
}

/// `GET /fragment`: the part of the inbox that renews itself.
pub(super) async fn fragment(State(shared): State<Shared>, headers: HeaderMap) -> Response {
    let Some(visitor) = shared.visitor(&headers, Use::Watch) else { return stranger() };
    let now = shared.web.clock.now();
    waiting(shared, visitor.person, move |found| page::inbox::fragment(now, found)).await
}

/// Shows the person's pending approval requests, of all hosts.
async fn waiting(shared: Shared, person: String, show: impl FnOnce(&Waiting) -> Markup + Send + 'static) -> Response {
    let (config, now) = (Arc::clone(&shared.web.config), shared.web.clock.now());
    let (mut others, silent) = shared.waiting_on_other_hosts(&person).await;
    let look = move |ledger: &_| read_pool::waiting(ledger, &config, &person, now);
    let show = move |mut found: Waiting| {
        found.mine.append(&mut others);
        found.mine.sort_by_key(|listed| listed.record.approval.asked_at);
        found.silent = silent;
        html(StatusCode::OK, show(&found))
    };
    shared.read(look, show).await
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
    let (config, person, here) = (Arc::clone(&shared.web.config), visitor.person.clone(), shared.clone());
    let show = move |found| here.shown(&visitor, found);
    shared.read(move |ledger| read_pool::one(ledger, &config, &person, &reference), show).await
}

/// `GET /hosts/NAME/approvals/ask-N`
pub(super) async fn approval_of_host(
    State(shared): State<Shared>,
    Path((host, reference)): Path<(HostName, String)>,
    headers: HeaderMap,
) -> Response {
    let Some(visitor) = shared.visitor(&headers, Use::Page) else {
        return shared.sign_in_first(&headers, &format!("/hosts/{host}/approvals/{reference}"));
    };
    match shared.one_on_other_host(&visitor.person, &host, &reference).await {
        Ok(found) => shared.shown(&visitor, found),
        Err(reason) => shared.no_answer_of(&visitor, &host, &reason),
    }
}

impl Shared {
    fn shown(&self, visitor: &Visitor, found: Option<Listed>) -> Response {
        let longest = self.web.config.approvals.standing_max_s;
        match found {
            Some(listed) => html(StatusCode::OK, page::approval::page(visitor, self.web.clock.now(), &listed, longest)),
            None => self.told(StatusCode::NOT_FOUND, Some(visitor), "Not found", NOT_YOURS),
        }
    }

    /// The page about a host that does not answer.
    pub(super) fn no_answer_of(&self, visitor: &Visitor, host: &HostName, reason: &str) -> Response {
        let words = format!("The host {host} gives no answer: {reason}");
        self.told(StatusCode::SERVICE_UNAVAILABLE, Some(visitor), "No answer", &words)
    }
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
    let (config, here) = (Arc::clone(&shared.web.config), shared.clone());
    let look = move |ledger: &_| read_pool::one(ledger, &config, &visitor.person, &reference);
    shared.read(look, move |found| here.stands(found)).await
}

/// `GET /hosts/NAME/approvals/ask-N/standing`
pub(super) async fn standing_on_host(
    State(shared): State<Shared>,
    Path((host, reference)): Path<(HostName, String)>,
    headers: HeaderMap,
) -> Response {
    let Some(visitor) = shared.visitor(&headers, Use::Watch) else { return stranger() };
    match shared.one_on_other_host(&visitor.person, &host, &reference).await {
        Ok(found) => shared.stands(found),
        Err(_reason) => plain(StatusCode::SERVICE_UNAVAILABLE, "The other host gives no answer."),
    }
}

impl Shared {
    fn stands(&self, found: Option<Listed>) -> Response {
        match found {
            Some(listed) => html(StatusCode::OK, page::approval::standing(self.web.clock.now(), &listed)),
            None => plain(StatusCode::NOT_FOUND, NOT_YOURS),
        }
    }
}

pub(super) fn stranger() -> Response {
    plain(StatusCode::UNAUTHORIZED, "Sign in first.")
}
