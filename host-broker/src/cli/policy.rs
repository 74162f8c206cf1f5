//! `policy`: the rules, checked, and tried on what has happened.

mod check;
mod test;

use crate::cli::Context;
use crate::cli::output::Fault;
use crate::config::{Config, rules};
use crate::providers::registry::Catalogue;
use ::rules::{RuleFile, Rules as RuleSet};
use clap::{Args, Subcommand};
use std::path::PathBuf;

/// The rules of policy/*.cedar: check them, and see what they would have meant.
#[derive(Debug, Args)]
pub struct Rules {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Check the rules without starting anything; exit 4 names the file, the line, the fault and the remedy.
    Check(Check),
    /// Try rules on every call that was decided so far, and list each one that would be decided otherwise.
    Test(Test),
}

#[derive(Debug, Args)]
#[command(
    after_help = "Also lists which parameters rules cannot see, and which actions a profile leaves to rules though \
    none permits them.

--json prints {ok, files, rules: [{id, effect, file, line, reason?, idle?}], unseen: [{action, parameter, why}], \
    unpermitted: [{group, action, why}]}; with --schema {schema}"
)]
struct Check {
    /// These files instead of the home's.
    files: Vec<PathBuf>,
    /// Print what rules can speak of, as a Cedar schema, and nothing else.
    #[arg(long)]
    schema: bool,
}

#[derive(Debug, Args)]
#[command(
    after_help = "The ledger holds no parameters, and not what a session was exposed to. Where a rule reads them and \
    that could matter, the answer is `cannot tell`. Calls that were refused for another reason stay refused, and calls that \
    a profile does not leave to rules can only be forbidden.

Example:
  host-broker policy test policy/default.cedar new.cedar

--json prints {calls, asked, same, changes: [{row, at, request_id?, group, action, was, would_be, why}], \
    cannot_tell: [{action, calls, why}]}"
)]
struct Test {
    /// These files instead of the home's.
    files: Vec<PathBuf>,
    /// As if every call were left to rules, not only those of actions that a profile leaves to them now.
    #[arg(long)]
    all: bool,
}

impl Rules {
    /// Runs the command.
    ///
    /// # Errors
    /// [`Fault`] if the configuration or the rules cannot be used, or the ledger cannot be read.
    pub fn run(self, context: &Context) -> Result<(), Fault> {
        match self.command {
            Command::Check(command) => command.run(context),
            Command::Test(command) => command.run(context),
        }
    }
}

/// The files, or the home's if there are none.
fn files(context: &Context, given: Vec<PathBuf>) -> Result<Vec<RuleFile>, Fault> {
    if given.is_empty() {
        return rules::files(&context.home).map_err(|error| Fault::configuration(&error));
    }
    let read = |path: PathBuf| match std::fs::read_to_string(&path) {
        Ok(text) => Ok(RuleFile { path, text }),
        Err(error) => Err(Fault::usage(format!("cannot read {}: {error}", path.display()))),
    };
    given.into_iter().map(read).collect()
}

fn parse(files: &[RuleFile], config: &Config, catalogue: &Catalogue) -> Result<RuleSet, Fault> {
    rules::parse(files, config, catalogue).map_err(|error| Fault::configuration(&error))
}
