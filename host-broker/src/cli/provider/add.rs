//! `provider add`: a common MCP server, from its preset to its accepted definitions.

use super::Name;
use super::accept::{Accept, Reviewed};
use crate::cli::Context;
use crate::cli::ask::running;
use crate::cli::group::edit;
use crate::cli::home_reader::unknown;
use crate::cli::output::{CliError, Output};
use crate::cli::reload::reload;
use clap::Args;
use platform::home::quoted;
use provider_mcp::presets::{Answers, Description, Package, Preset, Question, Registry, lines};
use secrets::source::SecretSource;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::{BufRead as _, IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};

/// Add a common MCP server to the configuration, by its preset.
///
/// Without a preset, the command lists all presets. It installs nothing: if the server is missing, it prints the commands
/// that install it. On a terminal it asks the questions of the preset. It appends the table [providers.NAME] to
/// broker.toml, reloads a running daemon, starts the server, and shows the definitions of its tools.
#[derive(Debug, Args)]
#[command(
    after_help = "SOURCE is where the broker reads a secret: file:/PATH, env:VARIABLE of the daemon, keyring:DESCRIPTION, or \
    command:PROGRAM ARGUMENT….

Example: host-broker provider add notion --secret NOTION_TOKEN=file:/home/ada/notion-token --accept

--json prints {provider, preset, digest, accepted, tools, warnings, flagged}, or without a preset {presets: [{preset, \
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
                "there is a provider `{name}` already; to add another one, choose its name: --name NAME"
            )));
        }
        let directory = self.directory(named)?;
        is_installed(context, named, &package, &directory)?;
        let answers = self.answers(context, named, &questions)?;
        let wrong = |fault: String| CliError::usage(format!("{fault}; nothing was changed"));
        let table = preset.table(&directory, &answers).map_err(wrong)?;
        edit::change(context, |text| {
            edit::with_table(text, ["providers", name.as_str()], &table, &lines(&name, &table))
        })?;
        // From here on, the table stays: the operator can correct it, and go on with `provider accept`.
        let stays = |fault: CliError| {
            let next = context.at_home(&format!("host-broker provider accept {name}"));
            let text = format!("{}\n[providers.{name}] is in broker.toml. Correct it there, then: {next}", fault.text);
            CliError { text, ..fault }
        };
        if running(context)?.is_some() {
            context.output.say("The running daemon reads its configuration again.");
            reload(context).map_err(stays)?;
        }
        let config = context.config()?;
        let reviewed = Accept::of(name.clone(), None, lists_with_secrets).review(context, &config).map_err(stays)?;
        let is_accepted = self.is_accepted(context, &reviewed)?;
        let shown = if is_accepted {
            Accept::of(name.clone(), Some(reviewed.digest), lists_with_secrets)
                .review(context, &config)
                .map_err(stays)?
        } else {
            reviewed
        };
        let mut document = shown.document;
        if let Some(members) = document.as_object_mut() {
            members.insert("preset".to_owned(), preset.name().into());
        }
        context.output.show(&document, || {
            let group =
                config.groups.iter().find(|(_, table)| !table.main).map_or("GROUP", |(group, _)| group.as_str());
            let next = format!("To let group {group} read there: host-broker grant {group} {name} 1");
            let next = if is_accepted { format!("\n{}", context.at_home(&next)) } else { String::new() };
            format!("Added {name}: {title}. Its table is in broker.toml.\n{}{next}", shown.brief)
        });
        Ok(())
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

    /// Returns the answers to the questions: of the arguments, and on a terminal of the operator.
    fn answers(
        &self,
        context: &Context,
        preset: &str,
        questions: &BTreeMap<String, Question>,
    ) -> Result<Answers, CliError> {
        let mut answers = Answers::default();
        for (arguments, secret) in [(&self.texts, false), (&self.secrets, true)] {
            for argument in arguments {
                let flag = if secret { "--secret" } else { "--set" };
                let (name, answer) = argument
                    .split_once('=')
                    .ok_or_else(|| CliError::usage(format!("{flag} takes NAME=…; the argument has no `=`")))?;
                match questions.get(name) {
                    Some(question) if question.secret != secret => {
                        let flag = if secret { "--set" } else { "--secret" };
                        return Err(CliError::usage(format!("{name} is an answer for {flag}")));
                    }
                    Some(_) if secret => drop(answers.secrets.insert(name.to_owned(), source(name, answer)?)),
                    Some(_) => drop(answers.texts.insert(name.to_owned(), answer.to_owned())),
                    None => return Err(unknown(&format!("question of the preset {preset}"), &name, questions.keys())),
                }
            }
        }
        let is_open =
            |answers: &Answers, name: &str| !answers.texts.contains_key(name) && !answers.secrets.contains_key(name);
        let asks = std::io::stdin().is_terminal() && !context.output.json;
        // The secrets come last, because the other answers say what they are for.
        let (secrets, texts): (Vec<_>, Vec<_>) = questions.iter().partition(|(_, question)| question.secret);
        for (name, question) in texts.into_iter().chain(secrets) {
            if !is_open(&answers, name) {
                continue;
            }
            match &question.default {
                _ if asks => ask(name, question, &mut answers)?,
                Some(default) => drop(answers.texts.insert(name.clone(), default.clone())),
                None => {}
            }
        }
        let open: Vec<String> = questions
            .iter()
            .filter(|(name, _)| is_open(&answers, name))
            .map(|(name, question)| {
                let (flag, what) = if question.secret { ("--secret", "SOURCE") } else { ("--set", "TEXT") };
                format!("  {flag} {name}={what}   {}", question.text)
            })
            .collect();
        if open.is_empty() {
            return Ok(answers);
        }
        Err(CliError::usage(format!("the preset {preset} needs:\n{}", open.join("\n"))))
    }

    fn is_accepted(&self, context: &Context, reviewed: &Reviewed) -> Result<bool, CliError> {
        if !reviewed.flagged.is_empty() {
            return Ok(false);
        }
        if self.accept || context.output.json || !std::io::stdin().is_terminal() {
            return Ok(self.accept);
        }
        context.output.say(&reviewed.brief);
        let answer = asked("Accept exactly these definitions? [y/N] ")?;
        Ok(["y", "yes"].contains(&answer.to_lowercase().as_str()))
    }
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

/// Checks that the program of the package is there.
fn is_installed(context: &Context, preset: &str, package: &Package, directory: &Path) -> Result<(), CliError> {
    if package.program_in(directory).exists() {
        return Ok(());
    }
    let commands: Vec<String> = package
        .install(directory)
        .iter()
        .map(|words| format!("  {}", words.iter().map(|word| quoted(Path::new(word))).collect::<Vec<_>>().join(" ")))
        .collect();
    Err(CliError::missing(format!(
        "{} {} is not in {}; install it, or name its directory with --directory:\n{}\nthen: {} provider add {preset}",
        package.name,
        package.version,
        directory.display(),
        commands.join("\n"),
        context.program()
    )))
}

/// Asks a question on the terminal until the answer is right.
fn ask(name: &str, question: &Question, answers: &mut Answers) -> Result<(), CliError> {
    loop {
        let hint = match &question.default {
            Some(default) => format!(" [{default}]"),
            None if question.secret => {
                "\n  Its source, file:/PATH, env:VARIABLE or command:PROGRAM ARGUMENT…".to_owned()
            }
            None => String::new(),
        };
        let answer = asked(&format!("{}{hint}: ", question.text))?;
        if question.secret {
            match source(name, &answer) {
                Ok(source) => {
                    answers.secrets.insert(name.to_owned(), source);
                    return Ok(());
                }
                Err(fault) => writeln!(std::io::stderr(), "  {}", fault.text).ok(),
            };
        } else if let Some(text) = Some(answer).filter(|text| !text.is_empty()).or_else(|| question.default.clone()) {
            answers.texts.insert(name.to_owned(), text);
            return Ok(());
        }
    }
}

/// Asks a question on the terminal once.
fn asked(question: &str) -> Result<String, CliError> {
    let mut err = std::io::stderr();
    write!(err, "{question}").and_then(|()| err.flush()).map_err(|error| CliError::internal(&error))?;
    let mut answer = String::new();
    let read = std::io::stdin().lock().read_line(&mut answer).map_err(|error| CliError::internal(&error))?;
    if read == 0 {
        return Err(CliError::usage("the input ended before all questions were answered"));
    }
    Ok(answer.trim().to_owned())
}

/// Returns the source of a secret: `file:/PATH`, `env:VARIABLE`, `keyring:DESCRIPTION`, `command:PROGRAM ARGUMENT…`.
fn source(name: &str, text: &str) -> Result<SecretSource, CliError> {
    let wrong = |why: &str| {
        CliError::usage(format!(
            "{name}: {why}; a source is file:/PATH, env:VARIABLE, keyring:DESCRIPTION or command:PROGRAM ARGUMENT…"
        ))
    };
    let (kind, value) = text.split_once(':').filter(|(_, value)| !value.is_empty()).ok_or_else(|| {
        // The text may be the secret itself.
        wrong("this is not a source")
    })?;
    match kind {
        "env" => Ok(SecretSource::Env { env: value.to_owned() }),
        "keyring" => Ok(SecretSource::Keyring { keyring: value.to_owned() }),
        "command" => Ok(SecretSource::Command { command: value.split_whitespace().map(str::to_owned).collect() }),
        "file" => {
            let file = std::path::absolute(value).map_err(|error| CliError::internal(&error))?;
            if !file.is_file() {
                return Err(CliError::usage(format!(
                    "{name}: there is no file {path}; write the secret there first: install -m 600 /dev/stdin {path}",
                    path = quoted(&file)
                )));
            }
            Ok(SecretSource::File { file })
        }
        _ => Err(wrong("this is not a source")),
    }
}
