//! The replies that the shim makes itself, where the host did not make one.

use crate::document::now;
use crate::settings::Settings;
use shared::limits::REQUEST_BYTES_MAX;
use shared::mailbox::{self, MailboxError};
use shared::reply::Progress;
use shared::{Code, Reply, RequestId};
use std::io::ErrorKind;
use std::path::Path;
use std::time::Duration;

/// The fault of a reply that is JSON and nothing more.
pub const NOT_A_REPLY: &str = "it is not a reply of this protocol";
/// The fault of a reply that names another request.
pub const OTHER_REQUEST: &str = "it names another request";

/// The host gives no sign of life; the request was taken back. `about` is the earlier call that it asked about.
pub fn host_down(id: &RequestId, about: Option<&RequestId>) -> Reply {
    match about {
        None => Reply::of_code(id.clone(), Code::HostDown, now()),
        Some(of) => {
            let reason = format!("The host broker is not running, so nothing is known of {of}. {UNCHANGED}");
            Reply::of_reason(id.clone(), Code::HostDown, &reason, now())
        }
    }
}

/// A question about a call that is taken back changes nothing about the call.
const UNCHANGED: &str = "That call is as it was: it may wait, run or be over.";

/// The unusable part of the group's directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unusable {
    /// The directory itself.
    Directory,
    /// `tasks/` in it.
    Tasks,
    /// A file in `tasks/`.
    Request,
}

/// There is nowhere to write the request.
pub fn no_mailbox(id: &RequestId, settings: &Settings, unusable: Unusable, error: &MailboxError) -> Reply {
    let reason = format!("{} Nothing was sent.", unusable_mailbox(settings, unusable, error));
    Reply::of_reason(id.clone(), Code::NoMailbox, &reason, now())
}

/// Returns the fault of the group's directory, and its correct mount.
pub fn unusable_mailbox(settings: &Settings, unusable: Unusable, error: &MailboxError) -> String {
    let ipc = settings.ipc.display();
    let tasks = mailbox::TASKS;
    let named = match settings.ipc_variable {
        Some(variable) => format!("{ipc} (which {variable} names)"),
        None => format!("{ipc} (the default; EXT_IPC_DIR names another)"),
    };
    let why = &error.source;
    let what = match (unusable, why.kind()) {
        (Unusable::Directory, ErrorKind::NotFound) => {
            format!("The group's directory is not mounted in this sandbox: there is no {named}.")
        }
        (Unusable::Directory, _) => format!("The group's directory {named} cannot be opened ({why})."),
        (Unusable::Tasks, ErrorKind::NotFound) => {
            format!("The group's directory is not mounted in this sandbox: there is no {tasks} in {named}.")
        }
        (Unusable::Tasks, _) => format!("{tasks} in the group's directory {named} cannot be opened ({why})."),
        (Unusable::Request, ErrorKind::ReadOnlyFilesystem) => {
            format!(
                "{tasks} in the group's directory {named} is mounted, but this sandbox may not write to it ({why})."
            )
        }
        (Unusable::Request, ErrorKind::PermissionDenied) => {
            let uid = rustix::process::geteuid().as_raw();
            return format!(
                "{tasks} in the group's directory {named} is mounted, but user {uid}, as whom this sandbox runs, may not \
                 write to it ({why}). With DIR for the group's directory on the host (ipc/GROUP in the broker's home) and \
                 GROUP for its name, the operator runs chown {uid} DIR/{tasks}, and writes uid = {uid} under \
                 [groups.GROUP] in broker.toml."
            );
        }
        // A full disk, for one, is not mended by mounting anything.
        (Unusable::Request, _) => {
            return format!("The request cannot be written to {tasks} in the group's directory {named} ({why}).");
        }
    };
    format!(
        "{what} With DIR for the group's directory on the host (ipc/GROUP in the broker's home) it is mounted by \
         docker run -v DIR:{ipc}:ro -v DIR/{tasks}:{ipc}/{tasks}, or by \
         bwrap --ro-bind DIR {ipc} --bind DIR/{tasks} {ipc}/{tasks}."
    )
}

/// The host's socket cannot be reached, and only the socket may be used.
pub fn no_socket(id: &RequestId, settings: &Settings) -> Reply {
    let reason = format!(
        "EXT_TRANSPORT is socket, and {} cannot be reached. The host may be down. With EXT_TRANSPORT=auto the shim uses \
         files instead. Nothing was sent.",
        settings.ipc.join(mailbox::SOCKET).display()
    );
    Reply::of_reason(id.clone(), Code::NoMailbox, &reason, now())
}

/// The host did not take a question about an earlier call in time; it was taken back.
pub fn not_asked(of: &RequestId, timeout: Duration, signs: Signs) -> Reply {
    let reason = format!("No answer about {of} within {}. {UNCHANGED}{}", seconds(timeout), hint(signs));
    Reply::of_reason(of.clone(), Code::NoAnswer, &reason, now())
}

/// The host did not take the request in time; it was taken back.
pub fn withdrawn(id: &RequestId, timeout: Duration, signs: Signs) -> Reply {
    let (within, hint) = (seconds(timeout), hint(signs));
    let reason = format!("No answer within {within}; the request was withdrawn and not executed.{hint}");
    Reply::of_reason(id.clone(), Code::Withdrawn, &reason, now())
}

fn hint(signs: Signs) -> &'static str {
    match signs {
        Signs::All => "",
        Signs::NoHost => " The group's directory has no host.json, so the host has never run on it, or is another one.",
        Signs::NoResponses => {
            " The group's directory has no responses, where answers would lie, so only a part of it may be mounted."
        }
    }
}

/// The signs that a host leaves in the group's directory. Ours leaves all of them; some hosts leave less, and late.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signs {
    /// Everything is there.
    All,
    /// `host.json` is not.
    NoHost,
    /// Not even `responses/` is.
    NoResponses,
}

/// The host took the request and did not answer in time, or not with anything that could be used.
pub fn no_answer(id: &RequestId, timeout: Duration, fault: Option<&str>) -> Reply {
    let what = match fault {
        None => format!("No answer within {}", seconds(timeout)),
        Some(fault) => format!("No usable answer within {} (there is a reply, but {fault})", seconds(timeout)),
    };
    let reason = format!("{what}; the host had already taken the request, so it may still be executed.");
    Reply::of_reason(id.clone(), Code::NoAnswer, &reason, now())
}

/// The connection broke after the request was sent, and no reply came over another one.
pub fn connection_lost(id: &RequestId) -> Reply {
    let reason = "The connection to the host broke after the request was sent. The host may have executed it.";
    Reply::of_reason(id.clone(), Code::NoAnswer, reason, now())
}

/// The host took a request that changes its own records and did not answer; some hosts never do.
pub fn not_confirmed(id: &RequestId, timeout: Duration) -> Reply {
    let reason = format!(
        "The change was requested but not confirmed within {}; a host that answers no such request may have made it.",
        seconds(timeout)
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

/// Creates the reply for a file with the context token that cannot be read; `fault` is the reason.
pub fn no_token(id: &RequestId, path: &Path, fault: &str) -> Reply {
    let reason = format!(
        "The file {} with the context token cannot be read: {fault}. Nothing was sent. EXT_CONTEXT_TOKEN_FILE names the file.",
        path.display()
    );
    Reply::of_reason(id.clone(), Code::ContextTokenMissing, &reason, now())
}

/// A tool of the main group, called by another.
pub fn main_only(id: &RequestId) -> Reply {
    Reply::of_reason(id.clone(), Code::MainOnly, "Only the main group can grant capabilities.", now())
}

/// Creates the reply for a tool's arguments that do not fit; `fault` names the tool and the fault.
pub fn bad_arguments(id: &RequestId, fault: &str) -> Reply {
    let reason = format!("{fault}. Nothing was sent.");
    Reply::of_reason(id.clone(), Code::InvalidParams, &reason, now())
}

/// The shim itself failed.
pub fn internal_fault(id: &RequestId) -> Reply {
    let reason = "The shim failed inside; whether the request was sent is not known.";
    Reply::of_reason(id.clone(), Code::NoAnswer, reason, now())
}

/// Returns the progress for a waiting client while the host is silent.
pub fn still_waiting(waited: Duration, taken: bool) -> Progress {
    let what = if taken { "the host is working on it" } else { "waiting for the host" };
    Progress { message: format!("{what} ({} s)", waited.as_secs()), progress: None, total: None }
}

fn seconds(duration: Duration) -> String {
    format!("{} s", duration.as_secs_f64())
}
