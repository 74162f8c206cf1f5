//! Approval requests with their answers and outcomes: for the pages and the command line, also of another host.

use super::{CommandDispatcher, fault};
use engine::approval_requests::may_answer;
use model::approval::{Answered, Approval, ApprovalState, SubjectKind};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use store::ledger::{calls, export};
use store::state::{approvals as stored, proposals};
use store::{StoreError, View};

/// The most closed approval requests that are listed.
const CLOSED_MAX: usize = 50;

/// The approval requests that are wanted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ApprovalsRequest {
    /// Whether the latest closed ones are wanted, too.
    pub all: bool,
    /// The code or the name of the only one that is wanted; absent means the pending ones.
    #[serde(default)]
    pub code: Option<String>,
}

/// An approval request and its answers. It contains the code, so agents must not get it.
#[derive(Clone, Serialize, Deserialize)]
pub struct ApprovalRecord {
    /// The approval request.
    pub approval: Approval,
    /// The person for whom the caller acts.
    pub person: Option<String>,
    /// The answers so far.
    pub answers: Vec<Answered>,
    /// The outcome, if something was to run after an approval.
    pub outcome: Option<Outcome>,
}

/// The outcome of an approved call, or of approved changes to files.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// It has not started.
    Waits,
    /// It has started.
    Running,
    /// It was done; in short.
    Succeeded(Option<String>),
    /// It was not done: the code.
    Failed(String),
    /// The outcome is unknown.
    Unknown,
}

impl Outcome {
    /// Checks whether more will be known soon.
    pub fn is_open(&self) -> bool {
        matches!(self, Self::Waits | Self::Running)
    }
}

impl ApprovalRecord {
    /// Reads the answers and the outcome of an approval request.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn of(view: &View, approval: Approval) -> Result<Self, StoreError> {
        let person = export::row(view, approval.asked_seq)?.and_then(|row| row.person);
        let answers = stored::answers(view, approval.id)?;
        let outcome = outcome(view, &approval)?;
        Ok(Self { approval, person, answers, outcome })
    }
}

/// Reads the wanted approval requests; of them, those for which the function returns true. A list for another host has
/// the beginnings of the cards only.
///
/// # Errors
/// [`StoreError`].
pub fn read(
    view: &View,
    (wanted, is_for_other_host): (&ApprovalsRequest, bool),
    is_shown: impl Fn(&Approval) -> bool,
) -> Result<Vec<ApprovalRecord>, StoreError> {
    let mut found = Vec::new();
    if let Some(code) = &wanted.code {
        let code = code.trim().to_ascii_lowercase();
        let named = stored::named(view, &code)?;
        found.extend(named.map_or_else(|| stored::with_code(view, &code), |named| Ok(Some(named)))?);
    } else {
        // Many long cards would not fit into a reply, and every open page gets them.
        found.extend(if is_for_other_host { stored::heads(view)? } else { stored::shown(view)? });
        if wanted.all {
            found.extend(stored::closed(view, CLOSED_MAX)?);
        }
    }
    found.into_iter().filter(is_shown).map(|approval| ApprovalRecord::of(view, approval)).collect()
}

/// Answers with those that the person may answer.
pub(super) async fn answer(dispatcher: &CommandDispatcher, person: String, wanted: ApprovalsRequest) -> Vec<u8> {
    let (home, config) = (dispatcher.home.clone(), dispatcher.config.clone());
    let read = tokio::task::spawn_blocking(move || {
        read(&store::reader(&home)?, (&wanted, true), |approval| may_answer(&config, &person, approval))
    });
    match read.await {
        Ok(Ok(approvals)) => {
            let reply = json!({ "status": "executed", "data": { "approvals": approvals } });
            serde_json::to_vec(&reply).unwrap_or_default()
        }
        Ok(Err(error)) => fault(&format!("the approval requests cannot be read: {error}")),
        Err(error) => fault(&format!("the approval requests cannot be read: {error}")),
    }
}

/// Reads the reply to an [`ApprovalsRequest`].
///
/// # Errors
/// The refusal, or the fault of the reply.
pub fn read_reply(reply: &Value) -> Result<Vec<ApprovalRecord>, String> {
    let error = reply.get("error").and_then(Value::as_str);
    let approvals = reply.pointer("/data/approvals").ok_or_else(|| error.unwrap_or("it has no answer").to_owned())?;
    let found: Vec<ApprovalRecord> =
        Vec::deserialize(approvals).map_err(|fault| format!("the reply cannot be read: {fault}"))?;
    // SECURITY: people copy commands with the code into a shell.
    if found.iter().all(|record| record.approval.code.bytes().all(|byte| byte.is_ascii_alphanumeric())) {
        Ok(found)
    } else {
        Err("the reply has a code that is none".to_owned())
    }
}

/// Returns the outcome, from the rows of the request that runs after the approval.
fn outcome(view: &View, approval: &Approval) -> Result<Option<Outcome>, StoreError> {
    let is_spent = approval.state == ApprovalState::Closed && approval.became.as_deref() == Some("spent");
    let request = match approval.kind {
        SubjectKind::Call if is_spent => Some(approval.request_id.clone()),
        SubjectKind::Call if approval.state == ApprovalState::Approved => return Ok(Some(Outcome::Waits)),
        SubjectKind::File => proposals::asked_by(view, approval.id)?.and_then(|proposal| proposal.applied_by),
        SubjectKind::Call
        | SubjectKind::Grant
        | SubjectKind::Account
        | SubjectKind::Definition
        | SubjectKind::Flow
        | SubjectKind::Access
        | SubjectKind::Plan => None,
    };
    let Some(request) = request else { return Ok(None) };
    let rows = calls::story(view, &request, approval.group.as_ref())?;
    let own = rows.into_iter().filter(|row| row.caller == approval.caller);
    let mut found = Outcome::Waits;
    let mut runs = false;
    for row in own {
        let code = || row.reason_code.clone().unwrap_or_default();
        match row.kind.as_str() {
            // A look at remote facts before the decision is not the approved call.
            "intended" => {
                runs = is_run(&row.body);
                found = if runs { Outcome::Running } else { found };
            }
            "refused" => found = Outcome::Failed(code()),
            "succeeded" if runs => found = Outcome::Succeeded(row.result_summary),
            // A person may have found that it did not happen; a probe only finds that it did.
            "settled" if is_failed(&row.body) => found = Outcome::Failed(String::new()),
            "settled" => found = Outcome::Succeeded(row.result_summary),
            "failed" | "timed_out" if runs => found = Outcome::Failed(code()),
            "unknown" if runs => found = Outcome::Unknown,
            _ => {}
        }
    }
    Ok(Some(found))
}

fn is_failed(body: &str) -> bool {
    serde_json::from_str::<Value>(body).is_ok_and(|body| body.get("as").is_some_and(|found| found == "failed"))
}

fn is_run(body: &str) -> bool {
    serde_json::from_str::<Value>(body).is_ok_and(|body| body.get("stage").is_some_and(|stage| stage == "run"))
}
