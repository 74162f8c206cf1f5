//! The verification of all rows beside the loop.
//!
//! If rows are missing or changed, the broker admits no call. It admits calls again after a verification without errors,
//! also after a restart.

use super::{Halted, Loop};
use crate::daemon::Message;
use engine::event::Event;
use engine::notices::sender::NoticeSender;
use kernel::OutgoingNotice;
use model::errors::chain;
use platform::delivery::pause;
use std::sync::Arc;
use store::StoreError;
use store::ledger::checkpoints::Signed;
use store::ledger::health::{CannotWrite, Verification, VerificationRun};
use store::ledger::{broken, verification};

/// The most attempts to send one notice: with the pauses between them about an hour.
const ATTEMPTS_MAX: u32 = 20;

impl Loop {
    /// Continues with the finding of an earlier daemon.
    pub(super) fn remember_break(&mut self) -> Result<(), String> {
        let Some(found) = broken::stored(self.daemon.ledger.view()).map_err(|error| chain(&error))? else {
            return Ok(());
        };
        self.is_broken = true;
        tracing::error!(?found, "the evidence was found broken; no call is admitted until all rows are verified");
        self.daemon.health.send_modify(|health| health.verification = found);
        Ok(())
    }

    /// Begins to verify all rows, once after each start, unless the start has verified them or found them broken.
    pub(super) fn verify(&mut self) {
        let row = self.daemon.ledger.head().seq;
        if let Some(fault) = self.contradiction() {
            self.verified((Verification::Broken { row: fault.row(), error: fault.to_string() }, None));
        } else if self.daemon.ledger.is_verified() {
            self.found(Verification::Whole { row });
        } else if let Err(error) = self.start_verification() {
            tracing::error!(%error, "the old rows of the ledger cannot be verified: no thread starts");
        }
    }

    /// Starts the thread that verifies all rows.
    pub(super) fn start_verification(&mut self) -> Result<(), std::io::Error> {
        let reports = self.daemon.reports.clone();
        let report = move |result, signed| reports.send(Message::Verified(Box::new((result, signed))));
        let ledger = &self.daemon.ledger;
        let (last, kept) = (ledger.head(), self.daemon.kept.get());
        let running = verification::start(ledger.home(), (last, kept), self.daemon.health.clone(), report)?;
        self.verification = Some(running);
        self.daemon.health.send_modify(|health| health.run = VerificationRun::Running);
        Ok(())
    }

    /// The verification is over.
    pub(super) fn verified(&mut self, (result, signed): (Verification, Option<Signed>)) {
        if let Some(signed) = signed {
            self.daemon.ledger.adopt(signed);
        }
        self.verification = None;
        self.verified_at = Some(self.daemon.clock.monotonic());
        match &result {
            Verification::Broken { row, error } => {
                // A process that could write the database has changed the evidence. It may have changed grants,
                // approvals and keys as well, which no chain protects. So no call that they permit is admitted.
                self.is_broken = true;
                tracing::error!(
                    row,
                    error,
                    "the evidence is broken: rows are missing or changed; no call is admitted any more"
                );
            }
            Verification::Unfinished { row, error } => {
                tracing::error!(row, error, "the old rows of the ledger cannot all be verified");
            }
            Verification::Whole { row } => tracing::info!(row, "all rows of the ledger are verified"),
            Verification::Waiting | Verification::Running { .. } => {}
        }
        self.found(result);
        let run = VerificationRun::Ended(self.daemon.clock.now());
        self.daemon.health.send_modify(|health| health.run = run);
    }

    /// Shows the result, and has it noted if something is or was wrong.
    fn found(&mut self, result: Verification) {
        // A later verification with the same finding writes no second row and sends no second notice.
        let is_known = self.last_found.replace(result.clone()).is_some_and(|last| last == result);
        // The finding from before a restart is shown until a row says that all rows are right.
        if !self.is_broken || matches!(result, Verification::Broken { .. }) {
            self.daemon.health.send_modify(|health| health.verification.clone_from(&result));
        }
        if !is_known && (self.is_broken || matches!(result, Verification::Unfinished { .. })) {
            self.pending.push_back(Event::Verified(Box::new(result)));
        }
    }

    /// Takes note that a row records the finding.
    pub(super) fn has_noted(&mut self, found: Verification) {
        if matches!(found, Verification::Whole { .. }) {
            self.is_broken = false;
            self.daemon.health.send_modify(|health| health.verification = found);
        }
    }

    /// Sends the notices about the ledger itself, whose row is durable.
    pub(super) fn send_alarms(&self, notices: Vec<OutgoingNotice>) {
        for outgoing in notices {
            let notice_sender = Arc::clone(&self.daemon.notice_sender);
            self.daemon.runtime.spawn(async move { send(&notice_sender, &outgoing).await });
        }
    }

    /// Notes that the ledger could not be written, for `status`.
    pub(super) fn note_unwritten(&self, error: &StoreError) {
        let now = self.daemon.clock.now();
        if let Some(new) = CannotWrite::of(error, self.daemon.ledger.home(), now) {
            self.set_cannot_write(Some(new));
        }
    }

    /// Notes that the ledger was written, for `status`.
    pub(super) fn note_written(&self) {
        let on_reserve = self.daemon.ledger.is_using_reserve();
        self.set_cannot_write(on_reserve.then(|| CannotWrite::on_reserve(self.daemon.clock.now())));
    }

    fn set_cannot_write(&self, new: Option<CannotWrite>) {
        self.daemon.health.send_if_modified(|health| {
            // It is the same state for as long as the reason is the same.
            let since =
                health.cannot_write.as_ref().filter(|old| Some(old.reason) == new.as_ref().map(|new| new.reason));
            let new = match (since.map(|old| old.since), new) {
                (Some(since), Some(new)) => Some(CannotWrite { since, ..new }),
                (_, new) => new,
            };
            let is_new = health.cannot_write != new;
            health.cannot_write = new;
            is_new
        });
    }

    /// Checks whether the last write failed, so that it is tried again and again.
    pub(super) fn cannot_write(&self) -> bool {
        self.daemon.health.borrow().cannot_write.is_some()
    }

    /// Looks whether the ledger can be written: with a write where the last one failed, else at the clock alone.
    pub(super) fn look_at_ledger(&mut self) {
        let tried = if self.cannot_write() {
            self.daemon.ledger.try_write().map(|()| self.note_written())
        } else {
            self.daemon.ledger.check_clock()
        };
        if let Err(error) = tried {
            self.halted = self.halted.take().or_else(|| Halted::at(&error));
            self.note_unwritten(&error);
        }
    }
}

async fn send(notice_sender: &NoticeSender, outgoing: &OutgoingNotice) {
    for attempt in 1..=ATTEMPTS_MAX {
        let Err(reason) = notice_sender.deliver(outgoing).await else { return };
        tracing::warn!(channel = outgoing.channel(), %reason, "a notice about the ledger could not be sent");
        tokio::time::sleep(pause(attempt)).await;
    }
}
