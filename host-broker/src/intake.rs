//! Where documents come in: watches every group's `tasks/`, reads, parses and hands on.
//!
//! It decides nothing. The groups are served in turn, one document each, and each has a limited number of
//! undecided documents, so that a flood of one group never delays another. Kernel notification is only a hint: a
//! sweep at the start, after an overflow and now and then finds what it missed, and where it cannot be had, the
//! directories are listed with a growing pause.

use crate::approvals::{Kind, Waiting};
use crate::call::{self, Call, Caller, Desk, Invoked, Parsed};
use crate::config::ForeignTypes;
use crate::config::flows::FlowsTable;
use crate::effects::clock::Clock;
use crate::event::Event;
use crate::identity::Behalf;
use crate::mailroom::{Mailroom, Room, Slot};
use crate::providers::registry::Catalogue;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};
use rustix::io::Errno;
use shared::mailbox::{Contents, FileIdentity, ReadFault, is_document};
use shared::{Code, Group, RequestId, Timestamp, limits};
use std::collections::{HashMap, VecDeque};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// How often everything is listed although notification works.
const SAFETY_SCAN: Duration = Duration::from_secs(15);
/// The longest pause where notification does not work.
const POLL_PAUSE_MAX: Duration = Duration::from_millis(50);
/// How many names of one group wait; more are found again by the next listing.
const NAMES_MAX: usize = 4096;
/// How many documents of one group are taken into one batch: so long do the others wait for who floods.
const TURNS_MAX: usize = 4;
/// How many notices are read before what they say is done.
const NOTICES_MAX: usize = 4096;
/// How many documents that are no requests a group may send at once, and how many a second in the long run.
const RUBBISH_BURST: u64 = 1_000;
const RUBBISH_PER_SECOND: u64 = 200;

/// A file that was read, before it is understood.
#[derive(Debug)]
pub struct Inbound {
    /// Whose.
    pub room: Arc<Room>,
    /// Its name in `tasks/`.
    pub name: String,
    /// Its bytes, or why they were not read.
    pub bytes: Result<Vec<u8>, (Code, String)>,
    /// What was read.
    pub identity: FileIdentity,
    /// How old it was.
    pub age: Duration,
    /// When it was read, on the monotonic clock.
    pub arrived: Instant,
    /// When it was read, on the wall.
    pub wall: Timestamp,
    /// Its place in the group's queue.
    pub slot: Slot,
}

/// Watches, reads and parses.
pub struct Intake {
    mailroom: Mailroom,
    desk: Desk,
    clock: Arc<dyn Clock>,
    queues: Vec<Queue>,
    watch: Option<OwnedFd>,
    watched: HashMap<i32, usize>,
    // Whose turn it is.
    turn: usize,
    swept: Instant,
    pause: Duration,
}

struct Queue {
    room: Arc<Room>,
    names: VecDeque<String>,
    // More names than fit, or a file that could not be read yet: list again.
    again: bool,
    // Listing takes a tenth of the time at most: whoever fills a directory does not hold the others up with it.
    rests_until: Instant,
    started: Instant,
}

impl Intake {
    /// Prepares the watch; notification begins before the first listing, so nothing falls between them.
    pub fn new(mailroom: Mailroom, desk: Desk, clock: Arc<dyn Clock>) -> Self {
        let now = Instant::now();
        let queues = mailroom
            .rooms()
            .map(|room| Queue {
                room: Arc::clone(room),
                names: VecDeque::new(),
                again: true,
                rests_until: now,
                started: now,
            })
            .collect();
        let watch = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK).ok();
        if watch.is_none() {
            tracing::warn!(
                "no inotify instance is to be had, so directories are listed instead; raise fs.inotify.max_user_instances"
            );
        }
        let mut intake = Self {
            mailroom,
            desk,
            clock,
            queues,
            watch,
            watched: HashMap::new(),
            turn: 0,
            swept: now,
            pause: Duration::from_millis(1),
        };
        for index in 0..intake.queues.len() {
            intake.watch_room(index);
        }
        intake
    }

    /// Admits a request again about which a person was asked; `None` for a proposal, whose request is over.
    ///
    /// # Errors
    /// What is wrong with its document.
    pub fn readmit(
        &self,
        caller: Caller,
        id: RequestId,
        waiting: Waiting,
        flows: &FlowsTable,
    ) -> Result<Option<Event>, String> {
        let Waiting { kind, document, behalf } = waiting;
        Ok(match kind {
            Kind::Call => Some(Event::Readmitted(call::readmit(caller, id, behalf, &document, (flows, &self.desk))?)),
            Kind::Grant => {
                let Caller::Group(group) = caller else { return Err("it is no group's".to_owned()) };
                let directive = call::readmit_grant(group, id, behalf, &document, &self.desk)?;
                Some(Event::Arrived(Parsed::Directive(directive)))
            }
            Kind::File | Kind::Account | Kind::Definition | Kind::Flow => None,
        })
    }

    /// What an agent outside wants of a tool, as an event.
    pub fn invoke(&self, invoked: Invoked, flows: &FlowsTable) -> Parsed {
        call::invoked(invoked, flows, &self.desk).map_or_else(|other| other, Parsed::Call)
    }

    /// From now on what comes in is parsed with these actions.
    pub fn exchange(&mut self, catalogue: Arc<Catalogue>) {
        self.desk.catalogue = catalogue;
    }

    /// A call that a person wants made on behalf of a group.
    ///
    /// # Errors
    /// What is wrong with its document.
    pub fn on_behalf(&self, group: Group, id: RequestId, behalf: Behalf, document: &[u8]) -> Result<Box<Call>, String> {
        call::made(group, id, behalf, document, &self.desk)
    }

    /// Waits until a document may have come, the waker was used or the time is over, and takes in `most` documents. With
    /// none it only waits.
    pub fn gather(&mut self, wait: Duration, most: usize, events: &mut VecDeque<Event>) {
        if self.swept.elapsed() >= SAFETY_SCAN {
            self.swept = Instant::now();
            self.refresh(events);
        }
        let wait = if wait.is_zero() || most == 0 { wait } else { wait.min(self.patience()) };
        self.notice(wait);
        if most == 0 {
            return;
        }
        let now = Instant::now();
        for queue in self.queues.iter_mut().filter(|queue| queue.again && queue.names.is_empty()) {
            if queue.rests_until <= now {
                queue.list();
            }
        }
        let full = events.len() + most;
        for _ in 0..TURNS_MAX {
            if events.len() >= full || !self.serve_in_turn(full, events) {
                break;
            }
            self.pause = Duration::from_millis(1);
        }
    }

    /// How long nothing may happen before the next look.
    fn patience(&mut self) -> Duration {
        let until_sweep = SAFETY_SCAN.saturating_sub(self.swept.elapsed());
        if self.queues.iter().any(Queue::can_be_served) {
            return Duration::ZERO;
        }
        if self.queues.iter().any(|queue| queue.again || !queue.names.is_empty()) {
            return POLL_PAUSE_MAX.min(until_sweep);
        }
        if self.watch.is_some() {
            return until_sweep;
        }
        for queue in &mut self.queues {
            queue.again = true;
        }
        self.pause = (self.pause * 2).min(POLL_PAUSE_MAX);
        self.pause
    }

    /// One document of each group in turn; `false` when nobody could be served. A full batch ends the turn, and the
    /// next one goes on with whoever was not served.
    fn serve_in_turn(&mut self, full: usize, events: &mut VecDeque<Event>) -> bool {
        let mut served = false;
        for _ in 0..self.queues.len() {
            if events.len() >= full {
                break;
            }
            self.turn = (self.turn + 1) % self.queues.len();
            if let Some(queue) = self.queues.get_mut(self.turn) {
                served |= queue.serve(&self.desk, self.clock.as_ref(), events);
            }
        }
        served
    }

    /// Waits for notification, for the waker, or for the time to pass.
    fn notice(&mut self, wait: Duration) {
        let timeout = Timespec::try_from(wait).unwrap_or(Timespec { tv_sec: 1, tv_nsec: 0 });
        let waker = Arc::clone(self.mailroom.waker());
        let mut fds = vec![PollFd::new(waker.fd(), PollFlags::IN)];
        fds.extend(self.watch.as_ref().map(|watch| PollFd::new(watch, PollFlags::IN)));
        // An interrupted wait is a short one.
        poll(&mut fds, Some(&timeout)).ok();
        let mut ready = fds.iter().map(|fd| !fd.revents().is_empty());
        let (woken, noticed) = (ready.next() == Some(true), ready.next() == Some(true));
        drop(ready);
        if woken {
            waker.rest();
        }
        if noticed {
            self.read_notifications();
        }
    }

    fn read_notifications(&mut self) {
        let Some(watch) = &self.watch else { return };
        let mut buffer = [MaybeUninit::uninit(); 16 * 1024];
        let mut reader = inotify::Reader::new(watch, &mut buffer);
        let mut seen = 0;
        // Whoever makes notices faster than they are read keeps nobody else waiting. What was read is not dropped.
        while (seen < NOTICES_MAX || !reader.is_buffer_empty())
            && let Ok(event) = reader.next()
        {
            seen += 1;
            if event.events().contains(ReadFlags::QUEUE_OVERFLOW) {
                for queue in &mut self.queues {
                    queue.again = true;
                }
                continue;
            }
            let Some(queue) = self.watched.get(&event.wd()).and_then(|index| self.queues.get_mut(*index)) else {
                continue;
            };
            match event.file_name().map(|name| name.to_str()) {
                Some(Ok(name)) if is_document(name) => queue.push(name),
                Some(_) => {}
                None => queue.again = true,
            }
        }
    }

    /// Directories that were replaced are opened anew; everything is listed.
    fn refresh(&mut self, events: &mut VecDeque<Event>) {
        for index in 0..self.queues.len() {
            let Some(queue) = self.queues.get_mut(index) else { continue };
            queue.again = true;
            match queue.room.refresh() {
                Ok(false) => {}
                Ok(true) => {
                    tracing::warn!(group = %queue.room.group, "the group's directory was replaced and is opened anew");
                    events.push_back(Event::Reopened(queue.room.group.clone()));
                    self.watch_room(index);
                }
                Err(error) => tracing::warn!(group = %queue.room.group, %error, "the group's directory cannot be used"),
            }
        }
    }

    fn watch_room(&mut self, index: usize) {
        let (Some(watch), Some(queue)) = (&self.watch, self.queues.get(index)) else { return };
        let flags = WatchFlags::MOVED_TO | WatchFlags::CLOSE_WRITE | WatchFlags::ONLYDIR | WatchFlags::DONT_FOLLOW;
        match inotify::add_watch(watch, queue.room.tasks_path(), flags) {
            Ok(descriptor) => {
                self.watched.insert(descriptor, index);
            }
            // The system's limit is met: then no group can be told from another by who was first.
            Err(errno @ (Errno::NOSPC | Errno::NOMEM)) => {
                tracing::warn!(group = %queue.room.group, %errno, "the directory cannot be watched; directories are listed instead");
                self.watch = None;
            }
            // Something is wrong with this group's directory, which is nobody else's trouble.
            Err(errno) => {
                tracing::warn!(group = %queue.room.group, %errno, "the directory cannot be watched; it is listed now and then");
            }
        }
    }
}

impl Queue {
    fn can_be_served(&self) -> bool {
        !self.names.is_empty() && self.is_calm() && self.room.has_place()
    }

    fn push(&mut self, name: &str) {
        if self.names.len() < NAMES_MAX { self.names.push_back(name.to_owned()) } else { self.again = true }
    }

    fn list(&mut self) {
        let began = Instant::now();
        self.again = false;
        let Some(handles) = self.room.handles() else { return };
        let mut found = Vec::new();
        let listed = handles.tasks.for_each_name(|name| {
            if is_document(name) {
                found.push(name.to_owned());
            }
            found.len() < NAMES_MAX
        });
        if let Err(error) = listed {
            tracing::warn!(group = %self.room.group, %error, "the group's tasks cannot be listed");
        }
        if found.len() >= NAMES_MAX {
            self.again = true;
        } else {
            let names: std::collections::HashSet<&str> = found.iter().map(String::as_str).collect();
            self.room.forget_missing(|name| names.contains(name));
        }
        // What is in hand already would only be skipped again.
        found.retain(|name| handles.tasks.look(name).is_some_and(|identity| !self.room.has(name, identity)));
        self.names.extend(found);
        self.rests_until = Instant::now() + began.elapsed() * 9;
    }

    /// Whether the group has sent few enough documents that are no requests.
    fn is_calm(&self) -> bool {
        let rubbish = self.room.rubbish();
        rubbish < RUBBISH_BURST || {
            let forgiven = self.started.elapsed().as_secs().saturating_mul(RUBBISH_PER_SECOND);
            rubbish < RUBBISH_BURST.saturating_add(forgiven)
        }
    }

    /// Reads, parses and hands on one document; `false` if there was none, or no place for it.
    fn serve(&mut self, desk: &Desk, clock: &dyn Clock, events: &mut VecDeque<Event>) -> bool {
        if self.names.is_empty() || !self.is_calm() {
            return false;
        }
        let Some(slot) = self.room.slot() else { return false };
        let Some(name) = self.names.pop_front() else { return false };
        let Some(inbound) = self.read(name, slot, clock) else { return true };
        let parsed = call::parse(inbound, desk);
        if let Parsed::Rubbish(rubbish) = &parsed {
            self.room.count_rubbish();
            if rubbish.code == Code::UnknownType && desk.foreign_types == ForeignTypes::Leave {
                return true;
            }
        }
        events.push_back(Event::Arrived(parsed));
        true
    }

    fn read(&mut self, name: String, slot: Slot, clock: &dyn Clock) -> Option<Inbound> {
        let handles = self.room.handles()?;
        let result = handles.tasks.read(&name, limits::REQUEST_BYTES_MAX, self.room.owner);
        let malformed = |reason: &str| Err((Code::MalformedRequest, reason.to_owned()));
        let (bytes, identity) = match result {
            Ok(Contents { bytes, identity }) => (Ok(bytes), identity),
            Err(ReadFault::Missing | ReadFault::BadName) => return None,
            // The holder of a lease must let go within the system's lease-break time; the next listing finds it again.
            Err(fault) if fault.is_passing() => {
                self.again = true;
                return None;
            }
            Err(ReadFault::TooLarge(identity)) => {
                (Err((Code::OversizedRequest, Code::OversizedRequest.meaning().to_owned())), identity)
            }
            Err(ReadFault::NotRegular(identity)) => (malformed("The request is not a regular file."), identity),
            Err(ReadFault::Linked(identity)) => (malformed("The request's file has more than one link."), identity),
            Err(ReadFault::WrongOwner(identity)) => {
                (malformed("The request's file belongs to another user than configured for this group."), identity)
            }
            Err(ReadFault::System(..) | ReadFault::Leased(_)) => {
                (malformed("The request's file cannot be read."), handles.tasks.look(&name)?)
            }
        };
        if !self.room.take(&name, identity) {
            return None;
        }
        let wall = clock.now();
        let changed = Timestamp::from_millis(i64::try_from(identity.changed_ns / 1_000_000).unwrap_or(i64::MAX));
        Some(Inbound {
            room: Arc::clone(&self.room),
            name,
            bytes,
            identity,
            age: wall.since(changed),
            arrived: Instant::now(),
            wall,
            slot,
        })
    }
}
