//! Commands that people send to another host of the fleet, and those that come from there.
//!
//! ```text
//! command line ─► control socket of a ─► signed command ─► database ─► b: signature, person, right ─► the loop of b
//!              ◄─                     ◄─ signed reply   ◄─          ◄─
//! ```
//!
//! A host executes its commands itself, with the rights of its own broker.toml, so its ledger has the row. The database
//! only carries the texts, which are encrypted for their receiver. Host b executes a command of host a only if its
//! broker.toml names the key of a and the person.

mod receiving;
mod sending;
pub(crate) mod signed;

pub(crate) use sending::{NoReply, TIMEOUT, unknown_host};

use crate::control::SocketRequest;
use crate::host::{LoadedHome, StartError};
use config::Config;
use config::store::OtherHost;
use engine::request::Command;
use filter::scrub::Scrubber;
use model::{Clock, HostName, Random};
use platform::Platform;
use secrets::exchange::{EncryptedText, HostKey};
use secrets::keys;
use serde::{Deserialize, Serialize};
use shared::Timestamp;
use shared::digest::Digest;
use std::sync::Arc;
use store::fleet::commands::Commands;

/// The other hosts with which this one exchanges commands.
pub struct OtherHosts {
    commands: Commands,
    key: HostKey,
    config: Arc<Config>,
    clock: Arc<dyn Clock>,
    ids: Arc<dyn Random>,
    scrubber: Arc<Scrubber>,
}

/// A request for another host. On the control socket:
///
/// ```json
/// {"type": "fleet_command", "host": "b", "request": {"type": "kill", "scope": "all", "on": true}}
/// ```
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "type", rename = "fleet_command")]
pub struct FleetRequest {
    /// The host.
    pub host: HostName,
    /// The request to its daemon.
    pub request: Box<SocketRequest>,
}

/// A command for all other hosts that the configuration names. On the control socket:
///
/// ```json
/// {"type": "all_hosts_command", "command": {"type": "kill", "scope": "all", "on": true}}
/// ```
/// The reply has the name of this host, and the reply of each other one:
///
/// ```json
/// {"status": "executed", "data": {"host": "a", "replies": {"b": {"status": "executed", "summary": "…"}}}}
/// ```
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "type", rename = "all_hosts_command")]
pub struct AllHostsRequest {
    /// The command.
    pub command: Command,
}

/// A command, as the sender signs it.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct FleetCommand {
    from: HostName,
    to: HostName,
    id: String,
    /// The person, whom the sender has identified.
    person: String,
    /// The time at the sender.
    sent_at: Timestamp,
    /// The public key for the reply.
    reply_key: String,
    request: SocketRequest,
}

/// A reply, as the host signs it.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct FleetReply {
    from: HostName,
    to: HostName,
    /// The digest of the encrypted command.
    command: Digest,
    /// The reply of the daemon, which only the sender reads.
    reply: EncryptedText,
}

/// Returns the text to which a command is bound: the key of its row in the database.
fn row(to: &HostName, from: &HostName, id: &str) -> String {
    format!("{to} {from} {id}")
}

impl OtherHosts {
    /// Returns the other hosts that the configuration names; `None` if it names none. A home without a key gets one.
    ///
    /// # Errors
    /// [`StartError::Key`]: the key of this host cannot be used.
    pub fn new(loaded: &LoadedHome, platform: &Platform) -> Result<Option<Arc<Self>>, StartError> {
        let has_others = loaded.config.store.as_ref().is_some_and(|table| !table.hosts.is_empty());
        let Some(fleet) = loaded.fleet.as_ref().filter(|_| has_others) else { return Ok(None) };
        let config = Arc::clone(&loaded.config);
        let (clock, ids) = (Arc::clone(&platform.clock), Arc::clone(&platform.ids));
        let key = keys::fleet(&loaded.home, ids.as_ref())?;
        let scrubber = Arc::clone(&loaded.ruleset.filters.scrubber);
        Ok(Some(Arc::new(Self { commands: fleet.commands(), key, config, clock, ids, scrubber })))
    }

    /// Returns the names of the hosts whose approval requests the inbox shows.
    pub(crate) fn of_inbox(&self) -> Vec<HostName> {
        self.hosts().filter(|(_, other)| other.inbox).map(|(host, _)| host.clone()).collect()
    }

    fn hosts(&self) -> impl Iterator<Item = (&HostName, &OtherHost)> {
        self.config.store.iter().flat_map(|table| &table.hosts)
    }

    fn other(&self, host: &HostName) -> Option<&OtherHost> {
        self.config.store.as_ref()?.hosts.get(host)
    }

    /// Returns the name of this host.
    pub(crate) fn own(&self) -> &HostName {
        self.commands.host()
    }
}
