//! Configuration: one TOML file, the environment on top, paths made absolute.
//!
//! Only this module and `main` read the environment and know the paths. Unknown keys are errors with a suggestion; an
//! error names file, place and remedy. No setting that grants has a default.

pub mod filter;
pub mod administrators;
pub mod inspection;
pub mod flows;
pub mod identity;
pub mod channels;
pub mod permissions;
mod known;
mod policy;
pub mod profiles;
pub mod provider;
pub mod rules;
pub mod socket;
pub mod vault;
pub mod warnings;
pub mod web;

use self::provider::{Kinds, ProviderTable};
pub use policy::Policy;

use ::filter::values::Formats;
use ::policy::limits::Limits;
use ::rules::RulesError;
use administrators::Administrators;
use channels::{ChannelTable, NoticesTable};
use filter::FilterTable;
use flows::FlowsTable;
use identity::IdentityTable;
use inspection::InspectionTable;
use model::external;
use platform::Environment;
use schemars::{JsonSchema, Schema};
use secrets::identity::issuers::OWN;
use serde::{Deserialize, Serialize};
use shared::digest::Digest;
use shared::{Action, Gate, Group, Level, Provider};
use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::Duration;
use vault::VaultTable;
use web::{TokenDigest, WebTable};

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
}

/// The general settings of the broker.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct BrokerTable {
    /// The time that a caller waits for a reply, in milliseconds: 100 to 120000. A provider's `timeout_ms` takes
    /// precedence.
    pub call_timeout_ms: u64,
    /// The number of calls of one group that can be in progress at the same time; at least 1.
    pub max_concurrent_calls: usize,
    /// The treatment of documents whose type is not one of this protocol.
    pub unknown_requests: UnknownRequests,
    /// The hourly evidence budget of one group or external grant, in MiB: rows and stored replies. Above it, the broker
    /// refuses the calls. Rows about requests that change nothing can use an eighth of it. Above that, the broker counts
    /// them in one row per minute. 0 means no limit.
    pub evidence_mib_per_hour: u64,
    /// The minimum free space on the disk of the home, in MiB, but at most a fiftieth of the disk. Below it, the broker
    /// first refuses the caller that has used most.
    pub free_space_mib: u64,
    /// The size of the ledger's database, in MiB, above which the oldest rows move into segments. Segments are
    /// compressed files in `segments/`; `evidence verify` and `export` read them. Only rows older than a day move. 0
    /// means that rows never move.
    pub ledger_mib: u64,
    /// The group of users, by name or number, whose processes can connect to the control socket. `[people]` sets the
    /// rights of each user. Absent means that only the daemon's own user can connect.
    pub socket_group: Option<String>,
}

/// The treatment of documents whose type is not one of this protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum UnknownRequests {
    /// Reject them.
    #[default]
    Reject,
    /// Ignore them: another host shares the directory.
    Ignore,
}

impl Default for BrokerTable {
    fn default() -> Self {
        Self {
            call_timeout_ms: u64::try_from(shared::limits::TIMEOUT_DEFAULT.as_millis()).unwrap_or(30_000),
            max_concurrent_calls: shared::limits::IN_FLIGHT_PER_GROUP,
            unknown_requests: UnknownRequests::Reject,
            evidence_mib_per_hour: 64,
            free_space_mib: 256,
            ledger_mib: 1024,
            socket_group: None,
        }
    }
}

/// The limit of the grants that the main group's agent can make without an approval.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Ceiling {
    /// The highest level that the agent can grant.
    pub max_level: Level,
    /// Whether the agent can grant actions that read private data.
    pub sensitive: bool,
}

impl Default for Ceiling {
    fn default() -> Self {
        Self { max_level: Level::Read, sensitive: false }
    }
}

/// One group.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct GroupTable {
    /// Whether this is the main group. Only the main group's agent can administer grants.
    pub main: bool,
    /// The user id of the processes in the group's sandbox; absent means that any owner is accepted.
    pub uid: Option<u32>,
    /// The file with the key that signs the group's requests; absent means that requests are not signed.
    pub signing_key_file: Option<PathBuf>,
}

/// One person who uses the command line or the web inbox.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PersonTable {
    /// The user id of the person's processes; absent means that the person has none on this machine.
    #[serde(default)]
    pub uid: Option<u32>,
    /// The SHA-256 of the person's token for the web inbox. `host-broker web token NAME` prints the line.
    #[serde(default)]
    pub web_token_sha256: Option<TokenDigest>,
    /// The calls that the person can approve; absent means none.
    #[serde(default)]
    pub approves: Option<ApprovesTable>,
    /// The person's chat identities, such as `telegram:12345`.
    #[serde(default)]
    pub chat: Vec<String>,
    /// Whether the person can administer: grant, stop, mint tokens, accept definitions. The daemon's own user and root
    /// always can. To make a grant, the person also needs `approves` up to its level.
    #[serde(default)]
    pub admin: bool,
    /// Whether the person's processes can relay answers that other people gave in a chat.
    #[serde(default)]
    pub can_relay_answers: bool,
}

/// The calls that a person can approve; an empty table means all calls.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ApprovesTable {
    /// The groups whose calls the person can approve; absent means all groups.
    pub groups: Option<Vec<Group>>,
    /// The providers whose calls the person can approve; absent means all providers.
    pub providers: Option<Vec<Provider>>,
    /// The highest level of calls that the person can approve; absent means any level.
    pub max_level: Option<Level>,
}

/// The settings of approval requests.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ApprovalsTable {
    /// The time after which an unanswered approval request expires, in seconds: 1 to 604800, which is a week.
    pub expires_s: u64,
    /// The settings of single actions, by provider and action.
    pub actions: BTreeMap<Provider, BTreeMap<Action, AskTable>>,
    /// The settings of approval requests for grants above the grant ceiling.
    pub grants: AskTable,
    /// The settings of approval requests for canonical flow versions; without `expires_s` they expire after a day.
    pub flows: AskTable,
}

/// The quorum and the expiry of approval requests.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct AskTable {
    /// The number of different people who must approve; absent means 1.
    pub quorum: Option<usize>,
    /// The time after which an unanswered approval request expires, in seconds: 1 to 604800, which is a week.
    pub expires_s: Option<u64>,
}

impl Default for ApprovalsTable {
    fn default() -> Self {
        Self { expires_s: 300, actions: BTreeMap::new(), grants: AskTable::default(), flows: AskTable::default() }
    }
}

/// The superuser, who can replace the broker.
pub const ROOT: u32 = 0;

/// Returns the name of a user who has no table in `[people]`: `uid-1000`.
pub fn unlisted(uid: u32) -> String {
    format!("uid-{uid}")
}

fn unlisted_uid(person: &str) -> Option<u32> {
    person.strip_prefix("uid-")?.parse().ok()
}

/// The name of approval requests about flows, in place of a provider's.
pub const FLOWS: &str = "flows";

/// The longest time until expiry of an approval request, in seconds.
const EXPIRES_MAX_S: u64 = 7 * 24 * 3600;

/// One gate.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct GateTable {
    /// The groups whose agents can open the gate for tasks of other groups.
    pub groups: Vec<Group>,
    /// The people who can open the gate.
    pub people: Vec<String>,
    /// The number of different openers that the gate needs; absent means 1.
    pub quorum: Option<usize>,
}

/// The configuration cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("cannot read {path}{}", remedy(path, source))]
    Read {
        /// The file.
        path: PathBuf,
        /// The error of the system.
        #[source]
        source: std::io::Error,
    },
    /// The file is not TOML, or a key or value in it is wrong.
    #[error("{path}: {place}{fault}{hint}")]
    Parse {
        /// The file.
        path: PathBuf,
        /// The place in it, with a colon, or empty.
        place: String,
        /// The error.
        fault: String,
        /// The likely intended word, or empty.
        hint: String,
    },
    /// The values do not fit each other.
    #[error("{path}: {fault}")]
    Inconsistent {
        /// The file.
        path: PathBuf,
        /// The conflict and the remedy.
        fault: String,
    },
    /// Another user could change it.
    #[error("{path} is not safe: {fault}")]
    Unsafe {
        /// The file or directory.
        path: PathBuf,
        /// The users who can change it, and the command that fixes it.
        fault: String,
    },
    /// A file cannot be written.
    #[error("cannot write {path}")]
    Write {
        /// The file.
        path: PathBuf,
        /// The error of the system.
        #[source]
        source: std::io::Error,
    },
    /// The rules cannot be used.
    #[error(transparent)]
    Rules(#[from] RulesError),
    /// A value of the environment is wrong.
    #[error("environment variable {name}: {fault}")]
    Environment {
        /// The variable.
        name: &'static str,
        /// The error.
        fault: String,
    },
}

/// Returns the next step after a file could not be read, as the end of a sentence.
fn remedy(path: &Path, source: &std::io::Error) -> &'static str {
    let kind = source.kind();
    if kind == ErrorKind::NotFound && path.ends_with("broker.toml") {
        "; make a home with: host-broker init --home DIR"
    } else if kind == ErrorKind::IsADirectory {
        ", because it is a directory; put a file in its place or remove it"
    } else if kind == ErrorKind::InvalidData {
        ", because it is not UTF-8 text; save it as UTF-8"
    } else {
        ""
    }
}

impl Config {
    /// Reads and checks the file, and applies the environment.
    ///
    /// # Errors
    /// [`ConfigError`]; nothing was changed.
    pub fn load(path: &Path, environment: &Environment, kinds: Kinds) -> Result<Self, ConfigError> {
        let text = std::fs::read_to_string(path).map_err(|source| ConfigError::Read { path: path.into(), source })?;
        Self::parse(&text, path, environment, kinds)
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
        }
        config.channels.iter_mut().for_each(|table| table.settle(folder));
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
        self.inspection.check().or_else(fault)?;
        self.identity.check().or_else(fault)?;
        self.vault.check().or_else(fault)?;
        self.flows.check().or_else(fault)?;
        self.check_providers().or_else(fault)?;
        self.check_notify(path.parent().unwrap_or(Path::new("."))).or_else(fault)?;
        for (gate, table) in &self.gates {
            if let Some(unknown) = table.groups.iter().find(|group| !self.groups.contains_key(*group)) {
                return fault(format!("gates.{gate}: there is no group `{unknown}`; add [groups.{unknown}]"));
            }
            if let Some(unknown) = table.people.iter().find(|person| !self.people.contains_key(*person)) {
                return fault(format!(
                    "gates.{gate}: there is no person `{unknown}`; add [people.{unknown}] with uid = N"
                ));
            }
            let openers = table.groups.len() + table.people.len();
            if table.quorum.is_some_and(|quorum| quorum == 0 || quorum > openers) {
                return fault(format!("gates.{gate}.quorum must be 1 to {openers}, the number of its openers"));
            }
        }
        Ok(())
    }

    fn check_approvals(&self) -> Result<(), String> {
        let within = |seconds: u64, place: &str| {
            let fits = (1..=EXPIRES_MAX_S).contains(&seconds);
            if fits { Ok(()) } else { Err(format!("{place}expires_s must be 1 to {EXPIRES_MAX_S}, which is a week")) }
        };
        within(self.approvals.expires_s, "approvals.")?;
        let approvers = self.people.values().filter(|person| person.approves.is_some()).count();
        let tables = self.approvals.actions.iter().flat_map(|(provider, actions)| {
            actions.iter().map(move |(action, table)| (format!("approvals.actions.{provider}.{action}."), table))
        });
        for (place, table) in tables.chain([
            ("approvals.grants.".to_owned(), &self.approvals.grants),
            ("approvals.flows.".to_owned(), &self.approvals.flows),
        ]) {
            within(table.expires_s.unwrap_or(1), &place)?;
            if table.quorum.is_some_and(|quorum| quorum == 0 || quorum > approvers) {
                return Err(format!(
                    "{place}quorum must be 1 to {approvers}, the number of people with `approves`; lower it or add \
                     approvers"
                ));
            }
        }
        for (person, table) in &self.people {
            let groups = table.approves.iter().filter_map(|approves| approves.groups.as_ref()).flatten();
            if let Some(unknown) = groups.into_iter().find(|group| !self.holds(group)) {
                return Err(format!("people.{person}.approves: there is no group `{unknown}`; add [groups.{unknown}]"));
            }
        }
        Ok(())
    }

    /// Checks that no two tables serve one capability, and that every name has a provider.
    fn check_providers(&self) -> Result<(), String> {
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
    fn is_asked_about(&self, provider: &Provider) -> bool {
        provider.as_str() == FLOWS || self.table_of(provider).is_some()
    }

    fn bridge(&self, name: &str) -> Option<(&Provider, &ProviderTable)> {
        self.providers.iter().find(|(own, table)| own.as_str() == name && table.configured.is_namespace())
    }

    /// Returns whether this is the name of a person in the ledger's form: a known issuer, and its id of the person.
    pub fn knows_person(&self, person: &str) -> bool {
        person.split_once(':').is_some_and(|(issuer, sub)| {
            let known = issuer == OWN || self.identity.issuers.contains_key(issuer);
            known && !sub.is_empty() && sub.len() <= 256 && !sub.chars().any(char::is_control)
        })
    }

    /// Returns the provider's table; for a capability, that of its bridge.
    pub fn table_of(&self, provider: &Provider) -> Option<(&Provider, &ProviderTable)> {
        self.providers.get_key_value(provider).or_else(|| self.bridge(provider.namespace()?))
    }

    /// Checks that each user id names one person, and that each person with `admin` has a user id.
    fn check_people(&self) -> Result<(), String> {
        let mut known: BTreeMap<u32, &String> = BTreeMap::new();
        for (person, table) in &self.people {
            if table.admin && table.uid.is_none() {
                return Err(format!(
                    "people.{person}.admin: the control socket identifies people by their user id; add uid = N"
                ));
            }
            let Some(uid) = table.uid else { continue };
            if let Some(other) = known.insert(uid, person) {
                return Err(format!(
                    "people.{other} and people.{person} have the same uid {uid}; remove it from one of them"
                ));
            }
        }
        Ok(())
    }

    /// Checks that each web token belongs to one person.
    fn check_tokens(&self) -> Result<(), String> {
        let mut known: Vec<(&String, TokenDigest)> = Vec::new();
        for (person, table) in &self.people {
            let Some(digest) = table.web_token_sha256 else { continue };
            if let Some((other, _)) = known.iter().find(|(_, known)| *known == digest) {
                return Err(format!(
                    "people.{other} and people.{person} have the same web_token_sha256; make a separate token for each with: \
                     host-broker web token NAME"
                ));
            }
            known.push((person, digest));
        }
        Ok(())
    }

    /// Returns the formats of credentials, with the operator's own ones; `path` is for messages.
    ///
    /// # Errors
    /// [`ConfigError`] that names the format, the error and the remedy.
    pub fn formats(&self, path: &Path) -> Result<Formats, ConfigError> {
        self.filter.formats().map_err(|fault| ConfigError::Inconsistent { path: path.into(), fault })
    }

    /// Returns the quorum and the expiry of approval requests about an action.
    pub fn asking(&self, provider: &Provider, action: &Action) -> (usize, Duration) {
        let table = self.approvals.actions.get(provider).and_then(|actions| actions.get(action)).copied();
        self.asking_by(table.unwrap_or_default())
    }

    /// Returns the quorum and the expiry of approval requests about a grant.
    pub fn asking_for_grants(&self) -> (usize, Duration) {
        self.asking_by(self.approvals.grants)
    }

    /// Returns the quorum for a provider's definitions: the largest one of its actions.
    pub fn quorum_for_definitions(&self, provider: &Provider) -> usize {
        let tables = self.approvals.actions.get(provider).into_iter().flat_map(BTreeMap::values);
        tables.filter_map(|table| table.quorum).max().unwrap_or(1)
    }

    /// Returns the quorum and the expiry of approval requests about a version of a flow.
    pub fn asking_for_flows(&self) -> (usize, Duration) {
        const DAY_S: u64 = 24 * 3600;
        let table = self.approvals.flows;
        self.asking_by(AskTable { expires_s: table.expires_s.or(Some(DAY_S)), ..table })
    }

    fn asking_by(&self, table: AskTable) -> (usize, Duration) {
        let seconds = table.expires_s.unwrap_or(self.approvals.expires_s);
        (table.quorum.unwrap_or(1), Duration::from_secs(seconds))
    }

    /// Returns whether this person may approve a call of this group.
    pub fn may_approve(&self, person: &str, group: Option<&Group>, provider: &Provider, level: Level) -> bool {
        let Some(approves) = self.people.get(person).and_then(|table| table.approves.as_ref()) else { return false };
        approves.groups.as_ref().is_none_or(|groups| group.is_some_and(|group| groups.contains(group)))
            && approves.providers.as_ref().is_none_or(|providers| providers.iter().any(|named| named.covers(provider)))
            && approves.max_level.is_none_or(|most| level <= most)
    }

    /// Returns the configured places of the groups' files; a group without a line has its directory in the home.
    pub fn workspaces(&self) -> impl Iterator<Item = &BTreeMap<Group, PathBuf>> {
        self.providers.values().filter_map(|table| table.configured.workspaces())
    }

    /// Returns whether this is the name of a group, or of all external agents.
    pub fn holds(&self, group: &Group) -> bool {
        self.groups.contains_key(group) || group == external()
    }

    /// Returns the main group, if there is one.
    pub fn main_group(&self) -> Option<&Group> {
        self.groups.iter().find_map(|(name, table)| table.main.then_some(name))
    }

    /// Returns whether this is the main group.
    pub fn is_main(&self, group: &Group) -> bool {
        self.groups.get(group).is_some_and(|table| table.main)
    }

    /// Returns the expiry of approval requests about a call, unless its action says otherwise.
    pub fn approval_expiry(&self) -> Duration {
        Duration::from_secs(self.approvals.expires_s)
    }

    /// Returns how long a caller waits unless its provider says otherwise.
    pub fn timeout(&self) -> Duration {
        Duration::from_millis(self.broker.call_timeout_ms)
    }

    /// Returns the number of different approvers that each gate needs.
    pub fn quorums(&self) -> BTreeMap<Gate, usize> {
        self.gates.iter().map(|(gate, table)| (gate.clone(), table.quorum.unwrap_or(1))).collect()
    }

    /// Returns the gates that a group's agent may open.
    pub fn gates_opened_by_group(&self, group: &Group) -> Vec<String> {
        let opens = |(gate, table): (&Gate, &GateTable)| table.groups.contains(group).then(|| gate.to_string());
        self.gates.iter().filter_map(opens).collect()
    }

    /// Returns the person with this user id.
    pub fn person(&self, uid: u32) -> Option<&str> {
        self.people.iter().find(|(_, table)| table.uid == Some(uid)).map(|(name, _)| name.as_str())
    }

    /// Returns whether this person may administer. The daemon's own user, root and people with `admin = true` may.
    pub fn administers(&self, person: &str) -> bool {
        self.flows.administrators.holds(person)
    }

    /// Returns a digest of the file's text. Rows name it, so that an auditor knows under which configuration a decision
    /// fell.
    pub fn digest(text: &str) -> Digest {
        Digest::of(text.as_bytes())
    }
}

/// Parses a TOML document. An error names the line, the key and the nearest known word.
fn parse<T: serde::de::DeserializeOwned>(text: &str, path: &Path) -> Result<T, ConfigError> {
    let error = |place: String, error: &toml::de::Error| parse_error(text, path, &place, error.span(), error.message());
    let deserializer = toml::Deserializer::parse(text).map_err(|fault| error(String::new(), &fault))?;
    serde_path_to_error::deserialize(deserializer).map_err(|fault| error(fault.path().to_string(), fault.inner()))
}

fn parse_error(text: &str, path: &Path, place: &str, span: Option<Range<usize>>, message: &str) -> ConfigError {
    let line = span.as_ref().map(|span| 1 + text.bytes().take(span.start).filter(|byte| *byte == b'\n').count());
    let place = match (line, place) {
        (Some(line), "" | ".") => format!("line {line}: "),
        (Some(line), place) => format!("line {line}, {place}: "),
        (None, "" | ".") => String::new(),
        (None, place) => format!("{place}: "),
    };
    let fault = match span.and_then(|span| text.get(span)).map(str::trim) {
        Some(key) if message == "duplicate key" && !key.is_empty() => format!("`{key}` occurs twice; merge the two"),
        _ => plain(message),
    };
    let hint = suggestion(&fault).map(|word| format!("; did you mean `{word}`?")).unwrap_or_default();
    ConfigError::Parse { path: path.into(), place, fault, hint }
}

/// Returns serde's message with the range of a number in place of the name of its type.
fn plain(fault: &str) -> String {
    match shared::numbers::range_of(fault) {
        Some((said, range)) => format!("{said}, expected a whole number from {range}"),
        None => fault.to_owned(),
    }
}

/// Returns the expected word nearest to the unknown one, from serde's own message:
/// ``unknown field `grup`, expected one of `groups`, `gates` ``.
fn suggestion(fault: &str) -> Option<String> {
    let (_, rest) = fault.split_once("unknown ")?;
    let mut quoted = rest.split('`').skip(1).step_by(2);
    let unknown = quoted.next()?;
    nearest(unknown, quoted).map(ToOwned::to_owned)
}

/// Returns the known name nearest to an unknown one.
pub fn nearest<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let far = |word: &&str| strsim::damerau_levenshtein(name, word);
    known.filter(|word| far(word) <= 2.max(name.len() / 3)).min_by_key(far)
}

/// Returns the same for the end of a sentence: ` (did you mean 'github'?)`, or nothing.
pub fn near_miss<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> String {
    nearest(name, known).map(|word| format!(" (did you mean '{word}'?)")).unwrap_or_default()
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
    fn what_does_not_fit_together_is_named_with_its_remedy() {
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
