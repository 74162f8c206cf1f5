//! Time: a source of wall time and of monotonic time.

use shared::Timestamp;
use std::time::Duration;

/// A source of wall time, and of monotonic time that cannot be set.
pub trait Clock: Send + Sync {
    /// Returns the time now, in UTC. A person or a time server may set it.
    fn now(&self) -> Timestamp;

    /// Returns the time since some moment. It never goes back and never jumps; sleep of the machine counts.
    fn monotonic(&self) -> Duration;
}
