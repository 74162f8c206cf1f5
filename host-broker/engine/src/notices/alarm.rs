//! Notices of broken evidence. They belong to no approval request, so every channel gets one.

use crate::broker::Broker;
use config::channels::ChannelTable;
use kernel::{Message, NoticeDraft, PendingNotice};
use serde_json::json;
use store::ledger::broken;
use store::ledger::chain::{Draft, RowKind};
use store::ledger::health::Verification;
use store::{StoreError, Transaction};

impl Broker {
    /// Writes the result of the verification of all rows. If something is wrong, words a notice for each channel.
    pub(crate) fn alarm<'tx>(
        &self,
        tx: &Transaction<'tx>,
        found: &Verification,
    ) -> Result<Vec<PendingNotice<'tx>>, StoreError> {
        let (title, row, error, then) = match found {
            Verification::Broken { row, error } => {
                let then = "No call is admitted. Keep the ledger as it is, and compare it with a backup or an export.";
                ("EVIDENCE BROKEN", row, error, then)
            }
            Verification::Unfinished { row, error } => {
                ("EVIDENCE UNREADABLE", row, error, "Look at the error, and verify: host-broker evidence verify")
            }
            Verification::Whole { .. } => {
                return append(tx, found).map(|()| Vec::new());
            }
            Verification::Waiting | Verification::Running { .. } => return Ok(Vec::new()),
        };
        append(tx, found)?;
        let notice = |table: &ChannelTable| {
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
            kernel::announce(tx, NoticeDraft { id: 0, channel: table.name.clone(), message })
        };
        Ok(self.config.channels.iter().map(notice).collect())
    }
}

/// Appends the row with the result.
fn append(tx: &Transaction<'_>, found: &Verification) -> Result<(), StoreError> {
    broken::note(tx, found)?;
    tx.append(&Draft { body: json!({ "verification": found }), ..Draft::new(RowKind::Noted, "broker") })?;
    Ok(())
}
