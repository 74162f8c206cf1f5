//! The external grant, which takes the place of a grant, for the level of the tool's action.

use crate::flows::standing::{Use, standing};
use config::flows::FlowsTable;
use kernel::call::Call;
use policy::facts::{ChatsFact, GrantFact, LiveGrant};
use shared::flow::GrantId;
use shared::{Code, Gate, Level, Timestamp};
use store::{StoreError, View};

/// Returns the fact, and the gate that the operator has named for the tool.
///
/// # Errors
/// [`StoreError`] if it cannot be read; the call must then be refused.
pub(super) fn grant_fact(
    connection: &View,
    now: Timestamp,
    call: &Call,
    access: &GrantId,
    flows: &FlowsTable,
) -> Result<(GrantFact, Option<Gate>), StoreError> {
    let no = |code| Ok((GrantFact::Refused(code), None));
    let Some(tool) = &call.tool else { return no(Code::FlowExternalGrantDenied) };
    // An equal call repeated is not counted again: it gets the reply of the first.
    let is_same = call.claimed(connection)?.is_some_and(|claimed| claimed.params_digest == call.params_digest);
    let wanted = if is_same { Use::Again(tool) } else { Use::Tool(tool) };
    if let Err(code) = standing(connection, flows, now, access, wanted)? {
        return no(code);
    }
    // SECURITY: the tool may stand for another action now than when this call was made.
    let bound = flows.tool(tool).filter(|bound| bound.provider == call.provider && bound.action == call.action);
    let Some(bound) = bound else { return no(Code::FlowExternalToolDenied) };
    let declared = call.target.operation().map(|operation| operation.declaration().level);
    let most = if bound.gate.is_some() { Level::Production } else { Level::Write };
    let live = LiveGrant {
        // A call that demands more than its action declares, such as a write to a production branch, is refused.
        level: declared.unwrap_or(Level::None).min(most),
        catalogued: declared,
        allowed: true,
        denied: false,
        chats: ChatsFact::Any,
    };
    Ok((GrantFact::Live(live), bound.gate.clone()))
}
