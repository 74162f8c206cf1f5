//! A workspace: the handle of one directory, and the only way to its content.
//!
//! Paths are resolved beneath the handle, through no link, and not into a mount inside, which has another owner. A file
//! is first looked at through a handle that can do nothing. Only a regular file with one name is opened: a second name
//! may be one that the rules deny, or lie elsewhere. No existing file is ever opened for writing; see `folder` for how
//! files come and go.

pub(crate) mod folder;
mod list;
mod read;

pub use list::{Item, Kind, Listing};
pub use read::{Excerpt, Lines, READ_MAX};

use crate::change::FileState;
use folder::Folder;
use model::WorkspacePath;
use rustix::fs::{self, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use shared::Code;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

/// How often a resolution is tried again that was disturbed by renames elsewhere.
const ATTEMPTS: u32 = 32;

const BENEATH: ResolveFlags = ResolveFlags::BENEATH
    .union(ResolveFlags::NO_SYMLINKS)
    .union(ResolveFlags::NO_MAGICLINKS)
    .union(ResolveFlags::NO_XDEV);

/// The handle of one directory: the right to its content.
#[derive(Debug)]
pub struct Workspace {
    root: Folder,
    /// Without `openat2` (before Linux 5.6, or where a filter forbids it), each component is opened by itself.
    by_component: bool,
}

/// Why something in a workspace was not read or found.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// There is no such file.
    #[error("there is no such file")]
    Missing,
    /// The path leads through a link, or into another file system.
    #[error("the path leads through a link or into another file system")]
    Outside,
    /// Something on the way is no directory.
    #[error("a part of the path is not a directory")]
    NotADirectory,
    /// A directory, a link, a pipe, a socket, a device.
    #[error("it is not a regular file")]
    NotRegular,
    /// It has more than one name.
    #[error("the file has more than one name (hard links)")]
    Linked,
    /// It takes its owner's rights when it is executed.
    #[error("the file has the set-user-id, set-group-id or sticky bit")]
    Special,
    /// More bytes than asked for.
    #[error("the file is larger than {max} bytes")]
    TooLarge {
        /// How many would do.
        max: u64,
    },
    /// It kept changing while it was read.
    #[error("the file is being changed")]
    Changing,
    /// Another process holds a lease on it.
    #[error("the file is held under a lease")]
    Leased,
    /// The lines asked for are not UTF-8, or have a zero byte.
    #[error("the file is not text")]
    NotText,
    /// The system refused.
    #[error("{step} failed: {source}")]
    System {
        /// The step that failed.
        step: Step,
        /// The system error.
        source: std::io::Error,
    },
}

/// The step in which the system refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Opening the workspace.
    OpenWorkspace,
    /// Finding a path.
    Find,
    /// Looking at the present file.
    Look,
    /// Opening it.
    Open,
    /// Reading it.
    Read,
    /// Listing a directory.
    List,
    /// Writing a new file.
    Write,
    /// Giving a file its name, or taking it away.
    Rename,
    /// Making or removing a directory.
    Directory,
    /// Making it last.
    Sync,
}

impl std::fmt::Display for Step {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::OpenWorkspace => "opening the workspace",
            Self::Find => "finding the path",
            Self::Look => "looking at the file",
            Self::Open => "opening the file",
            Self::Read => "reading the file",
            Self::List => "listing the directory",
            Self::Write => "writing a new file",
            Self::Rename => "renaming",
            Self::Directory => "making or removing a directory",
            Self::Sync => "making it last",
        })
    }
}

impl FileError {
    /// The code of the refusal.
    pub fn code(&self) -> Code {
        match self {
            Self::Outside => Code::PathOutside,
            Self::TooLarge { .. } => Code::TooLarge,
            Self::Missing
            | Self::NotADirectory
            | Self::NotRegular
            | Self::Linked
            | Self::Special
            | Self::NotText
            | Self::Changing
            | Self::Leased
            | Self::System { .. } => Code::ProviderFailed,
        }
    }

    pub(crate) fn at(step: Step) -> impl Fn(Errno) -> Self {
        move |errno| Self::System { step, source: errno.into() }
    }

    /// Returns the error for a fault in finding or opening a path.
    fn found(step: Step) -> impl Fn(Errno) -> Self {
        move |errno| match errno {
            Errno::NOENT => Self::Missing,
            Errno::LOOP | Errno::XDEV => Self::Outside,
            Errno::NOTDIR => Self::NotADirectory,
            other => Self::at(step)(other),
        }
    }
}

impl Workspace {
    /// Opens the directory at a path of the host. This is where ambient authority enters; everything below is relative.
    ///
    /// # Errors
    /// [`FileError`] if there is no such directory, or it may not be opened.
    pub fn open(path: &Path) -> Result<Self, FileError> {
        let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC;
        let fd = fs::open(path, flags, Mode::empty()).map_err(FileError::found(Step::OpenWorkspace))?;
        let root = Folder::new(fd)?;
        let probe = fs::openat2(&root, c".", flags, Mode::empty(), BENEATH);
        let by_component = matches!(probe, Err(Errno::NOSYS | Errno::PERM));
        Ok(Self { root, by_component })
    }

    /// Returns the number of the directory on its file system, which identifies it.
    pub fn inode(&self) -> u64 {
        self.root.identity().1
    }

    /// Returns the present state of the file: `None` if there is none, also if its directory is missing.
    ///
    /// # Errors
    /// [`FileError`] if something else than a regular file is there, or one of more than `max` bytes.
    pub fn state(&self, path: &WorkspacePath, max: u64) -> Result<Option<FileState>, FileError> {
        match self.folder(path) {
            Ok(folder) => folder.state(path.name(), max),
            Err(FileError::Missing) => Ok(None),
            Err(other) => Err(other),
        }
    }

    /// Returns the whole file, with any bytes.
    ///
    /// # Errors
    /// [`FileError`].
    pub fn read_whole(&self, path: &WorkspacePath, max: u64) -> Result<FileState, FileError> {
        self.state(path, max)?.ok_or(FileError::Missing)
    }

    /// Returns some lines of a file, and the digest of all of it.
    ///
    /// Reads the file from one end to the other and holds no more than a block and the result.
    ///
    /// # Errors
    /// [`FileError`]; [`FileError::NotText`] if the result is not UTF-8 or has a zero byte.
    pub fn read_lines(&self, path: &WorkspacePath, lines: Lines, max_bytes: usize) -> Result<Excerpt, FileError> {
        let folder = self.folder(path)?;
        read::excerpt(&folder, path.name(), lines, max_bytes)
    }

    /// The directory that the path's file is in.
    ///
    /// # Errors
    /// [`FileError`]; [`FileError::Missing`] if there is none.
    pub(crate) fn folder(&self, path: &WorkspacePath) -> Result<Folder, FileError> {
        self.directory(path.parent().as_ref())
    }

    /// A directory; `None` is the workspace itself.
    pub(crate) fn directory(&self, path: Option<&WorkspacePath>) -> Result<Folder, FileError> {
        let Some(path) = path else { return self.root.again() };
        // The last step is made readable, because a handle that can do nothing cannot be synced.
        let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC;
        let opened = if self.by_component { self.walk(path, flags) } else { self.resolve(path, flags) };
        Folder::new(opened.map_err(FileError::found(Step::Find))?)
    }

    fn resolve(&self, path: &WorkspacePath, flags: OFlags) -> Result<OwnedFd, Errno> {
        let mut attempt = 0;
        loop {
            match fs::openat2(&self.root, path.as_str(), flags, Mode::empty(), BENEATH) {
                Err(Errno::AGAIN) if attempt < ATTEMPTS => attempt += 1,
                other => return other,
            }
        }
    }

    /// The same without `openat2`: none of the components is `..` or is followed if it is a link.
    fn walk(&self, path: &WorkspacePath, flags: OFlags) -> Result<OwnedFd, Errno> {
        let mut at: Option<OwnedFd> = None;
        for part in path.as_str().split('/') {
            let from = at.as_ref().map_or(self.root.as_fd(), OwnedFd::as_fd);
            let next =
                fs::openat(from, part, flags | OFlags::NOFOLLOW, Mode::empty()).map_err(|errno| match errno {
                    // The error of a directory that is a link depends on the kernel.
                    Errno::NOTDIR if is_link(from, part) => Errno::LOOP,
                    other => other,
                })?;
            if fs::fstat(&next)?.st_dev != self.root.identity().0 {
                return Err(Errno::XDEV);
            }
            at = Some(next);
        }
        at.ok_or(Errno::NOENT)
    }
}

fn is_link(folder: BorrowedFd<'_>, name: &str) -> bool {
    fs::statat(folder, name, fs::AtFlags::SYMLINK_NOFOLLOW)
        .is_ok_and(|stat| fs::FileType::from_raw_mode(stat.st_mode) == fs::FileType::Symlink)
}

#[cfg(test)]
mod tests;
