//! The parser of patches: from a patch and the present files to the future files.
//!
//! Patches are unified diffs as git writes them: many files, creations, deletions, renames, permissions, lines without
//! their newline, quoted names. `sections` takes one apart and loses nothing of it silently; `fit` puts hunks in their
//! places. Bytes stay bytes: nothing is decoded, and a carriage return is part of its line.
//!
//! REJECTED: `diffy::PatchSet` and `diffy::apply_bytes`. The first passes over hunks behind anything it does not know,
//! over files without `diff --git` among others, and over modes in `index` lines; the second takes time that grows with
//! the square of hostile input. Hunks themselves are read by `diffy`.

mod fit;
mod name;
mod sections;

use crate::change::{Change, ChangeError, ChangeSet, FileState};
use crate::rules::{PathRules, RuleBreach};
use crate::workspace::FileError;
pub use fit::HunkError;
use fit::Work;
use model::{PathError, WorkspacePath};
pub use sections::Malformed;
use sections::{Operation, Section};
use shared::Code;

/// How large things may be.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// The patch, in bytes.
    pub patch_bytes: usize,
    /// How many files it may touch.
    pub files: usize,
    /// Each file, before and afterwards, in bytes.
    pub file_bytes: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self { patch_bytes: 1024 * 1024, files: 256, file_bytes: 512 * 1024 }
    }
}

/// Why a patch says nothing that could be done. Nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum PatchError {
    /// The patch is too long.
    #[error("the patch is larger than {max} bytes")]
    PatchTooLarge {
        /// How long it may be.
        max: usize,
    },
    /// It touches too many files.
    #[error("the patch touches more than {max} files")]
    TooManyFiles {
        /// How many it may touch.
        max: usize,
    },
    /// It is no patch.
    #[error("line {line} of the patch: {fault}")]
    Malformed {
        /// The line of the patch.
        line: usize,
        /// The fault.
        fault: Malformed,
    },
    /// A name in it is no path.
    #[error("line {line} of the patch: {fault}")]
    Path {
        /// The line of the patch.
        line: usize,
        /// The fault.
        fault: PathError,
    },
    /// The operator's rules.
    #[error(transparent)]
    Rule(#[from] RuleBreach),
    /// The state at a path cannot be used.
    #[error("`{path}`: {fault}")]
    File {
        /// The path.
        path: WorkspacePath,
        /// Why it cannot be used.
        fault: FileError,
    },
    /// A file that would be changed, deleted or renamed is not there.
    #[error("`{0}`: there is no such file")]
    Missing(WorkspacePath),
    /// A file that would be created, or renamed to, is there.
    #[error("`{0}`: there is already a file of this name")]
    Exists(WorkspacePath),
    /// A file that would be deleted has more than the patch removes.
    #[error("`{0}`: the file is to be deleted, but the patch does not remove all of it")]
    NotEmptied(WorkspacePath),
    /// A hunk.
    #[error("`{path}`: hunk {hunk} (line {line} of the patch): {fault}")]
    Hunk {
        /// The file.
        path: WorkspacePath,
        /// Which of its hunks, from 1.
        hunk: usize,
        /// The line of the patch where it begins.
        line: usize,
        /// The fault.
        fault: HunkError,
    },
    /// A file would become too large.
    #[error("`{path}`: the file would be larger than {max} bytes")]
    ResultTooLarge {
        /// The file.
        path: WorkspacePath,
        /// How large it may be.
        max: u64,
    },
    /// All of it together.
    #[error(transparent)]
    Set(#[from] ChangeError),
}

impl PatchError {
    /// The code of the refusal.
    pub fn code(&self) -> Code {
        match self {
            Self::PatchTooLarge { .. } | Self::TooManyFiles { .. } | Self::ResultTooLarge { .. } => Code::TooLarge,
            Self::Path { fault, .. } if fault.code() == Code::PathOutside => Code::PathOutside,
            Self::Rule(breach) => breach.code(),
            Self::File { fault, .. } => fault.code(),
            Self::Malformed { .. }
            | Self::Path { .. }
            | Self::Missing(_)
            | Self::Exists(_)
            | Self::NotEmptied(_)
            | Self::Hunk { .. }
            | Self::Set(_) => Code::PatchFailed,
        }
    }
}

/// Returns the first file name in a patch, as written, even if the patch or the name is not acceptable.
pub fn first_name(patch: &str) -> Option<String> {
    let mut named = None;
    for line in patch.lines() {
        if let Some(name) = line.strip_prefix("+++ ").or_else(|| line.strip_prefix("rename to ")) {
            if name.trim_end() != "/dev/null" {
                return Some(bare(name));
            }
        } else if let Some(name) = line.strip_prefix("--- ").filter(|name| *name != "/dev/null") {
            named.get_or_insert_with(|| bare(name));
        } else if let Some((_, name)) = line.strip_prefix("diff --git ").and_then(|both| both.rsplit_once(' ')) {
            named.get_or_insert_with(|| bare(name));
        }
        if line.starts_with("@@") {
            break;
        }
    }
    named
}

/// Returns a name without git's prefix and without the text behind a tab.
fn bare(name: &str) -> String {
    let name = name.split('\t').next().unwrap_or(name).trim_end();
    let name = name.strip_prefix("a/").or_else(|| name.strip_prefix("b/")).unwrap_or(name);
    name.to_owned()
}

/// Returns the changes of a patch. Changes nothing.
///
/// `look` returns the state of a path; it is asked only for paths that the rules permit.
///
/// # Errors
/// [`PatchError`], the first that is found.
pub fn plan(
    patch: &[u8],
    rules: &PathRules,
    limits: Limits,
    mut look: impl FnMut(&WorkspacePath) -> Result<Option<FileState>, FileError>,
) -> Result<ChangeSet, PatchError> {
    if patch.len() > limits.patch_bytes {
        return Err(PatchError::PatchTooLarge { max: limits.patch_bytes });
    }
    // A person and a model often leave the last newline out. It is not the marker that says that the file has none.
    let mut patch = std::borrow::Cow::Borrowed(patch);
    if patch.last().is_some_and(|byte| *byte != b'\n') {
        patch.to_mut().push(b'\n');
    }
    let sections = sections::parse(&patch, limits.files)?;
    let mut work = Work::default();
    let changes = sections.iter().map(|section| change(section, rules, limits, &mut look, &mut work));
    Ok(ChangeSet::new(changes.collect::<Result<_, _>>()?)?)
}

fn change(
    section: &Section<'_>,
    rules: &PathRules,
    limits: Limits,
    look: &mut impl FnMut(&WorkspacePath) -> Result<Option<FileState>, FileError>,
    work: &mut Work,
) -> Result<Change, PatchError> {
    let mut state = |path: &WorkspacePath| {
        rules.check(path)?;
        look(path).map_err(|fault| PatchError::File { path: path.clone(), fault })
    };
    let (path, from, before) = match &section.operation {
        Operation::Create(path) => {
            rules.check_creation(path)?;
            absent(path, state(path)?.as_ref())?;
            (path, None, None)
        }
        Operation::Modify(path) | Operation::Delete(path) => (path, None, Some(present(path, state(path)?)?)),
        Operation::Rename { from, to } => {
            let before = present(from, state(from)?)?;
            rules.check_creation(to)?;
            absent(to, state(to)?.as_ref())?;
            (to, Some(from.clone()), Some(before))
        }
    };
    let base = before.as_ref().map_or(&[][..], FileState::bytes);
    let bytes = fit::fit(base, &section.hunks, work).map_err(|(index, fault)| PatchError::Hunk {
        path: path.clone(),
        hunk: index + 1,
        line: section.hunks.get(index).map_or(section.line, |hunk| hunk.line),
        fault,
    })?;
    if u64::try_from(bytes.len()).is_ok_and(|size| size > limits.file_bytes) {
        return Err(PatchError::ResultTooLarge { path: path.clone(), max: limits.file_bytes });
    }
    let after = match (&section.operation, &before) {
        (Operation::Delete(_), _) if !bytes.is_empty() => return Err(PatchError::NotEmptied(path.clone())),
        (Operation::Delete(_), _) => None,
        (_, None) => Some(FileState::created(bytes, section.executable == Some(true))),
        (_, Some(before)) => {
            let executable = section.executable.unwrap_or(before.is_executable());
            Some(before.with_bytes(bytes).with_executable(executable))
        }
    };
    Ok(Change { path: path.clone(), from, before, after })
}

fn present(path: &WorkspacePath, state: Option<FileState>) -> Result<FileState, PatchError> {
    state.ok_or_else(|| PatchError::Missing(path.clone()))
}

fn absent(path: &WorkspacePath, state: Option<&FileState>) -> Result<(), PatchError> {
    if state.is_some() { Err(PatchError::Exists(path.clone())) } else { Ok(()) }
}

#[cfg(test)]
mod tests;
