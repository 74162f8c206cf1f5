//! `evidence`: the ledger as proof.

mod files;
mod verify;

use crate::cli::Context;
use crate::cli::ask::ask;
use crate::cli::output::Fault;
use crate::control::Control;
use crate::ledger::{export, segments};
use clap::{Args, Subcommand, ValueEnum};
use serde_json::json;
use shared::digest::Digest;
use std::io::{BufWriter, Write as _};
use std::path::PathBuf;
use std::str::FromStr;

/// The ledger as proof: where it ends, whether it is whole, all of it.
#[derive(Debug, Args)]
pub struct Evidence {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Print where the chain ends. Keep it elsewhere: `verify --kept` later finds a ledger that was cut or rewritten.
    Head(Head),
    /// Verify every row and its link to the row before; exit 1 at the first that is wrong.
    Verify(Verify),
    /// Print every row, as anybody needs it to verify the chain without this program.
    Export(Export),
    /// Accept the machine's clock although the last row is later; the broker then admits calls again.
    AcceptClock(AcceptClock),
}

#[derive(Debug, Args)]
#[command(
    after_help = "Prints SEQ:sha256:HASH. --json prints {seq, event_hash, time}; seq is 0 for a ledger without rows"
)]
struct Head {}

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  host-broker evidence verify
  host-broker evidence verify --file ledger.jsonl --kept 1200:sha256:6f…

The oldest rows of a large ledger are in HOME/segments; each file there is a part of the export, compressed with gzip.

--json prints {ok, rows, head: {seq, event_hash, time}, open_intents: [SEQ]};
on a break {ok: false, rows, first_bad, error, exit: 1}, where rows is the number of rows that are right")]
struct Verify {
    /// An export, one row a line; without it, this home's ledger.
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// A head that was noted earlier; the chain must still hold it.
    #[arg(long, value_name = "SEQ:sha256:HASH")]
    kept: Option<Kept>,
    /// Begin at this row: the first one of a segment, or any that is still in the database. The row before it is
    /// believed.
    #[arg(long, value_name = "SEQ", value_parser = clap::value_parser!(i64).range(1..), conflicts_with = "file")]
    from: Option<i64>,
}

#[derive(Debug, Args)]
#[command(after_help = "jsonl: one JSON object a line with every column: seq, ts, kind, caller, person, request_id, \
    provider, action, level, params_digest, summary, reason_code, result_summary, result_digest, task_id, approval, \
    policy_version, duration_ms, body, prev_hash, event_hash. Digests are sha256:HEX; ts is milliseconds since 1970.

event_hash is SHA-256 over the line `ext-broker ledger row v1` with its newline, then every column in that order but \
    the last: `<length in bytes>:<bytes>,`, or `-,` where it is null; numbers in decimal, digests as their 32 bytes.

files: what happened to files only, one record a line: ts, op, path, created, base_hash, patch_hash, before_hash, \
    after_hash, hitl_id, tool_call_id, context_id, status, prev_hash, event_hash. The hashes are those of the whole \
    ledger, so to verify them takes the other format.")]
struct Export {
    /// How rows are written.
    #[arg(long, value_enum, default_value_t = Format::Jsonl)]
    format: Format,
    /// Begin at this row.
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
    after_help = "Rows that were written while the clock was ahead are in the future, and the broker admits nothing \
    until the clock reaches the last of them. Set the clock first. This command then writes a row that permits the step \
    back. Grants, tokens and approvals that were given while the clock was ahead, and have an expiry, expire now. It \
    takes the right to administer.

--json prints the reply: {status, summary, data: {last_row, now, behind_ms, ended: {grants, external_grants, \
    operator_tokens, approvals}}, evidence: {…}}"
)]
struct AcceptClock {}

/// A head that somebody kept.
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
        parsed.ok_or_else(|| "a head is what `evidence head` prints: SEQ:sha256:HASH".to_owned())
    }
}

impl Evidence {
    /// Runs the command.
    ///
    /// # Errors
    /// [`Fault`] if there is no ledger, or the evidence is broken.
    pub fn run(self, context: &Context) -> Result<(), Fault> {
        match self.command {
            Command::Head(Head {}) => head(context),
            Command::Verify(Verify { file: Some(file), kept, from: _ }) => verify::file(context, &file, kept),
            Command::Verify(Verify { file: None, kept, from }) => verify::ledger(context, kept, from.unwrap_or(1)),
            Command::Export(Export { format, from }) => export(context, format, from),
            Command::AcceptClock(AcceptClock {}) => ask(context, &Control::AcceptClock),
        }
    }
}

fn head(context: &Context) -> Result<(), Fault> {
    let last = export::last(&context.ledger()?)?;
    let (seq, hash, time) =
        last.as_ref().map_or((0, Digest::ZERO, None), |row| (row.seq, row.event_hash, Some(row.time())));
    context.output.show(&json!({ "seq": seq, "event_hash": hash, "time": time }), || format!("{seq}:{hash}"));
    Ok(())
}

fn export(context: &Context, format: Format, from: i64) -> Result<(), Fault> {
    let ledger = context.ledger()?;
    let (mut broken, mut intended) = (None, files::Intended::default());
    context.output.lines(|out| {
        let mut out = BufWriter::new(out);
        let mut written = Ok(());
        let read = segments::each(context.home.path(), &ledger, from, |row| {
            written = match format {
                Format::Jsonl => writeln!(out, "{}", export::line(&row)),
                Format::Files => files::record(&row, &mut intended).map_or(Ok(()), |record| writeln!(out, "{record}")),
            };
            // Any error ends the reading; which one it was is in `written`.
            if written.is_ok() { Ok(()) } else { Err(crate::ledger::LedgerError::Stored { what: "row" }) }
        });
        written?;
        broken = read.err();
        out.flush()
    })?;
    broken.map_or(Ok(()), |error| Err(error.into()))
}
