use super::{ApprovalSubject, Continuation, PageTexts, Resolution};
use crate::broker::Broker;
use model::approval::{Approval, ApprovalState};
use shared::RequestId;
use shared::digest::Digest;
use store::state::proposals;
use store::{StoreError, Transaction, View};

/// A proposal of changes to files, which may be applied after an approval.
pub(super) struct File;

impl ApprovalSubject for File {
    /// An approved proposal waits for the request that applies it; every other one ends.
    fn on_resolved(
        &self,
        broker: &mut Broker,
        tx: &Transaction<'_>,
        resolved: &Resolution<'_>,
    ) -> Result<(), StoreError> {
        let Resolution { approval, state, .. } = *resolved;
        match proposals::asked_by(tx.view(), approval.id)? {
            Some(proposal) if state != ApprovalState::Approved => broker.end_proposal(tx, &proposal, state.word()),
            Some(_) | None => {
                broker.resolved_proposal(approval);
                Ok(())
            }
        }
    }

    fn continuation(&self) -> Continuation {
        Continuation::Wake
    }

    fn answerable_in_chat(&self) -> Result<(), &'static str> {
        Ok(())
    }

    fn is_applied_at_once(&self) -> bool {
        true
    }

    fn is_retractable(&self, tx: &Transaction<'_>, approval: &Approval) -> Result<bool, StoreError> {
        if approval.state != ApprovalState::Approved {
            return Ok(false);
        }
        let proposal = proposals::asked_by(tx.view(), approval.id)?;
        Ok(proposal.is_some_and(|proposal| proposal.until > tx.now()))
    }

    fn requested_by(&self, view: &View, approval: &Approval) -> Result<RequestId, StoreError> {
        let proposal = proposals::asked_by(view, approval.id)?;
        Ok(proposal.map_or_else(|| approval.request_id.clone(), |proposal| proposal.proposed_by))
    }

    fn pause_key(&self, view: &View, approval: &Approval) -> Result<Option<Digest>, StoreError> {
        Ok(proposals::asked_by(view, approval.id)?.map(|proposal| proposal.patch_hash))
    }

    fn waiting(&self, _approval: &Approval) -> String {
        "the proposal waits for a person; apply it again later".to_owned()
    }

    fn approved(&self, _approval: &Approval, _took_effect: bool) -> String {
        "The changes may be applied, once.".to_owned()
    }

    fn denied(&self, _approval: &Approval) -> String {
        "The changes will not be applied.".to_owned()
    }

    fn page(&self) -> PageTexts {
        PageTexts {
            heading: "The call",
            no_values: super::NO_PARAMETERS,
            scope: "An approval covers exactly this, and it runs once.",
        }
    }
}
