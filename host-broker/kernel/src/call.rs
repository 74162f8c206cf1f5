//! A call: who asks, where the reply goes, what is asked. Nothing here decides.

use crate::contract::{Invocation, Operation, StoreInput};
use crate::run_handle::RunHandle;
use model::{Caller, EffectMarker, ParamError, ProposalId, SealedRequest, Subject};
use policy::facts::{EgressFact, Outage};
use serde_json::{Map, Value};
use shared::digest::Digest;
use shared::flow::Opaque;
use shared::reply::Notice;
use shared::{Action, FlowId, Group, IdempotencyKey, Level, Provider, RequestId, TaskId, limits};
use std::any::Any;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use store::ledger::chain::{Draft, Kind};
use store::state::requests::{self, ClaimKey, Claimed};
use store::{StoreError, View};
use tokio::sync::oneshot;
use tokio::time::Instant;

/// A resource that a request holds while it is under way, such as its place in a queue. Dropping it gives it back.
pub type InFlightGuard = Box<dyn Any + Send + Sync>;

/// The lane of a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lane {
    /// The group's snapshot lets the group do what the document asks.
    Permitted,
    /// The document will be refused, as far as is known.
    Refused,
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
    /// The lane of the file, which is [`Lane::Refused`] until more is known.
    pub lane: Lane,
    /// The file's place in the group's queue, given back when the request is decided.
    pub slot: InFlightGuard,
}

/// What every request has, whatever it asks.
#[derive(Debug)]
pub struct Header {
    /// Who asks.
    pub caller: Caller,
    /// The same, as the ledger writes it.
    pub caller_key: Arc<str>,
    /// On whose behalf.
    pub behalf: Subject,
    /// Its name; made from the file's identity if the document has none.
    pub request_id: RequestId,
    /// The keyed digest of its canonical body: two requests with the same are the same request.
    pub request_digest: Digest,
    /// Where the reply goes.
    pub origin: Origin,
    /// When it arrived.
    pub arrived: Instant,
    /// How long the caller still waits, from `arrived` on.
    pub timeout: Duration,
    /// The memory that it takes, counted against its group. Only a request from a mailbox has it.
    pub weight: Option<InFlightGuard>,
}

impl Header {
    /// A row of the ledger about the request: who asked, on whose behalf, under which name.
    pub fn draft(&self, kind: Kind) -> Draft<'_> {
        Draft { person: self.behalf.key(), request_id: Some(&self.request_id), ..Draft::new(kind, &self.caller_key) }
    }

    /// The request's name among all: its caller's and its own.
    pub fn key(&self) -> (Arc<str>, RequestId) {
        (Arc::clone(&self.caller_key), self.request_id.clone())
    }

    /// Returns whether the request came in a file of this lane.
    pub fn is_in(&self, lane: Lane) -> bool {
        match &self.origin {
            Origin::File(file) => file.lane == lane,
            Origin::Retired(..) | Origin::Socket(_) | Origin::Broker => false,
        }
    }

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
        self.arrived + self.timeout.saturating_sub(limits::PROVIDER_MARGIN.min(self.timeout / 3))
    }

    /// When the reply must have left.
    pub fn reply_deadline(&self) -> Instant {
        self.arrived + self.timeout.saturating_sub(limits::REPLY_MARGIN.min(self.timeout / 6))
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
    /// Which of the person's accounts: the one that was named, or else the only one there is.
    pub account_ref: Option<String>,
    /// Decide only.
    pub dry_run: bool,
    /// What will identify the effect at the remote.
    pub planted: EffectMarker,
    /// Whether the remote facts have been fetched: they are fetched once.
    pub prepared: bool,
    /// Whether it may change something: its level is above reading.
    pub mutating: bool,
    /// As it was written: what is admitted again after a person's yes.
    pub document: Written,
    /// The parameters, as they were written.
    pub params: Params,
    /// The public members of the record where the parameters do not fit.
    pub about_unparsed: Option<AboutUnparsed>,
    /// The findings in the data that would leave, if the inspection ran before the decision.
    pub departing: Option<EgressFact>,
    /// Whether a person was asked about it.
    pub asked: ApprovalPhase,
    /// The proposal that it applies.
    pub applies: Option<ProposalId>,
    /// The flow that it goes on with.
    pub flow: Option<FlowId>,
    /// The request that a person was asked about, which alone may be sent.
    pub sealed: Option<SealedRequest>,
    /// Its progress while it runs, and the way to cancel it.
    pub run_handle: Arc<RunHandle>,
    /// What its reply says beside the result.
    pub notices: Vec<Notice>,
    /// Which tool an external agent called it by.
    pub tool: Option<Opaque>,
}

/// The public members of the record of a call whose parameters do not fit. They are for the record only, so they cannot be
/// printed.
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
    /// These bytes.
    pub fn new(bytes: &[u8]) -> Self {
        Self(bytes.into())
    }

    /// These bytes, but for the token: it says what is known by then, and must not be kept.
    pub fn without_token(bytes: &[u8]) -> Self {
        let mut document = serde_json::from_slice::<Map<String, Value>>(bytes).unwrap_or_default();
        document.remove("context_token");
        Self(serde_json::to_vec(&document).unwrap_or_default().into())
    }

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
    Disabled(Arc<dyn Operation>, Outage),
    /// The provider takes no calls, so its actions are unknown.
    Unusable,
    /// The action exists, and these are its parameters, or what is wrong with them.
    Action(Arc<dyn Operation>, Result<Box<dyn Invocation>, Vec<ParamError>>),
    /// The action, whose parameters are with the provider now, and the level that the call demands.
    Started(Arc<dyn Operation>, Level),
}

impl Target {
    /// The action with its parsed parameters, if the call got that far.
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

    /// The level that this very call demands, as far as it is known.
    pub fn demanded(&self) -> Level {
        if let Self::Started(_, demanded) = self {
            return *demanded;
        }
        let declared = self.operation().map_or(Level::None, |operation| operation.declaration().level);
        self.invocation().map_or(declared, |invocation| invocation.level().max(declared))
    }

    /// Hands the call what it works on beside its parameters.
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

    /// Puts the parameters back, with what the provider added to them.
    pub fn resume(&mut self, invocation: Box<dyn Invocation>) {
        match std::mem::replace(self, Self::NoAction) {
            Self::Started(operation, _) => *self = Self::Action(operation, Ok(invocation)),
            other @ (Self::Action(..) | Self::Disabled(..) | Self::Unusable | Self::NoAction | Self::NoProvider) => {
                *self = other;
            }
        }
    }

    /// The action, if it exists.
    pub fn operation(&self) -> Option<&Arc<dyn Operation>> {
        match self {
            Self::Action(operation, _) | Self::Started(operation, _) | Self::Disabled(operation, _) => Some(operation),
            Self::Unusable | Self::NoAction | Self::NoProvider => None,
        }
    }
}

impl Call {
    /// The call's idempotency key, if it has one; the person as the ledger writes persons.
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

    /// Who holds the call's idempotency key, if it has one and anybody does.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn claimed(&self, view: &View) -> Result<Option<Claimed>, StoreError> {
        let person = self.header.behalf.key();
        self.claim_key(person.as_deref()).map_or(Ok(None), |claim| requests::claimed(view, &claim))
    }

    /// Whether a person was asked about this very call.
    pub fn is_resumed(&self) -> bool {
        self.asked == ApprovalPhase::Yes
    }

    /// Returns whether it only reads, lets nothing leave, and nobody was asked: what a power cut can take of it is then the
    /// intent of a read whose result nobody received.
    pub fn is_harmless_read(&self) -> bool {
        // A yes that is spent is spent for good.
        !self.is_resumed()
            && self.target.operation().is_some_and(|operation| {
                let declaration = operation.declaration();
                declaration.level <= Level::Read && !declaration.exposes.egress
            })
    }

    /// Whether the broker makes it because a person wants it: nobody else waits for its reply.
    pub fn is_internal(&self) -> bool {
        self.asked == ApprovalPhase::No && matches!(self.header.origin, Origin::Broker)
    }

    /// What is stored of it while a person is asked: what it takes to make it again.
    pub fn to_be_made_again(&self) -> Vec<u8> {
        match &self.tool {
            None => self.document.bytes().to_vec(),
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
