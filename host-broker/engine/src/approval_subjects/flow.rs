use super::{ApprovalSubject, Continuation, PageTexts, Resolution};
use crate::broker::Broker;
use model::approval::Approval;
use shared::digest::Digest;
use store::{StoreError, Transaction, View};

/// A version of a flow, which is canonical after the approval.
pub(super) struct Flow;

impl ApprovalSubject for Flow {
    fn on_resolved(
        &self,
        broker: &mut Broker,
        tx: &Transaction<'_>,
        resolved: &Resolution<'_>,
    ) -> Result<(), StoreError> {
        let Resolution { approval, state, by } = *resolved;
        broker.end_flow(tx, approval, state, by)
    }

    fn continuation(&self) -> Continuation {
        Continuation::Wake
    }

    fn answerable_in_chat(&self) -> Result<(), &'static str> {
        Err("Flows are never approved in a chat")
    }

    fn pause_key(&self, _view: &View, approval: &Approval) -> Result<Option<Digest>, StoreError> {
        Ok(Some(approval.digest))
    }

    fn waiting(&self, _approval: &Approval) -> String {
        "a version of a flow waits for a person".to_owned()
    }

    fn approved(&self, _approval: &Approval, took_effect: bool) -> String {
        let text = if took_effect {
            "The flow is canonical."
        } else {
            "The proposed version has changed since you saw it, so nothing was approved."
        };
        text.to_owned()
    }

    fn denied(&self, _approval: &Approval) -> String {
        "The flow stays proposed.".to_owned()
    }

    fn page(&self) -> PageTexts {
        PageTexts {
            heading: "Contents, or changes",
            no_values: super::NO_PARAMETERS,
            scope: "An approval covers exactly this, and makes it canonical.",
        }
    }
}
