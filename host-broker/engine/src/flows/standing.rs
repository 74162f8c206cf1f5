//! The present validity of external grants.

use crate::flows::issuers;
use config::flows::FlowsTable;
use model::external;
use shared::flow::{GrantId, Id, Opaque};
use shared::{Code, Timestamp};
use store::state::external_grants::{Access, canonical_version, find};
use store::state::kill;
use store::{StoreError, View};

/// A use of an external grant.
#[derive(Debug, Clone, Copy)]
pub enum Use<'a> {
    /// A call of this tool.
    Tool(&'a Opaque),
    /// The reply to an earlier call of this tool.
    Again(&'a Opaque),
    /// A read of this flow.
    Read(&'a Id),
    /// The outcome of a call.
    Result,
}

/// Returns whether the external grant permits this use now. Every condition is checked each time.
///
/// # Errors
/// [`StoreError`] if a condition cannot be read; nothing may then be permitted.
pub fn standing(
    view: &View,
    flows: &FlowsTable,
    now: Timestamp,
    id: &GrantId,
    wanted: Use<'_>,
) -> Result<Result<Access, Code>, StoreError> {
    let table = &flows.external_agent;
    if table.forbidden {
        return Ok(Err(Code::FlowExternalAgentPolicyForbidden));
    }
    if !table.enabled {
        return Ok(Err(Code::FlowExternalAgentDisabled));
    }
    if kill::of_group(view, external())?.is_some() {
        return Ok(Err(Code::KillSwitch));
    }
    let Some(access) = find(view, id)? else { return Ok(Err(Code::FlowExternalGrantDenied)) };
    if let Err(code) = access.check_end(now) {
        return Ok(Err(code));
    }
    if issuers::lost_right(view, flows, &access.issued_by)?.is_some() {
        return Ok(Err(Code::FlowExternalGrantRevoked));
    }
    if matches!(wanted, Use::Read(flow) if *flow != access.flow_id) {
        return Ok(Err(Code::FlowExternalGrantFlowMismatch));
    }
    if !flows.vaults.contains(&access.vault) {
        return Ok(Err(Code::FlowExternalGrantDenied));
    }
    match canonical_version(view, &access.vault, &access.flow_id)? {
        Some(version) if version == access.version.to_string() => {}
        Some(_) => return Ok(Err(Code::FlowExternalGrantFlowMismatch)),
        None => return Ok(Err(Code::FlowExternalGrantDenied)),
    }
    if let Use::Tool(tool) | Use::Again(tool) = wanted {
        if !access.tools.contains(tool) {
            return Ok(Err(Code::FlowExternalGrantToolDenied));
        }
        if flows.tool(tool).is_none() {
            return Ok(Err(Code::FlowExternalToolDenied));
        }
    }
    if matches!(wanted, Use::Tool(_)) && spent(&access, flows).is_some() {
        return Ok(Err(Code::FlowExternalGrantDenied));
    }
    Ok(Ok(access))
}

/// The reason why an external grant permits no further call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Spent {
    /// All its calls are used.
    UsedUp,
    /// It is unlimited, and the configuration no longer permits unlimited ones.
    Unlimited,
}

/// Returns why this external grant permits no further call, if it does not.
pub fn spent(access: &Access, flows: &FlowsTable) -> Option<Spent> {
    match access.max_invocations {
        0 => (!flows.external_agent.allow_unlimited).then_some(Spent::Unlimited),
        most => (access.invocations >= most).then_some(Spent::UsedUp),
    }
}
