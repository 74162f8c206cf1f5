//! A client of a group's socket that does what a test tells it, right or wrong.

use crate::{DEADLINE, Group, until};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, Shutdown};
use serde_json::{Value, json};
use shared::frame::{self, Decoder, Frame, Kind};
use shared::snapshot::PROTOCOL;
use std::io::{ErrorKind, IoSlice, Read as _, Write as _};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::os::unix::net::UnixStream;

/// A connection to a group's socket.
#[derive(Debug)]
pub struct Connection {
    stream: UnixStream,
    decoder: Decoder,
    group: Group,
}

impl Connection {
    /// Connects, and sends nothing.
    pub fn silent(group: &Group) -> Self {
        let path = group.directory().join("broker.sock");
        let stream = until("a socket that takes connections", || UnixStream::connect(&path).ok());
        stream.set_read_timeout(Some(DEADLINE)).unwrap();
        stream.set_write_timeout(Some(DEADLINE)).unwrap();
        Self { stream, decoder: Decoder::of_replies(), group: group.clone() }
    }

    /// Connects and says hello. The host's hello is not read yet.
    pub fn open(group: &Group) -> Self {
        let mut connection = Self::silent(group);
        connection.send(Kind::Hello, &json!({ "protocols": [PROTOCOL] }));
        connection
    }

    /// Connects and says hello, if there is a socket now.
    pub(crate) fn try_open(group: &Group) -> Option<Self> {
        let stream = UnixStream::connect(group.directory().join("broker.sock")).ok()?;
        stream.set_write_timeout(Some(DEADLINE)).unwrap();
        let mut connection = Self { stream, decoder: Decoder::of_replies(), group: group.clone() };
        let hello = json!({ "protocols": [PROTOCOL] }).to_string();
        connection.try_send(Kind::Hello, hello.as_bytes()).then_some(connection)
    }

    /// Sends a frame. Returns `false` if the connection is over.
    pub(crate) fn try_send(&mut self, kind: Kind, document: &[u8]) -> bool {
        self.stream.write_all(&frame::encode(kind, document).unwrap()).is_ok()
    }

    /// Takes the frames that have come, without waiting. Returns whether the connection is over.
    pub(crate) fn take_frames(&mut self, mut each: impl FnMut(Kind, Value)) -> bool {
        let mut buffer = vec![0; 64 * 1024];
        let is_over = loop {
            match rustix::net::recv(&self.stream, &mut *buffer, RecvFlags::DONTWAIT) {
                Ok((_, 0)) => break true,
                Ok((_, read)) => self.decoder.push(buffer.get(..read).unwrap()),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => break false,
                Err(_) => break true,
            }
        };
        while let Some(Frame { kind, document }) = self.decoder.take().unwrap() {
            each(kind, serde_json::from_slice(&document).expect("a document"));
        }
        is_over
    }

    /// Sends a frame.
    pub fn send(&mut self, kind: Kind, document: &Value) {
        self.send_bytes(&frame::encode(kind, document.to_string().as_bytes()).unwrap());
    }

    /// Sends any bytes.
    pub fn send_bytes(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).unwrap();
    }

    /// Sends a byte out of band or in its order, with a descriptor.
    pub fn send_descriptor(&mut self, byte: u8, descriptor: BorrowedFd<'_>, is_out_of_band: bool) {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let (mut control, descriptors) = (SendAncillaryBuffer::new(&mut space), [descriptor]);
        assert!(control.push(SendAncillaryMessage::ScmRights(&descriptors)));
        let flags = if is_out_of_band { SendFlags::OOB } else { SendFlags::empty() };
        rustix::net::sendmsg(self.stream.as_fd(), &[IoSlice::new(&[byte])], &mut control, flags).unwrap();
    }

    /// Sends a request; one without a `request_id` gets a fresh one. Returns the id.
    pub fn request(&mut self, mut document: Value) -> String {
        let members = document.as_object_mut().expect("an object");
        let id = members.entry("request_id").or_insert_with(|| self.group.fresh_id().into());
        let id = id.as_str().unwrap().to_owned();
        self.send(Kind::Request, &document);
        id
    }

    /// Takes a request back.
    pub fn withdraw(&mut self, id: &str) {
        self.send(Kind::Withdraw, &json!({ "request_id": id }));
    }

    /// Waits for the next frame; `None` at the end of the connection.
    pub fn next_frame(&mut self) -> Option<(Kind, Value)> {
        loop {
            if let Some(Frame { kind, document }) = self.decoder.take().expect("frames") {
                return Some((kind, serde_json::from_slice(&document).expect("a document")));
            }
            let mut buffer = [0; 16 * 1024];
            match self.stream.read(&mut buffer) {
                Ok(0) => return None,
                Ok(read) => self.decoder.push(buffer.get(..read).expect("what was read")),
                Err(error) if error.kind() == ErrorKind::ConnectionReset => return None,
                // A process that is stopped and goes on is interrupted in a read with a deadline (`signal(7)`).
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => panic!("the host says nothing: {error}"),
            }
        }
    }

    /// Waits for the next frame of this kind.
    pub fn next_of(&mut self, kind: Kind) -> Value {
        loop {
            match self.next_frame() {
                Some((this, document)) if this == kind => return document,
                Some(_) => {}
                None => panic!("the connection ended without {kind:?}"),
            }
        }
    }

    /// Waits for the reply under this id.
    pub fn reply(&mut self, id: &str) -> Value {
        loop {
            let reply = self.next_of(Kind::Reply);
            if reply.get("request_id").and_then(Value::as_str) == Some(id) {
                return reply;
            }
        }
    }

    /// Sends a document and waits for its reply.
    pub fn ask(&mut self, document: Value) -> Value {
        let id = self.request(document);
        self.reply(&id)
    }

    /// The same connection once more, for another thread.
    pub fn another_end(&self) -> Self {
        let stream = self.stream.try_clone().unwrap();
        Self { stream, decoder: Decoder::of_replies(), group: self.group.clone() }
    }

    /// Whether the system takes no more bytes for the host, and there are some to be read.
    pub fn is_full(&self) -> bool {
        self.is_ready(rustix::event::PollFlags::IN) && !self.is_ready(rustix::event::PollFlags::OUT)
    }

    fn is_ready(&self, flags: rustix::event::PollFlags) -> bool {
        let mut fds = [rustix::event::PollFd::new(&self.stream, flags)];
        let now = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
        rustix::event::poll(&mut fds, Some(&now)).unwrap();
        fds.iter().any(|fd| fd.revents().intersects(flags))
    }

    /// Sends nothing more, and still reads.
    pub fn end_sending(&self) {
        self.stream.shutdown(std::net::Shutdown::Write).unwrap();
    }

    /// Ends both directions and keeps the descriptor.
    pub fn shut_down(&self) {
        rustix::net::shutdown(&self.stream, Shutdown::Both).unwrap();
    }
}
