//! Server-sent events: they say that something has changed, and nothing else. The page then asks for what.

use super::{Shared, plain, request_guard};
use crate::http::web::sessions::Use;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use futures_util::stream::unfold;
use std::convert::Infallible;
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, watch};
use tokio::time::Instant;

/// How often a line is sent that says nothing, so that who has left is noticed.
const BEAT: Duration = Duration::from_secs(15);
/// Changes that come faster than this are one.
const GAP: Duration = Duration::from_millis(250);
/// How long a stream lasts; the page opens another one.
const LIFE: Duration = Duration::from_mins(30);

/// One page that watches.
struct Watcher {
    shared: Shared,
    cookie: String,
    changes: watch::Receiver<u64>,
    begun: Instant,
    // When something was last said; before anything was, nothing.
    said: Option<Instant>,
    over: bool,
    _place: OwnedSemaphorePermit,
}

pub(super) async fn events(State(shared): State<Shared>, headers: HeaderMap) -> Response {
    let address = shared.web.entrance.address();
    let cookie = request_guard::cookie(address, &headers).unwrap_or_default().to_owned();
    if shared.visitor(&headers, Use::Watch).is_none() {
        return plain(StatusCode::UNAUTHORIZED, "Sign in first.");
    }
    let Ok(place) = std::sync::Arc::clone(&shared.streams).try_acquire_owned() else {
        return plain(
            StatusCode::SERVICE_UNAVAILABLE,
            "Too many pages wait for changes. Close some of them, then load this page again.",
        );
    };
    let mut changes = shared.web.changes.clone();
    changes.mark_unchanged();
    let watcher = Watcher { shared, cookie, changes, begun: Instant::now(), said: None, over: false, _place: place };
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
        tokio::time::sleep(GAP.saturating_sub(said.elapsed())).await;
        let line = tokio::select! {
            () = self.shared.web.stop.cancelled() => return None,
            changed = self.changes.changed() => {
                changed.ok()?;
                "data: changed\n\n"
            }
            () = tokio::time::sleep(BEAT) => ":\n\n",
        };
        self.said = Some(Instant::now());
        if self.shared.web.entrance.visitor(&self.cookie, Use::Watch).is_none() {
            self.over = true;
            return Some("data: signed out\n\n");
        }
        Some(line)
    }
}
