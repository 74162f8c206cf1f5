//! Questions to a person on the terminal.

use crate::cli::output::{CliError, Output};
use rustix::termios::{QueueSelector, tcflush};
use std::io::{BufRead as _, IsTerminal as _, Write as _};

/// Returns whether a person can be asked.
pub(super) fn is_terminal(output: Output) -> bool {
    !output.json && std::io::stdin().is_terminal() && std::io::stderr().is_terminal()
}

/// Returns whether a person can be asked about the output of this command, because it is on the terminal, too.
pub(super) fn shows_output(output: Output) -> bool {
    is_terminal(output) && std::io::stdout().is_terminal()
}

/// The most lines that a person is asked about.
const LINES_MAX: usize = 2000;
/// The length of a line, in characters. A longer line counts as several.
const LINE: usize = 100;

/// Returns whether a person can read this text before an answer.
pub(super) fn is_readable(text: &str) -> bool {
    text.lines().map(|line| line.chars().count().div_ceil(LINE).max(1)).sum::<usize>() <= LINES_MAX
}

/// Asks a question once. Returns `None` at the end of the input.
///
/// # Errors
/// [`CliError`] if the terminal cannot be used.
pub(super) fn prompt(question: &str) -> Result<Option<String>, CliError> {
    let mut err = std::io::stderr();
    write!(err, "{question}").and_then(|()| err.flush()).map_err(|error| CliError::internal(&error))?;
    let mut answer = String::new();
    let read = std::io::stdin().lock().read_line(&mut answer).map_err(|error| CliError::internal(&error))?;
    if read == 0 {
        // The next output begins on a line of its own.
        writeln!(err).ok();
        return Ok(None);
    }
    Ok(Some(answer.trim().to_owned()))
}

/// Asks a person to confirm. Only `y` and `yes` are a yes; the end of the input is a no. `all` is the text that the person
/// can view before the answer.
///
/// # Errors
/// As [`prompt`].
pub(super) fn confirm(output: Output, question: &str, all: Option<&str>) -> Result<bool, CliError> {
    let choices = if all.is_some() { "[y = yes, N = no, v = view all of them]" } else { "[y/N]" };
    // An answer that was typed before the question is none.
    tcflush(std::io::stdin(), QueueSelector::IFlush).ok();
    loop {
        let answer = prompt(&format!("{question} {choices} "))?;
        match (answer_of(answer.as_deref()), all) {
            (Answer::View, Some(text)) => output.say(text),
            (answer, _) => return Ok(answer == Answer::Yes),
        }
    }
}

/// The answer to a request for confirmation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Answer {
    Yes,
    No,
    View,
}

fn answer_of(line: Option<&str>) -> Answer {
    match line.map(str::to_lowercase).as_deref() {
        Some("y" | "yes") => Answer::Yes,
        Some("v") => Answer::View,
        Some(_) | None => Answer::No,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_can_be_read_up_to_its_most_lines_and_a_long_line_is_several() {
        assert!(is_readable("") && is_readable(&"x\n".repeat(LINES_MAX)) && is_readable(&"\n".repeat(LINES_MAX)));
        assert!(!is_readable(&"x\n".repeat(LINES_MAX + 1)) && !is_readable(&"\n".repeat(LINES_MAX + 1)));
        assert!(is_readable(&"ä".repeat(LINES_MAX * LINE)) && !is_readable(&"x".repeat(LINES_MAX * LINE + 1)));
    }

    #[test]
    fn only_y_and_yes_are_a_yes() {
        for yes in ["y", "Y", "yes", "YES"] {
            assert_eq!(answer_of(Some(yes)), Answer::Yes, "{yes}");
        }
        for no in [None, Some(""), Some("n"), Some("no"), Some("yep"), Some("1"), Some("accept")] {
            assert_eq!(answer_of(no), Answer::No, "{no:?}");
        }
        assert_eq!(answer_of(Some("v")), Answer::View);
    }
}
