//! The subjects of approval requests: one implementation of [`ApprovalSubject`] for each kind.
//!
//! An approval request has one life for all kinds: it is sent, answered, and resolved once. Everything that differs is
//! here: the effect of the end, and the texts for agents and approvers. [`of`] returns the implementation of a kind.

mod access;
mod account;
mod call;
mod definition;
mod file;
mod flow;
mod grant;
mod plan;

use crate::approval_requests::Resolved;
use crate::broker::Broker;
use crate::event::Event;
use crate::request::ParseContext;
use config::flows::FlowsTable;
use model::approval::{Approval, ApprovalState, SubjectKind};
use model::{Caller, Subject};
use shared::digest::Digest;
use shared::{Reply, RequestId};
use std::sync::Arc;
use store::{StoreError, Transaction, View};

/// The way on for the request of a resolved approval request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Continuation {
    /// The stored request is admitted again, and decided on like the first time.
    Readmit,
    /// The request was over when the approval request was sent. Requests that wait for it go on.
    Wake,
    /// The daemon puts the approved subject in force.
    PutInForce,
}

/// The texts of an approval page about one kind of subject.
#[derive(Debug, Clone, Copy)]
pub struct PageTexts {
    /// The heading above the values.
    pub heading: &'static str,
    /// The text in place of absent values.
    pub no_values: &'static str,
    /// The scope of an approval, above the button.
    pub scope: &'static str,
}

/// The end of an approval request.
#[derive(Debug, Clone, Copy)]
pub struct Resolution<'a> {
    /// The approval request, as it was before.
    pub approval: &'a Approval,
    /// The state in which it ends.
    pub state: ApprovalState,
    /// The person or caller that ended it, in the ledger's form.
    pub by: &'a str,
}

/// The subject of approval requests of one kind.
///
/// A default of this trait is the strict case: nothing takes effect without another decision, nothing can be applied at
/// once or withdrawn, and no stored request is read again.
pub trait ApprovalSubject: Sync {
    /// Puts the subject into effect, or drops it. By default its request goes on, and decides again.
    ///
    /// # Errors
    /// [`StoreError`]; the approval request then stays unresolved.
    fn on_resolved(
        &self,
        broker: &mut Broker,
        _tx: &Transaction<'_>,
        resolved: &Resolution<'_>,
    ) -> Result<(), StoreError> {
        broker.go_on(resolved.approval);
        Ok(())
    }

    /// Returns the way on for the request after the answer.
    fn continuation(&self) -> Continuation;

    /// Makes the event of a stored request again.
    ///
    /// # Errors
    /// The error in the document; by default, that no request of this kind is admitted again.
    fn readmit(&self, _stored: StoredRequest<'_>, _flows: &FlowsTable, _: &ParseContext) -> Result<Event, String> {
        Err("its request was over when people were asked".to_owned())
    }

    /// Checks whether its approval requests may be answered in a chat at all.
    ///
    /// # Errors
    /// The reason.
    fn answerable_in_chat(&self) -> Result<(), &'static str>;

    /// Returns whether an approver can have the subject applied at once.
    fn is_applied_at_once(&self) -> bool {
        false
    }

    /// Returns whether the approval requests of an agent about this count towards its limits.
    fn is_limited(&self) -> bool {
        true
    }

    /// Returns whether a denial still precedes the effect of an approval.
    ///
    /// # Errors
    /// [`StoreError`]; nothing may then be retracted.
    fn is_retractable(&self, _tx: &Transaction<'_>, _approval: &Approval) -> Result<bool, StoreError> {
        Ok(false)
    }

    /// Returns whether the request of an approved one goes on later, and not at once.
    ///
    /// # Errors
    /// [`StoreError`].
    fn is_under_way(&self, _view: &View, _approval: &Approval) -> Result<bool, StoreError> {
        Ok(false)
    }

    /// Returns the request that led to the approval request.
    ///
    /// # Errors
    /// [`StoreError`].
    fn requested_by(&self, _view: &View, approval: &Approval) -> Result<RequestId, StoreError> {
        Ok(approval.request_id.clone())
    }

    /// Returns the digest that is not asked about again for a while after a denial, if there is one.
    ///
    /// # Errors
    /// [`StoreError`].
    fn pause_key(&self, view: &View, approval: &Approval) -> Result<Option<Digest>, StoreError>;

    /// Tells an agent what waits for an approver.
    fn waiting(&self, approval: &Approval) -> String;

    /// Tells an approver the effect of the approval. `took_effect` is false if the subject had changed since the
    /// approval request was sent.
    fn approved(&self, approval: &Approval, took_effect: bool) -> String;

    /// Tells an approver the effect of the denial.
    fn denied(&self, approval: &Approval) -> String;

    /// Tells a caller the effect of its cancellation: the state before, and a sentence.
    fn cancelled(&self, _approval: &Approval) -> (&'static str, &'static str) {
        ("waiting", "The approval request is withdrawn, and the call will not run.")
    }

    /// Returns the reply to a request that cannot be decided again, if a part of its subject took effect.
    ///
    /// # Errors
    /// [`StoreError`].
    fn cut_short(
        &self,
        _tx: &Transaction<'_>,
        _approval: &Approval,
        _reason: &str,
    ) -> Result<Option<Reply>, StoreError> {
        Ok(None)
    }

    /// Returns the texts of its page.
    fn page(&self) -> PageTexts;
}

/// A stored request that is admitted again after an answer.
pub struct StoredRequest<'a> {
    /// The caller.
    pub caller: Caller,
    /// The request.
    pub request_id: RequestId,
    /// The person on whose behalf it was made.
    pub behalf: Subject,
    /// The document.
    pub document: &'a [u8],
}

/// The text in place of the parameters of a subject that has none.
const NO_PARAMETERS: &str = "It has no parameters.";

/// Returns the implementation of a kind.
pub fn of(kind: SubjectKind) -> &'static dyn ApprovalSubject {
    match kind {
        SubjectKind::Call => &call::Call,
        SubjectKind::Grant => &grant::Grant,
        SubjectKind::File => &file::File,
        SubjectKind::Account => &account::Account,
        SubjectKind::Definition => &definition::Definition,
        SubjectKind::Flow => &flow::Flow,
        SubjectKind::Access => &access::Access,
        SubjectKind::Plan => &plan::Plan,
    }
}

impl Broker {
    /// Has the request of a resolved approval request go on. One that was approved before already does.
    fn go_on(&mut self, approval: &Approval) {
        if approval.state == ApprovalState::Waiting {
            let key = (Arc::from(approval.caller.as_str()), approval.request_id.clone());
            self.follow_ups.resolved.push(Resolved { continuation: of(approval.kind).continuation(), key });
        }
    }
}
