//! The facts of a plan's calls, which are read before anybody is asked.
//!
//! ```text
//! plan ──► a call needs facts? ── yes ──► intent ──► read ──► outcome ──► the plan arrives again
//!                └── no ──► all calls are judged with their facts ──► one card
//! ```
//! Each read is the preparation of one call, under the request of this call, and is decided on like every other. The
//! plan travels with the call, and has no row before its question or its reply. So a restart begins with its document,
//! like that of a plan that was never taken up.

use super::{UNPLANNABLE, refuse_read};
use crate::accounts;
use crate::broker::{Broker, WaitingRequest};
use crate::clean::{Filtered, Outcome};
use crate::event::Event;
use crate::event_results::{closed, event_of};
use crate::facts;
use crate::request::{Command, CommandRequest, FailedRead, Parsed};
use kernel::authorize::{Outcome as Decided, Refusal, authorize};
use kernel::call::{Call, Header, Prepared, WaitingPlan};
use kernel::{Effect, Step, WriteError};
use policy::decide::Verdict;
use policy::facts::GuardFact;
use shared::{Code, RequestId, Timestamp};
use std::time::Duration;
use store::{StoreError, Transaction};
use tokio::time::Instant;

/// Returns the place of the next call whose facts are to be read.
pub(super) fn next(command_request: &CommandRequest, now: Timestamp) -> Option<usize> {
    command_request.calls.iter().position(|call| {
        call.prepared != Prepared::Complete && facts::guard_of(&call.target, now) == GuardFact::NeedsRemote
    })
}

/// Takes a call out of its plan, which travels with it from now on. The read ends in the time of the plan, and in that of
/// the provider.
///
/// # Errors
/// The same, if it is no plan with such a call.
fn part(
    command_request: Box<CommandRequest>,
    place: usize,
    timeout: Option<Duration>,
) -> Result<Box<Call>, Box<CommandRequest>> {
    match *command_request {
        CommandRequest { header, command: Command::Plan(request), asked: false, mut calls, failed_read: None }
            if place < calls.len() =>
        {
            let mut call = Box::new(calls.remove(place));
            let now = Instant::now();
            let left = header.provider_deadline().saturating_duration_since(now);
            call.header.arrived = now;
            call.header.timeout = timeout.map_or(left, |timeout| timeout.min(left));
            call.plan = Some(Box::new(WaitingPlan { header, request, others: calls, place }));
            Ok(call)
        }
        other => Err(Box::new(other)),
    }
}

/// Puts a call that was read for a plan back into it.
///
/// # Errors
/// The same call, if no plan waits for it.
pub(crate) fn rejoined(mut call: Box<Call>) -> Result<Box<CommandRequest>, Box<Call>> {
    let Some(plan) = call.plan.take() else { return Err(call) };
    let WaitingPlan { header, request, others: mut calls, place } = *plan;
    calls.insert(place.min(calls.len()), *call);
    let command = Command::Plan(request);
    Ok(Box::new(CommandRequest { header, command, asked: false, calls, failed_read: None }))
}

/// Returns the plan after a read that did not succeed.
///
/// # Errors
/// The same, if it is no such read.
pub(crate) fn read_of_plan(filtered: Box<Filtered>) -> Result<Event, Box<Filtered>> {
    match *filtered {
        Filtered {
            effect: Effect::Prepare(call), outcome: Outcome::Failed { code, reason, retry_after, .. }, ..
        } if call.plan.is_some() => {
            let place = call.plan.as_ref().map_or(0, |plan| plan.place);
            let failed_read = Some(FailedRead { place, refusal: Refusal { code, reason, retry_after } });
            Ok(match rejoined(call) {
                Ok(plan) => Event::Arrived(Parsed::CommandRequest(Box::new(CommandRequest { failed_read, ..*plan }))),
                // It was there. Without it, the call is decided on without parameters, and refused.
                Err(call) => Event::Prepared(call),
            })
        }
        other => Err(Box::new(other)),
    }
}

impl Broker {
    /// Starts the read of a call's facts, for its plan. It is authorized in this transaction, like the preparation of a
    /// call of its own.
    pub(in crate::commands) fn read_for_plan<'tx>(
        &mut self,
        tx: &Transaction<'tx>,
        command_request: Box<CommandRequest>,
        place: usize,
    ) -> Result<Step<'tx, Event>, WriteError<Event>> {
        let provider = command_request.calls.get(place).map(|call| &call.provider);
        let timeout = provider.and_then(|provider| self.catalogue.timeout(provider));
        let mut call = match part(command_request, place, timeout) {
            Ok(call) => call,
            Err(plan) => {
                let refusal = Refusal::new(Code::InvalidParams, UNPLANNABLE.to_owned());
                return no_read(tx, plan, &FailedRead { place, refusal });
            }
        };
        let times = (tx.now(), tx.steady());
        let judged = facts::judge(tx.view(), times, &call, &self.policy, self.filters.as_deref());
        let (facts, decision) = match judged {
            Ok(judged) => judged,
            Err(error) => return Err(WriteError { event: event_of(call), error }),
        };
        // A caller without the authority learns of no other reason.
        if decision.verdict == Verdict::NeedsRemote {
            match self.no_read_now(tx, &call) {
                Ok(None) => {}
                Ok(Some(refusal)) => return refused(tx, call, place, refusal),
                Err(error) => return Err(WriteError { event: event_of(call), error }),
            }
            if let Err(error) = accounts::keep_out(tx.view(), &mut call) {
                return Err(WriteError { event: event_of(call), error });
            }
        }
        let reading =
            call.plan.as_ref().map(|plan| (plan.header.key(), waiting(&plan.header, &call.header.request_id)));
        match authorize(tx, call, facts) {
            Decided::Authorized(authorized) => {
                let intended = kernel::record_intent(tx, authorized)?;
                // Until the plan goes on, a repeated document is not another plan.
                self.uncommitted.reading.extend(reading);
                Ok(Step::Start(intended))
            }
            Decided::Refused(call, refusal) => refused(tx, call, place, refusal),
            // It needs facts, and people are asked about the whole plan.
            Decided::Ask(call, _) => {
                let reason = Code::ApprovalRequired.meaning().to_owned();
                refused(tx, call, place, Refusal::new(Code::ApprovalRequired, reason))
            }
        }
    }

    /// Returns why the read of a permitted call does not start now.
    fn no_read_now(&self, tx: &Transaction<'_>, call: &Call) -> Result<Option<Refusal>, StoreError> {
        if Instant::now() >= call.awaited().provider_deadline() {
            let reason = "The caller's time ended before the broker had read the target of this call.".to_owned();
            return Ok(Some(Refusal::new(Code::ProviderTimeout, reason)));
        }
        self.hindrance(tx, call)
    }
}

/// Returns the plan as a request that waits for the read of this call.
fn waiting(plan: &Header, of: &RequestId) -> WaitingRequest {
    WaitingRequest { of: of.clone(), person: plan.behalf.key(), request_digest: plan.request_digest, is_call: true }
}

/// Ends a plan because this call of it is not read.
fn refused<'tx>(
    tx: &Transaction<'tx>,
    call: Box<Call>,
    place: usize,
    refusal: Refusal,
) -> Result<Step<'tx, Event>, WriteError<Event>> {
    match rejoined(call) {
        Ok(plan) => no_read(tx, plan, &FailedRead { place, refusal }),
        Err(call) => Err(WriteError { event: event_of(call), error: StoreError::Stored { what: "plan" } }),
    }
}

fn no_read<'tx>(
    tx: &Transaction<'tx>,
    plan: Box<CommandRequest>,
    failed: &FailedRead,
) -> Result<Step<'tx, Event>, WriteError<Event>> {
    let answer = refuse_read(tx, &plan, failed);
    closed(tx, Event::Arrived(Parsed::CommandRequest(plan)), answer)
}
