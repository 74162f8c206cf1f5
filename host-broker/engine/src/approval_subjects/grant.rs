use super::{ApprovalSubject, Continuation, PageTexts, StoredRequest};
use crate::event::Event;
use crate::request::{Command, ParseContext, readmit_command};
use config::flows::FlowsTable;
use model::approval::Approval;
use shared::digest::Digest;
use shared::request::Request;
use store::{StoreError, View};

/// A grant above the ceiling of the main group's agent.
pub(super) struct Grant;

impl ApprovalSubject for Grant {
    fn continuation(&self) -> Continuation {
        Continuation::Readmit
    }

    fn readmit(&self, stored: StoredRequest<'_>, _flows: &FlowsTable, context: &ParseContext) -> Result<Event, String> {
        readmit_command(stored, context, (Request::Grant, Command::Grant))
    }

    fn answerable_in_chat(&self) -> Result<(), &'static str> {
        Err("Access is never given in a chat")
    }

    fn pause_key(&self, _view: &View, approval: &Approval) -> Result<Option<Digest>, StoreError> {
        Ok(Some(approval.digest))
    }

    fn waiting(&self, approval: &Approval) -> String {
        format!("a grant for {} waits for a person", approval.provider)
    }

    fn approved(&self, approval: &Approval, _took_effect: bool) -> String {
        format!("The access to {} is given.", approval.provider)
    }

    fn denied(&self, approval: &Approval) -> String {
        format!("No access to {} is given.", approval.provider)
    }

    fn page(&self) -> PageTexts {
        PageTexts {
            heading: "The grant",
            no_values: super::NO_PARAMETERS,
            scope: "An approval covers exactly this, until it expires or is revoked.",
        }
    }
}
