//! From a document to a parsed, typed request.
//!
//! [`parse`] runs before the transaction: it verifies the signature, reads the document, finds the action in the
//! catalogue, parses the parameters into its type and takes the digests. It decides nothing. Errors of a well-formed
//! call (an unknown action, bad parameters) are facts for the decision, so that a group without a grant learns nothing
//! from it.

mod created;
mod nested;
mod plan;

pub use created::{Invoked, hypothetical, hypothetical_of_tool, invoked, made, readmit, readmit_command};

use super::{Command, CommandRequest, InvalidDocument, Parsed};
use crate::catalogue::{Catalogue, CatalogueEntry};
use crate::clean::Filters;
use crate::own_secrets;
use crate::request::FlowCommand;
use config::UnknownRequests;
use kernel::call::{
    AboutUnparsed, Call, FileOrigin, FrameOrigin, Header, InFlightGuard, Lane, Origin, Target, Written,
};
use kernel::contract::{Invocation, Operation, StoreRequest};
use model::{Caller, EffectMarker, LedgerKey, Nonce, ParamError, Random, Subject, TokenError};
use secrets::identity::issuers::Issuers;
use secrets::identity::token;
use serde_json::{Map, Value};
use shared::digest::Digest;
use shared::mailbox::{self, FileIdentity};
use shared::request::{self, CallRequest, Document, Malformed, Request};
use shared::{Action, Code, Group, Level, Provider, RequestId, Timestamp, json, limits};
use std::any::Any;
use std::cell::OnceCell;
use std::collections::HashSet;
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// A document that was read, before it is parsed.
#[derive(Debug)]
pub struct InboundRequest {
    /// The group that it came from.
    pub group: Group,
    /// The key with which the group signs its requests.
    pub signing_key: Option<Arc<str>>,
    /// The file or frame that had it.
    pub source: Source,
    /// The bytes, or the reason why they were not read.
    pub bytes: Result<Vec<u8>, (Code, String)>,
    /// Its age when it was found.
    pub age: Duration,
    /// The time at which it was found, on the monotonic clock.
    pub arrived: Instant,
    /// The time at which it was found, on the wall clock.
    pub wall: Timestamp,
    /// Its place in the group's queue.
    pub slot: InFlightGuard,
    /// The memory that it takes.
    pub memory: Box<dyn DocumentMemory>,
}

/// The file or frame that has a document.
#[derive(Debug)]
pub enum Source {
    /// A file in `tasks/`.
    File {
        /// Its name.
        name: String,
        /// Its identity.
        identity: FileIdentity,
    },
    /// A frame of a connection to the group's socket.
    Frame {
        /// The connection.
        connection: u64,
        /// The number of the frame in the connection.
        frame: u64,
    },
}

/// The memory of a document in progress. Dropping it gives the memory back to the group.
pub trait DocumentMemory: Any + Debug + Send + Sync {
    /// Adds the values and keys of the parsed document.
    fn parsed(&mut self, nodes: usize);
}

/// The inputs of parsing.
#[derive(Clone)]
pub struct ParseContext {
    /// The actions that exist.
    pub catalogue: Arc<Catalogue>,
    /// The key of digests.
    pub key: Arc<LedgerKey>,
    /// The issuers of context tokens.
    pub issuers: Arc<Issuers>,
    /// The source of nonces.
    pub ids: Arc<dyn Random>,
    /// The time that a caller waits unless the provider says otherwise.
    pub timeout: Duration,
    /// The treatment of documents with unknown types.
    pub unknown_requests: UnknownRequests,
    /// The filters for the parameters of calls that let data leave. Without them, the decision finds nothing.
    pub filters: Option<Arc<Filters>>,
}

/// Inspects the outgoing data of a parsed call. It takes long, so it runs off the loop, and only for callers that may
/// make the call as far as is known.
pub fn inspect(parsed: &mut Parsed, context: &ParseContext) {
    match parsed {
        Parsed::Call(call) => inspect_call(call, context),
        Parsed::CommandRequest(request) => request.calls.iter_mut().for_each(|call| inspect_call(call, context)),
        Parsed::InvalidDocument(_) => {}
    }
}

fn inspect_call(call: &mut Call, context: &ParseContext) {
    if let Some(filters) = &context.filters
        && call.target.invocation().is_some()
        && call.target.operation().is_some_and(|operation| operation.declaration().exposes.egress)
    {
        call.departing = Some(filters.departing(call.params.value()));
    }
    if let Some(nested) = &mut call.nested {
        inspect_call(&mut nested.call, context);
    }
}

/// Parses a document from a group.
pub fn parse(inbound: InboundRequest, context: &ParseContext) -> Parsed {
    let caller = Caller::Group(inbound.group.clone());
    let (group, lane, slot) = (inbound.group.clone(), Lane::Refused, inbound.slot);
    let (origin, file) = match inbound.source {
        Source::File { name, identity } => {
            let file = FileOrigin { group, name: name.clone(), identity, reply_as: None, lane, slot };
            (Origin::File(file), Some((name, identity)))
        }
        Source::Frame { connection, frame } => {
            (Origin::Frame(FrameOrigin { group, connection, frame, is_admitted: false, lane, slot }), None)
        }
    };
    let name = file.as_ref().map(|(name, _)| name.as_str());
    let stem: Option<RequestId> = name.and_then(mailbox::stem).and_then(|stem| stem.parse().ok());
    let scrubber = context.filters.as_ref().map(|filters| filters.scrubber.as_ref());
    let invalid = |origin, request_id: Option<RequestId>, code, reason: String| {
        let caller_key = caller.to_string().into();
        // Neither a row nor the name of a reply repeats a secret.
        let holds_own =
            |id: &RequestId| scrubber.is_some_and(|scrubber| own_secrets::are_in_text(id.as_str(), scrubber));
        Parsed::InvalidDocument(Box::new(InvalidDocument {
            caller: caller.clone(),
            caller_key,
            request_id: request_id.or(stem.clone()).filter(|id| !holds_own(id)),
            origin,
            code,
            reason,
        }))
    };
    let bytes = match inbound.bytes {
        Ok(bytes) => bytes,
        Err((code, reason)) => return invalid(origin, None, code, reason),
    };
    if let Some(key) = &inbound.signing_key
        && shared::signature::verify(&bytes, key).is_err()
    {
        return invalid(origin, id_of(&bytes), Code::BadSignature, Code::BadSignature.meaning().to_owned());
    }
    let document = match request::parse(&bytes) {
        Ok(document) => document,
        Err(refused) => {
            let code = if refused.why == Malformed::UnknownType { Code::UnknownType } else { Code::MalformedRequest };
            return invalid(origin, refused.request_id, code, format!("{}.", refused.why));
        }
    };
    let mut memory = inbound.memory;
    memory.parsed(document.nodes);
    if matches!(document.request, Request::Plan(_)) {
        // The parsed calls hold the parameters once more.
        memory.parsed(document.nodes);
    }
    if inbound.signing_key.is_some() && !is_fresh(document.envelope.timestamp.as_deref(), inbound.wall) {
        let reason = "A signed request needs a timestamp within 300 seconds of the host's clock.";
        return invalid(origin, document.envelope.request_id, Code::BadSignature, reason.into());
    }
    let timeout = timeout(&document.request, context);
    if inbound.age > timeout.min(limits::REQUEST_AGE_MAX) {
        let reason = Code::StaleRequest.meaning().to_owned();
        return invalid(origin, document.envelope.request_id, Code::StaleRequest, reason);
    }
    if scrubber.is_some_and(|scrubber| own_secrets::are_in_request(name.as_slice(), &bytes, scrubber)) {
        let reason = Code::OwnSecret.meaning().to_owned();
        return invalid(origin, document.envelope.request_id, Code::OwnSecret, reason);
    }
    // A request without an id of its own is known by its very file, and its reply has the file's name.
    let (request_id, origin) = match (document.envelope.request_id.clone(), origin, &file) {
        (Some(id), origin, _) => (id, origin),
        (None, Origin::File(origin), Some((_, identity))) => {
            (id_from(identity, &bytes), Origin::File(FileOrigin { reply_as: stem, ..origin }))
        }
        (None, origin, _) => {
            let reason = "A request over the socket needs a request_id.";
            return invalid(origin, None, Code::MalformedRequest, reason.to_owned());
        }
    };
    let behalf = behalf(document.envelope.context_token.as_deref(), &inbound.group, context, inbound.wall);
    let header = Header {
        caller_key: caller.to_string().into(),
        caller,
        request_id,
        conversation: document.envelope.conversation.clone(),
        request_digest: digest_of(&document.request, &behalf, context),
        behalf,
        origin,
        arrived: inbound.arrived,
        timeout: timeout.saturating_sub(inbound.age),
        weight: Some(memory),
    };
    sort(document, header, &bytes, context)
}

/// Returns the person that the request's token proves.
fn behalf(token: Option<&str>, group: &Group, context: &ParseContext, wall: Timestamp) -> Subject {
    let read = token.ok_or(TokenError::Missing).and_then(|token| token::read(token, group, &context.issuers, wall));
    match read {
        Ok(person) => Subject::Person(Arc::new(person)),
        Err(why) => Subject::Nobody(why),
    }
}

fn sort(document: Document, header: Header, bytes: &[u8], context: &ParseContext) -> Parsed {
    let command = match document.request {
        Request::Call(body) => return call(body, header, (&Text::new(bytes), bytes), context),
        Request::Auth(body) => return call(body.into_call(), header, (&Text::new(bytes), bytes), context),
        Request::Plan(body) => return plan::plan(body, header, bytes, context),
        Request::Capabilities(body) => Command::Capabilities(body),
        Request::Grant(body) => Command::Grant(body),
        Request::Revoke(body) => Command::Revoke(body),
        Request::Begin(body) => Command::Begin(body),
        Request::Access(body) => Command::RequestAccess(body),
        Request::List(body) => Command::List(body),
        Request::ListCalls(body) => Command::ListCalls(body),
        Request::ListTasks(body) => Command::ListTasks(body),
        Request::TaskCreate(body) => Command::TaskCreate(body),
        Request::GateApprove(body) => Command::GateApprove(body),
        Request::Result(body) => Command::Result(body),
        Request::Cancel(body) => Command::Cancel(body),
        Request::Flow(request) => Command::Flow(FlowCommand::of_group(request)),
    };
    Parsed::CommandRequest(Box::new(CommandRequest {
        header,
        command,
        asked: false,
        calls: Vec::new(),
        failed_read: None,
    }))
}

/// Parses a call. `text` has its parameters as they were written, and `document` is stored while a person is asked.
fn call(body: CallRequest, header: Header, (text, document): (&Text<'_>, &[u8]), context: &ParseContext) -> Parsed {
    let Ok(nonce) = Nonce::fresh(context.ids.as_ref()) else {
        // Without randomness no effect can be recognised later, so nothing is attempted.
        return plan::without_randomness(header);
    };
    let params = body.params;
    let params_digest = context.key.digest(&json::canonical(&params));
    let target = target(context, (&body.provider, &body.action), |operation| {
        let mut faults = inexact(text, &params);
        if body.provider.is_namespaced() {
            faults.extend(model::claimed_in(&params).map(|name| ParamError {
                pointer: format!("/{name}"),
                fault: "who the person is only the context token says".to_owned(),
            }));
        }
        match operation.parse(&params) {
            Ok(invocation) if faults.is_empty() => Ok(invocation),
            Ok(_) => Err(faults),
            Err(more) => {
                faults.extend(more);
                Err(faults)
            }
        }
    });
    let about_unparsed = match target.invocation() {
        Some(_) => None,
        None => context.catalogue.about_unparsed(&body.provider, &body.action, &params).map(AboutUnparsed),
    };
    let mutating = match &target {
        Target::Action(operation, Ok(invocation)) => {
            // A call that only describes a change changes nothing; one that withdraws a proposal does so with its
            // intent.
            let only_describes =
                operation.declaration().proposes && !matches!(invocation.needs(), StoreRequest::ToWithdraw(_));
            // A call that ends a flow ends it with any outcome.
            let is_final = matches!(invocation.needs(), StoreRequest::ToComplete(_));
            let declaration = operation.declaration();
            let is_read = declaration.level.max(invocation.level()) <= Level::Read || declaration.reveals;
            is_final || !is_read && !only_describes
        }
        Target::Action(..)
        | Target::Started(..)
        | Target::Disabled(..)
        | Target::Unusable
        | Target::NoAction
        | Target::NoProvider => true,
    };
    let planted = EffectMarker { request_id: header.request_id.clone(), nonce };
    let document = match header.behalf {
        Subject::Nobody(TokenError::Missing) => Written::new(document),
        Subject::Person(_) | Subject::Nobody(_) => Written::without_token(document),
    };
    let nested = nested::of(&target, (&header, &planted, body.task_id.as_ref()), context);
    let call = Call::new(header, (body.provider, body.action), target, (params, params_digest), planted);
    Parsed::Call(Box::new(Call {
        task_id: body.task_id,
        idempotency_key: body.idempotency_key,
        account_ref: body.account_ref,
        dry_run: body.dry_run,
        mutating,
        document,
        about_unparsed,
        nested,
        ..call
    }))
}

/// Returns the target of a call. `parse` parses the parameters of an action that can be called.
fn target(
    context: &ParseContext,
    (provider, action): (&Provider, &Action),
    parse: impl FnOnce(&dyn Operation) -> Result<Box<dyn Invocation>, Vec<ParamError>>,
) -> Target {
    match context.catalogue.find(provider, action) {
        CatalogueEntry::NoProvider => Target::NoProvider,
        CatalogueEntry::NoAction => Target::NoAction,
        CatalogueEntry::Disabled(operation, outage) => Target::Disabled(operation, outage),
        CatalogueEntry::Unusable => Target::Unusable,
        CatalogueEntry::Enabled(operation) => {
            let parsed = parse(operation.as_ref());
            Target::Action(operation, parsed)
        }
    }
}

/// Returns how long the caller waits: the provider's time, shortened by the caller's own.
fn timeout(request: &Request, context: &ParseContext) -> Duration {
    let (provider, said) = match request {
        Request::Call(body) => (context.catalogue.timeout(&body.provider), body.timeout_ms),
        Request::Auth(body) => (context.catalogue.timeout(&body.capability()), body.waits_ms()),
        Request::Result(body) => (None, body.timeout_ms),
        Request::Plan(body) => (None, body.timeout_ms),
        Request::Grant(body) => (None, body.timeout_ms),
        Request::Access(body) => (None, body.timeout_ms),
        Request::Capabilities(_)
        | Request::Revoke(_)
        | Request::Begin(_)
        | Request::List(_)
        | Request::ListCalls(_)
        | Request::ListTasks(_)
        | Request::TaskCreate(_)
        | Request::GateApprove(_)
        | Request::Cancel(_)
        | Request::Flow(_) => (None, None),
    };
    let timeout = provider.unwrap_or(context.timeout).min(limits::TIMEOUT_MAX);
    said.map_or(timeout, |ms| timeout.min(Duration::from_millis(ms)))
}

/// Returns the digest by which a repeated request is recognised. The same request of another person is another request.
fn digest_of(request: &Request, behalf: &Subject, context: &ParseContext) -> Digest {
    let body = request.body();
    context.key.digest(&match behalf.key() {
        Some(person) => json::canonical(&serde_json::json!({ "person": person, "request": body })),
        None => json::canonical(&body),
    })
}

/// Returns the id in an untrusted document, used only to address the refusal.
fn id_of(bytes: &[u8]) -> Option<RequestId> {
    match request::parse(bytes) {
        Ok(document) => document.envelope.request_id,
        Err(refused) => refused.request_id,
    }
}

/// Makes an id for a request that has none. It depends on the very file, so that a host that died before removing it
/// recognises it, and on nothing that another file could share.
fn id_from(identity: &shared::mailbox::FileIdentity, bytes: &[u8]) -> RequestId {
    let text = format!("{} {} {} ", identity.device, identity.inode, identity.changed_ns);
    let digest = Digest::of(&[text.as_bytes(), bytes].concat()).hex();
    let short: String = digest.chars().take(32).collect();
    #[expect(clippy::expect_used, reason = "letters, digits and a hyphen satisfy the grammar")]
    format!("anon-{short}").parse().expect("a request id")
}

fn is_fresh(timestamp: Option<&str>, wall: Timestamp) -> bool {
    timestamp
        .and_then(|text| text.parse::<Timestamp>().ok())
        .is_some_and(|time| time.since(wall) <= limits::SIGNED_SKEW_MAX && wall.since(time) <= limits::SIGNED_SKEW_MAX)
}

/// The most faults of one call that a refusal names.
const FAULTS_MAX: usize = 20;

/// The text of a document, whose numbers are looked at once for all of its calls.
struct Text<'a> {
    bytes: &'a [u8],
    inexact: OnceCell<HashSet<u64>>,
}

impl<'a> Text<'a> {
    fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, inexact: OnceCell::new() }
    }

    /// Returns the bits of the numbers that canonical JSON would change.
    fn inexact(&self) -> &HashSet<u64> {
        self.inexact.get_or_init(|| {
            let bits = |token: &str| token.parse::<f64>().ok().map(f64::to_bits);
            let text = std::str::from_utf8(self.bytes).unwrap_or_default();
            json::inexact_numbers(text).into_iter().filter_map(bits).collect()
        })
    }
}

/// Returns the numbers in the parameters that canonical JSON would change, as faults: the digest would be of another
/// call.
fn inexact(text: &Text<'_>, params: &Map<String, Value>) -> Vec<ParamError> {
    let changed = text.inexact();
    let mut faults = Vec::new();
    if changed.is_empty() {
        return faults;
    }
    let mut pointer = String::new();
    for (key, value) in params {
        each_number(Step::Member(key), value, &mut pointer, &mut |pointer, number| {
            if number.as_f64().is_some_and(|number| changed.contains(&number.to_bits())) {
                let fault = "this number cannot be kept exactly; send it as a string".to_owned();
                faults.push(ParamError { pointer: pointer.to_owned(), fault });
            }
            faults.len() < FAULTS_MAX
        });
        if faults.len() >= FAULTS_MAX {
            break;
        }
    }
    faults
}

/// A step of a JSON pointer.
#[derive(Clone, Copy)]
enum Step<'a> {
    Member(&'a str),
    Item(usize),
}

/// Calls `each` with every number below and its JSON pointer (RFC 6901), until it returns `false`. Returns whether it
/// never did.
fn each_number(
    step: Step<'_>,
    value: &Value,
    pointer: &mut String,
    each: &mut impl FnMut(&str, &serde_json::Number) -> bool,
) -> bool {
    let length = pointer.len();
    pointer.push('/');
    match step {
        Step::Member(key) => pointer.push_str(&key.replace('~', "~0").replace('/', "~1")),
        Step::Item(index) => pointer.push_str(&index.to_string()),
    }
    let goes_on = match value {
        Value::Number(number) => each(pointer, number),
        Value::Array(items) => {
            items.iter().enumerate().all(|(index, item)| each_number(Step::Item(index), item, pointer, each))
        }
        Value::Object(map) => map.iter().all(|(key, item)| each_number(Step::Member(key), item, pointer, each)),
        Value::Null | Value::Bool(_) | Value::String(_) => true,
    };
    pointer.truncate(length);
    goes_on
}
