//! The transport of the harness's own requests (`EXT_TEST_TRANSPORT`), so that tests that say nothing of it run over each.
//!
//! `files` is the default. With `reuse`, the requests have the name by which both sides use their files again. With
//! `socket`, they go over the group's socket as a shim sends them: it uses files if it cannot connect, and sends a request
//! again if its connection has broken.

use crate::Group;
use crate::socket::Connection;
use serde_json::Value;
use shared::frame::Kind;
use shared::limits::REQUEST_BYTES_MAX;
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The transport of the groups of one world.
#[derive(Debug)]
pub(crate) struct Senders {
    transport: Transport,
    by_group: Mutex<HashMap<String, Sender>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Transport {
    Files,
    Reuse,
    Socket,
}

#[derive(Debug, Default)]
struct Sender {
    connection: Option<Connection>,
    /// The requests without a reply.
    open: HashMap<String, String>,
    /// The replies that nobody has asked for yet.
    replies: HashMap<String, Vec<Value>>,
}

/// The way of one request.
pub(crate) enum Sent {
    /// It went over the socket.
    Over,
    /// It must be written as a file of this name.
    AsFile(String),
}

impl Senders {
    pub(crate) fn new() -> Self {
        let transport = match std::env::var("EXT_TEST_TRANSPORT").as_deref() {
            Err(_) | Ok("files") => Transport::Files,
            Ok("reuse") => Transport::Reuse,
            Ok("socket") => Transport::Socket,
            Ok(other) => panic!("EXT_TEST_TRANSPORT must be files, reuse or socket, not {other}"),
        };
        Self { transport, by_group: Mutex::default() }
    }

    /// Sends a request, if it does not have to be a file.
    pub(crate) fn send(&self, group: &Group, id: &str, document: &str) -> Sent {
        match self.transport {
            Transport::Files => Sent::AsFile(format!("{id}.json")),
            Transport::Reuse => Sent::AsFile(format!("{id}.reuse.json")),
            Transport::Socket => {
                let mut senders = self.lock();
                let sender = senders.entry(group.name().to_owned()).or_default();
                sender.receive();
                if !sender.transmit(group, document) {
                    return Sent::AsFile(format!("{id}.json"));
                }
                sender.open.insert(id.to_owned(), document.to_owned());
                Sent::Over
            }
        }
    }

    /// Returns the reply under this id, if it came over the socket. Sends a request again whose connection has broken;
    /// without a socket, it returns the document to be written as a file.
    pub(crate) fn reply(&self, group: &Group, id: &str) -> Result<Option<Value>, String> {
        let mut senders = self.lock();
        let Some(sender) = senders.get_mut(group.name()) else { return Ok(None) };
        sender.receive();
        if let Some(replies) = sender.replies.get_mut(id).filter(|replies| !replies.is_empty()) {
            return Ok(Some(replies.remove(0)));
        }
        match sender.open.get(id).filter(|_| sender.connection.is_none()).cloned() {
            Some(document) if !sender.transmit(group, &document) => {
                sender.open.remove(id);
                Err(document)
            }
            Some(_) | None => Ok(None),
        }
    }

    /// Notes that the reply under this id came as a file.
    pub(crate) fn answered(&self, group: &Group, id: &str) {
        if let Some(sender) = self.lock().get_mut(group.name()) {
            sender.open.remove(id);
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Sender>> {
        self.by_group.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Sender {
    /// Sends a request, over a new connection if there is none. Returns `false` if there is no socket.
    fn transmit(&mut self, group: &Group, document: &str) -> bool {
        // A frame that is too long is for the tests of the socket.
        if document.len() > REQUEST_BYTES_MAX {
            return false;
        }
        if self.connection.is_none() {
            self.connection = Connection::try_open(&group.clone().by_files());
        }
        let Some(connection) = &mut self.connection else { return false };
        let is_sent = connection.try_send(Kind::Request, document.as_bytes());
        if !is_sent {
            self.connection = None;
        }
        is_sent
    }

    /// Takes the replies that have come.
    fn receive(&mut self) {
        let Some(connection) = &mut self.connection else { return };
        let (open, replies) = (&mut self.open, &mut self.replies);
        let is_over = connection.take_frames(|kind, document| {
            if kind == Kind::Reply {
                let id = document.get("request_id").and_then(Value::as_str).expect("an id").to_owned();
                open.remove(&id);
                replies.entry(id).or_default().push(document);
            }
        });
        if is_over {
            self.connection = None;
        }
    }
}
