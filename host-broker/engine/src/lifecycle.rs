//! The events of the daemon itself: its start and end, the passage of time, and documents that are no requests.

use crate::accounts;
use crate::broker::Broker;
use crate::event::Event;
use crate::event_results::closed;
use crate::features::FEATURES;
use crate::request::{InvalidDocument, Parsed};

use kernel::{Answer, PendingChannel, Probe, Step, WriteError};
use model::{Caller, approval};
use serde_json::json;
use shared::{Code, Group, Reply};
use store::ledger::chain::{Draft, RowKind};
use store::ledger::checkpoints;
use store::ledger::segments;
use store::state::approvals;
use store::state::counters;
use store::state::denials;
use store::state::external_grants;
use store::state::grants;
use store::state::idempotency;
use store::state::intents;
use store::state::kill;
use store::state::one_time_values;
use store::state::quarantine;
use store::state::replies;
use store::state::requests;
use store::{StoreError, Transaction};

impl Broker {
    /// Writes the first row, and closes the effects that a dead daemon left open. Their outcomes are unknown, and nothing
    /// is repeated. Returns the channels whose answers are fetched; the row names them.
    pub(crate) fn started<'tx>(&mut self, tx: &Transaction<'tx>) -> Result<Vec<PendingChannel<'tx>>, StoreError> {
        let mut body = json!({ "version": env!("CARGO_PKG_VERSION"), "catalogue": self.catalogue.version() });
        let receives = self.config.receiving_channels().map(|table| &table.name).collect::<Vec<_>>();
        if let Some(members) = body.as_object_mut().filter(|_| !receives.is_empty()) {
            members.insert("receives".to_owned(), json!(receives));
        }
        if let (Some(members), Some(publication)) = (body.as_object_mut(), &self.policy.publication) {
            members.insert("uses".to_owned(), json!(publication));
        }
        tx.append(&Draft { body, ..Draft::new(RowKind::Started, "broker") })?;
        counters::forget_trials(tx)?;
        one_time_values::free_undelivered(tx)?;
        self.close_left_open(tx, "the broker died in between")?;
        Ok(self.config.receiving_channels().map(|table| kernel::open_channel(tx, table.name.clone())).collect())
    }

    /// Closes the effects that were left open, for this reason. Their outcomes are unknown, and nothing is repeated.
    pub(crate) fn close_left_open(&mut self, tx: &Transaction<'_>, why: &str) -> Result<(), StoreError> {
        for intent in intents::left_open(tx)? {
            let closed = intents::close(tx, &intent.caller, intent.seq)?;
            let kind = if closed.mutating { RowKind::Unknown } else { RowKind::TimedOut };
            let code = if closed.mutating { Code::OutcomeUnknown } else { Code::ProviderTimeout };
            let evidence = tx.append(&Draft {
                person: requests::person_of(tx, &closed.caller, &closed.request_id)?,
                request_id: Some(&closed.request_id),
                reason_code: Some(code),
                body: json!({ "of": closed.seq, "stage": closed.stage, "why": why }),
                ..Draft::new(kind, &closed.caller)
            })?;
            if closed.mutating {
                intents::note_unknown(tx, &closed)?;
            }
            // An approved call that had not started is decided again, and answered then.
            let asked = approvals::of_request(tx.view(), &closed.caller, &closed.request_id)?;
            let is_open = asked.is_some_and(|approval| approval.state != approval::ApprovalState::Closed);
            let goes_on = is_open && closed.stage == "prepare";
            // Nobody waits for the read alone. Its plan has no row, and begins again with its document.
            let is_for_plan = intents::is_for_plan(tx, closed.seq)?;
            if closed.stage != "probe" && !goes_on && !is_for_plan {
                let lost = (closed.caller.as_str(), &closed.request_id);
                FEATURES.iter().try_for_each(|feature| feature.with_loss(self, tx, lost, code))?;
                let reply = Reply::of_code(closed.request_id.clone(), code, tx.now());
                if approvals::is_told(tx, &closed.caller, &closed.request_id)? {
                    kernel::keep(tx, &closed.caller, reply, evidence)?;
                } else {
                    kernel::answer(tx, &closed.caller, reply, evidence)?;
                }
            }
        }
        Ok(())
    }

    pub(crate) fn ticked(&mut self, tx: &Transaction<'_>, delivered: i64) -> Result<(), StoreError> {
        replies::mark_delivered(tx, delivered)?;
        replies::forget_old(tx)?;
        grants::forget_old(tx)?;
        idempotency::forget_old(tx)?;
        segments::delete_rows(tx)?;
        quarantine::forget_old(tx)?;
        denials::forget_old(tx)?;
        counters::forget_old(tx)?;
        FEATURES.iter().try_for_each(|feature| feature.forget_old(tx))?;
        external_grants::forget_old(tx)?;
        store::state::notices::forget_old(tx, !self.config.channels.is_empty())?;
        tx.write_counts(false)
    }

    /// Records for auditors that a directory was replaced. Its group can replace it again and again, so it is charged
    /// for the row, and further ones of the same minute are only counted.
    pub(crate) fn reopened(&mut self, tx: &Transaction<'_>, group: &Group) -> Result<(), StoreError> {
        let caller = Caller::Group(group.clone()).to_string();
        tx.append_counted(&Draft { body: json!({ "reopened": group }), ..Draft::new(RowKind::Noted, &caller) })?;
        self.follow_ups.stale_snapshots.insert(group.clone());
        Ok(())
    }

    pub(crate) fn stopping(tx: &Transaction<'_>) -> Result<(), StoreError> {
        tx.write_counts(true)?;
        tx.append(&Draft::new(RowKind::Stopped, "broker"))?;
        Ok(())
    }

    /// Writes a checkpoint of all rows so far.
    pub(crate) fn checkpoint(&self, tx: &Transaction<'_>) -> Result<(), StoreError> {
        let Some(keys) = &self.checkpoint_keys else { return Ok(()) };
        checkpoints::append(tx, &keys.key, keys.earlier.as_ref())
    }

    /// Starts a probe that a person wants. A provider that an operator has stopped is not probed either.
    pub(crate) fn look<'tx>(tx: &Transaction<'tx>, probe: Box<Probe>) -> Result<Step<'tx, Event>, WriteError<Event>> {
        let declaration = probe.operation.declaration();
        match kill::find(tx.view(), None, &declaration.provider) {
            Ok(None) => Self::probe(tx, probe),
            Ok(Some(_)) => {
                let refused = tx.append(&Draft {
                    request_id: Some(&probe.planted.request_id),
                    provider: Some(&declaration.provider),
                    action: Some(&declaration.action),
                    reason_code: Some(Code::KillSwitch),
                    body: json!({ "asked_by": probe.asked_by }),
                    ..Draft::new(RowKind::Refused, "broker")
                });
                closed(tx, Event::Probe(probe), refused.map(|_row| None))
            }
            Err(error) => Err(WriteError { event: Event::Probe(probe), error }),
        }
    }

    /// Starts a probe, with the account that it needs.
    pub(crate) fn probe<'tx>(
        tx: &Transaction<'tx>,
        mut probe: Box<Probe>,
    ) -> Result<Step<'tx, Event>, WriteError<Event>> {
        match accounts::of_probe(tx.view(), &probe) {
            Ok(used) => {
                probe.used = used;
                Ok(Step::Start(kernel::record_intent(tx, kernel::authorize::authorize_probe(tx, probe))?))
            }
            Err(error) => Err(WriteError { event: Event::Probe(probe), error }),
        }
    }

    /// Refuses documents that are no requests. The first of a caller has its own row, and the next ones are counted in
    /// a later one. So no caller can fill the disk that all depend on.
    pub(crate) fn refuse_invalid<'tx>(
        tx: &Transaction<'tx>,
        invalid: Box<InvalidDocument>,
    ) -> Result<Step<'tx, Event>, WriteError<Event>> {
        let answer = Self::invalid_answer(tx, &invalid);
        closed(tx, Event::Arrived(Parsed::InvalidDocument(invalid)), answer)
    }

    pub(crate) fn invalid_answer(
        tx: &Transaction<'_>,
        invalid: &InvalidDocument,
    ) -> Result<Option<Answer>, StoreError> {
        let earlier = match &invalid.request_id {
            Some(id) => requests::earlier(tx, &invalid.caller_key, id)?,
            None => None,
        };
        // The id belongs to a request that was well formed; its reply must not be replaced by this one.
        let reply_to = invalid.request_id.as_ref().filter(|_| earlier.is_none());
        let row = tx.append_counted(&Draft {
            request_id: invalid.request_id.as_ref(),
            reason_code: Some(invalid.code),
            ..Draft::new(RowKind::Refused, &invalid.caller_key)
        })?;
        let Some(id) = reply_to else { return Ok(None) };
        let (id, now) = (id.clone(), tx.now());
        let reply = match invalid.caller {
            Caller::Person(_) => Reply::of_reason_alone(id, invalid.code, &invalid.reason, now),
            Caller::Group(_) | Caller::External(_) | Caller::Operator(_) | Caller::Broker => {
                Reply::of_reason(id, invalid.code, &invalid.reason, now)
            }
        };
        kernel::answer_minor(tx, &invalid.caller_key, reply, row).map(Some)
    }
}
