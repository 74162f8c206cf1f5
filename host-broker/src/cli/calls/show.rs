//! `calls show`: the whole story of one request.

use crate::cli::Context;
use crate::cli::output::{CliError, Output};
use crate::story::{Event, Story};
use serde_json::{Value, json};
use shared::{Group, RequestId};
use store::View;

pub(super) fn show(context: &Context, ledger: &View, id: &RequestId, group: Option<&Group>) -> Result<(), CliError> {
    let Some(story) = Story::read(ledger, id, group)? else {
        return Err(CliError::missing(format!(
            "the ledger has no request `{id}`; host-broker calls list shows the latest"
        )));
    };
    let approvals: Vec<Value> =
        story.answers.iter().map(|(reference, answers)| json!({ "ref": reference, "answers": answers })).collect();
    let document = json!({ "request_id": id, "rows": story.rows, "gates": story.gates, "approvals": approvals });
    context.output.show(&document, || story.events().map(|event| paragraph(&event)).collect::<Vec<_>>().join("\n\n"));
    Ok(())
}

/// Returns the text of one row: the event as a heading, then its details.
fn paragraph(event: &Event) -> String {
    let rows: Vec<_> = event.facts.iter().map(|(name, value)| vec![format!("  {name}"), value.clone()]).collect();
    // Without a head the table is only its rows.
    let lines = Output::table(&["", ""], &rows);
    format!("row {} at {}: {}{lines}", event.seq, event.at, event.title)
}
