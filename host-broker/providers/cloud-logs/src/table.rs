//! The table of the logs in the configuration, and the provider that is built from it.

use crate::{Logs, Parts, Settings};
use provider::child;
use provider::connection;
use provider::kind::{BuiltProvider, Configured, EnvironmentError, ProviderDeps, ProviderKind, SettingsKind, number};
use provider::table;
use secrets::source::SecretSource;
use shared::Provider;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

/// The kind `cloud-logs`.
pub const KIND: &dyn ProviderKind = &SettingsKind::<Settings>::new("cloud-logs");

impl Configured for Settings {
    fn to_table(&self) -> Result<toml::Table, toml::ser::Error> {
        table::write(self)
    }

    fn secrets(&self) -> BTreeMap<&str, &SecretSource> {
        self.servers().filter_map(|(name, secret)| Some((name, secret?))).collect()
    }

    fn check(&self, _name: &Provider) -> Result<(), String> {
        self.check_servers().map_err(|fault| fault.to_string())
    }

    fn child(&self) -> Option<&child::Settings> {
        None
    }

    fn trusted_files(&self) -> Vec<&Path> {
        Vec::new()
    }

    fn with_environment(
        &self,
        environment: &BTreeMap<String, String>,
    ) -> Result<Option<Arc<dyn Configured>>, EnvironmentError> {
        let hours = number(environment, "EXT_LOG_QUERY_MAX_HOURS")?;
        let results = number(environment, "EXT_LOG_QUERY_MAX_RESULTS")?;
        if hours.is_none() && results.is_none() {
            return Ok(None);
        }
        let settings = self.clone();
        Ok(Some(Arc::new(Self {
            max_hours: hours.unwrap_or(settings.max_hours),
            max_results: results.unwrap_or(settings.max_results),
            ..settings
        })))
    }

    fn build(&self, name: &Provider, deps: &ProviderDeps<'_>) -> Result<Vec<BuiltProvider>, String> {
        let secrets = self.servers().filter_map(|(name, _)| Some((name.to_owned(), deps.secret(name)?)));
        let parts = Parts {
            commands: &deps.platform.commands,
            http: &deps.platform.http,
            clock: &deps.platform.clock,
            secrets: secrets.collect(),
        };
        let logs = Arc::new(Logs::new(self.clone(), &parts).map_err(|error| error.to_string())?);
        let operations = crate::actions(name, &logs).map_err(|error| error.to_string())?;
        // Files and journals of this machine have no connection.
        let connection = self.servers().next().is_some().then(|| connection::check(name, &logs));
        Ok(vec![BuiltProvider { connection, ..BuiltProvider::new(name, operations) }])
    }
}
