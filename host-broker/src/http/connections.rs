//! The open connections, and the one that gives way when there are too many.

use axum::extract::Request;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio_util::sync::CancellationToken;

/// The connections of unauthenticated clients, oldest first.
#[derive(Debug, Clone, Default)]
pub(super) struct Connections(Arc<Mutex<VecDeque<Entry>>>);

#[derive(Debug)]
struct Entry {
    standing: Standing,
    cut: CancellationToken,
}

/// Whether a request of the connection came from a known client: signed in, or with a valid bearer.
#[derive(Debug, Clone, Default)]
pub(super) struct Standing(Arc<AtomicBool>);

impl Standing {
    /// Notes at its connection that this request came from a known client.
    pub(super) fn note(request: &Request) {
        if let Some(standing) = request.extensions().get::<Self>() {
            standing.0.store(true, Ordering::Release);
        }
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
    /// Adds a connection of an unauthenticated client.
    pub(super) fn begin(&self) -> Connection {
        let (standing, cut) = (Standing::default(), CancellationToken::new());
        self.entries().push_back(Entry { standing: standing.clone(), cut: cut.clone() });
        Connection { all: self.clone(), standing, cut }
    }

    /// Ends the oldest connection of an unauthenticated client, if there is one.
    pub(super) fn cut_oldest_unknown(&self) {
        let mut entries = self.entries();
        entries.retain(|entry| !entry.standing.0.load(Ordering::Acquire));
        if let Some(oldest) = entries.pop_front() {
            oldest.cut.cancel();
        }
    }

    fn entries(&self) -> MutexGuard<'_, VecDeque<Entry>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Connection {
    /// Returns the note that its requests come from a known client.
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

    #[test]
    fn the_oldest_connection_of_nobody_who_is_known_gives_way() {
        let all = Connections::default();
        let [known, first, second] = [(); 3].map(|()| all.begin());
        let mut request = Request::new(axum::body::Body::empty());
        request.extensions_mut().insert(known.standing());
        Standing::note(&request);
        all.cut_oldest_unknown();
        assert_eq!([&known, &first, &second].map(|one| one.cut.is_cancelled()), [false, true, false]);
        drop(second);
        all.cut_oldest_unknown();
        assert!(!known.cut.is_cancelled(), "nobody else is left");
        assert!(all.entries().is_empty());
    }
}
