//! Tasks and gates.

use super::CommandResult;
use super::RowSubject;
use crate::broker::Broker;
use config::near_miss;
use kernel::call::Header;
use model::Caller;
use serde_json::json;
use shared::Code;
use shared::Gate;
use shared::TaskId;
use shared::request::GateRequest;
use shared::request::TaskRequest;
use store::StoreError;
use store::Transaction;
use store::ledger::chain::RowKind;
use store::state::gates;
use store::state::gates::Task;
use store::state::gates::TaskState;

impl Broker {
    pub(super) fn create_task(
        &self,
        tx: &Transaction<'_>,
        header: &Header,
        request: &TaskRequest,
    ) -> Result<CommandResult, StoreError> {
        if let Some(fault) = self.unknown_group(&request.group_folder) {
            return Ok(CommandResult::no(Code::InvalidParams, fault));
        }
        let id = match &request.task_id {
            Some(id) => id.clone(),
            None => made_up(header),
        };
        let task = Task {
            id: id.clone(),
            title: request.title.clone(),
            group: request.group_folder.clone(),
            state: TaskState::Open,
            created_by: header.caller_key.to_string(),
            created_at: tx.now(),
        };
        if !gates::create(tx, &task)? {
            return Ok(CommandResult::no(Code::InvalidParams, format!("There is a task '{id}' already.")));
        }
        Ok(CommandResult::Done {
            kind: RowKind::Task,
            subject: RowSubject { task_id: Some(id.clone()), ..RowSubject::default() },
            body: json!({ "group": task.group, "state": "open" }),
            data: json!({ "task_id": id, "group_folder": task.group, "state": "open" }),
            summary: format!("Task {id} is open for {}.", task.group),
        })
    }

    pub(super) fn approve_gate(
        &self,
        tx: &Transaction<'_>,
        header: &Header,
        request: &GateRequest,
    ) -> Result<CommandResult, StoreError> {
        let Some(table) = self.config.gates.get(&request.gate) else {
            let hint = near_miss(request.gate.as_str(), self.config.gates.keys().map(Gate::as_str));
            return Ok(CommandResult::no(Code::InvalidParams, format!("There is no gate '{}'{hint}.", request.gate)));
        };
        let may_open = match &header.caller {
            Caller::Group(group) => table.groups.contains(group),
            Caller::Person(name) => table.people.contains(name),
            Caller::External(_) | Caller::Operator(_) | Caller::Broker => false,
        };
        if !may_open {
            return Ok(CommandResult::no(
                Code::Guardrail,
                format!("The configuration does not let this caller open the gate '{}'.", request.gate),
            ));
        }
        let Some(task) = gates::task(tx.view(), &request.task_id)?.filter(|task| task.state == TaskState::Open) else {
            return Ok(CommandResult::no(Code::TaskUnknown, "There is no open task of that name."));
        };
        if header.caller.group() == Some(&task.group) {
            return Ok(CommandResult::no(Code::Guardrail, "A group does not open a gate for its own task."));
        }
        let data = json!({ "task_id": request.task_id, "gate": request.gate, "approved": true });
        if !gates::approve(tx, &request.task_id, &request.gate, &header.caller_key)? {
            let GateRequest { task_id, gate } = request;
            let text = format!("You have opened the {gate} gate for {task_id} before; no call has used that yet.");
            return Ok(CommandResult::told(data, text));
        }
        Ok(CommandResult::Done {
            kind: RowKind::GateApproved,
            subject: RowSubject { task_id: Some(request.task_id.clone()), ..RowSubject::default() },
            body: json!({ "gate": request.gate }),
            data,
            summary: format!("The {} gate is open for {}, for one call.", request.gate, request.task_id),
        })
    }
}

pub(super) fn close_task(tx: &Transaction<'_>, id: &TaskId, cancelled: bool) -> Result<CommandResult, StoreError> {
    let state = if cancelled { TaskState::Cancelled } else { TaskState::Done };
    if !gates::end(tx, id, state)? {
        return Ok(CommandResult::no(Code::TaskUnknown, format!("There is no open task '{id}'.")));
    }
    Ok(CommandResult::Done {
        kind: RowKind::Task,
        subject: RowSubject { task_id: Some(id.clone()), ..RowSubject::default() },
        body: json!({ "state": state.word() }),
        data: json!({ "task_id": id, "state": state.word() }),
        summary: format!("Task {id} is {}.", state.word()),
    })
}

/// Makes a task's name for a request that gives none. It depends on the request, so a repeat makes no second task.
fn made_up(header: &Header) -> TaskId {
    let digest: String = header.request_digest.hex().chars().take(12).collect();
    let stem: String = header.request_id.as_str().chars().take(40).collect();
    #[expect(clippy::expect_used, reason = "letters, digits, hyphens and underscores satisfy the grammar")]
    format!("gov-{stem}-{digest}").parse().expect("a task id")
}
