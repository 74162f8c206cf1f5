//! The pace of token attempts from all clients: a few at once, then one every few seconds.

use shared::Timestamp;

/// So many at once.
const BURST: u32 = 10;
/// One more after so many milliseconds.
const EVERY_MS: u64 = 3_000;

/// How many may still be tried.
#[derive(Debug)]
pub(super) struct Pace {
    left: u32,
    since: Timestamp,
}

impl Default for Pace {
    fn default() -> Self {
        Self { left: BURST, since: Timestamp::from_millis(0) }
    }
}

impl Pace {
    /// Takes one.
    ///
    /// # Errors
    /// After how many seconds there is one again.
    pub(super) fn take(&mut self, now: Timestamp) -> Result<(), u64> {
        if now < self.since {
            // The clock was set back; that causes no wait.
            self.since = now;
        }
        let gone = u64::try_from(now.since(self.since).as_millis()).unwrap_or(u64::MAX);
        let more = gone / EVERY_MS;
        if more > 0 {
            self.left = BURST.min(self.left.saturating_add(u32::try_from(more).unwrap_or(BURST)));
            self.since = now;
        }
        match self.left.checked_sub(1) {
            Some(left) => {
                self.left = left;
                Ok(())
            }
            None => Err((EVERY_MS - gone % EVERY_MS).div_ceil(1000)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_at_once_then_one_every_three_seconds_also_when_the_clock_is_set_back() {
        let mut pace = Pace::default();
        let at = Timestamp::from_millis;
        assert!((0..BURST).all(|_| pace.take(at(9_000_000)).is_ok()));
        assert_eq!(pace.take(at(9_001_000)), Err(2));
        assert_eq!(pace.take(at(9_003_000)), Ok(()));
        assert_eq!(pace.take(at(9_003_000)), Err(3));
        assert_eq!(pace.take(at(1_000)), Err(3));
        assert_eq!(pace.take(at(4_000)), Ok(()));
    }
}
