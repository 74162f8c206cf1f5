//! `proposals`: changes to files that agents have described.

use crate::cli::Context;
use crate::cli::apply;
use crate::cli::output::{CliError, Output};
use clap::{Args, Subcommand};
use engine::request;
use model::ProposalId;
use serde_json::{Value, json};
use shared::{Group, Timestamp};
use store::state::proposals as stored;
use store::state::proposals::Proposal;

/// List, show and revert proposed changes to files.
///
/// To approve or deny a proposal, use `host-broker approvals`.
#[derive(Debug, Args)]
pub struct Proposals {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// List the latest proposals.
    List(List),
    /// Show a proposal with its diff.
    Show(Show),
    /// Revert an applied proposal.
    ///
    /// The files must still have the content that the proposal gave them.
    Revert(Revert),
}

#[derive(Debug, Args)]
#[command(after_help = "--json prints {proposals: [{hitl_id, caller, path, summary, state, until, proposed_by, \
    patch_hash, ref, code, applied_at}]}")]
struct List {
    /// Show only proposals of this group.
    #[arg(long)]
    group: Option<Group>,
}

#[derive(Debug, Args)]
#[command(
    after_help = "--json prints one element of `proposals list` with diff: the whole diff, or null after the broker has \
    deleted it"
)]
struct Show {
    /// The id of the proposal: hitl-…
    id: ProposalId,
}

#[derive(Debug, Args)]
#[command(
    after_help = "You must have `approves` in your table of broker.toml. The command creates a proposal that reverts the \
    change, and approves it in your name. You can revert a change for a week after it was applied.

--json prints the reply: {status, summary, data: {code, ref, state, applied_by, applied}, evidence: {…}}"
)]
struct Revert {
    /// The id of the proposal: hitl-…
    id: ProposalId,
}

impl Proposals {
    /// Runs the command.
    ///
    /// # Errors
    /// [`CliError`]; nothing was changed.
    pub fn run(self, context: &Context) -> Result<(), CliError> {
        match self.command {
            Command::List(List { group }) => list(context, group.as_ref()),
            Command::Show(Show { id }) => show(context, &id),
            Command::Revert(Revert { id }) => apply::ask(context, request::Command::Revert { id }),
        }
    }
}

fn list(context: &Context, group: Option<&Group>) -> Result<(), CliError> {
    let caller = group.map(|group| format!("group:{group}"));
    let found = match context.ledger_if_any()? {
        Some(ledger) => stored::latest(&ledger, caller.as_deref())?,
        None => Vec::new(),
    };
    if found.is_empty() {
        context.knows(group, None)?;
    }
    let now = context.platform.clock.now();
    let documents: Vec<Value> = found.iter().map(|proposal| document(proposal, now)).collect();
    context.output.show(&json!({ "proposals": documents }), || {
        let rows: Vec<_> = found
            .iter()
            .map(|proposal| {
                vec![
                    proposal.id.to_string(),
                    proposal.approval.caller.clone(),
                    proposal.summary.clone(),
                    proposal.standing(now).to_owned(),
                ]
            })
            .collect();
        Output::table_or("No proposals.", &["PROPOSAL", "CALLER", "CHANGE", "STATE"], &rows)
    });
    Ok(())
}

fn show(context: &Context, id: &ProposalId) -> Result<(), CliError> {
    let ledger = context.ledger()?;
    let Some(proposal) = stored::named(&ledger, id)? else {
        return Err(CliError::missing(format!("there is no proposal `{id}`; see host-broker proposals list")));
    };
    let diff = stored::diff(&ledger, &proposal.id)?;
    let now = context.platform.clock.now();
    let mut document = document(&proposal, now);
    if let Some(object) = document.as_object_mut() {
        object.insert("diff".into(), json!(diff));
    }
    context.output.show(&document, || {
        let head = format!("{} · {}\n{}\n", proposal.id, proposal.standing(now), proposal.summary);
        head + diff.as_deref().unwrap_or("The diff is no longer stored.")
    });
    Ok(())
}

fn document(proposal: &Proposal, now: Timestamp) -> Value {
    let listed = proposal.listed(now);
    json!({
        "hitl_id": listed.hitl_id,
        "caller": proposal.approval.caller,
        "path": listed.path,
        "summary": listed.summary,
        "state": listed.state,
        "until": listed.until,
        "proposed_by": listed.proposed_by,
        "patch_hash": proposal.patch_hash,
        "ref": proposal.approval.reference(),
        "code": proposal.approval.code,
        "applied_at": proposal.applied_at,
    })
}
