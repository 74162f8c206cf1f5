//! `notices`: who was told of what.

use crate::cli::Context;
use crate::cli::home_reader::unknown;
use crate::cli::output::{CliError, Output};
use clap::{Args, Subcommand};
use serde_json::{Value, json};
use store::View;
use store::state::approvals;
use store::state::notices as stored;
use store::state::notices::{Notice, NoticeState};

/// List the notices to approvers and their delivery state.
#[derive(Debug, Args)]
pub struct Notices {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// List the latest notices, newest first.
    List(List),
}

#[derive(Debug, Args)]
#[command(after_help = "A notice is due, sent, failed (no further attempt), or dropped (no longer necessary).

--json prints {notices: [{id, ref, event, channel, state, due_at, until, attempts, fault, changed_at}]}")]
struct List {
    /// The maximum number of notices.
    #[arg(long, default_value_t = 50, value_name = "N")]
    limit: usize,
    /// Show only notices of this channel.
    #[arg(long, value_name = "NAME")]
    channel: Option<String>,
}

impl Notices {
    /// Runs the command.
    ///
    /// # Errors
    /// [`CliError`] if the ledger cannot be read.
    pub fn run(self, context: &Context) -> Result<(), CliError> {
        let Command::List(list) = self.command;
        let mut found = Vec::new();
        let mut documents = Vec::new();
        if let Some(ledger) = context.ledger_if_any()? {
            found = stored::latest(&ledger, usize::MAX)?;
            found.retain(|notice| list.channel.as_ref().is_none_or(|channel| *channel == notice.channel));
            found.truncate(list.limit);
            documents = found.iter().map(|notice| document(&ledger, notice)).collect::<Result<Vec<_>, _>>()?;
        }
        // The records can have notices of a channel that is removed.
        if let Some(channel) = list.channel.filter(|_| documents.is_empty()) {
            let channels = context.config()?.channels;
            if channels.iter().all(|table| table.name != channel) {
                return Err(unknown("channel", &channel, channels.iter().map(|table| &table.name)));
            }
        }
        context.output.show(&json!({ "notices": documents }), || {
            let row = |(notice, document): (&Notice, &Value)| {
                let about = document.get("ref").and_then(Value::as_str).unwrap_or("?").to_owned();
                let at = notice.changed_at.to_string();
                vec![about, notice.event.word().to_owned(), notice.channel.clone(), standing(notice), at]
            };
            let rows: Vec<_> = found.iter().zip(&documents).map(row).collect();
            Output::table_or("No notices.", &["REQUEST", "EVENT", "CHANNEL", "STATE", "CHANGED"], &rows)
        });
        Ok(())
    }
}

/// How a notice stands, in words.
pub(super) fn standing(notice: &Notice) -> String {
    let why = notice.fault.as_deref().unwrap_or_default();
    match (notice.state, notice.attempts) {
        (NoticeState::Sent, _) => "sent".to_owned(),
        (NoticeState::Due, 0) => format!("due at {}", notice.due_at),
        (NoticeState::Due, tried) => format!("failed {}: {why}; next attempt at {}", times(tried), notice.due_at),
        (NoticeState::Failed, tried) => format!("failed {}, no further attempt: {why}", times(tried)),
        (NoticeState::Dropped, _) => format!("not needed: {why}"),
    }
}

fn times(number: u32) -> String {
    if number == 1 { "once".to_owned() } else { format!("{number} times") }
}

fn document(ledger: &View, notice: &Notice) -> Result<Value, CliError> {
    let about = approvals::with_id(ledger, notice.approval)?.map(|approval| approval.reference());
    let mut document = serde_json::to_value(notice).map_err(|error| CliError::internal(&error))?;
    if let Some(object) = document.as_object_mut() {
        object.insert("ref".into(), json!(about));
    }
    Ok(document)
}
