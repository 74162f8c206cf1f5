//! A client's post: one message, or a batch where the revision has them.
//!
//! It is read strictly before the SDK reads it, so that it has one meaning for every reader. Each message of a batch is
//! then a request of its own.

use super::errors::{bad_request, document, spoken};
use super::{Service, Visitor};
use crate::http::external::{BODY_BYTES_MAX, ExternalApi};
use axum::body::{Body, Bytes, to_bytes};
use axum::http::{Method, Request, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use futures_util::future::join_all;
use http::request::Parts;
use rmcp::model::{ErrorCode, ErrorData};
use serde_json::{Value, json};
use shared::rpc::{self, BATCH_REVISION, BatchError, Kind, Text};
use shared::{Code, json as strict, limits};

/// Which revision the message after the first belongs to. Before 2025-06-18 there was no such header.
const REVISION: &str = "mcp-protocol-version";

/// Marks a message of a batch, whose answer is a part of one document.
#[derive(Debug, Clone, Copy)]
pub(super) struct OfBatch;

/// Answers a request to `/mcp`. Whose it is, is known; its body is here as a whole.
pub(super) async fn serve(service: Service, api: &ExternalApi, request: Request<Body>) -> Response {
    let (head, body) = request.into_parts();
    let Ok(body) = to_bytes(body, BODY_BYTES_MAX).await else {
        return bad_request(None, &ErrorData::invalid_request("the message cannot be read", None));
    };
    if head.method != Method::POST {
        return spoken(asked(&service, head, body).await, None).await;
    }
    let revision = head.headers.get(REVISION).map_or(Some(BATCH_REVISION), |value| value.to_str().ok());
    match rpc::batch(&body, revision) {
        Some(Ok(messages)) => batch(&service, api, &head, &messages).await,
        Some(Err(BatchError::NotJson)) => bad_request(None, &no_json()),
        Some(Err(fault)) => bad_request(None, &ErrorData::invalid_request(fault.to_string(), None)),
        None => match checked(&body, limits::REQUEST_NODES_MAX) {
            Ok(None) if heed_cancellation(api, &head, &body) => StatusCode::ACCEPTED.into_response(),
            Ok(id) => spoken(asked(&service, head, body).await, id).await,
            Err(fault) => bad_request(fault.id.as_ref(), &fault.error),
        },
    }
}

/// Withdraws the call whose request an agent's client cancels. Returns whether the message is such a notification.
///
/// Source: MCP, "Cancellation". An unknown request is ignored.
fn heed_cancellation(api: &ExternalApi, head: &Parts, message: &[u8]) -> bool {
    let Text::Message(envelope) = rpc::read(message) else { return false };
    if envelope.kind != Kind::Notification || envelope.method.as_deref() != Some("notifications/cancelled") {
        return false;
    }
    let message: Option<Value> = serde_json::from_slice(message).ok();
    let id = message.as_ref().and_then(|message| message.pointer("/params/requestId"));
    if let (Some(id), Some(Visitor::Agent(access))) = (id, head.extensions.get::<Visitor>()) {
        api.cancelled(access, id.to_string());
    }
    true
}

async fn asked(service: &Service, head: Parts, body: Bytes) -> Response {
    service.handle(Request::from_parts(head, Body::from(body))).await.map(Body::new).into_response()
}

/// Answers all messages of a batch at once.
///
/// A message that needs no answer has none; if none has one, neither has the batch.
async fn batch(
    service: &Service,
    api: &ExternalApi,
    head: &Parts,
    messages: &[&serde_json::value::RawValue],
) -> Response {
    // The messages share the limit of one message.
    let nodes_max = limits::REQUEST_NODES_MAX / messages.len().max(1);
    let answers = messages.iter().enumerate().map(|(n, message)| {
        let checked = checked(message.get().as_bytes(), nodes_max);
        // The request as a whole has its turn already.
        async move { one_of_many(service, api, head, (message.get(), checked), n == 0).await }
    });
    let answers: Vec<Value> = join_all(answers).await.into_iter().flatten().collect();
    if answers.is_empty() {
        return StatusCode::ACCEPTED.into_response();
    }
    ([(header::CONTENT_TYPE, "application/json")], Value::Array(answers).to_string()).into_response()
}

async fn one_of_many(
    service: &Service,
    api: &ExternalApi,
    head: &Parts,
    (message, checked): (&str, Result<Option<Value>, Box<Fault>>),
    has_turn: bool,
) -> Option<Value> {
    let id = match (rpc::read(message.as_bytes()), checked) {
        (Text::Message(envelope), checked) if matches!(envelope.kind, Kind::Notification | Kind::Response) => {
            if checked.is_ok() {
                heed_cancellation(api, head, message.as_bytes());
            }
            return None;
        }
        (Text::Message(envelope), _) if envelope.method.as_deref() == Some("initialize") => {
            return Some(document(
                envelope.id.as_ref(),
                &ErrorData::invalid_request("initialize is no part of a batch", None),
            ));
        }
        (_, Ok(id)) => id,
        (_, Err(fault)) => return Some(document(fault.id.as_ref(), &fault.error)),
    };
    let name = head.extensions.get::<Visitor>().map(Visitor::name).unwrap_or_default();
    let turn = if has_turn { None } else { api.rates.take(name) };
    if !has_turn && turn.is_none() {
        let code = Code::RateLimited;
        let data = json!({ "code": code.word(), "status": "denied" });
        let refused = ErrorData::new(ErrorCode(-32000), format!("{} {}", code.meaning(), code.remedy()), Some(data));
        return Some(document(id.as_ref(), &refused));
    }
    let mut head = head.clone();
    head.extensions.insert(OfBatch);
    let response = spoken(asked(service, head, message.to_owned().into()).await, id.clone()).await;
    let answer = to_bytes(response.into_body(), usize::MAX).await.ok();
    let answer = answer.and_then(|answer| serde_json::from_slice(&answer).ok());
    Some(answer.unwrap_or_else(|| document(id.as_ref(), &ErrorData::internal_error("there is no answer", None))))
}

fn no_json() -> ErrorData {
    ErrorData::parse_error("the message is no JSON; nothing was executed", None)
}

/// The fault of a message, and the id for its answer.
struct Fault {
    id: Option<Value>,
    error: ErrorData,
}

/// The id of a message that means one thing, is a message at all, and has at most so many values and keys.
fn checked(text: &[u8], nodes_max: usize) -> Result<Option<Value>, Box<Fault>> {
    let nameless = |error| Err(Box::new(Fault { id: None, error }));
    let envelope = match rpc::read(text) {
        Text::NotJson => return nameless(no_json()),
        Text::NoMessage => {
            return nameless(ErrorData::invalid_request("a message is a JSON object, with each member once", None));
        }
        Text::Message(envelope) => envelope,
    };
    let why = match (envelope.kind, strict::parse_object_within(text, nodes_max)) {
        (Kind::Invalid, _) => Some("the message is not one of this protocol".to_owned()),
        (Kind::Request | Kind::Notification | Kind::Response, Err(fault)) => Some(format!("the message is {fault}")),
        (Kind::Request | Kind::Notification | Kind::Response, Ok(_)) => {
            let numbers = strict::inexact_numbers(std::str::from_utf8(text).unwrap_or_default());
            let what = "the message holds a number that cannot be kept exactly; send it as a string";
            (!numbers.is_empty()).then(|| what.to_owned())
        }
    };
    let Some(why) = why.map(|why| format!("{why}; nothing was executed")) else { return Ok(envelope.id) };
    let is_call = envelope.kind == Kind::Request && envelope.method.as_deref() == Some("tools/call");
    let error = if is_call { ErrorData::invalid_params(why, None) } else { ErrorData::invalid_request(why, None) };
    Err(Box::new(Fault { id: envelope.id, error }))
}
