//! `vault`: the keys of persons' credentials.

use crate::assembly::vault::open_vault;
use crate::cli::Context;
use crate::cli::ask::check_stopped;
use crate::cli::output::{CliError, Progress};
use crate::control;
use crate::host::LoadedHome;
use clap::{Args, Subcommand};
use config::Config;
use engine::request;
use secrets::keys;
use secrets::vault::key_names;
use serde_json::json;
use shared::numbers::counted;
use std::sync::Arc;
use store::reader;
use store::state::linking as stored;

/// Manage the key that encrypts stored credentials.
///
/// Each credential and each link session is encrypted with its own key. A master key encrypts those keys. The master key
/// is keys/vault.key in the home, unless the table `vault` of broker.toml names another source.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  host-broker vault status
  host-broker vault renew

Back up the master key with the rest of the home, or in the place that [vault] names. If the master key is lost, every \
    account must be linked again. `host-broker vault renew --forget` then deletes the records that cannot be decrypted.

status --json prints {key: PATH or source, credentials, waiting, flows, unreadable};
renew prints the reply: {status, summary, data: {renewed, unreadable, forgotten}, evidence: {…}}")]
pub struct Vault {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Show the number of records, and whether they can be decrypted.
    Status,
    /// Replace the master key and encrypt every record with the new key.
    ///
    /// The daemon must not run. If the table `vault` names the key, first write the new key there and the old key into
    /// `previous`.
    Renew {
        /// Delete the records that cannot be decrypted, and unlink their accounts.
        #[arg(long)]
        forget: bool,
    },
}

impl Vault {
    /// Runs the command.
    ///
    /// # Errors
    /// [`CliError`]. A renewal that was broken off goes on when it is run again; until then both keys are used.
    pub fn run(self, context: &Context) -> Result<(), CliError> {
        let config = context.config()?;
        match self.command {
            Command::Status => status(context, &config),
            Command::Renew { forget } => renew(context, &config, forget),
        }
    }
}

fn status(context: &Context, config: &Config) -> Result<(), CliError> {
    let vault = open_vault(config, &context.home, &context.platform)?;
    let (counts, unreadable) = match context.ledger_if_any()? {
        Some(_) => {
            let connection = reader(context.home.path())?;
            (stored::count(&connection)?, !key_names(&stored::ciphertexts(&connection)?).is_subset(&vault.names()))
        }
        None => ([0; 3], false),
    };
    let [credentials, waiting, flows] = counts;
    let key = config
        .vault
        .key
        .as_ref()
        .map_or_else(|| context.home.keys().join("vault.key").display().to_string(), ToString::to_string);
    let document = json!({
        "key": key, "credentials": credentials, "waiting": waiting, "flows": flows, "unreadable": unreadable,
    });
    context.output.show(&document, || {
        let all = format!(
            "The master key is {key}.\n{} of linked accounts, {waiting} of accounts that wait for an approval, {}.",
            counted(credentials, "credential", "credentials"),
            counted(flows, "link session", "link sessions"),
        );
        if unreadable { format!("{all}\nSome are encrypted with a master key that is missing.") } else { all }
    });
    Ok(())
}

fn renew(context: &Context, config: &Config, forget: bool) -> Result<(), CliError> {
    // A daemon holds the key that it began with.
    check_stopped(context)?;
    let (ids, in_home) = (context.platform.ids.as_ref(), config.vault.key.is_none());
    if in_home && forget {
        // Records under the lost key are forgotten; without that, no key is made where there are records.
        keys::vault(&context.home, ids)?;
    }
    let loaded = LoadedHome::open(context.home.clone(), &context.platform, context.kinds)?;
    // INVARIANT: keys change, and go, only under the lock, which a daemon holds as long as it lives; it looks at them when it
    // has taken it.
    let mut ledger = loaded.ledger(Arc::clone(&context.platform.clock))?;
    if in_home {
        keys::renew_vault(&context.home, ids)?;
    }
    let vault = open_vault(config, &context.home, &context.platform)?;
    let present = vault.name();
    let mut broker = loaded.broker(&context.platform.ids).with_vault(vault);
    let dispatcher = loaded.dispatcher(&context.platform);
    let command = request::Command::RenewVault { forget };
    let reply = Progress::during(context.output, "encrypting every record with the new key", || {
        control::administer(&mut ledger, &mut broker, &dispatcher, &command)
    })?;
    let used = key_names(&stored::ciphertexts(ledger.view())?);
    if in_home && used.iter().all(|name| *name == present) {
        keys::drop_vault_before(&context.home).map_err(|error| CliError::internal(&error))?;
    }
    context.output.reply(&reply)
}
