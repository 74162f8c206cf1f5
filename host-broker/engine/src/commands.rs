//! Commands that the ledger itself fulfils: grants, tasks, gates, kill switches, results.
//!
//! They have no external effect, so one row records everything. It is written with the change in one transaction.

mod accounts;
mod clock;
mod flows;
mod granting;
mod operators;
mod external_grants;
mod results;
mod sessions;

pub use granting::grant_value;

use crate::approval_requests;
use crate::approval_requests::{AnswerOutcome, ApprovalAnswer, Resolved};
use crate::broker::Broker;
use crate::capability_replies::CapabilityAnswer;
use crate::event::Event;
use crate::flows::standing::{Use, standing};
use crate::outcomes::by_person;
use crate::pipeline::closed;
use crate::replies::while_parked;
use crate::request::{Command, CommandRequest, Parsed};
use crate::rights;
use crate::snapshot;
use config::near_miss;
use kernel::authorize::Refusal;
use kernel::call::Header;
use kernel::{Answer, Step, WriteError};
use model::approval::{Approval, State};
use model::{Account, Caller, KillScope, Subject, TokenError, approval};
use serde_json::{Map, Value, json};
use shared::flow::request::FlowRequest;
use shared::request::{CancelRequest, CapabilitiesRequest, GateRequest, ListRequest, RevokeRequest, TaskRequest};
use shared::snapshot::{Availability, Snapshot, TokenFault};
use shared::{Code, Gate, Group, Level, Provider, Reply, RequestId, TaskId, Timestamp};
use std::sync::Arc;
use store::ledger::chain::{Draft, Kind};
use store::ledger::minor::MinorRow;
use store::state::accounts as stored_accounts;
use store::state::approvals;
use store::state::gates;
use store::state::gates::{Task, TaskState};
use store::state::grants;
use store::state::kill;
use store::state::requests;
use store::{StoreError, Transaction};

/// The result of a command: done, with a row of this kind, or refused.
pub(crate) enum CommandResult {
    Done {
        kind: Kind,
        subject: RowSubject,
        body: Value,
        data: Value,
        summary: String,
    },
    No {
        code: Code,
        reason: String,
    },
    /// Answered with the group's permissions; nothing was changed.
    Capabilities(CapabilityAnswer),
    /// Done. The data of the outgoing reply has these additional members, which are stored nowhere.
    Once(Box<CommandResult>, Map<String, Value>),
}

/// The subject of the row.
#[derive(Clone, Default)]
pub(crate) struct RowSubject {
    provider: Option<Provider>,
    level: Option<Level>,
    task_id: Option<TaskId>,
}

impl CommandResult {
    pub(crate) fn no(code: Code, reason: impl Into<String>) -> Self {
        Self::No { code, reason: reason.into() }
    }

    /// Makes the result of a finished command with its row.
    pub(crate) fn done(kind: Kind, body: Value, data: Value, summary: String) -> Self {
        Self::Done { kind, subject: RowSubject::default(), body, data, summary }
    }

    /// Adds members that are shown to the caller once and never again.
    fn shown_once(self, members: Map<String, Value>) -> Self {
        Self::Once(Box::new(self), members)
    }

    /// Adds a sentence to the summary, if the command was done.
    fn and(mut self, word: &str) -> Self {
        if let Self::Done { summary, .. } = &mut self {
            summary.extend([" ", word]);
        }
        self
    }

    /// Makes an answer from stored data; nothing was changed.
    fn told(data: Value, summary: impl Into<String>) -> Self {
        Self::Done {
            kind: Kind::Answered,
            subject: RowSubject::default(),
            body: json!({}),
            data,
            summary: summary.into(),
        }
    }
}

/// The end of a command.
pub(crate) enum CommandOutcome {
    /// Answered, or without an answer.
    Answered(Option<Answer>),
    /// Waits for the end of another request.
    Waits(RequestId),
    /// Waits for a person's answer.
    Asked,
}

impl Broker {
    /// Executes a command in the ledger itself.
    pub(crate) fn directed<'tx>(
        &mut self,
        tx: &'tx Transaction<'_>,
        command_request: Box<CommandRequest>,
    ) -> Result<Step<'tx, Event>, WriteError<Event>> {
        let header = &command_request.header;
        if let Some(parked) = self.parked.get(&header.key()).filter(|_| !command_request.asked) {
            let noted = while_parked(tx, header, parked);
            return closed(tx, Event::Arrived(Parsed::CommandRequest(command_request)), noted.map(|()| None));
        }
        let earlier = if command_request.asked {
            Ok(None)
        } else {
            requests::earlier(tx, &header.caller_key, &header.request_id)
        };
        let result = match earlier {
            Ok(None) => self.fulfil(tx, &command_request),
            // A read-only request is answered from the store each time; no reply is kept.
            Ok(Some(earlier))
                if command_request.command.only_reads() && earlier.is_same_and_over(header.request_digest) =>
            {
                self.fulfil(tx, &command_request)
            }
            Ok(Some(earlier)) => self.repeated(tx, header, earlier).map(CommandOutcome::Answered),
            Err(error) => Err(error),
        };
        match result {
            Ok(CommandOutcome::Answered(answer)) => {
                Ok(kernel::close(tx, Event::Arrived(Parsed::CommandRequest(command_request)), answer))
            }
            Ok(CommandOutcome::Waits(of)) => {
                Ok(Step::Wait(Event::Arrived(Parsed::CommandRequest(command_request)), of))
            }
            Ok(CommandOutcome::Asked) => Ok(kernel::ask(tx, Event::Arrived(Parsed::CommandRequest(command_request)))),
            Err(error) => Err(WriteError { event: Event::Arrived(Parsed::CommandRequest(command_request)), error }),
        }
    }

    /// Executes a command inside the transaction.
    pub(crate) fn fulfil(
        &mut self,
        tx: &Transaction<'_>,
        command_request: &CommandRequest,
    ) -> Result<CommandOutcome, StoreError> {
        let header = &command_request.header;
        if is_for_main_only(&command_request.command)
            && let Err((code, reason)) = self.may_administer(&header.caller, &command_request.command)
        {
            return write(tx, command_request, None, CommandResult::no(code, reason)).map(CommandOutcome::Answered);
        }
        // An approved command is executed, like a call.
        if !command_request.asked
            && adds_evidence(&command_request.command)
            && let Some((reason, retry_after)) = tx.refuses(&header.caller_key)?
        {
            let refusal = Refusal { code: Code::RateLimited, reason, retry_after };
            return refuse(tx, command_request, None, &refusal).map(CommandOutcome::Answered);
        }
        if let Command::Cancel(CancelRequest { of }) = &command_request.command
            && self.reachable(tx, header, of)?.is_none()
        {
            let code = results::out_of_reach(&header.behalf);
            return write(tx, command_request, None, CommandResult::no(code, code.meaning()))
                .map(CommandOutcome::Answered);
        }
        // An ended external grant cancels nothing any more. Its call is refused when it is decided again.
        if let (Command::Cancel(_), Caller::External(access)) = (&command_request.command, &header.caller)
            && let Err(code) = standing(tx.view(), &self.config.flows, tx.now(), access, Use::Result)?
        {
            return write(tx, command_request, None, CommandResult::no(code, code.meaning()))
                .map(CommandOutcome::Answered);
        }
        let said = match &command_request.command {
            Command::Result(request) => match self.may_have_result(tx, header, &request.of)? {
                Ok(()) => return self.result(tx, header, request),
                Err(code) => CommandResult::no(code, code.meaning()),
            },
            Command::Cancel(request) => self.cancel(tx, header, &request.of)?,
            Command::Capabilities(request) => self.capabilities(tx, header, request)?,
            Command::Grant(request) => return self.grant(tx, command_request, request),
            Command::Revoke(request) => self.revoke(tx, header, request)?,
            Command::List(request) => list(tx, request)?,
            Command::TaskCreate(request) => self.create_task(tx, header, request)?,
            Command::GateApprove(request) => self.approve_gate(tx, header, request)?,
            Command::TaskClose { task_id, cancelled } => close_task(tx, task_id, *cancelled)?,
            Command::Kill { scope, on } => set_kill(tx, header, scope, *on)?,
            Command::Flow(command) => self.flow(tx, header, command)?,
            Command::ReadFlow(flow) => self.read_outside(tx, header, flow)?,
            Command::MintOperator(wanted) => self.mint_operator(tx, header, wanted)?,
            Command::RevokeOperator(id) => operators::revoke(tx, id)?,
            Command::ListOperators => operators::list(tx, &self.config.flows)?,
            Command::AcceptDefinitions { provider, digest, flagged } => {
                self.accepted_elsewhere(tx, provider)?;
                let mut body = json!({ "accepted": provider, "digest": digest });
                if let Some(body) = body.as_object_mut().filter(|_| !flagged.is_empty()) {
                    body.insert("flagged".into(), json!(flagged));
                }
                let summary = format!("What {provider} says it can do is accepted.");
                CommandResult::done(Kind::Noted, body.clone(), body, summary)
            }
            Command::LinkAccount { person, capability, account_ref, label } => {
                let account = Account {
                    person: person.clone(),
                    capability: capability.clone(),
                    account_ref: account_ref.clone(),
                    label: label.clone(),
                    linked_at: tx.now(),
                    linked_by: header.caller_key.to_string(),
                };
                self.link_account(tx, &account)?
            }
            Command::UnlinkAccounts { person, capability, account_ref } => {
                self.unlink_accounts(tx, person, capability.as_ref(), account_ref.as_deref())?
            }
            Command::PurgeGroup(group) => self.purge_group(tx, group)?,
            Command::ShareAccount(share, on) => self.share_account(tx, share, *on, &header.caller_key)?,
            Command::RenewVault { forget } => self.renew_vault(tx, *forget)?,
            Command::AcceptClock => self.accept_clock(tx)?,
            Command::Settle(finding) => by_person::settle(tx, header, finding)?,
            Command::ResetSession(name) => self.reset_session(tx, name)?,
            Command::Release(id) => self.release(tx, header, id)?,
            Command::Answer(given) => {
                return self.take_answer(tx, header, given).map(Some).map(CommandOutcome::Answered);
            }
            Command::Revert(id) => match self.revert(tx, command_request, id)? {
                Ok(given) => {
                    return self.take_answer(tx, header, &given).map(Some).map(CommandOutcome::Answered);
                }
                Err(refusal) => CommandResult::no(refusal.code, refusal.reason),
            },
            Command::RelayedAnswer(said) => {
                return self.take_relayed(tx, header, said).map(Some).map(CommandOutcome::Answered);
            }
        };
        write(tx, command_request, None, said).map(CommandOutcome::Answered)
    }

    /// Checks who may administer: the main group's agent, and people within their rights. Remote operators may only
    /// work with flows, within the reach of their tokens.
    fn may_administer(&self, caller: &Caller, command: &Command) -> Result<(), (Code, String)> {
        let may = match caller {
            Caller::Group(group) => self.config.is_main(group),
            Caller::Person(person) => {
                return rights::of(command).check(&self.config, person).map_err(|lacks| (Code::Guardrail, lacks));
            }
            Caller::Operator(_) => matches!(command, Command::Flow(_)),
            Caller::External(_) | Caller::Broker => false,
        };
        if may { Ok(()) } else { Err((Code::MainOnly, Code::MainOnly.meaning().to_owned())) }
    }

    fn capabilities(
        &mut self,
        tx: &Transaction<'_>,
        header: &Header,
        request: &CapabilitiesRequest,
    ) -> Result<CommandResult, StoreError> {
        let Some(group) = header.caller.group() else {
            return Ok(CommandResult::no(Code::UnknownType, "Only a group has capabilities."));
        };
        // Changes of this very transaction are not durable yet, so no answer about them is kept.
        let form = match &header.behalf {
            Subject::Nobody(why) if !self.follow_ups.stale_snapshots.contains(group) => {
                Some((*why, request.include_unavailable))
            }
            Subject::Nobody(_) | Subject::Person(_) => None,
        };
        if let Some(answer) = form.and_then(|form| self.capability_answers.get(group, form, tx.now())) {
            return Ok(CommandResult::Capabilities(answer.clone()));
        }
        let (connection, policy, behalf) = (tx.view(), &self.policy, Some(&header.behalf));
        let mut snapshot =
            snapshot::snapshot(connection, tx.now(), group, &self.config, &self.catalogue, policy, behalf)?;
        if let Some(person) = header.behalf.key() {
            for capability in snapshot.capabilities.iter_mut().filter(|own| own.provider.is_namespaced()) {
                capability.accounts = stored_accounts::of(connection, &person, &capability.provider)?;
            }
        }
        snapshot.token_fault = token_fault(&header.behalf, &snapshot);
        if !request.include_unavailable {
            hide_unavailable(&mut snapshot);
        }
        let answer = CapabilityAnswer::of(&snapshot);
        if let Some(form) = form {
            self.uncommitted.capability_answers.push((group.clone(), form, answer.clone()));
        }
        Ok(CommandResult::Capabilities(answer))
    }

    fn revoke(
        &mut self,
        tx: &Transaction<'_>,
        header: &Header,
        request: &RevokeRequest,
    ) -> Result<CommandResult, StoreError> {
        let RevokeRequest { group_folder: group, provider } = request;
        // A grant can be revoked even if its group or provider is no longer configured.
        if grants::find(tx.view(), group, provider)?.is_none()
            && let Some(fault) = self.unknown_group(group).or_else(|| self.unknown_provider(provider))
        {
            return Ok(CommandResult::no(Code::InvalidParams, fault));
        }
        let was_active = grants::revoke(tx, group, provider, &header.caller_key)?;
        if was_active {
            self.follow_ups.stale_snapshots.insert(group.clone());
        }
        let data = json!({ "revoked": was_active });
        if !was_active && header.caller.policy_group().is_some() {
            // An agent can repeat this without limit.
            return Ok(CommandResult::told(data, format!("{group} had no access to {provider}.")));
        }
        let summary = if was_active {
            format!("{group} no longer has access to {provider}.")
        } else {
            format!("{group} had no access to {provider}.")
        };
        Ok(CommandResult::Done {
            kind: Kind::Revoked,
            subject: RowSubject { provider: Some(provider.clone()), ..RowSubject::default() },
            body: json!({ "group": group, "was_active": was_active }),
            data,
            summary,
        })
    }

    /// Returns the fault of a group that is not configured.
    fn unknown_group(&self, group: &Group) -> Option<String> {
        let known = self.config.groups.keys().map(Group::as_str);
        (!self.config.groups.contains_key(group))
            .then(|| format!("There is no group '{group}'{}.", near_miss(group.as_str(), known)))
    }

    /// Returns the fault of a provider that is not in the catalogue.
    fn unknown_provider(&self, provider: &Provider) -> Option<String> {
        let known = self.catalogue.providers().map(|(name, _)| name.as_str());
        self.catalogue
            .provider(provider)
            .is_none()
            .then(|| format!("There is no provider '{provider}'{}.", near_miss(provider.as_str(), known)))
    }

    fn create_task(
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
            kind: Kind::Task,
            subject: RowSubject { task_id: Some(id.clone()), ..RowSubject::default() },
            body: json!({ "group": task.group, "state": "open" }),
            data: json!({ "task_id": id, "group_folder": task.group, "state": "open" }),
            summary: format!("Task {id} is open for {}.", task.group),
        })
    }

    fn approve_gate(
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
            kind: Kind::GateApproved,
            subject: RowSubject { task_id: Some(request.task_id.clone()), ..RowSubject::default() },
            body: json!({ "gate": request.gate }),
            data,
            summary: format!("The {} gate is open for {}, for one call.", request.gate, request.task_id),
        })
    }

    /// Takes an approver's answer: one row about the approval request with the person's name, and the reply to the
    /// person.
    pub(crate) fn take_answer(
        &mut self,
        tx: &Transaction<'_>,
        header: &Header,
        given: &ApprovalAnswer,
    ) -> Result<Answer, StoreError> {
        let taken = self.answer_question(tx, header, given)?;
        let applying = self.apply_at_once(tx, given, &taken)?;
        let (kind, approval) = match taken {
            AnswerOutcome::Counted(kind, approval) => (kind, approval),
            AnswerOutcome::No(code, reason, about) => {
                let evidence = tx.append(&Draft {
                    reason_code: Some(code),
                    approval: about,
                    body: given.way(json!({ "request": header.request_digest })),
                    ..header.draft(Kind::Refused)
                })?;
                let reply = refusal(header, code, &reason, tx.now());
                return kernel::answer(tx, &header.caller_key, reply, evidence);
            }
        };
        let became = approvals::numbered(tx.view(), approval.id)?.and_then(|approval| approval.became);
        let mut body = json!({
            "request": header.request_digest,
            "of": approval.asked_seq,
            "of_caller": approval.caller,
            "agrees_to": approval.digest,
            "state": approval.state,
        });
        // The row says how the approval was carried out, if not as usual.
        if let (Some(became), Some(members)) = (&became, body.as_object_mut()) {
            members.insert("became".to_owned(), json!(became));
        }
        let evidence = tx.append(&Draft {
            provider: Some(&approval.provider),
            action: Some(&approval.action),
            level: Some(approval.level),
            approval: Some(approval.reference()),
            body: given.way(body),
            ..header.draft(kind)
        })?;
        let answers = approvals::answers(tx.view(), approval.id)?;
        let yes = answers.iter().filter(|answer| answer.yes).count();
        let summary = match (approval.state, approval.kind) {
            (State::Waiting, _) => format!("Your yes counts: {yes} of {}.", approval.quorum),
            (State::Approved, approval::Kind::Call) => {
                format!("{}.{} may run, once.", approval.provider, approval.action)
            }
            (State::Approved, approval::Kind::Grant) => format!("The access to {} is given.", approval.provider),
            (State::Approved, approval::Kind::Account) if became.as_deref() != Some(State::Approved.word()) => {
                "Nothing was linked: one of this name has been linked since you were asked. The agent can begin again."
                    .to_owned()
            }
            (State::Approved, approval::Kind::Account) => format!("The account at {} is linked.", approval.provider),
            (State::Approved, approval::Kind::Definition) => {
                format!("What {} says of its tools is accepted; a running daemon exchanges it now.", approval.provider)
            }
            (State::Approved, approval::Kind::File) => "The changes may be applied, once.".to_owned(),
            (_, approval::Kind::Call) => format!("{}.{} will not run.", approval.provider, approval.action),
            (_, approval::Kind::Grant) => format!("No access to {} is given.", approval.provider),
            (_, approval::Kind::Account) => format!("No account at {} is linked.", approval.provider),
            (State::Approved, approval::Kind::Flow) if became.as_deref() != Some(State::Approved.word()) => {
                "The proposed version has changed since you saw it, so nothing was approved.".to_owned()
            }
            (State::Approved, approval::Kind::Flow) => "The flow is canonical.".to_owned(),
            (_, approval::Kind::Flow) => "The flow stays proposed.".to_owned(),
            (_, approval::Kind::Definition) => {
                format!("What {} said of its tools before is what counts.", approval.provider)
            }
            (_, approval::Kind::File) => "The changes will not be applied.".to_owned(),
        };
        let mut data = json!({ "code": approval.code, "ref": approval.reference(), "state": approval.state });
        if let (Some(request), Some(object)) = (applying, data.as_object_mut()) {
            object.insert("applied_by".into(), json!(request));
        }
        kernel::answer(
            tx,
            &header.caller_key,
            Reply::executed(header.request_id.clone(), data, summary, tx.now()),
            evidence,
        )
    }

    /// Cancels a call that has not started: one that waits for a person, or one whose remote facts are still being
    /// fetched. For a started call, the broker tells its provider that the caller has cancelled it.
    fn cancel(&mut self, tx: &Transaction<'_>, header: &Header, of: &RequestId) -> Result<CommandResult, StoreError> {
        let said =
            |cancelled, state, text: &str| CommandResult::told(json!({ "cancelled": cancelled, "state": state }), text);
        let key = (Arc::clone(&header.caller_key), of.clone());
        let asked = approvals::of_request(tx.view(), &header.caller_key, of)?;
        let has_started = requests::open_stage(tx, &header.caller_key, of)?.is_some();
        let stops = |approval: &Approval| matches!(approval.state, State::Waiting | State::Approved) && !has_started;
        if let Some(approval) = asked.filter(stops) {
            self.resolve(tx, &approval, State::Cancelled, &header.caller_key)?;
            return Ok(said(true, "waiting", "The approval request is withdrawn, and the call will not run."));
        }
        Ok(match requests::open_stage(tx, &header.caller_key, of)?.as_deref() {
            Some("prepare") => {
                self.uncommitted.cancelled.insert(key);
                said(true, "preparing", "It had not started and will not.")
            }
            // A begun effect is not undone. An action that listens may end sooner, and its outcome is the one that is
            // recorded.
            Some(_) if self.under_way.get(&key).is_some_and(|run_handle| run_handle.cancel()) => {
                said(false, "running", "It has started; its provider is asked to stop, and its outcome counts.")
            }
            Some(_) => said(false, "running", "It has started and is not stopped."),
            None if self.parked.get(&key).is_some_and(|parked| parked.is_call) => {
                if let Some(waits_for) = self.parked.get(&key).map(|parked| parked.of.clone()) {
                    let key = (Arc::clone(&header.caller_key), waits_for);
                    self.follow_ups.resolved.push(Resolved { kind: approval::Kind::File, key });
                }
                self.uncommitted.cancelled.insert(key);
                said(true, "waiting", "It had not started and will not.")
            }
            None if requests::earlier(tx, &header.caller_key, of)?.is_some() => said(false, "over", "It is over."),
            None => CommandResult::no(Code::UnknownRequest, Code::UnknownRequest.meaning()),
        })
    }
}

/// Returns whether only the main group and people may ask for it.
pub fn is_for_main_only(command: &Command) -> bool {
    match command {
        Command::Capabilities(_) | Command::GateApprove(_) | Command::Result(_) | Command::Cancel(_) | Command::ReadFlow(_) => false,
        Command::Grant(_) | Command::Revoke(_) | Command::List(_) | Command::TaskCreate(_) | Command::Flow(_)
        // The following come from people only; no document has such a type.
        | Command::TaskClose { .. } | Command::Settle(_) | Command::Kill { .. } | Command::AcceptClock | Command::ResetSession(_) | Command::PurgeGroup(_) | Command::ShareAccount(..) | Command::RenewVault { .. } | Command::AcceptDefinitions { .. }
        | Command::LinkAccount { .. } | Command::UnlinkAccounts { .. }
        | Command::Release(_) | Command::MintOperator(_) | Command::RevokeOperator(_) | Command::ListOperators
        | Command::Answer(_) | Command::Revert(_) | Command::RelayedAnswer(_) => true,
    }
}

/// Writes one row, and the reply that rests on it. `approval` is the approval that it rests on.
fn write(
    tx: &Transaction<'_>,
    command_request: &CommandRequest,
    approval: Option<&Approval>,
    said: CommandResult,
) -> Result<Option<Answer>, StoreError> {
    let header = &command_request.header;
    let (said, once) = match said {
        CommandResult::Once(said, members) => (*said, Some(members)),
        said @ (CommandResult::Done { .. } | CommandResult::No { .. } | CommandResult::Capabilities(_)) => (said, None),
    };
    let (row, reply) = match said {
        CommandResult::Once(..) => return Err(StoreError::Stored { what: "answer" }),
        CommandResult::Capabilities(CapabilityAnswer { data, summary, .. }) => {
            let body = json!({ "request": header.request_digest });
            let row = tx.append_minor(&Draft { body, ..header.draft(Kind::Answered) })?;
            let reply = Reply::executed(header.request_id.clone(), Value::Null, summary, tx.now());
            return Ok(Some(kernel::answer_with(reply, &data, row)));
        }
        CommandResult::No { code, reason } => {
            return refuse(tx, command_request, approval, &Refusal::new(code, reason));
        }
        CommandResult::Done { kind, subject, mut body, data, summary } => {
            if let Some(object) = body.as_object_mut() {
                object.insert("request".into(), json!(header.request_digest));
            }
            let draft = Draft {
                provider: subject.provider.as_ref(),
                level: subject.level,
                summary: (kind != Kind::Answered).then(|| summary.clone()),
                task_id: subject.task_id.as_ref(),
                approval: approval.map(Approval::reference),
                body,
                ..header.draft(kind)
            };
            let row =
                if kind == Kind::Answered { tx.append_minor(&draft) } else { tx.append(&draft).map(MinorRow::own) };
            (row?, Reply::executed(header.request_id.clone(), data, summary.clone(), tx.now()))
        }
    };
    if !command_request.asked && (command_request.command.only_reads() || row.is_folded()) {
        return Ok(Some(kernel::answer_unkept(reply, row)));
    }
    let evidence = row.receipt();
    let leaving = once.map(|members| {
        let mut leaving = reply.clone();
        leaving.evidence = Some(*evidence);
        if let Some(data) = leaving.data.as_mut().and_then(Value::as_object_mut) {
            data.extend(members);
        }
        leaving
    });
    let answer = approval_requests::answer(tx, header, command_request.asked, reply, evidence)?;
    Ok(match leaving {
        Some(leaving) => {
            let document = leaving.to_bytes();
            answer.map(|_kept| kernel::answer_again(leaving.request_id, document, evidence.seq))
        }
        None => answer,
    })
}

/// Writes the row and the reply of a refused command.
fn refuse(
    tx: &Transaction<'_>,
    command_request: &CommandRequest,
    approval: Option<&Approval>,
    refused: &Refusal,
) -> Result<Option<Answer>, StoreError> {
    let header = &command_request.header;
    let row = tx.append_minor(&Draft {
        reason_code: Some(refused.code),
        approval: approval.map(Approval::reference),
        body: json!({ "request": header.request_digest }),
        ..header.draft(Kind::Refused)
    })?;
    let mut reply = refusal(header, refused.code, &refused.reason, tx.now());
    reply.retry_after_ms = refused.retry_after.and_then(|wait| u64::try_from(wait.as_millis()).ok());
    if !command_request.asked && (command_request.command.only_reads() || row.is_folded()) {
        return Ok(Some(kernel::answer_unkept(reply, row)));
    }
    approval_requests::answer(tx, header, command_request.asked, reply, row.receipt())
}

/// Returns whether a caller that has caused too much evidence may no longer give this command. It may still read and
/// end: rows about reads are counted, and each object can be ended once.
fn adds_evidence(command: &Command) -> bool {
    match command {
        Command::Capabilities(_)
        | Command::List(_)
        | Command::Result(_)
        | Command::ReadFlow(_)
        | Command::Cancel(_)
        | Command::Revoke(_) => false,
        // Replies to reads of flows are kept.
        Command::Flow(command) => {
            !matches!(command.request, FlowRequest::FlowDeprecate(_) | FlowRequest::FlowExternalGrantRevoke(_))
        }
        // Most of these come from people, who are not bounded.
        Command::Grant(_)
        | Command::TaskCreate(_)
        | Command::GateApprove(_)
        | Command::TaskClose { .. }
        | Command::Kill { .. }
        | Command::AcceptClock
        | Command::Settle(_)
        | Command::ResetSession(_)
        | Command::PurgeGroup(_)
        | Command::ShareAccount(..)
        | Command::RenewVault { .. }
        | Command::AcceptDefinitions { .. }
        | Command::LinkAccount { .. }
        | Command::UnlinkAccounts { .. }
        | Command::Release(_)
        | Command::MintOperator(_)
        | Command::RevokeOperator(_)
        | Command::ListOperators
        | Command::Answer(_)
        | Command::Revert(_)
        | Command::RelayedAnswer(_) => true,
    }
}

/// Makes a refusal. Only an agent's refusal names the next step.
pub(crate) fn refusal(header: &Header, code: Code, reason: &str, now: Timestamp) -> Reply {
    let id = header.request_id.clone();
    match header.caller {
        Caller::Person(_) => Reply::of_reason_alone(id, code, reason, now),
        Caller::Group(_) | Caller::External(_) | Caller::Operator(_) | Caller::Broker => {
            Reply::of_reason(id, code, reason, now)
        }
    }
}

fn list(tx: &Transaction<'_>, request: &ListRequest) -> Result<CommandResult, StoreError> {
    let grants = grants::list(tx.view(), request.group_folder.as_ref())?;
    let list: Vec<Value> = grants.iter().map(grant_value).collect();
    let summary = format!("{} grant(s)", list.len());
    Ok(CommandResult::told(json!({ "grants": list }), summary))
}

fn close_task(tx: &Transaction<'_>, id: &TaskId, cancelled: bool) -> Result<CommandResult, StoreError> {
    let state = if cancelled { TaskState::Cancelled } else { TaskState::Done };
    if !gates::end(tx, id, state)? {
        return Ok(CommandResult::no(Code::TaskUnknown, format!("There is no open task '{id}'.")));
    }
    Ok(CommandResult::Done {
        kind: Kind::Task,
        subject: RowSubject { task_id: Some(id.clone()), ..RowSubject::default() },
        body: json!({ "state": state.word() }),
        data: json!({ "task_id": id, "state": state.word() }),
        summary: format!("Task {id} is {}.", state.word()),
    })
}

fn set_kill(tx: &Transaction<'_>, header: &Header, scope: &KillScope, on: bool) -> Result<CommandResult, StoreError> {
    let changed = kill::set(tx, scope, &header.caller_key, on)?;
    let word = if on { "stopped" } else { "allowed again" };
    let target = match scope {
        KillScope::All => "all calls".to_owned(),
        KillScope::Provider(provider) => format!("calls to {provider}"),
        KillScope::Group(group) => format!("calls of {group}"),
    };
    let already = if changed { "" } else { " (as before)" };
    Ok(CommandResult::Done {
        kind: if on { Kind::Killed } else { Kind::Revived },
        subject: RowSubject::default(),
        body: json!({ "scope": scope.to_string(), "changed": changed }),
        data: json!({ "scope": scope.to_string(), "stopped": on, "changed": changed }),
        summary: format!("{target} are {word}{already}."),
    })
}

/// Makes a task's name for a request that gives none. It depends on the request, so a repeat makes no second task.
fn made_up(header: &Header) -> TaskId {
    let digest: String = header.request_digest.hex().chars().take(12).collect();
    let stem: String = header.request_id.as_str().chars().take(40).collect();
    #[expect(clippy::expect_used, reason = "letters, digits, hyphens and underscores satisfy the grammar")]
    format!("gov-{stem}-{digest}").parse().expect("a task id")
}

/// Returns why no person is known. A missing token is a fault only if a capability takes one.
fn token_fault(behalf: &Subject, snapshot: &Snapshot) -> Option<TokenFault> {
    let Subject::Nobody(why) = behalf else { return None };
    let takes_one = || snapshot.capabilities.iter().any(|capability| capability.provider.is_namespaced());
    let code = why.code();
    (*why != TokenError::Missing || takes_one())
        .then(|| TokenFault { code: code.word().to_owned(), error: format!("{} {}", why.reason(), code.remedy()) })
}

fn hide_unavailable(snapshot: &mut Snapshot) {
    for capability in &mut snapshot.capabilities {
        capability
            .actions
            .retain(|_, entry| !matches!(entry.status, Availability::Denied | Availability::RequiresHigherLevel));
    }
}
