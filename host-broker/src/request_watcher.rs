//! The request watcher: watches every group's `tasks/`, reads and parses its documents, and passes them on.
//!
//! It decides nothing. It serves the groups in turn, each for a bounded time and with a limited number of undecided
//! documents. So a flood of one group never delays another. Kernel notification is only a hint. A listing at the start,
//! after an overflow and now and then finds missed documents. Without notification, the directories are listed with a
//! growing pause.
//!
//! Short documents are read and parsed here, because a change of threads costs more. Longer ones are read and parsed by
//! the [`ParseWorker`], one of each group at a time. While the pace of a group's refused documents is used up, the
//! worker looks through those that wait. Documents that the group's snapshot permits go on, and the others wait for
//! their pace.

mod lane;
mod queue;
#[cfg(test)]
mod tests;
mod worker;

use model::{Caller, Clock, Subject};
use worker::Remade;
pub use worker::{ParseWorker, ParsedDocuments};

use crate::daemon::{Invocation, Message};
use crate::mailboxes::Mailboxes;
use crate::sockets::poller::Token;
use config::flows::FlowsTable;
use config::{Config, UnknownRequests};
use engine::approval_requests::Why;
use engine::approval_subjects;
use engine::approval_subjects::{Continuation, StoredRequest};
use engine::catalogue::Catalogue;
use engine::clean::Filters;
use engine::event::Event;
use engine::own_secrets;
use engine::request;
use engine::request::{ParseContext, Parsed};
use kernel::call::{Call, Origin};
use model::approval::SubjectKind;
use queue::Queue;
use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};
use rustix::io::Errno;
use shared::mailbox::{RESPONSES, SOCKET, TASKS, is_document};
use shared::snapshot::Snapshot;
use shared::{Group, RequestId};
use std::collections::{HashMap, VecDeque};
use std::ffi::{CStr, OsStr};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use store::state::approvals::Waiting;
use tokio::time::Instant;

/// How often everything is listed although notification works.
const SAFETY_SCAN: Duration = Duration::from_secs(15);
/// The longest pause where notification does not work.
const POLL_PAUSE_MAX: Duration = Duration::from_millis(50);
/// The most documents of one group in one batch, and the most time for them. The other groups wait that long.
const TURNS_MAX: usize = 4;
const TURN_COST_MAX: Duration = Duration::from_micros(500);
/// A group that was served within this time is not slowed down by those that send documents for nothing.
const SERVED_LATELY: Duration = Duration::from_secs(10);
/// The most notices that are read before the first of them is handled.
const NOTICES_MAX: usize = 4096;
/// A group that causes more notices in a second is listed now and then instead of watched, for this long.
const NOTICES_PER_SECOND: u32 = 20_000;
/// The same for a group of which nothing is served before its pace permits it: each notice wakes the loop for nothing.
const PACED_NOTICES_PER_SECOND: u32 = 500;
const UNWATCHED: Duration = Duration::from_secs(5);

/// Watches, reads and parses.
pub struct RequestWatcher {
    mailboxes: Mailboxes,
    parse_context: Arc<ParseContext>,
    clock: Arc<dyn Clock>,
    worker: ParseWorker,
    queues: Vec<Queue>,
    watch: Option<OwnedFd>,
    watched: HashMap<i32, (usize, Watched)>,
    // The watch on each directory as it is now.
    current: HashMap<(usize, Watched), i32>,
    // Groups that are listed instead of watched for a while.
    unwatched: Vec<usize>,
    // The group whose turn it is.
    turn: usize,
    served: Served,
    swept: Instant,
    pause: Duration,
}

/// The two groups that were served last, the later one first.
#[derive(Debug, Default)]
struct Served([Option<(usize, Instant)>; 2]);

impl Served {
    fn note(&mut self, index: usize, now: Instant) {
        let [last, before] = self.0;
        let before = if last.is_some_and(|(last, _)| last != index) { last } else { before };
        self.0 = [Some((index, now)), before];
    }

    /// Returns whether a group other than this one was served lately.
    fn others(&self, index: usize, now: Instant) -> bool {
        let is_other = |(of, at): &(usize, Instant)| *of != index && now.saturating_duration_since(*at) < SERVED_LATELY;
        self.0.iter().flatten().any(is_other)
    }
}

/// The directory that a watch is on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Watched {
    /// A group's `tasks/`.
    Tasks,
    /// A group's directory, in which `tasks/` and `responses/` may be replaced.
    Root,
    /// The directory of the groups' directories, each of which may be replaced. No sandbox writes there.
    All,
}

impl RequestWatcher {
    /// Prepares the watch; notification begins before the first listing, so nothing falls between them.
    pub fn new(mailboxes: Mailboxes, parse_context: ParseContext, clock: Arc<dyn Clock>, worker: ParseWorker) -> Self {
        let now = Instant::now();
        let queues = mailboxes.mailboxes().map(|mailbox| Queue::new(Arc::clone(mailbox), now)).collect();
        let watch = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK).ok();
        if watch.is_none() {
            tracing::warn!(
                "no inotify instance is to be had, so directories are listed instead; raise fs.inotify.max_user_instances"
            );
        }
        let mut intake = Self {
            mailboxes,
            parse_context: Arc::new(parse_context),
            clock,
            worker,
            queues,
            watch,
            watched: HashMap::new(),
            current: HashMap::new(),
            unwatched: Vec::new(),
            turn: 0,
            served: Served::default(),
            swept: now,
            pause: Duration::from_millis(1),
        };
        if let Some(watch) = &intake.watch
            && let Err(error) = intake.mailboxes.poller().add(watch, Token::Watch)
        {
            tracing::warn!(%error, "the notices of the kernel do not wake the loop, so directories are listed instead");
            intake.watch = None;
        }
        for index in 0..intake.queues.len() {
            intake.watch_mailbox(index);
        }
        intake
    }

    /// Parses the request of an approval request again, beside the loop.
    ///
    /// [`Message::Resumed`] brings it, or the fault of its document. A proposal's request is over, so nothing comes.
    pub fn readmit(&self, caller: Caller, id: RequestId, waiting: Waiting, config: Arc<Config>) {
        if !is_readmitted(waiting.kind) {
            return;
        }
        let key = (Arc::from(caller.to_string()), id.clone());
        let make = move |parse_context: &ParseContext| parse_again(caller, id, waiting, &config.flows, parse_context);
        let news = move |made| Some(Message::Resumed(Box::new((key, made))));
        self.worker.remake(Remade { make: Box::new(make), news: Box::new(news) }, &self.parse_context);
    }

    /// Checks beside the loop whether a person's answer could permit this request. [`Message::Checked`] brings the result.
    /// Returns `false` if nothing comes: a proposal's request is over, or everything ends.
    pub fn check(&self, caller: Caller, id: RequestId, waiting: Waiting, config: Arc<Config>) -> bool {
        if !is_readmitted(waiting.kind) {
            return false;
        }
        let key = (Arc::from(caller.to_string()), id.clone());
        let make = move |parse_context: &ParseContext| parse_again(caller, id, waiting, &config.flows, parse_context);
        let news = move |made: Result<Event, Why>| {
            let refusal = made.map(|event| Some(event).filter(Event::is_invalid));
            Some(Message::Checked(Box::new((key, refusal))))
        };
        self.worker.remake(Remade { make: Box::new(make), news: Box::new(news) }, &self.parse_context)
    }

    /// Parses an external agent's call of a tool beside the loop. It arrives like a document. `is_permitted` says whether
    /// the agent may call the tool, as far as is known; only then the data that would leave is inspected here.
    pub fn invoke(&self, Invocation { invoked, answer }: Invocation, is_permitted: bool, config: Arc<Config>) {
        let make = move |parse_context: &ParseContext| {
            let mut parsed =
                request::invoked(invoked, &config.flows, parse_context).map_or_else(|other| other, Parsed::Call);
            if is_permitted {
                request::inspect(&mut parsed, parse_context);
            }
            *parsed.origin_mut() = Origin::Socket(answer);
            Ok(Event::Arrived(parsed))
        };
        // A fault in the broker drops the answer, so that the agent hears of it.
        let news = |made: Result<Event, Why>| made.ok().map(Message::Happened);
        self.worker.remake(Remade { make: Box::new(make), news: Box::new(news) }, &self.parse_context);
    }

    /// Passes an event on after the calls that external agents made before it: those are parsed beside the loop.
    pub fn queue(&self, event: Event) {
        let make = Box::new(move |_: &ParseContext| Ok(event));
        let news = Box::new(|made: Result<Event, Why>| made.ok().map(Message::Happened));
        self.worker.remake(Remade { make, news }, &self.parse_context);
    }

    /// Sets the permissions of a group, by which its documents are sorted into lanes.
    pub fn set_snapshot(&mut self, group: &Group, snapshot: &Arc<Snapshot>) {
        for queue in self.queues.iter_mut().filter(|queue| queue.group() == group) {
            queue.set_snapshot(Arc::clone(snapshot));
        }
    }

    /// Parses new documents with these actions from now on, and inspects them with these filters.
    pub fn replace_catalogue(&mut self, catalogue: Arc<Catalogue>, filters: Arc<Filters>) {
        self.parse_context =
            Arc::new(ParseContext { catalogue, filters: Some(filters), ..ParseContext::clone(&self.parse_context) });
    }

    /// Creates the call that a person makes on behalf of a group.
    ///
    /// # Errors
    /// The fault of its document.
    pub fn on_behalf(
        &self,
        group: Group,
        id: RequestId,
        behalf: Subject,
        document: &[u8],
    ) -> Result<Box<Call>, String> {
        request::made(group, id, behalf, document, &self.parse_context)
    }

    /// Returns the events of documents that were parsed beside the loop.
    pub fn parsed(&mut self, documents: ParsedDocuments) -> Vec<Event> {
        let parse_context = Arc::clone(&self.parse_context);
        self.queues.get_mut(documents.queue).map(|queue| queue.is_parsed(documents, &parse_context)).unwrap_or_default()
    }

    /// Waits until a document may have come, the waker was used or the time is over, and takes in `most` documents. With
    /// none it only waits.
    pub fn gather(&mut self, wait: Duration, most: usize, events: &mut VecDeque<Event>) {
        if self.swept.elapsed() >= SAFETY_SCAN {
            self.swept = Instant::now();
            for index in 0..self.queues.len() {
                self.refresh(index, events);
            }
        }
        let wait = if wait.is_zero() || most == 0 { wait } else { wait.min(self.timeout()) };
        self.notice(wait, events);
        if most == 0 {
            return;
        }
        self.list_the_unwatched();
        let now = Instant::now();
        for queue in self.queues.iter_mut().filter(|queue| queue.wants_listing(now)) {
            queue.list();
        }
        let full = events.len() + most;
        for (index, queue) in self.queues.iter_mut().enumerate() {
            queue.begin_turn(self.served.others(index, now));
        }
        for _ in 0..TURNS_MAX {
            if events.len() >= full || !self.serve_in_turn(full, events) {
                break;
            }
            self.pause = Duration::from_millis(1);
        }
    }

    /// How long nothing may happen before the next look.
    fn timeout(&mut self) -> Duration {
        let now = Instant::now();
        let refreshes_at = self.queues.iter().filter_map(Queue::refreshes_at).min();
        let until_refresh = refreshes_at.map_or(SAFETY_SCAN, |at| at.saturating_duration_since(now));
        let until_sweep = SAFETY_SCAN.saturating_sub(self.swept.elapsed()).min(until_refresh);
        if self.queues.iter().any(|queue| queue.can_be_served(now)) {
            return Duration::ZERO;
        }
        if !self.unwatched.is_empty() || self.queues.iter().any(Queue::waits) {
            let parses_at = self.queues.iter().filter_map(|queue| queue.parses_at(now)).min();
            let until_parsing = parses_at.map_or(POLL_PAUSE_MAX, |at| at.saturating_duration_since(now));
            return POLL_PAUSE_MAX.min(until_sweep).min(until_parsing);
        }
        if self.watch.is_some() {
            return until_sweep;
        }
        for queue in &mut self.queues {
            queue.list_again();
        }
        self.pause = (self.pause * 2).min(POLL_PAUSE_MAX);
        self.pause
    }

    /// Reads one document of each group in turn; `false` when no group could be served.
    ///
    /// A full batch ends the turn, and the next one continues with the groups that were not served.
    fn serve_in_turn(&mut self, full: usize, events: &mut VecDeque<Event>) -> bool {
        let mut served = false;
        for _ in 0..self.queues.len() {
            if events.len() >= full {
                break;
            }
            self.turn = (self.turn + 1) % self.queues.len();
            if let Some(queue) = self.queues.get_mut(self.turn)
                && queue.spent() < TURN_COST_MAX
                && queue.serve(self.turn, (&self.parse_context, &self.clock), &self.worker, events)
            {
                served = true;
                self.served.note(self.turn, Instant::now());
            }
        }
        served
    }

    /// Groups that cause too many notices are listed with a pause, and watched again after a while.
    fn list_the_unwatched(&mut self) {
        let now = Instant::now();
        let mut again = Vec::new();
        for index in std::mem::take(&mut self.unwatched) {
            let Some(queue) = self.queues.get_mut(index) else { continue };
            queue.list_again();
            if queue.is_unwatched(now) { self.unwatched.push(index) } else { again.push(index) }
        }
        for index in again {
            self.watch_mailbox(index);
        }
    }

    /// Waits for notification, for a connection, for the waker, or for the time to pass.
    fn notice(&mut self, wait: Duration, events: &mut VecDeque<Event>) {
        let (mut noticed, happened) = (false, self.mailboxes.poller().wait(wait));
        let now = Instant::now();
        for (token, flags) in happened {
            match token {
                Token::Waker => self.mailboxes.waker().rest(),
                Token::Watch => noticed = true,
                Token::Listener(index) => {
                    let Some(queue) = self.queues.get_mut(index) else { continue };
                    for refused in Arc::clone(queue.mailbox()).socket.accept(now) {
                        queue.push_frame(refused);
                    }
                }
                Token::Connection(index, connection) => {
                    if let Some(queue) = self.queues.get(index) {
                        queue.mailbox().socket.note(connection, flags, now);
                    }
                }
            }
        }
        if noticed {
            self.read_notifications();
        }
        let now = Instant::now();
        for index in 0..self.queues.len() {
            if self.queues.get(index).and_then(Queue::refreshes_at).is_some_and(|at| at <= now) {
                self.refresh(index, events);
            }
        }
    }

    /// Notes new documents, and the groups whose directories may have been replaced.
    fn read_notifications(&mut self) {
        let Some(watch) = &self.watch else { return };
        let mut buffer = [MaybeUninit::uninit(); 16 * 1024];
        let mut reader = inotify::Reader::new(watch, &mut buffer);
        let (mut seen, now) = (0, Instant::now());
        // A process that makes notices faster than they are read delays no group. A read notice is not dropped.
        while (seen < NOTICES_MAX || !reader.is_buffer_empty())
            && let Ok(event) = reader.next()
        {
            seen += 1;
            if event.events().contains(ReadFlags::QUEUE_OVERFLOW) {
                for queue in &mut self.queues {
                    queue.list_again();
                }
                continue;
            }
            let Some((index, on)) = self.watched.get(&event.wd()).copied() else { continue };
            if on == Watched::All {
                let name = event.file_name().map(CStr::to_bytes);
                let is_root = |queue: &&mut Queue| queue.mailbox().path().file_name().map(OsStr::as_bytes) == name;
                self.queues.iter_mut().filter(is_root).for_each(Queue::refresh_later);
                continue;
            }
            let Some(queue) = self.queues.get_mut(index) else { continue };
            let most = if queue.waits_for_pace(now) { PACED_NOTICES_PER_SECOND } else { NOTICES_PER_SECOND };
            if queue.count_notice(now) > most && !self.unwatched.contains(&index) {
                queue.unwatch_until(now + UNWATCHED);
                self.unwatched.push(index);
                tracing::warn!(group = %queue.group(), "the group causes too many notices; its requests are listed now and then");
            }
            let name = event.file_name().map(|name| name.to_str());
            match (on, name) {
                (Watched::Tasks, Some(Ok(name))) if is_document(name) => queue.push(name),
                (Watched::Tasks, None) => queue.list_again(),
                (Watched::Root, Some(Ok(TASKS | RESPONSES | SOCKET))) => queue.refresh_later(),
                (Watched::Tasks | Watched::Root | Watched::All, _) => {}
            }
        }
        let gone: Vec<i32> = self
            .watched
            .iter()
            .filter(|(_, (index, on))| *on != Watched::All && self.unwatched.contains(index))
            .map(|(descriptor, _)| *descriptor)
            .collect();
        for descriptor in gone {
            self.watched.remove(&descriptor);
            // A watch whose directory is gone is gone already.
            inotify::remove_watch(watch, descriptor).ok();
        }
    }

    /// Opens a group's directories again if they were replaced, and lists its requests.
    fn refresh(&mut self, index: usize, events: &mut VecDeque<Event>) {
        // ORDER: a change while the directories are opened is noticed.
        if !self.unwatched.contains(&index) {
            self.watch_mailbox(index);
        }
        let Some(queue) = self.queues.get_mut(index) else { return };
        queue.list_again();
        match queue.refresh() {
            Ok(false) => {}
            Ok(true) => {
                tracing::warn!(group = %queue.group(), "the group's directory was replaced and is opened again");
                events.push_back(Event::MailboxReopened(queue.group().clone()));
            }
            Err(error) => tracing::warn!(group = %queue.group(), %error, "the group's directory cannot be used"),
        }
    }

    fn watch_mailbox(&mut self, index: usize) {
        let Some(mailbox) = self.queues.get(index).map(|queue| Arc::clone(queue.mailbox())) else { return };
        let changes = WatchFlags::MOVED_TO | WatchFlags::ONLYDIR | WatchFlags::DONT_FOLLOW;
        self.watch(index, Watched::Tasks, &mailbox.tasks_path(), changes | WatchFlags::CLOSE_WRITE);
        // A directory that was moved away is still open, so that is noticed before another one is made.
        let replaced = changes | WatchFlags::CREATE | WatchFlags::MOVED_FROM;
        self.watch(index, Watched::Root, mailbox.path(), replaced | WatchFlags::DELETE);
        if let Some(all) = mailbox.path().parent() {
            self.watch(index, Watched::All, all, replaced);
        }
    }

    fn watch(&mut self, index: usize, on: Watched, path: &Path, flags: WatchFlags) {
        let (Some(watch), Some(queue)) = (&self.watch, self.queues.get(index)) else { return };
        match inotify::add_watch(watch, path, flags) {
            Ok(descriptor) => {
                self.watched.insert(descriptor, (index, on));
                // SECURITY: a directory that was moved away would keep its watch, and the number of watches is limited.
                let replaced = self.current.insert((index, on), descriptor).filter(|old| *old != descriptor);
                if let Some(old) = replaced.filter(|old| self.watched.remove(old).is_some()) {
                    inotify::remove_watch(watch, old).ok();
                }
            }
            // The system's limit is met: then no group can be told from another by who was first.
            Err(errno @ (Errno::NOSPC | Errno::NOMEM)) => {
                tracing::warn!(group = %queue.group(), %errno, "the directory cannot be watched; directories are listed instead");
                self.watch = None;
            }
            // A fault of this group's directory does not concern the other groups.
            Err(errno) => {
                tracing::warn!(group = %queue.group(), %errno, "the directory cannot be watched; it is listed now and then");
            }
        }
    }
}

fn parse_again(
    caller: Caller,
    id: RequestId,
    waiting: Waiting,
    flows: &FlowsTable,
    parse_context: &ParseContext,
) -> Result<Event, Why> {
    let Waiting { kind, document, behalf } = waiting;
    // SECURITY: the broker may have a secret now that it did not have when the request arrived.
    if let Some(filters) = &parse_context.filters
        && is_readmitted(kind)
        && own_secrets::are_in_request(&[id.as_str()], &document, &filters.scrubber)
    {
        return Err(Why::OwnSecret);
    }
    let stored = StoredRequest { caller, request_id: id, behalf, document: &document };
    approval_subjects::of(kind).readmit(stored, flows, parse_context).map_err(Why::Invalid)
}

/// Returns whether the request of such an approval request is admitted again after the answer.
fn is_readmitted(kind: SubjectKind) -> bool {
    approval_subjects::of(kind).continuation() == Continuation::Readmit
}
