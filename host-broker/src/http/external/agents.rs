//! Agents: the flow of their external grant, its tools, and the outcomes of their calls.

use super::{
    ExternalApi, IDEMPOTENCY_KEY, Members, PREFER, Segment, Visitor, code_of, invalid, named, only, refused, reply,
    said,
};
use crate::daemon::{Invocation, Message};
use axum::Extension;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use engine::request::{Command, Invoked};
use model::Caller;
use serde_json::{Map, Value};
use shared::flow::{GrantId, Id, Opaque};
use shared::request::{CancelRequest, ResultRequest};
use shared::{Code, IdempotencyKey, Reply, RequestId, Status, limits};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;

/// Where a tool is called.
pub(super) const INVOKE: &str = "/api/v1/flows/external-tools/{tool_id}/invoke";
/// The route for the outcome of a call.
pub(super) const CALLS: &str = "/api/v1/flows/external-calls/{request_id}";

/// The access of the agent who asks.
fn access(visitor: Visitor) -> Result<GrantId, Box<Response>> {
    match visitor {
        Visitor::Agent(access) => Ok(access),
        Visitor::Operator(_) => Err(Box::new(refused(Code::FlowExternalGrantDenied))),
    }
}

impl ExternalApi {
    /// The flow, as an agent reads it.
    pub(super) async fn read(&self, access: GrantId, flow: Id) -> Response {
        let read = self.put(Caller::External(access), Command::ReadFlow(flow), limits::TIMEOUT_DEFAULT).await;
        read.map_or_else(|response| *response, |reply| said(&veiled(reply), None))
    }

    /// Has a tool called, and waits for the reply; the name of the request, and the reply or why there is none.
    pub(super) async fn call(&self, called: Called) -> Result<(RequestId, Reply), Box<Response>> {
        let Called { access, tool, given, key, timeout, unless_left, rpc_id } = called;
        let request_id = self.fresh_id()?;
        let _waiting = rpc_id.map(|id| self.under_way.begin((access.clone(), id), request_id.clone()));
        let (answer, receiver) = oneshot::channel();
        let of = request_id.clone();
        let mut asker = Asker { api: self, access: access.clone(), of: of.clone(), withdraws: unless_left };
        let invoked = Invoked { grant: access, tool, given, request_id, idempotency_key: key, timeout };
        self.reports.send(Message::Invoked(Box::new(Invocation { invoked, answer })));
        let reply = reply(receiver, limits::TIMEOUT_MAX).await;
        asker.withdraws = false;
        reply.map(|reply| (of, veiled(reply)))
    }

    /// Waits for the outcome of an earlier call of the external grant.
    pub(super) async fn result_of(
        &self,
        access: GrantId,
        of: RequestId,
        timeout: Duration,
    ) -> Result<Reply, Box<Response>> {
        let command = Command::Result(ResultRequest { of, timeout_ms: None });
        self.put(Caller::External(access), command, timeout).await.map(veiled)
    }

    /// Withdraws the call of a request that a client has cancelled, if it is known which call that is.
    pub(super) fn cancelled(&self, access: &GrantId, rpc_id: String) {
        if let Some(of) = self.under_way.only(&(access.clone(), rpc_id)) {
            self.withdraw(access.clone(), of);
        }
    }

    /// Withdraws a call that has not started. Nobody waits for the reply.
    fn withdraw(&self, access: GrantId, of: RequestId) {
        let command = Command::Cancel(CancelRequest { of });
        // ORDER: the call may still wait to be parsed.
        if let Ok((event, _reply)) = self.request(Caller::External(access), command, limits::TIMEOUT_DEFAULT) {
            self.reports.send(Message::Queued(Box::new(event)));
        }
    }

    /// Stops an earlier call of the access that has not started.
    pub(super) async fn cancel(&self, access: GrantId, of: RequestId) -> Result<Reply, Box<Response>> {
        let command = Command::Cancel(CancelRequest { of });
        self.put(Caller::External(access), command, limits::TIMEOUT_DEFAULT).await.map(veiled)
    }
}

/// An agent that waits for the reply to a call.
struct Asker<'a> {
    api: &'a ExternalApi,
    access: GrantId,
    of: RequestId,
    /// Whether the call is withdrawn when the agent stops waiting.
    withdraws: bool,
}

impl Drop for Asker<'_> {
    fn drop(&mut self) {
        if self.withdraws {
            self.api.withdraw(self.access.clone(), self.of.clone());
        }
    }
}

/// A call of a tool.
pub(super) struct Called {
    pub(super) access: GrantId,
    pub(super) tool: Opaque,
    pub(super) given: Map<String, Value>,
    pub(super) key: Option<IdempotencyKey>,
    pub(super) timeout: Option<Duration>,
    /// Whether the call is withdrawn if the agent stops waiting before there is a reply.
    pub(super) unless_left: bool,
    /// The id of the client's JSON-RPC request as JSON text, with which it can cancel the call.
    pub(super) rpc_id: Option<String>,
}

/// `POST /api/v1/flows/external-tools/{tool_id}/invoke`
pub(super) async fn invoke(
    State(api): State<Arc<ExternalApi>>,
    Extension(visitor): Extension<Visitor>,
    Extension(Members(given)): Extension<Members>,
    tool: Segment,
    headers: HeaderMap,
) -> Response {
    invoked(&api, visitor, tool, given, headers).await.unwrap_or_else(|response| *response)
}

async fn invoked(
    api: &ExternalApi,
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
    let (of, reply) = api
        .call(Called { access, tool, given, key, timeout: prefers(&headers), unless_left: false, rpc_id: None })
        .await?;
    Ok(said(&reply, Some(&of)))
}

/// `GET /api/v1/flows/external-calls/{request_id}`
pub(super) async fn result(
    State(api): State<Arc<ExternalApi>>,
    Extension(visitor): Extension<Visitor>,
    of: Segment,
    headers: HeaderMap,
) -> Response {
    let access = match access(visitor) {
        Ok(access) => access,
        Err(response) => return *response,
    };
    let Some(of) = named::<RequestId>(of) else { return refused(Code::UnknownRequest) };
    // Without `Prefer`, a repeated request takes no place while the call runs.
    let timeout = prefers(&headers).unwrap_or(Duration::ZERO).min(limits::TIMEOUT_MAX);
    let result = api.result_of(access, of.clone(), timeout).await;
    result.map_or_else(|response| *response, |reply| said(&reply, Some(&of)))
}

/// Returns the wait that the client prefers: `Prefer: wait=10`, in seconds (RFC 7240, section 4.3).
pub(super) fn prefers(headers: &HeaderMap) -> Option<Duration> {
    let all = headers.get_all(PREFER).iter().filter_map(|value| value.to_str().ok());
    let mut seconds = all.flat_map(|value| value.split(',')).filter_map(|one| one.trim().strip_prefix("wait="));
    seconds.next()?.parse().ok().map(Duration::from_secs)
}

/// Removes the text of a decision for an agent: it names groups, providers and actions, which do not concern the agent.
fn veiled(mut reply: Reply) -> Reply {
    reply.summary = None;
    if let Some(asked) = &mut reply.approval {
        "a call waits for a person".clone_into(&mut asked.summary);
    }
    // A provider's fault uses its own names, and is meant for its operator.
    if let (Status::Denied | Status::Failed | Status::Timeout, Some(code)) = (reply.status, code_of(&reply))
        && code != Code::InvalidParams
    {
        reply.error = Some(format!("{} {}", code.meaning(), remedy(code)));
    }
    reply
}

/// The codes whose remedy is the same for an external agent as for a group, besides those of flows.
const SAME_REMEDY: [Code; 16] = [
    Code::OwnSecret,
    Code::Busy,
    Code::KillSwitch,
    Code::ApprovalRequired,
    Code::ApprovalDenied,
    Code::ApprovalExpired,
    Code::Guardrail,
    Code::RangeTooWide,
    Code::TooLarge,
    Code::RateLimited,
    Code::BreakerOpen,
    Code::ProviderTimeout,
    Code::OutcomeUnknown,
    Code::Cancelled,
    Code::StillRunning,
    Code::IdempotencyConflict,
];

/// Returns an external agent's next step after a refusal. It has no group, no grants and no operator to ask.
fn remedy(code: Code) -> &'static str {
    let is_same = SAME_REMEDY.contains(&code) || code.word().starts_with("FLOW_EXTERNAL_GRANT_");
    if is_same {
        code.remedy()
    } else if code == Code::UnknownRequest {
        "Name the request_id of a call with this access from the last 24 hours."
    } else {
        "Ask the issuer of your access."
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remedies_for_external_agents_name_no_internals() {
        for code in Code::ALL {
            let said = remedy(*code);
            assert!(!said.is_empty(), "{code}");
            for inside in ["group", "host-broker", "EXT_", "ext_capabilities", "ext_auth", "[flows", "flow_list"] {
                assert!(!said.contains(inside), "{code}: {said}");
            }
        }
    }
}
