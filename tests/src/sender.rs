//! The transport of the harness's own requests: files, or with `EXT_TEST_TRANSPORT=socket` the group's socket.
//!
//! Over the socket it does what a shim does: it uses files if it cannot connect, and sends a request again if its
//! connection has broken. So tests that say nothing of the transport run over both.

use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags};
use serde_json::{Value, json};
use shared::frame::{self, Decoder, Kind};
use shared::limits::REQUEST_BYTES_MAX;
use shared::mailbox::SOCKET;
use shared::snapshot::PROTOCOL;
use std::collections::HashMap;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The connections of the groups of one world, by the directory of the group.
#[derive(Debug)]
pub(crate) struct Senders {
    is_socket: bool,
    by_group: Mutex<HashMap<PathBuf, Sender>>,
}

#[derive(Debug, Default)]
struct Sender {
    connection: Option<(UnixStream, Decoder)>,
    /// The requests without a reply.
    open: HashMap<String, Vec<u8>>,
    /// The replies that nobody has asked for yet.
    replies: HashMap<String, Vec<Value>>,
}

impl Senders {
    pub(crate) fn new() -> Self {
        let transport = std::env::var("EXT_TEST_TRANSPORT").unwrap_or_else(|_| "files".to_owned());
        assert!(["files", "socket"].contains(&transport.as_str()), "EXT_TEST_TRANSPORT must be files or socket");
        Self { is_socket: transport == "socket", by_group: Mutex::default() }
    }

    /// Sends a request over the group's socket. Returns `false` if it must be a file.
    pub(crate) fn send(&self, directory: &Path, id: &str, document: &str) -> bool {
        if !self.is_socket {
            return false;
        }
        let mut senders = self.lock();
        let sender = senders.entry(directory.to_owned()).or_default();
        sender.receive();
        let is_sent = sender.transmit(directory, document.as_bytes());
        if is_sent {
            sender.open.insert(id.to_owned(), document.as_bytes().to_vec());
        }
        is_sent
    }

    /// Returns the reply under this id, if it came over the socket. Sends a request again whose connection has broken, by
    /// file if there is no socket; then returns the document to be written.
    pub(crate) fn reply(&self, directory: &Path, id: &str) -> Result<Option<Value>, Vec<u8>> {
        let mut senders = self.lock();
        let Some(sender) = senders.get_mut(directory) else { return Ok(None) };
        sender.receive();
        if let Some(replies) = sender.replies.get_mut(id).filter(|replies| !replies.is_empty()) {
            return Ok(Some(replies.remove(0)));
        }
        match sender.open.get(id).filter(|_| sender.connection.is_none()).cloned() {
            Some(document) if sender.transmit(directory, &document) => Ok(None),
            Some(document) => {
                sender.open.remove(id);
                Err(document)
            }
            None => Ok(None),
        }
    }

    /// Notes that the reply under this id came as a file.
    pub(crate) fn answered(&self, directory: &Path, id: &str) {
        if let Some(sender) = self.lock().get_mut(directory) {
            sender.open.remove(id);
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<PathBuf, Sender>> {
        self.by_group.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Sender {
    /// Sends a request, over a new connection if there is none. Returns `false` if there is no socket.
    fn transmit(&mut self, directory: &Path, document: &[u8]) -> bool {
        // A frame that is too long is for the tests of the socket.
        let Some(frame) = (document.len() <= REQUEST_BYTES_MAX).then(|| frame::encode(Kind::Request, document)) else {
            return false;
        };
        let frame = frame.unwrap();
        if self.connection.is_none() {
            let Ok(stream) = UnixStream::connect(directory.join(SOCKET)) else { return false };
            stream.set_write_timeout(Some(crate::DEADLINE)).unwrap();
            let hello = json!({ "protocols": [PROTOCOL] }).to_string();
            let hello = frame::encode(Kind::Hello, hello.as_bytes()).unwrap();
            if !write(&stream, &hello) {
                return false;
            }
            self.connection = Some((stream, Decoder::of_replies()));
        }
        let is_sent = self.connection.as_ref().is_some_and(|(stream, _)| write(stream, &frame));
        if !is_sent {
            self.connection = None;
        }
        is_sent
    }

    /// Takes what has come, without waiting.
    fn receive(&mut self) {
        let Some((stream, decoder)) = &mut self.connection else { return };
        let mut buffer = vec![0; 64 * 1024];
        let is_over = loop {
            match rustix::net::recv(&*stream, &mut *buffer, RecvFlags::DONTWAIT) {
                Ok((_, 0)) => break true,
                Ok((_, read)) => decoder.push(buffer.get(..read).unwrap()),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => break false,
                Err(_) => break true,
            }
        };
        while let Some(frame) = decoder.take().unwrap() {
            if frame.kind == Kind::Reply {
                let reply: Value = serde_json::from_slice(&frame.document).expect("replies are whole documents");
                let id = reply.get("request_id").and_then(Value::as_str).expect("an id").to_owned();
                self.open.remove(&id);
                self.replies.entry(id).or_default().push(reply);
            }
        }
        if is_over {
            self.connection = None;
        }
    }
}

fn write(stream: &UnixStream, mut bytes: &[u8]) -> bool {
    while !bytes.is_empty() {
        match rustix::net::send(stream, bytes, SendFlags::NOSIGNAL) {
            Ok(sent) => bytes = bytes.get(sent..).unwrap(),
            Err(Errno::INTR) => {}
            Err(_) => return false,
        }
    }
    true
}
