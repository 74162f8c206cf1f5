//! Children kept apart: a namespace in which the broker's home does not exist.
//!
//! A child of the broker has the broker's user, and with it the keys, the ledger and the control socket. Bubblewrap
//! (bwrap(1)) gives it a file system that holds the system's programs, what it was given, and one directory of its own;
//! its own processes, which all die with it; no privilege, and no network unless it was given that, or
//! [a way](crate::effects::egress) to certain hosts. A namespace does not close the kernel's keyrings. The kernel
//! itself refuses them, because the thread that starts rooms has asked for that (`confined`).

use crate::effects::commands::Command;
use crate::effects::egress::{Host, entrance};
use crate::effects::resources::PRLIMIT;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// The program that does it.
pub const BWRAP: &str = "bwrap";
/// How a room complains that could not be made.
const COMPLAINTS: [&str; 2] = ["bwrap: ", entrance::COMPLAINT];
/// The names of hosts, which a room has of its own where it may reach some.
const NAMES: &str = "/etc/hosts";
/// Where the child's own directory is, for the child.
const STATE: &str = "/state";
/// How much a child may write into its temporary directory, in bytes.
const TMP_BYTES: &str = "67108864";
/// Of the system's settings only what programs need to start, to resolve names and to trust certificates.
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
    // Not all of it: beside the certificates lie the keys of this machine's own services.
    "/etc/ssl/certs",
    "/etc/ssl/openssl.cnf",
    "/etc/mime.types",
];
/// What of `/proc` is the machine's and not the room's. Who owns a file there may write to it, and for a broker that
/// runs as root the child's user is its owner, without any privilege.
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
/// Directories of programs, which are links into `/usr` on most systems.
const PROGRAMS: [&str; 5] = ["/bin", "/sbin", "/lib", "/lib32", "/lib64"];

/// A room for a child.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Room {
    /// What the child sees as the name of its machine.
    pub name: String,
    /// What it can reach.
    pub network: Network,
    /// What it can read beside the system's programs.
    pub readable: Vec<PathBuf>,
    /// What it can also write.
    pub writable: Vec<PathBuf>,
    /// The directory of its own that outlives it. It is the child's `HOME`.
    pub state: PathBuf,
}

/// What a room can reach.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Network {
    /// Nothing.
    None,
    /// These hosts. The program is this one, as it was when it was started.
    Hosts(Vec<Host>, PathBuf),
    /// All that the machine can, also what listens on loopback.
    All,
}

impl Room {
    /// The command that runs this one in the room.
    #[must_use]
    pub fn enclose(&self, inner: Command) -> Command {
        let Command { program, args, mut env, stdin, stdout_max, stderr_max, deadline, is_room: _, hosts: _, limits } =
            inner;
        // SECURITY: as variables, because everybody on the machine can read an argument.
        env.push(("HOME".into(), STATE.into()));
        env.push(("TMPDIR".into(), "/tmp".into()));
        let mut outer = self.walls();
        if program.is_absolute() && !program.starts_with("/usr") {
            outer.extend(binding("--ro-bind", &program));
        }
        // Last, because everything before had to be put there.
        outer.extend(["--remount-ro", "/"].map(OsString::from));
        outer.extend(["--", PRLIMIT].map(OsString::from));
        // Here and not around the room: what is outside counts the processes of the broker's user.
        outer.extend(limits.arguments(true));
        outer.push(program.into());
        outer.extend(args);
        let mut hosts = Vec::new();
        if let Network::Hosts(named, this) = &self.network {
            outer.insert(0, BWRAP.into());
            outer.splice(..0, way_out(named, this));
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
            is_room: true,
            hosts,
            limits,
        }
    }

    /// Whether this is what is said where the room could not be made, so that nothing ran in it.
    pub fn complains(stderr: &[u8]) -> bool {
        COMPLAINTS.iter().any(|complaint| stderr.starts_with(complaint.as_bytes()))
    }

    fn walls(&self) -> Vec<OsString> {
        let mut walls: Vec<OsString> = [
            // It and all it has started die with the broker, and when it is stopped: whoever kills the process group
            // reaches the room's first process, as long as that makes no session of its own.
            "--die-with-parent",
            "--unshare-user",
            "--disable-userns",
            "--unshare-ipc",
            "--unshare-pid",
            "--unshare-uts",
            "--unshare-cgroup-try",
            "--uid",
            "65534",
            "--gid",
            "65534",
            "--cap-drop",
            "ALL",
            "--hostname",
        ]
        .map(OsString::from)
        .into();
        walls.push(self.name.clone().into());
        if self.network == Network::None {
            walls.push("--unshare-net".into());
        }
        walls.extend(binding("--ro-bind", Path::new("/usr")));
        for directory in PROGRAMS.map(Path::new) {
            match std::fs::read_link(directory) {
                Ok(target) => walls.extend(["--symlink".into(), target.into(), directory.into()]),
                Err(_no_link) => walls.extend(binding("--ro-bind-try", directory)),
            }
        }
        for setting in self.settings() {
            walls.extend(binding("--ro-bind-try", setting));
        }
        walls.extend(["--proc", "/proc"].map(OsString::from));
        for path in MACHINE.map(Path::new) {
            walls.extend(binding("--ro-bind-try", path));
        }
        walls.extend(["--dev", "/dev", "--size", TMP_BYTES, "--tmpfs", "/dev/shm"].map(OsString::from));
        // What is typed into the broker's own terminal is nobody else's to read or to write.
        walls.extend(["--dev-bind", "/dev/null", "/dev/tty", "--remount-ro", "/dev"].map(OsString::from));
        walls.extend(["--size", TMP_BYTES, "--tmpfs", "/tmp"].map(OsString::from));
        for path in &self.readable {
            walls.extend(binding("--ro-bind", path));
        }
        for path in &self.writable {
            walls.extend(binding("--bind", path));
        }
        walls.extend(["--bind".into(), self.state.clone().into(), STATE.into()]);
        walls.extend(["--chdir".into(), STATE.into()]);
        walls
    }

    fn settings(&self) -> impl Iterator<Item = &Path> {
        let has_own = matches!(self.network, Network::Hosts(..));
        SETTINGS.into_iter().filter(move |setting| !has_own || *setting != NAMES).map(Path::new)
    }

    /// Everything of this machine that it shows, beside its own directory.
    pub fn shown(&self) -> impl Iterator<Item = &Path> {
        let system = std::iter::once("/usr").chain(PROGRAMS).map(Path::new).chain(self.settings());
        let given = self.readable.iter().chain(&self.writable);
        system.filter(|path| path.exists()).chain(given.map(PathBuf::as_path))
    }
}

/// Around the room a network that has nothing but a loopback, in which the entrance may listen at small ports, too. It is no
/// room: nothing but the entrance is started in it, and only bubblewrap can make the loopback. The room makes its own
/// privileges, which are none.
fn way_out(hosts: &[Host], this: &Path) -> Vec<OsString> {
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
    network.chain([this.into()]).chain(entrance::arguments(hosts)).collect()
}

fn binding(how: &str, path: &Path) -> [OsString; 3] {
    [how.into(), path.into(), path.into()]
}
