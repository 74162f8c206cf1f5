//! `kill`: stops calls at once, and allows them again.

use crate::cli::Context;
use crate::cli::ask::{ToHost, ask};
use crate::cli::output::{CliError, Output};
use clap::{Args, Subcommand};
use engine::request;
use model::{HostName, KillScope};
use serde_json::json;
use shared::{Group, Provider};
use store::state::kill;

/// Stop all calls, or the calls of a provider or a group, immediately.
///
/// The broker cannot recall a call that it has already sent. The kill switch survives restarts. It stays on until you lift
/// it.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  host-broker kill all
  host-broker kill provider github
  host-broker kill provider github --lift

--json prints the reply: {status, summary, data: {scope, stopped, changed}, evidence: {…}};
kill list prints {kill_switches: [\"all\", \"provider:NAME\", \"group:NAME\"]}")]
pub struct Kill {
    #[command(subcommand)]
    scope: Scope,
    /// Lift the kill switch.
    #[arg(long, global = true)]
    lift: bool,
    /// Send the command to the daemon of this host of the fleet, which executes it.
    #[arg(long, global = true, value_name = "NAME")]
    host: Option<HostName>,
}

#[derive(Debug, Subcommand)]
enum Scope {
    /// Stop every call.
    All,
    /// Stop every call to a provider.
    Provider {
        /// The provider.
        name: Provider,
    },
    /// Stop every call of a group.
    Group {
        /// The group.
        name: Group,
    },
    /// List the active kill switches.
    List,
}

impl Kill {
    /// Runs the command.
    ///
    /// # Errors
    /// [`CliError`]; existing stops stay, and nothing else is stopped.
    pub fn run(self, context: &Context) -> Result<(), CliError> {
        let on = !self.lift;
        let host = ToHost::from(self.host);
        let scope = match self.scope {
            Scope::All => KillScope::All,
            Scope::Provider { name } => KillScope::Provider(name),
            Scope::Group { name } => KillScope::Group(name),
            Scope::List if host.is_other() => {
                return Err(CliError::usage("kill list does not take --host; run it on that host"));
            }
            Scope::List if on => return list(context),
            Scope::List => {
                return Err(CliError::usage(
                    "kill list does not take --lift; to lift a kill switch: host-broker kill all --lift",
                ));
            }
        };
        ask(context, host.request(request::Command::Kill { scope, on }))
    }
}

fn list(context: &Context) -> Result<(), CliError> {
    let scopes = match context.ledger_if_any()? {
        Some(ledger) => kill::list(&ledger)?,
        None => Vec::new(),
    };
    context.output.show(&json!({ "kill_switches": scopes }), || {
        let rows: Vec<_> = scopes.iter().map(|scope| vec![scope.clone()]).collect();
        Output::table_or("No active kill switches.", &["KILL SWITCH"], &rows)
    });
    Ok(())
}
