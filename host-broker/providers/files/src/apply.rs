//! The application of changes: all of them or none, also if the broker dies in between.
//!
//! 1. Every file is looked at again: it must have the bytes and permissions for which the changes were made.
//! 2. The planned changes, and the present files, are written into the [`Journal`], which is not in the workspace.
//! 3. New contents are written under random names beside the files.
//! 4. Each is exchanged with the file of its name, and the displaced file is looked at. If it is not the expected one,
//!    another process was faster, and everything is undone. No edit is overwritten unseen.
//! 5. The journal says that it is done; then the displaced files are removed, then the plan. A mark stays.
//!
//! Until step 5 a crash is undone by [`recover`], from then on it is completed. The sandbox may change everything in
//! the workspace at every moment. So no data that decides lies there, and everything goes through handles of
//! directories. A content that is neither the old nor the new one belongs to another process and is left there.
//!
//! One case cannot be seen: a process that holds a file open for writing may still write into it after it was
//! displaced.

mod journal;
mod operation;

pub use journal::{Journal, JournalError, Mark};

use crate::change::{Change, ChangeSet, FileState};
use crate::rules::{PathRules, RuleBreach};
use crate::workspace::folder::Folder;
use crate::workspace::{FileError, Step, Workspace};
use journal::Plan;
use model::{Random, WorkspacePath};
use operation::{Operation, Undone};
use rustix::io::Errno;
use shared::Code;
use shared::digest::Digest;
use std::collections::BTreeSet;
use std::ops::ControlFlow;

/// Where changes are made true.
#[derive(Clone, Copy)]
pub struct Place<'a> {
    /// The files.
    pub workspace: &'a Workspace,
    /// The journal of the present changes; one journal belongs to one workspace.
    pub journal: &'a Journal,
    /// The paths that may be changed.
    pub rules: &'a PathRules,
    /// Where unguessable names come from.
    pub ids: &'a dyn Random,
    /// The mark that the journal keeps after the end.
    pub mark: &'a Mark,
}

/// A step that was just done. A watcher may end the application there, as a crash would: [`ControlFlow::Break`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Point {
    /// Everything was looked at and nothing done.
    Checked,
    /// The journal holds the plan.
    Journalled,
    /// A directory was made.
    DirectoryMade,
    /// A new content was written under its random name.
    Written,
    /// A name was given to it, or taken from a file.
    Exchanged,
    /// The displaced file is the expected one.
    Verified,
    /// All names will last.
    Synced,
    /// The journal says that it is done.
    Committed,
    /// A displaced file was removed.
    Removed,
    /// A change was undone.
    Undone,
    /// The journal is empty.
    Forgotten,
}

/// An observer of the steps.
pub type Watch<'a> = dyn FnMut(Point) -> ControlFlow<()> + 'a;

/// Continues at every step.
pub fn unwatched(_: Point) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

/// One file that was changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Applied {
    /// Where it is, or was.
    pub path: WorkspacePath,
    /// Where it was, if it was renamed.
    pub from: Option<WorkspacePath>,
    /// The digest of its former content; `None` if it was created.
    pub before: Option<Digest>,
    /// The digest of its present content; `None` if it was deleted.
    pub after: Option<Digest>,
}

/// Why changes were not made.
#[derive(Debug, thiserror::Error)]
pub enum ApplyError {
    /// The files are as they were before.
    #[error("nothing was changed: {0}")]
    Unchanged(Reason),
    /// Some files may be changed. If the journal could not be emptied, [`recover`] settles it.
    #[error("it is unknown which files were changed: {0}")]
    Unknown(Unsettled),
}

/// Why nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum Reason {
    /// A file is not the one for which the changes were made, or another process is changing it.
    #[error("`{0}` has changed since")]
    BaseChanged(WorkspacePath),
    /// The operator's rules.
    #[error(transparent)]
    Rule(#[from] RuleBreach),
    /// The system refused.
    #[error("`{path}`: {fault}")]
    File {
        /// Where.
        path: WorkspacePath,
        /// The fault.
        fault: FileError,
    },
    /// The workspace's file system cannot exchange two names.
    #[error("`{0}`: the file system cannot exchange two files, so nothing can be changed safely")]
    NoExchange(WorkspacePath),
    /// The journal could not be written, or is in use, or has to be recovered first.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// No names could be made up.
    #[error("the system has no random numbers")]
    NoRandomness,
}

impl Reason {
    /// The code of the refusal.
    pub fn code(&self) -> Code {
        match self {
            Self::BaseChanged(_) => Code::BaseChanged,
            Self::Rule(breach) => breach.code(),
            Self::File { fault, .. } => fault.code(),
            Self::NoExchange(_) | Self::Journal(_) | Self::NoRandomness => Code::ProviderFailed,
        }
    }
}

/// The reason why it is not known which files were changed.
#[derive(Debug, thiserror::Error)]
pub enum Unsettled {
    /// It ended halfway.
    #[error("it was interrupted")]
    Interrupted,
    /// It was undone, but another process had changed these files; its versions were left.
    #[error("another process changed files while they were being restored: {0:?}")]
    Disturbed(Vec<WorkspacePath>),
    /// Undoing failed.
    #[error("`{path}` could not be changed back: {fault}")]
    Undo {
        /// Where.
        path: WorkspacePath,
        /// Why.
        fault: FileError,
    },
    /// The journal failed.
    #[error(transparent)]
    Journal(#[from] JournalError),
}

/// The finding after a restart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Recovered {
    /// Nothing had been under way.
    Nothing,
    /// Changes had been made completely; the rest of their files is gone.
    Completed(Vec<WorkspacePath>),
    /// Changes had been made halfway, and were undone.
    Undone {
        /// All files that were concerned.
        paths: Vec<WorkspacePath>,
        /// The files that another process had changed; its versions were left.
        disturbed: Vec<WorkspacePath>,
    },
}

/// Makes the changes, all or none.
///
/// # Errors
/// [`ApplyError`] says whether anything may be changed.
pub fn apply(place: Place<'_>, set: &ChangeSet, watch: &mut Watch<'_>) -> Result<Vec<Applied>, ApplyError> {
    let _lock = place.journal.lock().map_err(|fault| ApplyError::Unchanged(fault.into()))?;
    let plan = checked(place, set).map_err(ApplyError::Unchanged)?;
    pass(watch, Point::Checked)?;
    place.journal.publish(&plan).map_err(|fault| ApplyError::Unchanged(fault.into()))?;
    pass(watch, Point::Journalled)?;
    let mut done = 0;
    let folders = match exchange(place, &plan, &mut done, watch) {
        Ok(folders) => folders,
        Err(Stop::Watched) => return Err(ApplyError::Unknown(Unsettled::Interrupted)),
        Err(Stop::Reason(reason)) => {
            let disturbed = undo(place.workspace, &plan, Some(done), watch)
                .and_then(|disturbed| forget(place.journal, watch).map(|()| disturbed))
                .map_err(ApplyError::Unknown)?;
            return Err(if disturbed.is_empty() {
                ApplyError::Unchanged(reason)
            } else {
                ApplyError::Unknown(Unsettled::Disturbed(disturbed))
            });
        }
    };
    place.journal.commit().map_err(|fault| ApplyError::Unknown(fault.into()))?;
    pass(watch, Point::Committed)?;
    // It is done. If this fails, the next recovery removes the rest.
    let finished = finish(&plan, folders.iter().map(Some), watch).and_then(|()| {
        place.journal.mark(&plan.mark)?;
        forget(place.journal, watch)
    });
    if let Err(Unsettled::Interrupted) = finished {
        return Err(ApplyError::Unknown(Unsettled::Interrupted));
    }
    Ok(set.changes().iter().map(applied).collect())
}

/// Settles the rest of a crash: completes finished changes, undoes the others. May itself be interrupted and repeated.
///
/// # Errors
/// [`Unsettled`]; the journal then still holds the plan.
pub fn recover(workspace: &Workspace, journal: &Journal, watch: &mut Watch<'_>) -> Result<Recovered, Unsettled> {
    let _lock = journal.lock()?;
    if let Some(plan) = journal.committed(workspace)? {
        let folders: Vec<_> = plan.operations.iter().map(|op| workspace.folder(&op.path).ok()).collect();
        finish(&plan, folders.iter().map(Option::as_ref), watch)?;
        journal.mark(&plan.mark)?;
        forget(journal, watch)?;
        return Ok(Recovered::Completed(plan.paths()));
    }
    let Some(plan) = journal.pending(workspace)? else { return Ok(Recovered::Nothing) };
    let disturbed = undo(workspace, &plan, None, watch)?;
    forget(journal, watch)?;
    Ok(Recovered::Undone { paths: plan.paths(), disturbed })
}

/// Why the exchange stopped.
enum Stop {
    Reason(Reason),
    Watched,
}

impl From<Unsettled> for ApplyError {
    fn from(unsettled: Unsettled) -> Self {
        Self::Unknown(unsettled)
    }
}

fn pass(watch: &mut Watch<'_>, point: Point) -> Result<(), Unsettled> {
    if watch(point).is_break() { Err(Unsettled::Interrupted) } else { Ok(()) }
}

fn applied(change: &Change) -> Applied {
    Applied {
        path: change.path.clone(),
        from: change.from.clone(),
        before: change.before.as_ref().map(FileState::hash),
        after: change.after.as_ref().map(FileState::hash),
    }
}

/// Looks at every file again and plans the changes.
fn checked(place: Place<'_>, set: &ChangeSet) -> Result<Plan, Reason> {
    let mut directories = BTreeSet::new();
    let mut operations = Vec::new();
    for mut operation in Operation::of(set, place.ids).map_err(|_why| Reason::NoRandomness)? {
        place.rules.check(&operation.path)?;
        match place.workspace.folder(&operation.path) {
            Ok(folder) => operation.check(&folder)?,
            Err(FileError::Missing) if operation.before.is_none() => {
                // Directories come with files that may be created, and not otherwise.
                place.rules.check_creation(&operation.path)?;
                for part in operation.path.parent().iter().flat_map(WorkspacePath::ancestry) {
                    let path =
                        WorkspacePath::new(part).map_err(|_never| Reason::BaseChanged(operation.path.clone()))?;
                    if matches!(place.workspace.directory(Some(&path)), Err(FileError::Missing)) {
                        directories.insert(path);
                    }
                }
            }
            Err(fault) => return Err(operation.refusal(fault)),
        }
        operations.push(operation);
    }
    // In this order a directory comes behind those that it is in.
    Ok(Plan {
        workspace: place.workspace.inode(),
        mark: place.mark.clone(),
        directories: directories.into_iter().collect(),
        operations,
    })
}

/// Steps 3 and 4. `done` counts the operations that may have taken their effect.
fn exchange(place: Place<'_>, plan: &Plan, done: &mut usize, watch: &mut Watch<'_>) -> Result<Vec<Folder>, Stop> {
    let mut pass = |point| if watch(point).is_break() { Err(Stop::Watched) } else { Ok(()) };
    for path in &plan.directories {
        let failed = |fault| Stop::Reason(Reason::File { path: path.clone(), fault });
        let folder = place.workspace.folder(path).map_err(failed)?;
        folder.make_directory(path.name()).map_err(FileError::at(Step::Directory)).map_err(failed)?;
        folder.sync().map_err(FileError::at(Step::Sync)).map_err(failed)?;
        pass(Point::DirectoryMade)?;
    }
    let mut folders = Vec::new();
    for operation in &plan.operations {
        let folder = place.workspace.folder(&operation.path).map_err(|fault| Stop::Reason(operation.refusal(fault)))?;
        if operation.write(&folder).map_err(Stop::Reason)? {
            pass(Point::Written)?;
        }
        folders.push(folder);
    }
    for (operation, folder) in plan.operations.iter().zip(&folders) {
        let exchanged = operation.exchange(folder);
        // If the name did not exist or was not free, nothing happened; of other faults it is not known.
        if !matches!(exchanged, Err(Reason::BaseChanged(_) | Reason::NoExchange(_))) {
            *done += 1;
        }
        exchanged.map_err(Stop::Reason)?;
        pass(Point::Exchanged)?;
        operation.verify(folder).map_err(Stop::Reason)?;
        pass(Point::Verified)?;
    }
    for (operation, folder) in plan.operations.iter().zip(&folders) {
        // A directory may have been moved away, and another put in its place, since it was opened.
        let now = place.workspace.folder(&operation.path).map_err(|fault| Stop::Reason(operation.refusal(fault)))?;
        if now.identity() != folder.identity() {
            return Err(Stop::Reason(Reason::BaseChanged(operation.path.clone())));
        }
    }
    for (path, folder) in distinct(plan, folders.iter().map(Some)) {
        let synced = folder.sync().map_err(FileError::at(Step::Sync));
        synced.map_err(|fault| Stop::Reason(Reason::File { path: path.clone(), fault }))?;
    }
    pass(Point::Synced)?;
    Ok(folders)
}

/// Removes the displaced files.
fn finish<'f>(
    plan: &Plan,
    folders: impl Iterator<Item = Option<&'f Folder>> + Clone,
    watch: &mut Watch<'_>,
) -> Result<(), Unsettled> {
    for (operation, folder) in plan.operations.iter().zip(folders.clone()) {
        if let Some(folder) = folder {
            operation.finish(folder).map_err(|fault| Unsettled::Undo { path: operation.path.clone(), fault })?;
            pass(watch, Point::Removed)?;
        }
    }
    sync(plan, folders)
}

/// Changes everything back, the last first.
///
/// `done` counts the operations that may have taken their effect, if that is known. Returns the files that another
/// process had changed in between.
fn undo(
    workspace: &Workspace,
    plan: &Plan,
    done: Option<usize>,
    watch: &mut Watch<'_>,
) -> Result<Vec<WorkspacePath>, Unsettled> {
    let mut disturbed = Vec::new();
    let mut folders = Vec::new();
    for (index, operation) in plan.operations.iter().enumerate().rev() {
        let failed = |fault| Unsettled::Undo { path: operation.path.clone(), fault };
        let folder = match workspace.folder(&operation.path) {
            Ok(folder) => folder,
            Err(fault @ FileError::System { .. }) => return Err(failed(fault)),
            // The directory was never made, or another process has removed it with its content.
            Err(_gone) => {
                if operation.before.is_some() {
                    disturbed.push(operation.path.clone());
                }
                folders.push(None);
                continue;
            }
        };
        let undone = match done {
            Some(done) if index >= done => operation.unwrite(&folder),
            Some(_) | None => operation.undo(&folder),
        };
        if undone.map_err(failed)? == Undone::Disturbed {
            disturbed.push(operation.path.clone());
        }
        folders.push(Some(folder));
        pass(watch, Point::Undone)?;
    }
    folders.reverse();
    sync(plan, folders.iter().map(Option::as_ref))?;
    for path in plan.directories.iter().rev() {
        if let Ok(folder) = workspace.folder(path) {
            let removed = folder.remove_directory(path.name()).and_then(|()| folder.sync());
            let failed =
                |errno: Errno| Unsettled::Undo { path: path.clone(), fault: FileError::at(Step::Directory)(errno) };
            removed.map_err(failed)?;
            pass(watch, Point::Undone)?;
        }
    }
    disturbed.reverse();
    Ok(disturbed)
}

fn sync<'f>(plan: &Plan, folders: impl Iterator<Item = Option<&'f Folder>>) -> Result<(), Unsettled> {
    for (path, folder) in distinct(plan, folders) {
        let synced = folder.sync().map_err(FileError::at(Step::Sync));
        synced.map_err(|fault| Unsettled::Undo { path: path.clone(), fault })?;
    }
    Ok(())
}

/// Each directory once, with a file in it.
fn distinct<'f, 'p>(
    plan: &'p Plan,
    folders: impl Iterator<Item = Option<&'f Folder>>,
) -> Vec<(&'p WorkspacePath, &'f Folder)> {
    let mut seen = BTreeSet::new();
    let both = plan.operations.iter().zip(folders);
    both.filter_map(|(operation, folder)| Some((&operation.path, folder?)))
        .filter(|(_, folder)| seen.insert(folder.identity()))
        .collect()
}

fn forget(journal: &Journal, watch: &mut Watch<'_>) -> Result<(), Unsettled> {
    journal.empty()?;
    pass(watch, Point::Forgotten)
}

#[cfg(test)]
mod tests;
