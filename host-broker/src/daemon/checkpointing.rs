//! Has a checkpoint written when enough rows or enough time have passed since the last one.

use super::Loop;
use engine::event::Event;
use std::time::Duration;
use store::ledger::checkpoints::Signed;
use store::ledger::verifier::Break;
use tokio::time::Instant;

/// The longest time without a checkpoint while rows are written.
const EVERY: Duration = Duration::from_secs(60);
/// The most rows without a checkpoint: a start reads them to continue the tree.
const ROWS: i64 = 10_000;
/// The shortest time between two attempts.
const PAUSE: Duration = Duration::from_secs(5);

impl Loop {
    /// Has a checkpoint written, if one is due.
    pub(super) fn write_due_checkpoint(&mut self) {
        let unsigned = self.daemon.ledger.signed().map_or(0, Signed::unsigned);
        let since = self.checkpointed.elapsed();
        if unsigned >= ROWS && since >= PAUSE || unsigned > 0 && since >= EVERY {
            self.write_checkpoint();
        }
    }

    /// Has a checkpoint of all rows written, and stores it beside the keys.
    pub(super) fn write_checkpoint(&mut self) {
        let unsigned = self.daemon.ledger.signed().map_or(0, Signed::unsigned);
        // A broken ledger gets no checkpoint.
        if self.is_broken || self.cannot_write() || unsigned == 0 {
            return;
        }
        self.checkpointed = Instant::now();
        self.handle(vec![Event::CheckpointDue]);
        if let Some(last) = self.daemon.ledger.signed().and_then(Signed::last) {
            self.daemon.kept.keep(last);
        }
    }

    /// Returns the contradiction between the ledger and the last checkpoint that was signed. Another process may have
    /// replaced the ledger.
    pub(super) fn contradiction(&self) -> Option<Break> {
        let (signed, kept) = (self.daemon.ledger.signed()?, self.daemon.kept.get()?);
        kept.contradiction(signed)
    }
}
