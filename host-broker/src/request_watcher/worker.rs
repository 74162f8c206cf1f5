//! Reading and parsing beside the loop: a thread that takes one task at a time.
//!
//! The request watcher gives it at most one task of each group, so the groups take turns. A task is a long document, or
//! some documents to look at. Its time and memory are bounded by the documents' bytes, values and keys. It also parses
//! requests without a file: the requests of approval requests, and calls of external agents.

use super::lane::lane;
use crate::daemon::{EventSender, Message};
use crate::mailboxes::{GroupMailbox, Slot};
use crate::sockets::FrameDocument;
use engine::approval_requests::Why;
use engine::event::Event;
use engine::request;
use engine::request::{InboundRequest, ParseContext, Parsed, Source};
use kernel::call::{InFlightGuard, Lane};
use model::Clock;
use shared::mailbox::{self, FileIdentity, ReadError};
use shared::snapshot::Snapshot;
use shared::{Code, Group, Timestamp, limits};
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;
use tokio::time::Instant;

/// The largest document, in bytes, that is read and parsed on the loop's thread.
const SHORT_BYTES_MAX: usize = 4 * 1024;
/// The most permitted documents that one look brings to the loop.
const PERMITTED_MAX: usize = 4;
/// A look ends after this time; other groups wait that long.
const LOOK_MAX: Duration = Duration::from_millis(2);

/// A file that was found: open, or refused unread.
#[derive(Debug)]
pub(super) enum Reading {
    /// It can be read.
    Found(mailbox::Found),
    /// It is answered with this code and sentence.
    Refused(FileIdentity, Code, String),
}

impl Reading {
    /// Opens a document, or finds out why it cannot be read; `None` if there is nothing to be answered. Also returns
    /// whether it cannot be read only now: the next listing finds it again.
    pub(super) fn find(mailbox: &GroupMailbox, name: &str) -> (Option<Self>, bool) {
        let Some(handles) = mailbox.handles() else { return (None, false) };
        let malformed = |identity, reason: &str| Self::Refused(identity, Code::MalformedRequest, reason.to_owned());
        let reading = match handles.tasks.find(name, limits::REQUEST_BYTES_MAX, mailbox.owner) {
            Ok(found) => Some(Self::Found(found)),
            Err(ReadError::Missing | ReadError::BadName) => None,
            // The holder of a lease must let go within the system's lease-break time.
            Err(fault) if fault.is_passing() => return (None, true),
            Err(ReadError::TooLarge(identity)) => Some(Self::too_large(identity)),
            Err(ReadError::NotRegular(identity)) => Some(malformed(identity, "The request is not a regular file.")),
            Err(ReadError::Linked(identity)) => Some(malformed(identity, "The request's file has more than one link.")),
            Err(ReadError::WrongOwner(identity)) => {
                let reason = "The request's file belongs to another user than configured for this group.";
                Some(malformed(identity, reason))
            }
            Err(ReadError::System(..) | ReadError::Leased(_)) => {
                let identity = handles.tasks.look(name);
                identity.map(|identity| malformed(identity, "The request's file cannot be read."))
            }
        };
        (reading, false)
    }

    fn too_large(identity: FileIdentity) -> Self {
        Self::Refused(identity, Code::OversizedRequest, Code::OversizedRequest.meaning().to_owned())
    }

    /// Returns whether it takes too long to be read and parsed on the loop's thread.
    pub(super) fn is_long(&self) -> bool {
        matches!(self, Self::Found(found) if found.size() > SHORT_BYTES_MAX)
    }

    pub(super) fn identity(&self) -> FileIdentity {
        match self {
            Self::Found(found) => found.identity(),
            Self::Refused(identity, ..) => *identity,
        }
    }
}

/// A document that waits to be read.
#[derive(Debug)]
pub(super) enum PendingDocument {
    /// The name of a file in `tasks/`.
    File(String),
    /// A frame, which is read already.
    Frame(Box<FrameDocument>),
}

/// A document that was looked at and will be refused.
#[derive(Debug)]
pub(super) enum RefusedDocument {
    /// A file in hand.
    File(String, FileIdentity),
    /// A frame.
    Frame(Box<FrameDocument>),
}

/// A document to be parsed, and the source of its bytes.
#[derive(Debug)]
pub(super) enum OpenedDocument {
    /// A file in hand.
    File(String, Reading),
    /// A frame.
    Frame(Box<FrameDocument>),
}

/// Returns whether a frame takes too long to be parsed on the loop's thread.
pub(super) fn is_long(frame: &FrameDocument) -> bool {
    frame.bytes.as_ref().is_ok_and(|bytes| bytes.len() > SHORT_BYTES_MAX)
}

/// One document to be read and parsed.
#[derive(Debug)]
pub(super) struct Job {
    /// The number of its group's queue.
    pub(super) queue: usize,
    pub(super) mailbox: Arc<GroupMailbox>,
    pub(super) found: OpenedDocument,
    pub(super) slot: Slot,
    pub(super) arrived: Instant,
    pub(super) wall: Timestamp,
}

/// A document to be parsed beside the loop.
struct Alone {
    job: Job,
    /// The last snapshot of the group.
    snapshot: Option<Arc<Snapshot>>,
}

impl Alone {
    fn run(self, parse_context: &ParseContext, into: &mut ParsedDocuments) {
        let Some(inbound) = self.job.read() else {
            into.again = true;
            return;
        };
        into.parsed.push(parsed(inbound, self.snapshot.as_deref(), parse_context).0);
    }
}

/// Parses a document, and inspects the data that it would let leave if the group may send it. Also returns its lane.
fn parsed(inbound: InboundRequest, snapshot: Option<&Snapshot>, parse_context: &ParseContext) -> (Parsed, Lane) {
    let mut parsed = request::parse(inbound, parse_context);
    let lane = lane(snapshot, &parsed);
    if lane == Lane::Permitted {
        request::inspect(&mut parsed, parse_context);
    }
    (parsed, lane)
}

impl Job {
    /// Reads it; `None` if it cannot be read now, and is no longer in hand.
    pub(super) fn read(self) -> Option<InboundRequest> {
        let Self { mailbox, found, slot, arrived, wall, .. } = self;
        let (source, bytes, age, slot): (_, _, _, InFlightGuard) = match found {
            OpenedDocument::File(name, reading) => {
                let identity = reading.identity();
                let bytes = read(&mailbox, &name, reading)?;
                let changed =
                    Timestamp::from_millis(i64::try_from(identity.changed_ns / 1_000_000).unwrap_or(i64::MAX));
                (Source::File { name, identity }, bytes, wall.since(changed), Box::new(slot))
            }
            OpenedDocument::Frame(document) => {
                let FrameDocument { connection, frame, bytes, place } = *document;
                (Source::Frame { connection, frame }, bytes, Duration::ZERO, Box::new((slot, place)))
            }
        };
        // Its bytes are kept twice: as they were written, and as the values that they say.
        let weight = mailbox.weigh(bytes.as_ref().map_or(0, |bytes| bytes.len().saturating_mul(2)));
        Some(InboundRequest {
            group: mailbox.group.clone(),
            signing_key: mailbox.signing_key.clone(),
            source,
            bytes,
            age,
            arrived,
            wall,
            slot,
            memory: Box::new(weight),
        })
    }
}

/// Reads a file in hand; `None` if it cannot be read now, and is no longer in hand.
fn read(mailbox: &GroupMailbox, name: &str, reading: Reading) -> Option<Result<Vec<u8>, (Code, String)>> {
    let identity = reading.identity();
    Some(match reading {
        Reading::Refused(_, code, reason) => Err((code, reason)),
        Reading::Found(found) => match found.read() {
            Ok(contents) => Ok(contents.bytes),
            Err(ReadError::TooLarge(_)) => Err((Code::OversizedRequest, Code::OversizedRequest.meaning().to_owned())),
            Err(fault) if fault.is_passing() => {
                mailbox.put_back(name, identity);
                return None;
            }
            Err(_) => Err((Code::MalformedRequest, "The request's file cannot be read.".to_owned())),
        },
    })
}

/// Documents to be looked at: the refused ones wait for their pace, and the others are decided on now.
pub(super) struct Look {
    /// The number of the group's queue.
    pub(super) queue: usize,
    pub(super) mailbox: Arc<GroupMailbox>,
    pub(super) documents: VecDeque<PendingDocument>,
    /// The last snapshot of the group.
    pub(super) snapshot: Arc<Snapshot>,
    pub(super) clock: Arc<dyn Clock>,
}

/// The worker's result for some documents of a group.
#[derive(Debug, Default)]
pub struct ParsedDocuments {
    pub(super) queue: usize,
    /// Those to be decided on, in their order.
    pub(super) parsed: Vec<Parsed>,
    /// Those that will be refused, in their order.
    pub(super) refused: Vec<RefusedDocument>,
    /// Those that were not looked at, in their order.
    pub(super) rest: VecDeque<PendingDocument>,
    /// The long ones among them that have to wait until less of the group is under way.
    pub(super) long: Vec<PendingDocument>,
    /// Whether a file could not be read now.
    pub(super) again: bool,
    pub(super) took: Duration,
}

impl Look {
    /// Looks at some of the documents. Returns whether a file could not be read now.
    fn run(mut self, parse_context: &ParseContext, into: &mut ParsedDocuments) -> bool {
        let (began, mut again) = (Instant::now(), false);
        while let Some(document) = self.documents.pop_front() {
            let is_enough = into.parsed.len() >= PERMITTED_MAX || began.elapsed() >= LOOK_MAX;
            let slot = if is_enough || !self.mailbox.takes_short() { None } else { self.mailbox.slot() };
            let Some(slot) = slot else {
                self.documents.push_front(document);
                break;
            };
            let found = match document {
                PendingDocument::File(name) => {
                    let (reading, is_passing) = Reading::find(&self.mailbox, &name);
                    again |= is_passing;
                    let Some(reading) = reading else { continue };
                    if reading.is_long() && !self.mailbox.takes_long() {
                        into.long.push(PendingDocument::File(name));
                        continue;
                    }
                    if !self.mailbox.take(&name, reading.identity()) {
                        continue;
                    }
                    OpenedDocument::File(name, reading)
                }
                PendingDocument::Frame(frame) if is_long(&frame) && !self.mailbox.takes_long() => {
                    into.long.push(PendingDocument::Frame(frame));
                    continue;
                }
                PendingDocument::Frame(frame) => OpenedDocument::Frame(frame),
            };
            again |= self.look_at(found, slot, parse_context, into);
        }
        into.rest = self.documents;
        again
    }

    /// Parses one document, and keeps it if it is permitted. Returns whether it could not be read now.
    fn look_at(
        &self,
        found: OpenedDocument,
        slot: Slot,
        parse_context: &ParseContext,
        into: &mut ParsedDocuments,
    ) -> bool {
        // A file that will be refused is read again; the bytes of a frame are nowhere else.
        let refused = match &found {
            OpenedDocument::File(name, reading) => RefusedDocument::File(name.clone(), reading.identity()),
            OpenedDocument::Frame(frame) => RefusedDocument::Frame(frame.clone()),
        };
        let (mailbox, arrived, wall) = (Arc::clone(&self.mailbox), Instant::now(), self.clock.now());
        let Some(inbound) = (Job { queue: self.queue, mailbox, found, slot, arrived, wall }).read() else {
            return true;
        };
        match parsed(inbound, Some(&self.snapshot), parse_context) {
            (parsed, Lane::Permitted) => into.parsed.push(parsed),
            (_, Lane::Refused) => into.refused.push(refused),
        }
        false
    }
}

/// Makes a request.
pub(super) type Make = Box<dyn FnOnce(&ParseContext) -> Result<Event, Why> + Send>;
/// Returns the message that the loop gets about it.
pub(super) type Announce = Box<dyn FnOnce(Result<Event, Why>) -> Option<Message> + Send>;

/// A request that is parsed although no file brought it now.
pub(super) struct Remade {
    pub(super) make: Make,
    pub(super) news: Announce,
}

/// One thing to be done beside the loop.
enum Task {
    Document(Box<Alone>),
    Look(Look),
    Remade(Remade),
}

/// The tasks that wait. Documents of groups and requests without a file take turns, so that many of these hold no group
/// up.
struct Turns<T> {
    documents: VecDeque<T>,
    remade: VecDeque<T>,
    is_documents_turn: bool,
}

impl<T> Turns<T> {
    fn new() -> Self {
        Self { documents: VecDeque::new(), remade: VecDeque::new(), is_documents_turn: true }
    }

    fn add(&mut self, task: T, is_remade: bool) {
        if is_remade { &mut self.remade } else { &mut self.documents }.push_back(task);
    }

    fn next(&mut self) -> Option<T> {
        let [first, second] = if self.is_documents_turn {
            [&mut self.documents, &mut self.remade]
        } else {
            [&mut self.remade, &mut self.documents]
        };
        self.is_documents_turn = !self.is_documents_turn;
        first.pop_front().or_else(|| second.pop_front())
    }
}

/// The sender of tasks to the worker. The worker ends when the last sender is dropped.
#[derive(Debug, Clone)]
pub struct ParseWorker(Sender<(Task, Arc<ParseContext>)>);

impl ParseWorker {
    /// Makes a worker that reports here, and the function of its thread, which runs until the last sender is gone.
    pub fn new(reports: EventSender) -> (Self, impl FnOnce() + Send + 'static) {
        let (sender, tasks) = channel();
        (Self(sender), move || work(&tasks, &reports))
    }

    /// Hands a document over. Returns `false` if the worker is gone, which happens only at the end.
    pub(super) fn take(&self, job: Job, snapshot: Option<Arc<Snapshot>>, parse_context: &Arc<ParseContext>) -> bool {
        self.send(Task::Document(Box::new(Alone { job, snapshot })), parse_context)
    }

    /// Hands documents over to be looked at. Returns `false` as [`Self::take`].
    pub(super) fn look(&self, look: Look, parse_context: &Arc<ParseContext>) -> bool {
        self.send(Task::Look(look), parse_context)
    }

    /// Takes a request without a file. Returns `false` as [`Self::take`].
    pub(super) fn remake(&self, remade: Remade, parse_context: &Arc<ParseContext>) -> bool {
        self.send(Task::Remade(remade), parse_context)
    }

    fn send(&self, task: Task, parse_context: &Arc<ParseContext>) -> bool {
        self.0.send((task, Arc::clone(parse_context))).is_ok()
    }
}

fn work(tasks: &Receiver<(Task, Arc<ParseContext>)>, reports: &EventSender) {
    let mut turns = Turns::new();
    loop {
        for (task, parse_context) in tasks.try_iter() {
            let is_remade = matches!(task, Task::Remade(_));
            turns.add((task, parse_context), is_remade);
        }
        let Some((task, parse_context)) = turns.next().or_else(|| tasks.recv().ok()) else { return };
        let began = Instant::now();
        let news = match task {
            Task::Remade(Remade { make, news }) => {
                let made = catch_unwind(AssertUnwindSafe(|| make(&parse_context)));
                let made = made.unwrap_or_else(|_panic| Err(Why::Invalid("the broker itself failed".to_owned())));
                let Some(news) = news(made) else { continue };
                news
            }
            Task::Document(document) => {
                let (queue, group) = (document.job.queue, document.job.mailbox.group.clone());
                let mut done = ParsedDocuments { queue, ..ParsedDocuments::default() };
                guarded(&group, || document.run(&parse_context, &mut done));
                Message::Parsed(Box::new(ParsedDocuments { took: began.elapsed(), ..done }))
            }
            Task::Look(look) => {
                let (queue, group) = (look.queue, look.mailbox.group.clone());
                // If parsing panics, the look loses the names that it still has. The next listing finds them.
                let mut done = ParsedDocuments { queue, again: true, ..ParsedDocuments::default() };
                guarded(&group, || {
                    let again = look.run(&parse_context, &mut done);
                    done.again = again;
                });
                Message::Parsed(Box::new(ParsedDocuments { took: began.elapsed(), ..done }))
            }
        };
        reports.send(news);
    }
}

/// Runs the parser. If it panics, the file stays in hand, unanswered.
fn guarded(group: &Group, parse: impl FnOnce()) {
    if catch_unwind(AssertUnwindSafe(parse)).is_err() {
        tracing::error!(%group, "a document could not be parsed because of a fault in the broker; it stays unanswered");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Attack (Load and space): Many calls of external agents wait to be parsed, so that the long
    /// documents of groups come late.
    /// Defence: They take turns with the documents of groups.
    #[test]
    fn many_requests_without_a_file_hold_no_group_up_and_none_of_them_is_lost() {
        let mut turns = Turns::new();
        (0..24).for_each(|agent| turns.add(("agent", agent), true));
        turns.add(("group", 0), false);
        turns.add(("group", 1), false);
        let order: Vec<_> = std::iter::from_fn(|| turns.next()).collect();
        assert_eq!(order.len(), 26);
        assert_eq!(order[..4], [("group", 0), ("agent", 0), ("group", 1), ("agent", 1)]);
        assert!(order[4..].iter().map(|(_, number)| *number).eq(2..24));
    }
}
