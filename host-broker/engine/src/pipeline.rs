//! The pipeline: the whole life of a call. Read this first.
//!
//! ```text
//! arrived ──► is it a repeat? ──► facts ──► decision ──► refused ───────────────────────────────► reply
//!                                              ├─► remote facts needed: intent ► read ► outcome ► decide again
//!                                              └─► permitted: intent ► effect ► filter ► outcome ► reply
//! ```
//!
//! [`Broker`] turns events into rows: the ledger calls [`BatchWriter::write`] for each event of a batch, inside one
//! transaction. Nothing follows from the rows before that transaction is durable. The effect itself is [`run`], between
//! two events.

use crate::account_linking;
use crate::accounts;
use crate::approvals::sealing;
use crate::broker::Broker;
use crate::clean::{Filters, filter};
use crate::event::Event;
use crate::event_results::{closed, event_of, notified, unwritten};
use crate::facts;
use crate::features;
use crate::features::FEATURES;
use crate::follow_ups::FollowUps;
use crate::notices;
use crate::preconditions::Before;
use crate::replies::{explained, refused, while_parked};
use crate::request::Parsed;

use crate::approval_requests;
use crate::approval_requests::Ended;
use kernel::authorize::Refusal;
use kernel::call::Call;
use kernel::execution::execute;
use kernel::{Answer, BatchWriter, Intended, Step, WriteError};
use policy::decide::Verdict;
use shared::Code;
use store::ledger::segments;
use store::state::requests;
use store::{StoreError, Transaction};

/// Performs the effect and filters the output. Everything before is decided and durable. Nothing leaves before the
/// outcome is durable.
pub async fn run(intended: Intended, filters: &Filters) -> Event {
    let executed = execute(intended).await;
    if executed.is_bulky() {
        // Long filtering runs where no caller waits for it.
        tokio::task::yield_now().await;
    }
    Event::Finished(Box::new(filter(executed, filters).await))
}

impl BatchWriter<Event> for Broker {
    type FollowUps = FollowUps;

    fn write<'tx>(&mut self, tx: &Transaction<'tx>, event: Event) -> Result<Step<'tx, Event>, WriteError<Event>> {
        match event {
            Event::Arrived(Parsed::Call(call)) => self.arrived(tx, call),
            Event::Prepared(call) | Event::Resumed(call) => self.decide(tx, call),
            Event::CallerTimedOut(key) => {
                let answer = approval_requests::pending(tx, &key.0, &key.1);
                closed(tx, Event::CallerTimedOut(key), answer)
            }
            Event::Unanswerable(ended) => {
                let answer = self.close_unanswerable(tx, &ended);
                closed(tx, Event::Unanswerable(ended), answer)
            }
            Event::ApprovalsExpired => closed(tx, Event::ApprovalsExpired, self.lapse(tx).map(|()| None)),
            Event::Finished(filtered) => self.finished(tx, filtered),
            Event::Probe(probe) if probe.of.is_none() => Self::look(tx, probe),
            Event::Probe(probe) => Self::probe(tx, probe),
            Event::Arrived(Parsed::CommandRequest(command_request)) => self.directed(tx, command_request),
            Event::Arrived(Parsed::InvalidDocument(invalid)) => Self::refuse_invalid(tx, invalid),
            Event::NoticesDue(busy) => {
                let pending = self.tell(tx, &busy);
                notified(Event::NoticesDue(busy), pending)
            }
            Event::NoticeDelivered(attempt) => {
                let told = notices::told(tx, &attempt);
                closed(tx, Event::NoticeDelivered(attempt), told.map(|()| None))
            }
            Event::Started => match self.started(tx) {
                Ok(channels) => Ok(Step::Receive(Event::Started, channels)),
                Err(error) => Err(WriteError { event: Event::Started, error }),
            },
            Event::Ticked { delivered } => closed(tx, event, self.ticked(tx, delivered).map(|()| None)),
            Event::MailboxReopened(group) => {
                let noted = self.reopened(tx, &group);
                closed(tx, Event::MailboxReopened(group), noted.map(|()| None))
            }
            Event::DefinitionsChanged(redefined) => {
                let noted = self.redefined(tx, &redefined);
                closed(tx, Event::DefinitionsChanged(redefined), noted.map(|()| None))
            }
            Event::RulesetReplaced(replaced) => {
                let noted = self.record_replacement(tx, &replaced);
                closed(tx, Event::RulesetReplaced(replaced), noted.map(|()| None))
            }
            Event::Renewed(late) => {
                let stored = account_linking::keep_late(tx, &late);
                closed(tx, Event::Renewed(late), stored.map(|()| None))
            }
            Event::Rotated(written) => {
                let noted = segments::note(tx, &written);
                closed(tx, Event::Rotated(written), noted.map(|()| None))
            }
            Event::Verified(found) => {
                let pending = self.alarm(tx, &found);
                notified(Event::Verified(found), pending)
            }
            Event::Restored(restored) => {
                let ended = self.restored(tx, &restored);
                closed(tx, Event::Restored(restored), ended.map(|()| None))
            }
            Event::CheckpointDue => closed(tx, Event::CheckpointDue, self.checkpoint(tx).map(|()| None)),
            Event::Stopping => closed(tx, Event::Stopping, Self::stopping(tx).map(|()| None)),
        }
    }

    fn committed(&mut self) -> FollowUps {
        self.remember()
    }

    fn rolled_back(&mut self) {
        self.forget();
    }

    fn accepts_clock(&self, event: &Event) -> bool {
        event.accepts_clock()
    }
}

impl Broker {
    /// Handles a new call. An id is used up permanently: only the first request with an id is decided.
    fn arrived<'tx>(&mut self, tx: &Transaction<'tx>, call: Box<Call>) -> Result<Step<'tx, Event>, WriteError<Event>> {
        if let Some(parked) = self.parked(&call.header.key()) {
            let noted = while_parked(tx, &call.header, parked);
            return closed(tx, Event::Arrived(Parsed::Call(call)), noted.map(|()| None));
        }
        match requests::earlier(tx, &call.header.caller_key, &call.header.request_id) {
            Ok(None) => self.decide(tx, call),
            // A repeated dry run is explained again.
            Ok(Some(earlier)) if call.dry_run && earlier.is_same_and_over(call.header.request_digest) => {
                self.decide(tx, call)
            }
            Ok(Some(earlier)) => {
                let answer = self.repeated(tx, &call.header, earlier);
                closed(tx, Event::Arrived(Parsed::Call(call)), answer)
            }
            Err(error) => Err(WriteError { event: Event::Arrived(Parsed::Call(call)), error }),
        }
    }

    /// Decides with facts of this very transaction.
    fn decide<'tx>(
        &mut self,
        tx: &Transaction<'tx>,
        mut call: Box<Call>,
    ) -> Result<Step<'tx, Event>, WriteError<Event>> {
        // A call that waits for a person is cancelled with its conversation.
        if !call.is_resumed() {
            match self.out_of_conversation(tx.view(), &call.header) {
                Ok(None) => {}
                Ok(Some(refusal)) => {
                    let answer = self.refuse(tx, &call, &refusal);
                    return closed(tx, event_of(call), answer);
                }
                Err(error) => return Err(unwritten(call, error)),
            }
        }
        let supplied = features::supply(tx.view(), tx.now(), &mut call);
        if let Err(error) = supplied.and_then(|()| sealing::hand_back(tx, &mut call)) {
            return Err(unwritten(call, error));
        }
        let judged = facts::judge(tx.view(), (tx.now(), tx.steady()), &call, &self.policy, self.filters.as_deref());
        let (facts, decision) = match judged {
            Ok(judged) => judged,
            Err(error) => return Err(unwritten(call, error)),
        };
        if call.dry_run {
            let answer = explained(tx, &call, &facts, &decision);
            return closed(tx, Event::Arrived(Parsed::Call(call)), answer);
        }
        if call.is_resumed() {
            let answer = match approval_requests::ended(tx, &call.header) {
                Ok(Ended::No) => None,
                Ok(Ended::Before) => Some(Ok(None)),
                Ok(Ended::Refused(refusal)) => Some(self.refuse(tx, &call, &refusal)),
                Err(error) => return Err(unwritten(call, error)),
            };
            if let Some(answer) = answer {
                return closed(tx, event_of(call), answer);
            }
        }
        // SECURITY: an approved call that differs now is another call, also if nobody needs to be asked about that one.
        if call.is_resumed() && decision.verdict == Verdict::Permit && facts.agreed.is_none() {
            let answer = self.refuse(tx, &call, &approval_requests::differs());
            return closed(tx, event_of(call), answer);
        }
        // It is forgotten when this call is over, not here: a lost transaction is tried again.
        if self.is_cancelled(&call.header.key()) {
            let reason = Code::Cancelled.meaning().to_owned();
            let answer = self.refuse(tx, &call, &Refusal::new(Code::Cancelled, reason));
            return closed(tx, event_of(call), answer);
        }
        if decision.is_transient() && self.postpone(&call) {
            return closed(tx, event_of(call), Ok(None));
        }
        match self.before_the_effect(tx, &call, &decision) {
            Ok(Before::Go) => {}
            Ok(Before::Wait(of)) => return Ok(Step::Wait(event_of(call), of)),
            Ok(Before::Answered(answer)) => return Ok(kernel::close(tx, event_of(call), answer)),
            Err(error) => return Err(unwritten(call, error)),
        }
        if matches!(decision.verdict, Verdict::Permit | Verdict::NeedsRemote)
            && let Err(error) = accounts::keep_out(tx.view(), &mut call)
        {
            return Err(unwritten(call, error));
        }
        if decision.verdict == Verdict::Permit
            && let Err(error) = FEATURES.iter().try_for_each(|feature| feature.with_intent(self, tx, &mut call))
        {
            return Err(unwritten(call, error));
        }
        match kernel::authorize::authorize(tx, call, facts) {
            kernel::authorize::Outcome::Authorized(authorized) => {
                Ok(Step::Start(kernel::record_intent(tx, authorized)?))
            }
            kernel::authorize::Outcome::Refused(call, refusal) => {
                let answer = self.refuse(tx, &call, &refusal);
                closed(tx, event_of(call), answer)
            }
            kernel::authorize::Outcome::Ask(call, reasons) => self.ask(tx, call, &reasons),
        }
    }

    /// Postpones a call that a person has approved, so that the answer is not lost. It expires. Returns `false` for other calls.
    fn postpone(&mut self, call: &Call) -> bool {
        let is_approved = call.is_resumed() && call.plan.is_none();
        if is_approved {
            self.follow_ups.postponed.push(call.header.key());
        }
        let is_to_apply = call.is_internal();
        self.follow_ups.is_wanted |= is_to_apply;
        is_approved || is_to_apply
    }

    /// Refuses a call, and lets the features change their rows with it.
    pub(crate) fn refuse(
        &mut self,
        tx: &Transaction<'_>,
        call: &Call,
        refusal: &Refusal,
    ) -> Result<Option<Answer>, StoreError> {
        FEATURES.iter().try_for_each(|feature| feature.with_refusal(self, tx, call, refusal))?;
        refused(tx, call, refusal)
    }
}
