//! The steady clock: time that has passed while a daemon ran.
//!
//! It dates all that permits something once it is forgotten: idempotency keys, stored replies, pauses after a no or
//! after wrong codes, rates, breakers. The machine's clock cannot date them: if somebody puts it a day forward, a day's
//! keys would be forgotten at once, and the same call would run again. The steady clock advances by the monotonic clock,
//! so nobody can set it. Time without a daemon does not count, because no clock saw how long it was; so everything lives
//! at least as long as it is said to. Its values are no dates: only differences mean something.

use crate::View;
use crate::{StoreError, at};
use model::Clock;
use rusqlite::{OptionalExtension as _, params};
use shared::Timestamp;
use std::time::Duration;

/// The least time between two stores. Only a commit stores it, so a daemon that dies loses the time since the last one, and
/// up to a second more.
const KEPT_EVERY: Duration = Duration::from_secs(1);

/// The steady clock of one daemon.
#[derive(Debug, Clone, Copy)]
pub(super) struct Steady {
    // What it said when the daemon began, and the monotonic clock then.
    base: Timestamp,
    began: Duration,
    // What this daemon has stored. The first commit stores it, so that readers count no time without a daemon.
    kept: Option<Timestamp>,
}

impl Steady {
    /// Goes on where the last daemon ended.
    ///
    /// # Errors
    /// [`StoreError`] if it cannot be read.
    pub(super) fn resume(view: &View, clock: &dyn Clock) -> Result<Self, StoreError> {
        let (base, _) = stored(view)?.ok_or(StoreError::Stored { what: "steady clock" })?;
        Ok(Self { base, began: clock.monotonic(), kept: None })
    }

    /// Returns what it says now.
    pub(super) fn now(&self, clock: &dyn Clock) -> Timestamp {
        self.base.plus(clock.monotonic().saturating_sub(self.began))
    }

    /// Stores it in the open transaction, if what is stored is old. Returns what is stored then.
    ///
    /// # Errors
    /// [`StoreError`]; what was stored is as it was.
    pub(super) fn keep(&self, view: &View, now: Timestamp, wall: Timestamp) -> Result<Timestamp, StoreError> {
        if let Some(kept) = self.kept
            && now.since(kept) < KEPT_EVERY
        {
            return Ok(kept);
        }
        view.prepare_cached("UPDATE steady SET ms = ?1, wall = ?2 WHERE one = 1")
            .and_then(|mut s| s.execute(params![now.millis(), wall.millis()]))
            .map_err(at("keep the steady clock"))?;
        Ok(now)
    }

    /// The transaction that stored it is durable.
    pub(super) fn is_kept(&mut self, kept: Timestamp) {
        self.kept = Some(kept);
    }
}

/// Estimates the steady clock beside the daemon, for people who read: the daemon is taken to have run since it was
/// stored. Nothing may be permitted by it.
///
/// # Errors
/// [`StoreError`] if it cannot be read.
pub fn estimate(view: &View, now: Timestamp) -> Result<Timestamp, StoreError> {
    Ok(stored(view)?.map_or(now, |(steady, wall)| steady.plus(now.since(wall))))
}

/// What is stored, and the machine's clock then.
fn stored(view: &View) -> Result<Option<(Timestamp, Timestamp)>, StoreError> {
    let time = |row: &rusqlite::Row<'_>, index| row.get(index).map(Timestamp::from_millis);
    view.query_row("SELECT ms, wall FROM steady WHERE one = 1", [], |row| Ok((time(row, 0)?, time(row, 1)?)))
        .optional()
        .map_err(at("read the steady clock"))
}
