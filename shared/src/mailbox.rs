//! The mailbox: the only way either side touches the shared directory.
//!
//! Everything goes through a [`Directory`], a handle that gives the right to the names directly in it and to
//! nothing else. The other side is hostile: it may plant links, pipes and devices, swap directories, hold
//! leases. So a document is first looked at through an `O_PATH` handle, which has no effects, and only a
//! regular file with one link, of acceptable size and owner, is opened for reading.
//!
//! A document is written under another name in the same directory and then renamed or linked, so a reader never sees
//! half of one. Both sides use their files again, because a new file is what costs most. Nothing here is synced: the
//! ledger is what lasts.

mod names;
mod reuse;

pub use names::{
    HOST, RESPONSES, SNAPSHOT, SOCKET, TASKS, is_document, is_reusable, is_spare, progress_name, reply_name,
    reusable_name, spare_name, stem, temporary_name,
};

use rustix::fs::{self, AtFlags, FileType, Mode, OFlags, RawDir, ResolveFlags};
use rustix::io::Errno;
use std::fmt;
use std::fs::File;
use std::io::{Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;

/// A handle to one directory: the right to the names in it.
#[derive(Debug)]
pub struct Directory(OwnedFd);

/// The identity of a file when it was read: enough to recognise it again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FileIdentity {
    /// The device.
    pub device: u64,
    /// The file's number on it.
    pub inode: u64,
    /// When its content or attributes last changed, in nanoseconds since 1970. The owner cannot set this.
    pub changed_ns: i128,
}

/// A document as it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Contents {
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// The identity of the read file.
    pub identity: FileIdentity,
}

/// A document that is open and not read yet.
#[derive(Debug)]
pub struct Found {
    file: File,
    identity: FileIdentity,
    size: usize,
    max: usize,
}

impl Found {
    /// Returns the identity of the file.
    pub fn identity(&self) -> FileIdentity {
        self.identity
    }

    /// Returns its size in bytes when it was opened.
    pub fn size(&self) -> usize {
        self.size
    }

    /// Reads it.
    ///
    /// # Errors
    /// [`ReadError::TooLarge`] if it has grown beyond the limit, [`ReadError::System`] if the system cannot read it.
    pub fn read(self) -> Result<Contents, ReadError> {
        let Self { file, identity, size, max } = self;
        let mut bytes = Vec::with_capacity(size + 1);
        let limit = u64::try_from(max).unwrap_or(u64::MAX).saturating_add(1);
        // The file may grow while it is read; one byte too many shows that.
        file.take(limit).read_to_end(&mut bytes).map_err(|e| ReadError::System(Step::Read, e))?;
        if bytes.len() > max { Err(ReadError::TooLarge(identity)) } else { Ok(Contents { bytes, identity }) }
    }
}

/// A position in a directory's listing. Bounded parts of a large directory are read in turn.
#[derive(Debug)]
pub struct Listing(fs::Dir);

impl Listing {
    /// Passes the next `most` names or fewer to `each`, in no particular order. Returns whether there may be more.
    ///
    /// # Errors
    /// [`MailboxError`] if listing fails on the way; some names were then already seen.
    pub fn next_names(&mut self, most: usize, mut each: impl FnMut(&str)) -> Result<bool, MailboxError> {
        for _ in 0..most {
            let Some(entry) = self.0.next() else { return Ok(false) };
            let entry = entry.map_err(|e| MailboxError::new(Step::List, e))?;
            // A name that is not UTF-8 belongs to no document.
            if let Ok(name) = entry.file_name().to_str()
                && !matches!(name, "." | "..")
            {
                each(name);
            }
        }
        Ok(true)
    }
}

/// Why a document was not read.
#[derive(Debug)]
pub enum ReadError {
    /// There is no such name (any more).
    Missing,
    /// The name is not one path component.
    BadName,
    /// Not a regular file: a link, a pipe, a socket, a device, a directory.
    NotRegular(FileIdentity),
    /// It has more than one name, so another process may hold it.
    Linked(FileIdentity),
    /// Larger than asked for.
    TooLarge(FileIdentity),
    /// Its owner is not the expected one.
    WrongOwner(FileIdentity),
    /// Another process holds a lease on it; a later try may succeed.
    Leased(FileIdentity),
    /// The system refused.
    System(Step, std::io::Error),
}

/// The step in which the system refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Opening the directory.
    OpenDirectory,
    /// Listing the directory.
    List,
    /// Looking at the file.
    Look,
    /// Opening the file.
    Open,
    /// Reading the file.
    Read,
    /// Writing the temporary file.
    Write,
    /// Renaming it.
    Rename,
    /// Giving it one more name.
    Link,
    /// Removing the file.
    Remove,
    /// Renewing the file's time.
    Touch,
    /// Watching the directory.
    Watch,
}

/// The system refused something else than a read.
#[derive(Debug, thiserror::Error)]
#[error("{step} failed")]
pub struct MailboxError {
    /// The step that failed.
    pub step: Step,
    /// The system error.
    #[source]
    pub source: std::io::Error,
}

impl MailboxError {
    fn new(step: Step, errno: Errno) -> Self {
        Self { step, source: errno.into() }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::OpenDirectory => "opening the directory",
            Self::List => "listing the directory",
            Self::Look => "looking at the file",
            Self::Open => "opening the file",
            Self::Read => "reading the file",
            Self::Write => "writing the temporary file",
            Self::Rename => "renaming the file",
            Self::Link => "linking the file",
            Self::Remove => "removing the file",
            Self::Touch => "renewing the file's time",
            Self::Watch => "watching the directory",
        })
    }
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing => f.write_str("there is no such file"),
            Self::BadName => f.write_str("the name is not one path component"),
            Self::NotRegular(_) => f.write_str("not a regular file"),
            Self::Linked(_) => f.write_str("the file has more than one link"),
            Self::TooLarge(_) => f.write_str("the file is too large"),
            Self::WrongOwner(_) => f.write_str("the file has another owner than configured"),
            Self::Leased(_) => f.write_str("the file is held under a lease"),
            Self::System(step, error) => write!(f, "{step} failed: {error}"),
        }
    }
}

impl ReadError {
    /// Checks whether the file has nothing to do with it, and a later try may succeed.
    pub fn is_passing(&self) -> bool {
        let Self::System(_, error) = self else { return matches!(self, Self::Leased(_)) };
        let passing = [Errno::INTR, Errno::AGAIN, Errno::IO, Errno::MFILE, Errno::NFILE, Errno::NOMEM];
        error.raw_os_error().is_some_and(|code| passing.iter().any(|errno| errno.raw_os_error() == code))
    }
}

impl std::error::Error for ReadError {}

const BENEATH: ResolveFlags = ResolveFlags::BENEATH.union(ResolveFlags::NO_SYMLINKS).union(ResolveFlags::NO_MAGICLINKS);

impl Directory {
    /// Opens a directory by its path. This is where ambient authority enters; everything below is relative.
    ///
    /// # Errors
    /// [`MailboxError`] if there is no such directory, or it may not be opened.
    pub fn open(path: &Path) -> Result<Self, MailboxError> {
        let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC;
        fs::open(path, flags, Mode::empty()).map(Self).map_err(|e| MailboxError::new(Step::OpenDirectory, e))
    }

    /// Opens a directory in this one, following no link.
    ///
    /// # Errors
    /// [`MailboxError`] if it does not exist, is a link, or may not be opened.
    pub fn open_dir(&self, name: &str) -> Result<Self, MailboxError> {
        let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        self.beneath(name, flags).map(Self).map_err(|e| MailboxError::new(Step::OpenDirectory, e))
    }

    /// Device and inode of the open directory: compared with those behind its path to notice that it was replaced.
    ///
    /// # Errors
    /// [`MailboxError`] if the system refuses to look.
    pub fn identity(&self) -> Result<(u64, u64), MailboxError> {
        let stat = fs::fstat(&self.0).map_err(|e| MailboxError::new(Step::Look, e))?;
        Ok((stat.st_dev, stat.st_ino))
    }

    /// Begins to list the directory. The position is the listing's own.
    ///
    /// # Errors
    /// [`MailboxError`] if the directory cannot be listed.
    pub fn list(&self) -> Result<Listing, MailboxError> {
        fs::Dir::read_from(&self.0).map(Listing).map_err(|e| MailboxError::new(Step::List, e))
    }

    /// The names in the directory, in no particular order. `each` returns whether to go on.
    ///
    /// # Errors
    /// [`MailboxError`] if listing fails on the way; some names were then already seen.
    pub fn for_each_name(&self, mut each: impl FnMut(&str) -> bool) -> Result<(), MailboxError> {
        // A second handle, because the position in a directory belongs to the handle.
        let fd = fs::openat(&self.0, c".", OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
            .map_err(|e| MailboxError::new(Step::List, e))?;
        let mut buffer = [MaybeUninit::uninit(); 16 * 1024];
        let mut entries = RawDir::new(fd, &mut buffer);
        while let Some(entry) = entries.next() {
            let entry = entry.map_err(|e| MailboxError::new(Step::List, e))?;
            // A name that is not UTF-8 is no document's name.
            if let Ok(name) = entry.file_name().to_str()
                && !matches!(name, "." | "..")
                && !each(name)
            {
                break;
            }
        }
        Ok(())
    }

    /// Reads a document of at most `max` bytes, owned by `owner` if one is named.
    ///
    /// # Errors
    /// [`ReadError`] says which condition was not met, and of which file.
    pub fn read(&self, name: &str, max: usize, owner: Option<u32>) -> Result<Contents, ReadError> {
        self.find(name, max, owner)?.read()
    }

    /// Opens a document of at most `max` bytes, owned by `owner` if one is named, and reads nothing of it. Its size
    /// says where it may be read.
    ///
    /// Nothing happens to anything else than a regular file with one link: it is looked at through a handle that
    /// cannot read, and only then opened, through that same handle.
    ///
    /// # Errors
    /// [`ReadError`] says which condition was not met, and of which file.
    pub fn find(&self, name: &str, max: usize, owner: Option<u32>) -> Result<Found, ReadError> {
        self.find_linked(name, max, owner, Links::One)
    }

    fn find_linked(&self, name: &str, max: usize, owner: Option<u32>, links: Links) -> Result<Found, ReadError> {
        let seen =
            self.beneath(name, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC).map_err(|errno| match errno {
                Errno::NOENT => ReadError::Missing,
                Errno::INVAL | Errno::NAMETOOLONG => ReadError::BadName,
                other => ReadError::System(Step::Look, other.into()),
            })?;
        let (identity, size) = acceptable(&seen, max, owner, links)?;
        let file = reopen(&seen, self, name, identity)?;
        Ok(Found { file, identity, size, max })
    }

    /// Returns the identity of the file at this name, if there is one. It does not open the file.
    pub fn look(&self, name: &str) -> Option<FileIdentity> {
        let stat = fs::statat(&self.0, name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
        Some(identity_of(&stat))
    }

    /// Returns whether there is surely nothing at this name.
    pub fn is_absent(&self, name: &str) -> bool {
        fs::statat(&self.0, name, AtFlags::SYMLINK_NOFOLLOW).is_err_and(|errno| errno == Errno::NOENT)
    }

    /// Writes a whole document under this name, and replaces an earlier one.
    ///
    /// # Errors
    /// [`MailboxError`]; the name then holds what it held before, and the temporary file is gone.
    pub fn write(&self, name: &str, bytes: &[u8], mode: u32) -> Result<(), MailboxError> {
        let temporary = temporary_name();
        let result = self.write_new(&temporary, bytes, mode).and_then(|()| {
            fs::renameat(&self.0, &temporary, &self.0, name).map_err(|e| MailboxError::new(Step::Rename, e))
        });
        if result.is_err() {
            // Already failing: that the rest cannot be removed either adds nothing.
            fs::unlinkat(&self.0, &temporary, AtFlags::empty()).ok();
        }
        result
    }

    /// Writes a new file, which no reader takes for a document if its name is a [`temporary_name`].
    ///
    /// It is created exclusively, so this never writes to a planted link or pipe of the same name.
    ///
    /// # Errors
    /// [`MailboxError`] if there is such a name, or the file cannot be written.
    pub fn write_new(&self, name: &str, bytes: &[u8], mode: u32) -> Result<(), MailboxError> {
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let fd = fs::openat(&self.0, name, flags, Mode::from_raw_mode(mode))
            .map_err(|e| MailboxError::new(Step::Write, e))?;
        File::from(fd).write_all(bytes).map_err(|source| MailboxError { step: Step::Write, source })
    }

    /// Removes a document; `false` if there was none.
    ///
    /// # Errors
    /// [`MailboxError`] if there is one and it cannot be removed.
    pub fn remove(&self, name: &str) -> Result<bool, MailboxError> {
        match fs::unlinkat(&self.0, name, AtFlags::empty()) {
            Ok(()) => Ok(true),
            Err(Errno::NOENT) => Ok(false),
            Err(errno) => Err(MailboxError::new(Step::Remove, errno)),
        }
    }

    /// Sets a document's modification time to now.
    ///
    /// # Errors
    /// [`MailboxError`] if there is no such document, or it is not ours.
    pub fn touch(&self, name: &str) -> Result<(), MailboxError> {
        let now = fs::Timespec { tv_sec: 0, tv_nsec: fs::UTIME_NOW };
        let times = fs::Timestamps { last_access: now, last_modification: now };
        fs::utimensat(&self.0, name, &times, AtFlags::SYMLINK_NOFOLLOW).map_err(|e| MailboxError::new(Step::Touch, e))
    }

    /// A document's modification time in nanoseconds since 1970, by the file system's clock.
    pub fn modified_ns(&self, name: &str) -> Option<i128> {
        let stat = fs::statat(&self.0, name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
        Some(i128::from(stat.st_mtime) * 1_000_000_000 + i128::from(stat.st_mtime_nsec))
    }

    /// `openat2` where the kernel has it (5.6), confined; older kernels get the flags of `openat`, and a name that
    /// is one component cannot leave the directory there either.
    fn beneath(&self, name: &str, flags: OFlags) -> Result<OwnedFd, Errno> {
        if name.is_empty() || name.contains(['/', '\0']) || matches!(name, "." | "..") {
            return Err(Errno::INVAL);
        }
        match fs::openat2(&self.0, name, flags, Mode::empty(), BENEATH) {
            Err(Errno::NOSYS | Errno::PERM) => fs::openat(&self.0, name, flags | OFlags::NOFOLLOW, Mode::empty()),
            other => other,
        }
    }
}

impl AsFd for Directory {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

fn identity_of(stat: &fs::Stat) -> FileIdentity {
    FileIdentity {
        device: stat.st_dev,
        inode: stat.st_ino,
        changed_ns: i128::from(stat.st_ctime) * 1_000_000_000 + i128::from(stat.st_ctime_nsec),
    }
}

/// The links that a file may have.
#[derive(Debug, Clone, Copy)]
enum Links {
    One,
    OneOrTwo,
}

/// Returns the identity and the size of the file, if it may be read.
fn acceptable(
    seen: &OwnedFd,
    max: usize,
    owner: Option<u32>,
    links: Links,
) -> Result<(FileIdentity, usize), ReadError> {
    let stat = fs::fstat(seen).map_err(|e| ReadError::System(Step::Look, e.into()))?;
    let identity = identity_of(&stat);
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Err(ReadError::NotRegular(identity));
    }
    match (stat.st_nlink, links) {
        // Removed after it was found.
        (0, _) => return Err(ReadError::Missing),
        (1, _) | (2, Links::OneOrTwo) => {}
        (_, Links::One | Links::OneOrTwo) => return Err(ReadError::Linked(identity)),
    }
    if owner.is_some_and(|uid| uid != stat.st_uid) {
        return Err(ReadError::WrongOwner(identity));
    }
    match usize::try_from(stat.st_size) {
        Ok(size) if size <= max => Ok((identity, size)),
        Ok(_) | Err(_) => Err(ReadError::TooLarge(identity)),
    }
}

/// Opens a file that was looked at.
///
/// Through `/proc` it is the very same file. Without `/proc` (an empty root file system) the function opens it by name
/// again, and compares.
fn reopen(seen: &OwnedFd, directory: &Directory, name: &str, identity: FileIdentity) -> Result<File, ReadError> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let link = format!("/proc/self/fd/{}", seen.as_raw_fd());
    let opened = match fs::open(link.as_str(), flags, Mode::empty()) {
        Err(Errno::NOENT) => directory.beneath(name, flags | OFlags::NOFOLLOW),
        other => other,
    };
    let fd = opened.map_err(|errno| match errno {
        Errno::AGAIN => ReadError::Leased(identity),
        Errno::NOENT => ReadError::Missing,
        other => ReadError::System(Step::Open, other.into()),
    })?;
    let stat = fs::fstat(&fd).map_err(|e| ReadError::System(Step::Look, e.into()))?;
    let now = identity_of(&stat);
    if (now.device, now.inode) == (identity.device, identity.inode) { Ok(fd.into()) } else { Err(ReadError::Missing) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    pub(super) struct Scratch(pub(super) std::path::PathBuf);

    impl Scratch {
        pub(super) fn new() -> (Self, Directory) {
            let path = std::env::temp_dir().join(temporary_name());
            std::fs::create_dir(&path).unwrap();
            let directory = Directory::open(&path).unwrap();
            (Self(path), directory)
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            drop(std::fs::remove_dir_all(&self.0));
        }
    }

    #[test]
    fn a_document_is_written_whole_and_read_back() {
        let (scratch, directory) = Scratch::new();
        directory.write("a.json", b"{}", 0o644).unwrap();
        directory.write("a.json", b"{\"x\":1}", 0o644).unwrap();
        assert_eq!(directory.read("a.json", 100, None).unwrap().bytes, b"{\"x\":1}");
        assert_eq!(std::fs::read_dir(&scratch.0).unwrap().count(), 1);
        assert!(directory.remove("a.json").unwrap());
        assert!(!directory.remove("a.json").unwrap());
        assert!(matches!(directory.read("a.json", 100, None), Err(ReadError::Missing)));
    }

    #[test]
    fn nothing_but_a_plain_file_with_one_link_is_read() {
        let (scratch, directory) = Scratch::new();
        let path = |name: &str| scratch.0.join(name);
        std::fs::write(path("plain"), "x".repeat(11)).unwrap();
        symlink("/etc/passwd", path("absolute-link")).unwrap();
        symlink("plain", path("link")).unwrap();
        std::fs::create_dir(path("dir")).unwrap();
        fs::mknodat(fs::CWD, path("pipe"), FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        std::os::unix::net::UnixListener::bind(path("socket")).unwrap();
        for name in ["dir", "pipe", "socket"] {
            assert!(matches!(directory.read(name, 10, None), Err(ReadError::NotRegular(_))), "{name}");
        }
        for name in ["link", "absolute-link"] {
            // `openat2` refuses to resolve them; the fallback sees that they are links.
            let fault = directory.read(name, 10, None).unwrap_err();
            assert!(matches!(fault, ReadError::NotRegular(_) | ReadError::System(Step::Look, _)), "{name}: {fault}");
        }
        assert!(matches!(directory.read("plain", 10, None), Err(ReadError::TooLarge(_))));
        assert!(matches!(directory.read("plain", 11, Some(4_000_000)), Err(ReadError::WrongOwner(_))));
        std::fs::hard_link(path("plain"), path("twice")).unwrap();
        assert!(matches!(directory.read("plain", 11, None), Err(ReadError::Linked(_))));
        for name in ["", ".", "..", "../etc/passwd", "dir/x", "/etc/passwd"] {
            assert!(matches!(directory.read(name, 10, None), Err(ReadError::BadName)), "{name}");
        }
    }

    #[test]
    fn a_planted_link_is_replaced_and_not_followed() {
        let (scratch, directory) = Scratch::new();
        std::fs::write(scratch.0.join("victim"), "before").unwrap();
        symlink("victim", scratch.0.join("r.json")).unwrap();
        directory.write("r.json", b"reply", 0o644).unwrap();
        assert_eq!(std::fs::read(scratch.0.join("victim")).unwrap(), b"before");
        assert_eq!(std::fs::read(scratch.0.join("r.json")).unwrap(), b"reply");
    }

    #[test]
    fn a_linked_directory_is_not_entered() {
        let (scratch, directory) = Scratch::new();
        symlink("/tmp", scratch.0.join("tasks")).unwrap();
        assert!(directory.open_dir("tasks").is_err());
        assert!(directory.open_dir("../tasks").is_err());
    }
}
