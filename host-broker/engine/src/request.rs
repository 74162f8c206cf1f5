//! A request, parsed and typed: who asks, where the reply goes, what is asked.
//!
//! [`parse`] makes one of a document. Nothing here decides.

mod parsing;

pub use parsing::{
    DocumentMemory, InboundRequest, Invoked, ParseContext, hypothetical, hypothetical_of_tool, inspect, invoked, made,
    parse, readmit, readmit_grant,
};

use crate::approval_requests::ApprovalAnswer;
use crate::chat::RelayedAnswer;
use crate::outcomes::by_person::Finding;
use kernel::call::{Call, Header, Origin};
use model::{Caller, KillScope, ProposalId, Share, TokenId};
use shared::digest::Digest;
use shared::flow::Vault;
use shared::flow::request::FlowRequest;
use shared::request::{
    CancelRequest, CapabilitiesRequest, GateRequest, GrantRequest, ListRequest, ResultRequest, RevokeRequest,
    TaskRequest,
};
use shared::{Code, Group, Provider, RequestId, TaskId};
use std::collections::BTreeSet;
use std::sync::Arc;
use store::state::operators::Wanted;
use store::state::sessions::SessionName;

/// A request that the ledger itself fulfils, without a provider.
#[derive(Debug)]
pub struct CommandRequest {
    /// Who, and where the reply goes.
    pub header: Header,
    /// What is asked.
    pub command: Command,
    /// Whether a person was asked about it, so that this is its second time here.
    pub asked: bool,
}

/// What is asked about flows, and in which vault.
#[derive(Debug, Clone, PartialEq)]
pub struct FlowCommand {
    /// Where flows are kept apart. It is never taken from the request.
    pub vault: Vault,
    /// What is asked.
    pub request: FlowRequest,
}

impl FlowCommand {
    /// What a group asks, which knows of one vault.
    pub fn of_group(request: FlowRequest) -> Self {
        #[expect(clippy::expect_used, clippy::missing_panics_doc, reason = "letters satisfy the grammar")]
        let vault = "default".parse().expect("a vault");
        Self { vault, request }
    }
}

/// What a directive asks.
#[derive(Debug, Clone, PartialEq)]
pub enum Command {
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
    /// `flow_list` and its kin
    Flow(FlowCommand),
    /// An external agent reads the flow to which it has access.
    ReadFlow(shared::flow::Id),
    /// A person makes a token for an operator elsewhere.
    MintOperator(Wanted),
    /// A person ends one.
    RevokeOperator(TokenId),
    /// A person looks at them.
    ListOperators,
    /// A person closes a task.
    TaskClose {
        /// The task.
        task_id: TaskId,
        /// Whether it was cancelled rather than done.
        cancelled: bool,
    },
    /// A person answers a question.
    Answer(ApprovalAnswer),
    /// A person undoes an applied proposal.
    Revert(ProposalId),
    /// Answer a question for somebody who did so in a chat.
    RelayedAnswer(RelayedAnswer),
    /// A person accepts what a provider's program says it can do.
    AcceptDefinitions {
        /// The provider, as the configuration names it.
        provider: Provider,
        /// What tells what it says from everything else.
        digest: Digest,
        /// The names of the flagged items that the person accepts.
        flagged: BTreeSet<String>,
    },
    /// A person links an account of somebody's at a capability.
    LinkAccount {
        /// Whose, as the ledger writes persons.
        person: String,
        /// At which capability.
        capability: Provider,
        /// What the provider calls it.
        account_ref: String,
        /// What people call it.
        label: Option<String>,
    },
    /// A person unlinks accounts of somebody's.
    UnlinkAccounts {
        /// Whose.
        person: String,
        /// At which capability; nothing means at all of them.
        capability: Option<Provider>,
        /// Which; nothing means all of them.
        account_ref: Option<String>,
    },
    /// A person ends what a group has begun with persons' accounts.
    PurgeGroup(Group),
    /// A person lets another one work with an account of somebody's, or ends that.
    ShareAccount(Share, bool),
    /// A person has every record of the vault encrypted under the present master key.
    RenewVault {
        /// Whether what cannot be opened is forgotten.
        forget: bool,
    },
    /// A person takes the machine's clock for right although the ledger's last row is later.
    AcceptClock,
    /// A person records what became of a call whose outcome nobody knew.
    Settle(Finding),
    /// A person ends a session.
    ResetSession(SessionName),
    /// A person releases a result that was kept back.
    Release(String),
    /// A person sets or lifts a kill switch.
    Kill {
        /// What it stops.
        scope: KillScope,
        /// Set, or lift.
        on: bool,
    },
}

impl Command {
    /// Returns whether the order only reads stored data. The broker answers such a request again if it is repeated.
    pub fn only_reads(&self) -> bool {
        matches!(self, Self::Capabilities(_) | Self::List(_) | Self::Result(_))
    }
}

/// A document that is no request, or must not be believed.
#[derive(Debug)]
pub struct InvalidDocument {
    /// Who sent it.
    pub caller: Caller,
    /// The same, as the ledger writes it.
    pub caller_key: Arc<str>,
    /// Under which id it can be answered.
    pub request_id: Option<RequestId>,
    /// Where the reply goes.
    pub origin: Origin,
    /// `malformed_request`, `oversized_request`, `own_secret`, `bad_signature`, `stale_request` or `unknown_type`.
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
    CommandRequest(Box<CommandRequest>),
    /// Not a request.
    InvalidDocument(Box<InvalidDocument>),
}

impl Parsed {
    /// Where the reply goes.
    pub fn origin_mut(&mut self) -> &mut Origin {
        match self {
            Self::Call(call) => &mut call.header.origin,
            Self::CommandRequest(command_request) => &mut command_request.header.origin,
            Self::InvalidDocument(invalid) => &mut invalid.origin,
        }
    }
}
