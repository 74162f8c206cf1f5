//! Loads the secrets that the configuration names.

use config::Config;
use config::provider::ProviderTable;
use config::secret_sources::{NamedSecret, SecretUser};
use platform::Platform;
use platform::commands::{Command, Commands, Ending};
use provider::kind::secret_name;
use secrets::source::{CommandOutput, Output, SecretSource};
use secrets::{SecretError, Secrets};
use shared::Provider;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// The longest time that a program may take to print a secret: a person may have to unlock a vault.
const SECRET_TIMEOUT: Duration = Duration::from_secs(30);

/// Loads the secrets of every provider that takes calls, under the names `<provider>.<secret>`. Channels, sinks and the
/// store have secrets, too.
pub fn load_secrets(config: &Config, platform: &Platform) -> Secrets {
    load_from(config, platform, |_| true)
}

/// The same, but for secrets that a program would have to be run for.
pub fn available_secrets(config: &Config, platform: &Platform) -> Secrets {
    load_from(config, platform, |source| !source.runs_a_program())
}

fn load_from(config: &Config, platform: &Platform, wanted: impl Fn(&SecretSource) -> bool) -> Secrets {
    let is_used = |user: SecretUser<'_>| !matches!(user, SecretUser::Provider(_, false));
    let sources = sources(config, |secret| is_used(secret.user) && wanted(secret.source));
    let helper = Helper(Arc::clone(&platform.commands));
    platform.runtime.block_on(Secrets::load(&sources, &platform.environment, &helper))
}

/// Returns a warning about each secret in a file that cannot be used, with its provider if it has one: `the secret
/// channels.room.access_token is missing: …`. A command has another environment than the daemon, so other sources are not
/// looked at.
pub fn secret_warnings(config: &Config, platform: &Platform) -> Vec<(Option<Provider>, String)> {
    let is_file = |source: &SecretSource| match source {
        SecretSource::File { .. } | SecretSource::EnvFile { .. } => true,
        SecretSource::Env { .. } | SecretSource::Keyring { .. } | SecretSource::Command { .. } => false,
    };
    let provider = |name: &str| {
        config.secrets().find(|secret| secret.name == name).and_then(|secret| match secret.user {
            SecretUser::Provider(provider, _) => Some(provider.clone()),
            SecretUser::Classifier
            | SecretUser::Issuer
            | SecretUser::Channel
            | SecretUser::Sink
            | SecretUser::Store => None,
        })
    };
    let secrets = load_from(config, platform, is_file);
    secrets.faults().map(|(name, fault)| (provider(name), format!("the secret {name} is {fault}"))).collect()
}

/// Those that context tokens are verified with.
pub fn secrets_of_issuers(config: &Config, platform: &Platform) -> Secrets {
    let helper = Helper(Arc::clone(&platform.commands));
    let sources = sources(config, |secret| secret.user == SecretUser::Issuer);
    platform.runtime.block_on(Secrets::load(&sources, &platform.environment, &helper))
}

/// Loads the URL of the database with the records, and nothing else.
pub fn secret_of_store(config: &Config, platform: &Platform) -> Secrets {
    let helper = Helper(Arc::clone(&platform.commands));
    let sources = sources(config, |secret| secret.user == SecretUser::Store);
    platform.runtime.block_on(Secrets::load(&sources, &platform.environment, &helper))
}

fn sources(config: &Config, wanted: impl Fn(&NamedSecret<'_>) -> bool) -> BTreeMap<String, SecretSource> {
    config.secrets().filter(wanted).map(|secret| (secret.name, secret.source.clone())).collect()
}

/// One secret of a provider, as it can be seen without running anything.
pub struct SecretStatus<'a> {
    /// Its name among the provider's.
    pub secret: &'a str,
    /// Where it comes from.
    pub source: &'a SecretSource,
    /// Why it cannot be used; `None` also where that takes a program to know.
    pub fault: Option<&'a SecretError>,
}

/// The secrets of a provider, given [`available_secrets`].
pub fn secret_statuses<'a>(
    provider: &Provider,
    table: &'a ProviderTable,
    available: &'a Secrets,
) -> Vec<SecretStatus<'a>> {
    let status =
        |(secret, source)| SecretStatus { secret, source, fault: available.fault(&secret_name(provider, secret)) };
    table.configured.secrets().into_iter().map(status).collect()
}

/// Programs that print secrets.
pub(super) struct Helper(pub(super) Arc<dyn Commands>);

impl CommandOutput for Helper {
    fn output<'a>(&'a self, command: &'a [String]) -> Output<'a> {
        Box::pin(async move {
            let Some((program, arguments)) = command.split_first() else { return Err("it is empty".to_owned()) };
            let start = Command::new(program, Instant::now() + SECRET_TIMEOUT);
            let command = arguments.iter().fold(start, Command::arg);
            let finished = self.0.run(command).await.map_err(|fault| fault.to_string())?;
            match finished.ending {
                Ending::Exited(0) => Ok(finished.stdout.into()),
                ending @ (Ending::Exited(_) | Ending::Signalled(_) | Ending::Overflowed(_)) => {
                    Err(format!("it ended badly: {ending:?}"))
                }
            }
        })
    }
}
