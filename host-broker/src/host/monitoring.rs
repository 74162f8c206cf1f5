//! The address of the metrics, and the parts from which they are read.

use super::{LoadedHome, StartError};
use crate::control::CommandDispatcher;
use crate::http::{self, Server};
use crate::mailboxes::Mailboxes;
use crate::metrics::{ByteLimits, Exporter, Meter, Metrics};
use platform::Platform;
use shared::Timestamp;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::net::TcpListener;
use tokio::runtime::Handle;
use tokio::sync::Semaphore;

/// The metrics and their address, taken before anything runs, so that a start that cannot have it leaves nothing behind.
pub(super) struct Monitoring {
    metrics: Arc<Metrics>,
    // `None` if nothing is served.
    listener: Option<(TcpListener, SocketAddr)>,
}

/// The metrics, ready to be served.
pub(super) struct Exported {
    listener: TcpListener,
    address: SocketAddr,
    exporter: Exporter,
}

impl Monitoring {
    pub(super) fn open(loaded: &LoadedHome, platform: &Platform) -> Result<Self, StartError> {
        let metrics = Arc::new(Metrics::new()?);
        let Some(table) = &loaded.config.metrics else { return Ok(Self { metrics, listener: None }) };
        let address = table.listen.address();
        let failed = |source| StartError::Metrics { address, source };
        let listener = http::bind(address, &platform.runtime).map_err(failed)?;
        let bound = listener.local_addr().map_err(failed)?;
        Ok(Self { metrics, listener: Some((listener, bound)) })
    }

    /// The loop's handle.
    pub(super) fn meter(&self, loaded: &LoadedHome) -> Result<Meter, StartError> {
        let groups = loaded.config.groups.keys();
        Ok(Meter::new(Arc::clone(&self.metrics), &loaded.ruleset.catalogue, groups)?)
    }

    /// Where the metrics are, if they are served.
    pub(super) fn url(&self) -> Option<String> {
        self.listener.as_ref().map(|(_, address)| http::metrics::url(*address))
    }

    pub(super) fn exported(
        self,
        dispatcher: &CommandDispatcher,
        mailboxes: &Mailboxes,
        (loaded, platform, started_at): (&LoadedHome, &Platform, Timestamp),
    ) -> Option<Exported> {
        let (listener, address) = self.listener?;
        let exporter = Exporter {
            metrics: self.metrics,
            health: dispatcher.health.clone(),
            catalogue: dispatcher.catalogue.clone(),
            mailboxes: mailboxes.clone(),
            sinks: dispatcher.sinks.clone(),
            home: loaded.home.path().to_owned(),
            clock: Arc::clone(&platform.clock),
            started_at,
            limits: ByteLimits::of(&loaded.config.broker),
            shared_quotas: loaded.config.shared_quotas.clone(),
            policy: dispatcher.policy.clone(),
            one_at_a_time: Arc::new(Semaphore::new(1)),
        };
        Some(Exported { listener, address, exporter })
    }
}

impl Exported {
    /// Serves them.
    pub(super) fn serve(self, runtime: &Handle) -> (Server, SocketAddr) {
        (http::metrics::serve(self.listener, self.address, self.exporter, runtime), self.address)
    }
}
