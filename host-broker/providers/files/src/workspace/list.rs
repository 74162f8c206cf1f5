//! The listing of a directory.

use crate::rules::PathRules;
use crate::workspace::{FileError, Step, Workspace};
use model::WorkspacePath;
use rustix::fs::{self, AtFlags, FileType, RawDir};
use std::collections::BTreeSet;
use std::mem::MaybeUninit;

/// The most names that are looked through; a directory with more is listed as far as the system gave them.
const NAMES_MAX: usize = 200_000;

/// Something in a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Item {
    /// Its name.
    pub name: String,
    /// The kind of the entry.
    pub kind: Kind,
    /// How many bytes it has, if it is a file.
    pub size: Option<u64>,
}

/// The kind of a directory's entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A link. It is never followed.
    Link,
    /// A pipe, a socket, a device, or an unknown kind.
    Other,
}

/// The entries of a directory, by name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listing {
    /// The first of them.
    pub items: Vec<Item>,
    /// Whether there are more behind the last one.
    pub more: bool,
    /// How many have names that are no paths: not UTF-8, too long, or not readable for a person.
    pub unreadable: usize,
}

impl Workspace {
    /// Returns at most `max` entries of a directory, in the order of the names, behind `after`.
    ///
    /// Denied paths are left out. `None` is the workspace itself.
    ///
    /// # Errors
    /// [`FileError`] if there is no such directory.
    pub fn list(
        &self,
        directory: Option<&WorkspacePath>,
        rules: &PathRules,
        after: Option<&str>,
        max: usize,
    ) -> Result<Listing, FileError> {
        let folder = self.directory(directory)?;
        let mut names = BTreeSet::new();
        let (mut more, mut unreadable) = (false, 0);
        let mut buffer = [MaybeUninit::uninit(); 16 * 1024];
        let mut entries = RawDir::new(&folder, &mut buffer);
        for _ in 0..NAMES_MAX {
            let Some(entry) = entries.next() else { break };
            let entry = entry.map_err(FileError::at(Step::List))?;
            let bytes = entry.file_name().to_bytes();
            if matches!(bytes, b"." | b"..") {
                continue;
            }
            let Some(path) = child(directory, bytes) else {
                unreadable += 1;
                continue;
            };
            if rules.check(&path).is_ok() && after.is_none_or(|after| path.name() > after) {
                names.insert(path.name().to_owned());
            }
            if names.len() > max {
                names.pop_last();
                more = true;
            }
        }
        let items = names.into_iter().filter_map(|name| item(&folder, name)).collect();
        Ok(Listing { items, more, unreadable })
    }
}

fn child(directory: Option<&WorkspacePath>, name: &[u8]) -> Option<WorkspacePath> {
    let name = std::str::from_utf8(name).ok()?;
    match directory {
        Some(directory) => WorkspacePath::new(&format!("{directory}/{name}")).ok(),
        None => WorkspacePath::new(name).ok(),
    }
}

/// `None` if it is gone by now.
fn item(folder: impl std::os::fd::AsFd, name: String) -> Option<Item> {
    let stat = fs::statat(folder, &name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
    let kind = match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => Kind::File,
        FileType::Directory => Kind::Directory,
        FileType::Symlink => Kind::Link,
        FileType::Fifo | FileType::Socket | FileType::CharacterDevice | FileType::BlockDevice | FileType::Unknown => {
            Kind::Other
        }
    };
    let size = (kind == Kind::File).then(|| u64::try_from(stat.st_size).unwrap_or(u64::MAX));
    Some(Item { name, kind, size })
}
