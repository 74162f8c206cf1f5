//! The notices on their way, and the time of the next one.
//!
//! The ledger's database holds the due notices; memory holds only the ones on their way. Each channel carries one
//! notice at a time, on the runtime, so a channel that hangs delays only itself.

use super::{Loop, TICK};
use engine::event::Event;
use engine::notices::Attempt;
use futures_util::FutureExt as _;
use kernel::{OpenChannel, OutgoingNotice};
use model::errors::chain;
use shared::Timestamp;
use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;
use store::state::notices as stored;
use tokio::time::Instant;

/// The loop's state of notices. All of it can be lost.
pub(super) struct Notices {
    // The notice that is under way, by channel.
    sending: BTreeMap<String, i64>,
    // When to look next; it may be that nothing is due then.
    next: Option<Timestamp>,
    // The database could not be written: not before then.
    not_before: Option<Instant>,
    // Attempts that could not be recorded yet.
    unrecorded: Vec<Attempt>,
}

impl Default for Notices {
    fn default() -> Self {
        // A predecessor may have left some.
        let next = Some(Timestamp::from_millis(0));
        Self { sending: BTreeMap::new(), next, not_before: None, unrecorded: Vec::new() }
    }
}

impl Notices {
    /// Something may be due.
    pub(super) fn look(&mut self) {
        self.next = Some(Timestamp::from_millis(0));
    }

    /// Nothing is under way or to be recorded.
    pub(super) fn is_idle(&self) -> bool {
        self.sending.is_empty() && self.unrecorded.is_empty()
    }

    /// An attempt is recorded: its channel is free.
    pub(super) fn is_told(&mut self, attempt: &Attempt) {
        self.sending.remove(&attempt.channel);
        self.look();
    }

    /// An attempt could not be recorded. Its channel stays taken until it is, so that nothing is sent again.
    pub(super) fn tell_again(&mut self, attempt: Attempt) {
        self.unrecorded.push(attempt);
        self.hold();
    }

    /// The database could not be written or read: later again.
    pub(super) fn hold(&mut self) {
        self.not_before = Some(Instant::now() + TICK);
    }
}

impl Loop {
    /// When the loop must look at notices again, if that is known.
    pub(super) fn next_notice(&self) -> Option<Instant> {
        if self.stopping.is_some() || !self.daemon.notice_sender.has_channels() {
            return None;
        }
        let next = self.notices.next?;
        // A clock that stands still, or was set back, is looked at now and then, not all the time.
        let wait = next.since(self.daemon.clock.now()).max(Duration::from_millis(1));
        Some(self.notices.not_before.unwrap_or_else(Instant::now).max(Instant::now() + wait))
    }

    /// Sends the due notices, and records deliveries that could not be recorded before.
    pub(super) fn send_notices(&mut self, now: Timestamp) {
        if !self.daemon.notice_sender.has_channels() || self.notices.not_before.is_some_and(|at| Instant::now() < at) {
            return;
        }
        self.notices.not_before = None;
        let unrecorded = std::mem::take(&mut self.notices.unrecorded);
        self.handle(unrecorded.into_iter().map(|attempt| Event::NoticeDelivered(Box::new(attempt))).collect());
        if self.stopping.is_some() || self.notices.next.is_none_or(|at| at > now) {
            return;
        }
        // The remaining space is for outcomes.
        if !self.unsettled.is_empty() || self.daemon.ledger.is_using_reserve() {
            self.notices.hold();
            return;
        }
        if let Err(error) = self.send_due(now) {
            tracing::error!(error = chain(&error), "the notices cannot be read");
            self.notices.hold();
        }
    }

    fn send_due(&mut self, now: Timestamp) -> Result<(), store::StoreError> {
        let reader = self.daemon.ledger.view();
        let mut is_due = stored::has_events(reader)?;
        for channel in stored::waiting_channels(reader)? {
            let free = !self.notices.sending.contains_key(&channel);
            is_due |= free && stored::due(reader, &channel, now)?.is_some();
        }
        if is_due {
            self.handle(vec![Event::NoticesDue(Box::new(self.notices.sending.clone()))]);
        }
        self.notices.next = self.next_due()?;
        Ok(())
    }

    /// The row before each is durable: they leave.
    pub(super) fn set_out(&mut self, notices: Vec<OutgoingNotice>) {
        for outgoing in notices {
            self.notices.sending.insert(outgoing.channel().to_owned(), outgoing.id());
            let (notice_sender, reports) = (Arc::clone(&self.daemon.notice_sender), self.daemon.reports.clone());
            self.daemon.runtime.spawn(async move {
                // The loop hears of every end: a channel that does not come back is never used again.
                let fault = match AssertUnwindSafe(notice_sender.deliver(&outgoing)).catch_unwind().await {
                    Ok(carried) => carried.err(),
                    Err(_panic) => Some("the broker's own code failed; for the reason: host-broker logs".to_owned()),
                };
                let channel = outgoing.channel().to_owned();
                if let Some(reason) = &fault {
                    tracing::warn!(%channel, %reason, "a notice could not be sent");
                }
                reports.happened(Event::NoticeDelivered(Box::new(Attempt { id: outgoing.id(), channel, fault })));
            });
        }
    }

    /// The row that names the channels is durable: their answers are fetched.
    pub(super) fn receive(&mut self, channels: Vec<OpenChannel>) {
        let Some(receiver) = &self.daemon.receiver else { return };
        for channel in channels {
            self.receiving.spawn_on(receiver.clone().run(channel), &self.daemon.runtime);
        }
    }

    /// When the next notice of a free channel is due.
    fn next_due(&self) -> Result<Option<Timestamp>, store::StoreError> {
        let reader = self.daemon.ledger.view();
        if stored::has_events(reader)? {
            return Ok(Some(Timestamp::from_millis(0)));
        }
        let mut next = None;
        for channel in stored::waiting_channels(reader)? {
            if !self.notices.sending.contains_key(&channel) {
                next = next.into_iter().chain(stored::next_due(reader, &channel)?).min();
            }
        }
        Ok(next)
    }
}
