//! A real store of `pass`, with a key of GnuPG that needs no passphrase, for one test.

use crate::skipped;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use tempfile::TempDir;

/// The store, and the directory of GnuPG.
#[derive(Debug)]
pub struct PasswordStore {
    directory: TempDir,
}

impl PasswordStore {
    /// Makes a store with these entries and their texts; `None`, with the reason printed, where `pass` is not installed.
    pub fn new(entries: &[(&str, &str)]) -> Option<Self> {
        if !Path::new("/usr/bin/pass").exists() || !Path::new("/usr/bin/gpg").exists() {
            skipped("pass and gpg are not installed");
            return None;
        }
        // The name is short, because the address of the agent's socket is.
        let directory = tempfile::Builder::new().prefix("pw-").tempdir().unwrap();
        let store = Self { directory };
        std::fs::DirBuilder::new().create(store.gnupg_home()).unwrap();
        std::fs::set_permissions(store.gnupg_home(), std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
        let key = [
            "--batch",
            "--passphrase",
            "",
            "--quick-generate-key",
            "tests@example.com",
            "future-default",
            "-",
            "never",
        ];
        store.run("gpg", &key, b"");
        store.run("pass", &["init", "tests@example.com"], b"");
        for (entry, text) in entries {
            store.insert(entry, text);
        }
        Some(store)
    }

    /// Adds an entry, or replaces it.
    pub fn insert(&self, entry: &str, text: &str) {
        self.insert_bytes(entry, text.as_bytes());
    }

    /// Adds an entry that need be no text.
    pub fn insert_bytes(&self, entry: &str, bytes: &[u8]) {
        self.run("pass", &["insert", "--multiline", "--force", "--", entry], bytes);
    }

    /// The directory of the entries.
    pub fn path(&self) -> PathBuf {
        self.directory.path().join("store")
    }

    /// The directory of GnuPG.
    pub fn gnupg_home(&self) -> PathBuf {
        self.directory.path().join("gnupg")
    }

    /// The table of a provider, with these lines.
    pub fn table(&self, name: &str, lines: &str) -> String {
        let (store, gnupg_home) = (self.path().display().to_string(), self.gnupg_home().display().to_string());
        format!(
            "[providers.{name}]\nkind = \"passwords\"\npass = {{ store = {store:?}, gnupg_home = {gnupg_home:?} }}\n{lines}\n"
        )
    }

    fn run(&self, program: &str, arguments: &[&str], input: &[u8]) {
        use std::io::Write as _;
        let mut command = Command::new(program);
        command.args(arguments).env_clear().env("PATH", "/usr/bin:/bin").env("HOME", self.directory.path());
        command.env("GNUPGHOME", self.gnupg_home()).env("PASSWORD_STORE_DIR", self.path());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        child.stdin.take().unwrap().write_all(input).unwrap();
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{program} {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    }
}

impl Drop for PasswordStore {
    fn drop(&mut self) {
        let mut command = Command::new("gpgconf");
        command.args(["--kill", "all"]).env("GNUPGHOME", self.gnupg_home());
        command.stdout(Stdio::null()).stderr(Stdio::null()).status().ok();
    }
}
