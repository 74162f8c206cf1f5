//! The end of an effect: its outcome is recorded, with what features make of it, and its reply is kept.

pub mod by_person;

use crate::accounts;
use crate::approval_requests;
use crate::broker::Broker;
use crate::clean::{Filtered, Outcome};
use crate::event::Event;
use crate::event_results::closed;
use crate::features;
use crate::features::FEATURES;
use crate::limits;
use crate::replies::{outcome_row, reply_to, success};
use filter::inspect::Reason;
use kernel::contract::SideOutput;
use kernel::{Answer, Effect, Probe, Step, WriteError};
use serde_json::{Value, json};
use shared::{Code, Reply};
use std::sync::Arc;
use store::ledger::chain::{Draft, RowKind};
use store::state::idempotency;
use store::state::intents;
use store::state::quarantine;
use store::state::replies;
use store::state::requests;
use store::{Receipt, StoreError, Transaction};

impl Broker {
    /// Records the outcome of an effect, and keeps its reply with it.
    pub(crate) fn finished<'tx>(
        &mut self,
        tx: &Transaction<'tx>,
        mut filtered: Box<Filtered>,
    ) -> Result<Step<'tx, Event>, WriteError<Event>> {
        let noted = FEATURES.iter().try_for_each(|feature| feature.with_outcome(self, tx, &mut filtered));
        let answer = match noted {
            Ok(()) => self
                .update_breaker(tx, &filtered)
                .and_then(|()| self.update_nested_breaker(tx, &filtered))
                .and_then(|()| accounts::note_answer(tx, &filtered))
                .and_then(|()| settle(tx, &mut filtered)),
            Err(error) => Err(error),
        };
        closed(tx, Event::Finished(filtered), answer)
    }

    /// Counts a fault of a provider, and pauses one that fails too often in a row.
    fn update_breaker(&self, tx: &Transaction<'_>, filtered: &Filtered) -> Result<(), StoreError> {
        match (&filtered.effect, &filtered.outcome) {
            // A probe is the broker's own.
            (Effect::Probe(_), _) => Ok(()),
            // A call that did not begin says nothing about its provider.
            (Effect::Run(call) | Effect::Prepare(call), _) if call.run_handle.is_withdrawn() => {
                limits::prepared(tx, call)
            }
            // The fault is that of the nested call's provider.
            (Effect::Run(call), Outcome::Failed { fault: true, .. }) if filtered.nested_begun => {
                limits::answered(tx, call)
            }
            (Effect::Run(call) | Effect::Prepare(call), Outcome::Failed { fault: true, .. }) => {
                limits::fault(tx, call, &self.policy.limits)
            }
            (Effect::Prepare(call), Outcome::Prepared(_)) => limits::prepared(tx, call),
            (Effect::Run(call) | Effect::Prepare(call), _) => limits::answered(tx, call),
        }
    }

    /// The same for the provider of a nested call. One that was not started leaves its test to the next call.
    fn update_nested_breaker(&self, tx: &Transaction<'_>, filtered: &Filtered) -> Result<(), StoreError> {
        let Effect::Run(call) = &filtered.effect else { return Ok(()) };
        let Some(nested) = &call.nested else { return Ok(()) };
        match &filtered.outcome {
            _ if !filtered.nested_begun => limits::prepared(tx, &nested.call),
            Outcome::Failed { fault: true, .. } => limits::fault(tx, &nested.call, &self.policy.limits),
            Outcome::Failed { .. } | Outcome::Succeeded(_) | Outcome::Prepared(_) | Outcome::Probed { .. } => {
                limits::answered(tx, &nested.call)
            }
        }
    }
}

fn settle(tx: &Transaction<'_>, filtered: &mut Filtered) -> Result<Option<Answer>, StoreError> {
    let closed = intents::close(tx, filtered.effect.caller(), filtered.intent.seq)?;
    let evidence = tx.append(&outcome_row(filtered, &closed))?;
    quarantine_result(tx, filtered, evidence)?;
    let takes_receipt = filtered.aside.as_ref().is_some_and(|aside| aside.takes_receipt);
    if let (true, Outcome::Succeeded(shown)) = (takes_receipt, &mut filtered.outcome) {
        receipt(&mut shown.data, evidence);
    }
    match (&filtered.effect, &filtered.outcome) {
        (Effect::Prepare(_), Outcome::Prepared(_)) => Ok(None),
        // The plan has the reply.
        (Effect::Prepare(call), _) if call.plan.is_some() => Ok(None),
        (Effect::Run(call) | Effect::Prepare(call), outcome) => {
            let person = call.header.behalf.key();
            if call.run_handle.is_withdrawn()
                && let Some(claim) = call.claim_key(person.as_deref())
            {
                idempotency::release(tx, &claim, &call.header.request_id)?;
            }
            if matches!(outcome, Outcome::Failed { code: Code::OutcomeUnknown, .. }) {
                intents::note_unknown(tx, &closed)?;
                filtered.probe = closed.probe.as_deref().and_then(|text| serde_json::from_str(text).ok());
            }
            let mut reply = reply_to(call.header.request_id.clone(), outcome, tx);
            reply.notices.extend(call.notices.iter().map(|notice| notice.word().to_owned()));
            if filtered.withheld {
                return approval_requests::keep(tx, &call.header, call.is_resumed(), reply, evidence).map(|()| None);
            }
            approval_requests::answer(tx, &call.header, call.is_resumed(), reply, evidence)
        }
        (Effect::Probe(probe), _) => {
            settle_unknown(tx, probe, &mut filtered.outcome, filtered.aside.as_deref()).map(|()| None)
        }
    }
}

/// Puts a withheld result into quarantine, and says so in its summary.
fn quarantine_result(tx: &Transaction<'_>, filtered: &mut Filtered, evidence: Receipt) -> Result<(), StoreError> {
    let (Some(kept), Effect::Run(call), Outcome::Succeeded(shown)) =
        (&filtered.withheld_result, &filtered.effect, &mut filtered.outcome)
    else {
        return Ok(());
    };
    let words: Vec<&str> = kept.verdict.reasons().iter().map(Reason::word).collect();
    quarantine::put(
        tx,
        &quarantine::NewQuarantined {
            seq: evidence.seq,
            caller: &call.header.caller_key,
            request_id: &call.header.request_id,
            provider: &call.provider,
            action: &call.action,
            level: call.target.demanded(),
            verdict: kept.verdict.word(),
            reasons: &words,
            data: &kept.data,
            summary: &kept.summary,
        },
    )?;
    let (verdict, id) = (kept.verdict.word(), quarantine::name(evidence.seq));
    let reasons: Vec<&str> = kept.verdict.reasons().iter().map(Reason::sentence).collect();
    // The summary is built from the original one, because a row that could not be written is written again.
    shown.summary = format!(
        "{} The result looks {verdict} and is kept back as {id}: {} A person can release it.",
        kept.summary,
        reasons.join(" ")
    );
    Ok(())
}

/// Puts the receipt into a result that takes it. The receipt is known only after the row is written, so the row's
/// digest covers the result without it.
fn receipt(data: &mut Value, evidence: Receipt) {
    if let Some(data) = data.as_object_mut() {
        let audit = json!({ "prev_hash": evidence.prev_hash, "event_hash": evidence.event_hash });
        data.insert("audit".into(), audit);
    }
}

/// Settles an unknown outcome by a probe. Only proof settles; an absence only informs and permits no repeat.
fn settle_unknown(
    tx: &Transaction<'_>,
    probe: &Probe,
    outcome: &mut Outcome,
    aside: Option<&SideOutput>,
) -> Result<(), StoreError> {
    let Some(of) = probe.of else { return Ok(()) };
    let shown = match outcome {
        Outcome::Probed { happened: true, shown } => shown,
        Outcome::Probed { happened: false, shown } => return add_sight(tx, probe, &shown.summary),
        Outcome::Failed { reason, .. } => return add_sight(tx, probe, &format!("That failed: {reason}")),
        Outcome::Succeeded(_) | Outcome::Prepared(_) => return Ok(()),
    };
    if !intents::forget_unknown(tx, of)? {
        return Ok(());
    }
    features::settle(tx, &probe.asked_by, &probe.planted.request_id, true)?;
    let declaration = probe.operation.declaration();
    let evidence = tx.append(&Draft {
        person: requests::person_of(tx, &probe.asked_by, &probe.planted.request_id)?,
        request_id: Some(&probe.planted.request_id),
        provider: Some(&declaration.provider),
        action: Some(&declaration.action),
        result_summary: Some(shown.summary.clone()),
        result_digest: Some(shown.digest),
        body: json!({ "settles": of, "as": "succeeded", "noted": aside.map(|aside| &aside.noted) }),
        ..Draft::new(RowKind::Settled, &probe.asked_by)
    })?;
    if aside.is_some_and(|aside| aside.takes_receipt) {
        receipt(&mut shown.data, evidence);
    }
    // The caller has had its one reply. A session that has ended since gets no result of the one before it.
    if replies::find(tx, &probe.asked_by, &probe.planted.request_id)?.is_none() {
        return Ok(());
    }
    kernel::keep(tx, &probe.asked_by, success(probe.planted.request_id.clone(), shown, tx), evidence)
}

/// Adds the probe's observation of the target to the stored reply. The outcome stays unknown.
fn add_sight(tx: &Transaction<'_>, probe: &Probe, seen: &str) -> Result<(), StoreError> {
    let (caller, id) = (&probe.asked_by, &probe.planted.request_id);
    let stored = replies::find(tx, caller, id)?;
    let earlier = stored.and_then(|document| serde_json::from_slice::<Reply>(&document).ok());
    let unknown = |reply: &Reply| reply.code.as_deref() == Some(Code::OutcomeUnknown.word());
    let Some(earlier) = earlier.filter(unknown) else { return Ok(()) };
    let reason = format!("{} The broker has looked at the target: {seen}", Code::OutcomeUnknown.meaning());
    let mut reply = Reply::of_reason(id.clone(), Code::OutcomeUnknown, &reason, tx.now());
    (reply.evidence, reply.notices) = (earlier.evidence, earlier.notices);
    replies::amend(tx, caller, id, &reply.to_bytes())
}

/// Tells the finding of a probe to the one who waits for it. The row of the finding must be durable.
pub fn report(filtered: &mut Filtered) {
    let Effect::Probe(probe) = &mut filtered.effect else { return };
    let Some(report) = probe.report.take() else { return };
    let finding = match &filtered.outcome {
        Outcome::Succeeded(shown) | Outcome::Probed { shown, .. } => Ok(shown.summary.clone()),
        Outcome::Failed { code, reason, .. } => Err((*code, reason.clone())),
        Outcome::Prepared(_) => return,
    };
    // The one who asked may have gone.
    report.send(finding).ok();
}

/// Returns the probe of an unknown outcome, if it can be probed.
pub fn probe_for(filtered: &mut Filtered) -> Option<Box<Probe>> {
    let stored: Value = filtered.probe.take()?;
    let Effect::Run(call) = &filtered.effect else { return None };
    let operation = Arc::clone(call.target.operation()?);
    let (planted, asked_by) = (call.planted.clone(), call.header.caller_key.to_string());
    Probe::stored(operation, stored, planted, asked_by, Some(filtered.intent.seq)).map(Box::new)
}
