//! Requests, parsed and typed: the caller, the destination of the reply, the requested operation.
//!
//! [`parse`] makes a request of a document. No decision is made here.

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
    /// The caller and the destination of the reply.
    pub header: Header,
    /// The command.
    pub command: Command,
    /// Whether a person was asked about it, so that it is admitted for the second time.
    pub asked: bool,
}

/// A command about flows, with its vault.
#[derive(Debug, Clone, PartialEq)]
pub struct FlowCommand {
    /// The vault. It is never taken from the request.
    pub vault: Vault,
    /// The request.
    pub request: FlowRequest,
}

impl FlowCommand {
    /// Makes the command of a group, which has one vault.
    pub fn of_group(request: FlowRequest) -> Self {
        #[expect(clippy::expect_used, clippy::missing_panics_doc, reason = "letters satisfy the grammar")]
        let vault = "default".parse().expect("a vault");
        Self { vault, request }
    }
}

/// A command.
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
    /// An external agent reads the flow of its grant.
    ReadFlow(shared::flow::Id),
    /// A person makes a token for a remote operator.
    MintOperator(Wanted),
    /// A person revokes such a token.
    RevokeOperator(TokenId),
    /// A person lists such tokens.
    ListOperators,
    /// A person closes a task.
    TaskClose {
        /// The task.
        task_id: TaskId,
        /// Whether it was cancelled rather than done.
        cancelled: bool,
    },
    /// A person answers an approval request.
    Answer(ApprovalAnswer),
    /// A person undoes an applied proposal.
    Revert(ProposalId),
    /// A relay delivers an answer that a person gave in a chat.
    RelayedAnswer(RelayedAnswer),
    /// A person accepts the definitions of a provider's program.
    AcceptDefinitions {
        /// The provider, as the configuration names it.
        provider: Provider,
        /// The digest of the definitions.
        digest: Digest,
        /// The names of the flagged items that the person accepts.
        flagged: BTreeSet<String>,
    },
    /// A person links another person's account at a capability.
    LinkAccount {
        /// The owner, in the ledger's form.
        person: String,
        /// The capability.
        capability: Provider,
        /// The provider's name of the account.
        account_ref: String,
        /// The label for people.
        label: Option<String>,
    },
    /// A person unlinks accounts of a person.
    UnlinkAccounts {
        /// The owner.
        person: String,
        /// The capability; absent means all of them.
        capability: Option<Provider>,
        /// The account; absent means all of them.
        account_ref: Option<String>,
    },
    /// A person ends the account linking that a group has begun.
    PurgeGroup(Group),
    /// A person shares an account with another person, or ends the share.
    ShareAccount(Share, bool),
    /// A person encrypts every record of the vault under the present master key.
    RenewVault {
        /// Whether records that cannot be opened are forgotten.
        forget: bool,
    },
    /// A person accepts the machine's clock although the ledger's last row is later.
    AcceptClock,
    /// A person records the outcome of a call whose outcome is unknown.
    Settle(Finding),
    /// A person ends a session.
    ResetSession(SessionName),
    /// A person releases a withheld result.
    Release(String),
    /// A person sets or lifts a kill switch.
    Kill {
        /// The scope.
        scope: KillScope,
        /// Whether it is set; otherwise it is lifted.
        on: bool,
    },
}

impl Command {
    /// Returns whether the command only reads stored data. The broker answers such a request again if it is repeated.
    pub fn only_reads(&self) -> bool {
        matches!(self, Self::Capabilities(_) | Self::List(_) | Self::Result(_))
    }
}

/// A document that is no request, or cannot be trusted.
#[derive(Debug)]
pub struct InvalidDocument {
    /// The sender.
    pub caller: Caller,
    /// The sender, in the ledger's form.
    pub caller_key: Arc<str>,
    /// The id under which it can be answered.
    pub request_id: Option<RequestId>,
    /// The destination of the reply.
    pub origin: Origin,
    /// `malformed_request`, `oversized_request`, `own_secret`, `bad_signature`, `stale_request` or `unknown_type`.
    pub code: Code,
    /// The defect, for the sender; quotes nothing.
    pub reason: String,
}

/// The result of parsing a document.
#[derive(Debug)]
pub enum Parsed {
    /// A call.
    Call(Box<Call>),
    /// A command that the ledger itself fulfils.
    CommandRequest(Box<CommandRequest>),
    /// A document that is no request.
    InvalidDocument(Box<InvalidDocument>),
}

impl Parsed {
    /// Returns the destination of the reply.
    pub fn origin_mut(&mut self) -> &mut Origin {
        match self {
            Self::Call(call) => &mut call.header.origin,
            Self::CommandRequest(command_request) => &mut command_request.header.origin,
            Self::InvalidDocument(invalid) => &mut invalid.origin,
        }
    }
}
