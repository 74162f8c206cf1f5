//! Errors of the store, by step.

use crate::fleet::FleetError;
use crate::ledger::verifier::Break;
use shared::Timestamp;
use std::path::PathBuf;

/// An error of the database engine.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct DatabaseError(pub(crate) rusqlite::Error);

/// The reason why the store cannot do a step.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
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
        /// The error of the system.
        #[source]
        source: std::io::Error,
    },
    /// The database cannot be opened or made.
    #[error("the ledger {path} cannot be opened")]
    Open {
        /// The database.
        path: PathBuf,
        /// The error of SQLite.
        #[source]
        source: DatabaseError,
    },
    /// The database has another version.
    #[error(
        "the ledger has schema version {found}, and this host-broker knows version {known}; {}",
        if found < known {
            "start it once with this version, which upgrades it: host-broker serve"
        } else {
            "run the host-broker that wrote it, or name another home with --home"
        }
    )]
    Version {
        /// The version of the database.
        found: i64,
        /// The version of this program.
        known: i64,
    },
    /// The chain is broken.
    #[error("the evidence is broken: {0}")]
    Broken(#[from] Break),
    /// The database of a fleet, of which the ledger is a copy.
    #[error(transparent)]
    Fleet(#[from] FleetError),
    /// A statement failed.
    #[error("the ledger could not {step}")]
    Statement {
        /// The step.
        step: &'static str,
        /// The error of SQLite.
        #[source]
        source: DatabaseError,
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
        /// The error of the system.
        source: std::io::Error,
    },
    /// A row no longer permits the change: it was spent, ended or used up since it was read.
    #[error("the {what} no longer permits this; nothing was written")]
    Conflict {
        /// The row.
        what: &'static str,
    },
    /// A stored value violates the schema.
    #[error("the ledger holds a {what} that cannot be read")]
    Stored {
        /// The value.
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

impl StoreError {
    /// Returns whether no event can be written, and another attempt would only take time or is not safe: the fleet's
    /// database cannot be reached, or it is not known which rows it has.
    pub fn is_of_all(&self) -> bool {
        let is_of_one = matches!(self, Self::Fleet(FleetError::Refused(_) | FleetError::Row(_)));
        matches!(self, Self::Fleet(_)) && !is_of_one && !self.is_outdated()
    }

    /// Returns whether the next attempt decides with a newer fact of another host.
    pub fn is_outdated(&self) -> bool {
        let Self::Fleet(error) = self else { return false };
        matches!(
            error,
            FleetError::UsedUp { .. } | FleetError::Held { .. } | FleetError::Stale(_) | FleetError::StillUsed
        )
    }
}

/// Adds the step to the error of SQLite.
pub(crate) fn at(step: &'static str) -> impl FnOnce(rusqlite::Error) -> StoreError {
    move |source| StoreError::Statement { step, source: DatabaseError(source) }
}
