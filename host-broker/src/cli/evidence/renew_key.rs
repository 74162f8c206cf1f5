//! `evidence renew-key`: a new key for checkpoints.

use crate::assembly::checkpoint_keys::checkpoint_keys;
use crate::cli::Context;
use crate::cli::ask::check_stopped;
use crate::cli::output::CliError;
use crate::host::LoadedHome;
use clap::Args;
use engine::event::Event;
use secrets::keys;
use serde_json::json;
use std::sync::Arc;
use store::Durability;
use store::ledger::checkpoints::Signed;

#[derive(Debug, Args)]
#[command(
    after_help = "No daemon must be running. The command signs a checkpoint with the new key, which the present key endorses, \
    and removes the present key. Then give the new public key to those who verify proofs. If somebody else knows the \
    present key, a renewal does not help: that person can endorse keys, too.

Example:
  host-broker evidence renew-key && host-broker evidence checkpoint --public-key

--json prints {renewed: true, row, key}"
)]
pub(super) struct RenewKey {}

impl RenewKey {
    pub(super) fn run(self, context: &Context) -> Result<(), CliError> {
        let Self {} = self;
        check_stopped(context)?;
        let loaded = LoadedHome::open(context.home.clone(), &context.platform, context.kinds)?;
        // INVARIANT: keys change only under the lock, which a daemon holds as long as it lives.
        let mut ledger = loaded.ledger(Arc::clone(&context.platform.clock))?;
        let ids = context.platform.ids.as_ref();
        // A missing key is refused, and a renewal that has ended is cleared.
        checkpoint_keys(&context.home, &ledger, ids)?;
        keys::renew_checkpoint(&context.home, ids).map_err(|error| CliError::internal(&error))?;
        let (signing, mut kept) = checkpoint_keys(&context.home, &ledger, ids)?;
        let mut broker = loaded.broker(&context.platform.ids).with_checkpoint_keys(signing);
        let batch = ledger.batch(Durability::Full, vec![Event::CheckpointDue], &mut broker);
        if let Some((_, error)) = batch.unwritten.first() {
            return Err(CliError::internal(error.as_ref()));
        }
        let Some(last) = ledger.signed().and_then(Signed::last) else {
            return Err(CliError::refused(
                "no checkpoint can be signed; verify the ledger: host-broker evidence verify",
            ));
        };
        kept.keep(last);
        // The new key is endorsed now.
        checkpoint_keys(&context.home, &ledger, ids)?;
        let (row, key) = (last.seq, last.key.to_string());
        context.output.show(&json!({ "renewed": true, "row": row, "key": key }), || {
            format!("Row {row} is the first checkpoint of the new key, and the earlier key endorses it: {key}")
        });
        Ok(())
    }
}
