//! Replies and other documents to the shims of a group.

use super::connection::{Connection, Stage};
use super::{GroupSocket, State};
use shared::frame::{self, CallProgress, Goodbye, Kind, SnapshotChanged};
use shared::reply::Progress;
use shared::{Code, RequestId};
use tokio::time::Instant;

/// The bytes of a group that its shims have not read. Beyond, the connection with the most is closed.
const UNSENT_BYTES_MAX: usize = 16 * 1024 * 1024;

impl GroupSocket {
    /// Sends a reply over its connection. Returns `false` if the connection does not take it.
    pub fn reply(&self, connection: u64, id: &RequestId, document: &[u8], now: Instant) -> bool {
        self.send_reply(&mut self.state(), connection, id, document, now)
    }

    /// Returns whether a connection waits for the reply to a request that it has repeated.
    pub fn has_repeat(&self, id: &RequestId) -> bool {
        self.connections() > 0 && self.state().connections.values().any(|connection| connection.has_repeat(id))
    }

    /// Sends a reply over the connections over which its request was repeated. Returns `false` if there is none.
    pub fn reply_to_repeats(&self, id: &RequestId, document: &[u8], now: Instant) -> bool {
        if self.connections() == 0 {
            return false;
        }
        let state = &mut *self.state();
        let repeated = |(number, connection): (&u64, &mut Connection)| connection.take_repeat(id).then_some(*number);
        let waiting: Vec<u64> = state.connections.iter_mut().filter_map(repeated).collect();
        waiting.into_iter().filter(|number| self.send_reply(state, *number, id, document, now)).count() > 0
    }

    fn send_reply(&self, state: &mut State, connection: u64, id: &RequestId, document: &[u8], now: Instant) -> bool {
        let Some(to) = state.connections.get_mut(&connection) else { return false };
        to.is_over(id);
        let is_sent = frame::encode(Kind::Reply, document).is_ok_and(|frame| to.send_frame(frame, now));
        self.tidy(state, connection);
        let unsent: usize = state.connections.values().map(|connection| connection.unsent).sum();
        let most = state.connections.iter().max_by_key(|(_, connection)| connection.unsent).map(|(number, _)| *number);
        if let Some(most) = most.filter(|_| unsent > UNSENT_BYTES_MAX) {
            tracing::warn!(group = %self.group, "a shim does not read its replies; its connection is closed");
            self.remove(state, most);
        }
        is_sent
    }

    /// Notes that a request of this connection repeats another one and waits for the reply to that.
    pub fn note_repeat(&self, connection: u64, id: &RequestId) {
        if let Some(of) = self.state().connections.get_mut(&connection) {
            of.note_repeat(id);
        }
    }

    /// No reply comes for those that have repeated this request.
    pub fn forget_repeats(&self, id: &RequestId) {
        let state = &mut *self.state();
        let ids: Vec<u64> = state.connections.keys().copied().collect();
        for number in ids {
            state.connections.get_mut(&number).map(|connection| connection.take_repeat(id));
            self.tidy(state, number);
        }
    }

    /// Sends the progress of a call to the connection that has it in flight. Returns `false` if there is none.
    pub fn progress(&self, id: &RequestId, progress: &Progress, now: Instant) -> bool {
        let state = &mut *self.state();
        let Some(connection) = state.connections.values_mut().find(|connection| connection.has_in_flight(id)) else {
            return false;
        };
        // A reader that is behind needs the replies first.
        if connection.unsent == 0 {
            let told = CallProgress { request_id: id.clone(), progress: progress.clone() };
            connection.send(Kind::Progress, &told, now);
        }
        true
    }

    /// Tells all connections that the snapshot has changed.
    pub fn changed(&self, digest: &str, now: Instant) {
        let changed = SnapshotChanged { digest: digest.to_owned() };
        for connection in self.state().connections.values_mut().filter(|connection| connection.stage == Stage::Greeted)
        {
            if connection.unsent == 0 {
                connection.send(Kind::Changed, &changed, now);
            }
        }
    }

    /// Ends a connection because of a document, whose row is durable.
    pub fn goodbye(&self, connection: u64, code: Code, reason: &str, now: Instant) {
        let state = &mut *self.state();
        if let Some(of) = state.connections.get_mut(&connection) {
            let goodbye = of.goodbye.take().unwrap_or_else(|| Goodbye::because(code, reason));
            of.send(Kind::Goodbye, &goodbye, now);
            self.remove(state, connection);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sockets::poller::Poller;
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
    use std::sync::Arc;

    /// Attack (The group's socket): The connections of a group together leave many long replies unread.
    /// Defence: Beyond 16 MiB of unread replies, the connection with the most is closed.
    #[test]
    fn the_connection_with_the_most_unread_bytes_is_closed() {
        let socket = GroupSocket::new("g".parse().unwrap(), None, 0, Arc::new(Poller::new().unwrap()));
        let now = Instant::now();
        let peers = [1, 2].map(|number| {
            let (ours, peer) = socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None).unwrap();
            let mut connection = Connection::new(ours, now);
            connection.stage = Stage::Greeted;
            socket.state().connections.insert(number, connection);
            peer
        });
        let (id, document) = ("a".parse().unwrap(), vec![b' '; 1 << 20]);
        // The system takes a part of the first replies of each.
        assert!(socket.reply(2, &id, &document, now));
        for _ in 0..15 {
            assert!(socket.reply(1, &id, &document, now));
            assert_eq!(socket.state().connections.len(), 2);
        }
        let sent = (0..3).filter(|_| socket.reply(1, &id, &document, now)).count();
        assert!(sent < 3, "there is an end");
        assert_eq!(socket.state().connections.keys().collect::<Vec<_>>(), [&2]);
        assert!(socket.reply(2, &id, &document, now), "the other connection stays");
        drop(peers);
    }
}
