//! From a document to a parsed, typed request.
//!
//! [`parse`] runs before the transaction: it verifies the signature, reads the document, finds the
//! action in the catalogue, parses the parameters into its type and takes the digests. It decides nothing; what
//! is wrong with a well-formed call (an unknown action, bad parameters) is a fact for the decision, so that a
//! group without a grant learns nothing from it.

use crate::config::ForeignTypes;
use crate::effects::ids::{Ids, Nonce};
use crate::intake::Inbound;
use crate::ledger::LedgerKey;
use crate::mailroom::Slot;
use crate::providers::contract::{Invocation, Operation, ParamFault};
use crate::providers::execution::Planted;
use crate::providers::registry::{Catalogue, Entry};
use crate::questions::Given;
use serde_json::{Map, Value};
use shared::digest::Digest;
use shared::request::{
    self, CallRequest, CancelRequest, CapabilitiesRequest, Document, GateRequest, GrantRequest, ListRequest, Malformed,
    Request, ResultRequest, RevokeRequest, TaskRequest,
};
use shared::{Action, Code, Group, IdempotencyKey, Level, Provider, RequestId, TaskId, Timestamp, json, limits};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::time::Instant;

/// Who asks. Known from where the request came in, never from what it says.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Caller {
    /// A group, known from its directory.
    Group(Group),
    /// A person at the command line, known from the socket's peer.
    Person(String),
    /// The broker itself, for probes.
    Broker,
}

impl Caller {
    /// The group, if it is one.
    pub fn group(&self) -> Option<&Group> {
        match self {
            Self::Group(group) => Some(group),
            Self::Person(_) | Self::Broker => None,
        }
    }
}

impl fmt::Display for Caller {
    /// `group:developer`, `person:alice`, `broker`: the form in the ledger.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Group(group) => write!(f, "group:{group}"),
            Self::Person(name) => write!(f, "person:{name}"),
            Self::Broker => f.write_str("broker"),
        }
    }
}

/// Where a request came from, which is where its reply goes.
#[derive(Debug)]
pub enum Origin {
    /// A file in a group's `tasks/`.
    File(FileOrigin),
    /// A file that has been removed, because the request's intent is durable.
    Retired(Group, Option<RequestId>),
    /// The control socket.
    Socket(oneshot::Sender<Vec<u8>>),
    /// The broker itself; nobody waits.
    Broker,
}

/// A request file, which is removed once its row is durable.
#[derive(Debug)]
pub struct FileOrigin {
    /// Whose directory.
    pub group: Group,
    /// Its name in `tasks/`.
    pub name: String,
    /// Under which name the reply is to lie, where the document has no id of its own.
    pub reply_as: Option<RequestId>,
    /// The file's place in the group's queue, given back when the request is decided.
    pub slot: Slot,
}

/// What every request has, whatever it asks.
#[derive(Debug)]
pub struct Header {
    /// Who asks.
    pub caller: Caller,
    /// The same, as the ledger writes it.
    pub caller_key: Arc<str>,
    /// Its name; made from the file's identity if the document has none.
    pub request_id: RequestId,
    /// The keyed digest of its canonical body: two requests with the same are the same request.
    pub request_digest: Digest,
    /// Where the reply goes.
    pub origin: Origin,
    /// When it arrived.
    pub arrived: Instant,
    /// How long the caller still waits, from `arrived` on.
    pub patience: Duration,
}

impl Header {
    /// Takes the request's file out, to be removed; the reply still finds its way.
    pub fn retire(&mut self) -> Option<FileOrigin> {
        let retired = match &self.origin {
            Origin::File(file) => Origin::Retired(file.group.clone(), file.reply_as.clone()),
            Origin::Retired(..) | Origin::Socket(_) | Origin::Broker => return None,
        };
        match std::mem::replace(&mut self.origin, retired) {
            Origin::File(file) => Some(file),
            Origin::Retired(..) | Origin::Socket(_) | Origin::Broker => None,
        }
    }

    /// Under which name the reply is to lie, where the document has no id of its own.
    pub fn reply_as(&self) -> Option<&RequestId> {
        match &self.origin {
            Origin::File(file) => file.reply_as.as_ref(),
            Origin::Retired(_, reply_as) => reply_as.as_ref(),
            Origin::Socket(_) | Origin::Broker => None,
        }
    }

    /// When the action must be over so that the reply is in time.
    pub fn provider_deadline(&self) -> Instant {
        self.arrived + self.patience.saturating_sub(limits::PROVIDER_MARGIN.min(self.patience / 3))
    }

    /// When the reply must have left.
    pub fn reply_deadline(&self) -> Instant {
        self.arrived + self.patience.saturating_sub(limits::REPLY_MARGIN.min(self.patience / 6))
    }
}

/// A call: perform one action at one provider.
#[derive(Debug)]
pub struct Call {
    /// Who, and where the reply goes.
    pub header: Header,
    /// The provider asked for, which need not exist.
    pub provider: Provider,
    /// The action asked for, which need not exist.
    pub action: Action,
    /// What the catalogue has under these names, and the parsed parameters.
    pub target: Target,
    /// The keyed digest of the canonical parameters.
    pub params_digest: Digest,
    /// The governance task.
    pub task_id: Option<TaskId>,
    /// What makes a repeated call the same call.
    pub idempotency_key: Option<IdempotencyKey>,
    /// Which of the person's accounts.
    pub account_ref: Option<String>,
    /// Decide only.
    pub dry_run: bool,
    /// What will identify the effect at the remote.
    pub planted: Planted,
    /// Whether the remote facts have been fetched: they are fetched once.
    pub prepared: bool,
    /// Whether it may change something: its level is above reading.
    pub mutating: bool,
    /// As it was written: what is admitted again after a person's yes.
    pub document: Written,
    /// Whether a person was asked about it.
    pub asked: Asked,
}

/// A document as it was written. It cannot be printed, because it holds the parameters.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Written(Box<[u8]>);

impl Written {
    /// The bytes, to be stored.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Written {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.0.len())
    }
}

/// Whether a person was asked about a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Asked {
    /// No, or not yet.
    No,
    /// About an equal call of the same caller, whose outcome is this one's too.
    AboutAnother(RequestId),
    /// Yes, so that this is its second time here.
    Yes,
}

/// What a call is aimed at.
pub enum Target {
    /// No such provider.
    NoProvider,
    /// No such action.
    NoAction,
    /// The action exists but its provider is off, for this reason.
    Disabled(Arc<dyn Operation>),
    /// The action exists, and these are its parameters, or what is wrong with them.
    Action(Arc<dyn Operation>, Result<Box<dyn Invocation>, Vec<ParamFault>>),
    /// The action, whose parameters are with the provider now.
    Started(Arc<dyn Operation>),
}

impl Target {
    /// The action with its parsed parameters, if the call got that far.
    pub fn invocation(&self) -> Option<&dyn Invocation> {
        match self {
            Self::Action(_, Ok(invocation)) => Some(invocation.as_ref()),
            Self::Action(_, Err(_)) | Self::Started(_) | Self::Disabled(_) | Self::NoAction | Self::NoProvider => None,
        }
    }

    /// The level that this very call demands, as far as it is known.
    pub fn demanded(&self) -> Level {
        let declared = self.operation().map_or(Level::None, |operation| operation.declaration().level);
        self.invocation().map_or(declared, |invocation| invocation.level().max(declared))
    }

    /// Takes the parameters out for the provider.
    pub fn start(&mut self) -> Option<Box<dyn Invocation>> {
        match std::mem::replace(self, Self::NoAction) {
            Self::Action(operation, Ok(invocation)) => {
                *self = Self::Started(operation);
                Some(invocation)
            }
            other @ (Self::Action(_, Err(_))
            | Self::Started(_)
            | Self::Disabled(_)
            | Self::NoAction
            | Self::NoProvider) => {
                *self = other;
                None
            }
        }
    }

    /// Puts the parameters back, with what the provider added to them.
    pub fn resume(&mut self, invocation: Box<dyn Invocation>) {
        match std::mem::replace(self, Self::NoAction) {
            Self::Started(operation) => *self = Self::Action(operation, Ok(invocation)),
            other @ (Self::Action(..) | Self::Disabled(_) | Self::NoAction | Self::NoProvider) => *self = other,
        }
    }

    /// The action, if it exists.
    pub fn operation(&self) -> Option<&Arc<dyn Operation>> {
        match self {
            Self::Action(operation, _) | Self::Started(operation) | Self::Disabled(operation) => Some(operation),
            Self::NoAction | Self::NoProvider => None,
        }
    }
}

impl Call {
    /// Whether a person was asked about this very call.
    pub fn was_asked(&self) -> bool {
        self.asked == Asked::Yes
    }

    /// The parameters, as they were written.
    pub fn params(&self) -> Value {
        match request::parse(&self.document.0).map(|document| document.request) {
            Ok(Request::Call(body)) => Value::Object(body.params),
            // A call was parsed from a call's document.
            Ok(_) | Err(_) => Value::Null,
        }
    }
}

impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoProvider => "NoProvider",
            Self::NoAction => "NoAction",
            Self::Disabled(_) => "Disabled",
            Self::Action(_, Ok(_)) => "Action",
            Self::Action(_, Err(_)) => "Action with faults",
            Self::Started(_) => "Started",
        })
    }
}

/// A request that the ledger itself fulfils, without a provider.
#[derive(Debug)]
pub struct Directive {
    /// Who, and where the reply goes.
    pub header: Header,
    /// What is asked.
    pub order: Order,
}

/// What a directive asks.
#[derive(Debug, Clone, PartialEq)]
pub enum Order {
    /// `ext_capabilities`
    Capabilities(CapabilitiesRequest),
    /// `ext_grant`
    Grant(GrantRequest),
    /// `ext_revoke`
    Revoke(RevokeRequest),
    /// `ext_list`
    List(ListRequest),
    /// `task_create`
    TaskCreate(TaskRequest),
    /// `gate_approve`
    GateApprove(GateRequest),
    /// `ext_result`
    Result(ResultRequest),
    /// `ext_cancel`
    Cancel(CancelRequest),
    /// A person closes a task.
    TaskClose {
        /// The task.
        task_id: TaskId,
        /// Whether it was cancelled rather than done.
        cancelled: bool,
    },
    /// A person answers a question.
    Answer(Given),
    /// A person sets or lifts a kill switch.
    Kill {
        /// What it stops.
        scope: KillScope,
        /// Set, or lift.
        on: bool,
    },
}

/// What a kill switch stops.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KillScope {
    /// Every call.
    All,
    /// Every call to this provider.
    Provider(Provider),
    /// Every call of this group.
    Group(Group),
}

impl fmt::Display for KillScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All => f.write_str("all"),
            Self::Provider(provider) => write!(f, "provider:{provider}"),
            Self::Group(group) => write!(f, "group:{group}"),
        }
    }
}

/// A document that is no request, or must not be believed.
#[derive(Debug)]
pub struct Rubbish {
    /// Who sent it.
    pub caller: Caller,
    /// The same, as the ledger writes it.
    pub caller_key: Arc<str>,
    /// Under which id it can be answered.
    pub request_id: Option<RequestId>,
    /// Where the reply goes.
    pub origin: Origin,
    /// `malformed_request`, `oversized_request`, `bad_signature`, `stale_request` or `unknown_type`.
    pub code: Code,
    /// What is wrong, for the sender; quotes nothing.
    pub reason: String,
}

/// What a document turned out to be.
#[derive(Debug)]
pub enum Parsed {
    /// Perform an action.
    Call(Box<Call>),
    /// Something the ledger itself fulfils.
    Directive(Box<Directive>),
    /// Not a request.
    Rubbish(Box<Rubbish>),
}

/// What parsing needs to know.
pub struct Desk {
    /// The actions that exist.
    pub catalogue: Arc<Catalogue>,
    /// The key of digests.
    pub key: Arc<LedgerKey>,
    /// Where nonces come from.
    pub ids: Arc<dyn Ids>,
    /// How long a caller waits unless the provider says otherwise.
    pub patience: Duration,
    /// What to do with documents whose type is not ours.
    pub foreign_types: ForeignTypes,
}

/// Parses what a group wrote.
pub fn parse(inbound: Inbound, desk: &Desk) -> Parsed {
    let caller = Caller::Group(inbound.room.group.clone());
    let stem: Option<RequestId> = inbound.name.strip_suffix(".json").and_then(|stem| stem.parse().ok());
    let file = FileOrigin { group: inbound.room.group.clone(), name: inbound.name, reply_as: None, slot: inbound.slot };
    let rubbish = |file, request_id: Option<RequestId>, code, reason: String| {
        let caller_key = caller.to_string().into();
        Parsed::Rubbish(Box::new(Rubbish {
            caller: caller.clone(),
            caller_key,
            request_id: request_id.or(stem.clone()),
            origin: Origin::File(file),
            code,
            reason,
        }))
    };
    let bytes = match inbound.bytes {
        Ok(bytes) => bytes,
        Err((code, reason)) => return rubbish(file, None, code, reason),
    };
    if let Some(key) = &inbound.room.signing_key
        && shared::signature::verify(&bytes, key).is_err()
    {
        return rubbish(file, id_of(&bytes), Code::BadSignature, Code::BadSignature.meaning().to_owned());
    }
    let document = match request::parse(&bytes) {
        Ok(document) => document,
        Err(refused) => {
            let code = if refused.why == Malformed::UnknownType { Code::UnknownType } else { Code::MalformedRequest };
            return rubbish(file, refused.request_id, code, format!("{}.", refused.why));
        }
    };
    if inbound.room.signing_key.is_some() && !is_fresh(document.envelope.timestamp.as_deref(), inbound.wall) {
        let reason = "A signed request needs a timestamp within 300 seconds of the host's clock.";
        return rubbish(file, document.envelope.request_id, Code::BadSignature, reason.into());
    }
    let patience = patience(&document.request, desk);
    if inbound.age > patience.min(limits::REQUEST_AGE_MAX) {
        let reason = Code::StaleRequest.meaning().to_owned();
        return rubbish(file, document.envelope.request_id, Code::StaleRequest, reason);
    }
    // Without an id of its own, the request is known by its very file, and its reply lies under the file's name.
    let (request_id, reply_as) = match document.envelope.request_id.clone() {
        Some(id) => (id, None),
        None => (id_from(&inbound.identity, &bytes), stem),
    };
    let header = Header {
        caller_key: caller.to_string().into(),
        caller,
        request_id,
        request_digest: digest_of(&document.request, desk),
        origin: Origin::File(FileOrigin { reply_as, ..file }),
        arrived: inbound.arrived,
        patience: patience.saturating_sub(inbound.age),
    };
    sort(document, header, &bytes, desk)
}

fn sort(document: Document, header: Header, bytes: &[u8], desk: &Desk) -> Parsed {
    let order = match document.request {
        Request::Call(body) => return call(body, header, bytes, desk),
        Request::Capabilities(body) => Order::Capabilities(body),
        Request::Grant(body) => Order::Grant(body),
        Request::Revoke(body) => Order::Revoke(body),
        Request::List(body) => Order::List(body),
        Request::TaskCreate(body) => Order::TaskCreate(body),
        Request::GateApprove(body) => Order::GateApprove(body),
        Request::Result(body) => Order::Result(body),
        Request::Cancel(body) => Order::Cancel(body),
    };
    Parsed::Directive(Box::new(Directive { header, order }))
}

fn call(body: CallRequest, header: Header, bytes: &[u8], desk: &Desk) -> Parsed {
    let Ok(nonce) = Nonce::fresh(desk.ids.as_ref()) else {
        // Without randomness nothing can be recognised later, so nothing is attempted.
        return Parsed::Rubbish(Box::new(Rubbish {
            caller: header.caller,
            caller_key: header.caller_key,
            request_id: Some(header.request_id),
            origin: header.origin,
            code: Code::EvidenceUnavailable,
            reason: "The system's random source failed.".into(),
        }));
    };
    let params = body.params;
    let params_digest = desk.key.digest(&json::canonical(&params));
    let target = match desk.catalogue.find(&body.provider, &body.action) {
        Entry::NoProvider => Target::NoProvider,
        Entry::NoAction => Target::NoAction,
        Entry::Disabled(operation) => Target::Disabled(operation),
        Entry::Enabled(operation) => {
            let mut faults = inexact(bytes, &params);
            let parsed = match operation.parse(&params) {
                Ok(invocation) if faults.is_empty() => Ok(invocation),
                Ok(_) => Err(faults),
                Err(more) => {
                    faults.extend(more);
                    Err(faults)
                }
            };
            Target::Action(operation, parsed)
        }
    };
    let mutating = match &target {
        Target::Action(operation, Ok(invocation)) => {
            operation.declaration().level.max(invocation.level()) > Level::Read
        }
        Target::Action(..) | Target::Started(_) | Target::Disabled(_) | Target::NoAction | Target::NoProvider => true,
    };
    let planted = Planted { request_id: header.request_id.clone(), nonce };
    Parsed::Call(Box::new(Call {
        header,
        provider: body.provider,
        action: body.action,
        target,
        params_digest,
        task_id: body.task_id,
        idempotency_key: body.idempotency_key,
        account_ref: body.account_ref,
        dry_run: body.dry_run,
        planted,
        prepared: false,
        mutating,
        document: Written(bytes.into()),
        asked: Asked::No,
    }))
}

/// How long the caller waits: what the provider is given, shortened by what the caller says.
fn patience(request: &Request, desk: &Desk) -> Duration {
    let (provider, said) = match request {
        Request::Call(body) => (desk.catalogue.patience(&body.provider), body.timeout_ms),
        Request::Result(body) => (None, body.timeout_ms),
        Request::Capabilities(_)
        | Request::Grant(_)
        | Request::Revoke(_)
        | Request::List(_)
        | Request::TaskCreate(_)
        | Request::GateApprove(_)
        | Request::Cancel(_) => (None, None),
    };
    let patience = provider.unwrap_or(desk.patience).min(limits::PATIENCE_MAX);
    said.map_or(patience, |ms| patience.min(Duration::from_millis(ms)))
}

/// The digest by which a repeated request is recognised.
fn digest_of(request: &Request, desk: &Desk) -> Digest {
    desk.key.digest(&json::canonical(&request.body()))
}

/// The id in a document that is not believed: only where to say so.
fn id_of(bytes: &[u8]) -> Option<RequestId> {
    match request::parse(bytes) {
        Ok(document) => document.envelope.request_id,
        Err(refused) => refused.request_id,
    }
}

/// A name for a request that has none. It depends on the very file, so that a host that died before removing it
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

/// Numbers in the parameters that canonical JSON would change are faults: the digest would be of another call.
fn inexact(bytes: &[u8], params: &Map<String, Value>) -> Vec<ParamFault> {
    let Ok(text) = std::str::from_utf8(bytes) else { return Vec::new() };
    let tokens = json::inexact_numbers(text);
    let mut faults = Vec::new();
    for token in tokens {
        let number = token.parse::<f64>().ok();
        find(&Value::Object(params.clone()), &mut String::new(), &mut |pointer, value| {
            if value.as_f64() == number {
                let fault = "this number cannot be kept exactly; send it as a string".to_owned();
                faults.push(ParamFault { pointer: pointer.to_owned(), fault });
            }
        });
    }
    faults
}

/// Calls `each` with every number and its JSON pointer (RFC 6901).
fn find(value: &Value, pointer: &mut String, each: &mut impl FnMut(&str, &serde_json::Number)) {
    let length = pointer.len();
    match value {
        Value::Number(number) => each(pointer, number),
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                pointer.push('/');
                pointer.push_str(&index.to_string());
                find(item, pointer, each);
                pointer.truncate(length);
            }
        }
        Value::Object(map) => {
            for (key, item) in map {
                pointer.push('/');
                pointer.push_str(&key.replace('~', "~0").replace('/', "~1"));
                find(item, pointer, each);
                pointer.truncate(length);
            }
        }
        Value::Null | Value::Bool(_) | Value::String(_) => {}
    }
}

/// A call about which a person was asked, from its stored document: parsed like the first time, for the same decision.
/// Who it is was established when it arrived. Its reply goes where the first one waits, if it still does.
///
/// # Errors
/// What is wrong with the document; it was right when it was stored.
pub fn readmit(group: Group, request_id: RequestId, bytes: &[u8], desk: &Desk) -> Result<Box<Call>, String> {
    let mut call = made(group, request_id, bytes, desk)?;
    // How long its caller was ready to wait says nothing about the answer of a person.
    call.header.patience = desk.catalogue.patience(&call.provider).unwrap_or(desk.patience).min(limits::PATIENCE_MAX);
    call.asked = Asked::Yes;
    Ok(call)
}

/// A call of a group that nobody made, parsed as if it had come from the group's directory: for explaining what would
/// be decided. Its reply goes nowhere.
///
/// # Errors
/// What is wrong with the document, in words that quote nothing.
pub fn hypothetical(group: Group, bytes: &[u8], desk: &Desk) -> Result<Box<Call>, String> {
    let request_id = "hypothetical".parse().map_err(|error: shared::names::BadName| error.to_string())?;
    made(group, request_id, bytes, desk)
}

fn made(group: Group, request_id: RequestId, bytes: &[u8], desk: &Desk) -> Result<Box<Call>, String> {
    let document = request::parse(bytes).map_err(|refused| refused.why.to_string())?;
    let patience = patience(&document.request, desk);
    let request_digest = digest_of(&document.request, desk);
    let Request::Call(body) = document.request else { return Err("not a call".into()) };
    let caller = Caller::Group(group);
    let header = Header {
        caller_key: caller.to_string().into(),
        caller,
        request_id,
        request_digest,
        origin: Origin::Broker,
        arrived: Instant::now(),
        patience,
    };
    match call(body, header, bytes, desk) {
        Parsed::Call(call) => Ok(call),
        Parsed::Rubbish(rubbish) => Err(rubbish.reason),
        Parsed::Directive(_) => Err("not a call".into()),
    }
}
