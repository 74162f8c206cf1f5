//! Where replies leave: one thread, the only one that writes into a group's directory.
//!
//! It hands over nothing but [`Settled`], whose evidence is durable, and [`Unrecorded`], which can only say that
//! there is no evidence.

use crate::call::{FileOrigin, Origin};
use crate::ledger::transaction::Settled;
use crate::mailroom::Mailroom;
use shared::mailbox::{HOST, SNAPSHOT, is_document, progress_name, reply_name};
use shared::reply::Progress;
use shared::{Code, Group, Reply, RequestId, Timestamp, limits};
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::time::Duration;

/// Replies are world-readable, because the sandbox's user may be another one; the directory above is not.
const MODE: u32 = 0o644;

/// How long [`Outbox::flush`] waits.
const FLUSH_PATIENCE: Duration = Duration::from_secs(2);

/// What leaves.
#[derive(Debug)]
pub enum Outgoing {
    /// A durable reply, and the request it answers.
    Reply(Origin, Settled),
    /// A reply that says that there is no evidence.
    Unrecorded(Origin, Box<Unrecorded>),
    /// A request whose intent is durable; its file is removed.
    Retire(FileOrigin),
    /// A durable reply from before a restart.
    Redeliver(Group, RequestId, Vec<u8>, i64),
    /// What a call that runs says.
    Progress(Group, RequestId, Progress),
    /// A group's snapshot.
    Snapshot(Group, Vec<u8>),
    /// The sign of life of the host, for all groups.
    HostInfo(Vec<u8>),
    /// The same, for a group whose directory was replaced.
    HostInfoFor(Group, Vec<u8>),
    /// The host is alive.
    Beat,
    /// Replies that nobody took are removed.
    Clean(Timestamp),
    /// Somebody waits until everything before this has left.
    Flush(SyncSender<()>),
}

/// The one reply that needs no evidence: that there is none.
#[derive(Debug)]
pub struct Unrecorded(Reply);

impl Unrecorded {
    /// The ledger could not be written before the effect: nothing was executed.
    pub fn nothing_executed(request_id: RequestId, now: Timestamp) -> Self {
        Self(Reply::of_code(request_id, Code::EvidenceUnavailable, now))
    }

    /// The ledger could not be written after the effect: the result is not handed over.
    pub fn outcome_withheld(request_id: RequestId, now: Timestamp) -> Self {
        Self(Reply::of_code(request_id, Code::OutcomeUnknown, now))
    }
}

/// The sending end.
#[derive(Debug, Clone)]
pub struct Outbox {
    sender: Sender<Outgoing>,
    delivered: Arc<AtomicI64>,
}

/// The thread's end.
#[derive(Debug)]
pub struct Postman {
    mailroom: Mailroom,
    receiver: Receiver<Outgoing>,
    delivered: Arc<AtomicI64>,
    // The calls that have said something while they run.
    talking: RefCell<BTreeSet<(Group, RequestId)>>,
}

/// Makes both ends.
pub fn outbox(mailroom: Mailroom) -> (Outbox, Postman) {
    let (sender, receiver) = channel();
    let delivered = Arc::new(AtomicI64::new(0));
    (
        Outbox { sender, delivered: Arc::clone(&delivered) },
        Postman { mailroom, receiver, delivered, talking: RefCell::default() },
    )
}

impl Outbox {
    /// Sends it on its way, in the order of the calls.
    pub fn send(&self, outgoing: Outgoing) {
        // The postman is gone only when everything stops; what did not leave is delivered again at the next start.
        self.sender.send(outgoing).ok();
    }

    /// Waits until everything that was sent before has left, but not for ever.
    pub fn flush(&self) {
        let (sender, receiver) = sync_channel(1);
        self.send(Outgoing::Flush(sender));
        receiver.recv_timeout(FLUSH_PATIENCE).ok();
    }

    /// Replies up to this row have left.
    pub fn delivered(&self) -> i64 {
        self.delivered.load(Ordering::Acquire)
    }
}

impl Postman {
    /// Runs until every [`Outbox`] is gone, and everything has left.
    pub fn run(self) {
        while let Ok(outgoing) = self.receiver.recv() {
            self.carry(outgoing);
        }
    }

    fn carry(&self, outgoing: Outgoing) {
        match outgoing {
            Outgoing::Reply(origin, settled) => {
                let seq = settled.seq();
                let (request_id, bytes) = settled.into_document();
                self.answer(origin, &request_id, bytes);
                self.delivered.fetch_max(seq, Ordering::AcqRel);
            }
            Outgoing::Unrecorded(origin, unrecorded) => {
                let Unrecorded(reply) = *unrecorded;
                let bytes = serde_json::to_vec(&reply).unwrap_or_default();
                // The request goes first: a host that cannot record must not find it again and execute it.
                if let Origin::File(file) = &origin {
                    file.slot.room().retire(&file.name);
                }
                self.answer(origin, &reply.request_id, bytes);
            }
            Outgoing::Retire(file) => file.slot.room().retire(&file.name),
            Outgoing::Redeliver(group, id, bytes, seq) => {
                self.reply(&group, &id, &bytes);
                self.delivered.fetch_max(seq, Ordering::AcqRel);
            }
            Outgoing::Progress(group, id, progress) => {
                let bytes = serde_json::to_vec(&progress).unwrap_or_default();
                self.write(&group, &progress_name(&id), &bytes);
                self.talking.borrow_mut().insert((group, id));
            }
            Outgoing::Snapshot(group, bytes) => self.write_root(&group, SNAPSHOT, &bytes),
            Outgoing::HostInfo(bytes) => {
                for room in self.mailroom.rooms() {
                    self.write_root(&room.group, HOST, &bytes);
                }
            }
            Outgoing::HostInfoFor(group, bytes) => self.write_root(&group, HOST, &bytes),
            Outgoing::Beat => {
                for room in self.mailroom.rooms() {
                    let Some(handles) = room.handles() else { continue };
                    if let Err(error) = handles.root.touch(HOST) {
                        tracing::warn!(group = %room.group, %error, "the sign of life cannot be renewed");
                    }
                }
            }
            Outgoing::Clean(now) => self.clean(now),
            // Who does not wait any more has given up on a slow disk.
            Outgoing::Flush(waiting) => drop(waiting.try_send(())),
        }
    }

    fn answer(&self, origin: Origin, request_id: &RequestId, bytes: Vec<u8>) {
        match origin {
            Origin::File(file) => {
                // ORDER: the request goes first. Whoever sees the reply may use the file's name again at once.
                file.slot.room().retire(&file.name);
                self.reply(&file.group, file.reply_as.as_ref().unwrap_or(request_id), &bytes);
            }
            Origin::Retired(group, reply_as) => self.reply(&group, reply_as.as_ref().unwrap_or(request_id), &bytes),
            // The person has left; the reply is kept like every other.
            Origin::Socket(sender) => drop(sender.send(bytes)),
            Origin::Broker => {}
        }
    }

    /// A reply, and the end of what was said while the call ran.
    fn reply(&self, group: &Group, id: &RequestId, bytes: &[u8]) {
        self.write(group, &reply_name(id), bytes);
        if self.talking.borrow_mut().remove(&(group.clone(), id.clone()))
            && let Some(handles) = self.mailroom.room(group).and_then(|room| room.handles())
        {
            handles.responses.remove(&progress_name(id)).ok();
        }
    }

    fn write(&self, group: &Group, name: &str, bytes: &[u8]) {
        let Some(handles) = self.mailroom.room(group).and_then(|room| room.handles()) else { return };
        if let Err(error) = handles.responses.write(name, bytes, MODE) {
            tracing::warn!(%group, %error, source = ?std::error::Error::source(&error), "a reply cannot be written");
        }
    }

    fn write_root(&self, group: &Group, name: &str, bytes: &[u8]) {
        let Some(handles) = self.mailroom.room(group).and_then(|room| room.handles()) else { return };
        if let Err(error) = handles.root.write(name, bytes, MODE) {
            tracing::warn!(%group, %error, name, "a document for the group cannot be written");
        }
    }

    fn clean(&self, now: Timestamp) {
        let before = i128::from(now.minus(limits::REPLY_KEEP).millis()) * 1_000_000;
        for room in self.mailroom.rooms() {
            let Some(handles) = room.handles() else { continue };
            let responses = &handles.responses;
            let mut old = Vec::new();
            let is_old = |name: &str| responses.modified_ns(name).is_some_and(|at| at < before);
            let listed = responses.for_each_name(|name| {
                if (is_document(name) || name.starts_with(".tmp-")) && is_old(name) {
                    old.push(name.to_owned());
                }
                true
            });
            if listed.is_ok() {
                for name in old {
                    responses.remove(&name).ok();
                }
            }
        }
    }
}
