//! The paths of an agent's sandbox, and the environment that fits them.

use super::admission::{Admission, Use};
use crate::cli::Context;
use config::Config;
use platform::Environment;
use platform::agent_sandbox::{HOME, Mount, USER};
use platform::container::Users;
use platform::home::make_private_directory;
use shared::Group;
use shared::mailbox::TASKS;
use std::collections::BTreeMap;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

/// The path of the shim in the sandbox.
pub(super) const SHIM: &str = "/opt/broker/bin/mcp-shim";
/// The directory of the shim, for `PATH`.
pub(super) const PROGRAMS: &str = "/opt/broker/bin";
/// The path of the group's directory, which the shim expects.
const MAILBOX: &str = "/workspace/ipc";
/// The path of the group's files, which the provider `files` changes after an approval.
const FILES: &str = "/workspace/files";
/// The path of the directory on which the agent works.
pub(super) const WORKSPACE: &str = "/workspace/project";
/// The path of the key that signs requests.
const KEY: &str = "/run/broker/signing-key";
/// The path at which Claude Code reads instructions that nobody in the sandbox can change.
const INSTRUCTIONS: &str = "/etc/claude-code/CLAUDE.md";
/// The directories of programs of the system.
const SYSTEM: &str = "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin";
/// The variables of the terminal and the language, which the agent gets.
const TERMINAL: [&str; 8] = ["COLORTERM", "LANG", "LC_ALL", "LC_CTYPE", "NO_COLOR", "TERM", "TERM_PROGRAM", "TZ"];
/// The mounts of a sandbox: those of the operator first, so that none of them covers one of the broker.
#[derive(Debug)]
pub(super) struct Mounts {
    given: Vec<Mount>,
    list: Vec<Mount>,
    // The broker's files for the sandbox.
    own: PathBuf,
    has_key: bool,
    // Whether no file is written.
    is_rehearsed: bool,
}

impl Mounts {
    /// Returns the mounts that every sandbox of the group has. Creates the group's home directory, unless the start is
    /// rehearsed. `users` are those of a container.
    ///
    /// # Errors
    /// A file cannot be created; the text names it.
    pub(super) fn of_group(
        context: &Context,
        config: &Config,
        group: &Group,
        (users, is_rehearsed): (Option<Users>, bool),
    ) -> Result<Self, String> {
        let home = &context.home;
        let own = home.sandbox(group);
        let agent_home = own.join("home");
        if !is_rehearsed {
            make_private_directory(&agent_home).map_err(|error| cannot(&agent_home, &error))?;
        }
        let mailbox = home.mailbox(group);
        let list = vec![
            Mount::writable(agent_home, HOME),
            Mount::readable(&mailbox, MAILBOX),
            Mount::writable(mailbox.join(TASKS), Path::new(MAILBOX).join(TASKS)),
        ];
        // A container and a sandbox can run at the same time, and their users differ.
        let own = own.join(if users.is_some() { "container" } else { "files" });
        let mut mounts = Self { given: Vec::new(), list, own, has_key: false, is_rehearsed };
        let (user, group_of_user) = users.map_or((USER, USER), Users::numbers);
        // The first line of a number counts.
        mounts.file(
            "/etc/passwd",
            &format!("agent:x:{user}:{group_of_user}::{HOME}:/bin/sh\nroot:x:0:0::/root:/usr/sbin/nologin\n"),
        )?;
        mounts.file("/etc/group", &format!("agent:x:{group_of_user}:\nroot:x:0:\n"))?;
        let files =
            config.workspaces().map(|own| own.get(group).cloned().unwrap_or_else(|| context.home.workspace(group)));
        for files in files.filter(|files| files.is_dir()) {
            mounts.list.push(Mount::readable(files, FILES));
        }
        if let Some(key) = config.groups.get(group).and_then(|table| table.signing_key_file.as_ref()) {
            mounts.list.push(Mount::readable(key, KEY));
            mounts.has_key = true;
        }
        let instructions = context.home.path().join("groups").join(group.as_str()).join("CLAUDE.md");
        if instructions.is_file() {
            mounts.list.push(Mount::readable(instructions, INSTRUCTIONS));
        }
        Ok(mounts)
    }

    /// Adds the shim.
    pub(super) fn shim(&mut self, shim: &Path) {
        self.list.push(Mount::readable(shim, SHIM));
    }

    /// Adds the files of the program.
    ///
    /// # Errors
    /// A sandbox must not have one of them; the text says why.
    pub(super) fn program(&mut self, admission: &Admission, mounts: Vec<Mount>) -> Result<(), String> {
        for mount in mounts {
            let place = admission.admit(&mount.from, Use::Program)?;
            self.given.push(Mount { from: place, ..mount });
        }
        Ok(())
    }

    /// Adds the paths that the operator gives. Returns the path of the workspace in the sandbox.
    ///
    /// # Errors
    /// A path does not exist, or a sandbox must not have it; the text says why.
    pub(super) fn given(
        &mut self,
        admission: &Admission,
        workspace: Option<(&Path, bool)>,
        readable: &[PathBuf],
    ) -> Result<Option<PathBuf>, String> {
        for path in readable {
            let place = admission.admit(path, Use::Read).map_err(|fault| format!("--read: {fault}"))?;
            self.given.push(Mount::readable(&place, &place));
        }
        let Some((workspace, is_writable)) = workspace else { return Ok(None) };
        self.list.push(Mount { is_writable, ..Mount::readable(workspace, WORKSPACE) });
        Ok(Some(WORKSPACE.into()))
    }

    /// Adds a file with this text that the sandbox cannot change.
    ///
    /// # Errors
    /// The file cannot be written; the text names it.
    pub(super) fn file(&mut self, place: &str, text: &str) -> Result<(), String> {
        use std::io::Write as _;
        let path = self.own.join(place.trim_start_matches('/'));
        if self.is_rehearsed {
            self.list.push(Mount::readable(path, place));
            return Ok(());
        }
        let folder = path.parent().unwrap_or(&self.own);
        make_private_directory(folder).map_err(|error| cannot(folder, &error))?;
        if std::fs::read_to_string(&path).is_ok_and(|present| present == text) {
            self.list.push(Mount::readable(path, place));
            return Ok(());
        }
        // Renamed into place: another sandbox of the group may have the present file mounted.
        let beside = path.with_extension(format!("{}.new", std::process::id()));
        let open = || std::fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o644).open(&beside);
        let written = open().and_then(|mut file| file.write_all(text.as_bytes()));
        written.and_then(|()| std::fs::rename(&beside, &path)).map_err(|error| cannot(&path, &error))?;
        self.list.push(Mount::readable(path, place));
        Ok(())
    }

    /// Returns the variables that the shim needs for these mounts.
    pub(super) fn variables(&self) -> BTreeMap<String, String> {
        let key = self.has_key.then(|| ("EXT_SIGNING_KEY_FILE".to_owned(), KEY.to_owned()));
        key.into_iter().collect()
    }

    /// Returns the environment of the sandbox. A container has no `directories` of programs, and the `PATH` of its image.
    pub(super) fn environment(
        &self,
        outer: &Environment,
        directories: Option<&[PathBuf]>,
        given: &BTreeMap<String, String>,
    ) -> BTreeMap<String, String> {
        let mut all: BTreeMap<String, String> =
            TERMINAL.iter().filter_map(|name| Some(((*name).to_owned(), outer.get(*name)?.clone()))).collect();
        let own = [("HOME", HOME), ("SHELL", "/bin/sh"), ("TMPDIR", "/tmp"), ("USER", "agent")];
        all.extend(own.map(|(name, value)| (name.to_owned(), value.to_owned())));
        if let Some(directories) = directories {
            let directories = directories.iter().map(|directory| directory.display().to_string());
            let path = [PROGRAMS.to_owned()].into_iter().chain(directories).chain([SYSTEM.to_owned()]);
            all.insert("PATH".to_owned(), path.collect::<Vec<_>>().join(":"));
        }
        all.extend(self.variables());
        all.extend(given.clone());
        all
    }

    /// Returns all mounts.
    pub(super) fn into_list(self) -> Vec<Mount> {
        let mut list = self.given;
        list.extend(self.list);
        list
    }
}

fn cannot(path: &Path, error: &std::io::Error) -> String {
    format!("cannot create {}: {error}", path.display())
}
