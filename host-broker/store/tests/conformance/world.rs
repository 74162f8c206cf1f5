//! A home whose time the test sets.

use super::engine::Engine;
use model::{Clock, NoRandomness, Random};
use shared::Timestamp;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU8, Ordering};
use std::time::Duration;
use store::ledger::chain::{Draft, RowKind};
use store::state::gates::{Task, TaskState};
use store::{ClockCheck, Durability, Receipt, Store, StoreError, Transaction, Undone};
use tempfile::TempDir;

/// The time at which every home begins.
pub(crate) const START: i64 = 1_800_000_000_000;
/// A caller.
pub(crate) const CALLER: &str = "group:developer";

/// A clock that the test sets.
#[derive(Debug)]
struct SetClock {
    wall: AtomicI64,
    monotonic: AtomicI64,
}

impl Clock for SetClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.wall.load(Ordering::Relaxed))
    }

    fn monotonic(&self) -> Duration {
        Duration::from_millis(u64::try_from(self.monotonic.load(Ordering::Relaxed)).unwrap_or(0))
    }
}

fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap()
}

/// Bytes that count.
pub(crate) struct Counting(AtomicU8);

impl Random for Counting {
    fn fill(&self, buffer: &mut [u8]) -> Result<(), NoRandomness> {
        buffer.fill(self.0.fetch_add(1, Ordering::Relaxed));
        Ok(())
    }
}

/// A home that outlives its store.
pub(crate) struct Home {
    directory: TempDir,
    pub(crate) engine: Engine,
    clock: Arc<SetClock>,
    pub(crate) ids: Counting,
}

impl Home {
    pub(crate) fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        Self {
            directory,
            engine: Engine::new(),
            clock: Arc::new(SetClock { wall: AtomicI64::new(START), monotonic: AtomicI64::new(0) }),
            ids: Counting(AtomicU8::new(1)),
        }
    }

    pub(crate) fn path(&self) -> &Path {
        self.directory.path()
    }

    /// Opens the one writer.
    pub(crate) fn store(&self) -> Store {
        self.try_store(self.path()).unwrap()
    }

    /// Opens the one writer of a directory.
    pub(crate) fn try_store(&self, directory: &Path) -> Result<Store, StoreError> {
        self.engine.open(directory, self.clock(), "policy-1".to_owned())
    }

    /// Returns the clock.
    pub(crate) fn clock(&self) -> Arc<dyn Clock> {
        self.clock.clone()
    }

    /// Lets time pass.
    pub(crate) fn wait(&self, duration: Duration) {
        self.clock.wall.fetch_add(millis(duration), Ordering::Relaxed);
        self.clock.monotonic.fetch_add(millis(duration), Ordering::Relaxed);
    }

    /// Sets the wall clock back.
    pub(crate) fn turn_back(&self, duration: Duration) {
        self.clock.wall.fetch_sub(millis(duration), Ordering::Relaxed);
    }
}

/// Runs the work in one transaction of its own.
pub(crate) fn commit<R>(
    store: &mut Store,
    work: impl FnOnce(&Transaction<'_>) -> Result<R, StoreError>,
) -> Result<R, StoreError> {
    store.transaction((Durability::Full, ClockCheck::Required), work).map_err(|undone| match undone {
        Undone::NotBegun(error) | Undone::Failed(error) | Undone::NotCommitted(_, error) => error,
    })
}

/// Appends a row of this kind.
pub(crate) fn append(tx: &Transaction<'_>, kind: RowKind) -> Result<Receipt, StoreError> {
    tx.append(&Draft::new(kind, CALLER))
}

/// An open task of this name.
pub(crate) fn task(name: &str) -> Task {
    Task {
        id: name.parse().unwrap(),
        title: "A task".to_owned(),
        group: "developer".parse().unwrap(),
        state: TaskState::Open,
        created_by: CALLER.to_owned(),
        created_at: Timestamp::from_millis(START),
    }
}
