//! The rows and the calls of the last hours, for people. Every read is bounded in rows and bytes.

use crate::{StoreError, View, at};
use rusqlite::{OptionalExtension as _, params};
use serde::Deserialize;
use shared::Timestamp;
use std::collections::BTreeMap;
use std::time::Duration;

/// The state of a call, as its rows tell it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum CallState {
    /// It was executed.
    Executed,
    /// It was refused, and nothing was executed.
    Denied,
    /// It failed.
    Failed,
    /// It timed out, and nothing was changed.
    TimedOut,
    /// Its outcome is unknown.
    Unknown,
    /// It has no outcome yet.
    Running,
}

impl CallState {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::Executed, Self::Denied, Self::Failed, Self::TimedOut, Self::Unknown, Self::Running];

    /// Returns the word for people.
    pub fn word(self) -> &'static str {
        match self {
            Self::Executed => "executed",
            Self::Denied => "denied",
            Self::Failed => "failed",
            Self::TimedOut => "timeout",
            Self::Unknown => "unknown",
            Self::Running => "running",
        }
    }

    /// Returns the state that a row of this kind gives its call.
    fn of_outcome(kind: &str) -> Option<Self> {
        Some(match kind {
            "succeeded" => Self::Executed,
            "failed" => Self::Failed,
            "timed_out" => Self::TimedOut,
            "unknown" => Self::Unknown,
            _ => return None,
        })
    }
}

/// A call of the last hours.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecentCall {
    /// The provider, as the caller named it.
    pub provider: String,
    /// The time of the decision.
    pub at: Timestamp,
    /// The state.
    pub state: CallState,
    /// The time that the provider took, if there is an outcome.
    pub took: Option<Duration>,
}

/// The calls since a time.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RecentCalls {
    /// The calls, oldest first.
    pub calls: Vec<RecentCall>,
    /// The time of the first row that was read, if there are too many rows to read all.
    pub cut_before: Option<Timestamp>,
}

/// The members of a row's body that matter here.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Body {
    stage: Option<String>,
    of: Option<i64>,
    settles: Option<i64>,
    r#as: Option<String>,
}

const TIME: &str = "SELECT ts FROM ledger WHERE seq = ?1";

/// Returns the number of the first row that is not older than this; the number after the last row if there is none.
/// Rows that are only in segments are more than a day old, and count as older. A search by halves reads few rows. It is
/// exact while times do not go back. They go back only where a person has accepted a step of the clock.
///
/// # Errors
/// [`StoreError`] if the ledger cannot be read.
pub fn first_since(view: &View, since: Timestamp) -> Result<i64, StoreError> {
    const ENDS: &str =
        "SELECT coalesce((SELECT min(seq) FROM ledger), 1), coalesce((SELECT max(seq) FROM ledger), 0) + 1";
    let ends = view.query_row(ENDS, [], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?)));
    let (mut low, mut high) = ends.map_err(at("look for the first row"))?;
    while low < high {
        let middle = low.saturating_add(high.saturating_sub(low) / 2);
        if time_of(view, middle)?.is_none_or(|time| time < since) {
            low = middle.saturating_add(1);
        } else {
            high = middle;
        }
    }
    Ok(low)
}

pub(super) fn time_of(view: &View, seq: i64) -> Result<Option<Timestamp>, StoreError> {
    view.prepare_cached(TIME)
        .and_then(|mut s| s.query_row(params![seq], |row| row.get(0).map(Timestamp::from_millis)).optional())
        .map_err(at("look up the time of a row"))
}

/// Returns the number of rows in each part of a time. The times are the beginnings of the parts and the end of the last
/// one, in order.
///
/// # Errors
/// [`StoreError`] if the ledger cannot be read.
pub fn rows_between(view: &View, times: &[Timestamp]) -> Result<Vec<u64>, StoreError> {
    let firsts: Vec<i64> = times.iter().map(|time| first_since(view, *time)).collect::<Result<_, _>>()?;
    let parts = firsts.iter().zip(firsts.iter().skip(1));
    Ok(parts.map(|(first, next)| u64::try_from(next.saturating_sub(*first)).unwrap_or(0)).collect())
}

/// The most bytes of rows that are read for a list of calls.
const BYTES_MAX: u64 = 64 << 20;

/// Returns the first of the rows from `first` on that are read: the newest ones, within this number and the bytes.
pub(super) fn first_within(view: &View, first: i64, rows: i64) -> Result<i64, StoreError> {
    const SIZES: &str = "SELECT seq, octet_length(body) FROM ledger WHERE seq >= ?1 ORDER BY seq DESC LIMIT ?2";
    let step = "read the sizes of the latest rows";
    let (mut within, mut bytes) = (first, 0_u64);
    let mut statement = view.prepare_cached(SIZES).map_err(at(step))?;
    let mut read = statement.query(params![first, rows]).map_err(at(step))?;
    while let Some(row) = read.next().map_err(at(step))? {
        let (seq, size): (i64, u32) = (row.get(0).map_err(at(step))?, row.get(1).map_err(at(step))?);
        bytes = bytes.saturating_add(size.into());
        if bytes > BYTES_MAX {
            return Ok(seq.saturating_add(1));
        }
        within = seq;
    }
    Ok(within)
}

/// Returns the calls of groups and external agents since this time, from the last `rows` rows of the database at most. A
/// call counts at the time of its decision.
///
/// # Errors
/// [`StoreError`] if the ledger cannot be read.
pub fn calls_since(view: &View, since: Timestamp, rows: i64) -> Result<RecentCalls, StoreError> {
    // Rows about lost calls have no provider, so the provider is that of the intent.
    const SELECT: &str = "SELECT seq, ts, kind, provider, params_digest IS NOT NULL, duration_ms,
            CASE WHEN kind = 'refused' THEN '{}' ELSE body END
        FROM ledger
        WHERE seq >= ?1 AND (caller LIKE 'group:%' OR caller LIKE 'outside:%')
          AND kind IN ('intended', 'refused', 'succeeded', 'failed', 'timed_out', 'unknown', 'settled')
        ORDER BY seq";
    let wanted = first_since(view, since)?;
    let first = first_within(view, wanted, rows)?;
    let cut_before = if first > wanted { time_of(view, first)? } else { None };
    let mut found: BTreeMap<i64, RecentCall> = BTreeMap::new();
    let mut statement = view.prepare_cached(SELECT).map_err(at("read the latest calls"))?;
    let mut read = statement.query(params![first]).map_err(at("read the latest calls"))?;
    while let Some(row) = read.next().map_err(at("read the latest calls"))? {
        take(row, &mut found).map_err(at("read a call"))?;
    }
    Ok(RecentCalls { calls: found.into_values().collect(), cut_before })
}

/// Adds a call, or what a later row tells about one.
fn take(row: &rusqlite::Row<'_>, found: &mut BTreeMap<i64, RecentCall>) -> Result<(), rusqlite::Error> {
    let (seq, at, kind) = (row.get(0)?, Timestamp::from_millis(row.get(1)?), row.get::<_, String>(2)?);
    let provider: Option<String> = row.get(3)?;
    // Another program may have changed the row; the verification finds that.
    let body: Body = serde_json::from_str(&row.get::<_, String>(6)?).unwrap_or_default();
    let begun = |state, provider| RecentCall { provider, at, state, took: None };
    match (kind.as_str(), provider) {
        // A refused request without a digest of parameters is no call.
        ("refused", Some(provider)) if row.get(4)? => {
            found.insert(seq, begun(CallState::Denied, provider));
        }
        ("intended", Some(provider)) if body.stage.as_deref() == Some("run") => {
            found.insert(seq, begun(CallState::Running, provider));
        }
        ("settled", _) => {
            if let Some(call) = body.settles.and_then(|of| found.get_mut(&of)) {
                let has_failed = body.r#as.as_deref() == Some("failed");
                call.state = if has_failed { CallState::Failed } else { CallState::Executed };
            }
        }
        (kind, _) => {
            let call = body.of.and_then(|of| found.get_mut(&of));
            if let (Some(call), Some(state)) = (call, CallState::of_outcome(kind)) {
                let took: Option<i64> = row.get(5)?;
                (call.state, call.took) =
                    (state, took.and_then(|ms| u64::try_from(ms).ok()).map(Duration::from_millis));
            }
        }
    }
    Ok(())
}
