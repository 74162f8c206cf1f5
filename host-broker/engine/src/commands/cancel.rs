//! `ext_cancel`: the end of a call that has not started.

use super::CommandResult;
use crate::approval_requests::Resolved;
use crate::approval_subjects;
use crate::approval_subjects::Continuation;
use crate::broker::Broker;
use kernel::call::Header;
use model::approval::Approval;
use model::approval::ApprovalState;
use serde_json::json;
use shared::Code;
use shared::RequestId;
use std::sync::Arc;
use store::StoreError;
use store::Transaction;
use store::state::approvals;
use store::state::intents;
use store::state::requests;

impl Broker {
    /// Cancels a call that has not started: one that waits for a person, or one whose remote facts are still being
    /// fetched. For a started call, the broker tells its provider that the caller has cancelled it.
    pub(super) fn cancel(
        &mut self,
        tx: &Transaction<'_>,
        header: &Header,
        of: &RequestId,
    ) -> Result<CommandResult, StoreError> {
        let said =
            |cancelled, state, text: &str| CommandResult::told(json!({ "cancelled": cancelled, "state": state }), text);
        let key = (Arc::clone(&header.caller_key), of.clone());
        let asked = approvals::of_request(tx.view(), &header.caller_key, of)?;
        let has_started = intents::open_stage(tx, &header.caller_key, of)?.is_some();
        let stops = |approval: &Approval| {
            matches!(approval.state, ApprovalState::Waiting | ApprovalState::Approved) && !has_started
        };
        if let Some(approval) = asked.filter(stops) {
            self.resolve(tx, &approval, ApprovalState::Cancelled, &header.caller_key)?;
            let (state, text) = approval_subjects::of(approval.kind).cancelled(&approval);
            return Ok(said(true, state, text));
        }
        Ok(match intents::open_stage(tx, &header.caller_key, of)?.as_deref() {
            Some("prepare") => {
                self.uncommitted.cancelled.insert(key);
                said(true, "preparing", "The call had not started, and it will not start.")
            }
            // A begun effect is not undone. An action that listens may end sooner, and its outcome is the one that is
            // recorded.
            Some(_) if self.under_way.get(&key).is_some_and(|run_handle| run_handle.cancel()) => {
                said(false, "running", "It has started; its provider is asked to stop, and its outcome counts.")
            }
            Some(_) => said(false, "running", "It has started and is not stopped."),
            None if self.parked(&key).is_some_and(|parked| parked.is_call) => {
                if let Some(waits_for) = self.parked(&key).map(|parked| parked.of.clone()) {
                    let key = (Arc::clone(&header.caller_key), waits_for);
                    self.follow_ups.resolved.push(Resolved { continuation: Continuation::Wake, key });
                }
                self.uncommitted.cancelled.insert(key);
                said(true, "waiting", "The call had not started, and it will not start.")
            }
            None if requests::earlier(tx, &header.caller_key, of)?.is_some() => {
                said(false, "over", "The request has ended.")
            }
            None => CommandResult::no(Code::UnknownRequest, Code::UnknownRequest.meaning()),
        })
    }
}
