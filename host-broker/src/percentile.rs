//! Percentiles of measured times.

use std::time::Duration;

/// Returns the percentile of these times by the nearest rank. They are sorted; `None` if there are none.
pub fn percentile(sorted: &[Duration], percent: usize) -> Option<Duration> {
    sorted.get((sorted.len() * percent).div_ceil(100).saturating_sub(1)).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_is_one_of_the_times() {
        let times: Vec<Duration> = (1..=100).map(Duration::from_millis).collect();
        let found = [0, 50, 95, 100].map(|percent| percentile(&times, percent).unwrap().as_millis());
        assert_eq!(found, [1, 50, 95, 100]);
        assert_eq!(percentile(&times[..1], 95), Some(Duration::from_millis(1)));
        assert_eq!(percentile(&times[..2], 95), Some(Duration::from_millis(2)));
        assert_eq!(percentile(&[], 50), None);
    }
}
