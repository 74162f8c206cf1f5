//! The machine: programs, namespaces and limits of the kernel.

use super::Finding;
use crate::cli::Context;
use crate::cli::run::shim_path;
use config::Config;
use platform::agent_sandbox::AgentSandbox;
use platform::commands::{Command, Ending, located};
use platform::resources::PRLIMIT;
use platform::sandbox::{BWRAP, Network};
use rustix::fs::inotify::{CreateFlags, init};
use rustix::process::{Resource, getrlimit};
use std::path::Path;
use std::time::Duration;
use tokio::time::Instant;

/// The time for a program of the machine.
const TIMEOUT: Duration = Duration::from_secs(10);
/// The open files that the daemon needs beside those of its groups.
const FILES: u64 = 512;
/// The open files of a group: its directories, its socket and the connections to it.
const FILES_OF_GROUP: u64 = 24;
/// The watched directories of a group.
const WATCHES_OF_GROUP: u64 = 3;

pub(super) fn examine(context: &Context) -> Vec<Finding> {
    let mut found = vec![user(), bubblewrap(context), prlimit()];
    found.extend(shim(context));
    found
}

fn user() -> Finding {
    if rustix::process::geteuid().is_root() {
        let text = "the broker runs as root, and so do the programs that it starts in a sandbox";
        return Finding::warning("user", text, "run it as a user of its own");
    }
    Finding::ok("user", "the broker does not run as root")
}

/// Makes a sandbox: an installed program can still be forbidden to make one.
fn bubblewrap(context: &Context) -> Finding {
    const CHECK: &str = "bubblewrap";
    if located(Path::new(BWRAP)).is_none() {
        return Finding::problem(
            CHECK,
            "bwrap is not installed, so no program can run in a sandbox",
            "apt install bubblewrap, or the same package of your system",
        );
    }
    // The same options as those of an agent, which bwrap has since version 0.8.
    let sandbox = AgentSandbox {
        name: "doctor".to_owned(),
        network: Network::None,
        mounts: Vec::new(),
        directory: "/tmp".into(),
        env: Vec::new(),
    };
    let line = sandbox.command_line(Path::new("/usr/bin/true"), &[]);
    let command = Command::new(BWRAP, Instant::now() + TIMEOUT);
    let command = line.into_iter().skip(1).fold(command, Command::arg);
    match context.platform.runtime.block_on(context.platform.commands.run(command)) {
        Ok(finished) if finished.ending == Ending::Exited(0) => Finding::ok(CHECK, "sandboxes can be created"),
        Ok(finished) => {
            let error = String::from_utf8_lossy(&finished.stderr);
            Finding::problem(
                CHECK,
                format!("this user cannot create a sandbox: {}", error.trim()),
                "install version 0.8 or later of bwrap, and permit user namespaces: sysctl -w kernel.unprivileged_userns_clone=1; on Ubuntu also \
                 sysctl -w kernel.apparmor_restrict_unprivileged_userns=0, or an AppArmor profile for bwrap",
            )
        }
        Err(error) => Finding::problem(CHECK, format!("bwrap cannot be started: {error}"), "install it again"),
    }
}

fn prlimit() -> Finding {
    if located(Path::new(PRLIMIT)).is_some() {
        return Finding::ok("prlimit", "limits of programs can be set");
    }
    Finding::problem("prlimit", "prlimit is not installed, so no program can be started", "apt install util-linux")
}

/// The shim that `run` would mount must be of this version.
fn shim(context: &Context) -> Option<Finding> {
    const CHECK: &str = "mcp-shim";
    let Some(shim) = shim_path(None) else {
        return Some(Finding::warning(
            CHECK,
            "mcp-shim was not found beside this program or in PATH",
            "build it with `cargo build -p mcp-shim`, or install it beside host-broker",
        ));
    };
    let command = Command::new(&shim, Instant::now() + TIMEOUT).arg("--version");
    let finished = context.platform.runtime.block_on(context.platform.commands.run(command)).ok()?;
    let said = String::from_utf8_lossy(&finished.stdout).trim().to_owned();
    let own = concat!("mcp-shim ", env!("CARGO_PKG_VERSION"));
    Some(if said == own {
        Finding::ok(CHECK, format!("{} has the version of this program", shim.display()))
    } else {
        Finding::warning(
            CHECK,
            format!("{} says `{said}`, and this program has version {}", shim.display(), env!("CARGO_PKG_VERSION")),
            "install both programs from one build",
        )
    })
}

/// The limits of the kernel that depend on the number of groups.
pub(super) fn watches(config: &Config) -> Vec<Finding> {
    let groups = u64::try_from(config.groups.len()).unwrap_or(u64::MAX);
    vec![instances(), watched(groups), files(groups)]
}

fn instances() -> Finding {
    // The instance ends with the value.
    match init(CreateFlags::CLOEXEC) {
        Ok(_instance) => Finding::ok("inotify", "directories can be watched"),
        Err(error) => Finding::problem(
            "inotify",
            format!("no inotify instance can be created ({error}), so requests as files are noticed late"),
            "sysctl -w fs.inotify.max_user_instances=512",
        ),
    }
}

fn watched(groups: u64) -> Finding {
    let text = std::fs::read_to_string("/proc/sys/fs/inotify/max_user_watches").unwrap_or_default();
    watched_of(&text, groups)
}

/// Compares the limit, as the kernel writes it, with the need of so many groups.
fn watched_of(text: &str, groups: u64) -> Finding {
    const CHECK: &str = "inotify watches";
    let needed = groups.saturating_mul(WATCHES_OF_GROUP);
    match text.trim().parse::<u64>() {
        Ok(limit) if limit < needed => Finding::problem(
            CHECK,
            format!("the limit is {limit} directories, and the groups need {needed}"),
            format!("sysctl -w fs.inotify.max_user_watches={}", needed.saturating_mul(4)),
        ),
        Ok(limit) => Finding::ok(CHECK, format!("{needed} of {limit} directories are needed")),
        Err(_unknown) => Finding::warning(CHECK, "the limit of the kernel cannot be read", "mount /proc"),
    }
}

fn files(groups: u64) -> Finding {
    const CHECK: &str = "open files";
    let needed = groups.saturating_mul(FILES_OF_GROUP).saturating_add(FILES);
    // Without a number there is no limit.
    match getrlimit(Resource::Nofile).current.filter(|limit| *limit < needed) {
        Some(limit) => Finding::warning(
            CHECK,
            format!("the limit is {limit}, and the daemon may need {needed}"),
            format!("ulimit -n {needed}, or LimitNOFILE={needed} in the unit of systemd"),
        ),
        None => Finding::ok(CHECK, format!("{needed} or more files can be open")),
    }
}

#[cfg(test)]
mod tests {
    use super::super::State;
    use super::*;

    #[test]
    fn the_limit_of_watches_must_suffice_for_all_groups() {
        assert_eq!(watched_of("9\n", 3).state, State::Ok);
        let few = watched_of("8\n", 3);
        assert_eq!(
            (few.state, few.remedy.as_deref()),
            (State::Problem, Some("sysctl -w fs.inotify.max_user_watches=36"))
        );
        assert_eq!(watched_of("", 3).state, State::Warning);
    }
}
