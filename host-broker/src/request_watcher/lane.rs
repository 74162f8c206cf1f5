//! The lane of a document: whether the group's last snapshot permits its request.
//!
//! The answer is a guess without a look into the ledger. Only the decision permits a call.

use engine::request::command::Audience;
use engine::request::{Command, Parsed};
use kernel::call::Lane;
use shared::snapshot::Snapshot;

/// Returns the lane of a document. Without a snapshot it is the refused one.
pub(super) fn lane(snapshot: Option<&Snapshot>, parsed: &Parsed) -> Lane {
    let is_permitted = snapshot.is_some_and(|snapshot| match parsed {
        Parsed::Call(call) => snapshot.is_usable(&call.provider, &call.action),
        Parsed::CommandRequest(_) if snapshot.is_main => true,
        Parsed::CommandRequest(request) if request.command.rules().audience == Audience::Administrators => false,
        Parsed::CommandRequest(command_request) if matches!(command_request.command, Command::GateApprove(_)) => {
            !snapshot.opens_gates.is_empty()
        }
        Parsed::CommandRequest(command_request) => {
            if let Command::RequestAccess(request) = &command_request.command {
                snapshot.may_request.contains(&request.provider)
            } else if matches!(command_request.command, Command::Plan(_)) {
                command_request.calls.iter().all(|call| snapshot.is_usable(&call.provider, &call.action))
            } else {
                !snapshot.capabilities.is_empty() || !snapshot.may_request.is_empty()
            }
        }
        Parsed::InvalidDocument(_) => false,
    });
    if is_permitted { Lane::Permitted } else { Lane::Refused }
}

/// Returns whether the group can ask for anything that is permitted.
pub(super) fn has_any(snapshot: &Snapshot) -> bool {
    snapshot.is_main
        || !snapshot.capabilities.is_empty()
        || !snapshot.opens_gates.is_empty()
        || !snapshot.may_request.is_empty()
}
