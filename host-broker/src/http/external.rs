//! The routes for bearers from other machines: for agents with an external grant of a flow and its tools, and for
//! operators who work with flows.
//!
//! ```text
//! POST /api/v1/flows/external-tools/{tool_id}/invoke             the tool's parameters, a JSON object
//! GET  /api/v1/flows/external-calls/{request_id}                 the outcome of a call that was not over (202)
//! GET  /api/v1/flows/{flow_id}/projection?harness=agent_bundle   the flow, for agents and for operators
//! …    /api/v1/flows…                                            everything else about flows, for operators
//! GET  /api/v1/openapi.json                                      all of it, as a document for programs
//! POST /mcp                                                      the same, as tools for an MCP client
//!
//! Authorization: Bearer fgrnt_bearer_…    or    Bearer optk_bearer_…
//! ```
//! A bearer opens these routes and no others. This module only looks up its owner. The broker decides whether it is
//! valid, in the transaction of each request. Pages of browsers are refused, unless they come from this machine itself,
//! and so is a host name that is not configured.

mod agents;
mod mcp;
mod openapi;
mod operators;
mod rates;
mod under_way;

pub(in crate::http) use under_way::UnderWay;

use crate::control::CommandDispatcher;
use crate::daemon::EventSender;
use crate::http::connections::Standing;
use crate::http::pace::Pace;
use crate::http::web::{Closed, ReadPool, check_host, seal, sign_in::WebSignIn};
use axum::Router;
use axum::body::{Body, Bytes, to_bytes};
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{any, get, post};
use config::Config;
use engine::event::Event;
use engine::flows::standing::{Use, standing};
use engine::operator_tokens::is_in_force;
use engine::own_secrets;
use engine::request::{Command, CommandRequest, InvalidDocument, Parsed};
use futures_util::StreamExt as _;
use http_body::Body as _;
use kernel::call::{Header, Origin};
use model::bearer::Bearer;
use model::errors::chain;
use model::{Caller, Clock, Nonce, Subject};
pub(super) use rates::Rates;
use serde_json::{Map, Value, json};
use shared::flow::GrantId;
use shared::{Code, Reply, RequestId, Status, limits};
use std::str::FromStr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use store::state::external_grants;
use store::state::operators as tokens;
use store::state::operators::Operator;
use store::{StoreError, View};
use tokio::sync::{Semaphore, oneshot};
use tokio::time::Instant;

/// The longest body, in bytes.
const BODY_BYTES_MAX: usize = 256 * 1024;
/// How long it may take to arrive.
const BODY_TIMEOUT: Duration = Duration::from_secs(20);
/// The longest body of a client without permission, in bytes, and its longest time: enough for a refusal with its
/// reason.
const REFUSED_BYTES_MAX: u64 = 4 * 1024;
const REFUSED_TIMEOUT: Duration = Duration::from_secs(1);
/// The broker's additional time beyond the call's timeout.
const MARGIN: Duration = Duration::from_secs(5);

const EXTERNAL_BEARER: HeaderName = HeaderName::from_static("x-flow-external-bearer");
const GRANT_ID: HeaderName = HeaderName::from_static("x-flow-grant-id");
const PREFER: HeaderName = HeaderName::from_static("prefer");
const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
const VAULT: HeaderName = HeaderName::from_static("x-vault-id");
/// The type of a stream of server-sent events.
const EVENT_STREAM: &str = "text/event-stream";
/// The headers that show that a proxy forwards a request (RFC 7239, RFC 9110 section 7.6.3).
const PROXIES: [&str; 5] = ["forwarded", "via", "x-forwarded-for", "x-forwarded-host", "x-forwarded-proto"];

/// The state of the routes for bearers.
pub(super) struct ExternalApi {
    /// By which names they come.
    pub(super) config: Arc<Config>,
    /// This machine's own names.
    pub(super) sign_in: Arc<WebSignIn>,
    /// The sender of requests to the broker.
    pub(super) dispatcher: CommandDispatcher,
    /// Where requests go.
    pub(super) reports: EventSender,
    /// Where bearers are looked up.
    pub(super) read_pool: Arc<ReadPool>,
    /// The time.
    pub(super) clock: Arc<dyn Clock>,
    /// How fast bearers may be wrong.
    pub(super) pace: Mutex<Pace>,
    /// How fast each may be used.
    pub(super) rates: Rates,
    /// How many of them are served at once.
    pub(super) places: Places,
    /// The calls that MCP clients wait for.
    pub(super) under_way: UnderWay,
}

/// People, who come to the same address, are to find a place, and operators beside any number of agents.
#[derive(Debug)]
pub(super) struct Places {
    agents: Arc<Semaphore>,
    operators: Arc<Semaphore>,
}

impl Default for Places {
    fn default() -> Self {
        Self { agents: Arc::new(Semaphore::new(24)), operators: Arc::new(Semaphore::new(8)) }
    }
}

/// The client that shows a bearer.
#[derive(Debug, Clone)]
enum Visitor {
    /// An agent, with this access.
    Agent(GrantId),
    /// An operator, with this token; it may not hold.
    Operator(Box<Operator>),
}

/// The owner of the bearer of a request.
struct Identified {
    visitor: Visitor,
    /// Why the bearer opens nothing now, if it does not.
    refused: Option<Code>,
}

/// The routes.
pub(super) fn router(api: ExternalApi) -> Router {
    let api = Arc::new(api);
    operators::router()
        .route(agents::INVOKE, post(agents::invoke))
        .route(agents::CALLS, get(agents::result))
        .method_not_allowed_fallback(wrong_method)
        .route(mcp::PLACE, mcp::route(&api))
        .layer(from_fn_with_state(Arc::clone(&api), identify))
        .route(openapi::PLACE, get(openapi::document))
        .route("/api/v1/{*unknown}", any(unknown_path))
        .layer(from_fn_with_state(Arc::clone(&api), guard_request))
        .with_state(api)
}

async fn unknown_path() -> Response {
    let why = "There is nothing at this path; see /api/v1/openapi.json.";
    plainly(StatusCode::NOT_FOUND, Code::UnknownType, why)
}

async fn wrong_method() -> Response {
    plainly(
        StatusCode::METHOD_NOT_ALLOWED,
        Code::UnknownType,
        "This is not done here in this way; see /api/v1/openapi.json.",
    )
}

/// Checks every request, and adds the headers of every reply.
async fn guard_request(State(api): State<Arc<ExternalApi>>, request: Request, next: Next) -> Response {
    let is_mcp = request.uri().path() == mcp::PLACE;
    let mut response = match api.admit(&request) {
        Ok(()) => next.run(request).await,
        Err(refused) => *refused,
    };
    if is_mcp {
        response = mcp::spoken(response, None).await;
    }
    seal(response.headers_mut());
    response
}

/// Finds the sender of a request, and reads all of it.
async fn identify(State(api): State<Arc<ExternalApi>>, request: Request, next: Next) -> Response {
    let is_mcp = request.uri().path() == mcp::PLACE;
    let Identified { visitor, refused } = match api.visitor(request.headers()).await {
        Ok(identified) => identified,
        Err(response) if is_mcp => return mcp::unauthorized(*response),
        Err(response) => return *response,
    };
    let Some(turn) = api.rates.take(visitor.name()) else { return later(Code::RateLimited) };
    let places = match &visitor {
        Visitor::Agent(_) => &api.places.agents,
        Visitor::Operator(_) => &api.places.operators,
    };
    let Ok(place) = Arc::clone(places).try_acquire_owned() else { return later(Code::Busy) };
    // SECURITY: only a bearer in force keeps its connection, and only its long requests are read.
    let held = if refused.is_none() { Standing::hold(&request) } else { None };
    let timeout = if refused.is_none() { BODY_TIMEOUT } else { REFUSED_TIMEOUT };
    if let Some(code) = refused
        && request.body().size_hint().upper().is_none_or(|bytes| bytes > REFUSED_BYTES_MAX)
    {
        return api.turned_away(code);
    }
    match received(&api, request, visitor, timeout).await {
        Ok(request) => held_by_stream(next.run(request).await, (turn, place, held)),
        Err(response) => *response,
    }
}

/// Keeps the resources of a request until its response ends, if that is a stream of events.
fn held_by_stream<H: Send + 'static>(response: Response, held: H) -> Response {
    let kind = response.headers().get(header::CONTENT_TYPE);
    if !kind.is_some_and(|kind| kind.as_bytes().starts_with(EVENT_STREAM.as_bytes())) {
        return response;
    }
    response.map(|body| {
        Body::from_stream(body.into_data_stream().map(move |chunk| {
            let _held = &held;
            chunk
        }))
    })
}

/// The members of a request, parsed strictly: they have one meaning, or are refused.
#[derive(Debug, Clone)]
struct Members(Map<String, Value>);

async fn received(
    api: &ExternalApi,
    request: Request,
    visitor: Visitor,
    timeout: Duration,
) -> Result<Request, Box<Response>> {
    let (mut head, body) = request.into_parts();
    let body = if head.method == Method::POST { whole(body, timeout).await? } else { Bytes::new() };
    api.refuse_own_secret(&visitor, &head, &body).await?;
    // Messages of MCP are read where they are answered, because a fault is answered under the id of its message.
    if head.uri.path() != mcp::PLACE {
        head.extensions.insert(Members(members(&body)?));
    }
    head.extensions.insert(visitor);
    Ok(Request::from_parts(head, Body::from(body)))
}

/// Not now.
fn later(code: Code) -> Response {
    let mut response = refused(code);
    response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
    response
}

impl ExternalApi {
    fn admit(&self, request: &Request) -> Result<(), Box<Response>> {
        let headers = request.headers();
        let is_local = |origin: &str| {
            let host = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
            host.is_some_and(is_literal)
        };
        if headers.contains_key(header::ORIGIN) && !only(headers, &header::ORIGIN).is_some_and(is_local) {
            return Err(Box::new(plainly(
                StatusCode::FORBIDDEN,
                Code::MalformedRequest,
                "A page of a browser has no business here.",
            )));
        }
        let (table, address) = (&self.config.flows.external_agent, self.sign_in.address());
        let named = only(headers, &header::HOST).unwrap_or_default();
        // SECURITY: a forwarded request does not come from this machine, under any host name. The proxy has to name the
        // original host.
        let is_handed_on = PROXIES.iter().any(|name| headers.contains_key(*name));
        let is_said = request.uri().authority().is_none_or(|authority| authority.as_str() == named);
        let is_own = is_literal(named) || !address.is_tls() && check_host(address, request.uri(), headers).is_ok();
        if is_said && is_own && !is_handed_on {
            return Ok(());
        }
        let is_hosted = table.hosted_hostnames.iter().any(|hosted| hosted.eq_ignore_ascii_case(named));
        if !is_said || is_own || !is_hosted {
            return Err(Box::new(plainly(
                Closed::WrongHost.status(),
                Code::MalformedRequest,
                "This is not an address of this host.",
            )));
        }
        if !table.hosted_projection {
            return Err(Box::new(refused(Code::FlowHostedProjectionDisabled)));
        }
        Ok(())
    }

    /// The owner of the bearer of the request, if the bearer is valid.
    async fn visitor(&self, headers: &HeaderMap) -> Result<Identified, Box<Response>> {
        let shown = if headers.contains_key(EXTERNAL_BEARER) {
            only(headers, &EXTERNAL_BEARER)
        } else {
            // The scheme is a word in any letters (RFC 9110, section 11.1).
            let (scheme, bearer) = only(headers, &header::AUTHORIZATION).and_then(|text| text.split_once(' ')).unzip();
            bearer.filter(|_| scheme.is_some_and(|scheme| scheme.eq_ignore_ascii_case("bearer")))
        };
        let Some(shown) = shown else {
            let code = Code::FlowExternalGrantDenied;
            let words = json!({
                "status": "denied", "code": code.word(), "error": "Send Authorization: Bearer … with it.",
            });
            let mut response = document(StatusCode::UNAUTHORIZED, &words);
            response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
            return Err(Box::new(response));
        };
        let (config, now) = (Arc::clone(&self.config), self.clock.now());
        let found = if let Some(bearer) = Bearer::shown(tokens::BEARER, shown) {
            self.look(move |connection| {
                let operator = tokens::opened_by(connection, &bearer.digest())?;
                Ok(operator.map(|operator| {
                    let refused = (!is_in_force(&operator, &config, now)).then_some(Code::OperatorTokenDenied);
                    Identified { visitor: Visitor::Operator(Box::new(operator)), refused }
                }))
            })
            .await
        } else if let Some(bearer) = Bearer::shown(external_grants::BEARER, shown) {
            let access = self.look(move |connection| {
                let Some(id) = external_grants::opened_by(connection, &bearer.digest())? else { return Ok(None) };
                let refused = standing(connection, &config.flows, now, &id, Use::Result)?.err();
                Ok(Some((id, refused)))
            });
            // Another's name beside it says as little as none.
            let is_meant = |(id, _): &(GrantId, Option<Code>)| {
                !headers.contains_key(GRANT_ID) || only(headers, &GRANT_ID) == Some(id.as_str())
            };
            let identified = |(id, refused)| Identified { visitor: Visitor::Agent(id), refused };
            access.await.map(|found| found.filter(is_meant).map(identified))
        } else {
            Ok(None)
        };
        found?.ok_or_else(|| Box::new(self.wrong(shown)))
    }

    /// Looks into the ledger, on a thread that may wait.
    async fn look<T: Send + 'static>(
        &self,
        look: impl FnOnce(&View) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, Box<Response>> {
        let read_pool = Arc::clone(&self.read_pool);
        let looked = tokio::task::spawn_blocking(move || read_pool.look(look)).await;
        let error = match looked {
            Ok(Ok(found)) => return Ok(found),
            Ok(Err(error)) => chain(&error),
            Err(error) => error.to_string(),
        };
        tracing::error!(%error, "whose bearer it is cannot be looked up");
        Err(Box::new(refused(Code::EvidenceUnavailable)))
    }

    /// Counts a wrong bearer in the ledger, and slows its sender down.
    fn wrong(&self, shown: &str) -> Response {
        let tried = self.pace.lock().unwrap_or_else(PoisonError::into_inner).take(self.clock.now());
        if let Err(seconds) = tried {
            let mut response = plainly(StatusCode::TOO_MANY_REQUESTS, Code::RateLimited, "Too many wrong bearers.");
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
            return response;
        }
        let is_operators = shown.starts_with(tokens::BEARER);
        self.turned_away(if is_operators { Code::OperatorTokenDenied } else { Code::FlowExternalGrantDenied })
    }

    /// Refuses a request that is not read, and counts it in the ledger.
    fn turned_away(&self, code: Code) -> Response {
        self.reports.happened(Event::Arrived(Parsed::InvalidDocument(Box::new(InvalidDocument {
            caller: Caller::Broker,
            caller_key: "outside".into(),
            request_id: None,
            origin: Origin::Broker,
            code,
            reason: code.meaning().to_owned(),
        }))));
        refused(code)
    }

    /// Refuses a request that holds a secret of the broker's own. The row repeats nothing of the request.
    async fn refuse_own_secret(&self, visitor: &Visitor, head: &Parts, body: &Bytes) -> Result<(), Box<Response>> {
        let (scrubber, body) = (Arc::clone(&self.dispatcher.scrubber), body.clone());
        let key = only(&head.headers, &IDEMPOTENCY_KEY).unwrap_or_default().to_owned();
        let address = head.uri.to_string();
        let search = move || own_secrets::are_in_request(&[address.as_str(), key.as_str()], &body, &scrubber);
        // A search that failed proves nothing.
        if tokio::task::spawn_blocking(search).await.is_ok_and(|holds_own| !holds_own) {
            return Ok(());
        }
        let (caller, code) = (visitor.caller(), Code::OwnSecret);
        self.reports.happened(Event::Arrived(Parsed::InvalidDocument(Box::new(InvalidDocument {
            caller_key: caller.to_string().into(),
            caller,
            request_id: None,
            origin: Origin::Broker,
            code,
            reason: code.meaning().to_owned(),
        }))));
        Err(Box::new(refused(code)))
    }

    fn fresh_id(&self) -> Result<RequestId, Box<Response>> {
        let nonce =
            Nonce::fresh(self.dispatcher.ids.as_ref()).map_err(|_none| Box::new(refused(Code::EvidenceUnavailable)))?;
        #[expect(clippy::expect_used, reason = "letters, digits and a hyphen satisfy the grammar")]
        let id = format!("out-{}", nonce.as_str()).parse().expect("a request id");
        Ok(id)
    }

    /// Sends the broker a command that needs no provider, and waits for its reply.
    async fn put(&self, caller: Caller, command: Command, timeout: Duration) -> Result<Reply, Box<Response>> {
        let (event, receiver) = self.request(caller, command, timeout)?;
        self.reports.happened(event);
        reply(receiver, timeout).await
    }

    /// Returns the request for a command that needs no provider, and the receiver of its reply.
    fn request(
        &self,
        caller: Caller,
        command: Command,
        timeout: Duration,
    ) -> Result<(Event, oneshot::Receiver<Vec<u8>>), Box<Response>> {
        let (sender, receiver) = oneshot::channel();
        let header = Header {
            caller_key: caller.to_string().into(),
            caller,
            behalf: Subject::NOBODY,
            request_id: self.fresh_id()?,
            conversation: None,
            request_digest: self.dispatcher.key.digest(format!("{command:?}").as_bytes()),
            origin: Origin::Socket(sender),
            arrived: Instant::now(),
            timeout,
            weight: None,
        };
        let command_request = CommandRequest { header, command, asked: false, calls: Vec::new(), failed_read: None };
        Ok((Event::Arrived(Parsed::CommandRequest(Box::new(command_request))), receiver))
    }
}

impl Visitor {
    fn caller(&self) -> Caller {
        match self {
            Self::Agent(access) => Caller::External(access.clone()),
            Self::Operator(operator) => Caller::Operator(operator.token_id.clone()),
        }
    }

    fn name(&self) -> &str {
        match self {
            Self::Agent(access) => access.as_str(),
            Self::Operator(operator) => operator.token_id.as_str(),
        }
    }
}

/// A part of a path, as it came in.
type Segment = Result<Path<String>, PathRejection>;

/// Parses a name from the path; `None` if it is not valid.
fn named<T: FromStr>(segment: Segment) -> Option<T> {
    segment.ok().and_then(|Path(text)| text.parse().ok())
}

/// Reads the whole body, or returns the refusal of one that is too long or too slow.
async fn whole(body: Body, timeout: Duration) -> Result<Bytes, Box<Response>> {
    match tokio::time::timeout(timeout, to_bytes(body, BODY_BYTES_MAX)).await {
        Ok(Ok(body)) => Ok(body),
        Ok(Err(_long)) => Err(Box::new(plainly(
            StatusCode::PAYLOAD_TOO_LARGE,
            Code::OversizedRequest,
            "The body is longer than 256 KiB, or incomplete.",
        ))),
        Err(_slow) => Err(Box::new(plainly(
            StatusCode::REQUEST_TIMEOUT,
            Code::MalformedRequest,
            "The body took too long to arrive.",
        ))),
    }
}

/// A JSON object, read as strictly as a request of a group; nothing is an empty one.
fn members(body: &Bytes) -> Result<Map<String, Value>, Box<Response>> {
    if body.is_empty() {
        return Ok(Map::new());
    }
    let read = shared::json::parse_object_within(body, limits::REQUEST_NODES_MAX);
    let (members, _) = read.map_err(|fault| Box::new(invalid(&format!("The body must be a JSON object: {fault}."))))?;
    let text = std::str::from_utf8(body).unwrap_or_default();
    match shared::json::inexact_numbers(text).first() {
        None => Ok(members),
        Some(number) => {
            let number: String = number.chars().take(40).collect();
            Err(Box::new(invalid(&format!("The number {number} cannot be kept exactly; send it as a string."))))
        }
    }
}

/// The reply, once it is there.
async fn reply(receiver: oneshot::Receiver<Vec<u8>>, timeout: Duration) -> Result<Reply, Box<Response>> {
    let unavailable = |why: &str| Err(Box::new(plainly(StatusCode::SERVICE_UNAVAILABLE, Code::Busy, why)));
    match tokio::time::timeout(timeout + MARGIN, receiver).await {
        Ok(Ok(reply)) => serde_json::from_slice(&reply).map_err(|_bad| Box::new(refused(Code::EvidenceUnavailable))),
        Ok(Err(_gone)) => unavailable("The broker stops."),
        Err(_elapsed) => unavailable("The broker has not answered in time."),
    }
}

fn code_of(reply: &Reply) -> Option<Code> {
    let word = reply.code.as_deref()?;
    Code::ALL.iter().copied().find(|code| code.word() == word)
}

/// The broker's document, with HTTP's words for it; `of` is the request that it is about, if that can be asked for.
fn said(reply: &Reply, of: Option<&RequestId>) -> Response {
    let status = match reply.status {
        Status::Executed => StatusCode::OK,
        Status::Pending => StatusCode::ACCEPTED,
        Status::Denied | Status::Failed | Status::Timeout => code_of(reply).map_or(StatusCode::BAD_GATEWAY, status_of),
    };
    let mut words = json!(reply);
    let place = of.map(|of| format!("/api/v1/flows/external-calls/{of}"));
    if let (Some(place), Some(error)) = (&place, &reply.error)
        && let Some(words) = words.as_object_mut()
    {
        // The remedy names a tool, which only MCP clients have.
        words.insert("error".to_owned(), error.replace("ext_result", &format!("GET {place}")).into());
    }
    let mut response = document(status, &words);
    if let (StatusCode::ACCEPTED, Some(place)) = (status, place)
        && let Ok(place) = HeaderValue::from_str(&place)
    {
        response.headers_mut().insert(header::LOCATION, place);
    }
    if let Some(ms) = reply.retry_after_ms {
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(ms.div_ceil(1000)));
    }
    response
}

/// The HTTP status of each code; every other is a plain refusal.
const STATUSES: [(Code, StatusCode); 18] = [
    (Code::InvalidParams, StatusCode::BAD_REQUEST),
    (Code::FlowExternalToolUnknown, StatusCode::BAD_REQUEST),
    (Code::FlowHarnessUnsupported, StatusCode::BAD_REQUEST),
    (Code::UnknownFlow, StatusCode::NOT_FOUND),
    (Code::UnknownRequest, StatusCode::NOT_FOUND),
    (Code::IdempotencyConflict, StatusCode::CONFLICT),
    (Code::Busy, StatusCode::TOO_MANY_REQUESTS),
    (Code::RateLimited, StatusCode::TOO_MANY_REQUESTS),
    (Code::QuotaExceeded, StatusCode::TOO_MANY_REQUESTS),
    (Code::BreakerOpen, StatusCode::SERVICE_UNAVAILABLE),
    (Code::EvidenceUnavailable, StatusCode::SERVICE_UNAVAILABLE),
    (Code::PolicyStale, StatusCode::SERVICE_UNAVAILABLE),
    (Code::ProviderTimeout, StatusCode::GATEWAY_TIMEOUT),
    (Code::ProviderFailed, StatusCode::BAD_GATEWAY),
    (Code::ProviderRateLimited, StatusCode::BAD_GATEWAY),
    (Code::InvalidOutput, StatusCode::BAD_GATEWAY),
    (Code::OutcomeUnknown, StatusCode::BAD_GATEWAY),
    (Code::StillRunning, StatusCode::ACCEPTED),
];

fn status_of(code: Code) -> StatusCode {
    STATUSES.iter().find(|(known, _)| *known == code).map_or(StatusCode::FORBIDDEN, |(_, status)| *status)
}

fn refused(code: Code) -> Response {
    let words = json!({
        "status": "denied", "code": code.word(), "error": format!("{} {}", code.meaning(), code.remedy()),
    });
    document(status_of(code), &words)
}

fn invalid(why: &str) -> Response {
    let words = json!({ "status": "denied", "code": Code::InvalidParams.word(), "error": why });
    document(StatusCode::BAD_REQUEST, &words)
}

fn plainly(status: StatusCode, code: Code, why: &str) -> Response {
    document(status, &json!({ "status": "denied", "code": code.word(), "error": why }))
}

fn document(status: StatusCode, document: &Value) -> Response {
    let kind = HeaderValue::from_static("application/json");
    (status, [(header::CONTENT_TYPE, kind)], document.to_string()).into_response()
}

/// Checks whether this is a name of this machine that no other server or page can take over.
fn is_literal(authority: &str) -> bool {
    let (host, port) = match authority.rsplit_once(':') {
        Some((host, port)) if !authority.ends_with(']') => (host, port),
        Some(_) | None => (authority, "80"),
    };
    ["127.0.0.1", "[::1]", "localhost"].contains(&host) && port.parse::<u16>().is_ok()
}

/// The header, if it is there exactly once.
fn only<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    let mut values = headers.get_all(name).iter();
    let first = values.next()?.to_str().ok()?;
    values.next().is_none().then_some(first)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// flow-external-agent-gate, section 8.
    const OF_THE_SOURCE: [(&str, u16); 13] = [
        ("FLOW_EXTERNAL_AGENT_DISABLED", 403),
        ("FLOW_EXTERNAL_AGENT_POLICY_FORBIDDEN", 403),
        ("FLOW_EXTERNAL_TOOL_DENIED", 403),
        ("FLOW_EXTERNAL_TOOL_UNKNOWN", 400),
        ("FLOW_IMPORT_EXTERNAL_TOOL_DENIED", 403),
        ("FLOW_EXTERNAL_GRANT_DENIED", 403),
        ("FLOW_EXTERNAL_GRANT_EXPIRED", 403),
        ("FLOW_EXTERNAL_GRANT_REVOKED", 403),
        ("FLOW_EXTERNAL_GRANT_FLOW_MISMATCH", 403),
        ("FLOW_EXTERNAL_GRANT_TOOL_DENIED", 403),
        ("FLOW_HOSTED_PROJECTION_DISABLED", 403),
        ("FLOW_HARNESS_UNSUPPORTED", 400),
        ("unknown_flow", 404),
    ];

    #[test]
    fn each_code_has_the_status_of_the_source() {
        for (word, status) in OF_THE_SOURCE {
            let code = Code::ALL.iter().copied().find(|code| code.word() == word).unwrap_or_else(|| panic!("{word}"));
            assert_eq!(refused(code).status().as_u16(), status, "{word}");
        }
    }
}
