//! The database of a fleet: PostgreSQL, of which the database of a home is a copy.
//!
//! ```text
//! BEGIN (copy) ► reads and writes of the batch ► changed rows ► one flight to PostgreSQL ► COMMIT (copy)
//! ```
//!
//! A host alone writes its rows, so its copy is complete and every decision reads the copy only. PostgreSQL has each batch
//! before the copy, and every commit there is synchronous. A fence shuts out every other writer of the host. The number of
//! a batch and the name of its writer show whether it is there.
//!
//! INVARIANT: the copy never contains a batch that PostgreSQL lacks. `Fleet::recover` reads the missing rows: at a
//! start, after an unknown commit, and after a failed commit of the copy.

mod changes;
pub mod commands;
mod encryption;
mod error;
mod flight;
pub(crate) mod leave;
mod link;
mod look;
mod schema;
mod server;
mod servers;
mod settings;
mod tables;

pub use encryption::BodyKey;
pub use error::FleetError;
pub use look::{DaemonState, HostLook, Look, QuotaLook, ServerDurability, look, look_at_quotas, publication};
pub use schema::{host_script, schema_script};
pub use settings::Settings;

use crate::ledger::chain::Head;
use crate::ledger::segments;
use crate::shared_use::{Counted, SharedUse};
use crate::{StoreError, View, at};
use changes::{Capture, Changed};
use model::{HostName, Nonce};
use platform::boot;
use platform::random::SystemRandom;
use rusqlite::config::DbConfig;
use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension as _, params, params_from_iter};
use server::{BATCH, Batch, Known, Server};
use shared::digest::Digest;
use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tables::{SEQUENCES, TABLES_VERSION, Table};

/// The longest time for a batch that fills a database.
const FILLED: Duration = Duration::from_secs(300);
/// The most attempts to take a host over.
const ATTEMPTS: usize = 5;
/// A failure that comes sooner than this is that of a connection that had ended before.
const AT_ONCE: Duration = Duration::from_secs(1);

/// The writer's side of the database.
#[derive(Debug)]
pub(crate) struct Fleet {
    server: Server,
    capture: Capture,
    key: BodyKey,
    host: HostName,
    holder: String,
    place: String,
    fence: i64,
    /// The last batch that PostgreSQL has, and the home that has written it.
    batch: i64,
    writer: String,
    sequences: BTreeMap<String, i64>,
    state: State,
    /// Whether another home served the host until its lease stood still, and its effects may still be under way.
    has_ousted: bool,
    /// Whether another home must wait until the lease stands still, because effects may still be under way.
    is_kept: bool,
}

/// The knowledge about the last batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// PostgreSQL and the copy have it.
    Settled,
    /// It is unknown whether PostgreSQL has the batch after it.
    Unknown,
    /// PostgreSQL has it, and the copy may lack it.
    Behind,
}

impl Fleet {
    /// Takes the host over, and brings the copy up to date. If another home served the host, this waits until its lease
    /// stands still.
    ///
    /// # Errors
    /// [`StoreError`]; another daemon may serve the host.
    pub(crate) fn join((settings, key): (&Settings, &BodyKey), home: &Path, view: &View) -> Result<Self, StoreError> {
        let connection = view.connection();
        view.join_fleet();
        let capture = Capture::attach(connection)?;
        let host = settings.host.clone();
        let (copied, of_another) = match Copied::of(connection)? {
            Some(copied) if copied.host != host.as_str() => (None, true),
            copied => (copied, false),
        };
        let last = copied.as_ref().map_or(0, |copied| copied.batch);
        let server = Server::start(settings.clone(), Arc::clone(&capture.tables), Some(last))?;
        let place = place(home);
        // A copied home, or one of an earlier boot, waits like every other home.
        let same = copied.as_ref().filter(|copied| !place.is_empty() && copied.place == place);
        // A daemon that has died during its takeover has left two names.
        let own = same.map_or("", |copied| copied.holder.as_str()).split(' ').map(str::to_owned);
        // A new name for each daemon: a copied home must not count as this one.
        let fresh = Nonce::fresh(&SystemRandom).map_err(|_failed| FleetError::Randomness)?;
        let holder = fresh.as_str().to_owned();
        // An attempt without an answer may have been successful.
        let mine: Vec<String> = own.chain([String::new(), holder.clone()]).collect();
        let end = crate::open::head(view)?;
        let may_take = || {
            let known = server.unserved(mine.clone())?;
            if known.has_left {
                let left = if copied.is_some() { FleetError::Leaving } else { FleetError::Left };
                return Err(left(host.to_string()).into());
            }
            // A home that cannot continue is found before the other daemon is shut out.
            let is_filled = server.is_filled()?;
            if is_filled {
                key.fits(host.as_str(), &known.key_check)?;
            }
            // The rows of a copy of another host can only fill a new one, once.
            if of_another && is_filled && !is_end(&known, &end) {
                return Err(FleetError::Other(host.to_string()).into());
            }
            check_continues(&server, (&known, is_filled), (copied.as_ref(), end), view, host.as_str())?;
            Ok::<_, StoreError>((known, is_filled))
        };
        let (mut attempts, mut has_ousted) = (0, false);
        let (known, is_filled, fence) = loop {
            let (known, is_filled) = may_take()?;
            attempts += 1;
            has_ousted |= !mine.contains(&known.holder);
            if copied.is_some() && mine.contains(&known.holder) {
                // Now, because the next daemon must not wait if this one dies before its first batch.
                name_holders(connection, &format!("{} {holder}", known.holder))?;
            }
            let key_check = if is_filled { None } else { Some(key.check(host.as_str())?) };
            match server.take_over(known.clone(), holder.clone(), key_check) {
                // The last transaction of the daemon before has come in between, or the next attempt is at another server.
                Err(FleetError::Fenced(_) | FleetError::Unreachable(_)) if attempts < ATTEMPTS => {}
                taken => break (known, is_filled, taken?),
            }
        };
        let (batch, seq, writer) = (known.batch, known.seq, known.writer);
        let (sequences, state) = (BTreeMap::new(), State::Behind);
        let mut fleet = Self {
            server,
            capture,
            key: key.clone(),
            host,
            holder,
            place,
            fence,
            batch,
            writer,
            sequences,
            state,
            has_ousted,
            is_kept: false,
        };
        match copied {
            Some(copied) => fleet.keep(connection, copied.batch, &copied.writer)?,
            // A copy that ends in the middle is a copy, and not a home of its own.
            None if is_filled => fleet.keep(connection, 0, "")?,
            None => {}
        }
        if !is_filled {
            fleet.fill(home, view, seq)?;
        }
        fleet.recover(view)?;
        Ok(fleet)
    }

    /// Checks that the tables of the database are those of this version.
    ///
    /// # Errors
    /// [`StoreError::Fleet`]; nothing was changed.
    pub(crate) fn check_version(settings: &Settings) -> Result<(), StoreError> {
        check_version(&Server::start(settings.clone(), Arc::from([]), None)?)
    }

    /// Keeps the host reserved after the end of the daemon.
    pub(crate) fn keep_host(&mut self) {
        self.is_kept = true;
    }

    /// Returns whether another daemon was found to serve the host.
    pub(crate) fn is_fenced(&self) -> bool {
        self.server.is_fenced()
    }

    /// Returns the name of the host.
    pub(crate) fn host(&self) -> &str {
        self.host.as_str()
    }

    /// Returns whether another home served the host until its lease stood still. Effects of its daemon may still be under
    /// way.
    pub(crate) fn has_ousted(&self) -> bool {
        self.has_ousted
    }

    /// Notes that the effects of that daemon have ended.
    pub(crate) fn others_have_ended(&mut self) {
        self.has_ousted = false;
    }

    /// Watches the changes of a connection that was opened again.
    ///
    /// # Errors
    /// [`StoreError`]; the connection must not be used then.
    pub(crate) fn attach(&mut self, view: &View) -> Result<(), StoreError> {
        view.join_fleet();
        self.capture = Capture::attach(view.connection())?;
        Ok(())
    }

    /// Notes that the copy may lack batches, because its connection is opened again.
    pub(crate) fn distrust(&mut self) {
        if self.state == State::Settled {
            self.state = State::Behind;
        }
    }

    /// Returns whether nothing may be written before [`Self::recover`] has succeeded.
    pub(crate) fn must_recover(&self) -> bool {
        self.state != State::Settled
    }

    /// Writes the changes of the open transaction of the copy.
    ///
    /// # Errors
    /// [`StoreError`]; the transaction of the copy must be rolled back. If the error is [`FleetError::Unknown`], the
    /// database may have the rows.
    pub(crate) fn write(&mut self, view: &View, head: Head) -> Result<(), StoreError> {
        let (number, connection) = (self.batch + 1, view.connection());
        let (changes, sequences) =
            self.capture.changes(connection, (self.host.as_str(), &self.key), &self.sequences)?;
        self.keep(connection, number, &self.holder)?;
        // A full disk shows before the database has the batch.
        connection.cache_flush().map_err(at("write the copy"))?;
        let (head, changes) = ((head.seq, head.hash), Arc::from(changes));
        let (shared, wait_ms) = match view.shared_use() {
            Some(shared) => (shared.borrow().charges().into(), shared.borrow().wait_ms()),
            None => (Arc::from([]), 0),
        };
        let publication = view.publication_use().borrow().needed().cloned();
        let mut batch = Batch { fence: self.fence, number, head, changes, publication, shared, wait_ms, limit: BATCH };
        let began = Instant::now();
        let mut written = self.write_or_settle(&batch);
        if matches!(written, Err(StoreError::Fleet(FleetError::Unreachable(_)))) && began.elapsed() < AT_ONCE {
            batch.fence = self.fence;
            written = self.write_or_settle(&batch);
        }
        if let Some(shared) = view.shared_use() {
            note_use(&mut shared.borrow_mut(), &written, began);
        }
        match &written {
            Err(StoreError::Fleet(FleetError::Stale(_))) => view.publication_use().borrow_mut().note_stale(),
            Err(StoreError::Fleet(FleetError::StillUsed)) => view.publication_use().borrow_mut().note_used_elsewhere(),
            Ok(_) | Err(_) => {}
        }
        written?;
        self.has_written(number);
        (self.sequences, self.state) = (sequences, State::Behind);
        Ok(())
    }

    /// Writes a batch. If its commit is not answered, finds out whether it is there. Returns the use of the shared quotas
    /// that it charges, as far as it was answered.
    fn write_or_settle(&mut self, batch: &Batch) -> Result<Vec<Counted>, StoreError> {
        match self.server.write(batch.clone()) {
            Ok(counted) => Ok(counted),
            Err(FleetError::Unknown(error)) => {
                tracing::warn!(%error, "it is unknown whether the fleet's database has the last rows");
                self.state = State::Unknown;
                if self.settle()? { Ok(Vec::new()) } else { Err(FleetError::Unreachable(error).into()) }
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Notes that the copy has the last batch, too.
    pub(crate) fn is_copied(&mut self) {
        self.state = State::Settled;
    }

    /// Finds out whether the database has the batch whose commit is unknown. Returns whether it has.
    fn settle(&mut self) -> Result<bool, StoreError> {
        let (fence, batch) = self.server.settle()?;
        self.fence = fence;
        match batch.checked_sub(self.batch) {
            Some(0) => {
                self.state = State::Settled;
                Ok(false)
            }
            Some(1) => {
                self.has_written(batch);
                self.state = State::Behind;
                Ok(true)
            }
            // Another daemon has written in between.
            _ => Err(FleetError::Fenced(self.host.to_string()).into()),
        }
    }

    /// Settles the last batch, and reads the rows that the copy lacks.
    ///
    /// # Errors
    /// [`StoreError`]; the copy is as it was, or has more rows of the ledger.
    pub(crate) fn recover(&mut self, view: &View) -> Result<(), StoreError> {
        if self.state == State::Unknown {
            self.settle()?;
        }
        let connection = view.connection();
        let copied = Copied::of(connection)?;
        let is_current = copied.is_some_and(|copied| copied.batch == self.batch && copied.writer == self.writer);
        if !is_current {
            tracing::info!(host = %self.host, batch = self.batch, "the copy reads the rows of the fleet's database");
            self.copy(view)?;
        }
        self.sequences = changes::numbers(connection)?;
        self.state = State::Settled;
        Ok(())
    }

    /// Reads the rows of the ledger that the copy lacks, then all other rows.
    fn copy(&mut self, view: &View) -> Result<(), StoreError> {
        let connection = view.connection();
        // The rows that triggers make come with the others, or are counted again.
        let triggers = |on| connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, on);
        triggers(false).map_err(at("copy rows"))?;
        let copied = self.copy_rows(view);
        triggers(true).map_err(at("copy rows"))?;
        view.forget();
        self.server.end_reading()?;
        copied
    }

    fn copy_rows(&mut self, view: &View) -> Result<(), StoreError> {
        let connection = view.connection();
        let last = crate::open::head(view)?.seq;
        let tables = Arc::clone(&self.capture.tables);
        for (number, table) in tables.iter().enumerate().filter(|(_, table)| table.is_append_only()) {
            self.server.read(number, last)?;
            self.each_part(table, |rows| {
                copying(connection, || insert(connection, table, rows))?;
                // Otherwise the log becomes as large as the ledger.
                connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(())).map_err(at("shorten the log"))
            })?;
        }
        copying(connection, || {
            let state = tables.iter().enumerate().filter(|(_, table)| !table.is_append_only());
            for (_, table) in state.clone().filter(|(_, table)| table.name != SEQUENCES) {
                let delete = format!("DELETE FROM main.\"{}\"", table.name);
                connection.execute(&delete, []).map_err(at("copy rows"))?;
            }
            for (number, table) in state {
                self.server.read(number, 0)?;
                self.each_part(table, |rows| match table.name.as_str() {
                    SEQUENCES => changes::number_on(connection, rows),
                    _ => insert(connection, table, rows),
                })?;
            }
            connection.execute_batch(tables::COUNTED).map_err(at("count rows"))?;
            self.check_copied(view)?;
            self.keep(connection, self.batch, &self.writer)
        })
    }

    /// Checks that the rows end where the database says, and that no other daemon has written since.
    fn check_copied(&self, view: &View) -> Result<(), StoreError> {
        let known = self.server.known()?;
        if known.fence != self.fence {
            return Err(FleetError::Fenced(self.host.to_string()).into());
        }
        let is_whole = known.batch == self.batch && is_end(&known, &crate::open::head(view)?);
        if is_whole { Ok(()) } else { Err(FleetError::Incomplete.into()) }
    }

    fn each_part(
        &self,
        table: &Table,
        mut each: impl FnMut(&[Vec<Value>]) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        loop {
            let mut rows = self.server.next_rows()?;
            if rows.is_empty() {
                return Ok(());
            }
            for row in &mut rows {
                self.key.decrypt(self.host.as_str(), table, row)?;
            }
            each(&rows)?;
        }
    }

    /// Writes all rows of the home into the database. It has none of the state yet, and the ledger up to the row `has`.
    fn fill(&mut self, home: &Path, view: &View, has: i64) -> Result<(), StoreError> {
        let connection = view.connection();
        let end = crate::open::head(view)?;
        let mut part = self.capture.ledger_part();
        segments::between(home, view, has + 1, end.seq, |row| {
            part.add(&row)?;
            if part.is_full() {
                tracing::info!(row = row.seq, of = end.seq, "the fleet's database gets the rows of this home");
                self.fill_part(part.take(), Head { seq: row.seq, hash: row.event_hash, ts: row.ts })?;
            }
            Ok::<_, StoreError>(())
        })?;
        // The state comes last and at once: a database without it is filled again.
        in_transaction(connection, || {
            changes::note_all(&self.capture, connection)?;
            let (mut state, sequences) =
                self.capture.changes(connection, (self.host.as_str(), &self.key), &BTreeMap::new())?;
            state.extend(part.take());
            let number = self.batch + 1;
            self.keep(connection, number, &self.holder)?;
            let head = (end.seq, end.hash);
            let changes = Arc::from(state);
            self.server.write(self.filling(number, head, changes))?;
            self.has_written(number);
            self.sequences = sequences;
            Ok(())
        })
    }

    fn fill_part(&mut self, rows: Option<Changed>, end: Head) -> Result<(), StoreError> {
        let (number, head) = (self.batch + 1, (end.seq, end.hash));
        let changes = rows.into_iter().collect();
        self.server.write(self.filling(number, head, changes))?;
        self.has_written(number);
        Ok(())
    }

    /// Returns a batch that fills the database.
    fn filling(&self, number: i64, head: (i64, Digest), changes: Arc<[Changed]>) -> Batch {
        let (publication, shared) = (None, Arc::from([]));
        Batch { fence: self.fence, number, head, changes, publication, shared, wait_ms: 0, limit: FILLED }
    }

    fn has_written(&mut self, number: i64) {
        self.batch = number;
        self.writer.clone_from(&self.holder);
    }

    /// Stores in the copy which batch it contains.
    fn keep(&self, connection: &Connection, batch: i64, writer: &str) -> Result<(), StoreError> {
        const KEEP: &str = "INSERT INTO main.fleet (one, host, holder, place, writer, batch)
            VALUES (1, ?1, ?2, ?3, ?4, ?5)
            ON CONFLICT (one) DO UPDATE SET host = ?1, holder = ?2, place = ?3, writer = ?4, batch = ?5";
        // Without the name, a restart waits for the lease again, and knows again that effects may be under way.
        let holder = if self.has_ousted { "" } else { self.holder.as_str() };
        connection
            .prepare_cached(KEEP)
            .and_then(|mut s| s.execute(params![self.host.as_str(), holder, self.place, writer, batch]))
            .map_err(at("keep the batch"))?;
        Ok(())
    }
}

/// Notes the use of shared quotas that a batch has learned. It was sent at this time.
fn note_use(shared: &mut SharedUse, written: &Result<Vec<Counted>, StoreError>, sent: Instant) {
    match written {
        Ok(counted) => counted.iter().cloned().for_each(|counted| shared.note(counted, sent)),
        Err(StoreError::Fleet(FleetError::UsedUp { provider, scope, used, left })) => {
            let (provider, scope) = (provider.clone(), scope.clone());
            shared.note(Counted { provider, scope, used: *used, left: *left }, sent);
        }
        Err(StoreError::Fleet(FleetError::Held { provider, scope })) => shared.note_held((provider, scope)),
        Err(_) => {}
    }
}

impl Drop for Fleet {
    /// Lets another home serve the host at once, unless effects may still be under way.
    fn drop(&mut self) {
        if self.is_kept || self.has_ousted {
            return;
        }
        if let Err(error) = self.server.release() {
            tracing::warn!(%error, host = %self.host, "the host stays reserved in the fleet's database until its lease stands still");
        }
    }
}

/// Stores the names of the daemon that served the host last, and of the one that takes it over.
///
/// # Errors
/// [`StoreError`]; the names are as before.
fn name_holders(connection: &Connection, names: &str) -> Result<(), StoreError> {
    connection.execute("UPDATE main.fleet SET holder = ?1", [names]).map_err(at("keep the holder"))?;
    Ok(())
}

/// The host and the batch of which a database is a copy.
struct Copied {
    host: String,
    holder: String,
    place: String,
    writer: String,
    batch: i64,
}

impl Copied {
    fn of(connection: &Connection) -> Result<Option<Self>, StoreError> {
        connection
            .query_row("SELECT host, holder, place, writer, batch FROM main.fleet WHERE one = 1", [], |row| {
                Ok(Self {
                    host: row.get(0)?,
                    holder: row.get(1)?,
                    place: row.get(2)?,
                    writer: row.get(3)?,
                    batch: row.get(4)?,
                })
            })
            .optional()
            .map_err(at("read the batch of the copy"))
    }
}

/// Returns the host of which a database is a copy.
///
/// # Errors
/// [`StoreError`] if it cannot be read.
pub(crate) fn host_of(view: &View) -> Result<Option<String>, StoreError> {
    Ok(Copied::of(view.connection())?.map(|copied| copied.host))
}

fn check_version(server: &Server) -> Result<(), StoreError> {
    match server.version()? {
        Some(TABLES_VERSION) => Ok(()),
        found => Err(FleetError::Version { found: found.unwrap_or(0), known: TABLES_VERSION }.into()),
    }
}

/// Checks that the ledger of the home is a part of the database's. If the database is not filled, the reverse may hold.
fn check_continues(
    server: &Server,
    (known, is_filled): (&Known, bool),
    (copied, end): (Option<&Copied>, Head),
    view: &View,
    host: &str,
) -> Result<(), StoreError> {
    if let Some(copied) = copied
        && (copied.batch > known.batch || !is_filled || end.seq > known.seq)
    {
        return Err(FleetError::Older { database: known.batch, home: copied.batch }.into());
    }
    let shared = end.seq.min(known.seq);
    if shared == 0 {
        return Ok(());
    }
    // The rows of a home that is not a copy yet may be in segments.
    let here = if shared == end.seq { Some(end.hash) } else { segments::before(view, shared + 1)?.map(|row| row.hash) };
    let there = if shared == known.seq { Some(known.hash.clone()) } else { server.row_hash(shared)? };
    let is_same = here.is_some_and(|here| there.is_some_and(|there| there == here.as_bytes()));
    let may_be_longer = end.seq <= known.seq || !is_filled;
    if is_same && may_be_longer { Ok(()) } else { Err(FleetError::Other(host.to_owned()).into()) }
}

/// Returns the boot of the machine and the lock file of a home. A daemon with the lock at the same place has no living
/// predecessor. Empty if it is unknown.
fn place(home: &Path) -> String {
    match (boot::id(), std::fs::metadata(home.join("lock"))) {
        (Ok(boot), Ok(lock)) => format!("{boot} {} {}", lock.dev(), lock.ino()),
        (Err(_), _) | (_, Err(_)) => String::new(),
    }
}

/// Returns whether a chain ends where the database's does.
fn is_end(known: &Known, end: &Head) -> bool {
    known.seq == end.seq && (end.seq == 0 || known.hash == end.hash.as_bytes())
}

/// Inserts rows into the copy.
fn insert(connection: &Connection, table: &Table, rows: &[Vec<Value>]) -> Result<(), StoreError> {
    let mut statement = connection.prepare_cached(&table.local_insert()).map_err(at("copy rows"))?;
    for row in rows {
        statement.execute(params_from_iter(row)).map_err(at("copy a row"))?;
    }
    Ok(())
}

/// Runs work that copies rows in one transaction. The copied rows are no changes.
fn copying(connection: &Connection, work: impl FnOnce() -> Result<(), StoreError>) -> Result<(), StoreError> {
    in_transaction(connection, || {
        // Rows come in the order of their tables.
        connection.execute_batch("PRAGMA defer_foreign_keys = ON").map_err(at("copy rows"))?;
        work()?;
        changes::forget(connection)
    })
}

fn in_transaction(connection: &Connection, work: impl FnOnce() -> Result<(), StoreError>) -> Result<(), StoreError> {
    connection.execute_batch("BEGIN IMMEDIATE").map_err(at("begin"))?;
    let done = work().and_then(|()| connection.execute_batch("COMMIT").map_err(at("commit")));
    if done.is_err() && !connection.is_autocommit() {
        connection.execute_batch("ROLLBACK").ok();
    }
    done
}
