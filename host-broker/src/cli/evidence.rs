//! `evidence`: the ledger as proof.

mod checkpoint;
mod consistency;
mod files;
mod prove;
mod renew_key;
mod sinks;
mod verify;

use crate::cli::Context;
use crate::cli::ask::ask;
use crate::cli::output::{CliError, Progress};
use clap::{Args, Subcommand, ValueEnum};
use engine::request;
use serde_json::json;
use shared::digest::Digest;
use std::io::{BufWriter, IsTerminal as _, Write as _};
use std::path::PathBuf;
use std::str::FromStr;
use store::ledger::checkpoint::PublicKey;
use store::ledger::{export, segments};
use verify::Known;

/// Inspect, verify and export the audit ledger.
#[derive(Debug, Args)]
pub struct Evidence {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Print the head of the chain.
    ///
    /// Keep the head in another place. Later, `verify --kept` detects a ledger that was truncated or rewritten.
    Head(Head),
    /// Print the last signed checkpoint, to be kept in another place.
    ///
    /// A checkpoint states the number of rows and the root of the Merkle tree over them. Later, `verify --checkpoint`
    /// detects a ledger that was truncated or rewritten.
    Checkpoint(checkpoint::Checkpoint),
    /// Prove that one row is in the ledger.
    ///
    /// A verifier needs the proof and the public key, and neither the ledger nor its other rows.
    Prove(prove::Prove),
    /// Prove that the last checkpoint continues an earlier one.
    Consistency(consistency::Consistency),
    /// Verify every row and its link to the previous row.
    ///
    /// The command stops at the first invalid row and exits with 5.
    Verify(Verify),
    /// Export every row.
    ///
    /// Other programs can verify the chain from the export.
    Export(Export),
    /// List the sinks, and the rows that each has accepted.
    Sinks(Sinks),
    /// Set the row with which a sink continues.
    ///
    /// Use the command after the ledger was restored, or if a new sink must not receive old rows. No daemon must be
    /// running.
    Resume(Resume),
    /// Sign later checkpoints with a new key, which the present key endorses.
    RenewKey(renew_key::RenewKey),
    /// Accept a clock that is behind the last row, so that calls are admitted again.
    AcceptClock(AcceptClock),
}

#[derive(Debug, Args)]
#[command(
    after_help = "The command prints SEQ:sha256:HASH. --json prints {seq, event_hash, time}; seq is 0 for an empty ledger"
)]
struct Head {}

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  host-broker evidence verify
  host-broker evidence verify --file ledger.jsonl --kept 1200:sha256:6f…
  host-broker evidence verify --checkpoint kept.note
  host-broker evidence verify --proof row-7.tlog-proof --key host-broker/5f2c…+0a1b2c3d+AQ…

HOME/segments holds the oldest rows of a large ledger. Each file is a part of the export, compressed with gzip.

--json prints {ok, rows, head: {seq, event_hash, time}, open_intents: [SEQ], checkpoint: {row, size, unsigned, key, endorsed}}; \
checkpoint is null if there is none. unsigned is the number of rows after it. endorsed is false if an earlier key does \
not endorse a later one, and null if the keys are named before --from. With --proof it prints {ok, row: {…}, size}, with \
--consistency {ok, old, size};
for an invalid ledger {ok: false, rows, first_bad, error, exit: 5}, where rows is the number of valid rows")]
struct Verify {
    /// The export to verify, one row a line; the default is the ledger of this home.
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// An earlier head that the chain must contain.
    #[arg(long, value_name = "SEQ:sha256:HASH")]
    kept: Option<Kept>,
    /// The first row to verify: the first row of a segment, or any row in the database. The command trusts the previous
    /// row.
    #[arg(long, value_name = "SEQ", value_parser = clap::value_parser!(i64).range(1..), conflicts_with = "file")]
    from: Option<i64>,
    /// A file with an earlier checkpoint that the chain must contain.
    #[arg(long, value_name = "FILE", conflicts_with = "from")]
    checkpoint: Option<PathBuf>,
    /// The public key that must have signed the checkpoints, or have endorsed the key that did; can be repeated.
    #[arg(long = "key", value_name = "KEY", conflicts_with = "from")]
    keys: Vec<PublicKey>,
    /// The proof of one row to verify, instead of a ledger.
    #[arg(long, value_name = "FILE", requires = "keys", conflicts_with_all = ["file", "kept", "from", "checkpoint"])]
    proof: Option<PathBuf>,
    /// The proof to verify that a ledger continues the checkpoint of --checkpoint, instead of a ledger.
    #[arg(long, value_name = "FILE", requires_all = ["keys", "checkpoint"], conflicts_with_all = ["file", "kept", "from", "proof"])]
    consistency: Option<PathBuf>,
}

#[derive(Debug, Args)]
#[command(after_help = "jsonl: one JSON object a line, with every column: seq, ts, kind, caller, person, request_id, \
    provider, action, level, params_digest, summary, reason_code, result_summary, result_digest, task_id, approval, \
    policy_version, duration_ms, body, prev_hash, event_hash. Digests are sha256:HEX; ts is milliseconds since 1970.

event_hash is SHA-256 over the line `ext-broker ledger row v1` with its newline, and every column except the last in \
    that order: `<length in bytes>:<bytes>,`, or `-,` for null. Numbers are decimal; digests are their 32 bytes.

files: only events of files, one record a line: ts, op, path, created, base_hash, patch_hash, before_hash, \
    after_hash, hitl_id, tool_call_id, context_id, status, prev_hash, event_hash. The hashes belong to the whole \
    ledger; to verify them, use jsonl.")]
struct Export {
    /// The format of the rows.
    #[arg(long, value_enum, default_value_t = Format::Jsonl)]
    format: Format,
    /// The first row.
    #[arg(long, value_name = "SEQ", value_parser = clap::value_parser!(i64).range(1..), default_value_t = 1)]
    from: i64,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Format {
    Jsonl,
    Files,
}

#[derive(Debug, Args)]
#[command(
    after_help = "--json prints [{sink, kind, accepted, behind, failing: {since, reason}}]. accepted is the last row \
    that the sink has accepted, and behind the number of rows after it. failing is null if rows are accepted, and if \
    no daemon is running"
)]
struct Sinks {}

#[derive(Debug, Args)]
#[command(after_help = "Example: host-broker evidence resume siem --from 1

--json prints {sink, from}")]
struct Resume {
    /// The sink.
    #[arg(value_name = "SINK")]
    sink: String,
    /// The first row that the sink receives.
    #[arg(long, value_name = "SEQ", value_parser = clap::value_parser!(i64).range(1..))]
    from: i64,
}

#[derive(Debug, Args)]
#[command(
    after_help = "If rows were written while the clock was ahead, the broker admits no calls until the clock reaches the \
    last of them. Set the clock first. This command then writes a row that permits the step back. Grants, tokens and \
    approvals from the time when the clock was ahead expire now, if they have an expiry. The command requires the right \
    to administer.

--json prints the reply: {status, summary, data: {last_row, now, behind_ms, ended: {grants, external_grants, \
    operator_tokens, approvals}}, evidence: {…}}"
)]
struct AcceptClock {}

/// A head that a person kept.
#[derive(Debug, Clone, Copy)]
struct Kept {
    seq: i64,
    hash: Digest,
}

impl FromStr for Kept {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parsed = text.split_once(':').and_then(|(seq, hash)| {
            let seq: i64 = seq.parse().ok().filter(|seq| *seq > 0)?;
            Some(Self { seq, hash: hash.parse().ok()? })
        });
        parsed.ok_or_else(|| "a head has the form SEQ:sha256:HASH; see: host-broker evidence head".to_owned())
    }
}

impl Evidence {
    /// Runs the command.
    ///
    /// # Errors
    /// [`CliError`] if there is no ledger, or the evidence is broken.
    pub fn run(self, context: &Context) -> Result<(), CliError> {
        match self.command {
            Command::Head(Head {}) => head(context),
            Command::Checkpoint(checkpoint) => checkpoint.run(context),
            Command::Prove(prove) => prove.run(context),
            Command::Consistency(consistency) => consistency.run(context),
            Command::RenewKey(renew_key) => renew_key.run(context),
            Command::Verify(Verify { proof: Some(proof), keys, .. }) => verify::proof(context, &proof, &keys),
            Command::Verify(Verify { file, kept, from, checkpoint, keys, consistency, proof: _ }) => {
                let checkpoint = checkpoint.as_deref().map(checkpoint::read).transpose()?;
                match (consistency, &checkpoint, file) {
                    (Some(proof), Some(kept), _) => verify::consistency(context, &proof, kept, &keys),
                    (_, _, Some(file)) => verify::file(context, &file, Known { kept, checkpoint, keys }),
                    (_, _, None) => verify::ledger(context, Known { kept, checkpoint, keys }, from.unwrap_or(1)),
                }
            }
            Command::Export(Export { format, from }) => export(context, format, from),
            Command::Sinks(Sinks {}) => sinks::list(context),
            Command::Resume(Resume { sink, from }) => sinks::resume(context, &sink, from),
            Command::AcceptClock(AcceptClock {}) => ask(context, request::Command::AcceptClock),
        }
    }
}

fn head(context: &Context) -> Result<(), CliError> {
    let last = export::last(&context.ledger()?)?;
    let (seq, hash, time) =
        last.as_ref().map_or((0, Digest::ZERO, None), |row| (row.seq, row.event_hash, Some(row.time())));
    context.output.show(&json!({ "seq": seq, "event_hash": hash, "time": time }), || format!("{seq}:{hash}"));
    Ok(())
}

fn export(context: &Context, format: Format, from: i64) -> Result<(), CliError> {
    let ledger = context.ledger()?;
    let (mut broken, mut intended) = (None, files::Intended::default());
    let mut progress = Progress::new(context.output);
    // On a terminal, the rows show the progress.
    let is_seen = std::io::stdout().is_terminal();
    context.output.lines(|out| {
        let mut out = BufWriter::new(out);
        let mut written = Ok(());
        let read = segments::each(context.home.path(), &ledger, from, |row| {
            written = match format {
                Format::Jsonl => writeln!(out, "{}", export::line(&row)),
                Format::Files => files::record(&row, &mut intended).map_or(Ok(()), |record| writeln!(out, "{record}")),
            };
            if !is_seen {
                progress.report(|| format!("exported {} rows …", row.seq));
            }
            // Any error ends the reading; which one it was is in `written`.
            if written.is_ok() { Ok(()) } else { Err(store::StoreError::Stored { what: "row" }) }
        });
        written?;
        broken = read.err();
        out.flush()
    })?;
    broken.map_or(Ok(()), |error| Err(error.into()))
}
