//! Commands that the ledger itself fulfils: grants, tasks, gates, kill switches, results.
//!
//! They have no external effect, so one row records everything. It is written with the change in one transaction.

mod access;
mod accounts;
mod answer;
mod begin;
mod cancel;
mod capabilities;
mod clock;
mod external_grants;
mod flows;
mod governance;
mod grant;
mod grant_approval;
mod kill;
mod operators;
mod plan;
mod publish;
mod results;
mod revoke;
mod sessions;
mod standing_approvals;
mod tasks;

pub(crate) use access::pause_key;
pub use grant::grant_value;
pub(crate) use plan::{cut_short, read_of_plan, rejoined};
pub use publish::PolicySigner;

use crate::approval_requests;
use crate::broker::Broker;
use crate::capability_replies::CapabilityAnswer;
use crate::event::Event;
use crate::event_results::closed;
use crate::features;
use crate::flows::standing::{Use, standing};
use crate::outcomes::by_person;
use crate::replies::while_parked;
use crate::request::command::{Audience, Effect};
use crate::request::{Command, CommandRequest, Parsed};
use config::near_miss;
use kernel::authorize::Refusal;
use kernel::call::Header;
use kernel::{Answer, Step, WriteError};
use model::approval::Approval;
use model::{Account, Caller};
use serde_json::{Map, Value, json};
use shared::digest::Digest;
use shared::request::CancelRequest;
use shared::{Code, Group, Level, Provider, Reply, RequestId, TaskId, Timestamp};
use std::collections::BTreeSet;
use store::ledger::chain::{Draft, RowKind};
use store::ledger::minor::MinorRow;
use store::state::requests;
use store::{StoreError, Transaction};

/// The result of a command: done, with a row of this kind, or refused.
pub(crate) enum CommandResult {
    Done {
        kind: RowKind,
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
    pub(crate) fn done(kind: RowKind, body: Value, data: Value, summary: String) -> Self {
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
            kind: RowKind::Answered,
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
    /// A plan waits for the facts of its call at this place, from 0.
    Reads(usize),
}

impl Broker {
    /// Executes a command in the ledger itself.
    pub(crate) fn directed<'tx>(
        &mut self,
        tx: &Transaction<'tx>,
        mut command_request: Box<CommandRequest>,
    ) -> Result<Step<'tx, Event>, WriteError<Event>> {
        let header = &command_request.header;
        // It is the parked one itself. The rows of its reads are those of its calls: a row of its own id is another's.
        let is_back = command_request.is_being_read();
        if let Some(parked) = self.parked(&header.key()).filter(|_| !command_request.asked && !is_back) {
            let noted = while_parked(tx, header, parked);
            return closed(tx, Event::Arrived(Parsed::CommandRequest(command_request)), noted.map(|()| None));
        }
        let earlier = if command_request.asked {
            Ok(None)
        } else {
            requests::earlier(tx, &header.caller_key, &header.request_id)
        };
        let supplied = match &earlier {
            Ok(None) => {
                let mut calls = command_request.calls.iter_mut();
                calls.try_for_each(|call| features::supply(tx.view(), tx.now(), call))
            }
            Ok(Some(_)) | Err(_) => Ok(()),
        };
        let header = &command_request.header;
        let result = match supplied.and(earlier) {
            Ok(None) => self.execute_command(tx, &command_request),
            // A read-only request is answered from the store each time; no reply is kept.
            Ok(Some(earlier))
                if command_request.command.only_reads() && earlier.is_same_and_over(header.request_digest) =>
            {
                self.execute_command(tx, &command_request)
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
            Ok(CommandOutcome::Reads(place)) => self.read_for_plan(tx, command_request, place),
            Ok(CommandOutcome::Asked) => Ok(kernel::ask(tx, Event::Arrived(Parsed::CommandRequest(command_request)))),
            Err(error) => Err(WriteError { event: Event::Arrived(Parsed::CommandRequest(command_request)), error }),
        }
    }

    /// Records that an operator has accepted the definitions of a provider at the command line.
    fn accept_definitions(
        &mut self,
        tx: &Transaction<'_>,
        provider: &Provider,
        digest: &Digest,
        flagged: &BTreeSet<String>,
    ) -> Result<CommandResult, StoreError> {
        self.accepted_elsewhere(tx, provider)?;
        let mut body = json!({ "accepted": provider, "digest": digest });
        if let Some(body) = body.as_object_mut().filter(|_| !flagged.is_empty()) {
            body.insert("flagged".into(), json!(flagged));
        }
        let summary = format!("The definitions of {provider} are accepted.");
        Ok(CommandResult::done(RowKind::Noted, body.clone(), body, summary))
    }

    /// Executes a command inside the transaction.
    pub(crate) fn execute_command(
        &mut self,
        tx: &Transaction<'_>,
        command_request: &CommandRequest,
    ) -> Result<CommandOutcome, StoreError> {
        let header = &command_request.header;
        let rules = command_request.command.rules();
        if rules.audience == Audience::Administrators
            && let Err((code, reason)) = self.may_administer(&header.caller, &command_request.command)
        {
            return write(tx, command_request, None, CommandResult::no(code, reason)).map(CommandOutcome::Answered);
        }
        // An approved command is executed, like a call.
        if !command_request.asked
            && rules.effect == Effect::Adds
            && let Some((reason, retry_after)) = tx.refuses(&header.caller_key)?
        {
            let refusal = Refusal { code: Code::RateLimited, reason, retry_after };
            return refuse(tx, command_request, None, &refusal).map(CommandOutcome::Answered);
        }
        if !command_request.asked
            && !matches!(command_request.command, Command::Begin(_))
            && let Some(refusal) = self.out_of_conversation(tx.view(), header)?
        {
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
            Command::Grant(request) | Command::Narrow(request) => return self.grant(tx, command_request, request),
            Command::RequestAccess(request) => return self.request_access(tx, command_request, request),
            Command::Plan(request) => return self.plan_calls(tx, command_request, request),
            Command::Revoke(request) => self.revoke(tx, header, request)?,
            Command::Begin(_) => self.begin(tx, header)?,
            Command::List(request) => revoke::list(tx, request)?,
            Command::ListCalls(request) => self.list_calls(tx, request)?,
            Command::ListTasks(request) => governance::list_tasks(tx, request)?,
            Command::TaskCreate(request) => self.create_task(tx, header, request)?,
            Command::GateApprove(request) => self.approve_gate(tx, header, request)?,
            Command::EndStandingApproval { name } => self.end_standing_approval(tx, header, name)?,
            Command::TaskClose { task_id, cancelled } => tasks::close_task(tx, task_id, *cancelled)?,
            Command::Kill { scope, on } => self.set_kill(tx, header, scope, *on)?,
            Command::Flow(command) => self.flow(tx, header, command)?,
            Command::ReadFlow(flow) => self.read_outside(tx, header, flow)?,
            Command::MintOperator(wanted) => self.mint_operator(tx, header, wanted)?,
            Command::RevokeOperator { token_id } => operators::revoke(tx, token_id)?,
            Command::ListOperators => operators::list(tx, &self.config.flows)?,
            Command::AcceptDefinitions { provider, digest, flagged } => {
                self.accept_definitions(tx, provider, digest, flagged)?
            }
            Command::LinkAccount { person, capability, account_ref, label, password } => {
                let account = Account {
                    person: person.clone(),
                    capability: capability.clone(),
                    account_ref: account_ref.clone(),
                    label: label.clone(),
                    linked_at: tx.now(),
                    linked_by: header.caller_key.to_string(),
                };
                self.link_account(tx, &account, password.as_ref())?
            }
            Command::UnlinkAccounts { person, capability, account_ref } => {
                self.unlink_accounts(tx, person, capability.as_ref(), account_ref.as_deref())?
            }
            Command::PurgeGroup { group } => self.purge_group(tx, group)?,
            Command::ShareAccount { share, on, new } => {
                self.share_account(tx, share, (*on, *new), &header.caller_key)?
            }
            Command::PublishPolicy { files } => self.publish_policy(tx, files)?,
            Command::RenewVault { forget } => self.renew_vault(tx, *forget)?,
            Command::AcceptClock => self.accept_clock(tx)?,
            Command::Settle(finding) => by_person::settle(tx, header, finding)?,
            Command::ResetSession { group } => self.reset_session(tx, &header.caller_key, group)?,
            Command::Release { id } => self.release(tx, header, id)?,
            Command::Answer(given) => {
                return self.take_answer(tx, header, given).map(Some).map(CommandOutcome::Answered);
            }
            Command::Revert { id } => match self.revert(tx, command_request, id)? {
                Ok(given) => return self.take_answer(tx, header, &given).map(Some).map(CommandOutcome::Answered),
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
                return command.rules().right.check(&self.config, person).map_err(|lacks| (Code::Guardrail, lacks));
            }
            Caller::Operator(_) => matches!(command, Command::Flow(_)),
            Caller::External(_) | Caller::Broker => false,
        };
        if may { Ok(()) } else { Err((Code::MainOnly, Code::MainOnly.meaning().to_owned())) }
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
            let row = tx.append_minor(&Draft { body, ..header.draft(RowKind::Answered) })?;
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
                summary: (kind != RowKind::Answered).then(|| summary.clone()),
                task_id: subject.task_id.as_ref(),
                approval: approval.map(Approval::reference),
                body,
                ..header.draft(kind)
            };
            let row =
                if kind == RowKind::Answered { tx.append_minor(&draft) } else { tx.append(&draft).map(MinorRow::own) };
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
    let row = Draft {
        approval: approval.map(Approval::reference),
        body: json!({ "request": header.request_digest }),
        ..header.draft(RowKind::Refused)
    };
    refuse_with(tx, command_request, row, refused)
}

/// Writes this row and the reply of a refused command.
fn refuse_with(
    tx: &Transaction<'_>,
    command_request: &CommandRequest,
    row: Draft<'_>,
    refused: &Refusal,
) -> Result<Option<Answer>, StoreError> {
    let header = &command_request.header;
    let row = tx.append_minor(&Draft { reason_code: Some(refused.code), ..row })?;
    let mut reply = refusal(header, refused.code, &refused.reason, tx.now());
    reply.retry_after_ms = refused.retry_after.and_then(|wait| u64::try_from(wait.as_millis()).ok());
    if !command_request.asked && (command_request.command.only_reads() || row.is_folded()) {
        return Ok(Some(kernel::answer_unkept(reply, row)));
    }
    approval_requests::answer(tx, header, command_request.asked, reply, row.receipt())
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
