use super::{ApprovalSubject, Continuation, PageTexts, Resolution};
use crate::broker::Broker;
use model::approval::{Approval, ApprovalState};
use shared::digest::Digest;
use store::{StoreError, Transaction, View};

/// A server's definitions of its tools, which are in force after the approval.
pub(super) struct Definition;

impl ApprovalSubject for Definition {
    fn on_resolved(
        &self,
        broker: &mut Broker,
        tx: &Transaction<'_>,
        resolved: &Resolution<'_>,
    ) -> Result<(), StoreError> {
        let Resolution { approval, state, .. } = *resolved;
        if state == ApprovalState::Approved {
            broker.go_on(approval);
        }
        broker.end_definitions(tx, approval, state)
    }

    fn continuation(&self) -> Continuation {
        Continuation::PutInForce
    }

    fn answerable_in_chat(&self) -> Result<(), &'static str> {
        Err("Definitions of servers are never accepted in a chat")
    }

    /// Each change is another one.
    fn pause_key(&self, _view: &View, _approval: &Approval) -> Result<Option<Digest>, StoreError> {
        Ok(None)
    }

    fn waiting(&self, approval: &Approval) -> String {
        format!("the definitions of {} wait for a person", approval.provider)
    }

    fn approved(&self, approval: &Approval, _took_effect: bool) -> String {
        format!("The definitions of {} are accepted; a running daemon puts them in force now.", approval.provider)
    }

    fn denied(&self, approval: &Approval) -> String {
        format!("The earlier definitions of {} stay in force.", approval.provider)
    }

    fn page(&self) -> PageTexts {
        PageTexts {
            heading: "Changes",
            no_values: super::NO_PARAMETERS,
            scope: "An approval covers exactly this, and puts it in force.",
        }
    }
}
