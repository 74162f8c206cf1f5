//! Rows and the chain of their hashes.
//!
//! `event_hash` is SHA-256 over a line that names the format, followed by every column in the order of
//! [`Row`]'s fields but the last. A column is written `<length in bytes>:<bytes>,`, an absent one `-,`;
//! integers in decimal, digests as their 32 bytes. `prev_hash` is the `event_hash` of the row before, and 32
//! zero bytes for the first. `seq` counts from 1 without gaps. A row of kind `succeeded`, `failed`, `timed_out` or
//! `unknown` names in its body's `of` the `seq` of an earlier row of kind `intended`, and no two name the same.
//! A row is never earlier than the row before it, unless its kind is `clock_accepted`. A row of kind `checkpointed` holds a
//! [checkpoint](crate::ledger::checkpoint) of all rows before it. [`verifier`](crate::ledger::verifier) checks these rules.
//! An export has one row a line, as a JSON object by column, digests as `sha256:<64 hex>`. That is all that a
//! verifier in another language needs.

use sha2::{Digest as _, Sha256};
use shared::digest::Digest;
use shared::{Action, Code, Level, Provider, RequestId, TaskId, Timestamp};

/// The kind of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RowKind {
    /// The daemon started.
    Started,
    /// The daemon stopped.
    Stopped,
    /// An effect is about to be attempted.
    Intended,
    /// The effect succeeded.
    Succeeded,
    /// The effect definitely failed.
    Failed,
    /// The effect was too slow, and nothing was changed.
    TimedOut,
    /// It is unknown whether the effect happened.
    Unknown,
    /// The later finding about an unknown outcome.
    Settled,
    /// A request was refused.
    Refused,
    /// Refusals of documents that never became a request, counted.
    Folded,
    /// A request was answered from stored data, without an effect.
    Answered,
    /// An earlier request was sent again.
    Repeated,
    /// An approval request was sent.
    Asked,
    /// An approver approved.
    Approved,
    /// An approver denied.
    Denied,
    /// No approver answered in time.
    Lapsed,
    /// A notice is about to be sent through a channel.
    Notifying,
    /// The notice was sent.
    Notified,
    /// The notice could not be sent, and is not tried again.
    NoticeFailed,
    /// A grant was made or changed.
    Granted,
    /// A grant was ended.
    Revoked,
    /// A task was created, closed or cancelled.
    Task,
    /// A gate was opened for a task.
    GateApproved,
    /// A kill switch was set.
    Killed,
    /// A kill switch was lifted.
    Revived,
    /// A withheld result was released.
    Released,
    /// A group's session was reset.
    SessionReset,
    /// A standing approval was ended.
    StandingEnded,
    /// A policy was published for the hosts of the fleet.
    Published,
    /// A version of a flow was proposed, deprecated or withdrawn.
    Flow,
    /// The oldest rows are in a segment.
    Rotated,
    /// A checkpoint of all rows before this one was signed.
    Checkpointed,
    /// A person accepted the machine's clock although the last row was later.
    ClockAccepted,
    /// The ledger was restored from a backup: it is a copy of an earlier state, and all access in it ended.
    Restored,
    /// An event about the directories or the configuration that an auditor should know.
    Noted,
}

impl RowKind {
    /// Returns the word in the table.
    pub fn word(self) -> &'static str {
        match self {
            Self::Started => "started",
            Self::Stopped => "stopped",
            Self::Intended => "intended",
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::TimedOut => "timed_out",
            Self::Unknown => "unknown",
            Self::Settled => "settled",
            Self::Refused => "refused",
            Self::Folded => "folded",
            Self::Answered => "answered",
            Self::Repeated => "repeated",
            Self::Asked => "asked",
            Self::Approved => "approved",
            Self::Denied => "denied",
            Self::Lapsed => "lapsed",
            Self::Notifying => "notifying",
            Self::Notified => "notified",
            Self::NoticeFailed => "notice_failed",
            Self::Granted => "granted",
            Self::Revoked => "revoked",
            Self::Task => "task",
            Self::GateApproved => "gate_approved",
            Self::Killed => "killed",
            Self::Revived => "revived",
            Self::Released => "released",
            Self::SessionReset => "session_reset",
            Self::StandingEnded => "standing_ended",
            Self::Published => "published",
            Self::Flow => "flow",
            Self::Rotated => "rotated",
            Self::Checkpointed => "checkpointed",
            Self::ClockAccepted => "clock_accepted",
            Self::Restored => "restored",
            Self::Noted => "noted",
        }
    }

    /// Returns whether the row closes an intent.
    pub fn is_outcome(word: &str) -> bool {
        [Self::Succeeded, Self::Failed, Self::TimedOut, Self::Unknown].iter().any(|kind| kind.word() == word)
    }
}

/// A row to be written; the transaction adds number, hashes and time.
#[derive(Debug, Clone)]
pub struct Draft<'a> {
    /// The kind.
    pub kind: RowKind,
    /// The caller, as [`model::Caller`] prints.
    pub caller: &'a str,
    /// The person on whose behalf the request is made.
    pub person: Option<String>,
    /// The request.
    pub request_id: Option<&'a RequestId>,
    /// The provider.
    pub provider: Option<&'a Provider>,
    /// The action.
    pub action: Option<&'a Action>,
    /// The level demanded.
    pub level: Option<Level>,
    /// The keyed digest of the parameters.
    pub params_digest: Option<Digest>,
    /// The summary of the request, in public parts only.
    pub summary: Option<String>,
    /// The code of the refusal or failure.
    pub reason_code: Option<Code>,
    /// The summary of the result, in public parts only.
    pub result_summary: Option<String>,
    /// The digest of the delivered result.
    pub result_digest: Option<Digest>,
    /// The task.
    pub task_id: Option<&'a TaskId>,
    /// The approval that the row rests on or is about, by the name that its caller knows.
    pub approval: Option<String>,
    /// The duration.
    pub duration_ms: Option<i64>,
    /// The other members of this kind; an object.
    pub body: serde_json::Value,
}

impl<'a> Draft<'a> {
    /// Makes a row with only a kind and a caller.
    pub fn new(kind: RowKind, caller: &'a str) -> Self {
        Self {
            kind,
            caller,
            person: None,
            request_id: None,
            provider: None,
            action: None,
            level: None,
            params_digest: None,
            summary: None,
            reason_code: None,
            result_summary: None,
            result_digest: None,
            task_id: None,
            approval: None,
            duration_ms: None,
            body: serde_json::Value::Object(serde_json::Map::new()),
        }
    }
}

/// A row as it is stored, exported and verified. The order of the fields is the order of the encoding.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
#[expect(missing_docs, reason = "the fields are the columns of schema.sql, described there and in the module head")]
pub struct Row {
    pub seq: i64,
    pub ts: i64,
    pub kind: String,
    pub caller: String,
    pub person: Option<String>,
    pub request_id: Option<String>,
    pub provider: Option<String>,
    pub action: Option<String>,
    pub level: Option<i64>,
    pub params_digest: Option<Digest>,
    pub summary: Option<String>,
    pub reason_code: Option<String>,
    pub result_summary: Option<String>,
    pub result_digest: Option<Digest>,
    pub task_id: Option<String>,
    pub approval: Option<String>,
    pub policy_version: String,
    pub duration_ms: Option<i64>,
    pub body: String,
    pub prev_hash: Digest,
    pub event_hash: Digest,
}

const FORMAT: &[u8] = b"ext-broker ledger row v1\n";

impl Row {
    /// Returns its approximate size in the database and its index, in bytes.
    pub fn cost(&self) -> usize {
        // Numbers, digests and hashes, and the overhead of the pages.
        const FIXED: usize = 320;
        let optional = |text: &Option<String>| text.as_ref().map_or(0, String::len);
        let named = self.caller.len() + optional(&self.request_id);
        let texts =
            [&self.person, &self.provider, &self.action, &self.summary, &self.reason_code, &self.result_summary];
        let texts: usize = texts.into_iter().map(optional).sum();
        let rest = self.kind.len() + self.policy_version.len() + self.body.len();
        FIXED + 2 * named + texts + optional(&self.task_id) + optional(&self.approval) + rest
    }

    /// Computes the hash that the row must have.
    pub fn hash(&self) -> Digest {
        let mut hasher = Columns(Sha256::new_with_prefix(FORMAT));
        hasher.integer(Some(self.seq));
        hasher.integer(Some(self.ts));
        hasher.text(Some(&self.kind));
        hasher.text(Some(&self.caller));
        hasher.text(self.person.as_deref());
        hasher.text(self.request_id.as_deref());
        hasher.text(self.provider.as_deref());
        hasher.text(self.action.as_deref());
        hasher.integer(self.level);
        hasher.digest(self.params_digest.as_ref());
        hasher.text(self.summary.as_deref());
        hasher.text(self.reason_code.as_deref());
        hasher.text(self.result_summary.as_deref());
        hasher.digest(self.result_digest.as_ref());
        hasher.text(self.task_id.as_deref());
        hasher.text(self.approval.as_deref());
        hasher.text(Some(&self.policy_version));
        hasher.integer(self.duration_ms);
        hasher.text(Some(&self.body));
        hasher.digest(Some(&self.prev_hash));
        Digest::from_bytes(hasher.0.finalize().into())
    }

    /// Returns the time of writing.
    pub fn time(&self) -> Timestamp {
        Timestamp::from_millis(self.ts)
    }
}

struct Columns(Sha256);

impl Columns {
    fn bytes(&mut self, bytes: Option<&[u8]>) {
        match bytes {
            Some(bytes) => {
                self.0.update(bytes.len().to_string());
                self.0.update(b":");
                self.0.update(bytes);
                self.0.update(b",");
            }
            None => self.0.update(b"-,"),
        }
    }

    fn text(&mut self, text: Option<&str>) {
        self.bytes(text.map(str::as_bytes));
    }

    fn integer(&mut self, number: Option<i64>) {
        match number {
            Some(number) => self.bytes(Some(number.to_string().as_bytes())),
            None => self.bytes(None),
        }
    }

    fn digest(&mut self, digest: Option<&Digest>) {
        self.bytes(digest.map(|digest| digest.as_bytes().as_slice()));
    }
}

/// The end of a chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Head {
    /// The last row's number; 0 if there is none.
    pub seq: i64,
    /// The last row's hash; zero if there is none.
    pub hash: Digest,
    /// The last row's time.
    pub ts: i64,
}

impl Head {
    /// The end of a chain without rows.
    pub const EMPTY: Self = Self { seq: 0, hash: Digest::ZERO, ts: i64::MIN };
}
