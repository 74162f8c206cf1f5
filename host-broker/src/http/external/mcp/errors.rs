//! HTTP's errors in the words of JSON-RPC: an MCP client gets an error of the protocol.
//!
//! It comes under the id of its request or under `null`, with our code in `data` where there is one.

use axum::body::{Body, to_bytes};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::Response;
use rmcp::model::{ErrorCode, ErrorData};
use serde_json::{Map, Value, json};

/// The most bytes that are read of an error answer; none is longer.
const ANSWER_MAX: usize = 1024 * 1024;
/// Something that is neither the request's fault nor the server's: who asks, or how often.
const REFUSED: ErrorCode = ErrorCode(-32000);

/// An error document, under this id or under `null`.
pub(super) fn document(id: Option<&Value>, error: &ErrorData) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "error": error })
}

/// An error that this request cannot be read or understood.
pub(super) fn bad_request(id: Option<&Value>, error: &ErrorData) -> Response {
    with_body(Response::new(Body::empty()), StatusCode::BAD_REQUEST, &document(id, error))
}

/// Handles a missing or wrong bearer. An earlier refusal keeps its reason; to a client of HTTP both are 401.
pub(in crate::http::external) fn unauthorized(mut response: Response) -> Response {
    if response.status() == StatusCode::FORBIDDEN {
        *response.status_mut() = StatusCode::UNAUTHORIZED;
        let value = HeaderValue::from_static(r#"Bearer error="invalid_token""#);
        response.headers_mut().insert(header::WWW_AUTHENTICATE, value);
    }
    response
}

/// The answer, with a body of JSON-RPC if it is an error.
pub(in crate::http::external) async fn spoken(response: Response, id: Option<Value>) -> Response {
    let status = response.status();
    if !status.is_client_error() && !status.is_server_error() {
        return response;
    }
    let (head, body) = response.into_parts();
    let body = to_bytes(body, ANSWER_MAX).await.unwrap_or_default();
    // Only the reader of messages says this of a body with the right type: it is JSON, and no message.
    let is_no_message = status == StatusCode::UNSUPPORTED_MEDIA_TYPE && body.starts_with(b"fail to deserialize");
    let status = if is_no_message { StatusCode::BAD_REQUEST } else { status };
    let said = serde_json::from_slice::<Map<String, Value>>(&body).unwrap_or_default();
    let document = if said.contains_key("jsonrpc") {
        named(said, id)
    } else if is_no_message {
        document(id.as_ref(), &ErrorData::invalid_request("the message is not one of this protocol", None))
    } else {
        let text = String::from_utf8_lossy(&body).into_owned();
        let message = said.get("error").and_then(Value::as_str).map_or(text, ToOwned::to_owned);
        let data = said.get("code").map(|code| json!({ "code": code, "status": said.get("status") }));
        document(id.as_ref(), &ErrorData::new(code_of(status), message, data))
    };
    with_body(Response::from_parts(head, Body::empty()), status, &document)
}

/// An error of the SDK: it leaves the id away where it has none.
fn named(mut said: Map<String, Value>, id: Option<Value>) -> Value {
    if said.get("id").is_none_or(Value::is_null) {
        said.insert("id".to_owned(), id.unwrap_or_default());
    }
    Value::Object(said)
}

fn code_of(status: StatusCode) -> ErrorCode {
    match status {
        StatusCode::BAD_REQUEST
        | StatusCode::METHOD_NOT_ALLOWED
        | StatusCode::NOT_ACCEPTABLE
        | StatusCode::PAYLOAD_TOO_LARGE
        | StatusCode::UNSUPPORTED_MEDIA_TYPE
        | StatusCode::MISDIRECTED_REQUEST => ErrorCode::INVALID_REQUEST,
        status if status.is_server_error() => ErrorCode::INTERNAL_ERROR,
        _ => REFUSED,
    }
}

fn with_body(mut response: Response, status: StatusCode, document: &Value) -> Response {
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.remove(header::CONTENT_LENGTH);
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    *response.body_mut() = Body::from(document.to_string());
    response
}
