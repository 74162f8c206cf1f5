//! `backup`: a consistent copy of a home, also while its daemon runs.

pub(in crate::cli) mod files;
pub(in crate::cli) mod manifest;

use crate::cli::Context;
use crate::cli::edit;
use crate::cli::interrupt;
use crate::cli::output::{CliError, Output, Progress};
use clap::Args;
use files::Links;
use manifest::{CONFIG, DIRECTORIES, Entry, Head, Key, LEDGER, Manifest, SEGMENTS};
use platform::home::quoted;
use platform::lock::Lock;
use rustix::fs::{CWD, RenameFlags};
use rustix::io::Errno;
use secrets::keys::{self, KeyFile};
use serde_json::json;
use shared::numbers::counted;
use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use store::backup::Verified;

/// Copy the home into a new directory, also while the daemon runs.
///
/// The copy has the ledger with its segments, broker.toml, policy/, accepted/ and groups/, as of one moment. The command
/// verifies every row of the copy. The directory gets its name at the end, so an unfinished backup never has it.
///
/// The keys are not in it, because a backup is often kept where others can read it. Keep a copy of keys/ in another
/// place. `restore` needs both.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  host-broker backup /mnt/backup/broker-2026-11-28
  host-broker restore /mnt/backup/broker-2026-11-28 --keys /mnt/safe/keys --home /srv/broker

--json prints {backup, head: {seq, event_hash}, taken_at, files, bytes, keys: [NAME], with_keys, left_out: [NAME]}. \
    left_out names the other files of the home")]
pub struct Backup {
    /// The directory to create.
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    /// Copy the keys, too. A reader of the backup can then read the stored credentials.
    #[arg(long)]
    with_keys: bool,
}

/// The file that marks a directory as an unfinished backup.
const UNFINISHED: &str = "UNFINISHED";
/// The files of a home that the daemon creates again, the keys, and the positions of sinks, which hold for one ledger.
const RECREATED: [&str; 11] = [
    "ledger.db-wal",
    "ledger.db-shm",
    "lock",
    "edit.lock",
    "reserve",
    "broker.sock",
    "ipc",
    "keys",
    "log",
    "sinks",
    "publication.json",
];

impl Backup {
    /// Runs the command.
    ///
    /// # Errors
    /// [`CliError`]; there is no directory of that name then.
    pub fn run(self, context: &Context) -> Result<(), CliError> {
        // It says where there is no ledger, or one of another version.
        context.ledger()?;
        let target = self.target(context)?;
        interrupt::watch(context)?;
        let draft = Draft::begin(&target)?;
        let filled = fill(context, &draft.path, self.with_keys);
        let manifest = match filled.and_then(|manifest| draft.name(&target).map(|()| manifest)) {
            Ok(manifest) => manifest,
            Err(error) => {
                draft.remove();
                return Err(interrupt::instead_of(error).and_so("no backup was made"));
            }
        };
        report(context.output, &target, &manifest, &left_out(context));
        Ok(())
    }

    /// Returns the path of the backup, if one can be made there.
    fn target(&self, context: &Context) -> Result<PathBuf, CliError> {
        let shown = self.directory.display();
        let cannot = |error: std::io::Error| CliError::usage(format!("cannot make a backup at {shown}: {error}"));
        if self.directory.symlink_metadata().is_ok() {
            return Err(CliError::usage(format!("{shown} exists already; name a directory that does not exist")));
        }
        let path = std::path::absolute(&self.directory).map_err(cannot)?;
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
            return Err(CliError::usage(format!("{shown} is no name for a directory")));
        };
        let parent = parent.canonicalize().map_err(cannot)?;
        let home = context.home.path().canonicalize().map_err(cannot)?;
        // A sandbox reads its part of the home, and a backup in the home is lost with it.
        if parent.starts_with(&home) {
            return Err(CliError::usage(format!("{shown} is in the home; name a directory outside of it")));
        }
        Ok(parent.join(name))
    }
}

/// A backup that is being made, under a name of its own.
struct Draft {
    path: PathBuf,
    // Another backup to the same place waits for nothing: it is refused.
    _lock: Lock,
}

impl Draft {
    /// Makes the directory. One that an interrupted backup has left is removed first.
    fn begin(target: &Path) -> Result<Self, CliError> {
        let mut name = target.file_name().map(OsString::from).unwrap_or_default();
        name.push(".partial");
        let path = target.with_file_name(name);
        let cannot = |error: &dyn std::fmt::Display| CliError::home(format!("cannot make {}: {error}", path.display()));
        for _ in 0..2 {
            match make_one(&path) {
                Ok(()) => {
                    let lock = File::open(&path).map_err(|error| cannot(&error))?;
                    let lock = Lock::take(lock).map_err(|errno| cannot(&std::io::Error::from(errno)))?;
                    let lock = lock.ok_or_else(|| busy(&path))?;
                    let mark = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path.join(UNFINISHED));
                    mark.map_err(|error| cannot(&error))?;
                    return Ok(Self { path, _lock: lock });
                }
                Err(error) if error.kind() == ErrorKind::AlreadyExists => clear(&path)?,
                Err(error) => return Err(cannot(&error)),
            }
        }
        Err(busy(&path))
    }

    /// Gives it its final name, which lasts when this returns.
    fn name(&self, target: &Path) -> Result<(), CliError> {
        let failed = |error: std::io::Error| {
            CliError::home(format!("cannot rename {} to {}: {error}", self.path.display(), target.display()))
        };
        std::fs::remove_file(self.path.join(UNFINISHED)).map_err(failed)?;
        File::open(&self.path).and_then(|directory| directory.sync_all()).map_err(failed)?;
        match rustix::fs::renameat_with(CWD, &self.path, CWD, target, RenameFlags::NOREPLACE) {
            // Not every file system can. A directory that is not empty is not replaced in any case.
            Err(Errno::INVAL | Errno::NOSYS) if target.symlink_metadata().is_err() => {
                std::fs::rename(&self.path, target).map_err(failed)?;
            }
            renamed => renamed.map_err(|errno| failed(errno.into()))?,
        }
        let parent = target.parent().unwrap_or(target);
        File::open(parent).and_then(|directory| directory.sync_all()).map_err(failed)
    }

    fn remove(self) {
        std::fs::remove_dir_all(&self.path).ok();
    }
}

fn make_one(path: &Path) -> Result<(), std::io::Error> {
    use std::os::unix::fs::DirBuilderExt as _;
    std::fs::DirBuilder::new().mode(0o700).create(path)
}

fn busy(path: &Path) -> CliError {
    CliError::refused(format!("another backup is being made at {}", path.display()))
}

/// Removes what an interrupted backup has left.
fn clear(path: &Path) -> Result<(), CliError> {
    let cannot = |error: std::io::Error| CliError::home(format!("cannot remove {}: {error}", path.display()));
    // The mark goes just before the name comes.
    let is_marked = || [UNFINISHED, manifest::NAME].iter().any(|name| path.join(name).exists());
    let is_ours = path.symlink_metadata().is_ok_and(|found| found.is_dir()) && is_marked();
    let is_new = || path.read_dir().is_ok_and(|mut entries| entries.next().is_none());
    if !is_ours && !is_new() {
        let path = path.display();
        return Err(CliError::usage(format!("{path} exists and is no unfinished backup; move it away")));
    }
    let lock = Lock::take(File::open(path).map_err(cannot)?).map_err(|errno| cannot(errno.into()))?;
    let _lock = lock.ok_or_else(|| busy(path))?;
    std::fs::remove_dir_all(path).map_err(cannot)
}

/// Copies everything, verifies it, and writes the manifest last.
fn fill(context: &Context, draft: &Path, with_keys: bool) -> Result<Manifest, CliError> {
    let (home, output) = (context.home.path(), context.output);
    let mut progress = Progress::new(output);
    let before = needed_keys(context)?;
    // The rows that the copy ends with are at least from now.
    let taken_at = context.platform.clock.now();
    let (mut copying, database) = (Progress::new(output), store::backup::database(draft));
    store::backup::copy(home, draft, move || {
        let bytes = std::fs::metadata(&database).map_or(0, |file| file.len());
        copying.report(|| format!("copied {} MiB of the ledger …", bytes >> 20));
        !interrupt::is_received()
    })?;
    let mut files = copy_files(context, draft, &mut progress)?;
    let named = store::backup::segments_of(draft)?;
    for segment in named {
        files.push(copied((home, &format!("{SEGMENTS}/{}", segment.name())), draft, &mut progress)?);
    }
    let Verified { head, schema, .. } = verify(draft, output)?;
    let ledger = draft.join(LEDGER);
    let unsynced = |error| CliError::home(format!("cannot write {}: {error}", ledger.display()));
    File::open(&ledger).and_then(|file| file.sync_all()).map_err(unsynced)?;
    files.push(files::entry((draft, LEDGER), Links::Refused, &mut progress).map_err(unsynced)?);
    if with_keys {
        let directory = draft.join("keys");
        before.iter().try_for_each(|key| keys::copy(&context.home.keys(), &directory, key))?;
    }
    if needed_keys(context)? != before {
        return Err(CliError::refused("the keys were changed during the backup; run it again"));
    }
    let manifest = Manifest {
        format: Manifest::format(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        schema,
        taken_at,
        head: Head { seq: head.seq, event_hash: head.hash },
        files,
        keys: before.iter().map(|key| Key { name: key.name.clone(), check: key.check }).collect(),
        with_keys,
    };
    write_manifest(context, draft, &manifest)?;
    Ok(manifest)
}

/// Returns the keys of the home. Without the key of the ledger, nothing could be restored.
fn needed_keys(context: &Context) -> Result<Vec<KeyFile>, CliError> {
    keys::ledger_in(&context.home.keys())?;
    Ok(keys::present(&context.home.keys())?)
}

/// Copies the files of the operators, while no command edits them.
fn copy_files(context: &Context, draft: &Path, progress: &mut Progress) -> Result<Vec<Entry>, CliError> {
    let home = context.home.path();
    let _lock = edit::lock(context)?;
    let mut paths = vec![CONFIG.to_owned()];
    for directory in DIRECTORIES.into_iter().filter(|directory| *directory != SEGMENTS) {
        paths.extend(files::below(home, directory)?);
    }
    paths.iter().map(|path| copied((home, path), draft, progress)).collect()
}

fn copied((home, path): (&Path, &str), draft: &Path, progress: &mut Progress) -> Result<Entry, CliError> {
    let failed = |error| CliError::home(format!("cannot copy {}: {error}", home.join(path).display()));
    files::copy((home, path), draft, Links::Followed, progress).map_err(failed)
}

/// Verifies every row of a ledger at rest.
pub(in crate::cli) fn verify(directory: &Path, output: Output) -> Result<Verified, CliError> {
    let mut progress = Progress::new(output);
    store::backup::verify(directory, |row, last| {
        progress.report(|| format!("verified {} of {last} rows …", row.seq));
        interrupt::check()
    })
}

fn write_manifest(context: &Context, draft: &Path, manifest: &Manifest) -> Result<(), CliError> {
    let path = draft.join(manifest::NAME);
    let failed = |error| CliError::home(format!("cannot write {}: {error}", path.display()));
    let bytes = manifest.to_bytes(&keys::ledger_in(&context.home.keys())?);
    let written = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path);
    written.and_then(|mut file| file.write_all(&bytes).and_then(|()| file.sync_all())).map_err(failed)?;
    let keys = manifest.with_keys.then_some("keys/ledger.key");
    let paths = manifest.files.iter().map(|entry| entry.path.as_str()).chain(keys);
    files::sync_directories(draft, paths).map_err(failed)
}

/// Returns what else is in the home: an operator may need it.
fn left_out(context: &Context) -> Vec<String> {
    let entries = context.home.path().read_dir().into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let is_known =
        |name: &str| name == CONFIG || name == LEDGER || DIRECTORIES.contains(&name) || RECREATED.contains(&name);
    let mut names: Vec<String> = names.filter(|name| !is_known(name)).collect();
    names.sort();
    names
}

fn report(output: Output, target: &Path, manifest: &Manifest, left_out: &[String]) {
    let bytes: u64 = manifest.files.iter().map(|entry| entry.bytes).sum();
    let keys: Vec<&str> = manifest.keys.iter().map(|key| key.name.as_str()).collect();
    let document = json!({
        "backup": target,
        "head": manifest.head,
        "taken_at": manifest.taken_at,
        "files": manifest.files.len(),
        "bytes": bytes,
        "keys": keys,
        "with_keys": manifest.with_keys,
        "left_out": left_out,
    });
    output.show(&document, || {
        let Head { seq, event_hash } = manifest.head;
        let mut lines = vec![format!(
            "Backup {}: {}, {} MiB. The ledger in it is intact and ends with {seq}:{event_hash}.",
            quoted(target),
            counted(manifest.files.len(), "file", "files"),
            bytes.div_ceil(1 << 20),
        )];
        lines.push(if manifest.with_keys {
            format!("It holds the keys ({}). Keep it where nobody else can read it.", keys.join(", "))
        } else {
            format!("The keys are not in it. Keep a copy of these in another place: keys/{}.", keys.join(", keys/"))
        });
        if !left_out.is_empty() {
            lines.push(format!("Not in the backup: {}.", left_out.join(", ")));
        }
        lines.join("\n")
    });
}
