use super::{ApprovalSubject, Continuation, PageTexts, Resolution};
use crate::broker::Broker;
use model::approval::Approval;
use shared::digest::Digest;
use store::{StoreError, Transaction, View};

/// An account of a person, which the approval links.
pub(super) struct Account;

impl ApprovalSubject for Account {
    fn on_resolved(
        &self,
        broker: &mut Broker,
        tx: &Transaction<'_>,
        resolved: &Resolution<'_>,
    ) -> Result<(), StoreError> {
        let Resolution { approval, state, by } = *resolved;
        broker.end_link(tx, approval, state, by)
    }

    fn continuation(&self) -> Continuation {
        Continuation::Wake
    }

    fn answerable_in_chat(&self) -> Result<(), &'static str> {
        Err("Accounts are never linked in a chat")
    }

    /// The provider has given the account by then, and each person has few such requests.
    fn is_limited(&self) -> bool {
        false
    }

    /// Each account is another one.
    fn pause_key(&self, _view: &View, _approval: &Approval) -> Result<Option<Digest>, StoreError> {
        Ok(None)
    }

    fn waiting(&self, approval: &Approval) -> String {
        format!("an account at {} waits for a person", approval.provider)
    }

    fn approved(&self, approval: &Approval, took_effect: bool) -> String {
        if took_effect {
            return format!("The account at {} is linked.", approval.provider);
        }
        "Nothing was linked: one of this name has been linked since you were asked. The agent can begin again."
            .to_owned()
    }

    fn denied(&self, approval: &Approval) -> String {
        format!("No account at {} is linked.", approval.provider)
    }

    fn page(&self) -> PageTexts {
        PageTexts {
            heading: "The account, as the provider describes it",
            no_values: "The provider says nothing of the account: neither a name nor an id.",
            scope: "An approval covers exactly this account, and links it at once.",
        }
    }
}
