//! The command line: one file for each command.
//!
//! Only this module prints. Results go to standard output, as text for people or with `--json` as one document; faults
//! go to standard error with the next step. Exit codes: 0 done, 1 internal, 2 usage, 3 refused or not found, 4
//! configuration or home, 5 failed check, 128 and more a signal.
//!
//! Commands that change something go through [`ask`], the others through [`home_reader`].

pub mod apply;
pub mod approvals;
pub mod ask;
mod colour;
mod edit;
mod interrupt;
pub mod output;
pub mod home_reader;

pub mod account;
pub mod backup;
pub mod bench;
pub mod calls;
pub mod capabilities;
pub mod completions;
pub mod config;
pub mod demo;
pub mod doctor;
pub mod evidence;
pub mod exposure;
pub mod explain;
pub mod fleet;
pub mod flow;
pub mod gate;
pub mod grant;
pub mod group;
pub mod init;
pub mod inspect;
pub mod kill;
pub mod limits;
pub mod logs;
pub mod man;
pub mod mock;
pub mod proposals;
pub mod notices;
pub mod operator_token;
pub mod policy;
pub mod provider;
pub mod reload;
pub mod restore;
pub mod revoke;
pub mod run;
pub mod scrub;
pub mod quarantine;
pub mod reason_codes;
pub mod serve;
pub mod status;
pub mod stop;
pub mod task;
mod terminal;
pub mod token;
pub mod up;
pub mod vault;
mod view;
pub mod web;

use ::config::provider::Kinds;
use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand};
use output::{CliError, Output};
use platform::clock::SystemClock;
use platform::commands::SystemCommands;
use platform::home::{Home, quoted};
use platform::http::SystemHttp;
use platform::random::SystemRandom;
use platform::service_manager::ServiceManager;
use platform::{Environment, Platform};
use secrets::keys::KeyError;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;
use store::StoreError;
use store::fleet::FleetError;

/// The time that threads still get after the end of a command.
const END_TIMEOUT: Duration = Duration::from_secs(1);

/// Give sandboxed agents controlled and recorded access to external services.
#[derive(Debug, Parser)]
#[command(
    name = "host-broker",
    version,
    propagate_version = true,
    help_template = help_template(),
    after_help = "To start: `host-broker up`, then in another terminal `host-broker grant` and `host-broker run`.
If something does not work: `host-broker doctor`.
For the details of a command: `host-broker help COMMAND`.

Exit codes: 0 done, 1 internal, 2 usage, 3 refused or not found, 4 configuration or home, 5 failed check.
With --json, an error is {error, exit} and the details of the command."
)]
struct Arguments {
    /// The directory of the configuration, ledger, keys and mailboxes [env: `EXT_BROKER_HOME`].
    #[arg(long, global = true, value_name = "DIR", display_order = 100)]
    home: Option<PathBuf>,
    /// Print one JSON document instead of text.
    #[arg(long, global = true, display_order = 101)]
    json: bool,
    /// Repeat a command that only shows something every 2 seconds, until Ctrl-C. A pipe gets the output when it changes.
    #[arg(long, global = true, display_order = 102)]
    watch: bool,
    #[command(subcommand)]
    command: Command,
}

// Without comments here, because a comment would replace the documentation that each command has itself.
#[derive(Debug, Subcommand)]
enum Command {
    Demo(demo::Demo),
    Bench(bench::Bench),
    Up(up::Up),
    Init(init::Init),
    Serve(serve::Serve),
    Stop(stop::Stop),
    Reload(reload::Reload),
    Run(run::Run),
    Status(status::Status),
    Doctor(doctor::Doctor),
    Logs(logs::Logs),
    Grant(grant::Grant),
    Revoke(revoke::Revoke),
    Capabilities(capabilities::Capabilities),
    Explain(explain::Explain),
    Calls(calls::Calls),
    Approvals(approvals::Approvals),
    Proposals(proposals::Proposals),
    Web(web::Web),
    Notices(notices::Notices),
    Task(task::Task),
    Token(token::Token),
    OperatorToken(operator_token::OperatorToken),
    Account(account::Account),
    Vault(vault::Vault),
    Backup(backup::Backup),
    Restore(restore::Restore),
    Fleet(fleet::Fleet),
    Flow(flow::Flow),
    Gate(gate::Gate),
    Kill(kill::Kill),
    Exposure(exposure::Exposure),
    Quarantine(quarantine::Quarantine),
    Limits(limits::Limits),
    Group(group::Group),
    Provider(provider::Provider),
    Policy(policy::Rules),
    Evidence(evidence::Evidence),
    Inspect(inspect::Inspect),
    Config(config::Configuration),
    ReasonCodes(reason_codes::ReasonCodes),
    Scrub(scrub::Scrub),
    Mock(mock::Mock),
    Completions(completions::Completions),
    Man(man::Man),
}

/// The commands as the help of the program groups them. A test keeps this list and [`Command`] equal.
const SECTIONS: [(&str, &[&str]); 7] = [
    ("Setup", &["up", "init", "serve", "run", "reload", "stop", "config", "group", "provider", "policy"]),
    ("Access", &["grant", "revoke", "capabilities", "token", "account", "flow", "operator-token"]),
    ("Approval", &["approvals", "proposals", "web", "notices", "task", "gate"]),
    ("Evidence", &["calls", "evidence", "quarantine"]),
    ("Administration", &["kill", "exposure", "limits", "vault", "backup", "restore", "fleet"]),
    (
        "Diagnostic",
        &["status", "doctor", "logs", "explain", "reason-codes", "inspect", "scrub", "bench", "demo", "mock"],
    ),
    ("Shell", &["completions", "man"]),
];

/// The whole command line, for what is generated from it.
fn definition() -> clap::Command {
    Arguments::command()
}

/// The template of the program's help. clap groups options, but not commands.
fn help_template() -> String {
    let commands = Command::augment_subcommands(clap::Command::new("host-broker"));
    let width = SECTIONS.iter().flat_map(|(_, names)| names.iter()).map(|name| name.len()).max().unwrap_or_default();
    let mut template = "{about-with-newline}\n{usage-heading} {usage}\n".to_owned();
    for (title, names) in SECTIONS {
        writeln!(template, "\n{title} commands:").ok();
        for name in names {
            let about = commands.find_subcommand(name).and_then(clap::Command::get_about);
            let about = about.map(ToString::to_string).unwrap_or_default();
            writeln!(template, "  {name:width$}  {about}").ok();
        }
    }
    template + "\nOptions:\n{options}{after-help}"
}

/// The context of every command.
#[derive(Clone)]
pub struct Context {
    /// The home.
    pub home: Home,
    /// Whether the caller named the home, rather than leaving it to the platform.
    pub home_is_chosen: bool,
    /// Whether an argument named the home. The next command then needs the argument too; a variable is still set.
    pub home_is_argument: bool,
    /// Time, randomness, environment.
    pub platform: Platform,
    /// The service manager that started this program, if one did.
    pub service_manager: ServiceManager,
    /// The kinds of providers.
    pub kinds: Kinds,
    /// Where results go.
    pub output: Output,
}

impl Context {
    /// How this program is called for this home, for commands that are suggested.
    pub fn program(&self) -> String {
        if self.home_is_chosen {
            format!("host-broker --home {}", quoted(self.home.path()))
        } else {
            "host-broker".to_owned()
        }
    }

    /// Returns the text; every command that it suggests names this home.
    pub fn at_home(&self, text: &str) -> String {
        if !self.home_is_argument {
            return text.to_owned();
        }
        let program = self.program();
        let commands = Arguments::command();
        let names = commands.get_subcommands().map(clap::Command::get_name).filter(|name| *name != "init");
        names.fold(text.to_owned(), |text, name| suggested(&text, name, &program))
    }
}

/// Returns the text with this program in front of each `host-broker NAME`. A sentence such as "host-broker runs" has no
/// command.
fn suggested(text: &str, name: &str, program: &str) -> String {
    let command = format!("host-broker {name}");
    let mut parts = text.split(&command);
    let mut whole = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let is_word = !part.starts_with(|c: char| c.is_alphanumeric() || matches!(c, '-' | '_'));
        whole.push_str(if is_word { program } else { "host-broker" });
        write!(whole, " {name}{part}").ok();
    }
    whole
}

/// Runs the command named by the process's arguments.
pub fn run(mut environment: Environment, kinds: Kinds) -> ExitCode {
    let service_manager = ServiceManager::take_from(&mut environment);
    let (arguments, words) = match parsed() {
        Ok(parsed) => parsed,
        Err(error) => return misused(&error),
    };
    // An empty variable is one that is not set.
    let named = environment.get("EXT_BROKER_HOME").filter(|home| !home.is_empty());
    let home_is_argument = arguments.home.is_some();
    let chosen = arguments.home.or_else(|| named.map(PathBuf::from));
    let home_is_chosen = chosen.is_some();
    let home = chosen.or_else(default_home).unwrap_or_else(|| PathBuf::from("."));
    let output = Output { json: arguments.json, has_colours: colour::are_wanted(&environment) };
    // Files that the broker makes are writable by its own user only. Documents for a sandbox are readable by its user;
    // private files set their own mode.
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o022));
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(error) => return output.fault(&CliError::internal(&error)),
    };
    let commands = SystemCommands::default();
    // A server is alone in its cgroup, if one was delegated to it; other commands share the cgroup of their caller.
    let is_daemon = matches!(arguments.command, Command::Serve(_) | Command::Up(_));
    let commands = if is_daemon { commands.in_cgroups() } else { commands };
    let context = Context {
        // A printed path must work from any directory, such as in the mounts of a sandbox.
        home: Home::at(std::path::absolute(&home).unwrap_or(home)),
        home_is_chosen,
        home_is_argument,
        kinds,
        platform: Platform {
            clock: Arc::new(SystemClock),
            ids: Arc::new(SystemRandom),
            environment: Arc::new(environment),
            commands: Arc::new(commands),
            http: Arc::new(SystemHttp::default()),
            runtime: runtime.handle().clone(),
        },
        service_manager,
        output,
    };
    let again = || execute(parsed().map_err(|error| CliError::usage(error.to_string()))?.0.command, &context);
    let executed = match (arguments.watch, view::is_view(&words)) {
        (true, true) => view::watch(output, again),
        (true, false) => Err(view::not_a_view(&words)),
        (false, true) if !output.json => view::page(output, &context.platform, again),
        (false, _) => execute(arguments.command, &context),
    };
    let whole = || context.output.is_whole("the command is done, but its result is incomplete");
    let code = match executed.and_then(|()| whole()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(fault) => context.output.fault(&CliError { text: context.at_home(&fault.text), ..fault }),
    };
    // A thread that still waits, such as for a name that no server resolves, keeps nothing alive.
    runtime.shutdown_timeout(END_TIMEOUT);
    code
}

/// Parses the arguments of the process. Also returns the words of the command, such as `calls list`.
fn parsed() -> Result<(Arguments, String), clap::Error> {
    let matches = Arguments::command().try_get_matches()?;
    let (mut words, mut inner) = (Vec::new(), &matches);
    while let Some((word, next)) = inner.subcommand() {
        words.push(word.to_owned());
        inner = next;
    }
    Ok((Arguments::from_arg_matches(&matches)?, words.join(" ")))
}

fn execute(command: Command, context: &Context) -> Result<(), CliError> {
    match command {
        Command::Demo(command) => command.run(context),
        Command::Bench(command) => command.run(context),
        Command::Up(command) => command.run(context),
        Command::Init(command) => command.run(context),
        Command::Serve(command) => command.run(context),
        Command::Stop(command) => command.run(context),
        Command::Reload(command) => command.run(context),
        Command::Run(command) => command.run(context),
        Command::Status(command) => command.run(context),
        Command::Doctor(command) => command.run(context),
        Command::Logs(command) => command.run(context),
        Command::Grant(command) => command.run(context),
        Command::Revoke(command) => command.run(context),
        Command::Capabilities(command) => command.run(context),
        Command::Explain(command) => command.run(context),
        Command::Calls(command) => command.run(context),
        Command::Approvals(command) => command.run(context),
        Command::Proposals(command) => command.run(context),
        Command::Web(command) => command.run(context),
        Command::Notices(command) => command.run(context),
        Command::Task(command) => command.run(context),
        Command::Token(command) => command.run(context),
        Command::OperatorToken(command) => command.run(context),
        Command::Account(command) => command.run(context),
        Command::Vault(command) => command.run(context),
        Command::Backup(command) => command.run(context),
        Command::Restore(command) => command.run(context),
        Command::Fleet(command) => command.run(context),
        Command::Flow(command) => command.run(context),
        Command::Gate(command) => command.run(context),
        Command::Kill(command) => command.run(context),
        Command::Exposure(command) => command.run(context),
        Command::Quarantine(command) => command.run(context),
        Command::Limits(command) => command.run(context),
        Command::Group(command) => command.run(context),
        Command::Provider(command) => command.run(context),
        Command::Policy(command) => command.run(context),
        Command::Evidence(command) => command.run(context),
        Command::Inspect(command) => command.run(context),
        Command::Config(command) => command.run(context),
        Command::ReasonCodes(command) => command.run(context),
        Command::Scrub(command) => command.run(context),
        Command::Mock(command) => command.run(context),
        Command::Completions(command) => command.run(context),
        Command::Man(command) => command.run(context),
    }
}

/// Help is a result; anything else that the parser says is a fault in the usage, also for who reads JSON.
fn misused(error: &clap::Error) -> ExitCode {
    let wants_json = std::env::args_os().any(|argument| argument == "--json");
    if error.use_stderr() && wants_json {
        let text = error.to_string();
        return Output { json: true, has_colours: false }
            .fault(&CliError::usage(text.trim_start_matches("error: ").trim_end()));
    }
    error.print().ok();
    ExitCode::from(if error.use_stderr() { 2 } else { 0 })
}

/// The platform's directory for a program's data.
fn default_home() -> Option<PathBuf> {
    directories::ProjectDirs::from("", "", "host-broker").map(|directories| directories.data_dir().to_path_buf())
}

impl From<crate::host::StartError> for CliError {
    fn from(error: crate::host::StartError) -> Self {
        use crate::host::StartError;
        match &error {
            StartError::Config(_)
            | StartError::Store(_)
            | StartError::Mailboxes(_)
            | StartError::Key(KeyError::File { .. })
            | StartError::Vault(_)
            | StartError::Socket { .. }
            | StartError::Inbox { .. }
            | StartError::Callback { .. }
            | StartError::Metrics { .. } => Self::configuration(&error),
            StartError::Ledger(ledger) => of_ledger(ledger, &error),
            // A service manager starts the daemon again.
            StartError::Policy { .. }
            | StartError::Thread(_)
            | StartError::FirstRow(_)
            | StartError::Filter(_)
            | StartError::Meter(_)
            | StartError::Randomness(_)
            | StartError::Key(KeyError::Randomness(_)) => Self::internal(&error),
        }
    }
}

impl From<KeyError> for CliError {
    fn from(error: KeyError) -> Self {
        crate::host::StartError::from(error).into()
    }
}

impl From<StoreError> for CliError {
    fn from(error: StoreError) -> Self {
        of_ledger(&error, &error)
    }
}

/// Returns the fault of a ledger. `error` is the same error, or one that it caused.
fn of_ledger(ledger: &StoreError, error: &dyn std::error::Error) -> CliError {
    match ledger {
        StoreError::Locked { .. } => {
            CliError::refused(format!("{error}; see host-broker status, or end it with host-broker stop"))
        }
        StoreError::File { .. } | StoreError::Open { .. } | StoreError::Version { .. } => {
            CliError::configuration(error)
        }
        StoreError::Broken(_) | StoreError::Segment { .. } => {
            CliError { code: CliError::failed("").code, ..CliError::internal(error) }
        }
        StoreError::Fleet(fleet) => of_fleet(fleet, error),
        StoreError::Statement { .. }
        | StoreError::Conflict { .. }
        | StoreError::Stored { .. }
        | StoreError::Clock { .. } => CliError::internal(error),
    }
}

/// Returns the fault of a fleet's database, as [`of_ledger`] does.
fn of_fleet(fleet: &FleetError, error: &dyn std::error::Error) -> CliError {
    match fleet {
        FleetError::NoHost(_)
        | FleetError::Version { .. }
        | FleetError::Other(_)
        | FleetError::NotConfigured(_)
        | FleetError::Left(_)
        | FleetError::Leaving(_)
        | FleetError::NotJoined(_)
        | FleetError::Ousted(_)
        | FleetError::Encrypted(_)
        | FleetError::OtherKey(_)
        | FleetError::Incomplete => CliError::configuration(error),
        // These may pass, so a service manager starts the daemon again.
        FleetError::Fenced(_)
        | FleetError::Served(_)
        | FleetError::Older { .. }
        | FleetError::Durability(_)
        | FleetError::Unsynced(_)
        | FleetError::Unreachable(_)
        | FleetError::Refused(_)
        | FleetError::UsedUp { .. }
        | FleetError::Held { .. }
        | FleetError::Stale(_)
        | FleetError::StillUsed
        | FleetError::Changed
        | FleetError::Randomness
        | FleetError::Unknown(_)
        | FleetError::Row(_) => CliError::internal(error),
    }
}

impl From<crate::control::ControlError> for CliError {
    fn from(error: crate::control::ControlError) -> Self {
        use crate::control::ControlError;
        match error {
            ControlError::Closed { .. } => Self::refused(error.to_string()),
            ControlError::Socket { .. }
            | ControlError::NoAnswer { .. }
            | ControlError::Ledger(_)
            | ControlError::Randomness(_) => Self::internal(&error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The words of a line as a shell splits them, as far as the documents need it.
    fn words(line: &str) -> Vec<String> {
        let line = line.split("  #").next().unwrap_or_default();
        let mut words = vec![String::new()];
        let mut quote = None;
        for letter in line.chars() {
            match (quote, letter) {
                (Some(open), _) if open == letter => quote = None,
                (None, '\'' | '"') => quote = Some(letter),
                (None, ' ') => words.push(String::new()),
                (Some(_) | None, _) => words.last_mut().unwrap().push(letter),
            }
        }
        words.retain(|word| !word.is_empty());
        words
    }

    /// The README, and every page below `docs/`.
    fn pages() -> Vec<String> {
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let (mut pages, mut folders) = (vec![root.join("README.md")], vec![root.join("docs")]);
        while let Some(folder) = folders.pop() {
            for path in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
                let is_picture = path.extension().is_some_and(|extension| extension == "png");
                if path.is_dir() {
                    folders.push(path);
                } else if !is_picture {
                    pages.push(path);
                }
            }
        }
        pages.iter().map(|page| std::fs::read_to_string(page).unwrap()).collect()
    }

    #[test]
    fn the_help_lists_each_command_once_under_a_short_line() {
        let commands = Arguments::command();
        let mut known: Vec<&str> = commands.get_subcommands().map(clap::Command::get_name).collect();
        let mut listed: Vec<&str> = SECTIONS.iter().flat_map(|(_, names)| names.iter().copied()).collect();
        known.sort_unstable();
        listed.sort_unstable();
        assert_eq!(known, listed);
        let mut left: Vec<&clap::Command> = vec![&commands];
        while let Some(command) = left.pop() {
            let about = command.get_about().map(ToString::to_string).unwrap_or_default();
            let fits = !about.is_empty() && about.chars().count() <= 80 && !about.contains(". ");
            assert!(fits, "{}: {about}", command.get_name());
            left.extend(command.get_subcommands());
        }
    }

    #[test]
    fn every_command_that_a_document_shows_is_one() {
        let pages = pages();
        // A line can go on in the next one.
        let pages: Vec<String> = pages.iter().map(|page| page.replace("\\\n", " ")).collect();
        let lines = pages.iter().flat_map(|page| page.lines()).map(|line| line.trim_start_matches("$ "));
        let shown = lines.filter(|line| line.starts_with("host-broker "));
        let mut count = 0;
        for line in shown {
            let whole = line
                .replace("sha256:…", &format!("sha256:{}", "0".repeat(64)))
                .replace("hitl-…", "hitl-00000000-0000-4000-8000-000000000000")
                .replace('…', &"0".repeat(20));
            let words = words(&whole).into_iter().take_while(|word| !["<", ">", "|"].contains(&word.as_str()));
            if let Err(error) = Arguments::try_parse_from(words) {
                panic!("{line}\n{error}");
            }
            count += 1;
        }
        assert!(count > 50, "{count} commands were found");
    }
}
