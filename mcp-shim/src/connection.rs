//! The connection to the host's socket. The process has one, which the first call makes.
//!
//! The socket carries the same documents as the directory, without a file for each. A task reads the frames and passes
//! them to the waiting calls. If the shim cannot connect, the calls use files.

use crate::settings::{Settings, Transport};
use crate::watch::Watch;
use rustix::io::Errno;
use rustix::net::{AddressFamily, Shutdown, SocketAddrUnix, SocketFlags, SocketType};
use shared::frame::{self, CallProgress, Decoder, Frame, Kind, ShimHello, Withdraw, Withdrawn, WithdrawnState};
use shared::mailbox::{self, Directory, FileIdentity};
use shared::reply::Progress;
use shared::snapshot::PROTOCOL;
use shared::{Reply, RequestId};
use std::collections::HashMap;
use std::io::ErrorKind;
use std::os::fd::{AsFd as _, AsRawFd as _};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;
use tokio::io::Interest;
use tokio::net::UnixStream;
use tokio::sync::Notify;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::Instant;

/// The pause before a socket that could not be used is tried again, unless its file changes.
const RETRY: Duration = Duration::from_secs(5);
/// The same for a connection that broke before the host's hello, and for one that the host refused.
const RETRY_BROKEN: Duration = Duration::from_millis(250);
const RETRY_REFUSED: Duration = Duration::from_secs(60);
/// How many bytes are read at once.
const READ_BYTES: usize = 64 * 1024;

/// The one connection, and the time of the next try without one.
#[derive(Debug, Default)]
pub struct Connector(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    connection: Option<Arc<Connection>>,
    // When, and on which file, the last try failed, and when the next one is.
    failed: Option<(Option<FileIdentity>, Instant)>,
}

/// A connection.
#[derive(Debug)]
pub struct Connection {
    stream: UnixStream,
    identity: Option<FileIdentity>,
    outgoing: Mutex<Vec<u8>>,
    has_outgoing: Notify,
    waiting: Mutex<HashMap<RequestId, UnboundedSender<Incoming>>>,
    // The first reason why no new request may be sent.
    end: OnceLock<End>,
    // The host has sent its hello, so it may have taken any request.
    has_greeted: AtomicBool,
}

/// The reason why a connection takes no new request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    /// The host has sent goodbye.
    Goodbye,
    /// The shim has shut it down.
    ShutDown,
    /// It broke.
    Broken,
}

/// An event for one call.
#[derive(Debug)]
pub enum Incoming {
    /// The reply.
    Reply(Box<Reply>),
    /// It still runs.
    Progress(Progress),
    /// The answer to a withdrawal.
    Withdrawn(WithdrawnState),
    /// The connection is gone. Says whether the host may have taken the request.
    Gone {
        /// `false` if the host has taken no request of the connection.
        may_be_taken: bool,
    },
}

/// A call that waits for its reply; dropping it ends the wait.
#[derive(Debug)]
pub struct PendingCall {
    connection: Arc<Connection>,
    id: RequestId,
    incoming: UnboundedReceiver<Incoming>,
}

/// The connection has ended; nothing was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NotSent;

impl Connector {
    /// Returns the connection, and makes it if that may succeed now. Must be called inside the runtime.
    pub fn connection(&self, settings: &Settings, watch: &Watch) -> Option<Arc<Connection>> {
        if settings.transport == Transport::Files {
            return None;
        }
        let state = &mut *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(connection) = state.connection.take_if(|connection| connection.is_closing()) {
            let pause = match connection.end.get() {
                _ if connection.has_greeted() => Duration::ZERO,
                Some(End::Goodbye) => RETRY_REFUSED,
                // The host sent no hello in time.
                Some(End::ShutDown) => RETRY,
                Some(End::Broken) | None => RETRY_BROKEN,
            };
            state.failed = Some((connection.identity, Instant::now() + pause));
        }
        if let Some(connection) = &state.connection {
            return Some(Arc::clone(connection));
        }
        let directory = Directory::open(&settings.ipc).ok()?;
        let identity = Some(directory.look(mailbox::SOCKET)?);
        if state.failed.is_some_and(|(of, until)| of == identity && Instant::now() < until) {
            return None;
        }
        match connect(&settings.ipc, &directory) {
            Ok(stream) => {
                let connection = Connection::new(stream, identity);
                tokio::spawn(read(Arc::clone(&connection), watch.clone()));
                state.connection = Some(Arc::clone(&connection));
                Some(connection)
            }
            Err(error) => {
                // A full backlog is a busy host, not a missing one.
                let pause = if error.kind() == ErrorKind::WouldBlock { Duration::ZERO } else { RETRY };
                state.failed = Some((identity, Instant::now() + pause));
                None
            }
        }
    }
}

/// Connects without waiting: the host need not accept for that.
fn connect(ipc: &Path, directory: &Directory) -> std::io::Result<UnixStream> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let fd = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    let path = ipc.join(mailbox::SOCKET);
    let address = SocketAddrUnix::new(&path).or_else(|error| {
        // A path that is too long for an address is reached through its directory.
        if error != Errno::NAMETOOLONG {
            return Err(error);
        }
        let through = format!("/proc/self/fd/{}/{}", directory.as_fd().as_raw_fd(), mailbox::SOCKET);
        SocketAddrUnix::new(through.as_str())
    })?;
    rustix::net::connect(&fd, &address)?;
    UnixStream::from_std(std::os::unix::net::UnixStream::from(fd))
}

impl Connection {
    fn new(stream: UnixStream, identity: Option<FileIdentity>) -> Arc<Self> {
        let connection = Self {
            stream,
            identity,
            outgoing: Mutex::default(),
            has_outgoing: Notify::new(),
            waiting: Mutex::default(),
            end: OnceLock::new(),
            has_greeted: AtomicBool::new(false),
        };
        // So short a document always fits into a frame. It leaves with the first request.
        let hello = frame::of(Kind::Hello, &ShimHello { protocols: vec![PROTOCOL.to_owned()] });
        connection.outgoing().extend(hello.unwrap_or_default());
        Arc::new(connection)
    }

    fn outgoing(&self) -> MutexGuard<'_, Vec<u8>> {
        self.outgoing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn waiting(&self) -> MutexGuard<'_, HashMap<RequestId, UnboundedSender<Incoming>>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns whether no new request may be sent.
    pub fn is_closing(&self) -> bool {
        self.end.get().is_some()
    }

    /// Returns whether the host may have read from the connection.
    pub fn has_greeted(&self) -> bool {
        self.has_greeted.load(Ordering::Acquire)
    }

    /// Sends a request, and returns the call that waits for its reply.
    ///
    /// # Errors
    /// [`NotSent`].
    pub fn request(self: &Arc<Self>, id: &RequestId, document: &[u8]) -> Result<PendingCall, NotSent> {
        let (sender, incoming) = unbounded_channel();
        // ORDER: the call waits before a reply can come, and before the end of the connection, which all calls are told.
        self.waiting().insert(id.clone(), sender);
        let call = PendingCall { connection: Arc::clone(self), id: id.clone(), incoming };
        let frame = frame::encode(Kind::Request, document).map_err(|_too_long| NotSent)?;
        self.send(frame)?;
        Ok(call)
    }

    fn send(&self, mut frame: Vec<u8>) -> Result<(), NotSent> {
        if self.is_closing() {
            return Err(NotSent);
        }
        let mut outgoing = self.outgoing();
        outgoing.append(&mut frame);
        // A fault in the middle of a frame is found by the reader.
        self.flush(&mut outgoing);
        if !outgoing.is_empty() {
            self.has_outgoing.notify_one();
        }
        Ok(())
    }

    fn flush(&self, outgoing: &mut Vec<u8>) {
        let mut sent = 0;
        while let Some(rest) = outgoing.get(sent..).filter(|rest| !rest.is_empty()) {
            match self.stream.try_write(rest) {
                Ok(bytes) => sent += bytes,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(_) => {
                    outgoing.clear();
                    return self.shut_down();
                }
            }
        }
        outgoing.drain(..sent);
    }

    /// Ends the connection. The shim still reads the frames that the host has sent. Then each call gets
    /// [`Incoming::Gone`].
    ///
    /// The host admits no further request of it. Without the host's hello among these frames, it has admitted none.
    pub fn shut_down(&self) {
        self.end_as(End::ShutDown);
    }

    fn end_as(&self, end: End) {
        // Only the first reason counts.
        self.end.set(end).ok();
        // A connection that cannot be shut down is gone already.
        rustix::net::shutdown(&self.stream, Shutdown::Both).ok();
    }

    fn take(&self, frame: &Frame, watch: &Watch) {
        let document = frame.document.as_slice();
        if frame.kind != Kind::Goodbye {
            self.has_greeted.store(true, Ordering::Release);
        }
        match frame.kind {
            Kind::Reply => {
                let reply = shared::json::parse_object(document).ok();
                let reply = reply.and_then(|reply| serde_json::from_value::<Reply>(reply.into()).ok());
                if let Some(reply) = reply {
                    self.tell(&reply.request_id.clone(), Incoming::Reply(Box::new(reply)));
                }
            }
            Kind::Progress => {
                if let Ok(CallProgress { request_id, progress }) = serde_json::from_slice(document) {
                    self.tell(&request_id, Incoming::Progress(progress));
                }
            }
            Kind::Withdrawn => {
                if let Ok(Withdrawn { request_id, state }) = serde_json::from_slice(document) {
                    self.tell(&request_id, Incoming::Withdrawn(state));
                }
            }
            Kind::Changed => watch.tell(mailbox::SNAPSHOT),
            // Replies can still come, so this shuts nothing down. Only the first reason counts.
            Kind::Goodbye => drop(self.end.set(End::Goodbye)),
            // The last two go to the host only.
            Kind::Hello | Kind::Request | Kind::Withdraw => {}
        }
    }

    fn tell(&self, id: &RequestId, incoming: Incoming) {
        if let Some(sender) = self.waiting().get(id) {
            // The call may have ended.
            sender.send(incoming).ok();
        }
    }

    fn tell_the_end(&self) {
        let may_be_taken = self.has_greeted();
        for sender in std::mem::take(&mut *self.waiting()).into_values() {
            sender.send(Incoming::Gone { may_be_taken }).ok();
        }
    }
}

impl PendingCall {
    /// Waits for the next event. After the end of the connection, it returns at once.
    pub async fn next(&mut self) -> Incoming {
        match self.incoming.recv().await {
            Some(incoming) => incoming,
            None => Incoming::Gone { may_be_taken: self.connection.has_greeted() },
        }
    }

    /// The connection.
    pub fn connection(&self) -> &Arc<Connection> {
        &self.connection
    }

    /// Takes the request back; [`Incoming::Withdrawn`] says whether that was in time.
    ///
    /// # Errors
    /// [`NotSent`].
    pub fn withdraw(&self) -> Result<(), NotSent> {
        let frame = frame::of(Kind::Withdraw, &Withdraw { request_id: self.id.clone() });
        self.connection.send(frame.map_err(|_too_long| NotSent)?)
    }
}

impl Drop for PendingCall {
    fn drop(&mut self) {
        self.connection.waiting().remove(&self.id);
    }
}

/// Reads frames until the connection ends, and writes the bytes that could not be written at once.
async fn read(connection: Arc<Connection>, watch: Watch) {
    let (mut decoder, mut buffer) = (Decoder::of_replies(), vec![0; READ_BYTES]);
    loop {
        let is_blocked = !connection.outgoing().is_empty();
        let interest = if is_blocked { Interest::READABLE | Interest::WRITABLE } else { Interest::READABLE };
        tokio::select! {
            ready = connection.stream.ready(interest) => {
                if ready.is_err() {
                    break;
                }
                if is_blocked {
                    connection.flush(&mut connection.outgoing());
                }
                match connection.stream.try_read(&mut buffer) {
                    Ok(0) => break,
                    Ok(bytes) => decoder.push(buffer.get(..bytes).unwrap_or_default()),
                    Err(error) if error.kind() == ErrorKind::WouldBlock => continue,
                    Err(_) => break,
                }
                let is_broken = loop {
                    match decoder.take() {
                        Ok(Some(frame)) => connection.take(&frame, &watch),
                        Ok(None) => break false,
                        Err(_) => break true,
                    }
                };
                if is_broken {
                    break;
                }
            }
            () = connection.has_outgoing.notified() => {}
        }
    }
    // ORDER: the host sees the end before any call asks again elsewhere.
    connection.end_as(End::Broken);
    connection.tell_the_end();
}
