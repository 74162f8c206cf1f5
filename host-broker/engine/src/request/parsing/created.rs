//! Requests that no mailbox brings now: tools of external agents, requests with an answered approval, `explain`, and the
//! broker's own.

use super::{ParseContext, Text, call, digest_of, inspect_call, timeout};
use crate::approval_subjects::StoredRequest;
use crate::event::Event;
use crate::request::{Command, CommandRequest, Parsed};
use config::FLOWS;
use config::flows::FlowsTable;
use kernel::call::{ApprovalPhase, Call, Header, Origin, Target};
use model::{Caller, ParamError, Person, Subject};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use shared::Group;
use shared::digest::Digest;
use shared::flow::{GrantId, Opaque};
use shared::request::{self, CallRequest, Request};
use shared::{IdempotencyKey, RequestId, limits};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// The use of a tool by an external agent.
#[derive(Debug)]
pub struct Invoked {
    /// The external grant.
    pub grant: GrantId,
    /// The tool.
    pub tool: Opaque,
    /// The given parameters.
    pub given: Map<String, Value>,
    /// The request id.
    pub request_id: RequestId,
    /// The key that makes a repeated call the same call.
    pub idempotency_key: Option<IdempotencyKey>,
    /// The time that it wants to wait. It can only shorten the host's own limit.
    pub timeout: Option<Duration>,
}

/// Makes the call of a tool from the parameters that the operator has fixed and those that the external agent gives. A
/// missing or removed tool gives a call of no action, which is decided on and refused like every other. The same holds
/// for a call with a forbidden parameter, but a caller without access to the tool learns only of the missing access.
///
/// # Errors
/// The use is no valid call.
pub fn invoked(invoked: Invoked, flows: &FlowsTable, context: &ParseContext) -> Result<Box<Call>, Parsed> {
    let Invoked { grant, tool, given, request_id, idempotency_key, timeout: wanted } = invoked;
    let caller = Caller::External(grant);
    let bound = flows.tool(&tool);
    let composed = bound.map_or(Ok(Map::new()), |bound| bound.params_with(&given));
    let header = made_header(caller, request_id, Subject::NOBODY, Digest::of(b""), context.timeout);
    let (params, closed) = match composed {
        Ok(params) => (params, None),
        Err(closed) => (given, Some(closed)),
    };
    #[expect(clippy::expect_used, clippy::missing_panics_doc, reason = "letters satisfy the grammar")]
    let (provider, action) = match bound {
        Some(bound) => (bound.provider.clone(), bound.action.clone()),
        None => (FLOWS.parse().expect("a provider"), "invoke".parse().expect("an action")),
    };
    let body = CallRequest {
        provider,
        action,
        params,
        task_id: bound.and_then(|bound| bound.task_id.clone()),
        idempotency_key,
        account_ref: None,
        timeout_ms: None,
        dry_run: false,
    };
    let request = Request::Call(body.clone());
    let header = Header {
        request_digest: digest_of(&request, &header.behalf, context),
        timeout: wanted.unwrap_or(Duration::MAX).min(timeout(&request, context)),
        ..header
    };
    let document = serde_json::to_vec(&request.body()).unwrap_or_default();
    match call(body, header, (&Text::new(&document), &document), context) {
        Parsed::Call(call) => {
            let target = match (call.target, closed) {
                (Target::Action(operation, _), Some(closed)) => Target::Action(operation, Err(vec![no_such(&closed)])),
                (target, _) => target,
            };
            Ok(Box::new(Call { tool: Some(tool), target, ..*call }))
        }
        other @ (Parsed::InvalidDocument(_) | Parsed::CommandRequest(_)) => Err(other),
    }
}

fn no_such(closed: &str) -> ParamError {
    let pointer = format!("/{}", closed.replace('~', "~0").replace('/', "~1"));
    ParamError { pointer, fault: "this tool has no such parameter".to_owned() }
}

/// An external agent's call after an approval request, made again from the stored document and the tool's present
/// settings.
#[derive(Deserialize)]
struct MadeAgain {
    tool: Opaque,
    params: Map<String, Value>,
    idempotency_key: Option<IdempotencyKey>,
}

fn invoked_again(
    grant: GrantId,
    request_id: RequestId,
    bytes: &[u8],
    flows: &FlowsTable,
    context: &ParseContext,
) -> Result<Box<Call>, String> {
    let MadeAgain { tool, params, idempotency_key } =
        serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
    let bound = flows.tool(&tool);
    // Parameters that are fixed or closed now are so in any case. If that changes the call, the approval does not cover
    // it.
    let given = params.into_iter().filter(|(name, _)| bound.is_none_or(|bound| bound.open.contains(name))).collect();
    let again = Invoked { grant, tool, given, request_id, idempotency_key, timeout: None };
    invoked(again, flows, context).map_err(|_other| "the tool takes other parameters now".to_owned())
}

/// Makes a call again from its stored document, after an approval request. It is parsed and inspected for the same
/// decision as the first time. The caller is known from the first time. The reply goes to the origin of the first one,
/// if it still waits.
///
/// # Errors
/// The error in the document; it was right when it was stored.
pub fn readmit(
    caller: Caller,
    request_id: RequestId,
    behalf: Subject,
    bytes: &[u8],
    (flows, context): (&FlowsTable, &ParseContext),
) -> Result<Box<Call>, String> {
    let mut call = match caller {
        Caller::External(grant) => invoked_again(grant, request_id, bytes, flows, context)?,
        Caller::Group(group) => made(group, request_id, behalf, bytes, context)?,
        Caller::Person(_) | Caller::Operator(_) | Caller::Broker => {
            return Err("it is not a caller's that calls".to_owned());
        }
    };
    // The caller's own timeout does not limit the call after a person's answer.
    call.header.timeout = context.catalogue.timeout(&call.provider).unwrap_or(context.timeout).min(limits::TIMEOUT_MAX);
    call.asked = ApprovalPhase::Yes;
    inspect_call(&mut call, context);
    Ok(call)
}

/// Makes a command of a group again from its stored body, after an approval request. `request` and `command`
/// make both of the body.
///
/// # Errors
/// The error in the body; it was right when it was stored.
pub fn readmit_command<T: Clone + DeserializeOwned>(
    stored: StoredRequest<'_>,
    context: &ParseContext,
    (request, command): (impl Fn(T) -> Request, impl Fn(T) -> Command),
) -> Result<Event, String> {
    let StoredRequest { caller, request_id, behalf, document } = stored;
    let Caller::Group(_) = caller else { return Err("only a group makes such a request".to_owned()) };
    let body: T = serde_json::from_slice(document).map_err(|error| error.to_string())?;
    let request_digest = digest_of(&request(body.clone()), &behalf, context);
    let header = made_header(caller, request_id, behalf, request_digest, context.timeout);
    let request = CommandRequest { header, command: command(body), asked: true, calls: Vec::new(), failed_read: None };
    Ok(Event::Arrived(Parsed::CommandRequest(Box::new(request))))
}

/// Makes a call as if it had come from the group's directory on this person's behalf, to explain the decision on it.
/// Its reply goes nowhere.
///
/// # Errors
/// The error in the document, in words that quote nothing.
pub fn hypothetical(
    group: Group,
    person: Option<Person>,
    bytes: &[u8],
    context: &ParseContext,
) -> Result<Box<Call>, String> {
    let request_id = "hypothetical".parse().map_err(|error: shared::names::BadName| error.to_string())?;
    let behalf = person.map_or(Subject::NOBODY, |person| Subject::Person(Arc::new(person)));
    made(group, request_id, behalf, bytes, context)
}

/// Makes the same for an external agent: the call of this tool.
///
/// # Errors
/// The use is no valid call.
pub fn hypothetical_of_tool(
    grant: GrantId,
    tool: Opaque,
    given: Map<String, Value>,
    flows: &FlowsTable,
    context: &ParseContext,
) -> Result<Box<Call>, String> {
    let request_id = "hypothetical".parse().map_err(|error: shared::names::BadName| error.to_string())?;
    let wanted = Invoked { grant, tool, given, request_id, idempotency_key: None, timeout: None };
    invoked(wanted, flows, context).map_err(|refused| match refused {
        Parsed::InvalidDocument(invalid) => invalid.reason,
        Parsed::Call(_) | Parsed::CommandRequest(_) => "not a call".to_owned(),
    })
}

/// Makes a call of a group without a file, because a person wants it made or decided again. It is decided on like every
/// other.
///
/// # Errors
/// The error in the document, in words that quote nothing.
pub fn made(
    group: Group,
    request_id: RequestId,
    behalf: Subject,
    bytes: &[u8],
    context: &ParseContext,
) -> Result<Box<Call>, String> {
    let document = request::parse(bytes).map_err(|refused| refused.why.to_string())?;
    let timeout = timeout(&document.request, context);
    let request_digest = digest_of(&document.request, &behalf, context);
    let body = document.request.into_call().map_err(|_other| "not a call".to_owned())?;
    let header = made_header(Caller::Group(group), request_id, behalf, request_digest, timeout);
    match call(body, header, (&Text::new(bytes), bytes), context) {
        Parsed::Call(call) => Ok(call),
        Parsed::InvalidDocument(invalid) => Err(invalid.reason),
        Parsed::CommandRequest(_) => Err("not a call".into()),
    }
}

pub(super) fn made_header(
    caller: Caller,
    request_id: RequestId,
    behalf: Subject,
    request_digest: Digest,
    timeout: Duration,
) -> Header {
    Header {
        caller_key: caller.to_string().into(),
        caller,
        behalf,
        request_id,
        conversation: None,
        request_digest,
        origin: Origin::Broker,
        arrived: Instant::now(),
        timeout,
        weight: None,
    }
}
