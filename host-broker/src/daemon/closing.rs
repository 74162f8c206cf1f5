//! The end of an event: its reply leaves, and requests that waited for it go on.

use super::repeats::key_of;
use super::{Loop, group_of};
use engine::clean::Filtered;
use engine::event::Event;
use engine::outcomes::{probe_for, report};
use engine::request::Parsed;
use kernel::call::{Header, Origin};
use kernel::{Cost, Settled};
use std::sync::Arc;
use tokio::time::Instant;

impl Loop {
    /// Takes the outcome of an effect. Returns the event to close; `None` if the call goes on.
    fn end_effect(&mut self, mut filtered: Box<Filtered>) -> Option<Event> {
        if let Some(key) = filtered.call().map(|call| call.header.key()) {
            self.daemon.broker.end_run(&key);
            if !filtered.is_prepared() {
                self.over(&key);
            }
        }
        report(&mut filtered);
        self.pending.extend(probe_for(&mut filtered).map(Event::Probe));
        match filtered.into_next() {
            Ok(event) => {
                self.pending.push_back(event);
                None
            }
            Err(filtered) => {
                if let Some(plan) = filtered.call().and_then(|call| call.plan.as_ref()) {
                    self.end_reading(&plan.header.key());
                }
                Some(Event::Finished(filtered))
            }
        }
    }

    pub(super) fn close(&mut self, event: Event, settled: Option<Settled>, cost: Cost) {
        let event = match event {
            Event::Finished(filtered) => match self.end_effect(filtered) {
                Some(event) => event,
                None => return,
            },
            Event::Ticked { delivered } => {
                self.delivered = delivered;
                return;
            }
            Event::MailboxReopened(group) => {
                self.daemon.outbox.host_info(Some(&group), &self.daemon.host_info);
                return;
            }
            Event::Prepared(call) | Event::Resumed(call) if self.postponing.contains(&call.header.key()) => return,
            // Its remote facts did not make it permitted, or a person did not.
            Event::Prepared(call) | Event::Resumed(call) => {
                self.over(&call.header.key());
                Event::Prepared(call)
            }
            Event::Unanswerable(ended) => {
                self.over(&ended.key);
                let asker = self.asked.remove(&ended.key);
                if let (Some(settled), Some(asker)) = (settled, asker) {
                    self.daemon.outbox.reply(asker.origin, settled, group_of(&ended.key.0).as_ref());
                }
                return;
            }
            Event::CallerTimedOut(key) => {
                // Without a reply it has had one.
                let asker = self.asked.remove(&*key);
                if let (Some(settled), Some(asker)) = (settled, asker) {
                    self.daemon.outbox.reply(asker.origin, settled, group_of(&key.0).as_ref());
                }
                return;
            }
            Event::NoticesDue(_) | Event::Renewed(_) | Event::Rotated(_) | Event::CheckpointDue => return,
            Event::Verified(found) => return self.has_noted(*found),
            Event::DefinitionsChanged(redefined) => return self.daemon.broker.has_noted(*redefined),
            Event::RulesetReplaced(replaced) => return self.ruleset_replaced(*replaced),
            Event::NoticeDelivered(attempt) => {
                self.notices.is_told(&attempt);
                return;
            }
            other @ (Event::Started
            | Event::ApprovalsExpired
            | Event::Arrived(_)
            | Event::Probe(_)
            | Event::Restored(_)
            | Event::Stopping) => other,
        };
        if let Event::Arrived(Parsed::Call(call)) = &event {
            self.daemon.broker.forget_cancelled(&call.header.key());
        }
        let over = event.asked().map(Header::key);
        self.lapses.is_stale |= over.is_some();
        let asker = over.as_ref().and_then(|key| {
            self.over(key);
            self.asked.remove(key)
        });
        let is_at_once = matches!(event, Event::Arrived(_));
        self.end_unanswerable_connection(&event);
        self.end_reading_of(&event);
        let key = key_of(&event);
        let repeated_by = key.and_then(|key| self.repeated_by(&key));
        let Some(origin) = asker.map(|asker| asker.origin).or_else(|| event.into_origin()) else { return };
        let paced = match &origin {
            Origin::File(file) if is_at_once => {
                self.daemon.outbox.mailbox(&file.group).map(|mailbox| (Arc::clone(mailbox), file.lane))
            }
            Origin::Frame(frame) if is_at_once => {
                self.daemon.outbox.mailbox(&frame.group).map(|mailbox| (Arc::clone(mailbox), frame.lane))
            }
            Origin::File(_) | Origin::Frame(_) | Origin::Retired(..) | Origin::Socket(_) | Origin::Broker => None,
        };
        let (is_unkept, began) = (settled.as_ref().is_none_or(Settled::is_folded), Instant::now());
        match (settled, origin) {
            (Some(settled), origin) => self.daemon.outbox.reply(origin, settled, repeated_by.as_ref()),
            (None, Origin::File(file)) => {
                self.daemon.outbox.retire(&file);
            }
            (None, Origin::Frame(_) | Origin::Retired(..) | Origin::Socket(_) | Origin::Broker) => {}
        }
        if let Some((mailbox, lane)) = paced {
            let now = Instant::now();
            let disk = cost.shared + now.saturating_duration_since(began);
            mailbox.pace(lane).spend(cost.own, disk, now);
            if is_unkept {
                mailbox.pace(lane).count(now);
            }
        }
        // A caller that heard of progress before hears no more of it.
        if let Some((caller, id)) = over
            && let Some(group) = group_of(&caller)
        {
            self.daemon.outbox.clear_progress(&group, &id);
        }
    }
}
