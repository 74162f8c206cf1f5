//! Files that are used again: both sides write later documents into the files of earlier ones.

use super::names::{REUSABLE, SPARE};
use super::{Contents, Directory, FileIdentity, Links, MailboxError, ReadError, Step, identity_of};
use rustix::fs::{self, AtFlags, FileType, Mode, OFlags};
use rustix::io::Errno;
use std::fs::File;
use std::io::Write as _;
use std::os::fd::{AsFd, AsRawFd as _};

/// A file of more blocks of 512 bytes is not used again: to shorten it takes long.
const REWRITTEN_BLOCKS_MAX: i64 = 16 * 1024;
/// A longer file is removed, not wiped.
const WIPED_BYTES_MAX: usize = 64 * 1024;

impl Directory {
    /// Reads a reply of at most `max` bytes. Its file may be one that the host uses again, and has two links then.
    ///
    /// The host writes a later reply into the file once this name is removed. If the name still leads to the file after
    /// the read, the bytes are those of this reply.
    ///
    /// # Errors
    /// [`ReadError`]; [`ReadError::Missing`] also if another reader has removed the reply.
    pub fn read_reply(&self, name: &str, max: usize) -> Result<Contents, ReadError> {
        let contents = self.find_linked(name, max, None, Links::OneOrTwo)?.read()?;
        let file = |identity: FileIdentity| (identity.device, identity.inode);
        let is_there = self.look(name).is_some_and(|now| file(now) == file(contents.identity));
        if is_there { Ok(contents) } else { Err(ReadError::Missing) }
    }

    /// Writes other bytes into a file that nobody reads now.
    ///
    /// It is looked at first through a handle that has no effects: to open a device for writing can have some. The file
    /// is closed afterwards, because a file system that crosses a boundary may write only then.
    ///
    /// # Errors
    /// [`MailboxError`]. With [`Step::Look`] the file has more than one link. Otherwise it is not there, no regular file of
    /// a usual size, or it cannot be written.
    pub fn rewrite(&self, name: &str, bytes: &[u8]) -> Result<(), MailboxError> {
        let (mut file, size) = self.open_again(name)?;
        let written = file.write_all(bytes).and_then(|()| {
            if size > bytes.len() { file.set_len(u64::try_from(bytes.len()).unwrap_or(u64::MAX)) } else { Ok(()) }
        });
        written.map_err(|source| MailboxError { step: Step::Write, source })
    }

    /// Overwrites the bytes of a file that nobody reads any more. It keeps its length, because to free its blocks takes
    /// long.
    ///
    /// # Errors
    /// As of [`Directory::rewrite`], and with [`Step::Open`] for a long file.
    pub fn wipe(&self, name: &str) -> Result<(), MailboxError> {
        let (mut file, size) = self.open_again(name)?;
        if size > WIPED_BYTES_MAX {
            return Err(MailboxError::new(Step::Open, Errno::FBIG));
        }
        file.write_all(&vec![0; size]).map_err(|source| MailboxError { step: Step::Write, source })
    }

    /// Opens a file to be written again, and returns its size.
    fn open_again(&self, name: &str) -> Result<(File, usize), MailboxError> {
        let seen = self.beneath(name, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC);
        let seen = seen.map_err(|e| MailboxError::new(Step::Open, e))?;
        let (identity, _) = rewritable(&seen)?;
        let flags = OFlags::WRONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let link = format!("/proc/self/fd/{}", seen.as_raw_fd());
        let opened = match fs::open(link.as_str(), flags, Mode::empty()) {
            // An empty root file system has no `/proc`.
            Err(Errno::NOENT) => self.beneath(name, flags | OFlags::NOFOLLOW),
            other => other,
        };
        let file = File::from(opened.map_err(|e| MailboxError::new(Step::Open, e))?);
        let (now, size) = rewritable(&file)?;
        if (now.device, now.inode) != (identity.device, identity.inode) {
            return Err(MailboxError::new(Step::Open, Errno::STALE));
        }
        Ok((file, size))
    }

    /// Renames a file, and replaces an earlier one of that name.
    ///
    /// # Errors
    /// [`MailboxError`]; nothing has changed.
    pub fn rename(&self, from: &str, to: &str) -> Result<(), MailboxError> {
        fs::renameat(&self.0, from, &self.0, to).map_err(|e| MailboxError::new(Step::Rename, e))
    }

    /// Gives a file one more name, which no other file has.
    ///
    /// # Errors
    /// [`MailboxError`]; nothing has changed.
    pub fn link(&self, from: &str, to: &str) -> Result<(), MailboxError> {
        fs::linkat(&self.0, from, &self.0, to, AtFlags::empty()).map_err(|e| MailboxError::new(Step::Link, e))
    }

    /// Removes a request that the host has taken, or renames and wipes it if its file
    /// [is used again](super::reusable_name). Returns `false` if there was none. Its bytes are gone in both cases.
    ///
    /// # Errors
    /// [`MailboxError`] if there is one and it cannot be removed.
    pub fn retire(&self, name: &str) -> Result<bool, MailboxError> {
        if let Some(stem) = name.strip_suffix(REUSABLE) {
            let spare = format!("{SPARE}{stem}");
            match fs::renameat_with(&self.0, name, &self.0, &spare, fs::RenameFlags::NOREPLACE) {
                Ok(()) => {
                    // ORDER: a request is never wiped under its own name. A later host would read it.
                    if self.wipe(&spare).is_err() {
                        self.remove(&spare)?;
                    }
                    return Ok(true);
                }
                Err(Errno::NOENT) => return Ok(false),
                // The spare name exists, or the file system cannot rename so.
                Err(_) => {}
            }
        }
        self.remove(name)
    }
}

/// Returns the identity and the size of a file that may be used again.
fn rewritable(file: impl AsFd) -> Result<(FileIdentity, usize), MailboxError> {
    let stat = fs::fstat(file).map_err(|e| MailboxError::new(Step::Open, e))?;
    let is_regular = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
    if !is_regular || stat.st_blocks > REWRITTEN_BLOCKS_MAX {
        return Err(MailboxError::new(Step::Open, Errno::INVAL));
    }
    if stat.st_nlink != 1 {
        return Err(MailboxError::new(Step::Look, Errno::MLINK));
    }
    Ok((identity_of(&stat), usize::try_from(stat.st_size).unwrap_or(usize::MAX)))
}

#[cfg(test)]
mod tests {
    use super::super::names::stem;
    use super::super::tests::Scratch;
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn a_taken_request_is_removed_or_left_as_a_spare_file_by_its_name() {
        let (scratch, directory) = Scratch::new();
        let names = || {
            let mut names: Vec<_> =
                std::fs::read_dir(&scratch.0).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
            names.sort();
            names
        };
        for name in ["a.json", "b.reuse.json", "c.reuse.json", ".spare-c"] {
            std::fs::write(scratch.0.join(name), name).unwrap();
        }
        for name in ["a.json", "b.reuse.json", "c.reuse.json"] {
            assert!(directory.retire(name).unwrap());
            assert!(!directory.retire(name).unwrap());
        }
        assert_eq!(names(), [".spare-b", ".spare-c"]);
        assert_eq!(std::fs::read(scratch.0.join(".spare-b")).unwrap(), [0; 12], "its bytes are gone");
        std::fs::write(scratch.0.join("long.reuse.json"), vec![b'x'; WIPED_BYTES_MAX + 1]).unwrap();
        assert!(directory.retire("long.reuse.json").unwrap());
        assert_eq!(names(), [".spare-b", ".spare-c"], "a long file is removed");
        assert_eq!(std::fs::read(scratch.0.join(".spare-c")).unwrap(), b".spare-c", "nothing is replaced");
        assert_eq!([stem("a.json"), stem("b.reuse.json"), stem(".spare-b")], [Some("a"), Some("b"), None]);
    }

    #[test]
    fn a_file_is_written_again_only_if_it_is_plain_and_nobody_has_another_name_for_it() {
        let (scratch, directory) = Scratch::new();
        let path = |name: &str| scratch.0.join(name);
        std::fs::write(path("plain"), "long before").unwrap();
        directory.rewrite("plain", b"short").unwrap();
        assert_eq!(std::fs::read(path("plain")).unwrap(), b"short");
        directory.rewrite("plain", b"longer again").unwrap();
        assert_eq!(std::fs::read(path("plain")).unwrap(), b"longer again");
        std::fs::write(path("victim"), "before").unwrap();
        symlink("victim", path("link")).unwrap();
        std::fs::hard_link(path("victim"), path("twice")).unwrap();
        std::fs::create_dir(path("dir")).unwrap();
        fs::mknodat(fs::CWD, path("pipe"), FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        // A device: to open it would have an effect. Only root can make one.
        let device = fs::makedev(1, 3);
        let mode = Mode::RUSR | Mode::WUSR;
        let has_device = fs::mknodat(fs::CWD, path("device"), FileType::CharacterDevice, mode, device).is_ok();
        for name in ["link", "dir", "pipe", "missing", "../victim", "device"] {
            let step = directory.rewrite(name, b"after").unwrap_err().step;
            assert!(step == Step::Open, "{name}: {step}");
        }
        assert!(has_device || !rustix::process::geteuid().is_root());
        assert_eq!(directory.rewrite("twice", b"after").unwrap_err().step, Step::Look);
        assert_eq!(std::fs::read(path("victim")).unwrap(), b"before");
        let large = File::create(path("large")).unwrap();
        fs::fallocate(&large, fs::FallocateFlags::empty(), 0, 64 * 1024 * 1024).unwrap();
        assert_eq!(directory.rewrite("large", b"after").unwrap_err().step, Step::Open);
    }

    #[test]
    fn a_reply_is_not_read_from_a_file_that_its_name_has_left() {
        let (scratch, directory) = Scratch::new();
        let path = |name: &str| scratch.0.join(name);
        std::fs::write(path("spare"), "a").unwrap();
        std::fs::hard_link(path("spare"), path("a.json")).unwrap();
        assert_eq!(directory.read_reply("a.json", 10).unwrap().bytes, b"a");
        assert!(matches!(directory.read("a.json", 10, None), Err(ReadError::Linked(_))), "a request has one link");
        let found = directory.find_linked("a.json", 10, None, Links::OneOrTwo).unwrap();
        std::fs::remove_file(path("a.json")).unwrap();
        std::fs::write(path("spare"), "b").unwrap();
        assert_eq!(found.read().unwrap().bytes, b"b", "the file is another reply now");
        assert!(matches!(directory.read_reply("a.json", 10), Err(ReadError::Missing)));
        for twice in ["x.json", "y.json"] {
            std::fs::hard_link(path("spare"), path(twice)).unwrap();
        }
        assert!(matches!(directory.read_reply("x.json", 10), Err(ReadError::Linked(_))));
    }
}
