//! A kind of provider: how its table in the configuration is read, and the operations that are built from it.
//!
//! ```text
//! [providers.<name>]  ─► ProviderKind::parse ─► Configured ─► build(name, deps) ─► BuiltProvider
//! kind = "…"
//! ```
//!
//! A provider crate exports `pub const KIND: &dyn ProviderKind`. The daemon lists it in one line of
//! `host-broker/src/providers.rs`.

use crate::child;
use crate::child::Child;
use crate::contract::Operation;
use crate::definitions::{DefinitionSource, Pinned};
use crate::oauth::Renewing;
use crate::pinned_definitions::PinnedDefinitions;
use crate::table::{self, TableError};
use filter::scrub::Scrubber;
use platform::Platform;
use platform::home::Home;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use secrets::identity::issuers::{self, OwnKey};
use secrets::source::SecretSource;
use secrets::vault::Vault;
use secrets::{Secret, Secrets};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use shared::{Action, Group, Provider};
use std::any::Any;
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::marker::PhantomData;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// A kind of provider.
pub trait ProviderKind: Send + Sync {
    /// Returns the value of `kind` in the configuration.
    fn name(&self) -> &'static str;

    /// Returns the schemas of the table, without the keys of every provider: `kind`, `enabled`, `timeout_ms`. A kind with
    /// alternatives has several.
    fn schemas(&self, generator: &mut SchemaGenerator) -> Vec<Schema>;

    /// Parses the table, without the keys of every provider.
    ///
    /// # Errors
    /// [`TableError`] names the key and the fault.
    fn parse(&self, table: toml::Table) -> Result<Arc<dyn Configured>, TableError>;
}

/// A kind whose table is one struct of settings.
///
/// ```text
/// pub const KIND: &dyn ProviderKind = &SettingsKind::<Settings>::new("mock");
/// ```
pub struct SettingsKind<T> {
    name: &'static str,
    settings: PhantomData<fn() -> T>,
}

impl<T> SettingsKind<T> {
    /// Returns the kind of this name.
    pub const fn new(name: &'static str) -> Self {
        Self { name, settings: PhantomData }
    }
}

impl<T: Configured + DeserializeOwned + JsonSchema> ProviderKind for SettingsKind<T> {
    fn name(&self) -> &'static str {
        self.name
    }

    fn schemas(&self, generator: &mut SchemaGenerator) -> Vec<Schema> {
        vec![T::json_schema(generator)]
    }

    fn parse(&self, table: toml::Table) -> Result<Arc<dyn Configured>, TableError> {
        Ok(Arc::new(table::read::<T>(table)?))
    }
}

/// The parsed table of a provider.
pub trait Configured: Any + Debug + Send + Sync {
    /// Returns the table with all defaults.
    ///
    /// # Errors
    /// A value has no form in TOML.
    fn to_table(&self) -> Result<toml::Table, toml::ser::Error>;

    /// Builds the provider, without any contact to it.
    ///
    /// A kind whose program offers several capabilities returns one provider for each.
    ///
    /// # Errors
    /// The reason why the provider takes no calls. The broker starts without it.
    fn build(&self, name: &Provider, deps: &ProviderDeps<'_>) -> Result<Vec<BuiltProvider>, String>;

    /// Returns the sources of the secrets, by their names within the provider.
    fn secrets(&self) -> BTreeMap<&str, &SecretSource>;

    /// Returns the settings of the program that the broker starts. The broker checks who else could change its files.
    fn child(&self) -> Option<&child::Settings>;

    /// Returns the files that decide what the provider does, such as a script.
    ///
    /// The broker checks which other users could change them. A relative path is relative to the home.
    fn trusted_files(&self) -> Vec<&Path>;

    /// Returns how long a caller waits, if not as the broker's `call_timeout_ms` says.
    fn timeout(&self) -> Option<Duration> {
        None
    }

    /// Returns the table with the values of environment variables; `None` if none of them is set.
    ///
    /// # Errors
    /// [`EnvironmentError`].
    fn with_environment(
        &self,
        _environment: &BTreeMap<String, String>,
    ) -> Result<Option<Arc<dyn Configured>>, EnvironmentError> {
        Ok(None)
    }

    /// Checks the values, once the whole file is read.
    ///
    /// # Errors
    /// `KEY: the fault and the remedy`, without a period.
    fn check(&self, _name: &Provider) -> Result<(), String> {
        Ok(())
    }

    /// Returns whether the provider owns every name that begins with its own and a period.
    fn is_namespace(&self) -> bool {
        false
    }

    /// Returns the issuer in `[identity.issuers]` whose secret the provider shares.
    fn shares_secret_of(&self) -> Option<&str> {
        None
    }

    /// Returns the configured redirect URL of an OAuth client. No two providers can have the same.
    fn redirect_url(&self) -> Option<&str> {
        None
    }

    /// Returns the configured workspaces of the groups.
    fn workspaces(&self) -> Option<&BTreeMap<Group, PathBuf>> {
        None
    }

    /// Returns how to describe a call whose parameters do not fit, for the public members of its record.
    fn about_unparsed(&self) -> Option<AboutUnparsed> {
        None
    }

    /// Creates the directories that the provider needs at the start.
    ///
    /// # Errors
    /// The error of the system.
    fn create_directories(&self, _home: &Home, _groups: &[&Group]) -> std::io::Result<()> {
        Ok(())
    }
}

impl dyn Configured {
    /// Returns the table as that of one kind.
    pub fn of_kind<T: Configured>(&self) -> Option<&T> {
        let any: &dyn Any = self;
        any.downcast_ref()
    }
}

/// An environment variable has an invalid value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{name} {fault}")]
pub struct EnvironmentError {
    /// The name of the variable.
    pub name: &'static str,
    /// The fault, as the end of a sentence.
    pub fault: String,
}

/// Reads a number from the environment.
///
/// # Errors
/// [`EnvironmentError`]: it is not a whole number.
pub fn number(environment: &BTreeMap<String, String>, name: &'static str) -> Result<Option<u32>, EnvironmentError> {
    let parse =
        |text: &String| text.parse().map_err(|_bad| EnvironmentError { name, fault: "must be a whole number".into() });
    environment.get(name).map(parse).transpose()
}

/// Describes a call whose parameters do not fit, for the public members of its record.
pub type AboutUnparsed = fn(&Action, &Map<String, Value>) -> Option<Value>;

/// A provider that was built from a table.
pub struct BuiltProvider {
    /// The name; for a capability, `NAMESPACE.NAME`.
    pub name: Provider,
    /// The description for an agent; `None` if the actions describe themselves.
    pub description: Option<String>,
    /// The actions.
    pub operations: Vec<Arc<dyn Operation>>,
    /// The reason why the actions cannot be called.
    pub fault: Option<String>,
    /// The [check](crate::connection) of the connection to its servers. It is in no catalogue of actions.
    pub connection: Option<Arc<dyn Operation>>,
    /// The server whose definitions can change.
    pub definitions: Option<Arc<dyn DefinitionSource>>,
    /// The digests of the accepted tools of that server.
    pub pinned: Pinned,
    /// The reasons why some configured tools are left out.
    pub left_out: Vec<String>,
}

impl BuiltProvider {
    /// A provider with these actions.
    pub fn new(name: &Provider, operations: Vec<Arc<dyn Operation>>) -> Self {
        Self {
            name: name.clone(),
            description: None,
            operations,
            fault: None,
            connection: None,
            definitions: None,
            pinned: Pinned::new(),
            left_out: Vec::new(),
        }
    }
}

/// The dependencies that all providers share.
#[derive(Clone)]
pub struct CommonDeps<'a> {
    /// The home of the broker.
    pub home: &'a Home,
    /// Time, randomness, child processes, HTTP and the environment.
    pub platform: &'a Platform,
    /// The groups of the configuration.
    pub groups: Vec<&'a Group>,
    /// How long people are asked, unless the table says otherwise.
    pub approval_expiry: Duration,
    /// The URL of the page to which a sign-in returns: `http://127.0.0.1:7421/callback`.
    pub callback_url: &'a str,
    /// The secrets; `None` where the provider is only listed.
    pub secrets: Option<&'a Secrets>,
    /// The dependencies of a provider that runs; `None` where nothing runs.
    pub runtime: Option<&'a RuntimeDeps>,
    /// The definitions that replace the stored ones, and the source that stays connected.
    pub replacement: Option<Replacement<'a>>,
}

/// The dependencies of one provider, beside its table. It has no secret of another provider.
pub struct ProviderDeps<'a> {
    /// The home of the broker.
    pub home: &'a Home,
    /// Time, randomness, child processes, HTTP and the environment.
    pub platform: &'a Platform,
    /// The groups of the configuration.
    pub groups: Vec<&'a Group>,
    /// How long people are asked, unless the table says otherwise.
    pub approval_expiry: Duration,
    /// The URL of the page to which a sign-in returns: `http://127.0.0.1:7421/callback`.
    pub callback_url: &'a str,
    /// The dependencies of a provider that runs; `None` where nothing runs.
    pub runtime: Option<&'a RuntimeDeps>,
    /// The definitions that replace the stored ones, and the source that stays connected.
    pub replacement: Option<Replacement<'a>>,
    name: &'a Provider,
    issuer: Option<&'a str>,
    secrets: Option<&'a Secrets>,
}

/// The definitions that an operator accepts while the broker runs.
#[derive(Clone, Copy)]
pub struct Replacement<'a> {
    /// The definitions.
    pub accepted: &'a PinnedDefinitions,
    /// The source of the provider as it was.
    pub source: Option<&'a Arc<dyn DefinitionSource>>,
}

/// The dependencies of a provider that runs.
#[derive(Clone)]
pub struct RuntimeDeps {
    /// Redacts the messages of programs and servers.
    pub scrubber: Arc<Scrubber>,
    /// The key that signs context tokens.
    pub own: Arc<OwnKey>,
    /// Opens the credentials of persons.
    pub vault: Arc<Vault>,
    /// The renewals in progress. They outlive a replacement of the provider.
    pub renewing: Arc<Renewing>,
}

/// Returns the name of a provider's secret among all secrets: `github.token`.
pub fn secret_name(provider: &Provider, name: &str) -> String {
    format!("{provider}.{name}")
}

impl<'a> ProviderDeps<'a> {
    /// The dependencies of the provider with this name and table.
    pub fn new(common: CommonDeps<'a>, name: &'a Provider, configured: &'a dyn Configured) -> Self {
        let CommonDeps { home, platform, groups, approval_expiry, callback_url, secrets, runtime, replacement } =
            common;
        let issuer = configured.shares_secret_of();
        Self { home, platform, groups, approval_expiry, callback_url, runtime, replacement, name, issuer, secrets }
    }

    /// Returns a secret of the provider.
    pub fn secret(&self, name: &str) -> Option<Arc<Secret>> {
        self.secrets?.get(&secret_name(self.name, name))
    }

    /// Returns the secret that the provider shares with an issuer of context tokens.
    pub fn shared_secret(&self) -> Option<Arc<Secret>> {
        self.secrets?.get(&issuers::secret_name(self.issuer?))
    }

    /// Returns whether the secrets were loaded. If not, the provider is only listed.
    pub fn has_secrets(&self) -> bool {
        self.secrets.is_some()
    }

    /// Returns the accepted definitions of the provider.
    ///
    /// # Errors
    /// They cannot be read, or no operator has accepted any.
    pub fn accepted(&self) -> Result<PinnedDefinitions, String> {
        if let Some(replacement) = self.replacement {
            return Ok(replacement.accepted.clone());
        }
        let accepted = PinnedDefinitions::load(&self.home.accepted(self.name)).map_err(|error| error.to_string())?;
        accepted.ok_or_else(|| {
            format!("its definitions are not accepted; review them with: host-broker provider accept {}", self.name)
        })
    }

    /// Prepares the program of the provider, with its secrets.
    ///
    /// # Errors
    /// The reason why it cannot be started.
    pub fn program(&self, settings: &child::Settings) -> Result<Child, String> {
        let (home, state) = (self.home.path(), self.home.state(self.name));
        Child::new(self.name.as_str(), settings, home, state, &self.platform.environment, |secret| self.secret(secret))
    }
}
