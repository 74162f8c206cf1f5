//! `fleet key`: the public key of this host.

use super::no_store;
use crate::cli::Context;
use crate::cli::output::CliError;
use clap::Args;
use secrets::keys;
use serde_json::json;

#[derive(Debug, Args)]
#[command(after_help = "Compare the key with the one in broker.toml of the other host, for example on the telephone.

--json prints {host, key}")]
pub(super) struct Key {}

impl Key {
    pub(super) fn run(self, context: &Context) -> Result<(), CliError> {
        let Self {} = self;
        let config = context.config()?;
        let store = config.store.as_ref().ok_or_else(no_store)?;
        let key = keys::fleet(&context.home, context.platform.ids.as_ref())?.signing().public_text();
        context.output.show(&json!({ "host": store.host, "key": key }), || key.clone());
        Ok(())
    }
}
