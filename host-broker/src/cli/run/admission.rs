//! Which paths of the machine a sandbox can have.
//!
//! A path is judged by its place, behind all links. It must not lead to the broker, to the person's own keys, to what the
//! configuration protects, or to sockets of services: each would be a second way out.

use crate::cli::Context;
use config::{Config, permissions};
use platform::agent_sandbox::HOME;
use platform::home::Home;
use platform::lock::Lock;
use std::fs::File;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Component, Path, PathBuf};

/// Directories of the system that no sandbox can have: devices, sockets of services, parts of the kernel.
const CLOSED: [&str; 5] = ["/dev", "/proc", "/run", "/sys", "/var/run"];
/// Directories of the system in which no agent works.
const SYSTEM: [&str; 12] = [
    "/bin",
    "/boot",
    "/etc",
    "/lib",
    "/lib32",
    "/lib64",
    "/opt",
    "/sbin",
    "/usr",
    "/var/lib",
    "/var/log",
    "/var/spool",
];
/// The places of a sandbox that are the broker's.
const OWN: [&str; 4] = ["/etc", HOME, "/opt/broker", "/workspace"];

/// The use of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Use {
    /// The directory on which the agent works.
    Work,
    /// The same, read-only.
    Look,
    /// A path that it can read.
    Read,
    /// A part of the program that it runs.
    Program,
}

/// The paths that are kept from a sandbox.
#[derive(Debug)]
pub(super) struct Admission {
    broker: PathBuf,
    // The home directories of the person.
    person: Vec<PathBuf>,
    // The paths that the configuration protects.
    reserved: Vec<PathBuf>,
    // The programs of the broker.
    programs: Vec<PathBuf>,
    // The directories on which agents work now.
    under_way: Vec<PathBuf>,
}

/// The entry of a sandbox among those that run. It ends with the value.
#[derive(Debug)]
pub(super) struct Entry {
    path: PathBuf,
    _lock: Lock,
}

impl Drop for Entry {
    fn drop(&mut self) {
        std::fs::remove_file(&self.path).ok();
    }
}

impl Admission {
    /// Reads what is kept from sandboxes.
    ///
    /// # Errors
    /// The home directory of the person is not known, or the other sandboxes are not.
    pub(super) fn new(context: &Context, config: &Config, shim: &Path) -> Result<Self, String> {
        let environment = &context.platform.environment;
        let own = nix::unistd::User::from_uid(nix::unistd::geteuid()).ok().flatten().map(|user| user.dir);
        let named = environment.get("HOME").filter(|home| !home.is_empty()).map(PathBuf::from);
        let person: Vec<PathBuf> = own.into_iter().chain(named).map(|home| real(&home)).collect();
        if person.is_empty() {
            return Err("your home directory is not known, so it cannot be kept from the sandbox; set HOME".to_owned());
        }
        let this = std::env::current_exe().map_err(|error| format!("the path of this program is unknown: {error}"))?;
        Ok(Self {
            broker: real(context.home.path()),
            person,
            reserved: permissions::reserved(&context.home, config).iter().map(|path| real(path)).collect(),
            programs: [real(&this), real(shim)].into(),
            under_way: under_way(&context.home)?,
        })
    }

    /// Returns the place of a path behind all links, if a sandbox can have it.
    ///
    /// # Errors
    /// The reason why not, with the next step.
    pub(super) fn admit(&self, path: &Path, how: Use) -> Result<PathBuf, String> {
        let place = path.canonicalize().map_err(|error| format!("{} cannot be used: {error}", path.display()))?;
        match self.fault(&place, how) {
            Some(fault) => Err(format!("{} {fault}", path.display())),
            None => Ok(place),
        }
    }

    fn fault(&self, place: &Path, how: Use) -> Option<String> {
        let overlaps = |other: &Path| other.starts_with(place) || place.starts_with(other);
        if overlaps(&self.broker) {
            return Some(
                "contains or is inside the broker's home, which no sandbox can see; name another path".to_owned(),
            );
        }
        if let Some(protected) = self.reserved.iter().find(|other| overlaps(other)) {
            let protected = protected.display();
            return Some(format!("contains or is {protected}, which broker.toml protects; name another path"));
        }
        for home in &self.person {
            if home.starts_with(place) {
                return Some("contains your home directory with your keys; name a directory inside it".to_owned());
            }
            let first = place.strip_prefix(home).ok().and_then(|rest| rest.components().next());
            let is_hidden = matches!(first, Some(Component::Normal(name)) if name.as_encoded_bytes().starts_with(b"."));
            if is_hidden && how != Use::Program {
                return Some(
                    "is a hidden part of your home directory, which can hold keys; name another path".to_owned(),
                );
            }
        }
        let is_in = |directories: &[&'static str]| {
            directories.iter().copied().find(|directory| place.starts_with(real(Path::new(directory))))
        };
        if let Some(closed) = is_in(&CLOSED) {
            return Some(format!("is inside {closed}, which belongs to the system; name another path"));
        }
        if let Some(system) = is_in(&SYSTEM).filter(|_| how == Use::Work) {
            return Some(format!("is inside {system}, which belongs to the system; name another directory"));
        }
        if let Some(own) = OWN.into_iter().find(|own| Path::new(own).starts_with(place)) {
            return Some(format!("would cover {own} of the sandbox; name a path inside it"));
        }
        if let Some(own) = ["/workspace", HOME, "/opt/broker"].into_iter().find(|own| place.starts_with(own)) {
            return Some(format!("has a place in the sandbox that is the broker's, {own}; move it"));
        }
        let kind = place.metadata().map(|metadata| (metadata.is_dir(), metadata.is_file()));
        match kind {
            Ok((true, _)) => {}
            Ok((false, true)) if matches!(how, Use::Read | Use::Program) => {}
            Ok((false, true)) => return Some("is not a directory".to_owned()),
            Ok((false, false)) => return Some("is neither a file nor a directory".to_owned()),
            Err(error) => return Some(format!("cannot be used: {error}")),
        }
        if how == Use::Work
            && let Some(program) = self.programs.iter().find(|program| program.starts_with(place))
        {
            let program = program.display();
            return Some(format!(
                "contains {program}, which the agent could replace; install the broker elsewhere, or add --read-only"
            ));
        }
        let other = self.under_way.iter().find(|other| place.starts_with(other) && place != other.as_path());
        other.map(|other| {
            let other = other.display();
            format!("is inside {other}, on which another agent works, which could replace it; end that agent, or name {other}")
        })
    }
}

/// Returns the place of a path behind all links, as far as it exists.
fn real(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_absent| path.to_owned())
}

fn directory(home: &Home) -> PathBuf {
    home.path().join("sandboxes").join(".running")
}

/// Returns the name of this process's entry.
fn own_name() -> String {
    std::process::id().to_string()
}

/// The extension of an entry that is being written.
const NEW: &str = "new";

/// Notes that an agent works on this directory, until the entry is dropped.
///
/// # Errors
/// The note cannot be written.
pub(super) fn enter(home: &Home, workspace: &Path) -> Result<Entry, String> {
    use std::os::unix::ffi::OsStrExt as _;
    let directory = directory(home);
    let path = directory.join(own_name());
    let workspace = real(workspace);
    let cannot = |error: std::io::Error| format!("cannot write {}: {error}", path.display());
    platform::home::make_private_directory(&directory).map_err(cannot)?;
    let beside = path.with_extension(NEW);
    let open = std::fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&beside);
    let mut file = open.map_err(cannot)?;
    file.write_all(workspace.as_os_str().as_bytes()).map_err(cannot)?;
    let lock = Lock::take(file).map_err(|errno| cannot(errno.into()))?;
    let lock = lock.ok_or_else(|| format!("{} is in use", path.display()))?;
    // Named only with its lock: an entry without one is removed.
    std::fs::rename(&beside, &path).map_err(cannot)?;
    Ok(Entry { path, _lock: lock })
}

/// Returns the directories on which other agents work now. An entry that nobody holds is of a command that was killed.
fn under_way(home: &Home) -> Result<Vec<PathBuf>, String> {
    use std::os::unix::ffi::OsStringExt as _;
    let directory = directory(home);
    let entries = match std::fs::read_dir(&directory) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(format!("cannot read {}: {error}", directory.display())),
    };
    let mut found = Vec::new();
    let own = directory.join(own_name());
    let is_other = |path: &PathBuf| *path != own && path.extension().is_none_or(|extension| extension != NEW);
    for path in entries.filter_map(Result::ok).map(|entry| entry.path()).filter(is_other) {
        let Ok(file) = File::open(&path) else { continue };
        if let Ok(Some(_nobody)) = Lock::take(file) {
            std::fs::remove_file(&path).ok();
        } else {
            let text = std::fs::read(&path).unwrap_or_default();
            found.push(PathBuf::from(std::ffi::OsString::from_vec(text)));
        }
    }
    Ok(found)
}
