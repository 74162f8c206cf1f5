//! The readers for commands without changes: the configuration, the catalogue, the ledger. None of it writes, and none
//! of it needs a daemon.

use crate::assembly::catalogue::{CatalogueDeps, catalogue};
use crate::assembly::secrets::{available_secrets, load_secrets, secret_statuses, secret_warnings};
use crate::cli::Context;
use crate::cli::ask::{BEHIND, is_behind, running};
use crate::cli::output::CliError;
use config::Policy;
use config::warnings::warnings;
use config::{Config, nearest, permissions, profiles};
use engine::catalogue::{Catalogue, Listed};
use model::{ChatType, Person};
use policy::facts::Outage;
use secrets::keys;
use secrets::source::SecretSource;
use serde_json::Value;
use shared::{Group, Provider};
use std::fmt::Display;
use std::path::Path;
use std::sync::Once;
use store;
use store::View;

impl Context {
    /// The configuration. It says on standard error if a running daemon uses an earlier one.
    ///
    /// # Errors
    /// [`CliError`] that names the file, the place in it and the remedy.
    pub fn config(&self) -> Result<Config, CliError> {
        let config = self.config_alone()?;
        self.note_age();
        Ok(config)
    }

    /// Says on standard error, once in a command, that the running daemon uses an earlier configuration, if it does.
    pub fn note_age(&self) {
        static NOTED: Once = Once::new();
        NOTED.call_once(|| {
            if running(self).is_ok_and(|daemon| daemon.as_ref().is_some_and(is_behind)) {
                self.output.say(&self.at_home(&format!("host-broker: {BEHIND}")));
            }
        });
    }

    /// The configuration, for a command that itself says how old the daemon's is.
    ///
    /// # Errors
    /// As [`Self::config`].
    pub fn config_alone(&self) -> Result<Config, CliError> {
        let unusable = |error| CliError::configuration(&error);
        permissions::check(&self.home).map_err(unusable)?;
        let config = Config::load(&self.home.config(), &self.platform.environment, self.kinds).map_err(unusable)?;
        permissions::check_named(&self.home, &config).map_err(unusable)?;
        Ok(config)
    }

    /// Returns the actions that the configuration makes available.
    ///
    /// It contacts no provider, and reads no secret: the daemon's environment may differ from this command's.
    pub fn catalogue(&self, config: &Config) -> Catalogue {
        catalogue(config, &self.home, &self.platform, None)
    }

    /// Returns the same catalogue, in which providers that lack a secret take no calls. It runs no program to find that
    /// out. A daemon that runs on the present configuration is asked: its environment may differ from this command's.
    ///
    /// # Errors
    /// [`CliError`] if something listens for commands and does not answer.
    pub fn catalogue_as_seen(&self, config: &Config) -> Result<Catalogue, CliError> {
        let mut catalogue = self.catalogue(config);
        let secrets = available_secrets(config, &self.platform);
        let daemon = running(self)?;
        let is_elsewhere = daemon.is_some();
        let names: Vec<Provider> = catalogue.providers().map(|(name, _)| name.clone()).collect();
        for name in names {
            let Some((own, table)) = config.table_of(&name) else { continue };
            let lacks = secret_statuses(own, table, &secrets).into_iter().find_map(|status| {
                let is_unseen = is_elsewhere && matches!(status.source, SecretSource::Env { .. });
                let fault = status.fault.filter(|_| !is_unseen)?;
                Some(format!("its secret `{}` is {fault}", status.secret))
            });
            let listed = catalogue.provider(&name).filter(|listed| listed.state.is_ok()).cloned();
            let (lacks, outage) = match daemon.as_ref().and_then(|hello| standing(hello, &name)) {
                Some(ServerState::Ready) => (None, Outage::NoSecret),
                Some(ServerState::Unready { reason, lacks_secret: true }) => (Some(reason), Outage::NoSecret),
                Some(ServerState::Unready { reason, lacks_secret: false }) => (Some(reason), Outage::Unusable),
                None => (lacks, Outage::NoSecret),
            };
            if let (Some(lacks), Some(listed)) = (lacks, listed) {
                catalogue.insert(name, Listed { state: Err(lacks), outage, ..listed });
            }
        }
        Ok(catalogue)
    }

    /// Checks names of which nothing is recorded: a name that the configuration does not have either is mistyped.
    ///
    /// # Errors
    /// [`CliError`] that names the nearest one.
    pub fn knows(&self, group: Option<&Group>, provider: Option<&Provider>) -> Result<(), CliError> {
        let config = self.config()?;
        if let Some(group) = group {
            known_group(&config, group)?;
        }
        match provider.filter(|provider| config.table_of(provider).is_none()) {
            Some(provider) => Err(unknown("provider", provider, config.providers.keys())),
            None => Ok(()),
        }
    }

    /// Returns the operators' policy.
    ///
    /// # Errors
    /// [`CliError`] if a profile cannot be used.
    pub fn policy(&self, config: &Config, catalogue: &Catalogue) -> Result<Policy, CliError> {
        profiles::policy(&self.home, config, &catalogue.named()).map_err(|error| CliError::configuration(&error))
    }

    /// Returns warnings about a valid home that may differ from the operator's intent.
    ///
    /// # Errors
    /// [`CliError`] if a file cannot be read.
    pub fn warnings(&self, config: &Config) -> Result<Vec<String>, CliError> {
        let mut found = warnings(&self.home, config).map_err(|error| CliError::configuration(&error))?;
        // The state of a provider names its own secret.
        let secrets = secret_warnings(config, &self.platform);
        found.extend(secrets.into_iter().filter(|(provider, _)| provider.is_none()).map(|(_, warning)| warning));
        match keys::continuity(&self.home, config.vault.key.is_none(), config.store.is_some()) {
            Ok(notes) => found.extend(notes),
            Err(error) => found.push(error.to_string()),
        }
        // The commands that need a daemon say why it does not answer.
        let hello = running(self).ok().flatten();
        if hello.as_ref().is_some_and(is_behind) {
            found.push(BEHIND.to_owned());
        }
        found.extend(hello.as_ref().and_then(stale_policy).map(|(fault, remedy)| format!("{fault}; {remedy}")));
        let fault = hello.as_ref().and_then(|hello| hello.pointer("/data/classifier_fault")?.as_str());
        found.extend(
            fault.map(|fault| format!("the classifier failed, so the last result counted as suspicious: {fault}")),
        );
        Ok(found)
    }

    /// Returns the actions that the configuration makes available, with the secrets as this command can load them.
    pub fn catalogue_with_secrets(&self, config: &Config) -> Catalogue {
        let secrets = load_secrets(config, &self.platform);
        let deps = CatalogueDeps { secrets: &secrets, runtime: None };
        catalogue(config, &self.home, &self.platform, Some(&deps))
    }

    /// The ledger, for reading only.
    ///
    /// # Errors
    /// [`CliError`], also if there is no ledger yet.
    pub fn ledger(&self) -> Result<View, CliError> {
        match self.ledger_if_any()? {
            Some(connection) => Ok(connection),
            None => Err(CliError::home(format!(
                "{} has no ledger yet; the first grant, or host-broker serve, \
                 creates it",
                self.home.path().display()
            ))),
        }
    }

    /// The ledger, for reading only; `None` if there is none yet.
    ///
    /// # Errors
    /// [`CliError`] if there is no home, or its ledger cannot be read.
    pub fn ledger_if_any(&self) -> Result<Option<View>, CliError> {
        let home = self.home.path();
        let there = |path: &Path| {
            let cannot = |error| CliError::home(format!("cannot read {}: {error}", home.display()));
            path.try_exists().map_err(cannot)
        };
        if !there(home)? {
            let home = home.display();
            return Err(CliError::home(format!(
                "there is no home at {home}; name another with --home DIR or EXT_BROKER_HOME, or create this one with: \
                 host-broker init --home {home}"
            )));
        }
        permissions::check(&self.home).map_err(|error| CliError::configuration(&error))?;
        if !there(&home.join("ledger.db"))? {
            return Ok(None);
        }
        let connection = store::reader(home)?;
        // A first start that died before it made the tables leaves a file without any.
        Ok(connection.has_schema()?.then_some(connection))
    }
}

/// The daemon's report on a provider.
pub enum ServerState {
    /// It takes calls.
    Ready,
    /// It takes none.
    Unready {
        /// Why.
        reason: String,
        /// Whether it lacks a secret.
        lacks_secret: bool,
    },
}

/// Returns the report on a provider from the daemon's [`ProcessRequest::Hello`](crate::control::ProcessRequest::Hello)
/// reply.
///
/// Returns `None` if the daemon does not run on the present configuration.
pub fn standing(hello: &Value, provider: &Provider) -> Option<ServerState> {
    let unready = hello.pointer("/data/unready")?.as_object().filter(|_| !is_behind(hello))?;
    Some(match unready.get(provider.as_str()) {
        None => ServerState::Ready,
        Some(why) => ServerState::Unready {
            reason: why.get("reason").and_then(Value::as_str).unwrap_or_default().to_owned(),
            lacks_secret: why.get("lacks_secret").and_then(Value::as_bool).unwrap_or(false),
        },
    })
}

/// The group, if the configuration has it.
///
/// # Errors
/// [`CliError`] that says which there are.
pub fn known_group(config: &Config, group: &Group) -> Result<(), CliError> {
    if config.groups.contains_key(group) { Ok(()) } else { Err(unknown("group", group, config.groups.keys())) }
}

/// A name that is none of those there are.
pub fn unknown(what: &str, name: &impl Display, known: impl Iterator<Item = impl Display>) -> CliError {
    let name = name.to_string();
    let known: Vec<String> = known.map(|name| name.to_string()).collect();
    let hint = match nearest(&name, known.iter().map(String::as_str)) {
        Some(word) => format!("did you mean `{word}`?"),
        None if known.is_empty() => "the configuration has none".to_owned(),
        None => format!("there is {}", known.join(", ")),
    };
    CliError::missing(format!("there is no {what} `{name}`; {hint}"))
}

/// Parses a duration of the command line, in seconds.
///
/// # Errors
/// The form of a duration.
pub fn seconds(text: &str) -> Result<u64, String> {
    let units = [("s", 1), ("m", 60), ("h", 3_600), ("d", 86_400)];
    let unit = units.into_iter().find_map(|(unit, factor)| Some((text.strip_suffix(unit)?, factor)));
    let seconds = unit.and_then(|(number, factor)| number.parse::<u64>().ok()?.checked_mul(factor));
    seconds.ok_or_else(|| "a duration is a number and its unit, s, m, h or d: 90m, 12h, 7d".to_owned())
}

/// Parses a kind of chat of the command line.
///
/// # Errors
/// The known kinds.
pub fn chat_type(text: &str) -> Result<ChatType, String> {
    ChatType::of(text).ok_or_else(|| "a kind of chat is private, group or channel".to_owned())
}

/// Parses a person, as the ledger writes persons: `ash:user-1`.
///
/// # Errors
/// The form of a person.
pub fn person(text: &str) -> Result<Person, String> {
    let (issuer, sub) = text.split_once(':').ok_or("a person is an issuer and a name, such as broker:ann")?;
    Ok(Person::new(issuer.to_owned(), sub.to_owned()))
}

/// The beginning of the warning about a host that cannot use the last policy of its fleet.
pub(in crate::cli) const NO_CALL: &str = "this host executes no call";

/// Returns why the daemon of this [`ProcessRequest::Hello`](crate::control::ProcessRequest::Hello) reply cannot use or read the
/// last policy of its fleet, and the remedy.
pub(in crate::cli) fn stale_policy(hello: &Value) -> Option<(String, String)> {
    let policy = hello.pointer("/data/policy")?;
    let (host, fault) = (policy.get("host")?.as_str()?, policy.get("fault")?.as_str()?);
    let remedy = format!(
        "correct broker.toml of this host, then host-broker reload; or publish another policy on the host {host}"
    );
    if policy.get("is_superseded")?.as_bool()? {
        return Some((format!("{NO_CALL}, because {fault}"), remedy));
    }
    let remedy = "until then, calls are refused if another policy is in force; see: host-broker fleet status";
    Some((fault.to_owned(), remedy.to_owned()))
}
