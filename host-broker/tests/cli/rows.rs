//! A ledger that is months old, with as many rows as a test wants.

use kernel::{BatchWriter, Effect, Ledger, Step, WriteError};
use model::Clock;
use shared::Timestamp;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use store::ledger::chain::{Draft, RowKind};
use store::{Durability, Transaction};

/// 2026-02-14T10:00:00Z, always.
struct Past;

impl Clock for Past {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(1_771_063_200_000)
    }

    fn monotonic(&self) -> Duration {
        Duration::ZERO
    }
}

#[derive(Debug)]
struct OneRow;

impl From<Effect> for OneRow {
    fn from(effect: Effect) -> Self {
        panic!("nothing starts here: {effect:?}")
    }
}

struct Writer;

impl BatchWriter<OneRow> for Writer {
    type FollowUps = ();

    fn write<'tx>(&mut self, tx: &Transaction<'tx>, event: OneRow) -> Result<Step<'tx, OneRow>, WriteError<OneRow>> {
        match tx.append(&Draft::new(RowKind::Noted, "broker")) {
            Ok(_) => Ok(kernel::close(tx, event, None)),
            Err(error) => Err(WriteError { event, error }),
        }
    }

    fn committed(&mut self) {}

    fn rolled_back(&mut self) {}
}

/// Writes rows until there are more than so many.
pub(super) fn fill(home: &Path, rows: i64) {
    let mut ledger = Ledger::open(home, Arc::new(Past), "v1".to_owned()).unwrap();
    while ledger.head().seq <= rows {
        let batch = ledger.batch(Durability::Normal, (0..1_000).map(|_| OneRow).collect(), &mut Writer);
        assert!(batch.unwritten.is_empty());
    }
}
