//! The connection to the host's socket: one for the whole process, made when it is first needed.
//!
//! The socket carries the same documents as the directory, without a file for each. A task reads what comes and hands
//! it to the calls that wait. Where there is no socket, or the host does not take the connection, there is no link, and
//! the calls use files.

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
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::io::Interest;
use tokio::net::UnixStream;
use tokio::sync::Notify;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::Instant;

/// The pause before a socket that could not be used is tried again, unless its file changes.
const RETRY: Duration = Duration::from_secs(5);
/// The same for a connection that broke before the host had greeted, and for one that the host did not want.
const RETRY_BROKEN: Duration = Duration::from_millis(250);
const RETRY_REFUSED: Duration = Duration::from_secs(60);
/// How many bytes are read at once.
const READ_BYTES: usize = 64 * 1024;

/// The maker of links.
#[derive(Debug, Default)]
pub struct Links(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    link: Option<Arc<Link>>,
    // When, and on which file, the last try failed, and when the next one is.
    failed: Option<(Option<FileIdentity>, Instant)>,
}

/// A connection.
#[derive(Debug)]
pub struct Link {
    stream: UnixStream,
    identity: Option<FileIdentity>,
    outgoing: Mutex<Vec<u8>>,
    has_outgoing: Notify,
    waiting: Mutex<HashMap<RequestId, UnboundedSender<Incoming>>>,
    // No new request may be sent.
    is_closing: AtomicBool,
    // This side has ended it.
    has_shut_down: AtomicBool,
    // The host has said goodbye.
    is_refused: AtomicBool,
    // The host has said hello, so it may have taken any request.
    has_greeted: AtomicBool,
}

/// Something for one call.
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
        /// `false`: the host has never read from the connection.
        may_be_taken: bool,
    },
}

/// The place of one call at a link; dropping it leaves.
#[derive(Debug)]
pub struct Place {
    link: Arc<Link>,
    id: RequestId,
    incoming: UnboundedReceiver<Incoming>,
}

/// The connection does not take anything any more; nothing was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NotSent;

impl Links {
    /// Returns the link, and makes it if that may succeed now. Must be called inside the runtime.
    pub fn link(&self, settings: &Settings, watch: &Watch) -> Option<Arc<Link>> {
        if settings.transport == Transport::Files {
            return None;
        }
        let state = &mut *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(link) = state.link.take_if(|link| link.is_closing()) {
            let pause = match (link.has_greeted(), link.is_refused.load(Ordering::Acquire)) {
                (true, _) => Duration::ZERO,
                // This side has ended it, because the host said nothing.
                (false, false) if link.has_shut_down.load(Ordering::Acquire) => RETRY,
                (false, false) => RETRY_BROKEN,
                (false, true) => RETRY_REFUSED,
            };
            state.failed = Some((link.identity, Instant::now() + pause));
        }
        if let Some(link) = &state.link {
            return Some(Arc::clone(link));
        }
        let directory = Directory::open(&settings.ipc).ok()?;
        let identity = Some(directory.look(mailbox::SOCKET)?);
        if state.failed.is_some_and(|(of, until)| of == identity && Instant::now() < until) {
            return None;
        }
        match connect(&settings.ipc, &directory) {
            Ok(stream) => {
                let link = Link::new(stream, identity);
                tokio::spawn(read(Arc::clone(&link), watch.clone()));
                state.link = Some(Arc::clone(&link));
                Some(link)
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

impl Link {
    fn new(stream: UnixStream, identity: Option<FileIdentity>) -> Arc<Self> {
        let link = Self {
            stream,
            identity,
            outgoing: Mutex::default(),
            has_outgoing: Notify::new(),
            waiting: Mutex::default(),
            is_closing: AtomicBool::new(false),
            has_shut_down: AtomicBool::new(false),
            is_refused: AtomicBool::new(false),
            has_greeted: AtomicBool::new(false),
        };
        // Of so short a document a frame can always be made. It leaves with the first request.
        let hello = frame::of(Kind::Hello, &ShimHello { protocols: vec![PROTOCOL.to_owned()] });
        link.outgoing().extend(hello.unwrap_or_default());
        Arc::new(link)
    }

    fn outgoing(&self) -> MutexGuard<'_, Vec<u8>> {
        self.outgoing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn waiting(&self) -> MutexGuard<'_, HashMap<RequestId, UnboundedSender<Incoming>>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns whether no new request may be sent.
    pub fn is_closing(&self) -> bool {
        self.is_closing.load(Ordering::Acquire)
    }

    /// Returns whether the host has read from the connection.
    pub fn has_greeted(&self) -> bool {
        self.has_greeted.load(Ordering::Acquire)
    }

    /// Sends a request, and returns the place at which its reply arrives.
    ///
    /// # Errors
    /// [`NotSent`].
    pub fn request(self: &Arc<Self>, id: &RequestId, document: &[u8]) -> Result<Place, NotSent> {
        let (sender, incoming) = unbounded_channel();
        // ORDER: the place is there before a reply can come, and before the link ends, which tells all places.
        self.waiting().insert(id.clone(), sender);
        let place = Place { link: Arc::clone(self), id: id.clone(), incoming };
        let frame = frame::encode(Kind::Request, document).map_err(|_too_long| NotSent)?;
        self.send(frame)?;
        Ok(place)
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

    /// Ends the connection. What the host has sent until now is still read, then every place hears that it is gone.
    ///
    /// The host admits nothing more of it. If it has not greeted by now, it has never read from the connection.
    pub fn shut_down(&self) {
        self.has_shut_down.store(true, Ordering::Release);
        self.end_both_ways();
    }

    fn end_both_ways(&self) {
        self.is_closing.store(true, Ordering::Release);
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
            Kind::Goodbye => {
                self.is_refused.store(true, Ordering::Release);
                self.is_closing.store(true, Ordering::Release);
            }
            // The last two go to the host only.
            Kind::Hello | Kind::Request | Kind::Withdraw => {}
        }
    }

    fn tell(&self, id: &RequestId, incoming: Incoming) {
        if let Some(sender) = self.waiting().get(id) {
            // A call that is over waits no more.
            sender.send(incoming).ok();
        }
    }

    fn end(&self) {
        self.is_closing.store(true, Ordering::Release);
        let may_be_taken = self.has_greeted();
        for sender in std::mem::take(&mut *self.waiting()).into_values() {
            sender.send(Incoming::Gone { may_be_taken }).ok();
        }
    }
}

impl Place {
    /// Waits for the next news; a link that has ended says so at once.
    pub async fn next(&mut self) -> Incoming {
        match self.incoming.recv().await {
            Some(incoming) => incoming,
            None => Incoming::Gone { may_be_taken: self.link.has_greeted() },
        }
    }

    /// The connection.
    pub fn link(&self) -> &Arc<Link> {
        &self.link
    }

    /// Takes the request back; [`Incoming::Withdrawn`] says whether that was in time.
    ///
    /// # Errors
    /// [`NotSent`].
    pub fn withdraw(&self) -> Result<(), NotSent> {
        let frame = frame::of(Kind::Withdraw, &Withdraw { request_id: self.id.clone() });
        self.link.send(frame.map_err(|_too_long| NotSent)?)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.link.waiting().remove(&self.id);
    }
}

/// Reads for as long as the connection lasts, and writes what could not be written at once.
async fn read(link: Arc<Link>, watch: Watch) {
    let (mut decoder, mut buffer) = (Decoder::of_replies(), vec![0; READ_BYTES]);
    loop {
        let is_blocked = !link.outgoing().is_empty();
        let interest = if is_blocked { Interest::READABLE | Interest::WRITABLE } else { Interest::READABLE };
        tokio::select! {
            ready = link.stream.ready(interest) => {
                if ready.is_err() {
                    break;
                }
                if is_blocked {
                    link.flush(&mut link.outgoing());
                }
                match link.stream.try_read(&mut buffer) {
                    Ok(0) => break,
                    Ok(bytes) => decoder.push(buffer.get(..bytes).unwrap_or_default()),
                    Err(error) if error.kind() == ErrorKind::WouldBlock => continue,
                    Err(_) => break,
                }
                let is_broken = loop {
                    match decoder.take() {
                        Ok(Some(frame)) => link.take(&frame, &watch),
                        Ok(None) => break false,
                        Err(_) => break true,
                    }
                };
                if is_broken {
                    break;
                }
            }
            () = link.has_outgoing.notified() => {}
        }
    }
    // ORDER: the host sees the end before any call asks again elsewhere.
    link.end_both_ways();
    link.end();
}
