//! The replies that the shim makes itself, where the host did not make one.

use crate::document::now;
use shared::limits::REQUEST_BYTES_MAX;
use shared::reply::Progress;
use shared::{Code, Reply, RequestId};
use std::path::Path;
use std::time::Duration;

/// What is wrong with a reply that is JSON and nothing more.
pub const NOT_A_REPLY: &str = "it is not a reply of this protocol";
/// What is wrong with a reply that names another request.
pub const OTHER_REQUEST: &str = "it names another request";

/// The host gives no sign of life; the request was taken back.
pub fn host_down(id: &RequestId) -> Reply {
    Reply::of_code(id.clone(), Code::HostDown, now())
}

/// There is nowhere to write the request.
pub fn no_mailbox(id: &RequestId, directory: &Path, error: &dyn std::error::Error) -> Reply {
    let cause = error.source().map_or_else(String::new, |source| format!(" ({source})"));
    let reason =
        format!("The broker's directory {} cannot be used: {error}{cause}. Nothing was sent.", directory.display());
    Reply::of_reason(id.clone(), Code::HostDown, &reason, now())
}

/// The host did not take the request in time; it was taken back.
pub fn withdrawn(id: &RequestId, patience: Duration) -> Reply {
    let reason = format!("No answer within {}; the request was withdrawn and not executed.", seconds(patience));
    Reply::of_reason(id.clone(), Code::Withdrawn, &reason, now())
}

/// The host took the request and did not answer in time, or not with anything that could be used.
pub fn no_answer(id: &RequestId, patience: Duration, fault: Option<&str>) -> Reply {
    let what = match fault {
        None => format!("No answer within {}", seconds(patience)),
        Some(fault) => format!("No usable answer within {} (there is a reply, but {fault})", seconds(patience)),
    };
    let reason = format!("{what}; the host had already taken the request, so it may still be executed.");
    Reply::of_reason(id.clone(), Code::NoAnswer, &reason, now())
}

/// The host took a request that changes its own records and did not answer; some hosts never do.
pub fn not_confirmed(id: &RequestId, patience: Duration) -> Reply {
    let reason = format!(
        "The change was requested but not confirmed within {}; a host that answers no such request may have made it.",
        seconds(patience)
    );
    Reply::of_reason(id.clone(), Code::NoAnswer, &reason, now())
}

/// The caller gave up before the host took the request.
pub fn cancelled(id: &RequestId) -> Reply {
    Reply::of_reason(id.clone(), Code::Cancelled, "The call was cancelled; the request was withdrawn.", now())
}

/// The caller gave up after the host had taken the request.
pub fn cancel_asked(id: &RequestId) -> Reply {
    let reason = "The caller gave up; the host was asked to cancel the call, which may already have started.";
    Reply::of_reason(id.clone(), Code::NoAnswer, reason, now())
}

/// The document is larger than the host would read.
pub fn oversized(id: &RequestId, bytes: usize) -> Reply {
    let reason = format!("The request has {bytes} bytes; the most is {REQUEST_BYTES_MAX}. Nothing was sent.");
    Reply::of_reason(id.clone(), Code::OversizedRequest, &reason, now())
}

/// The group signs, and the key cannot be read.
pub fn no_signing_key(id: &RequestId, path: &Path) -> Reply {
    let reason = format!("The signing key {} cannot be read. Nothing was sent.", path.display());
    Reply::of_reason(id.clone(), Code::BadSignature, &reason, now())
}

/// A tool of the main group, called by another.
pub fn main_only(id: &RequestId) -> Reply {
    Reply::of_reason(id.clone(), Code::MainOnly, "Only the main group can grant capabilities.", now())
}

/// The arguments of a tool do not fit; `fault` names the tool and what does not.
pub fn bad_arguments(id: &RequestId, fault: &str) -> Reply {
    let reason = format!("{fault}. Nothing was sent.");
    Reply::of_reason(id.clone(), Code::InvalidParams, &reason, now())
}

/// The shim itself failed.
pub fn internal_fault(id: &RequestId) -> Reply {
    let reason = "The shim failed inside; whether the request was sent is not known.";
    Reply::of_reason(id.clone(), Code::NoAnswer, reason, now())
}

/// What a waiting client hears when the host says nothing.
pub fn still_waiting(waited: Duration, taken: bool) -> Progress {
    let what = if taken { "the host is working on it" } else { "waiting for the host" };
    Progress { message: format!("{what} ({} s)", waited.as_secs()), progress: None, total: None }
}

fn seconds(duration: Duration) -> String {
    format!("{} s", duration.as_secs_f64())
}
