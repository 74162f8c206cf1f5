//! A server's own messages: of progress the numbers are kept, of its tools the fact that they have changed.
//!
//! All of its requests are refused.

use provider::contract::{RunHandle, RunProgress};
use rmcp::ClientHandler;
use rmcp::model::{
    ClientCapabilities, ClientConfig, ElicitRequestParams, ElicitResult, ErrorCode, ErrorData, Implementation,
    ProgressNotificationParam, ProgressToken,
};
use rmcp::service::{NotificationContext, RequestContext, RoleClient};
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::Notify;

/// The listener to a server.
#[derive(Debug, Clone, Default)]
pub(super) struct Listener(Arc<Heard>);

#[derive(Debug, Default)]
struct Heard {
    // How often the server has said that its tools are others.
    generation: AtomicU64,
    stirred: Notify,
    followed: Mutex<HashMap<ProgressToken, Arc<RunHandle>>>,
}

impl Listener {
    /// How often the server has said that its tools are others.
    pub(super) fn generation(&self) -> u64 {
        self.0.generation.load(Ordering::Acquire)
    }

    /// Asks for a look at the server.
    pub(super) fn stir(&self) {
        self.0.stirred.notify_one();
    }

    /// Waits until a look at the server is due.
    pub(super) async fn stirred(&self) {
        self.0.stirred.notified().await;
    }

    /// Passes the progress under this token on, until the returned value is dropped.
    pub(super) fn follow(&self, token: ProgressToken, run_handle: Arc<RunHandle>) -> Followed {
        self.0.followed.lock().unwrap_or_else(PoisonError::into_inner).insert(token.clone(), run_handle);
        Followed { heard: Arc::clone(&self.0), token }
    }
}

/// A call whose progress is passed on.
pub(super) struct Followed {
    heard: Arc<Heard>,
    token: ProgressToken,
}

impl Drop for Followed {
    fn drop(&mut self) {
        self.heard.followed.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.token);
    }
}

/// Sampling and requests of no known name are refused as they are, by the library.
impl ClientHandler for Listener {
    fn get_info(&self) -> ClientConfig {
        let us = Implementation::new("host-broker", env!("CARGO_PKG_VERSION"));
        // It can do nothing that a server could ask for.
        ClientConfig::new(ClientCapabilities::default(), us)
    }

    #[expect(deprecated, reason = "servers of older revisions ask")]
    async fn list_roots(&self, _: RequestContext<RoleClient>) -> Result<rmcp::model::ListRootsResult, ErrorData> {
        Err(ErrorData::new(ErrorCode::METHOD_NOT_FOUND, "roots/list", None))
    }

    async fn create_elicitation(
        &self,
        _: ElicitRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        Err(ErrorData::new(ErrorCode::METHOD_NOT_FOUND, "elicitation/create", None))
    }

    async fn on_progress(&self, said: ProgressNotificationParam, _: NotificationContext<RoleClient>) {
        let followed = self.0.followed.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(run_handle) = followed.get(&said.progress_token) {
            // SECURITY: its message is not passed on, because it was not inspected.
            run_handle.report(RunProgress { done: said.progress, total: said.total });
        }
    }

    async fn on_tool_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.0.generation.fetch_add(1, Ordering::AcqRel);
        self.stir();
    }
}
