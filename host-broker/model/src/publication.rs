//! Publications of the policy in a fleet.

use crate::HostName;
use serde::{Deserialize, Serialize};
use shared::digest::Digest;
use std::fmt;

/// A publication: the policy that a host of a fleet has published, by its number.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Publication {
    /// The host that has published it.
    pub host: HostName,
    /// Its number, from 1. The last one of the host is in force.
    pub number: i64,
    /// The digest of the policy.
    pub digest: Digest,
}

impl fmt::Display for Publication {
    /// `publication 3 of the host a`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "publication {} of the host {}", self.number, self.host)
    }
}
