//! What agents outside are given, and what they read.

use super::Said;
use super::flows::{changed, unknown};
use crate::broker::Broker;
use crate::call::{Caller, Header};
use crate::flows::grants::{self, Access, Bearer, Use, fresh_id};
use crate::flows::store;
use crate::ledger::LedgerError;
use crate::ledger::transaction::Transaction;
use serde_json::{Map, Value, json};
use shared::Code;
use shared::digest::Digest;
use shared::flow::request::{FlowProject, GrantList, GrantMint, GrantNamed, Harness, State};
use shared::flow::{Id, Opaque, Vault};
use std::collections::BTreeSet;
use std::time::Duration;

/// How many accesses a list has where it does not say how many it wants, and at most.
const LISTED: usize = 100;
const LISTED_MAX: usize = 200;
/// The longest words for whom an access is, in bytes.
const LABEL_MAX: usize = 256;

impl Broker {
    /// Gives an agent outside access to the canonical version of a flow, and to tools that its steps name and the operator
    /// allows.
    pub(super) fn mint(
        &self,
        tx: &Transaction<'_>,
        header: &Header,
        vault: &Vault,
        wanted: &GrantMint,
    ) -> Result<Said, LedgerError> {
        let GrantMint { flow_id, flow_version, requested_tools, ttl_seconds, actor_label } = wanted;
        let no = |code: Code| Ok(Said::no(code, code.meaning()));
        let invalid = |reason: &str| Ok(Said::no(Code::InvalidParams, reason));
        let outside = &self.config.flows.external_agent;
        if outside.forbidden {
            return no(Code::FlowExternalAgentPolicyForbidden);
        }
        if !outside.enabled {
            return no(Code::FlowExternalAgentDisabled);
        }
        if requested_tools.is_empty() {
            return invalid("/requested_tools: there must be one.");
        }
        if *ttl_seconds == Some(0) {
            return invalid("/ttl_seconds: it must be at least 1.");
        }
        let label = actor_label.as_deref().unwrap_or_default();
        if label.len() > LABEL_MAX {
            return invalid("/actor_label: it is longer than 256 bytes.");
        }
        let Some(stored) = store::version(tx.connection(), vault, flow_id, flow_version)? else {
            return Ok(unknown());
        };
        if stored.state != State::Approved {
            return no(Code::FlowExternalGrantDenied);
        }
        let named: BTreeSet<&Opaque> = stored.bundle.external_tools().collect();
        let tools: BTreeSet<&Opaque> = requested_tools.iter().collect();
        if !tools.is_subset(&named) {
            return no(Code::FlowExternalToolUnknown);
        }
        if tools.iter().any(|tool| self.config.flows.tool(tool).is_none()) {
            return no(Code::FlowExternalToolDenied);
        }
        let (Ok(grant_id), Ok(bearer)) = (fresh_id(self.ids.as_ref()), Bearer::fresh(self.ids.as_ref())) else {
            return Ok(Said::no(Code::EvidenceUnavailable, "The system's random source failed."));
        };
        let seconds = ttl_seconds.unwrap_or(outside.default_ttl_seconds).min(outside.max_ttl_seconds);
        let actor = json!({ "actor_label": label, "vault_id": vault, "issued_by": &*header.caller_key });
        let access = Access {
            grant_id,
            vault: vault.clone(),
            scope: stored.bundle.flow.scope,
            flow_id: flow_id.clone(),
            version: flow_version.clone(),
            tools: tools.into_iter().cloned().collect(),
            actor: Digest::of(&shared::json::canonical(&actor)),
            issued_by: header.caller_key.to_string(),
            issued_at: tx.now(),
            expires_at: tx.now().plus(Duration::from_secs(seconds)),
            revoked_at: None,
            max_invocations: outside.max_invocations,
            invocations: 0,
        };
        if !grants::issue(tx, &access, &bearer.digest())? {
            return Ok(Said::no(
                Code::Busy,
                "There are as many accesses as there can be; those that are over go after a day.",
            ));
        }
        let data = json!({
            "schema": "knowtation.flow_external_grant_mint/v0",
            "grant": access.document(),
            "expires_at": access.expires_at,
        });
        let summary = format!("{} has access to {flow_id}@{flow_version}.", access.grant_id);
        let bearer = Value::String(bearer.reveal().to_string());
        Ok(changed(data, summary).shown_once(Map::from_iter([("bearer".to_owned(), bearer)])))
    }

    /// The flow to which an agent outside has access, as it reads it.
    pub(super) fn read_outside(&self, tx: &Transaction<'_>, header: &Header, flow: &Id) -> Result<Said, LedgerError> {
        let Caller::Outside(access) = &header.caller else {
            return Ok(Said::no(Code::Guardrail, "Only agents outside read by their access."));
        };
        let standing = grants::standing(tx.connection(), &self.config.flows, tx.now(), access, Use::Read(flow))?;
        let access = match standing {
            Ok(access) => access,
            Err(code) => return Ok(Said::no(code, code.meaning())),
        };
        let wanted =
            FlowProject { flow_id: access.flow_id, version: Some(access.version), harness: Harness::AgentBundle };
        Ok(match self.projected(tx, &access.vault, &wanted)? {
            // Whoever wants it again reads again: nobody fills the disk by reading.
            Said::Done { kind, subject, body, data: Value::Object(projected), summary } => {
                let data = json!({ "grant_id": access.grant_id });
                Said::Done { kind, subject, body, data, summary }.shown_once(projected)
            }
            other @ (Said::Done { .. } | Said::No { .. } | Said::Once(..)) => other,
        })
    }
}

/// Ends an access: at once, for good, and whether there are agents outside or not.
pub(super) fn revoke(tx: &Transaction<'_>, vault: &Vault, named: &GrantNamed) -> Result<Said, LedgerError> {
    let id = &named.grant_id;
    let found = grants::find(tx.connection(), id)?.filter(|access| access.vault == *vault);
    let Some(access) = found else {
        let code = Code::FlowExternalGrantDenied;
        return Ok(Said::no(code, code.meaning()));
    };
    if access.revoked_at.is_some() {
        return Ok(Said::told(access.document(), format!("{id} was ended before.")));
    }
    grants::revoke(tx, id)?;
    let access = Access { revoked_at: Some(tx.now()), ..access };
    Ok(changed(access.document(), format!("{id} is ended.")))
}

/// Accesses, without what opens them.
pub(super) fn list_accesses(tx: &Transaction<'_>, vault: &Vault, wanted: &GrantList) -> Result<Said, LedgerError> {
    let after = match &wanted.cursor {
        Some(id) => match grants::find(tx.connection(), id)? {
            Some(access) => Some(access),
            None => {
                return Ok(Said::no(Code::InvalidParams, "/cursor: it is none that a list has given, or it is gone."));
            }
        },
        None => None,
    };
    let most = wanted.limit.unwrap_or(LISTED).clamp(1, LISTED_MAX);
    let mut found = grants::list(tx.connection(), vault, wanted.flow_id.as_ref(), after.as_ref(), most + 1)?;
    let has_more = found.len() > most;
    found.truncate(most);
    let last = found.last().filter(|_| has_more).map(|last| last.grant_id.clone());
    let summary = format!("{} access(es)", found.len());
    let grants: Vec<_> = found.iter().map(Access::document).collect();
    Ok(Said::told(json!({ "vault_id": vault, "grants": grants, "next_cursor": last }), summary))
}
