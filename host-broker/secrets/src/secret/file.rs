//! Reads files that hold secrets, and refuses those that others can read.

use super::SecretError;
use super::source::missing;
use rustix::fs::{FileType, Mode, OFlags, fstat, open};
use std::fs::File;
use std::io::Read as _;
use std::path::Path;
use zeroize::Zeroizing;

/// The longest file that is read.
const FILE_BYTES_MAX: u64 = 256 * 1024;
/// Group and others, any right.
const OTHERS: u32 = 0o077;
const ROOT: u32 = 0;

/// Returns the content of a regular file that belongs to us or to root and that no other user can open.
///
/// Links on the way are followed, because mounted secrets are links; the check concerns the opened file.
pub(super) fn read(path: &Path) -> Result<Zeroizing<Vec<u8>>, SecretError> {
    let name = path.display();
    let refused = |what: String| SecretError::Refused { what };
    // Non-blocking, so that a pipe under this name cannot hold the broker up.
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    let handle = open(path, flags, Mode::empty()).map_err(|why| missing(format!("{name} cannot be opened: {why}")))?;
    let stat = fstat(&handle).map_err(|why| missing(format!("{name} cannot be looked at: {why}")))?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Err(refused(format!("{name} is not a regular file")));
    }
    if stat.st_uid != ROOT && stat.st_uid != rustix::process::geteuid().as_raw() {
        return Err(refused(format!("{name} belongs to another user; `chown` it to the broker's")));
    }
    if stat.st_mode & OTHERS != 0 {
        return Err(refused(format!("others may open {name}; run `chmod 600 {name}`")));
    }
    if u64::try_from(stat.st_size).map_or(true, |size| size > FILE_BYTES_MAX) {
        return Err(refused(format!("{name} is longer than {FILE_BYTES_MAX} bytes")));
    }
    // Enough from the start: a buffer that grows leaves copies behind.
    let mut content = Zeroizing::new(Vec::with_capacity(usize::try_from(stat.st_size).unwrap_or(0) + 1));
    File::from(handle)
        .take(FILE_BYTES_MAX)
        .read_to_end(&mut content)
        .map_err(|why| missing(format!("{name} cannot be read: {why}")))?;
    Ok(content)
}
