//! SQLite's write-ahead log: its length, and the move of its contents into the database.
//!
//! The log grows to its length once and is then overwritten again and again. An overwrite needs no change of the file's
//! metadata, so a commit is one `fdatasync`. SQLite overwrites the log only when all of it is in the database. The
//! writer moves it itself: another thread would never reach the end of a log that grows at the same time.

use crate::open::BUSY;
use crate::{StoreError, at};
use rusqlite::Connection;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::Duration;

/// The log's length.
const BYTES: u64 = 8 * 1024 * 1024;
/// The number of pages at which it is moved into the database: three quarters of the log, a millisecond of work.
const LONG: i32 = 1_500;
/// The number of further pages until the next try. While another process reads older pages, not all of the log can be
/// moved.
const AGAIN: i32 = 500;

/// The length of the log.
#[derive(Debug)]
pub(crate) struct Log {
    pages: Arc<AtomicI32>,
    try_at: i32,
}

impl Log {
    /// Counts the pages of this connection from now on.
    pub(super) fn of(connection: &mut Connection) -> Result<Self, rusqlite::Error> {
        let pages = Arc::new(AtomicI32::new(0));
        let counted = Arc::clone(&pages);
        connection.wal_hook(Some(move |_: &mut rusqlite::hooks::Wal, pages| {
            counted.store(pages, Ordering::Relaxed);
            Ok(())
        }))?;
        Ok(Self { pages, try_at: LONG })
    }

    /// Moves the log into the database if it is long; `true` if a sync failed. The pages that cannot be moved are moved
    /// at the next try, and the log grows until then.
    pub(super) fn shorten(&mut self, connection: &Connection) -> bool {
        let pages = self.pages.load(Ordering::Relaxed);
        if pages < LONG {
            self.try_at = LONG;
        } else if pages >= self.try_at {
            self.try_at = pages + AGAIN;
            let moved = connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()));
            if let Err(error) = moved {
                tracing::warn!(%error, "the ledger's log could not be moved into the database");
                return is_failed_sync(&error);
            }
        }
        false
    }
}

/// Returns whether the state of the disk is unknown after this error.
pub(super) fn is_failed_sync(error: &rusqlite::Error) -> bool {
    error.sqlite_error().is_some_and(|error| error.extended_code == rusqlite::ffi::SQLITE_IOERR_FSYNC)
}

/// Moves all of the log into the database and starts the log again, also if a sync of it has failed.
///
/// # Errors
/// [`StoreError`], also while another process reads; some of it may still be in the log only.
pub(super) fn empty(connection: &Connection, path: &Path) -> Result<(), StoreError> {
    let step = "begin a new log";
    write_again(path)?;
    // It does not wait for readers: every group would wait too, and the next try is near.
    connection.busy_timeout(Duration::ZERO).map_err(at(step))?;
    let held = connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get(0));
    connection.busy_timeout(BUSY).map_err(at(step))?;
    if held.map_err(at(step))? {
        let busy = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_BUSY);
        return Err(at(step)(rusqlite::Error::SqliteFailure(busy, Some("somebody reads it".into()))));
    }
    // A short log is only slower.
    grow(path).ok();
    Ok(())
}

/// Appends zeros to the database's log. SQLite ignores everything behind its last valid frame.
///
/// # Errors
/// [`StoreError::File`]; the log may have grown by a part of it.
pub(super) fn grow(path: &Path) -> Result<(), StoreError> {
    const STEP: u64 = 64 * 1024;
    let zeros = vec![0; 64 * 1024];
    let path = path.with_extension("db-wal");
    let grow = || {
        let log = std::fs::OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(&path)?;
        // ORDER: first the disk must know that the log was emptied. Zeros in the middle of an old log would make it a
        // shorter one, which SQLite can still read, and which would take the database back.
        log.sync_all()?;
        let mut end = log.metadata()?.len();
        while end < BYTES {
            log.write_all_at(&zeros, end)?;
            end += STEP;
        }
        log.sync_all()
    };
    grow().map_err(|source| StoreError::File { path: path.clone(), source })
}

/// Writes all of the log once more from memory, and syncs it. The log must not have a hole while the database is
/// written. After a power cut the log would then end too early and the database be half new.
fn write_again(path: &Path) -> Result<(), StoreError> {
    let path = path.with_extension("db-wal");
    let again = || {
        let log =
            std::fs::OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(&path)?;
        let mut piece = vec![0; 64 * 1024];
        let mut at = 0;
        loop {
            let read = log.read_at(&mut piece, at)?;
            let Some(read) = piece.get(..read).filter(|read| !read.is_empty()) else { break };
            log.write_all_at(read, at)?;
            at += u64::try_from(read.len()).unwrap_or(0);
        }
        log.sync_all()
    };
    again().map_err(|source| StoreError::File { path: path.clone(), source })
}
