//! The rules of a chain, checked row by row.

use crate::ledger::chain::{Head, Row, RowKind};
use crate::ledger::checkpoint_verifier::{CheckpointVerifier, Fault};

/// The first thing wrong with a chain.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Break {
    /// A number is missing or occurs twice.
    #[error("row {found} stands where row {expected} should be")]
    Gap {
        /// The number that should follow.
        expected: i64,
        /// The number that is there.
        found: i64,
    },
    /// A row does not name the row before it.
    #[error("row {seq} does not follow from the row before it")]
    Link {
        /// The row.
        seq: i64,
    },
    /// A row was changed.
    #[error("row {seq} does not have the hash of its content")]
    Content {
        /// The row.
        seq: i64,
    },
    /// A row is earlier than the row before it, and no person accepted that.
    #[error("row {seq} is earlier than the row before it")]
    Time {
        /// The row.
        seq: i64,
    },
    /// An outcome of no intent, or of one that has an outcome.
    #[error("row {seq} closes no open intent")]
    Outcome {
        /// The row.
        seq: i64,
    },
    /// A checkpoint is invalid.
    #[error("row {seq} is {fault}")]
    Checkpoint {
        /// The row.
        seq: i64,
        /// The fault.
        fault: Fault,
    },
    /// The chain ends before its acknowledged end.
    #[error("the ledger ends at row {found}, but row {expected} was acknowledged")]
    Short {
        /// The last number.
        found: i64,
        /// The number that was acknowledged.
        expected: i64,
    },
}

impl Break {
    /// Returns the number of the first wrong or missing row.
    pub fn row(&self) -> i64 {
        match self {
            Self::Gap { expected, .. } => *expected,
            Self::Link { seq }
            | Self::Content { seq }
            | Self::Time { seq }
            | Self::Outcome { seq }
            | Self::Checkpoint { seq, .. } => *seq,
            Self::Short { found, .. } => found.saturating_add(1),
        }
    }
}

/// Follows a chain row by row.
#[derive(Debug, Clone)]
pub struct Verifier {
    head: Head,
    // Intents up to here were not seen, so an outcome may close one of them.
    unseen: i64,
    open: std::collections::BTreeSet<i64>,
    checkpoints: CheckpointVerifier,
}

impl Verifier {
    /// Starts at the first row.
    pub fn new() -> Self {
        Self::after(Head::EMPTY)
    }

    /// Starts at the row after this one, which is trusted.
    pub fn after(head: Head) -> Self {
        let checkpoints = if head.seq == 0 { CheckpointVerifier::new() } else { CheckpointVerifier::later() };
        Self { head, unseen: head.seq, open: std::collections::BTreeSet::new(), checkpoints }
    }

    /// Verifies the next row.
    ///
    /// # Errors
    /// [`Break`], at the first row that is wrong.
    pub fn take(&mut self, row: &Row) -> Result<(), Break> {
        if row.seq != self.head.seq + 1 {
            return Err(Break::Gap { expected: self.head.seq + 1, found: row.seq });
        }
        if row.prev_hash != self.head.hash {
            return Err(Break::Link { seq: row.seq });
        }
        if row.hash() != row.event_hash {
            return Err(Break::Content { seq: row.seq });
        }
        if row.ts < self.head.ts && row.kind != RowKind::ClockAccepted.word() {
            return Err(Break::Time { seq: row.seq });
        }
        if row.kind == RowKind::Intended.word() {
            self.open.insert(row.seq);
        } else if RowKind::is_outcome(&row.kind) && !of(row).is_some_and(|intent| self.closes(intent)) {
            return Err(Break::Outcome { seq: row.seq });
        }
        self.checkpoints.take(row).map_err(|fault| Break::Checkpoint { seq: row.seq, fault })?;
        self.head = Head { seq: row.seq, hash: row.event_hash, ts: row.ts };
        Ok(())
    }

    fn closes(&mut self, intent: i64) -> bool {
        self.open.remove(&intent) || (1..=self.unseen).contains(&intent)
    }

    /// Returns the end of the chain so far.
    pub fn head(&self) -> Head {
        self.head
    }

    /// Returns the checkpoints so far.
    pub fn checkpoints(&self) -> &CheckpointVerifier {
        &self.checkpoints
    }

    /// Returns the intents that have no outcome so far.
    pub fn open(&self) -> impl Iterator<Item = i64> {
        self.open.iter().copied()
    }
}

impl Default for Verifier {
    fn default() -> Self {
        Self::new()
    }
}

/// Returns the intent that an outcome closes.
fn of(row: &Row) -> Option<i64> {
    serde_json::from_str::<serde_json::Value>(&row.body).ok()?.get("of")?.as_i64()
}
