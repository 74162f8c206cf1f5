//! `cloud-logs`: the logs of services on this host, in Loki, in CloudWatch and in Google Cloud Logging.
//!
//! Three actions that only read: `query_logs`, `get_log_entry`, `list_services`. They ask all configured backends,
//! files, journals and servers, and put the answers in one order. Enter at [`operations`].
//!
//! Any party that can make a service write a line is an author of a log. So the text is never believed, never
//! interpreted and never quoted in a summary.

mod backend;
mod cloudwatch;
mod connection;
mod entry;
mod files;
mod format;
pub mod fuzzing;
mod get_log_entry;
mod google;
mod journald;
mod list_services;
mod loki;
mod position;
mod query_logs;
mod search;
mod severity;
mod sigv4;
mod table;
mod time;
mod transport;
mod window;

pub use cloudwatch::CloudWatchSettings;
pub use files::BadPattern;
pub use format::Format;
pub use google::GoogleSettings;
pub use loki::LokiSettings;
pub use table::KIND;
pub use time::NotAZone;

use backend::{Access, Backend, SignIn};
use cloudwatch::CloudWatch;
use files::Files;
use google::{Account, Google};
use journald::{Journald, Place};
use loki::Loki;
use model::{Clock, Exposure};
use platform::commands::Commands;
use platform::http::Http;
use provider::contract::{Execution, Operation};
use provider::native::{BadDeclaration, SharedState, operation};
use provider::remote;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use secrets::Secret;
use secrets::source::SecretSource;
use serde::{Deserialize, Deserializer, Serialize, de::Error as _};
use shared::Provider;
use sigv4::SigningKey;
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use time::Zone;

/// The widest range that can be configured: a month.
const MAX_HOURS_MAX: u32 = 31 * 24;
/// The longest page that can be configured.
const MAX_RESULTS_MAX: u32 = 1000;

/// The exposure of every action here: private data, written by others.
const EXPOSES: Exposure = Exposure { untrusted: true, sensitive: true, egress: false };

/// The settings of the provider of logs.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// The longest time range of one query, in hours: 1 to 744.
    pub max_hours: u32,
    /// The largest number of entries in one result: 1 to 1000.
    pub max_results: u32,
    /// The sources of logs; absent means the usual files below `/var/log`, and the journal if there is one.
    pub backends: Option<Vec<BackendSettings>>,
}

impl Settings {
    /// Returns the names of the configured servers, with the sources of their secrets.
    pub(crate) fn servers(&self) -> impl Iterator<Item = (&str, Option<&SecretSource>)> {
        self.backends.iter().flatten().filter_map(BackendSettings::server)
    }

    /// Checks the values of all servers.
    ///
    /// # Errors
    /// [`CloudLogsError::Server`].
    pub(crate) fn check_servers(&self) -> Result<(), CloudLogsError> {
        let mut names = BTreeSet::new();
        for backend in self.backends.iter().flatten() {
            let Some((name, _)) = backend.server() else { continue };
            let kind = backend.check()?;
            if !names.insert(name) {
                return Err(CloudLogsError::Server { kind, name: name.to_owned(), fault: "name: another has it, too" });
            }
        }
        Ok(())
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self { max_hours: 24, max_results: 100, backends: None }
    }
}

/// One source of logs.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "lowercase", deny_unknown_fields)]
pub enum BackendSettings {
    /// Log files, with their rotated and compressed predecessors.
    Files {
        /// The service that writes the files; absent means the name of each file.
        service: Option<String>,
        /// Absolute patterns of paths, such as `/var/log/nginx/*.log*`. Links are followed only before the first
        /// wildcard.
        paths: Vec<String>,
        /// The format of the lines.
        #[serde(default)]
        format: Format,
        /// The time zone of times without an offset: `local`, `UTC`, `+02:00`, `Europe/Berlin`. Absent means `local`.
        timezone: Option<String>,
    },
    /// The systemd journal; without `directory` and `files`, that of this machine.
    Journald {
        /// The absolute path of a directory with journal files.
        directory: Option<PathBuf>,
        /// The absolute paths of journal files.
        files: Option<Vec<PathBuf>>,
    },
    /// A Loki server.
    Loki(LokiSettings),
    /// Log groups of CloudWatch.
    CloudWatch(CloudWatchSettings),
    /// Projects of Google Cloud.
    Google(GoogleSettings),
}

/// The provider cannot be made from its settings.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CloudLogsError {
    /// `max_hours` or `max_results` is out of range.
    #[error("`{setting}` must be between 1 and {max}")]
    Limit {
        /// Which.
        setting: &'static str,
        /// The largest that is allowed.
        max: u32,
    },
    /// A pattern of files.
    #[error(transparent)]
    Pattern(#[from] BadPattern),
    /// A time zone.
    #[error("`timezone`: {0}")]
    Zone(#[from] NotAZone),
    /// A service's name.
    #[error("`service`: {0}")]
    Service(#[from] NotAService),
    /// A journal's place is neither a directory nor files, or both, or not absolute.
    #[error("a journal is in a `directory` or in `files`, named by absolute paths")]
    Journal,
    /// A server.
    #[error("{kind} `{name}`: {fault}")]
    Server {
        /// `loki`, `cloudwatch` or `google`.
        kind: &'static str,
        /// Its name.
        name: String,
        /// The fault and the remedy.
        fault: &'static str,
    },
    /// An action.
    #[error(transparent)]
    Declaration(#[from] BadDeclaration),
}

/// The parts of the broker that the provider uses.
pub struct Parts<'a> {
    /// Child processes.
    pub commands: &'a Arc<dyn Commands>,
    /// Requests to other hosts.
    pub http: &'a Arc<dyn Http>,
    /// The time.
    pub clock: &'a Arc<dyn Clock>,
    /// The secrets of the provider, by the names of the servers.
    pub secrets: BTreeMap<String, Arc<Secret>>,
}

/// The state that the actions share.
pub(crate) struct Logs {
    max_hours: u32,
    max_results: u32,
    backends: Vec<Arc<dyn Backend>>,
    clock: Arc<dyn Clock>,
    credentials: Vec<Credential>,
}

impl SharedState for Logs {}

/// The credential of a server.
struct Credential {
    name: String,
    secret: Arc<Secret>,
    method: Method,
}

/// How a credential signs in.
enum Method {
    /// As a password of this user, or as a token.
    Header { username: Option<String> },
    /// As the key of signatures.
    Signature { access_key_id: String, region: String },
    /// As the key of assertions of this service account.
    Assertion(Arc<Account>),
}

/// The actions of the provider.
///
/// # Errors
/// [`CloudLogsError`] if the settings are not acceptable. Whether the logs are there is found out by each call.
pub fn operations(
    name: &Provider,
    settings: Settings,
    parts: &Parts<'_>,
) -> Result<Vec<Arc<dyn Operation>>, CloudLogsError> {
    actions(name, &Arc::new(Logs::new(settings, parts)?))
}

fn actions(name: &Provider, logs: &Arc<Logs>) -> Result<Vec<Arc<dyn Operation>>, CloudLogsError> {
    Ok(vec![
        operation::<query_logs::QueryLogs>(name, logs)?,
        operation::<get_log_entry::GetLogEntry>(name, logs)?,
        operation::<list_services::ListServices>(name, logs)?,
    ])
}

impl Logs {
    fn new(settings: Settings, parts: &Parts<'_>) -> Result<Self, CloudLogsError> {
        let Settings { max_hours, max_results, backends } = settings;
        for (setting, value, max) in
            [("max_hours", max_hours, MAX_HOURS_MAX), ("max_results", max_results, MAX_RESULTS_MAX)]
        {
            if !(1..=max).contains(&value) {
                return Err(CloudLogsError::Limit { setting, max });
            }
        }
        let backends = backends.unwrap_or_else(usual);
        let credentials = backends.iter().filter_map(|backend| {
            let (name, method) = (backend.server()?.0.to_owned(), backend.method()?);
            Some(Credential { secret: Arc::clone(parts.secrets.get(&name)?), name, method })
        });
        let credentials = credentials.collect();
        let backends = backends.into_iter().map(|backend| open(backend, parts)).collect::<Result<_, _>>()?;
        Ok(Self { max_hours, max_results, backends, clock: Arc::clone(parts.clock), credentials })
    }

    /// Returns the permission of one execution. It is the one place where the secrets are exposed.
    fn access(&self, execution: &Execution) -> Access {
        let credentials = self.credentials.iter().filter_map(|Credential { name, secret, method }| {
            let now = self.clock.now();
            let sign_in = match method {
                Method::Header { username } => {
                    SignIn::Header(remote::authorization(username.as_deref(), secret.expose(execution))?)
                }
                Method::Signature { access_key_id, region } => {
                    let scope = (region.as_str(), cloudwatch::SERVICE);
                    SignIn::Signature(SigningKey::new(access_key_id, secret.expose(execution), scope, now))
                }
                Method::Assertion(account) => SignIn::Account(account.pass(secret, now, execution)),
            };
            Some((name.clone(), sign_in))
        });
        Access { deadline: execution.deadline(), credentials: Arc::new(credentials.collect()) }
    }
}

/// Where logs usually are.
fn usual() -> Vec<BackendSettings> {
    const PATHS: [&str; 12] = [
        "/var/log/*.log",
        "/var/log/*.log[.-]*",
        "/var/log/*/*.log",
        "/var/log/*/*.log[.-]*",
        "/var/log/syslog",
        "/var/log/syslog[.-]*",
        "/var/log/messages",
        "/var/log/messages[.-]*",
        "/var/log/secure",
        "/var/log/secure[.-]*",
        "/var/log/cron",
        "/var/log/cron[.-]*",
    ];
    let paths = PATHS.map(str::to_owned).into();
    let mut backends = vec![BackendSettings::Files { service: None, paths, format: Format::Auto, timezone: None }];
    if ["/var/log/journal", "/run/log/journal"].iter().any(|path| holds_something(Path::new(path))) {
        backends.push(BackendSettings::Journald { directory: None, files: None });
    }
    backends
}

fn holds_something(directory: &Path) -> bool {
    directory.read_dir().is_ok_and(|mut entries| entries.next().is_some())
}

fn open(settings: BackendSettings, parts: &Parts<'_>) -> Result<Arc<dyn Backend>, CloudLogsError> {
    let (commands, clock) = (parts.commands, parts.clock);
    match settings {
        BackendSettings::Loki(settings) => Ok(Arc::new(Loki::new(settings.open(parts)?))),
        BackendSettings::CloudWatch(settings) => Ok(Arc::new(CloudWatch::new(settings.open(parts)?))),
        BackendSettings::Google(settings) => Ok(Arc::new(Google::new(settings.open(parts)?))),
        BackendSettings::Files { service, paths, format, timezone } => {
            let zone = timezone.map_or(Ok(Zone::Local), |zone| zone.parse())?;
            let service = service.map(|name| ServiceName::new(&name)).transpose()?.map(|name| name.0);
            Ok(Arc::new(Files::new(service, &paths, format, zone, Arc::clone(clock))?))
        }
        BackendSettings::Journald { directory, files } => {
            let place = match (directory, files) {
                (None, None) => Place::Machine,
                (Some(directory), None) if directory.is_absolute() => Place::Directory(directory),
                (None, Some(files)) if !files.is_empty() && files.iter().all(|file| file.is_absolute()) => {
                    Place::Files(files)
                }
                (Some(_), _) | (None, Some(_)) => return Err(CloudLogsError::Journal),
            };
            Ok(Arc::new(Journald::new(Arc::clone(commands), place)))
        }
    }
}

impl BackendSettings {
    /// Returns the name of the server, with the source of its secret.
    fn server(&self) -> Option<(&str, Option<&SecretSource>)> {
        match self {
            Self::Loki(settings) => Some((&settings.name, settings.password.as_ref())),
            Self::CloudWatch(settings) => Some((&settings.name, Some(&settings.secret_access_key))),
            Self::Google(settings) => Some((&settings.name, Some(&settings.private_key))),
            Self::Files { .. } | Self::Journald { .. } => None,
        }
    }

    /// Checks the settings of a server. Returns its kind.
    fn check(&self) -> Result<&'static str, CloudLogsError> {
        match self {
            Self::Loki(settings) => settings.check().map(|_| "loki"),
            Self::CloudWatch(settings) => settings.check().map(|_| "cloudwatch"),
            Self::Google(settings) => settings.check().map(|()| "google"),
            Self::Files { .. } | Self::Journald { .. } => Ok("files"),
        }
    }

    fn method(&self) -> Option<Method> {
        match self {
            Self::Loki(settings) => Some(Method::Header { username: settings.username.clone() }),
            Self::CloudWatch(settings) => {
                let (access_key_id, region) = (settings.access_key_id.clone(), settings.region.clone());
                Some(Method::Signature { access_key_id, region })
            }
            Self::Google(settings) => Some(Method::Assertion(Arc::new(settings.account().ok()?))),
            Self::Files { .. } | Self::Journald { .. } => None,
        }
    }
}

/// Checks the name of a server.
///
/// # Errors
/// The fault and the remedy.
fn check_name(name: &str) -> Result<(), &'static str> {
    let is_part = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let is_name = (1..=32).contains(&name.len()) && name.chars().all(is_part);
    if is_name { Ok(()) } else { Err("name: must have 1 to 32 lower-case letters, digits and hyphens") }
}

/// The name of a service, as it may be asked for: it goes into summaries and, as a value, into a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ServiceName(String);

/// The text is no name of a service.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a service's name: it has 1 to 128 letters, digits and `._@:()\\-`")]
pub struct NotAService;

impl ServiceName {
    fn new(text: &str) -> Result<Self, NotAService> {
        let fits = (1..=128).contains(&text.len()) && text.chars().all(is_public);
        if fits { Ok(Self(text.to_owned())) } else { Err(NotAService) }
    }

    fn as_str(&self) -> &str {
        &self.0
    }
}

impl<'de> Deserialize<'de> for ServiceName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::new(&String::deserialize(deserializer)?).map_err(D::Error::custom)
    }
}

impl JsonSchema for ServiceName {
    fn schema_name() -> Cow<'static, str> {
        "service".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "pattern": r"^[A-Za-z0-9._@:()\\-]{1,128}$" })
    }
}

fn is_public(c: char) -> bool {
    c.is_ascii_alphanumeric() || "._@:()\\-".contains(c)
}

/// A name that others chose, in the alphabet of [`ServiceName`].
fn public_name(text: &str, max: usize) -> String {
    text.chars().take(max).map(|c| if is_public(c) { c } else { '_' }).collect()
}

#[cfg(test)]
mod tests;
