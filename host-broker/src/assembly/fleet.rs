//! The database of a fleet, as the table `[store]` names it.

use crate::host::StartError;
use config::Config;
use config::store::StoreTable;
use kernel::Ledger;
use model::Clock;
use platform::home::Home;
use secrets::{Secrets, keys};
use std::path::Path;
use std::sync::Arc;
use store::StoreError;
use store::fleet::{self, FleetError, Look, ServerDurability, Settings};

/// The database that gets the records of this host.
pub struct FleetDatabase {
    settings: Settings,
    host: String,
    accepts_one_machine: bool,
}

impl FleetDatabase {
    /// Returns the database that the configuration names; `None` if it names none.
    ///
    /// # Errors
    /// [`StartError::Store`]: the URL or the authorities cannot be used. Nothing is contacted.
    pub fn new(config: &Config, secrets: &Secrets) -> Result<Option<Self>, StartError> {
        config.store.as_ref().map(|table| Self::of(table, secrets)).transpose().map_err(StartError::Store)
    }

    fn of(table: &StoreTable, secrets: &Secrets) -> Result<Self, String> {
        let host = table.host.as_str();
        let url = secrets.store_url().map_err(|fault| format!("its secret `url` is {fault}"))?;
        let read = |path: &Path| {
            let text = std::fs::read_to_string(path);
            text.map_err(|error| format!("the authorities {} cannot be read: {error}", path.display()))
        };
        let authorities = table.authorities.as_deref().map(read).transpose()?;
        let settings = Settings::new(host, url, authorities.as_deref())?;
        let accepts_one_machine = table.accepts_one_machine();
        let settings = if accepts_one_machine { settings.with_one_machine() } else { settings };
        Ok(Self { settings, host: host.to_owned(), accepts_one_machine })
    }

    /// Returns the name of this host in the database.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Reads the hosts and the settings of the server.
    ///
    /// # Errors
    /// [`StoreError::Fleet`]: it cannot be reached, or refuses this host.
    pub fn look(&self) -> Result<Look, StoreError> {
        fleet::look(&self.settings)
    }

    /// Returns why no daemon of this host starts with this server, and the remedy.
    pub fn refusal(&self, look: &Look) -> Option<FleetError> {
        if !look.hosts.iter().any(|found| found.host == self.host) {
            return Some(FleetError::NoHost(self.host.clone()));
        }
        match look.durability {
            ServerDurability::SynchronousStandby => None,
            ServerDurability::OneMachine if self.accepts_one_machine => None,
            ServerDurability::OneMachine => Some(FleetError::Durability(look.faults.join(", "))),
            ServerDurability::None => Some(FleetError::Unsynced(look.faults.join(", "))),
        }
    }

    /// Checks whether a daemon could start with this database. Changes nothing.
    ///
    /// # Errors
    /// [`StoreError::Fleet`].
    pub fn check(&self) -> Result<(), StoreError> {
        let refusal = self.refusal(&self.look()?);
        refusal.map_or(Ok(()), |refusal| Err(refusal.into()))
    }

    /// Checks that a home without a ledger does not make a key in the place of the one that the rows were written with.
    ///
    /// # Errors
    /// [`StartError::Key`]: the key is missing; [`StartError::Ledger`]: the database cannot be read.
    pub fn check_key(&self, home: &Home) -> Result<(), StartError> {
        if keys::has_ledger(home) || keys::has_ledger_key(home) {
            return Ok(());
        }
        let look = self.look()?;
        let has_rows = look.hosts.iter().any(|found| found.host == self.host && found.rows > 0);
        if has_rows { Err(keys::missing_in_fleet(home, &self.host).into()) } else { Ok(()) }
    }

    /// Opens the one writer of a home, whose rows the database gets first.
    ///
    /// # Errors
    /// [`StoreError`], also if another daemon runs on this home or serves this host.
    pub fn open(&self, home: &Path, clock: Arc<dyn Clock>, policy_version: String) -> Result<Ledger, StoreError> {
        Ledger::open_in_fleet(home, clock, policy_version, &self.settings)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use config::store::HostName;

    #[test]
    fn the_configuration_and_the_database_have_the_same_names_of_hosts() {
        let (longest, longer) = ("a".repeat(63), "a".repeat(64));
        for name in ["a", "a1", "eu-west-1", "a-", &longest, "", "1a", "-a", "A", "a.b", "a_b", "a b", "ä", &longer] {
            assert_eq!(name.parse::<HostName>().is_ok(), fleet::is_host_name(name), "{name}");
        }
    }
}
