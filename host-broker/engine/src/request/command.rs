//! The commands: everything that a surface can ask of the ledger itself.
//!
//! The surfaces are the documents and tools of agents, the command line, the control socket, the inbox, the HTTP routes
//! and the chats. Each has its own list of entries, and its entries make these commands, so the same rules apply on
//! every surface. A test compares the lists with this one: `tests/tests/all/commands.rs`.

use crate::approval_requests::ApprovalAnswer;
use crate::chat::RelayedAnswer;
use crate::outcomes::by_person::Finding;
use crate::rights::Right;
use model::{GivenSecret, KillScope, ProposalId, Share, TokenId};
use serde::{Deserialize, Serialize};
use shared::digest::Digest;
use shared::flow::Vault;
use shared::flow::request::FlowRequest;
use shared::request::{
    AccessRequest, BeginRequest, CallsRequest, CancelRequest, CapabilitiesRequest, GateRequest, GrantRequest,
    ListRequest, PlanRequest, ResultRequest, RevokeRequest, TaskRequest, TasksRequest,
};
use shared::{Group, Provider, TaskId};
use std::collections::{BTreeMap, BTreeSet};
use store::state::operators::TokenRequest;
use store::state::sessions::SessionName;

/// A command, which the ledger itself fulfils without a provider. On the control socket it is one line of JSON:
///
/// ```json
/// {"type": "task_close", "task_id": "gov-1", "cancelled": false}
/// ```
///
/// Commands without a type on the socket come from agents only.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Command {
    /// List what the caller may do: `ext_capabilities`.
    #[serde(skip)]
    Capabilities(CapabilitiesRequest),
    /// Return the kept result of a call: `ext_result`.
    #[serde(skip)]
    Result(ResultRequest),
    /// Cancel a call: `ext_cancel`.
    #[serde(skip)]
    Cancel(CancelRequest),
    /// Read the flow of an external agent's grant.
    #[serde(skip)]
    ReadFlow(shared::flow::Id),
    /// Give access: `ext_grant`.
    Grant(GrantRequest),
    /// The same, if it gives nothing that the group's present grant does not give. Only a person narrows.
    Narrow(GrantRequest),
    /// End access: `ext_revoke`.
    Revoke(RevokeRequest),
    /// Request access for a while: `ext_request`.
    #[serde(skip)]
    RequestAccess(AccessRequest),
    /// Ask a person once for several calls: `ext_plan`.
    #[serde(skip)]
    Plan(PlanRequest),
    /// Begin a conversation: `ext_begin`.
    #[serde(skip)]
    Begin(BeginRequest),
    /// List access: `ext_list`.
    List(ListRequest),
    /// List the calls of all groups: `gov_list_ext_calls`.
    #[serde(skip)]
    ListCalls(CallsRequest),
    /// List tasks: `gov_list_tasks`.
    #[serde(skip)]
    ListTasks(TasksRequest),
    /// Create a task: `task_create`.
    TaskCreate(TaskRequest),
    /// End a task.
    TaskClose {
        /// The task.
        task_id: TaskId,
        /// Whether it was cancelled rather than done.
        cancelled: bool,
    },
    /// Open a gate: `gate_approve`.
    GateApprove(GateRequest),
    /// Read or change flows: `flow_list` and its kin.
    Flow(FlowCommand),
    /// Answer an approval request.
    Answer(ApprovalAnswer),
    /// Answer an approval request for a person who answered in a chat.
    #[serde(rename = "chat_answer")]
    RelayedAnswer(RelayedAnswer),
    /// End a standing approval.
    EndStandingApproval {
        /// Its name: `standing-3`.
        name: String,
    },
    /// Undo an applied proposal.
    Revert {
        /// The proposal.
        id: ProposalId,
    },
    /// Release a withheld result.
    Release {
        /// The result: `q-123`.
        id: String,
    },
    /// Record the outcome of a call whose outcome is unknown.
    Settle(Finding),
    /// Accept the definitions of a provider's program.
    AcceptDefinitions {
        /// The provider, as the configuration names it.
        provider: Provider,
        /// The digest of the definitions.
        digest: Digest,
        /// The names of the flagged items that the person accepts.
        #[serde(default)]
        flagged: BTreeSet<String>,
    },
    /// Link a person's account at a capability.
    LinkAccount {
        /// The owner, in the ledger's form.
        person: String,
        /// The capability.
        capability: Provider,
        /// The provider's name of the account.
        account_ref: String,
        /// The label for people.
        #[serde(default)]
        label: Option<String>,
        /// The password of the account, if the capability signs in with one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        password: Option<GivenSecret>,
    },
    /// Unlink accounts of a person.
    UnlinkAccounts {
        /// The owner.
        person: String,
        /// The capability; absent means all of them.
        #[serde(default)]
        capability: Option<Provider>,
        /// The account; absent means all of them.
        #[serde(default)]
        account_ref: Option<String>,
    },
    /// Let another person use an account, or end that.
    ShareAccount {
        /// The share.
        #[serde(flatten)]
        share: Share,
        /// Whether it begins; otherwise it ends.
        on: bool,
        /// Whether the broker may know nothing of the other person yet.
        #[serde(default)]
        new: bool,
    },
    /// End the account linking that a group has begun.
    PurgeGroup {
        /// The group, which need not be configured any more.
        group: Group,
    },
    /// Make a token for a remote operator.
    MintOperator(TokenRequest),
    /// Revoke such a token.
    RevokeOperator {
        /// The token.
        token_id: TokenId,
    },
    /// List such tokens.
    ListOperators,
    /// Stop calls, or allow them again.
    Kill {
        /// The scope.
        scope: KillScope,
        /// Whether calls are stopped; otherwise they are allowed again.
        on: bool,
    },
    /// End a session.
    ResetSession {
        /// The owner of the session.
        group: SessionName,
    },
    /// Publish a policy for the hosts of the fleet.
    PublishPolicy {
        /// The texts of its files, by their names in `policy/`.
        files: BTreeMap<String, String>,
    },
    /// Encrypt every record of the vault under the present master key.
    RenewVault {
        /// Whether records that cannot be opened are forgotten.
        forget: bool,
    },
    /// Accept the machine's clock although the ledger's last row is later.
    AcceptClock,
}

/// A command about flows, with its vault.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FlowCommand {
    /// The vault. It is never taken from an agent's request.
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

/// The callers of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Audience {
    /// Every agent, and people.
    Everyone,
    /// The main group's agent, and people. Remote operators too, for flows.
    Administrators,
}

/// The effect of a command on the ledger.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// It reads stored data. A repeated request is answered again, and no reply is kept.
    Reads,
    /// It ends an object, or reads once. A caller may do so although it has caused too much evidence.
    Ends,
    /// It adds rows. A caller that has caused too much evidence is refused.
    Adds,
}

/// The rules that apply to a command before it is executed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rules<'a> {
    /// The callers.
    pub audience: Audience,
    /// The right that it takes from a person.
    pub right: Right<'a>,
    /// The effect on the ledger.
    pub effect: Effect,
}

impl Command {
    /// Returns the rules of the command: one line for each.
    #[expect(clippy::match_same_arms, reason = "one group for each kind of caller")]
    pub fn rules(&self) -> Rules<'_> {
        use Audience::{Administrators, Everyone};
        use Effect::{Adds, Ends, Reads};
        use Right::{Administer, Member, OwnCheck};
        let (audience, right, effect) = match self {
            // Agents.
            Self::Capabilities(_) | Self::Result(_) => (Everyone, OwnCheck, Reads),
            Self::Cancel(_) | Self::ReadFlow(_) => (Everyone, OwnCheck, Ends),
            Self::GateApprove(_) | Self::RequestAccess(_) | Self::Plan(_) | Self::Begin(_) => {
                (Everyone, OwnCheck, Adds)
            }
            // The main group's agent, and people.
            Self::Grant(request) => (Administrators, Right::Grant(request), Adds),
            Self::Revoke(_) => (Administrators, Administer, Ends),
            Self::List(_) | Self::ListCalls(_) | Self::ListTasks(_) => (Administrators, Member, Reads),
            Self::TaskCreate(_) => (Administrators, Administer, Adds),
            Self::Flow(command) => {
                let right = if command.request.changes() { Administer } else { Member };
                // Replies to reads of flows are kept.
                let ends =
                    matches!(command.request, FlowRequest::FlowDeprecate(_) | FlowRequest::FlowExternalGrantRevoke(_));
                (Administrators, right, if ends { Ends } else { Adds })
            }
            // People. No document of an agent has such a type, and people are not bounded.
            Self::Narrow(request) => (Administrators, Right::Grant(request), Adds),
            Self::Answer(_)
            | Self::RelayedAnswer(_)
            | Self::EndStandingApproval { .. }
            | Self::Revert { .. }
            | Self::Release { .. } => (Administrators, OwnCheck, Adds),
            Self::TaskClose { .. }
            | Self::Settle(_)
            | Self::AcceptDefinitions { .. }
            | Self::LinkAccount { .. }
            | Self::UnlinkAccounts { .. }
            | Self::ShareAccount { .. }
            | Self::PurgeGroup { .. }
            | Self::MintOperator(_)
            | Self::RevokeOperator { .. }
            | Self::ListOperators
            | Self::Kill { .. }
            | Self::ResetSession { .. }
            | Self::PublishPolicy { .. }
            | Self::RenewVault { .. }
            | Self::AcceptClock => (Administrators, Administer, Adds),
        };
        Rules { audience, right, effect }
    }

    /// Returns whether the command only reads stored data. The broker answers such a request again if it is repeated.
    pub fn only_reads(&self) -> bool {
        self.rules().effect == Effect::Reads
    }

    /// Returns whether a person on another host of the fleet may send the command. Such commands hold no secret, since
    /// the database carries them.
    pub fn may_be_sent(&self) -> bool {
        match self {
            Self::Grant(_)
            | Self::Revoke(_)
            | Self::TaskCreate(_)
            | Self::TaskClose { .. }
            | Self::GateApprove(_)
            | Self::Answer(_)
            | Self::Kill { .. } => true,
            Self::Capabilities(_)
            | Self::Result(_)
            | Self::Cancel(_)
            | Self::ReadFlow(_)
            | Self::Narrow(_)
            | Self::RequestAccess(_)
            | Self::Plan(_)
            | Self::Begin(_)
            | Self::List(_)
            | Self::ListCalls(_)
            | Self::ListTasks(_)
            | Self::Flow(_)
            | Self::RelayedAnswer(_)
            | Self::EndStandingApproval { .. }
            | Self::Revert { .. }
            | Self::Release { .. }
            | Self::Settle(_)
            | Self::AcceptDefinitions { .. }
            | Self::LinkAccount { .. }
            | Self::UnlinkAccounts { .. }
            | Self::ShareAccount { .. }
            | Self::PurgeGroup { .. }
            | Self::MintOperator(_)
            | Self::RevokeOperator { .. }
            | Self::ListOperators
            | Self::ResetSession { .. }
            | Self::PublishPolicy { .. }
            | Self::RenewVault { .. }
            | Self::AcceptClock => false,
        }
    }

    /// Checks the text of a command that a person wrote by hand. No row is written about a text that is no command.
    ///
    /// # Errors
    /// The text to write instead.
    pub fn check(&self) -> Result<(), String> {
        if let Self::RelayedAnswer(relayed) = self { relayed.answer().map(drop) } else { Ok(()) }
    }
}
