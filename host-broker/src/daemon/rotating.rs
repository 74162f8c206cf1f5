//! Moves the oldest rows into segments when the ledger has become large.

use super::Loop;
use crate::daemon::Message;
use engine::event::Event;
use model::errors::chain;
use std::time::Duration;
use store::StoreError;
use store::ledger::segments;
use tokio::time::Instant;

/// The time between two looks at the size of the ledger.
const LOOK: Duration = Duration::from_secs(10);
/// The time after a failure.
const AGAIN: Duration = Duration::from_secs(300);

/// Whether a segment is being written, and when the loop looks next.
#[derive(Debug, Default)]
pub(super) struct Rotation {
    is_under_way: bool,
    // Rows that are in a segment are still in the database.
    pub(super) has_deletable: bool,
    next: Option<Instant>,
}

impl Loop {
    /// Has the next segment written beside the loop, if one is due.
    pub(super) fn rotate(&mut self) {
        let limit = self.daemon.broker.config().broker.ledger_mib.saturating_mul(1024 * 1024);
        let now = Instant::now();
        let waits = self.rotation.next.is_some_and(|next| now < next) && !self.rotation.has_deletable;
        if limit == 0 || self.rotation.is_under_way || waits || self.stopping.is_some() {
            return;
        }
        self.rotation.next = Some(now + LOOK);
        let reader = self.daemon.ledger.view();
        let looked = segments::has_deletable(reader).and_then(|deletable| {
            self.rotation.has_deletable = deletable;
            if deletable { Ok(None) } else { self.daemon.ledger.due_segment(limit, segments::ROWS) }
        });
        match looked {
            Ok(Some(due)) => {
                self.rotation.is_under_way = true;
                let (home, reports) = (self.daemon.ledger.home().to_owned(), self.daemon.reports.clone());
                self.daemon.runtime.spawn_blocking(move || {
                    reports.send(Message::Segment(Box::new(segments::write(&home, due))));
                });
            }
            Ok(None) => {}
            Err(error) => self.has_failed(&error),
        }
    }

    /// A segment was written, or could not be.
    pub(super) fn written(&mut self, result: Result<segments::Written, StoreError>) {
        self.rotation.is_under_way = false;
        match result {
            Ok(written) => self.pending.push_back(Event::Rotated(Box::new(written))),
            Err(error) => self.has_failed(&error),
        }
    }

    fn has_failed(&mut self, error: &StoreError) {
        self.rotation.next = Some(Instant::now() + AGAIN);
        tracing::error!(
            error = chain(&error),
            "the oldest rows cannot be moved into a segment; the next try is in 5 minutes"
        );
    }
}
