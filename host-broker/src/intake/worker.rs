//! Reading and parsing beside the loop: a thread that takes one long document at a time.
//!
//! The intake hands it at most one document of each group, so the groups take turns. Its time and memory are bounded by
//! the document's bytes, values and keys.

use crate::call::{self, Desk, Parsed};
use crate::event::{News, Reports};
use crate::mailroom::{Room, Slot, Weight};
use shared::mailbox::{FileIdentity, Found, ReadFault};
use shared::{Code, Timestamp};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;
use tokio::time::Instant;

/// A file that was read, before it is understood.
#[derive(Debug)]
pub struct Inbound {
    /// The group's directory.
    pub room: Arc<Room>,
    /// Its name in `tasks/`.
    pub name: String,
    /// Its bytes, or why they were not read.
    pub bytes: Result<Vec<u8>, (Code, String)>,
    /// The identity of the file.
    pub identity: FileIdentity,
    /// The age of the file.
    pub age: Duration,
    /// The time at which it was found, on the monotonic clock.
    pub arrived: Instant,
    /// The time at which it was found, on the wall clock.
    pub wall: Timestamp,
    /// Its place in the group's queue.
    pub slot: Slot,
    /// The memory that it takes.
    pub weight: Weight,
}

/// A file that was found: open, or refused unread.
#[derive(Debug)]
pub(super) enum Reading {
    /// It can be read.
    Found(Found),
    /// It is answered with this code and sentence.
    Refused(FileIdentity, Code, String),
}

impl Reading {
    pub(super) fn identity(&self) -> FileIdentity {
        match self {
            Self::Found(found) => found.identity(),
            Self::Refused(identity, ..) => *identity,
        }
    }
}

/// One document to be read and parsed.
#[derive(Debug)]
pub(super) struct Job {
    /// The number of its group's queue.
    pub(super) queue: usize,
    pub(super) room: Arc<Room>,
    pub(super) name: String,
    pub(super) reading: Reading,
    pub(super) slot: Slot,
    pub(super) arrived: Instant,
    pub(super) wall: Timestamp,
}

impl Job {
    /// Reads it; `None` if it cannot be read now, and is no longer in hand.
    pub(super) fn read(self) -> Option<Inbound> {
        let Self { room, name, reading, slot, arrived, wall, .. } = self;
        let identity = reading.identity();
        let unreadable = || Err((Code::MalformedRequest, "The request's file cannot be read.".to_owned()));
        let bytes = match reading {
            Reading::Refused(_, code, reason) => Err((code, reason)),
            Reading::Found(found) => match found.read() {
                Ok(contents) => Ok(contents.bytes),
                Err(ReadFault::TooLarge(_)) => {
                    Err((Code::OversizedRequest, Code::OversizedRequest.meaning().to_owned()))
                }
                Err(fault) if fault.is_passing() => {
                    room.put_back(&name, identity);
                    return None;
                }
                Err(_) => unreadable(),
            },
        };
        // Its bytes are kept twice: as they were written, and as the values that they say.
        let weight = room.weigh(bytes.as_ref().map_or(0, |bytes| bytes.len().saturating_mul(2)));
        let changed = Timestamp::from_millis(i64::try_from(identity.changed_ns / 1_000_000).unwrap_or(i64::MAX));
        let age = wall.since(changed);
        Some(Inbound { room, name, bytes, identity, age, arrived, wall, slot, weight })
    }
}

/// The reason why there is no document to decide on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unparsed {
    /// The file cannot be read now.
    Later,
    /// Parsing panicked: the file stays in hand, unanswered.
    Fault,
}

/// The worker's result for a document.
#[derive(Debug)]
pub struct ParsedDocument {
    pub(super) queue: usize,
    pub(super) parsed: Result<Parsed, Unparsed>,
    pub(super) took: Duration,
}

/// The sender of jobs to the worker. The worker ends when the last sender is dropped.
#[derive(Debug, Clone)]
pub struct ParseWorker(Sender<(Job, Arc<Desk>)>);

impl ParseWorker {
    /// Makes a worker that reports here, and the function of its thread, which runs until the last sender is gone.
    pub fn new(reports: Reports) -> (Self, impl FnOnce() + Send + 'static) {
        let (sender, jobs) = channel();
        (Self(sender), move || work(&jobs, &reports))
    }

    /// Hands a document over. Returns `false` if the worker is gone, which happens only at the end.
    pub(super) fn take(&self, job: Job, desk: &Arc<Desk>) -> bool {
        self.0.send((job, Arc::clone(desk))).is_ok()
    }
}

fn work(jobs: &Receiver<(Job, Arc<Desk>)>, reports: &Reports) {
    for (job, desk) in jobs {
        let (began, queue) = (Instant::now(), job.queue);
        let group = job.room.group.clone();
        let parsed = catch_unwind(AssertUnwindSafe(|| {
            job.read().map(|inbound| call::parse_beside(inbound, &desk)).ok_or(Unparsed::Later)
        }));
        let parsed = parsed.unwrap_or_else(|_panic| {
            tracing::error!(%group, "a document could not be parsed because of a fault in the broker; it stays unanswered");
            Err(Unparsed::Fault)
        });
        reports.send(News::Parsed(Box::new(ParsedDocument { queue, parsed, took: began.elapsed() })));
    }
}
