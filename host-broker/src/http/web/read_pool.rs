//! The data of the pages, read from the ledger.

use config::Config;
use engine::approval_requests::may_answer;
use model::approval::{Answered, Approval, ApprovalState, SubjectKind};
use serde_json::Value;
use shared::Timestamp;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use store;
use store::ledger::calls;
use store::state::approvals;
use store::state::proposals;
use store::{StoreError, View};

/// One connection that cannot write, opened when it is needed.
pub(in crate::http) struct ReadPool {
    home: PathBuf,
    reader: Mutex<Option<View>>,
    // The longest time of a read; it then has a connection of its own.
    most: Option<Duration>,
}

/// An approval request, and its answers.
pub(super) struct Listed {
    /// The approval request.
    pub(super) approval: Approval,
    /// The answers so far.
    pub(super) answers: Vec<Answered>,
    /// The outcome, if something was to run after an approval.
    pub(super) outcome: Option<Outcome>,
}

/// The outcome of an approved call, or of approved changes to files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Outcome {
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
    pub(super) fn is_open(&self) -> bool {
        matches!(self, Self::Waits | Self::Running)
    }
}

/// The content of one person's inbox.
pub(super) struct Waiting {
    /// The pending approval requests that this person may answer, oldest first.
    pub(super) mine: Vec<Listed>,
    /// How many more wait for other people.
    pub(super) elsewhere: usize,
    /// The latest that are over, newest first.
    pub(super) over: Vec<Listed>,
}

/// How many that are over are looked at, and shown.
const OVER_SEEN: usize = 50;
const OVER_SHOWN: usize = 8;

impl ReadPool {
    pub(super) fn new(home: PathBuf) -> Self {
        Self { home, reader: Mutex::new(None), most: None }
    }

    /// Makes a pool whose reads end with an error after this time.
    pub(super) fn within(home: PathBuf, most: Duration) -> Self {
        Self { most: Some(most), ..Self::new(home) }
    }

    /// Looks into the ledger. May wait.
    ///
    /// # Errors
    /// [`StoreError`]; the next look opens it again.
    pub(in crate::http) fn look<T>(&self, look: impl FnOnce(&View) -> Result<T, StoreError>) -> Result<T, StoreError> {
        if let Some(most) = self.most {
            return look(&store::reader_until(&self.home, Instant::now() + most)?);
        }
        let mut reader = self.reader.lock().unwrap_or_else(PoisonError::into_inner);
        let connection = match reader.take() {
            Some(connection) => connection,
            None => store::reader(&self.home)?,
        };
        let found = look(&connection)?;
        *reader = Some(connection);
        Ok(found)
    }
}

/// Checks whether it waits for a person: it is undecided, and there is time.
pub(super) fn waits(approval: &Approval, now: Timestamp) -> bool {
    approval.state == ApprovalState::Waiting && approval.expires_at > now
}

/// This person's inbox.
pub(super) fn waiting(connection: &View, config: &Config, person: &str, now: Timestamp) -> Result<Waiting, StoreError> {
    let open = approvals::heads(connection)?.into_iter().filter(|approval| waits(approval, now));
    let (mine, others): (Vec<_>, Vec<_>) = open.partition(|approval| may_answer(config, person, approval));
    let over = approvals::closed(connection, OVER_SEEN)?.into_iter();
    let over: Vec<_> = over.filter(|approval| may_answer(config, person, approval)).take(OVER_SHOWN).collect();
    let listed = |approvals: Vec<Approval>| -> Result<Vec<Listed>, StoreError> {
        approvals.into_iter().map(|one| listed(connection, one)).collect()
    };
    Ok(Waiting { mine: listed(mine)?, elsewhere: others.len(), over: listed(over)? })
}

/// Returns the approval request with this name, if this person may answer it.
pub(super) fn one(
    connection: &View,
    config: &Config,
    person: &str,
    reference: &str,
) -> Result<Option<Listed>, StoreError> {
    let found = approvals::named(connection, reference)?;
    found.filter(|found| may_answer(config, person, found)).map(|found| listed(connection, found)).transpose()
}

fn listed(connection: &View, approval: Approval) -> Result<Listed, StoreError> {
    let answers = approvals::answers(connection, approval.id)?;
    let outcome = outcome(connection, &approval)?;
    Ok(Listed { approval, answers, outcome })
}

/// Returns the outcome, from the rows of the request that runs after the approval.
fn outcome(connection: &View, approval: &Approval) -> Result<Option<Outcome>, StoreError> {
    let is_spent = approval.state == ApprovalState::Closed && approval.became.as_deref() == Some("spent");
    let request = match approval.kind {
        SubjectKind::Call if is_spent => Some(approval.request_id.clone()),
        SubjectKind::Call if approval.state == ApprovalState::Approved => return Ok(Some(Outcome::Waits)),
        SubjectKind::File => proposals::asked_by(connection, approval.id)?.and_then(|proposal| proposal.applied_by),
        SubjectKind::Call
        | SubjectKind::Grant
        | SubjectKind::Account
        | SubjectKind::Definition
        | SubjectKind::Flow
        | SubjectKind::Access
        | SubjectKind::Plan => None,
    };
    let Some(request) = request else { return Ok(None) };
    let rows = calls::story(connection, &request, approval.group.as_ref())?;
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
