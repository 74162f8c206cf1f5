//! The names in the mailbox.

use crate::names::RequestId;

/// Where the sandbox writes requests.
pub const TASKS: &str = "tasks";
/// Where the host writes replies.
pub const RESPONSES: &str = "responses";
/// The snapshot's name.
pub const SNAPSHOT: &str = "ext_capabilities.json";
/// The host's sign of life.
pub const HOST: &str = "host.json";
/// The host's socket, which carries the same documents as the files; see [`crate::frame`].
pub const SOCKET: &str = "broker.sock";

/// The name of a reply: `<request_id>.json`.
pub fn reply_name(id: &RequestId) -> String {
    format!("{id}.json")
}

/// The name of a request whose file is used again: `<request_id>.reuse.json`.
///
/// To make and remove a file costs more than everything else that a call does in the mailbox. A host that has taken a
/// request of this name renames the file to its [`spare_name`]. The shim writes a later request into that. A host that
/// does not know the name removes the file. The name also says that the shim accepts a reply with two links.
pub fn reusable_name(id: &RequestId) -> String {
    format!("{id}{REUSABLE}")
}

/// Checks whether a document has a [`reusable_name`].
pub fn is_reusable(name: &str) -> bool {
    name.ends_with(REUSABLE)
}

/// The name of a request's file after the host has taken the request: `.spare-<request_id>`.
pub fn spare_name(id: &RequestId) -> String {
    format!("{SPARE}{id}")
}

/// Checks whether a file is kept only to be used again.
pub fn is_spare(name: &str) -> bool {
    name.starts_with(SPARE)
}

/// Returns the part of a document's name that can be the id of a request: everything before `.json` or `.reuse.json`.
pub fn stem(name: &str) -> Option<&str> {
    name.strip_suffix(REUSABLE).or_else(|| name.strip_suffix(".json"))
}

pub(super) const REUSABLE: &str = ".reuse.json";
pub(super) const SPARE: &str = ".spare-";

/// The name of a running call's progress: `<request_id>.progress.json`.
pub fn progress_name(id: &RequestId) -> String {
    format!("{id}.progress.json")
}

/// Returns a name that cannot be guessed, and that no reader takes for a document.
pub fn temporary_name() -> String {
    let mut random = [0; 12];
    // The system call itself: a static binary in an empty root file system has no `/dev/urandom` to fall back on.
    // Without randomness the name is still exclusive: `O_EXCL` refuses a name that exists.
    rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::empty()).ok();
    format!(".tmp-{}", base16ct::lower::encode_string(&random))
}

/// Checks whether a name in `tasks/` or `responses/` is a document's. Anything ending in `.json` is, except hidden
/// names.
pub fn is_document(name: &str) -> bool {
    name.strip_suffix(".json").is_some_and(|stem| !stem.is_empty() && !stem.starts_with('.'))
}
