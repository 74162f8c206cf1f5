//! The failures of password managers. Each action is a read, so a failure changed nothing.

use model::Refusal;
use platform::commands::{CommandError, Finished};
use provider::contract::Failure;
use shared::Code;

/// The most characters of a program's message that are repeated.
const SAID_MAX: usize = 200;

/// The password manager does not work now.
pub(crate) fn unavailable(message: impl Into<String>) -> Failure {
    Failure::Unavailable { message: message.into() }
}

/// The answer of a program cannot be used.
pub(crate) fn unusable(program: &str) -> Failure {
    Failure::InvalidOutput { message: format!("The output of {program} cannot be read.") }
}

/// The call is outside the guardrails.
pub(crate) fn guardrail(reason: impl Into<String>) -> Refusal {
    Refusal { code: Code::Guardrail, reason: reason.into() }
}

/// The program could not be run to its end.
pub(crate) fn not_run(program: &str, error: &CommandError) -> Failure {
    match error {
        CommandError::Deadline => Failure::Timeout,
        CommandError::NotFound(_) => unavailable(format!("The program {program} is not installed.")),
        CommandError::BadName(_)
        | CommandError::Start { .. }
        | CommandError::Write(_)
        | CommandError::Read(_)
        | CommandError::Wait(_) => unavailable(format!("The program {program} cannot be run.")),
    }
}

/// The program ended with an error. `explain` says how to repair the known ones; of the others the last line is
/// repeated.
pub(crate) fn ended_badly(program: &str, finished: &Finished, explain: fn(&str) -> Option<&'static str>) -> Failure {
    let text = String::from_utf8_lossy(&finished.stderr);
    if let Some(explained) = explain(&text) {
        return unavailable(explained);
    }
    let line = text.lines().rev().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
    let line: String = line.chars().filter(|c| !c.is_control()).take(SAID_MAX).collect();
    unavailable(match line.trim_end_matches('.') {
        "" => format!("The program {program} failed."),
        line => format!("The program {program} failed: {line}."),
    })
}
