//! Governance tasks and the gates that they passed.
//!
//! A gate is a named condition that a task must have passed before a production action. An approval of a gate
//! serves one call: it is spent in the very transaction that writes the call's intent.

use crate::Transaction;
use crate::View;
use crate::{StoreError, at};
use rusqlite::{OptionalExtension as _, params};
use shared::{Gate, Group, TaskId, Timestamp};

/// A stored task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Task {
    /// Its name.
    pub id: TaskId,
    /// The title.
    pub title: String,
    /// The group that may use it.
    pub group: Group,
    /// The state.
    pub state: TaskState,
    /// The creator, in the ledger's form.
    pub created_by: String,
    /// The time of creation.
    pub created_at: Timestamp,
}

/// The state of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TaskState {
    /// The task can be used.
    Open,
    /// The task is done.
    Done,
    /// The task was given up.
    Cancelled,
}

impl TaskState {
    /// Returns the word in the table.
    pub fn word(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Done => "done",
            Self::Cancelled => "cancelled",
        }
    }
}

/// Returns the task with this name.
///
/// # Errors
/// [`StoreError`] if it cannot be read.
pub fn task(view: &View, id: &TaskId) -> Result<Option<Task>, StoreError> {
    view.prepare_cached("SELECT id, title, assigned_group, state, created_by, created_at FROM tasks WHERE id = ?1")
        .and_then(|mut s| s.query_row(params![id.as_str()], |row| Ok(read(row))).optional())
        .map_err(at("look a task up"))?
        .transpose()
}

/// Returns every task, newest first.
///
/// # Errors
/// [`StoreError`] if they cannot be read.
pub fn tasks(view: &View) -> Result<Vec<Task>, StoreError> {
    let mut statement = view
        .prepare(
            "SELECT id, title, assigned_group, state, created_by, created_at FROM tasks ORDER BY created_at DESC, id",
        )
        .map_err(at("list the tasks"))?;
    let mut rows = statement.query([]).map_err(at("list the tasks"))?;
    let mut tasks = Vec::new();
    while let Some(row) = rows.next().map_err(at("list the tasks"))? {
        tasks.push(read(row)?);
    }
    Ok(tasks)
}

/// Returns the tasks that were created last, newest first.
///
/// # Errors
/// [`StoreError`] if they cannot be read.
pub fn latest_tasks(view: &View, limit: u32) -> Result<Vec<Task>, StoreError> {
    // Tasks are never deleted, so the row number is the order of their creation.
    let mut statement = view
        .prepare_cached(
            "SELECT id, title, assigned_group, state, created_by, created_at FROM tasks ORDER BY rowid DESC LIMIT ?1",
        )
        .map_err(at("list the latest tasks"))?;
    let mut rows = statement.query(params![limit]).map_err(at("list the latest tasks"))?;
    let mut tasks = Vec::new();
    while let Some(row) = rows.next().map_err(at("list the latest tasks"))? {
        tasks.push(read(row)?);
    }
    Ok(tasks)
}

/// Creates a task; `false` if the name is taken.
///
/// # Errors
/// [`StoreError`]; nothing was created.
pub fn create(tx: &Transaction<'_>, task: &Task) -> Result<bool, StoreError> {
    let made = tx
        .view()
        .prepare_cached("INSERT INTO tasks VALUES (?1, ?2, ?3, ?4, ?5, ?6) ON CONFLICT (id) DO NOTHING")
        .and_then(|mut s| {
            s.execute(params![
                task.id.as_str(),
                task.title,
                task.group.as_str(),
                task.state.word(),
                task.created_by,
                task.created_at.millis()
            ])
        })
        .map_err(at("create a task"))?;
    Ok(made == 1)
}

/// Ends an open task; `false` if there is no such open task.
///
/// # Errors
/// [`StoreError`]; the task is as it was.
pub fn end(tx: &Transaction<'_>, id: &TaskId, state: TaskState) -> Result<bool, StoreError> {
    let changed = tx
        .view()
        .prepare_cached("UPDATE tasks SET state = ?2 WHERE id = ?1 AND state = 'open'")
        .and_then(|mut s| s.execute(params![id.as_str(), state.word()]))
        .map_err(at("end a task"))?;
    Ok(changed == 1)
}

/// Opens a gate for a task, for one call. Returns `false` if this caller has an approval that no call has spent.
///
/// # Errors
/// [`StoreError`]; the gate is as it was.
pub fn approve(tx: &Transaction<'_>, task: &TaskId, gate: &Gate, by: &str) -> Result<bool, StoreError> {
    const INSERT: &str = "INSERT INTO gate_approvals (task, gate, approved_by, approved_at) SELECT ?1, ?2, ?3, ?4
        WHERE NOT EXISTS (SELECT 1 FROM gate_approvals
                          WHERE task = ?1 AND gate = ?2 AND spent_by IS NULL AND approved_by = ?3)";
    let stored = tx
        .view()
        .prepare_cached(INSERT)
        .and_then(|mut s| s.execute(params![task.as_str(), gate.as_str(), by, tx.now().millis()]))
        .map_err(at("approve a gate"))?;
    Ok(stored == 1)
}

/// Returns the oldest unspent approval of each approver of a gate for a task, except this approver's; as many as are
/// needed. Each approver has one, so few are read.
///
/// # Errors
/// [`StoreError`] if they cannot be read.
pub fn unspent(
    view: &View,
    task: &TaskId,
    gate: &Gate,
    (not_by, needed): (&str, usize),
) -> Result<Vec<i64>, StoreError> {
    const SELECT: &str = "SELECT min(id) FROM gate_approvals
        WHERE task = ?1 AND gate = ?2 AND spent_by IS NULL AND approved_by <> ?3
        GROUP BY approved_by ORDER BY 1 LIMIT ?4";
    let needed = i64::try_from(needed).unwrap_or(i64::MAX);
    view.prepare_cached(SELECT)
        .and_then(|mut s| {
            s.query_map(params![task.as_str(), gate.as_str(), not_by, needed], |row| row.get(0))?.collect()
        })
        .map_err(at("look for gate approvals"))
}

/// Spends approvals for an intent.
///
/// # Errors
/// [`StoreError`], also if one of them was spent before; the intent must then not be written.
pub fn spend(tx: &Transaction<'_>, approvals: &[i64], intent: i64) -> Result<(), StoreError> {
    for id in approvals {
        let spent = tx
            .view()
            .prepare_cached("UPDATE gate_approvals SET spent_by = ?2 WHERE id = ?1 AND spent_by IS NULL")
            .and_then(|mut s| s.execute(params![id, intent]))
            .map_err(at("spend a gate approval"))?;
        if spent != 1 {
            return Err(StoreError::Conflict { what: "gate approval" });
        }
    }
    Ok(())
}

/// One line of `gate list`.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct GateApproval {
    /// The task.
    pub task: String,
    /// The gate.
    pub gate: String,
    /// The approver.
    pub approved_by: String,
    /// The time of the approval.
    pub approved_at: Timestamp,
    /// The intent that spent it.
    pub spent_by: Option<i64>,
}

/// Returns every approval of a gate, newest first.
///
/// # Errors
/// [`StoreError`] if they cannot be read.
pub fn list(view: &View) -> Result<Vec<GateApproval>, StoreError> {
    view.prepare("SELECT task, gate, approved_by, approved_at, spent_by FROM gate_approvals ORDER BY id DESC")
        .and_then(|mut s| {
            s.query_map([], |row| {
                Ok(GateApproval {
                    task: row.get(0)?,
                    gate: row.get(1)?,
                    approved_by: row.get(2)?,
                    approved_at: Timestamp::from_millis(row.get(3)?),
                    spent_by: row.get(4)?,
                })
            })?
            .collect()
        })
        .map_err(at("list the gate approvals"))
}

fn read(row: &rusqlite::Row<'_>) -> Result<Task, StoreError> {
    let raw: Result<(String, String, String, String, String, i64), rusqlite::Error> =
        (|| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?, row.get(5)?)))();
    let (id, title, group, state, created_by, created_at) = raw.map_err(at("read a task"))?;
    Ok(Task {
        id: id.parse().map_err(|_bad| StoreError::Stored { what: "task" })?,
        title,
        group: group.parse().map_err(|_bad| StoreError::Stored { what: "group" })?,
        state: match state.as_str() {
            "open" => TaskState::Open,
            "done" => TaskState::Done,
            _ => TaskState::Cancelled,
        },
        created_by,
        created_at: Timestamp::from_millis(created_at),
    })
}
