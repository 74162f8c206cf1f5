//! The boot of this machine.

use std::io;

/// Returns the random id of this boot of the kernel.
///
/// # Errors
/// `/proc` cannot be read.
pub fn id() -> io::Result<String> {
    Ok(std::fs::read_to_string("/proc/sys/kernel/random/boot_id")?.trim().to_owned())
}
