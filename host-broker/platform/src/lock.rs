//! A lock on a file or a directory: one holder at a time, in this process or another.

use rustix::fd::OwnedFd;
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

/// The lock, held until dropped; the system releases it when the process dies (flock(2)).
///
/// Closing the file would not be enough: a child that another thread has just forked keeps its copy open until it
/// executes its program, and the lock would be held that long. Unlocking goes for every copy.
#[derive(Debug)]
pub struct Lock(OwnedFd);

impl Lock {
    /// Locks an open file without waiting; `None` if another process holds the lock.
    ///
    /// # Errors
    /// The system cannot lock it.
    pub fn take(file: impl Into<OwnedFd>) -> Result<Option<Self>, Errno> {
        let file = file.into();
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Some(Self(file))),
            Err(Errno::WOULDBLOCK) => Ok(None),
            Err(errno) => Err(errno),
        }
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        flock(&self.0, FlockOperation::Unlock).ok();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;

    #[test]
    fn a_lock_ends_with_its_holder_though_a_copy_of_its_file_stays_open() {
        let directory = tempfile::tempdir().unwrap();
        let take = || Lock::take(File::open(directory.path()).unwrap()).unwrap();
        let held = take().unwrap();
        assert!(take().is_none());
        // A child has such a copy between fork and exec.
        let _copy = held.0.try_clone().unwrap();
        drop(held);
        assert!(take().is_some());
    }
}
