//! `up`: makes a home if there is none, runs the broker on it, and says the next step.

use crate::cli::Context;
use crate::cli::ask::running;
use crate::cli::init;
use crate::cli::output::CliError;
use crate::cli::serve::{READY, serve, start_log};
use crate::control::{self, ProcessRequest};
use crate::host::reload::{Start, reap_inherited, restart};
use clap::Args;
use config::web::Loopback;
use serde_json::{Value, json};
use std::io::IsTerminal as _;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use store::state::grants;

/// Create a home if there is none, run the daemon, and print the next step.
///
/// The command combines `init` and `serve`. A home that it creates has an inbox in the browser, and no group has any
/// access. The command runs until Ctrl-C, SIGTERM or `host-broker stop`. For a service, use `serve`.
#[derive(Debug, Args)]
#[command(after_help = "--json prints {ready: true, home, created, web, callback}")]
pub struct Up {
    /// The address of the inbox in a home that is created, port 0 for any free one [default: 127.0.0.1:7420].
    #[arg(long, value_name = "ADDRESS", value_parser = loopback)]
    listen: Option<Loopback>,
}

/// The address of the inbox, unless `--listen` gives another one.
const LISTEN: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 7420);

fn loopback(text: &str) -> Result<Loopback, String> {
    Loopback::try_from(text.to_owned())
}

impl Up {
    /// Runs the command.
    ///
    /// # Errors
    /// [`CliError`]; nothing is running then.
    pub fn run(self, context: &Context) -> Result<(), CliError> {
        reap_inherited();
        let start = Start::of_this_program(&context.platform.environment);
        let is_first = matches!(start, Start::First);
        let created = is_first && !context.home.config().exists();
        if !created && is_first && self.listen.is_some() {
            let config = context.home.config();
            return Err(CliError::usage(format!(
                "--listen is for a new home, and {} exists; change `listen` in its [web] table, then: host-broker reload",
                config.display()
            )));
        }
        if created {
            init::create(context, None, Some(self.listen.map_or(LISTEN, Loopback::address)))?;
            context.output.say(&format!("host-broker: created {}", context.home.path().display()));
        } else if is_first && running(context)?.is_some() {
            let ready = json!({ "ready": true, "home": context.home.path(), "created": false });
            context.output.show(&ready, || next_steps(context, "A daemon runs already on"));
            return Ok(());
        }
        let ready = json!({ "ready": true, "home": context.home.path(), "created": created });
        let announce = |_: &Value| {
            if is_first { next_steps(context, "The daemon runs on") } else { READY.to_owned() }
        };
        let log = start_log(context, None)?;
        match serve(context, &ready, start, &announce)? {
            Some((reload, files)) => {
                drop(log);
                restart(&reload, &files).map_err(|error| CliError::internal(&error))
            }
            None => Ok(()),
        }
    }
}

/// Returns the address of the inbox and the commands that an operator needs next.
fn next_steps(context: &Context, runs: &str) -> String {
    let program = context.program();
    let inbox = match sign_in(context) {
        // The link is a secret, which does not belong into a file or a journal.
        Some(url) if std::io::stdout().is_terminal() => {
            format!("Inbox  {url}\n       The link signs you in once, within ten minutes.")
        }
        Some(url) => {
            let address = url.split_once("sign-in").map_or(url.as_str(), |(address, _)| address);
            format!("Inbox  {address}\n       To sign in: {program} web link")
        }
        None => format!("Inbox  none; add a [web] table to {}", context.home.config().display()),
    };
    let ledger = context.ledger_if_any().ok().flatten();
    let now = context.platform.clock.now();
    let granted = ledger.and_then(|view| grants::list(&view, None).ok()).unwrap_or_default();
    let granted = granted.iter().find(|grant| grant.is_live(now));
    let group = granted.map_or_else(|| "developer".to_owned(), |grant| grant.group.to_string());
    let has_options = context.config().is_ok_and(|config| {
        let table = config.groups.iter().find(|(name, _)| name.as_str() == group).map(|(_, table)| &table.run);
        table.is_some_and(|run| run.workspace.is_some() || run.image.is_some())
    });
    // A line that works as it is: the directory need not exist yet.
    let agent = if has_options {
        format!("{program} run --group {group} -- claude")
    } else {
        format!(
            "mkdir -p ~/project && {program} run --group {group} --workspace ~/project --host api.anthropic.com \
             --env ANTHROPIC_API_KEY -- claude"
        )
    };
    let grant = match granted {
        Some(_) => String::new(),
        None => format!("\n  {program} grant developer cloud-logs 1     # let a group read the logs of this machine"),
    };
    format!(
        "{runs} {home}.\n\n{inbox}\n\nNext, in another terminal:{grant}\n  \
         {agent}     # or another agent, in a sandbox\n  \
         {program} approvals watch",
        home = context.home.path().display(),
    )
}

/// Returns a link that signs this user in to the inbox.
fn sign_in(context: &Context) -> Option<String> {
    let reply = control::send(&context.home.socket(), &ProcessRequest::WebLink.into()).ok()??;
    Some(reply.pointer("/data/url")?.as_str()?.to_owned())
}
