//! The pace of a group whose documents lead to nothing.
//!
//! A group has two lanes, each with a pace of its own: one for the documents that its snapshot permits, and one for the
//! rest. So refused documents delay no permitted call of the group. A document that only looks permitted is bounded
//! like a refusal.
//!
//! Two buckets leak steadily. The first counts documents without a row of their own: a thousand at once, then a hundred
//! a second. The second counts the time that the loop spends on documents that are answered at once: refusals, repeats,
//! requests about grants. While other groups are served, a group has 200 ms of that time at once, then a two-hundredth.
//! So a group without a grant costs the others next to nothing, and a group that is alone is not slowed down.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// The time in which the first bucket forgets one document, and how much fits into it.
const EACH: Duration = Duration::from_millis(10);
const BURST: Duration = Duration::from_secs(10);
/// The second bucket forgets a two-hundredth of the time that passes.
const SHARE: u32 = 200;
const TIME_BURST: Duration = Duration::from_millis(200);
/// The most that the disk costs a group for one document: a stored reply of a megabyte takes some milliseconds, and a slow
/// disk takes the rest.
const DISK_MAX: Duration = Duration::from_millis(10);
/// The most that the steps of one document cost it: a process that stood still for minutes is held against nobody.
const OWN_MAX: Duration = Duration::from_secs(1);

/// When each bucket will be empty.
#[derive(Debug, Default)]
pub struct Pace(Mutex<(Option<Instant>, Option<Instant>)>);

impl Pace {
    /// Counts a document without a row of its own.
    pub fn count(&self, now: Instant) {
        let buckets = &mut *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        fill(&mut buckets.0, EACH, now);
    }

    /// Counts the time that the loop has spent on a document that was answered at once: its own steps, and the disk.
    pub fn spend(&self, own: Duration, disk: Duration, now: Instant) {
        let buckets = &mut *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        fill(&mut buckets.1, (own.min(OWN_MAX) + disk.min(DISK_MAX)) * SHARE, now);
    }

    /// Returns whether the group may send its next document; `others` says whether other groups are served now.
    pub fn permits(&self, others: bool, now: Instant) -> bool {
        let buckets = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        has_room(buckets.0, BURST, now) && (!others || has_room(buckets.1, TIME_BURST * SHARE, now))
    }
}

fn fill(empty_at: &mut Option<Instant>, cost: Duration, now: Instant) {
    *empty_at = Some(empty_at.map_or(now, |at| at.max(now)) + cost);
}

fn has_room(empty_at: Option<Instant>, burst: Duration, now: Instant) -> bool {
    empty_at.is_none_or(|at| at.saturating_duration_since(now) < burst)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_thousand_documents_without_rows_pass_at_once_then_a_hundred_a_second_however_long_the_group_was_silent() {
        let (pace, start) = (Pace::default(), Instant::now());
        for now in [start, start + SECOND * 3600] {
            (0..1_000).for_each(|_| pace.count(now));
            assert!(!pace.permits(false, now));
            let later = now + SECOND;
            assert_eq!((0..).take_while(|_| pace.permits(false, later)).inspect(|_| pace.count(later)).count(), 100);
        }
    }

    #[test]
    fn documents_that_are_answered_at_once_take_a_two_hundredth_of_the_time_from_other_groups() {
        let (pace, start) = (Pace::default(), Instant::now());
        let took = Duration::from_millis(1);
        let passed = |now| {
            (0..10_000)
                .take_while(|_| pace.permits(true, now))
                .inspect(|_| pace.spend(took, Duration::ZERO, now))
                .count()
        };
        assert_eq!(passed(start), 200);
        assert_eq!(passed(start + SECOND), 5);
        assert!(pace.permits(false, start + SECOND), "nobody else is served");
        assert_eq!(passed(start + SECOND * 3600), 200);
    }

    #[test]
    fn a_slow_disk_is_held_against_nobody_for_long() {
        let (pace, start) = (Pace::default(), Instant::now());
        (0..20).for_each(|_| pace.spend(Duration::ZERO, SECOND * 60, start));
        assert!(!pace.permits(true, start) && pace.permits(true, start + SECOND));
    }

    /// Attack (Load and space): A group without a grant sends a document on which the loop spends
    /// long.
    /// Defence: The time of the loop's own steps is paid as a whole, up to a second. Only the part
    /// of the disk has a bound of 10 ms.
    #[test]
    fn a_document_that_takes_the_loop_long_is_paid_for_as_a_whole() {
        let (pace, start) = (Pace::default(), Instant::now());
        pace.spend(SECOND, Duration::ZERO, start);
        assert!(!pace.permits(true, start + SECOND * 150) && pace.permits(true, start + SECOND * 200));
    }
}
