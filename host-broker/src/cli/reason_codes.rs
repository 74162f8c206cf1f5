//! `reason-codes`: the closed list of reason codes.

use crate::cli::Context;
use crate::cli::home_reader::unknown;
use crate::cli::output::{CliError, Output};
use clap::Args;
use serde_json::{Value, json};
use shared::Code;

/// List the reason codes with status, meaning and remedy.
#[derive(Debug, Args)]
#[command(after_help = "--json prints {codes: [{code, status, meaning, remedy}]}")]
pub struct ReasonCodes {
    /// Show only this code.
    code: Option<String>,
}

impl ReasonCodes {
    /// Runs the command.
    ///
    /// # Errors
    /// [`CliError`] if the code does not exist.
    pub fn run(self, context: &Context) -> Result<(), CliError> {
        let wanted: Vec<Code> = match &self.code {
            None => Code::ALL.to_vec(),
            Some(word) => match word.parse() {
                Ok(code) => vec![code],
                Err(shared::code::NoSuchCode) => return Err(unknown("code", word, Code::ALL.iter())),
            },
        };
        let value = |code: &Code| -> Value {
            json!({
                "code": code, "status": code.status(), "meaning": code.meaning(), "remedy": code.remedy(),
            })
        };
        context.output.show(&json!({ "codes": wanted.iter().map(value).collect::<Vec<_>>() }), || {
            let row = |code: &Code| {
                [code.word(), code.status().word(), code.meaning(), code.remedy()].map(str::to_owned).to_vec()
            };
            let rows: Vec<_> = wanted.iter().map(row).collect();
            Output::table(&["CODE", "STATUS", "MEANING", "REMEDY"], &rows)
        });
        Ok(())
    }
}
