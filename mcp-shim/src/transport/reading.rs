//! The reader of one message: the SDK parses it, after a check against its text.

use rmcp::RoleServer;
use rmcp::model::{ClientRequest, ErrorData, JsonRpcMessage, RequestId};
use rmcp::service::RxJsonRpcMessage;
use serde::Deserialize;
use serde_json::error::Category;
use serde_json::value::RawValue;
use shared::json;
use shared::rpc::{self, Envelope, Kind, Text};
use std::borrow::Cow;

/// The method whose arguments must reach the host as they were written.
const CALL: &str = "tools/call";

/// A message that does not go on: under this id, if that can be read, and why.
pub(super) struct Unreadable {
    pub(super) id: Option<RequestId>,
    pub(super) error: ErrorData,
}

/// A call's arguments, as the client wrote them.
#[derive(Deserialize)]
struct Written<'a> {
    #[serde(borrow)]
    params: WrittenParams<'a>,
}

#[derive(Deserialize)]
struct WrittenParams<'a> {
    #[serde(borrow)]
    arguments: Option<&'a RawValue>,
}

/// Returns a message, or the answer in its place; `None` if there is no answer.
pub(super) fn message(text: &[u8]) -> Option<Result<RxJsonRpcMessage<RoleServer>, Box<Unreadable>>> {
    let fault = match serde_json::from_slice(text) {
        Ok(message) => return Some(unchanged(text, message)),
        Err(fault) => fault,
    };
    // SECURITY: the fault quotes an unfitting value, which may be an argument; it does not quote a text that is no
    // JSON.
    let what = match fault.classify() {
        Category::Syntax | Category::Eof => format!("the message cannot be read, and nothing was executed: {fault}"),
        Category::Data | Category::Io => "the message is not one of this protocol".to_owned(),
    };
    // This passes over strings, numbers and depths that the reader of messages stumbles at.
    let (id, error) = match rpc::read(text) {
        Text::NotJson => (None, ErrorData::parse_error(what, None)),
        Text::NoMessage => (None, ErrorData::invalid_request(what, None)),
        // A client that sends our errors back would get errors without end.
        Text::Message(Envelope { kind: Kind::Notification | Kind::Response, .. }) => return None,
        Text::Message(Envelope { kind: Kind::Request, method: Some(method), id }) if method == CALL => {
            (id, ErrorData::invalid_params(what, None))
        }
        Text::Message(Envelope { id, .. }) => (id, ErrorData::invalid_request(what, None)),
    };
    let id = id.and_then(|id| serde_json::from_value(id).ok());
    Some(Err(Box::new(Unreadable { id, error })))
}

/// Returns the message, unless it is a call whose arguments differ from the line.
fn unchanged(
    line: &[u8],
    message: RxJsonRpcMessage<RoleServer>,
) -> Result<RxJsonRpcMessage<RoleServer>, Box<Unreadable>> {
    let JsonRpcMessage::Request(request) = &message else { return Ok(message) };
    let ClientRequest::CallToolRequest(_) = &request.request else { return Ok(message) };
    match changed(line) {
        None => Ok(message),
        Some(what) => {
            let what = format!("{what}; nothing was executed");
            let error = ErrorData::invalid_params(what, None);
            Err(Box::new(Unreadable { id: Some(request.id.clone()), error }))
        }
    }
}

/// Returns the change that reading made to a call's arguments.
fn changed(line: &[u8]) -> Option<Cow<'static, str>> {
    let Ok(Written { params: WrittenParams { arguments } }) = serde_json::from_slice(line) else {
        return Some("the call has a member twice".into());
    };
    let arguments = arguments?.get();
    if let Err(fault) = json::parse(arguments.as_bytes()) {
        return Some(format!("the arguments are {fault}").into());
    }
    // The host refuses inexact numbers that are kept, and names their place.
    json::loses_digits(arguments)
        .then(|| "the arguments hold a number that cannot be kept exactly; send it as a string".into())
}
