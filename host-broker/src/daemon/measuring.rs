//! The counts of the loop for monitoring: after the commit, from the events themselves, without a lock.

use super::Loop;
use crate::metrics::{CallOutcome, CallSeries, Meter, Turn};
use engine::clean::Filtered;
use engine::event::Event;
use engine::request::Parsed;
use kernel::call::Call;
use kernel::{Committed, Cost, Effect, Settled};
use store::ledger::chain::RowKind;
use tokio::time::Instant;

impl Loop {
    /// Counts a committed event.
    pub(super) fn measure(&self, committed: &Committed<Event>, cost: Cost) {
        let meter = &self.daemon.meter;
        match committed {
            Committed::Start(intended) => {
                if matches!(intended.effect(), Effect::Run(_) | Effect::Prepare(_)) {
                    meter.metrics().decided(cost.own);
                }
            }
            Committed::Ask(event) => {
                meter.metrics().asked();
                if decided(event).is_some() {
                    meter.metrics().decided(cost.own);
                }
            }
            Committed::Close(event, settled) => self.measure_end(event, settled.as_ref(), cost),
            Committed::Wait(..) | Committed::Notify(..) | Committed::Receive(..) => {}
        }
    }

    fn measure_end(&self, event: &Event, settled: Option<&Settled>, cost: Cost) {
        let meter = &self.daemon.meter;
        if let Some(call) = decided(event) {
            meter.metrics().decided(cost.own);
            let status = settled.map(Settled::status);
            let outcome = match status {
                Some(Some(_)) if call.dry_run => Some(CallOutcome::Explained),
                Some(Some(status)) => Some(status.into()),
                // Its reply is that of an earlier request with its id, or none.
                Some(None) | None if matches!(event, Event::Arrived(_)) => Some(CallOutcome::Repeated),
                // Its caller was told before that a person is asked.
                Some(None) | None => None,
            };
            if let Some(outcome) = outcome {
                series_of(meter, call).count(outcome);
            }
            return;
        }
        match event {
            Event::Finished(filtered) => measure_effect(meter, filtered, settled),
            Event::Arrived(Parsed::InvalidDocument(_)) => meter.metrics().invalid_document(),
            Event::CallerTimedOut(key) => self.measure_asker(key, settled),
            Event::Unanswerable(ended) => self.measure_asker(&ended.key, settled),
            Event::Arrived(_)
            | Event::Prepared(_)
            | Event::Resumed(_)
            | Event::Started
            | Event::ApprovalsExpired
            | Event::Probe(_)
            | Event::NoticesDue(_)
            | Event::NoticeDelivered(_)
            | Event::Ticked { .. }
            | Event::MailboxReopened(_)
            | Event::DefinitionsChanged(_)
            | Event::RulesetReplaced(_)
            | Event::Renewed(_)
            | Event::Rotated(_)
            | Event::Verified(_)
            | Event::CheckpointDue
            | Event::Restored(_)
            | Event::Stopping => {}
        }
    }

    /// Counts the reply to a caller that waits for a person.
    fn measure_asker(&self, key: &super::Key, settled: Option<&Settled>) {
        let series = self.asked.get(key).and_then(|asker| asker.series.as_ref());
        if let (Some(series), Some(status)) = (series, settled.and_then(Settled::status)) {
            series.count(status.into());
        }
    }

    /// Returns the series of the call of an event, for its caller's later reply.
    pub(super) fn series(&self, event: &Event) -> Option<CallSeries> {
        decided(event).map(|call| series_of(&self.daemon.meter, call))
    }

    /// Counts the time that calls waited for their batch.
    pub(super) fn note_queued(&self, batch: &[Event]) {
        // One look at the clock serves all of them.
        let now = Instant::now();
        for event in batch {
            if let Event::Arrived(Parsed::Call(call)) = event {
                let waited = now.saturating_duration_since(call.header.arrived);
                self.daemon.meter.metrics().queued(waited);
            }
        }
    }

    /// Tells the state of the loop after a turn.
    pub(super) fn note_turn(&self) {
        self.daemon.meter.metrics().turned(Turn {
            queued: self.pending.len(),
            in_flight: self.running,
            unwritten: self.unsettled.len(),
            row: self.daemon.ledger.head().seq,
            is_stopping: self.stopping.is_some(),
        });
        self.daemon.changes.announce_rows(self.daemon.ledger.head().seq);
        self.note_synced();
    }

    /// Tells the sinks which rows are durable.
    pub(super) fn note_synced(&self) {
        let rows = self.daemon.ledger.synced_rows();
        self.daemon.synced.send_if_modified(|known| {
            let is_new = *known != rows;
            *known = rows;
            is_new
        });
    }
}

/// Returns the call that an event puts to the decision.
fn decided(event: &Event) -> Option<&Call> {
    if let Event::Arrived(Parsed::Call(call)) | Event::Prepared(call) | Event::Resumed(call) = event {
        Some(call)
    } else {
        None
    }
}

/// Returns the series of a call.
pub(super) fn series_of(meter: &Meter, call: &Call) -> CallSeries {
    meter.call(&call.provider, &call.action, call.header.caller.policy_group())
}

fn measure_effect(meter: &Meter, filtered: &Filtered, settled: Option<&Settled>) {
    let Some(call) = filtered.call() else { return };
    meter.took(&call.provider, filtered.took());
    meter.metrics().filtered(filtered.filter_took());
    let kind = filtered.row_kind();
    if filtered.is_run() {
        meter.effect(&call.provider, &call.action, kind);
    }
    if let Some(status) = settled.and_then(Settled::status) {
        let outcome = if kind == RowKind::Unknown { CallOutcome::Unknown } else { status.into() };
        series_of(meter, call).count(outcome);
    }
}
