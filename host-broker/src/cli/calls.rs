//! `calls`: the calls, and their outcomes.

mod show;
mod tail;

use crate::cli::Context;
use crate::cli::ask::ask;
use crate::cli::home_reader::{person, unknown};
use crate::cli::output::{CliError, Output};
use crate::story::on_behalf;
use clap::{Args, Subcommand, ValueEnum};
use engine::outcomes::by_person::Finding;
use engine::request;
use model::Person;
use serde_json::json;
use shared::{Action, Code, Group, Provider, RequestId, Timestamp};
use std::collections::BTreeSet;
use store::View;
use store::ledger::calls;
use store::ledger::calls::{CallRecord, Filter};
use store::ledger::export;

/// List calls, show their history, and settle unknown outcomes.
#[derive(Debug, Args)]
pub struct Calls {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// List the latest calls.
    List(Box<List>),
    /// Show all ledger rows of one request.
    Show(Show),
    /// Follow calls as they happen.
    Tail(Tail),
    /// Record the result of a call whose outcome is unknown.
    Settle(Settle),
}

#[derive(Debug, Args)]
#[command(after_help = "--json prints {calls: [{id, request_id, group_folder, provider, action, access_level, \
    params_hash, params_summary, status, denial_reason, result_summary, task_id, duration_ms, created_at}]}; \
    id is the first ledger row of the call")]
struct List {
    #[command(flatten)]
    which: Which,
    #[command(flatten)]
    search: Search,
    /// The maximum number of calls.
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    limit: u32,
}

#[derive(Debug, Args)]
#[command(after_help = "--json prints {request_id, rows: [every ledger row of the request, with every column], \
    gates: [the gate approvals that the request consumed]}")]
struct Show {
    /// The id of the request.
    request_id: RequestId,
    /// The group, if several groups have used that id.
    #[arg(long)]
    group: Option<Group>,
}

#[derive(Debug, Args)]
#[command(after_help = "The command ends with Ctrl-C, or when its reader closes the pipe. It does not need the daemon.

--json prints one line for each change: one element of `calls list`")]
struct Tail {
    #[command(flatten)]
    which: Which,
    /// Start with this number of earlier calls.
    #[arg(long, default_value_t = 10)]
    last: u32,
}

#[derive(Debug, Args)]
#[command(
    after_help = "First look at the target. The ledger keeps your finding, your name and the note permanently. The broker \
    does not repeat the call. The agent reads the finding with ext_result.

Example:
  host-broker calls settle r-17 --as failed --note 'no such issue in acme/app'

--json prints the reply: {status, summary, data: {request_id, settles, as}, evidence: {…}}"
)]
struct Settle {
    /// The id of the request, as `status` lists it.
    request_id: RequestId,
    /// The result that you found: the effect happened, or it did not.
    #[arg(long = "as", value_name = "FOUND")]
    found: Found,
    /// The source of your finding.
    #[arg(long)]
    note: String,
    /// The group, if several groups have used that id.
    #[arg(long)]
    group: Option<Group>,
}

/// The result that a person found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Found {
    Succeeded,
    Failed,
}

#[derive(Debug, Args)]
struct Search {
    /// Show only the call with this request id.
    #[arg(long, value_name = "ID")]
    request: Option<RequestId>,
    /// Show only calls of this action.
    #[arg(long)]
    action: Option<Action>,
    /// Show only calls on behalf of this person, such as ash:user-1.
    #[arg(long, value_parser = person)]
    person: Option<Person>,
    /// Show only calls whose refusal or outcome has this reason code.
    #[arg(long, value_name = "CODE")]
    reason: Option<Code>,
    /// Show only calls since this time, such as 2026-12-31T00:00:00Z.
    #[arg(long, value_name = "TIME")]
    from: Option<Timestamp>,
    /// Show only calls before this time.
    #[arg(long, value_name = "TIME")]
    until: Option<Timestamp>,
}

impl Search {
    /// Adds the search to a filter.
    fn within(self, filter: Filter) -> Filter {
        Filter {
            request_id: self.request,
            action: self.action,
            person: self.person.as_ref().map(Person::key),
            reason: self.reason,
            since: self.from,
            until: self.until,
            ..filter
        }
    }
}

#[derive(Debug, Args)]
struct Which {
    /// Show only calls of this group.
    #[arg(long)]
    group: Option<Group>,
    /// Show only calls to this provider.
    #[arg(long)]
    provider: Option<Provider>,
    /// Show only calls with this status.
    #[arg(long)]
    status: Option<Status>,
}

/// The state of a call: `waiting` for an approval, `authorized` and running; `failed` includes unknown outcomes.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum Status {
    Waiting,
    Authorized,
    Denied,
    Executed,
    Failed,
    Timeout,
}

impl Which {
    fn filter(self) -> Filter {
        let word = |status: Status| match status {
            Status::Waiting => "waiting",
            Status::Authorized => "authorized",
            Status::Denied => "denied",
            Status::Executed => "executed",
            Status::Failed => "failed",
            Status::Timeout => "timeout",
        };
        let status = self.status.map(|status| word(status).to_owned());
        Filter { group: self.group, provider: self.provider, status, ..Filter::default() }
    }
}

/// Checks whether a provider has the action of a list that is empty.
///
/// # Errors
/// [`CliError`] that names the nearest one.
fn known_action(context: &Context, filter: &Filter) -> Result<(), CliError> {
    let Some(action) = &filter.action else { return Ok(()) };
    let config = context.config()?;
    let catalogue = context.catalogue_as_seen(&config)?;
    let wanted = |name: &Provider| filter.provider.as_ref().is_none_or(|provider| provider == name);
    let listed: Vec<_> = catalogue.providers().filter(|(name, _)| wanted(name)).map(|(_, listed)| listed).collect();
    if listed.iter().any(|listed| listed.operations.contains_key(action)) {
        return Ok(());
    }
    let known: BTreeSet<&Action> = listed.iter().flat_map(|listed| listed.operations.keys()).collect();
    Err(unknown("action", action, known.into_iter()))
}

impl Calls {
    /// Runs the command.
    ///
    /// # Errors
    /// [`CliError`] if there is no ledger, or no such request.
    pub fn run(self, context: &Context) -> Result<(), CliError> {
        let ledger = context.ledger()?;
        match self.command {
            Command::Settle(Settle { request_id, found, note, group }) => {
                let happened = found == Found::Succeeded;
                ask(context, request::Command::Settle(Finding { request_id, group, happened, note }))
            }
            Command::List(list) => {
                let List { which, search, limit } = *list;
                let filter = search.within(which.filter());
                let records = calls::list(&ledger, &filter, limit)?;
                if records.is_empty() {
                    context.knows(filter.group.as_ref(), filter.provider.as_ref())?;
                    known_action(context, &filter)?;
                }
                let people = people(&ledger, &records)?;
                context.output.show(&json!({ "calls": records }), || table(&records, &people));
                Ok(())
            }
            Command::Show(Show { request_id, group }) => show::show(context, &ledger, &request_id, group.as_ref()),
            Command::Tail(Tail { which, last }) => {
                context.knows(which.group.as_ref(), which.provider.as_ref())?;
                tail::tail(context, &ledger, which.filter(), last)
            }
        }
    }
}

/// Returns the person behind each call; `None` if there is none.
fn people(ledger: &View, records: &[CallRecord]) -> Result<Vec<Option<String>>, CliError> {
    let person = |record: &CallRecord| Ok(export::row(ledger, record.id)?.and_then(|row| row.person));
    records.iter().map(person).collect()
}

fn table(records: &[CallRecord], people: &[Option<String>]) -> String {
    let rows = records.iter().zip(people).map(|(record, person)| cells(record, person.as_deref()).to_vec());
    let rows: Vec<_> = rows.collect();
    let head = ["TIME", "REQUEST", "GROUP", "ACTION", "STATUS", "MS", "SUMMARY"];
    Output::table_or("No calls match.", &head, &rows)
}

/// One call, in the order of the table's columns.
fn cells(record: &CallRecord, person: Option<&str>) -> [String; 7] {
    let action = format!("{}.{}", record.provider, record.action.as_deref().unwrap_or("?"));
    let what = record.denial_reason.as_ref().or(record.result_summary.as_ref()).or(record.params_summary.as_ref());
    [
        record.created_at.clone(),
        record.request_id.clone().unwrap_or_default(),
        on_behalf(&record.group_folder, person),
        action,
        record.status.clone(),
        record.duration_ms.map(|ms| ms.to_string()).unwrap_or_default(),
        what.cloned().unwrap_or_default(),
    ]
}
