//! The limit on the bytes of flows that a group may read.

use shared::{Group, Timestamp};
use std::collections::BTreeMap;
use std::time::Duration;

/// The most bytes of flows that a group may read within [`WINDOW`].
pub const BYTES_MAX: usize = 8 * 1024 * 1024;
/// The time of the limit.
pub const WINDOW: Duration = Duration::from_secs(60);

/// The recent reads of groups. A restart forgets them.
#[derive(Debug, Default)]
pub struct Reads(BTreeMap<Group, (Timestamp, usize)>);

impl Reads {
    /// Returns whether a group may read this many more bytes.
    pub fn allows(&self, group: &Group, bytes: usize, now: Timestamp) -> bool {
        let read = self.0.get(group).filter(|(since, _)| now.since(*since) < WINDOW).map_or(0, |(_, read)| *read);
        read.saturating_add(bytes) <= BYTES_MAX
    }

    /// Counts a read of a group.
    pub fn count(&mut self, group: &Group, bytes: usize, now: Timestamp) {
        let (since, read) = self.0.entry(group.clone()).or_insert((now, 0));
        if now.since(*since) >= WINDOW {
            (*since, *read) = (now, 0);
        }
        *read = read.saturating_add(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Attack: see `an_agent_ends_nothing_that_people_agreed_to_and_replaces_nothing_of_theirs`.
    #[test]
    fn each_group_reads_so_much_in_a_minute_and_again_in_the_next() {
        let (mut reads, begin) = (Reads::default(), Timestamp::from_millis(1_000_000));
        let [main, other]: [Group; 2] = ["main", "other"].map(|name| name.parse().unwrap());
        assert!(reads.allows(&main, BYTES_MAX, begin) && !reads.allows(&main, BYTES_MAX + 1, begin));
        reads.count(&main, BYTES_MAX, begin);
        assert!(!reads.allows(&main, 1, begin) && reads.allows(&other, BYTES_MAX, begin));
        assert!(!reads.allows(&main, 1, begin.plus(WINDOW / 2)));
        assert!(reads.allows(&main, BYTES_MAX, begin.plus(WINDOW)));
        // A read above the limit counts, too.
        reads.count(&main, 1, begin.plus(WINDOW / 2));
        assert!(!reads.allows(&main, 0, begin.plus(WINDOW / 2)));
    }
}
