//! The approval of a proposed version: the approval request, its card and its end.

use super::super::CommandResult;
use super::Reach;
use super::unknown;
use super::version_in;
use crate::approval_requests::ApprovalDraft;
use crate::broker::Broker;
use crate::file_proposals::internal_request_id;
use config::FLOWS;
use kernel::call::Header;
use model::Nonce;
use model::approval;
use model::approval::Approval;
use model::approval::ApprovalReason;
use model::approval::ApprovalState;
use model::card::BYTES_MAX;
use model::card::Card;
use provider::pinned_definitions::difference;
use serde_json::Value;
use serde_json::json;
use shared::Code;
use shared::Level;
use shared::digest::Digest;
use shared::flow::Vault;
use shared::flow::request::FlowVersion;
use shared::flow::request::State;
use std::collections::BTreeSet;
use store::StoreError;
use store::Transaction;
use store::ledger::chain::Draft;
use store::ledger::chain::RowKind;
use store::state::approvals;
use store::state::flows;
use store::state::flows::Stored;

impl Broker {
    /// Sends an approval request about a new canonical version.
    pub(super) fn request_flow_approval(
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
            others: BTreeSet::new(),
            standing: None,
            card: &card,
            document: None,
            params_digest: None,
            summary: Some(format!("make {flow_id}@{version} canonical")),
            task_id: None,
            calls: None,
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
    pub(super) fn cancel_flow_request(&mut self, tx: &Transaction<'_>, stored: &Stored) -> Result<(), StoreError> {
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
}

/// Returns the part of the approval request that the caller may know.
fn approval_request(asked: &Approval) -> Value {
    json!({ "approval": asked.reference(), "state": asked.state, "expires_at": asked.expires_at })
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
        .push("People and agents follow the canonical version, and external agents can be given it.".to_owned());
    let members = |stored: &Stored| json!(stored.bundle).as_object().cloned().unwrap_or_default();
    let is_whole = match last {
        Some(before) => {
            let place = if before.state == State::Approved { "Replaces" } else { "After" };
            card.say(place, &format!("version {}", before.bundle.flow.version));
            difference(&members(before), &members(stored), BYTES_MAX).is_some_and(|changes| card.changes(&changes))
        }
        None => card.list(&Value::Object(members(stored))),
    };
    is_whole.then_some(card)
}
