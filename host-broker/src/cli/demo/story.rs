//! The output for the audience.

use crate::cli::output::{CliError, Output};
use shared::numbers::counted;

/// A story that remembers whether it was true.
pub(super) struct Story {
    output: Output,
    checks: Vec<(String, bool)>,
}

/// The longest detail that is printed, in characters.
const DETAIL_MAX: usize = 150;

impl Story {
    pub(super) fn new(output: Output) -> Self {
        Self { output, checks: Vec::new() }
    }

    /// Announces the next scene.
    pub(super) fn scene(&mut self, text: &str) {
        if !self.output.json {
            self.output.line(&format!("\n{text}"));
        }
    }

    /// Shows the output of a command.
    pub(super) fn said(&mut self, text: &str) {
        if !self.output.json {
            self.output.line(&format!("  $ {}", text.trim()));
        }
    }

    /// Shows a claim, whether it is true, and its proof.
    pub(super) fn check(&mut self, claim: &str, is_true: bool, detail: &str) {
        let detail: String = detail.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(DETAIL_MAX).collect();
        let mark = if is_true { "ok " } else { "NOT" };
        if !self.output.json {
            self.output.line(&format!("  {mark} {claim}\n        {detail}"));
        }
        self.checks.push((claim.to_owned(), is_true));
    }

    /// The end: a fault if any claim was not true.
    pub(super) fn end(self) -> Result<(), CliError> {
        let wrong: Vec<&str> =
            self.checks.iter().filter(|(_, is_true)| !is_true).map(|(claim, _)| claim.as_str()).collect();
        let document = serde_json::json!({
            "ok": wrong.is_empty(),
            "checks": self.checks.iter().map(|(claim, is_true)| serde_json::json!({ "claim": claim, "true": is_true })).collect::<Vec<_>>(),
        });
        self.output.show(&document, || {
            let (all, right) = (self.checks.len(), self.checks.len() - wrong.len());
            format!("\n{}, {right} of them true.", counted(all, "claim", "claims"))
        });
        if wrong.is_empty() {
            return Ok(());
        }
        Err(CliError::failed(format!("not true: {}", wrong.join("; "))))
    }
}
