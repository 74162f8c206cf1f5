//! Replies: the documents that the host writes into `responses/<request_id>.json`.

pub mod text;

use crate::code::Code;
use crate::digest::Digest;
use crate::names::RequestId;
use crate::time::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::fmt;

/// The status of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// Done; `data` has the result.
    Executed,
    /// Refused before anything was executed.
    Denied,
    /// Attempted, or impossible; `code` says whether anything may have happened.
    Failed,
    /// Not answered in time; nothing was changed.
    Timeout,
    /// A person is being asked.
    Pending,
}

impl Status {
    /// The word on the wire.
    pub fn word(self) -> &'static str {
        match self {
            Self::Executed => "executed",
            Self::Denied => "denied",
            Self::Failed => "failed",
            Self::Timeout => "timeout",
            Self::Pending => "pending",
        }
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// One reply document.
///
/// The first six fields are the whole protocol of hosts that know nothing of ours, so all others are optional
/// and unknown fields are passed over when reading.
///
/// ```
/// let reply: shared::Reply = serde_json::from_str(
///     r#"{"request_id":"ext-1-a","status":"executed","data":[1],"summary":"One.","timestamp":"2026-02-14T10:00:01.000Z"}"#,
/// ).unwrap();
/// assert_eq!(reply.status, shared::Status::Executed);
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Reply {
    /// The request that this answers.
    pub request_id: RequestId,
    /// The status of the request.
    pub status: Status,
    /// The result, if `executed`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<Value>,
    /// One sanitized line about the result, if `executed`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<String>,
    /// For every other status, one sentence with the reason and the next step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// When the host wrote this. Other hosts may write anything here; it is for people only.
    pub timestamp: String,
    /// The stable reason, for every status but `executed`. Text, because a newer host may know more codes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// The approval request, if `pending`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval: Option<ApprovalRef>,
    /// When to try again, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u64>,
    /// The changes that the filter made to the result.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notices: Vec<String>,
    /// The ledger row on which this reply rests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub evidence: Option<Evidence>,
}

/// A reference to an approval request, as far as the agent may know it: never the code that approvers answer with.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ApprovalRef {
    /// The agent's name for it.
    #[serde(rename = "ref")]
    pub reference: String,
    /// The time after which no answer counts as a denial.
    pub expires_at: Timestamp,
    /// The summary of the approval request, in one line.
    pub summary: String,
}

/// The receipt: a row of the ledger.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Evidence {
    /// Its number.
    pub seq: i64,
    /// Its hash.
    pub event_hash: Digest,
    /// The hash of the row before it.
    pub prev_hash: Digest,
}

/// A note about a change to a result, or about another fact that its caller should know.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Notice {
    /// Secrets were replaced.
    Redacted,
    /// The result was kept back.
    Withheld,
    /// The result was cut.
    Truncated,
    /// The result holds text that others wrote.
    UntrustedContent,
    /// That text is not marked: it stands in the result as it was found.
    Unmarked,
    /// The caller has used most of its quota for the day.
    NearQuota,
    /// The result holds a value that no other reply holds.
    OneTimeValue,
    /// The result lacks a value that another reply holds, or that has expired.
    OneTimeValueOmitted,
}

impl Notice {
    /// The word on the wire.
    pub fn word(self) -> &'static str {
        match self {
            Self::Redacted => "redacted",
            Self::Withheld => "withheld",
            Self::Truncated => "truncated",
            Self::UntrustedContent => "untrusted_content",
            Self::Unmarked => "unmarked",
            Self::NearQuota => "near_quota",
            Self::OneTimeValue => "one_time_value",
            Self::OneTimeValueOmitted => "one_time_value_omitted",
        }
    }
}

/// The progress that a running call may report: `responses/<request_id>.progress.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Progress {
    /// One line.
    pub message: String,
    /// How far, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress: Option<f64>,
    /// Of how much, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total: Option<f64>,
}

impl Reply {
    /// Returns the reply's document.
    pub fn to_bytes(&self) -> Vec<u8> {
        #[expect(
            clippy::expect_used,
            clippy::missing_panics_doc,
            reason = "all names are texts, and writing to memory works"
        )]
        serde_json::to_vec(self).expect("a reply is JSON")
    }

    /// Returns the document with this JSON as its data, in the place of the reply's own data.
    pub fn document_with(&self, data: &[u8]) -> Vec<u8> {
        let rest = Self { data: None, ..self.clone() }.to_bytes();
        // There is always a member behind the brace: the request's id.
        let rest = rest.strip_prefix(b"{").unwrap_or_default();
        [br#"{"data":"#, data, b",", rest].concat()
    }

    /// Creates a refusal or failure with the code's own texts: its meaning, then the next step.
    pub fn of_code(request_id: RequestId, code: Code, timestamp: Timestamp) -> Self {
        Self::of_reason(request_id, code, code.meaning(), timestamp)
    }

    /// A refusal or failure with a more precise sentence than the code's own; the remedy follows it.
    pub fn of_reason(request_id: RequestId, code: Code, reason: &str, timestamp: Timestamp) -> Self {
        Self {
            request_id,
            status: code.status(),
            data: None,
            summary: None,
            error: Some(format!("{reason} {}", code.remedy())),
            timestamp: timestamp.to_string(),
            code: Some(code.word().to_owned()),
            approval: None,
            retry_after_ms: None,
            notices: Vec::new(),
            evidence: None,
        }
    }

    /// Makes the same for an operator: without the next step of an agent.
    pub fn of_reason_alone(request_id: RequestId, code: Code, reason: &str, timestamp: Timestamp) -> Self {
        Self { error: Some(reason.to_owned()), ..Self::of_reason(request_id, code, reason, timestamp) }
    }

    /// A person is being asked, and the caller's time is over before the answer.
    pub fn pending(request_id: RequestId, approval: ApprovalRef, timestamp: Timestamp) -> Self {
        let mut reply = Self::of_code(request_id, Code::ApprovalRequired, timestamp);
        reply.status = Status::Pending;
        reply.approval = Some(approval);
        reply
    }

    /// A success.
    pub fn executed(request_id: RequestId, data: Value, summary: String, timestamp: Timestamp) -> Self {
        Self {
            request_id,
            status: Status::Executed,
            data: Some(data),
            summary: Some(summary),
            error: None,
            timestamp: timestamp.to_string(),
            code: None,
            approval: None,
            retry_after_ms: None,
            notices: Vec::new(),
            evidence: None,
        }
    }
}
