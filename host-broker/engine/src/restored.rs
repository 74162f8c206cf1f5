//! The first event of a restored ledger: everything ends that permits something, or that may have been used since the
//! backup.
//!
//! Grants and tokens end, open approval requests are cancelled, and effects that were under way have no known outcome. Each
//! known session counts as exposed to everything, because the ledger does not know what its agent has read since.

use crate::broker::Broker;
use model::Exposure;
use model::approval::{Approval, ApprovalState};
use serde_json::{Map, Value, json};
use shared::{Action, Group, Provider, Timestamp};
use std::collections::BTreeSet;
use store::ledger::chain::{Draft, RowKind};
use store::state::{approvals, grants, intents, replies, restore, sessions};
use store::{StoreError, Transaction};

/// A ledger was restored from a backup.
#[derive(Debug)]
pub struct Restored {
    /// The person who restored it, in the ledger's form.
    pub by: String,
    /// The time of the backup.
    pub taken_at: Timestamp,
    /// The groups of the configuration, whose sessions count as exposed.
    pub groups: BTreeSet<Group>,
}

/// The name under which the exposure of sessions shows the time between backup and restore.
const EXPOSED_BY: (&str, &str) = ("restored", "unknown");

impl Broker {
    /// Ends all access of a restored ledger. One row says so, and from which row on the ledger is a copy.
    ///
    /// # Errors
    /// [`StoreError`]; nothing ended.
    pub(crate) fn restored(&mut self, tx: &Transaction<'_>, restored: &Restored) -> Result<(), StoreError> {
        let by = restored.by.as_str();
        let from = tx.head();
        let live = |grant: &grants::Grant| grant.is_live(tx.now());
        let all = grants::list(tx.view(), None)?;
        let given: BTreeSet<String> =
            all.iter().filter(|grant| live(grant)).map(|grant| format!("{}/{}", grant.group, grant.provider)).collect();
        let open = approvals::open(tx.view(), None)?;
        let open: Vec<_> = open
            .into_iter()
            .filter(|approval| matches!(approval.state, ApprovalState::Waiting | ApprovalState::Approved))
            .collect();
        let under_way = intents::left_open(tx)?.len();
        // INVARIANT: this row has the next number; `append` gives it.
        let row = from.seq.saturating_add(1);
        let others = restore::end_access(tx, by, row)?;
        let mut ended: Map<String, Value> =
            others.into_iter().map(|(name, count)| (name.to_owned(), json!(count))).collect();
        ended.insert("grants".to_owned(), json!(given.len()));
        ended.insert("approvals".to_owned(), json!(open.len()));
        ended.insert("open_intents".to_owned(), json!(under_way));
        let asked: Vec<String> = open.iter().map(Approval::reference).collect();
        let evidence = tx.append(&Draft {
            summary: Some(format!("restored from a backup of {}; it ends at row {}", restored.taken_at, from.seq)),
            body: json!({
                "from": { "seq": from.seq, "event_hash": from.hash },
                "taken_at": restored.taken_at,
                "ended": ended,
                "grants": given,
                "approvals": asked,
            }),
            ..Draft::new(RowKind::Restored, by)
        })?;
        for (group, provider) in all.iter().map(|grant| (&grant.group, &grant.provider)).collect::<BTreeSet<_>>() {
            grants::revoke(tx, group, provider, by)?;
        }
        for approval in &open {
            // The answer to one can end another, such as a call of a plan.
            let now = approvals::numbered(tx.view(), approval.id)?;
            if let Some(now) = now.filter(|now| matches!(now.state, ApprovalState::Waiting | ApprovalState::Approved)) {
                self.resolve(tx, &now, ApprovalState::Cancelled, by)?;
            }
        }
        self.close_left_open(tx, "the ledger was restored from a backup")?;
        restore::forget_probes(tx)?;
        // Its callers are gone. They can ask for a kept reply again.
        replies::mark_delivered(tx, tx.head().seq)?;
        expose(tx, restored, evidence.seq)?;
        self.follow_ups.stale_snapshots.extend(restored.groups.iter().cloned());
        Ok(())
    }
}

/// Counts every known session as exposed to everything.
fn expose(tx: &Transaction<'_>, restored: &Restored, row: i64) -> Result<(), StoreError> {
    let bad = || StoreError::Stored { what: "session" };
    let provider: Provider = EXPOSED_BY.0.parse().map_err(|_bad| bad())?;
    let action: Action = EXPOSED_BY.1.parse().map_err(|_bad| bad())?;
    let configured = restored.groups.iter().map(|group| format!("group:{group}"));
    let known: BTreeSet<String> = restore::sessions(tx.view())?.into_iter().chain(configured).collect();
    let all = Exposure { untrusted: true, sensitive: true, egress: true };
    known.iter().try_for_each(|session| sessions::expose(tx, session, (&provider, &action), all, row))
}
