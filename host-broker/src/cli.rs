//! The command line: one file a command.
//!
//! Only here is anything printed. Results go to standard output, as text for people or with `--json` as one
//! document; faults go to standard error with what to do about them. Exit codes: 0 done, 1 internal, 2 usage,
//! 3 refused, 4 configuration, 5 provider.

pub mod demo;
pub mod grant;
pub mod init;
pub mod output;
pub mod serve;

use crate::config::Environment;
use crate::config::home::Home;
use crate::effects::clock::SystemClock;
use crate::effects::commands::SystemCommands;
use crate::effects::ids::SystemIds;
use crate::host::Effects;
use clap::{Parser, Subcommand};
use output::{Fault, Output};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

/// Controlled, evidenced access to the outside world for sandboxed agents.
#[derive(Debug, Parser)]
#[command(name = "host-broker", version, propagate_version = true)]
struct Arguments {
    /// The directory that holds everything: configuration, ledger, keys, mailboxes.
    #[arg(long, global = true, env = "EXT_BROKER_HOME", value_name = "DIR")]
    home: Option<PathBuf>,
    /// Print one JSON document instead of text.
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Show the broker at work in about ten seconds, on real input.
    Demo(demo::Demo),
    /// Make a home: configuration with comments, groups, keys, directories.
    Init(init::Init),
    /// Run the broker on a home, until it is stopped.
    Serve(serve::Serve),
    /// Give a group access to a provider.
    Grant(grant::Grant),
}

/// What every command is given.
pub struct Context {
    /// The home.
    pub home: Home,
    /// Time, randomness, environment.
    pub effects: Effects,
    /// Where results go.
    pub output: Output,
}

/// Runs the command named by the process's arguments.
pub fn run(environment: Environment) -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => {
            error.print().ok();
            return ExitCode::from(if error.use_stderr() { 2 } else { 0 });
        }
    };
    let home = arguments.home.or_else(default_home).unwrap_or_else(|| PathBuf::from("."));
    let output = Output { json: arguments.json };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(error) => return output.fault(&Fault::internal(&error)),
    };
    let context = Context {
        home: Home::at(home),
        effects: Effects {
            clock: Arc::new(SystemClock),
            ids: Arc::new(SystemIds),
            environment: Arc::new(environment),
            commands: Arc::new(SystemCommands::default()),
            runtime: runtime.handle().clone(),
        },
        output,
    };
    let result = match arguments.command {
        Command::Demo(command) => command.run(&context),
        Command::Init(command) => command.run(&context),
        Command::Serve(command) => command.run(&context),
        Command::Grant(command) => command.run(&context),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(fault) => output.fault(&fault),
    }
}

/// The platform's directory for a program's data.
fn default_home() -> Option<PathBuf> {
    directories::ProjectDirs::from("", "", "host-broker").map(|directories| directories.data_dir().to_path_buf())
}

impl From<crate::host::StartError> for Fault {
    fn from(error: crate::host::StartError) -> Self {
        use crate::host::StartError;
        match &error {
            StartError::Config(_) | StartError::Room(_) | StartError::Key { .. } => Self::configuration(&error),
            StartError::Ledger(_)
            | StartError::Socket { .. }
            | StartError::Thread(_)
            | StartError::Filter(_)
            | StartError::Randomness(_) => Self::internal(&error),
        }
    }
}

impl From<crate::ledger::LedgerError> for Fault {
    fn from(error: crate::ledger::LedgerError) -> Self {
        Self::internal(&error)
    }
}

impl From<crate::control::ControlError> for Fault {
    fn from(error: crate::control::ControlError) -> Self {
        Self::internal(&error)
    }
}
