//! `evidence consistency`: the proof that the last checkpoint continues an earlier one.

use super::checkpoint::latest;
use crate::cli::Context;
use crate::cli::output::{CliError, Progress};
use clap::Args;
use serde_json::json;
use store::StoreError;
use store::ledger::proof::ConsistencyProof;
use store::ledger::segments;
use store::ledger::tree::ProofBuilder;

#[derive(Debug, Args)]
#[command(after_help = "Example:
  host-broker evidence consistency 1200 > continued
  host-broker evidence verify --consistency continued --checkpoint kept.note --key KEY

A verifier needs the proof, the earlier checkpoint and the public key. The format is a request of the C2SP specification \
tlog-witness. To compare an earlier checkpoint with the ledger itself, use: host-broker evidence verify --checkpoint FILE

--json prints {old, size, proof}")]
pub(super) struct Consistency {
    /// The number of rows of the earlier checkpoint; 0 for a witness that knows none.
    #[arg(value_name = "SIZE", value_parser = clap::value_parser!(i64).range(0..))]
    old: i64,
}

impl Consistency {
    pub(super) fn run(self, context: &Context) -> Result<(), CliError> {
        let ledger = context.ledger()?;
        let checkpoint = latest(context, &ledger)?.checkpoint;
        let (old, size) = (self.old, checkpoint.size());
        let Some(mut builder) = ProofBuilder::consistency(old, size) else {
            return Err(CliError::refused(format!(
                "the last checkpoint covers {size} rows, which are fewer than {old}"
            )));
        };
        let mut progress = Progress::new(context.output);
        segments::between(context.home.path(), &ledger, 1, size, |row| {
            builder.take(&row.event_hash);
            progress.report(|| format!("read {} of {size} rows …", row.seq));
            Ok::<(), StoreError>(())
        })?;
        let Some(hashes) = builder.finish() else { return Err(StoreError::Stored { what: "row" }.into()) };
        let proof = ConsistencyProof { old, hashes, checkpoint }.to_string();
        context.output.raw(&json!({ "old": old, "size": size, "proof": proof }), || proof.clone());
        Ok(())
    }
}
