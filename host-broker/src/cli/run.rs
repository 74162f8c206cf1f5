//! `run`: starts an agent in a sandbox whose only way out is the broker.
//!
//! ```text
//! PROGRAM ─► its files (program) ─┐
//! client  ─► its registration ────┼─► mounts, environment ─► AgentSandbox ─► the program's exit code
//! group   ─► mailbox, home ───────┘
//! ```

mod admission;
mod client;
mod mounts;
mod program;

use crate::cli::Context;
use crate::cli::ask::running;
use crate::cli::home_reader::known_group;
use crate::cli::output::CliError;
use crate::log::{self, LogFormat};
use admission::{Admission, Use, enter};
use clap::Args;
use client::{Client, Registration};
use config::Config;
use http::Uri;
pub(in crate::cli) use mounts::shim_path;
use mounts::{Mounts, SHIM, WORKSPACE};
use platform::agent_sandbox::{AgentSandbox, HOME};
use platform::egress::{HOSTS_MAX, Host};
use platform::home::quoted;
use platform::sandbox::Network;
use serde_json::{Value, json};
use shared::Group;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Start an agent in a sandbox whose only way out is the broker.
///
/// The sandbox has the system's programs, the shim, the directory of the group, and a home directory that the group
/// keeps. It has no network, no credentials, and nothing else of this machine unless an option adds it. Claude Code,
/// Codex and Gemini CLI know the shim at once; other programs start `mcp-shim`, which is in their PATH.
#[derive(Debug, Args)]
#[command(
    override_usage = "host-broker run --group GROUP [OPTIONS] -- PROGRAM [ARGUMENT]…\n       \
                      host-broker run --print-config CLIENT [--env NAME=VALUE]…",
    after_help = "Examples:
  host-broker run --group developer --workspace ~/project --host api.anthropic.com --env ANTHROPIC_API_KEY -- claude
  host-broker run --group developer -- bash
  host-broker run --print-config codex

The command needs bubblewrap and a running daemon. It ends with the exit code of the program. A program that is \
    outside of /usr comes with its interpreter and its Node.js packages or virtual environment; for other files use \
    --read.

--json with --dry-run prints {command: [WORD], environment: [NAME], mounts: [{from, to, writable}], hosts: [HOST]}"
)]
pub struct Run {
    /// The group as which the agent calls the broker.
    #[arg(long, required_unless_present = "print_config")]
    group: Option<Group>,
    /// The directory on which the agent works; it starts there and can write there.
    #[arg(long, value_name = "DIR")]
    workspace: Option<PathBuf>,
    /// Mount the workspace read-only.
    #[arg(long, requires = "workspace")]
    read_only: bool,
    /// An additional file or directory that the agent can read; repeatable.
    #[arg(long, value_name = "PATH")]
    read: Vec<PathBuf>,
    /// A host that the agent can reach without the broker, such as that of its model; repeatable.
    ///
    /// NAME means port 443 there; NAME:PORT another port. The broker does not see these connections.
    #[arg(long, value_name = "HOST")]
    host: Vec<Host>,
    /// The same for a host in a private network; repeatable.
    #[arg(long, value_name = "HOST")]
    private_host: Vec<Host>,
    /// A variable of this environment that the agent gets, or NAME=VALUE; repeatable.
    #[arg(long, value_name = "NAME")]
    env: Vec<String>,
    /// The path of mcp-shim, if it is neither beside this program nor in PATH.
    #[arg(long, value_name = "PATH")]
    shim: Option<PathBuf>,
    /// Print the command that creates the sandbox, and start nothing.
    ///
    /// Values of the environment are not printed. They reach the sandbox through a descriptor.
    #[arg(long = "dry-run")]
    is_rehearsed: bool,
    /// Print the configuration that registers the shim in this client, and start nothing.
    #[arg(long, value_name = "CLIENT", conflicts_with_all = ["group", "workspace", "read", "host", "private_host", "is_rehearsed", "program"])]
    print_config: Option<Client>,
    /// The program and its arguments.
    #[arg(last = true, value_name = "PROGRAM", required_unless_present = "print_config")]
    program: Vec<OsString>,
}

impl Run {
    /// Runs the command.
    ///
    /// # Errors
    /// [`CliError`]: nothing was started, or the exit code of the program.
    pub fn run(self, context: &Context) -> Result<(), CliError> {
        let variables = self.variables(context)?;
        if let Some(client) = self.print_config {
            let shim = self.shim.as_ref().map_or_else(|| "mcp-shim".to_owned(), |shim| shim.display().to_string());
            context.output.say(&format!("host-broker: put this into {}", client.place()));
            let text = client.configuration(&shim, &variables);
            context.output.raw(&json!({ "place": client.place(), "configuration": text }), || text.clone());
            return Ok(());
        }
        let (Some(group), Some((program, arguments))) = (&self.group, self.program.split_first()) else {
            return Err(CliError::usage("name a group and a program: host-broker run --group GROUP -- PROGRAM"));
        };
        let config = context.config()?;
        known_group(&config, group)?;
        let hello = running(context)?;
        is_ready(context, &config, group, hello.is_some() || self.is_rehearsed)?;
        let shim = shim_path(self.shim.as_deref()).ok_or_else(|| CliError::home(NO_SHIM))?;
        // ORDER: the entry, then a look at the others. Of two that start at once, at least one sees the other.
        let entry = match self.workspace.as_ref().filter(|_| !self.read_only && !self.is_rehearsed) {
            Some(workspace) => Some(enter(&context.home, workspace).map_err(CliError::home)?),
            None => None,
        };
        let admission = Admission::new(context, &config, &shim).map_err(CliError::refused)?;
        let work = self.workspace.as_ref().map(|path| admission.admit(path, self.use_of_workspace()));
        let work = work.transpose().map_err(|fault| CliError::usage(format!("--workspace: {fault}")))?;
        let found = Self::find(context, Path::new(program), work.as_deref())?;
        let client = Client::of_program(Path::new(program));
        let mut mounts = Mounts::of_group(context, &config, group).map_err(CliError::home)?;
        mounts.program(&admission, found.mounts).map_err(|fault| CliError::usage(format!("the program: {fault}")))?;
        mounts.shim(&shim);
        let given = work.as_deref().map(|work| (work, !self.read_only));
        let directory = mounts.given(&admission, given, &self.read).map_err(CliError::usage)?;
        let (mut path, mut arguments) = (found.path, arguments.to_vec());
        // Of the group's variables, a client needs those that it does not pass on.
        let broker = mounts.variables().into_iter().chain(variables.clone()).filter(|(name, _)| is_registered(name));
        match client.and_then(|client| client.registration(SHIM, &broker.collect())) {
            Some(Registration::File(place, text)) => mounts.file(place, &text).map_err(CliError::home)?,
            Some(Registration::Arguments(before)) => {
                arguments.splice(..0, before.into_iter().map(OsString::from));
            }
            Some(Registration::Script(script)) => {
                arguments.splice(..0, ["-c".into(), script.into(), path.into_os_string()]);
                path = "/bin/sh".into();
            }
            None => {}
        }
        let env = mounts.environment(&context.platform.environment, &found.directories, &variables);
        let sandbox = AgentSandbox {
            name: group.to_string(),
            network: self.network(&config, hello.as_ref())?,
            mounts: mounts.into_list(),
            directory: directory.unwrap_or_else(|| HOME.into()),
            env,
        };
        if self.is_rehearsed {
            show(context, &sandbox, &path, &arguments);
            return Ok(());
        }
        self.say(context, client);
        // A host that the sandbox cannot reach is named once.
        let _log = log::start(&context.platform.environment, LogFormat::Text, None);
        let starter = [SHIM.into(), "sandbox-start".into()];
        let ended = context.platform.runtime.block_on(sandbox.run(&starter, &path, &arguments));
        drop(entry);
        match ended {
            Ok(0) => Ok(()),
            Ok(code) => Err(CliError::exited(code)),
            Err(error) => Err(CliError::configuration(&error)),
        }
    }

    fn use_of_workspace(&self) -> Use {
        if self.read_only { Use::Look } else { Use::Work }
    }

    /// Returns the variables of `--env`.
    fn variables(&self, context: &Context) -> Result<BTreeMap<String, String>, CliError> {
        let environment = &context.platform.environment;
        let of = |given: &String| match given.split_once('=') {
            Some((name, value)) => Ok((name.to_owned(), value.to_owned())),
            None => match environment.get(given) {
                Some(value) => Ok((given.clone(), value.clone())),
                None => Err(CliError::usage(format!(
                    "--env: the variable {given} is not set here; set it, or write --env {given}=VALUE"
                ))),
            },
        };
        let named = self.env.iter().map(of).collect::<Result<BTreeMap<_, _>, _>>()?;
        match named.keys().find(|name| !is_variable(name)) {
            Some(name) => Err(CliError::usage(format!("--env: `{name}` is not the name of a variable"))),
            None => Ok(named),
        }
    }

    /// Finds the program. The shim is in the sandbox in any case.
    fn find(context: &Context, program: &Path, work: Option<&Path>) -> Result<program::Program, CliError> {
        if program == Path::new("mcp-shim") {
            return Ok(program::Program { path: SHIM.into(), ..program::Program::default() });
        }
        let path = context.platform.environment.get("PATH").map(String::as_str).unwrap_or_default();
        let here = std::env::current_dir().map_err(|error| CliError::internal(&error))?;
        let work = work.map(|place| program::Work { place, inside: Path::new(WORKSPACE) });
        program::find(program, path, &here, work).map_err(CliError::missing)
    }

    /// Returns the network of the sandbox. `hello` is the daemon's description of itself. After a reload, the daemon listens
    /// where the configuration says.
    fn network(&self, config: &Config, hello: Option<&Value>) -> Result<Network, CliError> {
        let own = config.web.iter().map(|web| web.listen).chain(config.identity.callback);
        let own: Vec<u16> = own
            .chain(config.metrics.iter().map(|table| table.listen))
            .map(|address| address.address().port())
            .collect();
        let is_own = |port: u16| own.contains(&port) || hello.is_some_and(|hello| listens(hello, port));
        let private = self.private_host.iter().cloned().map(Host::in_private_network);
        let mut hosts: Vec<Host> = self.host.iter().cloned().chain(private).collect();
        hosts.sort();
        hosts.dedup_by(|one, other| (one.name(), one.port()) == (other.name(), other.port()));
        let is_broker = |host: &&Host| host.is_local() && is_own(host.port());
        if let Some(host) = hosts.iter().find(is_broker) {
            return Err(CliError::usage(format!(
                "--host: {host} is the broker itself, which an agent reaches through its shim only; remove it"
            )));
        }
        if hosts.is_empty() {
            return Ok(Network::None);
        }
        if hosts.len() > HOSTS_MAX {
            return Err(CliError::usage(format!("--host: {} hosts exceed the limit of {HOSTS_MAX}", hosts.len())));
        }
        let this = std::env::current_exe().map_err(|error| CliError::internal(&error))?;
        Ok(Network::Hosts(hosts, this))
    }

    /// Says on standard error how the sandbox differs from the operator's likely wish.
    fn say(&self, context: &Context, client: Option<Client>) {
        if rustix::process::geteuid().is_root() {
            context.output.say("host-broker: the agent runs as root's user; run this command as a user of its own");
        }
        let is_shim = self.program.first().is_some_and(|program| program == "mcp-shim");
        if self.workspace.is_none() && !is_shim {
            context.output.say("host-broker: the sandbox has no directory of yours; to give it one: --workspace DIR");
        }
        if let Some((host, key)) =
            client.and_then(Client::model).filter(|_| self.host.is_empty() && self.private_host.is_empty())
        {
            context.output.say(&format!(
                "host-broker: the agent cannot reach its model; to permit that: --host {host} --env {key}"
            ));
        }
    }
}

/// Returns whether the daemon of this description listens on this port.
fn listens(hello: &Value, port: u16) -> bool {
    let urls =
        ["web", "callback", "metrics"].map(|name| hello.pointer(&format!("/data/{name}")).and_then(Value::as_str));
    let ports = urls.into_iter().flatten().filter_map(|url| url.parse::<Uri>().ok()?.port_u16());
    ports.into_iter().any(|own| own == port)
}

/// Checks that an agent of the group could call the broker from a sandbox of this user.
fn is_ready(context: &Context, config: &Config, group: &Group, has_daemon: bool) -> Result<(), CliError> {
    let own = rustix::process::geteuid().as_raw();
    if let Some(uid) = config.groups.get(group).and_then(|table| table.uid).filter(|uid| *uid != own) {
        return Err(CliError::refused(format!(
            "the requests of {group} must come from user id {uid}, and this command runs as {own}; run it as that user, or \
             remove `uid` from [groups.{group}]"
        )));
    }
    if !has_daemon {
        return Err(CliError::refused(
            "no daemon is running, so the agent could reach nothing; start it with: host-broker serve",
        ));
    }
    if !context.home.mailbox(group).is_dir() {
        return Err(CliError::refused(format!(
            "the daemon does not serve {group} yet; make it read the configuration: host-broker reload"
        )));
    }
    Ok(())
}

/// The error text of a machine without the shim.
const NO_SHIM: &str = "mcp-shim was not found beside this program or in PATH; build it with `cargo build -p mcp-shim`, or \
                       name it with --shim";

/// Returns whether the configuration of a client names this variable. A token is a secret, so it stays in the environment.
fn is_registered(name: &str) -> bool {
    name.starts_with("EXT_") && name != "EXT_CONTEXT_TOKEN"
}

fn is_variable(name: &str) -> bool {
    let is_part = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
    !name.is_empty() && !name.starts_with(|c: char| c.is_ascii_digit()) && name.bytes().all(is_part)
}

/// Prints the command. The values of the environment are not printed: they can be secret.
fn show(context: &Context, sandbox: &AgentSandbox, program: &Path, arguments: &[OsString]) {
    let line = sandbox.command_line(program, arguments);
    let words: Vec<String> = line.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    let names: Vec<String> = sandbox.env.iter().map(|(name, _)| name.to_string_lossy().into_owned()).collect();
    let mounts: Vec<_> = sandbox
        .mounts
        .iter()
        .map(|mount| json!({ "from": mount.from, "to": mount.to, "writable": mount.is_writable }))
        .collect();
    let hosts: Vec<String> = match &sandbox.network {
        Network::Hosts(hosts, _) => hosts.iter().map(ToString::to_string).collect(),
        Network::None | Network::All => Vec::new(),
    };
    let document = json!({ "command": words, "environment": names, "mounts": mounts, "hosts": hosts });
    context.output.show(&document, || {
        let words: Vec<String> = words.iter().map(|word| quoted(Path::new(word))).collect();
        format!("{}\n\nEnvironment: {}", words.join(" "), names.join(", "))
    });
}
