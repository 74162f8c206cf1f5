//! One connection of a shim: the frames that come, the requests that they bring, the frames that leave.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{RecvAncillaryBuffer, RecvFlags, ReturnFlags, SendFlags};
use serde::Serialize;
use shared::RequestId;
use shared::frame::{self, Decoder, Goodbye, Kind, Withdrawn, WithdrawnState};
use std::collections::{BTreeSet, VecDeque};
use std::io::IoSliceMut;
use std::os::fd::OwnedFd;
use std::time::Duration;
use tokio::time::Instant;

/// The most bytes that are read at once.
const READ_MAX: usize = 16 * 1024;
/// The time in which a frame that has begun must be whole, and a connection must have greeted.
const FRAME_TIMEOUT: Duration = Duration::from_secs(10);
/// A reader that takes nothing for this long is left.
const READER_TIMEOUT: Duration = Duration::from_secs(30);
/// The bytes that the other side has not read. Beyond, nothing of it is read either.
const UNSENT_MAX: usize = 64 * 1024;
/// How many withdrawals may wait for the decision on earlier frames.
const WITHDRAWALS_MAX: usize = 256;

/// A connection.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) fd: OwnedFd,
    pub(super) decoder: Decoder,
    /// Something may have come that is not read.
    pub(super) is_readable: bool,
    /// The system does not tell of more bytes, because some are not read yet.
    pub(super) is_muted: bool,
    pub(super) stage: Stage,
    /// The last word, once the row of the fault is durable.
    pub(super) goodbye: Option<Goodbye>,
    /// The number of requests that have come.
    pub(super) frames: u64,
    // The frames that are not decided on.
    undecided: BTreeSet<u64>,
    // The requests that were decided on and have no reply yet.
    in_flight: BTreeSet<RequestId>,
    // The requests that repeat one under way, whose reply they wait for.
    repeats: BTreeSet<RequestId>,
    withdrawals: Vec<Withdrawal>,
    outgoing: VecDeque<Vec<u8>>,
    // The bytes of the first of them that have left.
    sent: usize,
    /// The bytes that have not left.
    pub(super) unsent: usize,
    blocked_since: Option<Instant>,
    waits_since: Instant,
}

/// The stage of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    /// The other side has not greeted.
    New,
    /// Requests come.
    Greeted,
    /// Nothing more is read. Replies still leave.
    Ended,
    /// A frame could not be sent as a whole. Nothing leaves any more.
    Broken,
}

/// A request that is taken back.
#[derive(Debug)]
struct Withdrawal {
    id: RequestId,
    // The number of requests that had come before.
    before: u64,
    // One of them was dropped, and the other side knows.
    is_answered: bool,
}

/// The result of a read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ReadOutcome {
    /// Some bytes came.
    Some,
    /// Nothing more can be read now, or ever.
    None,
    /// The connection is of no use any more.
    Broken,
}

impl Connection {
    pub(super) fn new(fd: OwnedFd, now: Instant) -> Self {
        Self {
            fd,
            decoder: Decoder::of_requests(),
            is_readable: true,
            stage: Stage::New,
            goodbye: None,
            frames: 0,
            undecided: BTreeSet::new(),
            in_flight: BTreeSet::new(),
            repeats: BTreeSet::new(),
            is_muted: false,
            withdrawals: Vec::new(),
            outgoing: VecDeque::new(),
            sent: 0,
            unsent: 0,
            blocked_since: None,
            waits_since: now,
        }
    }

    /// Returns whether what comes is read.
    fn is_read(&self) -> bool {
        matches!(self.stage, Stage::New | Stage::Greeted)
    }

    /// Nothing more is read.
    pub(super) fn end(&mut self) {
        if self.is_read() {
            self.stage = Stage::Ended;
        }
    }

    /// Returns whether a read may bring something.
    pub(super) fn can_be_read(&self) -> bool {
        self.is_read() && self.unsent <= UNSENT_MAX && (self.is_readable || self.decoder.has_frame())
    }

    /// Reads some bytes.
    ///
    /// SECURITY: descriptors can come with the bytes, and the one who receives them closes them. The close of a TCP
    /// connection can block for as long as its sender has set. So the bytes are looked at first: if descriptors come
    /// with them, nothing is received, and another thread closes the connection with all that it holds.
    pub(super) fn read(&mut self, now: Instant) -> ReadOutcome {
        let mut buffer = [0; READ_MAX];
        let looked = rustix::net::recvmsg(
            &self.fd,
            &mut [IoSliceMut::new(&mut buffer)],
            &mut RecvAncillaryBuffer::default(),
            RecvFlags::PEEK | RecvFlags::DONTWAIT,
        );
        let bytes = match looked {
            Ok(looked) if looked.flags.contains(ReturnFlags::CTRUNC) => return ReadOutcome::Broken,
            Ok(looked) => looked.bytes,
            Err(Errno::AGAIN) => {
                self.is_readable = false;
                return ReadOutcome::None;
            }
            Err(Errno::INTR) => return ReadOutcome::None,
            Err(_) => return ReadOutcome::Broken,
        };
        if bytes == 0 {
            // The other side sends nothing more, and may still read.
            self.is_readable = false;
            self.end();
            return ReadOutcome::None;
        }
        let Some(there) = buffer.get_mut(..bytes) else { return ReadOutcome::Broken };
        match rustix::net::recv(&self.fd, &mut *there, RecvFlags::DONTWAIT) {
            Ok((_, received)) if received == bytes => {}
            Ok(_) | Err(_) => return ReadOutcome::Broken,
        }
        if self.decoder.is_empty() {
            self.waits_since = now;
        }
        self.decoder.push(there);
        // More than this may be there; otherwise the system tells when more has come.
        self.is_readable = bytes == READ_MAX;
        ReadOutcome::Some
    }

    /// Counts one more request. Returns its number.
    pub(super) fn arrived(&mut self, now: Instant) -> u64 {
        self.frames += 1;
        self.waits_since = now;
        self.undecided.insert(self.frames);
        self.frames
    }

    /// Returns whether the other side has closed the connection.
    fn has_hung_up(&self) -> bool {
        let mut fds = [PollFd::new(&self.fd, PollFlags::empty())];
        let looked = poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 }));
        // A connection that cannot be looked at brings no request.
        looked.is_err() || fds.iter().any(|fd| fd.revents().intersects(PollFlags::HUP | PollFlags::ERR))
    }

    /// Decides whether a request is admitted: its sender must still be there and must not have withdrawn it.
    pub(super) fn admit(&mut self, frame: u64, id: &RequestId, now: Instant) -> bool {
        if self.stage == Stage::Broken || self.has_hung_up() {
            return false;
        }
        self.undecided.remove(&frame);
        let mut is_withdrawn = false;
        let mut answers = 0;
        for withdrawal in self.withdrawals.iter_mut().filter(|of| of.id == *id && frame <= of.before) {
            is_withdrawn = true;
            answers += usize::from(!std::mem::replace(&mut withdrawal.is_answered, true));
        }
        if !is_withdrawn {
            self.in_flight.insert(id.clone());
        }
        for _ in 0..answers {
            self.answer_withdrawal(id.clone(), WithdrawnState::NeverTaken, now);
        }
        self.settle(now);
        !is_withdrawn
    }

    /// A request will not be decided on.
    pub(super) fn forget(&mut self, frame: u64, now: Instant) {
        self.undecided.remove(&frame);
        self.settle(now);
    }

    /// Takes a request back. The answer says whether that is in time.
    pub(super) fn withdraw(&mut self, id: RequestId, now: Instant) {
        if self.withdrawals.len() < WITHDRAWALS_MAX && !self.in_flight.contains(&id) && !self.repeats.contains(&id) {
            self.withdrawals.push(Withdrawal { id, before: self.frames, is_answered: false });
            self.settle(now);
        } else {
            self.answer_withdrawal(id, WithdrawnState::Taken, now);
        }
    }

    /// Ends the withdrawals before which nothing is undecided. If none of their requests was dropped, they were decided
    /// on.
    fn settle(&mut self, now: Instant) {
        if self.withdrawals.is_empty() {
            return;
        }
        let first = self.undecided.first().copied().unwrap_or(u64::MAX);
        let (settled, rest) = std::mem::take(&mut self.withdrawals).into_iter().partition(|of| of.before < first);
        self.withdrawals = rest;
        for withdrawal in settled {
            if !withdrawal.is_answered {
                self.answer_withdrawal(withdrawal.id, WithdrawnState::Taken, now);
            }
        }
    }

    fn answer_withdrawal(&mut self, request_id: RequestId, state: WithdrawnState, now: Instant) {
        self.send(Kind::Withdrawn, &Withdrawn { request_id, state }, now);
    }

    /// Returns whether a request under this id was decided on and has no reply.
    pub(super) fn has_in_flight(&self, id: &RequestId) -> bool {
        self.in_flight.contains(id) || self.repeats.contains(id)
    }

    /// A request has its reply.
    pub(super) fn is_over(&mut self, id: &RequestId) {
        self.in_flight.remove(id);
    }

    /// A request repeats another one under the same id, and waits for the reply to that.
    pub(super) fn note_repeat(&mut self, id: &RequestId) {
        self.in_flight.remove(id);
        self.repeats.insert(id.clone());
    }

    /// Returns whether a request under this id repeats one under way.
    pub(super) fn has_repeat(&self, id: &RequestId) -> bool {
        self.repeats.contains(id)
    }

    /// Returns whether a request under this id repeats one under way, and forgets it.
    pub(super) fn take_repeat(&mut self, id: &RequestId) -> bool {
        self.repeats.remove(id)
    }

    /// Sends a document of the protocol.
    pub(super) fn send(&mut self, kind: Kind, document: &impl Serialize, now: Instant) {
        if let Ok(frame) = frame::of(kind, document) {
            self.send_frame(frame, now);
        }
    }

    /// Sends a frame: at once, or as soon as the other side reads.
    ///
    /// Returns `false` if no frame leaves any more.
    pub(super) fn send_frame(&mut self, frame: Vec<u8>, now: Instant) -> bool {
        if self.stage == Stage::Broken {
            return false;
        }
        self.unsent += frame.len();
        self.outgoing.push_back(frame);
        if self.outgoing.len() == 1 {
            self.flush(now);
        }
        self.stage != Stage::Broken
    }

    /// Sends as much as the other side takes.
    pub(super) fn flush(&mut self, now: Instant) {
        while let Some(first) = self.outgoing.front() {
            let rest = first.get(self.sent..).unwrap_or_default();
            match rustix::net::send(&self.fd, rest, SendFlags::NOSIGNAL | SendFlags::DONTWAIT) {
                Ok(sent) => {
                    self.sent += sent;
                    self.unsent -= sent;
                    self.blocked_since = None;
                    if sent == rest.len() {
                        self.outgoing.pop_front();
                        self.sent = 0;
                    }
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => {
                    self.blocked_since.get_or_insert(now);
                    return;
                }
                // No frame leaves any more, and what follows a part of one would be misread.
                Err(_) => {
                    self.outgoing.clear();
                    (self.sent, self.unsent, self.blocked_since) = (0, 0, None);
                    self.stage = Stage::Broken;
                    return;
                }
            }
        }
    }

    /// Returns whether frames wait until the other side reads.
    pub(super) fn has_unsent(&self) -> bool {
        !self.outgoing.is_empty()
    }

    /// Returns whether nothing can come of it any more: nothing is read, and every request has its answer.
    pub(super) fn is_done(&self) -> bool {
        let has_nothing = self.undecided.is_empty() && self.in_flight.is_empty() && self.repeats.is_empty();
        match self.stage {
            Stage::New | Stage::Greeted => false,
            Stage::Ended => self.goodbye.is_none() && has_nothing && self.outgoing.is_empty(),
            Stage::Broken => true,
        }
    }

    /// Returns why the other side is too slow, if it is.
    pub(super) fn is_too_slow(&mut self, now: Instant) -> Option<&'static str> {
        if self.can_be_read() || self.unsent > UNSENT_MAX {
            // The host does not read, so the other side is not late.
            self.waits_since = now;
        }
        let since = |from: Instant| now.saturating_duration_since(from);
        if self.blocked_since.is_some_and(|from| since(from) >= READER_TIMEOUT) {
            return Some("Nothing was read for 30 s.");
        }
        let waits = self.stage == Stage::New || !self.decoder.is_empty() && !self.decoder.has_frame();
        let is_late = waits && self.is_read() && since(self.waits_since) >= FRAME_TIMEOUT;
        is_late.then_some("A frame was not whole after 10 s.")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
    use serde_json::Value;
    use std::io::{Read as _, Write as _};
    use std::net::Shutdown;
    use std::os::unix::net::UnixStream;

    const MOMENT: Duration = Duration::from_millis(1);

    fn pair() -> (Connection, UnixStream, Instant) {
        let (ours, theirs) = socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None).unwrap();
        let now = Instant::now();
        (Connection::new(ours, now), UnixStream::from(theirs), now)
    }

    fn id(text: &str) -> RequestId {
        text.parse().unwrap()
    }

    /// The states that the withdrawals have been answered with.
    fn answers(connection: Connection, mut peer: UnixStream) -> Vec<(String, String)> {
        drop(connection);
        let (mut bytes, mut decoder, mut states) = (Vec::new(), Decoder::of_replies(), Vec::new());
        peer.read_to_end(&mut bytes).unwrap();
        decoder.push(&bytes);
        while let Some(frame) = decoder.take().unwrap() {
            let document: Value = serde_json::from_slice(&frame.document).unwrap();
            let text = |member: &str| document[member].as_str().unwrap().to_owned();
            states.push((text("request_id"), text("state")));
        }
        states
    }

    #[test]
    fn a_request_is_admitted_as_long_as_its_sender_is_there() {
        let (mut connection, peer, now) = pair();
        let [first, second] = [connection.arrived(now), connection.arrived(now)];
        assert!(connection.admit(first, &id("a"), now));
        peer.shutdown(Shutdown::Write).unwrap();
        assert!(connection.admit(second, &id("b"), now), "it can still read");
        for close in [|peer: UnixStream| drop(peer), |peer: UnixStream| peer.shutdown(Shutdown::Both).unwrap()] {
            let (mut connection, peer, now) = pair();
            let frame = connection.arrived(now);
            close(peer);
            assert!(!connection.admit(frame, &id("a"), now));
        }
    }

    #[test]
    fn a_withdrawal_is_answered_once_and_as_it_is() {
        let (mut connection, peer, now) = pair();
        let frames = [(); 4].map(|()| connection.arrived(now));
        assert!(connection.admit(frames[0], &id("taken"), now));
        for of in ["taken", "early", "never-sent"] {
            connection.withdraw(id(of), now);
        }
        let late = connection.arrived(now);
        assert!(!connection.admit(frames[1], &id("early"), now));
        assert!(!connection.admit(frames[2], &id("early"), now), "all under that id");
        assert!(connection.admit(late, &id("early"), now), "the withdrawal came before");
        connection.forget(frames[3], now);
        let text = |(id, state): (&str, &str)| (id.to_owned(), state.to_owned());
        let expected = [("taken", "taken"), ("early", "never_taken"), ("never-sent", "taken")].map(text);
        assert_eq!(answers(connection, peer), expected);
    }

    #[test]
    fn a_connection_with_too_many_unread_bytes_is_not_read() {
        let (mut connection, _peer, _now) = pair();
        connection.unsent = UNSENT_MAX;
        assert!(connection.can_be_read());
        connection.unsent += 1;
        assert!(!connection.can_be_read());
    }

    #[test]
    fn a_connection_whose_frame_was_cut_sends_nothing_more() {
        let (mut connection, peer, now) = pair();
        drop(peer);
        assert!(!connection.send_frame(vec![0; 8], now));
        let frame = connection.arrived(now);
        assert!(!connection.admit(frame, &id("a"), now) && connection.is_done());
        assert!(!connection.send_frame(vec![0; 8], now));
        assert_eq!(connection.unsent, 0);
    }

    /// Attack (The group's socket): A shim never greets, or sends a frame byte by byte.
    /// Defence: A connection must greet, and a frame must be whole, within 10 seconds.
    #[test]
    fn a_connection_that_does_not_greet_or_finish_a_frame_is_too_slow() {
        let (mut silent, _peer, now) = pair();
        assert_eq!(silent.read(now), ReadOutcome::None);
        assert_eq!(silent.is_too_slow(now + FRAME_TIMEOUT - MOMENT), None);
        assert!(silent.is_too_slow(now + FRAME_TIMEOUT).is_some());

        let (mut partial, mut peer, now) = pair();
        partial.stage = Stage::Greeted;
        assert_eq!(partial.read(now), ReadOutcome::None);
        assert_eq!(partial.is_too_slow(now + FRAME_TIMEOUT * 9), None, "it has begun no frame");
        let began = now + FRAME_TIMEOUT * 10;
        for after in [Duration::ZERO, FRAME_TIMEOUT / 2, FRAME_TIMEOUT.saturating_sub(MOMENT)] {
            peer.write_all(&[0]).unwrap();
            assert_eq!(partial.read(began + after), ReadOutcome::Some);
            assert_eq!(partial.is_too_slow(began + after), None);
        }
        assert!(partial.is_too_slow(began + FRAME_TIMEOUT).is_some(), "another byte gives no more time");
    }

    /// Attack (The group's socket): A shim takes none of its replies.
    /// Defence: A reader that takes nothing for 30 seconds is left.
    #[test]
    fn a_reader_that_takes_nothing_is_too_slow() {
        let (mut connection, mut peer, now) = pair();
        connection.stage = Stage::Greeted;
        while connection.blocked_since.is_none() {
            assert!(connection.send_frame(vec![0; 1 << 16], now));
        }
        assert_eq!(connection.is_too_slow(now + READER_TIMEOUT - MOMENT), None);
        assert!(connection.is_too_slow(now + READER_TIMEOUT).is_some());
        let later = now + READER_TIMEOUT - MOMENT;
        peer.read_exact(&mut vec![0; 1 << 16]).unwrap();
        connection.flush(later);
        assert_eq!(connection.is_too_slow(now + READER_TIMEOUT), None, "it has read since");
    }
}
