//! Approval requests whose call cannot be decided again: its group is gone, its tool takes other parameters now, or it
//! holds a secret that the broker has got since.
//!
//! An answer would change nothing, so they are closed at the start and when an answer or the expiry ends them.

use crate::approval_subjects;
use crate::approval_subjects::Continuation;
use crate::broker::Broker;
use crate::features::FEATURES;
use kernel::Answer;
use model::Caller;
use model::approval::ApprovalState;
use serde_json::json;
use shared::{Code, Reply, RequestId};
use std::sync::Arc;
use store::ledger::chain;
use store::ledger::chain::Draft;
use store::state::approvals;
use store::state::requests;
use store::{StoreError, Transaction};

/// A request that cannot be decided again.
#[derive(Debug)]
pub struct Unanswerable {
    /// The caller and the request.
    pub key: (Arc<str>, RequestId),
    /// The reason.
    pub why: Why,
}

/// The reason why a request cannot be decided again.
#[derive(Debug)]
pub enum Why {
    /// Its group is not configured any more.
    GroupGone,
    /// Its stored document holds a secret that the broker has got since.
    OwnSecret,
    /// Its stored document is not a valid call any more.
    Invalid(String),
}

impl Why {
    fn reason(&self) -> (Code, String) {
        match self {
            Self::GroupGone => (Code::Cancelled, "The group is not configured any more.".to_owned()),
            Self::OwnSecret => (Code::OwnSecret, Code::OwnSecret.meaning().to_owned()),
            Self::Invalid(fault) => {
                let fault = fault.trim_end_matches('.');
                let reason = format!("The call of the approval request is not valid any more: {fault}.");
                (Code::InvalidParams, reason)
            }
        }
    }
}

impl Broker {
    /// Closes the approval request with a row, and answers the caller if it still waits.
    pub(crate) fn close_unanswerable(
        &mut self,
        tx: &Transaction<'_>,
        ended: &Unanswerable,
    ) -> Result<Option<Answer>, StoreError> {
        let (caller, id) = (&*ended.key.0, &ended.key.1);
        let found = approvals::of_request(tx.view(), caller, id)?;
        let Some(approval) = found.filter(|approval| approval.state != ApprovalState::Closed) else { return Ok(None) };
        let (code, reason) = ended.why.reason();
        let row = tx.append(&Draft {
            person: requests::person_of(tx, caller, id)?,
            request_id: Some(id),
            provider: Some(&approval.provider),
            action: Some(&approval.action),
            reason_code: Some(code),
            approval: Some(approval.reference()),
            body: json!({ "why": reason }),
            ..Draft::new(chain::RowKind::Refused, caller)
        })?;
        self.follow_ups.approvals_changed = true;
        if approval_subjects::of(approval.kind).continuation() != Continuation::Readmit {
            // Its request was over when it was sent; its subject is dropped.
            self.resolve(tx, &approval, ApprovalState::Cancelled, &Caller::Broker.to_string())?;
            return Ok(None);
        }
        approvals::close(tx, caller, id, code.word())?;
        FEATURES.iter().try_for_each(|feature| feature.with_loss(self, tx, (caller, id), code))?;
        let reply = match approval_subjects::of(approval.kind).cut_short(tx, &approval, &reason)? {
            Some(reply) => reply,
            None => Reply::of_reason(id.clone(), code, &reason, tx.now()),
        };
        // A group that is gone has no directory.
        if matches!(ended.why, Why::GroupGone) || approval.told {
            return kernel::keep(tx, caller, reply, row).map(|()| None);
        }
        kernel::answer(tx, caller, reply, row).map(Some)
    }
}
