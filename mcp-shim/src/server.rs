//! The MCP server: everything that a client may ask for, in every revision in use.
//!
//! Nothing is decided here. A request goes to [`tools`], a resource is read, and a change of the snapshot is announced
//! to the interested clients. Clients that initialized get a notification of their own; clients of the stateless
//! revision get it through the subscription that they hold open.

use crate::progress;
use crate::render;
use crate::render::words::{self, ToolWords};
use crate::shim::Shim;
use crate::tools;
use crate::transport::Polite;
use rmcp::model::{
    CacheScope, CallToolRequestParams, CallToolResponse, CompleteRequestMethod, CompleteRequestParams, CompleteResult,
    CustomRequest, CustomResult, ErrorCode, ErrorData, Implementation, InitializeRequestParams, InitializeResult,
    ListPromptsRequestMethod, ListPromptsResult, ListResourcesResult, ListToolsResult, PaginatedRequestParams,
    ReadResourceRequestParams, ReadResourceResponse, ReadResourceResult, Resource, ResourceContents,
    ServerCapabilities, ServerConfig, SubscriptionFilter,
};
use rmcp::service::{NotificationContext, RequestContext, SubscriptionContext, SubscriptionSink};
use rmcp::{Peer, RoleServer, ServerHandler, ServiceExt as _};
use serde_json::json;
use shared::reply::text::unknown_tool;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_util::sync::CancellationToken;

/// The capabilities of the group.
pub const CAPABILITIES: &str = "broker://capabilities";
/// The recent calls.
pub const CALLS: &str = "broker://calls";

/// Where no notice crosses the mount, a change of the snapshot is seen after this long.
const SNAPSHOT_LOOK: Duration = Duration::from_secs(2);

/// Serves one client until its input ends, which cancels `stop`, or until `quit` completes.
///
/// # Errors
/// One line saying why there was no conversation. Nothing was executed then.
pub async fn serve<R, W>(
    shim: Shim,
    transport: Polite<R, W>,
    stop: CancellationToken,
    quit: impl Future<Output = ()>,
) -> Result<(), String>
where
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    let server = Arc::new(Server { shim, stop: stop.clone(), audience: Mutex::default() });
    let follower = tokio::spawn(follow(Arc::clone(&server)));
    let mut quit = pin!(quit);
    let greeted = tokio::select! {
        greeted = server.serve(transport) => greeted,
        () = &mut quit => return Ok(()),
    };
    let running = match greeted {
        Ok(running) => running,
        // A client that leaves without a word has done nothing wrong.
        Err(_) if stop.is_cancelled() => return Ok(()),
        Err(_) => return Err("the client does not speak the Model Context Protocol".to_owned()),
    };
    let conversation = running.cancellation_token();
    let mut waiting = pin!(running.waiting());
    let ended = tokio::select! {
        ended = &mut waiting => ended,
        () = &mut quit => {
            stop.cancel();
            conversation.cancel();
            waiting.await
        }
    };
    follower.abort();
    ended.map(drop).map_err(|_panic| "the conversation broke off".to_owned())
}

struct Server {
    shim: Shim,
    /// Ends every wait: the client is gone.
    stop: CancellationToken,
    audience: Mutex<Audience>,
}

/// The clients that want to hear that the tools have changed.
#[derive(Default)]
struct Audience {
    peers: Vec<Peer<RoleServer>>,
    sinks: Vec<SubscriptionSink>,
}

impl Server {
    fn audience(&self) -> MutexGuard<'_, Audience> {
        self.audience.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn tell_that_tools_changed(&self) {
        let (peers, sinks) = {
            let audience = self.audience();
            (audience.peers.clone(), audience.sinks.clone())
        };
        // A client that is gone need not hear it.
        for peer in peers {
            peer.notify_tool_list_changed().await.ok();
        }
        for sink in sinks {
            sink.notify_tool_list_changed().await.ok();
        }
    }
}

/// Watches the snapshot for as long as the server runs.
async fn follow(server: Arc<Server>) {
    let snapshots = server.shim.snapshots();
    let mut arrivals = server.shim.rendezvous().snapshots();
    let mut known = snapshots.view();
    loop {
        tokio::select! {
            () = arrivals.next() => {}
            () = tokio::time::sleep(SNAPSHOT_LOOK) => server.shim.rendezvous().watch_snapshot(),
        }
        let now = snapshots.view();
        if !Arc::ptr_eq(&known, &now) && known.tools != now.tools {
            server.tell_that_tools_changed().await;
        }
        known = now;
    }
}

/// Runs to the end, or to a panic, which becomes `None`: a request whose handler just vanished is never answered.
async fn caught<T>(future: impl Future<Output = T>) -> Option<T> {
    let mut future = pin!(future);
    std::future::poll_fn(|cx| match catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(cx))) {
        Ok(Poll::Ready(value)) => Poll::Ready(Some(value)),
        Ok(Poll::Pending) => Poll::Pending,
        Err(_) => Poll::Ready(None),
    })
    .await
}

fn json_resource(uri: &str, name: &str, words: ToolWords) -> Resource {
    Resource::new(uri, name)
        .with_title(words.title)
        .with_description(words.description)
        .with_mime_type("application/json")
}

impl ServerHandler for Server {
    fn get_info(&self) -> ServerConfig {
        let capabilities =
            ServerCapabilities::builder().enable_tools().enable_tool_list_changed().enable_resources().build();
        ServerConfig::new(capabilities)
            .with_server_info(
                Implementation::new(env!("CARGO_PKG_NAME"), env!("CARGO_PKG_VERSION"))
                    .with_title("External Access Broker"),
            )
            .with_instructions(words::INSTRUCTIONS)
    }

    /// The peer must remember the revision that was agreed on, not the one that it asked for: a client that names the
    /// stateless revision here would otherwise be refused everything that belongs to the agreed one.
    async fn initialize(
        &self,
        request: InitializeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<InitializeResult, ErrorData> {
        let result = self.negotiate_initialize(&request)?;
        let mut agreed = request;
        agreed.protocol_version = result.protocol_version.clone();
        context.peer.set_peer_info(agreed);
        Ok(result)
    }

    async fn on_initialized(&self, context: NotificationContext<RoleServer>) {
        let mut audience = self.audience();
        // One transport has one peer, however often it says that it is ready.
        if audience.peers.is_empty() {
            audience.peers.push(context.peer);
        }
    }

    fn accepted_subscription_filter(&self, requested: &SubscriptionFilter) -> Option<SubscriptionFilter> {
        Some(requested.clone())
    }

    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        let id = context.sink().id().clone();
        self.audience().sinks.push(context.sink().clone());
        tokio::select! {
            () = context.cancelled() => {}
            () = self.stop.cancelled() => {}
        }
        self.audience().sinks.retain(|sink| *sink.id() != id);
        Ok(())
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let tools = self.shim.snapshots().view().tools.clone();
        // The capabilities of one group concern no other, and may change at any moment.
        Ok(ListToolsResult::with_all_items(tools).with_ttl_ms(0).with_cache_scope(CacheScope::Private))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let stop = async {
            tokio::select! {
                () = context.ct.cancelled() => {}
                () = self.stop.cancelled() => {}
            }
        };
        let mut client = progress::Client::new(context.peer.clone(), context.meta.get_progress_token());
        let arguments = request.arguments.unwrap_or_default();
        match caught(tools::call(&self.shim, &request.name, arguments, stop, &mut client)).await {
            Some(Some(result)) => Ok(CallToolResponse::Complete(result)),
            Some(None) => {
                let remedy = json!({ "remedy": words::UNKNOWN_TOOL });
                Err(ErrorData::invalid_params(unknown_tool(&request.name), Some(remedy)))
            }
            None => {
                let reply = render::internal_fault(&crate::document::request_id());
                Ok(CallToolResponse::Complete(render::result(&reply)))
            }
        }
    }

    async fn list_resources(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let resources = vec![
            json_resource(CAPABILITIES, "capabilities", words::CAPABILITIES_RESOURCE),
            json_resource(CALLS, "calls", words::CALLS_RESOURCE),
        ];
        Ok(ListResourcesResult::with_all_items(resources).with_ttl_ms(0).with_cache_scope(CacheScope::Private))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let text = match request.uri.as_str() {
            CAPABILITIES => {
                let view = self.shim.snapshots().view();
                if let Some(fault) = &view.fault {
                    return Err(ErrorData::internal_error(fault.clone(), None));
                }
                // Without white space: it is long, and for programs.
                view.document.as_ref().unwrap_or(&json!({ "capabilities": [] })).to_string()
            }
            CALLS => render::pretty(&json!({ "calls": self.shim.calls().all() })),
            _ => {
                let uri = json!({ "uri": request.uri });
                return Err(ErrorData::resource_not_found("there is no such resource", Some(uri)));
            }
        };
        let contents = ResourceContents::text(text, request.uri).with_mime_type("application/json");
        let result = ReadResourceResult::new(vec![contents]).with_ttl_ms(0).with_cache_scope(CacheScope::Private);
        Ok(result.into())
    }

    /// Not declared, so not there; the default would answer that the list is empty.
    async fn list_prompts(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        Err(ErrorData::method_not_found::<ListPromptsRequestMethod>())
    }

    /// Not declared either.
    async fn complete(
        &self,
        _: CompleteRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        Err(ErrorData::method_not_found::<CompleteRequestMethod>())
    }

    /// A known method whose parameters do not fit arrives here too; then the fault is not the method.
    async fn on_custom_request(
        &self,
        request: CustomRequest,
        _: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        if matches!(request.method.as_str(), "tools/call" | "tools/list" | "resources/read" | "resources/list") {
            return Err(ErrorData::invalid_params("the parameters do not fit the method", None));
        }
        Err(ErrorData::new(ErrorCode::METHOD_NOT_FOUND, request.method, None))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_panicking_handler_still_answers() {
        assert_eq!(caught(async { 1 }).await, Some(1));
        let panics = async {
            tokio::task::yield_now().await;
            Vec::<u8>::new()[0]
        };
        assert_eq!(caught(panics).await, None);
    }
}
