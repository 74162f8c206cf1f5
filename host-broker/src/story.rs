//! The story of a request: every row about it, as sentences for people.

use model::Caller;
use model::approval::{Answered, reference};
use model::standing_approval;
use serde_json::Value;
use shared::{Action, Code, Group, Level, RequestId, Timestamp};
use std::collections::BTreeMap;
use store::ledger::calls;
use store::ledger::chain::Row;
use store::state::approvals;
use store::state::gates;
use store::state::gates::GateApproval;
use store::state::grants::{self, Grant};
use store::state::standing_approvals;
use store::{StoreError, View};

/// The rows of a request, and the approvals that they rest on.
#[derive(Debug)]
pub struct Story {
    /// The rows, oldest first.
    pub rows: Vec<Row>,
    /// The gate approvals that the request consumed.
    pub gates: Vec<GateApproval>,
    /// The answers of people, by the approval request that a row names.
    pub answers: BTreeMap<String, Vec<Answered>>,
    /// The grant that permitted an intent, by the number of the row. A grant that was changed since is not among them.
    pub grants: BTreeMap<i64, Grant>,
}

/// One row of a story.
#[derive(Debug, PartialEq, Eq)]
pub struct Event {
    /// The number of the row.
    pub seq: i64,
    /// When it was written.
    pub at: Timestamp,
    /// The record in words, such as `permitted; the intent is recorded`.
    pub title: String,
    /// The names and values that the row has, in a fixed order.
    pub facts: Vec<(&'static str, String)>,
}

impl Story {
    /// Reads the story of a request; `None` if there is no such request.
    ///
    /// # Errors
    /// [`StoreError`] if the ledger cannot be read.
    pub fn read(ledger: &View, id: &RequestId, group: Option<&Group>) -> Result<Option<Self>, StoreError> {
        let rows = calls::story(ledger, id, group)?;
        // The broker's own rows carry the id of the request that they are about, and are no story by themselves.
        if rows.iter().all(|row| row.caller == "broker") {
            return Ok(None);
        }
        let mut gates = gates::list(ledger)?;
        gates.retain(|approval| rows.iter().any(|row| Some(row.seq) == approval.spent_by));
        let answers = answers(ledger, &rows)?;
        let mut granted = BTreeMap::new();
        for row in &rows {
            granted.extend(grant(ledger, row)?.map(|grant| (row.seq, grant)));
        }
        Ok(Some(Self { rows, gates, answers, grants: granted }))
    }

    /// Returns the rows as sentences.
    pub fn events(&self) -> impl Iterator<Item = Event> {
        self.rows.iter().map(|row| self.event(row))
    }

    fn event(&self, row: &Row) -> Event {
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
        let opened = self.gates.iter().filter(|approval| approval.spent_by == Some(row.seq));
        let gate: Vec<_> =
            opened.map(|one| format!("{}, opened by {} at {}", one.gate, one.approved_by, one.approved_at)).collect();
        let answers = approval_request(row).and_then(|reference| self.answers.get(&reference));
        let answers: Vec<_> = answers.map(Vec::as_slice).unwrap_or_default().iter().map(answered).collect();
        let facts: [(&str, Option<String>); 18] = [
            ("caller", Some(on_behalf(&row.caller, row.person.as_deref()))),
            ("action", action.map(|name| level.map_or(name.clone(), |level| format!("{name}, {level}")))),
            ("summary", row.summary.clone()),
            ("reason", code),
            ("result", row.result_summary.clone()),
            ("task", row.task_id.clone()),
            ("granted", self.grants.get(&row.seq).map(described)),
            ("gate", (!gate.is_empty()).then(|| gate.join("; "))),
            ("covered by", row.approval.clone().filter(|name| standing_approval::numbered(name).is_some())),
            ("answered", (!answers.is_empty()).then(|| answers.join("; "))),
            ("duration", row.duration_ms.map(|ms| format!("{ms} ms"))),
            ("outcome of", number("of").map(|seq| format!("row {seq}"))),
            ("found by", text("by")),
            ("settles", number("settles").map(|seq| format!("row {seq}, as {}", text("as").unwrap_or_default()))),
            ("probes", number("probes").map(|seq| format!("row {seq}"))),
            ("note", text("why")),
            ("asked because", reasons(&body)),
            ("decided by", Some(format!("policy version {}", row.policy_version))),
        ];
        let facts = facts.into_iter().filter_map(|(name, value)| Some((name, value?)));
        let facts = facts.chain([("hash", row.event_hash.to_string())]).collect();
        Event { seq: row.seq, at: row.time(), title: heading(&row.kind, text("stage").as_deref()), facts }
    }
}

/// Returns the caller, and the person for whom it called.
pub fn on_behalf(caller: &str, person: Option<&str>) -> String {
    person.map_or_else(|| caller.to_owned(), |person| format!("{caller} for {person}"))
}

/// Returns the answers of people, by the approval request that the rows name.
fn answers(ledger: &View, rows: &[Row]) -> Result<BTreeMap<String, Vec<Answered>>, StoreError> {
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

/// Returns the grant that permitted the intent of a group's call, if it is still stored as it was.
fn grant(ledger: &View, row: &Row) -> Result<Option<Grant>, StoreError> {
    let caller = Caller::stored(&row.caller);
    let names = (|| {
        let group = caller.as_ref()?.group()?;
        let (provider, action) = (row.provider.as_ref()?.parse().ok()?, row.action.as_ref()?.parse::<Action>().ok()?);
        Some((group, provider, action, Level::from_number(row.level?)?))
    })();
    let Some((group, provider, action, level)) = names.filter(|_| row.kind == "intended") else { return Ok(None) };
    let grants = grants::find(ledger, group, &provider)?;
    let known = |grant: &&Grant| grant.granted_at <= row.time();
    // The level that was declared then is not in the row. An action has the level of the grant's own catalogue.
    let all = grants.own.iter().chain(&grants.temporary).filter(known);
    let mut permitting = all.filter(|grant| {
        let declared = grant.catalogue.get(&action).copied();
        Grant { active: true, ..(*grant).clone() }.gives(&action, (declared, level), row.time())
    });
    Ok(permitting.next().cloned())
}

/// `write, by person:alice at 2026-02-14T10:00:00Z, until 2026-02-21T10:00:00Z`
fn described(grant: &Grant) -> String {
    let until = grant.expires_at.map_or_else(|| "without end".to_owned(), |at| format!("until {at}"));
    let temporary = if grant.is_temporary { "temporary, " } else { "" };
    format!("{temporary}{}, by {} at {}, {until}", grant.level, grant.granted_by, grant.granted_at)
}

/// Returns the reasons why a person was asked.
fn reasons(body: &Value) -> Option<String> {
    let reasons: Vec<&str> = body.get("why")?.as_array()?.iter().filter_map(Value::as_str).collect();
    (!reasons.is_empty()).then(|| reasons.join("; "))
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
