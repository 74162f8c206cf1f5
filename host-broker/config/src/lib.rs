//! Configuration: one TOML file, the environment on top, paths made absolute.
//!
//! Only this module and `main` read the environment and know the paths. Unknown keys are errors with a suggestion; an
//! error names file, place and remedy. No setting that grants has a default.

pub mod filter;
pub mod administrators;
pub mod approvals;
pub mod broker;
mod error;
pub mod gates;
pub mod people;
pub mod inspection;
pub mod flows;
pub mod identity;
pub mod channels;
pub mod permissions;
mod known;
pub mod metrics;
mod policy;
pub mod profiles;
pub mod provider;
pub mod published;
pub mod rules;
pub mod run;
pub mod secret_sources;
pub mod sinks;
pub mod socket;
pub mod store;
pub mod vault;
pub mod warnings;
pub mod web;

use self::provider::{Kinds, ProviderTable};
pub use approvals::{ApprovalsTable, AskTable, FLOWS};
pub use broker::{BrokerTable, Ceiling, ExposureEnd, GroupTable, UnknownRequests};
pub use error::{ConfigError, near_miss, nearest};
pub use gates::GateTable;
pub use people::{ApprovesTable, PersonTable, ROOT, unlisted};
pub use policy::Policy;

use ::filter::values::Formats;
use ::policy::limits::Limits;
use ::policy::shared_quotas::SharedQuotas;

use administrators::Administrators;
use channels::{ChannelTable, NoticesTable};
use error::parse;
use filter::FilterTable;
use flows::FlowsTable;
use identity::IdentityTable;
use inspection::InspectionTable;
use metrics::MetricsTable;
use model::{HostName, external};
use platform::Environment;
use schemars::{JsonSchema, Schema};
use sinks::SinkTable;
use store::StoreTable;

use serde::{Deserialize, Serialize};
use shared::digest::Digest;
use shared::{Gate, Group, Provider};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;
use vault::VaultTable;
use web::WebTable;

/// The whole file, checked.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// The general settings of the broker.
    #[serde(default)]
    pub broker: BrokerTable,
    /// The limit of the grants that the main group's agent can make without an approval.
    #[serde(default)]
    pub grant_ceiling: Ceiling,
    /// The groups, by the name of their directory.
    #[serde(default)]
    pub groups: BTreeMap<Group, GroupTable>,
    /// The people who can use the command line and the inbox, by name.
    #[serde(default)]
    pub people: BTreeMap<String, PersonTable>,
    /// The settings of approval requests.
    #[serde(default)]
    pub approvals: ApprovalsTable,
    /// The web inbox; absent means that there is none.
    #[serde(default)]
    pub web: Option<WebTable>,
    /// The server for the health and the metrics of the daemon; absent means that there is none.
    #[serde(default)]
    pub metrics: Option<MetricsTable>,
    /// The gates, and the groups and people who can open them.
    #[serde(default)]
    pub gates: BTreeMap<Gate, GateTable>,
    /// The issuers of context tokens, which name the person for whom an agent acts.
    #[serde(default)]
    pub identity: IdentityTable,
    /// The source of the master key that encrypts persons' credentials.
    #[serde(default)]
    pub vault: VaultTable,
    /// The treatment of results that may contain untrusted content.
    #[serde(default)]
    pub inspection: InspectionTable,
    /// Flows, and the access of external agents to them.
    #[serde(default)]
    pub flows: FlowsTable,
    /// The limits of each group at each provider.
    #[serde(default)]
    pub limits: Limits,
    /// The daily quotas that all groups share, also on other hosts of a fleet.
    #[serde(default)]
    pub shared_quotas: SharedQuotas,
    /// The providers, by the name that grants and calls use.
    #[serde(default, deserialize_with = "provider::skipped")]
    pub providers: BTreeMap<Provider, ProviderTable>,
    /// Additional formats of credentials that are redacted from results.
    #[serde(default)]
    pub filter: FilterTable,
    /// The settings of notices that apply to all channels.
    #[serde(default)]
    pub notices: NoticesTable,
    /// The channels through which people are notified.
    #[serde(default)]
    pub channels: Vec<ChannelTable>,
    /// The places that receive every row of the evidence.
    #[serde(default)]
    pub sinks: Vec<SinkTable>,
    /// The database that gets the records of this host; absent means that they are in the home only.
    #[serde(default)]
    pub store: Option<StoreTable>,
}

impl Config {
    /// Reads and checks the file, and applies the environment.
    ///
    /// # Errors
    /// [`ConfigError`]; nothing was changed.
    pub fn load(path: &Path, environment: &Environment, kinds: Kinds) -> Result<Self, ConfigError> {
        Self::parse(&Self::text(path)?, path, environment, kinds)
    }

    /// Reads the text of the file, for [`Self::parse`].
    ///
    /// # Errors
    /// [`ConfigError::Read`].
    pub fn text(path: &Path) -> Result<String, ConfigError> {
        std::fs::read_to_string(path).map_err(|source| ConfigError::Read { path: path.into(), source })
    }

    /// Parses a text in the same way; `path` is for messages and for relative paths in it.
    ///
    /// # Errors
    /// [`ConfigError`].
    pub fn parse(text: &str, path: &Path, environment: &Environment, kinds: Kinds) -> Result<Self, ConfigError> {
        let mut config: Self = parse(text, path)?;
        config.providers = provider::tables(text, path, kinds)?;
        config.apply(environment)?;
        let folder = path.parent().unwrap_or(Path::new("."));
        for group in config.groups.values_mut() {
            group.signing_key_file = group.signing_key_file.take().map(|file| folder.join(file));
            group.run.settle(folder);
        }
        config.channels.iter_mut().for_each(|table| table.settle(folder));
        config.store.iter_mut().for_each(|table| table.settle(folder));
        config.filter.settle(folder);
        config.flows.administrators = Administrators::of(&config.people, &config.groups);
        config.check(path)?;
        Ok(config)
    }

    /// Returns the schema of the whole file.
    pub fn schema(kinds: Kinds) -> Schema {
        provider::schema(kinds)
    }

    fn apply(&mut self, environment: &Environment) -> Result<(), ConfigError> {
        self.flows.apply(environment)?;
        if let Some(text) = environment.get("EXT_CALL_TIMEOUT") {
            self.broker.call_timeout_ms = text.parse().map_err(|_bad| ConfigError::Environment {
                name: "EXT_CALL_TIMEOUT",
                fault: "must be a number of milliseconds".into(),
            })?;
        }
        for table in self.providers.values_mut() {
            table.apply(environment)?;
        }
        Ok(())
    }

    fn check(&self, path: &Path) -> Result<(), ConfigError> {
        let fault = |fault: String| Err(ConfigError::Inconsistent { path: path.into(), fault });
        if self.groups.values().filter(|group| group.main).count() > 1 {
            return fault("groups: more than one group has `main = true`; leave it at one group".into());
        }
        if self.groups.contains_key(external()) {
            return fault(format!(
                "groups.{0}: the name `{0}` is reserved for external agents; choose another name",
                external()
            ));
        }
        let longest = u64::try_from(shared::limits::TIMEOUT_MAX.as_millis()).unwrap_or(u64::MAX);
        if !(100..=longest).contains(&self.broker.call_timeout_ms) {
            return fault(format!("broker.call_timeout_ms must be 100 to {longest}"));
        }
        if self.broker.max_concurrent_calls == 0 {
            return fault("broker.max_concurrent_calls must be at least 1".into());
        }
        self.check_approvals().or_else(fault)?;
        self.check_people().or_else(fault)?;
        self.check_tokens().or_else(fault)?;
        if let Some(group) = &self.broker.socket_group {
            socket::group_number(group).map(drop).or_else(|why| fault(format!("broker.socket_group: {why}")))?;
        }
        let is_group = |name: &str| self.groups.keys().any(|group| group.as_str() == name);
        let is_provider = |name: &str| name.parse().is_ok_and(|name| self.table_of(&name).is_some());
        self.limits.check(is_group, is_provider).or_else(fault)?;
        self.shared_quotas.check(|name| self.table_of(name).is_some()).or_else(fault)?;
        for (group, table) in &self.groups {
            table.run.check().or_else(|why| fault(format!("groups.{group}.run: {why}")))?;
            if let Some(unknown) = table.may_request.iter().find(|provider| self.table_of(provider).is_none()) {
                return fault(format!(
                    "groups.{group}.may_request: there is no provider `{unknown}`; add [providers.{unknown}]"
                ));
            }
        }
        self.inspection.check().or_else(fault)?;
        self.identity.check().or_else(fault)?;
        self.vault.check().or_else(fault)?;
        self.flows.check().or_else(fault)?;
        self.check_providers().or_else(fault)?;
        self.check_notify(path.parent().unwrap_or(Path::new("."))).or_else(fault)?;
        self.check_sinks().or_else(fault)?;
        self.check_gates().or_else(fault)?;
        self.store.iter().try_for_each(|store| store.check(&self.people)).or_else(fault)?;
        Ok(())
    }

    /// Returns the formats of credentials, with the operator's own ones; `path` is for messages.
    ///
    /// # Errors
    /// [`ConfigError`] that names the format, the error and the remedy.
    pub fn formats(&self, path: &Path) -> Result<Formats, ConfigError> {
        self.filter.formats().map_err(|fault| ConfigError::Inconsistent { path: path.into(), fault })
    }

    /// Returns the configured places of the groups' files; a group without a line has its directory in the home.
    pub fn workspaces(&self) -> impl Iterator<Item = &BTreeMap<Group, PathBuf>> {
        self.providers.values().filter_map(|table| table.configured.workspaces())
    }

    /// Returns whether this group's agent may request access to a provider.
    pub fn may_request(&self, group: &Group, provider: &Provider) -> bool {
        self.groups.get(group).is_some_and(|table| table.may_request.contains(provider))
    }

    /// Returns whether this is the name of a group, or of all external agents.
    pub fn holds(&self, group: &Group) -> bool {
        self.groups.contains_key(group) || group == external()
    }

    /// Returns the host whose published policy this host uses; `None` if it uses its own directory `policy/`.
    pub fn policy_from(&self) -> Option<&HostName> {
        self.store.as_ref()?.policy_from.as_ref()
    }

    /// Returns the main group, if there is one.
    pub fn main_group(&self) -> Option<&Group> {
        self.groups.iter().find_map(|(name, table)| table.main.then_some(name))
    }

    /// Returns whether this is the main group.
    pub fn is_main(&self, group: &Group) -> bool {
        self.groups.get(group).is_some_and(|table| table.main)
    }

    /// Returns whether the exposure of this group ends with a conversation.
    pub fn has_conversations(&self, group: &Group) -> bool {
        self.groups.get(group).is_some_and(|table| table.exposure_ends == ExposureEnd::Conversation)
    }

    /// Returns how long a caller waits unless its provider says otherwise.
    pub fn timeout(&self) -> Duration {
        Duration::from_millis(self.broker.call_timeout_ms)
    }

    /// Returns a digest of the file's text. Rows name it, so that an auditor knows under which configuration a decision
    /// fell.
    pub fn digest(text: &str) -> Digest {
        Digest::of(text.as_bytes())
    }
}

/// The kinds that the tests of this crate use.
#[cfg(test)]
const KINDS: Kinds = &[
    provider_mock::KIND,
    provider_github::KIND,
    provider_cloud_logs::KIND,
    provider_files::KIND,
    provider_bridge::KIND,
    provider_mcp::KIND,
];

#[cfg(test)]
mod tests {
    use super::*;
    use shared::Level;

    fn parse(text: &str) -> Result<Config, ConfigError> {
        Config::parse(text, Path::new("/home/x/broker.toml"), &Environment::new(), KINDS)
    }

    fn fault(text: &str) -> String {
        parse(text).unwrap_err().to_string()
    }

    #[test]
    fn an_unknown_key_is_an_error_with_its_line_and_a_suggestion() {
        let fault = fault("[broker]\nmax_concurrent_calls = 3\ncall_timout_ms = 5\n");
        assert!(fault.contains("line 3") && fault.contains("did you mean `call_timeout_ms`?"), "{fault}");
    }

    #[test]
    fn nothing_is_granted_by_default() {
        let config = parse("").unwrap();
        assert_eq!(config.grant_ceiling, Ceiling { max_level: Level::Read, sensitive: false });
        assert!(config.groups.is_empty() && config.providers.is_empty() && config.gates.is_empty());
    }

    #[test]
    fn contradictory_settings_are_named_with_their_remedy() {
        assert!(fault("[groups.a]\nmain = true\n[groups.b]\nmain = true\n").contains("more than one group"));
        assert!(fault("[gates.Security]\ngroups = [\"nobody\"]\n").contains("add [groups.nobody]"));
        assert!(
            fault("[groups.a]\n[gates.Security]\ngroups = [\"a\"]\nquorum = 2\n").contains("quorum must be 1 to 1")
        );
        assert!(fault("[groups.\"../x\"]\n").contains("group"));
        assert!(fault("[broker]\ncall_timeout_ms = 999999\n").contains("100 to 120000"));
    }

    #[test]
    fn two_people_with_one_uid_are_refused_and_so_is_an_admin_without_one() {
        let fault_of = fault("[people.ann]\nuid = 7\n[people.bob]\nuid = 7\n");
        assert!(fault_of.contains("people.ann and people.bob have the same uid 7"), "{fault_of}");
        assert!(fault("[people.ann]\nadmin = true\n").contains("add uid = N"));
        let config = parse("[people.ann]\nuid = 4000000001\nadmin = true\n[people.bob]\nuid = 4000000002\n").unwrap();
        assert_eq!(
            ["ann", "bob", "uid-0", "uid-4000000003"].map(|name| config.administers(name)),
            [true, false, true, false]
        );
    }

    #[test]
    fn the_environment_overrides_the_file() {
        let environment = Environment::from([("EXT_CALL_TIMEOUT".to_owned(), "5000".to_owned())]);
        let config = Config::parse("", Path::new("x"), &environment, KINDS).unwrap();
        assert_eq!(config.timeout(), Duration::from_secs(5));
        let bad = Environment::from([("EXT_CALL_TIMEOUT".to_owned(), "soon".to_owned())]);
        assert!(Config::parse("", Path::new("x"), &bad, KINDS).is_err());
    }
}
