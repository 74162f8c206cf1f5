use super::{ApprovalSubject, Continuation, PageTexts, Resolution, StoredRequest};
use crate::broker::Broker;
use crate::commands::cut_short;
use crate::event::Event;
use crate::request::{Command, ParseContext, readmit_command};
use config::flows::FlowsTable;
use model::approval::{Approval, ApprovalState};
use shared::Reply;
use shared::digest::Digest;
use shared::request::Request;
use store::state::{approvals, plan_steps};
use store::{StoreError, Transaction, View};

/// Several calls, which run in order after an approval.
pub(super) struct Plan;

impl ApprovalSubject for Plan {
    /// Starts the first call, or ends the plan. Its request goes on when all calls are over.
    fn on_resolved(
        &self,
        broker: &mut Broker,
        tx: &Transaction<'_>,
        resolved: &Resolution<'_>,
    ) -> Result<(), StoreError> {
        broker.continue_plan(tx, resolved.approval.id)
    }

    fn continuation(&self) -> Continuation {
        Continuation::Readmit
    }

    fn readmit(&self, stored: StoredRequest<'_>, _flows: &FlowsTable, context: &ParseContext) -> Result<Event, String> {
        readmit_command(stored, context, (Request::Plan, Command::Plan))
    }

    fn answerable_in_chat(&self) -> Result<(), &'static str> {
        Ok(())
    }

    /// A person can still stop the calls that have not started.
    fn is_retractable(&self, _tx: &Transaction<'_>, approval: &Approval) -> Result<bool, StoreError> {
        Ok(approval.state == ApprovalState::Approved)
    }

    fn is_under_way(&self, view: &View, approval: &Approval) -> Result<bool, StoreError> {
        let steps = plan_steps::of_plan(view, approval.id)?;
        Ok(steps.iter().any(|step| !step.state.is_over()))
    }

    fn pause_key(&self, view: &View, approval: &Approval) -> Result<Option<Digest>, StoreError> {
        approvals::params_digest(view, approval)
    }

    fn waiting(&self, approval: &Approval) -> String {
        let does = if approval.state == ApprovalState::Approved { "runs" } else { "waits for a person" };
        format!("a plan of several calls {does}")
    }

    fn approved(&self, _approval: &Approval, _took_effect: bool) -> String {
        "The calls run in order, each once, until one does not succeed.".to_owned()
    }

    fn denied(&self, _approval: &Approval) -> String {
        "No call of the plan that has not started will run.".to_owned()
    }

    fn cancelled(&self, approval: &Approval) -> (&'static str, &'static str) {
        let state = if approval.state == ApprovalState::Approved { "running" } else { "waiting" };
        (state, "No call of the plan that has not started will run.")
    }

    fn cut_short(&self, tx: &Transaction<'_>, approval: &Approval, reason: &str) -> Result<Option<Reply>, StoreError> {
        cut_short(tx, approval, reason)
    }

    fn page(&self) -> PageTexts {
        PageTexts {
            heading: "The calls",
            no_values: super::NO_PARAMETERS,
            scope: "An approval covers exactly these calls, in this order. Each runs once, and the first one that does \
                    not succeed ends the plan.",
        }
    }
}
