//! Calls: the caller, the destination of the reply, the requested action. No decision is made here.

use crate::contract::{Invocation, Operation, StoreInput};
use crate::run_handle::RunHandle;
use model::{Caller, EffectMarker, ParamError, ProposalId, SealedRequest, StoredCredential, Subject};
use policy::facts::{EgressFact, Outage};
use serde_json::{Map, Value};
use shared::digest::Digest;
use shared::flow::Opaque;
use shared::mailbox::{self, FileIdentity};
use shared::reply::Notice;
use shared::request::PlanRequest;
use shared::{Action, FlowId, Group, IdempotencyKey, Level, Provider, RequestId, TaskId, Timestamp, limits};
use std::any::Any;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use store::ledger::chain::{Draft, RowKind};
use store::state::idempotency;
use store::state::idempotency::{ClaimKey, Claimed};
use store::{StoreError, View};
use tokio::sync::oneshot;
use tokio::time::Instant;

/// A resource that a request holds while it is under way, such as its place in a queue. Dropping it releases it.
pub type InFlightGuard = Box<dyn Any + Send + Sync>;

/// The lane of a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lane {
    /// The group's snapshot lets the group do what the document asks.
    Permitted,
    /// The document will be refused, as far as is known.
    Refused,
}

/// The origin of a request, to which its reply goes.
#[derive(Debug)]
pub enum Origin {
    /// A file in a group's `tasks/`.
    File(FileOrigin),
    /// A frame of a connection to the group's socket.
    Frame(FrameOrigin),
    /// A file that has been removed, because the request's intent is durable.
    Retired(ReplyAddress),
    /// The control socket.
    Socket(oneshot::Sender<Vec<u8>>),
    /// The broker itself; no caller waits.
    Broker,
}

/// The group and the name under which a reply is written as a file.
#[derive(Debug, Clone)]
pub struct ReplyAddress {
    /// The group.
    pub group: Group,
    /// The name, if it is not the request's own id.
    pub reply_as: Option<RequestId>,
    /// Whether the reader accepts a file that is used again.
    pub is_reusable: bool,
}

impl ReplyAddress {
    /// The address of a reply under the request's own id, for any reader.
    pub fn of(group: Group) -> Self {
        Self { group, reply_as: None, is_reusable: false }
    }
}

/// A request file, which is removed once its row is durable.
#[derive(Debug)]
pub struct FileOrigin {
    /// The group whose directory it is in.
    pub group: Group,
    /// The file name in `tasks/`.
    pub name: String,
    /// The file that was read.
    pub identity: FileIdentity,
    /// The name of the reply, if the document has no id of its own.
    pub reply_as: Option<RequestId>,
    /// The lane of the file, which is [`Lane::Refused`] until more is known.
    pub lane: Lane,
    /// The file's place in the group's queue, released when the request is decided.
    pub slot: InFlightGuard,
}

impl FileOrigin {
    /// Returns the address of the reply.
    pub fn reply_address(&self) -> ReplyAddress {
        let is_reusable = mailbox::is_reusable(&self.name);
        ReplyAddress { group: self.group.clone(), reply_as: self.reply_as.clone(), is_reusable }
    }
}

/// A frame of a connection to a group's socket. The reply goes back over the connection.
#[derive(Debug)]
pub struct FrameOrigin {
    /// The group whose socket it is.
    pub group: Group,
    /// The connection.
    pub connection: u64,
    /// The number of the frame in the connection.
    pub frame: u64,
    /// Whether it was admitted to a batch. Until then, it is dropped if the connection ends.
    pub is_admitted: bool,
    /// The lane of the document, which is [`Lane::Refused`] until more is known.
    pub lane: Lane,
    /// The document's place in the group's queue, released when the request is decided.
    pub slot: InFlightGuard,
}

/// The fields that every request has.
#[derive(Debug)]
pub struct Header {
    /// The caller.
    pub caller: Caller,
    /// The caller in the ledger's form.
    pub caller_key: Arc<str>,
    /// The person on whose behalf the request is made.
    pub behalf: Subject,
    /// The request id; made from the file's identity if the document has none.
    pub request_id: RequestId,
    /// The conversation that its document names.
    pub conversation: Option<RequestId>,
    /// The keyed digest of its canonical body. Two requests with the same digest are the same request.
    pub request_digest: Digest,
    /// The destination of the reply.
    pub origin: Origin,
    /// The time of arrival.
    pub arrived: Instant,
    /// The time that the caller still waits, counted from `arrived`.
    pub timeout: Duration,
    /// The memory that it takes, counted against its group. Only a request from a mailbox has it.
    pub weight: Option<InFlightGuard>,
}

impl Header {
    /// Returns the header of a request that the broker itself makes on account of this one. No reply leaves for it.
    pub fn internal(&self) -> Self {
        Self {
            caller: self.caller.clone(),
            caller_key: Arc::clone(&self.caller_key),
            behalf: self.behalf.clone(),
            request_id: self.request_id.clone(),
            conversation: None,
            request_digest: self.request_digest,
            origin: Origin::Broker,
            arrived: self.arrived,
            timeout: self.timeout,
            weight: None,
        }
    }

    /// Drafts a row of the ledger about the request, with its caller, person and id.
    pub fn draft(&self, kind: RowKind) -> Draft<'_> {
        Draft { person: self.behalf.key(), request_id: Some(&self.request_id), ..Draft::new(kind, &self.caller_key) }
    }

    /// Returns the request's unique key: its caller's key and its own id.
    pub fn key(&self) -> (Arc<str>, RequestId) {
        (Arc::clone(&self.caller_key), self.request_id.clone())
    }

    /// Returns whether the request came in a document of this lane.
    pub fn is_in(&self, lane: Lane) -> bool {
        match &self.origin {
            Origin::File(file) => file.lane == lane,
            Origin::Frame(frame) => frame.lane == lane,
            Origin::Retired(..) | Origin::Socket(_) | Origin::Broker => false,
        }
    }

    /// Takes the request's file out, to be removed, and releases the document's place in the queue. The reply can still
    /// be delivered.
    pub fn retire(&mut self) -> Option<FileOrigin> {
        if let Origin::Frame(frame) = &mut self.origin {
            frame.slot = Box::new(());
        }
        let retired = match &self.origin {
            Origin::File(file) => Origin::Retired(file.reply_address()),
            Origin::Frame(_) | Origin::Retired(..) | Origin::Socket(_) | Origin::Broker => return None,
        };
        match std::mem::replace(&mut self.origin, retired) {
            Origin::File(file) => Some(file),
            Origin::Frame(_) | Origin::Retired(..) | Origin::Socket(_) | Origin::Broker => None,
        }
    }

    /// Returns the name of the reply, if the document has no id of its own.
    pub fn reply_as(&self) -> Option<&RequestId> {
        match &self.origin {
            Origin::File(file) => file.reply_as.as_ref(),
            Origin::Retired(address) => address.reply_as.as_ref(),
            Origin::Frame(_) | Origin::Socket(_) | Origin::Broker => None,
        }
    }

    /// Returns the time at which the action must be over so that the reply is in time.
    pub fn provider_deadline(&self) -> Instant {
        self.arrived + self.timeout.saturating_sub(limits::PROVIDER_MARGIN.min(self.timeout / 3))
    }

    /// Returns the time at which the reply must have left.
    pub fn reply_deadline(&self) -> Instant {
        self.arrived + self.timeout.saturating_sub(limits::REPLY_MARGIN.min(self.timeout / 6))
    }
}

/// The preparation of a call that was authorized last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Preparation {
    /// The credential of the account is renewed.
    Renewal,
    /// The remote facts are fetched.
    Facts,
}

/// The preparations of a call that have run. The credential is renewed first, and the remote facts are fetched once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Prepared {
    /// None.
    Not,
    /// The renewal of the credential.
    Renewed,
    /// The one that brought the facts.
    Complete,
}

/// A call: perform one action at one provider.
#[derive(Debug)]
pub struct Call {
    /// The caller and the destination of the reply.
    pub header: Header,
    /// The requested provider, which need not exist.
    pub provider: Provider,
    /// The requested action, which need not exist.
    pub action: Action,
    /// The catalogue entry under these names, and the parsed parameters.
    pub target: Target,
    /// The keyed digest of the canonical parameters.
    pub params_digest: Digest,
    /// The governance task.
    pub task_id: Option<TaskId>,
    /// The key that makes a repeated call the same call.
    pub idempotency_key: Option<IdempotencyKey>,
    /// The person's account: the named one, or the only one there is.
    pub account_ref: Option<String>,
    /// The number of that account's link, as the transaction of the decision read it.
    pub account_key: Option<i64>,
    /// Whether the call is only decided and not executed.
    pub dry_run: bool,
    /// The marker that identifies the effect at the remote.
    pub planted: EffectMarker,
    /// The preparations that have run.
    pub prepared: Prepared,
    /// The preparation that runs now, or that ran last.
    pub preparation: Preparation,
    /// Whether it may change something: its level is above reading.
    pub mutating: bool,
    /// The document as it was written. It is admitted again after an approval.
    pub document: Written,
    /// The parameters as they were written.
    pub params: Params,
    /// The public members of the record, if the parameters do not fit.
    pub about_unparsed: Option<AboutUnparsed>,
    /// The findings in the data that would leave, if the inspection ran before the decision.
    pub departing: Option<EgressFact>,
    /// Whether a person was asked about the call.
    pub asked: ApprovalPhase,
    /// The proposal that it applies.
    pub applies: Option<ProposalId>,
    /// The credentials that must not come back, beside that of its account.
    pub kept_out: Vec<StoredCredential>,
    /// The flow that it continues.
    pub flow: Option<FlowId>,
    /// The sealed request of the approval request. Only this request may be sent.
    pub sealed: Option<SealedRequest>,
    /// Its progress while it runs, and the way to cancel it.
    pub run_handle: Arc<RunHandle>,
    /// The notices that its reply carries beside the result.
    pub notices: Vec<Notice>,
    /// The tool by which an external agent called it.
    pub tool: Option<Opaque>,
    /// The call of another provider that this call makes.
    pub nested: Option<Box<NestedCall>>,
    /// The plan that waits for the facts of this call. The call is then only prepared.
    pub plan: Option<Box<WaitingPlan>>,
}

/// A plan that waits while the facts of one of its calls are read. It travels with that call.
pub struct WaitingPlan {
    /// The plan's own caller and reply.
    pub header: Header,
    /// The plan as it was proposed.
    pub request: PlanRequest,
    /// Its other calls, in their order.
    pub others: Vec<Call>,
    /// The place of the call among them, from 0.
    pub place: usize,
}

impl fmt::Debug for WaitingPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Its request has parameters.
        f.debug_struct("WaitingPlan").field("header", &self.header).field("place", &self.place).finish_non_exhaustive()
    }
}

/// A call that another call makes, with a value that its caller does not see. The decision judges both.
#[derive(Debug)]
pub struct NestedCall {
    /// The call. In its parameters, a placeholder is in the place of the value.
    pub call: Call,
    /// The parameter that takes the value.
    pub field: String,
    /// The time of the permit.
    pub permitted_at: Option<Timestamp>,
}

/// The public members of the record of a call whose parameters do not fit. They are for the record only, so they cannot
/// be printed.
#[derive(Clone, PartialEq)]
pub struct AboutUnparsed(pub Value);

impl std::fmt::Debug for AboutUnparsed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("AboutUnparsed(_)")
    }
}

/// A document as it was written. It cannot be printed, because it holds the parameters.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Written(Box<[u8]>);

impl Written {
    /// Stores these bytes.
    pub fn new(bytes: &[u8]) -> Self {
        Self(bytes.into())
    }

    /// Stores these bytes without the token. The token is verified by then and must not be kept.
    pub fn without_token(bytes: &[u8]) -> Self {
        let mut document = serde_json::from_slice::<Map<String, Value>>(bytes).unwrap_or_default();
        document.remove("context_token");
        Self(serde_json::to_vec(&document).unwrap_or_default().into())
    }

    /// Returns the bytes with the name of the account.
    fn with_account(&self, account: &str) -> Vec<u8> {
        let mut document = serde_json::from_slice::<Map<String, Value>>(&self.0).unwrap_or_default();
        document.insert("account_ref".to_owned(), account.into());
        serde_json::to_vec(&document).unwrap_or_default()
    }

    /// Returns the bytes to be stored.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Written {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.0.len())
    }
}

/// The parameters of a call, as they were written. They cannot be printed.
#[derive(Clone, PartialEq)]
pub struct Params(Value);

impl Params {
    /// Makes the parameters of a parsed call.
    pub fn new(params: Map<String, Value>) -> Self {
        Self(Value::Object(params))
    }

    /// Returns all parameters, as an object.
    pub fn value(&self) -> &Value {
        &self.0
    }

    /// Returns the parameters by name.
    pub fn members(&self) -> Option<&Map<String, Value>> {
        self.0.as_object()
    }
}

impl fmt::Debug for Params {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} parameters", self.members().map_or(0, Map::len))
    }
}

/// Whether a person was asked about a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ApprovalPhase {
    /// Not asked, or not yet.
    No,
    /// Asked about an equal call of the same caller. Its outcome is also the outcome of this call.
    AboutAnother(RequestId),
    /// Asked: the call is admitted for the second time.
    Yes,
}

/// The target of a call.
pub enum Target {
    /// No such provider.
    NoProvider,
    /// No such action.
    NoAction,
    /// The action exists but its provider is off, for this reason.
    Disabled(Arc<dyn Operation>, Outage),
    /// The provider takes no calls, so its actions are unknown.
    Unusable,
    /// The action exists, with its parameters or their errors.
    Action(Arc<dyn Operation>, Result<Box<dyn Invocation>, Vec<ParamError>>),
    /// The action, whose parameters are with the provider now, and the level that the call demands.
    Started(Arc<dyn Operation>, Level),
}

impl Target {
    /// Returns the action with its parsed parameters, if the call got that far.
    pub fn invocation(&self) -> Option<&dyn Invocation> {
        match self {
            Self::Action(_, Ok(invocation)) => Some(invocation.as_ref()),
            Self::Action(_, Err(_))
            | Self::Started(..)
            | Self::Disabled(..)
            | Self::Unusable
            | Self::NoAction
            | Self::NoProvider => None,
        }
    }

    /// Returns the level that this call demands, as far as it is known.
    pub fn demanded(&self) -> Level {
        if let Self::Started(_, demanded) = self {
            return *demanded;
        }
        let declared = self.operation().map_or(Level::None, |operation| operation.declaration().level);
        self.invocation().map_or(declared, |invocation| invocation.level().max(declared))
    }

    /// Supplies the call with its input beside its parameters.
    pub fn supply(&mut self, supplied: StoreInput) {
        if let Self::Action(_, Ok(invocation)) = self {
            invocation.supply(supplied);
        }
    }

    /// Takes the parameters out for the provider.
    pub fn start(&mut self) -> Option<Box<dyn Invocation>> {
        let demanded = self.demanded();
        match std::mem::replace(self, Self::NoAction) {
            Self::Action(operation, Ok(invocation)) => {
                *self = Self::Started(operation, demanded);
                Some(invocation)
            }
            other @ (Self::Action(_, Err(_))
            | Self::Started(..)
            | Self::Disabled(..)
            | Self::Unusable
            | Self::NoAction
            | Self::NoProvider) => {
                *self = other;
                None
            }
        }
    }

    /// Puts the parameters back, with the provider's additions.
    pub fn resume(&mut self, invocation: Box<dyn Invocation>) {
        match std::mem::replace(self, Self::NoAction) {
            Self::Started(operation, _) => *self = Self::Action(operation, Ok(invocation)),
            other @ (Self::Action(..) | Self::Disabled(..) | Self::Unusable | Self::NoAction | Self::NoProvider) => {
                *self = other;
            }
        }
    }

    /// Returns the action, if it exists.
    pub fn operation(&self) -> Option<&Arc<dyn Operation>> {
        match self {
            Self::Action(operation, _) | Self::Started(operation, _) | Self::Disabled(operation, _) => Some(operation),
            Self::Unusable | Self::NoAction | Self::NoProvider => None,
        }
    }
}

impl Call {
    /// Makes a call with nothing but its required parts. It counts as a change until more is known.
    pub fn new(
        header: Header,
        (provider, action): (Provider, Action),
        target: Target,
        (params, params_digest): (Map<String, Value>, Digest),
        planted: EffectMarker,
    ) -> Self {
        Self {
            header,
            provider,
            action,
            target,
            params_digest,
            task_id: None,
            idempotency_key: None,
            account_ref: None,
            account_key: None,
            dry_run: false,
            planted,
            prepared: Prepared::Not,
            preparation: Preparation::Facts,
            mutating: true,
            document: Written::default(),
            params: Params::new(params),
            about_unparsed: None,
            departing: None,
            asked: ApprovalPhase::No,
            applies: None,
            kept_out: Vec::new(),
            flow: None,
            sealed: None,
            run_handle: Arc::default(),
            notices: Vec::new(),
            tool: None,
            nested: None,
            plan: None,
        }
    }

    /// Returns the header of the request whose caller waits: that of the plan, if this call is read for one.
    pub fn awaited(&self) -> &Header {
        self.plan.as_deref().map_or(&self.header, |plan| &plan.header)
    }

    /// Returns the call's idempotency key, if it has one. `person` is in the ledger's form.
    pub fn claim_key<'a>(&'a self, person: Option<&'a str>) -> Option<ClaimKey<'a>> {
        self.idempotency_key.as_ref().map(|key| ClaimKey {
            caller: &self.header.caller_key,
            person,
            account: self.account_ref.as_deref().unwrap_or(""),
            provider: &self.provider,
            action: &self.action,
            key: key.as_str(),
        })
    }

    /// Returns the holder of the call's idempotency key, if the call has one and the key is held.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn claimed(&self, view: &View) -> Result<Option<Claimed>, StoreError> {
        let person = self.header.behalf.key();
        self.claim_key(person.as_deref()).map_or(Ok(None), |claim| idempotency::claimed(view, &claim))
    }

    /// Returns whether a person was asked about this call.
    pub fn is_resumed(&self) -> bool {
        self.asked == ApprovalPhase::Yes
    }

    /// Returns whether it only reads, sends nothing out, and no person was asked. A power cut can then lose only the
    /// intent of a read whose result no caller received.
    pub fn is_harmless_read(&self) -> bool {
        // A spent approval cannot be spent again.
        !self.is_resumed()
            && self.target.operation().is_some_and(|operation| {
                let declaration = operation.declaration();
                declaration.level <= Level::Read && !declaration.exposes.egress
            })
    }

    /// Returns whether the broker makes it because a person wants it. No other caller waits for its reply.
    pub fn is_internal(&self) -> bool {
        // A call that is read for a plan is its agent's.
        self.asked == ApprovalPhase::No && self.plan.is_none() && matches!(self.header.origin, Origin::Broker)
    }

    /// Returns the data that is stored while a person is asked, enough to make the call again. It names the account that
    /// the card shows, so another one that is linked later does not change the call.
    pub fn to_be_made_again(&self) -> Vec<u8> {
        match &self.tool {
            None => match &self.account_ref {
                None => self.document.bytes().to_vec(),
                Some(account) => self.document.with_account(account),
            },
            Some(tool) => {
                let again = serde_json::json!({
                    "tool": tool, "params": self.params.value(), "idempotency_key": self.idempotency_key,
                });
                again.to_string().into_bytes()
            }
        }
    }
}

impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoProvider => "NoProvider",
            Self::NoAction => "NoAction",
            Self::Disabled(..) | Self::Unusable => "Disabled",
            Self::Action(_, Ok(_)) => "Action",
            Self::Action(_, Err(_)) => "Action with faults",
            Self::Started(..) => "Started",
        })
    }
}
