//! The one contract between the broker and everything it can do.

use crate::execution::Execution;
use model::proposal::Listed;
use model::proposal::Stored;
use model::{
    Ciphertext, Declaration, EffectMarker, Flow, Nonce, ParamError, ProposalId, Refusal, Renewal, SealedRequest,
    Standing,
};
use serde_json::{Map, Value};
use shared::digest::Digest;
use shared::{AccountRef, Code, FlowId, Level, Timestamp};
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

/// A future that an erased operation returns.
pub type Running<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// One action of one provider.
pub trait Operation: Send + Sync {
    /// What the catalogue says of it.
    fn declaration(&self) -> &Declaration;

    /// Whether it takes the `default` of its schema where a parameter is absent.
    fn fills_defaults(&self) -> bool {
        false
    }

    /// Why it may not be called now, whatever it is called with: what it is was accepted, and it is something else. Decided
    /// on what is known here; contacts nobody.
    fn withdrawn(&self) -> Option<Refusal> {
        None
    }

    /// Parses parameters into a call of this action. Contacts nobody.
    ///
    /// # Errors
    /// Every fault at once.
    fn parse(&self, params: &Map<String, Value>) -> Result<Box<dyn Invocation>, Vec<ParamError>>;

    /// Describes the change that undoes an applied proposal, under the name `id`. `changes` is what
    /// [`Proposed::changes`] held. People are asked about it for the time `ttl`.
    ///
    /// # Errors
    /// [`InverseError`]; nothing was changed.
    fn inverse(&self, _changes: &[u8], _id: ProposalId, _ttl: Duration) -> Result<Proposed, InverseError> {
        Err(InverseError::Unsupported)
    }

    /// Asks the remote whether an effect happened whose outcome was lost. `handle` is what
    /// [`Invocation::probe_handle`] gave before the effect.
    fn probe(&self, handle: Value, execution: Execution) -> Running<Result<Probed, Failure>>;
}

/// The parsed parameters of one call.
pub trait Invocation: Send + Sync {
    /// The level that this very call demands; never less than the declaration's.
    fn level(&self) -> Level;

    /// What it will do, in one line made of public parts only: names, numbers, states. It goes into the ledger.
    fn summary(&self) -> String;

    /// Returns the members that its record has beside the summary, also if it is refused:
    /// `{"op": "read_file", "path": "src/a.rs"}`. They are public.
    fn about(&self) -> Option<Value> {
        None
    }

    /// Whether the guardrails let it pass. Pure; `now` is the decision's time.
    fn guard(&self, now: Timestamp) -> Guard;

    /// Fetches the remote facts that [`Guard::NeedsRemote`] asked for; the returned call has them.
    ///
    /// # Errors
    /// [`Failure`]; this is a read, nothing was changed.
    fn prepare(self: Box<Self>, execution: Execution) -> Running<Result<Box<dyn Invocation>, Failure>>;

    /// What must still hold at the remote when the action runs, as far as it is known: a person agrees to it with the
    /// parameters, and what has changed since is not agreed to. `{"head": "<commit>"}`; `None` where nothing must.
    fn precondition(&self) -> Option<Value> {
        None
    }

    /// The very request that it will send, with this nonce planted into it; `None` where there is no such one request, or
    /// the remote facts that belong into it are not there yet. Pure: the same call and nonce give the same bytes, and
    /// nobody is contacted. Where a person must agree, [`Execution::sealed`] has it again when it runs, and nothing else
    /// may be sent.
    fn seal(&self, _nonce: &Nonce) -> Option<SealedRequest> {
        None
    }

    /// What it works on beside its parameters, out of the broker's own stores.
    fn needs(&self) -> StoreRequest<'_> {
        StoreRequest::Nothing
    }

    /// What its preparation has renewed: stored with the preparation's outcome, before anything uses it.
    fn renewed(&self) -> Option<&Renewal> {
        None
    }

    /// Takes what it [needs](Invocation::needs), in the transaction of the decision.
    fn supply(&mut self, _supplied: StoreInput) {}

    /// What will be needed to find out later whether the effect happened; `None` where nobody can tell.
    fn probe_handle(&self, planted: &EffectMarker) -> Option<Value>;

    /// Performs the action. Its first step is taken on the thread that serves every group, so what blocks belongs into
    /// `spawn_blocking`: a file that may be a pipe, a long computation.
    ///
    /// # Errors
    /// [`Failure`] says whether anything may have been changed.
    fn run(self: Box<Self>, execution: Execution) -> Running<Result<Success, Failure>>;
}

/// The preparation of a call that needs no remote facts: itself.
pub fn unprepared(invocation: Box<dyn Invocation>) -> Running<Result<Box<dyn Invocation>, Failure>> {
    Box::pin(async move { Ok(invocation) })
}

/// What an action works on beside its parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StoreRequest<'a> {
    /// Nothing.
    Nothing,
    /// The changes of a proposal: its name and its path. The call makes them once, and only if a person has agreed.
    ToApply(&'a ProposalId, &'a str),
    /// That a proposal is taken back.
    ToWithdraw(&'a ProposalId),
    /// The caller's proposals.
    Proposals,
    /// How many flows the person has begun.
    ToBegin,
    /// Where a flow of the person's stands, which its call ends.
    ToComplete(&'a FlowId),
    /// Where a flow of the person's stands.
    ToPoll(&'a FlowId),
    /// The person's accounts at its provider.
    Accounts,
    /// That an account of the person's is unlinked.
    ToUnlink(&'a AccountRef),
    /// What the person's account is worked with.
    Credential,
}

/// What it is given.
#[derive(Debug, Clone, PartialEq)]
pub enum StoreInput {
    /// How many flows can be gone on with.
    Begun(usize),
    /// Where the flow stands, and whether the provider may be asked how far it is.
    Flow(Standing, bool),
    /// What the person's accounts are called, and what people call them.
    Accounts(Vec<(String, Option<String>)>),
    /// Whether there was an account to be unlinked, and it was.
    Unlinked(bool),
    /// What the account is worked with, if the broker has it, and until when it can be used without being renewed.
    Credential(Option<(Ciphertext, Option<Timestamp>)>),
    /// The proposal to be applied.
    Changes(Box<Stored>),
    /// Whether there was a proposal to be taken back, and it was.
    Withdrawn(bool),
    /// The caller's proposals, oldest first.
    Proposals(Vec<Listed>),
}

/// How many lines a set of changes adds and removes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Lines {
    /// Lines that the change adds.
    pub added: usize,
    /// Lines that the change removes.
    pub removed: usize,
}

/// A change that was described and not made.
#[derive(Clone, PartialEq, Eq)]
pub struct Proposed {
    /// The proposer's name for it.
    pub id: ProposalId,
    /// The path that it goes by.
    pub path: String,
    /// Every path that it touches.
    pub paths: Vec<String>,
    /// One line made of public parts only.
    pub summary: String,
    /// What is kept, and comes back as [`Stored`].
    pub changes: Vec<u8>,
    /// SHA-256 of the whole diff.
    pub patch_hash: Digest,
    /// The whole diff, for a person's eyes.
    pub diff: String,
    /// How many lines it adds and removes.
    pub lines: Lines,
    /// What must still hold when it is made: the digest of each file, by path.
    pub conditions: Value,
    /// For how long a person is asked.
    pub ttl: Duration,
    /// For how long after that it can be applied.
    pub window: Duration,
}

/// An applied change cannot be undone.
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
    /// Without what it would write.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Proposed({}, {})", self.id, self.summary)
    }
}

/// What the guardrails say.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub enum Guard {
    /// Within them.
    Pass,
    /// Cannot be said without asking the remote first.
    NeedsRemote,
    /// Outside.
    Refuse(Refusal),
}

/// What an action brought back.
#[derive(Debug, Clone, PartialEq)]
pub struct Success {
    /// The result, before the filter.
    pub data: Value,
    /// One line made of public parts only: names, numbers, states.
    pub summary: String,
    /// What goes with it into the broker's own stores.
    pub aside: Option<Box<SideOutput>>,
}

/// What an action leaves to the broker beside its result.
#[derive(Debug, Clone, PartialEq)]
pub struct SideOutput {
    /// What the evidence says beside the usual; public parts only.
    pub noted: Value,
    /// A change to be decided on by a person.
    pub proposed: Option<Proposed>,
    /// How far it has come with linking an account. Without, the result has a member `audit` that takes the receipt.
    pub progress: Option<Progress>,
}

/// How far an action has come with linking an account.
#[derive(Debug, Clone, PartialEq)]
pub enum Progress {
    /// A flow was begun.
    Begun(FlowId, Flow),
    /// The provider wants to be asked less often how far it is.
    Slower(FlowId, Duration),
    /// The provider has given an account, about which a person decides.
    Found(Box<Found>),
}

/// An account that a provider has given.
#[derive(Debug, Clone, PartialEq)]
pub struct Found {
    /// The flow that brought it.
    pub flow: FlowId,
    /// What the provider calls it.
    pub account: AccountRef,
    /// What the provider says of it, for the person who decides.
    pub shown: Value,
    /// What it is worked with, if that is left to the broker.
    pub credential: Option<Ciphertext>,
    /// Until when that can be used without being renewed; `None` where it does not end.
    pub fresh_until: Option<Timestamp>,
}

impl Success {
    /// A result and its line, and nothing beside.
    pub fn new(data: Value, summary: String) -> Self {
        Self { data, summary, aside: None }
    }
}

/// Why an action brought nothing back. The messages are for an agent and go through the filter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Failure {
    /// The remote said no: nothing was changed.
    Refused {
        /// What it said.
        message: String,
    },
    /// The remote could not be reached, or does not work: nothing was changed.
    Unavailable {
        /// What is known.
        message: String,
    },
    /// The remote limits its callers: nothing was changed.
    RateLimited {
        /// When to try again, if it said so.
        retry_after: Option<Duration>,
        /// What it said.
        message: String,
    },
    /// The remote said no, in words of this protocol: nothing was changed.
    Said {
        /// What it said: one of the `capability_` codes.
        code: Code,
        /// And why.
        message: String,
    },
    /// A precondition no longer held when the effect was attempted: nothing was changed.
    Guard(Refusal),
    /// Too slow, and nothing was changed: a read, or a write that had not left.
    Timeout,
    /// The answer to a read is not usable.
    InvalidOutput {
        /// What is wrong with it.
        message: String,
    },
    /// A write left and its answer was lost or is not usable: it may have happened.
    Unknown {
        /// What is known.
        message: String,
    },
}

impl Failure {
    /// Whether the provider did not do its part, whatever was asked of it.
    pub fn is_fault(&self) -> bool {
        match self {
            Self::Unavailable { .. } | Self::Timeout | Self::InvalidOutput { .. } | Self::Unknown { .. } => true,
            Self::Said { code, .. } => *code == Code::CapabilityBackendUnavailable,
            Self::Refused { .. } | Self::RateLimited { .. } | Self::Guard(_) => false,
        }
    }
}

/// What a probe found.
#[derive(Debug, Clone, PartialEq)]
pub enum Probed {
    /// The effect happened: an object with the planted nonce is there.
    Happened(Success),
    /// No such object is there. Information for a person; it never licenses a repeat.
    Absent {
        /// What was looked at.
        message: String,
    },
    /// Nothing could be planted; this is the state now, and a person must judge.
    State {
        /// What was found.
        message: String,
    },
}
