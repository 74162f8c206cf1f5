//! Gives the directories that a group's sandbox writes to the sandbox's user.

use rustix::fs::{Gid, Mode, OFlags, Uid};
use shared::mailbox::{RESPONSES, TASKS};
use std::io::Error;
use std::path::Path;

/// Makes the missing directories of a mailbox, and gives them to the sandbox's user.
///
/// # Errors
/// The system's error; only root can give a directory away.
pub(super) fn give(mailbox: &Path, uid: u32) -> Result<(), Error> {
    for name in [TASKS, RESPONSES] {
        let path = mailbox.join(name);
        match std::fs::create_dir_all(mailbox).and_then(|()| std::fs::create_dir(&path)) {
            Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => return Err(error),
            Ok(()) | Err(_) => {}
        }
        // SECURITY: the handle follows no link, because the sandbox can put one in this place.
        let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let made = rustix::fs::open(&path, flags, Mode::empty())?;
        if rustix::fs::fstat(&made)?.st_uid != uid {
            rustix::fs::fchown(&made, Some(Uid::from_raw(uid)), None::<Gid>)?;
        }
    }
    Ok(())
}
