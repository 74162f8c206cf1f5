//! Requests over sockets: those that are dropped, those that are repeated over another connection, and those that no
//! reply can name.

use super::{Loop, group_of, late};
use crate::daemon::Daemon;
use engine::event::Event;
use engine::replies::says_no_more_than_a_refusal;
use engine::request::Parsed;
use kernel::call::{FrameOrigin, Header, Origin};
use shared::RequestId;
use std::sync::Arc;
use store::ledger::segments;
use store::state::intents;
use store::state::replies;
use tokio::time::Instant;

/// The caller and the id of the request that an event is about, if a caller waits.
pub(super) fn key_of(event: &Event) -> Option<(Arc<str>, RequestId)> {
    if let Event::Finished(filtered) = event {
        return filtered.call().map(|call| call.header.key());
    }
    if let Event::Arrived(Parsed::InvalidDocument(invalid)) = event {
        return invalid.request_id.clone().map(|id| (Arc::clone(&invalid.caller_key), id));
    }
    event.header().map(Header::key)
}

impl Loop {
    /// Drops the requests whose sender has hung up, or has withdrawn them.
    pub(super) fn still_wanted(&self, mut events: Vec<Event>) -> Vec<Event> {
        events.retain_mut(|event| {
            let Event::Arrived(parsed) = event else { return true };
            let id = parsed.request_id().cloned();
            let Origin::Frame(frame) = parsed.origin_mut() else { return true };
            let was_dropped = !frame.is_admitted && !self.daemon.outbox.admits(frame, id.as_ref());
            frame.is_admitted = !was_dropped;
            if was_dropped && let Some(mailbox) = self.daemon.outbox.mailbox(&frame.group) {
                // It is paid for like a document without a row.
                mailbox.pace(frame.lane).count(Instant::now());
            }
            !was_dropped
        });
        events
    }

    /// A request over a socket gets no reply of its own: it waits for the reply to the one that it repeats. That one can
    /// be over by now, so there is a look after the batch.
    pub(super) fn repeats(&mut self, frame: &FrameOrigin, key: Option<(Arc<str>, RequestId)>) {
        if let Some(key) = key {
            self.daemon.outbox.repeats(frame, &key.1);
            self.repeated.push(key);
        }
    }

    /// Returns whether the reply to this request goes to other connections, too: those over which it was repeated, once
    /// it is over.
    pub(super) fn ends_repeats(&mut self, key: &(Arc<str>, RequestId)) -> bool {
        if !self.is_repeated(key) {
            return false;
        }
        self.repeated.push(key.clone());
        !self.is_under_way(key)
    }

    /// Sends the stored reply to those who have repeated a request that is over, and did not get it when it ended.
    pub(super) fn answer_repeats(&mut self) {
        for key in std::mem::take(&mut self.repeated) {
            if !self.is_repeated(&key) || self.is_under_way(&key) {
                continue;
            }
            let Some(group) = group_of(&key.0) else { continue };
            let Daemon { outbox, broker, ledger, clock, .. } = &self.daemon;
            let (view, now) = (ledger.view(), (clock.now(), ledger.steady()));
            let stored = replies::stored(view, now.1, &key.0, &key.1).unwrap_or_default();
            let stored = stored.filter(|stored| late::may_leave(broker, (view, now), (&group, &key.1), stored));
            outbox.answer_repeats(&group, &key.1, stored.as_deref());
        }
    }

    /// Returns whether the reply to this request is awaited over other connections, too.
    fn is_repeated(&self, (caller, id): &(Arc<str>, RequestId)) -> bool {
        let mailbox = group_of(caller).and_then(|group| self.daemon.outbox.mailbox(&group));
        mailbox.is_some_and(|mailbox| mailbox.socket.has_repeat(id))
    }

    /// Returns whether an effect of a request under this id may have happened, or may still happen. Where that is
    /// unknown, it may.
    pub(super) fn may_have_happened(&self, key: &(Arc<str>, RequestId)) -> bool {
        let (view, steady) = (self.daemon.ledger.view(), self.daemon.ledger.steady());
        let says_more = |stored: Option<Box<[u8]>>| stored.is_some_and(|stored| !says_no_more_than_a_refusal(&stored));
        self.is_under_way(key)
            || segments::is_burnt(view, &key.0, key.1.as_str()).unwrap_or(true)
            || replies::stored(view, steady, &key.0, &key.1).map_or(true, says_more)
    }

    /// Returns whether the request under this id is under way: it has an intent, a person is asked, or it waits for
    /// another one. Where that is unknown, it counts as under way.
    pub(super) fn is_under_way(&self, key: &(Arc<str>, RequestId)) -> bool {
        let Daemon { broker, ledger, .. } = &self.daemon;
        broker.is_waiting(key) || intents::is_open(ledger.view(), &key.0, &key.1).unwrap_or(true)
    }

    /// Ends the connection that brought a document without an id, which no reply can name.
    pub(super) fn end_unanswerable_connection(&self, event: &Event) {
        if let Event::Arrived(Parsed::InvalidDocument(invalid)) = event
            && let (None, Origin::Frame(frame)) = (&invalid.request_id, &invalid.origin)
        {
            self.daemon.outbox.goodbye(frame, invalid.code, &invalid.reason);
        }
    }
}
