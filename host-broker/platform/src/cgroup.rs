//! Control groups: one for each child, where the system has delegated a subtree to the broker.
//!
//! ```text
//! BASE                    delegated, for example by systemd's `Delegate=yes`; nothing but the broker is in it at first
//! ├── broker.PID          the broker moves here, because a group with controllers for others cannot hold processes
//! ├── broker.PID.0        a child with everything that it starts: memory.max, pids.max, cpu.max
//! └── broker.PID.1
//! ```
//!
//! A constant script for `/bin/sh` moves itself into the child's group and then becomes the child. So the child's
//! program only ever runs in its group. The group is killed and removed with the child. A broker that was killed leaves
//! its groups behind; the next one removes them.
//!
//! Source: cgroups(7), the kernel's cgroup-v2.rst ("Delegation", "No Internal Process Constraint").

use crate::resources::ResourceLimits;
use rustix::fs::{Access, access};
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::runtime::Handle;

/// The shell that moves itself.
const SHELL: &str = "/bin/sh";
/// No text of anybody's is in it: the program and its arguments stay arguments.
const SCRIPT: &str = "echo 0 >\"$1\" && shift && exec \"$@\"";
/// The script's name, with which the shell begins its errors.
const NAME: &str = "child-cgroup";
/// The start of its error messages. They mean that the program did not run.
const ERROR_PREFIX: &str = "child-cgroup: ";
/// The controllers without which a group limits too little.
const REQUIRED: [&str; 2] = ["memory", "pids"];
/// The controllers that are used.
const WANTED: [&str; 3] = ["memory", "pids", "cpu"];
/// Bubblewrap's own processes beside those of the child.
const BESIDE: u32 = 4;
/// The period of the limit of processors, in microseconds.
const PERIOD: u64 = 100_000;
/// So often, and after such a time, the removal of a group is tried whose processes are being killed.
const TRIES: u32 = 250;
const PAUSE: Duration = Duration::from_millis(20);

/// The subtree that is the broker's.
#[derive(Debug)]
pub struct Cgroups {
    base: PathBuf,
    // How the groups of this broker begin.
    own: String,
    next: AtomicU64,
}

impl Cgroups {
    /// Moves the broker to a leaf of its subtree and makes the rest ready for children.
    ///
    /// # Errors
    /// A clause that says why no subtree can be used. The broker is where it was then.
    pub fn enter() -> Result<Self, String> {
        let read = |path: &str| fs::read_to_string(path).map_err(|error| format!("{path} cannot be read: {error}"));
        Self::enter_at(&read("/proc/self/mountinfo")?, &read("/proc/self/cgroup")?)
    }

    /// Does so for a process with these mounts in these groups.
    fn enter_at(mounts: &str, groups: &str) -> Result<Self, String> {
        let here = place(mounts, groups).ok_or("there is no cgroup v2 hierarchy")?;
        let own = format!("broker.{}", std::process::id());
        // A reload executes the program again, and the process stays where it is.
        let was_moved = here.file_name().is_some_and(|name| name == own.as_str());
        let base = here.parent().filter(|_| was_moved).unwrap_or(&here).to_owned();
        check(&base)?;
        if !was_moved {
            alone(&base)?;
        }
        let cgroups = Self { base, own, next: AtomicU64::new(0) };
        cgroups.sweep();
        cgroups.delegate(was_moved)?;
        Ok(cgroups)
    }

    /// Returns the subtree's directory.
    pub fn base(&self) -> &Path {
        &self.base
    }

    fn delegate(&self, was_moved: bool) -> Result<(), String> {
        let leaf = self.base.join(&self.own);
        let moves = |to: &Path| fs::write(to.join("cgroup.procs"), std::process::id().to_string());
        if !was_moved {
            // An earlier broker with the same number may have left it.
            let made = match fs::create_dir(&leaf) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists && !is_populated(&leaf) => Ok(()),
                made => made,
            };
            let made = made.and_then(|()| moves(&leaf));
            made.map_err(|error| format!("{} cannot be entered: {error}", leaf.display()))?;
        }
        let offered = controllers(&self.base);
        let wanted = WANTED.iter().filter(|wanted| offered.contains(**wanted));
        let enabled = wanted.map(|wanted| format!("+{wanted}")).collect::<Vec<_>>().join(" ");
        fs::write(self.base.join("cgroup.subtree_control"), enabled).map_err(|error| {
            // The broker works equally well in its earlier group.
            moves(&self.base).and_then(|()| fs::remove_dir(&leaf)).ok();
            format!("{} cannot have controllers for children: {error}", self.base.display())
        })
    }

    /// Removes the groups of brokers that are gone.
    fn sweep(&self) {
        let names = || {
            let entries = fs::read_dir(&self.base).into_iter().flatten().flatten();
            entries.filter_map(|entry| entry.file_name().into_string().ok()).collect::<BTreeSet<String>>()
        };
        for name in names() {
            let Some((owner, is_child)) = owner(&name) else { continue };
            let is_gone = owner == self.own || !is_populated(&self.base.join(owner));
            if is_gone && (is_child || owner != self.own) {
                end(&self.base.join(&name));
            }
        }
    }

    /// Makes a group for a child.
    ///
    /// # Errors
    /// It cannot be made, or cannot have a limit.
    pub(super) fn create(&self, limits: &ResourceLimits) -> io::Result<Cgroup> {
        let cgroup = Cgroup { path: self.create_next()? };
        let offered = controllers(&cgroup.path);
        for (file, value) in settings(limits, &offered) {
            let path = cgroup.path.join(file);
            // Swap may not be counted, and an older kernel does not know all of them.
            if path.exists() {
                fs::write(path, value)?;
            }
        }
        Ok(cgroup)
    }

    /// Makes the directory of the next free number. Numbers begin again after a reload, and a group whose processes are
    /// still dying keeps its number.
    fn create_next(&self) -> io::Result<PathBuf> {
        loop {
            let number = self.next.fetch_add(1, Ordering::Relaxed);
            let path = self.base.join(format!("{}.{number}", self.own));
            match fs::create_dir(&path) {
                Ok(()) => return Ok(path),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
    }
}

/// A child's group. Dropping it kills everything in it.
#[derive(Debug)]
pub(super) struct Cgroup {
    path: PathBuf,
}

impl Cgroup {
    /// Returns the program that enters the group and becomes this one, and its arguments.
    pub(super) fn around(&self, program: &Path, arguments: Vec<OsString>) -> (PathBuf, Vec<OsString>) {
        let mut all: Vec<OsString> = ["-c", SCRIPT, NAME].map(OsString::from).into();
        all.push(self.path.join("cgroup.procs").into());
        all.push(program.into());
        all.extend(arguments);
        (SHELL.into(), all)
    }

    /// Returns whether the kernel has killed one of its processes for want of memory.
    pub(super) fn ran_out_of_memory(&self) -> bool {
        let events = fs::read_to_string(self.path.join("memory.events")).unwrap_or_default();
        events.lines().any(|line| line.strip_prefix("oom_kill ").is_some_and(|count| count != "0"))
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        if end(&self.path) {
            return;
        }
        // A killed process stays in the group for a moment.
        let path = self.path.clone();
        if let Ok(runtime) = Handle::try_current() {
            runtime.spawn(async move {
                for _ in 0..TRIES {
                    tokio::time::sleep(PAUSE).await;
                    if end(&path) {
                        return;
                    }
                }
                tracing::warn!(path = %path.display(), "the cgroup of a child cannot be removed");
            });
        }
    }
}

/// Returns whether the launching shell could not join the group, by its standard error.
pub(super) fn is_launcher_error(stderr: &[u8]) -> bool {
    stderr.starts_with(ERROR_PREFIX.as_bytes())
}

/// Kills the processes of a group and removes it. Returns whether it is gone.
fn end(path: &Path) -> bool {
    fs::write(path.join("cgroup.kill"), "1").ok();
    match fs::remove_dir(path) {
        Ok(()) => true,
        Err(error) => error.kind() == io::ErrorKind::NotFound,
    }
}

/// The directory of this process in the hierarchy of version 2.
fn place(mounts: &str, groups: &str) -> Option<PathBuf> {
    let own = groups.lines().find_map(|line| line.strip_prefix("0::"))?;
    mounts.lines().find_map(|line| {
        let (mount, kind) = line.split_once(" - ")?;
        let mut fields = mount.split(' ').skip(3);
        let (root, point) = (fields.next()?, fields.next()?);
        let within = Path::new(own).strip_prefix(root).ok()?;
        // Joined, an empty path would end in a slash.
        let is_root = within.as_os_str().is_empty();
        kind.starts_with("cgroup2 ").then(|| if is_root { point.into() } else { Path::new(point).join(within) })
    })
}

/// Checks whether a group is one that the broker may divide.
fn check(base: &Path) -> Result<(), String> {
    for file in ["", "cgroup.procs", "cgroup.subtree_control"] {
        let path = if file.is_empty() { base.to_owned() } else { base.join(file) };
        access(&path, Access::WRITE_OK)
            .map_err(|error| format!("no cgroup is delegated: {}: {error}", path.display()))?;
    }
    let offered = controllers(base);
    match REQUIRED.iter().find(|required| !offered.contains(**required)) {
        Some(missing) => Err(format!("{} has no controller `{missing}`", base.display())),
        None => Ok(()),
    }
}

/// Checks whether no other process is in a group. A group that is delegated to the broker holds no others.
fn alone(base: &Path) -> Result<(), String> {
    let inside = fs::read_to_string(base.join("cgroup.procs")).unwrap_or_default();
    let own = std::process::id().to_string();
    if inside.lines().eq([own.as_str()]) {
        return Ok(());
    }
    Err(format!("no cgroup is delegated: other processes are in {}", base.display()))
}

fn controllers(path: &Path) -> BTreeSet<String> {
    let offered = fs::read_to_string(path.join("cgroup.controllers")).unwrap_or_default();
    offered.split_whitespace().map(str::to_owned).collect()
}

fn is_populated(path: &Path) -> bool {
    let events = fs::read_to_string(path.join("cgroup.events")).unwrap_or_default();
    events.lines().any(|line| line == "populated 1")
}

/// The group of the broker to which a group belongs, by its name, and whether it is a child's.
fn owner(name: &str) -> Option<(&str, bool)> {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let rest = name.strip_prefix("broker.")?;
    match rest.split_once('.') {
        None => is_number(rest).then_some((name, false)),
        Some((process, child)) => {
            let owner = name.strip_suffix(child)?.strip_suffix('.')?;
            (is_number(process) && is_number(child)).then_some((owner, true))
        }
    }
}

/// Returns the settings of a child's group: each file and its content.
fn settings(limits: &ResourceLimits, offered: &BTreeSet<String>) -> Vec<(&'static str, String)> {
    let all = [
        ("memory", "memory.max", limits.memory().to_string()),
        ("memory", "memory.swap.max", "0".to_owned()),
        ("memory", "memory.oom.group", "1".to_owned()),
        ("pids", "pids.max", limits.processes.saturating_add(BESIDE).to_string()),
        ("cpu", "cpu.max", format!("{} {PERIOD}", u64::from(limits.processors.get()) * PERIOD)),
    ];
    let has = |controller: &str| offered.contains(controller);
    all.into_iter().filter(|(controller, ..)| has(controller)).map(|(_, file, value)| (file, value)).collect()
}

#[cfg(test)]
mod tests;
