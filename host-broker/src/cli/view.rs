//! Commands that only show something: `--watch` repeats them, and a pager shows a long output on a terminal.

use super::colour;
use super::output::{CliError, Output};
use platform::{Environment, Platform};
use rustix::termios::tcgetwinsize;
use std::io::{IsTerminal as _, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};

/// The commands that only show something. They take no lock, and run no program that supplies a secret.
///
/// `flow list`, `flow grant list` and `operator-token list` are none: without a daemon, they load all secrets and take
/// the lock of the ledger. `vault status` is none: it loads the master key, and a program can supply that.
const VIEWS: [&str; 25] = [
    "account list",
    "approvals list",
    "approvals show",
    "approvals standing list",
    "calls list",
    "calls show",
    "capabilities",
    "doctor",
    "evidence head",
    "evidence sinks",
    "explain",
    "exposure list",
    "gate list",
    "group list",
    "kill list",
    "limits",
    "notices list",
    "proposals list",
    "proposals show",
    "provider list",
    "quarantine list",
    "quarantine show",
    "reason-codes",
    "status",
    "task list",
];
/// The interval of `--watch`.
const INTERVAL: Duration = Duration::from_secs(2);
/// Moves to the first place of a terminal, and clears it.
const CLEAR: &str = "\x1b[H\x1b[2J";
/// Options of less, if the operator has none: it ends if all fits, and leaves the text there.
const LESS: &str = "FRX";

/// Returns whether the command of these words only shows something.
pub(super) fn is_view(words: &str) -> bool {
    VIEWS.contains(&words)
}

/// Returns the error of `--watch` with another command.
pub(super) fn not_a_view(words: &str) -> CliError {
    CliError::usage(format!(
        "`{words}` cannot be watched; --watch is for commands that only show something, such as status"
    ))
}

/// Repeats a command until Ctrl-C, and prints its output again when it has changed.
///
/// # Errors
/// The error of the first time. Later ones are printed in the place of the output.
pub(super) fn watch(output: Output, run: impl Fn() -> Result<(), CliError>) -> Result<(), CliError> {
    let mut shown = None;
    loop {
        let (result, text) = output.captured(&run);
        let text = match result {
            Ok(()) => text,
            // The output tells the fault.
            Err(error) if error.is_told => text,
            Err(error) if shown.is_none() => return Err(error),
            Err(error) => output.fault_text(&error),
        };
        if shown.as_ref() != Some(&text) {
            let is_open = output.lines(|out| out.write_all(on_screen(&text, size()).as_bytes()))?;
            if !is_open {
                return Ok(());
            }
            shown = Some(text);
        }
        std::thread::park_timeout(INTERVAL);
        if !output.is_read() {
            return Ok(());
        }
    }
}

/// Returns the text as it replaces a screen of so many rows and columns; without a terminal, the text.
fn on_screen(text: &str, size: Option<(usize, usize)>) -> String {
    let Some((rows, columns)) = size else { return text.to_owned() };
    let lines: Vec<String> = text.lines().take(rows.saturating_sub(1)).map(|line| colour::cut(line, columns)).collect();
    format!("{CLEAR}{}\n", lines.join("\n"))
}

/// Returns the rows and columns of the terminal behind standard output, if there is one.
fn size() -> Option<(usize, usize)> {
    let stdout = std::io::stdout();
    let size = stdout.is_terminal().then(|| tcgetwinsize(&stdout).ok()).flatten()?;
    Some((usize::from(size.ws_row), usize::from(size.ws_col))).filter(|(rows, columns)| *rows > 1 && *columns > 0)
}

/// Runs a command, and shows its output in a pager if it is longer than the terminal.
///
/// # Errors
/// The error of the command.
pub(super) fn page(
    output: Output,
    platform: &Platform,
    run: impl Fn() -> Result<(), CliError>,
) -> Result<(), CliError> {
    let pager = pager(&platform.environment);
    let (Some((rows, _)), Some(pager), true) = (size(), pager, std::io::stdin().is_terminal()) else {
        return run();
    };
    let (result, text) = output.captured(&run);
    let text = if shows_colours(&pager, &platform.environment) { text } else { colour::plain(&text) };
    let is_paged = text.lines().count() >= rows && show_in(&pager, platform, &text);
    if !is_paged {
        output.lines(|out| out.write_all(text.as_bytes()))?;
    }
    result
}

/// Returns the words of the pager; `None` if the operator wants none.
fn pager(environment: &Environment) -> Option<Vec<String>> {
    let named = ["EXT_BROKER_PAGER", "PAGER"].into_iter().find_map(|name| environment.get(name));
    let words: Vec<String> = named.map_or("less", String::as_str).split_whitespace().map(str::to_owned).collect();
    words.first().is_some_and(|program| program != "cat").then_some(words)
}

/// Returns whether a pager passes colours on: less does with `-R`, which it has unless the operator has options of his own.
fn shows_colours(pager: &[String], environment: &Environment) -> bool {
    let is_less = pager.first().is_some_and(|program| Path::new(program).ends_with("less"));
    let options = environment.get("LESS").map_or(LESS, String::as_str);
    let own = pager.iter().skip(1).any(|word| word.starts_with('-') && word.contains(['R', 'r']));
    is_less && (own || options.contains(['R', 'r']))
}

/// Shows a text in the pager, until the person ends it. Returns `false` if it has not been shown.
fn show_in(pager: &[String], platform: &Platform, text: &str) -> bool {
    let Some((program, arguments)) = pager.split_first() else { return false };
    #[expect(clippy::disallowed_methods, reason = "the operator's own pager needs the terminal and the environment")]
    let mut command = Command::new(program);
    // SECURITY: a person who may run only this program through sudo gets no shell from less.
    command.args(arguments).env("LESSSECURE", "1").env_remove("LESSSECURE_ALLOW").stdin(Stdio::piped());
    if !platform.environment.contains_key("LESS") {
        command.env("LESS", LESS);
    }
    // Ctrl-C is for the pager. Once a handler is registered, it does not end this process.
    let inside = platform.runtime.enter();
    let _interrupts = signal(SignalKind::interrupt());
    drop(inside);
    let Ok(mut pager) = command.spawn() else { return false };
    if let Some(mut input) = pager.stdin.take() {
        // A person can end it before it has read everything.
        input.write_all(text.as_bytes()).ok();
    }
    // It has shown the text, however it has ended.
    pager.wait().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory as _;

    #[test]
    fn every_view_is_a_command() {
        let commands = super::super::Arguments::command();
        for view in VIEWS {
            let found = view.split(' ').try_fold(&commands, |command, word| command.find_subcommand(word));
            assert!(found.is_some_and(|command| !command.has_subcommands()), "{view}");
        }
    }

    /// The paths of all commands without subcommands below this one.
    fn leaves(command: &clap::Command, path: &str) -> Vec<String> {
        let below = command.get_subcommands().flat_map(|below| leaves(below, &format!("{path} {}", below.get_name())));
        let below: Vec<String> = below.collect();
        if below.is_empty() { vec![path.trim_start().to_owned()] } else { below }
    }

    #[test]
    fn every_list_is_a_view_or_one_of_those_that_take_a_lock() {
        const LOCKING: [&str; 3] = ["flow grant list", "flow list", "operator-token list"];
        let mut others = leaves(&super::super::Arguments::command(), "");
        others.retain(|path| path.ends_with(" list") && !is_view(path));
        others.sort();
        assert_eq!(others, LOCKING);
        assert!(VIEWS.is_sorted());
    }

    #[test]
    fn a_screen_has_no_more_lines_than_rows_and_a_pipe_has_the_text() {
        assert_eq!(on_screen("a\nlong\nc\n", Some((3, 2))), format!("{CLEAR}a\nlo\n"));
        assert_eq!(on_screen("a\nb\nc\n", None), "a\nb\nc\n");
    }

    #[test]
    fn the_pager_is_the_operators_and_none_if_he_wants_none() {
        let with = |pairs: &[(&str, &str)]| {
            pager(&pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect())
        };
        assert_eq!(with(&[]), Some(vec!["less".to_owned()]));
        assert_eq!(with(&[("PAGER", "more -d")]), Some(vec!["more".to_owned(), "-d".to_owned()]));
        assert_eq!(with(&[("PAGER", "more"), ("EXT_BROKER_PAGER", "")]), None);
        assert_eq!(with(&[("PAGER", "cat")]), None);
    }
}
