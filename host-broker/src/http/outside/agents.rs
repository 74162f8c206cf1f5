//! Agents: the flow of their access, its tools, and what became of their calls.

use super::{
    IDEMPOTENCY_KEY, Members, Outside, PREFER, Segment, Visitor, code_of, invalid, named, only, refused, reply, said,
};
use crate::call::{Caller, Invoked, Order};
use crate::event::{Invocation, News};
use axum::Extension;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use serde_json::{Map, Value};
use shared::flow::{GrantId, Id, Opaque};
use shared::request::ResultRequest;
use shared::{Code, IdempotencyKey, Reply, RequestId, Status, limits};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;

/// Where a tool is called.
pub(super) const INVOKE: &str = "/api/v1/flows/external-tools/{tool_id}/invoke";
/// Where it is asked what became of a call.
pub(super) const CALLS: &str = "/api/v1/flows/external-calls/{request_id}";

/// The access of the agent who asks.
fn access(visitor: Visitor) -> Result<GrantId, Box<Response>> {
    match visitor {
        Visitor::Agent(access) => Ok(access),
        Visitor::Operator(_) => Err(Box::new(refused(Code::FlowExternalGrantDenied))),
    }
}

impl Outside {
    /// The flow, as an agent reads it.
    pub(super) async fn read(&self, access: GrantId, flow: Id) -> Response {
        let read = self.put(Caller::Outside(access), Order::ReadFlow(flow), limits::PATIENCE_DEFAULT).await;
        read.map_or_else(|response| *response, |reply| said(&veiled(reply), None))
    }

    /// Has a tool called, and waits for the reply; the name of the request, and the reply or why there is none.
    pub(super) async fn call(&self, called: Called) -> Result<(RequestId, Reply), Box<Response>> {
        let Called { access, tool, given, key, patience } = called;
        let request_id = self.fresh_id()?;
        let (answer, receiver) = oneshot::channel();
        let of = request_id.clone();
        let invoked = Invoked { grant: access, tool, given, request_id, idempotency_key: key, patience };
        self.reports.send(News::Invoked(Box::new(Invocation { invoked, answer })));
        reply(receiver, limits::PATIENCE_MAX).await.map(|reply| (of, veiled(reply)))
    }
}

/// A call of a tool.
pub(super) struct Called {
    pub(super) access: GrantId,
    pub(super) tool: Opaque,
    pub(super) given: Map<String, Value>,
    pub(super) key: Option<IdempotencyKey>,
    pub(super) patience: Option<Duration>,
}

/// `POST /api/v1/flows/external-tools/{tool_id}/invoke`
pub(super) async fn invoke(
    State(outside): State<Arc<Outside>>,
    Extension(visitor): Extension<Visitor>,
    Extension(Members(given)): Extension<Members>,
    tool: Segment,
    headers: HeaderMap,
) -> Response {
    invoked(&outside, visitor, tool, given, headers).await.unwrap_or_else(|response| *response)
}

async fn invoked(
    outside: &Outside,
    visitor: Visitor,
    tool: Segment,
    given: Map<String, Value>,
    headers: HeaderMap,
) -> Result<Response, Box<Response>> {
    let access = access(visitor)?;
    let tool = named::<Opaque>(tool).ok_or_else(|| Box::new(refused(Code::FlowExternalGrantToolDenied)))?;
    let key = match headers.contains_key(IDEMPOTENCY_KEY).then(|| only(&headers, &IDEMPOTENCY_KEY)?.parse().ok()) {
        None => None,
        Some(Some(key)) => Some(key),
        Some(None) => return Err(Box::new(invalid("Idempotency-Key: it is no key, or there are several."))),
    };
    let (of, reply) = outside.call(Called { access, tool, given, key, patience: prefers(&headers) }).await?;
    Ok(said(&reply, Some(&of)))
}

/// `GET /api/v1/flows/external-calls/{request_id}`
pub(super) async fn result(
    State(outside): State<Arc<Outside>>,
    Extension(visitor): Extension<Visitor>,
    of: Segment,
    headers: HeaderMap,
) -> Response {
    let access = match access(visitor) {
        Ok(access) => access,
        Err(response) => return *response,
    };
    let Some(of) = named::<RequestId>(of) else { return refused(Code::UnknownRequest) };
    // Whoever asks again and again holds no place here meanwhile, unless that is what was meant.
    let patience = prefers(&headers).unwrap_or(Duration::ZERO).min(limits::PATIENCE_MAX);
    let order = Order::Result(ResultRequest { of: of.clone(), timeout_ms: None });
    let result = outside.put(Caller::Outside(access), order, patience).await;
    result.map_or_else(|response| *response, |reply| said(&veiled(reply), Some(&of)))
}

/// How long somebody wants to wait: `Prefer: wait=10`, in seconds (RFC 7240, section 4.3).
fn prefers(headers: &HeaderMap) -> Option<Duration> {
    let all = headers.get_all(PREFER).iter().filter_map(|value| value.to_str().ok());
    let mut seconds = all.flat_map(|value| value.split(',')).filter_map(|one| one.trim().strip_prefix("wait="));
    seconds.next()?.parse().ok().map(Duration::from_secs)
}

/// For an agent: what is said of a decision names groups, providers and actions, which are no concern of theirs.
fn veiled(mut reply: Reply) -> Reply {
    reply.summary = None;
    if let Some(asked) = &mut reply.approval {
        "a call waits for a person".clone_into(&mut asked.summary);
    }
    if reply.status == Status::Denied
        && let Some(code) = code_of(&reply).filter(|code| *code != Code::InvalidParams)
    {
        // What to do is said to groups, except where it is said to agents outside.
        let remedy = if code.word().starts_with("FLOW_") { code.remedy() } else { "" };
        reply.error = Some(format!("{} {remedy}", code.meaning()).trim_end().to_owned());
    }
    // What a provider says went wrong is said of its own names, and to whoever runs it.
    if let (Status::Failed | Status::Timeout, Some(code)) = (reply.status, code_of(&reply)) {
        reply.error = Some(code.meaning().to_owned());
    }
    reply
}
