//! `up`: makes a home if there is none, runs the broker on it, and says the next step.

use crate::cli::Context;
use crate::cli::ask::running;
use crate::cli::init;
use crate::cli::output::CliError;
use crate::cli::serve::{READY, serve, start_log};
use crate::control::{self, ProcessRequest};
use crate::host::reload::{Start, reap_inherited, restart};
use clap::Args;
use config::Config;
use config::web::Loopback;
use serde_json::{Value, json};
use std::io::{ErrorKind, IsTerminal as _};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use store::state::grants;

/// Create a home if there is none, run the daemon, and print the next step.
///
/// The command combines `init` and `serve`. A home that it creates has an inbox in the browser, and no group has any
/// access. If another program uses the address of the inbox, a new home gets a free port. The command runs until
/// Ctrl-C, SIGTERM or `host-broker stop`. For a service, use `serve`.
#[derive(Debug, Args)]
#[command(after_help = "--json prints {ready: true, home, created, web, callback}")]
pub struct Up {
    /// The address of the inbox of a new home; port 0 is any free one [default: 127.0.0.1:7420, or a free port].
    #[arg(long, value_name = "ADDRESS", value_parser = loopback)]
    listen: Option<Loopback>,
}

/// The address of the inbox, unless `--listen` gives another one.
const LISTEN: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 7420);
/// Any free port.
const ANY: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

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
            let listen = new_address(self.listen, LISTEN)?;
            init::create(context, None, Some(listen))?;
            context.output.say(&format!("host-broker: created {}", context.home.path().display()));
            if self.listen.is_none() && listen != LISTEN {
                let config = context.home.config();
                context.output.say(&format!(
                    "host-broker: {LISTEN} is in use, so the inbox listens on {listen}; to change it, edit `listen` of [web] \
                     in {}",
                    config.display()
                ));
            }
        } else if is_first {
            if running(context)?.is_some() {
                let ready = json!({ "ready": true, "home": context.home.path(), "created": false });
                context.output.show(&ready, || next_steps(context, "A daemon runs already on"));
                return Ok(());
            }
            check_address(context)?;
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

/// Returns the address of the inbox of a new home: of the option, or the usual one, or a free one if that is in use.
///
/// # Errors
/// [`CliError`]: the inbox cannot listen; no home was created.
fn new_address(listen: Option<Loopback>, usual: SocketAddr) -> Result<SocketAddr, CliError> {
    let (wanted, found) = if let Some(address) = listen.map(Loopback::address) {
        (address, TcpListener::bind(address).map(|_free| address))
    } else {
        let free = TcpListener::bind(usual)
            .or_else(|error| if error.kind() == ErrorKind::AddrInUse { TcpListener::bind(ANY) } else { Err(error) });
        (usual, free.and_then(|listener| listener.local_addr()))
    };
    found.map_err(|error| {
        let is_in_use = error.kind() == ErrorKind::AddrInUse;
        let remedy = if is_in_use { "Use a free port" } else { "Use another address" };
        CliError::home(format!(
            "the inbox cannot listen on {wanted}: {error}; no home was created. {remedy}: host-broker up --listen {ANY}"
        ))
    })
}

/// Checks that the inbox of an existing home can listen. The daemon reports a configuration that is invalid.
fn check_address(context: &Context) -> Result<(), CliError> {
    let Some(web) = context.config_alone().ok().and_then(|config| config.web) else { return Ok(()) };
    let address = web.listen.address();
    let Err(error) = TcpListener::bind(address) else { return Ok(()) };
    let path = context.home.config();
    let line = Config::text(&path).ok().and_then(|text| line_of_listen(&text));
    let line = line.map(|number| format!("line {number} of ")).unwrap_or_default();
    Err(CliError::home(format!(
        "the inbox cannot listen on {address}: {error}; change {line}{}, `listen = \"{address}\"` of [web], to {}, then: \
         host-broker up",
        path.display(),
        replacement(error.kind())
    )))
}

/// Returns the address to use after this error.
fn replacement(kind: ErrorKind) -> &'static str {
    if kind == ErrorKind::AddrInUse {
        "a free port, or to port 0 for any"
    } else if kind == ErrorKind::PermissionDenied {
        "a port that this user may use, such as one from 1024 on"
    } else {
        "an address of this machine that it can listen on"
    }
}

/// Returns the number of the line of the configuration that says where the inbox listens.
fn line_of_listen(text: &str) -> Option<usize> {
    let mut is_web = false;
    let is_it = |line: &str| {
        let line = line.split('#').next().unwrap_or_default().trim();
        if line.starts_with('[') {
            is_web = line == "[web]";
        }
        is_web && line.split_once('=').is_some_and(|(key, _)| key.trim() == "listen")
    };
    text.lines().position(is_it).map(|before| before + 1)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_of_the_inbox_is_found_among_other_tables() {
        let text = "[broker]\nlisten = \"x\"\n# [web]\n[web] # the inbox\n# listen = \"y\"\nlisten=\"z\"\n[metrics]\nlisten = \"w\"\n";
        assert_eq!(line_of_listen(text), Some(6));
        assert_eq!(line_of_listen("web = { listen = \"z\" }\n"), None);
    }

    #[test]
    fn a_new_home_gets_the_address_of_the_option_or_one_that_is_free() {
        let held = TcpListener::bind(ANY).unwrap();
        let address = held.local_addr().unwrap();
        let option = |address: SocketAddr| Some(Loopback::try_from(address.to_string()).unwrap());
        let fault = new_address(option(address), ANY).unwrap_err().text;
        for words in [address.to_string().as_str(), "no home was created", "host-broker up --listen 127.0.0.1:0"] {
            assert!(fault.contains(words), "{fault}");
        }
        assert_eq!(new_address(option(ANY), address).unwrap(), ANY);
        // An address that no interface has. Another port would not help.
        let elsewhere = SocketAddr::from(([192, 0, 2, 1], 7420));
        let fault = new_address(None, elsewhere).unwrap_err().text;
        assert!(fault.contains("192.0.2.1:7420") && !fault.contains("free port"), "{fault}");
        assert!(replacement(ErrorKind::AddrInUse).contains("port 0"));
        for kind in [ErrorKind::AddrNotAvailable, ErrorKind::PermissionDenied] {
            assert!(!replacement(kind).contains("free port"), "{kind}");
        }
        let found = new_address(None, address).unwrap();
        assert!(found.ip() == address.ip() && ![0, address.port()].contains(&found.port()), "{found}");
    }
}
