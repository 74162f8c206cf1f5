//! `fleet leave`: takes this home out of the database.

use super::no_store;
use crate::cli::Context;
use crate::cli::ask::{check_stopped, own_person};
use crate::cli::output::{CliError, Progress};
use crate::host::LoadedHome;
use clap::Args;
use secrets::keys;
use serde_json::json;
use std::sync::Arc;
use store::StoreError;
use store::fleet::FleetError;

#[derive(Debug, Args)]
#[command(after_help = "Example:
  host-broker stop
  host-broker fleet leave
  # Remove the table `store` from broker.toml.
  host-broker serve

--json prints {host, home, head: {seq, event_hash}}")]
pub(super) struct Leave {}

impl Leave {
    pub(super) fn run(self, context: &Context) -> Result<(), CliError> {
        let Self {} = self;
        check_stopped(context)?;
        let config = context.config()?;
        // Before the home is opened, because that makes missing keys.
        let missing = keys::continuity(&context.home, config.vault.key.is_none(), config.store.is_some());
        if let Some(note) = missing.map_err(|error| CliError::configuration(&error))?.first() {
            return Err(CliError::refused(note.clone()).and_so("nothing was changed"));
        }
        let loaded = LoadedHome::open(context.home.clone(), &context.platform, context.kinds)?;
        let fleet = loaded.fleet.as_ref().ok_or_else(no_store)?;
        let by = own_person(Some(&loaded.config));
        let (clock, version) = (Arc::clone(&context.platform.clock), loaded.ruleset.version.clone());
        let head = Progress::during(context.output, "taking the records out of the database", || {
            fleet.leave(loaded.home.path(), clock, version, (&loaded.key, &by))
        });
        let head = head.map_err(|error| {
            let may_be_marked = matches!(error, StoreError::Fleet(FleetError::Unreachable(_) | FleetError::Unknown(_)));
            let error = CliError::from(error);
            if may_be_marked {
                error.and_so("the database may no longer serve the host, so repeat the command")
            } else {
                error
            }
        })?;
        let (host, home) = (fleet.host(), loaded.home.path());
        let document = json!({ "host": host, "home": home, "head": { "seq": head.seq, "event_hash": head.hash } });
        context.output.show(&document, || {
            format!(
                "Only {1} gets the new records of the host {host} from now on. Its ledger ends with row {2}.\nNext: remove [store] \
                 and its tables from broker.toml, and start the daemon with: {0} serve",
                context.program(),
                home.display(),
                head.seq,
            )
        });
        Ok(())
    }
}
