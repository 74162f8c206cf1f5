//! The pipes to a child, and their limits: a child that says too much, or does not read, loses the connection.

use rmcp::RoleClient;
use rmcp::model::{ClientJsonRpcMessage, ClientRequest, RequestId, ServerJsonRpcMessage};
use rmcp::transport::Transport;
use std::borrow::Cow;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep};
use tokio_util::sync::CancellationToken;

/// The longest line, or body, that a server may say, in bytes: the longest result that is looked at, written with escapes.
pub(super) const LINE_MAX: usize = 2 * shared::limits::RESULT_BYTES_MAX;
/// The most lines at once, and the most further lines in each second: every request is answered, and unread output
/// piles up.
const LINES_MAX: f64 = 10_000.0;
const LINES_PER_SECOND: f64 = 1_000.0;
/// The longest time that a server may leave its input unread.
pub(super) const WRITE_TIMEOUT: Duration = Duration::from_secs(30);

/// The output of a child. A too long line, too many lines, or the end of its output breaks the connection.
pub(super) struct Bounded<R> {
    inner: R,
    line: usize,
    // Lines that may still be said now.
    left: f64,
    counted: Instant,
    broken: CancellationToken,
}

impl<R> Bounded<R> {
    pub(super) fn new(inner: R, broken: CancellationToken) -> Self {
        Self { inner, line: 0, left: LINES_MAX, counted: Instant::now(), broken }
    }

    fn count(&mut self, new: &[u8]) -> bool {
        let ends = new.split(|byte| *byte == b'\n').count() - 1;
        self.line = match new.iter().rposition(|byte| *byte == b'\n') {
            Some(at) => new.len() - at - 1,
            None => self.line + new.len(),
        };
        let now = Instant::now();
        let more = (now - self.counted).as_secs_f64() * LINES_PER_SECOND;
        self.counted = now;
        self.left = (self.left + more).min(LINES_MAX) - f64::from(u32::try_from(ends).unwrap_or(u32::MAX));
        self.line <= LINE_MAX && self.left >= 0.0
    }
}

impl<R: AsyncRead + Unpin> AsyncRead for Bounded<R> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.inner).poll_read(cx, buffer);
        let is_over = match &read {
            Poll::Pending => return Poll::Pending,
            Poll::Ready(Ok(())) => buffer.filled().len() == before,
            Poll::Ready(Err(_)) => true,
        };
        let new = buffer.filled().get(before..).unwrap_or_default();
        if is_over {
            self.broken.cancel();
        } else if !self.count(new) {
            self.broken.cancel();
            buffer.set_filled(before);
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::InvalidData, "it says too much")));
        }
        read
    }
}

/// The input of a child. The connection breaks if it does not read for long.
pub(super) struct Heard<W> {
    inner: W,
    timeout: Duration,
    waits: Option<Pin<Box<Sleep>>>,
    broken: CancellationToken,
}

impl<W> Heard<W> {
    pub(super) fn new(inner: W, timeout: Duration, broken: CancellationToken) -> Self {
        Self { inner, timeout, waits: None, broken }
    }

    /// Returns the result of an attempt, or a fault if it has taken too long.
    fn tried<T>(&mut self, tried: Poll<io::Result<T>>, cx: &mut Context<'_>) -> Poll<io::Result<T>> {
        if tried.is_ready() {
            self.waits = None;
            return tried;
        }
        let timeout = self.timeout;
        let waits = self.waits.get_or_insert_with(|| Box::pin(sleep(timeout)));
        std::task::ready!(waits.as_mut().poll(cx));
        self.broken.cancel();
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "it does not listen")))
    }
}

impl<W: AsyncWrite + Unpin> AsyncWrite for Heard<W> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let tried = Pin::new(&mut self.inner).poll_write(cx, bytes);
        self.tried(tried, cx)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let tried = Pin::new(&mut self.inner).poll_flush(cx);
        self.tried(tried, cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let tried = Pin::new(&mut self.inner).poll_shutdown(cx);
        self.tried(tried, cx)
    }
}

/// So many of a server's requests are answered at a time. Others are passed over, or they would pile up where it does not read.
const ANSWERS_MAX: usize = 64;
/// The longest name of such a request, in bytes: its answer repeats it.
const NAME_MAX: usize = 256;

/// A transport that drops two kinds of messages: more requests than are answered, and a late answer.
///
/// A server that takes long to start answers the request for its revision when that is given up, and the older
/// handshake has begun.
pub(super) struct Patient<T> {
    inner: T,
    probe: Option<RequestId>,
    given_up: Option<RequestId>,
    // Requests that were heard, and whose answers are not written yet.
    unanswered: Arc<AtomicUsize>,
}

/// An answer that is not written yet.
struct Unanswered(Arc<AtomicUsize>);

impl Drop for Unanswered {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

impl<T> Patient<T> {
    pub(super) fn new(inner: T) -> Self {
        Self { inner, probe: None, given_up: None, unanswered: Arc::default() }
    }

    /// Checks whether a request is answered; each one for which this returns true is answered once.
    fn hears(&self, id: &RequestId) -> bool {
        if id.to_string().len() > NAME_MAX || self.unanswered.load(Ordering::Acquire) >= ANSWERS_MAX {
            return false;
        }
        self.unanswered.fetch_add(1, Ordering::AcqRel);
        true
    }
}

impl<T: Transport<RoleClient>> Transport<RoleClient> for Patient<T> {
    type Error = T::Error;

    /// For messages: the whole type's would be a line long.
    fn name() -> Cow<'static, str> {
        Cow::Borrowed("MCP")
    }

    fn send(
        &mut self,
        message: ClientJsonRpcMessage,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        if let ClientJsonRpcMessage::Request(request) = &message {
            if matches!(request.request, ClientRequest::DiscoverRequest(_)) {
                self.probe = Some(request.id.clone());
            } else if matches!(request.request, ClientRequest::InitializeRequest(_)) {
                self.given_up = self.probe.take();
            }
        }
        let is_answer = matches!(message, ClientJsonRpcMessage::Response(_) | ClientJsonRpcMessage::Error(_));
        let unanswered = is_answer.then(|| Unanswered(Arc::clone(&self.unanswered)));
        let sending = self.inner.send(message);
        async move {
            let sent = sending.await;
            drop(unanswered);
            sent
        }
    }

    async fn receive(&mut self) -> Option<ServerJsonRpcMessage> {
        loop {
            let message = self.inner.receive().await?;
            let answers = match &message {
                ServerJsonRpcMessage::Request(request) if !self.hears(&request.id) => continue,
                ServerJsonRpcMessage::Response(response) => Some(&response.id),
                ServerJsonRpcMessage::Error(error) => error.id.as_ref(),
                ServerJsonRpcMessage::Request(_) | ServerJsonRpcMessage::Notification(_) => None,
            };
            if answers.is_none() || answers != self.given_up.as_ref() {
                return Some(message);
            }
        }
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        self.inner.close().await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    async fn said(bytes: Vec<u8>) -> (io::Result<usize>, bool) {
        let broken = CancellationToken::new();
        let mut all = Vec::new();
        let read = Bounded::new(io::Cursor::new(bytes), broken.clone()).read_to_end(&mut all).await;
        (read, broken.is_cancelled())
    }

    /// Attack (Definitions and servers): A server sends requests without reading, lists without
    /// end, or sends one endless line.
    /// Defence: Lines are counted, few requests are answered at a time, and lists and bodies are
    /// limited. A server that does not read is disconnected.
    #[tokio::test]
    async fn too_long_a_line_and_too_many_of_them_break_the_connection() {
        let mut fits = vec![b'x'; LINE_MAX];
        fits.push(b'\n');
        fits.extend(vec![b'x'; LINE_MAX]);
        let length = fits.len();
        assert_eq!(said(fits).await.0.unwrap(), length);
        assert!(said(vec![b'x'; LINE_MAX + 1]).await.0.is_err());
        assert_eq!(said(b"{}\n".repeat(5_000)).await.0.unwrap(), 15_000);
        let (read, is_broken) = said(b"{}\n".repeat(2_000_000)).await;
        assert!(read.is_err() && is_broken);
        assert!(said(Vec::new()).await.1, "nothing more will come");
    }

    /// Attack: see `too_long_a_line_and_too_many_of_them_break_the_connection`.
    #[tokio::test]
    async fn a_server_that_does_not_read_breaks_the_connection() {
        let (near, _far) = tokio::io::duplex(16);
        let broken = CancellationToken::new();
        let mut heard = Heard::new(near, Duration::from_millis(20), broken.clone());
        heard.write_all(b"0123456789").await.unwrap();
        assert!(!broken.is_cancelled());
        let refused = heard.write_all(&[b'x'; 64]).await.unwrap_err();
        assert_eq!((refused.kind(), broken.is_cancelled()), (io::ErrorKind::TimedOut, true));
    }
}
