//! The ledger: one append-only, hash-chained log.
//!
//! One thread owns it. [`Ledger::batch`] is the only way to write. It passes every event of a batch to the broker in
//! one transaction and commits once. Only then it returns the effects that may start and the replies that may leave.
//! The proofs are in [`proofs`](crate::proofs).

use crate::held::{Cost, Held, shares};
use crate::proofs::{BatchWriter, Committed, Effect, Parts, Step, WriteError};
use model::{Clock, Publication};
use std::ops::Deref;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use store::fleet::{BodyKey, Settings};
use store::ledger::chain::Head;
use store::ledger::checkpoints::Signed;
use store::{ClockCheck, Durability, Store, StoreError, Undone};
use tokio::time::Instant;

/// The number of times that a batch is decided again because of newer facts of other hosts. Each attempt learns one fact.
const OUTDATED_MAX: usize = 64;

/// The store of a home, written in batches only.
#[derive(Debug)]
pub struct Ledger {
    pub(crate) store: Store,
}

impl Deref for Ledger {
    type Target = Store;

    /// Gives read access to the store. Only [`Ledger::batch`] writes rows.
    fn deref(&self) -> &Store {
        &self.store
    }
}

/// The result of a batch.
#[derive(Debug)]
pub struct Batch<E, F = ()> {
    /// The effects that may start and the replies that may leave, in the order of the events.
    pub committed: Vec<Committed<E>>,
    /// The time that each of these took, in the same order. The commit's time is divided by the bytes that each wrote.
    pub costs: Vec<Cost>,
    /// The time of the commits and syncs of the batch.
    pub commit: Duration,
    /// The committed events that wait for a sync, in the order of the events: see [`Ledger::release`].
    pub held: Vec<Held<E>>,
    /// The events that could not be written, with the errors. They have no effect.
    pub unwritten: Vec<(E, Arc<StoreError>)>,
    /// The error of the sync, if it failed.
    pub unsynced: Option<Arc<StoreError>>,
    /// The consequences of each committed transaction, in their order.
    pub follow_ups: Vec<F>,
}

impl<E, F> Default for Batch<E, F> {
    fn default() -> Self {
        Self {
            committed: Vec::new(),
            costs: Vec::new(),
            commit: Duration::ZERO,
            held: Vec::new(),
            unwritten: Vec::new(),
            unsynced: None,
            follow_ups: Vec::new(),
        }
    }
}

impl<E, F> Batch<E, F> {
    /// Returns the error for which the ledger could not be written, if there is one. An error of one event among others
    /// is not an error of the ledger.
    pub fn fault(&self) -> Option<&StoreError> {
        let is_empty = self.committed.is_empty() && self.held.is_empty();
        let unwritten = self.unwritten.first().filter(|_| is_empty).map(|(_, error)| error);
        self.unsynced.as_ref().or(unwritten).map(AsRef::as_ref)
    }
}

/// A transaction that was not committed, with its events in their order.
enum Lost<E> {
    /// One event could not be written.
    One { fault: WriteError<E>, others: Vec<E> },
    /// The transaction could not be begun or committed.
    All { events: Vec<E>, error: Arc<StoreError> },
    /// One event sends an approval request or starts more than a harmless read, so the commit must be synced.
    Unsynced { events: Vec<E> },
}

impl Ledger {
    /// Opens the one writer of a home, and makes the database if there is none.
    ///
    /// # Errors
    /// [`StoreError`]: locked by another daemon, unusable, of another version, or broken evidence.
    pub fn open(home: &Path, clock: Arc<dyn Clock>, policy_version: String) -> Result<Self, StoreError> {
        Store::open(home, clock, policy_version).map(|store| Self { store })
    }

    /// Opens the one writer of a home that is made from a backup; see [`Store::open_restored`].
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn open_restored(home: &Path, clock: Arc<dyn Clock>, policy_version: String) -> Result<Self, StoreError> {
        Store::open_restored(home, clock, policy_version).map(|store| Self { store })
    }

    /// Opens the one writer of a home that is a host of a fleet; see [`Store::open_in_fleet`].
    ///
    /// # Errors
    /// [`StoreError`], also if another daemon serves the host.
    pub fn open_in_fleet(
        home: &Path,
        clock: Arc<dyn Clock>,
        policy_version: String,
        fleet: (&Settings, &BodyKey),
    ) -> Result<Self, StoreError> {
        Store::open_in_fleet(home, clock, policy_version, fleet).map(|store| Self { store })
    }

    /// Takes a home out of the database of its fleet; see [`Store::leave_fleet`].
    ///
    /// # Errors
    /// [`StoreError`], also if a daemon serves the host.
    pub fn leave_fleet(
        home: &Path,
        clock: Arc<dyn Clock>,
        policy_version: String,
        fleet: (&Settings, &BodyKey),
        by: &str,
    ) -> Result<Head, StoreError> {
        Store::leave_fleet(home, clock, policy_version, fleet, by)
    }

    /// Sets the version of configuration and catalogue that later rows name.
    pub fn set_policy_version(&mut self, version: String) {
        self.store.set_policy_version(version);
    }

    /// Decides with this publication of the policy from now on; see [`Store::follow`].
    pub fn follow(&mut self, publication: Option<Publication>) {
        self.store.follow(publication);
    }

    /// Notes whether another publication of the policy is known to be in force; see [`Store::note_superseded`].
    pub fn note_superseded(&mut self, is_superseded: bool) {
        self.store.note_superseded(is_superseded);
    }

    /// Makes a daemon with another home wait after the end of this one; see [`Store::keep_host`].
    pub fn keep_host(&mut self) {
        self.store.keep_host();
    }

    /// Notes that the effects of a daemon that was shut out have ended; see [`Store::others_have_ended`].
    pub fn others_have_ended(&mut self) {
        self.store.others_have_ended();
    }

    /// Takes over the signed state that a verification of all rows has found; see [`Store::adopt`].
    pub fn adopt(&mut self, verified: Signed) {
        self.store.adopt(verified);
    }

    /// Writes and syncs a value that changes no row, to test whether the ledger can be written again.
    ///
    /// # Errors
    /// [`StoreError`] if it cannot be written.
    pub fn try_write(&mut self) -> Result<(), StoreError> {
        self.store.try_write()
    }

    /// Moves the write-ahead log into the database when it is long. Call it when no caller waits for the latest rows.
    pub fn shorten_log(&mut self) {
        self.store.shorten_log();
    }

    /// Sets the number of bytes of evidence that a group or an external agent may cause in an hour; 0 means no bound.
    pub fn set_hourly_budget(&mut self, bytes: u64) {
        self.store.set_hourly_budget(bytes);
    }

    /// Compares the free space of the disk with the watermark; see [`Store::heed_space`].
    pub fn heed_space(&mut self, watermark: u64) {
        self.store.heed_space(watermark);
    }

    /// Calls `each` with the bytes of evidence of each caller; see [`Store::evidence_used`].
    pub fn evidence_used(&self, each: impl FnMut(&str, u64)) {
        self.store.evidence_used(each);
    }

    /// Releases the space that is kept free for outcomes; `false` if none is left.
    pub fn release_reserve(&mut self) -> bool {
        self.store.release_reserve()
    }

    /// Reserves that space again, once the disk has enough.
    pub fn restore_reserve(&mut self) {
        self.store.restore_reserve();
    }

    /// Writes a batch: one transaction, one commit.
    ///
    /// An event that fails is unwritten, and the others are written without it: the transaction is rolled back and
    /// begun again. If the commit itself fails, the events are tried again one by one. An error of all events
    /// ([`StoreError::is_of_all`]) ends the batch. If an event needs a synced commit, all are tried again with one. If a
    /// fact of another host was newer, all are decided again.
    pub fn batch<E: From<Effect>, W: BatchWriter<E>>(
        &mut self,
        durability: Durability,
        events: Vec<E>,
        writer: &mut W,
    ) -> Batch<E, W::FollowUps> {
        let mut done = Batch::default();
        let mut waiting = vec![(durability, events)];
        let mut outdated = 0;
        while let Some((durability, events)) = waiting.pop() {
            if events.is_empty() {
                continue;
            }
            let single = events.len() == 1;
            let attempt = self.attempt(durability, events, writer);
            let lost = match attempt {
                Ok(batch) => {
                    done.committed.extend(batch.committed);
                    done.costs.extend(batch.costs);
                    done.commit += batch.commit;
                    done.held.extend(batch.held);
                    done.unwritten.extend(batch.unwritten);
                    done.unsynced = batch.unsynced.or(done.unsynced);
                    done.follow_ups.push(writer.committed());
                    continue;
                }
                Err(lost) => lost,
            };
            writer.rolled_back();
            match lost {
                Lost::One { fault, others } => {
                    done.unwritten.push((fault.event, Arc::new(fault.error)));
                    waiting.push((durability, others));
                }
                Lost::Unsynced { events } => waiting.push((Durability::Full, events)),
                // Bounded, because other hosts can change the fact again before each attempt.
                Lost::All { events, error } if error.is_outdated() && outdated < OUTDATED_MAX => {
                    outdated += 1;
                    waiting.push((durability, events));
                }
                Lost::All { events, error } if error.is_of_all() => {
                    let others = waiting.drain(..).rev().flat_map(|(_, events)| events);
                    let unwritten = events.into_iter().chain(others).map(|event| (event, Arc::clone(&error)));
                    done.unwritten.extend(unwritten);
                }
                Lost::All { events, error } if single => {
                    done.unwritten.extend(events.into_iter().map(|event| (event, Arc::clone(&error))));
                }
                // One at a time, in the same order: the last pushed is the first popped.
                Lost::All { events, .. } => {
                    waiting.extend(events.into_iter().rev().map(|event| (durability, vec![event])));
                }
            }
        }
        done
    }

    /// Tries one transaction.
    fn attempt<E: From<Effect>>(
        &mut self,
        durability: Durability,
        events: Vec<E>,
        writer: &mut impl BatchWriter<E>,
    ) -> Result<Batch<E>, Lost<E>> {
        // Only the event that accepts the clock skips the clock check, and only if it is alone.
        let accepts = matches!(events.as_slice(), [event] if writer.accepts_clock(event));
        let clock = if accepts { ClockCheck::Skipped } else { ClockCheck::Required };
        let mut events = events.into_iter();
        let written = self.store.transaction((durability, clock), |transaction| {
            let mut parts: Vec<Parts<E>> = Vec::with_capacity(events.len());
            let (mut costs, mut bytes) = (Vec::with_capacity(events.len()), Vec::with_capacity(events.len()));
            while let Some(event) = events.next() {
                let (began, before) = (Instant::now(), transaction.written());
                match writer.write(transaction, event).map(Step::loosen) {
                    Ok(part) => {
                        parts.push(part);
                        costs.push(began.elapsed());
                        bytes.push(transaction.written().saturating_sub(before));
                    }
                    Err(fault) => {
                        let others = parts.into_iter().map(Parts::undo).chain(events.by_ref()).collect();
                        return Err(Lost::One { fault, others });
                    }
                }
            }
            // A sync after the commit may fail. The intent would then be committed without one.
            if durability != Durability::Full && parts.iter().any(Parts::cannot_wait) {
                return Err(Lost::Unsynced { events: parts.into_iter().map(Parts::undo).collect() });
            }
            Ok((parts, costs, bytes, Instant::now()))
        });
        let (parts, costs, bytes, began) = match written {
            Ok(written) => written,
            Err(Undone::NotBegun(error)) => {
                return Err(Lost::All { events: events.collect(), error: Arc::new(error) });
            }
            Err(Undone::Failed(lost)) => return Err(lost),
            Err(Undone::NotCommitted((parts, ..), error)) => {
                let events = parts.into_iter().map(Parts::undo).collect();
                return Err(Lost::All { events, error: Arc::new(error) });
            }
        };
        let may_wait = durability == Durability::Deferred;
        // A refusal leaves at once, so it must be as durable as an outcome.
        let synced = if !may_wait && parts.iter().any(|part| part.must_last(self.store.synced())) {
            self.store.sync().map_err(Arc::new)
        } else {
            Ok(())
        };
        let commit = began.elapsed();
        let mut done = Batch { unsynced: synced.as_ref().err().cloned(), commit, ..Batch::default() };
        let shared = shares(commit, &bytes);
        for (((part, own), shared), bytes) in parts.into_iter().zip(costs).zip(shared).zip(bytes) {
            let cost = Cost { own, shared };
            match &synced {
                // The rows are there, so the next try finds them and answers from them.
                Err(error) if part.is_heard() => done.unwritten.push((part.undo(), Arc::clone(error))),
                Ok(()) if may_wait && part.waits(self.store.synced(), bytes) => {
                    done.held.push(Held { part, seq: self.store.head().seq, cost });
                }
                Ok(()) | Err(_) => {
                    done.committed.push(part.committed());
                    done.costs.push(cost);
                }
            }
        }
        Ok(done)
    }
}
