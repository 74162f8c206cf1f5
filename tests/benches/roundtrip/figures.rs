//! Medians and units.

use std::time::Duration;

pub(crate) fn micros(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e6
}

pub(crate) fn median(figures: &[Duration]) -> Duration {
    percentile(figures, 50)
}

pub(crate) fn percentile(figures: &[Duration], percent: usize) -> Duration {
    let mut sorted = figures.to_vec();
    sorted.sort_unstable();
    sorted[(sorted.len() * percent / 100).min(sorted.len() - 1)]
}
