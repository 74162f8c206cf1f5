//! Everything that is checked of a backup before anything is written: manifest, keys, files, chain.

use crate::cli::backup::files::{self, Links};
use crate::cli::backup::manifest::{self, LEDGER, Manifest, SEGMENTS, Unchecked};
use crate::cli::backup::verify;
use crate::cli::output::{CliError, Output, Progress};
use secrets::keys::{self, KeyFile};
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{ErrorKind, Read as _};
use std::path::Path;
use store::ledger::export;
use store::{StoreError, at_rest};

/// A backup that passed every check.
pub(super) struct Checked<'a> {
    pub(super) backup: &'a Path,
    /// The directory of the keys.
    pub(super) keys: &'a Path,
    /// The keys that it needs.
    pub(super) keys_needed: Vec<KeyFile>,
    pub(super) manifest: Manifest,
    /// The policy version of its last row, under which the next one is written.
    pub(super) policy_version: String,
}

/// Checks a backup.
///
/// # Errors
/// [`CliError`] with the first fault.
pub(super) fn check<'a>((backup, keys): (&'a Path, &'a Path), output: Output) -> Result<Checked<'a>, CliError> {
    let unchecked = read_manifest(backup)?;
    let keys_needed = unchecked.keys();
    check_keys(backup, keys, &keys_needed)?;
    let ledger_key = keys::ledger_in(keys)?;
    let manifest = unchecked.checked(&ledger_key).ok_or_else(|| {
        CliError::failed(format!(
            "the manifest of {} was changed after the backup: its keyed digest is wrong; use another backup",
            backup.display()
        ))
    })?;
    check_files(backup, &manifest, &mut Progress::new(output))?;
    let verified = verify(backup, output)?;
    let damaged = |what: String| CliError::failed(format!("{what}; use another backup"));
    let (head, expected) = (verified.head, manifest.head);
    if (head.seq, head.hash) != (expected.seq, expected.event_hash) {
        return Err(damaged(format!("the ledger of the backup ends with row {}, not with {}", head.seq, expected.seq)));
    }
    let named: BTreeSet<String> =
        verified.segments.iter().map(|found| format!("{SEGMENTS}/{}", found.name())).collect();
    if named.iter().map(String::as_str).ne(manifest.segments()) {
        return Err(damaged("the segments of the backup are not those that its ledger names".to_owned()));
    }
    let ledger = at_rest(backup)?.ok_or(StoreError::Stored { what: "row" })?;
    let policy_version = export::last(&ledger)?.map_or_else(|| "none".to_owned(), |row| row.policy_version);
    Ok(Checked { backup, keys, keys_needed, manifest, policy_version })
}

fn read_manifest(backup: &Path) -> Result<Unchecked, CliError> {
    let path = backup.join(manifest::NAME);
    let shown = path.display();
    let found = path.symlink_metadata().map_err(|error| {
        if error.kind() == ErrorKind::NotFound {
            return CliError::missing(format!("{} is no backup: it has no {}", backup.display(), manifest::NAME));
        }
        CliError::home(format!("cannot read {shown}: {error}"))
    })?;
    if !found.is_file() || found.len() > manifest::BYTES_MAX {
        return Err(CliError::failed(format!("{shown} is no manifest: it is no regular file, or too long")));
    }
    let mut bytes = Vec::new();
    let read = File::open(&path).and_then(|file| file.take(manifest::BYTES_MAX).read_to_end(&mut bytes));
    read.map_err(|error| CliError::home(format!("cannot read {shown}: {error}")))?;
    Unchecked::parse(&bytes).map_err(|fault| CliError::failed(format!("{shown} cannot be used: {fault}")))
}

/// Checks that each key is there, and is the one that the backup needs.
fn check_keys(backup: &Path, directory: &Path, needed: &[KeyFile]) -> Result<(), CliError> {
    let shown = directory.display();
    let present = keys::present(directory)?;
    let find = |key: &&KeyFile| present.iter().find(|found| found.name == key.name);
    let missing: Vec<String> = needed.iter().filter(|key| find(key).is_none()).map(|key| key.name.clone()).collect();
    if !missing.is_empty() {
        return Err(CliError::home(format!(
            "the backup needs keys that are not in {shown}: {}; put them into {}, or name their directory with --keys DIR",
            missing.iter().map(|name| format!("keys/{name}")).collect::<Vec<_>>().join(", "),
            backup.join("keys").display()
        )));
    }
    let wrong = needed.iter().find(|key| find(key).is_some_and(|found| found.check != key.check));
    match wrong {
        Some(key) => Err(CliError::failed(format!(
            "{} is another key than the one of the backup; name the directory of the right keys with --keys DIR",
            directory.join(&key.name).display()
        ))),
        None => Ok(()),
    }
}

/// Checks each file: it is a regular one, and has the content of the manifest.
fn check_files(backup: &Path, manifest: &Manifest, progress: &mut Progress) -> Result<(), CliError> {
    for expected in &manifest.files {
        let path = expected.path.as_str();
        let shown = backup.join(path);
        let shown = shown.display();
        if let Some(link) = link_on(backup, path) {
            return Err(CliError::failed(format!("{} is a link; a backup has none", backup.join(link).display())));
        }
        let found = files::entry((backup, path), Links::Refused, progress).map_err(|error| {
            if error.kind() == ErrorKind::NotFound {
                return CliError::failed(format!("{shown} is missing; use another backup"));
            }
            CliError::failed(format!("{shown} cannot be read: {error}; use another backup"))
        })?;
        if found != *expected {
            return Err(CliError::failed(format!("{shown} was changed after the backup; use another backup")));
        }
    }
    // SQLite would read its rows from there.
    match ["-wal", "-shm", "-journal"].into_iter().find(|more| backup.join(format!("{LEDGER}{more}")).exists()) {
        Some(more) => Err(CliError::failed(format!("{LEDGER}{more} in the backup belongs to no backup; remove it"))),
        None => Ok(()),
    }
}

/// Returns the first part of a path in the backup that is a link.
fn link_on<'p>(backup: &Path, path: &'p str) -> Option<&'p str> {
    let ends = path.match_indices('/').map(|(at, _)| at).chain([path.len()]);
    let mut parts = ends.filter_map(|end| path.get(..end));
    parts.find(|part| backup.join(part).symlink_metadata().is_ok_and(|found| found.is_symlink()))
}
