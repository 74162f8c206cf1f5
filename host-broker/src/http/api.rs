//! `POST /api/v1/answers`: answers from a chat, sent by a channel with a token.
//!
//! ```text
//! POST /api/v1/answers
//! Authorization: Bearer TOKEN
//!
//! {"from": "telegram:12345", "text": "approve k7f3qd"}
//! ```
//! The same as `host-broker approvals relay`: the channel names the author, and the broker decides whether the answer
//! counts. A browser does not use this route, so a request with an origin is refused.

use crate::control::{Asked, CommandDispatcher};
use crate::daemon::EventSender;
use crate::http::pace::Pace;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use config::Config;
use engine::chat::RelayedAnswer;
use engine::request::Command;
use model::Clock;
use serde::Deserialize;
use serde_json::{Value, json};
use shared::Code;
use shared::digest::Digest;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use subtle::ConstantTimeEq as _;

/// How long the broker may take.
const TIMEOUT: Duration = Duration::from_secs(30);

/// The state of the route for answers.
pub(super) struct Api {
    /// Which channels have a token.
    pub(super) config: Arc<Config>,
    /// The sender of answers to the broker.
    pub(super) dispatcher: CommandDispatcher,
    /// Where answers go.
    pub(super) reports: EventSender,
    /// The time.
    pub(super) clock: Arc<dyn Clock>,
    /// How fast tokens may be wrong.
    pub(super) pace: Mutex<Pace>,
}

/// One answer from a channel.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct HandedIn {
    from: String,
    text: String,
}

/// `POST /api/v1/answers`
pub(super) async fn answer(State(api): State<Arc<Api>>, headers: HeaderMap, body: Bytes) -> Response {
    if headers.contains_key(header::ORIGIN) {
        return refused(StatusCode::FORBIDDEN, Code::MalformedRequest, "A page of a browser has no business here.");
    }
    let channel = match api.channel(&headers) {
        Ok(channel) => channel,
        Err(response) => return *response,
    };
    let Ok(HandedIn { from, text }) = serde_json::from_slice(&body) else {
        return refused(
            StatusCode::BAD_REQUEST,
            Code::InvalidParams,
            "Send {\"from\": \"telegram:12345\", \"text\": \"approve CODE\"}.",
        );
    };
    let relayed = RelayedAnswer { may_relay: true, channel: Some(channel.clone()), ..RelayedAnswer::new(from, text) };
    let command = Command::RelayedAnswer(relayed);
    if let Err(why) = command.check() {
        return refused(StatusCode::BAD_REQUEST, Code::InvalidParams, &why);
    }
    let asked = Asked { person: format!("channel:{channel}"), command, channel: "http" };
    let reply = match tokio::time::timeout(TIMEOUT, api.dispatcher.ask(&api.reports, asked)).await {
        Ok(Ok(reply)) => serde_json::from_slice::<Value>(&reply).unwrap_or_default(),
        Ok(Err(why)) => return refused(StatusCode::SERVICE_UNAVAILABLE, Code::Busy, &why),
        Err(_elapsed) => {
            return refused(StatusCode::SERVICE_UNAVAILABLE, Code::Busy, "The broker has not answered in time.");
        }
    };
    let counts = reply.get("status").is_some_and(|status| status == "executed");
    document(if counts { StatusCode::OK } else { StatusCode::CONFLICT }, &reply)
}

impl Api {
    /// The channel whose token this is.
    fn channel(&self, headers: &HeaderMap) -> Result<String, Box<Response>> {
        let mut given = headers.get_all(header::AUTHORIZATION).iter();
        let token = given.next().and_then(|value| value.to_str().ok()?.strip_prefix("Bearer "));
        let digest = Digest::of(token.unwrap_or_default().as_bytes()).hex();
        // Every channel is compared, so that the time tells nothing.
        let mut found = None;
        for table in &self.config.channels {
            let known = table.token_sha256.as_deref().unwrap_or_default();
            if bool::from(known.as_bytes().ct_eq(digest.as_bytes())) {
                found = Some(table.name.clone());
            }
        }
        if let (Some(found), Some(_), None) = (found, token, given.next()) {
            return Ok(found);
        }
        let tried = self.pace.lock().unwrap_or_else(PoisonError::into_inner).take(self.clock.now());
        Err(Box::new(match tried {
            Ok(()) => refused(
                StatusCode::UNAUTHORIZED,
                Code::OperatorTokenDenied,
                "This is the token of no channel with accepts_answers = true.",
            ),
            Err(seconds) => {
                let mut response = refused(StatusCode::TOO_MANY_REQUESTS, Code::RateLimited, "Too many wrong tokens.");
                response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
                response
            }
        }))
    }
}

pub(super) fn refused(status: StatusCode, code: Code, why: &str) -> Response {
    document(status, &json!({ "status": "denied", "code": code.word(), "error": why }))
}

fn document(status: StatusCode, document: &Value) -> Response {
    let kind = HeaderValue::from_static("application/json");
    (status, [(header::CONTENT_TYPE, kind)], document.to_string()).into_response()
}
