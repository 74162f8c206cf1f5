//! Time: a source of wall time and of time that nobody can set.

use shared::Timestamp;
use std::time::Duration;

/// A source of wall time, and of time that nobody can set.
pub trait Clock: Send + Sync {
    /// The time now, in UTC. A person or a time server may set it.
    fn now(&self) -> Timestamp;

    /// The time since some moment. It never goes back and never jumps; sleep of the machine counts.
    fn monotonic(&self) -> Duration;
}
