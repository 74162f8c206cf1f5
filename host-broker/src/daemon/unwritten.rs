//! Events that could not be recorded: an outcome waits for the ledger, everything else is refused.

use super::Loop;
use super::measuring::series_of;
use crate::metrics::CallOutcome;
use crate::outbox::Unrecorded;
use engine::event::Event;
use engine::request::Parsed;
use kernel::call::Origin;
use model::errors::chain;
use shared::{Code, Timestamp};
use std::sync::Arc;
use store::StoreError;
use tokio::time::Instant;

impl Loop {
    /// While outcomes cannot be written, or only into the space that is kept for them, nothing new is admitted. On broken
    /// evidence only commands of people are.
    pub(super) fn admit(&self, events: Vec<Event>) -> (Vec<Event>, Vec<Event>) {
        let can_record = self.unsettled.is_empty() && !self.daemon.ledger.is_using_reserve();
        if can_record && !self.is_broken {
            return (events, Vec::new());
        }
        let is_new = |event: &Event| {
            matches!(event, Event::Arrived(_) | Event::Prepared(_) | Event::Resumed(_) | Event::Probe(_))
        };
        // The command that accepts the clock always passes, because outcomes may be waiting for it. On broken evidence people
        // may still stop and revoke.
        let passes = |event: &Event| event.accepts_clock() || can_record && event.is_a_persons();
        events.into_iter().partition(|event| !is_new(event) || passes(event))
    }

    /// Handles an event after the ledger could not be written: outcomes wait for the ledger, everything else is
    /// refused.
    pub(super) fn unwritten(&mut self, event: Event, error: &StoreError) {
        tracing::error!(error = chain(&error), "the ledger cannot be written");
        if let Event::NoticeDelivered(attempt) = event {
            self.notices.tell_again(*attempt);
        } else if matches!(event, Event::NoticesDue(_)) {
            self.notices.hold();
        } else if matches!(
            event,
            Event::Finished(_)
                | Event::DefinitionsChanged(_)
                | Event::RulesetReplaced(_)
                | Event::Renewed(_)
                | Event::Verified(_)
        ) {
            // These events come only once, so they are kept. Of definition changes, which come repeatedly, only the
            // last is kept.
            if let Event::DefinitionsChanged(new) = &event {
                let provider = &new.changed.provider;
                self.unsettled
                    .retain(|old| !matches!(old, Event::DefinitionsChanged(old) if old.changed.provider == *provider));
            }
            self.unsettled.push(event);
        } else {
            self.unrecorded(event);
        }
    }

    /// Withholds the results that cannot be recorded, and says so to each caller before its timeout ends.
    pub(super) fn answer_unsettled(&mut self, now: Timestamp) {
        for event in &mut self.unsettled {
            let Event::Finished(filtered) = event else { continue };
            let Some(call) = filtered.call() else { continue };
            let (header, is_read) = (call.awaited(), call.plan.is_some());
            let key = header.key();
            let asker = self.asked.get(&key).map(|asker| asker.until);
            if Instant::now() >= asker.unwrap_or_else(|| header.reply_deadline()) {
                let series = filtered.call().map(|call| series_of(&self.daemon.meter, call));
                let origin = filtered.withhold();
                if let Some(origin) = self.asked.remove(&key).map(|asker| asker.origin).or(origin) {
                    // The caller gets one reply. The outcome stays in the queue until it is written.
                    if let (Some(series), false) = (series, matches!(origin, Origin::Broker)) {
                        series.count(CallOutcome::Unrecorded);
                    }
                    // A plan that waits for facts has run nothing, and asks nobody any more.
                    let withheld = if is_read { Unrecorded::nothing_executed } else { Unrecorded::outcome_withheld };
                    self.daemon.outbox.unrecorded(origin, withheld(key.1, now));
                }
            }
        }
    }

    pub(super) fn unrecorded(&mut self, event: Event) {
        self.end_reading_of(&event);
        if let Event::Unanswerable(ended) = event {
            self.postponed.push(ended.key);
            return;
        }
        if let Some(header) = event.asked() {
            // A person's answer is not lost: it is decided on when the ledger can be written.
            self.postponed.push((Arc::clone(&header.caller_key), header.request_id.clone()));
            return;
        }
        if matches!(&event, Event::Arrived(Parsed::Call(call)) if call.is_internal()) {
            self.wanted = true;
            return;
        }
        let now = self.daemon.clock.now();
        let id = if let Event::Arrived(Parsed::InvalidDocument(invalid)) = &event {
            invalid.request_id.clone()
        } else {
            event.header().map(|header| header.request_id.clone())
        };
        // A repeated request may have been executed by its first one.
        let is_known = matches!(event, Event::Arrived(_))
            && event.header().is_some_and(|header| self.may_have_happened(&header.key()));
        if let Some(series) = self.series(&event) {
            series.count(CallOutcome::Unrecorded);
        }
        let Some(origin) = event.into_origin() else { return };
        match (id, origin) {
            (Some(id), origin) => {
                let reply = if is_known {
                    Unrecorded::outcome_withheld(id, now)
                } else {
                    Unrecorded::nothing_executed(id, now)
                };
                self.daemon.outbox.unrecorded(origin, reply);
            }
            (None, Origin::File(file)) => {
                self.daemon.outbox.retire(&file);
            }
            (None, Origin::Frame(frame)) => {
                let code = Code::EvidenceUnavailable;
                self.daemon.outbox.goodbye(&frame, code, code.meaning());
            }
            (None, Origin::Retired(..) | Origin::Socket(_) | Origin::Broker) => {}
        }
    }
}
