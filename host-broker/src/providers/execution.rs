//! The right to perform one action, once.

use crate::effects::ids::Nonce;
use shared::{Group, RequestId};
use tokio::time::Instant;

/// What identifies an effect at the remote.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Planted {
    /// The request.
    pub request_id: RequestId,
    /// The fresh nonce.
    pub nonce: Nonce,
}

/// What an action is given to run with. Holding one proves that its intent is durable.
#[derive(Debug)]
pub struct Execution {
    planted: Planted,
    group: Option<Group>,
    deadline: Instant,
}

impl Execution {
    /// Grep for this constructor: it is called only for an intent that is durable.
    pub(crate) fn new(planted: Planted, group: Option<Group>, deadline: Instant) -> Self {
        Self { planted, group, deadline }
    }

    /// The request.
    pub fn request_id(&self) -> &RequestId {
        &self.planted.request_id
    }

    /// The nonce to plant into the effect, where the remote can hold one.
    pub fn nonce(&self) -> &Nonce {
        &self.planted.nonce
    }

    /// The group that asked; `None` for the broker's own probes.
    pub fn group(&self) -> Option<&Group> {
        self.group.as_ref()
    }

    /// When the action must be over. The broker stops waiting then.
    pub fn deadline(&self) -> Instant {
        self.deadline
    }
}
