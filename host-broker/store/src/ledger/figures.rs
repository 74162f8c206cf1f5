//! The figures of the store for the operator's monitoring: what is open, and what it takes on the disk.

use crate::ledger::segments;
use crate::state::kill;
use crate::{StoreError, View, at, steady};
use rusqlite::params;
use shared::Timestamp;
use std::path::Path;

/// The figures of the store at one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Figures {
    /// The intents without an outcome.
    pub open_intents: i64,
    /// The effects whose outcome is unknown.
    pub unknown_outcomes: i64,
    /// The approval requests that wait for an answer.
    pub waiting_approvals: i64,
    /// The scopes of the kill switches that are set.
    pub kill_switches: Vec<String>,
    /// The number of callers for which the breaker of a provider is open, by provider. A provider without one is absent.
    pub open_breakers: Vec<(String, i64)>,
    /// The bytes of the database that are in use. Rotation compares them with its limit.
    pub used: u64,
}

/// Reads the figures.
///
/// # Errors
/// [`StoreError`] if they cannot be read.
pub fn figures(view: &View, now: Timestamp) -> Result<Figures, StoreError> {
    const BREAKERS: &str = "SELECT provider, count(*) FROM breakers WHERE open_until > ?1 GROUP BY provider";
    view.at_one_moment(|view| {
        let count = |select| view.query_row(select, [], |row| row.get(0)).map_err(at("count what is open"));
        let steady = steady::estimate(view, now)?;
        let open_breakers = view
            .prepare(BREAKERS)
            .and_then(|mut s| s.query_map(params![steady.millis()], |row| Ok((row.get(0)?, row.get(1)?)))?.collect())
            .map_err(at("count open breakers"))?;
        Ok(Figures {
            open_intents: count("SELECT count(*) FROM open_intents")?,
            unknown_outcomes: count("SELECT count(*) FROM unknown_outcomes")?,
            waiting_approvals: count("SELECT count(*) FROM approvals WHERE state <> 'closed' AND state = 'waiting'")?,
            kill_switches: kill::list(view)?,
            open_breakers,
            used: segments::used(view)?,
        })
    })
}

/// The bytes of the ledger's files.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sizes {
    /// The database.
    pub database: u64,
    /// Its write-ahead log.
    pub log: u64,
    /// The segments.
    pub segments: u64,
}

/// Returns the bytes of the ledger's files in this home. A file that cannot be seen counts as empty.
pub fn sizes(home: &Path) -> Sizes {
    let size = |name: &str| std::fs::metadata(home.join(name)).map_or(0, |file| file.len());
    let segments = std::fs::read_dir(home.join(segments::DIRECTORY)).into_iter().flatten().flatten();
    Sizes {
        database: size("ledger.db"),
        log: size("ledger.db-wal"),
        segments: segments.filter_map(|entry| entry.metadata().ok()).map(|file| file.len()).sum(),
    }
}

/// The space of the disk of a home, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Space {
    /// The free space, for users without privileges.
    pub free: u64,
    /// The size of the disk.
    pub size: u64,
}

impl Space {
    /// Returns the space of the disk of this home; `None` if the system does not say.
    pub fn of(home: &Path) -> Option<Self> {
        let disk = rustix::fs::statvfs(home).ok()?;
        let bytes = |blocks: u64| blocks.saturating_mul(disk.f_frsize);
        Some(Self { free: bytes(disk.f_bavail), size: bytes(disk.f_blocks) })
    }

    /// Returns the free space below which callers are refused: the configured one, but at most a fiftieth of the disk.
    pub fn watermark(self, configured: u64) -> u64 {
        configured.min(self.size / 50)
    }
}

/// Returns the free bytes of the disk of this home, for users without privileges; `None` if the system does not say.
pub fn free_bytes(home: &Path) -> Option<u64> {
    Space::of(home).map(|space| space.free)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_watermark_is_at_most_a_fiftieth_of_the_disk() {
        let disk = Space { free: 1, size: 5_000 };
        assert_eq!((disk.watermark(99), disk.watermark(101)), (99, 100));
    }
}
