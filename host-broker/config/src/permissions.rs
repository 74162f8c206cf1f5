//! Checks who else could change the files that the broker trusts, as sshd's `StrictModes` checks a user's keys.
//!
//! The user of this process or root must own every file and directory, and every directory above up to `/`. No other
//! user may write them. A sticky directory above the home, such as `/tmp`, may be writable: only an owner can replace
//! its entries. The mailboxes, the workspaces and the providers' own data are not judged: others write there.
//!
//! A path is judged as it is written: each directory on the way, each link and the directories of the link. A user who
//! can replace one of them can replace the file.

use crate::channels::Way;
use crate::sinks::Target;
use crate::{Config, ConfigError};
use platform::commands::located;
use platform::home::{Home, quoted};
use provider::child;
use provider::child::{interpreter, started};
use rustix::io::Errno;
use secrets::source::SecretSource;
use std::collections::{BTreeSet, VecDeque};
use std::ffi::OsString;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Component, Path, PathBuf};

const ROOT: u32 = 0;
const GROUP_WRITES: u32 = 0o020;
const OTHERS_WRITE: u32 = 0o002;
const STICKY: u32 = 0o1000;

/// Directories of the home that are judged with everything in them.
const WHOLE: [&str; 4] = ["policy", "keys", "accepted", "segments"];
/// Files and directories of the home that are judged themselves.
const SINGLE: [&str; 8] =
    ["broker.toml", "publication.json", "ledger.db", "ledger.db-wal", "ledger.db-shm", "lock", "ipc", "journals"];

/// Judges the home, the directories above it, and what every home has in it. A home that does not exist passes.
///
/// # Errors
/// [`ConfigError::Foreign`] if the home belongs to another user; [`ConfigError::Unsafe`] with the paths, their modes and
/// the command that mends them; [`ConfigError::Read`].
pub fn check(home: &Home) -> Result<(), ConfigError> {
    let own = rustix::process::geteuid().as_raw();
    check_owner(home, own)?;
    let mut judge = Judge::new(own);
    judge.file(home.path())?;
    for name in SINGLE {
        judge.file(&home.path().join(name))?;
    }
    for name in WHOLE {
        judge.tree(&home.path().join(name))?;
    }
    judge.verdict()
}

/// Judges the files that the configuration names: scripts, keys, rule sets, programs, the absolute paths among their
/// arguments, and what the programs of providers can read.
///
/// # Errors
/// As [`check`].
pub fn check_named(home: &Home, config: &Config) -> Result<(), ConfigError> {
    let mut judge = Judge::new(rustix::process::geteuid().as_raw());
    // The authorities are public, but they decide which server gets the records.
    let authorities = config.store.iter().filter_map(|store| store.authorities.as_deref());
    for path in named(config).chain(authorities) {
        judge.file(&home.path().join(path))?;
    }
    for command in commands(config) {
        let program = started(command).map(Path::new).and_then(located);
        for path in command.first().map(Path::new).and_then(located).iter().chain(&program) {
            judge.file(path)?;
            judge.interpreters(path)?;
        }
    }
    let children: Vec<&child::Settings> = children(config).collect();
    for path in children.iter().flat_map(|child| &child.readable).filter(|path| path.is_absolute()) {
        judge.given(path)?;
    }
    // Data that a program may write is its own, also if an argument names it.
    let is_data = |path: &Path| children.iter().flat_map(|child| &child.writable).any(|data| path.starts_with(data));
    for path in commands(config).flat_map(|command| command.iter().skip(1)).flat_map(|argument| paths_in(argument)) {
        if !is_data(path) {
            judge.given(path)?;
            judge.interpreters(path)?;
        }
    }
    judge.verdict()
}

/// Refuses the home of another user. Root changes no owner there: the daemon of that user would lose its home.
fn check_owner(home: &Home, own: u32) -> Result<(), ConfigError> {
    let owner = match home.path().metadata() {
        Ok(found) => found.uid(),
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(source) => return Err(ConfigError::Read { path: home.path().into(), source }),
    };
    if [ROOT, own].contains(&owner) {
        return Ok(());
    }
    let users = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    Err(ConfigError::Foreign { path: home.path().into(), user: user_name(&users, owner) })
}

/// Returns the user as `sudo -u` takes it: the name in this text of `/etc/passwd`, or the number after `#`.
fn user_name(users: &str, uid: u32) -> String {
    let named = users.lines().find_map(|line| {
        let mut fields = line.split(':');
        let (name, _password, number) = (fields.next()?, fields.next()?, fields.next()?);
        (number.parse::<u32>() == Ok(uid)).then(|| name.to_owned())
    });
    named.unwrap_or_else(|| format!("#{uid}"))
}

/// Returns the files and directories that the configuration names and that an agent must not be given: keys, secrets,
/// scripts, and the workspaces of the groups, which change only after an approval.
pub fn reserved(home: &Home, config: &Config) -> Vec<PathBuf> {
    let files = secrets(config).filter_map(|source| match source {
        SecretSource::File { file } => Some(file.as_path()),
        SecretSource::EnvFile { env_file, .. } => Some(env_file.as_path()),
        SecretSource::Env { .. } | SecretSource::Keyring { .. } | SecretSource::Command { .. } => None,
    });
    let workspaces = config.workspaces().flat_map(|own| own.values().map(PathBuf::as_path));
    named(config).chain(files).chain(workspaces).map(|path| home.path().join(path)).collect()
}

/// Returns the absolute paths in an argument: `/opt/server.py`, `--config=/opt/server.toml`, or those in a line that a
/// shell or `env -S` takes apart.
fn paths_in(argument: &str) -> impl Iterator<Item = &Path> {
    let words = argument.split_whitespace().map(|word| word.trim_matches(['"', '\'', ';', '&', '(', ')']));
    let values = words.map(|word| word.split_once('=').map_or(word, |(_, value)| value));
    [argument].into_iter().chain(values).map(Path::new).filter(|path| path.is_absolute())
}

/// Returns the files that the configuration names; a relative path is one in the home.
fn named(config: &Config) -> impl Iterator<Item = &Path> {
    let keys = config.groups.values().filter_map(|group| group.signing_key_file.as_deref());
    let sets = config.filter.rule_sets.iter().map(|set| set.file.as_path());
    let scripts = config.providers.values().flat_map(|table| table.configured.trusted_files());
    keys.chain(sets).chain(scripts)
}

/// Returns the sources of secrets whose files an agent must not be given, and whose programs the broker starts.
fn secrets(config: &Config) -> impl Iterator<Item = &SecretSource> {
    let vault = config.vault.key.iter().chain(&config.vault.previous);
    config.secrets().map(|secret| secret.source).chain(vault)
}

/// Returns how the programs of providers are started.
fn children(config: &Config) -> impl Iterator<Item = &child::Settings> {
    config.providers.values().filter_map(|table| table.configured.child())
}

/// Returns the commands that the broker starts.
fn commands(config: &Config) -> impl Iterator<Item = &[String]> {
    let providers = children(config).map(|child| &child.command);
    let channels = config.channels.iter().filter_map(|table| match &table.way {
        Way::Command(command) => Some(command),
        Way::Webhook { .. } | Way::Nanoclaw { .. } | Way::Telegram { .. } | Way::Matrix { .. } | Way::Slack { .. } => {
            None
        }
    });
    let sinks = config.sinks.iter().filter_map(|table| match &table.target {
        Target::Command(command) => Some(command),
        Target::Http { .. } | Target::Syslog(_) | Target::Otlp { .. } => None,
    });
    let classifier = config.inspection.classifier.iter().filter_map(|table| table.command.as_ref());
    let helpers = secrets(config).filter_map(|source| match source {
        SecretSource::Command { command } => Some(command),
        SecretSource::Env { .. }
        | SecretSource::File { .. }
        | SecretSource::EnvFile { .. }
        | SecretSource::Keyring { .. } => None,
    });
    providers.chain(channels).chain(sinks).chain(classifier).chain(helpers).map(Vec::as_slice)
}

/// The most interpreters of interpreters that the kernel starts.
const INTERPRETERS_MAX: usize = 5;

/// The most links on the way to a file, as the kernel has it.
const LINKS_MAX: usize = 40;

/// Returns the names in a path, with `..` among them.
fn steps(path: &Path) -> VecDeque<OsString> {
    let named = path.components().filter(|step| matches!(step, Component::Normal(_) | Component::ParentDir));
    named.map(|step| step.as_os_str().to_owned()).collect()
}

/// The judged paths, and the unsafe ones among them.
struct Judge {
    own: u32,
    // Each path, with whether it is only on the way.
    judged: BTreeSet<(PathBuf, bool)>,
    writable: Vec<(PathBuf, u32)>,
    foreign: Vec<(PathBuf, u32)>,
}

impl Judge {
    fn new(own: u32) -> Self {
        Self { own, judged: BTreeSet::new(), writable: Vec::new(), foreign: Vec::new() }
    }

    /// Judges a file or a directory, each link that leads to it, and the directories above all of them. A missing path
    /// passes.
    fn file(&mut self, path: &Path) -> Result<(), ConfigError> {
        match path.metadata() {
            Ok(_) => self.walk(path, false),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            Err(source) => Err(ConfigError::Read { path: path.into(), source }),
        }
    }

    /// Judges what the configuration gives to a program: a device or a socket is no code, and a sticky directory is
    /// judged like one above it.
    fn given(&mut self, path: &Path) -> Result<(), ConfigError> {
        match std::fs::metadata(path) {
            Ok(found) if found.is_file() => self.walk(path, false),
            Ok(found) if found.is_dir() => self.walk(path, true),
            // A file that this user cannot look at, the program cannot read either.
            Ok(_) | Err(_) => Ok(()),
        }
    }

    /// Judges the interpreter in a script's first line, the interpreter of that one, and the programs that `env`
    /// starts.
    fn interpreters(&mut self, script: &Path) -> Result<(), ConfigError> {
        let mut scripts = vec![script.to_owned()];
        for _ in 0..INTERPRETERS_MAX {
            let lines: Vec<_> = scripts.iter().filter_map(|script| interpreter::line(script)).collect();
            scripts.clear();
            for (path, argument) in lines {
                let command: Vec<String> = [path.to_string_lossy().into_owned()].into_iter().chain(argument).collect();
                scripts.extend(started(&command).map(Path::new).and_then(located).filter(|program| *program != path));
                scripts.push(path);
            }
            for program in &scripts {
                self.given(program)?;
            }
        }
        Ok(())
    }

    /// Walks the path as it is written, from link to link.
    fn walk(&mut self, path: &Path, is_above: bool) -> Result<(), ConfigError> {
        let failed = |source| ConfigError::Read { path: path.into(), source };
        let absolute = std::path::absolute(path).map_err(failed)?;
        let mut left = steps(&absolute);
        let (mut place, mut links) = (PathBuf::from("/"), 0);
        self.judge(&place, true).map_err(failed)?;
        while let Some(step) = left.pop_front() {
            if step == ".." {
                place.pop();
                continue;
            }
            let next = place.join(step);
            let found = match next.symlink_metadata() {
                Ok(found) => found,
                // It has been deleted since.
                Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
                Err(error) => return Err(failed(error)),
            };
            if !found.is_symlink() {
                place = next;
                self.judge(&place, is_above || !left.is_empty()).map_err(failed)?;
                continue;
            }
            links += 1;
            if links > LINKS_MAX {
                return Err(failed(Errno::LOOP.into()));
            }
            // The mode of a link says nothing. Its owner can replace it, also in a sticky directory.
            if ![ROOT, self.own].contains(&found.uid()) && self.judged.insert((next.clone(), true)) {
                self.foreign.push((next.clone(), found.uid()));
            }
            let target = std::fs::read_link(&next).map_err(failed)?;
            if target.is_absolute() {
                place = PathBuf::from("/");
            }
            let mut steps = steps(&target);
            steps.append(&mut left);
            left = steps;
        }
        Ok(())
    }

    /// Judges one file or directory that is no link. `is_above` says that it is only on the way.
    fn judge(&mut self, place: &Path, is_above: bool) -> Result<(), std::io::Error> {
        if !self.judged.insert((place.to_owned(), is_above)) {
            return Ok(());
        }
        let found = std::fs::symlink_metadata(place)?;
        let known = |all: &[(PathBuf, u32)]| all.iter().any(|(known, _)| known == place);
        if ![ROOT, self.own].contains(&found.uid()) {
            if !known(&self.foreign) {
                self.foreign.push((place.to_owned(), found.uid()));
            }
        } else if found.mode() & (GROUP_WRITES | OTHERS_WRITE) != 0
            && !(is_above && found.mode() & STICKY != 0)
            && !known(&self.writable)
        {
            self.writable.push((place.to_owned(), found.mode()));
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
                "it belongs to user {owner}, who could change what the broker does; chown {own} {}",
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
    fn home_files_that_others_can_write_are_refused_with_mode_and_remedy() {
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
    fn files_of_another_user_are_refused_and_files_of_root_are_not() {
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

    #[test]
    fn a_command_of_root_on_the_home_of_another_user_is_left_to_that_user() {
        let (_root, home) = made();
        let own = std::fs::metadata(home.path()).unwrap().uid();
        check_owner(&home, own).unwrap();
        check_owner(&Home::at(home.path().join("none")), own).unwrap();
        if own == ROOT {
            std::os::unix::fs::chown(home.path(), Some(54_321), None).unwrap();
            assert!(matches!(check(&home), Err(ConfigError::Foreign { .. })));
        }
        let fault = check_owner(&home, ROOT).unwrap_err().to_string();
        let command = format!("host-broker --home {} …", home.path().display());
        assert!(fault.contains("run the command as that user: sudo -u ") && fault.ends_with(&command), "{fault}");
        assert!(!fault.contains("chown"), "{fault}");
    }

    #[test]
    fn a_user_without_a_name_is_named_by_the_number() {
        let users = "root:x:0:0:root:/root:/bin/sh\n\nada:x:1000:100::/home/ada:/bin/sh\n";
        assert_eq!((user_name(users, 1000), user_name(users, 7)), ("ada".to_owned(), "#7".to_owned()));
        let fault = ConfigError::Foreign { path: "/srv/a b".into(), user: "#7".to_owned() }.to_string();
        assert_eq!(
            fault,
            "/srv/a b belongs to user #7; run the command as that user: sudo -u '#7' host-broker --home '/srv/a b' …"
        );
    }

    fn of_provider(provider: &str) -> Config {
        let text = format!("[providers.own]\nkind = \"bridge\"\n{provider}\n");
        Config::parse(&text, Path::new("/x/broker.toml"), &platform::Environment::new(), crate::KINDS).unwrap()
    }

    fn of_store(store: &str) -> Config {
        let text = format!("[store]\nhost = \"a\"\n{store}\n");
        Config::parse(&text, Path::new("/x/broker.toml"), &platform::Environment::new(), crate::KINDS).unwrap()
    }

    /// Attack: see `the_password_in_the_url_of_the_database_is_a_secret_of_its_own`.
    #[test]
    fn the_url_of_the_store_is_kept_from_agents_and_its_program_and_authorities_from_everybody() {
        let (root, home) = made();
        let folder = root.path().canonicalize().unwrap();
        let (secret, program, authorities) = (folder.join("url"), folder.join("program"), folder.join("ca.pem"));
        for path in [&secret, &program, &authorities] {
            std::fs::write(path, "").unwrap();
            mode(path, 0o700);
        }
        let from_file = of_store(&format!("url = {{ file = {secret:?} }}\nauthorities = {authorities:?}"));
        let from_env_file = of_store(&format!("url = {{ env_file = {secret:?}, name = \"URL\" }}"));
        for config in [&from_file, &from_env_file] {
            assert_eq!(reserved(&home, config), std::slice::from_ref(&secret));
        }
        let from_program = of_store(&format!("url = {{ command = [{program:?}] }}"));
        for (path, config) in [(&authorities, &from_file), (&program, &from_program)] {
            check_named(&home, config).unwrap();
            mode(path, 0o722);
            let fault = check_named(&home, config).unwrap_err().to_string();
            assert!(fault.contains(&path.display().to_string()), "{fault}");
        }
    }

    /// Every place of a program or a secret in a configuration; `{}` is its path.
    fn with_every_source(source: &str) -> Vec<Config> {
        let sink = |rest: &str| format!("[[sinks]]\nname = \"own\"\n{rest}\n");
        let channel = |rest: &str| format!("[[channels]]\nname = \"own\"\n{rest}\n");
        let texts = [
            sink(&format!("kind = \"http\"\nurl = \"https://example.com/\"\nbearer = {source}")),
            sink(&format!("kind = \"otlp\"\nurl = \"https://example.com/\"\nbearer = {source}")),
            channel(&format!("kind = \"telegram\"\nchat_id = 1\nbot_token = {source}")),
            channel(&format!("kind = \"webhook\"\nurl = \"https://example.com/\"\nbearer = {source}")),
            format!("[inspection.classifier]\nurl = \"https://example.com/\"\nmodel = \"small\"\ntoken = {source}\n"),
            format!("[vault]\nkey = {source}\n"),
            format!("[store]\nhost = \"a\"\nurl = {source}\n"),
        ];
        let parse = |text: String| {
            Config::parse(&text, Path::new("/x/broker.toml"), &platform::Environment::new(), crate::KINDS)
                .unwrap_or_else(|error| panic!("{error}: {text}"))
        };
        texts.into_iter().map(parse).collect()
    }

    /// Attack: see `nothing_starts_and_no_command_reads_a_home_that_others_can_write`.
    #[test]
    fn every_secret_is_kept_from_agents_and_every_program_that_prints_one_from_everybody() {
        let (root, home) = made();
        let folder = root.path().canonicalize().unwrap();
        let (secret, program) = (folder.join("secret"), folder.join("program"));
        for path in [&secret, &program] {
            std::fs::write(path, "").unwrap();
            mode(path, 0o700);
        }
        for config in with_every_source(&format!("{{ file = {secret:?} }}")) {
            assert_eq!(reserved(&home, &config), std::slice::from_ref(&secret), "{config:?}");
        }
        let mut programs = with_every_source(&format!("{{ command = [{program:?}] }}"));
        let sink = format!("[[sinks]]\nname = \"own\"\nkind = \"command\"\ncommand = [{program:?}]\n");
        let parsed = Config::parse(&sink, Path::new("/x/broker.toml"), &platform::Environment::new(), crate::KINDS);
        programs.push(parsed.unwrap());
        for config in &programs {
            check_named(&home, config).unwrap();
        }
        mode(&program, 0o722);
        for config in &programs {
            let fault = check_named(&home, config).unwrap_err().to_string();
            assert!(fault.contains(&program.display().to_string()), "{fault}: {config:?}");
        }
    }

    /// Attack (The host): another user changes a script that an interpreter is started with, or the
    /// directory of a link that leads to a program
    /// Defence: the absolute paths among the arguments of each command, `readable` and the program
    /// behind `env` are judged too, and the directories of each link on the way
    #[test]
    fn a_script_that_others_can_write_is_refused_wherever_the_command_names_it() {
        let (root, home) = made();
        let folder = root.path().canonicalize().unwrap().join("x");
        let (script, data) = (folder.join("srv.py"), folder.join("data"));
        std::fs::create_dir_all(&data).unwrap();
        std::fs::write(&script, "").unwrap();
        let own = script.display();
        let named = [
            format!("command = [\"python3\", {script:?}]"),
            format!("command = [\"/usr/bin/env\", \"-S\", \"python3\", \"--script={own}\"]"),
            format!("command = [\"sh\", \"-c\", \"exec '{own}'; true\"]"),
            format!("command = [\"sh\"]\nreadable = [{script:?}]"),
            format!("command = [\"sh\"]\nreadable = [{folder:?}]"),
        ];
        for table in &named {
            check_named(&home, &of_provider(table)).unwrap();
        }
        for (place, bits) in [(&script, 0o666), (&folder, 0o777)] {
            let before = std::fs::metadata(place).unwrap().mode();
            mode(place, bits);
            for table in &named {
                let is_judged = place == &folder || !table.ends_with(&format!("readable = [{folder:?}]"));
                let found = check_named(&home, &of_provider(table));
                let is_named = |fault: ConfigError| fault.to_string().contains(&place.display().to_string());
                assert_eq!(found.is_err_and(is_named), is_judged, "{table}");
            }
            mode(place, before);
        }
        // Data that the program may write, a sticky directory, and a device are no code.
        mode(&data, 0o777);
        for harmless in [
            format!("command = [\"sh\", {data:?}]\nwritable = [{data:?}]"),
            "command = [\"sh\", \"/tmp\", \"/dev/null\", \"/no/such/place\"]".to_owned(),
        ] {
            check_named(&home, &of_provider(&harmless)).unwrap();
        }
        assert!(check_named(&home, &of_provider(&format!("command = [\"sh\", {data:?}]"))).is_err());
    }

    /// Attack (The host): Another user of the host changes the interpreter in the `#!` line of a
    /// script.
    /// Defence: `config::permissions` judges it like the script, also its own interpreter and the
    /// program that `env` starts.
    #[test]
    fn an_interpreter_that_others_can_write_is_refused_like_its_script() {
        let (root, home) = made();
        let folder = root.path().canonicalize().unwrap().join("x");
        std::fs::create_dir(&folder).unwrap();
        let (program, wrapper) = (folder.join("interpreter"), folder.join("wrapper"));
        let by_env = folder.join("by-env");
        std::fs::write(&program, "").unwrap();
        std::fs::write(&wrapper, format!("#! {} -u\n", program.display())).unwrap();
        std::fs::write(&by_env, format!("#!/usr/bin/env -S {} -u\n", program.display())).unwrap();
        let script = folder.join("script");
        std::fs::write(&script, format!("#!{}\n", wrapper.display())).unwrap();
        for path in [&program, &wrapper, &by_env, &script] {
            mode(path, 0o755);
        }
        let commands = [&wrapper, &by_env, &script].map(|path| format!("command = [{path:?}]"));
        let argument = format!("command = [\"sh\", \"-c\", \"exec '{}'\"]", script.display());
        for table in commands.iter().chain([&argument]) {
            check_named(&home, &of_provider(table)).unwrap();
            for bits in [0o775, 0o757] {
                mode(&program, bits);
                let fault = check_named(&home, &of_provider(table)).unwrap_err().to_string();
                assert!(fault.contains(&program.display().to_string()), "{table}: {fault}");
            }
            mode(&program, 0o755);
        }
        std::fs::write(&program, format!("#!{}\n", program.display())).unwrap();
        check_named(&home, &of_provider(&argument)).unwrap();
    }

    /// Attack: see `a_script_that_others_can_write_is_refused_wherever_the_command_names_it`.
    #[test]
    fn the_directories_of_every_link_on_the_way_are_judged() {
        let (root, home) = made();
        let root = root.path().canonicalize().unwrap();
        let (first, second) = (root.join("first"), root.join("second"));
        for folder in [&first, &second] {
            std::fs::create_dir(folder).unwrap();
        }
        std::os::unix::fs::symlink("../second/program", first.join("program")).unwrap();
        std::os::unix::fs::symlink("/usr/bin/env", second.join("program")).unwrap();
        let config = of_provider(&format!("command = [{:?}]", first.join("program")));
        check_named(&home, &config).unwrap();
        for folder in [&first, &second] {
            mode(folder, 0o777);
            let fault = check_named(&home, &config).unwrap_err().to_string();
            assert!(fault.contains(&format!("chmod go-w {}", folder.display())), "{fault}");
            mode(folder, 0o755);
        }
        std::os::unix::fs::symlink("round", root.join("round")).unwrap();
        let round = of_provider(&format!("command = [{:?}]", root.join("round")));
        check_named(&home, &round).unwrap();
    }
}
