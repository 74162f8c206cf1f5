//! The layout of the broker's home: one directory, mode 0700.

use shared::{Group, Provider};
use std::path::{Path, PathBuf};

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

    /// The keys.
    pub fn keys(&self) -> PathBuf {
        self.0.join("keys")
    }

    /// The control socket.
    pub fn socket(&self) -> PathBuf {
        self.0.join("broker.sock")
    }
}

/// Writes a private file unless it exists, as a whole or not at all. Returns whether it did.
///
/// # Errors
/// The system error; the file is not there then.
pub fn write_new(path: &Path, text: &str) -> Result<bool, std::io::Error> {
    use std::io::Write as _;
    use std::os::unix::fs::OpenOptionsExt as _;
    if path.try_exists()? {
        return Ok(false);
    }
    let beside = path.with_extension("new");
    let open = || std::fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&beside);
    let written = open().and_then(|mut file| file.write_all(text.as_bytes()).and_then(|()| file.sync_all()));
    let named = written.and_then(|()| std::fs::rename(&beside, path));
    if named.is_err() {
        std::fs::remove_file(&beside).ok();
    }
    named.map(|()| true)
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
        assert!(write_new(&path, "one").unwrap());
        assert!(!write_new(&path, "two").unwrap(), "it exists");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "one");
        // Its name is too long to be renamed to, but not that of the file beside it.
        let long = folder.path().join(format!("{}.toml", "b".repeat(251)));
        write_new(&long, "one").unwrap_err();
        let names: Vec<_> = std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(names, ["a.toml"]);
    }
}
