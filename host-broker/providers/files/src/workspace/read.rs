//! Some lines of a file, and the digest of all of it, in one pass.

use crate::workspace::folder::{Folder, Seen};
use crate::workspace::{FileError, Step};
use sha2::{Digest as _, Sha256};
use shared::digest::Digest;
use std::fs::File;
use std::io::Read as _;

/// The largest file of which lines are read: its digest costs seconds.
pub const READ_MAX: u64 = 2 * 1024 * 1024 * 1024;
/// How much is read at once.
const BLOCK: usize = 64 * 1024;
/// The most reads of a file that changes during the read.
const ATTEMPTS: u32 = 3;

/// Which lines; the first one is 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lines {
    /// The first.
    pub start: u64,
    /// The last.
    pub end: u64,
}

/// Some lines of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Excerpt {
    /// The lines, as they are, with their ends.
    pub content: String,
    /// The lines of which something is in `content`; `end` is `start - 1` if there is none.
    pub returned: Lines,
    /// How many lines the file has; an end without a newline counts.
    pub total_lines: u64,
    /// How many bytes the file has.
    pub size: u64,
    /// SHA-256 of the whole file's bytes.
    pub hash: Digest,
    /// Whether lines that were asked for and exist are missing, or the last one is not whole.
    pub truncated: bool,
}

pub(super) fn excerpt(folder: &Folder, name: &str, lines: Lines, max_bytes: usize) -> Result<Excerpt, FileError> {
    for _ in 0..ATTEMPTS {
        let seen = folder.look(name)?.ok_or(FileError::Missing)?;
        if seen.size() > READ_MAX {
            return Err(FileError::TooLarge { max: READ_MAX });
        }
        let mut file = seen.open(folder, name)?;
        let read = pass(&mut file, &seen, lines, max_bytes)?;
        if seen.is_unchanged(&file)? {
            return read.finish();
        }
    }
    Err(FileError::Changing)
}

fn pass(file: &mut File, seen: &Seen, lines: Lines, max_bytes: usize) -> Result<Pass, FileError> {
    let mut pass = Pass {
        lines,
        max_bytes,
        digest: Sha256::new(),
        content: Vec::new(),
        cut: false,
        complete_lines: 0,
        size: 0,
        ends_in_line: false,
    };
    let mut block = vec![0; BLOCK];
    // No further than its former length: it may grow without end.
    let mut rest = file.take(seen.size());
    loop {
        let count = rest.read(&mut block).map_err(|source| FileError::System { step: Step::Read, source })?;
        match block.get(..count) {
            Some([]) | None => return Ok(pass),
            Some(bytes) => pass.take(bytes),
        }
    }
}

struct Pass {
    lines: Lines,
    max_bytes: usize,
    digest: Sha256,
    content: Vec<u8>,
    cut: bool,
    complete_lines: u64,
    size: u64,
    ends_in_line: bool,
}

impl Pass {
    fn take(&mut self, bytes: &[u8]) {
        self.digest.update(bytes);
        self.size = self.size.saturating_add(u64::try_from(bytes.len()).unwrap_or(u64::MAX));
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            let line = self.complete_lines + 1;
            if (self.lines.start..=self.lines.end).contains(&line) && !self.cut {
                let room = self.max_bytes - self.content.len();
                self.cut = piece.len() > room;
                self.content.extend(piece.iter().take(room));
            }
            self.ends_in_line = piece.last() != Some(&b'\n');
            if !self.ends_in_line {
                self.complete_lines = line;
            }
        }
    }

    fn finish(self) -> Result<Excerpt, FileError> {
        let Self { lines, mut content, cut, .. } = self;
        if let Err(fault) = std::str::from_utf8(&content) {
            // A character that the cut went through is left out; anything else is no text.
            if !cut || fault.error_len().is_some() {
                return Err(FileError::NotText);
            }
            content.truncate(fault.valid_up_to());
        }
        let content = String::from_utf8(content).map_err(|_bytes| FileError::NotText)?;
        if content.contains('\0') {
            return Err(FileError::NotText);
        }
        let count = u64::try_from(content.split_inclusive('\n').count()).unwrap_or(u64::MAX);
        let start = lines.start.max(1);
        Ok(Excerpt {
            returned: Lines { start, end: (start - 1).saturating_add(count) },
            content,
            total_lines: self.complete_lines + u64::from(self.ends_in_line),
            size: self.size,
            hash: Digest::from_bytes(self.digest.finalize().into()),
            truncated: cut,
        })
    }
}
