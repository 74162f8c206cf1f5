//! The conditions between a permit and its intent: an idempotency key that another call holds, the evidence budget,
//! the number of calls in progress, and those of features. A caller without the authority learns of none of them.

use crate::broker::Broker;
use crate::features::FEATURES;
use crate::replies::{answer_copy, copied, unfinished};

use crate::approval_requests;
use kernel::Answer;
use kernel::authorize::Refusal;
use kernel::call::{Call, Header, Prepared};
use model::Subject;
use policy::decide::Decision;
use shared::{Code, RequestId, limits};
use store::state::intents;
use store::{StoreError, Transaction};
use tokio::time::Instant;

pub(crate) enum Before {
    Go,
    Wait(RequestId),
    Answered(Option<Answer>),
}

impl Broker {
    /// Checks the conditions between a permit and its intent.
    pub(crate) fn before_the_effect(
        &mut self,
        tx: &Transaction<'_>,
        call: &Call,
        decision: &Decision,
    ) -> Result<Before, StoreError> {
        if !decision.has_authority() {
            return Ok(Before::Go);
        }
        if let Some(claimed) = call.claimed(tx.view())? {
            if let (true, Subject::Nobody(why)) = (claimed.is_a_persons, &call.header.behalf) {
                // The owner is unknown, so nothing is executed a second time, and nothing is revealed.
                let refusal = Refusal::new(why.code(), why.code().meaning().to_owned());
                return self.refuse(tx, call, &refusal).map(Before::Answered);
            }
            if claimed.params_digest != call.params_digest {
                let reason = Code::IdempotencyConflict.meaning().to_owned();
                return self.refuse(tx, call, &Refusal::new(Code::IdempotencyConflict, reason)).map(Before::Answered);
            }
            return self.same_call(tx, call, &claimed.request_id);
        }
        match self.hindrance(tx, call)? {
            Some(refusal) => self.refuse(tx, call, &refusal).map(Before::Answered),
            None => Ok(Before::Go),
        }
    }

    /// Returns why a permitted effect of a call does not start now: the evidence budget, the calls in progress, or a
    /// condition of a feature.
    pub(crate) fn hindrance(&self, tx: &Transaction<'_>, call: &Call) -> Result<Option<Refusal>, StoreError> {
        // The budget of an agent does not bound a call that a person wants.
        if call.prepared == Prepared::Not
            && !call.is_resumed()
            && !call.is_internal()
            && let Some((reason, retry_after)) = tx.refuses(&call.header.caller_key)?
        {
            return Ok(Some(Refusal { code: Code::RateLimited, reason, retry_after }));
        }
        // A prepared call is already counted, and an approval must not be wasted. A plan has its place from its first read.
        let goes_on =
            call.plan.as_ref().is_some_and(|plan| plan.others.iter().any(|other| other.prepared != Prepared::Not));
        if call.prepared == Prepared::Not
            && !goes_on
            && !call.is_resumed()
            && !call.is_internal()
            && intents::in_flight(tx, &call.header.caller_key)? >= self.config.broker.max_concurrent_calls
        {
            let reason = "This group has too many calls in progress.".to_owned();
            return Ok(Some(Refusal { retry_after: Some(limits::BUSY_RETRY), ..Refusal::new(Code::Busy, reason) }));
        }
        for feature in FEATURES {
            if let Some(refusal) = feature.precondition(tx.view(), call)? {
                return Ok(Some(refusal));
            }
        }
        Ok(None)
    }

    /// Answers a call whose idempotency key belongs to an equal call with that call's reply, under its own id.
    fn same_call(&self, tx: &Transaction<'_>, call: &Call, of: &RequestId) -> Result<Before, StoreError> {
        let header = &call.header;
        let is_open = intents::is_open(tx.view(), &header.caller_key, of)?;
        if is_open && self.may_wait(header) {
            return Ok(Before::Wait(of.clone()));
        }
        let (reply, row) =
            if is_open { unfinished(tx, header, of)? } else { copied(tx, header, of, !call.is_resumed())? };
        if call.is_resumed() {
            return approval_requests::answer(tx, header, true, reply, row.receipt()).map(Before::Answered);
        }
        if is_open {
            return kernel::answer_copy(tx, header, reply, row).map(Some).map(Before::Answered);
        }
        answer_copy(tx, header, of, reply, row).map(Some).map(Before::Answered)
    }

    /// Returns whether a request may wait for another one: it has time left, and not too many of its caller's wait.
    pub(crate) fn may_wait(&self, header: &Header) -> bool {
        let waiting = self.waiting.get(&header.caller_key).copied().unwrap_or(0);
        Instant::now() < header.reply_deadline() && waiting < self.config.broker.max_concurrent_calls
    }
}
