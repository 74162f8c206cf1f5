//! The one contract between the broker and its providers.

use crate::execution::Execution;
use model::proposal::Listed;
use model::proposal::StoredProposal;
use model::{
    Ciphertext, Declaration, Destination, EffectMarker, Flow, LinkSessionState, Nonce, ParamError, ProposalId, Refusal,
    Renewal, SealedRequest,
};
use serde_json::{Map, Value};
use shared::digest::Digest;
use shared::{AccountRef, Action, Code, FlowId, Level, Provider, Timestamp};
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

/// A future that an erased operation returns.
pub type Running<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// One action of one provider.
pub trait Operation: Send + Sync {
    /// Returns the catalogue entry of the action.
    fn declaration(&self) -> &Declaration;

    /// Returns whether it uses the `default` of its schema where a parameter is absent.
    fn fills_defaults(&self) -> bool {
        false
    }

    /// Returns the refusal of every call of it, if its accepted definition differs from the present one. It decides on
    /// local knowledge and contacts no server.
    fn withdrawn(&self) -> Option<Refusal> {
        None
    }

    /// Returns the fault of a name of an account, as a sentence; `None` if an account can have this name.
    fn account_fault(&self, _name: &str) -> Option<&'static str> {
        None
    }

    /// Returns whether two names are names of the same account.
    fn is_same_account(&self, one: &str, other: &str) -> bool {
        one == other
    }

    /// Returns how an operator links its accounts.
    fn linked_by_operator(&self) -> LinkedByOperator {
        LinkedByOperator::Name
    }

    /// Parses parameters into a call of this action. Contacts no server.
    ///
    /// # Errors
    /// Every fault at once.
    fn parse(&self, params: &Map<String, Value>) -> Result<Box<dyn Invocation>, Vec<ParamError>>;

    /// Describes the change that undoes an applied proposal, under the name `id`. `changes` holds the bytes of
    /// [`Proposed::changes`]. The approval request stays open for the time `ttl`.
    ///
    /// # Errors
    /// [`InverseError`]; nothing was changed.
    fn inverse(&self, _changes: &[u8], _id: ProposalId, _ttl: Duration) -> Result<Proposed, InverseError> {
        Err(InverseError::Unsupported)
    }

    /// Asks the remote whether an effect happened whose outcome was lost. `handle` is the value that
    /// [`Invocation::probe_handle`] gave before the effect. `account` is the account of the effect, if the action uses
    /// accounts, with its present credential.
    fn probe(
        &self,
        _handle: Value,
        _account: Option<UsedAccount>,
        _execution: Execution,
    ) -> Running<Result<Probed, Failure>> {
        Box::pin(async { Ok(Probed::State { message: "the provider cannot be asked for an outcome".into() }) })
    }
}

/// The parsed parameters of one call.
pub trait Invocation: Send + Sync {
    /// Returns the level that this call demands; never less than the declaration's.
    fn level(&self) -> Level;

    /// Summarizes its effect in one line of public parts: names, numbers, states. It goes into the ledger.
    fn summary(&self) -> String;

    /// Returns the members that its record has beside the summary, also if it is refused: `{"op": "read_file", "path":
    /// "src/a.rs"}`. They are public.
    fn about(&self) -> Option<Value> {
        None
    }

    /// Checks whether the guardrails let it pass. Pure; `now` is the decision's time.
    fn guard(&self, now: Timestamp) -> Guard;

    /// Fetches the remote facts that [`Guard::NeedsRemote`] asked for; the returned call has them.
    ///
    /// # Errors
    /// [`Failure`]; this is a read, nothing was changed.
    fn prepare(self: Box<Self>, execution: Execution) -> Running<Result<Box<dyn Invocation>, Failure>>;

    /// Returns every place to which its data goes. `None` if they are not known; the data can then go anywhere.
    fn destinations(&self) -> Option<Vec<Destination>> {
        None
    }

    /// Returns the state that must still hold at the remote when the action runs, as far as it is known. A person
    /// approves it with the parameters, so a later change is not approved. `{"head": "<commit>"}`; `None` where no
    /// state must hold.
    fn precondition(&self) -> Option<Value> {
        None
    }

    /// Returns the exact request that it will send, with this nonce planted into it. Returns `None` if it sends no
    /// single request, or if remote facts that belong into it are missing. Pure: the same call and nonce give the same
    /// bytes, and no server is contacted. If a person must approve, [`Execution::sealed`] has the request again when it
    /// runs, and nothing else may be sent.
    fn seal(&self, _nonce: &Nonce) -> Option<SealedRequest> {
        None
    }

    /// Returns the input that it needs from the broker's own stores.
    fn needs(&self) -> StoreRequest<'_> {
        StoreRequest::Nothing
    }

    /// Returns the call of another provider that it makes. The decision judges both calls, and an approval covers both.
    /// It runs the other call with [`Execution::run_nested`].
    fn nested(&self) -> Option<NestedRequest> {
        None
    }

    /// Returns whether the credential of its account must be renewed before it is prepared or run.
    fn is_renewal_due(&self, _now: Timestamp) -> bool {
        false
    }

    /// Renews the credential of its account, as a preparation of its own. The returned call has the
    /// [renewal](Self::renewed).
    ///
    /// # Errors
    /// [`Failure`]; the stored credential is unchanged.
    fn renew(self: Box<Self>, _execution: Execution) -> Running<Result<Box<dyn Invocation>, Failure>> {
        Box::pin(async { Err(Failure::Refused { message: "this action has no account".into() }) })
    }

    /// Returns the credential that it renewed. It is stored with the outcome of the renewal, before it is used.
    fn renewed(&self) -> Option<&Renewal> {
        None
    }

    /// Takes the input that it [needs](Invocation::needs), in the transaction of the decision.
    fn supply(&mut self, _supplied: StoreInput) {}

    /// Returns the data to find out later whether the effect happened; `None` if no probe is possible.
    fn probe_handle(&self, planted: &EffectMarker) -> Option<Value>;

    /// Performs the action. Its first step runs on the thread that serves every group. Blocking work therefore belongs
    /// into `spawn_blocking`: a file that may be a pipe, a long computation.
    ///
    /// # Errors
    /// [`Failure`] says whether anything may have been changed.
    fn run(self: Box<Self>, execution: Execution) -> Running<Result<Success, Failure>>;
}

/// A call of another provider, without the value that its caller does not see.
#[derive(Debug, Clone, PartialEq)]
pub struct NestedRequest {
    /// The provider.
    pub provider: Provider,
    /// The action.
    pub action: Action,
    /// The parameters, with a placeholder in the place of the value.
    pub params: Map<String, Value>,
    /// The parameter that takes the value.
    pub field: String,
}

/// Returns whether a call can be a nested one: its parameters are its whole request, and its data the whole result.
pub fn can_be_nested(
    declaration: &Declaration,
    invocation: &dyn Invocation,
    planted: &EffectMarker,
    now: Timestamp,
) -> bool {
    let Declaration { proposes, verbatim, reveals, needs_account, .. } = declaration;
    !(*proposes || *verbatim || *reveals || *needs_account)
        && invocation.nested().is_none()
        && invocation.needs() == StoreRequest::Nothing
        && invocation.seal(&planted.nonce).is_none()
        && invocation.guard(now) != Guard::NeedsRemote
}

/// Prepares a call that needs no remote facts, and returns it unchanged.
pub fn unprepared(invocation: Box<dyn Invocation>) -> Running<Result<Box<dyn Invocation>, Failure>> {
    Box::pin(async move { Ok(invocation) })
}

/// Refuses all parameters of an operation that the broker only probes.
///
/// # Errors
/// Always.
pub fn not_callable() -> Result<Box<dyn Invocation>, Vec<ParamError>> {
    Err(vec![ParamError { pointer: String::new(), fault: "it is no action".to_owned() }])
}

/// The input that an action needs beside its parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StoreRequest<'a> {
    /// Nothing.
    Nothing,
    /// The changes of a proposal, by its name and its path. The call makes them once, and only if a person approved.
    ToApply(&'a ProposalId, &'a str),
    /// The withdrawal of a proposal.
    ToWithdraw(&'a ProposalId),
    /// The caller's proposals.
    Proposals,
    /// The number of flows that the person has begun.
    ToBegin,
    /// The state of a flow of the person, which the call ends.
    ToComplete(&'a FlowId),
    /// The state of a flow of the person.
    ToPoll(&'a FlowId),
    /// The person's accounts at its provider.
    Accounts,
    /// The unlinking of one of the person's accounts.
    ToUnlink(&'a AccountRef),
    /// The credential of the person's account.
    Credential,
}

/// The supplied input.
#[derive(Debug, Clone, PartialEq)]
pub enum StoreInput {
    /// The number of flows that can be continued.
    Begun(usize),
    /// The state of the flow, and whether the provider may be polled now.
    Flow(LinkSessionState, bool),
    /// The names and labels of the person's accounts.
    Accounts(Vec<(String, Option<String>)>),
    /// Whether there was an account to unlink, and it was unlinked.
    Unlinked(bool),
    /// The account of the call.
    Credential(UsedAccount),
    /// The proposal to be applied.
    Changes(Box<StoredProposal>),
    /// Whether there was a proposal to withdraw, and it was withdrawn.
    Withdrawn(bool),
    /// The caller's proposals, oldest first.
    Proposals(Vec<Listed>),
}

/// How an operator links an account.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LinkedByOperator {
    /// By its name alone. The provider has the credential.
    Name,
    /// With its password.
    Password,
    /// Not at all. The person signs in.
    No,
}

/// The account that a call uses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UsedAccount {
    /// The provider's name of the account.
    pub name: String,
    /// The credential of the account, if the broker has it, and the time until which it can be used without renewal.
    pub credential: Option<(Ciphertext, Option<Timestamp>)>,
}

/// The number of lines that a set of changes adds and removes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Lines {
    /// The number of added lines.
    pub added: usize,
    /// The number of removed lines.
    pub removed: usize,
}

/// A change that was described and not made.
#[derive(Clone, PartialEq, Eq)]
pub struct Proposed {
    /// The proposer's name for it.
    pub id: ProposalId,
    /// The path that names it.
    pub path: String,
    /// Every path that it touches.
    pub paths: Vec<String>,
    /// One line made of public parts only.
    pub summary: String,
    /// The stored changes, which come back as [`StoredProposal`].
    pub changes: Vec<u8>,
    /// SHA-256 of the whole diff.
    pub patch_hash: Digest,
    /// The whole diff, for a person's eyes.
    pub diff: String,
    /// The number of lines that it adds and removes.
    pub lines: Lines,
    /// The conditions that must still hold when it is made: the digest of each file, by path.
    pub conditions: Value,
    /// The time that the approval request stays open.
    pub ttl: Duration,
    /// The time after the approval in which it can be applied.
    pub window: Duration,
}

/// The reason why an applied change cannot be undone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InverseError {
    /// The action has no inverse.
    Unsupported,
    /// The stored changes cannot be read.
    Damaged,
    /// The inverse cannot be shown to a person.
    NotShowable,
}

impl std::fmt::Debug for Proposed {
    /// Omits the content that it would write.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Proposed({}, {})", self.id, self.summary)
    }
}

/// The judgement of the guardrails.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub enum Guard {
    /// The call is within the guardrails.
    Pass,
    /// The remote must be asked first.
    NeedsRemote,
    /// The call is outside the guardrails.
    Refuse(Refusal),
}

/// The result of a successful action.
#[derive(Debug, Clone, PartialEq)]
pub struct Success {
    /// The result, before the filter.
    pub data: Value,
    /// One line made of public parts only: names, numbers, states.
    pub summary: String,
    /// The output for the broker's own stores.
    pub aside: Option<Box<SideOutput>>,
}

/// The output of an action beside its result.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SideOutput {
    /// Additional members of the evidence; public parts only.
    pub noted: Value,
    /// A change to be decided on by a person.
    pub proposed: Option<Proposed>,
    /// The progress of an account link.
    pub progress: Option<Progress>,
    /// A part of the result that one reply delivers and no other. Only an action that
    /// [reveals](model::Declaration::reveals) one may have it.
    pub one_time: Option<SealedField>,
    /// Whether the result has a member `audit` that takes the receipt.
    pub takes_receipt: bool,
}

/// A member of a result, encrypted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SealedField {
    /// The name of the member.
    pub field: String,
    /// Its text.
    pub sealed: Ciphertext,
}

/// The progress of an action that links an account.
#[derive(Debug, Clone, PartialEq)]
pub enum Progress {
    /// A flow was begun.
    Begun(FlowId, Flow),
    /// The provider demands longer intervals between polls.
    Slower(FlowId, Duration),
    /// The provider has given an account, about which a person decides.
    Found(Box<Found>),
}

/// An account that a provider has given.
#[derive(Debug, Clone, PartialEq)]
pub struct Found {
    /// The flow that brought it.
    pub flow: FlowId,
    /// The provider's name of the account.
    pub account: AccountRef,
    /// The provider's description of it, for the person who decides.
    pub shown: Value,
    /// The credential of the account, if the broker keeps it.
    pub credential: Option<Ciphertext>,
    /// The time until which the credential can be used without renewal; `None` if it does not end.
    pub fresh_until: Option<Timestamp>,
}

impl Success {
    /// Makes a result with its summary and no further output.
    pub fn new(data: Value, summary: String) -> Self {
        Self { data, summary, aside: None }
    }
}

/// The reason why an action gave no result. The messages are for an agent and go through the filter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Failure {
    /// The remote refused: nothing was changed.
    Refused {
        /// The remote's message.
        message: String,
    },
    /// The remote could not be reached, or does not work: nothing was changed.
    Unavailable {
        /// The known facts.
        message: String,
    },
    /// The remote limits its callers: nothing was changed.
    RateLimited {
        /// The time after which to try again, if the remote gave it.
        retry_after: Option<Duration>,
        /// The remote's message.
        message: String,
    },
    /// The remote refused with a code of this protocol: nothing was changed.
    Coded {
        /// The code: one of the `capability_` codes.
        code: Code,
        /// The reason.
        message: String,
    },
    /// A precondition no longer held when the effect was attempted: nothing was changed.
    Guard(Refusal),
    /// Too slow, and nothing was changed: a read, or a write that had not left.
    Timeout,
    /// The answer to a read is not usable.
    InvalidOutput {
        /// The defect of the answer.
        message: String,
    },
    /// A write left and its answer was lost or is not usable: it may have happened.
    Unknown {
        /// The known facts.
        message: String,
    },
}

impl Failure {
    /// Returns whether the provider failed, independent of the request.
    pub fn is_fault(&self) -> bool {
        match self {
            Self::Unavailable { .. } | Self::Timeout | Self::InvalidOutput { .. } | Self::Unknown { .. } => true,
            Self::Coded { code, .. } => *code == Code::CapabilityBackendUnavailable,
            Self::Refused { .. } | Self::RateLimited { .. } | Self::Guard(_) => false,
        }
    }
}

/// The finding of a probe.
#[derive(Debug, Clone, PartialEq)]
pub enum Probed {
    /// The effect happened: an object with the planted nonce is there.
    Happened(Success),
    /// No such object is there. This informs a person and never permits a repeat.
    Absent {
        /// The place that was searched.
        message: String,
    },
    /// No nonce could be planted. This is the present state, and a person must judge.
    State {
        /// The state that was found.
        message: String,
    },
}
