//! The directories that a group's sandbox writes, given to its user.

use rustix::fs::{Gid, Mode, OFlags, Uid};
use shared::mailbox::{RESPONSES, TASKS};
use std::io::Error;
use std::path::Path;

/// Makes what is missing of a mailbox, and gives what the sandbox writes to its user.
///
/// # Errors
/// What the system said; only root gives something away.
pub(super) fn give(mailbox: &Path, uid: u32) -> Result<(), Error> {
    for name in [TASKS, RESPONSES] {
        let path = mailbox.join(name);
        match std::fs::create_dir_all(mailbox).and_then(|()| std::fs::create_dir(&path)) {
            Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => return Err(error),
            Ok(()) | Err(_) => {}
        }
        // SECURITY: through a handle that follows no link: the sandbox can put one in its place.
        let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let made = rustix::fs::open(&path, flags, Mode::empty())?;
        if rustix::fs::fstat(&made)?.st_uid != uid {
            rustix::fs::fchown(&made, Some(Uid::from_raw(uid)), None::<Gid>)?;
        }
    }
    Ok(())
}
