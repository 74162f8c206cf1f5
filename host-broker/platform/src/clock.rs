//! The clock of the machine.

use model::Clock;
use rustix::time::{ClockId, clock_gettime};
use shared::Timestamp;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The machine's clock.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "the one place that reads the machine's clock")]
    fn now(&self) -> Timestamp {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Timestamp::from_millis(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
    }

    fn monotonic(&self) -> Duration {
        let since_boot = clock_gettime(ClockId::Boottime);
        let nanoseconds = u32::try_from(since_boot.tv_nsec).unwrap_or(0);
        Duration::new(u64::try_from(since_boot.tv_sec).unwrap_or(0), nanoseconds)
    }
}
