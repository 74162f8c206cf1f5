//! Commands about flows, from all callers and surfaces: the reach of a caller, lists, one flow, projections.

mod approve;
mod propose;

use super::external_grants::{list_accesses, revoke};
use super::{CommandResult, RowSubject};
use crate::broker::Broker;
use crate::flows::project::project;
use crate::operator_tokens;
use crate::request::FlowCommand;
use config::near_miss;
use kernel::call::Header;
use model::Caller;
use serde_json::{Map, Value, json};
use shared::flow::request::{FlowList, FlowNamed, FlowProject, FlowRequest, FlowVersion, Harness, LISTED_MAX, State};
use shared::flow::{Opaque, Scope, Vault};
use shared::numbers::counted;
use shared::{Code, Group, Timestamp};
use std::collections::BTreeSet;
use store::ledger::chain::RowKind;
use store::state::flows;
use store::state::flows::{Cursor, Stored};
use store::{StoreError, Transaction};

/// The number of entries of a list that names no number.
const LISTED: usize = 100;
/// The most faults of a flow that a refusal names.
const FAULTS_TOLD: usize = 20;

/// Writes these tools, and that there are more, if there are many.
fn listed(tools: &[&Opaque]) -> String {
    let names: Vec<&str> = tools.iter().take(FAULTS_TOLD).map(|tool| tool.as_str()).collect();
    let more = if tools.len() > FAULTS_TOLD { ", …" } else { "" };
    names.join(", ") + more
}

/// Refuses these tools. A mistyped one is likely one of `known`.
pub(super) fn no_tools<'a>(code: Code, tools: &[&Opaque], known: impl Iterator<Item = &'a Opaque>) -> CommandResult {
    let (which, hint) = match tools {
        [tool] => ("It is", near_miss(tool.as_str(), known.map(Opaque::as_str))),
        _ => ("They are", String::new()),
    };
    CommandResult::no(code, format!("{} {which} {}{hint}.", code.meaning(), listed(tools)))
}

impl Broker {
    /// Executes a command about flows.
    pub(super) fn flow(
        &mut self,
        tx: &Transaction<'_>,
        header: &Header,
        order: &FlowCommand,
    ) -> Result<CommandResult, StoreError> {
        let FlowCommand { vault, request } = order;
        if !self.config.flows.vaults.contains(vault) {
            return Ok(unknown());
        }
        let reach = match self.reach(tx, header, vault, request)? {
            Ok(reach) => reach,
            Err(no) => return Ok(no),
        };
        let said = self.flow_of(tx, header, &reach, request)?;
        if let (
            Caller::Operator(_),
            false,
            CommandResult::Done { kind, subject, body, data: Value::Object(read), summary },
        ) = (&header.caller, request.changes(), &said)
        {
            // A repeated request reads again, so that no caller fills the disk by reading.
            let (subject, data) = (subject.clone(), json!({}));
            let said = CommandResult::Done { kind: *kind, subject, body: body.clone(), data, summary: summary.clone() };
            return Ok(said.shown_once(read.clone()));
        }
        // A read is kept for a day, so that a repeated request has its reply. The limit keeps a caller from filling the
        // disk by reading.
        if let (Some(group), CommandResult::Done { data, .. }, false) =
            (header.caller.group(), &said, request.changes())
            && !self.may_read(group, data.to_string().len(), tx.now())
        {
            return Ok(CommandResult::no(
                Code::RateLimited,
                "This group has read as much of flows as it may in a minute; wait a while.",
            ));
        }
        Ok(said)
    }

    /// Returns whether the group may read this many bytes of flows, and counts them.
    fn may_read(&mut self, group: &Group, bytes: usize, now: Timestamp) -> bool {
        let before = self.uncommitted.flow_reads.iter().filter(|(reader, ..)| reader == group);
        let before: usize = before.map(|(_, bytes, _)| bytes).sum();
        self.uncommitted.flow_reads.push((group.clone(), bytes, now));
        self.flow_reads.allows(group, before.saturating_add(bytes), now)
    }

    /// Returns the reach of the caller for this command.
    fn reach<'a>(
        &self,
        tx: &Transaction<'_>,
        header: &Header,
        vault: &'a Vault,
        request: &FlowRequest,
    ) -> Result<Result<Reach<'a>, CommandResult>, StoreError> {
        let Caller::Operator(token) = &header.caller else {
            return Ok(Ok(Reach { vault, scopes: BTreeSet::from(Scope::ALL) }));
        };
        let standing = operator_tokens::standing(tx.view(), &self.config, tx.now(), token, request.operation().part)?;
        Ok(match standing {
            Some(operator) if operator.vault == *vault => Ok(Reach { vault, scopes: operator.scopes }),
            Some(_) => Err(unknown()),
            None => Err(CommandResult::no(Code::OperatorTokenDenied, Code::OperatorTokenDenied.meaning())),
        })
    }

    fn flow_of(
        &mut self,
        tx: &Transaction<'_>,
        header: &Header,
        reach: &Reach<'_>,
        request: &FlowRequest,
    ) -> Result<CommandResult, StoreError> {
        match request {
            FlowRequest::FlowList(wanted) => list(tx, reach, wanted),
            FlowRequest::FlowGet(named) => Ok(match named_in(tx, reach, named)? {
                Some(stored) => self.without_own_secret(shown(&stored)),
                None => unknown(),
            }),
            FlowRequest::FlowExport(named) => Ok(match named_in(tx, reach, named)? {
                Some(stored) => self
                    .without_own_secret(CommandResult::told(json!(stored.bundle), "The flow, as it can be imported.")),
                None => unknown(),
            }),
            FlowRequest::FlowPropose(bundle) => self.propose_flow(tx, header, reach, bundle),
            FlowRequest::FlowImport(bundle) => self.import(tx, header, reach, bundle.clone()),
            FlowRequest::FlowApprove(version) => self.request_flow_approval(tx, header, reach, version),
            FlowRequest::FlowDeprecate(version) => self.deprecate(tx, header, reach, version),
            FlowRequest::FlowProject(wanted) => self.projected(tx, reach, wanted, &self.config.flows.tools()),
            FlowRequest::FlowExternalGrantMint(wanted) => self.mint(tx, header, reach, wanted),
            FlowRequest::FlowExternalGrantRevoke(named) => revoke(tx, reach, named),
            FlowRequest::FlowExternalGrantList(wanted) => {
                list_accesses(tx, (header, &self.config.flows), reach, wanted)
            }
        }
    }

    pub(super) fn projected(
        &self,
        tx: &Transaction<'_>,
        reach: &Reach<'_>,
        wanted: &FlowProject,
        tools: &BTreeSet<Opaque>,
    ) -> Result<CommandResult, StoreError> {
        let FlowProject { flow_id, version, harness } = wanted;
        let flows = &self.config.flows;
        if *harness == Harness::AgentBundle && flows.external_agent.forbidden {
            let code = Code::FlowExternalAgentPolicyForbidden;
            return Ok(CommandResult::no(code, code.meaning()));
        }
        if *harness == Harness::AgentBundle && !flows.serves_outside() {
            return Ok(CommandResult::no(Code::FlowHarnessUnsupported, Code::FlowHarnessUnsupported.meaning()));
        }
        let named = FlowNamed { flow_id: flow_id.clone(), version: version.clone() };
        // A version that is only proposed is not in use.
        let stored = named_in(tx, reach, &named)?.filter(|stored| stored.state != State::Proposed);
        let Some(stored) = stored else { return Ok(unknown()) };
        let canonical = named_in(tx, reach, &FlowNamed { version: None, ..named })?;
        let canonical = canonical.map(|canonical| canonical.bundle.flow.version);
        let is_canonical = stored.state == State::Approved;
        let Some(projection) = project(&stored.bundle, is_canonical, *harness, tools) else {
            return Ok(CommandResult::no(Code::TooLarge, Code::TooLarge.meaning()));
        };
        let data = json!({
            "schema": "knowtation.flow_project/v0",
            "projection": projection,
            "stale": !is_canonical,
            "canonical_version": canonical,
        });
        Ok(self.without_own_secret(CommandResult::told(data, format!("{flow_id} for {}.", harness.word()))))
    }

    /// Refuses to show a flow that holds a secret of the broker's own: it was stored before the broker had the secret.
    fn without_own_secret(&self, said: CommandResult) -> CommandResult {
        if let CommandResult::Done { data, .. } = &said
            && self.shows_own(data.clone())
        {
            return CommandResult::no(
                Code::OwnSecret,
                "The flow holds a secret of the broker's own, so it is not shown.",
            );
        }
        said
    }
}

/// The reach of a caller into the stored flows.
pub(super) struct Reach<'a> {
    /// The vault.
    pub(super) vault: &'a Vault,
    /// The scopes; flows of other scopes are invisible.
    pub(super) scopes: BTreeSet<Scope>,
}

impl Reach<'_> {
    pub(super) fn sees(&self, scope: Scope) -> bool {
        self.scopes.contains(&scope)
    }
}

fn list(tx: &Transaction<'_>, reach: &Reach<'_>, wanted: &FlowList) -> Result<CommandResult, StoreError> {
    let vault = reach.vault;
    let after = match wanted.cursor.as_deref().map(cursor) {
        Some(None) => return Ok(CommandResult::no(Code::InvalidParams, "/cursor: no list has returned it.")),
        Some(Some(after)) => Some(after),
        None => None,
    };
    let Some(most) = most(wanted.limit) else { return Ok(too_many()) };
    let scopes = reach.scopes.iter().copied().filter(|scope| wanted.scope.is_none_or(|wanted| wanted == *scope));
    let which = (wanted.state.unwrap_or(State::Approved), scopes.collect());
    // One more than wanted, to know whether there is more.
    let mut found = flows::list(tx.view(), vault, &which, after.as_ref(), most + 1)?;
    let has_more = found.len() > most;
    found.truncate(most);
    let last = found.last().filter(|_| has_more).map(|last| format!("{}@{}", last.flow_id, last.version));
    let summary = counted(found.len(), "version", "versions");
    Ok(CommandResult::told(json!({ "vault_id": vault, "flows": found, "next_cursor": last }), summary))
}

/// Returns the number of entries of a list, if it is permitted.
pub(super) fn most(wanted: Option<usize>) -> Option<usize> {
    Some(wanted.unwrap_or(LISTED)).filter(|most| (1..=LISTED_MAX).contains(most))
}

pub(super) fn too_many() -> CommandResult {
    CommandResult::no(Code::InvalidParams, format!("/limit: it is from 1 to {LISTED_MAX}."))
}

/// `flow_weekly_review@1.2.0`
fn cursor(text: &str) -> Option<Cursor> {
    text.split_once('@').map(|(flow, version)| (flow.to_owned(), version.to_owned()))
}

/// Returns the named version, if the caller may see it.
fn named_in(tx: &Transaction<'_>, reach: &Reach<'_>, named: &FlowNamed) -> Result<Option<Stored>, StoreError> {
    let found = match &named.version {
        Some(version) => flows::version(tx.view(), reach.vault, &named.flow_id, version)?,
        None => flows::canonical(tx.view(), reach.vault, &named.flow_id)?,
    };
    Ok(found.filter(|stored| reach.sees(stored.bundle.flow.scope)))
}

/// Returns the same for an explicit version.
pub(super) fn version_in(
    tx: &Transaction<'_>,
    reach: &Reach<'_>,
    FlowVersion { flow_id, version }: &FlowVersion,
) -> Result<Option<Stored>, StoreError> {
    named_in(tx, reach, &FlowNamed { flow_id: flow_id.clone(), version: Some(version.clone()) })
}

pub(super) fn unknown() -> CommandResult {
    CommandResult::no(Code::UnknownFlow, Code::UnknownFlow.meaning())
}

/// Returns a version without its steps.
fn standing(vault: &Vault, stored: &Stored) -> Map<String, Value> {
    let flow = &stored.bundle.flow;
    Map::from_iter([
        ("vault_id".to_owned(), json!(vault)),
        ("flow_id".to_owned(), json!(flow.flow_id)),
        ("version".to_owned(), json!(flow.version)),
        ("state".to_owned(), json!(stored.state)),
        ("digest".to_owned(), json!(stored.digest)),
    ])
}

fn shown(stored: &Stored) -> CommandResult {
    let data = json!({
        "state": stored.state,
        "digest": stored.digest,
        "proposed_by": stored.proposed_by,
        "proposed_at": stored.proposed_at,
        "flow": stored.bundle.flow,
        "steps": stored.bundle.steps,
    });
    let flow = &stored.bundle.flow;
    CommandResult::told(data, format!("{}@{} is {}.", flow.flow_id, flow.version, stored.state.word()))
}

pub(super) fn changed(data: Value, summary: String) -> CommandResult {
    CommandResult::Done { kind: RowKind::Flow, subject: RowSubject::default(), body: data.clone(), data, summary }
}
