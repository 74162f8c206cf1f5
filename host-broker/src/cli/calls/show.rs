//! `calls show`: the whole story of one request.

use crate::cli::Context;
use crate::cli::home_reader::on_behalf;
use crate::cli::output::{CliError, Output};
use model::approval::{Answered, reference};
use model::standing_approval;
use serde_json::{Value, json};
use shared::{Code, Group, Level, RequestId};
use std::collections::BTreeMap;
use store::View;
use store::ledger::calls;
use store::ledger::chain::Row;
use store::state::approvals;
use store::state::gates;
use store::state::gates::GateApproval;
use store::state::standing_approvals;

pub(super) fn show(context: &Context, ledger: &View, id: &RequestId, group: Option<&Group>) -> Result<(), CliError> {
    let rows = calls::story(ledger, id, group)?;
    // The broker's own rows carry the id of the request that they are about, and are no story by themselves.
    if rows.iter().all(|row| row.caller == "broker") {
        return Err(CliError::missing(format!(
            "the ledger has no request `{id}`; host-broker calls list shows the latest"
        )));
    }
    let mut opened = gates::list(ledger)?;
    opened.retain(|approval| rows.iter().any(|row| Some(row.seq) == approval.spent_by));
    let agreed = agreed(ledger, &rows)?;
    let approvals: Vec<Value> =
        agreed.iter().map(|(reference, answers)| json!({ "ref": reference, "answers": answers })).collect();
    context.output.show(&json!({ "request_id": id, "rows": rows, "gates": opened, "approvals": approvals }), || {
        rows.iter().map(|row| paragraph(row, &opened, &agreed)).collect::<Vec<_>>().join("\n\n")
    });
    Ok(())
}

/// Returns the answers of people, by the approval request that the rows name.
fn agreed(ledger: &View, rows: &[Row]) -> Result<BTreeMap<String, Vec<Answered>>, CliError> {
    let mut found = BTreeMap::new();
    for name in rows.iter().filter_map(approval_request) {
        let asked = match standing_approval::numbered(&name) {
            Some(id) => standing_approvals::find(ledger, id)?.map(|standing| reference(standing.asked_seq)),
            None => Some(name.clone()),
        };
        let Some(asked) = asked else { continue };
        if let Some(approval) = approvals::named(ledger, &asked)? {
            let answers = approvals::answers(ledger, approval.id)?;
            found.insert(name, answers);
        }
    }
    Ok(found)
}

/// Returns the approval request that a row rests on, or makes. After a denial there is no row that rests on it.
fn approval_request(row: &Row) -> Option<String> {
    let asks = || (row.kind == "asked").then(|| reference(row.seq));
    row.approval.clone().or_else(asks)
}

/// `approved by person:alice, through cli, at 2026-02-14T10:00:00Z`
fn answered(answer: &Answered) -> String {
    let word = if answer.yes { "approved" } else { "denied" };
    let why = answer.reason.as_ref().map(|why| format!(" ({why})")).unwrap_or_default();
    format!("{word} by {}, through {}, at {}{why}", answer.by, answer.channel, answer.at)
}

/// Returns the text of one row: the event as a heading, then its details.
fn paragraph(row: &Row, opened: &[GateApproval], agreed: &BTreeMap<String, Vec<Answered>>) -> String {
    let body: Value = serde_json::from_str(&row.body).unwrap_or_default();
    let number = |name: &str| body.get(name).and_then(Value::as_i64);
    let text = |name: &str| body.get(name).and_then(Value::as_str).map(ToOwned::to_owned);
    let action = match (&row.provider, &row.action) {
        (Some(provider), Some(action)) => Some(format!("{provider}.{action}")),
        (Some(name), None) | (None, Some(name)) => Some(name.clone()),
        (None, None) => None,
    };
    let level = row.level.and_then(Level::from_number);
    let code = row.reason_code.as_ref().map(|word| match word.parse::<Code>() {
        Ok(code) => format!("{word}: {}", code.meaning()),
        Err(shared::code::NoSuchCode) => word.clone(),
    });
    let opened = opened.iter().filter(|approval| approval.spent_by == Some(row.seq));
    let gate: Vec<_> =
        opened.map(|one| format!("{}, opened by {} at {}", one.gate, one.approved_by, one.approved_at)).collect();
    let answers =
        approval_request(row).and_then(|reference| agreed.get(&reference)).map(Vec::as_slice).unwrap_or_default();
    let answers: Vec<_> = answers.iter().map(answered).collect();
    let facts: [(&str, Option<String>); 16] = [
        ("caller", Some(on_behalf(&row.caller, row.person.as_deref()))),
        ("action", action.map(|name| level.map_or(name.clone(), |level| format!("{name}, {level}")))),
        ("summary", row.summary.clone()),
        ("reason", code),
        ("result", row.result_summary.clone()),
        ("task", row.task_id.clone()),
        ("gate", (!gate.is_empty()).then(|| gate.join("; "))),
        ("covered by", row.approval.clone().filter(|name| standing_approval::numbered(name).is_some())),
        ("answered", (!answers.is_empty()).then(|| answers.join("; "))),
        ("duration", row.duration_ms.map(|ms| format!("{ms} ms"))),
        ("outcome of", number("of").map(|seq| format!("row {seq}"))),
        ("found by", text("by")),
        ("settles", number("settles").map(|seq| format!("row {seq}, as {}", text("as").unwrap_or_default()))),
        ("probes", number("probes").map(|seq| format!("row {seq}"))),
        ("note", text("why")),
        ("decided by", Some(format!("policy version {}", row.policy_version))),
    ];
    let rows: Vec<_> = facts
        .into_iter()
        .filter_map(|(name, value)| Some(vec![format!("  {name}"), value?]))
        .chain([vec!["  hash".to_owned(), row.event_hash.to_string()]])
        .collect();
    let title = heading(&row.kind, text("stage").as_deref());
    // Without a head the table is only its rows.
    let lines = Output::table(&["", ""], &rows);
    format!("row {} at {}: {title}{lines}", row.seq, row.time())
}

fn heading(kind: &str, stage: Option<&str>) -> String {
    let stage = match stage {
        Some("prepare") => " (prepare: reads facts for the guardrail)",
        Some("probe") => " (probe: reads the outcome)",
        Some(_) | None => "",
    };
    let said = match kind {
        "intended" => "permitted; the intent is recorded",
        "succeeded" => "succeeded",
        "failed" => "failed; nothing was changed",
        "timed_out" => "timed out; nothing was changed",
        "unknown" => "outcome unknown",
        "settled" => "settled",
        "refused" => "refused; nothing was executed",
        "answered" => "answered from the ledger",
        "repeated" => "repeated; not executed again",
        other => other,
    };
    format!("{said}{stage}")
}
