//! Whether a request may have left.
//!
//! After a failed write one question decides everything: can the remote have seen it? An error's kind does not
//! say (octocrab erases it, and a time-out has none), so the request's body is the witness. The HTTP client asks a
//! body for its bytes only once a connection stands, and before it flushes anything of the request, its head
//! included. A body that was never asked proves that nothing left.

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::task::{Context, Poll};

const WAITING: u8 = 0;
const DEPARTED: u8 = 1;
const CALLED_BACK: u8 = 2;

/// The sender's side: can call the request back as long as it has not left.
#[derive(Debug)]
pub(super) struct Departure(Arc<AtomicU8>);

impl Departure {
    /// Ends the request; `true` if nothing of it has left or will.
    ///
    /// One atomic step against [`Witness::poll_frame`]: a connection that gets to the request at this very moment
    /// either has already departed with it, or finds it called back and breaks off before it writes.
    pub(super) fn call_back(&self) -> bool {
        self.0.compare_exchange(WAITING, CALLED_BACK, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }
}

/// The request's side: a body of one piece that notes when it is asked for.
#[derive(Debug)]
pub(super) struct Witness {
    bytes: Option<Bytes>,
    state: Arc<AtomicU8>,
}

/// The request was given up before it left.
#[derive(Debug)]
pub(super) struct CalledBack;

impl fmt::Display for CalledBack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the request was called back before it left")
    }
}

impl std::error::Error for CalledBack {}

/// A body that is watched, and its watcher. The body must not be empty: an empty one is never asked for.
pub(super) fn watched(body: Vec<u8>) -> (Witness, Departure) {
    let state = Arc::new(AtomicU8::new(WAITING));
    (Witness { bytes: Some(body.into()), state: Arc::clone(&state) }, Departure(state))
}

impl Body for Witness {
    type Data = Bytes;
    type Error = CalledBack;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, CalledBack>>> {
        let Some(bytes) = self.bytes.take() else { return Poll::Ready(None) };
        match self.state.compare_exchange(WAITING, DEPARTED, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => Poll::Ready(Some(Ok(Frame::data(bytes)))),
            Err(_) => Poll::Ready(Some(Err(CalledBack))),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.bytes.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.bytes.as_ref().map_or(0, |b| u64::try_from(b.len()).unwrap_or(u64::MAX)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http_body_util::BodyExt as _;

    #[tokio::test]
    async fn a_request_that_was_asked_for_cannot_be_called_back() {
        let (body, departure) = watched(b"{}".to_vec());
        assert_eq!(body.collect().await.unwrap().to_bytes(), "{}");
        assert!(!departure.call_back());
    }

    #[tokio::test]
    async fn a_request_that_was_called_back_cannot_leave() {
        let (body, departure) = watched(b"{}".to_vec());
        assert!(departure.call_back());
        assert!(body.collect().await.is_err());
    }
}
