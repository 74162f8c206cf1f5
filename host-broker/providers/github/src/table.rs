//! The table of GitHub in the configuration, and the provider that is built from it.

use crate::{App, Github, Identity, NoKey, Settings};
use provider::kind::{BuiltProvider, Configured, EnvironmentError, ProviderDeps, ProviderKind};
use provider::table::{self, TableError};
use provider::{child, connection};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use secrets::source::SecretSource;
use serde::{Deserialize, Serialize};
use shared::Provider;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

/// The kind `github`.
pub const KIND: &dyn ProviderKind = &GithubKind;

/// The environment variable of the token, unless the table has another source.
const TOKEN: &str = "GITHUB_TOKEN";
/// The names of the secrets of the provider.
const TOKEN_SECRET: &str = "token";
const KEY_SECRET: &str = "private_key";

struct GithubKind;

/// The table of GitHub.
#[derive(Debug, Clone)]
struct Table {
    settings: Settings,
    identity: IdentityTable,
}

/// The keys of the broker's identity at GitHub: `token` or `app`.
#[derive(Debug, Clone)]
enum IdentityTable {
    Token(SecretSource),
    App(AppTable),
}

/// A GitHub App: `{ id = "Iv23liABCdef", installation = 4711, private_key = { file = "/etc/host-broker/app.pem" } }`. It
/// replaces `token`.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct AppTable {
    /// The client id of the app, or its app id, as a text.
    id: String,
    /// The number of the installation. It ends the address of the installation's page at GitHub.
    installation: u64,
    /// The private key of the app, in PEM.
    private_key: SecretSource,
}

impl ProviderKind for GithubKind {
    fn name(&self) -> &'static str {
        "github"
    }

    fn schemas(&self, generator: &mut SchemaGenerator) -> Vec<Schema> {
        let token = generator.subschema_for::<SecretSource>().to_value();
        let app = generator.subschema_for::<AppTable>().to_value();
        let identity = schemars::json_schema!({ "properties": { "token": token, "app": app } });
        let mut schema = Settings::json_schema(generator);
        table::extend_schema(&mut schema, &identity, None);
        vec![schema]
    }

    fn parse(&self, mut keys: toml::Table) -> Result<Arc<dyn Configured>, TableError> {
        let identity = match (table::take(&mut keys, "token")?, table::take(&mut keys, "app")?) {
            (None, None) => IdentityTable::Token(SecretSource::Env { env: TOKEN.to_owned() }),
            (Some(token), None) => IdentityTable::Token(token),
            (None, Some(app)) => IdentityTable::App(fitting(app)?),
            (Some(_), Some(_)) => return Err(TableError::new("`token` and `app` exclude each other; remove one")),
        };
        Ok(Arc::new(Table { settings: table::read(keys)?, identity }))
    }
}

/// Checks the values of an app.
fn fitting(app: AppTable) -> Result<AppTable, TableError> {
    // A client id has letters and digits, an app id digits.
    let is_id = (1..=64).contains(&app.id.len()) && app.id.chars().all(|c| c.is_ascii_alphanumeric() || c == '.');
    if !is_id {
        return Err(TableError::new("app: id: write the client id of the app, such as \"Iv23liABCdef\""));
    }
    if app.installation == 0 {
        return Err(TableError::new(
            "app: installation: write the number that ends the address of the installation's page",
        ));
    }
    Ok(app)
}

impl Configured for Table {
    fn to_table(&self) -> Result<toml::Table, toml::ser::Error> {
        let mut keys = table::write(&self.settings)?;
        let (key, value) = match &self.identity {
            IdentityTable::Token(token) => ("token", toml::Value::try_from(token)?),
            IdentityTable::App(app) => ("app", toml::Value::try_from(app)?),
        };
        keys.insert(key.to_owned(), value);
        Ok(keys)
    }

    fn secrets(&self) -> BTreeMap<&str, &SecretSource> {
        BTreeMap::from([match &self.identity {
            IdentityTable::Token(token) => (TOKEN_SECRET, token),
            IdentityTable::App(app) => (KEY_SECRET, &app.private_key),
        }])
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
        let Some(repos) = environment.get("EXT_GITHUB_REPOS") else { return Ok(None) };
        let repos = repos.split(',').map(str::trim).filter(|repo| !repo.is_empty()).map(str::to_owned).collect();
        let settings = Settings { repos, ..self.settings.clone() };
        Ok(Some(Arc::new(Self { settings, identity: self.identity.clone() })))
    }

    fn build(&self, name: &Provider, deps: &ProviderDeps<'_>) -> Result<Vec<BuiltProvider>, String> {
        // Profiles and rules name its actions, so these are declared even if the key cannot be used.
        let (identity, fault) = match self.identity(deps) {
            Ok(identity) => (identity, None),
            Err(fault) => (Identity::Token(None), Some(fault.to_string())),
        };
        let github = Github::new(self.settings.clone(), identity, Arc::clone(&deps.platform.clock));
        let github = Arc::new(github.map_err(|fault| fault.to_string())?);
        let operations = crate::actions(name, &github).map_err(|fault| fault.to_string())?;
        let connection = Some(connection::check(name, &github));
        Ok(vec![BuiltProvider { fault, connection, ..BuiltProvider::new(name, operations) }])
    }
}

impl Table {
    /// Returns the identity; one without its secret refuses to run.
    fn identity(&self, deps: &ProviderDeps<'_>) -> Result<Identity, NoKey> {
        match &self.identity {
            IdentityTable::Token(_) => Ok(Identity::Token(deps.secret(TOKEN_SECRET))),
            IdentityTable::App(app) => match deps.secret(KEY_SECRET) {
                Some(key) => App::new(app.id.clone(), app.installation, key).map(Identity::App),
                None => Ok(Identity::Token(None)),
            },
        }
    }
}
