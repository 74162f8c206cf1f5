//! `approvals standing`: the standing approvals, and their end.

use crate::cli::Context;
use crate::cli::ask::ask;
use crate::cli::home_reader::seconds;
use crate::cli::output::{CliError, Output};
use clap::{Args, Subcommand};
use config::Policy;
use engine::request;
use engine::standing_approvals::state;
use model::approval::reference;
use model::standing_approval::{ParamPattern, StandingApproval, StandingScope};
use serde_json::{Value, json};
use shared::Timestamp;
use store::state::standing_approvals as stored;

/// List and end standing approvals.
///
/// `approvals approve CODE --for TIME` gives one. It covers later calls like the one on the card, until it ends. Each
/// such call has a row that names it.
#[derive(Debug, Args)]
pub(super) struct Standing {
    #[command(subcommand)]
    command: Command,
}

/// The scope of a standing approval, beside the answer.
#[derive(Debug, Args)]
#[command(next_help_heading = "Later calls")]
pub(super) struct Later {
    /// Approve later calls like this one, too, for this time: 90m, 8h, 7d. For a request for access: its time.
    #[arg(long = "for", value_name = "DURATION", value_parser = seconds, conflicts_with = "apply")]
    time: Option<u64>,
    /// End the standing approval with the session of the group, too.
    #[arg(long, requires = "time")]
    session: bool,
    /// Parameters that may differ by default and must stay as they are.
    #[arg(long, value_name = "NAME", value_delimiter = ',', requires = "time")]
    fix: Vec<String>,
    /// Cover a production action.
    #[arg(long, requires = "time")]
    production: bool,
    /// Cover the combination of private data, untrusted content and an egress channel that the card names.
    #[arg(long, requires = "time")]
    trifecta: bool,
}

impl Later {
    /// Returns the scope, if the person gives a standing approval.
    pub(super) fn scope(self) -> Option<StandingScope> {
        let Self { time, session, fix, production, trifecta } = self;
        let fixed = fix.into_iter().collect();
        time.map(|for_s| StandingScope { for_s, session, fixed, production, trifecta })
    }
}

#[derive(Debug, Subcommand)]
enum Command {
    /// List the standing approvals.
    List(List),
    /// End a standing approval at once.
    End {
        /// Its name, such as standing-3.
        name: String,
    },
}

#[derive(Debug, Args)]
#[command(
    after_help = "--json prints {standing: [{name, caller, person, provider, action, level, state, pattern: {fixed, \
    may_vary}, covers, ref, given_by, given_at, until, of_session, ended_at, ended_by, uses, used_at}]}; state is `in force`, \
    `suspended`, `expired` or `ended`"
)]
struct List {
    /// Include the latest ended ones.
    #[arg(long)]
    all: bool,
}

/// How many that are ended are listed.
const ENDED_MAX: usize = 50;

impl Standing {
    /// Runs the command.
    ///
    /// # Errors
    /// [`CliError`]; nothing was ended.
    pub(super) fn run(self, context: &Context) -> Result<(), CliError> {
        match self.command {
            Command::List(List { all }) => list(context, all),
            Command::End { name } => ask(context, request::Command::EndStandingApproval { name }),
        }
    }
}

fn list(context: &Context, all: bool) -> Result<(), CliError> {
    let config = context.config()?;
    let policy = context.policy(&config, &context.catalogue_as_seen(&config)?)?;
    let mut found = Vec::new();
    if let Some(ledger) = context.ledger_if_any()? {
        found = stored::not_ended(&ledger)?;
        if all {
            found.extend(stored::ended(&ledger, ENDED_MAX)?);
        }
    }
    let now = context.platform.clock.now();
    let documents: Vec<Value> = found.iter().map(|standing| document(standing, &policy, now)).collect();
    context.output.show(&json!({ "standing": documents }), || {
        let rows: Vec<_> = found
            .iter()
            .map(|standing| {
                vec![
                    standing.reference(),
                    standing.caller.clone(),
                    format!("{}.{}", standing.provider, standing.action),
                    standing.pattern.as_ref().map_or_else(|| "-".to_owned(), ParamPattern::words),
                    format!("{} {}", state(standing, &policy, now).word(), end(standing)),
                    standing.uses.to_string(),
                    standing.given_by.clone(),
                ]
            })
            .collect();
        let columns = ["NAME", "CALLER", "ACTION", "PARAMETERS", "STATE AND END", "USES", "GIVEN BY"];
        Output::table_or("No standing approvals.", &columns, &rows)
    });
    Ok(())
}

/// Returns the time at which it was ended, or will be.
fn end(standing: &StandingApproval) -> Timestamp {
    standing.ended.as_ref().map_or(standing.until, |(at, _)| *at)
}

fn document(standing: &StandingApproval, policy: &Policy, now: Timestamp) -> Value {
    json!({
        "name": standing.reference(),
        "caller": standing.caller,
        "person": standing.person,
        "provider": standing.provider,
        "action": standing.action,
        "level": standing.level,
        "state": state(standing, policy, now).word(),
        "pattern": standing.pattern,
        "covers": standing.covers,
        "ref": reference(standing.asked_seq),
        "given_by": standing.given_by,
        "given_at": standing.given_at,
        "until": standing.until,
        "of_session": standing.of_session,
        "ended_at": standing.ended.as_ref().map(|(at, _)| at),
        "ended_by": standing.ended.as_ref().map(|(_, by)| by),
        "uses": standing.uses,
        "used_at": standing.used_at,
    })
}
