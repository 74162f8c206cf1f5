//! The whole life of a call. Read this first.
//!
//! ```text
//! arrived ──► is it a repeat? ──► facts ──► decision ──► refused ───────────────────────────────► reply
//!                                              ├─► remote facts needed: intent ► read ► outcome ► decide again
//!                                              └─► permitted: intent ► effect ► filter ► outcome ► reply
//! ```
//!
//! [`Broker`] is what turns events into rows: the ledger calls [`BatchWriter::write`] for each event of a batch, inside
//! one transaction, and nothing follows from what is written here before that transaction is durable. The effect
//! itself is [`run`], between two events.

use crate::account_linking;
use crate::accounts;
use crate::approvals::sealing;
use crate::capability_replies::CapabilityAnswers;
use crate::catalogue::{Catalogue, Entry};
use crate::clean::{Filters, filter};
use crate::event::Event;
use crate::facts;
use crate::file_proposals;
use crate::flows::reads::Reads;
use crate::follow_ups::FollowUps;
use crate::notices;
use crate::replies::{copied, explained, refused, unfinished, while_parked};
use crate::request::{CommandRequest, InvalidDocument, Parsed};

use crate::approval_requests;
use crate::approval_requests::Ended;
use config::Config;
use config::Policy;
use kernel::authorize::Refusal;
use kernel::call::{Call, Header};
use kernel::contract::{Invocation, StoreRequest};
use kernel::execution::execute;
use kernel::run_handle::RunHandle;
use kernel::{Answer, BatchWriter, Intended, PendingNotice, Probe, Step, WriteError};
use model::{Caller, EffectMarker, Nonce, Random, Subject, approval};
use policy::decide::{Decision, Verdict};
use provider::definitions::Withdrawn;
use secrets::vault::Vault;
use serde_json::json;
use shared::digest::Digest;
use shared::{Code, Group, Provider, Reply, RequestId};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use store::ledger::chain::{Draft, Kind};
use store::ledger::segments;
use store::state::approvals;
use store::state::counters;
use store::state::denials;
use store::state::external_grants;
use store::state::kill;
use store::state::proposals;
use store::state::quarantine;
use store::state::requests;
use store::{StoreError, Transaction};
use tokio::time::Instant;

/// What turns events into rows.
pub struct Broker {
    pub(crate) config: Arc<Config>,
    pub(crate) catalogue: Arc<Catalogue>,
    pub(crate) policy: Policy,
    /// Answers to `ext_capabilities`, until a snapshot is stale.
    pub(crate) capability_answers: CapabilityAnswers,
    /// How many requests of a caller wait for another one.
    pub(crate) waiting: BTreeMap<Arc<str>, usize>,
    /// Calls that were cancelled before they started.
    pub(crate) cancelled: BTreeSet<(Arc<str>, RequestId)>,
    /// Calls that run, and what passes between them and whoever waits.
    pub(crate) under_way: BTreeMap<(Arc<str>, RequestId), Arc<RunHandle>>,
    /// Requests that wait for another one. They have no row yet.
    pub(crate) parked: BTreeMap<(Arc<str>, RequestId), WaitingRequest>,
    /// How much groups have read of flows.
    pub(crate) flow_reads: Reads,
    /// What follows from the transaction that is being written.
    pub(crate) follow_ups: FollowUps,
    /// The tools that servers were last seen to have withdrawn.
    pub(crate) withdrawn: BTreeMap<Provider, Withdrawn>,
    pub(crate) ids: Arc<dyn Random>,
    /// What takes the broker's own secrets out of what it shows by itself and looks at what would leave; without, it shows
    /// no such thing.
    pub(crate) filters: Option<Arc<Filters>>,
    /// What seals persons' credentials; without, none are sealed anew.
    pub(crate) vault: Option<Arc<Vault>>,
}

/// Performs the effect and filters what it brought back. Everything before this is decided and durable; nothing
/// after it is handed over before its outcome is.
pub async fn run(intended: Intended, filters: &Filters) -> Event {
    let executed = execute(intended).await;
    if executed.is_bulky() {
        // What takes long to filter is filtered where nobody waits for it.
        tokio::task::yield_now().await;
    }
    Event::Finished(Box::new(filter(executed, filters).await))
}

impl BatchWriter<Event> for Broker {
    type FollowUps = FollowUps;

    fn write<'tx>(&mut self, tx: &'tx Transaction<'_>, event: Event) -> Result<Step<'tx, Event>, WriteError<Event>> {
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
            Event::Probe(probe) => {
                Ok(Step::Start(kernel::record_intent(tx, kernel::authorize::authorize_probe(tx, probe))?))
            }
            Event::Arrived(Parsed::CommandRequest(command_request)) => self.directed(tx, command_request),
            Event::Arrived(Parsed::InvalidDocument(invalid)) => Self::refuse_rubbish(tx, invalid),
            Event::NoticesDue(busy) => {
                let pending = self.tell(tx, &busy);
                notified(Event::NoticesDue(busy), pending)
            }
            Event::NoticeDelivered(attempt) => {
                let told = notices::told(tx, &attempt);
                closed(tx, Event::NoticeDelivered(attempt), told.map(|()| None))
            }
            Event::Started => closed(tx, Event::Started, self.started(tx).map(|()| None)),
            Event::Ticked { delivered } => closed(tx, event, self.ticked(tx, delivered).map(|()| None)),
            Event::MailboxReopened(group) => {
                let noted = self.reopened(tx, &group);
                closed(tx, Event::MailboxReopened(group), noted.map(|()| None))
            }
            Event::DefinitionsChanged(redefined) => {
                let noted = self.redefined(tx, &redefined);
                closed(tx, Event::DefinitionsChanged(redefined), noted.map(|()| None))
            }
            Event::RulesetReplaced(exchanged) => {
                let noted = self.exchanged(tx, &exchanged);
                closed(tx, Event::RulesetReplaced(exchanged), noted.map(|()| None))
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
            Event::Stopping => closed(tx, Event::Stopping, Self::stopping(tx).map(|()| None)),
        }
    }

    fn take_follow_ups(&mut self) -> FollowUps {
        std::mem::take(&mut self.follow_ups)
    }

    fn accepts_clock(&self, event: &Event) -> bool {
        event.accepts_clock()
    }
}

/// An event after which notices leave, or unwritten as a whole.
fn notified(
    event: Event,
    pending: Result<Vec<PendingNotice<'_>>, StoreError>,
) -> Result<Step<'_, Event>, WriteError<Event>> {
    match pending {
        Ok(pending) => Ok(Step::Notify(event, pending)),
        Err(error) => Err(WriteError { event, error }),
    }
}

/// An event that is over with its rows, or unwritten as a whole.
pub(crate) fn closed<'tx>(
    tx: &'tx Transaction<'_>,
    event: Event,
    answer: Result<Option<Answer>, StoreError>,
) -> Result<Step<'tx, Event>, WriteError<Event>> {
    match answer {
        Ok(answer) => Ok(kernel::close(tx, event, answer)),
        Err(error) => Err(WriteError { event, error }),
    }
}

impl Broker {
    /// A call that came in. An id is used up permanently: only the first request with an id is decided.
    fn arrived<'tx>(
        &mut self,
        tx: &'tx Transaction<'_>,
        call: Box<Call>,
    ) -> Result<Step<'tx, Event>, WriteError<Event>> {
        if let Some(parked) = self.parked.get(&call.header.key()) {
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

    /// The decision, with facts of this very transaction.
    fn decide<'tx>(
        &mut self,
        tx: &'tx Transaction<'_>,
        mut call: Box<Call>,
    ) -> Result<Step<'tx, Event>, WriteError<Event>> {
        let supplied = file_proposals::supply(tx.view(), tx.now(), &mut call)
            .and_then(|()| accounts::choose(tx.view(), &mut call))
            .and_then(|()| account_linking::supply(tx.view(), tx.now(), &mut call));
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
                Ok(Ended::Refused(refusal)) => Some(refused(tx, &call, &refusal)),
                Err(error) => return Err(unwritten(call, error)),
            };
            if let Some(answer) = answer {
                return closed(tx, event_of(call), answer);
            }
        }
        // Forgotten when this is over, not here: a transaction that is lost is tried again.
        if self.is_cancelled(&call.header.key()) {
            let reason = Code::Cancelled.meaning().to_owned();
            let answer = refused(tx, &call, &Refusal::new(Code::Cancelled, reason));
            return closed(tx, event_of(call), answer);
        }
        match self.before_the_effect(tx, &call, &decision) {
            Ok(Before::Go) => {}
            Ok(Before::Wait(of)) => return Ok(Step::Wait(event_of(call), of)),
            Ok(Before::Answered(answer)) => return Ok(kernel::close(tx, event_of(call), answer)),
            Err(error) => return Err(unwritten(call, error)),
        }
        if decision.verdict == Verdict::Permit
            && let Err(error) = self
                .withdraw(tx, &mut call)
                .and_then(|()| self.hand_over(tx, &mut call))
                .and_then(|()| self.link_with_intent(tx, &mut call))
        {
            return Err(unwritten(call, error));
        }
        match kernel::authorize::authorize(tx, call, facts) {
            kernel::authorize::Outcome::Authorized(authorized) => {
                Ok(Step::Start(kernel::record_intent(tx, authorized)?))
            }
            kernel::authorize::Outcome::Refused(call, refusal) => {
                let answer = self.not_at_once(tx, &call, &refusal).and_then(|()| refused(tx, &call, &refusal));
                closed(tx, event_of(call), answer)
            }
            kernel::authorize::Outcome::Ask(call, reasons) => self.ask(tx, call, &reasons),
        }
    }

    /// What stands between a permitted call and its effect: an idempotency key that somebody holds, and how many
    /// calls of the group are under way. A caller without the authority learns of neither.
    fn before_the_effect(&self, tx: &Transaction<'_>, call: &Call, decision: &Decision) -> Result<Before, StoreError> {
        if !decision.has_authority() {
            return Ok(Before::Go);
        }
        if let Some(claimed) = call.claimed(tx.view())? {
            if let (true, Subject::Nobody(why)) = (claimed.is_a_persons, &call.header.behalf) {
                // Without knowing whose it is, nothing is executed a second time, and nothing is told.
                let refusal = Refusal::new(why.code(), why.code().meaning().to_owned());
                return refused(tx, call, &refusal).map(Before::Answered);
            }
            if claimed.params_digest != call.params_digest {
                let reason = Code::IdempotencyConflict.meaning().to_owned();
                return refused(tx, call, &Refusal::new(Code::IdempotencyConflict, reason)).map(Before::Answered);
            }
            return self.same_call(tx, call, &claimed.request_id);
        }
        if !call.prepared
            && !call.is_resumed()
            && let Some((reason, retry_after)) = tx.refuses(&call.header.caller_key)?
        {
            let refusal = Refusal { code: Code::RateLimited, reason, retry_after };
            return refused(tx, call, &refusal).map(Before::Answered);
        }
        // A prepared call is one of those that are counted; and nobody agrees to a call for nothing.
        if !call.prepared
            && !call.is_resumed()
            && !call.is_internal()
            && requests::in_flight(tx, &call.header.caller_key)? >= self.config.broker.max_concurrent_calls
        {
            let reason = Code::Busy.meaning().to_owned();
            return refused(tx, call, &Refusal::new(Code::Busy, reason)).map(Before::Answered);
        }
        let proposes = call.target.operation().is_some_and(|operation| operation.declaration().proposes);
        // Something is taken back, rather than put forward, by whoever has too much there.
        let takes_back = matches!(call.target.invocation().map(Invocation::needs), Some(StoreRequest::ToWithdraw(_)));
        if proposes
            && !takes_back
            && approvals::count_open(tx.view(), &call.header.caller_key)? >= crate::approvals::OPEN_MAX
        {
            return refused(tx, call, &approval_requests::too_many()).map(Before::Answered);
        }
        if let Some(refusal) = account_linking::too_many(tx.view(), call)? {
            return refused(tx, call, &refusal).map(Before::Answered);
        }
        Ok(Before::Go)
    }

    /// A call whose idempotency key belongs to an equal call: it gets that call's reply, under its own id.
    fn same_call(&self, tx: &Transaction<'_>, call: &Call, of: &RequestId) -> Result<Before, StoreError> {
        let header = &call.header;
        let is_open = requests::is_open(tx, &header.caller_key, of)?;
        if is_open && self.may_wait(header) {
            return Ok(Before::Wait(of.clone()));
        }
        let (reply, row) = if is_open { unfinished(tx, header, of)? } else { copied(tx, header, of)? };
        if call.is_resumed() {
            return approval_requests::answer(tx, header, true, reply, row.receipt()).map(Before::Answered);
        }
        kernel::answer_copy(tx, header, reply, row).map(Some).map(Before::Answered)
    }

    /// Whether a request may wait for another one: its time is not over, and not too many of its caller's wait.
    pub(crate) fn may_wait(&self, header: &Header) -> bool {
        let waiting = self.waiting.get(&header.caller_key).copied().unwrap_or(0);
        Instant::now() < header.reply_deadline() && waiting < self.config.broker.max_concurrent_calls
    }

    /// Documents that are no requests. The first of a caller has its own row, the next ones are counted in a later
    /// one, so that nobody can fill the disk that all depend on.
    fn refuse_rubbish<'tx>(
        tx: &'tx Transaction<'_>,
        invalid: Box<InvalidDocument>,
    ) -> Result<Step<'tx, Event>, WriteError<Event>> {
        let answer = Self::rubbish_answer(tx, &invalid);
        closed(tx, Event::Arrived(Parsed::InvalidDocument(invalid)), answer)
    }

    fn rubbish_answer(tx: &Transaction<'_>, invalid: &InvalidDocument) -> Result<Option<Answer>, StoreError> {
        let earlier = match &invalid.request_id {
            Some(id) => requests::earlier(tx, &invalid.caller_key, id)?,
            None => None,
        };
        // The id belongs to a request that was well formed; its reply must not be replaced by this one.
        let reply_to = invalid.request_id.as_ref().filter(|_| earlier.is_none());
        let row = tx.append_counted(&Draft {
            request_id: invalid.request_id.as_ref(),
            reason_code: Some(invalid.code),
            ..Draft::new(Kind::Refused, &invalid.caller_key)
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

    /// A look that a person wants: what an operator has stopped is not looked at either.
    fn look<'tx>(tx: &'tx Transaction<'_>, probe: Box<Probe>) -> Result<Step<'tx, Event>, WriteError<Event>> {
        let declaration = probe.operation.declaration();
        match kill::find(tx.view(), None, &declaration.provider) {
            Ok(None) => Ok(Step::Start(kernel::record_intent(tx, kernel::authorize::authorize_probe(tx, probe))?)),
            Ok(Some(_)) => {
                let refused = tx.append(&Draft {
                    request_id: Some(&probe.planted.request_id),
                    provider: Some(&declaration.provider),
                    action: Some(&declaration.action),
                    reason_code: Some(Code::KillSwitch),
                    body: json!({ "asked_by": probe.asked_by }),
                    ..Draft::new(Kind::Refused, "broker")
                });
                closed(tx, Event::Probe(probe), refused.map(|_row| None))
            }
            Err(error) => Err(WriteError { event: Event::Probe(probe), error }),
        }
    }

    /// Something that the ledger itself fulfils.
    fn directed<'tx>(
        &mut self,
        tx: &'tx Transaction<'_>,
        command_request: Box<CommandRequest>,
    ) -> Result<Step<'tx, Event>, WriteError<Event>> {
        let header = &command_request.header;
        if let Some(parked) = self.parked.get(&header.key()).filter(|_| !command_request.asked) {
            let noted = while_parked(tx, header, parked);
            return closed(tx, Event::Arrived(Parsed::CommandRequest(command_request)), noted.map(|()| None));
        }
        let earlier = if command_request.asked {
            Ok(None)
        } else {
            requests::earlier(tx, &header.caller_key, &header.request_id)
        };
        let result = match earlier {
            Ok(None) => self.fulfil(tx, &command_request),
            // A read-only request is answered from the store each time; no reply is kept.
            Ok(Some(earlier))
                if command_request.command.only_reads() && earlier.is_same_and_over(header.request_digest) =>
            {
                self.fulfil(tx, &command_request)
            }
            Ok(Some(earlier)) => self.repeated(tx, header, earlier).map(CommandOutcome::Answered),
            Err(error) => Err(error),
        };
        match result {
            Ok(CommandOutcome::Answered(answer)) => {
                Ok(kernel::close(tx, Event::Arrived(Parsed::CommandRequest(command_request)), answer))
            }
            Ok(CommandOutcome::Waits(of)) => {
                Ok(Step::Wait(Event::Arrived(Parsed::CommandRequest(command_request)), of))
            }
            Ok(CommandOutcome::Asked) => Ok(kernel::ask(tx, Event::Arrived(Parsed::CommandRequest(command_request)))),
            Err(error) => Err(WriteError { event: Event::Arrived(Parsed::CommandRequest(command_request)), error }),
        }
    }

    /// What a daemon that died left open is closed: nobody knows what became of it, and nothing is repeated.
    fn started(&mut self, tx: &Transaction<'_>) -> Result<(), StoreError> {
        tx.append(&Draft {
            body: json!({ "version": env!("CARGO_PKG_VERSION"), "catalogue": self.catalogue.version() }),
            ..Draft::new(Kind::Started, "broker")
        })?;
        counters::forget_trials(tx)?;
        for intent in requests::left_open(tx)? {
            let closed = requests::close(tx, &intent.caller, intent.seq)?;
            let kind = if closed.mutating { Kind::Unknown } else { Kind::TimedOut };
            let code = if closed.mutating { Code::OutcomeUnknown } else { Code::ProviderTimeout };
            let evidence = tx.append(&Draft {
                person: requests::person_of(tx, &closed.caller, &closed.request_id)?,
                request_id: Some(&closed.request_id),
                reason_code: Some(code),
                body: json!({ "of": closed.seq, "stage": closed.stage, "why": "the broker died in between" }),
                ..Draft::new(kind, &closed.caller)
            })?;
            if closed.mutating {
                requests::note_unknown(tx, &closed)?;
            }
            // What a person agreed to and had not started is decided on again, and answered then.
            let asked = approvals::of_request(tx.view(), &closed.caller, &closed.request_id)?;
            let goes_on = asked.is_some_and(|approval| approval.state != approval::State::Closed);
            if closed.stage != "probe" && !goes_on {
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

    fn ticked(&mut self, tx: &Transaction<'_>, delivered: i64) -> Result<(), StoreError> {
        requests::mark_delivered(tx, delivered)?;
        requests::forget_old(tx)?;
        segments::delete_rows(tx)?;
        proposals::forget_old(tx)?;
        quarantine::forget_old(tx)?;
        denials::forget_old(tx)?;
        counters::forget_old(tx)?;
        store::state::linking::forget_old(tx)?;
        external_grants::forget_old(tx)?;
        store::state::notices::forget_old(tx, !self.config.channels.is_empty())?;
        tx.write_counts(false)
    }

    /// An auditor should know that the directory is another one now. Its group can replace it again and again, so it is
    /// charged for the row, and the next ones of a minute are counted.
    fn reopened(&mut self, tx: &Transaction<'_>, group: &Group) -> Result<(), StoreError> {
        let caller = Caller::Group(group.clone()).to_string();
        tx.append_counted(&Draft { body: json!({ "reopened": group }), ..Draft::new(Kind::Noted, &caller) })?;
        self.follow_ups.stale_snapshots.insert(group.clone());
        Ok(())
    }

    fn stopping(tx: &Transaction<'_>) -> Result<(), StoreError> {
        tx.write_counts(true)?;
        tx.append(&Draft::new(Kind::Stopped, "broker"))?;
        Ok(())
    }
}

/// A request that waits for another one.
#[derive(Debug, Clone)]
pub struct WaitingRequest {
    /// The request that it waits for.
    pub of: RequestId,
    /// The person on whose behalf it was made.
    pub person: Option<String>,
    /// Its digest.
    pub request_digest: Digest,
    /// Whether it is a call, which can be cancelled.
    pub is_call: bool,
}

/// How a directive ends.
pub(crate) enum CommandOutcome {
    /// With an answer, or with none.
    Answered(Option<Answer>),
    /// Not before that request does.
    Waits(RequestId),
    /// Not before a person has answered.
    Asked,
}

enum Before {
    Go,
    Wait(RequestId),
    Answered(Option<Answer>),
}

fn unwritten(call: Box<Call>, error: StoreError) -> WriteError<Event> {
    WriteError { event: event_of(call), error }
}

/// The event that brought the call here, so that it can be brought again.
pub(crate) fn event_of(call: Box<Call>) -> Event {
    if call.prepared {
        Event::Prepared(call)
    } else if call.is_resumed() {
        Event::Resumed(call)
    } else {
        Event::Arrived(Parsed::Call(call))
    }
}

impl Broker {
    /// A new broker on this configuration and catalogue.
    pub fn new(config: Arc<Config>, catalogue: Arc<Catalogue>, policy: Policy, ids: Arc<dyn Random>) -> Self {
        Self {
            config,
            catalogue,
            policy,
            capability_answers: CapabilityAnswers::default(),
            waiting: BTreeMap::new(),
            cancelled: BTreeSet::new(),
            under_way: BTreeMap::new(),
            parked: BTreeMap::new(),
            flow_reads: Reads::default(),
            follow_ups: FollowUps::default(),
            withdrawn: BTreeMap::new(),
            ids,
            filters: None,
            vault: None,
        }
    }

    /// The same, able to seal anew what persons' accounts are worked with.
    #[must_use]
    pub fn with_vault(self, vault: Arc<Vault>) -> Self {
        Self { vault: Some(vault), ..self }
    }

    /// The same, able to show people what it read by itself.
    #[must_use]
    pub fn with_filters(self, filters: Arc<Filters>) -> Self {
        Self { filters: Some(filters), ..self }
    }

    /// Returns the configuration.
    pub fn config(&self) -> &Arc<Config> {
        &self.config
    }

    /// Returns the policy.
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// Returns the providers and actions that exist.
    pub fn catalogue(&self) -> &Arc<Catalogue> {
        &self.catalogue
    }

    /// Returns the randomness of ids and nonces.
    pub fn ids(&self) -> &dyn Random {
        self.ids.as_ref()
    }

    /// Returns the filters of results.
    pub fn filters(&self) -> Option<&Arc<Filters>> {
        self.filters.as_ref()
    }

    /// Notes that a call runs.
    pub fn begin_run(&mut self, key: (Arc<str>, RequestId), run_handle: Arc<RunHandle>) {
        self.under_way.insert(key, run_handle);
    }

    /// Notes that a call no longer runs.
    pub fn end_run(&mut self, key: &(Arc<str>, RequestId)) {
        self.under_way.remove(key);
    }

    /// Notes that a request waits for another one of the same caller.
    pub fn begin_waiting(&mut self, key: (Arc<str>, RequestId), waiting: WaitingRequest) {
        self.waiting.entry(Arc::clone(&key.0)).and_modify(|count| *count += 1).or_insert(1);
        self.parked.insert(key, waiting);
    }

    /// Notes that a request no longer waits.
    pub fn end_waiting(&mut self, key: &(Arc<str>, RequestId)) {
        self.parked.remove(key);
    }

    /// Notes that so many requests of a caller no longer wait.
    pub fn fewer_waiting(&mut self, caller: &Arc<str>, number: usize) {
        if let Some(waiting) = self.waiting.get_mut(caller) {
            *waiting = waiting.saturating_sub(number);
        }
        self.waiting.retain(|_, waiting| *waiting > 0);
    }

    /// Forgets that a call was cancelled, once it is over.
    pub fn forget_cancelled(&mut self, key: &(Arc<str>, RequestId)) {
        if !self.cancelled.is_empty() {
            self.cancelled.remove(key);
        }
    }

    /// Forgets the replies to `ext_capabilities` of a group whose snapshot is written again.
    pub fn forget_capabilities(&mut self, group: &Group) {
        self.capability_answers.forget(group);
    }

    /// What is needed to ask again for an outcome that an earlier daemon left unknown.
    pub fn probe_again(&self, outcome: requests::UnknownOutcome) -> Option<Box<Probe>> {
        let Entry::Enabled(operation) = self.catalogue.find(&outcome.provider, &outcome.action) else { return None };
        Some(Box::new(Probe {
            operation,
            handle: serde_json::from_str(outcome.probe.as_deref()?).ok()?,
            planted: EffectMarker { request_id: outcome.request_id, nonce: Nonce::stored(outcome.nonce) },
            asked_by: outcome.caller,
            of: Some(outcome.seq),
        }))
    }
}
