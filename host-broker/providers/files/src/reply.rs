//! The shape in which every action of `files` answers.

use provider::contract::SideOutput;
use schemars::JsonSchema;
use serde::Serialize;
use shared::digest::Digest;

/// An answer.
///
/// ```json
/// {"schema_version": "1.0", "status": "allowed", "op": {"method": "fs.read", "path": "src/a.rs"},
///  "data": {}, "audit": {"prev_hash": "sha256:…", "event_hash": "sha256:…"}}
/// ```
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct ActionReply<T> {
    schema_version: &'static str,
    /// `allowed`, or `hitl_required` where a person decides.
    status: &'static str,
    op: Op,
    data: T,
    /// The request to a person, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    hitl: Option<HitlRequest>,
    /// The receipt of the row that this answer rests on.
    audit: Option<Audit>,
    #[serde(skip)]
    aside: Option<SideOutput>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct Op {
    method: &'static str,
    path: String,
}

/// A request to a person.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct HitlRequest {
    pub(super) hitl_id: String,
    /// For how long a person is asked, in seconds.
    pub(super) ttl_seconds: u64,
    pub(super) summary: String,
    /// The beginning of the diff; a person sees all of it.
    pub(super) diff_preview: String,
}

#[derive(Debug, Serialize, JsonSchema)]
struct Audit {
    prev_hash: Digest,
    event_hash: Digest,
}

impl<T> ActionReply<T> {
    /// It was done.
    pub(super) fn allowed(method: &'static str, path: &str, data: T, noted: serde_json::Value) -> Self {
        Self {
            schema_version: "1.0",
            status: "allowed",
            op: Op { method, path: path.to_owned() },
            data,
            hitl: None,
            audit: None,
            aside: Some(SideOutput { noted, takes_receipt: true, ..SideOutput::default() }),
        }
    }

    /// A person decides.
    pub(super) fn asks(path: &str, data: T, hitl: HitlRequest, aside: SideOutput) -> Self {
        Self {
            schema_version: "1.0",
            status: "hitl_required",
            op: Op { method: "fs.propose_patch", path: path.to_owned() },
            data,
            hitl: Some(hitl),
            audit: None,
            aside: Some(aside),
        }
    }

    pub(super) fn take_aside(&mut self) -> Option<SideOutput> {
        self.aside.take()
    }
}
