//! Reads of rows: for verification, for readers, for export.

use crate::View;
use crate::ledger::chain::Row;
use crate::ledger::verifier::Break;
use crate::{StoreError, at};
use rusqlite::{OptionalExtension as _, params};
use serde::Deserialize;
use shared::digest::Digest;

const COLUMNS: &str = "seq, ts, kind, caller, person, request_id, provider, action, level, params_digest, summary,
    reason_code, result_summary, result_digest, task_id, approval, policy_version, duration_ms, body, prev_hash,
    event_hash";

/// Returns the row with this number.
///
/// # Errors
/// [`StoreError`] if the ledger cannot be read.
pub fn row(view: &View, seq: i64) -> Result<Option<Row>, StoreError> {
    view.prepare_cached(&format!("SELECT {COLUMNS} FROM ledger WHERE seq = ?1"))
        .and_then(|mut s| s.query_row(params![seq], |row| Ok(whole(row))).optional())
        .map_err(at("read a row"))?
        .transpose()
}

/// Returns the last row.
///
/// # Errors
/// [`StoreError`] if the ledger cannot be read.
pub fn last(view: &View) -> Result<Option<Row>, StoreError> {
    view.prepare_cached(&format!("SELECT {COLUMNS} FROM ledger ORDER BY seq DESC LIMIT 1"))
        .and_then(|mut s| s.query_row([], |row| Ok(whole(row))).optional())
        .map_err(at("read the last row"))?
        .transpose()
}

/// Calls `each` with every row of the database from this number on, in order.
///
/// # Errors
/// [`StoreError`] if the ledger cannot be read, or the error of `each`.
pub fn each(view: &View, from: i64, each: impl FnMut(Row) -> Result<(), StoreError>) -> Result<(), StoreError> {
    between(view, from, i64::MAX, each)
}

/// Calls `each` with every row from this number to that one, in order.
///
/// # Errors
/// As [`each`].
pub fn between(
    view: &View,
    from: i64,
    to: i64,
    mut each: impl FnMut(Row) -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    let sql = format!("SELECT {COLUMNS} FROM ledger WHERE seq >= ?1 AND seq <= ?2 ORDER BY seq");
    let mut statement = view.prepare_cached(&sql).map_err(at("read rows"))?;
    let mut rows = statement.query(params![from, to]).map_err(at("read rows"))?;
    while let Some(found) = rows.next().map_err(at("read rows"))? {
        each(whole(found)?)?;
    }
    Ok(())
}

/// Returns the first rows of a caller's request that are before this row, oldest first, at most so many. Those in segments
/// are not among them.
///
/// # Errors
/// [`StoreError`] if the ledger cannot be read.
pub fn earlier(view: &View, caller: &str, request: &str, seq: i64, most: u32) -> Result<Vec<Row>, StoreError> {
    let sql = format!(
        "SELECT {COLUMNS} FROM ledger WHERE caller = ?1 AND request_id = ?2 AND seq < ?3 ORDER BY seq LIMIT ?4"
    );
    let mut statement = view.prepare_cached(&sql).map_err(at("read the rows of a request"))?;
    let rows = statement.query_map(params![caller, request, seq, most], |row| Ok(whole(row)));
    rows.map_err(at("read the rows of a request"))?.map(|row| row.map_err(at("read the rows of a request"))?).collect()
}

/// Reads at most this many rows from this number to that one, in order. Rows before an unreadable one are returned with
/// the error. The read has ended when this returns.
pub(super) fn some(view: &View, from: i64, to: i64, most: usize) -> (Vec<Row>, Option<StoreError>) {
    let mut rows = Vec::new();
    let read = between(view, from, to, |row| {
        rows.push(row);
        // Ends the reading.
        if rows.len() < most { Ok(()) } else { Err(StoreError::Stored { what: "row" }) }
    });
    let error = read.err().filter(|_| rows.len() < most);
    (rows, error)
}

/// Reads a row. A malformed one (a digest of another length, bytes that are no text) was not written here, and is
/// named.
fn whole(row: &rusqlite::Row<'_>) -> Result<Row, StoreError> {
    read(row).map_err(|source| match row.get(0) {
        Ok(seq) => StoreError::Broken(Break::Content { seq }),
        Err(_no_number) => at("read a row")(source),
    })
}

/// Reads a row whose columns are in the order of [`COLUMNS`].
pub(crate) fn read(row: &rusqlite::Row<'_>) -> Result<Row, rusqlite::Error> {
    let digest = |index| row.get::<_, [u8; 32]>(index).map(Digest::from_bytes);
    let optional = |index| row.get::<_, Option<[u8; 32]>>(index).map(|bytes| bytes.map(Digest::from_bytes));
    Ok(Row {
        seq: row.get(0)?,
        ts: row.get(1)?,
        kind: row.get(2)?,
        caller: row.get(3)?,
        person: row.get(4)?,
        request_id: row.get(5)?,
        provider: row.get(6)?,
        action: row.get(7)?,
        level: row.get(8)?,
        params_digest: optional(9)?,
        summary: row.get(10)?,
        reason_code: row.get(11)?,
        result_summary: row.get(12)?,
        result_digest: optional(13)?,
        task_id: row.get(14)?,
        approval: row.get(15)?,
        policy_version: row.get(16)?,
        duration_ms: row.get(17)?,
        body: row.get(18)?,
        prev_hash: digest(19)?,
        event_hash: digest(20)?,
    })
}

/// Returns a row as one line of an export.
pub fn line(row: &Row) -> String {
    // A struct of numbers and texts is always JSON.
    serde_json::to_string(row).unwrap_or_default()
}

/// Parses a line of an export.
///
/// # Errors
/// The error of the line. [`crate::ledger::verifier::Verifier`] checks its hash.
pub fn parse_line(text: &str) -> Result<Row, serde_json::Error> {
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let row = Line::deserialize(&mut deserializer)?;
    deserializer.end()?;
    Ok(row)
}

/// The shape of a line: an unknown member would be content that no hash covers.
#[derive(Deserialize)]
#[serde(remote = "Row", deny_unknown_fields)]
struct Line {
    seq: i64,
    ts: i64,
    kind: String,
    caller: String,
    person: Option<String>,
    request_id: Option<String>,
    provider: Option<String>,
    action: Option<String>,
    level: Option<i64>,
    params_digest: Option<Digest>,
    summary: Option<String>,
    reason_code: Option<String>,
    result_summary: Option<String>,
    result_digest: Option<Digest>,
    task_id: Option<String>,
    approval: Option<String>,
    policy_version: String,
    duration_ms: Option<i64>,
    body: String,
    prev_hash: Digest,
    event_hash: Digest,
}
