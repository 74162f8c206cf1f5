//! The transaction in which a batch reads and writes.

use crate::ledger::chain::{Draft, Head, Row};
use crate::ledger::checkpoints::Signed;
use crate::ledger::minor::Minor;
use crate::{StoreError, View, at};
use rusqlite::params;
use shared::Timestamp;
use shared::reply::Evidence;
use std::cell::{Cell, RefCell};
use std::marker::PhantomData;
use std::ops::Deref;

/// Proof that a row was appended to this ledger. [`Evidence`] is its form in a reply, which is no proof.
///
/// Only [`Transaction::append`] makes one. A receipt can outlive a rollback: only the counts of minor rows keep one so
/// long, and they are forgotten with the rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Receipt(Evidence);

impl Deref for Receipt {
    type Target = Evidence;

    fn deref(&self) -> &Evidence {
        &self.0
    }
}

/// The type by which a lifetime names one transaction. It is invariant: no compiler shortens or extends it, so a proof
/// of one transaction has another type than that of every other one.
pub type Brand<'tx> = fn(&'tx ()) -> &'tx ();

/// One open transaction. Only [`Store::transaction`](crate::Store::transaction) makes one. Its lifetime is a [`Brand`].
#[derive(Debug)]
pub struct Transaction<'c> {
    brand: PhantomData<Brand<'c>>,
    view: &'c View,
    head: Cell<Head>,
    pub(crate) signed: RefCell<Option<Signed>>,
    clock: Timestamp,
    now: Cell<Timestamp>,
    steady: Timestamp,
    policy_version: &'c str,
    pub(crate) minor: &'c RefCell<Minor>,
    // The bytes of its rows and stored bodies.
    written: Cell<usize>,
}

impl<'c> Transaction<'c> {
    pub(crate) fn new(
        view: &'c View,
        (head, signed): (Head, Option<&Signed>),
        (clock, steady): (Timestamp, Timestamp),
        policy_version: &'c str,
        minor: &'c RefCell<Minor>,
    ) -> Self {
        // Rows never go back in time, even when the machine's clock does.
        let now = Cell::new(clock.max(Timestamp::from_millis(head.ts)));
        let (head, signed, written) = (Cell::new(head), RefCell::new(signed.cloned()), Cell::new(0));
        Self { brand: PhantomData, view, head, signed, clock, now, steady, policy_version, minor, written }
    }

    /// Returns how many bytes of rows and stored bodies are written so far.
    pub fn written(&self) -> usize {
        self.written.get()
    }

    pub(crate) fn count(&self, bytes: usize) {
        self.written.set(self.written.get().saturating_add(bytes));
    }

    /// Returns the transaction's time, which every row and every decision in it has.
    pub fn now(&self) -> Timestamp {
        self.now.get()
    }

    /// Returns the time of the steady clock. It dates every record that permits something once it is forgotten.
    pub fn steady(&self) -> Timestamp {
        self.steady
    }

    /// Accepts the machine's clock although the last row is later. Returns the time of the last row and the machine's.
    /// If the machine's is earlier, the next row must be of the kind
    /// [`RowKind::ClockAccepted`](crate::ledger::chain::RowKind::ClockAccepted).
    pub fn accept_clock(&self) -> (Timestamp, Timestamp) {
        let last = Timestamp::from_millis(self.head.get().ts);
        self.now.set(self.clock);
        (last, self.clock)
    }

    /// Returns the reads of this transaction. They see what it has written.
    pub fn view(&self) -> &'c View {
        self.view
    }

    /// Returns the end of the chain, with the rows of this transaction.
    pub fn head(&self) -> Head {
        self.head.get()
    }

    /// Returns the signed state, with the rows of this transaction; `None` if it is not known yet.
    pub fn signed(&self) -> Option<Signed> {
        self.signed.borrow().clone()
    }

    /// Appends a row.
    ///
    /// # Errors
    /// [`StoreError`]; nothing was written.
    pub fn append(&self, draft: &Draft<'_>) -> Result<Receipt, StoreError> {
        let head = self.head.get();
        let mut row = Row {
            seq: head.seq + 1,
            ts: self.now().millis(),
            kind: draft.kind.word().to_owned(),
            caller: draft.caller.to_owned(),
            person: draft.person.clone(),
            request_id: draft.request_id.map(ToString::to_string),
            provider: draft.provider.map(ToString::to_string),
            action: draft.action.map(ToString::to_string),
            level: draft.level.map(|level| i64::from(level.number())),
            params_digest: draft.params_digest,
            summary: draft.summary.clone(),
            reason_code: draft.reason_code.map(|code| code.word().to_owned()),
            result_summary: draft.result_summary.clone(),
            result_digest: draft.result_digest,
            task_id: draft.task_id.map(ToString::to_string),
            approval: draft.approval.clone(),
            policy_version: self.policy_version.to_owned(),
            duration_ms: draft.duration_ms,
            body: String::from_utf8(shared::json::canonical(&draft.body)).unwrap_or_default(),
            prev_hash: head.hash,
            event_hash: head.hash,
        };
        row.event_hash = row.hash();
        self.insert(&row)?;
        self.charge_row(&row, draft.kind)?;
        if let Some(signed) = self.signed.borrow_mut().as_mut() {
            signed.push(&row.event_hash);
        }
        self.head.set(Head { seq: row.seq, hash: row.event_hash, ts: row.ts });
        Ok(Receipt(Evidence { seq: row.seq, event_hash: row.event_hash, prev_hash: row.prev_hash }))
    }

    fn insert(&self, row: &Row) -> Result<(), StoreError> {
        const INSERT: &str =
            "INSERT INTO ledger VALUES (?1,?2,?3,?4,?5,?6,?7,?8,?9,?10,?11,?12,?13,?14,?15,?16,?17,?18,?19,?20,?21)";
        let blob = |digest: &Option<shared::digest::Digest>| digest.map(|digest| *digest.as_bytes());
        let mut statement = self.view.prepare_cached(INSERT).map_err(at("append a row"))?;
        statement
            .execute(params![
                row.seq,
                row.ts,
                row.kind,
                row.caller,
                row.person,
                row.request_id,
                row.provider,
                row.action,
                row.level,
                blob(&row.params_digest),
                row.summary,
                row.reason_code,
                row.result_summary,
                blob(&row.result_digest),
                row.task_id,
                row.approval,
                row.policy_version,
                row.duration_ms,
                row.body,
                row.prev_hash.as_bytes(),
                row.event_hash.as_bytes(),
            ])
            .map_err(at("append a row"))?;
        Ok(())
    }
}
