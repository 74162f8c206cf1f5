//! The files of a backup: the list of them, and their copies.

use super::manifest::Entry;
use crate::cli::interrupt;
use crate::cli::output::{CliError, Progress};
use platform::home::make_private_directory;
use rustix::fs::{Mode, OFlags};
use sha2::{Digest as _, Sha256};
use shared::digest::Digest;
use std::fs::{File, OpenOptions};
use std::io::{Error, ErrorKind, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

/// The bytes that are read at once.
const PIECE: usize = 256 * 1024;
/// The deepest directory that is copied.
const DEPTH_MAX: usize = 8;

/// Whether a link is read as the file that it names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::cli) enum Links {
    /// It is, in a home.
    Followed,
    /// It is refused, in a backup: it could name any file of the machine.
    Refused,
}

/// Opens a regular file. A pipe does not block it.
fn open(path: &Path, links: Links) -> Result<File, Error> {
    let mut flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
    if links == Links::Refused {
        flags |= OFlags::NOFOLLOW;
    }
    let file = File::from(rustix::fs::open(path, flags, Mode::empty())?);
    if file.metadata()?.is_file() { Ok(file) } else { Err(Error::new(ErrorKind::InvalidData, "it is no regular file")) }
}

/// Reads a file to its end, and returns its entry. `each` gets the pieces.
fn read(
    (root, path): (&Path, &str),
    links: Links,
    progress: &mut Progress,
    mut each: impl FnMut(&[u8]) -> Result<(), Error>,
) -> Result<Entry, Error> {
    let mut file = open(&root.join(path), links)?;
    let length = file.metadata()?.len();
    let (mut hasher, mut bytes, mut piece) = (Sha256::new(), 0_u64, vec![0; PIECE]);
    loop {
        let count = file.read(&mut piece)?;
        let Some(read) = piece.get(..count).filter(|read| !read.is_empty()) else { break };
        hasher.update(read);
        each(read)?;
        bytes = bytes.saturating_add(u64::try_from(count).unwrap_or(u64::MAX));
        progress.report(|| format!("read {} of {} MiB of {path} …", bytes >> 20, length >> 20));
        if interrupt::is_received() {
            return Err(Error::other("interrupted"));
        }
    }
    Ok(Entry { path: path.to_owned(), bytes, sha256: Digest::from_bytes(hasher.finalize().into()) })
}

/// Returns the entry of a file, as it is.
///
/// # Errors
/// The system error, or that it is no regular file.
pub(in crate::cli) fn entry(file: (&Path, &str), links: Links, progress: &mut Progress) -> Result<Entry, Error> {
    read(file, links, progress, |_| Ok(()))
}

/// Copies a file into a new private one of the same path, and syncs it.
///
/// # Errors
/// The system error, or that it is no regular file. The copy may be there in part.
pub(in crate::cli) fn copy(
    (from, path): (&Path, &str),
    to: &Path,
    links: Links,
    progress: &mut Progress,
) -> Result<Entry, Error> {
    let target = to.join(path);
    make_private_directory(target.parent().unwrap_or(to))?;
    let mut copy = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&target)?;
    let entry = read((from, path), links, progress, |piece| copy.write_all(piece))?;
    copy.sync_all()?;
    Ok(entry)
}

/// Returns the paths of all files in a directory of the root, sorted; none if there is no such directory.
///
/// # Errors
/// [`CliError`] that names the place.
pub(in crate::cli) fn below(root: &Path, directory: &str) -> Result<Vec<String>, CliError> {
    let mut found = Vec::new();
    walk(root, directory, DEPTH_MAX, &mut found)?;
    found.sort();
    Ok(found)
}

fn walk(root: &Path, directory: &str, depth: usize, found: &mut Vec<String>) -> Result<(), CliError> {
    let path = root.join(directory);
    let failed = |error: &dyn std::fmt::Display| CliError::home(format!("cannot read {}: {error}", path.display()));
    let entries = match path.read_dir() {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(failed(&error)),
    };
    if depth == 0 {
        return Err(failed(&"it is too deep for a backup"));
    }
    for entry in entries {
        let name = entry.map_err(|error| failed(&error))?.file_name();
        let name = name.to_str().ok_or_else(|| failed(&"it holds a name that is no text"))?;
        let inner = format!("{directory}/{name}");
        match std::fs::metadata(root.join(&inner)) {
            Ok(metadata) if metadata.is_dir() => walk(root, &inner, depth - 1, found)?,
            // A file that is written now, by its name.
            Ok(_) if Path::new(name).extension().is_some_and(|extension| extension == "new") => {}
            Ok(_) => found.push(inner),
            // A link that leads nowhere, or a file that is gone.
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(failed(&error)),
        }
    }
    Ok(())
}

/// Syncs the directories of these files, and the root: the names of the files then last.
///
/// # Errors
/// The system error.
pub(in crate::cli) fn sync_directories<'a>(root: &Path, files: impl Iterator<Item = &'a str>) -> Result<(), Error> {
    let mut directories: std::collections::BTreeSet<&Path> =
        files.flat_map(|file| Path::new(file).ancestors().skip(1)).collect();
    directories.insert(Path::new(""));
    directories.into_iter().rev().try_for_each(|directory| File::open(root.join(directory))?.sync_all())
}
