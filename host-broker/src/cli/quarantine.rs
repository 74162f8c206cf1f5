//! `quarantine`: results that look hostile, and their release.

use crate::cli::Context;
use crate::cli::ask::ask;
use crate::cli::output::{CliError, Output};
use clap::{Args, Subcommand};
use engine::request;
use filter::inspect::Reason;
use model::card::visible;
use serde_json::{Value, json};
use store::state::quarantine;
use store::state::quarantine::Quarantined;

/// List, show and release results that the broker withholds as hostile.
///
/// The broker has executed the call and withholds only its result. After a week the broker deletes the result.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  host-broker quarantine list
  host-broker quarantine show q-123
  host-broker quarantine release q-123

After a release, the agent reads the result with ext_result, between delimiters that mark it as data.

--json prints {quarantine: [{id, caller, request_id, provider, action, verdict, reasons, summary, at}]};
show prints one element with data; release prints the reply: {status, summary, data: {id}, evidence: {…}}")]
pub struct Quarantine {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// List the withheld results, oldest first.
    List,
    /// Show a withheld result.
    ///
    /// The command prints control characters and hidden characters as code points.
    Show {
        /// The id of the result, such as q-123.
        id: String,
    },
    /// Release a result to the agent.
    Release {
        /// The id of the result, such as q-123.
        id: String,
    },
}

impl Quarantine {
    /// Runs the command.
    ///
    /// # Errors
    /// [`CliError`]; nothing was released.
    pub fn run(self, context: &Context) -> Result<(), CliError> {
        match self.command {
            Command::List => list(context),
            Command::Show { id } => show(context, &id),
            Command::Release { id } => ask(context, request::Command::Release { id }),
        }
    }
}

fn list(context: &Context) -> Result<(), CliError> {
    let kept = match context.ledger_if_any()? {
        Some(ledger) => quarantine::list(&ledger)?,
        None => Vec::new(),
    };
    let documents: Vec<Value> = kept.iter().map(document).collect();
    context.output.show(&json!({ "quarantine": documents }), || {
        let row = |kept: &Quarantined| {
            let action = format!("{}.{}", kept.provider, kept.action);
            let why = format!("{}: {}", kept.verdict, kept.reasons.join(", "));
            vec![quarantine::name(kept.seq), kept.caller.clone(), action, why, kept.at.to_string()]
        };
        let rows: Vec<_> = kept.iter().map(row).collect();
        Output::table_or("No withheld results.", &["ID", "CALLER", "ACTION", "VERDICT", "TIME"], &rows)
    });
    Ok(())
}

fn show(context: &Context, id: &str) -> Result<(), CliError> {
    let missing = || CliError::missing(format!("there is no withheld result `{id}`; see host-broker quarantine list"));
    let seq = quarantine::seq(id).ok_or_else(missing)?;
    let ledger = context.ledger_if_any()?.ok_or_else(missing)?;
    let kept = quarantine::find(&ledger, seq)?.ok_or_else(missing)?;
    let mut whole = document(&kept);
    if let Some(object) = whole.as_object_mut() {
        object.insert("data".into(), kept.data.clone());
    }
    context.output.show(&whole, || {
        let sentences = Reason::ALL.iter().filter(|reason| kept.reasons.iter().any(|word| word == reason.word()));
        let why: Vec<&str> = sentences.map(|reason| reason.sentence()).collect();
        let pretty = serde_json::to_string_pretty(&kept.data).unwrap_or_default();
        let lines: Vec<String> = pretty.lines().map(|line| format!("  | {}", visible(line))).collect();
        format!(
            "{} of {}: {}.{}, call {}\n{}: {}\n{}\n\nTo release it to the agent: {} quarantine release {id}",
            quarantine::name(kept.seq),
            kept.caller,
            kept.provider,
            kept.action,
            kept.request_id,
            kept.verdict,
            why.join(" "),
            lines.join("\n"),
            context.program(),
        )
    });
    Ok(())
}

fn document(kept: &Quarantined) -> Value {
    json!({
        "id": quarantine::name(kept.seq),
        "caller": kept.caller,
        "request_id": kept.request_id,
        "provider": kept.provider,
        "action": kept.action,
        "verdict": kept.verdict,
        "reasons": kept.reasons,
        "summary": kept.summary,
        "at": kept.at,
    })
}
