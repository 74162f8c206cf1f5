//! Standard input and output as a transport, with the manners that a stdio server needs and the SDK leaves open.
//!
//! - The end of input reaches every waiting call at once, and not only when the SDK has waited for them.
//! - A notification before the client has introduced itself is passed over instead of ending the server.
//! - A request under an id that is still in use is refused instead of being executed without an answer.
//! - A line that is too long is answered, as far as an unread request can be.
//! - A request that cannot be read is answered under its id, if that can be read. Otherwise half an emoji in an
//!   argument, which JavaScript writes without an error, would leave its client waiting for nothing. A line that is no
//!   JSON or no message is answered under the id `null`, also before the client has introduced itself.
//! - A batch of revision 2025-03-26 is answered as one; where the revision has none, it is refused.
//! - A call whose arguments the SDK would change without a word is refused: of two equal keys it keeps one, and it
//!   rounds numbers. The host refuses both, but would never see them.

mod batches;
mod output;
mod reading;

use batches::Batches;
use output::Output;
use reading::Unreadable;
use rmcp::RoleServer;
use rmcp::model::{ClientNotification, ClientRequest, ErrorData, GetMeta as _, JsonRpcMessage, ProtocolVersion};
use rmcp::model::{RequestId, ServerJsonRpcMessage, ServerResult};
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::{StdioReader, StdioWriter, Transport, stdio_pipes};
use serde_json::Value;
use serde_json::value::RawValue;
use shared::rpc::{self, BatchError};
use std::collections::{HashSet, VecDeque};
use std::io;
use std::pin::Pin;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncBufReadExt as _, AsyncRead, AsyncWrite, BufReader, ReadBuf};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// The longest line. A request document has at most 1 MiB, which escaping can make six times as long.
pub const LINE_BYTES_MAX: usize = 8 * 1024 * 1024;

/// How long the end of the input waits for answers that are being written.
const WRITE_TIMEOUT: Duration = Duration::from_secs(1);

/// The beginning of a text from editors on Windows.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// A transport with manners.
pub struct Polite<R: AsyncRead + Unpin, W: AsyncWrite> {
    input: BufReader<Input<R>>,
    /// The line so far.
    line: Vec<u8>,
    /// Whether the rest of a line that was too long is still to come.
    skipping: bool,
    /// Messages of a batch that the SDK does not have yet.
    waiting: VecDeque<RxJsonRpcMessage<RoleServer>>,
    output: Output<W>,
    /// The writes that run beside the reading.
    beside: JoinSet<()>,
    answers: Mutex<Answers>,
    /// Whether the client has introduced itself.
    open: bool,
}

/// The written and the outstanding answers.
#[derive(Default)]
struct Answers {
    in_flight: HashSet<RequestId>,
    batches: Batches,
    /// The revision that both sides agreed on; `None` before the greeting, and in the stateless revision.
    revision: Option<ProtocolVersion>,
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
            waiting: VecDeque::new(),
            output: Output::new(writer),
            beside: JoinSet::new(),
            answers: Mutex::default(),
            open: false,
        }
    }

    fn answers(&self) -> MutexGuard<'_, Answers> {
        self.answers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Checks whether a message goes on to the SDK.
    ///
    /// # Errors
    /// The answer in its place.
    fn admit(&mut self, message: &RxJsonRpcMessage<RoleServer>) -> Result<bool, ErrorData> {
        match message {
            JsonRpcMessage::Request(request) => {
                self.open = self.open || introduces(&request.request);
                let fresh = self.answers().in_flight.insert(request.id.clone());
                let what = "this request id is still in use; the second request was not executed";
                if fresh { Ok(true) } else { Err(ErrorData::invalid_request(what, None)) }
            }
            JsonRpcMessage::Notification(notification) => {
                if let ClientNotification::CancelledNotification(cancelled) = &notification.notification
                    && let Some(id) = &cancelled.params.request_id
                {
                    // A cancelled request is never answered, so its id is free again.
                    let whole = {
                        let mut answers = self.answers();
                        answers.in_flight.remove(id);
                        answers.batches.close(id, None)
                    };
                    self.write_beside(whole.as_ref());
                }
                Ok(self.open)
            }
            JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_) => Ok(self.open),
        }
    }

    /// An error in the place of a message that does not go on to the SDK. Under an id that is in use it would look like the
    /// answer to the first request, so then it has the id `null`.
    fn complaint(&self, unreadable: Unreadable) -> Value {
        let Unreadable { id, error } = unreadable;
        let id = id.filter(|id| !self.answers().in_flight.contains(id));
        output::value(&ServerJsonRpcMessage::error(error, id)).unwrap_or_default()
    }

    /// Writes beside the reading, which may be dropped and begun again at any time.
    fn write_beside(&mut self, line: Option<&Value>) {
        while self.beside.try_join_next().is_some() {}
        if let Some(line) = line {
            let written = self.output.write(line);
            self.beside.spawn(async {
                written.await.ok();
            });
        }
    }

    /// Waits until everything is written, or until a client that does not read has had its time.
    async fn written(&mut self) {
        let all = async { while self.beside.join_next().await.is_some() {} };
        tokio::time::timeout(WRITE_TIMEOUT, all).await.ok();
    }

    /// Handles a line: returns a message for the SDK, or answers the line, or does nothing.
    fn take(&mut self, line: &[u8]) -> Option<RxJsonRpcMessage<RoleServer>> {
        let line = line.strip_prefix(BYTE_ORDER_MARK).unwrap_or(line).trim_ascii();
        if line.is_empty() {
            return None;
        }
        let revision = self.answers().revision.clone();
        match rpc::batch(line, revision.as_ref().map(ProtocolVersion::as_str)) {
            Some(Ok(messages)) => {
                self.take_batch(&messages);
                return self.waiting.pop_front();
            }
            Some(Err(fault)) => {
                let error = match fault {
                    BatchError::NotJson => ErrorData::parse_error(fault.to_string(), None),
                    BatchError::Revision | BatchError::Empty | BatchError::TooLong => {
                        ErrorData::invalid_request(fault.to_string(), None)
                    }
                };
                let complaint = self.complaint(Unreadable { id: None, error });
                self.write_beside(Some(&complaint));
                return None;
            }
            None => {}
        }
        match self.read(line) {
            Ok(message) => message,
            Err(unreadable) => {
                let complaint = self.complaint(*unreadable);
                self.write_beside(Some(&complaint));
                None
            }
        }
    }

    /// Returns a message for the SDK, or nothing.
    ///
    /// # Errors
    /// The answer in its place.
    fn read(&mut self, text: &[u8]) -> Result<Option<RxJsonRpcMessage<RoleServer>>, Box<Unreadable>> {
        let Some(message) = reading::message(text).transpose()? else { return Ok(None) };
        match self.admit(&message) {
            Ok(goes_on) => Ok(goes_on.then_some(message)),
            Err(error) => Err(Box::new(Unreadable { id: None, error })),
        }
    }

    fn take_batch(&mut self, messages: &[&RawValue]) {
        let (mut open, mut answers, mut rest) = (HashSet::new(), Vec::new(), VecDeque::new());
        for message in messages {
            match self.read_of_batch(message.get().as_bytes()) {
                Ok(Some(message)) => {
                    open.extend(match &message {
                        JsonRpcMessage::Request(request) => Some(request.id.clone()),
                        JsonRpcMessage::Notification(_) | JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_) => {
                            None
                        }
                    });
                    rest.push_back(message);
                }
                Ok(None) => {}
                Err(unreadable) => answers.push(self.complaint(*unreadable)),
            }
        }
        self.waiting.append(&mut rest);
        let whole = {
            let mut all = self.answers();
            // A request that the batch itself has cancelled is never answered.
            open.retain(|id| all.in_flight.contains(id));
            all.batches.begin(open, answers)
        };
        self.write_beside(whole.as_ref());
    }

    /// The revision that has batches keeps the greeting out of them.
    fn read_of_batch(&mut self, text: &[u8]) -> Result<Option<RxJsonRpcMessage<RoleServer>>, Box<Unreadable>> {
        if let Some(Ok(JsonRpcMessage::Request(request))) = reading::message(text)
            && let ClientRequest::InitializeRequest(_) = &request.request
        {
            let error = ErrorData::invalid_request("initialize is no part of a batch", None);
            return Err(Box::new(Unreadable { id: Some(request.id), error }));
        }
        self.read(text)
    }

    /// Reads the next line into `line`, or the beginning of one that is too long; `None` at the end of the input.
    ///
    /// May be dropped and begun again: read bytes are kept, and nothing is awaited between taking and keeping them.
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

/// The extent of a line.
enum Length {
    Whole,
    TooLong,
}

/// Checks whether the SDK takes this request as the beginning of a conversation; before that it takes requests only.
fn introduces(request: &ClientRequest) -> bool {
    if matches!(request, ClientRequest::PingRequest(_) | ClientRequest::DiscoverRequest(_)) {
        return false;
    }
    let meta = request.get_meta();
    let complete = meta.missing_required_keys(&ProtocolVersion::V_2026_07_28).is_empty()
        && meta.protocol_version().is_some_and(|version| ProtocolVersion::KNOWN_VERSIONS.contains(&version));
    complete || matches!(request, ClientRequest::InitializeRequest(_))
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
        let line = output::value(&item).map(|value| {
            let mut answers = self.answers();
            if let JsonRpcMessage::Response(response) = &item
                && let ServerResult::InitializeResult(greeting) = &response.result
            {
                answers.revision = Some(greeting.protocol_version.clone());
            }
            let Some(id) = answered else { return Some(value) };
            answers.in_flight.remove(id);
            if answers.batches.have(id) { answers.batches.close(id, Some(value)) } else { Some(value) }
        });
        // Nothing is written while others of the same batch are still open.
        let written = line.map(|line| line.map(|line| self.output.write(&line)));
        async move {
            match written? {
                Some(written) => written.await,
                None => Ok(()),
            }
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleServer>> {
        loop {
            if let Some(message) = self.waiting.pop_front() {
                return Some(message);
            }
            let Some(length) = self.read_line().await else {
                // The process ends soon, and an answer that is not written by then never is.
                self.written().await;
                return None;
            };
            let message = match length {
                Length::Whole => {
                    let line = std::mem::take(&mut self.line);
                    let message = self.take(&line);
                    self.line = line;
                    message
                }
                Length::TooLong => {
                    let error = ErrorData::invalid_request("a line was too long and was not read", None);
                    let complaint = self.complaint(Unreadable { id: None, error });
                    self.write_beside(Some(&complaint));
                    None
                }
            };
            self.line.clear();
            if message.is_some() {
                return message;
            }
        }
    }

    async fn close(&mut self) -> io::Result<()> {
        self.output.close();
        Ok(())
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
