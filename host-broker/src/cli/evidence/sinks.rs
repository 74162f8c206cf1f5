//! `evidence sinks` and `evidence resume`: how far the sinks are, and where one continues.

use crate::cli::Context;
use crate::cli::ask::running;
use crate::cli::home_reader::unknown;
use crate::cli::output::{CliError, Output};
use crate::sinks::position::{self, Position};
use serde_json::{Value, json};
use store::ledger::chain::Head;
use store::ledger::{export, segments};

/// Prints how far each sink is.
pub(super) fn list(context: &Context) -> Result<(), CliError> {
    let config = context.config()?;
    let last = context.ledger_if_any()?.map(|view| export::last(&view)).transpose()?.flatten();
    let last = last.map_or(0, |row| row.seq);
    let hello = running(context)?;
    let (mut documents, mut rows) = (Vec::new(), Vec::new());
    for table in &config.sinks {
        let stored = position::read(&position::path(context.home.path(), &table.name));
        let failing = hello.as_ref().and_then(|hello| hello.pointer("/data/sinks")?.get(&table.name)?.get("failing"));
        let failing = match &stored {
            Ok(_) => failing.cloned().unwrap_or_default(),
            Err(reason) => json!({ "since": null, "reason": reason }),
        };
        let accepted = stored.ok().flatten().map_or(0, |position| position.seq);
        let behind = last.saturating_sub(accepted).max(0);
        let state = match failing.get("reason").and_then(Value::as_str) {
            Some(reason) => format!("failing: {reason}"),
            None if hello.is_none() => "no daemon is running".to_owned(),
            None => "accepts rows".to_owned(),
        };
        rows.push(vec![table.name.clone(), table.word().to_owned(), accepted.to_string(), behind.to_string(), state]);
        documents.push(json!({
            "sink": table.name, "kind": table.word(), "accepted": accepted, "behind": behind, "failing": failing,
        }));
    }
    context.output.show(&json!(documents), || {
        Output::table_or(
            "No sinks; add a [[sinks]] table to broker.toml.",
            &["SINK", "KIND", "ACCEPTED", "BEHIND", "STATE"],
            &rows,
        )
    });
    Ok(())
}

/// Sets the row with which a sink continues.
pub(super) fn resume(context: &Context, name: &str, from: i64) -> Result<(), CliError> {
    let config = context.config()?;
    if !config.sinks.iter().any(|table| table.name == name) {
        return Err(unknown("sink", &name, config.sinks.iter().map(|table| &table.name)));
    }
    let view = context.ledger()?;
    // A running daemon writes the position itself.
    let _lock = store::lock(context.home.path())?;
    let last = export::last(&view)?.map_or(0, |row| row.seq);
    if from > last.saturating_add(1) {
        return Err(CliError::missing(format!(
            "the ledger ends at row {last}, so no sink can continue with row {from}"
        )));
    }
    let mut before = (from == 1).then_some(Head::EMPTY);
    segments::between(context.home.path(), &view, from - 1, from - 1, |row| {
        before = Some(Head { seq: row.seq, hash: row.event_hash, ts: row.ts });
        Ok::<(), store::StoreError>(())
    })?;
    let before = before.ok_or_else(|| CliError::missing(format!("there is no row {}", from - 1)))?;
    position::write(&position::path(context.home.path(), name), Position::from(before)).map_err(CliError::home)?;
    let document = json!({ "sink": name, "from": from });
    context.output.show(&document, || {
        context.at_home(&format!("The sink {name} continues with row {from}, once the daemon runs: host-broker serve"))
    });
    Ok(())
}
