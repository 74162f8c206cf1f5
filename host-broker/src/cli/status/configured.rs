//! The configuration and the groups of the page, also while `broker.toml` is invalid.

use super::mailbox::Mailbox;
use crate::assembly::secrets::{SecretStatus, available_secrets, secret_statuses};
use crate::cli::Context;
use crate::cli::output::CliError;
use config::Config;
use engine::catalogue::Catalogue;
use secrets::Secrets;
use secrets::identity::issuers;
use serde_json::Value;
use shared::{Group, Provider};
use std::collections::BTreeMap;

/// A valid configuration, and its view from this command.
pub(super) struct Configured {
    config: Config,
    pub(super) catalogue: Catalogue,
    // As this command sees them: without running a program, and in its own environment.
    secrets: Secrets,
}

impl Configured {
    pub(super) fn of(context: &Context, config: Config) -> Self {
        let (catalogue, secrets) = (context.catalogue(&config), available_secrets(&config, &context.platform));
        Self { config, catalogue, secrets }
    }

    /// Returns the secrets of a provider.
    pub(super) fn secret_statuses(&self, provider: &Provider) -> Vec<SecretStatus<'_>> {
        let table = self.config.table_of(provider);
        table.map(|(name, table)| secret_statuses(name, table, &self.secrets)).unwrap_or_default()
    }

    /// Issuers of context tokens whose secret cannot be used, as far as that can be seen.
    pub(super) fn unbelieved(&self) -> impl Iterator<Item = (&str, String)> {
        let issuers = self.config.identity.issuers.keys();
        issuers.filter_map(move |issuer| issuers::fault(issuer, &self.secrets).map(|fault| (issuer.as_str(), fault)))
    }
}

/// A group.
pub(super) struct GroupState {
    /// Whether it is the main group; `None` if only the daemon knows the group.
    pub(super) is_main: Option<bool>,
    pub(super) mailbox: Mailbox,
}

/// Returns the groups of the configuration. While that is invalid, these are the groups that the daemon serves.
pub(super) fn groups(
    context: &Context,
    configured: &Result<Configured, CliError>,
    daemon: Option<&Value>,
) -> BTreeMap<Group, GroupState> {
    let state = |group: &Group, is_main| GroupState { is_main, mailbox: Mailbox::at(&context.home.mailbox(group)) };
    if let Ok(Configured { config, .. }) = configured {
        return config.groups.iter().map(|(group, table)| (group.clone(), state(group, Some(table.main)))).collect();
    }
    let served = daemon.and_then(|daemon| daemon.pointer("/data/sockets")?.as_object());
    let names = served.into_iter().flatten().filter_map(|(name, _)| name.parse::<Group>().ok());
    names.map(|group| (group.clone(), state(&group, None))).collect()
}
