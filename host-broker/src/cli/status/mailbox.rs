//! A group's mailbox, as far as the command sees it from outside.

use rustix::fs::StatFs;
use shared::mailbox::{Directory, RESPONSES, TASKS, is_document};
use std::path::Path;

/// With more unread replies than this, the sandbox does not remove what it has read.
const UNREAD_MAX: usize = 1_000;
/// The most names that are looked at.
const NAMES_MAX: usize = 10_000;

/// The state of a mailbox.
pub(in crate::cli) struct Mailbox {
    /// The type of its file system, such as `ext4`; `None` if it is not known.
    pub(in crate::cli) file_system: Option<&'static str>,
    /// The number of replies that nobody has removed. It counts at most [`NAMES_MAX`]. `None` if they cannot be listed.
    pub(in crate::cli) replies: Option<usize>,
}

impl Mailbox {
    /// Looks at the directory of a group.
    pub(in crate::cli) fn at(path: &Path) -> Self {
        // Requests and replies can be on another file system than the directory above.
        let file_system = rustix::fs::statfs(path.join(TASKS)).ok().and_then(|stat| file_system(&stat));
        Self { file_system, replies: replies(path) }
    }

    /// Returns the advice for the operator, if calls as files are slower than they could be.
    pub(in crate::cli) fn advice(&self) -> Option<String> {
        self.replies.filter(|replies| *replies > UNREAD_MAX).map(|replies| {
            format!(
                "the sandbox has left {replies} replies in responses/, so the host makes a new file for each reply. Mount \
                 responses/ writable in the sandbox, so that the shim removes them"
            )
        })
    }
}

/// Counts the replies. The sandbox may own the directory, so no link in it is followed.
fn replies(path: &Path) -> Option<usize> {
    let responses = Directory::open(path).ok()?.open_dir(RESPONSES).ok()?;
    let (mut names, mut replies) = (0, 0);
    let count = |name: &str| {
        names += 1;
        replies += usize::from(is_document(name) && !name.ends_with(".progress.json"));
        names < NAMES_MAX
    };
    responses.for_each_name(count).ok()?;
    Some(replies)
}

/// Returns the name of a file system from its number (`statfs(2)`).
fn file_system(stat: &StatFs) -> Option<&'static str> {
    match stat.f_type {
        0xef53 => Some("ext4"),
        0x0102_1994 => Some("tmpfs"),
        0x5846_5342 => Some("xfs"),
        0x9123_683e => Some("btrfs"),
        0x794c_7630 => Some("overlayfs"),
        0x6573_5546 => Some("fuse"),
        0x2fc1_2fc1 => Some("zfs"),
        0xf2f5_2010 => Some("f2fs"),
        _ => None,
    }
}
