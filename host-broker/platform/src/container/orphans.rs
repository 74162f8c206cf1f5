//! The containers of commands that were killed. Nothing else ends them.
//!
//! Each container has labels: the home, the user, the group, and the process that started it. An orphan is a container of
//! the same home and user whose process has ended. A process is known by its number and the
//! time of its start. The number has a meaning in one boot and one namespace.
//!
//! SECURITY: an image can set labels, but only a command line gives a name. So the name must be one that `run` makes. The
//! caller also knows containers whose command runs, because `/proc` can hide a process.
//!
//! Source: proc(5), `pid_namespaces(7)`.

use super::engine::last_line;
use super::{ContainerError, Engine, is_absent};
use crate::Environment;
use model::errors::chain;
use rustix::process::geteuid;
use serde::Deserialize;
use shared::Group;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{self, ErrorKind};
use std::path::Path;

/// The labels.
const HOME: &str = "host-broker.home";
const USER: &str = "host-broker.user";
const GROUP: &str = "host-broker.group";
const PROCESS: &str = "host-broker.process";
const BOOT: &str = "host-broker.boot";
const NAMESPACE: &str = "host-broker.namespace";

/// The template by which an engine describes a container.
const TEMPLATE: &str = "{\"labels\":{{json .Config.Labels}},\"is_running\":{{json .State.Running}}}";
/// The start of the name of a container.
const NAME: &str = "broker-";
/// The number of random characters at the end of its name.
const SUFFIX: usize = 8;

/// The owner of a container: a process of this user that runs an agent of this home.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owner {
    home: String,
    user: String,
    // `1234/5678`: the number, and the time of the start since the boot.
    process: String,
    boot: String,
    namespace: String,
}

/// A container whose process has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Orphan {
    /// Its name.
    pub name: String,
    /// The group of its agent.
    pub group: Group,
    /// Its state.
    pub fate: Fate,
}

/// The state of a container whose process has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fate {
    /// It is there.
    Found,
    /// It was removed.
    Removed,
    /// It could not be removed, for this reason. Its agent may work.
    Stays(String),
    /// It may be another container: for this reason, the engine did not describe it or did not remove it.
    Unknown(String),
}

/// A container, as an engine describes it.
#[derive(Debug, Deserialize)]
struct Described {
    labels: Option<BTreeMap<String, String>>,
    is_running: bool,
}

/// A container to be removed.
#[derive(Debug)]
struct Candidate {
    id: String,
    // `None` if the engine did not describe it.
    removal: Option<Removal>,
    orphan: Orphan,
}

/// How an orphan is removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Removal {
    /// It is ended first.
    Forced,
    /// Only if it does not run. Its volumes stay: it can be the container of another machine.
    IfEnded,
}

impl Owner {
    /// This process, for an agent of this home.
    ///
    /// # Errors
    /// The home or `/proc` cannot be read.
    pub fn of_home(home: &Path) -> io::Result<Self> {
        let id = std::process::id();
        let started = started(id)?.ok_or_else(|| io::Error::other("the start of this process is unknown"))?;
        Ok(Self {
            home: home.canonicalize()?.display().to_string(),
            user: geteuid().as_raw().to_string(),
            process: format!("{id}/{started}"),
            boot: crate::boot::id()?,
            namespace: std::fs::read_link("/proc/self/ns/pid")?.display().to_string(),
        })
    }

    /// Returns the labels of a container of this owner, as options of an engine.
    pub(super) fn options(&self, group: &str) -> Vec<OsString> {
        let labels = [
            (HOME, self.home.as_str()),
            (USER, &self.user),
            (GROUP, group),
            (PROCESS, &self.process),
            (BOOT, &self.boot),
            (NAMESPACE, &self.namespace),
        ];
        labels.into_iter().flat_map(|(name, value)| ["--label".into(), format!("{name}={value}").into()]).collect()
    }

    /// Returns how a container of this group is removed; `None` if it is none of this home and user, or if its process runs
    /// or cannot be seen. `look` returns the start of the process of a number.
    fn removal(
        &self,
        group: &Group,
        Described { labels, is_running }: &Described,
        look: impl Fn(u32) -> io::Result<Option<u64>>,
    ) -> Option<Removal> {
        let labels = labels.as_ref()?;
        let label = |name: &str| labels.get(name).map(String::as_str);
        if label(HOME)? != self.home || label(USER)? != self.user || label(GROUP)? != group.as_str() {
            return None;
        }
        let (id, began) = label(PROCESS)?.split_once('/')?;
        if label(BOOT)? != self.boot {
            // The machine was started again since then. Or the container is that of another machine with the same engine.
            return (!is_running).then_some(Removal::IfEnded);
        }
        if label(NAMESPACE)? != self.namespace {
            return None;
        }
        let (id, began) = (id.parse().ok()?, began.parse().ok()?);
        let has_ended = look(id).ok()? != Some(began);
        has_ended.then_some(Removal::Forced)
    }
}

impl Engine {
    /// Finds the containers of this home and user whose process has ended, and changes none. `owner` is this process.
    /// `runs` says of a name whether the command of that container runs; `None` if only its process can tell.
    ///
    /// # Errors
    /// [`ContainerError`]: the engine does not list its containers.
    pub async fn orphans(
        self,
        outer: &Environment,
        owner: &Owner,
        runs: impl Fn(&str) -> Option<bool>,
    ) -> Result<Vec<Orphan>, ContainerError> {
        let candidates = self.candidates(outer, owner, runs).await?;
        Ok(candidates.into_iter().map(|candidate| candidate.orphan).collect())
    }

    /// Finds the same containers, and removes them. A fault of one does not keep the others.
    ///
    /// # Errors
    /// [`ContainerError`]: the engine does not list its containers. None was removed.
    pub async fn remove_orphans(
        self,
        outer: &Environment,
        owner: &Owner,
        runs: impl Fn(&str) -> Option<bool>,
    ) -> Result<Vec<Orphan>, ContainerError> {
        let mut orphans = Vec::new();
        for Candidate { id, removal, mut orphan } in self.candidates(outer, owner, runs).await? {
            if let Some(removal) = removal {
                orphan.fate = self.removed(outer, &id, removal).await;
            }
            orphans.push(orphan);
        }
        Ok(orphans)
    }

    async fn candidates(
        self,
        outer: &Environment,
        owner: &Owner,
        runs: impl Fn(&str) -> Option<bool>,
    ) -> Result<Vec<Candidate>, ContainerError> {
        let filter = format!("label={HOME}");
        let list = ["ps", "--all", "--no-trunc", "--filter", &filter, "--format", "{{.ID}} {{.Names}}"];
        let listed = self.done(outer, &list).await?;
        let listed = String::from_utf8_lossy(&listed).into_owned();
        let mut candidates = Vec::new();
        for (id, name) in listed.lines().filter_map(|line| line.trim().split_once(' ')) {
            let Some(group) = group_of(name).filter(|_| id.bytes().all(|b| b.is_ascii_hexdigit())) else { continue };
            let runs = runs(name);
            if runs == Some(true) {
                continue;
            }
            // SECURITY: `/proc` can hide a process, so the caller knows better.
            let look = |id: u32| if runs == Some(false) { Ok(None) } else { started(id) };
            let (removal, fate) = match self.described(outer, id).await {
                // It has ended by now.
                Ok(None) => continue,
                Ok(Some(described)) => match owner.removal(&group, &described, look) {
                    Some(removal) => (Some(removal), Fate::Found),
                    None => continue,
                },
                Err(fault) => (None, Fate::Unknown(fault)),
            };
            let orphan = Orphan { name: name.to_owned(), group, fate };
            candidates.push(Candidate { id: id.to_owned(), removal, orphan });
        }
        Ok(candidates)
    }

    /// Returns the description of a container; `None` if it is gone.
    async fn described(self, outer: &Environment, id: &str) -> Result<Option<Described>, String> {
        let said = self.asked(outer, &["container", "inspect", "--format", TEMPLATE, id]).await;
        let said = said.map_err(|error| chain(&error))?;
        if said.status.success() {
            let described = serde_json::from_slice(&said.stdout);
            return described.map(Some).map_err(|error| format!("its description cannot be read: {error}"));
        }
        if is_absent(&said.stderr) { Ok(None) } else { Err(last_line(&said.stderr)) }
    }

    /// Removes a container, and returns its state afterwards.
    async fn removed(self, outer: &Environment, id: &str, removal: Removal) -> Fate {
        let words = match removal {
            Removal::Forced => vec!["rm", "--force", "--volumes", id],
            Removal::IfEnded => vec!["rm", id],
        };
        let fault = match self.asked(outer, &words).await {
            Ok(said) if said.status.success() || is_absent(&said.stderr) => return Fate::Removed,
            Ok(said) => last_line(&said.stderr),
            Err(error) => chain(&error),
        };
        match removal {
            Removal::Forced => Fate::Stays(fault),
            Removal::IfEnded => Fate::Unknown(fault),
        }
    }
}

/// Returns the group in the name of a container; `None` if `run` makes no such name.
fn group_of(name: &str) -> Option<Group> {
    let (group, suffix) = name.strip_prefix(NAME)?.rsplit_once('-')?;
    let is_random = suffix.len() == SUFFIX && suffix.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
    group.parse().ok().filter(|_| is_random)
}

/// Returns the time at which the process of this number started, in ticks since the boot; `None` if it has ended.
fn started(id: u32) -> io::Result<Option<u64>> {
    let stat = match std::fs::read(format!("/proc/{id}/stat")) {
        Ok(stat) => stat,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        // It ended while the file was read.
        Err(error) if error.raw_os_error() == Some(libc::ESRCH) => return Ok(None),
        Err(error) => return Err(error),
    };
    start_of(&String::from_utf8_lossy(&stat))
}

/// Reads the start out of a process's state; `None` if the process only waits for its parent.
fn start_of(stat: &str) -> io::Result<Option<u64>> {
    let fields = || {
        // The name of the program can hold spaces and brackets. The state is field 3, and the start is field 22.
        let (_, rest) = stat.rsplit_once(") ")?;
        let mut fields = rest.split_whitespace();
        let state = fields.next()?;
        let ticks = fields.nth(18)?.parse::<u64>().ok()?;
        Some((state, ticks))
    };
    let (state, ticks) = fields().ok_or_else(|| io::Error::other("the state of a process cannot be read"))?;
    Ok((!["Z", "X"].contains(&state)).then_some(ticks))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner() -> Owner {
        Owner {
            home: "/srv/broker".to_owned(),
            user: "1000".to_owned(),
            process: "77/900".to_owned(),
            boot: "0123".to_owned(),
            namespace: "pid:[4026531836]".to_owned(),
        }
    }

    fn developer() -> Group {
        "developer".parse().unwrap()
    }

    /// A running container of this owner, with one of its labels replaced.
    fn container(of: &Owner, (name, value): (&str, &str)) -> Described {
        let options = of.options("developer");
        let labels = options.iter().filter_map(|word| word.to_str()?.split_once('='));
        let mut labels: BTreeMap<String, String> =
            labels.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        labels.insert(name.to_owned(), value.to_owned());
        Described { labels: Some(labels), is_running: true }
    }

    /// Attack: see
    /// `the_container_of_a_killed_command_is_named_by_doctor_and_removed_by_the_next_run`.
    #[test]
    fn only_a_container_of_this_home_and_user_whose_process_has_ended_is_removed() {
        let own = owner();
        let starts = |id: u32| Ok((id == 77).then_some(900));
        let removal = |name: &str, value: &str| own.removal(&developer(), &container(&own, (name, value)), starts);
        assert_eq!(removal(PROCESS, "77/900"), None, "its process runs");
        for ended in ["76/900", "77/899"] {
            assert_eq!(removal(PROCESS, ended), Some(Removal::Forced), "{ended}");
        }
        let ended = || container(&own, (PROCESS, "76/900"));
        let of = |name: &str, value: &str| {
            let mut container = ended();
            container.labels.as_mut().unwrap().insert(name.to_owned(), value.to_owned());
            own.removal(&developer(), &container, starts)
        };
        for (name, other) in
            [(HOME, "/srv/other"), (USER, "1001"), (GROUP, "security"), (NAMESPACE, "pid:[1]"), (PROCESS, "none")]
        {
            assert_eq!(of(name, other), None, "{name}");
        }
        assert_eq!(of(BOOT, "4567"), None, "the container of another machine runs");
        let mut before = container(&own, (BOOT, "4567"));
        before.is_running = false;
        assert_eq!(own.removal(&developer(), &before, starts), Some(Removal::IfEnded));
        for name in [HOME, USER, GROUP, PROCESS, BOOT, NAMESPACE] {
            let mut few = ended();
            few.labels.as_mut().unwrap().remove(name);
            assert_eq!(own.removal(&developer(), &few, starts), None, "without {name}");
        }
        let unknown = |_| Err(io::Error::other("no"));
        assert_eq!(own.removal(&developer(), &ended(), unknown), None, "a process that cannot be seen");
    }

    /// Attack: see
    /// `the_container_of_a_killed_command_is_named_by_doctor_and_removed_by_the_next_run`.
    #[test]
    fn only_a_name_that_run_makes_is_one_of_a_container() {
        assert_eq!(group_of("broker-developer-0123abcd"), Some(developer()));
        assert_eq!(group_of("broker-a-b-0123abcd").unwrap().as_str(), "a-b");
        for other in [
            "database",
            "developer-0123abcd",
            "broker-0123abcd",
            "broker--0123abcd",
            "broker-developer-0123",
            "broker-developer-0123ABCD",
            "broker-Developer-0123abcd",
            "broker-developer-0123abcd,other",
        ] {
            assert_eq!(group_of(other), None, "{other}");
        }
    }

    #[test]
    fn a_process_is_known_by_its_number_and_its_start() {
        let own = Owner::of_home(Path::new("/")).unwrap();
        assert_eq!(own, Owner::of_home(Path::new("/")).unwrap());
        assert!(own.process.starts_with(&format!("{}/", std::process::id())), "{own:?}");
        let running = container(&own, (GROUP, "developer"));
        assert_eq!(own.removal(&developer(), &running, started), None, "this process runs");
        // No process has this number.
        let ended = container(&own, (PROCESS, "4194305/1"));
        assert_eq!(own.removal(&developer(), &ended, started), Some(Removal::Forced));
    }

    #[test]
    fn the_start_of_a_process_is_found_behind_any_name() {
        let fields = (4..22).map(|field| field.to_string()).collect::<Vec<_>>().join(" ");
        let stat = |name: &str, state: &str| format!("7 ({name}) {state} {fields} 4711 23\n");
        assert_eq!(start_of(&stat("sh", "S")).unwrap(), Some(4711));
        assert_eq!(start_of(&stat("a) Z 1 (b", "R")).unwrap(), Some(4711));
        assert_eq!(start_of(&stat("sh", "Z")).unwrap(), None);
        start_of("7 (sh) S 1").unwrap_err();
    }
}
