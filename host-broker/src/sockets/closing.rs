//! The end of connections and listeners.
//!
//! SECURITY: a close can block, because a sandbox can have put descriptors into the queue. The loop closes only a
//! connection whose queue is empty. Other descriptors get a thread each, and count as connections until they are closed.

use super::connection::Connection;
use super::poller::Token;
use super::{CONNECTIONS_MAX, GroupSocket, State};
use crate::mailboxes::Handles;
use rustix::net::Shutdown;
use shared::Code;
use shared::frame::{Goodbye, Kind};
use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::time::Instant;

/// A descriptor whose close can block: see [`Connection::read`].
pub(super) type Unclosed = Arc<Mutex<Option<OwnedFd>>>;

impl GroupSocket {
    /// Closes the connections whose other side is too slow, and lets the listener accept again.
    pub fn on_time(&self, now: Instant) {
        let state = &mut *self.state();
        let unclosed = std::mem::take(&mut state.unclosed);
        for fd in unclosed {
            self.close_unclosed(state, fd);
        }
        let slow: Vec<(u64, &str)> = state
            .connections
            .iter_mut()
            .filter_map(|(id, connection)| Some((*id, connection.is_too_slow(now)?)))
            .collect();
        for (id, reason) in slow {
            if let Some(connection) = state.connections.get_mut(&id) {
                connection.send(Kind::Goodbye, &Goodbye::because(Code::MalformedRequest, reason), now);
            }
            self.remove(state, id);
        }
        self.wake_listener(state);
    }

    /// Reads nothing more, drops the undecided requests, and says goodbye. Replies still leave.
    pub fn stop(&self, handles: Option<&Handles>, now: Instant) {
        let state = &mut *self.state();
        if std::mem::replace(&mut state.is_stopping, true) {
            return;
        }
        if let Some(listener) = state.listener.take() {
            if let Some(handles) = handles {
                listener.remove(handles);
            }
            self.poller.remove(&listener.fd);
            self.close_aside(state, listener.fd);
        }
        let reason = "The host stops.".to_owned();
        let goodbye = Goodbye { code: Goodbye::STOPPING.to_owned(), reason };
        for connection in state.connections.values_mut() {
            connection.end();
            connection.send(Kind::Goodbye, &goodbye, now);
        }
        let ids: Vec<u64> = state.connections.keys().copied().collect();
        for id in ids {
            self.tidy(state, id);
        }
    }

    /// Closes all connections.
    pub fn close(&self) {
        let state = &mut *self.state();
        let connections = std::mem::take(&mut state.connections);
        for connection in connections.into_values() {
            self.ended(state, connection);
        }
    }

    /// Closes a connection on which nothing can happen any more.
    pub(super) fn tidy(&self, state: &mut State, id: u64) {
        if state.connections.get(&id).is_some_and(Connection::is_done) {
            self.remove(state, id);
        }
    }

    pub(super) fn remove(&self, state: &mut State, id: u64) {
        if let Some(connection) = state.connections.remove(&id) {
            self.ended(state, connection);
        }
    }

    /// Closes a connection that is taken out already.
    pub(super) fn ended(&self, state: &mut State, connection: Connection) {
        self.connected.store(state.connections.len(), Ordering::Release);
        self.poller.remove(&connection.fd);
        // The other side sees the end now, and sends nothing more.
        rustix::net::shutdown(&connection.fd, Shutdown::Both).ok();
        // With nothing in the queue, nothing is closed with it.
        if rustix::io::ioctl_fionread(&connection.fd).is_ok_and(|bytes| bytes == 0) {
            drop(connection);
        } else {
            self.close_aside(state, connection.fd);
        }
        self.wake_listener(state);
    }

    /// Closes a descriptor on a thread of its own, because that can block.
    pub(super) fn close_aside(&self, state: &mut State, fd: OwnedFd) {
        self.close_unclosed(state, Arc::new(Mutex::new(Some(fd))));
    }

    fn close_unclosed(&self, state: &mut State, fd: Unclosed) {
        let (unclosed, closing) = (Arc::clone(&fd), Arc::clone(&self.closing));
        closing.fetch_add(1, Ordering::AcqRel);
        let close = move || {
            let fd = unclosed.lock().unwrap_or_else(PoisonError::into_inner).take();
            drop(fd);
            closing.fetch_sub(1, Ordering::AcqRel);
        };
        if std::thread::Builder::new().name("closer".to_owned()).spawn(close).is_err() {
            self.closing.fetch_sub(1, Ordering::AcqRel);
            state.unclosed.push(fd);
        }
    }

    pub(super) fn wake_listener(&self, state: &mut State) {
        if self.number_open(state) < CONNECTIONS_MAX
            && let Some(listener) = state.listener.as_mut().filter(|listener| listener.rests)
            && self.poller.add(&listener.fd, Token::Listener(self.queue)).is_ok()
        {
            listener.rests = false;
        }
    }
}

impl Drop for GroupSocket {
    fn drop(&mut self) {
        self.close();
    }
}
