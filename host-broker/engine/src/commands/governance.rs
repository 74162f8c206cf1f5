//! `gov_list_ext_calls` and `gov_list_tasks`: the main group's view of the calls of all groups and of the tasks.
//!
//! SECURITY: another group's agent chooses request ids, and the names in calls that are refused. No such text reaches the
//! main group's agent: ids are left out, and unknown names count as `other`.

use super::CommandResult;
use crate::broker::Broker;
use serde_json::{Value, json};
use shared::numbers::counted;
use shared::request::{CallsRequest, TasksRequest};
use shared::{Action, Provider, TaskId};
use store::StoreError;
use store::Transaction;
use store::ledger::calls::{self, CallRecord, Filter};
use store::ledger::export;
use store::ledger::segments;
use store::state::gates;

/// The most rows of the ledger in which one request looks for calls, so that it holds up the loop only a little.
const ROWS_MAX: i64 = 500;
/// The number of calls of one list, unless the request names one.
const CALLS: u32 = 20;
/// The most tasks of one list, and among how many of the latest ones they are looked for.
const TASKS_MAX: usize = 100;
const TASKS_SEEN: u32 = 1_000;
/// The placeholder for a name that is not in the catalogue.
const OTHER: &str = "other";

impl Broker {
    /// Lists the latest calls, newest first.
    pub(super) fn list_calls(&self, tx: &Transaction<'_>, request: &CallsRequest) -> Result<CommandResult, StoreError> {
        let head = export::last(tx.view())?.map_or(0, |row| row.seq);
        let before = request.before.unwrap_or(i64::MAX).min(head.saturating_add(1));
        let after = before.saturating_sub(ROWS_MAX.saturating_add(1)).max(0);
        let (group, provider) = (request.group_folder.clone(), request.provider.clone());
        let limit = request.limit.unwrap_or(CALLS);
        let mut found = if before > 1 {
            calls::list(tx.view(), &Filter { group, provider, after, before, ..Filter::default() }, limit)?
        } else {
            Vec::new()
        };
        let is_cut = u32::try_from(found.len()).is_ok_and(|count| count >= limit);
        // Older rows are in segments, which only people read.
        let is_end = after <= segments::end(tx.view())?.seq;
        let next = if is_cut { found.first().map(|call| call.id) } else { Some(after + 1).filter(|_| !is_end) };
        found.reverse();
        let calls = found.iter().map(|call| self.shown(tx, call)).collect::<Result<Vec<Value>, _>>()?;
        let summary = counted(calls.len(), "call", "calls");
        let data = json!({ "calls": calls, "next_before": next.filter(|next| *next > 1) });
        Ok(CommandResult::told(data, summary))
    }

    fn shown(&self, tx: &Transaction<'_>, call: &CallRecord) -> Result<Value, StoreError> {
        let provider: Option<Provider> = call.provider.parse().ok();
        let known = provider.and_then(|provider| Some((self.catalogue.levels(&provider)?, provider)));
        let action = known.as_ref().and_then(|(actions, _)| {
            let action: Action = call.action.as_ref()?.parse().ok()?;
            actions.contains_key(&action).then_some(action)
        });
        // A read may name a task that does not exist.
        let named: Option<TaskId> = call.task_id.as_ref().and_then(|id| id.parse().ok());
        let task = named.map(|id| gates::task(tx.view(), &id)).transpose()?.flatten();
        Ok(json!({
            "id": call.id,
            "group_folder": call.group_folder,
            "provider": known.as_ref().map_or(OTHER, |(_, provider)| provider.as_str()),
            "action": action.as_ref().map_or(OTHER, |action| action.as_str()),
            "access_level": call.access_level,
            "status": call.status,
            "denial_reason": call.denial_reason,
            "task_id": task.map(|task| task.id),
            "duration_ms": call.duration_ms,
            "created_at": call.created_at,
        }))
    }
}

/// Lists the latest tasks, newest first.
pub(super) fn list_tasks(tx: &Transaction<'_>, request: &TasksRequest) -> Result<CommandResult, StoreError> {
    let mut tasks = gates::latest_tasks(tx.view(), TASKS_SEEN)?;
    let is_all = u32::try_from(tasks.len()).is_ok_and(|count| count < TASKS_SEEN);
    tasks.retain(|task| request.group_folder.as_ref().is_none_or(|group| *group == task.group));
    tasks.retain(|task| request.all || task.state == gates::TaskState::Open);
    let more = !is_all || tasks.len() > TASKS_MAX;
    tasks.truncate(TASKS_MAX);
    let list: Vec<Value> = tasks
        .iter()
        .map(|task| {
            json!({
                "task_id": task.id,
                "title": task.title,
                "group_folder": task.group,
                "state": task.state.word(),
                "created_at": task.created_at,
            })
        })
        .collect();
    let summary = counted(list.len(), "task", "tasks");
    Ok(CommandResult::told(json!({ "tasks": list, "more": more }), summary))
}
