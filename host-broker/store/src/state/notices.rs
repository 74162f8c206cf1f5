//! The tables of notices: due, sent and failed ones.

use crate::Transaction;
use crate::View;
use crate::{StoreError, at};
use model::NoticeEvent;
use rusqlite::{Row, params};
use serde::Serialize;
use shared::Timestamp;
use std::time::Duration;

/// The state of a notice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum NoticeState {
    /// It is to be sent.
    Due,
    /// It was sent.
    Sent,
    /// It could not be sent, and is not tried again.
    Failed,
    /// It was never tried, because it was no longer needed.
    Dropped,
}

impl NoticeState {
    const ALL: [Self; 4] = [Self::Due, Self::Sent, Self::Failed, Self::Dropped];

    /// Returns the word in the table.
    pub fn word(self) -> &'static str {
        match self {
            Self::Due => "due",
            Self::Sent => "sent",
            Self::Failed => "failed",
            Self::Dropped => "dropped",
        }
    }
}

/// A stored notice.
#[derive(Debug, Clone, Serialize)]
pub struct Notice {
    /// The number.
    pub id: i64,
    /// The approval request.
    #[serde(skip)]
    pub approval: i64,
    /// The event.
    pub event: NoticeEvent,
    /// The approval's state at that time.
    #[serde(skip)]
    pub said: String,
    /// The channel.
    pub channel: String,
    /// The state.
    pub state: NoticeState,
    /// The time of the next try, if there is one.
    pub due_at: Timestamp,
    /// The time after which it is not tried.
    pub until: Timestamp,
    /// The number of tries.
    pub attempts: u32,
    /// The text shown, as the row before its first attempt says.
    #[serde(skip)]
    pub announced: Option<String>,
    /// The error of the last attempt.
    pub fault: Option<String>,
    /// The time of its last change.
    pub changed_at: Timestamp,
}

/// The number of events that are taken at once.
const EVENTS_MAX: i64 = 256;
/// The time for which events of closed approval requests are kept, if there is no channel.
const EVENTS_KEEP: Duration = Duration::from_secs(2 * 3600);
/// The time for which finished notices are kept.
const KEEP: Duration = Duration::from_secs(7 * 24 * 3600);

const COLUMNS: &str =
    "id, approval, event, said, channel, state, due_at, until, attempts, announced, fault, changed_at";

fn select(view: &View, condition: &str, with: impl rusqlite::Params) -> Result<Vec<Notice>, StoreError> {
    let mut statement = view
        .prepare_cached(&format!("SELECT {COLUMNS} FROM notices WHERE {condition}"))
        .map_err(at("look notices up"))?;
    let mut rows = statement.query(with).map_err(at("look notices up"))?;
    let mut found = Vec::new();
    while let Some(row) = rows.next().map_err(at("look notices up"))? {
        found.push(read(row)?);
    }
    Ok(found)
}

fn read(row: &Row<'_>) -> Result<Notice, StoreError> {
    let text = |index: usize| row.get::<_, String>(index).map_err(at("read a notice"));
    let number = |index: usize| row.get::<_, i64>(index).map_err(at("read a notice"));
    let time = |index: usize| number(index).map(Timestamp::from_millis);
    let optional = |index: usize| row.get::<_, Option<String>>(index).map_err(at("read a notice"));
    let state = text(5)?;
    Ok(Notice {
        id: number(0)?,
        approval: number(1)?,
        event: event(&text(2)?)?,
        said: text(3)?,
        channel: text(4)?,
        state: NoticeState::ALL
            .into_iter()
            .find(|known| known.word() == state)
            .ok_or(StoreError::Stored { what: "notice" })?,
        due_at: time(6)?,
        until: time(7)?,
        attempts: u32::try_from(number(8)?).unwrap_or(u32::MAX),
        announced: optional(9)?,
        fault: optional(10)?,
        changed_at: time(11)?,
    })
}

fn event(word: &str) -> Result<NoticeEvent, StoreError> {
    NoticeEvent::ALL.into_iter().find(|event| event.word() == word).ok_or(StoreError::Stored { what: "notice" })
}

/// Returns the events of approval requests, oldest first, with the approval's state at that time.
///
/// # Errors
/// [`StoreError`] if it cannot be read.
pub fn events(view: &View) -> Result<Vec<(i64, NoticeEvent, String)>, StoreError> {
    let found: Vec<(i64, String, String)> = view
        .prepare_cached("SELECT approval, event, said FROM notice_events ORDER BY approval, event DESC LIMIT ?1")
        .and_then(|mut s| {
            s.query_map(params![EVENTS_MAX], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?.collect()
        })
        .map_err(at("read the events of approval requests"))?;
    let asked_first = |(id, word, said): (i64, String, String)| Ok((id, event(&word)?, said));
    let mut found = found.into_iter().map(asked_first).collect::<Result<Vec<_>, StoreError>>()?;
    found.sort_by_key(|(id, event, _)| (*id, *event));
    Ok(found)
}

/// Returns whether there are events without notices.
///
/// # Errors
/// [`StoreError`] if it cannot be read.
pub fn has_events(view: &View) -> Result<bool, StoreError> {
    view.prepare_cached("SELECT 1 FROM notice_events LIMIT 1")
        .and_then(|mut s| s.exists([]))
        .map_err(at("read the events of approval requests"))
}

/// Forgets an event, once its notices exist.
///
/// # Errors
/// [`StoreError`].
pub fn forget_event(tx: &Transaction<'_>, approval: i64, event: NoticeEvent) -> Result<(), StoreError> {
    change(tx, "DELETE FROM notice_events WHERE approval = ?1 AND event = ?2", params![approval, event.word()])
}

/// Returns the channels with a notice that is due, now or later.
///
/// # Errors
/// [`StoreError`] if they cannot be read.
pub fn waiting_channels(view: &View) -> Result<Vec<String>, StoreError> {
    view.prepare_cached("SELECT DISTINCT channel FROM notices WHERE state = 'due'")
        .and_then(|mut s| s.query_map([], |row| row.get(0))?.collect())
        .map_err(at("look notices up"))
}

/// Returns the notice of this channel that is due first, if one is due by now.
///
/// # Errors
/// [`StoreError`] if it cannot be read.
pub fn due(view: &View, channel: &str, now: Timestamp) -> Result<Option<Notice>, StoreError> {
    // Without the name of the index, SQLite reads all earlier notices of the channel.
    let condition = "id = (SELECT first.id FROM notices AS first INDEXED BY notices_due
        WHERE first.state = 'due' AND first.channel = ?1 AND first.due_at <= ?2
        ORDER BY first.due_at, first.id LIMIT 1)";
    select(view, condition, params![channel, now.millis()]).map(|found| found.into_iter().next())
}

/// Returns the time at which the next notice of this channel is due.
///
/// # Errors
/// [`StoreError`] if it cannot be read.
pub fn next_due(view: &View, channel: &str) -> Result<Option<Timestamp>, StoreError> {
    view.prepare_cached("SELECT min(due_at) FROM notices WHERE state = 'due' AND channel = ?1")
        .and_then(|mut s| s.query_row(params![channel], |row| row.get::<_, Option<i64>>(0)))
        .map(|first| first.map(Timestamp::from_millis))
        .map_err(at("look notices up"))
}

/// Returns how many approval requests of this caller were due on the channel since then, and the last due time.
///
/// # Errors
/// [`StoreError`] if they cannot be counted.
pub fn asked_lately(
    view: &View,
    channel: &str,
    caller: &str,
    since: Timestamp,
) -> Result<(usize, Timestamp), StoreError> {
    const SELECT: &str = "SELECT count(*), coalesce(max(notices.due_at), 0) FROM notices
         JOIN approvals ON approvals.id = notices.approval
         WHERE notices.channel = ?1 AND notices.due_at > ?2 AND notices.event = 'asked' AND approvals.caller = ?3";
    view.prepare_cached(SELECT)
        .and_then(|mut s| {
            s.query_row(params![channel, since.millis(), caller], |row| Ok((row.get::<_, i64>(0)?, row.get(1)?)))
        })
        .map(|(number, last)| (usize::try_from(number).unwrap_or(usize::MAX), Timestamp::from_millis(last)))
        .map_err(at("count notices"))
}

/// Counts the notices that wait for this channel.
///
/// # Errors
/// [`StoreError`] if they cannot be counted.
pub fn count_due(view: &View, channel: &str) -> Result<usize, StoreError> {
    view.prepare_cached("SELECT count(*) FROM notices WHERE state = 'due' AND channel = ?1")
        .and_then(|mut s| s.query_row(params![channel], |row| row.get::<_, i64>(0)))
        .map(|number| usize::try_from(number).unwrap_or(usize::MAX))
        .map_err(at("count notices"))
}

/// Returns the notices that still ask for this approval.
///
/// # Errors
/// [`StoreError`] if they cannot be read.
pub fn due_about(view: &View, approval: i64) -> Result<Vec<Notice>, StoreError> {
    select(view, "state = 'due' AND event = 'asked' AND approval = ?1 ORDER BY id", params![approval])
}

/// Returns the notice of this event for this channel.
///
/// # Errors
/// [`StoreError`] if it cannot be read.
pub fn find(view: &View, approval: i64, event: NoticeEvent, channel: &str) -> Result<Option<Notice>, StoreError> {
    let condition = "approval = ?1 AND event = ?2 AND channel = ?3";
    select(view, condition, params![approval, event.word(), channel]).map(|found| found.into_iter().next())
}

/// Returns the notice with this number.
///
/// # Errors
/// [`StoreError`] if it cannot be read.
pub fn numbered(view: &View, id: i64) -> Result<Option<Notice>, StoreError> {
    select(view, "id = ?1", params![id]).map(|found| found.into_iter().next())
}

/// Returns the latest ones, newest first.
///
/// # Errors
/// [`StoreError`] if they cannot be read.
pub fn latest(view: &View, most: usize) -> Result<Vec<Notice>, StoreError> {
    select(view, "1 ORDER BY id DESC LIMIT ?1", params![i64::try_from(most).unwrap_or(i64::MAX)])
}

/// Returns the due and the failed notices about one approval request; oldest first.
///
/// # Errors
/// [`StoreError`] if they cannot be read.
pub fn of(view: &View, approval: i64) -> Result<Vec<Notice>, StoreError> {
    select(view, "approval = ?1 ORDER BY id", params![approval])
}

/// Returns the last tried notice of each channel, if it failed.
///
/// # Errors
/// [`StoreError`] if they cannot be read.
pub fn failing(view: &View) -> Result<Vec<Notice>, StoreError> {
    let condition = "fault IS NOT NULL AND attempts > 0 AND id = (
        SELECT other.id FROM notices AS other WHERE other.channel = notices.channel AND other.attempts > 0
        ORDER BY other.changed_at DESC, other.id DESC LIMIT 1)";
    select(view, condition, [])
}

/// Adds a notice; an existing one stays as it is.
///
/// # Errors
/// [`StoreError`]; nothing is due.
pub fn add(
    tx: &Transaction<'_>,
    approval: i64,
    event: NoticeEvent,
    said: &str,
    channel: &str,
    due_at: Timestamp,
    until: Timestamp,
) -> Result<Notice, StoreError> {
    const INSERT: &str = "INSERT INTO notices VALUES (NULL, ?1, ?2, ?3, ?4, 'due', ?5, ?6, 0, NULL, NULL, ?7)
         ON CONFLICT DO NOTHING";
    let values = params![approval, event.word(), said, channel, due_at.millis(), until.millis(), tx.now().millis()];
    change(tx, INSERT, values)?;
    find(tx.view(), approval, event, channel)?.ok_or(StoreError::Stored { what: "notice" })
}

/// Notes the text of the row before an attempt.
///
/// # Errors
/// [`StoreError`]; the notice must not be sent.
pub fn announce(tx: &Transaction<'_>, id: i64, announced: &str) -> Result<(), StoreError> {
    change(tx, "UPDATE notices SET announced = ?2 WHERE id = ?1", params![id, announced])
}

/// Sets the time of the next try.
///
/// # Errors
/// [`StoreError`].
pub fn postpone(tx: &Transaction<'_>, notice: &Notice, to: Timestamp, fault: &str) -> Result<(), StoreError> {
    const UPDATE: &str = "UPDATE notices SET due_at = ?2, attempts = ?3, fault = ?4, changed_at = ?5
         WHERE id = ?1 AND state = 'due'";
    change(tx, UPDATE, params![notice.id, to.millis(), notice.attempts, fault, tx.now().millis()])
}

/// Ends a notice.
///
/// # Errors
/// [`StoreError`].
pub fn over(tx: &Transaction<'_>, notice: &Notice, state: NoticeState, fault: Option<&str>) -> Result<(), StoreError> {
    const UPDATE: &str =
        "UPDATE notices SET state = ?2, attempts = ?3, fault = ?4, changed_at = ?5 WHERE id = ?1 AND state = 'due'";
    change(tx, UPDATE, params![notice.id, state.word(), notice.attempts, fault, tx.now().millis()])
}

/// Forgets notices that ended long ago, and events without a channel.
///
/// # Errors
/// [`StoreError`].
pub fn forget_old(tx: &Transaction<'_>, has_channels: bool) -> Result<(), StoreError> {
    // The query starts from the events, which are few, and not from the approval requests, which only grow.
    const STALE: &str = "DELETE FROM notice_events WHERE approval IN (SELECT approval FROM notice_events LIMIT 100)
         AND EXISTS (SELECT 1 FROM approvals WHERE id = approval AND state = 'closed' AND asked_at < ?1)";
    if !has_channels {
        // No notice will be sent. An agent that asks and cancels must not leave a growing table.
        return change(tx, "DELETE FROM notice_events", params![]);
    }
    let before = tx.now().minus(KEEP).millis();
    change(tx, "DELETE FROM notices WHERE state <> 'due' AND changed_at < ?1", params![before])?;
    change(tx, STALE, params![tx.now().minus(EVENTS_KEEP).millis()])
}

fn change(tx: &Transaction<'_>, statement: &str, with: impl rusqlite::Params) -> Result<(), StoreError> {
    tx.view().prepare_cached(statement).and_then(|mut s| s.execute(with)).map_err(at("change a notice"))?;
    Ok(())
}
