//! The one writer of a home: the database, its write-ahead log, and the end of the chain.

use crate::fleet::{Fleet, FleetError};
use crate::ledger::chain::{Head, Row};
use crate::ledger::checkpoints::Signed;
use crate::ledger::figures::Space;
use crate::ledger::minor::Minor;
use crate::ledger::{checkpoints, export, segments};
use crate::reserve::Reserve;
use crate::steady::Steady;
use crate::{StoreError, Transaction, View, at, open, wal};
use model::{Clock, Publication};
use platform::lock::Lock;
use shared::Timestamp;
use std::cell::RefCell;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// The durability of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// Synced before any result leaves or starts.
    Full,
    /// Ordered, but not synced. Only intents of reads that send nothing out may use it, and their outcome is synced
    /// before it leaves. A batch that holds an approval request or another intent is committed as [`Self::Full`]
    /// instead.
    Normal,
    /// As [`Self::Normal`], but replies wait for a later sync instead of causing one.
    Deferred,
}

/// Whether the machine's clock is compared with the last row before anything is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClockCheck {
    /// A clock that is too far behind stops every write.
    Required,
    /// A person accepts the clock with this very transaction.
    Skipped,
}

/// The largest lag of the clock behind the last row at which calls are still admitted.
pub const CLOCK_BEHIND_MAX: Duration = Duration::from_secs(30);

/// The one writer.
pub struct Store {
    pub(crate) view: View,
    pub(crate) log: wal::Log,
    pub(crate) path: PathBuf,
    pub(crate) head: Head,
    // With all rows up to the head. Absent in a large ledger without a checkpoint until all rows are verified.
    pub(crate) signed: Option<Signed>,
    // The rows up to this one are synced.
    pub(crate) synced: i64,
    pub(crate) is_verified: bool,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) steady: Steady,
    pub(crate) policy_version: String,
    pub(crate) durability: Option<Durability>,
    pub(crate) stats: StoreStats,
    // A sync failed, so the rows in the log may be on the disk or not.
    pub(crate) suspect: bool,
    pub(crate) reserve: Reserve,
    pub(crate) minor: RefCell<Minor>,
    // The database of which this one is a copy.
    pub(crate) fleet: Option<Fleet>,
    // The publication of the policy with which it decides.
    pub(crate) publication: Option<Publication>,
    // Held until the store is dropped, so that there is no second writer.
    pub(crate) _lock: Lock,
}

/// The counts of commits, syncs and changes since the ledger was opened.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StoreStats {
    /// Transactions that were committed.
    pub commits: u64,
    /// Those that were synced to the disk.
    pub syncs: u64,
    /// Rows that were inserted, changed or deleted since the database was opened last. A failed commit opens it again.
    pub changes: u64,
    /// Statements since the database was opened last, without those that begin and end a transaction.
    pub statements: u64,
}

/// The reason why a transaction is undone.
#[derive(Debug)]
pub enum Undone<R, E> {
    /// It could not be begun, and the work did not run.
    NotBegun(StoreError),
    /// The work failed.
    Failed(E),
    /// The work ran and returned this, and the commit failed.
    NotCommitted(R, StoreError),
}

impl Store {
    /// Returns the end of the chain.
    pub fn head(&self) -> Head {
        self.head
    }

    /// Takes over the signed state that a verification of all rows has found, if there is no other one.
    pub fn adopt(&mut self, verified: Signed) {
        if self.signed.is_none() {
            self.signed = checkpoints::continued(self.home(), &self.view, Some(verified), self.head.seq);
        }
    }

    /// Returns the signed state; `None` if it is not known yet.
    pub fn signed(&self) -> Option<&Signed> {
        self.signed.as_ref()
    }

    /// Returns whether the start has verified all rows, because there were few.
    pub fn is_verified(&self) -> bool {
        self.is_verified
    }

    /// Returns the counts since it was opened.
    pub fn stats(&self) -> StoreStats {
        let (changes, statements) = (self.view.connection().total_changes(), self.view.statements());
        StoreStats { changes, statements, ..self.stats }
    }

    /// Sets the version of configuration and catalogue that later rows name.
    pub fn set_policy_version(&mut self, version: String) {
        self.policy_version = version;
    }

    /// Decides with this publication of the policy from now on. An intent is committed only while it is in force. Absent, the
    /// policy is that of the home.
    pub fn follow(&mut self, publication: Option<Publication>) {
        self.view.publication_use().borrow_mut().follow(publication.clone());
        self.publication = publication;
    }

    /// Notes whether another publication of the policy is known to be in force. Then no call is permitted. A publication that
    /// is used from now on ends that.
    pub fn note_superseded(&mut self, is_superseded: bool) {
        self.view.publication_use().borrow_mut().note_superseded(is_superseded);
    }

    /// Compares the machine's clock with the last row.
    ///
    /// # Errors
    /// [`StoreError::Clock`] if it is too far behind: nothing is written then.
    pub fn check_clock(&self) -> Result<(), StoreError> {
        let (last, now) = (Timestamp::from_millis(self.head.ts), self.clock.now());
        if last.since(now) > CLOCK_BEHIND_MAX { Err(StoreError::Clock { last, now }) } else { Ok(()) }
    }

    /// Writes and syncs a value that changes no row, to test whether the ledger can be written again.
    ///
    /// # Errors
    /// [`StoreError`] if it cannot be written.
    pub fn try_write(&mut self) -> Result<(), StoreError> {
        self.check_clock()?;
        self.begin(Durability::Full)?;
        let turned = self.view.connection().execute("UPDATE delivered SET turn = 1 - turn", []);
        if let Err(error) = turned {
            self.roll_back();
            return Err(at("write")(error));
        }
        self.commit(self.head, self.signed.clone())
    }

    /// Returns the time of the steady clock.
    pub fn steady(&self) -> Timestamp {
        self.steady.now(self.clock.as_ref())
    }

    /// Runs the work in one transaction, and commits it.
    ///
    /// # Errors
    /// [`Undone`]; nothing of the work is stored, unless the database cannot be read after a failed commit. Then the
    /// state is unknown, and nothing is written before the database can be read.
    pub fn transaction<R, E>(
        &mut self,
        (durability, clock): (Durability, ClockCheck),
        work: impl FnOnce(&Transaction<'_>) -> Result<R, E>,
    ) -> Result<R, Undone<R, E>> {
        let may_begin = if clock == ClockCheck::Skipped { Ok(()) } else { self.check_clock() };
        may_begin.and_then(|()| self.begin(durability)).map_err(Undone::NotBegun)?;
        let (wall, steady) = (self.clock.now(), self.steady());
        let transaction = Transaction::new(
            &self.view,
            (self.head, self.signed.as_ref()),
            (wall, steady),
            &self.policy_version,
            &self.minor,
        );
        let done = work(&transaction);
        let (head, signed) = (transaction.head(), transaction.signed());
        let done = match done {
            Ok(done) => done,
            Err(error) => {
                self.roll_back();
                return Err(Undone::Failed(error));
            }
        };
        let kept = self.steady.keep(&self.view, steady, wall);
        match kept.and_then(|kept| self.commit(head, signed).map(|()| kept)) {
            Ok(kept) => {
                self.steady.is_kept(kept);
                Ok(done)
            }
            Err(error) => {
                self.roll_back();
                Err(Undone::NotCommitted(done, error))
            }
        }
    }

    /// Ends the transaction, and forgets the counts of its rows.
    fn roll_back(&mut self) {
        // Some errors have ended the transaction already; then there is nothing to roll back.
        if !self.view.connection().is_autocommit() {
            self.view.connection().execute_batch("ROLLBACK").ok();
        }
        self.view.forget();
        self.minor.get_mut().folding.forget_after(self.head.seq);
    }

    fn begin(&mut self, durability: Durability) -> Result<(), StoreError> {
        if self.suspect || self.fleet.as_ref().is_some_and(Fleet::must_recover) {
            self.recover()?;
        }
        let durability = if durability == Durability::Full { durability } else { Durability::Normal };
        if self.durability != Some(durability) {
            let pragma = match durability {
                // The fleet's database has the rows of a copy that a power cut takes.
                Durability::Full if self.fleet.is_none() => "PRAGMA synchronous = FULL",
                Durability::Full | Durability::Normal | Durability::Deferred => "PRAGMA synchronous = NORMAL",
            };
            self.view.connection().execute_batch(pragma).map_err(at("set the durability"))?;
            self.durability = Some(durability);
        }
        self.view
            .connection()
            .prepare_cached("BEGIN IMMEDIATE")
            .and_then(|mut s| s.execute([]))
            .map_err(at("begin"))?;
        Ok(())
    }

    /// Makes commits without a sync durable: the log is one file, and a full commit syncs all of it. It changes a
    /// value, because a commit that changes nothing is neither written nor synced.
    ///
    /// # Errors
    /// [`StoreError`]; the rows may be lost with the machine's power.
    pub fn sync(&mut self) -> Result<(), StoreError> {
        if self.fleet.is_some() {
            // Each of its commits is synchronous.
            self.synced = self.head.seq;
            return Ok(());
        }
        self.durability = None;
        self.stats.commits += 1;
        self.stats.syncs += 1;
        let synced =
            self.view.connection().execute_batch("PRAGMA synchronous = FULL; UPDATE delivered SET turn = 1 - turn;");
        self.suspect |= synced.as_ref().is_err_and(wal::is_failed_sync);
        synced.map_err(at("sync"))?;
        self.synced = self.head.seq;
        Ok(())
    }

    /// Commits the transaction. After a failed COMMIT it is unknown whether the rows are durable, so the database is
    /// opened again and read.
    fn commit(&mut self, head: Head, signed: Option<Signed>) -> Result<(), StoreError> {
        if let Some(fleet) = &mut self.fleet {
            fleet.write(&self.view, head).inspect_err(|_unwritten| {
                self.view.connection().execute_batch("ROLLBACK").ok();
            })?;
        }
        let result = self.view.connection().prepare_cached("COMMIT").and_then(|mut s| s.execute([]));
        self.stats.commits += 1;
        self.stats.syncs += u64::from(self.durability == Some(Durability::Full));
        let Err(error) = result else {
            // A commit without a change is not synced.
            let is_synced = self.durability == Some(Durability::Full) || self.fleet.is_some();
            if is_synced && head.seq > self.head.seq {
                self.synced = head.seq;
            }
            (self.head, self.signed) = (head, signed);
            if let Some(fleet) = &mut self.fleet {
                fleet.is_copied();
            }
            self.view.committed();
            return Ok(());
        };
        if !self.view.connection().is_autocommit() {
            self.view.connection().execute_batch("ROLLBACK").ok();
        }
        self.suspect |= wal::is_failed_sync(&error);
        let recovered = self.recover();
        if self.fleet.is_some() && (recovered.is_err() || self.head != head) {
            // The fleet's database has the rows, and the next start reads them.
            return Err(FleetError::Unknown(format!("the copy cannot be written: {error}")).into());
        }
        recovered?;
        if self.head == head { Ok(()) } else { Err(at("commit")(error)) }
    }

    /// Opens the database again and finds the end of the chain. After a failed sync the kernel may mark pages of the
    /// log as written that were never written, also those of earlier unsynced commits. A later sync would not write
    /// them, and after a power cut the log would end at that hole. So nothing is written before everything is in the
    /// database and the log starts again.
    fn recover(&mut self) -> Result<(), StoreError> {
        self.durability = None;
        if let Some(fleet) = &mut self.fleet {
            fleet.distrust();
        }
        (self.view, self.log) = open::connection(&self.path)?;
        self.view.publication_use().borrow_mut().follow(self.publication.clone());
        if self.suspect {
            wal::empty(self.view.connection(), &self.path)?;
            self.suspect = false;
            self.synced = i64::MAX;
        }
        if let Some(fleet) = &mut self.fleet {
            fleet.attach(&self.view)?;
            fleet.recover(&self.view)?;
        }
        // Copied rows are verified.
        self.head = if self.fleet.is_some() { open::verify_tail(&self.view)?.0 } else { open::head(&self.view)? };
        self.synced = self.synced.min(self.head.seq);
        let known = self.signed.take();
        self.signed = checkpoints::continued(self.home(), &self.view, known, self.head.seq);
        Ok(())
    }

    /// Moves the log into the database when it is long. Call it when no caller waits for the latest rows.
    pub fn shorten_log(&mut self) {
        self.suspect |= self.log.shorten(self.view.connection());
    }

    /// Sets the number of bytes of evidence that a group or an external agent may cause in an hour; 0 means no bound.
    pub fn set_hourly_budget(&mut self, bytes: u64) {
        self.minor.get_mut().budgets.set_hourly(Some(bytes));
    }

    /// Compares the free space of the disk with the watermark, in bytes, but at most with a fiftieth of the disk. Below
    /// it, the caller that has used most is refused first.
    pub fn heed_space(&mut self, watermark: u64) {
        // Unknown free space is no reason to refuse: a write shows whether there is space.
        let nearly_full = Space::of(self.home()).is_some_and(|space| space.free < space.watermark(watermark));
        let now = self.steady();
        let budgets = &mut self.minor.get_mut().budgets;
        budgets.forget_empty(now);
        if let Some(caller) = budgets.heed_space(nearly_full, now) {
            tracing::error!(%caller, "the disk is nearly full; this caller has used most of it and is refused until there is space");
        }
    }

    /// Calls `each` with the bytes of evidence that each caller has caused and that still count against its hourly budget.
    pub fn evidence_used(&self, each: impl FnMut(&str, u64)) {
        self.minor.borrow().budgets.used(self.steady(), each);
    }

    /// Returns the home that the ledger is in.
    pub fn home(&self) -> &Path {
        self.path.parent().unwrap_or(&self.path)
    }

    /// Returns the rows that go into the next segment, if the database holds more than so many bytes.
    ///
    /// # Errors
    /// [`StoreError`] if the ledger cannot be read.
    pub fn due_segment(&self, bytes: u64, rows: i64) -> Result<Option<segments::Due>, StoreError> {
        segments::due(&self.view, self.clock.now(), bytes, rows)
    }

    /// Returns whether counted requests have to be written.
    pub fn has_counted(&self) -> bool {
        self.minor.borrow().folding.has_finished(self.steady())
    }

    /// Returns the row with this number.
    ///
    /// # Errors
    /// [`StoreError`] if the ledger cannot be read.
    pub fn row(&self, seq: i64) -> Result<Option<Row>, StoreError> {
        export::row(&self.view, seq)
    }

    /// Releases the space that is kept free for outcomes; `false` if none is left.
    pub fn release_reserve(&mut self) -> bool {
        self.reserve.release()
    }

    /// Returns whether that space is released and must be reserved again before anything new is written.
    pub fn is_using_reserve(&self) -> bool {
        self.reserve.is_given_up()
    }

    /// Reserves that space again, once the disk has enough.
    pub fn restore_reserve(&mut self) {
        self.reserve.restore();
    }

    /// Returns the reads of the last commit, on the writer's own connection.
    pub fn view(&self) -> &View {
        &self.view
    }

    /// Returns the error of a host of a fleet that another daemon was found to serve.
    pub fn fenced(&self) -> Option<FleetError> {
        self.fleet.as_ref().filter(|fleet| fleet.is_fenced()).map(|fleet| FleetError::Fenced(fleet.host().to_owned()))
    }

    /// Makes a daemon with another home wait after the end of this one, because effects may still be under way.
    pub fn keep_host(&mut self) {
        if let Some(fleet) = &mut self.fleet {
            fleet.keep_host();
        }
    }

    /// Returns whether a daemon with another home served the host of this one and did not end. Its last effects may still be
    /// under way.
    pub fn has_ousted(&self) -> bool {
        self.fleet.as_ref().is_some_and(Fleet::has_ousted)
    }

    /// Notes that the effects of that daemon have ended. Before, a restart counts as another takeover.
    pub fn others_have_ended(&mut self) {
        if let Some(fleet) = &mut self.fleet {
            fleet.others_have_ended();
        }
    }

    /// Returns the row up to which everything is synced.
    pub fn synced(&self) -> i64 {
        self.synced
    }
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store").field("path", &self.path).field("head", &self.head).finish_non_exhaustive()
    }
}
