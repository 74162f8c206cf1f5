//! A notice that the evidence itself is not right. It is about no question, so every channel is told.

use super::{Message, Outgoing};
use crate::broker::Broker;
use serde_json::json;
use store::StoreError;
use store::Transaction;
use store::ledger::broken;
use store::ledger::chain::{Draft, Kind};
use store::ledger::health::Verification;

impl Broker {
    /// Writes the result of the verification of all rows. If something is wrong, words a notice for each channel.
    pub(crate) fn alarm(&mut self, tx: &Transaction<'_>, found: &Verification) -> Result<(), StoreError> {
        let (title, row, error, then) = match found {
            Verification::Broken { row, error } => {
                let then = "No call is admitted. Keep the ledger as it is, and compare it with a backup or an export.";
                ("EVIDENCE BROKEN", row, error, then)
            }
            Verification::Unfinished { row, error } => {
                ("EVIDENCE UNREADABLE", row, error, "Look at the error, and verify: host-broker evidence verify")
            }
            Verification::Whole { .. } => {
                return append(tx, found).map(drop);
            }
            Verification::Waiting | Verification::Running { .. } => return Ok(()),
        };
        let seq = append(tx, found)?;
        for table in &self.config.channels {
            let text = format!("[{title}] row {row}\n{error}\n{then}");
            let name = format!("evidence-{row}");
            let document = json!({
                "name": name, "channel": table.name, "event": "evidence", "verification": found, "text": text,
            });
            let message = Message {
                name,
                title: title.to_owned(),
                text,
                link: None,
                shows_card: false,
                is_question: true,
                document,
            };
            self.alarms.push((seq, Outgoing::new(0, &table.name, message)));
        }
        Ok(())
    }

    /// Takes the notices about the ledger itself, whose rows are durable.
    pub fn take_alarms(&mut self) -> Vec<Outgoing> {
        std::mem::take(&mut self.alarms).into_iter().map(|(_, outgoing)| outgoing).collect()
    }
}

/// Appends the row that says so, and returns its number.
fn append(tx: &Transaction<'_>, found: &Verification) -> Result<i64, StoreError> {
    broken::note(tx, found)?;
    let row = tx.append(&Draft { body: json!({ "verification": found }), ..Draft::new(Kind::Noted, "broker") })?;
    Ok(row.seq)
}
