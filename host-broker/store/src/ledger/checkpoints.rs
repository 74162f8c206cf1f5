//! The signed state of a ledger: the last checkpoint, and the tree over all rows.
//!
//! The writer has it in memory. The table `checkpoint` is a copy for the next start. It is used only if the row of the
//! checkpoint confirms it.

use crate::ledger::broken;
use crate::ledger::chain::{Draft, Row, RowKind};
use crate::ledger::checkpoint::{self, Checkpoint, PublicKey};
use crate::ledger::checkpoint_verifier::{CheckpointVerifier, Fault};
use crate::ledger::tree::Tree;
use crate::ledger::verifier::Break;
use crate::ledger::{export, segments};
use crate::{StoreError, Transaction, View, at};
use model::Signer;
use rusqlite::{OptionalExtension as _, params};
use serde_json::{Map, Value, json};
use shared::Timestamp;
use shared::digest::Digest;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// The age of a row without a checkpoint above which checkpoints count as stopped. The daemon signs one each minute, as
/// long as rows are written.
pub const OVERDUE: Duration = Duration::from_mins(10);

/// A checkpoint in the ledger.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Last {
    /// The number of its row.
    pub seq: i64,
    /// The checkpoint.
    pub checkpoint: Checkpoint,
    /// The key that signed it.
    pub key: PublicKey,
}

/// The signed state of a ledger.
#[derive(Debug, Clone, Default)]
pub struct Signed {
    tree: Tree,
    last: Option<Arc<Last>>,
}

impl Signed {
    /// Returns the state that a verification of all rows has found. `None` if it did not begin with the first row.
    pub fn verified(checkpoints: &CheckpointVerifier) -> Option<Self> {
        let key = checkpoints.keys().last().map(|change| change.key.clone());
        let last = checkpoints.latest().cloned().zip(key);
        let last = last.map(|((seq, checkpoint), key)| Arc::new(Last { seq, checkpoint, key }));
        checkpoints.tree().map(|tree| Self { tree: tree.clone(), last })
    }

    /// Returns the last checkpoint.
    pub fn last(&self) -> Option<&Last> {
        self.last.as_deref()
    }

    /// Returns the number of rows since the last checkpoint.
    pub fn unsigned(&self) -> i64 {
        self.tree.size() - self.last().map_or(0, |last| last.seq)
    }

    pub(crate) fn push(&mut self, event_hash: &Digest) {
        self.tree.push(event_hash);
    }
}

/// The last checkpoint that this broker has signed, which is stored outside the database, and its keys.
#[derive(Debug, Clone)]
pub struct Kept {
    /// The checkpoint.
    pub checkpoint: Checkpoint,
    /// The public keys of the broker.
    pub keys: Vec<[u8; 32]>,
}

impl Kept {
    /// Returns the contradiction between the kept checkpoint and this state, if there is one. Only the broker's keys sign,
    /// and they never sign two histories. So a later checkpoint of these keys continues the kept one.
    pub fn contradiction(&self, signed: &Signed) -> Option<Break> {
        let kept = &self.checkpoint;
        let fault = |seq, fault| Some(Break::Checkpoint { seq, fault });
        let Some(last) = signed.last() else { return fault(kept.size().saturating_add(1), Fault::Absent) };
        if !self.keys.iter().any(|key| last.key.is_of(key)) {
            return fault(last.seq, Fault::Signature);
        }
        if last.checkpoint.size() < kept.size() {
            return fault(kept.size().saturating_add(1), Fault::Absent);
        }
        let is_other = last.checkpoint.size() == kept.size() && last.checkpoint.root() != kept.root();
        if is_other { fault(last.seq, Fault::Root) } else { None }
    }

    /// Returns the contradiction between the kept checkpoint and the tree over these rows, if it has the same size.
    pub(crate) fn differs(&self, tree: Option<&Tree>) -> Option<Break> {
        let (kept, tree) = (&self.checkpoint, tree?);
        let is_other = tree.size() == kept.size() && tree.root() != kept.root();
        is_other.then(|| Break::Checkpoint { seq: kept.size().saturating_add(1), fault: Fault::Root })
    }
}

/// Returns the last checkpoint; `None` if there is none, or if its row does not confirm the table.
///
/// # Errors
/// [`StoreError`] if it cannot be read.
pub fn last(home: &Path, view: &View) -> Result<Option<Last>, StoreError> {
    Ok(stored(home, view)?.and_then(|signed| signed.last).map(Arc::unwrap_or_clone))
}

/// Returns the signed state with all rows up to this one. It continues the larger of the stored state and `known`. `None`
/// if there is neither, or if a row since then cannot be read. Then no checkpoint is written until all rows are verified.
pub(crate) fn continued(home: &Path, view: &View, known: Option<Signed>, head: i64) -> Option<Signed> {
    let stored = stored(home, view).unwrap_or_else(|error| {
        tracing::error!(error = model::errors::chain(&error), "the last checkpoint cannot be read");
        None
    });
    let begun = [stored, known].into_iter().flatten().filter(|signed| signed.tree.size() <= head);
    let mut signed = begun.max_by_key(|signed| signed.tree.size())?;
    let read = segments::between(home, view, signed.tree.size().saturating_add(1), head, |row| {
        signed.push(&row.event_hash);
        Ok::<(), StoreError>(())
    });
    if read.is_ok() && signed.tree.size() == head {
        return Some(signed);
    }
    tracing::error!(error = ?read.err(), "no checkpoint is signed until all rows are verified: a row cannot be read");
    None
}

/// The last checkpoint in the table: its row, the tree before it, and the key that signed it.
struct StoredCheckpoint {
    seq: i64,
    peaks: Vec<u8>,
    key: String,
}

impl StoredCheckpoint {
    fn read(view: &View) -> Result<Option<Self>, StoreError> {
        view.prepare_cached("SELECT seq, peaks, key FROM checkpoint WHERE one = 1")
            .and_then(|mut s| {
                s.query_row([], |row| Ok(Self { seq: row.get(0)?, peaks: row.get(1)?, key: row.get(2)? })).optional()
            })
            .map_err(at("look for the last checkpoint"))
    }

    /// Returns the state of the table, if the row that it names confirms it.
    fn confirmed(&self, row: Option<&Row>) -> Option<Signed> {
        let (seq, row) = (self.seq, row?);
        let checkpoint = checkpoint::read(row)?;
        let mut tree = Tree::stored(seq.checked_sub(1)?, &self.peaks)?;
        let key: PublicKey = self.key.parse().ok()?;
        let is_same = (checkpoint.size(), checkpoint.root()) == (tree.size(), tree.root());
        if !is_same || !checkpoint.is_signed_by(&key) {
            return None;
        }
        tree.push(&row.event_hash);
        Some(Signed { tree, last: Some(Arc::new(Last { seq, checkpoint, key })) })
    }
}

/// Returns the state of the table, if the row that it names confirms it.
fn stored(home: &Path, view: &View) -> Result<Option<Signed>, StoreError> {
    let Some(stored) = StoredCheckpoint::read(view)? else { return Ok(None) };
    let mut rows: Vec<Row> = Vec::new();
    segments::between(home, view, stored.seq, stored.seq, |row| {
        rows.push(row);
        Ok::<(), StoreError>(())
    })?;
    let confirmed = stored.confirmed(rows.first());
    if confirmed.is_none() {
        tracing::error!(row = stored.seq, "the table of checkpoints is not the one of its row, so it is not used");
    }
    Ok(confirmed)
}

/// The rows that the last checkpoint covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Covered {
    /// The number of these rows. The next row is the checkpoint.
    pub size: i64,
    /// The time of the checkpoint. `None` if its row has moved into a segment: it is more than a day old then.
    pub at: Option<Timestamp>,
}

/// The rows that no checkpoint covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Uncovered {
    /// The number of these rows.
    pub rows: i64,
    /// The time of the oldest. If it has moved into a segment, it is older: this is the time of the last row there.
    pub since: Timestamp,
}

/// The coverage of a ledger by checkpoints.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Coverage {
    /// The rows before the last checkpoint. `None` if there is no checkpoint, or if its row does not confirm the table.
    pub covered: Option<Covered>,
    /// The rows after it. `None` if there are none.
    pub uncovered: Option<Uncovered>,
}

impl Coverage {
    /// Returns the time since the oldest uncovered row was written; zero if there is none.
    pub fn lag(&self, now: Timestamp) -> Duration {
        self.uncovered.map_or(Duration::ZERO, |uncovered| now.since(uncovered.since))
    }

    /// Returns whether a row is so old that checkpoints have stopped.
    pub fn is_overdue(&self, now: Timestamp) -> bool {
        self.lag(now) > OVERDUE
    }
}

/// Returns the coverage. It reads the database only, so a missing segment does not hide rows without a checkpoint.
///
/// # Errors
/// [`StoreError`] if it cannot be read.
pub fn coverage(view: &View) -> Result<Coverage, StoreError> {
    // ORDER: a checkpoint that is written between the reads covers this row.
    let head = export::last(view)?.map_or(0, |row| row.seq);
    let rotated = segments::end(view)?;
    let covered = covered(view, rotated.seq)?;
    let last = covered.map_or(0, |covered| covered.size.saturating_add(1));
    let rows = head.saturating_sub(last);
    if rows <= 0 {
        return Ok(Coverage { covered, uncovered: None });
    }
    let (found, error) = export::some(view, last.saturating_add(1), head, 1);
    let oldest = match (found.first(), error) {
        (Some(row), _) => row.time(),
        (None, Some(error)) => return Err(error),
        (None, None) => return Err(StoreError::Stored { what: "row" }),
    };
    let is_rotated = last < rotated.seq;
    let since = if is_rotated { oldest.min(Timestamp::from_millis(rotated.ts)) } else { oldest };
    Ok(Coverage { covered, uncovered: Some(Uncovered { rows, since }) })
}

/// Returns the rows before the last checkpoint. `rotated` is the last row that is in a segment.
fn covered(view: &View, rotated: i64) -> Result<Option<Covered>, StoreError> {
    let Some(stored) = StoredCheckpoint::read(view)? else { return Ok(None) };
    let row = export::row(view, stored.seq)?;
    let size = stored.seq.saturating_sub(1);
    if row.is_none() && (1..=rotated).contains(&stored.seq) {
        return Ok(Some(Covered { size, at: None }));
    }
    let at = row.as_ref().map(Row::time);
    Ok(stored.confirmed(row.as_ref()).map(|_confirmed| Covered { size, at }))
}

/// Appends a checkpoint of all rows so far, which is signed with this key. If the last one was signed with the earlier
/// key, that key endorses this one. A broken ledger gets no checkpoint, and neither does one whose tree is not known.
///
/// # Errors
/// [`StoreError`]; nothing was written.
pub fn append<K: Signer>(tx: &Transaction<'_>, key: &K, earlier: Option<&K>) -> Result<(), StoreError> {
    const STORE: &str = "INSERT OR REPLACE INTO checkpoint VALUES (1, ?1, ?2, ?3)";
    let Some(Signed { tree, last }) = tx.signed() else { return Ok(()) };
    if broken::stored(tx.view())?.is_some() {
        return Ok(());
    }
    let origin = last.as_ref().map_or_else(|| PublicKey::new_origin(key), |last| last.key.origin().to_owned());
    let public = PublicKey::of(&origin, key);
    let checkpoint = Checkpoint::sign(&origin, &tree, key);
    let mut body = Map::from_iter([("note".to_owned(), json!(checkpoint.to_string()))]);
    if last.as_ref().is_none_or(|last| last.key != public) {
        body.insert("key".to_owned(), json!(public.to_string()));
        let has_signed = |earlier: &&K| last.as_ref().is_some_and(|last| last.key.is_of(&earlier.public_key()));
        if let Some(earlier) = earlier.filter(has_signed) {
            body.insert("endorsement".to_owned(), json!(checkpoint.endorse(&public, earlier)));
        }
    }
    let body = Value::Object(body);
    let row = tx.append(&Draft { body, ..Draft::new(RowKind::Checkpointed, "broker") })?;
    tx.view()
        .prepare_cached(STORE)
        .and_then(|mut s| s.execute(params![row.seq, tree.peaks(), public.to_string()]))
        .map_err(at("store the tree of a checkpoint"))?;
    tx.has_signed(Last { seq: row.seq, checkpoint, key: public });
    Ok(())
}

impl Transaction<'_> {
    fn has_signed(&self, last: Last) {
        if let Some(signed) = self.signed.borrow_mut().as_mut() {
            signed.last = Some(Arc::new(last));
        }
    }
}
