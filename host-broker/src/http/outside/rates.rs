//! How fast an access may be used, or a token: every request leaves a row.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use tokio::time::Instant;

/// So many requests at once.
const BURST: f64 = 100.0;
/// So many a second in the long run.
const PER_SECOND: f64 = 10.0;
/// So many are remembered before those are forgotten that have rested long enough.
const REMEMBERED: usize = 4_096;

/// What is left to each that was used lately, by its name.
#[derive(Debug, Default)]
pub(in crate::http) struct Rates(Mutex<HashMap<Box<str>, (f64, Instant)>>);

impl Rates {
    /// Takes one; `false` if there is none.
    pub(super) fn take(&self, name: &str) -> bool {
        self.take_at(name, Instant::now())
    }

    fn take_at(&self, name: &str, now: Instant) -> bool {
        let left = |(left, since): (f64, Instant)| {
            let rested = now.saturating_duration_since(since).as_secs_f64();
            (left + rested * PER_SECOND).min(BURST)
        };
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() >= REMEMBERED {
            // Whoever has all of it back is as good as new.
            all.retain(|_, used| left(*used) < BURST);
        }
        let had = all.get(name).map_or(BURST, |used| left(*used));
        let may = had >= 1.0;
        all.insert(name.into(), (if may { had - 1.0 } else { had }, now));
        may
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn each_has_its_own_and_gets_it_back_with_time() {
        let (rates, now) = (Rates::default(), Instant::now());
        let [one, other] = ["fgrnt_00000001", "optk_00000002"];
        assert_eq!((0..150).filter(|_| rates.take_at(one, now)).count(), 100);
        assert!(rates.take_at(other, now));
        let later = now + Duration::from_secs(2);
        assert_eq!((0..50).filter(|_| rates.take_at(one, later)).count(), 20);
        for n in 0..10_000 {
            rates.take_at(&format!("fgrnt_{n:08}"), later + Duration::from_secs(n));
        }
        assert!(rates.0.lock().unwrap().len() <= REMEMBERED);
    }
}
