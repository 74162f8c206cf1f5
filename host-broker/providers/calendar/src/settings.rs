//! The table of calendar accounts in the configuration, and the provider that is built from it.

use crate::moment::Zone;
use crate::reference::CalendarId;
use crate::{Calendar, operations};
use model::ChatType;
use provider::accounts::{self, Account, Credentials, SignIn};
use provider::child;
use provider::connection;
use provider::contract::Operation;
use provider::kind::{BuiltProvider, Configured, ProviderDeps, ProviderKind, SettingsKind};
use provider::{oauth, remote, table};
use schemars::JsonSchema;
use secrets::source::SecretSource;
use serde::{Deserialize, Serialize};
use shared::Provider;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, LazyLock};
use tokio::sync::Semaphore;
use url::Url;

/// The kind `calendar`.
pub const KIND: &dyn ProviderKind = &SettingsKind::<Settings>::new("calendar");

/// The environment variable of the password, unless the table has another source.
const PASSWORD: &str = "CALENDAR_PASSWORD";

/// The address of Google Calendar.
const GOOGLE: &str = "https://www.googleapis.com/calendar/v3/";

/// The settings of one calendar account, or of the accounts of persons at one server.
///
/// With a name in two parts, such as `person.calendar`, each call uses an account of the person behind it. The
/// name of that account is the user name.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// The API of the calendars.
    #[serde(default, skip_serializing_if = "Api::is_caldav")]
    pub api: Api,
    /// The address of the account at the CalDAV server: its root, its calendars, or one calendar. `api = "google"` needs
    /// none; it has `https://www.googleapis.com/calendar/v3/`, unless set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 1000))]
    pub url: Option<String>,
    /// The user name. Accounts of persons have their own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub username: Option<String>,
    /// The source of the password, or of the access token with `auth = "bearer"`: the environment variable
    /// `CALENDAR_PASSWORD`, unless set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub password: Option<SecretSource>,
    /// How the broker signs in.
    #[serde(default)]
    pub auth: Auth,
    /// The kinds of chats in which accounts of persons are used; only `private`, unless set. An empty list allows all,
    /// and calls without a chat.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Vec<String>>")]
    pub chat_types: Option<Vec<ChatType>>,
    /// The OAuth client with which people link their accounts. Without it, an operator stores their passwords.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oauth: Option<oauth::Settings>,
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

/// An API of calendars.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Api {
    /// `CalDAV` (RFC 4791).
    #[default]
    Caldav,
    /// The REST API of Google Calendar, version 3.
    Google,
}

impl Api {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
    fn is_caldav(&self) -> bool {
        *self == Self::Caldav
    }
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

/// The source of the password, unless the table has another one.
static DEFAULT_PASSWORD: LazyLock<SecretSource> = LazyLock::new(|| SecretSource::Env { env: PASSWORD.to_owned() });

impl Settings {
    /// Returns the address of the account.
    ///
    /// # Errors
    /// The fault and the remedy.
    pub(crate) fn address(&self) -> Result<Url, String> {
        remote::address(self.address_text()?).map_err(str::to_owned)
    }

    fn address_text(&self) -> Result<&str, &'static str> {
        match (&self.url, self.api) {
            (Some(url), _) => Ok(url),
            (None, Api::Google) => Ok(GOOGLE),
            (None, Api::Caldav) => Err("url: is missing; it is the address of the account at the CalDAV server"),
        }
    }

    /// Returns the fault of a table with `api = "google"`, and the remedy.
    fn google_fault(&self) -> Option<&'static str> {
        match (self.api, self.auth) {
            (Api::Caldav, _) => None,
            (Api::Google, Auth::Basic) => Some("auth: must be \"bearer\" with api = \"google\""),
            (Api::Google, Auth::Bearer) => {
                self.username.is_some().then_some("username: api = \"google\" has none; remove it")
            }
        }
    }

    /// Returns whether the accounts are those of persons. A shared account has a user name or a token.
    fn is_of_persons(&self) -> bool {
        self.oauth.is_some() || self.auth == Auth::Basic && self.username.is_none()
    }

    /// Returns the account, and the actions that link accounts of persons.
    fn account(&self, name: &Provider, deps: &ProviderDeps<'_>) -> Result<(Account, Vec<Arc<dyn Operation>>), String> {
        if !self.is_of_persons() {
            let username = self.username.clone().unwrap_or_default();
            return Ok((Account::Shared { username, secret: deps.secret("password") }, Vec::new()));
        }
        let server = self.address_text()?;
        let sign_in = self.oauth.as_ref().map(|settings| SignIn {
            settings,
            server: server.to_owned(),
            // Sign-in servers of calendars refuse a request with `resource`.
            names_resource: false,
            names_address: false,
            deadline: accounts::SIGN_IN_TIMEOUT,
        });
        Credentials::of_persons(name, self.chat_types.as_ref(), sign_in, deps)
    }
}

impl Configured for Settings {
    fn to_table(&self) -> Result<toml::Table, toml::ser::Error> {
        table::write(self)
    }

    fn secrets(&self) -> BTreeMap<&str, &SecretSource> {
        if !self.is_of_persons() {
            return BTreeMap::from([("password", self.password.as_ref().unwrap_or(&DEFAULT_PASSWORD))]);
        }
        let client_secret = self.oauth.as_ref().and_then(|oauth| oauth.client_secret.as_ref());
        client_secret.into_iter().map(|secret| ("client_secret", secret)).collect()
    }

    fn child(&self) -> Option<&child::Settings> {
        None
    }

    fn trusted_files(&self) -> Vec<&Path> {
        Vec::new()
    }

    fn redirect_url(&self) -> Option<&str> {
        self.oauth.as_ref()?.redirect_url.as_deref()
    }

    fn check(&self, name: &Provider) -> Result<(), String> {
        self.address()?;
        if let Some(fault) = self.google_fault() {
            return Err(fault.to_owned());
        }
        let own = [("username", self.username.is_some()), ("password", self.password.is_some())];
        if self.chat_types.is_some() && !name.is_namespaced() {
            return Err("chat_types: only accounts of persons have it; remove it".to_owned());
        }
        accounts::check_table(name, &own, self.oauth.as_ref(), ("bearer", self.auth == Auth::Bearer))?;
        match (&self.username, self.auth) {
            (None, Auth::Basic) if !name.is_namespaced() => {
                Err("username: is missing; it is the name of the account at the server".to_owned())
            }
            (Some(name), _) if !remote::is_username(name) => {
                Err("username: must be one line of text without a colon".to_owned())
            }
            (Some(_) | None, _) => Ok(()),
        }
    }

    fn build(&self, name: &Provider, deps: &ProviderDeps<'_>) -> Result<Vec<BuiltProvider>, String> {
        let (account, linking) = self.account(name, deps)?;
        let calendar = Arc::new(Calendar {
            settings: Arc::new(self.clone()),
            account,
            http: Arc::clone(&deps.platform.http),
            clock: Arc::clone(&deps.platform.clock),
            homes: Arc::default(),
            parsers: Arc::new(Semaphore::new(2)),
        });
        let mut operations = operations(name, &calendar).map_err(|fault| fault.to_string())?;
        operations.extend(linking);
        let connection = Some(connection::check(name, &calendar));
        Ok(vec![BuiltProvider { connection, ..BuiltProvider::new(name, operations) }])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OAUTH: &str = "[oauth]\nclient_id = \"a\"\nauthorize_url = \"https://sign-in.example/authorize\"\n\
                         token_url = \"https://sign-in.example/token\"\n";

    fn check(name: &str, lines: &str) -> Result<(), String> {
        toml::from_str::<Settings>(lines).unwrap().check(&name.parse().unwrap())
    }

    #[test]
    fn google_needs_tokens_and_no_address() {
        let google = "api = \"google\"\nauth = \"bearer\"\n";
        assert_eq!(check("calendar", google), Ok(()));
        assert_eq!(check("person.calendar", &format!("{google}{OAUTH}")), Ok(()));
        assert_eq!(check("calendar", &format!("{google}url = \"http://127.0.0.1:1/calendar/v3/\"")), Ok(()));
        for (name, lines, fault) in [
            ("calendar", "username = \"ada\"".to_owned(), "url: is missing"),
            ("calendar", "api = \"caldav\"\nusername = \"ada\"".to_owned(), "url: is missing"),
            ("calendar", "api = \"google\"".to_owned(), "auth: must be \"bearer\" with api"),
            ("calendar", "api = \"google\"\nusername = \"ada\"".to_owned(), "auth: must be \"bearer\" with api"),
            ("calendar", format!("{google}username = \"ada\""), "username: api = \"google\" has none"),
            ("calendar", format!("{google}url = \"http://www.googleapis.com/\""), "url: must be https"),
            ("person.calendar", google.to_owned(), "oauth: is missing"),
            ("person.calendar", "api = \"google\"".to_owned(), "auth: must be \"bearer\" with api"),
        ] {
            let refused = check(name, &lines).unwrap_err();
            assert!(refused.starts_with(fault), "{lines}: {refused}");
        }
    }

    #[test]
    fn the_address_of_google_is_known() {
        let settings: Settings = toml::from_str("api = \"google\"\nauth = \"bearer\"").unwrap();
        assert_eq!(settings.address().unwrap().as_str(), "https://www.googleapis.com/calendar/v3/");
    }
}
