//! The table of a calendar account in the configuration, and the provider that is built from it.

use crate::moment::Zone;
use crate::reference::CalendarId;
use crate::{Calendar, operations};
use provider::child;
use provider::kind::{BuiltProvider, Configured, ProviderDeps, ProviderKind, SettingsKind};
use provider::{remote, table};
use schemars::JsonSchema;
use secrets::source::SecretSource;
use serde::{Deserialize, Serialize};
use shared::Provider;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, RwLock};
use tokio::sync::Semaphore;
use url::Url;

/// The kind `calendar`.
pub const KIND: &dyn ProviderKind = &SettingsKind::<Settings>::new("calendar");

/// The environment variable of the password, unless the table has another source.
const PASSWORD: &str = "CALENDAR_PASSWORD";

/// The settings of one calendar account.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// The address of the account at the CalDAV server: its root, its calendars, or one calendar.
    #[schemars(length(min = 1, max = 1000))]
    pub url: String,
    /// The user name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub username: Option<String>,
    /// The source of the password, or of the access token with `auth = "bearer"`.
    #[serde(default = "password_source")]
    pub password: SecretSource,
    /// How the broker signs in.
    #[serde(default)]
    pub auth: Auth,
    /// The ids of the calendars that can be changed. An empty list allows no change.
    #[serde(default)]
    pub writable: Vec<CalendarId>,
    /// The time zone of times without one: `Europe/Berlin`.
    #[serde(default)]
    pub time_zone: Zone,
    /// Whether events with guests can be changed. The server can then write to the guests.
    #[serde(default)]
    pub change_events_with_guests: bool,
}

/// A way to sign in.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Auth {
    /// With user name and password (RFC 7617).
    #[default]
    Basic,
    /// With an OAuth access token (RFC 6750).
    Bearer,
}

fn password_source() -> SecretSource {
    SecretSource::Env { env: PASSWORD.to_owned() }
}

impl Settings {
    /// Returns the address of the account.
    ///
    /// # Errors
    /// The fault and the remedy.
    pub(crate) fn address(&self) -> Result<Url, String> {
        remote::address(&self.url).map_err(str::to_owned)
    }
}

impl Configured for Settings {
    fn to_table(&self) -> Result<toml::Table, toml::ser::Error> {
        table::write(self)
    }

    fn secrets(&self) -> BTreeMap<&str, &SecretSource> {
        BTreeMap::from([("password", &self.password)])
    }

    fn child(&self) -> Option<&child::Settings> {
        None
    }

    fn trusted_files(&self) -> Vec<&Path> {
        Vec::new()
    }

    fn check(&self, _name: &Provider) -> Result<(), String> {
        self.address()?;
        match (&self.username, self.auth) {
            (None, Auth::Basic) => Err("username: is missing; it is the name of the account at the server".to_owned()),
            (Some(name), _) if !remote::is_username(name) => {
                Err("username: must be one line of text without a colon".to_owned())
            }
            (Some(_) | None, _) => Ok(()),
        }
    }

    fn build(&self, name: &Provider, deps: &ProviderDeps<'_>) -> Result<Vec<BuiltProvider>, String> {
        let calendar = Calendar {
            settings: self.clone(),
            password: deps.secret("password"),
            http: Arc::clone(&deps.platform.http),
            clock: Arc::clone(&deps.platform.clock),
            home: RwLock::new(None),
            parsers: Arc::new(Semaphore::new(2)),
        };
        Ok(vec![BuiltProvider::new(name, operations(name, calendar).map_err(|fault| fault.to_string())?)])
    }
}
