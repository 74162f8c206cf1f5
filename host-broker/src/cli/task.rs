//! `task`: governance tasks, which production calls must name.

use crate::cli::Context;
use crate::cli::ask::{ToHost, ask};
use crate::cli::output::{CliError, Output};
use clap::{Args, Subcommand};
use engine::request;
use serde_json::json;
use shared::request::TaskRequest;
use shared::{Group, TaskId};
use store::state::gates;
use store::state::gates::{Task as Stored, TaskState};

/// Manage governance tasks, which production calls must name.
#[derive(Debug, Args)]
pub struct Task {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Create a task for a group.
    Create(Create),
    /// List the tasks.
    List(List),
    /// Close a task; later calls cannot use it.
    Close(Close),
}

#[derive(Debug, Args)]
#[command(after_help = "Example:
  host-broker task create developer \"Merge the fix of #42\" --id gov-42

--json prints the reply: {status, summary, data: {task_id, group_folder, state}, evidence: {…}}")]
struct Create {
    /// The group that can use the task.
    group: Group,
    /// The title, for people.
    title: String,
    /// The id; by default, the broker generates one.
    #[arg(long)]
    id: Option<TaskId>,
    #[command(flatten)]
    host: ToHost,
}

#[derive(Debug, Args)]
#[command(after_help = "--json prints {tasks: [{task_id, title, group_folder, state, created_by, created_at}]}")]
struct List {
    /// Include tasks that are done or cancelled.
    #[arg(long)]
    all: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "--json prints the reply: {status, summary, data: {task_id, state}, evidence: {…}}")]
struct Close {
    /// The task.
    task: TaskId,
    /// Mark the task as cancelled instead of done.
    #[arg(long)]
    cancelled: bool,
    #[command(flatten)]
    host: ToHost,
}

impl Task {
    /// Runs the command.
    ///
    /// # Errors
    /// [`CliError`]; the tasks are as they were.
    pub fn run(self, context: &Context) -> Result<(), CliError> {
        match self.command {
            Command::Create(Create { group, title, id, host }) => {
                let task = TaskRequest { title, group_folder: group, task_id: id };
                ask(context, host.request(request::Command::TaskCreate(task)))
            }
            Command::Close(Close { task, cancelled, host }) => {
                ask(context, host.request(request::Command::TaskClose { task_id: task, cancelled }))
            }
            Command::List(List { all }) => list(context, all),
        }
    }
}

fn list(context: &Context, all: bool) -> Result<(), CliError> {
    let mut tasks = gates::tasks(&context.ledger()?)?;
    tasks.retain(|task| all || task.state == TaskState::Open);
    let document = json!({ "tasks": tasks.iter().map(value).collect::<Vec<_>>() });
    context.output.show(&document, || {
        let row = |task: &Stored| {
            let state = task.state.word().to_owned();
            let created = format!("{} by {}", task.created_at, task.created_by);
            vec![task.id.to_string(), task.group.to_string(), state, created, task.title.clone()]
        };
        let rows: Vec<_> = tasks.iter().map(row).collect();
        let none = if all { "There are no tasks." } else { "There are no open tasks." };
        Output::table_or(none, &["TASK", "GROUP", "STATE", "CREATED", "TITLE"], &rows)
    });
    Ok(())
}

fn value(task: &Stored) -> serde_json::Value {
    json!({
        "task_id": task.id,
        "title": task.title,
        "group_folder": task.group,
        "state": task.state.word(),
        "created_by": task.created_by,
        "created_at": task.created_at,
    })
}
