//! A ledger into which a test writes rows as they are, without effects and approvals.

use crate::ledger::world::{Hand, START};
use kernel::{BatchWriter, Effect, Ledger, Step, WriteError};
use std::marker::PhantomData;
use std::sync::Arc;
use store::ledger::chain::Draft;
use store::{Durability, Transaction};
use tempfile::TempDir;

/// A row of a test, in the columns that it needs.
pub(super) trait Line: Clone {
    /// Calls `append` with the row.
    fn draft<T>(&self, append: impl FnOnce(&Draft<'_>) -> T) -> T;
}

/// The ledger, with its clock.
pub(super) struct PlainRows {
    pub(super) clock: Arc<Hand>,
    pub(super) ledger: Ledger,
    _home: TempDir,
}

impl PlainRows {
    pub(super) fn new() -> Self {
        let home = tempfile::tempdir().unwrap();
        let clock = Arc::new(Hand::new(START));
        let ledger = Ledger::open(home.path(), clock.clone(), "v1".to_owned()).unwrap();
        Self { clock, ledger, _home: home }
    }

    /// Writes the rows as one batch.
    pub(super) fn write<L: Line>(&mut self, lines: Vec<L>) {
        let events = lines.into_iter().map(Event).collect();
        assert!(self.ledger.batch(Durability::Normal, events, &mut Writer(PhantomData)).unwritten.is_empty());
    }
}

struct Event<L>(L);

impl<L> From<Effect> for Event<L> {
    fn from(effect: Effect) -> Self {
        panic!("nothing starts here: {effect:?}")
    }
}

struct Writer<L>(PhantomData<L>);

impl<L: Line> BatchWriter<Event<L>> for Writer<L> {
    type FollowUps = ();

    fn write<'tx>(
        &mut self,
        tx: &Transaction<'tx>,
        event: Event<L>,
    ) -> Result<Step<'tx, Event<L>>, WriteError<Event<L>>> {
        match event.0.draft(|draft| tx.append(draft)) {
            Ok(_) => Ok(kernel::close(tx, event, None)),
            Err(error) => Err(WriteError { event, error }),
        }
    }

    fn committed(&mut self) {}

    fn rolled_back(&mut self) {}
}
