//! The questions of a preset, answered by arguments or on the terminal.

use crate::cli::output::{CliError, Output};
use crate::cli::terminal::{is_terminal, prompt};
use platform::home::quoted;
use provider_mcp::presets::{Answers, Question};
use secrets::source::SecretSource;
use std::collections::BTreeMap;
use std::io::Write as _;

/// Returns the answers to the questions: of the arguments, and on a terminal of the operator.
///
/// # Errors
/// [`CliError`]: an argument is wrong, or an answer is missing and nobody can be asked.
pub(super) fn answers(
    (texts, secrets): (&[String], &[String]),
    preset: &str,
    questions: &BTreeMap<String, Question>,
    output: Output,
) -> Result<Answers, CliError> {
    let mut answers = Answers::default();
    for (arguments, secret) in [(texts, false), (secrets, true)] {
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
                // The name may be a part of a pasted secret.
                None => {
                    let known: Vec<_> = questions.keys().map(String::as_str).collect();
                    let known = known.join(", ");
                    return Err(CliError::usage(format!(
                        "a name in {flag} is no question of the preset {preset}; the questions are: {known}"
                    )));
                }
            }
        }
    }
    let is_open =
        |answers: &Answers, name: &str| !answers.texts.contains_key(name) && !answers.secrets.contains_key(name);
    let asks = is_terminal(output);
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
        let answer = prompt(&format!("{}{hint}: ", question.text))?
            .ok_or_else(|| CliError::usage("the input ended before all questions were answered"))?;
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
        } else {
            writeln!(std::io::stderr(), "  An answer is needed; Ctrl-C ends the command.").ok();
        }
    }
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
