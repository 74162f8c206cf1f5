//! Children kept apart: a namespace in which the broker's home does not exist.
//!
//! A child of the broker has the broker's user, and with it the keys, the ledger and the control socket. Bubblewrap
//! (bwrap(1)) gives it a file system that holds the system's programs, what it was given, and one directory of its own;
//! its own processes, which all die with it; no privilege, and no network unless it was given that.

use crate::effects::commands::Command;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// The program that does it.
pub const BWRAP: &str = "bwrap";
/// Where the child's own directory is, for the child.
const STATE: &str = "/state";
/// How much a child may write into its temporary directory, in bytes.
const TMP_BYTES: &str = "67108864";
/// Of the system's settings only what programs need to start, to resolve names and to trust certificates.
const SETTINGS: [&str; 14] = [
    "/etc/alternatives",
    "/etc/ca-certificates",
    "/etc/hosts",
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
    /// Whether it has the machine's network: all of it, also what listens on loopback.
    pub network: bool,
    /// What it can read beside the system's programs.
    pub readable: Vec<PathBuf>,
    /// What it can also write.
    pub writable: Vec<PathBuf>,
    /// The directory of its own that outlives it. It is the child's `HOME`.
    pub state: PathBuf,
}

impl Room {
    /// The command that runs this one in the room.
    #[must_use]
    pub fn enclose(&self, inner: Command) -> Command {
        let Command { program, args, mut env, stdin, stdout_max, stderr_max, deadline } = inner;
        // SECURITY: as variables, because everybody on the machine can read an argument.
        env.push(("HOME".into(), STATE.into()));
        env.push(("TMPDIR".into(), "/tmp".into()));
        let mut outer = self.walls();
        if program.is_absolute() && !program.starts_with("/usr") {
            outer.extend(binding("--ro-bind", &program));
        }
        // Last, because everything before had to be put there.
        outer.extend(["--remount-ro", "/"].map(OsString::from));
        outer.push("--".into());
        outer.push(program.into());
        outer.extend(args);
        Command { program: BWRAP.into(), args: outer, env, stdin, stdout_max, stderr_max, deadline }
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
        if !self.network {
            walls.push("--unshare-net".into());
        }
        walls.extend(binding("--ro-bind", Path::new("/usr")));
        for directory in PROGRAMS.map(Path::new) {
            match std::fs::read_link(directory) {
                Ok(target) => walls.extend(["--symlink".into(), target.into(), directory.into()]),
                Err(_no_link) => walls.extend(binding("--ro-bind-try", directory)),
            }
        }
        for setting in SETTINGS.map(Path::new) {
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

    /// Everything of this machine that it shows, beside its own directory.
    pub fn shown(&self) -> impl Iterator<Item = &Path> {
        let system = std::iter::once("/usr").chain(PROGRAMS).chain(SETTINGS).map(Path::new);
        let given = self.readable.iter().chain(&self.writable);
        system.filter(|path| path.exists()).chain(given.map(PathBuf::as_path))
    }
}

fn binding(how: &str, path: &Path) -> [OsString; 3] {
    [how.into(), path.into(), path.into()]
}
