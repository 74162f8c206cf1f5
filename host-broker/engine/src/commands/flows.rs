//! Commands about flows, from all callers and surfaces.

use super::external_grants::{list_accesses, revoke};
use super::{CommandResult, RowSubject};
use crate::approval_requests::ApprovalDraft;
use crate::broker::Broker;
use crate::file_proposals::internal_request_id;
use crate::flows::project::project;
use crate::operator_tokens;
use crate::request::FlowCommand;
use config::flows::ImportPolicy;
use config::{FLOWS, near_miss};
use kernel::call::Header;
use model::approval::{Approval, ApprovalReason, ApprovalState};
use model::card::{BYTES_MAX, Card};
use model::{Caller, Nonce, approval};
use provider::pinned_definitions::difference;
use serde_json::{Map, Value, json};
use shared::digest::Digest;
use shared::flow::request::{FlowList, FlowNamed, FlowProject, FlowRequest, FlowVersion, Harness, LISTED_MAX, State};
use shared::flow::{BUNDLE_MAX, Bundle, Opaque, Scope, SkillKind, SkillRef, Vault};
use shared::{Code, Group, Level, Timestamp};
use std::collections::BTreeSet;
use store::ledger::chain::{Draft, RowKind};
use store::state::approvals;
use store::state::flows;
use store::state::flows::{Cursor, PROPOSED_MAX, Stored};
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

    /// Imports a flow: like any other, but for the tools that it names.
    fn import(
        &mut self,
        tx: &Transaction<'_>,
        header: &Header,
        reach: &Reach<'_>,
        mut bundle: Bundle,
    ) -> Result<CommandResult, StoreError> {
        if !reach.sees(bundle.flow.scope) {
            return Ok(CommandResult::no(Code::FlowImportScopeDenied, Code::FlowImportScopeDenied.meaning()));
        }
        let allowed = self.config.flows.tools();
        let is_inert = |skill: &SkillRef| skill.kind == SkillKind::ExternalTool && !allowed.contains(&skill.id);
        let denied: Vec<&Opaque> = bundle.external_tools().filter(|tool| !allowed.contains(*tool)).collect();
        if denied.is_empty() {
            return self.propose_flow(tx, header, reach, &bundle);
        }
        match self.config.flows.external_agent.import_policy {
            ImportPolicy::Reject => Ok(no_tools(Code::FlowImportExternalToolDenied, &denied, allowed.iter())),
            ImportPolicy::StripInert => {
                let left_out = listed(&denied);
                for step in &mut bundle.steps {
                    step.skill_refs.retain(|skill| !is_inert(skill));
                }
                let proposed = self.propose_flow(tx, header, reach, &bundle)?;
                Ok(proposed.and(&format!("Tools that are not allowed here were left out: {left_out}.")))
            }
        }
    }

    fn propose_flow(
        &mut self,
        tx: &Transaction<'_>,
        header: &Header,
        reach: &Reach<'_>,
        bundle: &Bundle,
    ) -> Result<CommandResult, StoreError> {
        let vault = reach.vault;
        let no = |reason: String| Ok(CommandResult::no(Code::InvalidParams, reason));
        let faults = bundle.faults();
        if !faults.is_empty() {
            let told = faults.iter().take(FAULTS_TOLD).map(|fault| format!("{}: {}", fault.pointer, fault.fault));
            return no(format!("The flow is not valid: {}.", told.collect::<Vec<_>>().join("; ")));
        }
        let document = shared::json::canonical(bundle);
        if document.len() > BUNDLE_MAX {
            return no(format!("The flow is longer than {BUNDLE_MAX} bytes."));
        }
        let (flow, connection) = (&bundle.flow, tx.view());
        let (id, version) = (&flow.flow_id, &flow.version);
        if serde_json::from_slice::<Bundle>(&document).ok().as_ref() != Some(bundle) {
            return no("The flow cannot be written down as it is.".to_owned());
        }
        let before = flows::version(connection, vault, id, version)?;
        let last = flows::last_approved(connection, vault, id)?;
        let is_seen = |stored: &Stored| reach.sees(stored.bundle.flow.scope);
        // A caller that cannot see a flow may not replace it.
        if !reach.sees(flow.scope) || !before.iter().chain(&last).all(is_seen) {
            return Ok(CommandResult::no(Code::FlowImportScopeDenied, Code::FlowImportScopeDenied.meaning()));
        }
        match &before {
            Some(before) if before.state != State::Proposed => {
                return no(format!("Version {version} of {id} is {} and stays as it is.", before.state.word()));
            }
            Some(before) if before.digest == Digest::of(&document) => {
                return Ok(CommandResult::told(json!(standing(vault, before)), "It is proposed already, exactly so."));
            }
            Some(before) if is_anothers(header, before) => {
                return Ok(CommandResult::no(Code::Guardrail, ANOTHERS));
            }
            Some(_) | None => {}
        }
        if let Some(last) = last.filter(|last| last.bundle.flow.version >= *version) {
            return no(format!("Version {} has been canonical; propose a higher one.", last.bundle.flow.version));
        }
        if before.is_none() && flows::proposed_by(connection, vault, &header.caller_key)? >= PROPOSED_MAX {
            let reason =
                format!("{PROPOSED_MAX} versions of yours are proposed already; take some back with flow_deprecate.");
            return Ok(CommandResult::no(Code::Busy, reason));
        }
        if let Some(before) = &before {
            self.cancel_flow_request(tx, before)?;
        }
        let digest = flows::propose(tx, vault, bundle, &header.caller_key)?;
        let data = json!({
            "vault_id": vault, "flow_id": id, "version": version, "state": State::Proposed, "digest": digest,
        });
        Ok(changed(
            data,
            format!("Version {version} of {id} is proposed; it takes a person's yes to become canonical."),
        ))
    }

    /// Sends an approval request about a new canonical version.
    fn request_flow_approval(
        &mut self,
        tx: &Transaction<'_>,
        header: &Header,
        reach: &Reach<'_>,
        version: &FlowVersion,
    ) -> Result<CommandResult, StoreError> {
        let (connection, vault) = (tx.view(), reach.vault);
        let Some(stored) = version_in(tx, reach, version)? else { return Ok(unknown()) };
        let FlowVersion { flow_id, version } = version;
        if stored.state != State::Proposed {
            let reason = format!("Version {version} of {flow_id} is {}, not proposed.", stored.state.word());
            return Ok(CommandResult::no(Code::InvalidParams, reason));
        }
        let last = flows::last_approved(connection, vault, flow_id)?;
        if let Some(newer) = last.as_ref().filter(|last| last.bundle.flow.version >= *version) {
            let reason = format!("Version {} has become canonical since.", newer.bundle.flow.version);
            return Ok(CommandResult::no(Code::InvalidParams, reason));
        }
        let digest = agreed(vault, &stored, last.as_ref());
        let asked = match stored.approval {
            Some(approval) => approvals::numbered(connection, approval)?,
            None => None,
        };
        if let Some(asked) = asked.filter(|asked| asked.state == ApprovalState::Waiting && asked.expires_at > tx.now())
        {
            if asked.digest == digest {
                return Ok(CommandResult::told(approval_request(&asked), "People are asked already."));
            }
            // Its card shows a difference from a version that is no longer the last one.
            self.cancel_flow_request(tx, &stored)?;
        }
        let Some(card) = card(vault, &stored, last.as_ref()) else {
            return Ok(CommandResult::no(Code::Guardrail, "The flow is too long to be shown to a person in full."));
        };
        let Ok(nonce) = Nonce::fresh(self.ids.as_ref()) else {
            return Ok(CommandResult::no(Code::EvidenceUnavailable, "The system's random source failed."));
        };
        let (hidden, group) = (internal_request_id("flow", &nonce), self.config.main_group().cloned());
        #[expect(clippy::expect_used, reason = "letters satisfy the grammar")]
        let (provider, action) = (FLOWS.parse().expect("a provider"), "approve".parse().expect("an action"));
        let draft = ApprovalDraft {
            kind: approval::SubjectKind::Flow,
            caller: &header.caller_key,
            // Flows belong to the main group, independent of the caller.
            group: group.as_ref(),
            request_id: &hidden,
            provider: &provider,
            action: &action,
            level: Level::Write,
            digest,
            subject: Some(digest),
            asking: self.config.asking_for_flows(),
            born_approved: None,
            asks: BTreeSet::from([ApprovalReason::Tier]),
            card: &card,
            document: None,
            params_digest: None,
            summary: Some(format!("make {flow_id}@{version} canonical")),
            task_id: None,
        };
        let approval = match self.request_approval(tx, header, &draft)? {
            Ok(approval) => approval,
            Err(refusal) => return Ok(CommandResult::no(refusal.code, refusal.reason)),
        };
        flows::ask(tx, vault, &stored.bundle, approval)?;
        let asked = approvals::numbered(tx.view(), approval)?;
        let asked = asked.ok_or(StoreError::Stored { what: "approval" })?;
        Ok(CommandResult::told(
            approval_request(&asked),
            "People are asked, who find it in their inbox or with: host-broker approvals list",
        ))
    }

    /// Ends an approval request about a flow: an approved version that is unchanged becomes canonical.
    pub(crate) fn end_flow(
        &mut self,
        tx: &Transaction<'_>,
        asked: &Approval,
        state: ApprovalState,
        by: &str,
    ) -> Result<(), StoreError> {
        let mut became = state.word();
        if state == ApprovalState::Approved {
            let about = flows::asked_by(tx.view(), asked.id)?;
            let is_so = match &about {
                Some((vault, stored)) => {
                    let last = flows::last_approved(tx.view(), vault, &stored.bundle.flow.flow_id)?;
                    stored.state == State::Proposed && agreed(vault, stored, last.as_ref()) == asked.digest
                }
                None => false,
            };
            match about.filter(|_| is_so) {
                Some((vault, stored)) => flows::approve(tx, &vault, &stored.bundle, by)?,
                // The card showed a difference from another version.
                None => became = ApprovalState::Cancelled.word(),
            }
        }
        self.follow_ups.approvals_changed = true;
        approvals::close(tx, &asked.caller, &asked.request_id, became)
    }

    /// Cancels an approval request about a version that is no longer proposed.
    fn cancel_flow_request(&mut self, tx: &Transaction<'_>, stored: &Stored) -> Result<(), StoreError> {
        let asked = match stored.approval {
            Some(approval) => approvals::numbered(tx.view(), approval)?,
            None => None,
        };
        let Some(asked) = asked.filter(|asked| asked.state == ApprovalState::Waiting) else { return Ok(()) };
        tx.append(&Draft {
            provider: Some(&asked.provider),
            action: Some(&asked.action),
            approval: Some(asked.reference()),
            body: json!({ "cancelled": asked.reference() }),
            ..Draft::new(RowKind::Noted, &asked.caller)
        })?;
        self.end_flow(tx, &asked, ApprovalState::Cancelled, "")
    }

    fn deprecate(
        &mut self,
        tx: &Transaction<'_>,
        header: &Header,
        reach: &Reach<'_>,
        version: &FlowVersion,
    ) -> Result<CommandResult, StoreError> {
        let vault = reach.vault;
        let Some(stored) = version_in(tx, reach, version)? else { return Ok(unknown()) };
        let FlowVersion { flow_id, version } = version;
        // Only people end an approved version: the next card would otherwise show no difference.
        if !is_a_persons(header) && stored.state == State::Approved {
            return Ok(CommandResult::no(
                Code::Guardrail,
                "Only people end a canonical version, with: host-broker flow deprecate.",
            ));
        }
        if is_anothers(header, &stored) {
            return Ok(CommandResult::no(Code::Guardrail, ANOTHERS));
        }
        let state = match stored.state {
            State::Proposed => {
                self.cancel_flow_request(tx, &stored)?;
                flows::withdraw(tx, vault, flow_id, version)?;
                "withdrawn"
            }
            State::Approved => {
                flows::deprecate(tx, vault, flow_id, &header.caller_key)?;
                State::Deprecated.word()
            }
            State::Deprecated => {
                return Ok(CommandResult::told(json!(standing(vault, &stored)), "It is deprecated already."));
            }
        };
        let data = json!({
            "vault_id": vault, "flow_id": flow_id, "version": version, "state": state, "digest": stored.digest,
        });
        Ok(changed(data, format!("Version {version} of {flow_id} is {state}.")))
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

const ANOTHERS: &str = "Another caller has proposed this version; propose another version.";

/// Returns whether a caller that is no person would replace or withdraw another caller's proposal.
fn is_anothers(header: &Header, stored: &Stored) -> bool {
    let is_own = *stored.proposed_by == *header.caller_key;
    !is_a_persons(header) && stored.state == State::Proposed && !is_own
}

/// Returns whether the caller is a person. The holder of a token works in a person's name, and may be an agent.
fn is_a_persons(header: &Header) -> bool {
    matches!(header.caller, Caller::Person(_))
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
    let summary = format!("{} version(s)", found.len());
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

/// Returns the part of the approval request that the caller may know.
fn approval_request(asked: &Approval) -> Value {
    json!({ "approval": asked.reference(), "state": asked.state, "expires_at": asked.expires_at })
}

pub(super) fn changed(data: Value, summary: String) -> CommandResult {
    CommandResult::Done { kind: RowKind::Flow, subject: RowSubject::default(), body: data.clone(), data, summary }
}

/// Returns the digest of everything that a person approves: the new canonical version and the one before it.
fn agreed(vault: &Vault, stored: &Stored, last: Option<&Stored>) -> Digest {
    Digest::of(&shared::json::canonical(&json!({
        "vault": vault,
        "flow": stored.digest,
        "after": last.map(|last| (last.digest, last.state)),
    })))
}

/// Returns the card: the whole flow, or the whole difference from the last approved version; `None` if it cannot be
/// shown in full.
fn card(vault: &Vault, stored: &Stored, last: Option<&Stored>) -> Option<Card> {
    let flow = &stored.bundle.flow;
    let mut card = Card::new();
    card.say("Flow", flow.flow_id.as_str());
    card.say("Title", &flow.title);
    card.say("Version", &flow.version.to_string());
    card.say("Scope", flow.scope.word());
    card.say("Vault", vault.as_str());
    card.say("Proposed by", &stored.proposed_by);
    let tools: Vec<&str> = stored.bundle.external_tools().map(shared::flow::Opaque::as_str).collect();
    if !tools.is_empty() {
        card.say("Tools for external agents", &tools.join(", "));
    }
    card.reasons
        .push("Once it is canonical, people and agents work by it, and external agents may be given it.".to_owned());
    let members = |stored: &Stored| json!(stored.bundle).as_object().cloned().unwrap_or_default();
    let is_whole = match last {
        Some(before) => {
            let place = if before.state == State::Approved { "In the place of" } else { "After" };
            card.say(place, &format!("version {}", before.bundle.flow.version));
            difference(&members(before), &members(stored), BYTES_MAX).is_some_and(|changes| card.changes(&changes))
        }
        None => card.list(&Value::Object(members(stored))),
    };
    is_whole.then_some(card)
}
