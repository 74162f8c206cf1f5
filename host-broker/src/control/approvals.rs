//! Approval requests as documents: for the command line of this host, and for people on another one.

use super::{CommandDispatcher, fault};
use engine::approval_requests::may_answer;
use model::approval::{Answered, Approval, ApprovalState, SubjectKind};
use model::card::Card;
use serde::{Deserialize, Serialize};
use serde_json::json;
use shared::{Action, Level, Provider, RequestId, Timestamp};
use store::ledger::export;
use store::state::approvals as stored;
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

/// An approval request, as `approvals list --json` prints it. It contains the code, so agents must not get it.
#[derive(Clone, Serialize, Deserialize)]
pub struct ApprovalDocument {
    /// The code that approvers answer with.
    pub code: String,
    /// The agent's name for it, such as `ask-7`.
    #[serde(rename = "ref")]
    pub reference: String,
    /// The subject.
    pub kind: SubjectKind,
    /// The caller, in the ledger's form.
    pub caller: String,
    /// The person for whom the caller acts.
    pub person: Option<String>,
    /// The request.
    pub request_id: RequestId,
    /// The provider.
    pub provider: Provider,
    /// The action.
    pub action: Action,
    /// The level.
    pub level: Level,
    /// The state.
    pub state: ApprovalState,
    /// The way it ended, once it is closed.
    pub became: Option<String>,
    /// The number of approvers that it takes.
    pub quorum: usize,
    /// The time of the request.
    pub asked_at: Timestamp,
    /// The time at which it expires.
    pub expires_at: Timestamp,
    /// The answers so far.
    pub answers: Vec<Answered>,
    /// The card, until the request is closed.
    pub card: Option<Card>,
}

impl ApprovalDocument {
    fn of(view: &View, approval: Approval) -> Result<Self, StoreError> {
        Ok(Self {
            reference: approval.reference(),
            person: export::row(view, approval.asked_seq)?.and_then(|row| row.person),
            answers: stored::answers(view, approval.id)?,
            code: approval.code,
            kind: approval.kind,
            caller: approval.caller,
            request_id: approval.request_id,
            provider: approval.provider,
            action: approval.action,
            level: approval.level,
            state: approval.state,
            became: approval.became,
            quorum: approval.quorum,
            asked_at: approval.asked_at,
            expires_at: approval.expires_at,
            card: approval.card,
        })
    }
}

/// Reads the wanted approval requests; of them, those for which the function returns true.
///
/// # Errors
/// [`StoreError`].
pub fn read(
    view: &View,
    wanted: &ApprovalsRequest,
    is_shown: impl Fn(&Approval) -> bool,
) -> Result<Vec<ApprovalDocument>, StoreError> {
    let found = match &wanted.code {
        Some(code) => {
            let code = code.trim().to_ascii_lowercase();
            let named = stored::named(view, &code)?;
            named.map_or_else(|| stored::with_code(view, &code), |found| Ok(Some(found)))?.into_iter().collect()
        }
        None => {
            let mut found = stored::shown(view)?;
            if wanted.all {
                found.extend(stored::closed(view, CLOSED_MAX)?);
            }
            found
        }
    };
    found.into_iter().filter(is_shown).map(|approval| ApprovalDocument::of(view, approval)).collect()
}

/// Answers with those that the person may answer.
pub(super) async fn answer(dispatcher: &CommandDispatcher, person: String, wanted: ApprovalsRequest) -> Vec<u8> {
    let (home, config) = (dispatcher.home.clone(), dispatcher.config.clone());
    let read = tokio::task::spawn_blocking(move || {
        read(&store::reader(&home)?, &wanted, |approval| may_answer(&config, &person, approval))
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
