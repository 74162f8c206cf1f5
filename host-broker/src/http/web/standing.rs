//! The standing approvals that a person may end.

use super::ending::{self, EndForm, FormWords};
use super::{Shared, html, page};
use crate::http::web::sessions::Use;
use axum::extract::rejection::FormRejection;
use axum::extract::{Form, Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use engine::request::Command;
use engine::standing_approvals::may_end;
use model::standing_approval::StandingApproval;
use std::sync::Arc;
use store::state::standing_approvals;

/// The path of the page.
const PATH: &str = "/standing-approvals";

const WORDS: FormWords = FormWords {
    done: "Ended",
    nothing: "Nothing was ended",
    unknown: "It is not known whether it ended",
    missing: "There is no such standing approval.",
};

/// `GET /standing-approvals`
pub(super) async fn list(State(shared): State<Shared>, headers: HeaderMap) -> Response {
    let Some(visitor) = shared.visitor(&headers, Use::Page) else {
        return shared.sign_in_first(&headers, PATH);
    };
    let (now, config) = (shared.web.clock.now(), Arc::clone(&shared.web.config));
    let show = move |mut found: Vec<StandingApproval>| {
        found.retain(|standing| standing.is_in_force(now) && may_end(&config, &visitor.person, standing));
        html(StatusCode::OK, page::standing::page(&visitor, now, &found))
    };
    shared.read(standing_approvals::not_ended, show).await
}

/// `POST /standing-approvals/standing-N/end`
pub(super) async fn end(
    State(shared): State<Shared>,
    Path(name): Path<String>,
    headers: HeaderMap,
    form: Result<Form<EndForm>, FormRejection>,
) -> Response {
    let Some(visitor) = shared.visitor(&headers, Use::Page) else {
        return shared.sign_in_first(&headers, PATH);
    };
    ending::end(&shared, &visitor, form, Some(Command::EndStandingApproval { name }), &WORDS).await
}
