//! Checks who else could change the files that the broker trusts, as sshd's `StrictModes` checks a user's keys.
//!
//! The user of this process or root must own every file and directory, and every directory above up to `/`. No other
//! user may write them. A sticky directory above the home, such as `/tmp`, may be writable: only an owner can replace
//! its entries. The mailboxes, the workspaces and the providers' own data are not judged: others write there.

use crate::config::home::{Home, quoted};
use crate::config::notify::Way;
use crate::config::provider::{Kind, Reach};
use crate::config::{Config, ConfigError};
use crate::secrets::source::SecretSource;
use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

const ROOT: u32 = 0;
const GROUP_WRITES: u32 = 0o020;
const OTHERS_WRITE: u32 = 0o002;
const STICKY: u32 = 0o1000;

/// Directories of the home that are judged with everything in them.
const WHOLE: [&str; 4] = ["policy", "keys", "accepted", "segments"];
/// Files and directories of the home that are judged themselves.
const SINGLE: [&str; 7] = ["broker.toml", "ledger.db", "ledger.db-wal", "ledger.db-shm", "lock", "ipc", "journals"];

/// Judges the home, the directories above it, and what every home has in it. A home that does not exist passes.
///
/// # Errors
/// [`ConfigError::Unsafe`] with the paths, their modes and the command that mends them; [`ConfigError::Read`].
pub fn check(home: &Home) -> Result<(), ConfigError> {
    let mut judge = Judge::new(rustix::process::geteuid().as_raw());
    judge.file(home.path())?;
    for name in SINGLE {
        judge.file(&home.path().join(name))?;
    }
    for name in WHOLE {
        judge.tree(&home.path().join(name))?;
    }
    judge.verdict()
}

/// Judges the files that the configuration names: scripts, keys, rule sets, and programs by an absolute path.
///
/// # Errors
/// As [`check`].
pub fn check_named(home: &Home, config: &Config) -> Result<(), ConfigError> {
    let mut judge = Judge::new(rustix::process::geteuid().as_raw());
    for path in named(config) {
        judge.file(&home.path().join(path))?;
    }
    judge.verdict()
}

/// Returns the files that the configuration names; a relative path is one in the home.
fn named(config: &Config) -> impl Iterator<Item = &Path> {
    let keys = config.groups.values().filter_map(|group| group.signing_key_file.as_deref());
    let sets = config.filter.rule_sets.iter().map(|set| set.file.as_path());
    let scripts = config.providers.values().filter_map(|table| match &table.kind {
        Kind::Mock(settings) => Some(settings.script.as_path()),
        Kind::Files(_) | Kind::Github(..) | Kind::CloudLogs(_) | Kind::Bridge(..) | Kind::Mcp(..) => None,
    });
    let programs = programs(config).map(Path::new).filter(|path| path.is_absolute());
    keys.chain(sets).chain(scripts).chain(programs)
}

/// Returns the programs that the broker starts.
fn programs(config: &Config) -> impl Iterator<Item = &str> {
    let providers = config.providers.values().filter_map(|table| match &table.kind {
        Kind::Bridge(_, child) | Kind::Mcp(_, Reach::Child(child)) => Some(&child.command),
        Kind::Mcp(_, Reach::Address(_)) | Kind::Mock(_) | Kind::Files(_) | Kind::Github(..) | Kind::CloudLogs(_) => {
            None
        }
    });
    let channels = config.notify.iter().filter_map(|table| match &table.way {
        Way::Command(command) => Some(command),
        Way::Webhook { .. } | Way::Nanoclaw { .. } => None,
    });
    let judge = config.deputy.judge.iter().filter_map(|judge| judge.command.as_ref());
    let secrets = config.providers.values().flat_map(|table| table.kind.secrets().into_values());
    let secrets = secrets.chain(config.vault.key.iter()).chain(&config.vault.previous);
    let secrets = secrets.chain(config.identity.issuers.values().filter_map(|issuer| issuer.secret.as_ref()));
    let helpers = secrets.filter_map(|source| match source {
        SecretSource::Command { command } => Some(command),
        SecretSource::Env { .. }
        | SecretSource::File { .. }
        | SecretSource::EnvFile { .. }
        | SecretSource::Keyring { .. } => None,
    });
    providers.chain(channels).chain(judge).chain(helpers).filter_map(|command| Some(command.first()?.as_str()))
}

/// The judged paths, and the unsafe ones among them.
struct Judge {
    own: u32,
    judged: BTreeSet<PathBuf>,
    writable: Vec<(PathBuf, u32)>,
    foreign: Vec<(PathBuf, u32)>,
}

impl Judge {
    fn new(own: u32) -> Self {
        Self { own, judged: BTreeSet::new(), writable: Vec::new(), foreign: Vec::new() }
    }

    /// Judges a file or a directory, the target of a link, and the directories above. A missing path passes.
    fn file(&mut self, path: &Path) -> Result<(), ConfigError> {
        let failed = |source| ConfigError::Read { path: path.into(), source };
        // SECURITY: the path is judged without links, because a user who can replace a directory can replace its file.
        let real = match path.canonicalize() {
            Ok(real) => real,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(failed(error)),
        };
        for place in real.ancestors() {
            if !self.judged.insert(place.to_owned()) {
                break;
            }
            let found = std::fs::metadata(place).map_err(failed)?;
            let is_above = place != real;
            if ![ROOT, self.own].contains(&found.uid()) {
                self.foreign.push((place.to_owned(), found.uid()));
            } else if found.mode() & (GROUP_WRITES | OTHERS_WRITE) != 0 && !(is_above && found.mode() & STICKY != 0) {
                self.writable.push((place.to_owned(), found.mode()));
            }
        }
        Ok(())
    }

    /// Judges a directory and everything in it.
    fn tree(&mut self, directory: &Path) -> Result<(), ConfigError> {
        self.file(directory)?;
        for path in super::profiles::entries(directory)? {
            if path.symlink_metadata().is_ok_and(|found| found.is_dir()) {
                self.tree(&path)?;
            } else {
                self.file(&path)?;
            }
        }
        Ok(())
    }

    fn verdict(self) -> Result<(), ConfigError> {
        let all = |paths: &[(PathBuf, u32)]| {
            let paths: Vec<String> = paths.iter().map(|(path, _)| quoted(path)).collect();
            paths.join(" ")
        };
        if let Some((path, owner)) = self.foreign.first() {
            let own = self.own;
            let fault = format!(
                "it belongs to user {owner}, who could change what the broker does; run this as user {owner}, or: \
                 chown {own} {}",
                all(&self.foreign)
            );
            return Err(ConfigError::Unsafe { path: path.clone(), fault });
        }
        let Some((path, mode)) = self.writable.first() else { return Ok(()) };
        let (who, letters) = match (mode & GROUP_WRITES != 0, mode & OTHERS_WRITE != 0) {
            (true, false) => ("its group", "g"),
            (false, _) => ("everybody", "o"),
            (true, true) => ("everybody", "go"),
        };
        // One command for all of them.
        let letters = if self.writable.len() > 1 { "go" } else { letters };
        let fault = format!(
            "{who} can write it (mode {:04o}) and so change what the broker does; chmod {letters}-w {}",
            mode & 0o7777,
            all(&self.writable)
        );
        Err(ConfigError::Unsafe { path: path.clone(), fault })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt as _;

    fn mode(path: &Path, mode: u32) {
        std::fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    }

    fn made() -> (tempfile::TempDir, Home) {
        let root = tempfile::tempdir().unwrap();
        let home = Home::at(root.path().join("above/home"));
        for directory in ["policy/profiles", "keys", "accepted", "ipc/developer/tasks"] {
            std::fs::create_dir_all(home.path().join(directory)).unwrap();
        }
        for file in ["broker.toml", "ledger.db", "policy/own.cedar", "policy/profiles/a.toml", "keys/ledger.key"] {
            std::fs::write(home.path().join(file), "").unwrap();
        }
        (root, home)
    }

    #[test]
    fn whatever_of_a_home_others_can_write_is_refused_with_its_mode_and_the_remedy() {
        let (_root, home) = made();
        check(&home).unwrap();
        for name in [
            "",
            "broker.toml",
            "ledger.db",
            "policy",
            "policy/own.cedar",
            "policy/profiles",
            "policy/profiles/a.toml",
            "keys",
            "keys/ledger.key",
            "accepted",
            "ipc",
            "..",
        ] {
            let path = home.path().join(name).canonicalize().unwrap();
            let before = std::fs::metadata(&path).unwrap().mode();
            for (bits, who, letters) in
                [(0o020, "its group", "g"), (0o002, "everybody", "o"), (0o022, "everybody", "go")]
            {
                mode(&path, before | bits);
                let fault = check(&home).unwrap_err().to_string();
                let octal = format!("(mode {:04o})", (before | bits) & 0o7777);
                let remedy = format!("chmod {letters}-w {}", path.display());
                for part in [who, &octal, &remedy] {
                    assert!(fault.contains(part), "{name}: {fault}");
                }
            }
            mode(&path, before);
        }
        check(&home).unwrap();
    }

    #[test]
    fn a_sticky_directory_above_may_be_writable_but_not_the_home_itself() {
        let (root, home) = made();
        let above = root.path().join("above");
        mode(&above, 0o777);
        assert!(check(&home).is_err());
        mode(&above, 0o1777);
        check(&home).unwrap();
        mode(home.path(), 0o1777);
        assert!(check(&home).is_err());
    }

    #[test]
    fn mailboxes_may_be_writable_and_what_a_link_leads_to_may_not() {
        let (root, home) = made();
        mode(&home.path().join("ipc/developer/tasks"), 0o777);
        check(&home).unwrap();
        let elsewhere = root.path().join("elsewhere");
        std::fs::create_dir(&elsewhere).unwrap();
        std::fs::write(elsewhere.join("rules"), "").unwrap();
        std::os::unix::fs::symlink(elsewhere.join("rules"), home.path().join("policy/linked.cedar")).unwrap();
        check(&home).unwrap();
        mode(&elsewhere, 0o770);
        let fault = check(&home).unwrap_err().to_string();
        assert!(fault.contains(&format!("chmod g-w {}", elsewhere.canonicalize().unwrap().display())), "{fault}");
    }

    #[test]
    fn several_faults_are_mended_with_one_command() {
        let (_root, home) = made();
        let paths = ["broker.toml", "policy/own.cedar"].map(|name| home.path().join(name).canonicalize().unwrap());
        for path in &paths {
            mode(path, 0o664);
        }
        let fault = check(&home).unwrap_err().to_string();
        let remedy = format!("chmod go-w {} {}", paths[0].display(), paths[1].display());
        assert!(fault.contains(&remedy), "{fault}");
    }

    #[test]
    fn what_belongs_to_another_user_is_refused_and_what_is_roots_is_not() {
        let (_root, home) = made();
        let judged = |own: u32| {
            let mut judge = Judge::new(own);
            judge.file(&home.config()).unwrap();
            judge.verdict()
        };
        let own = std::fs::metadata(home.path()).unwrap().uid();
        judged(own).unwrap();
        // Judges as another user's process would; root's files are trusted by every user.
        let other = judged(own + 1);
        if own == ROOT {
            other.unwrap();
            std::os::unix::fs::chown(home.config(), Some(54_321), None).unwrap();
            let fault = judged(own).unwrap_err().to_string();
            for part in ["broker.toml", "belongs to user 54321", "chown 0 "] {
                assert!(fault.contains(part), "{fault}");
            }
        } else {
            assert!(other.unwrap_err().to_string().contains(&format!("belongs to user {own}")));
        }
    }
}
