//! The approval requests of `ext_grant` and `ext_request`: both ask a person about a grant, and give it after the answer.

use super::{CommandOutcome, CommandResult, refuse, write};
use crate::approval_requests;
use crate::approval_requests::{ApprovalDraft, Ended};
use crate::broker::Broker;
use crate::request::CommandRequest;
use model::approval::{Approval, ApprovalReason, ApprovalState, SubjectKind};
use model::card::Card;
use serde_json::Value;
use shared::digest::Digest;
use shared::{Action, Code};
use std::collections::BTreeSet;
use store::state::approvals;
use store::state::grants::Grant;
use store::{StoreError, Transaction};

/// A grant about which a person is asked.
pub(super) struct GrantQuestion<'a> {
    pub(super) kind: SubjectKind,
    pub(super) grant: &'a Grant,
    /// The digest of everything that is approved.
    pub(super) digest: Digest,
    /// The digest that is not asked about again for a while after a denial.
    pub(super) pause_key: Digest,
    /// The card, without the values.
    pub(super) card: Card,
    /// The values.
    pub(super) shown: Value,
    /// The body of the request, which is admitted again after the answer.
    pub(super) document: Vec<u8>,
    pub(super) summary: String,
}

/// Returns the approval of a command that is admitted again; `None` if nobody was asked about it.
///
/// # Errors
/// Outside: [`StoreError`]. Inside: the command is over without another decision.
pub(super) fn answered(
    tx: &Transaction<'_>,
    command_request: &CommandRequest,
) -> Result<Result<Option<Approval>, CommandOutcome>, StoreError> {
    if !command_request.asked {
        return Ok(Ok(None));
    }
    let header = &command_request.header;
    let asked = approvals::of_request(tx.view(), &header.caller_key, &header.request_id)?;
    Ok(match approval_requests::ended(tx, header)? {
        Ended::No => Ok(asked),
        Ended::Before => Err(CommandOutcome::Answered(None)),
        Ended::Refused(refusal) => {
            let refused = CommandResult::No { code: refusal.code, reason: refusal.reason };
            Err(CommandOutcome::Answered(write(tx, command_request, asked.as_ref(), refused)?))
        }
    })
}

impl Broker {
    /// Sends the approval request. An equal one that waits serves this request, too.
    pub(super) fn ask_about_grant(
        &mut self,
        tx: &Transaction<'_>,
        command_request: &CommandRequest,
        question: GrantQuestion<'_>,
    ) -> Result<CommandOutcome, StoreError> {
        let GrantQuestion { kind, grant, digest, pause_key, mut card, shown, document, summary } = question;
        let header = &command_request.header;
        let open = approvals::open(tx.view(), Some(&header.caller_key))?;
        let lives = |approval: &&Approval| {
            approval.digest == digest && approval.state == ApprovalState::Waiting && approval.expires_at > tx.now()
        };
        if let Some(equal) = open.iter().find(lives) {
            return approval_requests::told(tx, header, equal).map(Some).map(CommandOutcome::Answered);
        }
        if !card.list(&shown) {
            let reason = "The grant is too long to be shown to a person in full.".to_owned();
            let refused = CommandResult::No { code: Code::Guardrail, reason };
            return write(tx, command_request, None, refused).map(CommandOutcome::Answered);
        }
        #[expect(clippy::expect_used, reason = "the words of the kinds satisfy the grammar")]
        let action: Action = kind.word().parse().expect("an action");
        let draft = ApprovalDraft {
            kind,
            caller: &header.caller_key,
            group: Some(&grant.group),
            request_id: &header.request_id,
            provider: &grant.provider,
            action: &action,
            level: grant.level,
            digest,
            subject: Some(pause_key),
            asking: self.config.asking_for_grants(),
            born_approved: None,
            asks: BTreeSet::from([ApprovalReason::Tier]),
            others: BTreeSet::new(),
            standing: None,
            card: &card,
            document: Some(&document),
            params_digest: None,
            summary: Some(summary),
            task_id: None,
            calls: None,
        };
        match self.request_approval(tx, header, &draft)? {
            Ok(_) => Ok(CommandOutcome::Asked),
            Err(refusal) => refuse(tx, command_request, None, &refusal).map(CommandOutcome::Answered),
        }
    }
}
