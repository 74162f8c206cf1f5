//! The mailboxes: for each group the directory handles and the documents in progress.

pub mod pace;
pub mod reply_files;

use crate::sockets::GroupSocket;
use crate::sockets::poller::{Poller, Token};
use config::Config;
use engine::request::DocumentMemory;
use kernel::call::Lane;
use model::errors::chain;
use pace::Pace;
use platform::home::Home;
use reply_files::ReplyFiles;
use rustix::event::EventfdFlags;
use rustix::fs::{Mode, OFlags};
use shared::Group;
use shared::mailbox::{Directory, FileIdentity, MailboxError, RESPONSES, TASKS};
use shared::snapshot::HostInfo;
use std::collections::{BTreeMap, HashMap};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

/// How many documents of one group may be undecided at once; the rest waits unread.
const UNDECIDED_MAX: usize = 64;
/// The cost in bytes of the documents of one group that may be under way at once. The last one may exceed it.
const GROUP_COST_MAX: usize = 16 * 1024 * 1024;
/// The reserve for short documents, so that a group can still cancel its running calls.
const SHORT_COST_RESERVE: usize = 8 * 1024 * 1024;
/// The same for the long documents of all groups together.
const TOTAL_COST_MAX: usize = 96 * 1024 * 1024;
/// A value or key of a parsed document takes up to this many bytes, in two copies.
const NODE_COST: usize = 400;
/// How many files of one group may be in hand. Only files that the host cannot remove stay in hand.
const TAKEN_MAX: usize = 4096;

/// All mailboxes, by group.
#[derive(Debug, Clone)]
pub struct Mailboxes {
    by_group: Arc<BTreeMap<Group, Arc<GroupMailbox>>>,
    waker: Arc<Waker>,
    poller: Arc<Poller>,
}

/// One group's directory.
#[derive(Debug)]
pub struct GroupMailbox {
    /// The group.
    pub group: Group,
    /// The user id that must own its requests.
    pub owner: Option<u32>,
    /// The key with which its requests must be signed.
    pub signing_key: Option<Arc<str>>,
    /// Its socket, which brings the same documents.
    pub socket: Arc<GroupSocket>,
    path: PathBuf,
    handles: RwLock<Option<Arc<Handles>>>,
    // The directories may have been replaced since they were opened.
    may_be_replaced: AtomicBool,
    // They were replaced, and this is not reported yet.
    was_replaced: AtomicBool,
    taken: Mutex<HashMap<String, Taken>>,
    // The number of the listing that is under way.
    listing: AtomicU64,
    undecided: AtomicUsize,
    cost: AtomicUsize,
    total: Arc<AtomicUsize>,
    permitted: Pace,
    refused: Pace,
}

/// A file in hand, and the last listing that found it.
#[derive(Debug, Clone, Copy)]
struct Taken {
    identity: FileIdentity,
    listing: u64,
}

/// The open directories of a mailbox.
#[derive(Debug)]
pub struct Handles {
    /// `ipc/<group>`
    pub root: Directory,
    /// `ipc/<group>/tasks`
    pub tasks: Directory,
    /// `ipc/<group>/responses`
    pub responses: Directory,
    /// The files of replies in `responses/`.
    pub reply_files: ReplyFiles,
}

/// A document's place among the undecided ones of its group; dropping it frees the place.
#[derive(Debug)]
pub struct Slot {
    mailbox: Arc<GroupMailbox>,
}

/// The memory that a document takes while it is under way, counted against its group; dropping it gives it back.
#[derive(Debug)]
pub struct Weight {
    mailbox: Arc<GroupMailbox>,
    cost: usize,
}

/// Wakes the loop.
#[derive(Debug)]
pub struct Waker(OwnedFd);

/// A group's directory cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum MailboxesError {
    /// It cannot be made.
    #[error("cannot make the directory {path}")]
    Make {
        /// The directory.
        path: PathBuf,
        /// The system error.
        #[source]
        source: std::io::Error,
    },
    /// It cannot be opened.
    #[error("cannot use the directory {path}")]
    Open {
        /// The directory.
        path: PathBuf,
        /// The error of the mailbox.
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
    /// The system gives no poller.
    #[error("the sockets of the groups cannot be served")]
    Sockets(#[source] std::io::Error),
    /// There are too many groups.
    #[error("there are more than {} groups", Poller::QUEUES_MAX)]
    TooManyGroups,
}

impl Mailboxes {
    /// Reads the signing key of each group, and makes nothing.
    ///
    /// # Errors
    /// [`MailboxesError::Key`].
    pub fn check_keys(home: &Home, config: &Config) -> Result<(), MailboxesError> {
        config.groups.iter().try_for_each(|(group, table)| match &table.signing_key_file {
            Some(file) => self::key(group, file, &home.mailbox(group)).map(drop),
            None => Ok(()),
        })
    }

    /// Makes the missing directories and opens all.
    ///
    /// # Errors
    /// [`MailboxesError`], naming the directory or key.
    pub fn open(home: &Home, config: &Config) -> Result<Self, MailboxesError> {
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        let waker = rustix::event::eventfd(0, flags).map_err(|errno| MailboxesError::Waker(errno.into()))?;
        let waker = Arc::new(Waker(waker));
        let poller = Arc::new(Poller::new().map_err(MailboxesError::Sockets)?);
        poller.add(waker.fd(), Token::Waker).map_err(MailboxesError::Sockets)?;
        if config.groups.len() > Poller::QUEUES_MAX {
            return Err(MailboxesError::TooManyGroups);
        }
        let mut mailboxes = BTreeMap::new();
        let total = Arc::new(AtomicUsize::new(0));
        for (queue, (group, table)) in config.groups.iter().enumerate() {
            let path = home.mailbox(group);
            make(&path, None)?;
            let signing_key = table.signing_key_file.as_deref().map(|file| key(group, file, &path)).transpose()?;
            // SECURITY: the sandbox owns everything below. A fault there does not stop the service for other groups.
            let handles = match create_directories(&path, table.uid).and_then(|()| Handles::open(&path)) {
                Ok(handles) => Some(Arc::new(handles)),
                Err(error) => {
                    tracing::error!(%group, error = chain(&error), "the group is not served until its directory can be used");
                    None
                }
            };
            let socket = GroupSocket::new(group.clone(), table.uid, queue, Arc::clone(&poller));
            let mailbox = GroupMailbox {
                group: group.clone(),
                owner: table.uid,
                signing_key: signing_key.map(Arc::from),
                socket: Arc::new(socket),
                path,
                handles: RwLock::new(handles),
                may_be_replaced: AtomicBool::new(false),
                was_replaced: AtomicBool::new(false),
                taken: Mutex::default(),
                listing: AtomicU64::new(0),
                undecided: AtomicUsize::new(0),
                cost: AtomicUsize::new(0),
                total: Arc::clone(&total),
                permitted: Pace::default(),
                refused: Pace::default(),
            };
            mailboxes.insert(group.clone(), Arc::new(mailbox));
        }
        Ok(Self { by_group: Arc::new(mailboxes), waker, poller })
    }

    /// Returns the mailbox of a group.
    pub fn mailbox(&self, group: &Group) -> Option<&Arc<GroupMailbox>> {
        self.by_group.get(group)
    }

    /// All mailboxes.
    pub fn mailboxes(&self) -> impl Iterator<Item = &Arc<GroupMailbox>> {
        self.by_group.values()
    }

    /// Opens the socket of each group whose directory can be used.
    pub fn open_sockets(&self, info: &HostInfo) {
        for mailbox in self.mailboxes() {
            mailbox.socket.open(info, mailbox.handles().as_deref());
        }
    }

    /// Returns the poller, in which the waker and the sockets are.
    pub fn poller(&self) -> &Arc<Poller> {
        &self.poller
    }

    /// Returns the waker of the loop.
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

impl GroupMailbox {
    /// Returns the open directories; `None` as long as the present ones cannot be used.
    pub fn handles(&self) -> Option<Arc<Handles>> {
        self.handles.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns the path of the group's directory, for notification.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The path of `tasks/`, for notification.
    pub fn tasks_path(&self) -> PathBuf {
        self.path.join(TASKS)
    }

    /// Notes that the directories may have been replaced.
    pub fn may_be_replaced(&self) {
        self.may_be_replaced.store(true, Ordering::Release);
    }

    /// Returns the directories for a reply; `None` while there is no directory, and the reply is then tried again.
    ///
    /// If they may have been replaced, they are compared first. No caller looks for a reply in a directory that the
    /// group has replaced.
    pub fn handles_for_reply(&self) -> Option<Arc<Handles>> {
        if self.may_be_replaced.load(Ordering::Acquire) {
            // The next look at the directories says why.
            self.open_again().ok()?;
        }
        self.handles()
    }

    /// Opens the directories again if they were replaced. Returns whether they were, since the last time.
    ///
    /// # Errors
    /// [`MailboxesError`] if the present directories cannot be used; the old handles stay.
    pub fn refresh(&self) -> Result<bool, MailboxesError> {
        self.open_again()?;
        if let Some(handles) = self.handles() {
            self.socket.keep_open(&handles);
        }
        Ok(self.was_replaced.swap(false, Ordering::AcqRel))
    }

    fn open_again(&self) -> Result<(), MailboxesError> {
        // ORDER: a replacement while the directories are opened is noted again.
        self.may_be_replaced.store(false, Ordering::Release);
        let now = Handles::open(&self.path).inspect_err(|_error| self.may_be_replaced())?;
        let same = |a: &Directory, b: &Directory| a.identity().ok() == b.identity().ok();
        if let Some(old) = self.handles()
            && same(&now.root, &old.root)
            && same(&now.tasks, &old.tasks)
            && same(&now.responses, &old.responses)
        {
            return Ok(());
        }
        *self.handles.write().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(now));
        self.was_replaced.store(true, Ordering::Release);
        Ok(())
    }

    /// Returns how fast the documents of a lane are taken.
    pub fn pace(&self, lane: Lane) -> &Pace {
        match lane {
            Lane::Permitted => &self.permitted,
            Lane::Refused => &self.refused,
        }
    }

    /// Checks whether there is a place for one more document.
    pub fn has_place(&self) -> bool {
        self.undecided.load(Ordering::Acquire) < UNDECIDED_MAX
    }

    /// Returns how many documents are undecided.
    pub fn undecided(&self) -> usize {
        self.undecided.load(Ordering::Acquire)
    }

    /// A place for one more document, if there is one.
    pub fn slot(self: &Arc<Self>) -> Option<Slot> {
        if self.undecided.fetch_add(1, Ordering::AcqRel) < UNDECIDED_MAX {
            return Some(Slot { mailbox: Arc::clone(self) });
        }
        self.undecided.fetch_sub(1, Ordering::AcqRel);
        None
    }

    /// Returns whether the group may have one more short document under way.
    pub fn takes_short(&self) -> bool {
        self.cost.load(Ordering::Acquire) < GROUP_COST_MAX + SHORT_COST_RESERVE && self.taken().len() < TAKEN_MAX
    }

    /// Returns whether the group may have one more long document under way.
    pub fn takes_long(&self) -> bool {
        let cost = self.cost.load(Ordering::Acquire);
        cost == 0 || cost < GROUP_COST_MAX && self.total.load(Ordering::Acquire) < TOTAL_COST_MAX
    }

    /// Counts a document of this many bytes, which is not parsed yet, as under way.
    pub fn weigh(self: &Arc<Self>, bytes: usize) -> Weight {
        let mut weight = Weight { mailbox: Arc::clone(self), cost: 0 };
        weight.add(bytes);
        weight
    }

    /// Checks whether exactly this file is in hand already; if not, it is from now on.
    pub fn take(&self, name: &str, identity: FileIdentity) -> bool {
        let listing = self.listing.load(Ordering::Relaxed);
        let before = self.taken().insert(name.to_owned(), Taken { identity, listing });
        before.map(|taken| taken.identity) != Some(identity)
    }

    /// Puts back a file that could not be read now; it is read once that is possible.
    pub fn put_back(&self, name: &str, identity: FileIdentity) {
        let mut taken = self.taken();
        if taken.get(name).is_some_and(|taken| taken.identity == identity) {
            taken.remove(name);
        }
    }

    /// Begins a listing of the requests.
    pub fn begin_listing(&self) {
        self.listing.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns whether exactly this file, which the listing has found, is in hand.
    pub fn has(&self, name: &str, identity: FileIdentity) -> bool {
        let listing = self.listing.load(Ordering::Relaxed);
        match self.taken().get_mut(name) {
            Some(taken) if taken.identity == identity => {
                taken.listing = listing;
                true
            }
            Some(_) | None => false,
        }
    }

    /// Forgets the files that the complete listing has not found.
    pub fn end_listing(&self) {
        let listing = self.listing.load(Ordering::Relaxed);
        self.taken().retain(|_, taken| taken.listing == listing);
    }

    /// Removes a request whose row is durable, or leaves its file to be used again. Returns whether the file was gone:
    /// its sender has withdrawn the request, and nothing of it may begin.
    ///
    /// A file that cannot be removed stays in the list, so that it is not read again. A newer file of the same name is
    /// another request.
    pub fn retire(&self, name: &str, read: FileIdentity) -> bool {
        let Some(handles) = self.handles() else { return false };
        let is_the_same = |now: FileIdentity| (now.device, now.inode) == (read.device, read.inode);
        let (is_over, is_withdrawn) = match handles.tasks.look(name) {
            // ORDER: of two that remove a file, one succeeds.
            Some(now) if is_the_same(now) => match handles.tasks.retire(name) {
                Ok(was_there) => (true, !was_there),
                Err(_) => (false, false),
            },
            Some(_) => (true, false),
            None => (true, handles.tasks.is_absent(name)),
        };
        let mut taken = self.taken();
        if is_over && taken.get(name).is_some_and(|taken| is_the_same(taken.identity)) {
            taken.remove(name);
        }
        is_withdrawn
    }

    fn taken(&self) -> MutexGuard<'_, HashMap<String, Taken>> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.mailbox.undecided.fetch_sub(1, Ordering::AcqRel);
    }
}

impl DocumentMemory for Weight {
    fn parsed(&mut self, nodes: usize) {
        self.add(nodes.saturating_mul(NODE_COST));
    }
}

impl Weight {
    fn add(&mut self, cost: usize) {
        self.cost += cost;
        self.mailbox.cost.fetch_add(cost, Ordering::AcqRel);
        self.mailbox.total.fetch_add(cost, Ordering::AcqRel);
    }
}

impl Drop for Weight {
    fn drop(&mut self) {
        self.mailbox.cost.fetch_sub(self.cost, Ordering::AcqRel);
        self.mailbox.total.fetch_sub(self.cost, Ordering::AcqRel);
    }
}

impl Handles {
    fn open(path: &Path) -> Result<Self, MailboxesError> {
        let open = |source| MailboxesError::Open { path: path.into(), source };
        let root = Directory::open(path).map_err(open)?;
        let tasks = root.open_dir(TASKS).map_err(open)?;
        let responses = root.open_dir(RESPONSES).map_err(open)?;
        Ok(Self { root, tasks, responses, reply_files: ReplyFiles::default() })
    }
}

/// Makes the missing parts of a group's directory.
///
/// The sandbox's user must be able to write requests, and to delete replies.
fn create_directories(path: &Path, uid: Option<u32>) -> Result<(), MailboxesError> {
    make(&path.join(TASKS), uid)?;
    make(&path.join(RESPONSES), uid)
}

/// Makes a directory that is not there.
fn make(path: &Path, uid: Option<u32>) -> Result<(), MailboxesError> {
    let failed = |source| MailboxesError::Make { path: path.into(), source };
    if path.symlink_metadata().is_ok() {
        return Ok(());
    }
    std::fs::create_dir_all(path).map_err(failed)?;
    // SECURITY: owner and mode are set through a handle that follows no link. By its path the directory could be
    // another one already: the owner of the directory above can put a link in its place.
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
fn key(group: &Group, file: &Path, mailbox: &Path) -> Result<String, MailboxesError> {
    let fault = |fault: String| MailboxesError::Key { group: group.clone(), fault };
    let real = file.canonicalize().map_err(|error| fault(format!("{}: {error}", file.display())))?;
    let shared = match mailbox.canonicalize() {
        Ok(shared) => shared,
        // Nothing lies in a directory that is not there yet.
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => mailbox.to_owned(),
        Err(error) => return Err(fault(format!("{}: {error}", mailbox.display()))),
    };
    if real.starts_with(&shared) {
        return Err(fault(format!("{} lies in the directory that the sandbox can write; move it out", real.display())));
    }
    let text = std::fs::read_to_string(&real).map_err(|error| fault(format!("{}: {error}", real.display())))?;
    if text.trim().is_empty() {
        return Err(fault(format!("{} is empty", real.display())));
    }
    Ok(text.trim().to_owned())
}
