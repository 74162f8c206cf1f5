//! One provider's table: what is common to all, and what its kind needs.

use crate::config::{ConfigError, Environment};
use crate::providers::mcp::settings as mcp;
use crate::providers::{bridge, child, cloud_logs, files, github, mock};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use secrets::source::SecretSource;
use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::borrow::Cow;
use std::collections::BTreeMap;
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
    /// The settings of the provider's kind.
    pub kind: Kind,
}

/// What a provider's kind needs.
#[derive(Debug, Clone)]
pub enum Kind {
    /// By script.
    Mock(mock::Settings),
    /// GitHub, and where its token comes from.
    Github(github::Settings, SecretSource),
    /// What services on this host have logged.
    CloudLogs(cloud_logs::Settings),
    /// The groups' workspaces.
    Files(files::Settings),
    /// A program that speaks `bridge-v1`, and how it is started.
    Bridge(bridge::Settings, child::Settings),
    /// An MCP server, and how it is reached.
    Mcp(mcp::Settings, Reach),
}

/// How an MCP server is reached.
#[derive(Debug, Clone, Serialize)]
#[serde(untagged)]
pub enum Reach {
    /// It is a program, which is started.
    Child(child::Settings),
    /// It is elsewhere.
    Address(mcp::Address),
}

impl Kind {
    /// The word in the file.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Mock(_) => "mock",
            Self::Github(..) => "github",
            Self::CloudLogs(_) => "cloud-logs",
            Self::Files(_) => "files",
            Self::Bridge(..) => "bridge",
            Self::Mcp(..) => "mcp",
        }
    }

    /// The secrets it needs, by the name under which results show that one was cut out.
    pub fn secrets(&self) -> BTreeMap<&str, &SecretSource> {
        match self {
            Self::Github(_, token) => BTreeMap::from([("token", token)]),
            Self::Mcp(_, Reach::Address(address)) => {
                let client_secret = address.oauth.as_ref().and_then(|oauth| oauth.client_secret.as_ref());
                let token = address.token.as_ref().map(|token| ("token", token));
                token.into_iter().chain(client_secret.map(|secret| ("client_secret", secret))).collect()
            }
            Self::Bridge(_, child) | Self::Mcp(_, Reach::Child(child)) => {
                child.secrets.iter().map(|(name, source)| (name.as_str(), source)).collect()
            }
            Self::Mock(_) | Self::CloudLogs(_) | Self::Files(_) => BTreeMap::new(),
        }
    }
}

impl ProviderTable {
    /// How long a caller waits, if not as configured for all: the own time of a bridge or server, and what it takes to
    /// answer.
    pub fn patience(&self) -> Option<Duration> {
        let own = self.timeout_ms.map(Duration::from_millis);
        let seconds = |seconds| Some(Duration::from_secs(seconds) + shared::limits::PROVIDER_MARGIN);
        own.or_else(|| match &self.kind {
            Kind::Bridge(settings, _) => seconds(settings.timeout_seconds),
            Kind::Mcp(settings, _) => seconds(settings.timeout_seconds),
            Kind::Mock(_) | Kind::Github(..) | Kind::CloudLogs(_) | Kind::Files(_) => None,
        })
    }
}

impl<'de> Deserialize<'de> for ProviderTable {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut table = toml::Table::deserialize(deserializer)?;
        let kind: String = take(&mut table, "kind")?.ok_or_else(|| D::Error::missing_field("kind"))?;
        let enabled = take(&mut table, "enabled")?.unwrap_or(true);
        let timeout_ms = take(&mut table, "timeout_ms")?;
        if ["bridge", "mcp"].contains(&kind.as_str()) {
            foreign(&table)?;
        }
        let kind = match kind.as_str() {
            "mock" => Kind::Mock(rest(table)?),
            "github" => {
                let token = take(&mut table, "token")?;
                let token = token.unwrap_or_else(|| SecretSource::Env { env: GITHUB_TOKEN.to_owned() });
                Kind::Github(rest(table)?, token)
            }
            "cloud-logs" => Kind::CloudLogs(rest(table)?),
            "files" => Kind::Files(rest(table)?),
            "bridge" => {
                let child = part(&mut table, &bridge::Settings::KEYS, &child::Settings::KEYS)?;
                Kind::Bridge(rest(table)?, child)
            }
            "mcp" => {
                let reach = if table.contains_key("url") {
                    Reach::Address(part(&mut table, &mcp::Settings::KEYS, &mcp::Address::KEYS)?)
                } else {
                    Reach::Child(part(&mut table, &mcp::Settings::KEYS, &child::Settings::KEYS)?)
                };
                Kind::Mcp(rest(table)?, reach)
            }
            other => {
                let kinds = &["mock", "github", "cloud-logs", "files", "bridge", "mcp"];
                return Err(D::Error::unknown_variant(other, kinds));
            }
        };
        Ok(Self { enabled, timeout_ms, kind })
    }
}

impl Serialize for ProviderTable {
    /// As it is written in the file, with all that it may leave out.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Written<'a, M, T> {
            kind: &'static str,
            enabled: bool,
            timeout_ms: Option<u64>,
            #[serde(flatten)]
            more: M,
            #[serde(flatten)]
            settings: &'a T,
        }
        fn write<M: Serialize, T: Serialize, S: Serializer>(
            table: &ProviderTable,
            more: M,
            settings: &T,
            to: S,
        ) -> Result<S::Ok, S::Error> {
            let ProviderTable { enabled, timeout_ms, kind } = table;
            let (enabled, timeout_ms) = (*enabled, *timeout_ms);
            Written { kind: kind.word(), enabled, timeout_ms, more, settings }.serialize(to)
        }
        let secrets = self.kind.secrets();
        match &self.kind {
            Kind::Mock(settings) => write(self, secrets, settings, serializer),
            Kind::Github(settings, _) => write(self, secrets, settings, serializer),
            Kind::CloudLogs(settings) => write(self, secrets, settings, serializer),
            Kind::Files(settings) => write(self, secrets, settings, serializer),
            Kind::Bridge(settings, child) => write(self, child, settings, serializer),
            Kind::Mcp(settings, reach) => write(self, reach, settings, serializer),
        }
    }
}

const GITHUB_TOKEN: &str = "GITHUB_TOKEN";

/// Names the right lines for a program that is written in the JSON form of MCP clients. There, `command` is a text with
/// `args` beside it, and `env` is a table of values.
fn foreign<E: serde::de::Error>(table: &toml::Table) -> Result<(), E> {
    let mut lines = Vec::new();
    let command = table.get("command").and_then(toml::Value::as_str);
    let arguments = table.get("args").and_then(toml::Value::as_array);
    if command.is_some() || arguments.is_some() {
        let own = table.get("command").and_then(toml::Value::as_array);
        let words = own.into_iter().flatten().cloned().chain(command.map(toml::Value::from));
        let all: toml::value::Array = words.chain(arguments.into_iter().flatten().cloned()).collect();
        lines.push(format!("command = {}", toml::Value::Array(all)));
    }
    if let Some(env) = table.get("env").and_then(toml::Value::as_table) {
        lines.push(format!("variables = {}", inline(env.iter().map(|(name, value)| (name, value.clone())))));
        // The value may be a secret, so no message shows it.
        let is_secret = |name: &&String| ["TOKEN", "KEY", "SECRET", "PASSWORD"].iter().any(|word| name.contains(word));
        if let Some(secret) = env.keys().find(is_secret) {
            lines.pop();
            let names = env.keys().map(|name| {
                let source = toml::Table::from_iter([("env".to_owned(), toml::Value::from(name.clone()))]);
                (name, toml::Value::Table(source))
            });
            lines.push(format!("secrets = {}  # {secret} from the broker's own environment", inline(names)));
        }
    }
    if lines.is_empty() {
        return Ok(());
    }
    Err(E::custom(format!("this is how MCP clients write it; did you mean: {}", lines.join("; "))))
}

fn inline<'a>(members: impl Iterator<Item = (&'a String, toml::Value)>) -> String {
    toml::Value::Table(members.map(|(name, value)| (name.clone(), value)).collect()).to_string()
}

fn take<T: DeserializeOwned, E: serde::de::Error>(table: &mut toml::Table, key: &str) -> Result<Option<T>, E> {
    table.remove(key).map(|value| value.try_into().map_err(|error| E::custom(format!("{key}: {error}")))).transpose()
}

/// Takes what is read with these keys out of a table that else has its own. The two are read by two structs, and what the one
/// said of an unknown key would lack the other's.
fn part<T: DeserializeOwned, E: serde::de::Error>(
    table: &mut toml::Table,
    own: &[&str],
    keys: &[&str],
) -> Result<T, E> {
    let taken = keys.iter().filter_map(|key| table.remove_entry(*key)).collect();
    if let Some(unknown) = table.keys().find(|key| !own.contains(&key.as_str())) {
        let known: Vec<String> = own.iter().chain(keys).map(|key| format!("`{key}`")).collect();
        return Err(E::custom(format!("unknown field `{unknown}`, expected one of {}", known.join(", "))));
    }
    rest(taken)
}

fn rest<T: DeserializeOwned, E: serde::de::Error>(table: toml::Table) -> Result<T, E> {
    toml::Value::Table(table).try_into().map_err(|error: toml::de::Error| E::custom(error.message()))
}

impl ProviderTable {
    /// Applies the environment's values, which are the same for every provider of the kind.
    ///
    /// # Errors
    /// [`ConfigError::Environment`].
    pub(super) fn apply(&mut self, environment: &Environment) -> Result<(), ConfigError> {
        match &mut self.kind {
            Kind::Github(settings, _) => {
                if let Some(repos) = environment.get("EXT_GITHUB_REPOS") {
                    settings.repos =
                        repos.split(',').map(str::trim).filter(|repo| !repo.is_empty()).map(str::to_owned).collect();
                }
            }
            Kind::CloudLogs(settings) => {
                if let Some(hours) = number(environment, "EXT_LOG_QUERY_MAX_HOURS")? {
                    settings.max_hours = hours;
                }
                if let Some(results) = number(environment, "EXT_LOG_QUERY_MAX_RESULTS")? {
                    settings.max_results = results;
                }
            }
            Kind::Mock(_) | Kind::Files(_) | Kind::Bridge(..) | Kind::Mcp(..) => {}
        }
        Ok(())
    }
}

fn number(environment: &Environment, name: &'static str) -> Result<Option<u32>, ConfigError> {
    let parse = |text: &String| {
        text.parse().map_err(|_bad| ConfigError::Environment { name, fault: "must be a whole number".into() })
    };
    environment.get(name).map(parse).transpose()
}

impl JsonSchema for ProviderTable {
    fn schema_name() -> Cow<'static, str> {
        "ProviderTable".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let token = generator.subschema_for::<SecretSource>();
        let child = child::Settings::json_schema(generator).to_value();
        let address = mcp::Address::json_schema(generator).to_value();
        let mut kinds = [
            ("mock", mock::Settings::json_schema(generator), None),
            ("github", github::Settings::json_schema(generator), None),
            ("cloud-logs", cloud_logs::Settings::json_schema(generator), None),
            ("files", files::Settings::json_schema(generator), None),
            ("bridge", bridge::Settings::json_schema(generator), Some((&child, "command"))),
            ("mcp", mcp::Settings::json_schema(generator), Some((&child, "command"))),
            ("mcp", mcp::Settings::json_schema(generator), Some((&address, "url"))),
        ];
        for (kind, schema, more) in &mut kinds {
            let object = schema.ensure_object();
            let properties = object.entry("properties").or_insert_with(|| serde_json::json!({}));
            if let Some(properties) = properties.as_object_mut() {
                let more = more.and_then(|(more, _)| more.get("properties")?.as_object());
                properties.extend(more.cloned().unwrap_or_default());
                properties.insert("kind".into(), serde_json::json!({ "const": kind }));
                properties.insert("enabled".into(), serde_json::json!({ "type": "boolean", "default": true }));
                properties.insert("timeout_ms".into(), serde_json::json!({ "type": "integer", "minimum": 1 }));
                if *kind == "github" {
                    properties.insert("token".into(), token.clone().to_value());
                }
            }
            let required = object.entry("required").or_insert_with(|| serde_json::json!([]));
            if let Some(required) = required.as_array_mut() {
                required.push("kind".into());
                required.extend(more.map(|(_, key)| key.into()));
            }
        }
        let kinds: Vec<_> = kinds.into_iter().map(|(_, schema, _)| schema.to_value()).collect();
        json_schema!({ "oneOf": kinds })
    }
}
