//! `pass`, the standard Unix password manager: a directory of files that GnuPG has encrypted.
//!
//! The names are those of the files, so listing them decrypts nothing. An entry is decrypted by `pass show`. Its first
//! line is the password; a line `user: ada` or `url: …` below is read, too.

use super::gone;
use super::program::Program;
use crate::entry::{Entry, Listing, Login};
use crate::failures::{unavailable, unusable};
use crate::settings::Pass;
use provider::contract::{Execution, Failure};
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use tokio::task::spawn_blocking;
use zeroize::Zeroizing;

/// The most files and directories that are looked at.
const FILES_MAX: usize = 50_000;
/// The most directories in each other.
const DEPTH_MAX: usize = 32;
/// The names of lines with the user name and with the address.
const USERS: [&str; 4] = ["user", "username", "login", "email"];
const URLS: [&str; 3] = ["url", "website", "site"];

/// A store of `pass`.
#[derive(Clone)]
pub(crate) struct PassStore {
    directory: PathBuf,
    gnupg_home: Option<PathBuf>,
    program: Program,
}

impl PassStore {
    pub(super) fn new(settings: &Pass, program: Program) -> Self {
        Self { directory: settings.store.clone(), gnupg_home: settings.gnupg_home.clone(), program }
    }

    pub(super) async fn entries(&self) -> Result<Listing, Failure> {
        let directory = self.directory.clone();
        let listed = spawn_blocking(move || list(&directory)).await;
        listed.unwrap_or_else(|_panic| Err(unavailable("The store of pass cannot be read.")))
    }

    pub(super) async fn login(&self, entry: &Entry, execution: &Execution) -> Result<Login, Failure> {
        let mut variables: Vec<(OsString, OsString)> =
            vec![("PASSWORD_STORE_DIR".into(), self.directory.clone().into())];
        if let Some(home) = &self.gnupg_home {
            variables.push(("GNUPGHOME".into(), home.clone().into()));
        }
        // SECURITY: without the file, `pass` would show the names below a directory. A link could lead elsewhere.
        if !is_own_file(&self.directory, &entry.id) {
            return Err(gone());
        }
        let shown = self.program.output(&["show", "--", &entry.id], variables, execution).await?;
        let text = std::str::from_utf8(&shown).map_err(|_binary| unusable(self.program.name()))?;
        Ok(parse(text))
    }
}

/// Explains the failure of GnuPG to ask for the passphrase of the key, which it cannot do without a terminal.
pub(super) fn explain(error: &str) -> Option<&'static str> {
    error.contains("decryption failed").then_some(
        "GnuPG cannot use the key of the store. An operator unlocks it: as the user of the broker, run `pass show` with \
         any entry.",
    )
}

/// Returns whether the store has the file of this entry, and no part of its path is a link.
fn is_own_file(store: &Path, id: &str) -> bool {
    let file = format!("{id}.gpg");
    let mut path = store.to_path_buf();
    let parts: Vec<&str> = file.split('/').collect();
    parts.iter().enumerate().all(|(index, part)| {
        path.push(part);
        fs::symlink_metadata(&path)
            .is_ok_and(|found| if index + 1 < parts.len() { found.is_dir() } else { found.is_file() })
    })
}

/// Returns the entries of a store, by the names of its files. It follows no links.
fn list(store: &Path) -> Result<Listing, Failure> {
    let unreadable = || unavailable("The store of pass cannot be read.");
    let mut listing = Listing::default();
    let mut seen = 0;
    let mut directories = vec![(store.to_path_buf(), String::new(), 0)];
    while let Some((directory, prefix, depth)) = directories.pop() {
        for found in fs::read_dir(&directory).map_err(|_error| unreadable())? {
            let found = found.map_err(|_error| unreadable())?;
            seen += 1;
            if seen > FILES_MAX || depth > DEPTH_MAX {
                return Err(Failure::InvalidOutput { message: "The store of pass has too many files.".into() });
            }
            let Ok(name) = found.file_name().into_string() else {
                listing.unnamable += 1;
                continue;
            };
            let Ok(kind) = found.file_type() else { continue };
            // Those are of git and of `pass` itself.
            if name.starts_with('.') {
                continue;
            }
            if kind.is_dir() {
                directories.push((found.path(), format!("{prefix}{name}/"), depth + 1));
            } else if let (true, Some(stem)) = (kind.is_file(), name.strip_suffix(".gpg")) {
                let id = format!("{prefix}{stem}");
                listing.add(id.clone(), |name| Entry { id, name, username: None, url: None });
            }
        }
    }
    Ok(listing)
}

/// Parses the text of an entry.
fn parse(text: &str) -> Login {
    let mut lines = text.lines();
    let password = Zeroizing::new(lines.next().unwrap_or_default().to_owned());
    let (mut username, mut url) = (None, None);
    for line in lines {
        let Some((key, value)) = line.split_once(':') else { continue };
        let (key, value) = (key.trim().to_ascii_lowercase(), value.trim());
        let place = match key.as_str() {
            key if USERS.contains(&key) => &mut username,
            key if URLS.contains(&key) => &mut url,
            _ => continue,
        };
        if !value.is_empty() && place.is_none() {
            *place = Some(value.to_owned());
        }
    }
    Login { password, username, url }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn the_first_line_is_the_password_and_known_names_below_are_read() {
        let Login { password, username, url } = parse(
            "hunter2: not a name\nUser: ada\nurl: https://example.com/a:b\nuser: eve\notpauth://totp/x\npin: 1\n",
        );
        assert_eq!(*password, "hunter2: not a name");
        assert_eq!((username.as_deref(), url.as_deref()), (Some("ada"), Some("https://example.com/a:b")));
        assert!(parse("").password.is_empty());
        assert!(parse("\nuser: ada\n").password.is_empty());
    }

    #[test]
    fn names_are_those_of_files_and_no_link_is_followed() {
        let store = tempfile::tempdir().unwrap();
        let outside = tempfile::tempdir().unwrap();
        fs::write(outside.path().join("secret.gpg"), "").unwrap();
        fs::create_dir_all(store.path().join("web/work")).unwrap();
        fs::create_dir_all(store.path().join(".git")).unwrap();
        for file in
            ["bank.gpg", "web/github.com.gpg", "web/work/a b.gpg", ".git/x.gpg", "web/notes.txt", "web/a\nb.gpg"]
        {
            fs::write(store.path().join(file), "").unwrap();
        }
        symlink(outside.path(), store.path().join("linked")).unwrap();
        symlink(outside.path().join("secret.gpg"), store.path().join("one.gpg")).unwrap();
        let listing = list(store.path()).unwrap();
        assert_eq!(listing.unnamable, 1, "a line break is no part of a name");
        let mut names: Vec<String> = listing.entries.into_iter().map(|entry| entry.id).collect();
        names.sort();
        assert_eq!(names, ["bank", "web/github.com", "web/work/a b"]);
        for (id, is_own) in
            [("bank", true), ("web/work/a b", true), ("one", false), ("linked/secret", false), ("web", false)]
        {
            assert_eq!(is_own_file(store.path(), id), is_own, "{id}");
        }
        assert!(matches!(list(&store.path().join("none")), Err(Failure::Unavailable { .. })));
    }
}
