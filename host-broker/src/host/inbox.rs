//! The inbox's address, and the connections of its server to the broker.

use super::{LoadedHome, StartError};
use crate::control::CommandDispatcher;
use crate::daemon::{Changes, EventSender};
use crate::http::web::sign_in::{Address, WebSignIn};
use crate::http::web::{self, Web};
use crate::http::{self, Server};
use platform::Platform;
use std::sync::Arc;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

/// The inbox's address, taken before anything runs, so that a start that cannot have it leaves nothing behind.
pub(super) struct Inbox {
    listener: TcpListener,
    pub(super) sign_in: Arc<WebSignIn>,
}

impl Inbox {
    pub(super) fn open(loaded: &LoadedHome, platform: &Platform) -> Result<Option<Self>, StartError> {
        let Some(table) = &loaded.config.web else { return Ok(None) };
        let address = table.listen.address();
        let failed = |source| StartError::Inbox { address, source };
        let listener = http::bind(address, &platform.runtime).map_err(failed)?;
        let bound = listener.local_addr().map_err(failed)?;
        let address = Address::new(bound, table.public_url.as_ref(), &loaded.key);
        let (clock, ids) = (Arc::clone(&platform.clock), Arc::clone(&platform.ids));
        let sign_in = Arc::new(WebSignIn::new(address, &loaded.config, clock, ids));
        Ok(Some(Self { listener, sign_in }))
    }

    pub(super) fn serve(
        self,
        loaded: &LoadedHome,
        platform: &Platform,
        dispatcher: CommandDispatcher,
        reports: EventSender,
        changes: Changes,
    ) -> (Server, Address) {
        let stop = CancellationToken::new();
        let address = self.sign_in.address().clone();
        let web = Web {
            config: Arc::clone(&loaded.config),
            sign_in: self.sign_in,
            dispatcher,
            reports,
            home: loaded.home.path().to_owned(),
            changes,
            clock: Arc::clone(&platform.clock),
            stop: stop.clone(),
        };
        tracing::info!(address = %address.url(), "the inbox is served");
        (Server::start(self.listener, web::router(web), stop, &platform.runtime), address)
    }
}
