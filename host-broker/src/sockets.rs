//! The sockets of the groups, which carry the same documents as their directories.
//!
//! Each group has a listener, `broker.sock` in its directory. The listener that accepts a connection names the group, as
//! the directory does for a file. The loop accepts, reads and writes; it never waits for the other side.
//!
//! A request is taken when it is admitted to a batch. Before that, its connection is looked at: a request whose sender
//! has hung up is dropped without a row. So a shim that has closed its connection may ask for the outcome, and if the
//! host does not know the request, it never will.

mod closing;
mod connection;
mod listener;
pub mod poller;
mod replies;

use crate::mailboxes::Handles;
use closing::Unclosed;
use connection::{Connection, ReadOutcome, Stage};
use listener::Listener;
use poller::{Poller, Token};
use rustix::event::epoll::EventFlags;
use rustix::io::Errno;
use rustix::net::SocketFlags;
use shared::frame::{FrameError, Goodbye, HostHello, Kind, ShimHello, Withdraw};
use shared::limits::{REPLY_BYTES_MAX, REQUEST_BYTES_MAX};
use shared::snapshot::{HostInfo, PROTOCOL};
use shared::{Code, Group, RequestId};
use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// The connections of a group; its listener then rests.
const CONNECTIONS_MAX: usize = 8;
/// The requests of a group that wait undecided, and their bytes. Its connections are then not read.
const HELD_MAX: usize = 256;
const HELD_BYTES_MAX: usize = 4 * 1024 * 1024;
/// The new connections of a group: so many at once, then one in each interval.
const ACCEPTS_MAX: u32 = 64;
const ACCEPT_INTERVAL: Duration = Duration::from_millis(50);
/// The most frames that are taken at once.
const FRAMES_MAX: usize = 64;
/// The longest document of a frame that is no request.
const CONTROL_BYTES_MAX: usize = 4 * 1024;

/// The socket of one group.
#[derive(Debug)]
pub struct GroupSocket {
    group: Group,
    // The user that must connect.
    owner: Option<u32>,
    queue: usize,
    poller: Arc<Poller>,
    hello: OnceLock<HostHello>,
    state: Mutex<State>,
    // The number of connections, for those who only want to know whether there are some.
    connected: AtomicUsize,
    // The number of descriptors that threads are closing. They count as connections.
    closing: Arc<AtomicUsize>,
}

#[derive(Debug)]
struct State {
    listener: Option<Listener>,
    connections: BTreeMap<u64, Connection>,
    last: u64,
    // The connection that was read last.
    turn: u64,
    held: usize,
    held_bytes: usize,
    accepted_until: Option<Instant>,
    // Those for which there was no thread.
    unclosed: Vec<Unclosed>,
    is_stopping: bool,
}

impl State {
    /// Returns whether one more request may wait.
    fn has_place(&self) -> bool {
        self.held < HELD_MAX && self.held_bytes < HELD_BYTES_MAX
    }
}

/// A document that came over a socket, and its place among the undecided ones.
#[derive(Debug, Clone)]
pub struct FrameDocument {
    /// The connection.
    pub connection: u64,
    /// The number of the frame in the connection.
    pub frame: u64,
    /// The bytes, or the reason why they were not read.
    pub bytes: Result<Vec<u8>, (Code, String)>,
    /// Its place.
    pub place: Arc<FramePlace>,
}

/// The place of a frame among the undecided ones of its group; dropping it frees the place.
#[derive(Debug)]
pub struct FramePlace {
    socket: Arc<GroupSocket>,
    connection: u64,
    frame: u64,
    bytes: usize,
}

impl Drop for FramePlace {
    fn drop(&mut self) {
        let state = &mut *self.socket.state();
        state.held -= 1;
        state.held_bytes -= self.bytes;
        if let Some(connection) = state.connections.get_mut(&self.connection) {
            connection.forget(self.frame, Instant::now());
            self.socket.tidy(state, self.connection);
        }
    }
}

impl GroupSocket {
    /// The socket of a group, which is not open.
    pub fn new(group: Group, owner: Option<u32>, queue: usize, poller: Arc<Poller>) -> Self {
        let state = State {
            listener: None,
            connections: BTreeMap::new(),
            last: 0,
            turn: 0,
            held: 0,
            held_bytes: 0,
            accepted_until: None,
            unclosed: Vec::new(),
            is_stopping: false,
        };
        let (hello, state, connected) = (OnceLock::new(), Mutex::new(state), AtomicUsize::new(0));
        Self { group, owner, queue, poller, hello, state, connected, closing: Arc::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens the socket in the group's directory, with the host's greeting. Without a directory, it is opened later.
    pub fn open(&self, info: &HostInfo, handles: Option<&Handles>) {
        let hello = HostHello {
            protocol: PROTOCOL.to_owned(),
            group: self.group.clone(),
            request_bytes_max: REQUEST_BYTES_MAX,
            reply_bytes_max: REPLY_BYTES_MAX,
            started_at: info.started_at,
        };
        self.hello.get_or_init(|| hello);
        if let Some(handles) = handles {
            self.keep_open(handles);
        }
    }

    /// Opens the socket again if its name does not lead to it any more. A socket that was never opened stays closed.
    pub fn keep_open(&self, handles: &Handles) {
        let state = &mut *self.state();
        if self.hello.get().is_none() || state.is_stopping {
            return;
        }
        if state.listener.as_ref().is_some_and(|listener| listener.is_in_place(handles)) {
            return;
        }
        // The close of each old socket can take a thread, so there are no more of them than connections.
        if self.number_open(state) >= CONNECTIONS_MAX && self.closing.load(Ordering::Acquire) > 0 {
            return;
        }
        if let Some(old) = state.listener.take() {
            self.poller.remove(&old.fd);
            self.close_aside(state, old.fd);
        }
        let made = Listener::make(handles);
        match made {
            Ok(listener) => match self.poller.add(&listener.fd, Token::Listener(self.queue)) {
                Ok(()) => state.listener = Some(listener),
                Err(error) => {
                    tracing::warn!(group = %self.group, %error, "the group's socket cannot be watched");
                    self.close_aside(state, listener.fd);
                }
            },
            Err(error) => {
                tracing::warn!(group = %self.group, %error, "the group has no socket; its requests come as files");
                if let Some(socket) = error.into_socket() {
                    self.close_aside(state, socket);
                }
            }
        }
    }

    /// Returns the number of connections, with those that are being closed.
    fn number_open(&self, state: &State) -> usize {
        state.connections.len() + state.unclosed.len() + self.closing.load(Ordering::Acquire)
    }

    /// Returns the number of connections.
    pub fn connections(&self) -> usize {
        self.connected.load(Ordering::Acquire)
    }

    /// Returns whether frames wait until the other side of a connection reads.
    pub fn has_unsent(&self) -> bool {
        self.connections() > 0 && self.state().connections.values().any(Connection::has_unsent)
    }

    /// Returns whether the socket is open.
    pub fn is_open(&self) -> bool {
        self.state().listener.is_some()
    }

    /// Accepts the connections that wait. Returns the documents of those that are refused.
    pub fn accept(self: &Arc<Self>, now: Instant) -> Vec<FrameDocument> {
        let state = &mut *self.state();
        let mut refused = Vec::new();
        while let Some(listener) = &mut state.listener {
            let from = state.accepted_until.unwrap_or(now).max(now);
            let open = state.connections.len() + state.unclosed.len() + self.closing.load(Ordering::Acquire);
            let is_full =
                open >= CONNECTIONS_MAX || from.saturating_duration_since(now) >= ACCEPT_INTERVAL * ACCEPTS_MAX;
            if is_full || listener.rests {
                if !std::mem::replace(&mut listener.rests, true) {
                    self.poller.remove(&listener.fd);
                }
                break;
            }
            let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
            let fd = match rustix::net::accept_with(&listener.fd, flags) {
                Ok(fd) => fd,
                Err(Errno::AGAIN) => break,
                Err(Errno::INTR | Errno::CONNABORTED) => continue,
                Err(errno) => {
                    tracing::warn!(group = %self.group, %errno, "a connection cannot be accepted now");
                    listener.rests = true;
                    self.poller.remove(&listener.fd);
                    break;
                }
            };
            state.accepted_until = Some(from + ACCEPT_INTERVAL);
            state.last += 1;
            let id = state.last;
            // SECURITY: bytes out of band are in their order, so a look shows the descriptors that come with them.
            let prepared = rustix::net::sockopt::set_socket_oobinline(&fd, true).map_err(std::io::Error::from);
            if prepared.and_then(|()| self.poller.add_connection(&fd, Token::Connection(self.queue, id))).is_err() {
                self.close_aside(state, fd);
                continue;
            }
            let fault = self.owner.and_then(|owner| wrong_user(&fd, owner));
            let mut connection = Connection::new(fd, now);
            if let Some(reason) = fault {
                tracing::warn!(group = %self.group, reason, "a connection is refused");
                refused.push(self.refuse(state, &mut connection, id, (Code::MalformedRequest, &reason), now));
            }
            state.connections.insert(id, connection);
        }
        self.connected.store(state.connections.len(), Ordering::Release);
        refused
    }

    /// Takes a change of a connection. What it brings is read in the group's turn.
    pub fn note(&self, id: u64, flags: EventFlags, now: Instant) {
        let state = &mut *self.state();
        let Some(connection) = state.connections.get_mut(&id) else { return };
        if flags.intersects(EventFlags::HUP | EventFlags::ERR) {
            return self.remove(state, id);
        }
        if flags.contains(EventFlags::OUT) {
            connection.flush(now);
        }
        if flags.intersects(EventFlags::IN | EventFlags::RDHUP)
            && std::mem::replace(&mut connection.is_readable, true)
            && !std::mem::replace(&mut connection.is_muted, true)
        {
            self.poller.mute(&connection.fd, Token::Connection(self.queue, id), true);
        }
        self.tidy(state, id);
    }

    /// Returns whether a read may bring something.
    pub fn can_be_read(&self) -> bool {
        if self.connections() == 0 {
            return false;
        }
        let state = self.state();
        !state.is_stopping && state.has_place() && state.connections.values().any(Connection::can_be_read)
    }

    /// Reads from one connection, each in turn. Returns the requests that this brings.
    pub fn read(self: &Arc<Self>, now: Instant) -> Vec<FrameDocument> {
        let state = &mut *self.state();
        let mut documents = Vec::new();
        let can_be_read = |(id, connection): (&u64, &Connection)| connection.can_be_read().then_some(*id);
        let later = state.connections.range(state.turn + 1..).find_map(can_be_read);
        let Some(id) = later.or_else(|| state.connections.iter().find_map(can_be_read)) else { return documents };
        state.turn = id;
        let Some(mut connection) = state.connections.remove(&id) else { return documents };
        let read = if connection.decoder.has_frame() { ReadOutcome::Some } else { connection.read(now) };
        match read {
            ReadOutcome::Some => self.take_frames(state, (id, &mut connection), now, &mut documents),
            ReadOutcome::None => {}
            ReadOutcome::Broken => {
                self.ended(state, connection);
                return documents;
            }
        }
        if connection.is_muted && !connection.is_readable {
            connection.is_muted = false;
            self.poller.mute(&connection.fd, Token::Connection(self.queue, id), false);
        }
        state.connections.insert(id, connection);
        self.tidy(state, id);
        documents
    }

    /// Takes the whole frames of a connection, as far as there are places for them.
    ///
    /// A withdrawal that came with its request is thus known before the request is admitted.
    fn take_frames(
        self: &Arc<Self>,
        state: &mut State,
        (id, connection): (u64, &mut Connection),
        now: Instant,
        documents: &mut Vec<FrameDocument>,
    ) {
        for _ in 0..FRAMES_MAX {
            if !state.has_place() {
                return;
            }
            let malformed = |reason: &str| Some((Code::MalformedRequest, reason.to_owned()));
            let fault = match connection.decoder.take() {
                Ok(None) => return,
                Ok(Some(frame)) => match (frame.kind, connection.stage == Stage::Greeted) {
                    (Kind::Hello, false) => match self.greet(&frame.document, connection, now) {
                        Ok(()) => None,
                        Err(goodbye) => {
                            let reason = goodbye.reason.clone();
                            connection.goodbye = Some(goodbye);
                            Some((Code::MalformedRequest, reason))
                        }
                    },
                    (_, false) => malformed("The first frame of a connection is hello."),
                    (Kind::Request, true) => {
                        documents.push(self.hold(state, (id, connection), Ok(frame.document), now));
                        None
                    }
                    (Kind::Withdraw, true) => match small::<Withdraw>(&frame.document) {
                        Some(withdraw) => {
                            connection.withdraw(withdraw.request_id, now);
                            None
                        }
                        None => malformed("The frame withdraw needs a request_id."),
                    },
                    (
                        Kind::Hello | Kind::Reply | Kind::Progress | Kind::Changed | Kind::Withdrawn | Kind::Goodbye,
                        true,
                    ) => malformed("A frame of this kind does not come from a shim."),
                },
                Err(FrameError::TooLong) => Some((Code::OversizedRequest, Code::OversizedRequest.meaning().to_owned())),
                Err(error @ FrameError::UnknownKind) => malformed(&format!("{error}.")),
            };
            if let Some((code, reason)) = fault {
                documents.push(self.refuse(state, connection, id, (code, &reason), now));
                return;
            }
        }
    }

    fn greet(&self, document: &[u8], connection: &mut Connection, now: Instant) -> Result<(), Goodbye> {
        let malformed = || Goodbye::because(Code::MalformedRequest, "The frame hello needs protocols.");
        let hello = small::<ShimHello>(document).ok_or_else(malformed)?;
        let ours = self.hello.get().filter(|ours| hello.protocols.contains(&ours.protocol));
        let Some(ours) = ours else {
            let reason = format!("The host speaks {PROTOCOL}.");
            return Err(Goodbye { code: Goodbye::UNSUPPORTED.to_owned(), reason });
        };
        connection.stage = Stage::Greeted;
        connection.send(Kind::Hello, ours, now);
        Ok(())
    }

    /// Ends the reading of a connection because of a fault. The document gets a row, and then the connection a goodbye.
    fn refuse(
        self: &Arc<Self>,
        state: &mut State,
        connection: &mut Connection,
        id: u64,
        (code, reason): (Code, &str),
        now: Instant,
    ) -> FrameDocument {
        connection.end();
        connection.goodbye.get_or_insert_with(|| Goodbye::because(code, reason));
        self.hold(state, (id, connection), Err((code, reason.to_owned())), now)
    }

    fn hold(
        self: &Arc<Self>,
        state: &mut State,
        (id, connection): (u64, &mut Connection),
        bytes: Result<Vec<u8>, (Code, String)>,
        now: Instant,
    ) -> FrameDocument {
        let (frame, length) = (connection.arrived(now), bytes.as_ref().map_or(0, Vec::len));
        state.held += 1;
        state.held_bytes += length;
        let place = FramePlace { socket: Arc::clone(self), connection: id, frame, bytes: length };
        FrameDocument { connection: id, frame, bytes, place: Arc::new(place) }
    }

    /// Decides whether a request is admitted to the next batch: its sender must be there and must not have withdrawn it.
    pub fn admit(&self, connection: u64, frame: u64, id: Option<&RequestId>, now: Instant) -> bool {
        let state = &mut *self.state();
        let is_stopping = state.is_stopping;
        let Some(of) = state.connections.get_mut(&connection) else { return false };
        let is_admitted = !is_stopping && id.is_none_or(|id| of.admit(frame, id, now));
        self.tidy(state, connection);
        is_admitted
    }
}

/// Returns the document of a frame that is no request.
fn small<T: serde::de::DeserializeOwned>(document: &[u8]) -> Option<T> {
    if document.len() > CONTROL_BYTES_MAX { None } else { serde_json::from_slice(document).ok() }
}

/// Returns why this user may not connect, if that is so.
fn wrong_user(fd: &OwnedFd, owner: u32) -> Option<String> {
    let peer = rustix::net::sockopt::socket_peercred(fd).map(|peer| peer.uid.as_raw());
    match peer {
        Ok(uid) if uid == owner => None,
        Ok(65534) => Some(format!(
            "The connection comes from another user namespace, so its user is unknown. User {owner} is configured for \
             this group; run the sandbox in the host's user namespace, or set EXT_TRANSPORT=files."
        )),
        Ok(uid) => Some(format!("The connection belongs to user {uid}. User {owner} is configured for this group.")),
        Err(_) => Some("The connection's user is unknown.".to_owned()),
    }
}
