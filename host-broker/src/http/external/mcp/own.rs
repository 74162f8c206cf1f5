//! The broker's own tools for an external agent: the outcome of a call, and its cancellation.
//!
//! They reach only the calls of the same external grant: the broker looks a call up under its caller's name.

use config::flows::BROKERS_OWN;
use rmcp::model::{Tool, ToolAnnotations};
use serde_json::{Map, Value};
use shared::request::{CancelRequest, Request, ResultRequest, of_members};
use shared::{RequestId, schema};

/// A request about an earlier call.
pub(super) enum Asked {
    /// Its outcome.
    Result(RequestId),
    /// That it does not start.
    Cancel(RequestId),
}

/// The tools, as they are listed.
pub(super) fn tools() -> [Tool; 2] {
    let [result, cancel] = BROKERS_OWN;
    let hints = |read_only, idempotent| {
        ToolAnnotations::from_raw(None, Some(read_only), Some(false), Some(idempotent), Some(false))
    };
    [
        Tool::new(
            result,
            "Returns the outcome of an earlier call that was pending, timed out or is still under way. `of` is its \
             request_id. Waits for it as a call does. Never executes anything a second time.",
            schema::of::<ResultRequest>(&["timeout_ms"]),
        )
        .with_title("Get the result of an earlier call")
        .with_annotations(hints(true, true)),
        Tool::new(
            cancel,
            "Stops an earlier call that has not started, or withdraws its approval request. `of` is its \
             request_id. A started call runs on.",
            schema::of::<CancelRequest>(&[]),
        )
        .with_title("Cancel an earlier call")
        .with_annotations(hints(false, true)),
    ]
}

/// Returns the request of a call of this tool; `None` if it is no tool of the broker's own.
pub(super) fn asked(name: &str, given: &Map<String, Value>) -> Option<Result<Asked, String>> {
    if !BROKERS_OWN.contains(&name) {
        return None;
    }
    // How long it waits is not the agent's to say here.
    if given.contains_key("timeout_ms") {
        return Some(Err(format!("{name}: unknown field `timeout_ms`")));
    }
    Some(match of_members(name, given.clone()) {
        Ok(Request::Result(ResultRequest { of, .. })) => Ok(Asked::Result(of)),
        Ok(Request::Cancel(CancelRequest { of })) => Ok(Asked::Cancel(of)),
        Ok(other) => Err(format!("{name}: `{}` is another request", other.word())),
        Err(fault) => Err(fault),
    })
}
