//! The open connections, and the one that gives way when there are too many.
//!
//! ```text
//! person     a signed-in person has sent a request over it: it never gives way
//! bearer     a request with a bearer in force is under way: it does not give way until the answer
//! unknown    every other connection: the oldest one gives way
//! ```
//! The limits of bearers bound how many connections they hold, so an idle connection of a bearer is like any other.

use axum::extract::Request;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio_util::sync::CancellationToken;

/// The connections that were not cut, oldest first.
#[derive(Debug, Clone, Default)]
pub(super) struct Connections(Arc<Mutex<VecDeque<Entry>>>);

#[derive(Debug)]
struct Entry {
    standing: Standing,
    cut: CancellationToken,
}

/// The sender of requests over a connection.
#[derive(Debug, Clone, Default)]
pub(super) struct Standing(Arc<State>);

#[derive(Debug, Default)]
struct State {
    is_persons: AtomicBool,
    /// The requests with a bearer that are under way.
    under_way: AtomicUsize,
}

/// A request with a bearer, until it is answered.
#[derive(Debug)]
pub(super) struct Held(Standing);

impl Drop for Held {
    fn drop(&mut self) {
        self.0.0.under_way.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Standing {
    /// Notes at its connection that a signed-in person has sent this request.
    pub(super) fn note_person(request: &Request) {
        if let Some(standing) = request.extensions().get::<Self>() {
            standing.0.is_persons.store(true, Ordering::Release);
        }
    }

    /// Notes at its connection that this request has a bearer in force, until the result is dropped.
    pub(super) fn hold(request: &Request) -> Option<Held> {
        let standing = request.extensions().get::<Self>()?.clone();
        standing.0.under_way.fetch_add(1, Ordering::AcqRel);
        Some(Held(standing))
    }

    fn gives_way(&self) -> bool {
        !self.0.is_persons.load(Ordering::Acquire) && self.0.under_way.load(Ordering::Acquire) == 0
    }
}

/// One connection, until it is dropped.
#[derive(Debug)]
pub(super) struct Connection {
    all: Connections,
    standing: Standing,
    cut: CancellationToken,
}

impl Connections {
    /// Adds a connection of an unknown client.
    pub(super) fn begin(&self) -> Connection {
        let (standing, cut) = (Standing::default(), CancellationToken::new());
        self.entries().push_back(Entry { standing: standing.clone(), cut: cut.clone() });
        Connection { all: self.clone(), standing, cut }
    }

    /// Ends the oldest connection that gives way, if there is one.
    pub(super) fn cut_oldest_unknown(&self) {
        let mut entries = self.entries();
        let oldest = entries.iter().position(|entry| entry.standing.gives_way());
        if let Some(oldest) = oldest.and_then(|oldest| entries.remove(oldest)) {
            oldest.cut.cancel();
        }
    }

    fn entries(&self) -> MutexGuard<'_, VecDeque<Entry>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Connection {
    /// Returns the note of who sends requests over it.
    pub(super) fn standing(&self) -> Standing {
        self.standing.clone()
    }

    /// Returns when the connection has to give way.
    pub(super) async fn is_cut(&self) {
        self.cut.cancelled().await;
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        let is_this = |entry: &Entry| Arc::ptr_eq(&entry.standing.0, &self.standing.0);
        self.all.entries().retain(|entry| !is_this(entry));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request_over(connection: &Connection) -> Request {
        let mut request = Request::new(axum::body::Body::empty());
        request.extensions_mut().insert(connection.standing());
        request
    }

    #[test]
    fn the_oldest_connection_of_no_person_gives_way_unless_a_bearers_request_is_under_way() {
        let all = Connections::default();
        let connections = [(); 4].map(|()| all.begin());
        let cut = || connections.each_ref().map(|one| one.cut.is_cancelled());
        let [person, bearer, ..] = &connections;
        Standing::note_person(&request_over(person));
        let held = Standing::hold(&request_over(bearer));
        all.cut_oldest_unknown();
        assert_eq!(cut(), [false, false, true, false]);
        // Its request is answered, so it is the oldest one that gives way.
        drop(held);
        all.cut_oldest_unknown();
        assert_eq!(cut(), [false, true, true, false]);
        all.cut_oldest_unknown();
        all.cut_oldest_unknown();
        assert_eq!(cut(), [false, true, true, true], "a person's connection stays");
        assert_eq!(all.entries().len(), 1);
        drop(connections);
        assert!(all.entries().is_empty());
    }
}
