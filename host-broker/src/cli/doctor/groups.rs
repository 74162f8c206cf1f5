//! The groups: their directories, their owners and their transports.

use super::Finding;
use crate::cli::Context;
use crate::cli::status::mailbox::Mailbox;
use config::Config;
use platform::home::quoted;
use serde_json::Value;
use shared::Group;
use shared::mailbox::TASKS;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use store::state::grants::Grant;

pub(super) fn examine(context: &Context, config: &Config, hello: Option<&Value>, granted: &[Grant]) -> Vec<Finding> {
    let mut found = Vec::new();
    for (group, table) in &config.groups {
        let check = format!("group {group}");
        let mailbox = context.home.mailbox(group);
        found.extend(directory(&check, &mailbox, table.uid));
        found.extend(transport(&check, group, hello));
        found.extend(
            Mailbox::at(&mailbox).advice().map(|advice| Finding::warning(&check, advice, mounted_again(&mailbox))),
        );
        let has_access = granted.iter().any(|grant| grant.group == *group);
        found.push(if has_access {
            Finding::ok(&check, "it has access")
        } else {
            Finding::warning(
                &check,
                "it has no access to any provider",
                format!("host-broker grant {group} PROVIDER LEVEL"),
            )
        });
    }
    found
}

/// Returns the remedy for a directory that a sandbox cannot change.
fn mounted_again(mailbox: &Path) -> String {
    format!("mount {} writable in the sandbox, then start the sandbox again", quoted(mailbox))
}

/// The directory in which a sandbox writes its requests must belong to the user of the sandbox.
fn directory(check: &str, mailbox: &Path, uid: Option<u32>) -> Option<Finding> {
    let tasks = mailbox.join(TASKS);
    let metadata = match tasks.symlink_metadata() {
        Ok(metadata) => metadata,
        Err(error) => {
            let text = format!("{} cannot be used: {error}", tasks.display());
            return Some(Finding::problem(check, text, "the daemon creates it at its start: host-broker reload"));
        }
    };
    if !metadata.is_dir() {
        let text = format!("{} is not a directory", tasks.display());
        return Some(Finding::problem(
            check,
            text,
            "remove it; the daemon creates it at its start: host-broker reload",
        ));
    }
    let uid = uid?;
    let (owner, shown) = (metadata.uid(), quoted(&tasks));
    (owner != uid).then(|| {
        Finding::problem(
            check,
            format!("{} belongs to user id {owner}, so a sandbox of user id {uid} cannot write there", tasks.display()),
            format!("chown {uid} {shown}"),
        )
    })
}

/// The daemon must serve the group, and its socket must be open.
fn transport(check: &str, group: &Group, hello: Option<&Value>) -> Option<Finding> {
    let Some(sockets) = hello?.pointer("/data/sockets") else {
        let text = "the daemon does not say how it is reached";
        return Some(Finding::warning(check, text, "update the daemon to this version"));
    };
    let Some(socket) = sockets.get(group.as_str()) else {
        return Some(Finding::problem(check, "the daemon does not serve it", "host-broker reload"));
    };
    let is_open = socket.get("open").and_then(Value::as_bool).unwrap_or(false);
    (!is_open).then(|| {
        Finding::warning(
            check,
            "its socket is not open, so its shim uses files, which are slower",
            "for the reason: host-broker logs",
        )
    })
}

#[cfg(test)]
mod tests {
    use super::super::State;
    use super::*;
    use serde_json::json;

    #[test]
    fn a_closed_socket_is_a_warning_and_a_group_that_is_not_served_is_a_problem() {
        let hello = json!({ "data": { "sockets": { "one": { "open": true }, "two": { "open": false } } } });
        let found = |group: &str| transport(group, &group.parse().unwrap(), Some(&hello));
        assert_eq!(found("one"), None);
        let closed = found("two").unwrap();
        assert_eq!(
            (closed.state, closed.remedy.as_deref()),
            (State::Warning, Some("for the reason: host-broker logs"))
        );
        let absent = found("three").unwrap();
        assert_eq!((absent.state, absent.remedy.as_deref()), (State::Problem, Some("host-broker reload")));
        let silent = transport("one", &"one".parse().unwrap(), Some(&json!({ "data": {} }))).unwrap();
        assert_eq!(silent.state, State::Warning);
        assert_eq!(transport("one", &"one".parse().unwrap(), None), None, "no daemon is another finding");
    }

    #[test]
    fn a_sandbox_that_leaves_replies_is_told_how_to_mount_its_directory() {
        assert_eq!(
            mounted_again(Path::new("/home/a b/ipc/one")),
            "mount '/home/a b/ipc/one' writable in the sandbox, then start the sandbox again"
        );
    }
}
