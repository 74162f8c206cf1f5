//! The last 24 hours in parts of an hour, as the plots show them.

use shared::Timestamp;
use std::time::Duration;

/// The number of parts.
pub(super) const PARTS: usize = 24;
/// The time that all parts have.
const DAY: Duration = Duration::from_hours(24);
const PART: Duration = Duration::from_hours(1);

/// Returns the beginning of the first part.
pub(super) fn begin(now: Timestamp) -> Timestamp {
    now.minus(DAY)
}

/// Returns the beginnings of the parts.
pub(super) fn parts(now: Timestamp) -> impl Iterator<Item = Timestamp> {
    std::iter::successors(Some(begin(now)), |part| Some(part.plus(PART))).take(PARTS)
}

/// Returns the number of the part that has this time. A time beside the day is in the nearest part.
pub(super) fn part_of(now: Timestamp, at: Timestamp) -> usize {
    let hours = at.since(begin(now)).as_secs() / PART.as_secs();
    usize::try_from(hours).unwrap_or(usize::MAX).min(PARTS - 1)
}

/// Returns the beginning of a part for people: `10:37`.
pub(super) fn label(part: Timestamp) -> String {
    part.clock().chars().take(5).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_time_of_the_day_is_in_the_part_that_begins_before_it() {
        let now: Timestamp = "2026-02-14T10:37:00Z".parse().unwrap();
        let all: Vec<Timestamp> = parts(now).collect();
        assert_eq!((all.len(), label(all[0]), label(all[23])), (24, "10:37".into(), "09:37".into()));
        for (number, part) in all.iter().enumerate() {
            assert_eq!(part_of(now, *part), number);
            assert_eq!(part_of(now, part.plus(Duration::from_millis(3_599_999))), number);
        }
        assert_eq!((part_of(now, now), part_of(now, now.minus(DAY * 2)), part_of(now, now.plus(DAY))), (23, 0, 23));
    }
}
