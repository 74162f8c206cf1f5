//! One `epoll` for everything that wakes the loop: the waker, the notices of the kernel, listeners and connections.

use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::io::Errno;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

/// The most events that are taken at once.
const EVENTS_MAX: usize = 256;

/// The descriptors that wake the loop.
#[derive(Debug)]
pub struct Poller(OwnedFd);

/// The descriptor of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Token {
    /// The waker.
    Waker,
    /// The notices of the kernel.
    Watch,
    /// The listener of the group with this queue.
    Listener(usize),
    /// A connection of the group with this queue.
    Connection(usize, u64),
}

/// The bits of a token: two for its kind, then the queue, then the connection.
const KIND_BITS: u32 = 2;
const QUEUE_BITS: u32 = 20;

impl Token {
    fn encode(self) -> u64 {
        let (kind, queue, connection) = match self {
            Self::Waker => (0, 0, 0),
            Self::Watch => (1, 0, 0),
            Self::Listener(queue) => (2, queue, 0),
            Self::Connection(queue, connection) => (3, queue, connection),
        };
        let queue = u64::try_from(queue).unwrap_or_default();
        kind | queue << KIND_BITS | connection << (KIND_BITS + QUEUE_BITS)
    }

    fn decode(data: u64) -> Self {
        let queue = usize::try_from(data >> KIND_BITS & ((1 << QUEUE_BITS) - 1)).unwrap_or_default();
        match data & 3 {
            0 => Self::Waker,
            1 => Self::Watch,
            2 => Self::Listener(queue),
            _ => Self::Connection(queue, data >> (KIND_BITS + QUEUE_BITS)),
        }
    }
}

impl Poller {
    /// The largest number of queues that a token can name.
    pub const QUEUES_MAX: usize = 1 << QUEUE_BITS;

    /// A poller of nothing.
    ///
    /// # Errors
    /// The system gives none.
    pub fn new() -> io::Result<Self> {
        Ok(Self(epoll::create(CreateFlags::CLOEXEC)?))
    }

    /// Wakes the loop as long as the descriptor can be read.
    ///
    /// # Errors
    /// The system refuses.
    pub fn add(&self, fd: impl AsFd, token: Token) -> io::Result<()> {
        epoll::add(&self.0, fd, EventData::new_u64(token.encode()), EventFlags::IN)?;
        Ok(())
    }

    /// Wakes the loop once for each change of a connection.
    ///
    /// # Errors
    /// The system refuses.
    pub(super) fn add_connection(&self, fd: impl AsFd, token: Token) -> io::Result<()> {
        let flags = EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP | EventFlags::ET;
        epoll::add(&self.0, fd, EventData::new_u64(token.encode()), flags)?;
        Ok(())
    }

    /// Wakes the loop for new bytes of a connection, or not: a group that is not read now must not wake it.
    pub(super) fn mute(&self, fd: impl AsFd, token: Token, is_muted: bool) {
        let mut flags = EventFlags::OUT | EventFlags::RDHUP | EventFlags::ET;
        flags.set(EventFlags::IN, !is_muted);
        // If it fails, the loop is woken too often, or looks when it has nothing else to do.
        epoll::modify(&self.0, fd, EventData::new_u64(token.encode()), flags).ok();
    }

    /// Wakes the loop no more for this descriptor.
    pub(super) fn remove(&self, fd: impl AsFd) {
        // A descriptor that is not there wakes no loop.
        epoll::delete(&self.0, fd).ok();
    }

    /// Waits until something has happened, or the time is over.
    pub fn wait(&self, timeout: Duration) -> Vec<(Token, EventFlags)> {
        let mut events = [const { MaybeUninit::<Event>::uninit() }; EVENTS_MAX];
        let timeout = rustix::event::Timespec::try_from(timeout).ok();
        let timeout = timeout.unwrap_or(rustix::event::Timespec { tv_sec: 1, tv_nsec: 0 });
        match epoll::wait(&self.0, &mut events, Some(&timeout)) {
            Ok((happened, _)) => happened.iter().map(|event| (Token::decode(event.data.u64()), event.flags)).collect(),
            // An interrupted wait is a short one.
            Err(Errno::INTR) => Vec::new(),
            Err(errno) => {
                tracing::error!(%errno, "the loop cannot wait for events");
                Vec::new()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_survives_its_number() {
        for token in [
            Token::Waker,
            Token::Watch,
            Token::Listener(0),
            Token::Listener(Poller::QUEUES_MAX - 1),
            Token::Connection(7, 1),
            Token::Connection(Poller::QUEUES_MAX - 1, (1 << 42) - 1),
        ] {
            assert_eq!(Token::decode(token.encode()), token);
        }
    }
}
