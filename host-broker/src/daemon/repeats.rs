//! Requests over sockets: those that are dropped, those that are repeated over another connection, and those that no
//! reply can name.

use super::{Loop, group_of};
use crate::daemon::Daemon;
use engine::event::Event;
use engine::request::Parsed;
use kernel::call::{FrameOrigin, Header, Origin};
use shared::RequestId;
use std::sync::Arc;
use store::state::intents;
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

    /// A request over a socket gets no reply of its own. One that repeats a request under way waits for its reply.
    pub(super) fn unanswered(&self, frame: &FrameOrigin, key: Option<(Arc<str>, RequestId)>) {
        if let Some(key) = key {
            self.daemon.outbox.unanswered(frame, &key.1, self.is_under_way(&key));
        }
    }

    /// Returns whether the reply to this request is awaited over other connections, too.
    pub(super) fn is_repeated(&self, (caller, id): &(Arc<str>, RequestId)) -> bool {
        let mailbox = group_of(caller).and_then(|group| self.daemon.outbox.mailbox(&group));
        mailbox.is_some_and(|mailbox| mailbox.socket.has_repeat(id))
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
