//! The shim on this machine: where it is, and whether it runs without the libraries of this machine.

use platform::commands::located;
use std::path::{Path, PathBuf};

/// The error text of a machine without the shim.
pub(super) const NONE: &str = "mcp-shim was not found beside this program or in PATH; build it with `cargo build -p mcp-shim`, \
                               or name it with --shim";
/// The command that builds a shim for any image.
const BUILD: &str = "RUSTFLAGS='-C target-feature=+crt-static' cargo build --profile shim --target \"$(rustc -vV | sed -n \
                     's/^host: //p')\" -p mcp-shim";
/// The type of a program header that names an interpreter, the dynamic linker (elf(5)).
const PT_INTERP: u32 = 3;
/// The most program headers that are read. A program has about ten.
const HEADERS_MAX: usize = 256;

/// Returns the path of the shim: this one, or the one beside this program or in the directories of programs.
pub(in crate::cli) fn shim_path(named: Option<&Path>) -> Option<PathBuf> {
    let beside = || std::env::current_exe().ok().and_then(|this| Some(this.parent()?.join("mcp-shim")));
    let shim = match named {
        Some(named) => Some(named.to_owned()),
        None => beside().filter(|shim| shim.is_file()).or_else(|| located(Path::new("mcp-shim"))),
    };
    shim.and_then(|shim| shim.canonicalize().ok()).filter(|shim| shim.is_file())
}

/// Checks that the shim runs in any image: an image need not have the libraries of this machine.
///
/// # Errors
/// It needs a dynamic linker, or it cannot be read. The text has the command that builds a static one.
pub(super) fn is_static(shim: &Path) -> Result<(), String> {
    let shown = shim.display();
    let bytes = std::fs::read(shim).map_err(|error| format!("cannot read {shown}: {error}"))?;
    match interpreter(&bytes) {
        Some(false) => Ok(()),
        Some(true) => Err(format!(
            "{shown} needs the libraries of this machine, which an image need not have; build a static one and name it with \
             --shim: {BUILD}"
        )),
        None => Err(format!("{shown} is no program for a container; build one and name it with --shim: {BUILD}")),
    }
}

/// Returns whether an ELF file of 64 bits names an interpreter; `None` if it is no such file.
fn interpreter(bytes: &[u8]) -> Option<bool> {
    // Its class is 64 bits and its byte order little-endian, as on every machine that the broker is built for.
    if bytes.get(..6)? != b"\x7fELF\x02\x01" {
        return None;
    }
    let table = usize::try_from(u64::from_le_bytes(array(bytes, 32)?)).ok()?;
    let size = usize::from(u16::from_le_bytes(array(bytes, 54)?));
    let count = usize::from(u16::from_le_bytes(array(bytes, 56)?));
    for number in 0..count.min(HEADERS_MAX) {
        let place = number.checked_mul(size)?.checked_add(table)?;
        if u32::from_le_bytes(array(bytes, place)?) == PT_INTERP {
            return Some(true);
        }
    }
    Some(false)
}

fn array<const N: usize>(bytes: &[u8], place: usize) -> Option<[u8; N]> {
    bytes.get(place..place.checked_add(N)?)?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file with program headers of these types.
    fn elf(types: &[u32]) -> Vec<u8> {
        let mut bytes = vec![0; 64];
        bytes[..6].copy_from_slice(b"\x7fELF\x02\x01");
        bytes[32..40].copy_from_slice(&64_u64.to_le_bytes());
        bytes[54..56].copy_from_slice(&56_u16.to_le_bytes());
        bytes[56..58].copy_from_slice(&u16::try_from(types.len()).unwrap().to_le_bytes());
        for kind in types {
            bytes.extend(kind.to_le_bytes());
            bytes.extend([0; 52]);
        }
        bytes
    }

    #[test]
    fn a_program_with_a_dynamic_linker_is_refused_with_the_command_for_a_static_one() {
        let folder = tempfile::tempdir().unwrap();
        let shim = folder.path().join("mcp-shim");
        // A static program can be position-independent, with a table of relocations (PT_DYNAMIC).
        for (types, expected) in [(&[1, 2][..], None), (&[6, 3, 1][..], Some("crt-static"))] {
            std::fs::write(&shim, elf(types)).unwrap();
            let fault = is_static(&shim).err();
            assert_eq!(fault.is_some(), expected.is_some(), "{types:?}: {fault:?}");
            assert!(expected.is_none_or(|word| fault.unwrap().contains(word)));
        }
        for bytes in [&b"#!/bin/sh\n"[..], b"", &elf(&[6, 3])[..121]] {
            std::fs::write(&shim, bytes).unwrap();
            assert!(is_static(&shim).is_err(), "{bytes:?}");
        }
    }
}
