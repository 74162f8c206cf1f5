//! The bytes of rows and stored bodies that a caller may cause in an hour. Bodies are replies, requests, cards, changes.
//!
//! Two buckets for each bounded caller leak steadily over an hour. Every row and stored body fills the first; when it is full, the broker refuses new calls. Rows about requests that changed nothing also fill the second,
//! which is smaller. When that is full, the broker counts such requests in one row a minute instead of a row each. On a
//! nearly full disk, both buckets count as full: first those of the caller that has used most. So bytes are counted
//! where the configuration sets no bound, too.
//!
//! Everything here is in memory. A restart empties the buckets; no sandbox can cause a restart.

use shared::Timestamp;
use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

const HOUR_US: i64 = 3_600_000_000;
/// The divisor of the hour's bytes that gives the part for rows about requests that changed nothing.
const MINOR_PART: u64 = 8;
/// The size against which bytes are counted if there is no bound. It only finds the caller that has used most.
const UNBOUNDED: u64 = 64 * 1024 * 1024;
/// The time after which the next caller's buckets count as full, if the disk is still nearly full.
const NEXT_CALLER: Duration = Duration::from_secs(5);

/// The buckets of all callers.
#[derive(Debug, Default)]
pub struct Budgets {
    // Bytes in an hour; none is no bound.
    hourly: Option<u64>,
    callers: HashMap<String, Buckets>,
    // Callers whose buckets count as full while the disk is nearly full, and when the last one was added.
    stopped: BTreeSet<String>,
    stopped_since: Option<Timestamp>,
}

/// The times at which the buckets will be empty, in microseconds of the steady clock.
#[derive(Debug, Default, Clone, Copy)]
struct Buckets {
    all: i64,
    minor: i64,
}

impl Budgets {
    /// Sets the number of bytes of evidence that a caller may cause in an hour.
    pub fn set_hourly(&mut self, bytes: Option<u64>) {
        self.hourly = bytes.filter(|bytes| *bytes > 0);
    }

    /// Returns the bytes that a caller may cause in an hour; `None` is no bound.
    pub fn hourly(&self) -> Option<u64> {
        self.hourly
    }

    /// Returns whether the caller's requests that change nothing get no rows of their own now.
    pub fn folds(&self, caller: &str, now: Timestamp) -> bool {
        let is_full = |buckets: &Buckets| self.hourly.is_some() && buckets.minor - micros(now) > HOUR_US;
        self.stopped.contains(caller) || self.callers.get(caller).is_some_and(is_full)
    }

    /// Returns how long a new call of this caller must wait, if it is refused. The inner `None` means: as long as the
    /// disk is nearly full.
    pub fn refuses(&self, caller: &str, now: Timestamp) -> Option<Option<Duration>> {
        if self.stopped.contains(caller) {
            return Some(None);
        }
        self.hourly?;
        let over = self.callers.get(caller)?.all - micros(now) - HOUR_US;
        (over > 0).then(|| Some(Duration::from_micros(u64::try_from(over).unwrap_or(0))))
    }

    /// Charges the caller with this many bytes.
    pub fn charge(&mut self, caller: &str, bytes: usize, minor: bool, now: Timestamp) {
        if !is_bounded(caller) {
            return;
        }
        let hourly = self.hourly.unwrap_or(UNBOUNDED);
        let buckets = match self.callers.get_mut(caller) {
            Some(buckets) => buckets,
            None => self.callers.entry(caller.to_owned()).or_default(),
        };
        fill(&mut buckets.all, bytes, hourly, now);
        if minor {
            fill(&mut buckets.minor, bytes, (hourly / MINOR_PART).max(1), now);
        }
    }

    /// Calls `each` with the bytes in the first bucket of each caller.
    pub fn used(&self, now: Timestamp, mut each: impl FnMut(&str, u64)) {
        let hourly = i128::from(self.hourly.unwrap_or(UNBOUNDED));
        let bytes = |buckets: &Buckets| {
            let left = i128::from(buckets.all.saturating_sub(micros(now)).max(0));
            u64::try_from(left * hourly / i128::from(HOUR_US)).unwrap_or(u64::MAX)
        };
        // The order does not matter: each caller is noted by itself.
        self.callers.iter().for_each(|(caller, buckets)| each(caller, bytes(buckets)));
    }

    /// Forgets the buckets that are empty.
    pub fn forget_empty(&mut self, now: Timestamp) {
        self.callers.retain(|_, buckets| buckets.all > micros(now));
    }

    /// Notes whether the disk is nearly full. The buckets of the caller that has used most then count as full; every
    /// few seconds, also those of the next. Returns the caller that was added now.
    pub fn heed_space(&mut self, nearly_full: bool, now: Timestamp) -> Option<String> {
        if !nearly_full {
            self.stopped.clear();
            self.stopped_since = None;
            return None;
        }
        if self.stopped_since.is_some_and(|since| now.since(since) < NEXT_CALLER) {
            return None;
        }
        let others = self.callers.iter().filter(|(caller, _)| !self.stopped.contains(*caller));
        let (caller, _) = others.max_by_key(|(caller, buckets)| (buckets.all, (*caller).clone()))?;
        let caller = caller.clone();
        self.stopped.insert(caller.clone());
        self.stopped_since = Some(now);
        Some(caller)
    }
}

/// Returns whether the caller is bounded: groups, external agents and tokens of operators are. People and the broker
/// itself are not attackers.
fn is_bounded(caller: &str) -> bool {
    ["group:", "agent:", "outside:", "operator:"].iter().any(|kind| caller.starts_with(kind))
}

fn micros(time: Timestamp) -> i64 {
    time.millis().saturating_mul(1000)
}

fn fill(empty_at: &mut i64, bytes: usize, hourly: u64, now: Timestamp) {
    let hourly = i128::from(hourly);
    let cost = i128::try_from(bytes).unwrap_or(i128::MAX / i128::from(HOUR_US)) * i128::from(HOUR_US) / hourly;
    *empty_at = (*empty_at).max(micros(now)).saturating_add(i64::try_from(cost).unwrap_or(i64::MAX));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_millis(seconds * 1000)
    }

    fn of(hourly: u64) -> Budgets {
        let mut budgets = Budgets::default();
        budgets.set_hourly(Some(hourly));
        budgets
    }

    #[test]
    fn an_hours_bytes_may_be_caused_at_once_and_come_back_steadily() {
        let mut budgets = of(3_600);
        budgets.charge("group:a", 3_600, false, at(0));
        assert_eq!(budgets.refuses("group:a", at(0)), None);
        budgets.charge("group:a", 10, false, at(0));
        assert_eq!(budgets.refuses("group:a", at(0)), Some(Some(Duration::from_secs(10))));
        assert_eq!(budgets.refuses("group:a", at(10)), None);
        assert_eq!(budgets.refuses("group:b", at(0)), None);
        assert!(!budgets.folds("group:a", at(0)), "nothing of it was minor");
    }

    #[test]
    fn requests_that_change_nothing_have_an_eighth() {
        let mut budgets = of(8 * 3_600);
        budgets.charge("group:a", 3_600, true, at(0));
        assert!(!budgets.folds("group:a", at(0)));
        budgets.charge("group:a", 1, true, at(0));
        assert!(budgets.folds("group:a", at(0)) && !budgets.folds("group:a", at(1)));
        assert_eq!(budgets.refuses("group:a", at(0)), None, "calls go on");
    }

    /// Attack: see `calls_that_wait_for_a_person_count_against_the_evidence_budget`.
    #[test]
    fn people_and_the_broker_are_not_bounded_and_no_bound_bounds_nobody() {
        let mut budgets = of(1);
        for caller in ["person:alice", "broker"] {
            budgets.charge(caller, usize::MAX, true, at(0));
            assert!(!budgets.folds(caller, at(0)) && budgets.refuses(caller, at(0)).is_none(), "{caller}");
        }
        for agent in ["outside:fgrnt_1", "agent:0c1d", "operator:optk_1"] {
            budgets.charge(agent, 2, true, at(0));
            assert!(budgets.folds(agent, at(0)), "{agent}");
        }
        let mut unbounded = of(0);
        unbounded.charge("group:a", usize::MAX, true, at(0));
        assert!(!unbounded.folds("group:a", at(0)) && unbounded.refuses("group:a", at(0)).is_none());
    }

    /// Attack (Load and space): the same, where no hourly bound is set
    /// Defence: bytes are counted without a bound, too
    #[test]
    fn without_a_bound_the_caller_that_has_used_most_is_still_stopped_on_a_nearly_full_disk() {
        let mut budgets = of(0);
        budgets.charge("group:quiet", 10, false, at(0));
        budgets.charge("group:loud", 10_000, true, at(0));
        assert_eq!(budgets.heed_space(true, at(1)).as_deref(), Some("group:loud"));
        assert_eq!((budgets.refuses("group:loud", at(1)), budgets.refuses("group:quiet", at(1))), (Some(None), None));
        assert!(budgets.folds("group:loud", at(1)));
        budgets.forget_empty(at(3_600));
        assert_eq!(budgets.callers.len(), 0, "what is counted empties, too");
    }

    #[test]
    fn on_a_nearly_full_disk_the_caller_that_has_used_most_is_stopped_first() {
        let mut budgets = of(1 << 30);
        budgets.charge("group:quiet", 10, false, at(0));
        budgets.charge("group:loud", 10_000, false, at(0));
        assert_eq!(budgets.heed_space(true, at(1)).as_deref(), Some("group:loud"));
        assert_eq!(budgets.refuses("group:loud", at(1)), Some(None));
        assert!(budgets.folds("group:loud", at(1)) && !budgets.folds("group:quiet", at(1)));
        assert_eq!(budgets.heed_space(true, at(2)), None, "space may come back");
        assert_eq!(budgets.heed_space(true, at(7)).as_deref(), Some("group:quiet"));
        assert_eq!(budgets.heed_space(true, at(60)), None, "nobody is left");
        assert_eq!(budgets.heed_space(false, at(61)), None);
        assert_eq!((budgets.refuses("group:loud", at(61)), budgets.refuses("group:quiet", at(61))), (None, None));
    }

    fn used(budgets: &Budgets, seconds: i64) -> Vec<(String, u64)> {
        let mut found = Vec::new();
        budgets.used(at(seconds), |caller, bytes| found.push((caller.to_owned(), bytes)));
        found
    }

    #[test]
    fn used_budget_comes_back_steadily_and_is_counted_without_a_bound_too() {
        let mut budgets = of(3_600);
        budgets.charge("group:a", 60, true, at(0));
        assert_eq!(used(&budgets, 0), [("group:a".to_owned(), 60)]);
        assert_eq!(used(&budgets, 20), [("group:a".to_owned(), 40)]);
        assert_eq!(used(&budgets, 90), [("group:a".to_owned(), 0)]);
        let mut unbounded = of(0);
        unbounded.charge("group:a", 1 << 20, false, at(0));
        assert_eq!(used(&unbounded, 0), [("group:a".to_owned(), 1 << 20)]);
    }

    #[test]
    fn empty_buckets_are_forgotten() {
        let mut budgets = of(3_600);
        budgets.charge("outside:fgrnt_1", 60, true, at(0));
        budgets.forget_empty(at(59));
        assert_eq!(budgets.callers.len(), 1);
        budgets.forget_empty(at(61));
        assert_eq!(budgets.callers.len(), 0);
    }
}
