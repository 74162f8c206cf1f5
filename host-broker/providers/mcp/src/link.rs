//! One connection to a server, from its start to its end.

use super::http::{Client, HttpCause};
use super::listener::Listener;
use super::pipe::{Bounded, Heard, LINE_MAX, Patient, WRITE_TIMEOUT};
use super::tools::{COUNT_MAX, ServerTool};
use platform::commands::{ChildGroup, Opened};
use platform::http::Http;
use provider::contract::Execution;
use rmcp::ServiceError;
use rmcp::model::{
    CallToolRequest, CallToolRequestParams, CallToolResult, CancelledNotificationParam, ClientRequest,
    CustomNotification, ErrorCode, PaginatedRequestParams, ProtocolVersion, RequestId, ServerResult,
};
use rmcp::service::{
    ClientCacheConfig, ClientLifecycleMode, ClientServiceExt as _, Peer, PeerRequestOptions, RoleClient, RunningService,
};
use rmcp::transport::async_rw::AsyncRwTransport;
use rmcp::transport::streamable_http_client::{StreamableHttpClientTransportConfig, StreamableHttpError};
use rmcp::transport::{IntoTransport, StreamableHttpClientTransport};
use serde_json::{Map, Value, json};
use std::sync::Arc;
use tokio::io::{AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, BufReader};
use tokio::sync::Mutex;
use tokio::time::Instant;
use tokio_util::sync::{CancellationToken, DropGuard};

/// A list of tools has no more pages.
const PAGES_MAX: usize = 100;
/// And no more in it, in bytes.
const LIST_MAX: usize = LINE_MAX;
/// The most bytes of a server's complaints in one life that go into the log. The rest is read and dropped.
const COMPLAINTS_MAX: usize = 64 * 1024;

/// A server that answers.
pub(super) struct Link {
    peer: Peer<RoleClient>,
    listener: Listener,
    /// The last look at its tools; the thread that looks holds it.
    pub(super) looked: Mutex<Option<Looked>>,
    closed: CancellationToken,
    is_child: bool,
    // Calls that are under way each hold it.
    calls: Arc<()>,
    since: Instant,
    _stop: DropGuard,
}

/// The time of the last look at its tools, and the state of its notifications then.
pub(super) struct Looked {
    pub(super) generation: u64,
    pub(super) at: Instant,
}

/// Why a call has no result. Only [`CallError::NotSent`], [`CallError::Unauthorized`] and
/// [`CallError::Refused`] mean that nothing was executed.
pub(super) enum CallError {
    /// The server was gone before.
    NotSent,
    /// The server does not know who asks: nothing was done.
    Unauthorized,
    /// The server does not take the request.
    Refused(String),
    /// The server says that something went wrong.
    Failed(String),
    /// Its answer is no result.
    NoResult(&'static str),
    /// The server is gone.
    Lost,
    /// The caller does not want the result any more.
    Unwanted,
}

impl Link {
    /// Opens a link to a child. `log` gets its complaints, line by line.
    ///
    /// # Errors
    /// The reason why it does not answer as a server does; it is gone then.
    pub(super) async fn to_child(child: Opened, log: impl Fn(&str) + Send + 'static) -> Result<Self, String> {
        let Opened { input, output, stderr, process } = child;
        tokio::spawn(listen(stderr, log));
        let closed = CancellationToken::new();
        let (output, input) = (Bounded::new(output, closed.clone()), Heard::new(input, WRITE_TIMEOUT, closed.clone()));
        let transport = AsyncRwTransport::<RoleClient, _, _>::new_client(output, input);
        // A too long line ends the connection, rather than being waited for.
        Self::open(Patient::new(transport.with_max_line_length(usize::MAX)), Some(process), closed).await
    }

    /// To a server elsewhere, with this bearer token.
    ///
    /// # Errors
    /// Why it does not answer as a server does.
    pub(super) async fn to_address(http: Arc<dyn Http>, uri: &str, token: Option<String>) -> Result<Self, String> {
        let mut config = StreamableHttpClientTransportConfig::with_uri(uri).max_sse_event_size(LINE_MAX);
        // The effects before it forgot the session are not known here: nothing is sent again by itself.
        config.reinit_on_expired_session = false;
        config.auth_header = token;
        let transport = Patient::new(StreamableHttpClientTransport::with_client(Client(http), config));
        Self::open(transport, None, CancellationToken::new()).await
    }

    /// # Errors
    /// Why it does not answer as a server does.
    async fn open<T, E, A>(transport: T, process: Option<ChildGroup>, closed: CancellationToken) -> Result<Self, String>
    where
        T: IntoTransport<RoleClient, E, A>,
        E: std::error::Error + Send + Sync + 'static,
    {
        let listener = Listener::default();
        // The newest revision of each kind; without a word about the older kind a server that gives back the revision it is
        // asked for would be taken for one of the newer.
        let both = ClientLifecycleMode::Auto {
            preferred_versions: vec![ProtocolVersion::V_2026_07_28],
            legacy_version: Some(ProtocolVersion::V_2025_11_25),
        };
        let service =
            listener.clone().serve_with_lifecycle(transport, both).await.map_err(|error| error.to_string())?;
        let peer = service.peer().clone();
        // A server could say for how long its tools stay the same.
        peer.set_response_cache_config(ClientCacheConfig::disabled()).await;
        let (stop, is_child) = (CancellationToken::new(), process.is_some());
        tokio::spawn(keep(service, process, stop.clone(), closed.clone()));
        let (looked, since) = (Mutex::new(None), Instant::now());
        Ok(Self { peer, listener, looked, closed, is_child, calls: Arc::new(()), since, _stop: stop.drop_guard() })
    }

    /// Checks whether the server still answers, as far as is known.
    pub(super) fn is_open(&self) -> bool {
        !self.closed.is_cancelled() && !self.peer.is_transport_closed()
    }

    /// Checks whether a call is under way: a server that does one thing after the other answers nothing else until
    /// then.
    pub(super) fn is_busy(&self) -> bool {
        Arc::strong_count(&self.calls) > 1
    }

    /// Ends it. A call that is under way gets no answer.
    pub(super) fn close(&self) {
        self.closed.cancel();
    }

    /// Since when.
    pub(super) fn since(&self) -> Instant {
        self.since
    }

    /// Returns the listener to its notifications.
    pub(super) fn listener(&self) -> &Listener {
        &self.listener
    }

    /// Cancelled when it is closed.
    pub(super) fn closed(&self) -> &CancellationToken {
        &self.closed
    }

    /// Returns its present tools.
    ///
    /// # Errors
    /// It does not list them, or too many.
    pub(super) async fn tools(&self) -> Result<Vec<ServerTool>, String> {
        let (mut tools, mut bytes): (Vec<ServerTool>, usize) = (Vec::new(), 0);
        let mut cursor = None;
        for _page in 0..PAGES_MAX {
            let wanted = Some(PaginatedRequestParams::default().with_cursor(cursor));
            let page = self.peer.list_tools(wanted).await.map_err(|error| error.to_string())?;
            for tool in &page.tools {
                let said = ServerTool::of(tool);
                bytes += said.length();
                tools.push(said);
            }
            if bytes > LIST_MAX {
                return Err(format!("its list of tools is longer than {LIST_MAX} bytes"));
            }
            if tools.len() > COUNT_MAX {
                return Err(format!("it has more than {COUNT_MAX} tools"));
            }
            cursor = page.next_cursor;
            if cursor.is_none() {
                return Ok(tools);
            }
        }
        Err(format!("its list of tools has more than {PAGES_MAX} pages"))
    }

    /// Calls a tool, once.
    ///
    /// A caller that stops waiting sends the server a cancellation. If the result becomes unwanted during the wait, the
    /// server gets a cancellation, too, and a read is over then. A call that `changes` something may have had its
    /// effect by then, and its answer is still waited for.
    ///
    /// # Errors
    /// [`CallError`].
    pub(super) async fn call(
        &self,
        tool: &str,
        arguments: Map<String, Value>,
        changes: bool,
        execution: &Execution,
    ) -> Result<CallToolResult, CallError> {
        let params = CallToolRequestParams::new(tool.to_owned()).with_arguments(arguments);
        let request = ClientRequest::CallToolRequest(CallToolRequest::new(params));
        let sent = self.peer.send_cancellable_request(request, PeerRequestOptions::no_options()).await;
        let sent = sent.map_err(|_gone| CallError::NotSent)?;
        let _under_way = Arc::clone(&self.calls);
        let mut unwanted = Unwanted { link: self, id: Some(sent.id.clone()) };
        let _followed = self.listener.follow(sent.progress_token.clone(), execution.run_handle().clone());
        let mut answering = std::pin::pin!(sent.await_response());
        let answer = tokio::select! {
            answer = &mut answering => answer,
            () = execution.run_handle().cancelled() => {
                unwanted.tell();
                if !changes {
                    return Err(CallError::Unwanted);
                }
                answering.await
            }
        };
        unwanted.id = None;
        match answer {
            Ok(ServerResult::CallToolResult(result)) => Ok(result),
            Ok(ServerResult::InputRequiredResult(_)) => {
                Err(CallError::Failed("it asks for more in the middle of a call, which it is not given".to_owned()))
            }
            Ok(_) | Err(ServiceError::UnexpectedResponse) => Err(CallError::NoResult("it is not the result of a tool")),
            Err(ServiceError::McpError(error)) => Err(match error.code {
                // Some libraries use every other code also for the effect of a tool.
                ErrorCode::METHOD_NOT_FOUND => CallError::Refused(error.message.into_owned()),
                _ => CallError::Failed(error.message.into_owned()),
            }),
            Err(ServiceError::TransportSend(why)) => Err(match why.error.downcast_ref() {
                Some(StreamableHttpError::<HttpCause>::Client(HttpCause::NotSent(why))) => {
                    tracing::warn!(why, "the server cannot be reached");
                    CallError::NotSent
                }
                Some(StreamableHttpError::Client(HttpCause::Refused(http::StatusCode::UNAUTHORIZED))) => {
                    CallError::Unauthorized
                }
                Some(StreamableHttpError::Client(why @ HttpCause::Refused(_))) => CallError::Refused(why.to_string()),
                // It has forgotten who asks.
                Some(StreamableHttpError::SessionExpired) => {
                    self.close();
                    CallError::NotSent
                }
                Some(_) | None => CallError::Lost,
            }),
            Err(_) => Err(CallError::Lost),
        }
    }
}

/// Holds service and child until the one is closed, the other has ended, or no user is left.
async fn keep(
    service: RunningService<RoleClient, Listener>,
    mut process: Option<ChildGroup>,
    stop: CancellationToken,
    closed: CancellationToken,
) {
    let _closed = closed.clone().drop_guard();
    let over = async {
        match &mut process {
            Some(process) => process.ended().await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        () = stop.cancelled() => {}
        () = closed.cancelled() => {}
        () = over => {}
        _ = service.waiting() => {}
    }
}

/// Tells a server that a request of its is unwanted, if its answer is not there when this is dropped.
struct Unwanted<'a> {
    link: &'a Link,
    id: Option<RequestId>,
}

impl Unwanted<'_> {
    fn tell(&mut self) {
        let Some(id) = self.id.take() else { return };
        let peer = self.link.peer.clone();
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            if !self.link.is_child {
                // The library ends the request. Otherwise its connection would be kept for an answer without a reader.
                let told = CancelledNotificationParam::new(Some(id), None);
                runtime.spawn(async move { peer.notify_cancelled(told).await.ok() });
                return;
            }
            // As the notification that it is, the library would no longer wait for the answer.
            let params = json!({ "requestId": id, "reason": "the caller has cancelled it" });
            let told = CustomNotification::new("notifications/cancelled", Some(params));
            runtime.spawn(async move { peer.send_notification(told.into()).await.ok() });
        }
    }
}

impl Drop for Unwanted<'_> {
    fn drop(&mut self) {
        if self.id.is_some() {
            self.tell();
            // Whether it works at all is seen by asking it something that is quickly answered.
            self.link.listener.stir();
        }
    }
}

/// Reads the complaints of a child, so that it never waits for a reader.
async fn listen(stderr: Box<dyn AsyncRead + Send + Unpin>, log: impl Fn(&str) + Send + 'static) {
    let ceiling = u64::try_from(COMPLAINTS_MAX).unwrap_or(u64::MAX);
    let mut reader = BufReader::new(stderr.take(ceiling));
    let mut line = Vec::new();
    while reader.read_until(b'\n', &mut line).await.is_ok_and(|read| read > 0) {
        let text = String::from_utf8_lossy(&line);
        if !text.trim().is_empty() {
            log(text.trim());
        }
        line.clear();
    }
    let mut rest = reader.into_inner().into_inner();
    tokio::io::copy(&mut rest, &mut tokio::io::sink()).await.ok();
}
