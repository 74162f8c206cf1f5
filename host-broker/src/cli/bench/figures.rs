//! Measured times, and their percentiles.

use crate::percentile::percentile;
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// The times of one kind of work.
#[derive(Debug, Default)]
pub(super) struct Figures(Vec<Duration>);

impl Figures {
    /// Runs the work and adds its time.
    ///
    /// # Errors
    /// That of the work.
    pub(super) fn time(&mut self, work: impl FnOnce() -> anyhow::Result<()>) -> anyhow::Result<()> {
        let began = Instant::now();
        work()?;
        self.0.push(began.elapsed());
        Ok(())
    }

    pub(super) fn p50(&self) -> Duration {
        self.percentile(50)
    }

    pub(super) fn p99(&self) -> Duration {
        self.percentile(99)
    }

    fn percentile(&self, percent: usize) -> Duration {
        let mut sorted = self.0.clone();
        sorted.sort();
        percentile(&sorted, percent).unwrap_or_default()
    }

    pub(super) fn document(&self) -> Value {
        let micros = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        json!({ "p50_us": micros(self.p50()), "p99_us": micros(self.p99()) })
    }
}

/// A time in milliseconds, with two places.
pub(super) fn millis(time: Duration) -> String {
    format!("{:.2}", time.as_secs_f64() * 1000.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_of_the_sorted_times() {
        let figures = Figures((1..=100).rev().map(Duration::from_micros).collect());
        assert_eq!((figures.p50(), figures.p99()), (Duration::from_micros(50), Duration::from_micros(99)));
        assert_eq!(figures.document(), json!({ "p50_us": 50, "p99_us": 99 }));
        assert_eq!(Figures::default().p99(), Duration::ZERO);
        assert_eq!(millis(Duration::from_micros(1234)), "1.23");
    }
}
