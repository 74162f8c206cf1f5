//! The outcome of an approved action.

use super::seen;
use crate::control::approvals::Outcome;
use maud::{Markup, html};
use shared::Code;

/// The outcome in words, as a part of a sentence.
pub(super) fn words(outcome: &Outcome) -> Markup {
    html! {
        @match outcome {
            Outcome::Waits => "it has not started yet",
            Outcome::Running => "it has started and is not over yet",
            Outcome::Succeeded(None) => "it was done",
            Outcome::Succeeded(Some(summary)) => { "it was done (" (seen(summary)) ")" },
            Outcome::Failed(code) => { "it was not done: " (meaning(code)) },
            Outcome::Unknown => "its outcome is unknown; the broker keeps looking",
        }
    }
}

/// Returns the meaning of a code; a code that this version does not know stands for itself.
fn meaning(code: &str) -> Markup {
    match code.parse::<Code>() {
        Ok(code) => seen(code.meaning()),
        Err(_unknown) => seen(code),
    }
}
