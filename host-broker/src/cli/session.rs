//! `session`: what each group has been exposed to, and the end of that.

use crate::cli::Context;
use crate::cli::ask::ask;
use crate::cli::output::{Fault, Output};
use crate::cli::reading::known_group;
use crate::control::Control;
use crate::sessions;
use clap::{Args, Subcommand};
use serde_json::{Value, json};
use shared::Group;

/// Sessions: what each group has been exposed to since its sandbox was made.
///
/// Private data, content that others wrote and a way out do not come together in one session without a person. Reset a
/// group's session when its sandbox is made anew: whatever it has read is forgotten then, and only then. What the old
/// sandbox could have written for the new one goes before that: its files, its workspace, and what lies in its
/// directory's `tasks` and `responses`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  host-broker session list
  host-broker session reset developer

--json prints {sessions: [{group, exposed: [{provider, action, at, exposes: [\"untrusted\", \"sensitive\", \
\"egress\"]}]}]};
reset prints the reply: {status, summary, data: {group, forgotten}, evidence: {…}}")]
pub struct Session {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Show what each group has been exposed to, and by which calls.
    List {
        /// Only this group.
        group: Option<Group>,
    },
    /// Begin anew: the group's sandbox was made anew.
    Reset {
        /// The group.
        group: Group,
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
            Command::Reset { group } => {
                known_group(&context.config()?, &group)?;
                ask(context, &Control::ResetSession { group })
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
    let (mut rows, mut documents): (Vec<Vec<String>>, Vec<Value>) = (Vec::new(), Vec::new());
    for group in config.groups.keys().filter(|group| only.is_none_or(|only| only == *group)) {
        let earlier = match &ledger {
            Some(ledger) => sessions::exposures(ledger, &format!("group:{group}"))?,
            None => Vec::new(),
        };
        let mut exposed = Vec::new();
        for call in &earlier {
            let (what, at) = (call.exposes.words(), call.at.to_string());
            let action = format!("{}.{}", call.provider, call.action);
            exposed.push(json!({ "provider": call.provider, "action": call.action, "at": at, "exposes": what }));
            rows.push(vec![group.to_string(), action, what.join(", "), at]);
        }
        documents.push(json!({ "group": group, "exposed": exposed }));
    }
    context.output.show(&json!({ "sessions": documents }), || {
        let none = "No group has called anything that exposes it.";
        Output::table_or(none, &["GROUP", "CALLED", "EXPOSES", "FIRST AT"], &rows)
    });
    Ok(())
}
