//! `provider remove`: a provider out of the configuration.

use super::accept::permits;
use super::{Name, has_no_grants};
use crate::cli::Context;
use crate::cli::ask::running;
use crate::cli::edit;
use crate::cli::home_reader::unknown;
use crate::cli::output::CliError;
use crate::cli::reload::reload;
use clap::Args;
use config::profiles::Written;
use platform::home::write_new;
use serde_json::json;
use std::io::ErrorKind;

/// Remove a provider from the configuration.
///
/// The command takes the tables of the provider out of broker.toml, and deletes the rules of its acceptance. Then it reloads
/// a running daemon. Revoke the access of groups before. The ledger keeps its calls and accepted definitions.
#[derive(Debug, Args)]
#[command(after_help = "--json prints {provider, removed: true}")]
pub(super) struct Remove {
    /// The provider.
    provider: Name,
}

impl Remove {
    pub(super) fn run(self, context: &Context) -> Result<(), CliError> {
        let name = &self.provider;
        let lock = edit::lock(context)?;
        let config = context.config()?;
        if !config.providers.contains_key(name) {
            return Err(unknown("provider", name, config.providers.keys()));
        }
        has_no_grants(context, name, "")?;
        let edit = |text: &str| edit::removed(text, ["providers", name.as_str()]);
        let (_text, draft) = edit::draft(context, edit)?;
        let accepted = permits::path(context, name);
        // A profile or a rule that still names the provider would keep the daemon from its next start.
        let catalogue = context.catalogue(&draft);
        let written = Written::read(&context.home, &draft).map(|written| written.without(&accepted));
        written
            .and_then(|written| written.policy(&context.home, &draft, &catalogue.named()))
            .map_err(|error| CliError::configuration(&error).and_so("nothing was changed"))?;
        // The rules go first: without them, nothing is permitted, and without the provider, they would be invalid.
        let rules = std::fs::read(&accepted);
        if let Err(error) = std::fs::remove_file(&accepted)
            && error.kind() != ErrorKind::NotFound
        {
            return Err(CliError::home(format!("cannot remove {}: {error}; nothing was changed", accepted.display())));
        }
        if let Err(fault) = edit::change_under(&lock, context, edit) {
            rules.ok().map(|rules| write_new(&accepted, &rules));
            return Err(fault);
        }
        if running(context)?.is_some() {
            context.output.say("The running daemon reads its configuration again.");
            reload(context).map_err(|fault| fault.and_so(&format!("{name} is no longer in broker.toml")))?;
        }
        context
            .output
            .show(&json!({ "provider": name, "removed": true }), || format!("Removed {name} from the configuration."));
        Ok(())
    }
}
