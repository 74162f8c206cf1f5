//! The way of every command that changes something: through the running daemon, or in place where none runs.

use crate::cli::Context;
use crate::cli::output::CliError;
use crate::control::{self, ProcessRequest, SocketRequest, Wanted};
use crate::host::LoadedHome;
use clap::Args;
use config::{Config, unlisted};
use kernel::Ledger;
use model::HostName;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::{Duration, Instant};
use store::StoreError;

/// How long another command that works in place, or a daemon that starts or stops, may hold the lock.
const LOCK_TIMEOUT: Duration = Duration::from_secs(5);
/// How often it is tried again.
const LOCK_PAUSE: Duration = Duration::from_millis(20);

/// The option that sends a command to another host.
#[derive(Debug, Clone, Default, Args)]
pub struct ToHost {
    /// Send the command to the daemon of this host of the fleet, which executes it. Both need [store.hosts.NAME] in
    /// broker.toml.
    #[arg(long, value_name = "NAME")]
    host: Option<HostName>,
}

impl From<Option<HostName>> for ToHost {
    fn from(host: Option<HostName>) -> Self {
        Self { host }
    }
}

impl ToHost {
    /// Returns the request for the chosen host.
    pub fn request(self, request: impl Into<SocketRequest>) -> SocketRequest {
        request.into().to_host(self.host)
    }

    /// Returns the arguments that choose the same host, for commands that are suggested.
    pub fn argument(&self) -> String {
        self.host.as_ref().map_or_else(String::new, |host| format!(" --host {host}"))
    }

    /// Returns whether the command is for another host.
    pub fn is_other(&self) -> bool {
        self.host.is_some()
    }
}

/// Sends a command, and prints the reply.
///
/// # Errors
/// [`CliError`]; the command was not executed.
pub fn ask(context: &Context, request: impl Into<SocketRequest>) -> Result<(), CliError> {
    let mut reply = answer(context, request)?;
    if let Some(Value::String(summary)) = reply.get_mut("summary") {
        *summary = context.at_home(summary);
    }
    context.output.reply(&reply)
}

/// Sends a command, and prints the reply's data with this function.
///
/// # Errors
/// [`CliError`]: the reply is a refusal, or no broker could be reached.
pub fn told(context: &Context, request: impl Into<SocketRequest>, print: impl FnOnce(&Value)) -> Result<(), CliError> {
    let reply = answer(context, request)?;
    match reply.get("data").filter(|_| reply.get("status").and_then(Value::as_str) == Some("executed")) {
        Some(data) => {
            print(data);
            Ok(())
        }
        None => context.output.reply(&reply),
    }
}

/// Sends a command, and returns the reply.
///
/// # Errors
/// [`CliError`] if no broker could be reached; a reply that refuses is none.
pub fn answer(context: &Context, request: impl Into<SocketRequest>) -> Result<Value, CliError> {
    let request = request.into();
    let socket = context.home.socket();
    if let Some(reply) = control::send(&socket, &request)? {
        return Ok(with_age(context, reply));
    }
    if matches!(request, SocketRequest::Fleet(_) | SocketRequest::AllHosts(_)) {
        return Err(CliError::refused(NO_SENDER));
    }
    let loaded = LoadedHome::open(context.home.clone(), &context.platform, context.kinds)?;
    for note in &loaded.notes {
        context.output.say(&format!("host-broker: {note}"));
    }
    let started = Instant::now();
    loop {
        match loaded.ledger(Arc::clone(&context.platform.clock)) {
            Ok(ledger) => return in_place(context, &loaded, ledger, &request),
            Err(StoreError::Locked { .. }) if started.elapsed() < LOCK_TIMEOUT => {
                std::thread::park_timeout(LOCK_PAUSE);
            }
            Err(error) => return Err(error.into()),
        }
        // The holder of the lock may be a daemon that takes commands by now.
        if let Some(reply) = control::send(&socket, &request)? {
            return Ok(with_age(context, reply));
        }
    }
}

/// Adds to a refusal that the daemon uses an earlier configuration, if it does: that may be the reason for the refusal.
/// Otherwise standard error says it.
fn with_age(context: &Context, mut reply: Value) -> Value {
    if reply.get("status").and_then(Value::as_str) == Some("executed") {
        context.note_age();
    } else if let Some(Value::String(error)) = reply.get_mut("error")
        && running(context).is_ok_and(|daemon| daemon.as_ref().is_some_and(is_behind))
    {
        *error = format!("{}; {BEHIND}", error.trim_end_matches('.'));
    }
    reply
}

/// The operator's next step if [`is_behind`].
pub const BEHIND: &str = "broker.toml or policy/ has changed since the daemon started; to use the new text: \
                          host-broker reload";

/// Returns whether the daemon of this [`ProcessRequest::Hello`] reply uses an earlier configuration.
pub fn is_behind(hello: &Value) -> bool {
    hello.pointer("/data/is_behind").and_then(Value::as_bool).unwrap_or(false)
}

/// The refusal of a command for other hosts without a daemon.
const NO_SENDER: &str =
    "no daemon is running, and only it sends commands to other hosts; start it with: host-broker serve";

fn in_place(
    context: &Context,
    loaded: &LoadedHome,
    mut ledger: Ledger,
    request: &SocketRequest,
) -> Result<Value, CliError> {
    let (mut broker, dispatcher) = (loaded.broker(&context.platform.ids), loaded.dispatcher(&context.platform));
    Ok(match request {
        SocketRequest::Command(command) => control::administer(&mut ledger, &mut broker, &dispatcher, command)?,
        SocketRequest::Process(ProcessRequest::Look { provider }) => {
            control::look(&mut ledger, &mut broker, &dispatcher, &context.platform.runtime, provider)?
        }
        SocketRequest::Process(ProcessRequest::Check { providers }) => {
            let wanted = providers.iter().cloned().map(Wanted::own).collect();
            control::check(&mut ledger, &mut broker, &dispatcher, &context.platform.runtime, wanted)?
        }
        SocketRequest::Process(ProcessRequest::CheckAccount { person, capability, account_ref }) => {
            let wanted = vec![Wanted::of_account(capability.clone(), person, account_ref)];
            control::check(&mut ledger, &mut broker, &dispatcher, &context.platform.runtime, wanted)?
        }
        SocketRequest::Process(_) => json!({ "status": "executed", "summary": "No daemon is running." }),
        SocketRequest::Fleet(_) | SocketRequest::AllHosts(_) => control::refusal(NO_SENDER),
    })
}

/// Checks that no daemon is running, for a command that changes what a daemon holds.
///
/// # Errors
/// [`CliError`] if one is running, or if something listens and does not answer.
pub fn check_stopped(context: &Context) -> Result<(), CliError> {
    if running(context)?.is_none() {
        return Ok(());
    }
    Err(CliError::refused(format!("the daemon is running; stop it first with: {} stop", context.program())))
}

/// Returns the user of this process as a person of the configuration, in the ledger's form.
pub fn own_person(config: Option<&Config>) -> String {
    let uid = rustix::process::geteuid().as_raw();
    let person = config.and_then(|config| config.person(uid));
    format!("person:{}", person.map_or_else(|| unlisted(uid), str::to_owned))
}

/// The daemon that answers on the socket, if one is running.
///
/// # Errors
/// [`CliError`] if something listens and does not answer.
pub fn running(context: &Context) -> Result<Option<Value>, CliError> {
    Ok(control::send(&context.home.socket(), &ProcessRequest::Hello.into())?)
}
