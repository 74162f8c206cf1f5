//! How fast an access may be used, or a token, and how often at once: every request leaves a row, and holds a connection.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// So many requests at once, where none was made for a while.
const BURST: f64 = 100.0;
/// So many a second in the long run.
const PER_SECOND: f64 = 10.0;
/// So many are under way at a time.
const OPEN_MAX: usize = 8;
/// So many are remembered before those are forgotten that have rested long enough.
const REMEMBERED: usize = 4_096;
/// How often that is looked for.
const SWEEP: Duration = Duration::from_secs(1);

/// The remaining rate of each recent caller, by its name.
#[derive(Debug, Default, Clone)]
pub(in crate::http) struct Rates(Arc<Mutex<All>>);

#[derive(Debug, Default)]
struct All {
    used: HashMap<Box<str>, Used>,
    swept: Option<Instant>,
}

#[derive(Debug)]
struct Used {
    left: f64,
    since: Instant,
    open: usize,
}

impl Used {
    fn left(&self, now: Instant) -> f64 {
        (self.left + now.saturating_duration_since(self.since).as_secs_f64() * PER_SECOND).min(BURST)
    }
}

/// A request that is under way.
#[derive(Debug)]
pub(super) struct Turn {
    rates: Rates,
    name: Box<str>,
}

impl Drop for Turn {
    fn drop(&mut self) {
        if let Some(used) = self.rates.all().used.get_mut(&self.name) {
            used.open = used.open.saturating_sub(1);
        }
    }
}

impl Rates {
    fn all(&self) -> MutexGuard<'_, All> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins one; nothing if it is too fast, or too many are under way.
    pub(super) fn take(&self, name: &str) -> Option<Turn> {
        self.take_at(name, Instant::now())
    }

    fn take_at(&self, name: &str, now: Instant) -> Option<Turn> {
        let mut all = self.all();
        let is_due = all.swept.is_none_or(|swept| now.saturating_duration_since(swept) >= SWEEP);
        if all.used.len() >= REMEMBERED && is_due {
            // A caller with its full rate needs no entry.
            all.used.retain(|_, used| used.open > 0 || used.left(now) < BURST);
            all.swept = Some(now);
        }
        let used = all.used.entry(name.into()).or_insert(Used { left: BURST, since: now, open: 0 });
        (used.left, used.since) = (used.left(now), now);
        if used.left < 1.0 || used.open >= OPEN_MAX {
            return None;
        }
        used.left -= 1.0;
        used.open += 1;
        Some(Turn { rates: self.clone(), name: name.into() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Attack: see `requests_of_operators_are_parsed_strictly`.
    #[test]
    fn each_has_its_own_and_gets_it_back_with_time() {
        let (rates, now) = (Rates::default(), Instant::now());
        let [one, other] = ["fgrnt_00000001", "optk_00000002"];
        assert_eq!((0..150).filter(|_| rates.take_at(one, now).is_some()).count(), 100);
        assert!(rates.take_at(other, now).is_some());
        let later = now + Duration::from_secs(2);
        assert_eq!((0..50).filter(|_| rates.take_at(one, later).is_some()).count(), 20);
    }

    #[test]
    fn so_many_are_under_way_at_a_time() {
        let (rates, now) = (Rates::default(), Instant::now());
        let mut open: Vec<_> = (0..20).filter_map(|_| rates.take_at("fgrnt_00000001", now)).collect();
        assert_eq!(open.len(), OPEN_MAX);
        assert!(rates.take_at("fgrnt_00000002", now).is_some());
        open.pop();
        assert!(rates.take_at("fgrnt_00000001", now).is_some());
    }

    #[test]
    fn idle_callers_are_forgotten_and_busy_callers_are_not() {
        let (rates, now) = (Rates::default(), Instant::now());
        let busy: Vec<_> = (0..100).map(|n| rates.take_at(&format!("busy_{n}"), now)).collect();
        for n in 0..10_000_u32 {
            drop(rates.take_at(&format!("fgrnt_{n:08}"), now + Duration::from_millis(n.into())));
        }
        // A second's worth of them may be there beyond the others, and those that are under way.
        assert!(rates.all().used.len() <= REMEMBERED + 1_100, "{}", rates.all().used.len());
        assert!((0..100).all(|n| rates.all().used.contains_key(format!("busy_{n}").as_str())));
        drop(busy);
    }
}
