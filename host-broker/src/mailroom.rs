//! The rooms of the mailbox: for each group the directory handles, and what of it is in hand.

use crate::config::Config;
use crate::config::home::Home;
use rustix::event::EventfdFlags;
use rustix::fs::{Mode, OFlags};
use shared::Group;
use shared::mailbox::{Directory, FileIdentity, MailboxError, RESPONSES, TASKS};
use std::collections::{BTreeMap, HashMap};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

/// How many documents of one group may be undecided at once; the rest waits unread.
const UNDECIDED_MAX: usize = 64;

/// All rooms, by group.
#[derive(Debug, Clone)]
pub struct Mailroom {
    rooms: Arc<BTreeMap<Group, Arc<Room>>>,
    waker: Arc<Waker>,
}

/// One group's directory.
#[derive(Debug)]
pub struct Room {
    /// The group.
    pub group: Group,
    /// The user id that must own its requests.
    pub owner: Option<u32>,
    /// The key with which its requests must be signed.
    pub signing_key: Option<String>,
    path: PathBuf,
    handles: RwLock<Option<Arc<Handles>>>,
    taken: Mutex<HashMap<String, FileIdentity>>,
    undecided: AtomicUsize,
    rubbish: AtomicU64,
}

/// The open directories of a room.
#[derive(Debug)]
pub struct Handles {
    /// `ipc/<group>`
    pub root: Directory,
    /// `ipc/<group>/tasks`
    pub tasks: Directory,
    /// `ipc/<group>/responses`
    pub responses: Directory,
}

/// A document's place among the undecided ones of its group; dropping it makes room for the next.
#[derive(Debug)]
pub struct Slot(Arc<Room>);

/// Wakes the loop.
#[derive(Debug)]
pub struct Waker(OwnedFd);

/// A group's directory cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum RoomError {
    /// It cannot be made.
    #[error("cannot make the directory {path}")]
    Make {
        /// The directory.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
    /// It cannot be opened.
    #[error("cannot use the directory {path}")]
    Open {
        /// The directory.
        path: PathBuf,
        /// What went wrong.
        #[source]
        source: MailboxError,
    },
    /// The signing key cannot be used.
    #[error("the signing key of group {group} cannot be used: {fault}")]
    Key {
        /// The group.
        group: Group,
        /// Why.
        fault: String,
    },
    /// The system gives no event counter.
    #[error("the system gives no event counter")]
    Waker(#[source] std::io::Error),
}

impl Mailroom {
    /// Makes the missing directories and opens all.
    ///
    /// # Errors
    /// [`RoomError`], naming the directory or key.
    pub fn open(home: &Home, config: &Config) -> Result<Self, RoomError> {
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        let waker = rustix::event::eventfd(0, flags).map_err(|errno| RoomError::Waker(errno.into()))?;
        let waker = Arc::new(Waker(waker));
        let mut rooms = BTreeMap::new();
        for (group, table) in &config.groups {
            let path = home.mailbox(group);
            make(&path, None)?;
            let signing_key = table.signing_key_file.as_deref().map(|file| key(group, file, &path)).transpose()?;
            // SECURITY: what is below belongs to the sandbox. What it did to it keeps nobody else from being served.
            let handles = match furnish(&path, table.uid).and_then(|()| Handles::open(&path)) {
                Ok(handles) => Some(Arc::new(handles)),
                Err(error) => {
                    tracing::error!(%group, error = ?error, "the group is not served until its directory can be used");
                    None
                }
            };
            let room = Room {
                group: group.clone(),
                owner: table.uid,
                signing_key,
                path,
                handles: RwLock::new(handles),
                taken: Mutex::default(),
                undecided: AtomicUsize::new(0),
                rubbish: AtomicU64::new(0),
            };
            rooms.insert(group.clone(), Arc::new(room));
        }
        Ok(Self { rooms: Arc::new(rooms), waker })
    }

    /// The room of a group.
    pub fn room(&self, group: &Group) -> Option<&Arc<Room>> {
        self.rooms.get(group)
    }

    /// All rooms.
    pub fn rooms(&self) -> impl Iterator<Item = &Arc<Room>> {
        self.rooms.values()
    }

    /// What wakes the loop.
    pub fn waker(&self) -> &Arc<Waker> {
        &self.waker
    }
}

impl Waker {
    /// Wakes the loop.
    pub fn wake(&self) {
        // A full counter has woken it already.
        rustix::io::write(&self.0, &1_u64.to_ne_bytes()).ok();
    }

    /// Forgets that it was woken.
    pub fn rest(&self) {
        rustix::io::read(&self.0, &mut [0_u8; 8]).ok();
    }

    /// For waiting on.
    pub fn fd(&self) -> &OwnedFd {
        &self.0
    }
}

impl Room {
    /// The open directories; `None` as long as what is there cannot be used.
    pub fn handles(&self) -> Option<Arc<Handles>> {
        self.handles.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The path of `tasks/`, for notification.
    pub fn tasks_path(&self) -> PathBuf {
        self.path.join(TASKS)
    }

    /// Whether the directories behind the paths are still the open ones; opens them anew if not.
    ///
    /// # Errors
    /// [`RoomError`] if what is there now cannot be used; the old handles stay.
    pub fn refresh(&self) -> Result<bool, RoomError> {
        let now = Handles::open(&self.path)?;
        let same = |a: &Directory, b: &Directory| a.identity().ok() == b.identity().ok();
        if let Some(old) = self.handles()
            && same(&now.root, &old.root)
            && same(&now.tasks, &old.tasks)
            && same(&now.responses, &old.responses)
        {
            return Ok(false);
        }
        *self.handles.write().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(now));
        Ok(true)
    }

    /// Whether there is a place for one more document.
    pub fn has_place(&self) -> bool {
        self.undecided.load(Ordering::Acquire) < UNDECIDED_MAX
    }

    /// A place for one more document, if there is one.
    pub fn slot(self: &Arc<Self>) -> Option<Slot> {
        if self.undecided.fetch_add(1, Ordering::AcqRel) < UNDECIDED_MAX {
            return Some(Slot(Arc::clone(self)));
        }
        self.undecided.fetch_sub(1, Ordering::AcqRel);
        None
    }

    /// Whether exactly this file is in hand already; if not, it is from now on.
    pub fn take(&self, name: &str, identity: FileIdentity) -> bool {
        self.taken().insert(name.to_owned(), identity) != Some(identity)
    }

    /// Whether exactly this file is in hand.
    pub fn has(&self, name: &str, identity: FileIdentity) -> bool {
        self.taken().get(name) == Some(&identity)
    }

    /// Removes a request whose row is durable. What cannot be removed stays in hand, so that it is not read again; a file
    /// of the same name that has come in meanwhile is another request.
    pub fn retire(&self, name: &str) {
        let Some(read) = self.taken().get(name).copied() else { return };
        let Some(handles) = self.handles() else { return };
        let is_the_same = |now: FileIdentity| (now.device, now.inode) == (read.device, read.inode);
        let gone = handles.tasks.look(name).is_none_or(|now| !is_the_same(now)) || handles.tasks.remove(name).is_ok();
        let mut taken = self.taken();
        if gone && taken.get(name).copied() == Some(read) {
            taken.remove(name);
        }
    }

    /// Forgets the files that are gone.
    pub fn forget_missing(&self, is_there: impl Fn(&str) -> bool) {
        self.taken().retain(|name, _| is_there(name));
    }

    /// Counts a document that was no request.
    pub fn count_rubbish(&self) {
        self.rubbish.fetch_add(1, Ordering::Relaxed);
    }

    /// How many documents were no requests, ever.
    pub fn rubbish(&self) -> u64 {
        self.rubbish.load(Ordering::Relaxed)
    }

    fn taken(&self) -> MutexGuard<'_, HashMap<String, FileIdentity>> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Slot {
    /// The room it is in.
    pub fn room(&self) -> &Arc<Room> {
        &self.0
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.0.undecided.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Handles {
    fn open(path: &Path) -> Result<Self, RoomError> {
        let open = |source| RoomError::Open { path: path.into(), source };
        let root = Directory::open(path).map_err(open)?;
        let tasks = root.open_dir(TASKS).map_err(open)?;
        let responses = root.open_dir(RESPONSES).map_err(open)?;
        Ok(Self { root, tasks, responses })
    }
}

/// Makes what is missing in a group's directory. The sandbox's user must be able to write requests, and to delete
/// replies.
fn furnish(path: &Path, uid: Option<u32>) -> Result<(), RoomError> {
    make(&path.join(TASKS), uid)?;
    make(&path.join(RESPONSES), uid)
}

/// Makes a directory that is not there.
fn make(path: &Path, uid: Option<u32>) -> Result<(), RoomError> {
    let failed = |source| RoomError::Make { path: path.into(), source };
    if path.symlink_metadata().is_ok() {
        return Ok(());
    }
    std::fs::create_dir_all(path).map_err(failed)?;
    // SECURITY: owner and mode are set through a handle that follows no link. By its path the directory could be
    // another one already: whoever owns the directory above can put a link in its place.
    let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let made = rustix::fs::open(path, flags, Mode::empty()).map_err(|errno| failed(errno.into()))?;
    rustix::fs::fchmod(&made, Mode::from_raw_mode(0o755)).map_err(|errno| failed(errno.into()))?;
    match uid {
        Some(uid) => {
            rustix::fs::fchown(&made, Some(rustix::fs::Uid::from_raw(uid)), None).map_err(|errno| failed(errno.into()))
        }
        None => Ok(()),
    }
}

/// Reads a signing key, which must not lie where the sandbox can write.
fn key(group: &Group, file: &Path, mailbox: &Path) -> Result<String, RoomError> {
    let fault = |fault: String| RoomError::Key { group: group.clone(), fault };
    let real = file.canonicalize().map_err(|error| fault(format!("{}: {error}", file.display())))?;
    let shared = mailbox.canonicalize().map_err(|error| fault(format!("{}: {error}", mailbox.display())))?;
    if real.starts_with(&shared) {
        return Err(fault(format!("{} lies in the directory that the sandbox can write; move it out", real.display())));
    }
    let text = std::fs::read_to_string(&real).map_err(|error| fault(format!("{}: {error}", real.display())))?;
    if text.trim().is_empty() {
        return Err(fault(format!("{} is empty", real.display())));
    }
    Ok(text.trim().to_owned())
}
