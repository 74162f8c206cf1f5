//! The journal of the changes to a workspace, written where the sandbox cannot reach it.
//!
//! One directory of the host's, for one workspace. It holds at most one plan: `pending` until all is done, `committed`
//! until nothing is left over. Then its mark is there, so that it can be known later that it was done: `done-<name>`.
//! Each user of the journal holds its lock.

use crate::apply::operation::Operation;
use crate::change::FileState;
use crate::record;
use crate::record::Damaged;
use crate::workspace::Workspace;
use model::WorkspacePath;
use platform::lock::Lock;
use rustix::fs::{self, AtFlags, Mode, OFlags, RenameFlags};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::path::Path;

const DRAFT: &str = "draft";
const PENDING: &str = "pending";
const COMMITTED: &str = "committed";
const DONE: &str = "done-";
/// How many marks are kept, the latest.
const MARKS_MAX: usize = 64;

/// The mark of finished changes, with their report.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Mark {
    /// A name of small letters, digits and hyphens that nothing else has.
    pub name: String,
    /// The report.
    pub report: String,
}

/// The handle of a journal's directory.
#[derive(Debug)]
pub struct Journal(OwnedFd);

/// The journal failed.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// Its directory cannot be opened.
    #[error("the journal cannot be opened: {0}")]
    Open(#[source] std::io::Error),
    /// Another process works with it.
    #[error("the journal is in use")]
    Busy,
    /// Something was left half done.
    #[error("the journal has to be recovered first")]
    Unfinished,
    /// It cannot be read.
    #[error("the journal cannot be read: {0}")]
    Read(#[source] std::io::Error),
    /// It cannot be written.
    #[error("the journal cannot be written: {0}")]
    Write(#[source] std::io::Error),
    /// Its content is not the written one.
    #[error("the journal is damaged")]
    Damaged,
    /// It is another workspace's.
    #[error("the journal is of another directory than the workspace")]
    OtherWorkspace,
}

/// The present changes.
pub(super) struct Plan {
    /// Which directory the workspace is.
    pub(super) workspace: u64,
    /// The mark that stays after the end.
    pub(super) mark: Mark,
    /// Directories to be made, the outer before the inner.
    pub(super) directories: Vec<WorkspacePath>,
    pub(super) operations: Vec<Operation>,
}

impl Plan {
    pub(super) fn paths(&self) -> Vec<WorkspacePath> {
        self.operations.iter().map(|operation| operation.path.clone()).collect()
    }
}

fn written(errno: Errno) -> JournalError {
    JournalError::Write(errno.into())
}

impl Journal {
    /// Opens a directory of the host's. The sandbox must not be able to reach it.
    ///
    /// # Errors
    /// [`JournalError::Open`].
    pub fn open(path: &Path) -> Result<Self, JournalError> {
        let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC;
        fs::open(path, flags, Mode::empty()).map(Self).map_err(|e| JournalError::Open(e.into()))
    }

    /// Takes the lock.
    pub(super) fn lock(&self) -> Result<Lock, JournalError> {
        let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC;
        let lock = fs::openat(&self.0, c".", flags, Mode::empty()).map_err(|e| JournalError::Open(e.into()))?;
        Lock::take(lock).map_err(|e| JournalError::Open(e.into()))?.ok_or(JournalError::Busy)
    }

    /// Writes the plan. When this returns, it lasts; if it fails, nothing is written down.
    pub(super) fn publish(&self, plan: &Plan) -> Result<(), JournalError> {
        if self.has(PENDING)? || self.has(COMMITTED)? {
            return Err(JournalError::Unfinished);
        }
        self.remove(DRAFT)?;
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let fd = fs::openat(&self.0, DRAFT, flags, Mode::RUSR | Mode::WUSR).map_err(written)?;
        let mut file = File::from(fd);
        file.write_all(&encode(plan)).map_err(JournalError::Write)?;
        fs::fsync(&file).map_err(written)?;
        fs::renameat_with(&self.0, DRAFT, &self.0, PENDING, RenameFlags::NOREPLACE).map_err(written)?;
        fs::fsync(&self.0).map_err(written).inspect_err(|_| {
            // Nothing has been done yet, so a plan that may not last is worth nothing.
            fs::unlinkat(&self.0, PENDING, AtFlags::empty()).ok();
        })
    }

    /// Says that it is done. If this fails, it may have been said or not.
    pub(super) fn commit(&self) -> Result<(), JournalError> {
        fs::renameat_with(&self.0, PENDING, &self.0, COMMITTED, RenameFlags::NOREPLACE).map_err(written)?;
        fs::fsync(&self.0).map_err(written)
    }

    /// Returns the unfinished plan.
    pub(super) fn pending(&self, workspace: &Workspace) -> Result<Option<Plan>, JournalError> {
        self.load(PENDING, workspace)
    }

    /// Returns the finished plan that is not cleared away.
    pub(super) fn committed(&self, workspace: &Workspace) -> Result<Option<Plan>, JournalError> {
        self.load(COMMITTED, workspace)
    }

    /// Returns the report of the changes of this name, if they are finished.
    ///
    /// # Errors
    /// [`JournalError`]; it is not known then.
    pub fn done(&self, name: &str) -> Result<Option<String>, JournalError> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let fd = match fs::openat(&self.0, format!("{DONE}{name}"), flags, Mode::empty()) {
            Ok(fd) => fd,
            Err(Errno::NOENT) => return Ok(None),
            Err(errno) => return Err(JournalError::Read(errno.into())),
        };
        let mut report = String::new();
        File::from(fd).read_to_string(&mut report).map_err(JournalError::Read)?;
        Ok(Some(report))
    }

    /// Notes that it is done, for later probes. The mark lasts before the plan goes.
    pub(super) fn mark(&self, mark: &Mark) -> Result<(), JournalError> {
        self.remove(DRAFT)?;
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let fd = fs::openat(&self.0, DRAFT, flags, Mode::RUSR | Mode::WUSR).map_err(written)?;
        let mut file = File::from(fd);
        file.write_all(mark.report.as_bytes()).map_err(JournalError::Write)?;
        fs::fsync(&file).map_err(written)?;
        fs::renameat(&self.0, DRAFT, &self.0, format!("{DONE}{}", mark.name)).map_err(written)?;
        fs::fsync(&self.0).map_err(written)?;
        self.prune()
    }

    /// Only the latest marks are kept.
    fn prune(&self) -> Result<(), JournalError> {
        let read = |errno: Errno| JournalError::Read(errno.into());
        let mut marks = Vec::new();
        for entry in fs::Dir::read_from(&self.0).map_err(read)? {
            let entry = entry.map_err(read)?;
            let Ok(name) = entry.file_name().to_str() else { continue };
            if name.starts_with(DONE) {
                let stat = fs::statat(&self.0, name, AtFlags::SYMLINK_NOFOLLOW).map_err(read)?;
                marks.push(((stat.st_mtime, stat.st_mtime_nsec), name.to_owned()));
            }
        }
        marks.sort();
        let over = marks.len().saturating_sub(MARKS_MAX);
        marks.iter().take(over).try_for_each(|(_, name)| self.remove(name))
    }

    /// Nothing is under way any more.
    pub(super) fn empty(&self) -> Result<(), JournalError> {
        for name in [DRAFT, PENDING, COMMITTED] {
            self.remove(name)?;
        }
        fs::fsync(&self.0).map_err(written)
    }

    fn has(&self, name: &str) -> Result<bool, JournalError> {
        match fs::statat(&self.0, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(_) => Ok(true),
            Err(Errno::NOENT) => Ok(false),
            Err(errno) => Err(JournalError::Read(errno.into())),
        }
    }

    fn remove(&self, name: &str) -> Result<(), JournalError> {
        match fs::unlinkat(&self.0, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(errno) => Err(written(errno)),
        }
    }

    fn load(&self, name: &str, workspace: &Workspace) -> Result<Option<Plan>, JournalError> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let fd = match fs::openat(&self.0, name, flags, Mode::empty()) {
            Ok(fd) => fd,
            Err(Errno::NOENT) => return Ok(None),
            Err(errno) => return Err(JournalError::Read(errno.into())),
        };
        let mut bytes = Vec::new();
        File::from(fd).read_to_end(&mut bytes).map_err(JournalError::Read)?;
        let plan = decode(&bytes).map_err(|Damaged| JournalError::Damaged)?;
        if plan.workspace == workspace.inode() { Ok(Some(plan)) } else { Err(JournalError::OtherWorkspace) }
    }
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Head {
    workspace: u64,
    name: String,
    report: String,
    directories: Vec<String>,
    operations: Vec<Entry>,
}

/// An operation; the contents are beside it.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    path: String,
    temporary: String,
    spare: String,
    before: Option<u32>,
    after: Option<u32>,
    owner: Option<(u32, u32)>,
}

fn encode(plan: &Plan) -> Vec<u8> {
    let entry = |operation: &Operation| Entry {
        path: operation.path.as_str().to_owned(),
        temporary: operation.temporary.clone(),
        spare: operation.spare.clone(),
        before: operation.before.as_ref().map(FileState::mode),
        after: operation.after.as_ref().map(FileState::mode),
        owner: operation.owner,
    };
    let head = Head {
        workspace: plan.workspace,
        name: plan.mark.name.clone(),
        report: plan.mark.report.clone(),
        directories: plan.directories.iter().map(|path| path.as_str().to_owned()).collect(),
        operations: plan.operations.iter().map(entry).collect(),
    };
    let states = plan.operations.iter().flat_map(|operation| [&operation.before, &operation.after]).flatten();
    record::encode(&head, states.map(FileState::bytes))
}

fn decode(bytes: &[u8]) -> Result<Plan, Damaged> {
    let (head, mut contents) = record::decode::<Head>(bytes)?;
    let path = |text: &str| WorkspacePath::new(text).map_err(|_fault| Damaged);
    let mut operations = Vec::new();
    for entry in head.operations {
        // Names of ours have no slash in them: a journal must not lead anywhere else, also after a fault of the disk.
        if entry.temporary.contains('/') || entry.spare.contains('/') {
            return Err(Damaged);
        }
        let mut state = |mode: Option<u32>| match mode {
            Some(mode) => contents.next().map(|bytes| Some(FileState::new(bytes, mode))).ok_or(Damaged),
            None => Ok(None),
        };
        operations.push(Operation {
            before: state(entry.before)?,
            after: state(entry.after)?,
            path: path(&entry.path)?,
            temporary: entry.temporary,
            spare: entry.spare,
            owner: entry.owner,
        });
    }
    if !head.name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-') {
        return Err(Damaged);
    }
    let mark = Mark { name: head.name, report: head.report };
    let directories = head.directories.iter().map(|text| path(text)).collect::<Result<_, _>>()?;
    Ok(Plan { workspace: head.workspace, mark, directories, operations })
}
