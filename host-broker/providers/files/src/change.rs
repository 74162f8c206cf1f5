//! A set of changes to files: the same data for the person, for the application and for the store.

use crate::record;
use model::WorkspacePath;
use serde::{Deserialize, Serialize};
use shared::digest::Digest;
use std::collections::BTreeSet;

/// The permissions of a file: the nine bits.
const PERMISSIONS: u32 = 0o777;
/// Which of them make a file executable.
const EXECUTABLE: u32 = 0o111;

/// The state of a file: its bytes and its permissions.
#[derive(Clone, PartialEq, Eq)]
pub struct FileState {
    bytes: Vec<u8>,
    mode: u32,
    hash: Digest,
}

impl FileState {
    /// These bytes under these permissions; of `mode`, only the nine bits count.
    pub fn new(bytes: Vec<u8>, mode: u32) -> Self {
        let hash = Digest::of(&bytes);
        Self { bytes, mode: mode & PERMISSIONS, hash }
    }

    /// A new file, as git makes them: readable by all, writable by its owner.
    pub fn created(bytes: Vec<u8>, executable: bool) -> Self {
        Self::new(bytes, if executable { 0o755 } else { 0o644 })
    }

    /// Other bytes under the same permissions.
    #[must_use]
    pub fn with_bytes(&self, bytes: Vec<u8>) -> Self {
        Self::new(bytes, self.mode)
    }

    /// Returns the same state, executable or not. Its readers may execute it; no other permissions change.
    #[must_use]
    pub fn with_executable(mut self, executable: bool) -> Self {
        if executable != self.is_executable() {
            self.mode = if executable { self.mode | ((self.mode & 0o444) >> 2) } else { self.mode & !EXECUTABLE };
        }
        self
    }

    /// The whole content.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The nine permission bits.
    pub fn mode(&self) -> u32 {
        self.mode
    }

    /// SHA-256 of the bytes.
    pub fn hash(&self) -> Digest {
        self.hash
    }

    /// Checks whether its owner may execute it: git's `100755` rather than `100644`.
    pub fn is_executable(&self) -> bool {
        self.mode & 0o100 != 0
    }
}

impl std::fmt::Debug for FileState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "FileState({} bytes, {:03o}, {})", self.bytes.len(), self.mode, self.hash)
    }
}

/// The change of one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// Where it will be, or, if it is deleted, where it is.
    pub path: WorkspacePath,
    /// Where it is now, if it is renamed.
    pub from: Option<WorkspacePath>,
    /// Its present state; `None` if it is created.
    pub before: Option<FileState>,
    /// Its future state; `None` if it is deleted.
    pub after: Option<FileState>,
}

impl Change {
    /// Every path that is touched.
    pub fn paths(&self) -> impl Iterator<Item = &WorkspacePath> {
        self.from.iter().chain(std::iter::once(&self.path))
    }

    /// Checks whether there is a file at `path` only afterwards.
    pub fn makes_a_file(&self) -> bool {
        self.after.is_some() && (self.before.is_none() || self.from.is_some())
    }

    fn is_empty(&self) -> bool {
        self.from.is_none() && self.before == self.after
    }
}

/// Changes that are made together, or not at all. There is at least one, each changes something, and no two of them
/// touch one path, or a file and a directory of the same name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangeSet(Vec<Change>);

/// Why changes are no set.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ChangeError {
    /// There is none.
    #[error("nothing is changed")]
    Nothing,
    /// One of them leaves everything as it is.
    #[error("`{0}` is not changed")]
    Unchanged(WorkspacePath),
    /// A rename of nothing, or onto itself, or into nothing.
    #[error("`{0}` is renamed from or to nothing, or to itself")]
    BadRename(WorkspacePath),
    /// Two of them touch the same path.
    #[error("`{0}` is touched twice")]
    Twice(WorkspacePath),
    /// One would be a file, and a directory for another.
    #[error("`{0}` is a file here and a directory there")]
    FileAndDirectory(WorkspacePath),
}

impl ChangeSet {
    /// These changes, in this order.
    ///
    /// # Errors
    /// [`ChangeError`].
    pub fn new(changes: Vec<Change>) -> Result<Self, ChangeError> {
        if changes.is_empty() {
            return Err(ChangeError::Nothing);
        }
        let mut seen = BTreeSet::new();
        for change in &changes {
            if change.is_empty() {
                return Err(ChangeError::Unchanged(change.path.clone()));
            }
            if change.from.as_ref().is_some_and(|from| *from == change.path)
                || change.from.is_some() && (change.before.is_none() || change.after.is_none())
            {
                return Err(ChangeError::BadRename(change.path.clone()));
            }
            for path in change.paths() {
                if !seen.insert(path.as_str()) {
                    return Err(ChangeError::Twice(path.clone()));
                }
            }
        }
        for path in changes.iter().flat_map(Change::paths) {
            let above = path.ancestry().filter(|part| *part != path.as_str());
            if above.into_iter().any(|part| seen.contains(part)) {
                return Err(ChangeError::FileAndDirectory(path.clone()));
            }
        }
        Ok(Self(changes))
    }

    /// One file with other content, or a new one.
    ///
    /// # Errors
    /// [`ChangeError`] if that changes nothing.
    pub fn write(path: WorkspacePath, before: Option<FileState>, content: Vec<u8>) -> Result<Self, ChangeError> {
        let after = match &before {
            Some(before) => before.with_bytes(content),
            None => FileState::created(content, false),
        };
        Self::new(vec![Change { path, from: None, before, after: Some(after) }])
    }

    /// The changes.
    pub fn changes(&self) -> &[Change] {
        &self.0
    }

    /// Returns the changes that undo these.
    #[must_use]
    pub fn inverse(&self) -> Self {
        let turned = |change: &Change| {
            let (path, from) = match &change.from {
                Some(from) => (from.clone(), Some(change.path.clone())),
                None => (change.path.clone(), None),
            };
            Change { path, from, before: change.after.clone(), after: change.before.clone() }
        };
        // The requirements for a set of changes hold in both directions.
        Self(self.0.iter().rev().map(turned).collect())
    }

    /// The set as bytes that can be kept, protected by a digest.
    pub fn to_bytes(&self) -> Vec<u8> {
        let entries: Vec<Entry> = self.0.iter().map(Entry::of).collect();
        let states = self.0.iter().flat_map(|change| [&change.before, &change.after]).flatten();
        record::encode(&entries, states.map(FileState::bytes))
    }

    /// The set that was kept.
    ///
    /// # Errors
    /// [`record::Damaged`] if these are not the bytes that [`ChangeSet::to_bytes`] made.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, record::Damaged> {
        let (entries, mut contents) = record::decode::<Vec<Entry>>(bytes)?;
        let changes = entries.into_iter().map(|entry| entry.change(&mut contents)).collect::<Option<_>>();
        match (changes, contents.next()) {
            (Some(changes), None) => Self::new(changes).map_err(|_fault| record::Damaged),
            (Some(_), Some(_)) | (None, _) => Err(record::Damaged),
        }
    }
}

/// A change as it is kept: the contents are beside it.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    path: String,
    from: Option<String>,
    before: Option<u32>,
    after: Option<u32>,
}

impl Entry {
    fn of(change: &Change) -> Self {
        Self {
            path: change.path.as_str().to_owned(),
            from: change.from.as_ref().map(|from| from.as_str().to_owned()),
            before: change.before.as_ref().map(FileState::mode),
            after: change.after.as_ref().map(FileState::mode),
        }
    }

    fn change(self, contents: &mut impl Iterator<Item = Vec<u8>>) -> Option<Change> {
        let mut state = |mode: Option<u32>| match mode {
            Some(mode) => contents.next().map(|bytes| Some(FileState::new(bytes, mode))),
            None => Some(None),
        };
        Some(Change {
            before: state(self.before)?,
            after: state(self.after)?,
            path: self.path.parse().ok()?,
            from: self.from.map(|from| from.parse()).transpose().ok()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> WorkspacePath {
        WorkspacePath::new(text).unwrap()
    }

    fn file(text: &str) -> FileState {
        FileState::created(text.into(), false)
    }

    fn change<B, A>(to: &str, from: Option<&str>, before: B, after: A) -> Change
    where
        B: Into<Option<FileState>>,
        A: Into<Option<FileState>>,
    {
        Change { path: path(to), from: from.map(path), before: before.into(), after: after.into() }
    }

    #[test]
    fn executable_is_what_readers_may_do() {
        for (mode, executable, now) in [
            (0o644, true, 0o755),
            (0o600, true, 0o700),
            (0o640, true, 0o750),
            (0o755, false, 0o644),
            (0o711, false, 0o600),
            (0o700, true, 0o700),
            (0o654, false, 0o654),
        ] {
            assert_eq!(FileState::new(vec![], mode).with_executable(executable).mode(), now, "{mode:o}");
        }
        assert_eq!(FileState::new(vec![], 0o104_755).mode(), 0o755);
    }

    #[test]
    fn a_set_changes_something_and_nothing_twice() {
        let set = |changes| ChangeSet::new(changes).map(|_| ());
        assert_eq!(set(vec![]), Err(ChangeError::Nothing));
        assert_eq!(set(vec![change("a", None, file("x"), file("x"))]), Err(ChangeError::Unchanged(path("a"))));
        assert_eq!(set(vec![change("a", None, None, None)]), Err(ChangeError::Unchanged(path("a"))));
        assert_eq!(set(vec![change("a", Some("a"), file("x"), file("y"))]), Err(ChangeError::BadRename(path("a"))));
        assert_eq!(set(vec![change("a", Some("b"), None, file("y"))]), Err(ChangeError::BadRename(path("a"))));
        let made = |to: &str| change(to, None, None, file("x"));
        assert_eq!(set(vec![made("a"), made("a")]), Err(ChangeError::Twice(path("a"))));
        let renamed = change("b", Some("a"), file("x"), file("x"));
        assert_eq!(set(vec![renamed.clone(), made("a")]), Err(ChangeError::Twice(path("a"))));
        assert_eq!(set(vec![made("a/b"), made("a")]), Err(ChangeError::FileAndDirectory(path("a/b"))));
        assert_eq!(set(vec![made("c/b"), made("c.b"), made("cb"), renamed]), Ok(()));
    }

    #[test]
    fn change_sets_survive_storage_and_damage_is_noticed() {
        let set = ChangeSet::new(vec![
            change("a", None, None, file("new")),
            change("c", Some("b"), file(""), FileState::new(vec![0, 255], 0o751)),
            change("d", None, file("old"), None),
        ])
        .unwrap();
        let bytes = set.to_bytes();
        assert_eq!(ChangeSet::from_bytes(&bytes).unwrap(), set);
        assert_eq!(set.inverse().inverse(), set);
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1;
            assert!(ChangeSet::from_bytes(&damaged).is_err(), "{at}");
            assert!(ChangeSet::from_bytes(&bytes[..at]).is_err(), "{at}");
        }
    }
}
