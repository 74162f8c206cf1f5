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
/// How many withdrawals may wait for the decision on earlier frames.
const WITHDRAWALS_MAX: usize = 256;

/// A connection.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) fd: OwnedFd,
    pub(super) decoder: Decoder,
    /// Something may have come that is not read.
    pub(super) is_readable: bool,
    /// Nothing more is read.
    pub(super) has_ended: bool,
    pub(super) has_greeted: bool,
    /// The last word, once the row of the fault is durable.
    pub(super) goodbye: Option<Goodbye>,
    /// The number of requests that have come.
    pub(super) frames: u64,
    // The frames that are not decided on.
    undecided: BTreeSet<u64>,
    // The requests that were decided on and have no reply yet.
    in_flight: BTreeSet<RequestId>,
    // Each with the number of requests that had come before it.
    withdrawals: Vec<(RequestId, u64)>,
    outgoing: VecDeque<Vec<u8>>,
    // The bytes of the first of them that have left.
    sent: usize,
    /// The bytes that have not left.
    pub(super) unsent: usize,
    blocked_since: Option<Instant>,
    waits_since: Instant,
}

/// The result of a read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Read {
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
            has_ended: false,
            has_greeted: false,
            goodbye: None,
            frames: 0,
            undecided: BTreeSet::new(),
            in_flight: BTreeSet::new(),
            withdrawals: Vec::new(),
            outgoing: VecDeque::new(),
            sent: 0,
            unsent: 0,
            blocked_since: None,
            waits_since: now,
        }
    }

    /// Returns whether a read may bring something.
    pub(super) fn can_be_read(&self) -> bool {
        !self.has_ended && (self.is_readable || self.decoder.has_frame())
    }

    /// Reads some bytes.
    ///
    /// SECURITY: descriptors can come with the bytes, and the one who receives them closes them. The close of a TCP
    /// connection can block for as long as its sender has set. So the bytes are looked at first: if descriptors come
    /// with them, nothing is received, and another thread closes the connection with all that it holds.
    pub(super) fn read(&mut self, now: Instant) -> Read {
        let mut buffer = [0; READ_MAX];
        let looked = rustix::net::recvmsg(
            &self.fd,
            &mut [IoSliceMut::new(&mut buffer)],
            &mut RecvAncillaryBuffer::default(),
            RecvFlags::PEEK | RecvFlags::DONTWAIT,
        );
        let bytes = match looked {
            Ok(looked) if looked.flags.contains(ReturnFlags::CTRUNC) => return Read::Broken,
            Ok(looked) => looked.bytes,
            Err(Errno::AGAIN) => {
                self.is_readable = false;
                return Read::None;
            }
            Err(Errno::INTR) => return Read::None,
            Err(_) => return Read::Broken,
        };
        if bytes == 0 {
            // The other side sends nothing more, and may still read.
            (self.is_readable, self.has_ended) = (false, true);
            return Read::None;
        }
        let Some(there) = buffer.get_mut(..bytes) else { return Read::Broken };
        match rustix::net::recv(&self.fd, &mut *there, RecvFlags::DONTWAIT) {
            Ok((_, received)) if received == bytes => {}
            Ok(_) | Err(_) => return Read::Broken,
        }
        if self.decoder.is_empty() {
            self.waits_since = now;
        }
        self.decoder.push(there);
        // More than this may be there; otherwise the system tells when more has come.
        self.is_readable = bytes == READ_MAX;
        Read::Some
    }

    /// Counts one more request. Returns its number.
    pub(super) fn arrived(&mut self, now: Instant) -> u64 {
        self.frames += 1;
        self.waits_since = now;
        self.undecided.insert(self.frames);
        self.frames
    }

    /// Returns whether the other side has closed the connection.
    pub(super) fn has_hung_up(&self) -> bool {
        let mut fds = [PollFd::new(&self.fd, PollFlags::empty())];
        let looked = poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 }));
        // A connection that cannot be looked at brings no request.
        looked.is_err() || fds.iter().any(|fd| fd.revents().intersects(PollFlags::HUP | PollFlags::ERR))
    }

    /// Decides whether a request is admitted: its sender must still be there and must not have withdrawn it.
    pub(super) fn admit(&mut self, frame: u64, id: &RequestId, now: Instant) -> bool {
        if self.has_hung_up() {
            return false;
        }
        self.undecided.remove(&frame);
        let withdrawn = self.withdrawals.iter().position(|(of, before)| of == id && frame <= *before);
        if let Some(withdrawn) = withdrawn {
            self.withdrawals.remove(withdrawn);
            self.answer_withdrawal(id.clone(), WithdrawnState::NeverTaken, now);
        } else {
            self.in_flight.insert(id.clone());
        }
        self.settle(now);
        withdrawn.is_none()
    }

    /// A request will not be decided on.
    pub(super) fn forget(&mut self, frame: u64, now: Instant) {
        self.undecided.remove(&frame);
        self.settle(now);
    }

    /// Takes a request back. The answer says whether that is in time.
    pub(super) fn withdraw(&mut self, id: RequestId, now: Instant) {
        if self.withdrawals.len() < WITHDRAWALS_MAX {
            self.withdrawals.push((id, self.frames));
            self.settle(now);
        } else {
            self.answer_withdrawal(id, WithdrawnState::Taken, now);
        }
    }

    /// Answers the withdrawals before which nothing is undecided: their requests were decided on.
    fn settle(&mut self, now: Instant) {
        if self.withdrawals.is_empty() {
            return;
        }
        let first = self.undecided.first().copied().unwrap_or(u64::MAX);
        let (settled, rest) =
            std::mem::take(&mut self.withdrawals).into_iter().partition(|(_, before)| *before < first);
        self.withdrawals = rest;
        for (id, _) in settled {
            self.answer_withdrawal(id, WithdrawnState::Taken, now);
        }
    }

    fn answer_withdrawal(&mut self, request_id: RequestId, state: WithdrawnState, now: Instant) {
        self.send(Kind::Withdrawn, &Withdrawn { request_id, state }, now);
    }

    /// Returns whether a request under this id was decided on and has no reply.
    pub(super) fn has_in_flight(&self, id: &RequestId) -> bool {
        self.in_flight.contains(id)
    }

    /// A request is answered.
    pub(super) fn is_over(&mut self, id: &RequestId) {
        self.in_flight.remove(id);
    }

    /// Sends a document of the protocol.
    pub(super) fn send(&mut self, kind: Kind, document: &impl Serialize, now: Instant) {
        if let Ok(frame) = frame::of(kind, document) {
            self.send_frame(frame, now);
        }
    }

    /// Sends a frame: at once, or as soon as the other side reads.
    pub(super) fn send_frame(&mut self, frame: Vec<u8>, now: Instant) {
        self.unsent += frame.len();
        self.outgoing.push_back(frame);
        if self.outgoing.len() == 1 {
            self.flush(now);
        }
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
                // It is closed, and no frame leaves any more.
                Err(_) => {
                    self.outgoing.clear();
                    (self.sent, self.unsent, self.blocked_since) = (0, 0, None);
                    return;
                }
            }
        }
    }

    /// Returns whether nothing can come of it any more: nothing is read, and every request has its answer.
    pub(super) fn is_done(&self) -> bool {
        self.has_ended
            && self.goodbye.is_none()
            && self.undecided.is_empty()
            && self.in_flight.is_empty()
            && self.outgoing.is_empty()
    }

    /// Returns why the other side is too slow, if it is.
    pub(super) fn is_too_slow(&self, now: Instant) -> Option<&'static str> {
        let since = |from: Instant| now.saturating_duration_since(from);
        if self.blocked_since.is_some_and(|from| since(from) >= READER_TIMEOUT) {
            return Some("Nothing was read for 30 s.");
        }
        let waits = !self.has_greeted || !self.decoder.is_empty() && !self.decoder.has_frame();
        let is_late = waits && !self.has_ended && since(self.waits_since) >= FRAME_TIMEOUT;
        is_late.then_some("A frame was not whole after 10 s.")
    }
}
