//! The ledger: one append-only, hash-chained log of everything that matters.
//!
//! One thread owns it. [`Ledger::batch`] is the only way to write: it hands every event of a batch to the broker in one
//! transaction, commits once, and only then gives out what may start and what may be answered. The proofs of that are
//! in [`transaction`].

pub mod broken;
pub mod budget;
pub mod calls;
pub mod chain;
pub mod export;
pub mod folding;
pub mod health;
pub mod held;
pub mod minor;
pub mod open;
pub mod reserve;
pub mod segments;
pub mod steady;
pub mod store;
pub mod transaction;
pub mod verification;
pub mod wal;

use chain::{Break, Head, Row};
use held::{Held, shares};
use minor::Minor;
use model::Clock;
use platform::lock::Lock;
use reserve::Reserve;
use rusqlite::Connection;
use shared::Timestamp;
use shared::digest::Digest;
use std::cell::RefCell;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use steady::Steady;
use tokio::time::Instant;
use transaction::{Committed, Effect, Parts, Scribe, Step, Transaction, Unwritten};

/// The key of the digests of parameters: small parameters could be guessed from a plain hash.
pub struct LedgerKey(zeroize::Zeroizing<Vec<u8>>);

impl LedgerKey {
    /// Takes the key in.
    pub fn new(bytes: Vec<u8>) -> Self {
        Self(zeroize::Zeroizing::new(bytes))
    }

    /// The keyed digest.
    pub fn digest(&self, bytes: &[u8]) -> Digest {
        Digest::keyed(&self.0, bytes)
    }
}

impl fmt::Debug for LedgerKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LedgerKey(…)")
    }
}

/// What went wrong, by step.
#[derive(Debug, thiserror::Error)]
pub enum LedgerError {
    /// The lock is held: another daemon runs on this home.
    #[error("another host-broker runs on this home (lock {path})")]
    Locked {
        /// The lock file.
        path: PathBuf,
    },
    /// A file beside the database, or the database's own, cannot be used.
    #[error("the file {path} cannot be used")]
    File {
        /// The file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
    /// The database cannot be opened or made.
    #[error("the ledger {path} cannot be opened")]
    Open {
        /// The database.
        path: PathBuf,
        /// What SQLite said.
        #[source]
        source: rusqlite::Error,
    },
    /// The database is another version's.
    #[error("the ledger has schema version {found}; this host-broker knows version {known}")]
    Version {
        /// The version found.
        found: i64,
        /// The version known.
        known: i64,
    },
    /// The chain is broken.
    #[error("the evidence is broken: {0}")]
    Broken(#[from] Break),
    /// A statement failed.
    #[error("the ledger could not {step}")]
    Statement {
        /// What was being done.
        step: &'static str,
        /// What SQLite said.
        #[source]
        source: rusqlite::Error,
    },
    /// A segment cannot be read or written.
    #[error(
        "the segment {path} (rows {first} to {last}) cannot be used: {source}. Put it back from a backup, or read the \
         rows after it with --from {}", last + 1
    )]
    Segment {
        /// The file.
        path: PathBuf,
        /// Its first row.
        first: i64,
        /// Its last row.
        last: i64,
        /// What the system said.
        source: std::io::Error,
    },
    /// A stored value is not what the schema says.
    #[error("the ledger holds a {what} that cannot be read")]
    Stored {
        /// Which.
        what: &'static str,
    },
    /// The machine's clock is behind the last row.
    #[error(
        "the ledger's last row is of {last}, and the machine's clock says {now}, {} s earlier; if the clock is right now, \
         accept it: host-broker evidence accept-clock; otherwise set the clock", last.since(*now).as_secs()
    )]
    Clock {
        /// The time of the last row.
        last: Timestamp,
        /// The machine's time.
        now: Timestamp,
    },
}

/// Adds the step to what SQLite said.
pub(crate) fn at(step: &'static str) -> impl FnOnce(rusqlite::Error) -> LedgerError {
    move |source| LedgerError::Statement { step, source }
}

/// How a batch is committed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// Synced before anything follows from it.
    Full,
    /// Ordered, but not synced: only for intents of reads that let nothing leave, whose outcome is synced before
    /// anybody hears of it. A batch that holds a question or another intent is committed as [`Self::Full`] instead.
    Normal,
    /// As [`Self::Normal`], but replies wait for a later sync instead of causing one: see [`Batch::held`].
    Deferred,
}

/// The clock may be this much behind the last row before nothing is admitted any more.
const CLOCK_BEHIND_MAX: Duration = Duration::from_secs(30);

/// The one writer.
pub struct Ledger {
    connection: Connection,
    log: wal::Log,
    path: PathBuf,
    head: Head,
    // The rows up to this one are synced.
    synced: i64,
    is_verified: bool,
    clock: Arc<dyn Clock>,
    steady: Steady,
    policy_version: String,
    durability: Option<Durability>,
    tally: Tally,
    // A sync failed: what the log holds may be on the disk, or not.
    suspect: bool,
    reserve: Reserve,
    minor: RefCell<Minor>,
    // Held until the ledger is dropped: no second writer.
    _lock: Lock,
}

/// What the ledger has done since it was opened.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    /// Transactions that were committed.
    pub commits: u64,
    /// Those that were synced to the disk.
    pub syncs: u64,
}

/// What became of a batch.
#[derive(Debug)]
pub struct Batch<E> {
    /// What may start and what may be answered, in the order of the events.
    pub committed: Vec<Committed<E>>,
    /// How long each of these took, in the same order. The commit's time is shared by the bytes that each wrote.
    pub costs: Vec<Duration>,
    /// What is committed and waits for a sync, in the order of the events: see [`Ledger::release`].
    pub held: Vec<Held<E>>,
    /// The events that could not be written, and why. Nothing of them happened.
    pub unwritten: Vec<(E, Arc<LedgerError>)>,
    /// Why the sync failed, if it did.
    pub unsynced: Option<Arc<LedgerError>>,
}

impl<E> Default for Batch<E> {
    fn default() -> Self {
        Self { committed: Vec::new(), costs: Vec::new(), held: Vec::new(), unwritten: Vec::new(), unsynced: None }
    }
}

impl<E> Batch<E> {
    /// Returns why the ledger could not be written, if it could not. An error of one event among others is that event's.
    pub fn fault(&self) -> Option<&LedgerError> {
        let is_empty = self.committed.is_empty() && self.held.is_empty();
        let unwritten = self.unwritten.first().filter(|_| is_empty).map(|(_, error)| error);
        self.unsynced.as_ref().or(unwritten).map(AsRef::as_ref)
    }
}

/// A transaction that came to nothing, and its events in their order.
enum Lost<E> {
    /// One event could not be written.
    One { fault: Unwritten<E>, others: Vec<E> },
    /// It could not be begun or committed.
    All { events: Vec<E>, error: Arc<LedgerError> },
    /// One event asks a person or starts more than a harmless read, so the commit must be synced.
    Unsynced { events: Vec<E> },
}

impl Ledger {
    /// Where the chain ends.
    pub fn head(&self) -> Head {
        self.head
    }

    /// Returns whether the start has verified all rows, because there were few.
    pub fn is_verified(&self) -> bool {
        self.is_verified
    }

    /// What was done since it was opened.
    pub fn tally(&self) -> Tally {
        self.tally
    }

    /// The version of configuration and catalogue that rows name from now on.
    pub fn set_policy_version(&mut self, version: String) {
        self.policy_version = version;
    }

    /// Writes a batch: one transaction, one commit.
    ///
    /// An event that fails is unwritten, and the others are written without it: the transaction is rolled back and
    /// begun again. If the commit itself fails, the events are tried again one by one. If an event turns out to need a
    /// synced commit, all are tried again with one.
    pub fn batch<E: From<Effect>>(
        &mut self,
        durability: Durability,
        events: Vec<E>,
        scribe: &mut impl Scribe<E>,
    ) -> Batch<E> {
        let mut done = Batch::default();
        let mut waiting = vec![(durability, events)];
        while let Some((durability, events)) = waiting.pop() {
            if events.is_empty() {
                continue;
            }
            let single = events.len() == 1;
            let lost = match self.attempt(durability, events, scribe) {
                Ok(batch) => {
                    done.committed.extend(batch.committed);
                    done.costs.extend(batch.costs);
                    done.held.extend(batch.held);
                    done.unwritten.extend(batch.unwritten);
                    done.unsynced = batch.unsynced.or(done.unsynced);
                    continue;
                }
                Err(lost) => lost,
            };
            scribe.undone(self.head.seq);
            self.minor.get_mut().folding.forget_after(self.head.seq);
            match lost {
                Lost::One { fault, others } => {
                    done.unwritten.push((fault.event, Arc::new(fault.error)));
                    waiting.push((durability, others));
                }
                Lost::Unsynced { events } => waiting.push((Durability::Full, events)),
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

    /// One transaction.
    fn attempt<E: From<Effect>>(
        &mut self,
        durability: Durability,
        events: Vec<E>,
        scribe: &mut impl Scribe<E>,
    ) -> Result<Batch<E>, Lost<E>> {
        // Only the event that accepts the clock passes by it, and none beside it.
        let accepts = matches!(events.as_slice(), [event] if scribe.accepts_clock(event));
        let checked = if accepts { Ok(()) } else { self.check_clock() };
        if let Err(error) = checked.and_then(|()| self.begin(durability)) {
            return Err(Lost::All { events, error: Arc::new(error) });
        }
        let (wall, steady) = (self.clock.now(), self.steady());
        let transaction =
            Transaction::new(&self.connection, self.head, (wall, steady), &self.policy_version, &self.minor);
        let mut parts: Vec<Parts<E>> = Vec::with_capacity(events.len());
        let (mut costs, mut bytes) = (Vec::with_capacity(events.len()), Vec::with_capacity(events.len()));
        let mut events = events.into_iter();
        while let Some(event) = events.next() {
            let (began, before) = (Instant::now(), transaction.written());
            match scribe.write(&transaction, event).map(Step::loosen) {
                Ok(part) => {
                    parts.push(part);
                    costs.push(began.elapsed());
                    bytes.push(transaction.written().saturating_sub(before));
                }
                Err(fault) => {
                    // Some errors have ended the transaction already; then there is nothing to roll back.
                    self.connection.execute_batch("ROLLBACK").ok();
                    return Err(Lost::One {
                        fault,
                        others: parts.into_iter().map(Parts::undo).chain(events).collect(),
                    });
                }
            }
        }
        // A sync after the commit may fail, and the intent would be committed without one.
        if durability != Durability::Full && parts.iter().any(Parts::cannot_wait) {
            self.connection.execute_batch("ROLLBACK").ok();
            return Err(Lost::Unsynced { events: parts.into_iter().map(Parts::undo).collect() });
        }
        let (head, began) = (transaction.head(), Instant::now());
        let kept = self.steady.keep(&self.connection, steady, wall);
        let kept = kept.and_then(|kept| self.commit(head).map(|()| kept));
        let may_wait = durability == Durability::Deferred;
        let synced = match kept.map(|kept| self.steady.is_kept(kept)) {
            // Somebody hears of a refusal at once, so it must be as durable as an outcome.
            Ok(()) if !may_wait && parts.iter().any(|part| part.must_last(self.synced)) => {
                self.sync().map_err(Arc::new)
            }
            Ok(()) => Ok(()),
            Err(error) => {
                let events = parts.into_iter().map(Parts::undo).collect();
                return Err(Lost::All { events, error: Arc::new(error) });
            }
        };
        let mut done = Batch { unsynced: synced.as_ref().err().cloned(), ..Batch::default() };
        let shared = shares(began.elapsed(), &bytes);
        for (((part, own), share), bytes) in parts.into_iter().zip(costs).zip(shared).zip(bytes) {
            let cost = own + share;
            match &synced {
                // Its rows are there, so the next try finds them and answers from them.
                Err(error) if part.is_heard() => done.unwritten.push((part.undo(), Arc::clone(error))),
                Ok(()) if may_wait && part.waits(self.synced, bytes) => {
                    done.held.push(Held { part, seq: self.head.seq, cost });
                }
                Ok(()) | Err(_) => {
                    done.committed.push(part.committed());
                    done.costs.push(cost);
                }
            }
        }
        Ok(done)
    }

    /// Compares the machine's clock with the last row.
    ///
    /// # Errors
    /// [`LedgerError::Clock`] if it is too far behind: nothing is written then.
    pub fn check_clock(&self) -> Result<(), LedgerError> {
        let (last, now) = (Timestamp::from_millis(self.head.ts), self.clock.now());
        if last.since(now) > CLOCK_BEHIND_MAX { Err(LedgerError::Clock { last, now }) } else { Ok(()) }
    }

    /// Writes and syncs something that changes no row, to find out whether the ledger can be written again.
    ///
    /// # Errors
    /// [`LedgerError`] if it cannot.
    pub fn try_write(&mut self) -> Result<(), LedgerError> {
        self.check_clock()?;
        self.begin(Durability::Full)?;
        let turned = self.connection.execute("UPDATE delivered SET turn = 1 - turn", []);
        if let Err(error) = turned {
            self.connection.execute_batch("ROLLBACK").ok();
            return Err(at("write")(error));
        }
        self.commit(self.head)
    }

    /// Returns what the steady clock says.
    pub fn steady(&self) -> Timestamp {
        self.steady.now(self.clock.as_ref())
    }

    fn begin(&mut self, durability: Durability) -> Result<(), LedgerError> {
        if self.suspect {
            self.recover()?;
        }
        let durability = if durability == Durability::Full { durability } else { Durability::Normal };
        if self.durability != Some(durability) {
            let pragma = match durability {
                Durability::Full => "PRAGMA synchronous = FULL",
                Durability::Normal | Durability::Deferred => "PRAGMA synchronous = NORMAL",
            };
            self.connection.execute_batch(pragma).map_err(at("set the durability"))?;
            self.durability = Some(durability);
        }
        self.connection.prepare_cached("BEGIN IMMEDIATE").and_then(|mut s| s.execute([])).map_err(at("begin"))?;
        Ok(())
    }

    /// Makes durable what was committed without a sync: the log is one file, and a full commit syncs all of it. It must
    /// change something, because a commit that changes nothing is not written, and not synced either.
    fn sync(&mut self) -> Result<(), LedgerError> {
        self.durability = None;
        self.tally.commits += 1;
        self.tally.syncs += 1;
        let synced = self.connection.execute_batch("PRAGMA synchronous = FULL; UPDATE delivered SET turn = 1 - turn;");
        self.suspect |= synced.as_ref().is_err_and(wal::is_failed_sync);
        synced.map_err(at("sync"))?;
        self.synced = self.head.seq;
        Ok(())
    }

    /// After a failed COMMIT nobody knows whether it is durable, so the database is opened anew and asked.
    fn commit(&mut self, head: Head) -> Result<(), LedgerError> {
        let result = self.connection.prepare_cached("COMMIT").and_then(|mut s| s.execute([]));
        self.tally.commits += 1;
        self.tally.syncs += u64::from(self.durability == Some(Durability::Full));
        let Err(error) = result else {
            // A commit without a change is not synced.
            if self.durability == Some(Durability::Full) && head.seq > self.head.seq {
                self.synced = head.seq;
            }
            self.head = head;
            return Ok(());
        };
        if !self.connection.is_autocommit() {
            self.connection.execute_batch("ROLLBACK").ok();
        }
        self.suspect |= wal::is_failed_sync(&error);
        self.recover()?;
        if self.head == head { Ok(()) } else { Err(at("commit")(error)) }
    }

    /// Opens the database anew and looks where the chain ends. After a failed sync the kernel may take pages of the log
    /// for written that never were, also those of earlier commits that were not synced themselves. A later sync would
    /// not write them, and after a power cut the log would end at that hole. So nothing is written before everything is
    /// in the database and the log begins anew.
    fn recover(&mut self) -> Result<(), LedgerError> {
        self.durability = None;
        (self.connection, self.log) = open::connection(&self.path)?;
        if self.suspect {
            wal::empty(&self.connection, &self.path)?;
            self.suspect = false;
            self.synced = i64::MAX;
        }
        self.head = open::head(&self.connection)?;
        self.synced = self.synced.min(self.head.seq);
        Ok(())
    }

    /// Moves the log into the database when it is long. For when nobody waits for what was just written.
    pub fn shorten_log(&mut self) {
        self.suspect |= self.log.shorten(&self.connection);
    }

    /// Sets how many bytes of evidence a group or an external agent may cause in an hour; 0 is no bound.
    pub fn set_hourly_budget(&mut self, bytes: u64) {
        self.minor.get_mut().budgets.set_hourly(Some(bytes));
    }

    /// Compares the free space of the disk with the watermark, in bytes, but at most with a fiftieth of the disk. Below
    /// it, the caller that has used most is refused first.
    pub fn heed_space(&mut self, watermark: u64) {
        // Unknown free space is no reason to refuse: a write shows whether there is space.
        let nearly_full = rustix::fs::statvfs(self.home()).is_ok_and(|disk| {
            let bytes = |blocks: u64| blocks.saturating_mul(disk.f_frsize);
            bytes(disk.f_bavail) < watermark.min(bytes(disk.f_blocks) / 50)
        });
        let now = self.steady();
        let budgets = &mut self.minor.get_mut().budgets;
        budgets.forget_empty(now);
        if let Some(caller) = budgets.heed_space(nearly_full, now) {
            tracing::error!(%caller, "the disk is nearly full; this caller has used most of it and is refused until there is space");
        }
    }

    /// Returns the home that the ledger is in.
    pub fn home(&self) -> &Path {
        self.path.parent().unwrap_or(&self.path)
    }

    /// Returns the rows that go into the next segment, if the database holds more than so many bytes.
    ///
    /// # Errors
    /// [`LedgerError`] if the ledger cannot be read.
    pub fn due_segment(&self, bytes: u64, rows: i64) -> Result<Option<segments::Due>, LedgerError> {
        segments::due(&self.connection, self.clock.now(), bytes, rows)
    }

    /// Returns whether counted requests have to be written.
    pub fn has_counted(&self) -> bool {
        self.minor.borrow().folding.has_finished(self.steady())
    }

    /// The row with this number.
    ///
    /// # Errors
    /// [`LedgerError`] if the ledger cannot be read.
    pub fn row(&self, seq: i64) -> Result<Option<Row>, LedgerError> {
        export::row(&self.connection, seq)
    }

    /// Gives up the space that is kept free for outcomes; `false` if there is none left to give up.
    pub fn release_reserve(&mut self) -> bool {
        self.reserve.release()
    }

    /// Whether that space is given up and must be had again before anything new is written.
    pub fn lives_on_its_reserve(&self) -> bool {
        self.reserve.is_given_up()
    }

    /// Takes that space again, once there is some.
    pub fn restore_reserve(&mut self) {
        self.reserve.restore();
    }

    /// For reading outside a batch: the same connection, on the same thread.
    pub fn reader(&self) -> &Connection {
        &self.connection
    }
}

impl fmt::Debug for Ledger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ledger").field("path", &self.path).field("head", &self.head).finish_non_exhaustive()
    }
}
