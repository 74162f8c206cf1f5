use super::{ApprovalSubject, Continuation, PageTexts, StoredRequest};
use crate::commands::pause_key;
use crate::event::Event;
use crate::request::{Command, ParseContext, readmit_command};
use config::flows::FlowsTable;
use model::approval::Approval;
use shared::digest::Digest;
use shared::request::Request;
use store::{StoreError, View};

/// Access for a while, at the request of the group that gets it.
pub(super) struct Access;

impl ApprovalSubject for Access {
    fn continuation(&self) -> Continuation {
        Continuation::Readmit
    }

    fn readmit(&self, stored: StoredRequest<'_>, _flows: &FlowsTable, context: &ParseContext) -> Result<Event, String> {
        readmit_command(stored, context, (Request::Access, Command::RequestAccess))
    }

    fn answerable_in_chat(&self) -> Result<(), &'static str> {
        Err("Access is never given in a chat")
    }

    fn pause_key(&self, _view: &View, approval: &Approval) -> Result<Option<Digest>, StoreError> {
        Ok(Some(pause_key(&approval.provider)))
    }

    fn waiting(&self, approval: &Approval) -> String {
        format!("a request for access to {} waits for a person", approval.provider)
    }

    fn approved(&self, approval: &Approval, _took_effect: bool) -> String {
        format!("The group gets the access to {}, unless its own grant has changed since.", approval.provider)
    }

    fn denied(&self, approval: &Approval) -> String {
        format!("No access to {} is given.", approval.provider)
    }

    fn page(&self) -> PageTexts {
        PageTexts {
            heading: "The access",
            no_values: super::NO_PARAMETERS,
            scope: "An approval gives exactly this, unless you change it below. It ends by itself.",
        }
    }
}
