//! The sandbox of an agent, on the terminal of the command that starts it.
//!
//! The agent sees the system's programs, a home directory of its own and the given mounts. It has no network but the
//! given [hosts](crate::egress), no privilege, and no way to the keyrings or to the input of the terminal (`confined`). Its
//! processes end with the command. Unlike the sandbox of a [provider](crate::sandbox), it has no resource limits, and its
//! home is where it keeps its own state.
//!
//! ```text
//! run ─► bwrap (no environment; options through a descriptor) ─► the starter ─► the program
//! ```
//! The starter is the first program in the sandbox. It gives the program a process group of its own, which has the
//! terminal: a signal of the terminal reaches the program and not bwrap, and a signal of the program to its group reaches
//! nobody outside.

use crate::commands::located;
use crate::confined::{self, Confinement};
use crate::egress::EgressProxy;
use crate::sandbox::{BWRAP, Network, binding, is_system, network_namespace, separation, system};
use crate::terminal::Terminal;
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::io::{FdFlags, fcntl_setfd};
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read as _, Seek as _, Write as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use tokio::signal::unix::{SignalKind, signal};

/// The home directory of the agent inside the sandbox.
pub const HOME: &str = "/home/agent";
/// The user id of the agent inside the sandbox. Many programs refuse to run as root or as nobody.
pub const USER: u32 = 1000;
/// The size of each temporary directory, in bytes. It is memory of the machine.
pub(crate) const TMP_BYTES: &str = "1073741824";
/// A file or directory of the machine at a path of the sandbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mount {
    /// The path on the machine.
    pub from: PathBuf,
    /// The path in the sandbox.
    pub to: PathBuf,
    /// Whether the sandbox can write there.
    pub is_writable: bool,
}

impl Mount {
    /// A path that the sandbox can read at this place.
    pub fn readable(from: impl Into<PathBuf>, to: impl Into<PathBuf>) -> Self {
        Self { from: from.into(), to: to.into(), is_writable: false }
    }

    /// A path that the sandbox can read and write at this place.
    pub fn writable(from: impl Into<PathBuf>, to: impl Into<PathBuf>) -> Self {
        Self { is_writable: true, ..Self::readable(from, to) }
    }
}

/// The sandbox of an agent.
#[derive(Debug, Clone)]
pub struct AgentSandbox {
    /// The host name inside the sandbox.
    pub name: String,
    /// Its network.
    pub network: Network,
    /// Its paths, in this order: a later mount covers an earlier one.
    pub mounts: Vec<Mount>,
    /// The directory in which the program starts.
    pub directory: PathBuf,
    /// Its environment, as a whole.
    pub env: Vec<(OsString, OsString)>,
}

/// Why a program was not run.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// Bubblewrap is not installed.
    #[error("bubblewrap (bwrap) is not installed; install the package `bubblewrap`, version 0.8 or later")]
    NoBubblewrap,
    /// The sandbox could not be made. Bubblewrap has said why.
    #[error("the sandbox was not created, and nothing ran in it")]
    NotCreated,
    /// The system refused something.
    #[error("cannot start the sandbox")]
    System(#[from] io::Error),
}

impl AgentSandbox {
    /// Returns whether the sandbox shows a path of the machine without a mount.
    pub fn shows(path: &Path) -> bool {
        is_system(path)
    }

    /// Returns the command line for a person. Its environment is not part of it.
    pub fn command_line(&self, program: &Path, arguments: &[OsString]) -> Vec<OsString> {
        let mut line = self.launch(Path::new(BWRAP));
        line.extend(self.options());
        line.push("--".into());
        line.push(program.into());
        line.extend_from_slice(arguments);
        line
    }

    /// Returns the command line up to the options of the sandbox itself.
    fn launch(&self, bwrap: &Path) -> Vec<OsString> {
        let mut line: Vec<OsString> = match &self.network {
            Network::Hosts(hosts, this) => [bwrap.into()].into_iter().chain(network_namespace(hosts, this)).collect(),
            Network::None | Network::All => Vec::new(),
        };
        line.push(bwrap.into());
        line
    }

    fn options(&self) -> Vec<OsString> {
        let mut options = separation(&self.name, &USER.to_string());
        if self.network == Network::None {
            options.push("--unshare-net".into());
        }
        options.extend(system(self.network.settings()));
        options.extend(["--dev", "/dev", "--size", TMP_BYTES, "--tmpfs", "/dev/shm"].map(OsString::from));
        options.extend(["--remount-ro", "/dev", "--size", TMP_BYTES, "--tmpfs", "/tmp"].map(OsString::from));
        for Mount { from, to, is_writable } in &self.mounts {
            let [how, from, _] = binding(if *is_writable { "--bind" } else { "--ro-bind" }, from);
            options.extend([how, from, to.into()]);
        }
        options.extend(["--chdir".into(), self.directory.clone().into()]);
        // Last, because the mounts before need a writable root.
        options.extend(["--remount-ro", "/"].map(OsString::from));
        options
    }

    /// Returns a descriptor with the options and the environment, which bwrap reads.
    ///
    /// SECURITY: bwrap runs outside the sandbox, so the environment of the agent must not be its own (`LD_PRELOAD`). And
    /// every user of the machine can read a command line.
    fn prepared(&self) -> io::Result<File> {
        let mut words = vec![OsString::from("--clearenv")];
        for (name, value) in &self.env {
            words.extend(["--setenv".into(), name.clone(), value.clone()]);
        }
        words.extend(self.options());
        // Without the flag, the descriptor stays open in the child.
        let mut file = File::from(memfd_create("sandbox", MemfdFlags::empty())?);
        for word in words {
            file.write_all(word.as_bytes())?;
            file.write_all(b"\0")?;
        }
        file.rewind()?;
        Ok(file)
    }

    /// Runs the program on the terminal of this process, until it ends. Returns its exit code, or 128 and the number of the
    /// signal that ended it. `starter` is the first program in the sandbox, with its arguments before those of the program.
    ///
    /// SIGTERM and SIGHUP end the program at once. Afterwards the terminal is as it was before.
    ///
    /// # Errors
    /// [`StartError`]; the program was not run.
    pub async fn run(&self, starter: &[OsString], program: &Path, arguments: &[OsString]) -> Result<u8, StartError> {
        // SECURITY: not in the PATH of the agent, which it can write to.
        let bwrap = located(Path::new(BWRAP)).ok_or(StartError::NoBubblewrap)?;
        let line = self.launch(&bwrap);
        let (launcher, rest) = line.split_first().ok_or(StartError::NoBubblewrap)?;
        let prepared = self.prepared()?;
        let (mut status, writer) = io::pipe()?;
        fcntl_setfd(&writer, FdFlags::empty()).map_err(io::Error::from)?;
        #[expect(clippy::disallowed_methods, reason = "the one place that starts an agent")]
        let mut command = tokio::process::Command::new(launcher);
        command.args(rest).env_clear().kill_on_drop(true);
        command.args(["--args", &prepared.as_raw_fd().to_string()]);
        command.args(["--json-status-fd", &writer.as_raw_fd().to_string(), "--"]);
        command.args(starter).arg(program).args(arguments);
        let mut proxy = None;
        if let Network::Hosts(hosts, _) = &self.network {
            let (ours, theirs) = EgressProxy::with_input(io::stdin())?;
            command.stdin(Stdio::from(theirs));
            proxy = Some(ours.serve(hosts.clone()));
        }
        // Registered before the start, so no signal of the terminal ends this process alone.
        let mut ignored = (signal(SignalKind::interrupt())?, signal(SignalKind::quit())?);
        let (mut terminate, mut hangup) = (signal(SignalKind::terminate())?, signal(SignalKind::hangup())?);
        let terminal = Terminal::now();
        let mut child = confined::spawn(command, Confinement::Agent)?;
        drop((prepared, writer));
        let _connections = proxy.map(|proxy| {
            let mut tasks = tokio::task::JoinSet::new();
            tasks.spawn(proxy);
            tasks
        });
        let ended = loop {
            tokio::select! {
                ended = child.wait() => break ended,
                _ = ignored.0.recv() => {}
                _ = ignored.1.recv() => {}
                _ = terminate.recv() => drop(child.start_kill()),
                _ = hangup.recv() => drop(child.start_kill()),
            }
        };
        drop(terminal);
        let ended = ended?;
        // Every writer has ended with the sandbox.
        let mut said = String::new();
        status.read_to_string(&mut said).ok();
        // Only of a program that ran does bwrap know the exit code; a signal to bwrap says that it had begun.
        if ended.signal().is_none() && !said.contains("\"exit-code\"") {
            return Err(StartError::NotCreated);
        }
        Ok(code(ended))
    }
}

pub(crate) fn code(ended: ExitStatus) -> u8 {
    let signalled = || ended.signal().map(|signal| signal.saturating_add(128));
    ended.code().or_else(signalled).and_then(|code| u8::try_from(code).ok()).unwrap_or(u8::MAX)
}
