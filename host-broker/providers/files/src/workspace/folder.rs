//! A directory in a workspace, held by its handle, and the operations on its names.
//!
//! Names come from parsed paths or are made here, so none of them leaves the directory. Nothing follows a link.

use crate::change::FileState;
use crate::workspace::{FileError, Step};
use rustix::fs::{self, AtFlags, FileType, Gid, Mode, OFlags, RenameFlags, Uid};
use rustix::io::Errno;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

/// The bits of a mode that are more than permissions.
const SPECIAL: u32 = 0o7000;
/// The most reads of a file that changes during the read.
const ATTEMPTS: u32 = 3;

/// A directory by its handle.
#[derive(Debug)]
pub(crate) struct Folder {
    fd: OwnedFd,
    device: u64,
    inode: u64,
    owner: (u32, u32),
}

/// The entry at a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum There {
    /// Nothing.
    Nothing,
    /// A regular file with one name.
    File(FileState),
    /// Something else, or a file that cannot be read.
    Other,
}

/// A file that may be read: a regular one, with one name, looked at and not yet opened.
pub(crate) struct Seen {
    handle: OwnedFd,
    /// Its state when it was looked at.
    pub(crate) stat: fs::Stat,
}

impl Folder {
    pub(super) fn new(fd: OwnedFd) -> Result<Self, FileError> {
        let stat = fs::fstat(&fd).map_err(FileError::at(Step::Look))?;
        Ok(Self { fd, device: stat.st_dev, inode: stat.st_ino, owner: (stat.st_uid, stat.st_gid) })
    }

    /// A second handle of the same directory.
    pub(super) fn again(&self) -> Result<Self, FileError> {
        let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC;
        fs::openat(&self.fd, c".", flags, Mode::empty()).map_err(FileError::found(Step::Find)).and_then(Self::new)
    }

    /// Device and inode.
    pub(crate) fn identity(&self) -> (u64, u64) {
        (self.device, self.inode)
    }

    /// Looks at a file; `None` if there is nothing of that name.
    ///
    /// # Errors
    /// [`FileError`] if it is not one that may be read.
    pub(crate) fn look(&self, name: &str) -> Result<Option<Seen>, FileError> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let handle = match fs::openat(&self.fd, name, flags, Mode::empty()) {
            Ok(handle) => handle,
            Err(Errno::NOENT) => return Ok(None),
            Err(errno) => return Err(FileError::found(Step::Look)(errno)),
        };
        let stat = fs::fstat(&handle).map_err(FileError::at(Step::Look))?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Err(FileError::NotRegular);
        }
        // A file may be mounted over another one.
        if stat.st_dev != self.device {
            return Err(FileError::Outside);
        }
        match stat.st_nlink {
            1 => Ok(Some(Seen { handle, stat })),
            // Removed after it was found.
            0 => Ok(None),
            _ => Err(FileError::Linked),
        }
    }

    /// Returns the present state of the file of that name.
    ///
    /// # Errors
    /// [`FileError`].
    pub(crate) fn state(&self, name: &str, max: u64) -> Result<Option<FileState>, FileError> {
        for _ in 0..ATTEMPTS {
            let Some(seen) = self.look(name)? else { return Ok(None) };
            if seen.stat.st_mode & SPECIAL != 0 {
                return Err(FileError::Special);
            }
            let mut bytes = Vec::new();
            let mut file = seen.open(self, name)?.take(max.saturating_add(1));
            if seen.size() > max {
                return Err(FileError::TooLarge { max });
            }
            file.read_to_end(&mut bytes).map_err(|source| FileError::System { step: Step::Read, source })?;
            if u64::try_from(bytes.len()).is_ok_and(|size| size > max) {
                return Err(FileError::TooLarge { max });
            }
            if seen.is_unchanged(file.get_ref())? {
                return Ok(Some(FileState::new(bytes, seen.stat.st_mode)));
            }
        }
        Err(FileError::Changing)
    }

    /// The same, where everything that is no readable file is alike.
    pub(crate) fn there(&self, name: &str, max: u64) -> There {
        match self.state(name, max) {
            Ok(None) => There::Nothing,
            Ok(Some(state)) => There::File(state),
            Err(_unreadable) => There::Other,
        }
    }

    /// Writes a file that was not there before, exclusively, and makes it last. It gets its permissions through its
    /// handle and, if the system lets us, the given owner; without one, the directory's.
    ///
    /// # Errors
    /// [`FileError`]; something of that name may then be there.
    pub(crate) fn create(&self, name: &str, state: &FileState, owner: Option<(u32, u32)>) -> Result<(), FileError> {
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let fd = fs::openat(&self.fd, name, flags, Mode::RUSR | Mode::WUSR).map_err(FileError::at(Step::Write))?;
        let mut file = File::from(fd);
        file.write_all(state.bytes()).map_err(|source| FileError::System { step: Step::Write, source })?;
        let stat = fs::fstat(&file).map_err(FileError::at(Step::Look))?;
        let (uid, gid) = owner.unwrap_or(self.owner);
        if (stat.st_uid, stat.st_gid) != (uid, gid) {
            // Only a privileged broker may; another's files become its own, which its operator knows.
            fs::fchown(&file, Some(Uid::from_raw(uid)), Some(Gid::from_raw(gid))).ok();
        }
        fs::fchmod(&file, Mode::from_raw_mode(state.mode())).map_err(FileError::at(Step::Write))?;
        fs::fsync(&file).map_err(FileError::at(Step::Sync))
    }

    /// The owner of the file of that name, if there is one.
    pub(crate) fn owner_of(&self, name: &str) -> Option<(u32, u32)> {
        let stat = fs::statat(&self.fd, name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
        Some((stat.st_uid, stat.st_gid))
    }

    /// Checks whether an entry of that name exists, readable or not.
    pub(crate) fn has(&self, name: &str) -> bool {
        !matches!(fs::statat(&self.fd, name, AtFlags::SYMLINK_NOFOLLOW), Err(Errno::NOENT))
    }

    /// Gives a file another name in this directory, that nothing has.
    pub(crate) fn rename(&self, from: &str, to: &str) -> Result<(), Errno> {
        fs::renameat_with(&self.fd, from, &self.fd, to, RenameFlags::NOREPLACE)
    }

    /// Exchanges the entries of these names.
    pub(crate) fn exchange(&self, one: &str, other: &str) -> Result<(), Errno> {
        fs::renameat_with(&self.fd, one, &self.fd, other, RenameFlags::EXCHANGE)
    }

    /// Removes a name of a file; that nothing has it is as good.
    pub(crate) fn remove(&self, name: &str) -> Result<(), Errno> {
        match fs::unlinkat(&self.fd, name, AtFlags::empty()) {
            Err(Errno::NOENT) => Ok(()),
            other => other,
        }
    }

    /// Makes a directory, for its owner to write and for all to enter; that there is one is as good.
    pub(crate) fn make_directory(&self, name: &str) -> Result<(), Errno> {
        match fs::mkdirat(&self.fd, name, Mode::from_raw_mode(0o755)) {
            Err(Errno::EXIST) => return Ok(()),
            other => other?,
        }
        let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        if let Ok(made) = fs::openat(&self.fd, name, flags, Mode::empty()) {
            let (uid, gid) = self.owner;
            // As for files.
            fs::fchown(&made, Some(Uid::from_raw(uid)), Some(Gid::from_raw(gid))).ok();
        }
        Ok(())
    }

    /// Removes an empty directory; that it is not there, not empty or no directory is as good.
    pub(crate) fn remove_directory(&self, name: &str) -> Result<(), Errno> {
        match fs::unlinkat(&self.fd, name, AtFlags::REMOVEDIR) {
            Err(Errno::NOENT | Errno::NOTEMPTY | Errno::EXIST | Errno::NOTDIR) => Ok(()),
            other => other,
        }
    }

    /// Makes the names last.
    pub(crate) fn sync(&self) -> Result<(), Errno> {
        fs::fsync(&self.fd)
    }
}

impl Seen {
    /// How many bytes it had.
    pub(crate) fn size(&self) -> u64 {
        u64::try_from(self.stat.st_size).unwrap_or(u64::MAX)
    }

    /// Opens the file that was looked at.
    ///
    /// Through `/proc` it is the very same file; without `/proc` it is opened by name again, and compared. Does not
    /// wait for a lease or a pipe.
    ///
    /// # Errors
    /// [`FileError`].
    pub(crate) fn open(&self, folder: &Folder, name: &str) -> Result<File, FileError> {
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let link = format!("/proc/self/fd/{}", self.handle.as_raw_fd());
        let opened = match fs::open(link.as_str(), flags, Mode::empty()) {
            Err(Errno::NOENT) => fs::openat(&folder.fd, name, flags | OFlags::NOFOLLOW, Mode::empty()),
            other => other,
        };
        let fd = opened.map_err(|errno| match errno {
            Errno::AGAIN => FileError::Leased,
            other => FileError::found(Step::Open)(other),
        })?;
        let stat = fs::fstat(&fd).map_err(FileError::at(Step::Look))?;
        if (stat.st_dev, stat.st_ino) == (self.stat.st_dev, self.stat.st_ino) {
            Ok(File::from(fd))
        } else {
            Err(FileError::Changing)
        }
    }

    /// Checks whether the file is unchanged since the look. Its owner can set the time of its content, but not this
    /// one.
    pub(crate) fn is_unchanged(&self, file: &File) -> Result<bool, FileError> {
        let now = fs::fstat(file).map_err(FileError::at(Step::Look))?;
        let of = |stat: &fs::Stat| (stat.st_size, stat.st_ctime, stat.st_ctime_nsec, stat.st_mode, stat.st_nlink);
        Ok(of(&now) == of(&self.stat))
    }
}

impl AsFd for Folder {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}
