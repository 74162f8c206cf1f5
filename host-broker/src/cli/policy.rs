//! `policy`: the rules, checked, and tried on past calls.

mod check;
mod test;

use crate::cli::Context;
use crate::cli::output::CliError;
use ::rules::{RuleFile, Rules as RuleSet};
use clap::{Args, Subcommand};
use config::{Config, published, rules};
use engine::catalogue::Catalogue;
use shared::Group;
use std::collections::BTreeSet;
use std::path::PathBuf;

/// Check the rules of policy/*.cedar and test changes to them.
#[derive(Debug, Args)]
pub struct Rules {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Check the rules without starting anything.
    ///
    /// If a rule is invalid, the command names the file, the line, the error and the fix, and exits with 4.
    Check(Check),
    /// Replay all recorded calls against rules, and list each changed decision.
    Test(Test),
}

#[derive(Debug, Args)]
#[command(
    after_help = "The command also lists the parameters that rules cannot read. It also lists the actions that a profile \
    leaves to rules although no rule permits them.

--json prints {ok, files, rules: [{id, effect, file, line, reason?, idle?}], unseen: [{action, parameter, why}], \
    unpermitted: [{group, action, why}]}; with --schema {schema}"
)]
struct Check {
    /// The files to check; the default is the files of the home.
    files: Vec<PathBuf>,
    /// Print only the Cedar schema for rules.
    #[arg(long)]
    schema: bool,
}

#[derive(Debug, Args)]
#[command(
    after_help = "The ledger holds neither parameters nor the exposure of sessions. If a rule reads them and the result \
    depends on them, the result is `cannot tell`. Calls that were refused for another reason stay refused. If a profile \
    does not leave a call to rules, the rules can only forbid it.

Example:
  host-broker policy test policy/default.cedar new.cedar

--json prints {calls, asked, same, changes: [{row, at, request_id?, group, action, was, would_be, why}], \
    cannot_tell: [{action, calls, why}]}"
)]
struct Test {
    /// The files to test; the default is the files of the home.
    files: Vec<PathBuf>,
    /// Test every call, also those that a profile does not leave to rules.
    #[arg(long)]
    all: bool,
}

impl Rules {
    /// Runs the command.
    ///
    /// # Errors
    /// [`CliError`] if the configuration or the rules cannot be used, or the ledger cannot be read.
    pub fn run(self, context: &Context) -> Result<(), CliError> {
        match self.command {
            Command::Check(command) => command.run(context),
            Command::Test(command) => command.run(context),
        }
    }
}

/// The files, or the home's if there are none.
fn files(context: &Context, config: &Config, given: Vec<PathBuf>) -> Result<Vec<RuleFile>, CliError> {
    if given.is_empty() {
        return rules::files(&context.home, config).map_err(|error| CliError::configuration(&error));
    }
    let read = |path: PathBuf| match std::fs::read_to_string(&path) {
        Ok(text) => Ok(RuleFile { path, text }),
        Err(error) => Err(CliError::usage(format!("cannot read {}: {error}", path.display()))),
    };
    given.into_iter().map(read).collect()
}

fn parse(files: &[RuleFile], groups: &BTreeSet<Group>, catalogue: &Catalogue) -> Result<RuleSet, CliError> {
    rules::parse(files, groups, &catalogue.named()).map_err(|error| CliError::configuration(&error))
}

/// Returns the groups that rules can name.
fn groups(context: &Context, config: &Config) -> Result<BTreeSet<Group>, CliError> {
    published::groups(&context.home, config).map_err(|error| CliError::configuration(&error))
}
