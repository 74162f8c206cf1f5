//! The actions that groups have used, for people. Every read is bounded in rows and bytes.

use crate::ledger::recent::{first_since, first_within, time_of};
use crate::ledger::segments;
use crate::{StoreError, View, at};
use rusqlite::params;
use serde::Deserialize;
use shared::{Action, Group, Level, Provider, Timestamp};
use std::collections::BTreeMap;

/// The most rows from which calls are counted for people. It bounds the work.
pub const ROWS_MAX: i64 = 50_000;

/// The use of one action.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ActionUse {
    /// The time of the last call.
    pub last: Timestamp,
    /// The number of calls.
    pub calls: u64,
    /// The highest level that a call demanded.
    pub level: Level,
}

/// The use of the actions of one provider by one group.
pub type UsedActions = BTreeMap<Action, ActionUse>;

/// The use of all actions since a time.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Usage {
    uses: BTreeMap<(Group, Provider), UsedActions>,
    /// The time before which calls are not counted, if rows of the period are too many or are in segments.
    pub cut_before: Option<Timestamp>,
}

impl Usage {
    /// Returns the actions of this provider that the group has used.
    pub fn of(&self, group: &Group, provider: &Provider) -> Option<&UsedActions> {
        self.uses.get(&(group.clone(), provider.clone()))
    }

    fn note(&mut self, group: &Group, provider: Provider, action: Action, (at, level): (Timestamp, Level)) {
        let actions = self.uses.entry((group.clone(), provider)).or_default();
        let one = actions.entry(action).or_insert(ActionUse { last: at, calls: 0, level });
        one.last = one.last.max(at);
        one.calls = one.calls.saturating_add(1);
        one.level = one.level.max(level);
    }
}

/// The members of an intent's body that matter here.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Body {
    stage: Option<String>,
    nested: Option<Nested>,
}

/// A call that the call makes. It takes the group's grant, too.
#[derive(Deserialize)]
struct Nested {
    provider: String,
    action: String,
    level: i64,
}

/// Returns the permitted calls of groups since this time, from the last `rows` rows of the database at most. A refused
/// call is no use of a grant.
///
/// # Errors
/// [`StoreError`] if the ledger cannot be read.
pub fn used_since(view: &View, since: Timestamp, rows: i64) -> Result<Usage, StoreError> {
    const SELECT: &str = "SELECT ts, substr(caller, 7), provider, action, level, body FROM ledger
        WHERE seq >= ?1 AND kind = 'intended' AND caller LIKE 'group:%'
        ORDER BY seq";
    let step = "read the used actions";
    let wanted = first_since(view, since)?;
    let first = first_within(view, wanted, rows)?;
    let moved = segments::end(view)?;
    let is_moved = moved.seq > 0 && moved.seq.saturating_add(1) >= first && moved.ts >= since.millis();
    let cut_before = if first > wanted || is_moved { time_of(view, first)? } else { None };
    let mut usage = Usage { cut_before, ..Usage::default() };
    let mut statement = view.prepare_cached(SELECT).map_err(at(step))?;
    let mut read = statement.query(params![first]).map_err(at(step))?;
    while let Some(row) = read.next().map_err(at(step))? {
        take(row, &mut usage).map_err(at(step))?;
    }
    Ok(usage)
}

/// Notes the call of an intent, and the call that it makes. A name that no version of the broker writes is left out.
fn take(row: &rusqlite::Row<'_>, usage: &mut Usage) -> Result<(), rusqlite::Error> {
    let at = Timestamp::from_millis(row.get(0)?);
    // Another program may have changed the row; the verification finds that.
    let body: Body = serde_json::from_str(&row.get::<_, String>(5)?).unwrap_or_default();
    let Ok(group) = row.get::<_, String>(1)?.parse::<Group>() else { return Ok(()) };
    if body.stage.as_deref() != Some("run") {
        return Ok(());
    }
    let (provider, action): (Option<String>, Option<String>) = (row.get(2)?, row.get(3)?);
    let level: Option<i64> = row.get(4)?;
    let own = provider.zip(action).map(|(provider, action)| (provider, action, level.unwrap_or_default()));
    let nested = body.nested.map(|Nested { provider, action, level }| (provider, action, level));
    for (provider, action, level) in own.into_iter().chain(nested) {
        if let (Ok(provider), Ok(action)) = (provider.parse(), action.parse()) {
            usage.note(&group, provider, action, (at, Level::from_number(level).unwrap_or(Level::None)));
        }
    }
    Ok(())
}
