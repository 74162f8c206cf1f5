//! The start of the loop: the first row, and the work that an earlier daemon has left.

use super::{Daemon, Loop, group_of, late};
use engine::event::Event;
use kernel::OneTimeValue;
use model::errors::chain;
use shared::limits::TIMEOUT_MAX;
use std::collections::BTreeMap;
use store::state::intents;
use store::state::replies;
use tokio::time::Instant;

impl Loop {
    /// Fails with the reason if the ledger cannot be read or written.
    pub(super) fn start(&mut self) -> Result<(), String> {
        self.remember_break()?;
        let before = self.daemon.ledger.head().seq;
        self.handle(vec![Event::Started]);
        if let Some(halted) = &self.halted {
            return Err(halted.to_string());
        }
        if self.daemon.ledger.head().seq == before {
            let health = self.daemon.health.borrow();
            return Err(health.cannot_write.as_ref().map_or_else(String::new, |cannot| cannot.error.clone()));
        }
        match replies::undelivered(self.daemon.ledger.view(), self.daemon.ledger.steady()) {
            Ok(replies) => {
                let mut values = self.undelivered_values();
                for (seq, caller, document) in replies {
                    self.redeliver(seq, &caller, (document, values.remove(&seq)));
                }
            }
            Err(error) => tracing::error!(error = chain(&error), "the undelivered replies cannot be read"),
        }
        self.ask_on();
        if self.daemon.ledger.has_ousted() {
            // The effects of the other daemon end with their timeouts. A probe before would not see them.
            self.probes_due = Some(Instant::now() + TIMEOUT_MAX);
        } else {
            self.probe_what_was_left();
        }
        self.write_all_snapshots();
        Ok(())
    }

    /// The one-time values of replies that may not have left.
    fn undelivered_values(&self) -> BTreeMap<i64, OneTimeValue> {
        match OneTimeValue::undelivered(self.daemon.ledger.view(), self.daemon.ledger.steady()) {
            Ok(values) => values.into_iter().collect(),
            Err(error) => {
                tracing::error!(
                    error = chain(&error),
                    "the one-time values cannot be read; their replies leave without them"
                );
                BTreeMap::new()
            }
        }
    }

    fn redeliver(&mut self, seq: i64, caller: &str, (document, value): (Vec<u8>, Option<OneTimeValue>)) {
        let group = group_of(caller);
        let reply: Option<shared::Reply> = serde_json::from_slice(&document).ok();
        let Daemon { broker, ledger, clock, .. } = &self.daemon;
        if let (Some(group), Some(reply)) = (group, reply)
            && late::may_leave(
                broker,
                (ledger.view(), (clock.now(), ledger.steady())),
                (&group, &reply.request_id),
                &document,
            )
        {
            self.daemon.outbox.redeliver(group, reply.request_id, (document, value), seq);
        }
    }

    /// Outcomes that a daemon that died left unknown, where the remote can be asked.
    pub(super) fn probe_what_was_left(&mut self) {
        let unknown = match intents::unknown_outcomes(self.daemon.ledger.view(), self.daemon.clock.now()) {
            Ok(unknown) => unknown,
            Err(error) => {
                tracing::error!(error = chain(&error), "the unknown outcomes cannot be read");
                return;
            }
        };
        let probes: Vec<Event> = unknown
            .into_iter()
            .filter_map(|outcome| self.daemon.broker.probe_again(outcome))
            .map(Event::Probe)
            .collect();
        self.handle(probes);
    }
}
