//! `session`: what each group has been exposed to, and the end of that.

use crate::cli::Context;
use crate::cli::ask::ask;
use crate::cli::output::{Fault, Output};
use crate::cli::reading::known_group;
use crate::control::Control;
use crate::sessions::{self, SessionName};
use clap::{Args, Subcommand};
use policy::facts::Exposed;
use serde_json::{Value, json};
use shared::Group;

/// Sessions: what each group and each external agent has been exposed to.
///
/// Private data, content that others wrote and a way out do not come together in one session without a person. Reset a
/// group's session when its sandbox is made anew: whatever it has read is forgotten then, and only then. What the old
/// sandbox could have written for the new one goes before that: its files, its workspace, and what lies in its
/// directory's `tasks` and `responses`.
///
/// The accesses of one external agent share a session, also with accesses that it gets later. All external agents to which
/// the main group's agent or an operator's token gives access share one session for each issuer.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  host-broker session list
  host-broker session reset developer
  host-broker session reset fgrnt_3f9a0c1d2e4b5a69

--json prints {sessions: [{group, exposed: [{provider, action, at, exposes: [\"untrusted\", \"sensitive\", \
\"egress\"]}]}], external: [{session, exposed: […]}]};
reset prints the reply: {status, summary, data: {group, session, forgotten}, evidence: {…}}")]
pub struct Session {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Show what each session has been exposed to, and by which calls.
    List {
        /// Only this group.
        group: Option<Group>,
    },
    /// Begin anew: the group's sandbox, or the external agent, was made anew.
    Reset {
        /// The group, an access (fgrnt_…), or a session as `session list` names it.
        session: SessionName,
    },
}

impl Session {
    /// Runs the command.
    ///
    /// # Errors
    /// [`Fault`]; the session goes on as it was.
    pub fn run(self, context: &Context) -> Result<(), Fault> {
        match self.command {
            Command::List { group } => list(context, group.as_ref()),
            Command::Reset { session } => {
                if let SessionName::Group(group) = &session {
                    known_group(&context.config()?, group)?;
                }
                ask(context, &Control::ResetSession { group: session })
            }
        }
    }
}

fn list(context: &Context, only: Option<&Group>) -> Result<(), Fault> {
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
            None => Vec::new(),
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
        let none = "Nobody has called anything that exposes.";
        Output::table_or(none, &["SESSION", "CALLED", "EXPOSES", "FIRST AT"], &rows)
    });
    Ok(())
}
