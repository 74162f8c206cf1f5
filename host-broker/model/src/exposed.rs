//! An action that a session has called.

use crate::Exposure;
use shared::{Action, Provider, Timestamp};

/// An action that a session has called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exposed {
    /// The provider.
    pub provider: Provider,
    /// The action.
    pub action: Action,
    /// The time of its first call.
    pub at: Timestamp,
    /// Its exposure.
    pub exposes: Exposure,
}

impl Exposed {
    /// Returns whether it brought nothing into the session: neither private data nor untrusted content.
    pub fn is_egress_alone(&self) -> bool {
        !self.exposes.untrusted && !self.exposes.sensitive
    }
}
