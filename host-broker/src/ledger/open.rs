//! Opening the database: schema, settings, the chain checked, the log pre-grown.

use crate::effects::clock::Clock;
use crate::ledger::chain::{Head, Verifier};
use crate::ledger::lock::Lock;
use crate::ledger::reserve::Reserve;
use crate::ledger::{Ledger, LedgerError, Tally, at, export};
use rusqlite::{Connection, OpenFlags};
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

const SCHEMA: &str = include_str!("schema.sql");
const SCHEMA_VERSION: i64 = 1;
/// The write-ahead log is grown to this once and then written over and over: an overwrite needs no change of the
/// file's metadata, so a commit is one sync.
const LOG_BYTES: u64 = 4 * 1024 * 1024;
/// Beyond this the writer moves the rest of the log into the database itself. Under a load that never pauses, another
/// thread never gets to the end of it, and only a log that is empty is written over.
const LOG_BYTES_LONG: u64 = 64 * 1024 * 1024;
/// How many rows at the end of the chain a start verifies; `evidence verify` does all of them.
const VERIFIED_AT_START: i64 = 10_000;
/// A reader or the checkpointer may hold the database this long.
const BUSY: Duration = Duration::from_secs(5);

impl Ledger {
    /// Keeps the log from growing for ever. Costs next to nothing as long as it is not long.
    pub fn shorten_log(&self) {
        let log = self.path.with_extension("db-wal");
        if log.metadata().is_ok_and(|file| file.len() > LOG_BYTES_LONG)
            && let Err(error) = checkpoint(&self.connection)
        {
            tracing::warn!(error = ?error, "the ledger's log could not be moved into the database");
        }
    }

    /// Opens the one writer of a home, making the database if there is none.
    ///
    /// # Errors
    /// [`LedgerError`]: locked by another daemon, unusable, of another version, or broken evidence.
    pub fn open(home: &Path, clock: Arc<dyn Clock>, policy_version: String) -> Result<Self, LedgerError> {
        let lock = Lock::take(&home.join("lock"))?;
        let path = home.join("ledger.db");
        create_private(&path)?;
        let connection = connection(&path)?;
        migrate(&connection, &path)?;
        // A predecessor may have died of a sync that failed. Where somebody reads just now, the log stays as it is.
        if empty_log(&connection, &path).is_err() {
            grow_log(&path)?;
        }
        let head = verify_tail(&connection)?;
        let reserve = Reserve::take(home);
        Ok(Self {
            connection,
            path,
            head,
            clock,
            policy_version,
            durability: None,
            tally: Tally::default(),
            suspect: false,
            reserve,
            _lock: lock,
        })
    }
}

/// SQLite would create the file with the process's umask.
fn create_private(path: &Path) -> Result<(), LedgerError> {
    let made = std::fs::OpenOptions::new().create(true).append(true).mode(0o600).open(path);
    made.map(drop).map_err(|source| LedgerError::File { path: path.into(), source })
}

/// The writer's connection.
pub(super) fn connection(path: &Path) -> Result<Connection, LedgerError> {
    let open = |source| LedgerError::Open { path: path.into(), source };
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags).map_err(open)?;
    connection.busy_timeout(BUSY).map_err(open)?;
    connection.set_prepared_statement_cache_capacity(64);
    connection
        .execute_batch(
            "PRAGMA journal_mode = WAL;
             PRAGMA synchronous = FULL;
             PRAGMA foreign_keys = ON;
             PRAGMA recursive_triggers = ON;
             PRAGMA trusted_schema = OFF;
             PRAGMA journal_size_limit = -1;
             PRAGMA wal_autocheckpoint = 0;
             PRAGMA temp_store = MEMORY;
             PRAGMA cache_size = -8192;",
        )
        .map_err(open)?;
    Ok(connection)
}

/// A connection for reading only; it never waits for the writer, nor the writer for it.
///
/// # Errors
/// [`LedgerError::Open`] if there is no ledger.
pub fn reader(home: &Path) -> Result<Connection, LedgerError> {
    let path = home.join("ledger.db");
    let open = |source| LedgerError::Open { path: path.clone(), source };
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(&path, flags).map_err(open)?;
    connection.busy_timeout(BUSY).map_err(open)?;
    Ok(connection)
}

/// The connection that [`checkpoint`]s; it writes no rows.
///
/// # Errors
/// [`LedgerError::Open`] if there is no ledger.
pub fn second_writer(home: &Path) -> Result<Connection, LedgerError> {
    connection(&home.join("ledger.db"))
}

/// Moves what the log holds into the database, so that the log can be written over. On a thread of its own, because the writer would wait for its syncs.
///
/// # Errors
/// [`LedgerError`]; the log then grows until the next try.
pub fn checkpoint(connection: &Connection) -> Result<(), LedgerError> {
    connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(())).map_err(at("move the log into the database"))
}

fn migrate(connection: &Connection, path: &Path) -> Result<(), LedgerError> {
    let found: i64 = connection
        .query_row("PRAGMA user_version", [], |row| row.get(0))
        .map_err(|source| LedgerError::Open { path: path.into(), source })?;
    match found {
        SCHEMA_VERSION => Ok(()),
        0 => connection
            .execute_batch(&format!("BEGIN IMMEDIATE;\n{SCHEMA}\nPRAGMA user_version = {SCHEMA_VERSION};\nCOMMIT;"))
            .map_err(at("make the schema")),
        found => Err(LedgerError::Version { found, known: SCHEMA_VERSION }),
    }
}

/// Moves all of the log into the database and begins the log anew.
///
/// # Errors
/// [`LedgerError`], also while somebody reads; some of it may still be in the log only.
pub(super) fn empty_log(connection: &Connection, path: &Path) -> Result<(), LedgerError> {
    let step = "begin the log anew";
    // Nobody is waited for: every group waits meanwhile, and the next try is near.
    connection.busy_timeout(Duration::ZERO).map_err(at(step))?;
    let held = connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get(0));
    connection.busy_timeout(BUSY).map_err(at(step))?;
    if held.map_err(at(step))? {
        let busy = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_BUSY);
        return Err(at(step)(rusqlite::Error::SqliteFailure(busy, Some("somebody reads it".into()))));
    }
    // A short log is only slower.
    grow_log(path).ok();
    Ok(())
}

/// Appends zeros to the database's log. SQLite takes what lies behind its last valid frame for nothing.
fn grow_log(path: &Path) -> Result<(), LedgerError> {
    const STEP: u64 = 64 * 1024;
    let zeros = [0; 64 * 1024];
    let path = path.with_extension("db-wal");
    let grow = || {
        let log = std::fs::OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(&path)?;
        let mut end = log.metadata()?.len();
        while end < LOG_BYTES {
            log.write_all_at(&zeros, end)?;
            end += STEP;
        }
        log.sync_all()
    };
    grow().map_err(|source| LedgerError::File { path: path.clone(), source })
}

/// The end of the chain, as stored.
pub(super) fn head(connection: &Connection) -> Result<Head, LedgerError> {
    Ok(export::last(connection)?.map_or(Head::EMPTY, |row| Head { seq: row.seq, hash: row.event_hash, ts: row.ts }))
}

/// Verifies the last rows and their links.
fn verify_tail(connection: &Connection) -> Result<Head, LedgerError> {
    let end = head(connection)?;
    let from = (end.seq - VERIFIED_AT_START).max(0);
    let before = if from == 0 { None } else { export::row(connection, from)? };
    let mut verifier = match before {
        Some(row) => Verifier::after(Head { seq: row.seq, hash: row.event_hash, ts: row.ts }),
        None => Verifier::new(),
    };
    export::each(connection, from + 1, |row| verifier.take(&row).map_err(LedgerError::from))?;
    Ok(end)
}
