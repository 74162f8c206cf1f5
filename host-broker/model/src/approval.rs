//! A person's answer to exactly one request: what is asked, who answered, and the state of the approval.

use crate::Person;
use crate::card::Card;
use shared::digest::Digest;
use shared::{Action, Group, Level, Provider, RequestId, Timestamp};
use std::collections::BTreeSet;

/// Why a person is asked. A yes is to what stood on the card, and to nothing else.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ApprovalReason {
    /// Private data, content that others wrote and a way out would come together.
    Trifecta,
    /// What would leave looks suspicious.
    Departing,
    /// The tier of the action.
    Tier,
}

/// What a person is asked about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// A call, which runs after a yes.
    Call,
    /// A grant above what the main group may give by itself.
    Grant,
    /// Changes to files, which may be applied after a yes.
    File,
    /// An account of a person's, which is linked with the yes.
    Account,
    /// What a server says of its tools, which is what counts after the yes.
    Definition,
    /// A version of a flow, which is the canonical one after the yes.
    Flow,
}

impl Kind {
    /// Every kind.
    pub const ALL: [Self; 6] = [Self::Call, Self::Grant, Self::File, Self::Account, Self::Definition, Self::Flow];

    /// What a person is asked about, in a sentence.
    pub fn noun(self) -> &'static str {
        match self {
            Self::Call => "call",
            Self::Grant => "grant",
            Self::File => "proposal",
            Self::Account => "account",
            Self::Definition => "change of what a server says",
            Self::Flow => "version of a flow",
        }
    }

    /// The word in the table.
    pub fn word(self) -> &'static str {
        match self {
            Self::Call => "call",
            Self::Grant => "grant",
            Self::File => "file",
            Self::Account => "account",
            Self::Definition => "definition",
            Self::Flow => "flow",
        }
    }
}

/// Where an approval stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// Nobody has decided.
    Waiting,
    /// Enough people said yes.
    Approved,
    /// A person said no.
    Denied,
    /// Nobody said anything in time.
    Expired,
    /// The caller does not want it any more.
    Cancelled,
    /// It is over.
    Closed,
}

impl State {
    /// Every state.
    pub const ALL: [Self; 6] =
        [Self::Waiting, Self::Approved, Self::Denied, Self::Expired, Self::Cancelled, Self::Closed];

    /// The word in the table.
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
#[derive(Clone, PartialEq)]
pub struct Approval {
    /// Its number.
    pub id: i64,
    /// What approvers answer with. An agent never learns it.
    pub code: String,
    /// What it is about.
    pub kind: Kind,
    /// Who asks, as the ledger writes callers.
    pub caller: String,
    /// Whose calls, access or files it is about.
    pub group: Option<Group>,
    /// The request; of a proposal a name that nobody else knows.
    pub request_id: RequestId,
    /// The reply's name, where the document had no id of its own.
    pub reply_as: Option<RequestId>,
    /// The provider.
    pub provider: Provider,
    /// The action; of a grant `grant`.
    pub action: Action,
    /// The level that the call demands, or the grant gives.
    pub level: Level,
    /// Of everything that was agreed to.
    pub digest: Digest,
    /// How many different people it takes.
    pub quorum: usize,
    /// Where it stands.
    pub state: State,
    /// How it ended, once it is closed.
    pub became: Option<String>,
    /// The row that says that a person was asked.
    pub asked_seq: i64,
    /// When.
    pub asked_at: Timestamp,
    /// When silence becomes a no.
    pub expires_at: Timestamp,
    /// When the caller stops waiting.
    pub reply_by: Timestamp,
    /// Whether the caller has had its one reply.
    pub told: bool,
    /// Why a person is asked.
    pub asks: BTreeSet<ApprovalReason>,
    /// What is shown, until it is closed.
    pub card: Option<Card>,
}

impl Approval {
    /// The agent's name for it.
    pub fn reference(&self) -> String {
        reference(self.asked_seq)
    }
}

impl std::fmt::Debug for Approval {
    /// Without the code, which is a secret.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Approval({}, {})", self.reference(), self.state.word())
    }
}

/// The agent's name for the question that this row asks.
pub fn reference(asked_seq: i64) -> String {
    format!("ask-{asked_seq}")
}

/// What one person answered.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Answered {
    /// Who, as the ledger writes callers.
    pub by: String,
    /// Through which channel: `cli`, `web`.
    pub channel: String,
    /// Yes, or no.
    pub yes: bool,
    /// Why, in the person's words.
    pub reason: Option<String>,
    /// When.
    pub at: Timestamp,
}

/// A question to be asked.
pub struct Question<'a> {
    /// What approvers will answer with.
    pub code: &'a str,
    /// What it is about.
    pub kind: Kind,
    /// Where it stands from the first.
    pub state: State,
    /// Who asks, as the ledger writes callers.
    pub caller: &'a str,
    /// Whose calls, access or files it is about, if it is about a group's.
    pub group: Option<&'a Group>,
    /// The request.
    pub request_id: &'a RequestId,
    /// The reply's name, where the document had no id of its own.
    pub reply_as: Option<&'a RequestId>,
    /// The provider.
    pub provider: &'a Provider,
    /// The action.
    pub action: &'a Action,
    /// The level that it demands, or gives.
    pub level: Level,
    /// What is admitted again after the answer.
    pub document: Option<&'a [u8]>,
    /// On whose behalf.
    pub person: Option<&'a Person>,
    /// Of everything that is agreed to.
    pub digest: Digest,
    /// How many must say yes.
    pub quorum: usize,
    /// The row that says that a person is asked.
    pub asked_seq: i64,
    /// When silence becomes a no.
    pub expires_at: Timestamp,
    /// When the caller stops waiting.
    pub reply_by: Timestamp,
    /// Why a person is asked.
    pub asks: &'a BTreeSet<ApprovalReason>,
    /// What is shown.
    pub card: &'a Card,
}
