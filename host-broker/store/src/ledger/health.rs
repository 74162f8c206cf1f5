//! The state of the ledger for people: whether it can be written, and how far its rows are verified.

use crate::StoreError;
use crate::fleet::FleetError;
use model::errors::chain;
use rusqlite::ErrorCode;
use serde::{Deserialize, Serialize};
use shared::Timestamp;
use std::io::ErrorKind;
use std::path::Path;

/// The state of the ledger of a running daemon.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Health {
    /// The reason why it cannot be written; no call is admitted then.
    pub cannot_write: Option<CannotWrite>,
    /// The progress of the verification of its rows.
    pub verification: Verification,
    /// Whether a verification runs. A break stays in `verification` until a later run has found none.
    #[serde(skip)]
    pub run: VerificationRun,
}

/// The reason why the ledger cannot be written, with its time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CannotWrite {
    /// The time since which it cannot be written.
    pub since: Timestamp,
    /// The reason.
    pub reason: Reason,
    /// The error, with its causes.
    pub error: String,
}

/// The reason why the ledger cannot be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// The disk is full.
    DiskFull,
    /// The file system is read-only, or the database is.
    ReadOnly,
    /// The machine's clock is behind the last row.
    ClockBehind,
    /// The database is damaged.
    Corrupt,
    /// Another process holds the database.
    Locked,
    /// The disk or the file system reports an error.
    IoError,
    /// The fleet's database cannot be reached, or it is unknown whether it has the last rows.
    FleetAway,
    /// The fleet's database refuses the rows.
    FleetRefuses,
    /// Another daemon has taken over the host.
    Fenced,
    /// Another error.
    Other,
}

impl Reason {
    /// Returns the reason behind an error; `None` if the error is about one event and not about the ledger.
    pub fn of(error: &StoreError, home: &Path) -> Option<Self> {
        let reason = match error {
            StoreError::Clock { .. } => Self::ClockBehind,
            StoreError::Broken(_) => Self::Corrupt,
            StoreError::Locked { .. } => Self::Locked,
            StoreError::Conflict { .. }
            | StoreError::Stored { .. }
            | StoreError::Segment { .. }
            | StoreError::Fleet(FleetError::UsedUp { .. } | FleetError::Held { .. }) => return None,
            StoreError::Version { .. } => Self::Other,
            StoreError::Fleet(FleetError::Unreachable(_) | FleetError::Unknown(_)) => Self::FleetAway,
            StoreError::Fleet(FleetError::Fenced(_) | FleetError::Served(_)) => Self::Fenced,
            StoreError::Fleet(_) => Self::FleetRefuses,
            StoreError::File { source, .. } => of_system(source),
            StoreError::Open { source, .. } | StoreError::Statement { source, .. } => of_sqlite(&source.0),
        };
        // SQLite has one code for most errors of files.
        let is_read_only =
            || rustix::fs::statvfs(home).is_ok_and(|disk| disk.f_flag.contains(rustix::fs::StatVfsMountFlags::RDONLY));
        Some(if reason == Self::IoError && is_read_only() { Self::ReadOnly } else { reason })
    }

    /// Returns the sentence for people.
    pub fn sentence(self) -> &'static str {
        match self {
            Self::DiskFull => "the disk is full; make space on it",
            Self::ReadOnly => "the file system or the database is read-only; make it writable",
            Self::ClockBehind => {
                "the clock is behind the last row; set the clock, or accept it: host-broker evidence accept-clock"
            }
            Self::Corrupt => "the database is damaged; restore it from a backup",
            Self::Locked => "another process holds the database; end that process",
            Self::IoError => "the disk or the file system reports an error; look at the system's log",
            Self::FleetAway => {
                "the fleet's database cannot be reached; look at its server, and at: host-broker fleet status"
            }
            Self::FleetRefuses => "the fleet's database refuses the rows; for its text: host-broker logs",
            Self::Fenced => "another daemon has taken over this host; stop one of the two",
            Self::Other => "an error of another kind; for its text: host-broker logs",
        }
    }
}

fn of_system(error: &std::io::Error) -> Reason {
    #[expect(clippy::wildcard_enum_match_arm, reason = "most kinds of errors have no meaning here")]
    match error.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => Reason::DiskFull,
        ErrorKind::ReadOnlyFilesystem => Reason::ReadOnly,
        _ => Reason::IoError,
    }
}

fn of_sqlite(error: &rusqlite::Error) -> Reason {
    let Some(code) = error.sqlite_error_code() else { return Reason::Other };
    #[expect(clippy::wildcard_enum_match_arm, reason = "the codes are SQLite's, and most have no meaning here")]
    match code {
        ErrorCode::DiskFull => Reason::DiskFull,
        ErrorCode::ReadOnly => Reason::ReadOnly,
        ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase => Reason::Corrupt,
        ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked => Reason::Locked,
        ErrorCode::SystemIoFailure | ErrorCode::CannotOpen => Reason::IoError,
        _ => Reason::Other,
    }
}

impl CannotWrite {
    /// Describes an error; `None` if it is about one event and not about the ledger.
    pub fn of(error: &StoreError, home: &Path, since: Timestamp) -> Option<Self> {
        Some(Self { since, reason: Reason::of(error, home)?, error: chain(error) })
    }

    /// Describes a ledger that takes only outcomes, into the space that is reserved for them.
    pub fn on_reserve(since: Timestamp) -> Self {
        let error = "only the space that is reserved for outcomes is left".to_owned();
        Self { since, reason: Reason::DiskFull, error }
    }
}

/// The progress of the verification of the rows.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum Verification {
    /// No row was verified beyond the last ones, which every start verifies.
    #[default]
    Waiting,
    /// The rows up to `row` of `of` are right so far.
    Running {
        /// The last row that is verified.
        row: i64,
        /// The last row when the verification started.
        of: i64,
    },
    /// All rows up to this one are right.
    Whole {
        /// The last row that is verified.
        row: i64,
    },
    /// The chain is broken: rows are missing or changed. No call is admitted; commands of people are.
    Broken {
        /// The first row that is wrong.
        row: i64,
        /// The defect.
        error: String,
    },
    /// Some rows could not be read for a reason that may pass, such as too many open files.
    Unfinished {
        /// The first row that could not be read.
        row: i64,
        /// The reason.
        error: String,
    },
}

/// The last run of the verification in this daemon.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum VerificationRun {
    /// There was none.
    #[default]
    Never,
    /// It runs.
    Running,
    /// It has ended at this time.
    Ended(Timestamp),
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::at;
    use rusqlite::{Connection, OpenFlags};

    #[test]
    fn each_real_error_of_the_database_and_the_system_has_its_reason() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("x.db");
        let write = "CREATE TABLE t (n INTEGER)";
        let fails = |connection: &Connection| at("write")(connection.execute_batch(write).unwrap_err());
        let reason = |error: &StoreError| Reason::of(error, home.path());
        let writer = Connection::open(&path).unwrap();
        writer.execute_batch("CREATE TABLE other (n INTEGER)").unwrap();
        let read_only = Connection::open_with_flags(&path, OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap();
        assert_eq!(reason(&fails(&read_only)), Some(Reason::ReadOnly));
        let second = Connection::open(&path).unwrap();
        second.busy_timeout(std::time::Duration::ZERO).unwrap();
        writer.execute_batch("BEGIN IMMEDIATE").unwrap();
        assert_eq!(reason(&fails(&second)), Some(Reason::Locked));
        writer.execute_batch("ROLLBACK").unwrap();
        let pages: i64 = writer.query_row("PRAGMA page_count", [], |row| row.get(0)).unwrap();
        writer.execute_batch(&format!("PRAGMA max_page_count = {pages}")).unwrap();
        assert_eq!(reason(&fails(&writer)), Some(Reason::DiskFull));
        drop((writer, read_only, second));
        std::fs::write(&path, vec![b'x'; 8192]).unwrap();
        assert_eq!(reason(&fails(&Connection::open(&path).unwrap())), Some(Reason::Corrupt));
        let file = |code: i32| StoreError::File { path: path.clone(), source: std::io::Error::from_raw_os_error(code) };
        let codes = [rustix::io::Errno::NOSPC, rustix::io::Errno::ROFS, rustix::io::Errno::IO]
            .map(|code| reason(&file(code.raw_os_error())));
        assert_eq!(codes, [Some(Reason::DiskFull), Some(Reason::ReadOnly), Some(Reason::IoError)]);
        assert_eq!(reason(&StoreError::Stored { what: "row" }), None, "one event is not the ledger");
    }
}
