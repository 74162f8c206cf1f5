//! Standard input and output as a transport, with the manners that a stdio server needs and the SDK leaves open.
//!
//! - The end of input is known at once to whoever waits for a host, and not only when the SDK has waited for them.
//! - A notification before the client has introduced itself is passed over instead of ending the server.
//! - A request under an id that is still in use is refused instead of being executed without an answer.
//! - A line that is too long is answered, as far as a request that nobody has read can be.
//! - A request that cannot be read is answered under its id, if that can be read: half an emoji in an argument, which
//!   JavaScript writes down without a murmur, would otherwise leave its client waiting for nothing.
//! - A call whose arguments the SDK would change without a word is refused: of two equal keys it keeps one, and it
//!   rounds numbers. The host refuses both, but would never see them.

use rmcp::RoleServer;
use rmcp::model::{ClientNotification, ClientRequest, ErrorData, GetMeta as _, JsonRpcMessage, ProtocolVersion};
use rmcp::model::{RequestId, ServerJsonRpcMessage};
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::async_rw::AsyncRwTransport;
use rmcp::transport::{StdioReader, StdioWriter, Transport, stdio_pipes};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::error::Category;
use serde_json::value::RawValue;
use shared::json;
use std::borrow::Cow;
use std::collections::HashSet;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use tokio::io::{AsyncBufReadExt as _, AsyncRead, AsyncWrite, BufReader, Empty, ReadBuf};
use tokio_util::sync::CancellationToken;

/// The longest line. A request document has at most 1 MiB, which escaping can make six times as long.
pub const LINE_BYTES_MAX: usize = 8 * 1024 * 1024;

/// The method whose arguments must reach the host as they were written.
const CALL: &str = "tools/call";

/// A transport with manners.
pub struct Polite<R: AsyncRead + Unpin, W: AsyncWrite> {
    input: BufReader<Input<R>>,
    /// The line so far.
    line: Vec<u8>,
    /// Whether the rest of a line that was too long is still to come.
    skipping: bool,
    /// What the SDK writes with; it reads nothing.
    output: AsyncRwTransport<RoleServer, Empty, W>,
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
        Self {
            input: BufReader::new(Input { inner: reader, eof }),
            line: Vec::new(),
            skipping: false,
            output: AsyncRwTransport::new_server(tokio::io::empty(), writer),
            in_flight: Arc::default(),
            open: false,
        }
    }

    /// Whether a message goes on to the SDK.
    fn admit(&mut self, message: &RxJsonRpcMessage<RoleServer>) -> bool {
        match message {
            JsonRpcMessage::Request(request) => {
                self.open = self.open || introduces(&request.request);
                let fresh = lock(&self.in_flight).insert(request.id.clone());
                if !fresh {
                    let what = "this request id is still in use; the second request was not executed";
                    self.complain(None, ErrorData::invalid_request(what, None));
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

    /// Answers with an error what does not go on to the SDK. Under an id that is in use it would look like the answer
    /// to the first request, so then it has none.
    fn complain(&mut self, id: Option<RequestId>, error: ErrorData) {
        let id = id.filter(|id| !lock(&self.in_flight).contains(id));
        let send = self.output.send(ServerJsonRpcMessage::error(error, id));
        // Sent beside the reading, which may be dropped and begun again at any time.
        tokio::spawn(async { send.await.ok() });
    }

    /// Reads the next line into `line`, or the beginning of one that is too long; `None` at the end of the input.
    ///
    /// May be dropped and begun again: what was read is kept, and nothing is awaited between taking and keeping it.
    async fn read_line(&mut self) -> Option<Length> {
        loop {
            let read = self.input.fill_buf().await.ok().filter(|read| !read.is_empty())?;
            let end = read.iter().position(|byte| *byte == b'\n');
            let (taken, _) = read.split_at(end.map_or(read.len(), |at| at + 1));
            let length = taken.len();
            let fits = self.line.len() + length <= LINE_BYTES_MAX;
            if fits && !self.skipping {
                self.line.extend_from_slice(taken);
            }
            self.input.consume(length);
            match (self.skipping, fits) {
                (true, _) => self.skipping = end.is_none(),
                (false, true) if end.is_some() => return Some(Length::Whole),
                (false, true) => {}
                (false, false) => {
                    self.skipping = end.is_none();
                    return Some(Length::TooLong);
                }
            }
        }
    }
}

/// What there is of a line.
enum Length {
    Whole,
    TooLong,
}

/// A message that does not go on: under this id, if that can be read, and why.
struct Unreadable {
    id: Option<RequestId>,
    error: ErrorData,
}

/// All of a message that must be readable for an answer.
#[derive(Deserialize)]
struct Envelope<'a> {
    id: Option<RequestId>,
    #[serde(borrow)]
    method: Option<Cow<'a, str>>,
}

/// A call's arguments, as the client wrote them.
#[derive(Deserialize)]
struct Written<'a> {
    #[serde(borrow)]
    params: WrittenParams<'a>,
}

#[derive(Deserialize)]
struct WrittenParams<'a> {
    #[serde(borrow)]
    arguments: Option<&'a RawValue>,
}

/// The message of a line; `None` where there is nothing that could be answered.
fn parse(line: &[u8]) -> Option<Result<RxJsonRpcMessage<RoleServer>, Box<Unreadable>>> {
    const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";
    let line = line.strip_prefix(BYTE_ORDER_MARK).unwrap_or(line).trim_ascii();
    if line.is_empty() {
        return None;
    }
    let fault = match serde_json::from_slice(line) {
        Ok(message) => return Some(unchanged(line, message)),
        Err(fault) => fault,
    };
    // SECURITY: what does not fit is quoted in the fault, and may be an argument; what is no JSON is not.
    let what = match fault.classify() {
        Category::Syntax | Category::Eof => format!("the message cannot be read, and nothing was executed: {fault}"),
        Category::Data | Category::Io => "the message is not one of this protocol".to_owned(),
    };
    // These two pass over strings, numbers and depths that the reader of messages stumbles at.
    let (id, error) = match serde_json::from_slice(line) {
        // A notification is never answered.
        Ok(Envelope { id: None, method: Some(_) }) => return None,
        Ok(Envelope { id: id @ Some(_), method: Some(method) }) if method == CALL => {
            (id, ErrorData::invalid_params(what, None))
        }
        Ok(Envelope { id, .. }) => (id, ErrorData::invalid_request(what, None)),
        Err(_) if serde_json::from_slice::<IgnoredAny>(line).is_ok() => (None, ErrorData::invalid_request(what, None)),
        Err(_) if line.starts_with(b"{") || line.starts_with(b"[") => (None, ErrorData::parse_error(what, None)),
        // What does not even begin like a message is chatter, and who chatters may send our complaint back.
        Err(_) => return None,
    };
    Some(Err(Box::new(Unreadable { id, error })))
}

/// The message, unless it is a call whose arguments are no longer what this line says.
fn unchanged(
    line: &[u8],
    message: RxJsonRpcMessage<RoleServer>,
) -> Result<RxJsonRpcMessage<RoleServer>, Box<Unreadable>> {
    let JsonRpcMessage::Request(request) = &message else { return Ok(message) };
    let ClientRequest::CallToolRequest(_) = &request.request else { return Ok(message) };
    match changed(line) {
        None => Ok(message),
        Some(what) => {
            let what = format!("{what}; nothing was executed");
            let error = ErrorData::invalid_params(what, None);
            Err(Box::new(Unreadable { id: Some(request.id.clone()), error }))
        }
    }
}

/// What reading has changed in a call's arguments.
fn changed(line: &[u8]) -> Option<Cow<'static, str>> {
    let Ok(Written { params: WrittenParams { arguments } }) = serde_json::from_slice(line) else {
        return Some("the call has a member twice".into());
    };
    let arguments = arguments?.get();
    if let Err(fault) = json::parse(arguments.as_bytes()) {
        return Some(format!("the arguments are {fault}").into());
    }
    // What is inexact and yet kept, the host refuses, and says where it is.
    json::loses_digits(arguments)
        .then(|| "the arguments hold a number that cannot be kept exactly; send it as a string".into())
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
        self.output.send(item)
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleServer>> {
        loop {
            let parsed = match self.read_line().await? {
                Length::Whole => parse(&self.line),
                Length::TooLong => {
                    let error = ErrorData::invalid_request("a line was too long and was not read", None);
                    Some(Err(Box::new(Unreadable { id: None, error })))
                }
            };
            self.line.clear();
            match parsed {
                Some(Ok(message)) if self.admit(&message) => return Some(message),
                Some(Err(unreadable)) => self.complain(unreadable.id, unreadable.error),
                Some(Ok(_)) | None => {}
            }
        }
    }

    async fn close(&mut self) -> io::Result<()> {
        self.output.close().await
    }
}

/// The input as it is, with an ear for its end.
struct Input<R> {
    inner: R,
    eof: CancellationToken,
}

impl<R: AsyncRead + Unpin> AsyncRead for Input<R> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = buf.filled().len();
        let result = std::task::ready!(Pin::new(&mut this.inner).poll_read(cx, buf));
        if result.is_err() || buf.filled().len() == before {
            this.eof.cancel();
        }
        Poll::Ready(result)
    }
}

impl<R: AsyncRead + Unpin, W: AsyncWrite> std::fmt::Debug for Polite<R, W> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Polite").field("open", &self.open).finish_non_exhaustive()
    }
}
