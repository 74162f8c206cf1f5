//! Server-sent events: they say that something has changed, and nothing else. The page then asks for what.

use super::{Shared, plain, request_guard};
use crate::http::web::sessions::{Use, Visitor};
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use futures_util::stream::unfold;
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use store::ledger::health::Health;
use tokio::sync::watch;
use tokio::sync::watch::error::RecvError;
use tokio::time::Instant;

/// How often a line is sent that says nothing, so that who has left is noticed.
const HEARTBEAT: Duration = Duration::from_secs(15);
/// The interval at which a page asks for the approval requests of other hosts.
const OTHER_HOSTS: Duration = Duration::from_secs(5);
/// Changes to the approval requests that come faster than this are one.
const GAP: Duration = Duration::from_millis(250);
/// The same for rows. A daemon writes thousands in a second.
pub(super) const ROWS_GAP: Duration = Duration::from_secs(1);
/// How long a stream lasts; the page opens another one.
const LIFE: Duration = Duration::from_mins(30);
/// How many pages may wait for changes at once.
const STREAMS_MAX: usize = 32;
/// The same for the pages of one person, so that nobody can take all places.
const STREAMS_OF_ONE_MAX: usize = 8;

/// The places of the streams, by person.
#[derive(Default)]
pub(super) struct Places(Mutex<BTreeMap<String, usize>>);

/// The place of one stream; dropping it makes the place free.
struct Place {
    places: Arc<Places>,
    person: String,
}

impl Places {
    /// Takes a place for a page of this person, if one is free.
    fn take(self: &Arc<Self>, person: String) -> Option<Place> {
        let mut taken = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let own = taken.get(&person).copied().unwrap_or(0);
        if own >= STREAMS_OF_ONE_MAX || taken.values().sum::<usize>() >= STREAMS_MAX {
            return None;
        }
        taken.insert(person.clone(), own.saturating_add(1));
        drop(taken);
        Some(Place { places: Arc::clone(self), person })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = self.places.0.lock().unwrap_or_else(PoisonError::into_inner);
        let left = taken.remove(&self.person).unwrap_or(0).saturating_sub(1);
        if left > 0 {
            taken.insert(std::mem::take(&mut self.person), left);
        }
    }
}

/// The changes that a page watches.
pub(super) enum Subject {
    /// The approval requests. Nobody says when those of other hosts change, so a page asks for them at this interval.
    ApprovalRequests(watch::Receiver<u64>, Option<Duration>),
    /// The rows of the ledger.
    Rows(watch::Receiver<i64>),
    /// The rows, and the state of the ledger with the progress of its verification.
    Evidence(watch::Receiver<i64>, watch::Receiver<Health>),
}

impl Subject {
    /// The rows of the ledger from now on.
    pub(super) fn rows(shared: &Shared) -> Self {
        Self::Rows(shared.web.changes.rows())
    }

    /// The rows and the state of the ledger from now on.
    pub(super) fn evidence(shared: &Shared) -> Self {
        let mut health = shared.web.dispatcher.health.clone();
        health.mark_unchanged();
        Self::Evidence(shared.web.changes.rows(), health)
    }

    /// Waits for the next change. Changes since the last one are the same change.
    async fn changed(&mut self) -> Result<(), RecvError> {
        match self {
            Self::ApprovalRequests(changes, None) => changes.changed().await,
            Self::ApprovalRequests(changes, Some(interval)) => {
                tokio::time::timeout(*interval, changes.changed()).await.unwrap_or(Ok(()))
            }
            Self::Rows(rows) => rows.changed().await,
            Self::Evidence(rows, health) => {
                let changed = tokio::select! {
                    changed = rows.changed() => changed,
                    changed = health.changed() => changed,
                };
                rows.mark_unchanged();
                health.mark_unchanged();
                changed
            }
        }
    }
}

/// One page that watches.
struct Watcher {
    shared: Shared,
    cookie: String,
    subject: Subject,
    // The shortest time between two lines.
    gap: Duration,
    begun: Instant,
    // When something was last said; before anything was, nothing.
    said: Option<Instant>,
    over: bool,
    _place: Place,
}

/// `GET /events`: says when approval requests have changed.
pub(super) async fn events(State(shared): State<Shared>, headers: HeaderMap) -> Response {
    let Some(visitor) = shared.visitor(&headers, Use::Watch) else {
        return plain(StatusCode::UNAUTHORIZED, "Sign in first.");
    };
    let others = shared.web.dispatcher.other_hosts.as_ref();
    let interval = others.is_some_and(|others| !others.of_inbox().is_empty()).then_some(OTHER_HOSTS);
    let subject = Subject::ApprovalRequests(shared.web.changes.approval_requests(), interval);
    stream(shared, (&headers, visitor), subject, GAP)
}

/// Returns a stream with a line for each change, until the session ends. The caller has checked the right of the person.
pub(super) fn stream(
    shared: Shared,
    (headers, visitor): (&HeaderMap, Visitor),
    subject: Subject,
    gap: Duration,
) -> Response {
    let cookie = request_guard::cookie(shared.web.sign_in.address(), headers).unwrap_or_default().to_owned();
    let Some(place) = shared.streams.take(visitor.person) else {
        return plain(
            StatusCode::SERVICE_UNAVAILABLE,
            "Too many pages wait for changes. Close some of them, then load this page again.",
        );
    };
    let watcher =
        Watcher { shared, cookie, subject, gap, begun: Instant::now(), said: None, over: false, _place: place };
    let stream = unfold(watcher, |mut watcher| async move {
        let line = watcher.next().await?;
        Some((Ok::<_, Infallible>(Bytes::from_static(line.as_bytes())), watcher))
    });
    let kind = HeaderValue::from_static("text/event-stream");
    ([(header::CONTENT_TYPE, kind)], Body::from_stream(stream)).into_response()
}

impl Watcher {
    /// The next lines; `None` at the end.
    async fn next(&mut self) -> Option<&'static str> {
        if self.over || self.begun.elapsed() > LIFE {
            return None;
        }
        let Some(said) = self.said.replace(Instant::now()) else {
            return Some("retry: 2000\ndata: watching\n\n");
        };
        let stop = self.shared.web.stop.clone();
        let line = tokio::select! {
            () = stop.cancelled() => None,
            line = self.line(said) => line,
        };
        let line = line?;
        self.said = Some(Instant::now());
        if self.shared.web.sign_in.visitor(&self.cookie, Use::Watch).is_none() {
            self.over = true;
            return Some("data: signed out\n\n");
        }
        Some(line)
    }

    /// Waits for the gap after the last line, then for a change, but not longer than a heartbeat.
    async fn line(&mut self, said: Instant) -> Option<&'static str> {
        tokio::time::sleep(self.gap.saturating_sub(said.elapsed())).await;
        tokio::select! {
            changed = self.subject.changed() => changed.ok().map(|()| "data: changed\n\n"),
            () = tokio::time::sleep(HEARTBEAT) => Some(":\n\n"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_person_cannot_take_all_streams_and_a_closed_page_frees_its_stream() {
        let places = Arc::new(Places::default());
        let take = |person: &str, most: usize| {
            let taken: Vec<Place> = (0..=most).map_while(|_| places.take(person.to_owned())).collect();
            assert_eq!(taken.len(), most, "{person}");
            taken
        };
        let mut alice = take("alice", STREAMS_OF_ONE_MAX);
        let others = ["ann", "bob", "eve"].map(|person| take(person, STREAMS_OF_ONE_MAX));
        assert_eq!(STREAMS_OF_ONE_MAX * 4, STREAMS_MAX);
        take("carl", 0);
        alice.pop();
        take("bob", 0);
        drop(take("carl", 1));
        take("alice", 1);
        drop((alice, others));
        assert!(places.0.lock().unwrap().is_empty());
    }
}
