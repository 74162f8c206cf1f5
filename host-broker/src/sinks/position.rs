//! The position of a sink: the last row that it has accepted, in a file of its own.
//!
//! ```json
//! {"seq":1200,"event_hash":"sha256:6f…","time":1790000000000}
//! ```
//! A file and no row: a commit for each acceptance would be one beside every call.

use platform::home::{Home, make_private_directory, write_new};
use serde::{Deserialize, Serialize};
use shared::digest::Digest;
use std::io::{Error, ErrorKind};
use std::path::{Path, PathBuf};
use store::ledger::chain::Head;

/// The file in a restored home that has sinks without a position wait. No sink has a position of this name.
const HELD: &str = "held";

/// The last row that a sink has accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Position {
    /// Its number; 0 before the first one.
    pub seq: i64,
    /// Its hash, which the next row names.
    pub event_hash: Digest,
    /// Its time, in milliseconds since 1970.
    pub time: i64,
}

impl Position {
    /// Nothing was accepted yet.
    pub const START: Self = Self { seq: 0, event_hash: Digest::ZERO, time: 0 };
}

impl From<Head> for Position {
    fn from(head: Head) -> Self {
        Self { seq: head.seq, event_hash: head.hash, time: head.ts }
    }
}

impl From<Position> for Head {
    fn from(position: Position) -> Self {
        Self { seq: position.seq, hash: position.event_hash, ts: position.time }
    }
}

/// Returns the file of a sink's position.
pub fn path(home: &Path, sink: &str) -> PathBuf {
    Home::at(home.to_owned()).sink(sink)
}

/// Reads a position; `None` if nothing was accepted yet.
///
/// # Errors
/// A sentence for the operator: a position that cannot be read is not one at the start.
pub fn read(path: &Path) -> Result<Option<Position>, String> {
    let fault = |why: &dyn std::fmt::Display| format!("its position {} cannot be read: {why}", path.display());
    match std::fs::read(path) {
        Ok(bytes) => serde_json::from_slice(&bytes).map(Some).map_err(|error| fault(&error)),
        Err(error) if error.kind() == ErrorKind::NotFound && path.with_file_name(HELD).exists() => Err(format!(
            "the ledger was restored from a backup, so it is unknown which rows it has; name the next one: \
             host-broker evidence resume {} --from SEQ",
            path.file_stem().unwrap_or_default().display()
        )),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(fault(&error)),
    }
}

/// Has every sink of a restored home wait until an operator says with which row it continues: a sink may have rows that
/// are not in the backup.
///
/// # Errors
/// The error of the system.
pub fn hold(home: &Path) -> Result<(), Error> {
    write_new(&path(home, "").with_file_name(HELD), b"").map(drop)
}

/// Writes a position, as a whole or not at all.
///
/// # Errors
/// A sentence for the operator. The sink gets the rows again.
pub fn write(path: &Path, position: Position) -> Result<(), String> {
    replace(path, position).map_err(|error| format!("its position {} cannot be written: {error}", path.display()))
}

fn replace(path: &Path, position: Position) -> Result<(), Error> {
    let directory = path.parent().unwrap_or(path);
    if !directory.exists() {
        make_private_directory(directory)?;
        std::fs::File::open(directory.parent().unwrap_or(directory))?.sync_all()?;
    }
    platform::home::replace(path, &serde_json::to_vec(&position)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_position_is_absent_or_whole_and_never_a_guess() {
        let folder = tempfile::tempdir().unwrap();
        let path = path(folder.path(), "siem");
        assert_eq!(read(&path), Ok(None));
        let position = Position { seq: 7, event_hash: Digest::of(b"row"), time: 5 };
        for _twice in 0..2 {
            write(&path, position).unwrap();
            assert_eq!(read(&path), Ok(Some(position)));
        }
        let others = std::fs::read_dir(path.parent().unwrap()).unwrap().count();
        assert_eq!(others, 1, "nothing is left beside it");
        for text in ["", "{\"seq\":7}", "{\"seq\":7,\"event_hash\":\"sha256:00\",\"time\":5}"] {
            std::fs::write(&path, text).unwrap();
            assert!(read(&path).unwrap_err().contains("cannot be read"), "{text}");
        }
    }
}
