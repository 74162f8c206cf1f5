//! The database of a fleet, as the table `[store]` names it.

use crate::host::StartError;
use config::Config;
use config::store::StoreTable;
use kernel::Ledger;
use model::{Clock, HostName, LedgerKey};
use platform::home::Home;
use secrets::{Secrets, keys};
use std::path::Path;
use std::sync::Arc;
use store::StoreError;
use store::fleet::commands::Commands;
use store::fleet::{self, BodyKey, FleetError, Look, QuotaLook, Settings};
use store::ledger::chain::Head;

/// The database that gets the records of this host.
pub struct FleetDatabase(Settings);

impl FleetDatabase {
    /// Returns the database that the configuration names; `None` if it names none.
    ///
    /// # Errors
    /// [`StartError::Store`]: the URL or the authorities cannot be used. Nothing is contacted.
    pub fn new(config: &Config, secrets: &Secrets) -> Result<Option<Self>, StartError> {
        config.store.as_ref().map(|table| Self::of(table, secrets)).transpose().map_err(StartError::Store)
    }

    fn of(table: &StoreTable, secrets: &Secrets) -> Result<Self, String> {
        let url = secrets.store_url().map_err(|fault| format!("its secret `url` is {fault}"))?;
        let read = |path: &Path| {
            let text = std::fs::read_to_string(path);
            text.map_err(|error| format!("the authorities {} cannot be read: {error}", path.display()))
        };
        let authorities = table.authorities.as_deref().map(read).transpose()?;
        let settings = Settings::new(table.host.clone(), url, authorities.as_deref())?;
        Ok(Self(if table.accepts_one_machine() { settings.with_one_machine() } else { settings }))
    }

    /// Returns the name of this host in the database.
    pub fn host(&self) -> &HostName {
        self.0.host()
    }

    /// Reads the hosts and the settings of the server.
    ///
    /// # Errors
    /// [`StoreError::Fleet`]: it cannot be reached, or refuses this host.
    pub fn look(&self) -> Result<Look, StoreError> {
        fleet::look(&self.0)
    }

    /// Reads the use of quotas that all hosts share, each a provider and a scope.
    ///
    /// # Errors
    /// [`StoreError::Fleet`]: it cannot be reached, or refuses this host.
    pub fn look_at_quotas(&self, quotas: Vec<(String, String)>) -> Result<Vec<QuotaLook>, StoreError> {
        fleet::look_at_quotas(&self.0, quotas)
    }

    /// Reads the last publication of a host, as its number and its document. `None` if the host has published nothing.
    ///
    /// # Errors
    /// [`StoreError::Fleet`]: it cannot be reached, or refuses this host.
    pub fn publication(&self, host: &HostName) -> Result<Option<(i64, String)>, StoreError> {
        fleet::publication(&self.0, host)
    }

    /// Returns why no daemon of this host starts with this server, and the remedy.
    pub fn refusal(&self, look: &Look) -> Option<FleetError> {
        look.check(&self.0).err()
    }

    /// Checks whether a daemon could start with this database. Changes nothing.
    ///
    /// # Errors
    /// [`StoreError::Fleet`].
    pub fn check(&self) -> Result<(), StoreError> {
        Ok(self.look()?.check(&self.0)?)
    }

    /// Checks that a home without a ledger has the key of the rows, if the database has rows.
    ///
    /// # Errors
    /// [`StartError::Key`]: the key is missing; [`StartError::Ledger`]: the database cannot be read.
    pub fn check_key(&self, home: &Home) -> Result<(), StartError> {
        if keys::has_ledger(home) || keys::has_ledger_key(home) {
            return Ok(());
        }
        let look = self.look()?;
        let has_rows = look.hosts.iter().any(|found| found.host == self.host().as_str() && found.rows > 0);
        if has_rows { Err(keys::missing_in_fleet(home, self.host().as_str()).into()) } else { Ok(()) }
    }

    /// Returns the commands that this host and others send each other.
    pub fn commands(&self) -> Commands {
        Commands::new(self.0.clone())
    }

    /// Opens the one writer of a home, whose rows the database gets first.
    ///
    /// # Errors
    /// [`StoreError`], also if another daemon runs on this home or serves this host.
    pub fn open(
        &self,
        home: &Path,
        clock: Arc<dyn Clock>,
        policy_version: String,
        key: &LedgerKey,
    ) -> Result<Ledger, StoreError> {
        Ledger::open_in_fleet(home, clock, policy_version, (&self.0, &BodyKey::new(key)))
    }

    /// Takes a home out of the database. `by` gives the command, in the ledger's form. Returns the end of the ledger.
    ///
    /// # Errors
    /// [`StoreError`]; it can be repeated. No daemon serves the host in between if the database is marked already.
    pub fn leave(
        &self,
        home: &Path,
        clock: Arc<dyn Clock>,
        policy_version: String,
        (key, by): (&LedgerKey, &str),
    ) -> Result<Head, StoreError> {
        Ledger::leave_fleet(home, clock, policy_version, (&self.0, &BodyKey::new(key)), by)
    }
}
