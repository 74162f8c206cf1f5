//! Outcomes that a person records for calls whose outcome is unknown.

use crate::clean::Shown;
use crate::commands::CommandResult;
use crate::features;
use crate::replies::success;
use kernel::call::Header;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use shared::digest::Digest;
use shared::{Action, Code, Group, Provider, Reply, RequestId};
use store::ledger::calls;
use store::ledger::calls::Unsettled;
use store::ledger::chain::{Draft, RowKind};
use store::state::intents;
use store::state::requests;
use store::{StoreError, Transaction};

/// The longest note, in characters.
const NOTE_MAX: usize = 1_000;

/// The finding of a person about a call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// The call's request.
    pub request_id: RequestId,
    /// The group whose call it is, if several have used that id.
    pub group: Option<Group>,
    /// Whether the call took effect.
    pub happened: bool,
    /// The source of the person's knowledge.
    pub note: String,
}

/// Settles an unknown outcome by a person's finding. It permits no second attempt: the request id stays used.
pub(crate) fn settle(tx: &Transaction<'_>, header: &Header, finding: &Finding) -> Result<CommandResult, StoreError> {
    let no = |reason: &str| Ok(CommandResult::no(Code::InvalidParams, reason));
    let note = finding.note.trim();
    if note.is_empty() || note.chars().count() > NOTE_MAX || note.chars().any(char::is_control) {
        return no("The note must be one line of 1 to 1000 characters.");
    }
    let of_group = finding.group.as_ref().map(|group| format!("group:{group}"));
    let mut found = calls::unknown_outcomes(tx.view())?;
    found.retain(|one| {
        one.request_id == finding.request_id.as_str() && of_group.as_ref().is_none_or(|caller| *caller == one.caller)
    });
    let unknown = match found.as_slice() {
        [unknown] => unknown,
        [] => return no("No call of that name has an unknown outcome; host-broker status lists them."),
        _ => return no("Several groups have a call of that name; name the group."),
    };
    if !intents::forget_unknown(tx, unknown.seq)? {
        return no("No call of that name has an unknown outcome; host-broker status lists them.");
    }
    record_finding(tx, header, unknown, finding)?;
    let word = word(finding);
    let body = json!({ "settled": unknown.seq, "as": word, "note": note });
    let data = json!({ "request_id": finding.request_id, "settles": unknown.seq, "as": word });
    Ok(CommandResult::done(
        RowKind::Noted,
        body,
        data,
        format!("The outcome of {} is recorded: {word}.", finding.request_id),
    ))
}

/// Writes the call's own row, and replaces the reply that its caller can ask for.
fn record_finding(
    tx: &Transaction<'_>,
    header: &Header,
    unknown: &Unsettled,
    finding: &Finding,
) -> Result<(), StoreError> {
    let (caller, id) = (&unknown.caller, &finding.request_id);
    features::settle(tx, caller, id, finding.happened)?;
    let summary = if finding.happened {
        "A person has looked at the target: the call took effect."
    } else {
        "A person has looked at the target: the call did not take effect."
    };
    let provider: Option<Provider> = unknown.provider.as_deref().and_then(|name| name.parse().ok());
    let action: Option<Action> = unknown.action.as_deref().and_then(|name| name.parse().ok());
    let shown = Shown {
        data: Value::Null,
        digest: Digest::of(&shared::json::canonical(&Value::Null)),
        summary: summary.to_owned(),
        notices: Vec::new(),
    };
    let evidence = tx.append(&Draft {
        person: requests::person_of(tx, caller, id)?,
        request_id: Some(id),
        provider: provider.as_ref(),
        action: action.as_ref(),
        result_summary: Some(summary.to_owned()),
        body: json!({ "settles": unknown.seq, "as": word(finding), "by": header.caller_key, "why": finding.note.trim() }),
        ..Draft::new(RowKind::Settled, caller)
    })?;
    let reply = if finding.happened {
        success(id.clone(), &shown, tx)
    } else {
        Reply::of_reason(id.clone(), Code::ProviderFailed, summary, tx.now())
    };
    // The caller has had its one reply.
    kernel::keep(tx, caller, reply, evidence)
}

/// Returns the word for the row.
fn word(finding: &Finding) -> &'static str {
    if finding.happened { "succeeded" } else { "failed" }
}
