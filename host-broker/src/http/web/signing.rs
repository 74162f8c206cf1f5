//! Signing in and out.
//!
//! A form spends a link, so that a program that only looks at links, such as a chat's preview, spends none.

use super::{Shared, html, on_to, page, request_guard};
use crate::http::web::sessions::Use;
use crate::http::web::sign_in::Admission;
use axum::extract::rejection::{FormRejection, QueryRejection};
use axum::extract::{Form, Query, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::Response;
use page::sign_in::Shown;
use serde::Deserialize;

/// The address of the page.
#[derive(Default, Deserialize)]
pub(super) struct Way {
    link: Option<String>,
}

/// Either form.
#[derive(Deserialize)]
pub(super) struct Credential {
    secret: String,
    #[serde(default)]
    next: String,
}

/// A form of a signed-in person.
#[derive(Deserialize)]
pub(super) struct Leaving {
    form: String,
}

impl Shared {
    /// Returns the page for a person who is not signed in, instead of this page.
    pub(super) fn sign_in_first(&self, headers: &HeaderMap, next: &str) -> Response {
        let shown = Shown {
            next: place(next),
            has_tokens: self.web.sign_in.has_tokens(),
            may_be_known: request_guard::comes_from_elsewhere(headers),
            fault: None,
        };
        html(StatusCode::UNAUTHORIZED, page::sign_in::page(self.web.clock.now(), &shown))
    }

    fn not_let_in(&self, status: StatusCode, next: &str, fault: &str) -> Response {
        let has_tokens = self.web.sign_in.has_tokens();
        let shown = Shown { next: place(next), has_tokens, may_be_known: false, fault: Some(fault) };
        html(status, page::sign_in::page(self.web.clock.now(), &shown))
    }

    fn let_in(&self, cookie: &str, next: &str) -> Response {
        on_to(place(next), &request_guard::set_cookie(self.web.sign_in.address(), cookie))
    }
}

/// A page of ours that may be named as the next one; the inbox for anything else.
fn place(next: &str) -> &str {
    let digits = next.strip_prefix("/approvals/ask-").unwrap_or_default();
    let is_one = !digits.is_empty() && digits.len() < 20 && digits.bytes().all(|byte| byte.is_ascii_digit());
    if is_one || next == "/standing-approvals" { next } else { "/" }
}

const SPENT: &str = "This link no longer works: it was used, or it is older than ten minutes. Create another one.";
const NO_RANDOMNESS: &str = "The system's random source failed, so signing in is impossible.";

/// `GET /sign-in`
pub(super) async fn page(
    State(shared): State<Shared>,
    headers: HeaderMap,
    way: Result<Query<Way>, QueryRejection>,
) -> Response {
    let way = way.map(|Query(way)| way).unwrap_or_default();
    let Some(link) = way.link else { return shared.sign_in_first(&headers, "/") };
    match shared.web.sign_in.whose(&link) {
        Some(person) => html(StatusCode::OK, page::sign_in::confirm(shared.web.clock.now(), &person, &link)),
        None => shared.not_let_in(StatusCode::GONE, "/", SPENT),
    }
}

/// `POST /sign-in/link`
pub(super) async fn with_link(State(shared): State<Shared>, form: Result<Form<Credential>, FormRejection>) -> Response {
    let Ok(Form(given)) = form else { return shared.not_let_in(StatusCode::BAD_REQUEST, "/", SPENT) };
    match shared.web.sign_in.with_link(&given.secret) {
        Ok(Some(cookie)) => shared.let_in(&cookie, "/"),
        Ok(None) => shared.not_let_in(StatusCode::GONE, "/", SPENT),
        Err(_none) => shared.not_let_in(StatusCode::SERVICE_UNAVAILABLE, "/", NO_RANDOMNESS),
    }
}

/// `POST /sign-in/token`
pub(super) async fn with_token(
    State(shared): State<Shared>,
    form: Result<Form<Credential>, FormRejection>,
) -> Response {
    let Ok(Form(given)) = form else {
        return shared.not_let_in(StatusCode::BAD_REQUEST, "/", "This is not a token.");
    };
    match shared.web.sign_in.with_token(given.secret.trim()) {
        Ok(Admission::In(cookie)) => shared.let_in(&cookie, &given.next),
        Ok(Admission::Unknown) => shared.not_let_in(StatusCode::UNAUTHORIZED, &given.next, "This token is unknown."),
        Ok(Admission::TooMany(seconds)) => {
            let words = format!("Too many tokens were tried. Try again in {seconds} s, or use a link.");
            let mut response = shared.not_let_in(StatusCode::TOO_MANY_REQUESTS, &given.next, &words);
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
            response
        }
        Err(_none) => shared.not_let_in(StatusCode::SERVICE_UNAVAILABLE, &given.next, NO_RANDOMNESS),
    }
}

/// `POST /sign-out`
pub(super) async fn out(
    State(shared): State<Shared>,
    headers: HeaderMap,
    form: Result<Form<Leaving>, FormRejection>,
) -> Response {
    let sign_in = &shared.web.sign_in;
    if let (Some(visitor), Some(cookie)) =
        (shared.visitor(&headers, Use::Page), request_guard::cookie(sign_in.address(), &headers))
    {
        if !form.is_ok_and(|Form(leaving)| visitor.sent(&leaving.form)) {
            let words = "The page is older than your sign-in. Open the inbox again.";
            return shared.told(StatusCode::FORBIDDEN, Some(&visitor), "Still signed in", words);
        }
        sign_in.leave(cookie);
    }
    on_to("/", &request_guard::set_cookie(sign_in.address(), ""))
}

#[cfg(test)]
mod tests {
    use super::place;

    #[test]
    fn redirects_lead_only_to_pages_of_the_inbox() {
        assert_eq!(place("/approvals/ask-12"), "/approvals/ask-12");
        for next in
            ["", "/", "//evil.example", "https://evil.example", "/approvals/ask-", "/approvals/ask-1/../x", "\r\n"]
        {
            assert_eq!(place(next), "/", "{next}");
        }
    }
}
