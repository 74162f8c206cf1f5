//! The layout of the broker's home: one directory, mode 0700.

use shared::{Group, Provider};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// Returns a path as a word of a shell command: in quotes where it needs them.
pub fn quoted(path: &Path) -> String {
    let text = path.display().to_string();
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+=:,@".contains(c);
    if !text.is_empty() && text.chars().all(plain) { text } else { format!("'{}'", text.replace('\'', r"'\''")) }
}

/// The broker's home directory. A sandbox sees only `ipc/<group>` of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Home(PathBuf);

impl Home {
    /// The home at this directory.
    pub fn at(path: PathBuf) -> Self {
        Self(path)
    }

    /// The directory.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// The configuration.
    pub fn config(&self) -> PathBuf {
        self.0.join("broker.toml")
    }

    /// The directory shared with a group's sandbox.
    pub fn mailbox(&self, group: &Group) -> PathBuf {
        self.0.join("ipc").join(group.as_str())
    }

    /// The operators' policy: rules and, below, profiles.
    pub fn policy(&self) -> PathBuf {
        self.0.join("policy")
    }

    /// The profiles of the groups.
    pub fn profiles(&self) -> PathBuf {
        self.policy().join("profiles")
    }

    /// The policy that another host of the fleet has published, if this host uses it.
    pub fn publication(&self) -> PathBuf {
        self.0.join("publication.json")
    }

    /// A group's profile.
    pub fn profile(&self, group: &Group) -> PathBuf {
        self.profiles().join(format!("{group}.toml"))
    }

    /// A group's files, unless the configuration says that they are elsewhere.
    pub fn workspace(&self, group: &Group) -> PathBuf {
        self.0.join("workspaces").join(group.as_str())
    }

    /// The journal of changes to a group's files.
    pub fn journal(&self, group: &Group) -> PathBuf {
        self.0.join("journals").join(group.as_str())
    }

    /// The accepted definitions of a provider.
    pub fn accepted(&self, provider: &Provider) -> PathBuf {
        self.0.join("accepted").join(format!("{provider}.json"))
    }

    /// The state directory of a provider's program: the only one that it may write to.
    pub fn state(&self, provider: &Provider) -> PathBuf {
        self.0.join("state").join(provider.as_str())
    }

    /// The directory that the sandboxes of a group from [`run`](crate::agent_sandbox) keep: the agent's home directory.
    pub fn sandbox(&self, group: &Group) -> PathBuf {
        self.0.join("sandboxes").join(group.as_str())
    }

    /// The position of a sink: the last row that it has accepted.
    pub fn sink(&self, name: &str) -> PathBuf {
        self.0.join("sinks").join(format!("{name}.json"))
    }

    /// The keys.
    pub fn keys(&self) -> PathBuf {
        self.0.join("keys")
    }

    /// The control socket.
    pub fn socket(&self) -> PathBuf {
        self.0.join("broker.sock")
    }
}

/// The number of files that were written beside others.
static CALLS: AtomicU64 = AtomicU64::new(0);

/// Writes a private file unless it exists, as a whole or not at all. Returns whether it did. Its directory is made, too.
///
/// # Errors
/// The system error; the file is not there then.
pub fn write_new(path: &Path, bytes: &[u8]) -> Result<bool, std::io::Error> {
    if path.try_exists()? {
        return Ok(false);
    }
    let directory = path.parent().unwrap_or(path);
    make_private_directory(directory)?;
    // A rename would replace the file of another process, which may have been the first.
    match named_from(path, bytes, |beside| std::fs::hard_link(beside, path)) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(false),
        Err(error) => Err(error),
        Ok(()) => std::fs::File::open(directory)?.sync_all().map(|()| true),
    }
}

/// Writes a private file, or replaces it, as a whole or not at all.
///
/// # Errors
/// The system error; the file is as before, or the new one.
pub fn replace(path: &Path, bytes: &[u8]) -> Result<(), std::io::Error> {
    named_from(path, bytes, |beside| std::fs::rename(beside, path))?;
    std::fs::File::open(path.parent().unwrap_or(path))?.sync_all()
}

/// Writes a private file beside this one, and gives it its name.
fn named_from(
    path: &Path,
    bytes: &[u8],
    name: impl FnOnce(&Path) -> Result<(), std::io::Error>,
) -> Result<(), std::io::Error> {
    use std::io::Write as _;
    use std::os::unix::fs::OpenOptionsExt as _;
    // No other call uses it, in this process or another.
    let (process, call) = (std::process::id(), CALLS.fetch_add(1, Ordering::Relaxed));
    let beside = path.with_extension(format!("{process}-{call}.new"));
    let open = || std::fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&beside);
    let written = open().and_then(|mut file| file.write_all(bytes).and_then(|()| file.sync_all()));
    let named = written.and_then(|()| name(&beside));
    std::fs::remove_file(&beside).ok();
    named
}

/// Makes a directory that only its owner may enter.
///
/// # Errors
/// The system error.
pub fn make_private_directory(path: &Path) -> Result<(), std::io::Error> {
    use std::os::unix::fs::DirBuilderExt as _;
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_file_is_there_as_a_whole_or_not_at_all() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.toml");
        assert!(write_new(&path, b"one").unwrap());
        assert!(!write_new(&path, b"two").unwrap(), "it exists");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "one");
        replace(&path, b"three").unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "three");
        replace(&folder.path().join("missing/a.toml"), b"one").unwrap_err();
        // The name of the last one is too long, but not that of the file beside it.
        let long = folder.path().join(format!("b.{}", "c".repeat(255)));
        write_new(&long, b"one").unwrap_err();
        let others: Vec<_> = (0..8_u8)
            .map(|number| {
                std::thread::spawn({
                    let path = folder.path().join(format!("{number}.toml"));
                    move || write_new(&path, &[number; 1000]).unwrap()
                })
            })
            .collect();
        assert!(others.into_iter().all(|other| other.join().unwrap()));
        let names: Vec<_> = std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(names.len(), 9, "nothing is left beside them: {names:?}");
    }
}
