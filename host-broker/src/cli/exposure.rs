//! `exposure`: the exposure of each session, and its reset.

use crate::cli::Context;
use crate::cli::ask::ask;
use crate::cli::home_reader::known_group;
use crate::cli::output::{CliError, Output};
use clap::{Args, Subcommand};
use engine::request;
use model::Exposed;
use serde_json::{Value, json};
use shared::Group;
use std::sync::Arc;
use store::state::sessions;
use store::state::sessions::SessionName;

/// Show and reset the exposure of groups and external agents.
///
/// A session must not combine private data, untrusted content and an egress channel without an approval. Exposure
/// accumulates until it is reset. Reset it when you recreate the sandbox of a group. Remove everything that the old
/// sandbox could have written first: its files, its workspace, and `tasks` and `responses` in its directory. With
/// `exposure_ends = "conversation"` in the table of a group, the first call of a new MCP client resets its session, too.
///
/// All accesses of one external agent share one session, also later ones. All external agents of the main group's agent
/// share one session for each issuer, and so do those of an operator token.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  host-broker exposure list
  host-broker exposure reset developer
  host-broker exposure reset fgrnt_3f9a0c1d2e4b5a69

--json prints {sessions: [{group, exposed: [{provider, action, at, exposes: [\"untrusted\", \"sensitive\", \
\"egress\"]}]}], external: [{session, exposed: […]}]};
reset prints the reply: {status, summary, data: {group, session, forgotten, standing_ended}, evidence: {…}}")]
pub struct Exposure {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// List the exposure of each session, with the calls that caused it.
    List {
        /// Show only this group.
        group: Option<Group>,
    },
    /// Reset a session after its sandbox or external agent was recreated.
    Reset {
        /// The group, an access (fgrnt_…), or a session as `exposure list` names it.
        session: SessionName,
    },
}

impl Exposure {
    /// Runs the command.
    ///
    /// # Errors
    /// [`CliError`]; the session goes on as it was.
    pub fn run(self, context: &Context) -> Result<(), CliError> {
        match self.command {
            Command::List { group } => list(context, group.as_ref()),
            Command::Reset { session } => {
                if let SessionName::Group(group) = &session {
                    known_group(&context.config()?, group)?;
                }
                ask(context, request::Command::ResetSession { group: session })
            }
        }
    }
}

fn list(context: &Context, only: Option<&Group>) -> Result<(), CliError> {
    let config = context.config()?;
    if let Some(group) = only {
        known_group(&config, group)?;
    }
    let ledger = context.ledger_if_any()?;
    let mut rows: Vec<Vec<String>> = Vec::new();
    let mut list = |name: &str, earlier: &[Exposed]| -> Vec<Value> {
        let exposed = |call: &Exposed| {
            let (what, at) = (call.exposes.words(), call.at.to_string());
            let action = format!("{}.{}", call.provider, call.action);
            rows.push(vec![name.to_owned(), action, what.join(", "), at.clone()]);
            json!({ "provider": call.provider, "action": call.action, "at": at, "exposes": what })
        };
        earlier.iter().map(exposed).collect()
    };
    let (mut groups, mut external): (Vec<Value>, Vec<Value>) = (Vec::new(), Vec::new());
    for group in config.groups.keys().filter(|group| only.is_none_or(|only| only == *group)) {
        let earlier = match &ledger {
            Some(ledger) => sessions::exposures(ledger, &format!("group:{group}"))?,
            None => Arc::default(),
        };
        groups.push(json!({ "group": group, "exposed": list(group.as_str(), &earlier) }));
    }
    if let (Some(ledger), None) = (&ledger, only) {
        for session in sessions::external(ledger)? {
            let earlier = sessions::exposures(ledger, &session)?;
            external.push(json!({ "session": session, "exposed": list(&session, &earlier) }));
        }
    }
    context.output.show(&json!({ "sessions": groups, "external": external }), || {
        let none = "No session has exposure.";
        Output::table_or(none, &["SESSION", "ACTION", "EXPOSURE", "FIRST CALL"], &rows)
    });
    Ok(())
}
