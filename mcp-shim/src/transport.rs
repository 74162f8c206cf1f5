//! Standard input and output as a transport, with the manners that a stdio server needs and the SDK leaves open.
//!
//! - The end of input is known at once to whoever waits for a host, and not only when the SDK has waited for them.
//! - A notification before the client has introduced itself is passed over instead of ending the server.
//! - A request under an id that is still in use is refused instead of being executed without an answer.
//! - A line that is too long is answered, as far as a request that nobody has read can be.

use rmcp::RoleServer;
use rmcp::model::{ClientNotification, ClientRequest, ErrorData, GetMeta as _, JsonRpcMessage, ProtocolVersion};
use rmcp::model::{RequestId, ServerJsonRpcMessage};
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::async_rw::AsyncRwTransport;
use rmcp::transport::{StdioReader, StdioWriter, Transport, stdio_pipes};
use std::collections::HashSet;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// The longest line. A request document has at most 1 MiB, which escaping can make six times as long.
pub const LINE_BYTES_MAX: usize = 8 * 1024 * 1024;

/// A transport with manners.
pub struct Polite<R: AsyncRead + Unpin, W: AsyncWrite> {
    inner: AsyncRwTransport<RoleServer, Input<R>, W>,
    overlong: Arc<Notify>,
    in_flight: Arc<Mutex<HashSet<RequestId>>>,
    /// Whether the client has introduced itself.
    open: bool,
}

/// The transport over this process's own standard input and output; `eof` is cancelled when the input ends.
pub fn stdio(eof: CancellationToken) -> Polite<StdioReader, StdioWriter> {
    let (reader, writer) = stdio_pipes();
    Polite::new(reader, writer, eof)
}

impl<R, W> Polite<R, W>
where
    R: AsyncRead + Send + Unpin,
    W: AsyncWrite + Send + Unpin + 'static,
{
    /// A transport over any pair of streams.
    pub fn new(reader: R, writer: W, eof: CancellationToken) -> Self {
        let overlong = Arc::new(Notify::new());
        let input = Input { inner: reader, eof, overlong: Arc::clone(&overlong), line: 0 };
        let inner = AsyncRwTransport::new_server(input, writer).with_max_line_length(LINE_BYTES_MAX);
        Self { inner, overlong, in_flight: Arc::default(), open: false }
    }

    /// Whether a message goes on to the SDK.
    fn admit(&mut self, message: &RxJsonRpcMessage<RoleServer>) -> bool {
        match message {
            JsonRpcMessage::Request(request) => {
                self.open = self.open || introduces(&request.request);
                let fresh = lock(&self.in_flight).insert(request.id.clone());
                if !fresh {
                    self.complain("this request id is still in use; the second request was not executed");
                }
                fresh
            }
            JsonRpcMessage::Notification(notification) => {
                if let ClientNotification::CancelledNotification(cancelled) = &notification.notification
                    && let Some(id) = &cancelled.params.request_id
                {
                    // A cancelled request is never answered, so its id is free again.
                    lock(&self.in_flight).remove(id);
                }
                self.open
            }
            JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_) => self.open,
        }
    }

    /// An error without an id: under the id that is in use it would look like the answer to the first request.
    fn complain(&mut self, what: &'static str) {
        let error = ServerJsonRpcMessage::error(ErrorData::invalid_request(what, None), None);
        let send = self.inner.send(error);
        // Sent beside the reading, which may be dropped and begun again at any time.
        tokio::spawn(async { send.await.ok() });
    }
}

/// Whether the SDK takes this request as the beginning of a conversation; before that it takes requests only.
fn introduces(request: &ClientRequest) -> bool {
    if matches!(request, ClientRequest::PingRequest(_) | ClientRequest::DiscoverRequest(_)) {
        return false;
    }
    let meta = request.get_meta();
    let complete = meta.missing_required_keys(&ProtocolVersion::V_2026_07_28).is_empty()
        && meta.protocol_version().is_some_and(|version| ProtocolVersion::KNOWN_VERSIONS.contains(&version));
    complete || matches!(request, ClientRequest::InitializeRequest(_))
}

fn lock(ids: &Mutex<HashSet<RequestId>>) -> std::sync::MutexGuard<'_, HashSet<RequestId>> {
    ids.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<R, W> Transport<RoleServer> for Polite<R, W>
where
    R: AsyncRead + Send + Unpin,
    W: AsyncWrite + Send + Unpin + 'static,
{
    type Error = io::Error;

    fn send(&mut self, item: TxJsonRpcMessage<RoleServer>) -> impl Future<Output = io::Result<()>> + Send + 'static {
        let answered = match &item {
            JsonRpcMessage::Response(response) => Some(&response.id),
            JsonRpcMessage::Error(error) => error.id.as_ref(),
            JsonRpcMessage::Request(_) | JsonRpcMessage::Notification(_) => None,
        };
        if let Some(id) = answered {
            lock(&self.in_flight).remove(id);
        }
        self.inner.send(item)
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleServer>> {
        loop {
            let message = tokio::select! {
                biased;
                () = self.overlong.notified() => None,
                message = self.inner.receive() => Some(message?),
            };
            match message {
                None => self.complain("a line was too long and was not read"),
                Some(message) => {
                    if self.admit(&message) {
                        return Some(message);
                    }
                }
            }
        }
    }

    async fn close(&mut self) -> io::Result<()> {
        self.inner.close().await
    }
}

/// The input as it is, with an ear for its end and for lines that are too long.
struct Input<R> {
    inner: R,
    eof: CancellationToken,
    overlong: Arc<Notify>,
    /// The length of the line so far.
    line: usize,
}

impl<R> Input<R> {
    fn measure(&mut self, mut bytes: &[u8]) {
        while let Some(at) = bytes.iter().position(|byte| *byte == b'\n') {
            self.lengthen(at + 1);
            self.line = 0;
            (_, bytes) = bytes.split_at(at + 1);
        }
        self.lengthen(bytes.len());
    }

    fn lengthen(&mut self, by: usize) {
        let before = self.line;
        self.line = self.line.saturating_add(by);
        if before <= LINE_BYTES_MAX && self.line > LINE_BYTES_MAX {
            self.overlong.notify_one();
        }
    }
}

impl<R: AsyncRead + Unpin> AsyncRead for Input<R> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = buf.filled().len();
        let result = std::task::ready!(Pin::new(&mut this.inner).poll_read(cx, buf));
        let (_, read) = buf.filled().split_at(before);
        if result.is_err() || read.is_empty() {
            this.eof.cancel();
        } else {
            this.measure(read);
        }
        Poll::Ready(result)
    }
}

impl<R: AsyncRead + Unpin, W: AsyncWrite> std::fmt::Debug for Polite<R, W> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Polite").field("open", &self.open).finish_non_exhaustive()
    }
}
