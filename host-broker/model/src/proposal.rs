//! Proposals of file changes, as actions and lists get them.

use crate::ProposalId;
use schemars::JsonSchema;
use serde::Serialize;
use shared::digest::Digest;
use shared::{Group, RequestId};

/// A stored proposal, as an action gets it back.
#[derive(Clone, PartialEq, Eq)]
pub struct Stored {
    /// The proposer's name for it.
    pub id: ProposalId,
    /// Whose it is.
    pub group: Group,
    /// The path that it goes by.
    pub path: String,
    /// What was kept; empty until the call is permitted.
    pub changes: Vec<u8>,
    /// SHA-256 of the diff that a person agreed to.
    pub patch_hash: Digest,
    /// The request that proposed it.
    pub proposed_by: RequestId,
}

/// A stored proposal, as a list shows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Listed {
    /// The proposer's name for it.
    pub hitl_id: String,
    /// The path that it goes by.
    pub path: String,
    /// What it does, in one line.
    pub summary: String,
    /// `waiting`, `approved`, `applied`, or how it ended.
    pub state: String,
    /// Until when a person is asked, or, after a yes, until when it can be applied.
    pub until: String,
    /// The request that proposed it.
    pub proposed_by: String,
}

impl std::fmt::Debug for Stored {
    /// Without what it would write.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Stored({})", self.id)
    }
}
