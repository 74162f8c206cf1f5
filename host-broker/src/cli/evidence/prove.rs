//! `evidence prove`: the proof that one row is in the ledger.

use super::checkpoint::latest;
use crate::cli::Context;
use crate::cli::output::{CliError, Progress};
use clap::Args;
use serde_json::json;
use store::StoreError;
use store::ledger::chain::Row;
use store::ledger::proof::InclusionProof;
use store::ledger::segments;
use store::ledger::tree::ProofBuilder;

#[derive(Debug, Args)]
#[command(after_help = "Example:
  host-broker evidence prove 7 > row-7.tlog-proof
  host-broker evidence verify --proof row-7.tlog-proof --key \"$(cat broker.key)\"

The proof has the row, the hashes from its leaf to the root, and the last checkpoint. The format is that of the C2SP \
specification tlog-proof. The command reads all rows that the checkpoint covers.

--json prints {row: {…}, size, proof}")]
pub(super) struct Prove {
    /// The number of the row.
    #[arg(value_name = "SEQ", value_parser = clap::value_parser!(i64).range(1..))]
    seq: i64,
}

impl Prove {
    pub(super) fn run(self, context: &Context) -> Result<(), CliError> {
        let ledger = context.ledger()?;
        let checkpoint = latest(context, &ledger)?.checkpoint;
        let size = checkpoint.size();
        let Some(mut builder) = ProofBuilder::inclusion(self.seq, size) else {
            return Err(CliError::refused(format!(
                "the last checkpoint covers the rows up to {size}; if row {} exists, the next checkpoint covers it",
                self.seq
            )));
        };
        let mut progress = Progress::new(context.output);
        let mut found: Option<Row> = None;
        segments::between(context.home.path(), &ledger, 1, size, |row| {
            builder.take(&row.event_hash);
            progress.report(|| format!("read {} of {size} rows …", row.seq));
            if row.seq == self.seq {
                found = Some(row);
            }
            Ok::<(), StoreError>(())
        })?;
        let (Some(row), Some(hashes)) = (found, builder.finish()) else {
            return Err(StoreError::Stored { what: "row" }.into());
        };
        let proof = InclusionProof { row, hashes, checkpoint };
        proof.is_in_tree().map_err(|fault| {
            CliError::failed(format!(
                "the ledger is not the one of its last checkpoint: {fault}; verify it: host-broker evidence verify"
            ))
        })?;
        let text = proof.to_string();
        context.output.raw(&json!({ "row": proof.row, "size": size, "proof": text }), || text.clone());
        Ok(())
    }
}
