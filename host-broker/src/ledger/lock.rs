//! One writer: an exclusive lock on a file that no sandbox can reach.

use crate::ledger::LedgerError;
use rustix::fs::{FlockOperation, flock};
use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

/// The lock, held until dropped; the system releases it when the process dies.
#[derive(Debug)]
pub struct Lock(#[expect(dead_code, reason = "held, not read")] File);

impl Lock {
    /// Takes the lock without waiting.
    ///
    /// # Errors
    /// [`LedgerError::Locked`] if another process has it, [`LedgerError::File`] if the file cannot be used.
    pub fn take(path: &Path) -> Result<Self, LedgerError> {
        let file = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .mode(0o600)
            .open(path)
            .map_err(|source| LedgerError::File { path: path.into(), source })?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Self(file)),
            Err(rustix::io::Errno::WOULDBLOCK) => Err(LedgerError::Locked { path: path.into() }),
            Err(errno) => Err(LedgerError::File { path: path.into(), source: errno.into() }),
        }
    }
}
