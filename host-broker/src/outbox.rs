//! The outbox: the only way for replies to leave.
//!
//! It delivers nothing but [`Settled`], whose evidence is durable, and [`Unrecorded`], which can only say that there is
//! no evidence. The loop owns it, so replies leave in the order in which they were recorded.

use crate::mailboxes::reply_files::MODE;
use crate::mailboxes::{GroupMailbox, Handles, Mailboxes};
use engine::one_time_values::with_value;
use kernel::call::{FileOrigin, FrameOrigin, Origin, ReplyAddress};
use kernel::{OneTimeValue, Settled};
use secrets::vault::Vault;
use shared::digest::Digest;
use shared::mailbox::{HOST, MailboxError, SNAPSHOT, is_document, progress_name, reply_name};
use shared::reply::Progress;
use shared::{Code, Group, Reply, RequestId, Timestamp, limits};
use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use tokio::time::Instant;

/// The one reply that needs no evidence: that there is none.
#[derive(Debug)]
pub struct Unrecorded(Reply);

impl Unrecorded {
    /// The ledger could not be written before the effect: nothing was executed.
    pub fn nothing_executed(request_id: RequestId, now: Timestamp) -> Self {
        Self(Reply::of_code(request_id, Code::EvidenceUnavailable, now))
    }

    /// Creates the reply for an effect after which the ledger could not be written: it withholds the result.
    pub fn outcome_withheld(request_id: RequestId, now: Timestamp) -> Self {
        Self(Reply::of_code(request_id, Code::OutcomeUnknown, now))
    }
}

/// The most unwritten replies of one group that are kept for another try. A caller can still ask for a dropped one.
const UNSENT_MAX: usize = 16;

/// A reply that could not be written: a full disk, too many open files.
struct Unsent {
    address: ReplyAddress,
    request_id: RequestId,
    bytes: Vec<u8>,
    // The row that it rests on; none, if there is no evidence.
    seq: Option<i64>,
    // The end of the caller's timeout.
    until: Instant,
}

impl std::fmt::Debug for Unsent {
    /// Omits the reply, which can have a one-time value.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Unsent({})", self.request_id)
    }
}

impl Unsent {
    /// Returns the id in the name of the reply. A document without an id of its own has another one.
    fn id(&self) -> &RequestId {
        self.address.reply_as.as_ref().unwrap_or(&self.request_id)
    }

    fn give_up(&self) {
        tracing::warn!(group = %self.address.group, id = %self.id(), "a reply could not be written in time");
    }
}

/// The circumstances of a delivery.
#[derive(Debug, Clone, Copy)]
struct Delivery {
    // The row that the reply rests on; none, if there is no evidence.
    seq: Option<i64>,
    // A connection that repeated the request has the reply.
    is_sent: bool,
    // The reply has a one-time value, so no file of it is used again.
    is_private: bool,
}

/// The way into the groups' directories.
#[derive(Debug)]
pub struct Outbox {
    mailboxes: Mailboxes,
    vault: Arc<Vault>,
    delivered: i64,
    unsent: VecDeque<Unsent>,
    // The calls that have said something while they run.
    talking: BTreeSet<(Group, RequestId)>,
}

impl Outbox {
    /// Nothing has left yet.
    pub fn new(mailboxes: Mailboxes, vault: Arc<Vault>) -> Self {
        Self { mailboxes, vault, delivered: 0, unsent: VecDeque::new(), talking: BTreeSet::new() }
    }

    /// Replies up to this row have left.
    pub fn delivered(&self) -> i64 {
        let first = self.unsent.iter().filter_map(|unsent| unsent.seq).min();
        first.map_or(self.delivered, |seq| self.delivered.min(seq - 1))
    }

    /// Checks whether there are replies to be tried again.
    pub fn has_unsent(&self) -> bool {
        !self.unsent.is_empty()
    }

    /// Tries unwritten replies again.
    ///
    /// Only two kinds leave: a reply that there is no evidence, and one for which `may_leave` returns true.
    pub fn send_again(&mut self, may_leave: impl Fn(&Group, &RequestId, &[u8]) -> bool) {
        for unsent in std::mem::take(&mut self.unsent) {
            if Instant::now() >= unsent.until {
                unsent.give_up();
            } else if unsent.seq.is_none() || may_leave(&unsent.address.group, &unsent.request_id, &unsent.bytes) {
                self.send(unsent);
            }
        }
    }

    /// Delivers a durable reply. A request that still lies there is removed first. With `repeated_by`, the reply also goes
    /// to the connections of that group over which the request was repeated.
    pub fn reply(&mut self, origin: Origin, settled: Settled, repeated_by: Option<&Group>) {
        let seq = settled.seq();
        let (request_id, bytes, one_time) = settled.into_document();
        let is_private = one_time.is_some();
        let bytes = self.with_one_time_value(bytes, one_time);
        let is_sent = repeated_by.is_some_and(|group| self.send_to_repeats(group, &request_id, &bytes));
        self.answer(origin, request_id, bytes, Delivery { seq: Some(seq), is_sent, is_private });
        self.delivered = self.delivered.max(seq);
    }

    /// Delivers a durable reply from before a restart.
    pub fn redeliver(
        &mut self,
        group: Group,
        id: RequestId,
        (bytes, one_time): (Vec<u8>, Option<OneTimeValue>),
        seq: i64,
    ) {
        let bytes = self.with_one_time_value(bytes, one_time);
        self.write_reply(ReplyAddress::of(group), id, bytes, Some(seq));
        self.delivered = self.delivered.max(seq);
    }

    /// Adds the one-time value that leaves with a reply.
    fn with_one_time_value(&self, document: Vec<u8>, one_time: Option<OneTimeValue>) -> Vec<u8> {
        let Some(value) = one_time else { return document };
        match self.vault.open_one_time(&value) {
            Ok(text) => with_value(&document, value.field(), &text).unwrap_or(document),
            Err(error) => {
                tracing::error!(%error, "a one-time value cannot be decrypted; its reply leaves without it");
                document
            }
        }
    }

    /// Says that there is no evidence. A host that cannot record must not find the request again and execute it, so
    /// the request goes first.
    pub fn unrecorded(&mut self, origin: Origin, Unrecorded(reply): Unrecorded) {
        let bytes = reply.to_bytes();
        self.answer(origin, reply.request_id, bytes, Delivery { seq: None, is_sent: false, is_private: false });
    }

    /// Removes a request whose row is durable. Returns whether its sender has withdrawn it.
    pub fn retire(&self, file: &FileOrigin) -> bool {
        self.mailboxes.mailbox(&file.group).is_some_and(|mailbox| mailbox.retire(&file.name, file.identity))
    }

    /// The group that a request file came from.
    pub fn mailbox(&self, group: &Group) -> Option<&Arc<GroupMailbox>> {
        self.mailboxes.mailbox(group)
    }

    /// Ends the connection that brought a document which cannot be answered.
    pub fn goodbye(&self, frame: &FrameOrigin, code: Code, reason: &str) {
        if let Some(mailbox) = self.mailboxes.mailbox(&frame.group) {
            mailbox.socket.goodbye(frame.connection, code, reason, Instant::now());
        }
    }

    /// Decides whether a request that came over a socket is admitted: its sender must be there, and must not have
    /// withdrawn it.
    pub fn admits(&self, frame: &FrameOrigin, id: Option<&RequestId>) -> bool {
        let mailbox = self.mailboxes.mailbox(&frame.group);
        mailbox.is_some_and(|mailbox| mailbox.socket.admit(frame.connection, frame.frame, id, Instant::now()))
    }

    /// Notes that a request over a socket repeats another one and waits for the reply to that.
    pub fn note_repeat(&self, frame: &FrameOrigin, id: &RequestId) {
        if let Some(mailbox) = self.mailboxes.mailbox(&frame.group) {
            mailbox.socket.note_repeat(frame.connection, id);
        }
    }

    /// No reply comes for those that have repeated this request.
    pub fn forget_repeats(&self, group: &Group, id: &RequestId) {
        if let Some(mailbox) = self.mailboxes.mailbox(group) {
            mailbox.socket.forget_repeats(id);
        }
    }

    /// Closes all connections, and removes the files that are kept for later replies.
    pub fn close(&self) {
        for mailbox in self.mailboxes.mailboxes() {
            mailbox.socket.close();
            if let Some(handles) = mailbox.handles() {
                handles.reply_files.clear(&handles.responses);
            }
        }
    }

    /// Says on all sockets that the host stops. Replies still leave.
    pub fn stop(&self) {
        for mailbox in self.mailboxes.mailboxes() {
            mailbox.socket.stop(mailbox.handles().as_deref(), Instant::now());
        }
    }

    /// Returns whether a shim has still to read what is sent to it.
    pub fn is_being_read(&self) -> bool {
        self.mailboxes.mailboxes().any(|mailbox| mailbox.socket.has_unsent())
    }

    /// Sends the progress of a running call.
    pub fn progress(&mut self, group: Group, id: RequestId, progress: &Progress) {
        let mailbox = self.mailboxes.mailbox(&group);
        if mailbox.is_some_and(|mailbox| mailbox.socket.progress(&id, progress, Instant::now())) {
            return;
        }
        let bytes = serde_json::to_vec(progress).unwrap_or_default();
        self.write(&group, |handles| handles.responses.write(&progress_name(&id), &bytes, MODE));
        self.talking.insert((group, id));
    }

    /// Removes the progress of a call whose caller has its reply.
    pub fn clear_progress(&mut self, group: &Group, id: &RequestId) {
        if self.talking.remove(&(group.clone(), id.clone()))
            && let Some(handles) = self.mailboxes.mailbox(group).and_then(|mailbox| mailbox.handles())
        {
            handles.responses.remove(&progress_name(id)).ok();
        }
    }

    /// A group's snapshot.
    pub fn snapshot(&self, group: &Group, bytes: &[u8]) {
        self.write_root(group, SNAPSHOT, bytes);
        if let Some(mailbox) = self.mailboxes.mailbox(group) {
            mailbox.socket.changed(&Digest::of(bytes).hex(), Instant::now());
        }
    }

    /// The document that says that a host is there, for all groups or for one whose directory was replaced.
    pub fn host_info(&self, group: Option<&Group>, bytes: &[u8]) {
        match group {
            Some(group) => self.write_root(group, HOST, bytes),
            None => self.mailboxes.mailboxes().for_each(|mailbox| self.write_root(&mailbox.group, HOST, bytes)),
        }
    }

    /// Closes connections whose other side is too slow, and files that are not used any more.
    pub fn on_time(&self) {
        for mailbox in self.mailboxes.mailboxes() {
            mailbox.socket.on_time(Instant::now());
            if let Some(handles) = mailbox.handles() {
                handles.reply_files.on_time(&handles.responses);
            }
        }
    }

    /// The host is alive.
    pub fn heartbeat(&self) {
        for mailbox in self.mailboxes.mailboxes() {
            let Some(handles) = mailbox.handles() else { continue };
            if let Err(error) = handles.root.touch(HOST) {
                tracing::warn!(group = %mailbox.group, %error, "the sign of life cannot be renewed");
            }
        }
    }

    fn answer(&mut self, origin: Origin, request_id: RequestId, bytes: Vec<u8>, delivery: Delivery) {
        let Delivery { seq, is_sent, is_private } = delivery;
        let fitting =
            |address: ReplyAddress| ReplyAddress { is_reusable: address.is_reusable && !is_private, ..address };
        match origin {
            Origin::File(file) => {
                // ORDER: the request goes first. The reader of the reply may use the file's name again at once.
                self.retire(&file);
                self.write_reply(fitting(file.reply_address()), request_id, bytes, seq);
            }
            Origin::Retired(address) => self.write_reply(fitting(address), request_id, bytes, seq),
            Origin::Frame(FrameOrigin { group, connection, .. }) => {
                let (mailbox, now) = (self.mailboxes.mailbox(&group), Instant::now());
                let is_taken =
                    mailbox.is_some_and(|mailbox| mailbox.socket.reply(connection, &request_id, &bytes, now));
                // A shim whose connection has ended can wait for a file.
                if !is_taken && !is_sent {
                    self.write_reply(ReplyAddress::of(group), request_id, bytes, seq);
                }
            }
            // The person has left; the reply is kept like every other.
            Origin::Socket(sender) => drop(sender.send(bytes)),
            Origin::Broker => {}
        }
    }

    /// Sends a reply over the connections over which its request was repeated. Returns `false` if there is none.
    fn send_to_repeats(&self, group: &Group, id: &RequestId, bytes: &[u8]) -> bool {
        let mailbox = self.mailboxes.mailbox(group);
        mailbox.is_some_and(|mailbox| mailbox.socket.reply_to_repeats(id, bytes, Instant::now()))
    }

    fn write_reply(&mut self, address: ReplyAddress, request_id: RequestId, bytes: Vec<u8>, seq: Option<i64>) {
        self.send(Unsent { address, request_id, bytes, seq, until: Instant::now() + limits::TIMEOUT_MAX });
    }

    /// Sends a reply, and removes the progress of its call.
    fn send(&mut self, reply: Unsent) {
        let ReplyAddress { group, is_reusable, .. } = &reply.address;
        let name = reply_name(reply.id());
        let is_written = self.write(group, |handles| {
            if *is_reusable {
                handles.reply_files.write(&handles.responses, &name, &reply.bytes)
            } else {
                handles.responses.write(&name, &reply.bytes, MODE)
            }
        });
        if !is_written {
            self.keep(reply);
            return;
        }
        if self.talking.is_empty() {
            return;
        }
        let call = (group.clone(), reply.id().clone());
        if self.talking.remove(&call)
            && let Some(handles) = self.mailboxes.mailbox(&call.0).and_then(|mailbox| mailbox.handles())
        {
            handles.responses.remove(&progress_name(&call.1)).ok();
        }
    }

    fn keep(&mut self, reply: Unsent) {
        let of_the_group = |unsent: &Unsent| unsent.address.group == reply.address.group;
        if self.unsent.iter().filter(|unsent| of_the_group(unsent)).count() >= UNSENT_MAX
            && let Some(oldest) = self.unsent.iter().position(of_the_group)
        {
            self.unsent.remove(oldest).into_iter().for_each(|oldest| oldest.give_up());
        }
        self.unsent.push_back(reply);
    }

    /// Returns `false` if it is not there now.
    fn write(&self, group: &Group, write: impl FnOnce(&Handles) -> Result<(), MailboxError>) -> bool {
        let Some(handles) = self.mailboxes.mailbox(group).and_then(|mailbox| mailbox.handles_for_reply()) else {
            return false;
        };
        let written = write(&handles);
        if let Err(error) = &written {
            tracing::warn!(%group, %error, source = ?std::error::Error::source(error), "a reply cannot be written now");
        }
        written.is_ok()
    }

    fn write_root(&self, group: &Group, name: &str, bytes: &[u8]) {
        let Some(handles) = self.mailboxes.mailbox(group).and_then(|mailbox| mailbox.handles()) else { return };
        if let Err(error) = handles.root.write(name, bytes, MODE) {
            tracing::warn!(%group, %error, name, "a document for the group cannot be written");
        }
    }
}

/// Removes unread replies. Only old ones go, so this may run beside the loop.
pub fn sweep(mailboxes: &Mailboxes, now: Timestamp) {
    let before = i128::from(now.minus(limits::REPLY_KEEP).millis()) * 1_000_000;
    for mailbox in mailboxes.mailboxes() {
        let Some(handles) = mailbox.handles() else { continue };
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

#[cfg(test)]
mod tests {
    use super::*;
    use config::Config;
    use platform::home::Home;
    use std::collections::BTreeMap;

    #[test]
    fn a_group_whose_directory_is_broken_takes_no_place_from_another() {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::at(folder.path().to_owned());
        let config = Config::parse(
            "[groups.broken]\n[groups.other]\n",
            &home.config(),
            &BTreeMap::new(),
            crate::providers::KINDS,
        )
        .unwrap();
        let ids: Arc<dyn model::Random> = Arc::new(platform::random::SystemRandom);
        let vault = Arc::new(Vault::new(&[7; 32].into(), &[], ids).unwrap());
        let mut outbox = Outbox::new(Mailboxes::open(&home, &config).unwrap(), vault);
        let [broken, other]: [Group; 2] = ["broken", "other"].map(|name| name.parse().unwrap());
        let responses = |group: &Group| home.mailbox(group).join("responses");
        for group in [&broken, &other] {
            std::fs::remove_dir(responses(group)).unwrap();
        }
        outbox.redeliver(other.clone(), "the-one".parse().unwrap(), (b"{}".to_vec(), None), 1);
        for n in 2..100 {
            outbox.redeliver(broken.clone(), format!("n-{n}").parse().unwrap(), (b"{}".to_vec(), None), n);
        }
        assert_eq!(outbox.delivered(), 0, "the first is not there yet");
        for group in [&broken, &other] {
            std::fs::create_dir(responses(group)).unwrap();
            assert!(outbox.mailboxes.mailbox(group).unwrap().refresh().unwrap());
        }
        outbox.send_again(|_, _, _| true);
        assert!(!outbox.has_unsent());
        assert_eq!(outbox.delivered(), 99);
        assert!(responses(&other).join("the-one.json").is_file());
        let left = |group| std::fs::read_dir(responses(group)).unwrap().count();
        assert_eq!((left(&other), left(&broken)), (1, UNSENT_MAX));
        assert!(responses(&broken).join("n-99.json").is_file(), "the newest are kept");
    }
}
