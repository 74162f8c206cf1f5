//! A person accepts the machine's clock although the ledger's last row is later.
//!
//! Rows exist from a time when the clock was ahead. Grants, tokens and approvals of that time would last too long. They
//! expire at once, and a person creates them again.

use super::Said;
use crate::broker::Broker;
use crate::ledger::chain::Kind;
use crate::ledger::transaction::Transaction;
use crate::ledger::{LedgerError, at};
use rusqlite::params;
use serde_json::{Map, Value, json};

/// What ends, by the name that people see.
const ENDED: [(&str, &str); 4] = [
    ("grants", "UPDATE grants SET expires_at = ?1 WHERE active AND granted_at > ?1 AND expires_at > ?1"),
    ("external_grants", "UPDATE flow_grants SET expires_at = ?1 WHERE issued_at > ?1 AND expires_at > ?1"),
    ("operator_tokens", "UPDATE operator_tokens SET expires_at = ?1 WHERE issued_at > ?1 AND expires_at > ?1"),
    ("approvals", "UPDATE approvals SET expires_at = ?1 WHERE state = 'waiting' AND asked_at > ?1 AND expires_at > ?1"),
];
/// Days that have not come yet count as today, with all that was used of them.
const QUOTAS: &str = "UPDATE quotas SET day = ?1 / 86400000 WHERE day > ?1 / 86400000";

impl Broker {
    pub(super) fn accept_clock(&mut self, tx: &Transaction<'_>) -> Result<Said, LedgerError> {
        let (last, now) = tx.accept_clock();
        if last <= now {
            let data = json!({ "last_row": last, "now": now, "behind_ms": 0 });
            return Ok(Said::told(data, "The clock is not behind the last row; there is nothing to accept."));
        }
        let change = |sql: &str| -> Result<usize, LedgerError> {
            let changed = tx.connection().prepare_cached(sql).and_then(|mut s| s.execute(params![now.millis()]));
            changed.map_err(at("end what was given while the clock was ahead"))
        };
        let mut ended = Map::new();
        for (name, sql) in ENDED {
            ended.insert(name.to_owned(), json!(change(sql)?));
        }
        change(QUOTAS)?;
        self.questions_changed = true;
        self.stale_snapshots.extend(self.config.groups.keys().cloned());
        let count: u64 = ended.values().filter_map(Value::as_u64).sum();
        let behind = last.since(now);
        let summary = format!(
            "The clock is accepted: it is {now}, {} s before the last row. {count} grant(s), token(s) and approval(s) \
             that were given while the clock was ahead, and have an expiry, expire now.",
            behind.as_secs()
        );
        let body = json!({ "last_row": last, "behind_ms": last.millis() - now.millis(), "ended": ended });
        let mut data = body.clone();
        if let Some(members) = data.as_object_mut() {
            members.insert("now".to_owned(), json!(now));
        }
        Ok(Said::done(Kind::ClockAccepted, body, data, summary))
    }
}
