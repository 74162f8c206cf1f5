//! `kill`: stops calls at once, and allows them again.

use crate::cli::Context;
use crate::cli::ask::{ToHost, answer, ask};
use crate::cli::output::{self, CliError, Output};
use crate::control::refusal;
use crate::fleet_commands::AllHostsRequest;
use clap::{Args, Subcommand};
use engine::request::Command;
use model::{HostName, KillScope};
use serde_json::{Value, json};
use shared::{Group, Provider};
use std::collections::BTreeMap;
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
  host-broker kill all --all-hosts

--json prints the reply: {status, summary, data: {scope, stopped, changed}, evidence: {…}};
with --all-hosts {hosts: {NAME: REPLY}}; kill list prints {kill_switches: [\"all\", \"provider:NAME\", \"group:NAME\"]}")]
pub struct Kill {
    #[command(subcommand)]
    scope: Scope,
    /// Lift the kill switch.
    #[arg(long, global = true)]
    lift: bool,
    /// Send the command to the daemon of this host of the fleet, which executes it.
    #[arg(long, global = true, value_name = "NAME")]
    host: Option<HostName>,
    /// Execute the command on this host, and send it to all hosts that broker.toml names. The exit code is 3 if one of
    /// them has not confirmed it.
    #[arg(long, global = true, conflicts_with = "host")]
    all_hosts: bool,
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
    /// [`CliError`]; existing stops stay, and nothing else is stopped. With `--all-hosts`, each host that has confirmed
    /// the command has executed it.
    pub fn run(self, context: &Context) -> Result<(), CliError> {
        let on = !self.lift;
        let host = ToHost::from(self.host);
        let scope = match self.scope {
            Scope::All => KillScope::All,
            Scope::Provider { name } => KillScope::Provider(name),
            Scope::Group { name } => KillScope::Group(name),
            Scope::List if host.is_other() || self.all_hosts => {
                return Err(CliError::usage("kill list does not take --host or --all-hosts; run it on that host"));
            }
            Scope::List if on => return list(context),
            Scope::List => {
                return Err(CliError::usage(
                    "kill list does not take --lift; to lift a kill switch: host-broker kill all --lift",
                ));
            }
        };
        let command = Command::Kill { scope, on };
        if self.all_hosts { everywhere(context, command) } else { ask(context, host.request(command)) }
    }
}

/// Executes a command on this host, and sends it to all others at the same time. No host waits for another one.
///
/// # Errors
/// [`CliError`] if a host has not confirmed the command. The output names the host and the reason.
fn everywhere(context: &Context, command: Command) -> Result<(), CliError> {
    let reply = |asked: Result<Value, CliError>| asked.unwrap_or_else(|error| refusal(&error.text));
    let all = AllHostsRequest { command: command.clone() };
    let (here, others) = std::thread::scope(|scope| {
        let others = scope.spawn(|| reply(answer(context, all)));
        let here = reply(answer(context, command));
        (here, others.join().unwrap_or_else(|_panicked| refusal("it is unknown whether the command was sent")))
    });
    let mut replies: BTreeMap<&str, &Value> = BTreeMap::new();
    if let Some(Value::Object(there)) = others.pointer("/data/replies") {
        replies.extend(there.iter().map(|(host, reply)| (host.as_str(), reply)));
    } else {
        replies.insert(OTHERS, &others);
    }
    replies.insert(others.pointer("/data/host").and_then(Value::as_str).unwrap_or(THIS), &here);
    let row = |(host, reply): (&&str, &&Value)| {
        let text = |name: &str| reply.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
        let result = output::refusal(reply).map_or_else(|| text("summary"), |error| error.text);
        vec![(*host).to_owned(), text("status"), result]
    };
    let human = || Output::table(&["HOST", "STATUS", "RESULT"], &replies.iter().map(row).collect::<Vec<_>>());
    context.output.show(&json!({ "hosts": replies }), human);
    let open = replies.values().filter(|reply| output::refusal(reply).is_some()).count();
    if open == 0 {
        return Ok(());
    }
    let told = CliError::refused(format!(
        "{open} of {} hosts did not confirm the command; it is safe to repeat it",
        replies.len()
    ));
    // The document has the reasons.
    Err(if context.output.json { CliError::exited(told.code) } else { told })
}

/// The names of this host and of the others in the output, if no daemon says them.
const THIS: &str = "this host";
const OTHERS: &str = "other hosts";

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
