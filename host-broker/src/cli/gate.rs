//! `gate`: the conditions that a task must have passed before a production call.

use crate::cli::Context;
use crate::cli::ask::{ToHost, ask};
use crate::cli::output::{CliError, Output};
use clap::{Args, Subcommand};
use engine::request;
use serde_json::{Value, json};
use shared::request::GateRequest;
use shared::{Gate as Name, TaskId};
use store::state::gates;

/// Open and list gates, the conditions of a task for a production call.
#[derive(Debug, Args)]
pub struct Gate {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Open a gate of a task for one call.
    Approve(Approve),
    /// List the gates, who can open them, and their approvals.
    List(List),
}

#[derive(Debug, Args)]
#[command(after_help = "The table of the gate in broker.toml must name you.

Example:
  host-broker gate approve gov-42 Security

--json prints the reply: {status, summary, data: {task_id, gate, approved}, evidence: {…}}")]
struct Approve {
    /// The task.
    task: TaskId,
    /// The gate, for example Security.
    gate: Name,
    #[command(flatten)]
    host: ToHost,
}

#[derive(Debug, Args)]
#[command(after_help = "--json prints {gates: [{gate, groups, people, quorum}], \
    approvals: [{task, gate, approved_by, approved_at, spent_by}]}; spent_by is the ledger row of the call")]
struct List {}

impl Gate {
    /// Runs the command.
    ///
    /// # Errors
    /// [`CliError`]; the gates are as they were.
    pub fn run(self, context: &Context) -> Result<(), CliError> {
        match self.command {
            Command::Approve(Approve { task, gate, host }) => {
                ask(context, host.request(request::Command::GateApprove(GateRequest { task_id: task, gate })))
            }
            Command::List(List {}) => list(context),
        }
    }
}

fn list(context: &Context) -> Result<(), CliError> {
    let config = context.config()?;
    let approvals = match context.ledger_if_any()? {
        Some(ledger) => gates::list(&ledger)?,
        None => Vec::new(),
    };
    let known: Vec<Value> = config
        .gates
        .iter()
        .map(|(gate, table)| {
            json!({
                "gate": gate,
                "groups": table.groups,
                "people": table.people,
                "quorum": table.quorum.unwrap_or(1),
            })
        })
        .collect();
    context.output.show(&json!({ "gates": known, "approvals": approvals }), || {
        let gate_rows: Vec<_> = config
            .gates
            .iter()
            .map(|(gate, table)| {
                let groups = table.groups.iter().map(|group| format!("group {group}"));
                let openers: Vec<_> = groups.chain(table.people.iter().cloned()).collect();
                vec![gate.to_string(), table.quorum.unwrap_or(1).to_string(), openers.join(", ")]
            })
            .collect();
        let approval_rows: Vec<_> = approvals
            .iter()
            .map(|approval| {
                let spent = approval.spent_by.map_or_else(|| "not yet".to_owned(), |row| format!("by row {row}"));
                let approved = format!("{} by {}", approval.approved_at, approval.approved_by);
                vec![approval.task.clone(), approval.gate.clone(), approved, spent]
            })
            .collect();
        format!(
            "{}\n\n{}",
            Output::table_or("The configuration has no gates.", &["GATE", "QUORUM", "APPROVERS"], &gate_rows),
            Output::table_or("No gate approvals.", &["TASK", "GATE", "APPROVED", "CONSUMED"], &approval_rows)
        )
    });
    Ok(())
}
