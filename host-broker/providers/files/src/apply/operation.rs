//! The operation on one name: a file comes, goes, or is replaced.

use crate::apply::Reason;
use crate::change::{ChangeSet, FileState};
use crate::workspace::folder::{Folder, There};
use crate::workspace::{FileError, Step};
use model::{NoRandomness, Nonce, Random, WorkspacePath};
use rustix::io::Errno;

/// The operation on one name. A rename is two of these.
pub(super) struct Operation {
    pub(super) path: WorkspacePath,
    /// The place where the new content waits for its name; afterwards the place of the displaced file.
    pub(super) temporary: String,
    /// A second such name, for undoing.
    pub(super) spare: String,
    pub(super) before: Option<FileState>,
    pub(super) after: Option<FileState>,
    /// The owner of the file.
    pub(super) owner: Option<(u32, u32)>,
}

/// How undoing ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Undone {
    /// It is as it was.
    Clean,
    /// Another process changed it in between.
    Disturbed,
}

impl Operation {
    /// Returns the operations of a set of changes, with temporary names for the written files.
    pub(super) fn of(set: &ChangeSet, ids: &dyn Random) -> Result<Vec<Self>, NoRandomness> {
        let mut all = Vec::new();
        for change in set.changes() {
            let mut add = |path: &WorkspacePath, before: Option<&FileState>, after: Option<&FileState>| {
                let nonce = Nonce::fresh(ids)?;
                all.push(Self {
                    path: path.clone(),
                    temporary: format!(".files-{}.new", nonce.as_str()),
                    spare: format!(".files-{}.old", nonce.as_str()),
                    before: before.cloned(),
                    after: after.cloned(),
                    owner: None,
                });
                Ok(())
            };
            let (before, after) = (change.before.as_ref(), change.after.as_ref());
            match &change.from {
                Some(from) => {
                    add(&change.path, None, after)?;
                    add(from, before, None)?;
                }
                None => add(&change.path, before, after)?,
            }
        }
        Ok(all)
    }

    /// How large a file may be that is one of ours.
    fn size_max(&self) -> u64 {
        let sizes = [&self.before, &self.after].into_iter().flatten().map(|state| state.bytes().len());
        sizes.max().and_then(|size| u64::try_from(size).ok()).unwrap_or(0)
    }

    fn there(&self, folder: &Folder, name: &str) -> There {
        folder.there(name, self.size_max())
    }

    /// Returns the reason for a fault at this file: mostly that it is something else than before.
    pub(super) fn refusal(&self, fault: FileError) -> Reason {
        match fault {
            FileError::System { .. } | FileError::Leased => Reason::File { path: self.path.clone(), fault },
            FileError::Missing
            | FileError::Outside
            | FileError::NotADirectory
            | FileError::NotRegular
            | FileError::Linked
            | FileError::Special
            | FileError::TooLarge { .. }
            | FileError::Changing
            | FileError::NotText => Reason::BaseChanged(self.path.clone()),
        }
    }

    fn changed(&self) -> Reason {
        Reason::BaseChanged(self.path.clone())
    }

    /// Checks whether the name is as it was when the changes were made.
    pub(super) fn check(&mut self, folder: &Folder) -> Result<(), Reason> {
        let name = self.path.name();
        match &self.before {
            None if folder.has(name) => Err(self.changed()),
            None => Ok(()),
            Some(before) => {
                let now = folder.state(name, self.size_max()).map_err(|fault| self.refusal(fault))?;
                if now.as_ref() != Some(before) {
                    return Err(self.changed());
                }
                self.owner = folder.owner_of(name);
                Ok(())
            }
        }
    }

    /// Writes the new content, if there is one, under its temporary name.
    pub(super) fn write(&self, folder: &Folder) -> Result<bool, Reason> {
        let Some(after) = &self.after else { return Ok(false) };
        let written = folder.create(&self.temporary, after, self.owner);
        written.map_err(|fault| Reason::File { path: self.path.clone(), fault })?;
        Ok(true)
    }

    /// Gives the new content its name, or takes the name away. The displaced file has the temporary name afterwards.
    pub(super) fn exchange(&self, folder: &Folder) -> Result<(), Reason> {
        let name = self.path.name();
        // It waited where the sandbox can write.
        if self.after.as_ref().is_some_and(|after| !is(&self.there(folder, &self.temporary), after)) {
            return Err(self.changed());
        }
        let exchanged = match (&self.before, &self.after) {
            (Some(_), Some(_)) => folder.exchange(&self.temporary, name),
            (_, Some(_)) => folder.rename(&self.temporary, name),
            (_, None) => folder.rename(name, &self.temporary),
        };
        exchanged.map_err(|errno| match errno {
            Errno::NOENT | Errno::EXIST | Errno::NOTDIR => self.changed(),
            Errno::INVAL | Errno::NOSYS => Reason::NoExchange(self.path.clone()),
            other => Reason::File { path: self.path.clone(), fault: FileError::at(Step::Rename)(other) },
        })
    }

    /// Checks whether the displaced file is the expected one, and the named file has the new content.
    pub(super) fn verify(&self, folder: &Folder) -> Result<(), Reason> {
        let holds = |name: &str, state: &FileState| is(&self.there(folder, name), state);
        let displaced = self.before.as_ref().is_none_or(|before| holds(&self.temporary, before));
        let arrived = self.after.as_ref().is_none_or(|after| holds(self.path.name(), after));
        if displaced && arrived { Ok(()) } else { Err(self.changed()) }
    }

    /// Removes the displaced file.
    pub(super) fn finish(&self, folder: &Folder) -> Result<(), FileError> {
        match &self.before {
            Some(_) => remove(folder, &self.temporary).map(|_| ()),
            None => Ok(()),
        }
    }

    /// Removes the new content that has not got its name.
    pub(super) fn unwrite(&self, folder: &Folder) -> Result<Undone, FileError> {
        remove(folder, &self.temporary)
    }

    /// Restores the former file of the name after a crash, or after a change by another process. May be repeated.
    pub(super) fn undo(&self, folder: &Folder) -> Result<Undone, FileError> {
        match (&self.before, &self.after) {
            (Some(before), Some(after)) => self.undo_replacement(folder, before, after),
            (None, Some(after)) => self.undo_creation(folder, after),
            (Some(before), None) => self.undo_deletion(folder, before),
            (None, None) => Ok(Undone::Clean),
        }
    }

    fn undo_replacement(&self, folder: &Folder, before: &FileState, after: &FileState) -> Result<Undone, FileError> {
        let (name, temporary) = (self.path.name(), self.temporary.as_str());
        let waits = is(&self.there(folder, temporary), after);
        if !waits && is(&self.there(folder, name), after) {
            // The displaced file comes back in every case.
            if folder.has(temporary) {
                return self.put_back(folder, temporary, after);
            }
            // Another process took it away. The journal has it.
            remove(folder, &self.spare)?;
            folder.create(&self.spare, before, self.owner)?;
            return self.put_back(folder, &self.spare, after);
        }
        // Left over if undoing was interrupted just before its end.
        let spare = match self.there(folder, &self.spare) {
            There::Nothing => Undone::Clean,
            found if is(&found, after) || is(&found, before) => remove(folder, &self.spare)?,
            There::File(_) | There::Other => Undone::Disturbed,
        };
        if waits {
            return Ok(worse(spare, remove(folder, temporary)?));
        }
        let temporary_holds = self.there(folder, temporary);
        let rest = match (self.there(folder, name), temporary_holds) {
            // Never written, or undone before; the present file of the name is not ours.
            (_, There::Nothing) => Undone::Clean,
            // Half of the new content, from a crash.
            (There::File(now), _) if now == *before => remove(folder, temporary)?,
            (There::Nothing, _) => rename(folder, temporary, name)?,
            // Another process replaced the new content after it had got its name; its version stays.
            (_, There::File(old)) if old == *before => worse(Undone::Disturbed, remove(folder, temporary)?),
            (There::File(_) | There::Other, There::File(_) | There::Other) => Undone::Disturbed,
        };
        Ok(worse(spare, rest))
    }

    /// Exchanges the name with its former file, and removes the new content.
    fn put_back(&self, folder: &Folder, from: &str, after: &FileState) -> Result<Undone, FileError> {
        match folder.exchange(from, self.path.name()) {
            Ok(()) => {}
            // Gone in this very moment.
            Err(Errno::NOENT) => return Ok(Undone::Disturbed),
            Err(errno) => return Err(FileError::at(Step::Rename)(errno)),
        }
        if is(&self.there(folder, from), after) {
            remove(folder, from)
        } else {
            // Another process edited the new content in the moment in which it was to be seen. The edit stays under
            // this name.
            Ok(Undone::Disturbed)
        }
    }

    fn undo_creation(&self, folder: &Folder, after: &FileState) -> Result<Undone, FileError> {
        let (name, temporary) = (self.path.name(), self.temporary.as_str());
        let spare = match self.there(folder, &self.spare) {
            There::Nothing => Undone::Clean,
            found if is(&found, after) => remove(folder, &self.spare)?,
            // Taken by the removal below in the moment in which it came.
            There::File(_) | There::Other => worse(Undone::Disturbed, rename(folder, &self.spare, name)?),
        };
        if is(&self.there(folder, temporary), after) {
            return Ok(worse(spare, remove(folder, temporary)?));
        }
        let found = self.there(folder, name);
        let rest = if is(&found, after) {
            // Not removed by its name: that may belong to another process by then.
            match folder.rename(name, &self.spare) {
                Ok(()) | Err(Errno::NOENT) => {}
                Err(errno) => return Err(FileError::at(Step::Rename)(errno)),
            }
            match self.there(folder, &self.spare) {
                There::Nothing => Undone::Clean,
                found if is(&found, after) => remove(folder, &self.spare)?,
                There::File(_) | There::Other => worse(Undone::Disturbed, rename(folder, &self.spare, name)?),
            }
        } else if found == There::Nothing || folder.has(temporary) {
            Undone::Clean
        } else {
            Undone::Disturbed
        };
        // Half of the new content, from a crash.
        Ok(worse(worse(spare, rest), remove(folder, temporary)?))
    }

    fn undo_deletion(&self, folder: &Folder, before: &FileState) -> Result<Undone, FileError> {
        let (name, temporary) = (self.path.name(), self.temporary.as_str());
        let is_there = folder.has(name);
        let rest = match self.there(folder, temporary) {
            There::Nothing if is_there => Undone::Clean,
            There::Nothing => {
                // Another process took it away. The journal has it.
                remove(folder, &self.spare)?;
                folder.create(&self.spare, before, self.owner)?;
                rename(folder, &self.spare, name)?
            }
            There::File(old) if is_there && old == *before => worse(Undone::Disturbed, remove(folder, temporary)?),
            There::File(_) | There::Other => rename(folder, temporary, name)?,
        };
        Ok(worse(rest, remove(folder, &self.spare)?))
    }
}

fn is(found: &There, state: &FileState) -> bool {
    matches!(found, There::File(found) if found == state)
}

fn worse(one: Undone, other: Undone) -> Undone {
    if one == Undone::Disturbed { one } else { other }
}

/// Removes a file under a name of ours. A file of another process in its place is left.
fn remove(folder: &Folder, name: &str) -> Result<Undone, FileError> {
    match folder.remove(name) {
        Ok(()) => Ok(Undone::Clean),
        Err(Errno::ISDIR | Errno::PERM) => Ok(Undone::Disturbed),
        Err(errno) => Err(FileError::at(Step::Rename)(errno)),
    }
}

/// Gives a file its former name, unless another file has it now.
fn rename(folder: &Folder, from: &str, to: &str) -> Result<Undone, FileError> {
    match folder.rename(from, to) {
        Ok(()) => Ok(Undone::Clean),
        Err(Errno::EXIST | Errno::NOENT) => Ok(Undone::Disturbed),
        Err(errno) => Err(FileError::at(Step::Rename)(errno)),
    }
}
