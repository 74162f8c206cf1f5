//! Replies that wait for the sync of another event, so that refusals of one group cause few syncs for which others wait.

use super::Loop;
use engine::event::Event;
use kernel::Held;
use std::time::Duration;
use store::Durability;
use tokio::time::Instant;

/// How long a reply may wait for another event's sync.
const HELD_MAX: Duration = Duration::from_millis(1);

impl Loop {
    /// How a batch is committed. If other events are under way, replies wait for one sync with theirs.
    pub(super) fn durability(&self, events: &[Event]) -> Durability {
        let mut is_only_answered = true;
        for event in events {
            match event.durability() {
                Durability::Full => return Durability::Full,
                Durability::Normal => is_only_answered = false,
                Durability::Deferred => {}
            }
        }
        let is_alone = self.running == 0 && self.pending.is_empty() && self.held.is_empty();
        if is_only_answered && is_alone { Durability::Full } else { Durability::Deferred }
    }

    /// Keeps committed events and waits for a sync.
    pub(super) fn hold(&mut self, held: Vec<Held<Event>>) {
        if !held.is_empty() {
            self.held_until.get_or_insert_with(|| Instant::now() + HELD_MAX);
            self.held.extend(held);
        }
    }

    /// Lets the replies leave that wait for a sync.
    pub(super) fn release_held(&mut self) {
        self.held_until = None;
        if !self.held.is_empty() {
            let held = std::mem::take(&mut self.held);
            let released = self.daemon.ledger.release(held);
            if let Some(error) = released.fault() {
                self.note_unwritten(error);
            }
            self.follow(released);
        }
    }
}
