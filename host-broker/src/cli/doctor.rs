//! `doctor`: finds the common problems of an installation, and names the remedy of each.

mod checkpoints;
mod daemon;
mod groups;
mod health;
mod home;
mod machine;
mod providers;
pub(in crate::cli) mod service;

use crate::cli::Context;
use crate::cli::output::CliError;
use crate::cli::run::{Found, find_killed};
use clap::Args;
use platform::service_unit::ServiceUnit;
use serde::Serialize;
use serde_json::json;
use shared::numbers::counted;
use store::state::grants;
use store::state::grants::Grant;

/// Find problems of this installation and name the remedy of each.
///
/// The command checks the machine, the home, the configuration, the groups, the providers and the daemon. It changes
/// nothing, and it contacts no provider: to do that, use `host-broker provider check`.
#[derive(Debug, Args)]
#[command(after_help = "The exit code is 5 if there is a problem; warnings do not count.

--json prints {problems, warnings, checks: [{check, state: ok|warning|problem, text, remedy}]}")]
pub struct Doctor {
    /// Also list the checks that found nothing.
    #[arg(long)]
    all: bool,
}

/// The result of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum State {
    /// Nothing was found.
    Ok,
    /// It works, but it may differ from the operator's intent.
    Warning,
    /// Something does not work.
    Problem,
}

/// One result.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct Finding {
    /// The subject, such as `clock` or `group developer`.
    check: String,
    state: State,
    text: String,
    /// The next step of the operator.
    remedy: Option<String>,
}

impl Finding {
    fn new(check: &str, state: State, text: impl Into<String>, remedy: Option<String>) -> Self {
        Self { check: check.to_owned(), state, text: text.into(), remedy }
    }

    fn ok(check: &str, text: impl Into<String>) -> Self {
        Self::new(check, State::Ok, text, None)
    }

    fn warning(check: &str, text: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self::new(check, State::Warning, text, Some(remedy.into()))
    }

    fn problem(check: &str, text: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self::new(check, State::Problem, text, Some(remedy.into()))
    }

    /// A problem whose error text contains the remedy.
    fn error(check: &str, error: &CliError) -> Self {
        Self::new(check, State::Problem, error.text.clone(), None)
    }
}

impl Doctor {
    /// Runs the command.
    ///
    /// # Errors
    /// [`CliError`] with code 5 if there is a problem.
    pub fn run(self, context: &Context) -> Result<(), CliError> {
        let found = examine(context);
        let count = |state| found.iter().filter(|finding| finding.state == state).count();
        let (problems, warnings) = (count(State::Problem), count(State::Warning));
        let document = json!({ "problems": problems, "warnings": warnings, "checks": found });
        context.output.show(&document, || {
            let shown = found.iter().filter(|finding| self.all || finding.state != State::Ok);
            let mut text = shown.map(|finding| described(context, finding)).collect::<String>();
            let ok = found.len() - problems - warnings;
            let counts = [
                counted(problems, "problem", "problems"),
                counted(warnings, "warning", "warnings"),
                counted(ok, "check without a finding", "checks without a finding"),
            ];
            text.push_str(&counts.join(", "));
            text
        });
        if problems == 0 {
            return Ok(());
        }
        // The text above says all of it.
        Err(CliError::exited(CliError::failed("").code))
    }
}

fn described(context: &Context, finding: &Finding) -> String {
    let word = match finding.state {
        State::Ok => "ok",
        State::Warning => "warning",
        State::Problem => "PROBLEM",
    };
    let remedy = finding.remedy.as_ref().map(|remedy| format!("\n         remedy: {remedy}")).unwrap_or_default();
    let text = context.at_home(&format!("{word:7}  {}: {}{remedy}\n", finding.check, finding.text));
    if finding.state == State::Ok { text } else { format!("{text}\n") }
}

/// Makes all checks. A home that cannot be read ends the checks that need it.
fn examine(context: &Context) -> Vec<Finding> {
    let mut found = machine::examine(context);
    let config = match home::configuration(context) {
        Ok(config) => config,
        Err(finding) => {
            found.push(finding);
            return found;
        }
    };
    found.extend(machine::watches(&config));
    found.extend(service::examine(&context.home, &config, &ServiceUnit::default()));
    found.extend(home::examine(context, &config));
    let hello = daemon::hello(context, &config, &mut found);
    found.extend(daemon::examine(context, hello.as_ref()));
    found.extend(checkpoints::examine(context, hello.as_ref()));
    let granted = granted(context);
    found.extend(groups::examine(context, &config, hello.as_ref(), &granted));
    found.extend(containers(context));
    found.extend(providers::examine(context, &config, &granted));
    found.extend(health::examine(context, hello.as_ref()));
    found
}

/// Finds the containers of killed commands. Their agents may still run. The next `run` removes them.
fn containers(context: &Context) -> Vec<Finding> {
    let finding = |found: Found| {
        let state = if found.is_blocking() { State::Problem } else { State::Warning };
        Finding::new("containers", state, found.text(), found.remedy())
    };
    find_killed(context).into_iter().map(finding).collect()
}

/// Returns the grants that are in force. A ledger that cannot be read is a finding of its own.
fn granted(context: &Context) -> Vec<Grant> {
    let now = context.platform.clock.now();
    let ledger = context.ledger_if_any().ok().flatten();
    let mut granted = ledger.and_then(|view| grants::list(&view, None).ok()).unwrap_or_default();
    granted.retain(|grant| grant.is_live(now));
    granted
}
