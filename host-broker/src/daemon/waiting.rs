//! Events that wait for another request of the same caller: until that is over, or their own time is.

use super::Loop;
use engine::broker::WaitingRequest;
use engine::event::Event;
use engine::request::Parsed;
use shared::RequestId;
use std::sync::Arc;
use tokio::time::Instant;

impl Loop {
    /// A request is over: events that waited for it are handled again, because now there is a reply to copy.
    pub(super) fn over(&mut self, key: &(Arc<str>, RequestId)) {
        self.daemon.broker.forget_cancelled(key);
        self.wake(key);
    }

    /// Events that wait for this are handled again.
    pub(super) fn wake(&mut self, key: &(Arc<str>, RequestId)) {
        let woken = self.waiting.remove(key).unwrap_or_default();
        self.fewer_waiting(&key.0, woken.len());
        for (_, event) in woken {
            self.unpark(&event);
            self.pending.push_back(event);
        }
    }

    fn fewer_waiting(&mut self, caller: &Arc<str>, number: usize) {
        self.daemon.broker.fewer_waiting(caller, number);
    }

    pub(super) fn park(&mut self, event: Event, of: RequestId) {
        // Nothing else ever waits.
        let Some(header) = event.header() else { return };
        let (key, until) = ((Arc::clone(&header.caller_key), of), header.reply_deadline());
        let waiting = WaitingRequest {
            of: key.1.clone(),
            person: header.behalf.key(),
            request_digest: header.request_digest,
            is_call: !matches!(event, Event::Arrived(Parsed::CommandRequest(_))),
        };
        self.daemon.broker.begin_waiting(header.key(), waiting);
        self.waiting.entry(key).or_default().push((until, event));
    }

    /// A plan goes on, or is over.
    pub(super) fn end_reading(&mut self, key: &(Arc<str>, RequestId)) {
        self.daemon.broker.forget_cancelled(key);
        if self.daemon.broker.is_waiting(key) {
            self.daemon.broker.end_waiting(key);
            self.fewer_waiting(&key.0, 1);
        }
    }

    /// The same, if the event is such a plan.
    pub(super) fn end_reading_of(&mut self, event: &Event) {
        if let Event::Arrived(Parsed::CommandRequest(plan)) = event
            && plan.is_being_read()
        {
            self.end_reading(&plan.header.key());
        }
    }

    fn unpark(&mut self, event: &Event) {
        if let Some(header) = event.header() {
            self.daemon.broker.end_waiting(&header.key());
        }
    }

    /// Events whose time to wait is over are handled again; the broker sees that it is.
    pub(super) fn release_late(&mut self) {
        let now = Instant::now();
        let mut late = Vec::new();
        let mut released = Vec::new();
        for ((caller, _), waiters) in &mut self.waiting {
            let (over, rest): (Vec<_>, Vec<_>) = waiters.drain(..).partition(|(until, _)| *until <= now);
            *waiters = rest;
            released.push((Arc::clone(caller), over.len()));
            late.extend(over.into_iter().map(|(_, event)| event));
        }
        self.waiting.retain(|_, waiters| !waiters.is_empty());
        for (caller, number) in released {
            self.fewer_waiting(&caller, number);
        }
        for event in &late {
            self.unpark(event);
        }
        if !late.is_empty() {
            self.handle(late);
        }
    }
}
