//! The requests for entries within a minute. Google allows an account so many (Cloud Logging documentation, "Quotas and
//! limits").

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use tokio::time::{Instant, sleep_until};

/// The time in which requests are counted.
const MINUTE: Duration = Duration::from_secs(60);

/// The instants of the last requests.
#[derive(Debug)]
pub(super) struct Pace {
    most: usize,
    sent: Mutex<VecDeque<Instant>>,
}

impl Pace {
    /// Allows so many requests a minute.
    pub(super) fn new(most: usize) -> Self {
        Self { most: most.max(1), sent: Mutex::default() }
    }

    /// Counts a request, as soon as it is allowed.
    ///
    /// # Errors
    /// The time until then, if it is not before the deadline. Nothing is counted.
    pub(super) async fn take(&self, deadline: Instant) -> Result<(), Duration> {
        loop {
            let now = Instant::now();
            match self.count(now) {
                Ok(()) => return Ok(()),
                Err(next) if next >= deadline => return Err(next.saturating_duration_since(now)),
                // Another call can be the first to take the place.
                Err(next) => sleep_until(next).await,
            }
        }
    }

    /// Counts a request that is allowed now.
    ///
    /// # Errors
    /// The instant at which one is allowed.
    fn count(&self, now: Instant) -> Result<(), Instant> {
        let mut sent = self.sent.lock().unwrap_or_else(PoisonError::into_inner);
        while sent.front().is_some_and(|first| *first + MINUTE <= now) {
            sent.pop_front();
        }
        match sent.front() {
            Some(first) if sent.len() >= self.most => Err(*first + MINUTE),
            Some(_) | None => {
                sent.push_back(now);
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_minute_has_more_requests_than_are_allowed() {
        let (pace, start) = (Pace::new(3), Instant::now());
        let at = |seconds| pace.count(start + Duration::from_secs(seconds));
        for seconds in [0, 10, 20] {
            assert_eq!(at(seconds), Ok(()));
        }
        assert_eq!((at(20), at(59)), (Err(start + MINUTE), Err(start + MINUTE)));
        assert_eq!((at(60), at(60)), (Ok(()), Err(start + Duration::from_secs(70))));
        assert_eq!((at(200), at(200), at(200)), (Ok(()), Ok(()), Ok(())));
    }
}
