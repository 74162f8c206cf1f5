//! Space that is kept free for outcomes.
//!
//! On a full disk nothing new is admitted, but what was attempted must still be recorded. A file of some megabytes
//! beside the ledger is given up then, and made again when there is space.

use rustix::fs::{FallocateFlags, fallocate};
use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

/// Enough for the outcomes of every call that may be under way, with their replies.
const RESERVE_BYTES: u64 = 8 * 1024 * 1024;

/// The file that holds the space.
#[derive(Debug)]
pub(crate) struct Reserve {
    path: PathBuf,
    held: bool,
    // It was held, and somebody needed it.
    given_up: bool,
}

impl Reserve {
    /// Takes the space, if there is some.
    pub(crate) fn take(home: &Path) -> Self {
        let mut reserve = Self { path: home.join("reserve"), held: false, given_up: false };
        reserve.restore();
        reserve
    }

    /// Gives the space up; `false` if it was given up before.
    pub(crate) fn release(&mut self) -> bool {
        let held = std::mem::replace(&mut self.held, false);
        self.given_up |= held;
        if held && let Err(error) = std::fs::remove_file(&self.path) {
            tracing::warn!(%error, "the reserved space cannot be given up");
        }
        held
    }

    /// Whether the space was given up and is not there again: it is for outcomes, and for nothing that is new.
    pub(crate) fn is_given_up(&self) -> bool {
        self.given_up
    }

    /// Takes the space again; nothing happens where it is held, or there is none.
    pub(crate) fn restore(&mut self) {
        if self.held {
            return;
        }
        let file = OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(&self.path);
        self.held = file.is_ok_and(|file| fallocate(&file, FallocateFlags::empty(), 0, RESERVE_BYTES).is_ok());
        self.given_up &= !self.held;
        if !self.held {
            // Half a reserve would take space from others and help nobody.
            std::fs::remove_file(&self.path).ok();
        }
    }
}
