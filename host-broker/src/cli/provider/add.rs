//! `provider add`: a common MCP server, from its preset to its accepted definitions.

mod questions;

use super::Name;
use super::accept::{Accept, Review};
use super::has_no_grants;
use crate::cli::Context;
use crate::cli::ask::running;
use crate::cli::edit;
use crate::cli::home_reader::unknown;
use crate::cli::output::{CliError, Output};
use crate::cli::reload::reload;
use crate::cli::terminal::{self, is_terminal};
use clap::Args;
use config::Config;
use platform::home::quoted;
use provider_mcp::presets::{Description, Package, Preset, Question, Registry, lines};
use questions::answers;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// Add a common MCP server to the configuration, by its preset.
///
/// Without a preset, the command lists all presets. It installs nothing: if the server is missing, it prints the commands
/// that install it. On a terminal it asks the questions of the preset. It starts the server and shows its tools, appends the
/// table [providers.NAME] to broker.toml, and reloads a running daemon. A server that has to sign in starts after that.
#[derive(Debug, Args)]
#[command(
    after_help = "SOURCE is where the broker reads a secret: file:/PATH, env:VARIABLE of the daemon, keyring:DESCRIPTION, or \
    command:PROGRAM ARGUMENT….

Example: host-broker provider add notion --secret NOTION_TOKEN=file:/home/ada/notion-token --accept

--json prints {provider, preset, digest, accepted, tools, warnings, flagged, unready}, or without a preset {presets: [{preset, \
    title, package: {registry, name, version}, questions: [{name, text, secret, default}]}]}"
)]
pub(super) struct Add {
    /// The preset, such as `notion`.
    preset: Option<String>,
    /// The name of the provider; by default that of the preset.
    #[arg(long)]
    name: Option<Name>,
    /// The directory in which the package is installed.
    ///
    /// By default it is the directory mcp-servers/PRESET in the data directory of the user.
    #[arg(long, value_name = "DIR")]
    directory: Option<PathBuf>,
    /// Answer a question of the preset; repeatable.
    #[arg(long = "set", value_name = "NAME=TEXT")]
    texts: Vec<String>,
    /// Name the source of a secret; repeatable.
    #[arg(long = "secret", value_name = "NAME=SOURCE")]
    secrets: Vec<String>,
    /// Accept the definitions without a question, unless one is flagged.
    #[arg(long)]
    accept: bool,
}

impl Add {
    pub(super) fn run(self, context: &Context) -> Result<(), CliError> {
        let Some(named) = &self.preset else {
            list(context);
            return Ok(());
        };
        let preset = Preset::named(named).ok_or_else(|| unknown("preset", named, Preset::all().map(Preset::name)))?;
        let Description { title, package, lists_with_secrets, questions, .. } = preset.description();
        let package = package.ok_or_else(|| {
            CliError::usage(format!(
                "the preset `{named}` has levels for several servers and names none; write the table of your server \
                 by hand, with preset = \"{named}\""
            ))
        })?;
        let config = context.config()?;
        let name = self.name.clone().map_or_else(|| named.parse(), Ok).map_err(|error| CliError::internal(&error))?;
        if config.providers.contains_key(&name) {
            return Err(CliError::usage(format!(
                "there is a provider `{name}` already; to accept its definitions: {} provider accept {name}; to add \
                 another one, choose its name: --name NAME",
                context.program()
            )));
        }
        has_no_grants(context, &name, ", or choose another name")?;
        let directory = self.directory(named)?;
        is_installed(context, &package, &directory)?;
        let answers = answers((&self.texts, &self.secrets), named, &questions, context.output)?;
        let table = preset.table(&directory, &answers).map_err(CliError::usage).map_err(unchanged)?;
        let lines = lines(&name, &table);
        let edit = |text: &str| edit::with_table(text, ["providers", name.as_str()], &table, &lines);
        // A server that lists its tools without secrets is tried before anything is written.
        let (_text, draft) = edit::draft(context, edit)?;
        let review = |config| Accept::of(name.clone(), None, lists_with_secrets).review(context, config);
        let early = (!lists_with_secrets).then(|| review(&draft).map_err(unchanged)).transpose()?;
        let choice = early.as_ref().map(|reviewed| self.choice(context, reviewed).map_err(unchanged)).transpose()?;
        if choice == Some(Choice::Decline) {
            context.output.line("Nothing was changed.");
            return Ok(());
        }
        let lock = edit::lock(context)?;
        edit::change_under(&lock, context, edit)?;
        // From here on, the table stays: the operator can correct it, and go on with `provider accept`.
        let with_secrets = if lists_with_secrets { " --with-secrets" } else { "" };
        let next = context.at_home(&format!("host-broker provider accept {name}{with_secrets}"));
        let stays = |fault: CliError| {
            fault.and_so(&format!("[providers.{name}] is in broker.toml; correct it there, then: {next}"))
        };
        let unready = reloaded(context, &name).map_err(stays)?;
        let config = context.config().map_err(stays)?;
        let reviewed = early.map_or_else(|| review(&config), Ok).map_err(stays)?;
        let choice = choice.map_or_else(|| self.choice(context, &reviewed), Ok).map_err(stays)?;
        let mut texts = vec![format!("Added {name}: {title}. Its table is in broker.toml.")];
        // On a terminal, the tools were shown with the question.
        let is_shown = !self.accept && is_terminal(context.output);
        texts.extend((!is_shown).then(|| reviewed.brief.clone()));
        let mut document = if choice == Choice::Accept {
            let accept = Accept::of(name.clone(), Some(reviewed.digest), lists_with_secrets);
            let accepted = accept.review(context, &config).map_err(stays)?;
            texts.extend([accepted.text, next_grant(context, &config, &name, &accepted.document)]);
            accepted.document
        } else {
            texts.push(reviewed.next_step);
            reviewed.document
        };
        texts.extend(unready.as_ref().map(|reason| format!("{name} takes no calls: {reason}")));
        if let Some(members) = document.as_object_mut() {
            members.insert("preset".to_owned(), preset.name().into());
            members.insert("unready".to_owned(), unready.into());
        }
        context.output.show(&document, || texts.join("\n"));
        Ok(())
    }

    /// Returns what to do with the definitions, after a question where a person can be asked.
    fn choice(&self, context: &Context, reviewed: &Review) -> Result<Choice, CliError> {
        match (self.accept, reviewed.flagged.is_empty()) {
            (true, true) => Ok(Choice::Accept),
            (true, false) => Err(CliError::refused(format!(
                "{}\n\nWithout --accept, the command adds the table; `provider accept` can accept flagged names then",
                reviewed.brief
            ))),
            (false, _) if is_terminal(context.output) => confirm(context, reviewed),
            (false, _) => Ok(Choice::Leave),
        }
    }

    /// Returns the directory of the package.
    fn directory(&self, preset: &str) -> Result<PathBuf, CliError> {
        let own = || directories::BaseDirs::new().map(|base| base.data_local_dir().join("mcp-servers").join(preset));
        let directory = self.directory.clone().or_else(own).ok_or_else(|| {
            CliError::usage(
                "there is no data directory of the user; name the directory of the package: --directory DIR",
            )
        })?;
        std::path::absolute(&directory).map_err(|error| CliError::internal(&error))
    }
}

/// The treatment of the definitions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Choice {
    /// Accept them.
    Accept,
    /// Change nothing more.
    Decline,
    /// Leave them to `provider accept`.
    Leave,
}

fn unchanged(fault: CliError) -> CliError {
    fault.and_so("nothing was changed")
}

/// Has a running daemon read its configuration again. Returns why the provider takes no calls, if it lacks a secret.
fn reloaded(context: &Context, name: &Name) -> Result<Option<String>, CliError> {
    if running(context)?.is_none() {
        return Ok(None);
    }
    context.output.say("The running daemon reads its configuration again.");
    let unready = reload(context)?;
    let state = unready.get(name.as_str()).filter(|state| state.get("lacks_secret") == Some(&Value::Bool(true)));
    Ok(state.and_then(|state| state.get("reason")?.as_str()).map(str::to_owned))
}

/// Returns the next step after the acceptance.
fn next_grant(context: &Context, config: &Config, name: &Name, accepted: &Value) -> String {
    let tools = accepted.get("tools").and_then(Value::as_array).into_iter().flatten();
    let lowest = tools.filter_map(|tool| tool.get("level")?.as_u64()).min().unwrap_or(1);
    let group = config.groups.iter().find(|(_, table)| !table.main).map_or("GROUP", |(group, _)| group.as_str());
    context.at_home(&format!("To give group {group} access: host-broker grant {group} {name} {lowest}"))
}

/// Asks the operator whether to accept these definitions.
fn confirm(context: &Context, reviewed: &Review) -> Result<Choice, CliError> {
    let (question, yes) = if reviewed.flagged.is_empty() {
        ("Accept exactly these definitions?", Choice::Accept)
    } else {
        ("Definitions are flagged. Add the provider without accepting any?", Choice::Leave)
    };
    context.output.say(&reviewed.brief);
    let is_yes = terminal::confirm(context.output, question, Some(&reviewed.text))?;
    Ok(if is_yes { yes } else { Choice::Decline })
}

fn list(context: &Context) {
    let all: Vec<(&str, Description)> = Preset::all().map(|preset| (preset.name(), preset.description())).collect();
    let registry = |package: &Package| match package.registry {
        Registry::Npm => "npm",
        Registry::Pypi => "pypi",
    };
    let presets: Vec<Value> = all
        .iter()
        .map(|(name, description)| {
            let package = description.package.as_ref().map(
                |package| json!({ "registry": registry(package), "name": package.name, "version": package.version }),
            );
            let questions = description.questions.iter().map(|(name, question)| {
                let Question { text, secret, default } = question;
                json!({ "name": name, "text": text, "secret": secret, "default": default })
            });
            json!({
                "preset": name,
                "title": description.title,
                "package": package,
                "questions": questions.collect::<Vec<_>>(),
            })
        })
        .collect();
    context.output.show(&json!({ "presets": presets }), || {
        let rows: Vec<Vec<String>> = all
            .iter()
            .map(|(name, description)| {
                let package = description.package.as_ref();
                let package = package.map_or("(levels only)".to_owned(), |package| {
                    format!("{} {} {}", registry(package), package.name, package.version)
                });
                vec![(*name).to_owned(), description.title.clone(), package]
            })
            .collect();
        Output::table(&["PRESET", "SERVER", "PACKAGE"], &rows)
    });
}

/// Checks that the program of the package is there, and says which version it is if it is another one.
fn is_installed(context: &Context, package: &Package, directory: &Path) -> Result<(), CliError> {
    if package.program_in(directory).exists() {
        match package.installed_version(directory) {
            Some(version) if version == package.version => {}
            found => context.output.say(&format!(
                "host-broker: the preset knows {} {}; installed is {}",
                package.name,
                package.version,
                found.as_deref().unwrap_or("an unknown version")
            )),
        }
        return Ok(());
    }
    let commands: Vec<String> = package
        .install(directory)
        .iter()
        .map(|words| format!("  {}", words.iter().map(|word| quoted(Path::new(word))).collect::<Vec<_>>().join(" ")))
        .collect();
    Err(CliError::missing(format!(
        "{} {} is not in {}; install it, then repeat the command, or name its directory with --directory:\n{}",
        package.name,
        package.version,
        directory.display(),
        commands.join("\n"),
    )))
}
