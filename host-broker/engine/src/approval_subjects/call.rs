use super::{ApprovalSubject, Continuation, PageTexts, StoredRequest};
use crate::event::Event;
use crate::request;
use crate::request::ParseContext;
use config::flows::FlowsTable;
use model::approval::Approval;
use shared::digest::Digest;
use store::state::approvals;
use store::{StoreError, View};

/// A call, which runs after an approval.
pub(super) struct Call;

impl ApprovalSubject for Call {
    fn continuation(&self) -> Continuation {
        Continuation::Readmit
    }

    fn readmit(&self, stored: StoredRequest<'_>, flows: &FlowsTable, context: &ParseContext) -> Result<Event, String> {
        let StoredRequest { caller, request_id, behalf, document } = stored;
        request::readmit(caller, request_id, behalf, document, (flows, context)).map(Event::Resumed)
    }

    fn answerable_in_chat(&self) -> Result<(), &'static str> {
        Ok(())
    }

    fn pause_key(&self, view: &View, approval: &Approval) -> Result<Option<Digest>, StoreError> {
        approvals::params_digest(view, approval)
    }

    fn waiting(&self, approval: &Approval) -> String {
        format!("{}.{} waits for a person", approval.provider, approval.action)
    }

    fn approved(&self, approval: &Approval, _took_effect: bool) -> String {
        format!("{}.{} may run, once.", approval.provider, approval.action)
    }

    fn denied(&self, approval: &Approval) -> String {
        format!("{}.{} will not run.", approval.provider, approval.action)
    }

    fn page(&self) -> PageTexts {
        PageTexts {
            heading: "The call",
            no_values: super::NO_PARAMETERS,
            scope: "An approval covers exactly this, and it runs once.",
        }
    }
}
