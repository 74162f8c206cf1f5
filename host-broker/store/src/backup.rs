//! Copies of the ledger: made while a daemon writes, and verified where they lie.
//!
//! A copy is one read transaction, so it is the state after one commit. It does not block the daemon. SQLite's log grows
//! until the copy is done.

use crate::ledger::chain::{Head, Row};
use crate::ledger::segments::{self, Segment};
use crate::ledger::verifier::{Break, Verifier};
use crate::open::{self, SCHEMA_VERSION};
use crate::{StoreError, View, at};
use rusqlite::params;
use std::fs::OpenOptions;
use std::io::{Error, ErrorKind};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

/// The number of steps of SQLite between two reports of a copy: some milliseconds.
const STEPS: i32 = 100_000;

/// A verified copy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verified {
    /// The end of its chain.
    pub head: Head,
    /// The segments that hold its oldest rows.
    pub segments: Vec<Segment>,
    /// The version of its schema.
    pub schema: i64,
}

/// Returns the path of the database in a directory.
pub fn database(directory: &Path) -> PathBuf {
    directory.join("ledger.db")
}

/// Copies the database of a home, but not its segments, into a new private file of this directory. The copy has no row
/// that was deleted. `report` is called again and again; the copy ends when it returns `false`.
///
/// # Errors
/// [`StoreError`]; the file may be there, and is no copy.
pub fn copy(
    home: &Path,
    directory: &Path,
    mut report: impl FnMut() -> bool + Send + 'static,
) -> Result<(), StoreError> {
    let path = database(directory);
    let failed = |source| StoreError::File { path: path.clone(), source };
    // SQLite would create it with the process's umask. It accepts an empty file.
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path).map_err(failed)?;
    let name = path.to_str().ok_or_else(|| failed(Error::new(ErrorKind::InvalidInput, "its name is no text")))?;
    let mut connection = open::reading(home)?;
    connection.progress_handler(STEPS, Some(move || !report())).map_err(at("copy the database"))?;
    connection.execute("VACUUM INTO ?1", params![name]).map_err(at("copy the database"))?;
    Ok(())
}

/// Returns the segments that hold the oldest rows of a ledger at rest.
///
/// # Errors
/// [`StoreError`] if they cannot be read.
pub fn segments_of(directory: &Path) -> Result<Vec<Segment>, StoreError> {
    segments::list(&at_rest(directory)?)
}

/// Opens a ledger that no daemon has open.
fn at_rest(directory: &Path) -> Result<View, StoreError> {
    open::at_rest(directory)?.ok_or_else(|| StoreError::File {
        path: database(directory),
        source: Error::new(ErrorKind::NotFound, "it is missing, or was not closed"),
    })
}

/// Verifies the ledger in a directory that no daemon has open: every row, through its segments. Makes no file. `each`
/// gets every row, and the number of the last one.
///
/// # Errors
/// [`StoreError`] at the first row that is wrong or missing, or if the program does not know the schema; or the error of
/// `each`.
pub fn verify<E: From<StoreError>>(
    directory: &Path,
    mut each: impl FnMut(&Row, i64) -> Result<(), E>,
) -> Result<Verified, E> {
    let view = at_rest(directory)?;
    let schema = version(&view, directory)?;
    if !(1..=SCHEMA_VERSION).contains(&schema) {
        return Err(StoreError::Version { found: schema, known: SCHEMA_VERSION }.into());
    }
    let (head, segments) = (open::head(&view)?, segments::list(&view)?);
    let mut verifier = Verifier::new();
    // Rows with impossible numbers are found, too.
    segments::between(directory, &view, i64::MIN, head.seq, |row| {
        verifier.take(&row).map_err(StoreError::from)?;
        each(&row, head.seq)
    })?;
    segments::verify_copies(&view)?;
    let found = verifier.head();
    if found.seq != head.seq || found.hash != head.hash {
        return Err(StoreError::from(Break::Short { found: found.seq, expected: head.seq }).into());
    }
    Ok(Verified { head, segments, schema })
}

fn version(view: &View, directory: &Path) -> Result<i64, StoreError> {
    view.query_row("PRAGMA user_version", [], |row| row.get(0))
        .map_err(|source| StoreError::Open { path: database(directory), source: crate::DatabaseError(source) })
}
