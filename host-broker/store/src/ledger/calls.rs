//! Calls for people: the view `ext_calls`, the rows behind one call, and the calls that are still open.

use crate::View;
use crate::ledger::chain::Row;
use crate::ledger::export;
use crate::ledger::recent::first_since;
use crate::{StoreError, at};
use rusqlite::params;
use serde::Serialize;
use shared::{Action, Code, Group, Provider, RequestId, Timestamp};

/// One call, with the columns of the view `ext_calls`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[expect(missing_docs, reason = "the fields are the columns of the view in schema.sql")]
pub struct CallRecord {
    pub id: i64,
    pub request_id: Option<String>,
    pub group_folder: String,
    pub provider: String,
    pub action: Option<String>,
    pub access_level: Option<i64>,
    pub params_hash: Option<String>,
    pub params_summary: Option<String>,
    pub status: String,
    pub denial_reason: Option<String>,
    pub result_summary: Option<String>,
    pub task_id: Option<String>,
    pub duration_ms: Option<i64>,
    pub created_at: String,
}

/// The filter of a list of calls.
#[derive(Debug, Clone, Default)]
pub struct Filter {
    /// Only this group's.
    pub group: Option<Group>,
    /// Only to this provider.
    pub provider: Option<Provider>,
    /// Only those with this status: `waiting`, `authorized`, `denied`, `executed`, `failed`, `timeout`.
    pub status: Option<String>,
    /// Only those whose first row comes after this one.
    pub after: i64,
    /// Only those whose first row comes before this one; 0 for no limit.
    pub before: i64,
    /// Only those with this request id.
    pub request_id: Option<RequestId>,
    /// Only those of this action.
    pub action: Option<Action>,
    /// Only those on behalf of this person, as rows name persons.
    pub person: Option<String>,
    /// Only those whose refusal or outcome has this code.
    pub reason: Option<Code>,
    /// Only those that were decided at this time or later.
    pub since: Option<Timestamp>,
    /// Only those that were decided before this time.
    pub until: Option<Timestamp>,
}

impl Filter {
    /// Returns the numbers between which the first rows of the calls are, without the ends; `None` if there are none.
    ///
    /// Times and a request id are looked up first, so that the list reads only the rows between its ends.
    fn ends(&self, view: &View) -> Result<Option<(i64, i64)>, StoreError> {
        // A condition of its own for no limit would make the upper end no end of the search.
        let (mut after, mut before) = (self.after, if self.before == 0 { i64::MAX } else { self.before });
        if let Some(since) = self.since {
            after = after.max(first_since(view, since)?.saturating_sub(1));
        }
        if let Some(until) = self.until {
            before = before.min(first_since(view, until)?);
        }
        if let Some(id) = &self.request_id {
            let rows = rows_about(view, id, self.group.as_ref())?;
            let (Some(first), Some(last)) = (rows.first(), rows.last()) else { return Ok(None) };
            after = after.max(first.saturating_sub(1));
            before = before.min(last.saturating_add(1));
        }
        Ok(Some((after, before)))
    }
}

const COLUMNS: &str = "id, request_id, group_folder, provider, action, access_level, params_hash, params_summary,
    status, denial_reason, result_summary, task_id, duration_ms, created_at";

/// The view's calls. The view does not know which of those that a person settled took no effect.
const MADE: &str = "SELECT id, request_id, group_folder, provider, action, access_level, params_hash, params_summary,
        CASE WHEN status = 'executed' AND EXISTS (
            SELECT 1 FROM ledger AS finding
            WHERE finding.caller IN ('group:' || group_folder, group_folder) AND finding.request_id = ext_calls.request_id
              AND finding.kind = 'settled' AND json_extract(finding.body, '$.settles') = ext_calls.id
              AND json_extract(finding.body, '$.as') = 'failed')
            THEN 'failed' ELSE status END AS status,
        denial_reason, result_summary, task_id, duration_ms, created_at
    FROM ext_calls";

/// Calls that wait for a person. The view does not have them.
const WAITING: &str = "SELECT asked_seq AS id, approvals.request_id AS request_id,
        CASE WHEN approvals.caller LIKE 'group:%' THEN substr(approvals.caller, 7) ELSE approvals.caller END AS group_folder,
        approvals.provider AS provider, approvals.action AS action, approvals.level AS access_level,
        'sha256:' || lower(hex(params_digest)) AS params_hash, summary AS params_summary, 'waiting' AS status,
        NULL AS denial_reason, NULL AS result_summary, task_id, NULL AS duration_ms,
        strftime('%Y-%m-%dT%H:%M:%fZ', asked_at / 1000.0, 'unixepoch') AS created_at
    FROM approvals JOIN ledger ON ledger.seq = asked_seq
    WHERE approvals.kind = 'call' AND approvals.state = 'waiting'";

/// Returns the latest calls, the oldest of them first.
///
/// # Errors
/// [`StoreError`] if they cannot be read.
pub fn list(view: &View, filter: &Filter, limit: u32) -> Result<Vec<CallRecord>, StoreError> {
    // Each part has its own statement, so that its order is that of the table and only the last few rows are sorted.
    let latest = |calls: &str| {
        format!(
            "SELECT * FROM (SELECT {COLUMNS} FROM ({calls}) AS listed
             WHERE id > ?1 AND id < ?6 AND (?2 IS NULL OR group_folder = ?2) AND (?3 IS NULL OR provider = ?3)
               AND (?4 IS NULL OR status = ?4) AND (?7 IS NULL OR request_id = ?7) AND (?8 IS NULL OR action = ?8)
               AND (?9 IS NULL OR EXISTS (
                    SELECT 1 FROM ledger AS asker WHERE asker.seq = listed.id AND asker.person = ?9))
               AND (?10 IS NULL OR denial_reason = ?10 OR EXISTS (
                    SELECT 1 FROM ledger AS outcome
                    WHERE outcome.caller IN ('group:' || listed.group_folder, listed.group_folder)
                      AND outcome.request_id = listed.request_id AND outcome.reason_code = ?10
                      AND json_extract(outcome.body, '$.of') = listed.id))
             ORDER BY id DESC LIMIT ?5)"
        )
    };
    let Some((after, before)) = filter.ends(view)? else { return Ok(Vec::new()) };
    let sql = format!("{} UNION ALL {} ORDER BY id DESC LIMIT ?5", latest(MADE), latest(WAITING));
    let group = filter.group.as_ref().map(Group::as_str);
    let provider = filter.provider.as_ref().map(Provider::as_str);
    let (request, action) =
        (filter.request_id.as_ref().map(RequestId::as_str), filter.action.as_ref().map(Action::as_str));
    let reason = filter.reason.map(Code::word);
    let values = params![after, group, provider, filter.status, limit, before, request, action, filter.person, reason];
    let found: Result<Vec<_>, _> = view.prepare_cached(&sql).and_then(|mut s| s.query_map(values, read)?.collect());
    let mut records = found.map_err(at("list the calls"))?;
    records.reverse();
    Ok(records)
}

/// Returns the call whose first row has this number.
///
/// # Errors
/// [`StoreError`] if it cannot be read.
pub fn one(view: &View, id: i64) -> Result<Option<CallRecord>, StoreError> {
    let found: Result<Vec<_>, _> = view
        .prepare_cached(&format!("SELECT {COLUMNS} FROM ({MADE}) WHERE id = ?1"))
        .and_then(|mut s| s.query_map(params![id], read)?.collect());
    Ok(found.map_err(at("look a call up"))?.pop())
}

fn read(row: &rusqlite::Row<'_>) -> Result<CallRecord, rusqlite::Error> {
    Ok(CallRecord {
        id: row.get(0)?,
        request_id: row.get(1)?,
        group_folder: row.get(2)?,
        provider: row.get(3)?,
        action: row.get(4)?,
        access_level: row.get(5)?,
        params_hash: row.get(6)?,
        params_summary: row.get(7)?,
        status: row.get(8)?,
        denial_reason: row.get(9)?,
        result_summary: row.get(10)?,
        task_id: row.get(11)?,
        duration_ms: row.get(12)?,
        created_at: row.get(13)?,
    })
}

/// The decision on a call, as far as its row says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decided {
    /// The row.
    pub seq: i64,
    /// When.
    pub at: Timestamp,
    /// The request.
    pub request_id: Option<String>,
    /// The group that called.
    pub group: String,
    /// The provider.
    pub provider: String,
    /// The action.
    pub action: String,
    /// The level that the call demanded, if it was known.
    pub level: Option<i64>,
    /// The governance task that it named.
    pub task_id: Option<String>,
    /// The code of its refusal; `None` if it was permitted, or a person was asked.
    pub refused: Option<String>,
    /// Whether a person was asked, and no decision followed yet.
    pub asked: bool,
}

/// Calls `each` with the decision on each call, oldest first: its intent, its refusal, or its open approval request.
///
/// # Errors
/// [`StoreError`] if the ledger cannot be read.
pub fn each_decided(view: &View, mut each: impl FnMut(Decided)) -> Result<(), StoreError> {
    // The rows of the view, without the outcomes of the calls, and with the calls that wait for a person.
    const SELECT: &str =
        "SELECT seq, ts, request_id, substr(caller, 7), provider, action, level, task_id, reason_code, kind = 'asked'
        FROM ledger AS decision
        WHERE provider IS NOT NULL AND action IS NOT NULL AND caller LIKE 'group:%'
          AND (kind = 'refused' AND params_digest IS NOT NULL
               OR kind = 'intended' AND json_extract(body, '$.stage') = 'run'
               OR kind = 'asked' AND json_extract(body, '$.kind') = 'call'
                  AND NOT EXISTS (SELECT 1 FROM ledger AS later
                                  WHERE later.caller = decision.caller AND later.request_id = decision.request_id
                                    AND later.seq > decision.seq AND later.kind IN ('intended', 'refused')))
        ORDER BY seq";
    let mut statement = view.prepare(SELECT).map_err(at("read decisions"))?;
    let mut rows = statement.query([]).map_err(at("read decisions"))?;
    while let Some(row) = rows.next().map_err(at("read decisions"))? {
        each(decided(row).map_err(at("read a decision"))?);
    }
    Ok(())
}

fn decided(row: &rusqlite::Row<'_>) -> Result<Decided, rusqlite::Error> {
    Ok(Decided {
        seq: row.get(0)?,
        at: Timestamp::from_millis(row.get(1)?),
        request_id: row.get(2)?,
        group: row.get(3)?,
        provider: row.get(4)?,
        action: row.get(5)?,
        level: row.get(6)?,
        task_id: row.get(7)?,
        refused: row.get(8)?,
        asked: row.get(9)?,
    })
}

/// Returns every row about a request, of one group or of every caller that used that id. The broker's own probes carry
/// it too.
///
/// # Errors
/// [`StoreError`] if they cannot be read.
pub fn story(view: &View, id: &RequestId, group: Option<&Group>) -> Result<Vec<Row>, StoreError> {
    let rows = rows_about(view, id, group)?.into_iter().map(|seq| export::row(view, seq));
    rows.filter_map(Result::transpose).collect()
}

/// Returns the numbers of these rows, in order.
fn rows_about(view: &View, id: &RequestId, group: Option<&Group>) -> Result<Vec<i64>, StoreError> {
    // The index is by caller first, and there are few callers: from each one to the next, instead of over every row.
    const SELECT: &str = "WITH RECURSIVE callers (name) AS (
            SELECT min(caller) FROM ledger WHERE request_id IS NOT NULL
            UNION ALL
            SELECT (SELECT min(caller) FROM ledger WHERE request_id IS NOT NULL AND caller > name)
            FROM callers WHERE name IS NOT NULL)
        SELECT seq FROM callers JOIN ledger ON caller = name AND request_id = ?1
        WHERE ?2 IS NULL OR name = ?2 OR name = 'broker'
        ORDER BY seq";
    let caller = group.map(|group| format!("group:{group}"));
    let numbers: Result<Vec<i64>, _> = view
        .prepare_cached(SELECT)
        .and_then(|mut s| s.query_map(params![id.as_str(), caller], |row| row.get(0))?.collect());
    numbers.map_err(at("look a request up"))
}

/// An effect that is under way, or whose outcome is unknown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Unsettled {
    /// The intent's row.
    pub seq: i64,
    /// The caller.
    pub caller: String,
    /// The request.
    pub request_id: String,
    /// The provider.
    pub provider: Option<String>,
    /// The action.
    pub action: Option<String>,
    /// Since when.
    pub since: Timestamp,
}

/// Returns the intents without an outcome.
///
/// # Errors
/// [`StoreError`] if they cannot be read.
pub fn open_intents(view: &View) -> Result<Vec<Unsettled>, StoreError> {
    const SELECT: &str = "SELECT seq, intent.caller, intent.request_id, provider, action, ts
        FROM open_intents AS intent JOIN ledger USING (seq) ORDER BY seq";
    unsettled(view, SELECT)
}

/// Returns the intents whose outcome is unknown.
///
/// # Errors
/// [`StoreError`] if they cannot be read.
pub fn unknown_outcomes(view: &View) -> Result<Vec<Unsettled>, StoreError> {
    // The query does not use the ledger, because the row of an old intent is in a segment.
    const SELECT: &str = "SELECT seq, caller, request_id, provider, action, since FROM unknown_outcomes ORDER BY seq";
    unsettled(view, SELECT)
}

fn unsettled(view: &View, select: &'static str) -> Result<Vec<Unsettled>, StoreError> {
    let found: Result<Vec<_>, _> = view.prepare(select).and_then(|mut s| {
        s.query_map([], |row| {
            Ok(Unsettled {
                seq: row.get(0)?,
                caller: row.get(1)?,
                request_id: row.get(2)?,
                provider: row.get(3)?,
                action: row.get(4)?,
                since: Timestamp::from_millis(row.get(5)?),
            })
        })?
        .collect()
    });
    found.map_err(at("read unsettled outcomes"))
}

/// Returns a number that changes when another connection has written to the ledger.
///
/// # Errors
/// [`StoreError`] if it cannot be read.
pub fn version(view: &View) -> Result<i64, StoreError> {
    view.query_row("PRAGMA data_version", [], |row| row.get(0)).map_err(at("look for news"))
}
