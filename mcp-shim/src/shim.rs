//! What the MCP server and the command line share: ask the host, see the snapshot, remember the calls.

use crate::calls::Calls;
use crate::document;
use crate::progress::Listener;
use crate::rendezvous::Rendezvous;
use crate::settings::Settings;
use crate::snapshot::{Snapshots, View};
use crate::watch::Watch;
use shared::Reply;
use shared::request::Request;

/// One shim at one group's directory.
#[derive(Debug)]
pub struct Shim {
    rendezvous: Rendezvous,
    snapshots: Snapshots,
    calls: Calls,
}

impl Shim {
    /// Must be made inside the runtime.
    pub fn new(settings: Settings) -> Self {
        let snapshots = Snapshots::new(&settings);
        Self { rendezvous: Rendezvous::new(settings, Watch::new()), snapshots, calls: Calls::default() }
    }

    /// What the group may do, and the tools that follow from it.
    pub fn snapshots(&self) -> &Snapshots {
        &self.snapshots
    }

    /// The recent calls.
    pub fn calls(&self) -> &Calls {
        &self.calls
    }

    /// The way to the host.
    pub fn rendezvous(&self) -> &Rendezvous {
        &self.rendezvous
    }

    /// Asks the host; see [`Rendezvous::ask`]. How long a caller waits is in the snapshot, and the host is told.
    pub async fn ask(
        &self,
        view: &View,
        mut request: Request,
        stop: impl Future<Output = ()>,
        listener: &mut impl Listener,
    ) -> Reply {
        let configured = |provider| self.rendezvous.settings().patience(provider);
        let patience = match &mut request {
            Request::Call(call) => {
                let patience = configured(view.patience(&call.provider));
                call.timeout_ms = u64::try_from(patience.as_millis()).ok();
                patience
            }
            Request::Result(result) => {
                let patience = configured(None);
                result.timeout_ms = u64::try_from(patience.as_millis()).ok();
                patience
            }
            Request::Capabilities(_)
            | Request::Grant(_)
            | Request::Revoke(_)
            | Request::List(_)
            | Request::TaskCreate(_)
            | Request::GateApprove(_)
            | Request::Cancel(_) => configured(None),
        };
        let id = document::request_id();
        self.calls.sent(&id, &request);
        let reply = self.rendezvous.ask(id.clone(), &request, patience, stop, listener).await;
        self.calls.answered(&id, &reply);
        reply
    }
}
