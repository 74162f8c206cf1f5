//! `codes`: the closed list of reasons.

use crate::cli::Context;
use crate::cli::output::{Fault, Output};
use crate::cli::reading::unknown;
use clap::Args;
use serde_json::{Value, json};
use shared::Code;

/// List every reason code: its status, what it means, what to do about it.
#[derive(Debug, Args)]
#[command(after_help = "--json prints {codes: [{code, status, meaning, remedy}]}")]
pub struct Codes {
    /// Only this one.
    code: Option<String>,
}

impl Codes {
    /// Runs the command.
    ///
    /// # Errors
    /// [`Fault`] if there is no such code.
    pub fn run(self, context: &Context) -> Result<(), Fault> {
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
