//! The dispatcher of commands: of a command that works in place, and of a daemon.

use super::{LoadedHome, StartError};
use crate::control::CommandDispatcher;
use crate::fleet_commands::OtherHosts;
use crate::mailboxes::Mailboxes;
use crate::receivers::ReceiverFaults;
use crate::sinks::SinkStates;
use engine::catalogue::Catalogue;
use model::Nonce;
use platform::Platform;
use std::sync::Arc;
use store::ledger::health::Health;
use tokio::sync::watch;

impl LoadedHome {
    /// Returns the dispatcher of a command that works in place.
    pub fn dispatcher(&self, platform: &Platform) -> CommandDispatcher {
        CommandDispatcher {
            config: Arc::clone(&self.config),
            catalogue: watch::channel(Arc::clone(&self.ruleset.catalogue)).1,
            key: Arc::clone(&self.key),
            scrubber: Arc::clone(&self.ruleset.filters.scrubber),
            ids: Arc::clone(&platform.ids),
            uid: rustix::process::geteuid().as_raw(),
            inbox: None,
            callback: None,
            metrics: None,
            inspector: None,
            receiving: ReceiverFaults::default(),
            sinks: SinkStates::default(),
            ruleset_builder: None,
            reload: None,
            start: String::new(),
            health: watch::channel(Health::default()).1,
            mailboxes: None,
            limits: platform.commands.limits_in_force(),
            home: self.home.path().to_owned(),
            other_hosts: None,
            policy: None,
        }
    }

    /// Returns the dispatcher of a daemon, without the addresses that it serves.
    pub(super) fn running_dispatcher(
        &self,
        platform: &Platform,
        (catalogue, health, mailboxes): (watch::Receiver<Arc<Catalogue>>, watch::Receiver<Health>, &Mailboxes),
    ) -> Result<CommandDispatcher, StartError> {
        Ok(CommandDispatcher {
            catalogue,
            health,
            mailboxes: Some(mailboxes.clone()),
            ruleset_builder: Some(Arc::clone(&self.ruleset_builder)),
            inspector: Some(Arc::clone(&self.ruleset.filters.inspector)),
            reload: self.reload.clone(),
            start: Nonce::fresh(platform.ids.as_ref())?.as_str().to_owned(),
            other_hosts: OtherHosts::new(self, platform)?,
            ..self.dispatcher(platform)
        })
    }
}
