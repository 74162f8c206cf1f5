//! What time it is.

use shared::Timestamp;
use std::time::{SystemTime, UNIX_EPOCH};

/// A source of wall time. Durations are measured on the runtime's monotonic clock instead.
pub trait Clock: Send + Sync {
    /// The time now, in UTC.
    fn now(&self) -> Timestamp;
}

/// The machine's clock.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "the one place that reads the machine's clock")]
    fn now(&self) -> Timestamp {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Timestamp::from_millis(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
    }
}
