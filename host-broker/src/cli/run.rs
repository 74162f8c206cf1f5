//! `run`: starts an agent in a sandbox whose only way out is the broker.
//!
//! ```text
//! PROGRAM ─► its files (program) ─┐
//! client  ─► its registration ────┼─► mounts, environment ─► AgentSandbox or Container ─► the program's exit code
//! group   ─► mailbox, home ───────┘
//! ```
//! A container has the programs of its image, and no file of a program of this machine.

mod admission;
mod client;
mod killed;
mod mounts;
mod options;
mod place;
mod program;
mod shim;

use crate::cli::Context;
use crate::cli::ask::running;
use crate::cli::home_reader::known_group;
use crate::cli::output::CliError;
use crate::log::{self, LogFormat};
use admission::{Admission, Use, enter};
use clap::Args;
use client::{Client, Registration};
use config::Config;
pub(in crate::cli) use killed::{Found, find as find_killed};
use mounts::{Mounts, SHIM, WORKSPACE};
use options::Options;
use place::{EngineHere, Place};
use platform::agent_sandbox::HOME;
use platform::container::{Engine, Image, MemorySize, Unsupported, Users};
use platform::egress::Host;
use serde_json::json;
use shared::Group;
pub(in crate::cli) use shim::shim_path;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Start an agent in a sandbox whose only way out is the broker.
///
/// The sandbox has the system's programs, the shim, the directory of the group, and a home directory that the group
/// keeps. It has no network, no credentials, and nothing else of this machine unless an option adds it. Claude Code,
/// Codex and Gemini CLI know the shim at once; other programs start `mcp-shim`, which is in their PATH.
///
/// With --image, the sandbox is a container of Podman or Docker, and the programs are those of the image.
#[derive(Debug, Args)]
#[command(
    override_usage = "host-broker run --group GROUP [OPTIONS] -- PROGRAM [ARGUMENT]…\n       \
                      host-broker run --print-config CLIENT [--env NAME=VALUE]…",
    after_help = "Examples:
  host-broker run --group developer --workspace ~/project --host api.anthropic.com --env ANTHROPIC_API_KEY -- claude
  host-broker run --group developer -- bash
  host-broker run --group developer --image localhost/agent:1 -- agent
  host-broker run --print-config codex

The command needs a running daemon, and bubblewrap or an engine of containers. It ends with the exit code of the \
    program. A program that is outside of /usr comes with its interpreter and its Node.js packages or virtual \
    environment; for other files use --read.

The table [groups.GROUP.run] of broker.toml can hold workspace, read, host, private_host, env, image, engine, memory, \
    pids and cpus. --workspace, --image, --engine, --memory, --pids and --cpus replace its values; the other options \
    add to them.

If a command with --image was killed, its container stays. The next run removes it first, or starts nothing. doctor \
    names it.

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
    #[arg(long)]
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
    /// Run the program in a container of this image, which must be on this machine.
    #[arg(long, value_name = "IMAGE")]
    image: Option<Image>,
    /// The program that makes the container: podman or docker [default: podman if it is installed, else docker].
    #[arg(long, value_name = "ENGINE")]
    engine: Option<Engine>,
    /// The memory of the container, such as 512m or 8g, without swap; 0 for no limit [default: 4g].
    #[arg(long, value_name = "SIZE")]
    memory: Option<MemorySize>,
    /// The number of processes and threads of the container; 0 for no limit [default: 1024].
    #[arg(long, value_name = "NUMBER")]
    pids: Option<u32>,
    /// The number of processors of the container; 0 for no limit [default: all of the machine but one, at least one].
    #[arg(long, value_name = "NUMBER")]
    cpus: Option<u32>,
    /// The path of mcp-shim, if it is neither beside this program nor in PATH.
    #[arg(long, value_name = "PATH")]
    shim: Option<PathBuf>,
    /// Print the command that creates the sandbox, and start and create nothing.
    ///
    /// Values of the environment are not printed. They reach the sandbox through a descriptor.
    #[arg(long = "dry-run")]
    is_rehearsed: bool,
    /// Print the configuration that registers the shim in this client, and start nothing.
    #[arg(long, value_name = "CLIENT", conflicts_with_all = ["group", "workspace", "read_only", "read", "host", "private_host", "image", "engine", "memory", "pids", "cpus", "is_rehearsed", "program"])]
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
        if let Some(client) = self.print_config {
            return self.print(context, client);
        }
        let (Some(group), Some((program, arguments))) = (&self.group, self.program.split_first()) else {
            return Err(CliError::usage("name a group and a program: host-broker run --group GROUP -- PROGRAM"));
        };
        let config = context.config()?;
        known_group(&config, group)?;
        let options = Options::of(&self, context, &config, group)?;
        let hello = running(context)?;
        is_ready(context, &config, group, hello.is_some() || self.is_rehearsed)?;
        let shim = shim_path(self.shim.as_deref()).ok_or_else(|| CliError::home(shim::NONE))?;
        let engine = self.engine_of(context, &options, &shim)?;
        if !self.is_rehearsed {
            end_killed(context)?;
        }
        // ORDER: the entry, then a look at the others. Of two that start at once, at least one sees the other.
        let entry = match options.workspace.as_ref().filter(|_| !self.read_only && !self.is_rehearsed) {
            Some(workspace) => Some(enter(&context.home, workspace).map_err(CliError::home)?),
            None => None,
        };
        let admission = Admission::new(context, &config, &shim).map_err(CliError::refused)?;
        let work = options.workspace.as_ref().map(|path| admission.admit(path, self.use_of_workspace()));
        let work = work.transpose().map_err(|fault| CliError::usage(format!("--workspace: {fault}")))?;
        let found = match &engine {
            // SECURITY: the image has its own programs, so no file of this machine is looked up for it.
            Some(_) => program::Program::of_image(Path::new(program)),
            None => Self::find(context, Path::new(program), work.as_deref())?,
        };
        let client = Client::of_program(Path::new(program));
        let users = engine.as_ref().map(|engine| engine.users);
        let mut mounts =
            Mounts::of_group(context, &config, group, (users, self.is_rehearsed)).map_err(CliError::home)?;
        mounts.program(&admission, found.mounts).map_err(|fault| CliError::usage(format!("the program: {fault}")))?;
        mounts.shim(&shim);
        let given = work.as_deref().map(|work| (work, !self.read_only));
        let directory = mounts.given(&admission, given, &options.read).map_err(CliError::usage)?;
        let (mut path, mut arguments) = (found.path, arguments.to_vec());
        // Of the group's variables, a client needs those that it does not pass on.
        let broker = mounts.variables().into_iter().chain(options.env.clone()).filter(|(name, _)| is_registered(name));
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
        let network = options.network(&config, hello.as_ref())?;
        let directory = directory.unwrap_or_else(|| HOME.into());
        let environment = &context.platform.environment;
        let place = if let (Some(engine), Some(image)) = (engine, options.image) {
            let env = mounts.environment(environment, None, &options.env);
            let inside = (mounts.into_list(), directory, env);
            Place::container(context, engine, (image, options.limits), group, inside)?
        } else {
            let env = mounts.environment(environment, Some(&found.directories), &options.env);
            Place::sandbox(network, group, (mounts.into_list(), directory, env))
        };
        if self.is_rehearsed {
            return place.show(context, &path, &arguments);
        }
        self.say(context, client.filter(|_| options.host.is_empty()), options.workspace.is_some(), &place);
        // A host that the sandbox cannot reach is named once.
        let _log = log::start(environment, LogFormat::Text, None);
        let ended = place.run(context, &path, &arguments);
        drop(entry);
        match ended? {
            0 => Ok(()),
            code => Err(CliError::exited(code)),
        }
    }

    /// Prints the configuration of a client.
    fn print(&self, context: &Context, client: Client) -> Result<(), CliError> {
        let variables = options::variables(context, &self.env)?;
        let shim = self.shim.as_ref().map_or_else(|| "mcp-shim".to_owned(), |shim| shim.display().to_string());
        context.output.say(&format!("host-broker: put this into {}", client.place()));
        let text = client.configuration(&shim, &variables);
        context.output.raw(&json!({ "place": client.place(), "configuration": text }), || text.clone());
        Ok(())
    }

    /// Returns the engine of a container, if one is meant, as it is on this machine.
    fn engine_of(&self, context: &Context, options: &Options, shim: &Path) -> Result<Option<EngineHere>, CliError> {
        if options.image.is_none() {
            return Ok(None);
        }
        shim::is_static(shim).map_err(CliError::home)?;
        let engine = Engine::chosen(options.engine);
        // A rehearsal needs no engine, as it needs no bubblewrap.
        let engine = match (engine, options.engine) {
            (Err(_none), named) if self.is_rehearsed => named.unwrap_or(Engine::Podman),
            (chosen, _) => chosen.map_err(|error| CliError::configuration(&error))?,
        };
        let environment = &context.platform.environment;
        let users = context.platform.runtime.block_on(engine.users(environment));
        let users = match users {
            Ok(users) => users,
            Err(_unknown) if self.is_rehearsed => Users::Machine,
            Err(error) => return Err(CliError::configuration(&error)),
        };
        // A rehearsal shows all limits, because the question creates files of the engine.
        let unsupported = if self.is_rehearsed {
            Unsupported::default()
        } else {
            let unsupported = context.platform.runtime.block_on(engine.unsupported(environment));
            unsupported.map_err(|error| CliError::configuration(&error))?
        };
        if let Some(missing) = options.limits.refused(&unsupported, &options.given) {
            return Err(CliError::refused(format!(
                "the container would have {missing}; remove that limit from the options and from [groups.NAME.run] of \
                 broker.toml, or lift it with 0"
            )));
        }
        Ok(Some(EngineHere { engine, users, unsupported }))
    }

    fn use_of_workspace(&self) -> Use {
        if self.read_only { Use::Look } else { Use::Work }
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

    /// Says on standard error how the sandbox differs from the operator's likely wish. `client` is one without a host.
    fn say(&self, context: &Context, client: Option<Client>, has_workspace: bool, place: &Place) {
        if rustix::process::geteuid().is_root() {
            context.output.say("host-broker: warning: the agent runs with the user id of root; better start this command as another user");
        }
        if let Place::Container(container) = place
            && let Some(missing) = container.missing_limits()
        {
            context.output.say(&format!("host-broker: warning: the container has {missing}"));
        }
        let is_shim = self.program.first().is_some_and(|program| program == "mcp-shim");
        if !has_workspace && !is_shim {
            context.output.say("host-broker: the sandbox has no directory of yours; to give it one: --workspace DIR");
        }
        if let Some((host, key)) = client.and_then(Client::model) {
            let remedy = match place {
                Place::Sandbox(_) => "to permit that",
                Place::Container(_) => "a container cannot have hosts, so leave out --image, and add",
            };
            context
                .output
                .say(&format!("host-broker: the agent cannot reach its model; {remedy}: --host {host} --env {key}"));
        }
    }
}

/// Removes the containers of killed commands, and says each on standard error.
///
/// # Errors
/// [`CliError`]: one may be left over. No agent starts beside its agent.
fn end_killed(context: &Context) -> Result<(), CliError> {
    let said = |found: &Found| {
        let remedy = found.remedy().map(|remedy| format!("; remedy: {remedy}")).unwrap_or_default();
        format!("{}{remedy}", found.text())
    };
    let (blocking, others): (Vec<_>, Vec<_>) = killed::remove(context).into_iter().partition(Found::is_blocking);
    for found in &others {
        context.output.say(&format!("host-broker: {}", said(found)));
    }
    if blocking.is_empty() {
        return Ok(());
    }
    let lines: Vec<String> = blocking.iter().map(said).collect();
    Err(CliError::refused(format!("no agent was started beside one that may still work: {}", lines.join("\n"))))
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

/// Returns whether the configuration of a client names this variable. A token is a secret, so it stays in the environment.
fn is_registered(name: &str) -> bool {
    name.starts_with("EXT_") && name != "EXT_CONTEXT_TOKEN"
}
