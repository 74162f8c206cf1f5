//! Requests over sockets: those that are dropped, those that are repeated over another connection, and those that no
//! reply can name.

use super::{Loop, group_of};
use crate::daemon::Daemon;
use engine::event::Event;
use engine::replies::says_no_more_than_a_refusal;
use engine::request::Parsed;
use kernel::Committed;
use kernel::call::{Header, Origin};
use shared::{Group, RequestId};
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

    /// Notes the requests of a batch that get no reply of their own, because they repeat another one. Returns their keys.
    ///
    /// ORDER: this comes before any reply of the batch leaves, because the batch can also end the repeated request.
    pub(super) fn note_repeats(&self, committed: &[Committed<Event>]) -> Vec<(Arc<str>, RequestId)> {
        let mut keys = Vec::new();
        for event in committed {
            if let Committed::Close(event @ Event::Arrived(parsed), None) = event
                && let (Origin::Frame(frame), Some(key)) = (parsed.origin(), key_of(event))
            {
                self.daemon.outbox.note_repeat(frame, &key.1);
                keys.push(key);
            }
        }
        keys
    }

    /// Forgets the repeats for which no reply comes.
    pub(super) fn forget_repeats(&self, keys: Vec<(Arc<str>, RequestId)>) {
        for key in keys {
            if let Some(group) = group_of(&key.0).filter(|_| !self.is_under_way(&key) && !self.is_pending(&key)) {
                self.daemon.outbox.forget_repeats(&group, &key.1);
            }
        }
    }

    /// Returns the group whose connections get the reply to this request, too: those over which it was repeated, once it
    /// is over.
    pub(super) fn repeated_by(&self, key: &(Arc<str>, RequestId)) -> Option<Group> {
        let group = group_of(&key.0)?;
        let is_repeated = self.daemon.outbox.mailbox(&group)?.socket.has_repeat(&key.1);
        (is_repeated && !self.is_under_way(key)).then_some(group)
    }

    /// Returns whether an event about this request waits for the next batch.
    fn is_pending(&self, key: &(Arc<str>, RequestId)) -> bool {
        self.pending.iter().any(|event| key_of(event).as_ref() == Some(key))
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
