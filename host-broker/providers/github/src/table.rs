//! The table of GitHub in the configuration, and the provider that is built from it.

use crate::Settings;
use provider::child;
use provider::kind::{BuiltProvider, Configured, EnvironmentError, ProviderDeps, ProviderKind};
use provider::table::{self, TableError};
use schemars::{JsonSchema as _, Schema, SchemaGenerator};
use secrets::source::SecretSource;
use shared::Provider;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

/// The kind `github`.
pub const KIND: &dyn ProviderKind = &GithubKind;

/// The environment variable of the token, unless the table has another source.
const TOKEN: &str = "GITHUB_TOKEN";

struct GithubKind;

/// The table of GitHub.
#[derive(Debug, Clone)]
struct Table {
    settings: Settings,
    token: SecretSource,
}

impl ProviderKind for GithubKind {
    fn name(&self) -> &'static str {
        "github"
    }

    fn schemas(&self, generator: &mut SchemaGenerator) -> Vec<Schema> {
        let token = generator.subschema_for::<SecretSource>().to_value();
        let token = schemars::json_schema!({ "properties": { "token": token } });
        let mut schema = Settings::json_schema(generator);
        table::extend_schema(&mut schema, &token, None);
        vec![schema]
    }

    fn parse(&self, mut keys: toml::Table) -> Result<Arc<dyn Configured>, TableError> {
        let token = table::take(&mut keys, "token")?;
        let token = token.unwrap_or_else(|| SecretSource::Env { env: TOKEN.to_owned() });
        Ok(Arc::new(Table { settings: table::read(keys)?, token }))
    }
}

impl Configured for Table {
    fn to_table(&self) -> Result<toml::Table, toml::ser::Error> {
        let mut keys = table::write(&self.settings)?;
        keys.insert("token".to_owned(), toml::Value::try_from(&self.token)?);
        Ok(keys)
    }

    fn secrets(&self) -> BTreeMap<&str, &SecretSource> {
        BTreeMap::from([("token", &self.token)])
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
        Ok(Some(Arc::new(Self { settings, token: self.token.clone() })))
    }

    fn build(&self, name: &Provider, deps: &ProviderDeps<'_>) -> Result<Vec<BuiltProvider>, String> {
        let (token, clock) = (deps.secret("token"), Arc::clone(&deps.platform.clock));
        let operations = crate::operations(name, self.settings.clone(), token, clock);
        Ok(vec![BuiltProvider::new(name, operations.map_err(|fault| fault.to_string())?)])
    }
}
