//! The container of an agent, which Podman or Docker makes on the terminal of the command that starts it.
//!
//! The agent sees the programs of an image, a home directory of its own and the given mounts. It has no network, no
//! privilege, and limits of memory, processes and processors. The container ends with the command, and nothing of it is
//! left over. Only a command that is killed leaves it; a later command then removes it (`orphans`).
//!
//! ```text
//! run ─► podman or docker (its own environment; that of the agent through a descriptor) ─► the starter ─► the program
//! ```
//! The starter confines the program, and is the first process of the container: so the program is an ordinary one.

mod engine;
mod limits;
mod orphans;

use crate::Environment;
use crate::agent_sandbox::{Mount, TMP_BYTES, code};
use crate::terminal::Terminal;
pub use engine::{Engine, Image, Users};
use engine::{PATH, last_line};
pub use limits::{Limit, Limits, MemorySize, Unsupported};
pub use orphans::{Fate, Orphan, Owner};
use rustix::fs::{MemfdFlags, memfd_create};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, IsTerminal as _, Seek as _, Write as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use tokio::signal::unix::{SignalKind, signal};

/// The keys that leave a container while it runs. An agent would not expect the usual ones, Ctrl-P and Ctrl-Q.
const DETACH_KEYS: &str = "ctrl-@,ctrl-_,ctrl-@";

/// The container of an agent.
#[derive(Debug, Clone)]
pub struct Container {
    /// The program that makes it.
    pub engine: Engine,
    /// Its image.
    pub image: Image,
    /// Its users.
    pub users: Users,
    /// Its limits.
    pub limits: Limits,
    /// The limits that the engine cannot set on this machine.
    pub unsupported: Unsupported,
    /// The process that runs it, for its labels.
    pub owner: Owner,
    /// Its host name: the group of the agent.
    pub name: String,
    /// Its paths.
    pub mounts: Vec<Mount>,
    /// The directory in which the program starts.
    pub directory: PathBuf,
    /// Its environment, beside that of the image. Without `PATH`, it gets the one of the image.
    pub env: BTreeMap<String, String>,
    /// The directory of programs that comes first in its `PATH`.
    pub programs: PathBuf,
    /// Random characters, so that no other container has its name.
    pub suffix: String,
}

/// The end of a container.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ended {
    /// The exit code of the program, or 128 and the number of the signal that ended it.
    pub code: u8,
    /// Whether nothing of the container is left over.
    pub is_removed: bool,
}

/// The members of an image's configuration that matter here.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct ImageConfig {
    env: Option<Vec<String>>,
    volumes: Option<BTreeMap<String, serde_json::Value>>,
}

/// Why a program was not run.
#[derive(Debug, thiserror::Error)]
pub enum ContainerError {
    /// There is no engine.
    #[error("{0} is not installed in a directory of the system; install it, or leave out --image to use bubblewrap")]
    NoEngine(&'static str),
    /// The engine does not answer.
    #[error("{engine} cannot be used: {why}")]
    Unusable {
        /// The engine.
        engine: Engine,
        /// Its words.
        why: String,
    },
    /// There is no such image.
    #[error(
        "the image {image} is not on this machine, and nothing is downloaded without your word; get it with: {engine} pull {image}"
    )]
    NoImage {
        /// The engine.
        engine: Engine,
        /// The image.
        image: Image,
    },
    /// A path has a character that ends an option of the engine.
    #[error("{} has a comma, a quotation mark or a line break, which the path of a mount cannot have; rename it", .0.display())]
    Path(PathBuf),
    /// A directory that is to be read-only has others below it.
    #[error(
        "{} has the mount point {} below it, which an engine would leave writable; leave out --image, or unmount it",
        .0.display(), .1.display()
    )]
    Nested(PathBuf, PathBuf),
    /// The image has directories that the engine makes writable.
    #[error(
        "the image {0} declares volumes, which Docker makes writable without a limit; use Podman, or another image"
    )]
    Volumes(Image),
    /// A value has several lines.
    #[error("the value of {0} has a line break, which no variable of a container can have; remove it")]
    Value(String),
    /// The system refused something.
    #[error("cannot start the container")]
    System(#[from] io::Error),
    /// The container may still be there.
    #[error("the end of the container is unknown")]
    Lost(#[source] io::Error),
}

impl ContainerError {
    /// Returns whether a container may be left over after this fault.
    pub fn may_leave_a_container(&self) -> bool {
        matches!(self, Self::Lost(_))
    }
}

impl Container {
    /// Returns the command line for a person. Its environment is not part of it.
    ///
    /// # Errors
    /// [`ContainerError::Path`].
    pub fn command_line(
        &self,
        starter: &[OsString],
        program: &Path,
        arguments: &[OsString],
    ) -> Result<Vec<OsString>, ContainerError> {
        let mut line = vec![self.engine.word().into()];
        line.extend(self.options(is_terminal())?);
        line.extend(self.inner(starter, program, arguments));
        Ok(line)
    }

    /// Returns its name, which no other container has.
    pub fn own_name(&self) -> String {
        format!("broker-{}-{}", self.name, self.suffix)
    }

    /// Returns the limits that do not hold, and why, for a person; `None` if all of them hold.
    pub fn missing_limits(&self) -> Option<String> {
        self.limits.missing(&self.unsupported)
    }

    fn options(&self, has_terminal: bool) -> Result<Vec<OsString>, ContainerError> {
        let name = self.own_name();
        let tmp = format!("/tmp:rw,exec,nosuid,nodev,mode=1777,size={TMP_BYTES}");
        let mut options: Vec<OsString> = ["run", "--rm", "--interactive"].map(OsString::from).into();
        if has_terminal {
            options.extend(["--tty", "--detach-keys", DETACH_KEYS].map(OsString::from));
        }
        let fixed = [
            ["--name", &name],
            ["--hostname", &self.name],
            ["--pull", "never"],
            ["--network", "none"],
            ["--cap-drop", "ALL"],
            ["--security-opt", "no-new-privileges"],
            // Where SELinux is on, a container could read none of the mounts. Changed labels would stay on the files.
            ["--security-opt", "label=disable"],
            ["--tmpfs", &tmp],
            ["--shm-size", TMP_BYTES],
            // The engine would store all that the agent shows.
            ["--log-driver", "none"],
            ["--stop-timeout", "0"],
        ];
        options.extend(["--read-only", "--no-healthcheck", "--init=false"].map(OsString::from));
        if self.engine == Engine::Podman {
            // Without them, Podman adds memory without a limit, and the volumes of the image.
            options.extend(["--read-only-tmpfs=false", "--image-volume=ignore"].map(OsString::from));
            // Later versions then make this one read-only, too.
            let shared = format!("/dev/shm:rw,noexec,nosuid,nodev,mode=1777,size={TMP_BYTES}");
            options.extend(["--tmpfs".into(), OsString::from(shared)]);
        }
        options.extend(fixed.into_iter().flatten().map(OsString::from));
        options.extend(self.limits.options(&self.unsupported));
        options.extend(self.users.options());
        for mount in self.mounts.iter().enumerate().filter(|(at, mount)| !self.is_covered(*at, mount)) {
            options.extend(["--mount".into(), mounted(mount.1)?]);
        }
        options.extend(["--workdir".into(), self.directory.clone().into()]);
        Ok(options)
    }

    /// An engine refuses two mounts at one place. In a sandbox, the later one covers the other.
    fn is_covered(&self, at: usize, mount: &Mount) -> bool {
        self.mounts.iter().skip(at.saturating_add(1)).any(|later| later.to == mount.to)
    }

    /// The words after the options. The starter replaces the entry point of the image.
    fn inner(&self, starter: &[OsString], program: &Path, arguments: &[OsString]) -> Vec<OsString> {
        let first = starter.iter().take(1).flat_map(|first| ["--entrypoint".into(), first.clone()]);
        let mut words: Vec<OsString> = first.collect();
        words.push(self.image.to_string().into());
        words.extend(starter.iter().skip(1).cloned());
        words.push(program.into());
        words.extend_from_slice(arguments);
        words
    }

    /// Checks that the engine can keep what is read-only: it does not do so for mount points below.
    fn check_mounts(&self) -> Result<(), ContainerError> {
        // Source: proc_pid_mountinfo(5). The fifth column is the mount point.
        let table = std::fs::read("/proc/self/mountinfo")?;
        let points = table.split(|byte| *byte == b'\n').filter_map(|line| line.split(|byte| *byte == b' ').nth(4));
        let points: Vec<PathBuf> = points.map(decoded).collect();
        for mount in self.mounts.iter().filter(|mount| !mount.is_writable) {
            let from = mount.from.canonicalize()?;
            // A mount of its own at that place covers such a point.
            let is_covered = |rest: &Path| self.mounts.iter().any(|own| own.to == mount.to.join(rest));
            let below = points.iter().filter_map(|point| Some((point, point.strip_prefix(&from).ok()?)));
            let mut below = below.filter(|(_, rest)| !rest.as_os_str().is_empty());
            if let Some((point, _)) = below.find(|(_, rest)| !is_covered(rest)) {
                return Err(ContainerError::Nested(mount.from.clone(), point.clone()));
            }
        }
        Ok(())
    }

    /// Returns the `PATH` of the image.
    async fn path(&self, outer: &Environment) -> Result<String, ContainerError> {
        let image = self.image.to_string();
        let words = ["image", "inspect", "--format", "{{json .Config}}", &image];
        let said = self.engine.asked(outer, &words).await?;
        if !said.status.success() {
            let why = last_line(&said.stderr);
            let is_absent = ["no such image", "no such object", "image not known"];
            let is_absent = is_absent.iter().any(|it| why.to_lowercase().contains(it));
            return Err(if is_absent {
                ContainerError::NoImage { engine: self.engine, image: self.image.clone() }
            } else {
                ContainerError::Unusable { engine: self.engine, why }
            });
        }
        let config: ImageConfig = serde_json::from_slice(&said.stdout).map_err(|error| ContainerError::Unusable {
            engine: self.engine,
            why: format!("its description of the image cannot be read: {error}"),
        })?;
        if self.engine == Engine::Docker && config.volumes.is_some_and(|volumes| !volumes.is_empty()) {
            return Err(ContainerError::Volumes(self.image.clone()));
        }
        let variables = config.env.unwrap_or_default();
        let path = variables.iter().find_map(|variable| variable.strip_prefix("PATH="));
        Ok(path.filter(|path| !path.is_empty()).unwrap_or(PATH).to_owned())
    }

    /// Returns a descriptor with the environment, which the engine reads.
    ///
    /// SECURITY: every user of the machine can read a command line, and the environment of the agent must not be that of
    /// the engine.
    fn prepared(&self, path: &str) -> Result<File, ContainerError> {
        let mut env = self.env.clone();
        env.entry("PATH".to_owned()).or_insert_with(|| format!("{}:{path}", self.programs.display()));
        // Without the flag, the descriptor stays open in the child.
        let mut file = File::from(memfd_create("environment", MemfdFlags::empty()).map_err(io::Error::from)?);
        for (name, value) in env {
            if value.contains(['\n', '\r']) {
                return Err(ContainerError::Value(name));
            }
            writeln!(file, "{name}={value}")?;
        }
        file.rewind()?;
        Ok(file)
    }

    /// Runs the program in a new container on the terminal of this process, until it ends. `starter` is the first program
    /// in the container, with its arguments before those of the program. `outer` is the environment of this process.
    ///
    /// On a terminal, Ctrl-C reaches the program alone. A signal to this process ends the container at once. Afterwards
    /// the terminal is as it was before.
    ///
    /// # Errors
    /// [`ContainerError`]; the program was not run.
    pub async fn run(
        &self,
        outer: &Environment,
        starter: &[OsString],
        program: &Path,
        arguments: &[OsString],
    ) -> Result<Ended, ContainerError> {
        self.check_mounts()?;
        let prepared = self.prepared(&self.path(outer).await?)?;
        let mut command = self.engine.command(outer)?;
        command.args(self.options(is_terminal())?);
        // Not in the command line for a person: the process of a rehearsal has ended when somebody uses that.
        command.args(self.owner.options(&self.name));
        command.args(["--env-file", &format!("/proc/self/fd/{}", prepared.as_raw_fd())]);
        command.args(self.inner(starter, program, arguments));
        // Registered before the start, so no signal ends this process alone.
        let mut signals = [SignalKind::interrupt(), SignalKind::quit(), SignalKind::terminate(), SignalKind::hangup()]
            .map(signal)
            .into_iter()
            .collect::<Result<Vec<_>, _>>()?;
        let terminal = Terminal::now();
        let mut child = command.spawn()?;
        drop(prepared);
        let ended = loop {
            let [interrupt, quit, terminate, hangup] = signals.as_mut_slice() else {
                return Err(ContainerError::Lost(io::Error::other("a signal is missing")));
            };
            tokio::select! {
                ended = child.wait() => break ended,
                _ = interrupt.recv() => {}
                _ = quit.recv() => {}
                _ = terminate.recv() => {}
                _ = hangup.recv() => {}
            }
            // There is no container yet if the engine cannot end it. Without the engine, there will be none.
            let is_over = self.engine.asked(outer, &["kill", "--signal", "KILL", &self.own_name()]).await;
            if !is_over.is_ok_and(|said| said.status.success()) {
                child.start_kill().ok();
            }
        };
        drop(terminal);
        // The engine removes the container at its end, but not if something has ended the engine.
        let (engine, name) = (self.engine, self.own_name());
        let removed = self.engine.asked(outer, &["rm", "--force", "--volumes", &name]).await;
        let is_removed = removed.is_ok_and(|said| said.status.success() || is_absent(&said.stderr));
        if !is_removed {
            tracing::warn!("the container may still run; remove it: {engine} rm --force --volumes {name}");
        }
        ended_as(ended, is_removed)
    }
}

/// Returns the end of a container. Only a container that is removed leaves nothing over.
fn ended_as(ended: io::Result<ExitStatus>, is_removed: bool) -> Result<Ended, ContainerError> {
    match ended {
        Ok(status) => Ok(Ended { code: code(status), is_removed }),
        Err(error) if is_removed => Err(error.into()),
        Err(error) => Err(ContainerError::Lost(error)),
    }
}

/// Returns whether an engine says that there is no such container.
fn is_absent(said: &[u8]) -> bool {
    let said = String::from_utf8_lossy(said).to_lowercase();
    ["no such container", "no container with name"].iter().any(|words| said.contains(words))
}

/// Returns a path of the kernel's table, in which some bytes are written as three octal digits.
fn decoded(written: &[u8]) -> PathBuf {
    let (mut path, mut rest) = (Vec::with_capacity(written.len()), written);
    while let Some((byte, after)) = rest.split_first() {
        let digits = after.get(..3).filter(|_| *byte == b'\\').and_then(|digits| std::str::from_utf8(digits).ok());
        let escaped = digits.and_then(|digits| u8::from_str_radix(digits, 8).ok());
        path.push(escaped.unwrap_or(*byte));
        rest = if escaped.is_some() { after.get(3..).unwrap_or_default() } else { after };
    }
    OsString::from_vec(path).into()
}

/// The option of a mount. Its form has no way to write a comma that holds for both engines.
fn mounted(mount: &Mount) -> Result<OsString, ContainerError> {
    let Mount { from, to, is_writable } = mount;
    let ends = |path: &&PathBuf| path.as_os_str().as_bytes().iter().any(|b| b",\"".contains(b) || b.is_ascii_control());
    if let Some(path) = [from, to].into_iter().find(ends) {
        return Err(ContainerError::Path(path.clone()));
    }
    let parts = [OsStr::new("type=bind,source="), from.as_os_str(), OsStr::new(",target="), to.as_os_str()];
    let mut option: OsString = parts.into_iter().collect();
    if !is_writable {
        option.push(",readonly");
    }
    Ok(option)
}

fn is_terminal() -> bool {
    io::stdin().is_terminal() && io::stdout().is_terminal()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::process::{getegid, geteuid};

    fn container(mounts: Vec<Mount>) -> Container {
        Container {
            engine: Engine::Podman,
            image: "localhost/agent:1".parse().unwrap(),
            users: Users::Kept,
            limits: Limits { memory: "512m".parse().unwrap(), processes: 99, processors: 2 },
            unsupported: Unsupported::default(),
            owner: Owner::of_home(Path::new("/")).unwrap(),
            name: "developer".to_owned(),
            mounts,
            directory: "/workspace/project".into(),
            env: BTreeMap::from([("KEY".to_owned(), "hunter2".to_owned())]),
            programs: "/opt/broker/bin".into(),
            suffix: "0123".to_owned(),
        }
    }

    fn words(container: &Container, has_terminal: bool) -> Vec<String> {
        let options = container.options(has_terminal).unwrap().into_iter();
        options.map(|word| word.into_string().unwrap()).collect()
    }

    #[test]
    fn a_container_has_no_network_no_privilege_and_no_value_on_its_command_line() {
        let mounts = vec![Mount::readable("/srv/ipc", "/workspace/ipc"), Mount::writable("/srv/a:b", "/home/agent")];
        let all = words(&container(mounts), true);
        let has = |pair: [&str; 2]| all.windows(2).any(|two| two == pair);
        for pair in [
            ["--network", "none"],
            ["--cap-drop", "ALL"],
            ["--security-opt", "no-new-privileges"],
            ["--pull", "never"],
            ["--hostname", "developer"],
            ["--userns", "keep-id"],
            ["--workdir", "/workspace/project"],
            ["--memory", "536870912"],
            ["--memory-swap", "536870912"],
            ["--pids-limit", "99"],
            ["--cpus", "2"],
            ["--mount", "type=bind,source=/srv/ipc,target=/workspace/ipc,readonly"],
            ["--mount", "type=bind,source=/srv/a:b,target=/home/agent"],
        ] {
            assert!(has(pair), "{pair:?} is not in {all:?}");
        }
        let (user, group) = (geteuid().as_raw(), getegid().as_raw());
        assert!(has(["--user", &format!("{user}:{group}")]), "{all:?}");
        for word in ["--rm", "--interactive", "--tty", "--read-only"] {
            assert!(all.iter().any(|other| other == word), "{word} is not in {all:?}");
        }
        assert!(!all.iter().any(|word| word.contains("hunter2")), "{all:?}");
        assert!(!words(&container(Vec::new()), false).iter().any(|word| word == "--tty"));
    }

    #[test]
    fn a_container_whose_end_is_unknown_may_be_left_over() {
        let lost = || Err(io::Error::other("no child"));
        assert!(ended_as(lost(), false).unwrap_err().may_leave_a_container());
        assert!(!ended_as(lost(), true).unwrap_err().may_leave_a_container());
        let ended = ended_as(Ok(ExitStatus::default()), false).unwrap();
        assert_eq!(ended, Ended { code: 0, is_removed: false });
    }

    #[test]
    fn a_path_of_the_kernels_table_is_read_with_its_escapes() {
        assert_eq!(decoded(b"/a\\040b\\134c\\011\\012"), Path::new("/a b\\c\t\n"));
        assert_eq!(decoded(b"/a\\9x"), Path::new("/a\\9x"));
    }

    #[test]
    fn a_path_cannot_end_the_option_of_its_mount() {
        for path in ["/a,target=/etc", "/a\"b", "/a\nb"] {
            for mount in [Mount::readable(path, "/a"), Mount::readable("/a", path)] {
                let fault = container(vec![mount]).options(false).unwrap_err();
                assert!(matches!(&fault, ContainerError::Path(at) if at == Path::new(path)), "{fault}");
            }
        }
        // Of two mounts at one place, the later one counts, as in a sandbox.
        let twice = vec![Mount::readable("/a", "/x"), Mount::writable("/b", "/x")];
        let all = words(&container(twice), false);
        let mounts: Vec<_> = all.iter().filter(|word| word.starts_with("type=bind")).collect();
        assert_eq!(mounts, ["type=bind,source=/b,target=/x"]);
    }

    #[test]
    fn the_starter_replaces_the_entry_point_of_the_image() {
        let starter = ["/opt/broker/bin/mcp-shim".into(), "container-start".into()];
        let inner = container(Vec::new()).inner(&starter, Path::new("claude"), &["--version".into()]);
        assert_eq!(
            inner,
            ["--entrypoint", "/opt/broker/bin/mcp-shim", "localhost/agent:1", "container-start", "claude", "--version"]
        );
    }

    #[test]
    fn the_environment_is_in_a_descriptor_and_a_line_break_is_refused() {
        use std::io::Read as _;
        let mut container = container(Vec::new());
        let read = |container: &Container| {
            let mut text = String::new();
            container.prepared("/image/bin").unwrap().read_to_string(&mut text).unwrap();
            text
        };
        assert_eq!(read(&container), "KEY=hunter2\nPATH=/opt/broker/bin:/image/bin\n");
        container.env.insert("PATH".to_owned(), "/given".to_owned());
        assert_eq!(read(&container), "KEY=hunter2\nPATH=/given\n");
        container.env.insert("TWO".to_owned(), "a\nLD_PRELOAD=/x".to_owned());
        assert!(matches!(container.prepared("/bin").unwrap_err(), ContainerError::Value(name) if name == "TWO"));
    }
}
