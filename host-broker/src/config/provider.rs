//! The table of one provider: the keys of every provider, and those of its kind.

use crate::config::ConfigError;
use crate::providers::KINDS;
use platform::Environment;
use provider::kind::{Configured, EnvironmentError, ProviderKind};
use provider::table;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::Error as _;
use serde::ser::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

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

impl<'de> Deserialize<'de> for ProviderTable {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut keys = toml::Table::deserialize(deserializer)?;
        let kind: Option<String> = table::take(&mut keys, "kind").map_err(D::Error::custom)?;
        let kind = kind.ok_or_else(|| D::Error::missing_field("kind"))?;
        let enabled = table::take(&mut keys, "enabled").map_err(D::Error::custom)?.unwrap_or(true);
        let timeout_ms = table::take(&mut keys, "timeout_ms").map_err(D::Error::custom)?;
        let Some(kind) = KINDS.iter().find(|known| known.name() == kind) else {
            let known: Vec<String> = KINDS.iter().map(|kind| format!("`{}`", kind.name())).collect();
            return Err(D::Error::custom(format!("unknown variant `{kind}`, expected one of {}", known.join(", "))));
        };
        let configured = kind.parse(keys).map_err(D::Error::custom)?;
        Ok(Self { enabled, timeout_ms, kind: kind.name(), configured })
    }
}

impl Serialize for ProviderTable {
    /// Writes the table with all defaults.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut keys = toml::Table::new();
        keys.insert("kind".to_owned(), self.kind.into());
        keys.insert("enabled".to_owned(), self.enabled.into());
        let timeout_ms = self.timeout_ms.map(i64::try_from).transpose().map_err(S::Error::custom)?;
        keys.extend(timeout_ms.map(|timeout_ms| ("timeout_ms".to_owned(), timeout_ms.into())));
        keys.extend(self.configured.to_table().map_err(S::Error::custom)?);
        keys.serialize(serializer)
    }
}

impl JsonSchema for ProviderTable {
    fn schema_name() -> Cow<'static, str> {
        "ProviderTable".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let kinds: Vec<_> = KINDS.iter().flat_map(|kind| schemas(*kind, generator)).collect();
        json_schema!({ "oneOf": kinds })
    }
}

/// The schemas of a kind, with the keys of every provider.
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
