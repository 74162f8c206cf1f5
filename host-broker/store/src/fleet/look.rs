//! The promise of a fleet's database, and its hosts, for people.

use super::error::FleetError;
use super::server::{STANDS_STILL, Server};
use super::settings::Settings;
use crate::StoreError;
use model::HostName;
use std::sync::Arc;
use std::time::Duration;

/// The durability of what the server acknowledges.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServerDurability {
    /// A standby has it, too: a failover loses nothing.
    SynchronousStandby,
    /// The server's disk has it: a failover can lose the last batches.
    OneMachine,
    /// Only the server's memory may have it.
    None,
}

/// The state of the daemon of a host, as far as the database shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DaemonState {
    /// No daemon has served the host.
    Never,
    /// A daemon serves it.
    Running,
    /// The daemon has stopped in an orderly way.
    Stopped,
    /// The home of the host has left the database.
    Left,
    /// The daemon has given no sign for so long that another home may take the host over.
    Silent,
}

impl DaemonState {
    /// Returns the word for people and programs.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Never => "never",
            Self::Running => "running",
            Self::Stopped => "stopped",
            Self::Left => "left",
            Self::Silent => "silent",
        }
    }
}

/// A host of the fleet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostLook {
    /// Its name.
    pub host: String,
    /// Its daemon.
    pub daemon: DaemonState,
    /// The time since the last sign of its daemon, by the clock of the server. `None` if there was none, or if the clock
    /// was set back since.
    pub seen: Option<Duration>,
    /// The number of times that a daemon has taken it over.
    pub fence: i64,
    /// The last row of its ledger.
    pub rows: i64,
    /// Its last batch.
    pub batches: i64,
    /// The number of the policy that it has published last.
    pub published: Option<i64>,
    /// The publication of the policy that its daemon uses, as its host and number, if it uses one.
    pub publication: Option<(HostName, i64)>,
    /// The reason why its daemon cannot use a later one; empty if there is none.
    pub publication_fault: String,
}

/// The database of a fleet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Look {
    /// The hosts, by name.
    pub hosts: Vec<HostLook>,
    /// The version of the server.
    pub server_version: String,
    /// Its durability.
    pub durability: ServerDurability,
    /// The settings that prevent another durability, or that lose rows.
    pub faults: Vec<String>,
}

/// Reads the hosts and the settings of the server.
///
/// # Errors
/// [`StoreError::Fleet`] if the database cannot be read.
pub fn look(settings: &Settings) -> Result<Look, StoreError> {
    const HOSTS: &str = "SELECT host, fence >> 32, seq, batch, holder = '',
        floor(extract(epoch FROM clock_timestamp() - seen_at))::bigint, has_left, follows, publication,
        publication_fault, (SELECT p.number FROM host_broker.publication AS p WHERE p.host = h.host)
        FROM host_broker.hosts AS h ORDER BY host";
    let server = Server::start(settings.clone(), Arc::from([]), None)?;
    super::check_version(&server)?;
    let number = |text: Option<&String>| text.and_then(|text| text.parse().ok()).unwrap_or(0);
    let hosts = server.ask(HOSTS)?.into_iter().map(|row| {
        let is_true = |index: usize| row.get(index).is_some_and(|text| text == "t");
        let (has_stopped, has_left) = (is_true(4), is_true(6));
        let age = row.get(5).and_then(|text| text.parse::<i64>().ok());
        // If the clock of the server was set back, the last sign is in the future. It proves nothing about now.
        let seen = age.map(|seconds| u64::try_from(seconds).ok().map(Duration::from_secs));
        let daemon = match seen {
            _ if has_left => DaemonState::Left,
            None => DaemonState::Never,
            Some(_) if has_stopped => DaemonState::Stopped,
            Some(Some(seen)) if seen < STANDS_STILL => DaemonState::Running,
            Some(_) => DaemonState::Silent,
        };
        HostLook {
            host: row.first().cloned().unwrap_or_default(),
            daemon,
            seen: seen.flatten(),
            fence: number(row.get(1)),
            rows: number(row.get(2)),
            batches: number(row.get(3)),
            published: row.get(10).and_then(|number| number.parse().ok()),
            publication: row.get(7).and_then(|host| host.parse().ok()).map(|host| (host, number(row.get(8)))),
            publication_fault: row.get(9).cloned().unwrap_or_default(),
        }
    });
    let (server_version, durability, faults) = promise(&server.ask(SETTINGS)?);
    Ok(Look { hosts: hosts.collect(), server_version, durability, faults })
}

/// The use of a quota that all hosts share.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QuotaLook {
    /// The provider, or its namespace.
    pub provider: String,
    /// The quota: a level, or `amount:<action>`.
    pub scope: String,
    /// The use of today on all hosts, in calls or millionths.
    pub used: i64,
}

/// Reads the use of these shared quotas, of today by the clock of the server. A quota without a use is left out.
///
/// # Errors
/// [`StoreError::Fleet`] if the database cannot be read.
pub fn look_at_quotas(settings: &Settings, quotas: Vec<(String, String)>) -> Result<Vec<QuotaLook>, StoreError> {
    let server = Server::start(settings.clone(), Arc::from([]), None)?;
    super::check_version(&server)?;
    Ok(server.quotas(quotas)?)
}

/// Reads the last publication of a host, as its number and its document. `None` if the host has published nothing.
///
/// # Errors
/// [`StoreError::Fleet`] if the database cannot be read.
pub fn publication(settings: &Settings, host: &HostName) -> Result<Option<(i64, String)>, StoreError> {
    let server = Server::start(settings.clone(), Arc::from([]), None)?;
    super::check_version(&server)?;
    Ok(server.publication(host.clone())?)
}

/// The query of the settings that decide what the server keeps.
pub(super) const SETTINGS: &str = "SELECT current_setting('server_version'), current_setting('fsync'),
    current_setting('full_page_writes'), current_setting('synchronous_standby_names')";

/// Checks that a failover loses no acknowledged row, or that an operator accepts it.
///
/// # Errors
/// [`FleetError::Durability`] or [`FleetError::Unsynced`].
pub(super) fn check_durability(rows: &[Vec<String>], accepts_one_machine: bool) -> Result<(), FleetError> {
    let (_, durability, faults) = promise(rows);
    judged(durability, &faults, accepts_one_machine)
}

fn judged(durability: ServerDurability, faults: &[String], accepts_one_machine: bool) -> Result<(), FleetError> {
    match durability {
        ServerDurability::SynchronousStandby => Ok(()),
        ServerDurability::OneMachine if accepts_one_machine => Ok(()),
        ServerDurability::OneMachine => Err(FleetError::Durability(faults.join(", "))),
        ServerDurability::None => Err(FleetError::Unsynced(faults.join(", "))),
    }
}

impl Look {
    /// Checks that the host is there, and that the server keeps what the operator demands.
    ///
    /// # Errors
    /// The reason why no daemon of the host starts.
    pub fn check(&self, settings: &Settings) -> Result<(), FleetError> {
        match self.hosts.iter().find(|found| found.host == settings.host.as_str()) {
            None => return Err(FleetError::NoHost(settings.host.to_string())),
            Some(found) if found.daemon == DaemonState::Left => return Err(FleetError::Left(found.host.clone())),
            Some(_) => {}
        }
        judged(self.durability, &self.faults, settings.accepts_one_machine)
    }
}

/// Returns the version, the durability, and the reasons for it, from the answer to [`SETTINGS`].
fn promise(rows: &[Vec<String>]) -> (String, ServerDurability, Vec<String>) {
    let row = rows.first().map_or(&[][..], Vec::as_slice);
    let setting = |index: usize| row.get(index).map_or("", String::as_str);
    let mut faults = Vec::new();
    for (name, value) in [("fsync", setting(1)), ("full_page_writes", setting(2))] {
        if value != "on" {
            faults.push(format!("{name} is off"));
        }
    }
    let loses = !faults.is_empty();
    let has_standby = !setting(3).is_empty();
    if !has_standby && !loses {
        faults.push("there is no synchronous standby (synchronous_standby_names)".to_owned());
    }
    let durability = match (loses, has_standby) {
        (true, _) => ServerDurability::None,
        (false, true) => ServerDurability::SynchronousStandby,
        (false, false) => ServerDurability::OneMachine,
    };
    (setting(0).to_owned(), durability, faults)
}
