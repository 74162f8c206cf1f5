//! Approvals: the request, the answers and the state.

use crate::Person;
use crate::card::Card;
use crate::standing_approval::StandingOffer;
use shared::digest::Digest;
use shared::{Action, Group, Level, Provider, RequestId, Timestamp};
use std::collections::BTreeSet;

/// The reason for asking a person. An approval covers exactly the reasons on the card.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ApprovalReason {
    /// Private data, untrusted content and an egress channel would come together.
    Trifecta,
    /// The outgoing data looks suspicious.
    Departing,
    /// The tier of the action.
    Tier,
}

/// The subject of an approval request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SubjectKind {
    /// A call, which runs after an approval.
    Call,
    /// A grant above what the main group may give by itself.
    Grant,
    /// Changes to files, which may be applied after an approval.
    File,
    /// An account of a person, which the approval links.
    Account,
    /// A server's definitions of its tools, which are in force after the approval.
    Definition,
    /// A version of a flow, which is canonical after the approval.
    Flow,
    /// Access for a while, at the request of the group that gets it.
    Access,
    /// Several calls, which run in order after an approval.
    Plan,
}

impl SubjectKind {
    /// Every kind.
    pub const ALL: [Self; 8] =
        [Self::Call, Self::Grant, Self::File, Self::Account, Self::Definition, Self::Flow, Self::Access, Self::Plan];

    /// Returns the subject, for use in a sentence.
    pub fn noun(self) -> &'static str {
        match self {
            Self::Call => "call",
            Self::Grant => "grant",
            Self::File => "proposal",
            Self::Account => "account",
            Self::Definition => "change of definitions",
            Self::Flow => "version of a flow",
            Self::Access => "request for access",
            Self::Plan => "plan",
        }
    }

    /// Returns the word in the table.
    pub fn word(self) -> &'static str {
        match self {
            Self::Call => "call",
            Self::Grant => "grant",
            Self::File => "file",
            Self::Account => "account",
            Self::Definition => "definition",
            Self::Flow => "flow",
            Self::Access => "access",
            Self::Plan => "plan",
        }
    }
}

/// The state of an approval.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ApprovalState {
    /// No approver has decided.
    Waiting,
    /// Enough approvers approved.
    Approved,
    /// An approver denied.
    Denied,
    /// No approver answered in time.
    Expired,
    /// The caller has withdrawn the request.
    Cancelled,
    /// It is over.
    Closed,
}

impl ApprovalState {
    /// Every state.
    pub const ALL: [Self; 6] =
        [Self::Waiting, Self::Approved, Self::Denied, Self::Expired, Self::Cancelled, Self::Closed];

    /// Returns the word in the table.
    pub fn word(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Approved => "approved",
            Self::Denied => "denied",
            Self::Expired => "expired",
            Self::Cancelled => "cancelled",
            Self::Closed => "closed",
        }
    }
}

/// A stored approval.
#[derive(Clone, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Approval {
    /// The number.
    pub id: i64,
    /// The code that approvers answer with. An agent never learns it.
    pub code: String,
    /// The subject.
    pub kind: SubjectKind,
    /// The caller, in the ledger's form.
    pub caller: String,
    /// The group whose calls, grant or files are the subject.
    pub group: Option<Group>,
    /// The request; of a proposal, a name that is known to the broker only.
    pub request_id: RequestId,
    /// The reply's name, if the document had no id of its own.
    pub reply_as: Option<RequestId>,
    /// The provider.
    pub provider: Provider,
    /// The action; for a grant `grant`.
    pub action: Action,
    /// The level that the call demands, or that the grant gives.
    pub level: Level,
    /// The digest of everything that was approved.
    pub digest: Digest,
    /// The number of different approvers that it takes.
    pub quorum: usize,
    /// The state.
    pub state: ApprovalState,
    /// The way it ended, once it is closed.
    pub became: Option<String>,
    /// The ledger row of the approval request.
    pub asked_seq: i64,
    /// The time of the approval request.
    pub asked_at: Timestamp,
    /// The time after which a missing answer is a denial.
    pub expires_at: Timestamp,
    /// The time at which the caller stops waiting.
    pub reply_by: Timestamp,
    /// Whether the caller has had its one reply.
    pub told: bool,
    /// The reasons for asking a person.
    pub asks: BTreeSet<ApprovalReason>,
    /// The providers of its other calls: of the nested call, or of a plan. An approver needs the right for each.
    pub others: BTreeSet<Provider>,
    /// The card, until the approval is closed.
    pub card: Option<Card>,
}

impl Approval {
    /// Returns the agent's name for it.
    pub fn reference(&self) -> String {
        reference(self.asked_seq)
    }
}

impl std::fmt::Debug for Approval {
    /// Omits the code, which is a secret.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Approval({}, {})", self.reference(), self.state.word())
    }
}

/// Returns the agent's name for the approval request of this row.
pub fn reference(asked_seq: i64) -> String {
    format!("ask-{asked_seq}")
}

/// The answer of one approver.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Answered {
    /// The approver, in the ledger's form.
    pub by: String,
    /// The channel: `cli`, `web`.
    pub channel: String,
    /// Whether the answer is an approval.
    pub yes: bool,
    /// The reason, in the approver's words.
    pub reason: Option<String>,
    /// The time of the answer.
    pub at: Timestamp,
}

/// An approval request to be stored.
pub struct NewApproval<'a> {
    /// The code that approvers answer with.
    pub code: &'a str,
    /// The subject.
    pub kind: SubjectKind,
    /// The initial state.
    pub state: ApprovalState,
    /// The caller, in the ledger's form.
    pub caller: &'a str,
    /// The group whose calls, grant or files are the subject, if there is one.
    pub group: Option<&'a Group>,
    /// The request.
    pub request_id: &'a RequestId,
    /// The reply's name, if the document had no id of its own.
    pub reply_as: Option<&'a RequestId>,
    /// The provider.
    pub provider: &'a Provider,
    /// The action.
    pub action: &'a Action,
    /// The level that the call demands, or that the grant gives.
    pub level: Level,
    /// The document that is admitted again after the answer.
    pub document: Option<&'a [u8]>,
    /// The person on whose behalf the request is made.
    pub person: Option<&'a Person>,
    /// The digest of everything to be approved.
    pub digest: Digest,
    /// The number of different approvers that it takes.
    pub quorum: usize,
    /// The ledger row of the approval request.
    pub asked_seq: i64,
    /// The time after which a missing answer is a denial.
    pub expires_at: Timestamp,
    /// The time at which the caller stops waiting.
    pub reply_by: Timestamp,
    /// The reasons for asking a person.
    pub asks: &'a BTreeSet<ApprovalReason>,
    /// The providers of its other calls.
    pub others: &'a BTreeSet<Provider>,
    /// The standing approval that a person can give with the answer.
    pub standing: Option<&'a StandingOffer>,
    /// The card.
    pub card: &'a Card,
}
