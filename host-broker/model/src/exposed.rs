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
    /// When it was called first.
    pub at: Timestamp,
    /// What it exposes.
    pub exposes: Exposure,
}
