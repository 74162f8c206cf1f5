//! Names of proposals.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;
use uuid::Uuid;

const PREFIX: &str = "hitl-";

/// The id of a proposal: `hitl-` and a UUID (RFC 9562) in lower case.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
pub struct ProposalId(#[schemars(regex(pattern = r"^hitl-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$"))] String);

/// The text is not the id of a proposal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a proposal id: expected hitl- and a lower-case UUID")]
pub struct BadProposalId;

impl ProposalId {
    /// Makes an id from sixteen random bytes: a UUID of version 4.
    pub fn of(random: [u8; 16]) -> Self {
        Self(format!("{PREFIX}{}", uuid::Builder::from_random_bytes(random).into_uuid()))
    }

    /// Returns the text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for ProposalId {
    type Err = BadProposalId;

    fn from_str(text: &str) -> Result<Self, BadProposalId> {
        let name = text.strip_prefix(PREFIX).ok_or(BadProposalId)?;
        // The library also reads other forms; only the one that it writes is an id.
        let is_id = Uuid::try_parse(name).is_ok_and(|id| id.to_string() == name);
        if is_id { Ok(Self(text.to_owned())) } else { Err(BadProposalId) }
    }
}

impl TryFrom<String> for ProposalId {
    type Error = BadProposalId;

    fn try_from(text: String) -> Result<Self, BadProposalId> {
        text.parse()
    }
}

impl From<ProposalId> for String {
    fn from(id: ProposalId) -> Self {
        id.0
    }
}

impl fmt::Display for ProposalId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proposal_id_is_a_version_4_uuid() {
        let id = ProposalId::of([0xff; 16]);
        assert_eq!(id.as_str(), "hitl-ffffffff-ffff-4fff-bfff-ffffffffffff");
        assert_eq!(id.as_str().parse(), Ok(id.clone()));
        for bad in ["", "hitl-", "hitl-FFFFFFFF-ffff-4fff-bfff-ffffffffffff", "ffffffff-ffff-4fff-bfff-ffffffffffff"] {
            assert_eq!(bad.parse::<ProposalId>(), Err(BadProposalId), "{bad}");
        }
        assert!(format!("{id}\n").parse::<ProposalId>().is_err());
        assert!(format!("{id}-0000").parse::<ProposalId>().is_err());
    }
}
