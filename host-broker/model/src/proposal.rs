//! Proposals of file changes, in the forms for actions and lists.

use crate::ProposalId;
use schemars::JsonSchema;
use serde::Serialize;
use shared::digest::Digest;
use shared::{Group, RequestId};

/// A stored proposal, in the form for an action.
#[derive(Clone, PartialEq, Eq)]
pub struct StoredProposal {
    /// The proposer's name for it.
    pub id: ProposalId,
    /// The proposing group.
    pub group: Group,
    /// The path that names it.
    pub path: String,
    /// The stored changes; empty until the call is permitted.
    pub changes: Vec<u8>,
    /// SHA-256 of the diff that a person approved.
    pub patch_hash: Digest,
    /// The request that proposed it.
    pub proposed_by: RequestId,
}

/// A stored proposal, in the form for a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Listed {
    /// The proposer's name for it.
    pub hitl_id: String,
    /// The path that names it.
    pub path: String,
    /// The summary of the changes, in one line.
    pub summary: String,
    /// `waiting`, `approved`, `applied`, or the way it ended.
    pub state: String,
    /// The end of the approval request or, after an approval, the end of the time to apply it.
    pub until: String,
    /// The request that proposed it.
    pub proposed_by: String,
}

impl std::fmt::Debug for StoredProposal {
    /// Omits the content that it would write.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "StoredProposal({})", self.id)
    }
}
