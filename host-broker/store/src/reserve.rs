//! Space that is kept free for outcomes.
//!
//! On a full disk no new call is admitted, but the outcomes of attempted effects must still be recorded. A file of some
//! megabytes beside the ledger is released then, and made again when there is space.

use rustix::fs::{FallocateFlags, fallocate};
use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

/// The size of the reserve: enough for the outcomes of every call that may be under way, with their replies.
const RESERVE_BYTES: u64 = 8 * 1024 * 1024;

/// The file that holds the space.
#[derive(Debug)]
pub(crate) struct Reserve {
    path: PathBuf,
    held: bool,
    // The space was held and then released.
    given_up: bool,
}

impl Reserve {
    /// Reserves the space, if there is enough.
    pub(crate) fn take(home: &Path) -> Self {
        let mut reserve = Self { path: home.join("reserve"), held: false, given_up: false };
        reserve.restore();
        reserve
    }

    /// Releases the space; `false` if it was released before.
    pub(crate) fn release(&mut self) -> bool {
        let held = std::mem::replace(&mut self.held, false);
        self.given_up |= held;
        if held && let Err(error) = std::fs::remove_file(&self.path) {
            tracing::warn!(%error, "the reserved space cannot be given up");
        }
        held
    }

    /// Returns whether the space was released and is not reserved again. It is then for outcomes only, and for no new
    /// call.
    pub(crate) fn is_given_up(&self) -> bool {
        self.given_up
    }

    /// Reserves the space again. It does nothing if the space is held, or if there is none.
    pub(crate) fn restore(&mut self) {
        if self.held {
            return;
        }
        let file = OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(&self.path);
        self.held = file.is_ok_and(|file| fallocate(&file, FallocateFlags::empty(), 0, RESERVE_BYTES).is_ok());
        self.given_up &= !self.held;
        if !self.held {
            // Half a reserve would take space from others without use.
            std::fs::remove_file(&self.path).ok();
        }
    }
}
