//! The table of one provider: the keys of every provider, and those of its kind.

use crate::error::{parse, parse_error};
use crate::{Config, ConfigError, FLOWS};
use platform::Environment;
use provider::kind::{Configured, EnvironmentError, ProviderKind};
use provider::table::{self, TableError};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::IgnoredAny;
use serde::ser::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::json;
use shared::Provider;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use toml::Spanned;

/// The kinds of providers that exist.
pub type Kinds = &'static [&'static dyn ProviderKind];

/// One provider.
///
/// ```toml
/// [providers.github]
/// kind = "github"
/// repos = ["octo/hello"]
/// token = { env = "GITHUB_TOKEN" }
/// ```
#[derive(Debug, Clone)]
pub struct ProviderTable {
    /// Whether the provider accepts calls.
    pub enabled: bool,
    /// The time that a caller waits for a reply, in milliseconds.
    pub timeout_ms: Option<u64>,
    /// The name of the kind: `github`.
    pub kind: &'static str,
    /// The keys of the kind.
    pub configured: Arc<dyn Configured>,
}

impl ProviderTable {
    /// Returns how long a caller waits, if not as the broker's `call_timeout_ms` says.
    pub fn timeout(&self) -> Option<Duration> {
        self.timeout_ms.map(Duration::from_millis).or_else(|| self.configured.timeout())
    }

    /// Returns the table as that of one kind.
    pub fn of_kind<T: Configured>(&self) -> Option<&T> {
        self.configured.of_kind()
    }

    /// Returns the table with all defaults.
    ///
    /// # Errors
    /// A value has no form in TOML.
    pub fn to_table(&self) -> Result<toml::Table, toml::ser::Error> {
        let mut keys = toml::Table::new();
        keys.insert("kind".to_owned(), self.kind.into());
        keys.insert("enabled".to_owned(), self.enabled.into());
        if let Some(timeout_ms) = self.timeout_ms {
            keys.insert("timeout_ms".to_owned(), toml::Value::try_from(timeout_ms)?);
        }
        keys.extend(self.configured.to_table()?);
        Ok(keys)
    }

    /// Applies the environment's values, which are the same for every provider of the kind.
    ///
    /// # Errors
    /// [`ConfigError::Environment`].
    pub(super) fn apply(&mut self, environment: &Environment) -> Result<(), ConfigError> {
        if let Some(configured) = self.configured.with_environment(environment).map_err(invalid)? {
            self.configured = configured;
        }
        Ok(())
    }
}

fn invalid(error: EnvironmentError) -> ConfigError {
    ConfigError::Environment { name: error.name, fault: error.fault }
}

/// Skips the tables of the providers, which [`tables`] parses with the kinds that exist.
pub(super) fn skipped<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<BTreeMap<Provider, ProviderTable>, D::Error> {
    IgnoredAny::deserialize(deserializer).map(|_skipped| BTreeMap::new())
}

/// Parses the tables of the providers in the whole file.
///
/// # Errors
/// [`ConfigError::Parse`] with the line and the key.
pub(super) fn tables(text: &str, path: &Path, kinds: Kinds) -> Result<BTreeMap<Provider, ProviderTable>, ConfigError> {
    #[derive(Deserialize)]
    struct File {
        #[serde(default)]
        providers: BTreeMap<Provider, Spanned<toml::Table>>,
    }
    let File { providers } = parse(text, path)?;
    let parsed = providers.into_iter().map(|(name, keys)| {
        let span = keys.span();
        let error =
            |fault: TableError| parse_error(text, path, &format!("providers.{name}"), Some(span), &fault.to_string());
        table(keys.into_inner(), kinds).map(|table| (name.clone(), table)).map_err(error)
    });
    parsed.collect()
}

fn table(mut keys: toml::Table, kinds: Kinds) -> Result<ProviderTable, TableError> {
    let kind: Option<String> = table::take(&mut keys, "kind")?;
    let kind = kind.ok_or_else(|| TableError::new("missing field `kind`"))?;
    let enabled = table::take(&mut keys, "enabled")?.unwrap_or(true);
    let timeout_ms = table::take(&mut keys, "timeout_ms")?;
    let Some(kind) = kinds.iter().find(|known| known.name() == kind) else {
        let known: Vec<String> = kinds.iter().map(|kind| format!("`{}`", kind.name())).collect();
        return Err(TableError::new(format!("unknown variant `{kind}`, expected one of {}", known.join(", "))));
    };
    let table = ProviderTable { enabled, timeout_ms, kind: kind.name(), configured: kind.parse(keys)? };
    // SECURITY: an approval covers the settings by their digest, so a table without a written form is no table.
    table.to_table().map_err(|error| TableError::new(error.to_string()))?;
    Ok(table)
}

impl Serialize for ProviderTable {
    /// Writes the table with all defaults.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.to_table().map_err(S::Error::custom)?.serialize(serializer)
    }
}

impl JsonSchema for ProviderTable {
    fn schema_name() -> Cow<'static, str> {
        "ProviderTable".into()
    }

    /// Any table; [`Config::schema`](crate::Config::schema) puts the schemas of the kinds in its place.
    fn json_schema(_generator: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "object" })
    }
}

/// Returns the schema of the whole file.
pub(super) fn schema(kinds: Kinds) -> Schema {
    let mut generator = SchemaGenerator::default();
    let tables: Vec<_> = kinds.iter().flat_map(|kind| schemas(*kind, &mut generator)).collect();
    let mut schema = generator.into_root_schema_for::<Config>();
    if let Some(definition) = schema.pointer_mut("/$defs/ProviderTable") {
        *definition = json!({ "oneOf": tables });
    }
    schema
}

/// Returns the schemas of a kind, with the keys of every provider.
fn schemas(kind: &dyn ProviderKind, generator: &mut SchemaGenerator) -> Vec<serde_json::Value> {
    let common = json_schema!({ "properties": {
        "kind": { "const": kind.name() },
        "enabled": { "type": "boolean", "default": true },
        "timeout_ms": { "type": "integer", "minimum": 1 },
    } });
    let mut schemas = kind.schemas(generator);
    for schema in &mut schemas {
        table::extend_schema(schema, &common, Some("kind"));
    }
    schemas.into_iter().map(Schema::to_value).collect()
}
impl Config {
    /// Checks that no two tables serve one capability, and that every name has a provider.
    pub(crate) fn check_providers(&self) -> Result<(), String> {
        let mut places: BTreeMap<&str, &Provider> = BTreeMap::new();
        for (name, table) in &self.providers {
            let Some(place) = table.configured.redirect_url() else { continue };
            if let Some(other) = places.insert(place, name) {
                return Err(format!(
                    "providers.{name}.oauth.redirect_url: providers.{other} has the same value, so one server could receive \
                     the other's codes; use a different URL"
                ));
            }
        }
        if self.providers.keys().any(|name| name.as_str() == FLOWS) {
            return Err(format!(
                "providers.{FLOWS}: the name is reserved for approval requests of flows; choose another name"
            ));
        }
        for (name, table) in &self.providers {
            let owner = name.namespace().and_then(|namespace| self.bridge(namespace));
            if let (Some((bridge, _)), false) = (owner, table.configured.is_namespace()) {
                return Err(format!(
                    "providers.{name}: the prefix is that of providers.{bridge}, a bridge; choose another name"
                ));
            }
            table.configured.check(name).map_err(|fault| format!("providers.{name}.{fault}"))?;
            if let Some(issuer) = table.configured.shares_secret_of()
                && self.identity.issuers.get(issuer).is_none_or(|issuer| issuer.secret.is_none())
            {
                return Err(format!(
                    "providers.{name}.shares_secret_of: there is no [identity.issuers.{issuer}] with a `secret`; add it"
                ));
            }
        }
        // A name without a provider would leave results uninspected, or approval requests unanswered.
        let judged = self.inspection.classifier.iter().filter_map(|classifier| classifier.providers.as_ref()).flatten();
        let judged = judged.map(|provider| ("inspection.classifier.providers".to_owned(), provider));
        let approved = self.people.iter().flat_map(|(person, table)| {
            let named = table.approves.iter().filter_map(|approves| approves.providers.as_ref()).flatten();
            named.map(move |provider| (format!("people.{person}.approves.providers"), provider))
        });
        match judged.chain(approved).find(|(_, provider)| !self.is_asked_about(provider)) {
            Some((place, unknown)) => {
                Err(format!("{place}: there is no provider `{unknown}`; add [providers.{unknown}]"))
            }
            None => Ok(()),
        }
    }

    /// Returns whether approval requests use this name.
    pub(crate) fn is_asked_about(&self, provider: &Provider) -> bool {
        provider.as_str() == FLOWS || self.table_of(provider).is_some()
    }

    fn bridge(&self, name: &str) -> Option<(&Provider, &ProviderTable)> {
        self.providers.iter().find(|(own, table)| own.as_str() == name && table.configured.is_namespace())
    }

    /// Returns the provider's table; for a capability, that of its bridge.
    pub fn table_of(&self, provider: &Provider) -> Option<(&Provider, &ProviderTable)> {
        self.providers.get_key_value(provider).or_else(|| self.bridge(provider.namespace()?))
    }
}
