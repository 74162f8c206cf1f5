//! Events for the ledger alone, and what turns them into rows: no broker, no policy.

use crate::ledger::dice::Dice;
use kernel::{Batch, BatchWriter, Effect, Ledger, Step, WriteError};
use rusqlite::Connection;
use serde_json::json;
use shared::digest::Digest;
use shared::{Code, Level, Reply};
use store::ledger::chain::{Draft, Head, Row, RowKind};
use store::ledger::export;
use store::ledger::verifier::Verifier;
use store::{Durability, StoreError, Transaction, View};

/// Something to be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Happening {
    /// One row by this caller, without an answer.
    Row(&'static str),
    /// One row, and an answer to it.
    Answered(&'static str),
    /// Two rows, and then an error.
    Fails(&'static str),
    /// A row with every column, as the dice fall.
    Random(u64),
}

impl From<Effect> for Happening {
    fn from(effect: Effect) -> Self {
        panic!("nothing starts here: {effect:?}")
    }
}

/// Writes what happens, and remembers what it was asked to write.
#[derive(Debug, Default)]
pub(super) struct Clerk {
    pub(super) asked: Vec<Happening>,
}

impl BatchWriter<Happening> for Clerk {
    type FollowUps = ();

    fn write<'tx>(
        &mut self,
        tx: &Transaction<'tx>,
        event: Happening,
    ) -> Result<Step<'tx, Happening>, WriteError<Happening>> {
        self.asked.push(event.clone());
        let broken = || StoreError::Stored { what: "test" };
        let row = |caller: &str| tx.append(&Draft::new(RowKind::Noted, caller));
        let written = match &event {
            Happening::Row(caller) => row(caller).map(|_| None),
            Happening::Answered(caller) => row(caller).and_then(|evidence| {
                let id: shared::RequestId = format!("ext-{}", evidence.seq).parse().unwrap();
                kernel::answer(tx, caller, Reply::of_code(id, Code::NoGrant, tx.now()), evidence).map(Some)
            }),
            Happening::Fails(caller) => row(caller).and_then(|_| row(caller)).and_then(|_| Err(broken())),
            Happening::Random(seed) => random(tx, *seed).map(|()| None),
        };
        match written {
            Ok(answer) => Ok(kernel::close(tx, event, answer)),
            Err(error) => Err(WriteError { event, error }),
        }
    }

    fn committed(&mut self) {}

    fn rolled_back(&mut self) {}
}

/// A row, or an intent and its outcome, with columns present and absent.
fn random(tx: &Transaction<'_>, seed: u64) -> Result<(), StoreError> {
    let mut dice = Dice(seed);
    let request_id = "ext-1-a".parse().unwrap();
    let (provider, action, task_id) =
        ("github".parse().unwrap(), "merge_pr".parse().unwrap(), "gov-1".parse().unwrap());
    let texts = ["", "merged #7", "1:x,-,", "grün — ✓", "{\"a\":1}"];
    let kind = [RowKind::Intended, RowKind::Refused, RowKind::Granted, RowKind::Noted][dice.roll(4)];
    let evidence = tx.append(&Draft {
        request_id: dice.once_in(2).then_some(&request_id),
        provider: dice.once_in(2).then_some(&provider),
        action: dice.once_in(2).then_some(&action),
        level: dice.once_in(2).then_some(Level::Write),
        params_digest: dice.once_in(2).then(|| Digest::of(&seed.to_be_bytes())),
        summary: dice.once_in(2).then(|| texts[dice.roll(5)].to_owned()),
        reason_code: dice.once_in(2).then_some(Code::NoGrant),
        result_summary: dice.once_in(2).then(|| texts[dice.roll(5)].to_owned()),
        result_digest: dice.once_in(2).then(|| Digest::of(b"result")),
        task_id: dice.once_in(2).then_some(&task_id),
        duration_ms: dice.once_in(2).then_some(42),
        body: json!({ "text": texts[dice.roll(5)] }),
        ..Draft::new(kind, ["group:developer", "person:alice", "broker"][dice.roll(3)])
    })?;
    if kind == RowKind::Intended && !dice.once_in(5) {
        let outcome = [RowKind::Succeeded, RowKind::Failed, RowKind::TimedOut, RowKind::Unknown][dice.roll(4)];
        tx.append(&Draft { body: json!({ "of": evidence.seq }), ..Draft::new(outcome, "broker") })?;
    }
    Ok(())
}

/// A batch of these.
pub(super) fn write(ledger: &mut Ledger, events: Vec<Happening>) -> Batch<Happening> {
    ledger.batch(Durability::Full, events, &mut Clerk::default())
}

/// At least this many random rows, in batches.
pub(super) fn fill(ledger: &mut Ledger, rows: i64) {
    let mut seed = 0;
    while ledger.head().seq < rows {
        let batch: Vec<Happening> = (0..64.min(rows - ledger.head().seq))
            .map(|step| {
                seed += 1;
                Happening::Random(seed * 1_000 + u64::try_from(step).unwrap())
            })
            .collect();
        assert!(write(ledger, batch).unwritten.is_empty());
    }
}

/// Another connection to the same database, for what no view can do.
pub(super) fn raw(ledger: &Ledger) -> Connection {
    let connection = Connection::open(ledger.home().join("ledger.db")).unwrap();
    connection.busy_timeout(std::time::Duration::from_secs(5)).unwrap();
    connection
}

/// Every row.
pub(super) fn rows(view: &View) -> Vec<Row> {
    let mut rows = Vec::new();
    export::each(view, 1, |row| {
        rows.push(row);
        Ok(())
    })
    .unwrap();
    rows
}

/// The authors of the rows, in order.
pub(super) fn callers(ledger: &Ledger) -> Vec<String> {
    rows(ledger.view()).into_iter().map(|row| row.caller).collect()
}

/// Verifies against a head that was kept elsewhere: what it says is wrong, if anything.
pub(super) fn verify(rows: &[Row], kept: Head) -> Result<(), String> {
    let mut verifier = Verifier::new();
    for row in rows {
        verifier.take(row).map_err(|found| found.to_string())?;
        if row.seq == kept.seq && verifier.head() != kept {
            return Err(format!("row {} is not the one that was kept", row.seq));
        }
    }
    if verifier.head().seq < kept.seq { Err(format!("ends before row {}", kept.seq)) } else { Ok(()) }
}

/// Lets each commit fail that has appended a row for which this condition is true.
pub(super) fn commits_fail(ledger: &Ledger, condition: &str) {
    // A constraint that is looked at by the commit, not by the statement.
    raw(ledger)
        .execute_batch(&format!(
            "CREATE TABLE parent (id INTEGER PRIMARY KEY);
             CREATE TABLE child (id INTEGER REFERENCES parent DEFERRABLE INITIALLY DEFERRED);
             CREATE TRIGGER orphans AFTER INSERT ON ledger WHEN {condition}
             BEGIN INSERT INTO child VALUES (1); END;"
        ))
        .unwrap();
}
