//! The steady clock: the time that has passed while a daemon ran.
//!
//! It dates every record that permits something once it is forgotten: idempotency keys, stored replies, pauses after a
//! denial or after wrong codes, rates, breakers. The machine's clock cannot date them. If it were set a day forward, a
//! day's keys would be forgotten at once, and the same call would run again. The steady clock advances by the monotonic
//! clock, so it cannot be set. Time without a daemon does not count, because no clock measured it. So every record
//! lives at least as long as intended. Its values are no dates: only differences mean something.

use crate::View;
use crate::{StoreError, at};
use model::Clock;
use rusqlite::{OptionalExtension as _, params};
use shared::Timestamp;
use std::time::Duration;

/// The least time between two stores. Only a commit stores it, so a daemon that dies loses the time since the last one,
/// and up to a second more.
const KEPT_EVERY: Duration = Duration::from_secs(1);

/// The steady clock of one daemon.
#[derive(Debug, Clone, Copy)]
pub(super) struct Steady {
    // The value when the daemon began, and the monotonic clock then.
    base: Timestamp,
    began: Duration,
    // The value that this daemon has stored. The first commit stores it, so that readers count no time without a
    // daemon.
    kept: Option<Timestamp>,
}

impl Steady {
    /// Continues where the last daemon ended.
    ///
    /// # Errors
    /// [`StoreError`] if it cannot be read.
    pub(super) fn resume(view: &View, clock: &dyn Clock) -> Result<Self, StoreError> {
        let (base, _) = stored(view)?.ok_or(StoreError::Stored { what: "steady clock" })?;
        Ok(Self { base, began: clock.monotonic(), kept: None })
    }

    /// Returns the value now.
    pub(super) fn now(&self, clock: &dyn Clock) -> Timestamp {
        self.base.plus(clock.monotonic().saturating_sub(self.began))
    }

    /// Stores the value in the open transaction, if the stored one is old. Returns the stored value.
    ///
    /// # Errors
    /// [`StoreError`]; the stored value is unchanged.
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

    /// Notes that the transaction that stored it is durable.
    pub(super) fn is_kept(&mut self, kept: Timestamp) {
        self.kept = Some(kept);
    }
}

/// Estimates the steady clock beside the daemon, for people who read. It assumes that the daemon ran since the last
/// store. It must not permit anything.
///
/// # Errors
/// [`StoreError`] if it cannot be read.
pub fn estimate(view: &View, now: Timestamp) -> Result<Timestamp, StoreError> {
    Ok(stored(view)?.map_or(now, |(steady, wall)| steady.plus(now.since(wall))))
}

/// Returns the stored value, and the machine's clock at that time.
fn stored(view: &View) -> Result<Option<(Timestamp, Timestamp)>, StoreError> {
    let time = |row: &rusqlite::Row<'_>, index| row.get(index).map(Timestamp::from_millis);
    view.query_row("SELECT ms, wall FROM steady WHERE one = 1", [], |row| Ok((time(row, 0)?, time(row, 1)?)))
        .optional()
        .map_err(at("read the steady clock"))
}
