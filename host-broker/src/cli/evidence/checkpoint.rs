//! `evidence checkpoint`: the last signed checkpoint, or the key that signs them.

use super::verify::text;
use crate::cli::Context;
use crate::cli::output::CliError;
use clap::Args;
use secrets::keys;
use serde_json::json;
use std::path::Path;
use store::View;
use store::ledger::checkpoint::{self, NOTE_MAX, PublicKey};
use store::ledger::checkpoints::{self, Last};

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  host-broker evidence checkpoint > kept.note
  host-broker evidence checkpoint --public-key

While rows are written, the daemon signs a checkpoint each minute, after each 10,000 rows, and when it stops. The format \
is that of the C2SP specifications tlog-checkpoint and signed-note.

--json prints {row, size, root, note, key}")]
pub(super) struct Checkpoint {
    /// Print the public key that verifies the checkpoint. The command needs the rights of the daemon.
    #[arg(long)]
    public_key: bool,
}

impl Checkpoint {
    pub(super) fn run(self, context: &Context) -> Result<(), CliError> {
        let Last { seq, checkpoint, key } = latest(context, &context.ledger()?)?;
        if self.public_key {
            is_ours(context, &key)?;
        }
        let (note, key) = (checkpoint.to_string(), key.to_string());
        let document =
            json!({ "row": seq, "size": checkpoint.size(), "root": checkpoint.root(), "note": note, "key": key });
        context.output.raw(&document, || if self.public_key { key.clone() } else { note.clone() });
        Ok(())
    }
}

/// Checks that the broker has the private key. Another process could have replaced the ledger and its checkpoints.
fn is_ours(context: &Context, key: &PublicKey) -> Result<(), CliError> {
    let (present, earlier) = keys::present_checkpoint(&context.home).map_err(|error| CliError::internal(&error))?;
    let is_ours = [Some(present), earlier].into_iter().flatten().any(|own| key.is_of(&own.public()));
    if is_ours {
        return Ok(());
    }
    Err(CliError::failed(
        "the last checkpoint is not signed with the key of this home; verify it: host-broker evidence verify",
    ))
}

/// Returns the last checkpoint.
pub(super) fn latest(context: &Context, ledger: &View) -> Result<Last, CliError> {
    checkpoints::last(context.home.path(), ledger)?.ok_or_else(|| {
        CliError::refused(
            "the ledger has no checkpoint yet; the daemon signs one each minute while rows are written, and when it stops",
        )
    })
}

/// Reads a checkpoint that was kept.
pub(super) fn read(path: &Path) -> Result<checkpoint::Checkpoint, CliError> {
    text(path, NOTE_MAX)?
        .parse()
        .map_err(|fault: checkpoint::Malformed| CliError::usage(format!("{}: {fault}", path.display())))
}
