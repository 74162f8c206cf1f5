//! Proposed versions of flows: proposal, import, withdrawal and deprecation.

use super::super::CommandResult;
use super::FAULTS_TOLD;
use super::Reach;
use super::changed;
use super::listed;
use super::no_tools;
use super::standing;
use super::unknown;
use super::version_in;
use crate::broker::Broker;
use config::flows::ImportPolicy;
use kernel::call::Header;
use model::Caller;
use serde_json::json;
use shared::Code;
use shared::digest::Digest;
use shared::flow::BUNDLE_MAX;
use shared::flow::Bundle;
use shared::flow::Opaque;
use shared::flow::SkillKind;
use shared::flow::SkillRef;
use shared::flow::request::FlowVersion;
use shared::flow::request::State;
use store::StoreError;
use store::Transaction;
use store::state::flows;
use store::state::flows::PROPOSED_MAX;
use store::state::flows::Stored;

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

impl Broker {
    /// Imports a flow: like any other, but for the tools that it names.
    pub(super) fn import(
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

    pub(super) fn propose_flow(
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

    /// Withdraws a proposed version, or deprecates a canonical one.
    pub(super) fn deprecate(
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
}
