//! A person accepts the machine's clock although the ledger's last row is later.
//!
//! Rows exist from a time when the clock was ahead. Grants, tokens and approvals of that time would last too long. They
//! expire at once, and a person creates them again.

use super::CommandResult;
use crate::broker::Broker;
use serde_json::{Map, Value, json};
use store::ledger::chain::RowKind;
use store::state::clock::end_later;
use store::{StoreError, Transaction};

impl Broker {
    pub(super) fn accept_clock(&mut self, tx: &Transaction<'_>) -> Result<CommandResult, StoreError> {
        let (last, now) = tx.accept_clock();
        if last <= now {
            let data = json!({ "last_row": last, "now": now, "behind_ms": 0 });
            return Ok(CommandResult::told(data, "The clock is not behind the last row; there is nothing to accept."));
        }
        let ended: Map<String, Value> =
            end_later(tx)?.into_iter().map(|(name, count)| (name.to_owned(), json!(count))).collect();
        self.follow_ups.approvals_changed = true;
        self.follow_ups.stale_snapshots.extend(self.config.groups.keys().cloned());
        let count: u64 = ended.values().filter_map(Value::as_u64).sum();
        let behind = last.since(now);
        let summary = format!(
            "The clock is accepted: it is {now}, {} s before the last row. Grants, tokens and approvals that were \
             given while the clock was ahead, and have an expiry, expire now: {count}.",
            behind.as_secs()
        );
        let body = json!({ "last_row": last, "behind_ms": last.millis() - now.millis(), "ended": ended });
        let mut data = body.clone();
        if let Some(members) = data.as_object_mut() {
            members.insert("now".to_owned(), json!(now));
        }
        Ok(CommandResult::done(RowKind::ClockAccepted, body, data, summary))
    }
}
