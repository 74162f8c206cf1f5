//! The proofs of an intent, of an outcome and of a reply.
//!
//! ```text
//! Authorized<'tx> ── record_intent ──► Pending<'tx> ── commit ──► Intended    may start
//! anything        ── close         ──► Closing<'tx> ── commit ──► Settled     may be answered
//! ```
//!
//! `'tx` is the transaction: a proof made in it cannot outlive it, so nothing that a rollback undid can start.
//! To audit: `Intended { ` and `Settled(` are constructed in this file only, in `Parts::committed`.

use crate::authorize::{Authorized, Obligations};
use crate::call::{Call, FileOrigin, Header};
use crate::charge::{charge, charge_call};
use crate::contract::{Invocation, Operation, UsedAccount};
use crate::notice::{NoticeDraft, OpenChannel, OutgoingNotice, PendingChannel, PendingNotice};
use crate::one_time;
use crate::one_time::OneTimeValue;
use crate::run_handle::RunHandle;
use model::{EffectMarker, Exposure};
use policy::facts::AgreedBy;
use serde_json::{Value, json};
use shared::reply::Evidence;
use shared::{Code, Group, Reply, RequestId, Status};
use std::marker::PhantomData;
use std::sync::Arc;
use store::ledger::chain::{Draft, RowKind};
use store::ledger::minor::MinorRow;
use store::state::intents::OpenIntent;
use store::state::one_time_values;
use store::state::one_time_values::StoredValue;
use store::state::replies;
use store::state::replies::Delivery;
use store::state::{
    approvals, external_grants, gates, idempotency, intents, proposals, publications, sessions, standing_approvals,
};
use store::{Brand, Receipt, StoreError, Transaction};
use tokio::sync::oneshot;

/// The effect to be attempted.
pub enum Effect {
    /// The call's action.
    Run(Box<Call>),
    /// The read that fetches the remote facts for the call.
    Prepare(Box<Call>),
    /// The read that looks up an unknown outcome.
    Probe(Box<Probe>),
}

/// A query to the remote about an effect whose outcome was lost.
pub struct Probe {
    /// The action whose effect it was.
    pub operation: Arc<dyn Operation>,
    /// The data that the action gave for this purpose before the effect.
    pub handle: Value,
    /// The account of the effect, with its owner: `broker:ann/ann@example.com`. `None` if the action uses none.
    pub account: Option<String>,
    /// The same account with its credential, as the transaction of the intent read it.
    pub used: Option<UsedAccount>,
    /// The planted marker.
    pub planted: EffectMarker,
    /// The caller of the effect, in the ledger's form.
    pub asked_by: String,
    /// The intent whose outcome is unknown; `None` if no caller asked for the effect.
    pub of: Option<i64>,
    /// The receiver of the finding, once its row is durable; `None` if nobody waits for it.
    pub report: Option<oneshot::Sender<Finding>>,
}

/// The finding of a probe, cleaned: a sentence, or the code and the reason why there is none.
pub type Finding = Result<String, (Code, String)>;

/// An effect whose intent is written here and not yet durable.
#[must_use]
#[derive(Debug)]
pub struct Pending<'tx> {
    effect: Effect,
    evidence: Evidence,
    tx: PhantomData<Brand<'tx>>,
}

/// An effect whose intent is durable: the only key to a provider and to a secret.
#[must_use]
#[derive(Debug)]
pub struct Intended {
    effect: Effect,
    evidence: Evidence,
}

/// A reply whose row is written here and not yet durable.
#[must_use]
#[derive(Debug)]
pub struct Closing<'tx, E> {
    source: E,
    answer: Option<Answer>,
    tx: PhantomData<Brand<'tx>>,
}

/// A reply document, kept with the row it rests on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    seq: i64,
    request_id: RequestId,
    document: Vec<u8>,
    folded: bool,
    // `None` for a reply that its caller can have had before.
    status: Option<Status>,
    // The value that the document lacks and that leaves with it.
    one_time: Option<StoredValue>,
}

/// A reply whose evidence is durable: only this may leave.
#[must_use]
#[derive(Debug)]
pub struct Settled(Answer);

/// The result of an event inside the transaction.
#[must_use]
#[derive(Debug)]
pub enum Step<'tx, E> {
    /// An effect may start once this is durable.
    Start(Pending<'tx>),
    /// A request is closed once this is durable.
    Close(Closing<'tx, E>),
    /// Nothing was written; the event waits for another request of the same caller.
    Wait(E, RequestId),
    /// An approval request is sent once this is durable. The call waits for the answer.
    Ask(Asking<'tx, E>),
    /// The event is over, and notices leave once this is durable.
    Notify(E, Vec<PendingNotice<'tx>>),
    /// The event is over, and the answers of these channels are fetched once this is durable.
    Receive(E, Vec<PendingChannel<'tx>>),
}

/// An approval request that is written here and not yet durable.
#[must_use]
#[derive(Debug)]
pub struct Asking<'tx, E> {
    source: E,
    tx: PhantomData<Brand<'tx>>,
}

/// The same results, after the commit.
#[derive(Debug)]
pub enum Committed<E> {
    /// This effect may start.
    Start(Intended),
    /// This event is over; the reply, if there is one, may leave.
    Close(E, Option<Settled>),
    /// This event waits for that request.
    Wait(E, RequestId),
    /// The approval request about this event is durable.
    Ask(E),
    /// This event is over; these notices may leave.
    Notify(E, Vec<OutgoingNotice>),
    /// This event is over; the answers of these channels may be fetched.
    Receive(E, Vec<OpenChannel>),
}

/// Turns events into rows.
pub trait BatchWriter<E> {
    /// The consequences of the events of one transaction, once it is committed.
    type FollowUps: Default;

    /// Writes one event inside a transaction.
    ///
    /// # Errors
    /// [`WriteError`] with the whole event; nothing was executed, and the whole transaction is rolled back.
    fn write<'tx>(&mut self, tx: &Transaction<'tx>, event: E) -> Result<Step<'tx, E>, WriteError<E>>;

    /// Returns the consequences of the events of the committed transaction. The next transaction of the same batch sees
    /// everything that the writer remembers.
    fn committed(&mut self) -> Self::FollowUps;

    /// Makes the writer forget everything about the events of a transaction that is rolled back.
    fn rolled_back(&mut self);

    /// Returns whether the event accepts the machine's clock. Such an event is written although the clock is behind the
    /// last row.
    fn accepts_clock(&self, _event: &E) -> bool {
        false
    }
}

/// An event that could not be written, with the error.
#[derive(Debug)]
pub struct WriteError<E> {
    /// The event, whole.
    pub event: E,
    /// The error.
    pub error: StoreError,
}

impl Effect {
    /// Returns the caller of the intent, in the ledger's form.
    pub fn caller(&self) -> &str {
        match self {
            Self::Run(call) | Self::Prepare(call) => &call.header.caller_key,
            Self::Probe(_) => "broker",
        }
    }

    /// Returns the stage, in the ledger's words.
    pub fn stage(&self) -> &'static str {
        match self {
            Self::Run(_) => "run",
            Self::Prepare(_) => "prepare",
            Self::Probe(_) => "probe",
        }
    }
}

impl std::fmt::Debug for Effect {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Run(call) => f.debug_tuple("Run").field(call).finish(),
            Self::Prepare(call) => f.debug_tuple("Prepare").field(call).finish(),
            Self::Probe(probe) => f.debug_tuple("Probe").field(&probe.of).finish(),
        }
    }
}

impl std::fmt::Debug for Probe {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Probe").field("of", &self.of).field("planted", &self.planted).finish_non_exhaustive()
    }
}

impl Intended {
    /// Returns the receipt of the intent.
    pub fn evidence(&self) -> Evidence {
        self.evidence
    }

    /// Returns the effect to be attempted.
    pub fn effect(&self) -> &Effect {
        &self.effect
    }

    /// Returns the group that waits for it, if one does.
    pub fn caller_group(&self) -> Option<Group> {
        match &self.effect {
            Effect::Run(call) | Effect::Prepare(call) => call.header.caller.group().cloned(),
            Effect::Probe(_) => None,
        }
    }

    /// Returns the id of the request whose caller waits for it.
    pub fn request_id(&self) -> &RequestId {
        match &self.effect {
            Effect::Run(call) | Effect::Prepare(call) => &call.awaited().request_id,
            Effect::Probe(probe) => &probe.planted.request_id,
        }
    }

    /// Returns the unique key of the call it belongs to, if it belongs to one.
    pub fn call_key(&self) -> Option<(Arc<str>, RequestId)> {
        match &self.effect {
            Effect::Run(call) | Effect::Prepare(call) => Some(call.header.key()),
            Effect::Probe(_) => None,
        }
    }

    /// Returns the handle that reports progress and cancels the effect; `None` for a probe.
    pub fn run_handle(&self) -> Option<&Arc<RunHandle>> {
        match &self.effect {
            Effect::Run(call) | Effect::Prepare(call) => Some(&call.run_handle),
            Effect::Probe(_) => None,
        }
    }

    /// Notes that the request's sender has withdrawn it. The effect does not begin.
    pub fn withdraw(&self) {
        if let Some(run_handle) = self.run_handle() {
            run_handle.withdraw();
        }
    }

    /// Takes the request's file out, to be removed: its intent is durable.
    pub fn retire(&mut self) -> Option<FileOrigin> {
        match &mut self.effect {
            Effect::Run(call) | Effect::Prepare(call) => call.header.retire(),
            Effect::Probe(_) => None,
        }
    }

    /// Spends the proof.
    pub(crate) fn into_parts(self) -> (Effect, Evidence) {
        (self.effect, self.evidence)
    }
}

impl Settled {
    /// Returns whether the request has no row of its own, because its caller has caused too many.
    pub fn is_folded(&self) -> bool {
        self.0.folded
    }

    /// Returns the status of the reply; `None` if it repeats an earlier one.
    pub fn status(&self) -> Option<Status> {
        self.0.status
    }

    /// Returns the number of the row that the reply rests on.
    pub fn seq(&self) -> i64 {
        self.0.seq
    }

    /// Spends the proof. Returns the id, the document, and the value that the document lacks and that leaves with it.
    pub fn into_document(self) -> (RequestId, Vec<u8>, Option<OneTimeValue>) {
        (self.0.request_id, self.0.document, self.0.one_time.map(OneTimeValue::of))
    }
}

/// Writes the intent of an authorized effect, and spends the approvals and charges of its permit.
///
/// # Errors
/// [`WriteError`] with the event; nothing was executed.
pub fn record_intent<'tx, E: From<Effect>>(
    tx: &Transaction<'tx>,
    authorized: Authorized<'tx>,
) -> Result<Pending<'tx>, WriteError<E>> {
    let (effect, obligations) = authorized.into_parts();
    match intent(tx, &effect, &obligations) {
        Ok(row) => Ok(Pending { effect, evidence: *row, tx: PhantomData }),
        Err(error) => Err(WriteError { event: effect.into(), error }),
    }
}

fn intent(tx: &Transaction<'_>, effect: &Effect, obligations: &Obligations) -> Result<Receipt, StoreError> {
    let approval = obligations.spend_approval.as_ref();
    let evidence = match effect {
        Effect::Run(call) | Effect::Prepare(call) => {
            publications::note_intent(tx);
            tx.append(&Draft {
                approval: approval.map(|approval| approval.reference.clone()),
                ..call_intent(call, effect.stage())
            })?
        }
        // It decides nothing: it finds out the outcome of an effect that a decision has started.
        Effect::Probe(probe) => tx.append(&probe_intent(probe))?,
    };
    gates::spend(tx, &obligations.spend_gates, evidence.seq)?;
    if let Some(approval) = approval {
        match approval.by {
            AgreedBy::Approval(id) => approvals::spend(tx, id)?,
            AgreedBy::Standing(id) => standing_approvals::count_use(tx, id)?,
        }
    }
    charge(tx, effect, (&obligations.charges, &obligations.counted_as), evidence.seq)?;
    if let Some(access) = &obligations.invokes {
        external_grants::spend(tx, access)?;
    }
    match effect {
        Effect::Run(call) => {
            expose(tx, call, obligations.exposes, evidence.seq)?;
            if let (Some(nested), Some((charges, exposes))) = (&call.nested, &obligations.nested) {
                charge_call(tx, (&nested.call, true), (charges, &obligations.counted_as), evidence.seq)?;
                expose(tx, &nested.call, *exposes, evidence.seq)?;
            }
            if let (Some(_), Some(approval)) = (&call.applies, approval) {
                let AgreedBy::Approval(id) = approval.by else {
                    // A standing approval covers no proposal.
                    return Err(StoreError::Conflict { what: "approval" });
                };
                proposals::begin(tx, id, &call.header.request_id)?;
            }
            let person = call.header.behalf.key();
            let handle = stored_handle(call);
            intents::open(tx, &open_intent(effect, evidence.seq, handle.as_ref()))?;
            if let Some(claim) = call.claim_key(person.as_deref()) {
                idempotency::claim(tx, &claim, (&call.header.request_id, &call.params_digest), evidence.seq)?;
            }
        }
        Effect::Prepare(_) | Effect::Probe(_) => intents::open(tx, &open_intent(effect, evidence.seq, None))?,
    }
    Ok(evidence)
}

impl Probe {
    /// Makes the probe from its stored data, without the credential.
    pub fn stored(
        operation: Arc<dyn Operation>,
        stored: Value,
        planted: EffectMarker,
        asked_by: String,
        of: Option<i64>,
    ) -> Option<Self> {
        let (account, handle) = if operation.declaration().needs_account {
            let account = stored.get("account")?.as_str()?.to_owned();
            (Some(account), stored.get("handle")?.clone())
        } else {
            (None, stored)
        };
        Some(Self { operation, handle, account, used: None, planted, asked_by, of, report: None })
    }
}

/// Returns the data that a probe of a call needs, as it is stored with the intent: the action's handle. If the action uses
/// accounts, it is `{"account": "broker:ann/ann@example.com", "handle": …}`.
fn stored_handle(call: &Call) -> Option<Value> {
    let handle = call.target.invocation()?.probe_handle(&call.planted)?;
    if !call.target.operation()?.declaration().needs_account {
        return Some(handle);
    }
    let (owner, name) = model::owned(call.account_ref.as_deref()?);
    let owner = owner.map(str::to_owned).or_else(|| call.header.behalf.key())?;
    Some(json!({ "account": format!("{owner}/{name}"), "handle": handle }))
}

fn expose(tx: &Transaction<'_>, call: &Call, exposes: Option<Exposure>, intent: i64) -> Result<(), StoreError> {
    let Some(exposes) = exposes else { return Ok(()) };
    let session = external_grants::session_of(tx.view(), &call.header.caller_key)?;
    sessions::expose(tx, &session, (&call.provider, &call.action), exposes, intent)
}

fn open_intent<'a>(effect: &'a Effect, seq: i64, handle: Option<&'a Value>) -> OpenIntent<'a> {
    let (planted, mutating) = match effect {
        Effect::Run(call) => (&call.planted, call.mutating),
        Effect::Prepare(call) => (&call.planted, false),
        Effect::Probe(probe) => (&probe.planted, false),
    };
    OpenIntent {
        seq,
        caller: effect.caller(),
        request_id: &planted.request_id,
        stage: effect.stage(),
        mutating,
        nonce: planted.nonce.as_str(),
        handle,
    }
}

/// Keeps a reply with the row it rests on.
///
/// # Errors
/// [`StoreError`]; the reply must not leave.
pub fn answer(tx: &Transaction<'_>, caller: &str, mut reply: Reply, row: Receipt) -> Result<Answer, StoreError> {
    reply.evidence = Some(*row);
    let document = reply.to_bytes();
    replies::keep(tx, row.seq, caller, &reply.request_id, &document, Delivery::Due)?;
    let one_time = if one_time::lacks_one_time_value(&reply.notices) {
        one_time_values::take(tx, caller, &reply.request_id, row.seq)?
    } else {
        None
    };
    let status = Some(reply.status);
    Ok(Answer { seq: row.seq, document, request_id: reply.request_id, folded: false, status, one_time })
}

/// Answers a request that changed nothing. The reply is kept only with a row of the request's own.
///
/// # Errors
/// [`StoreError`]; the reply must not leave.
pub fn answer_minor(tx: &Transaction<'_>, caller: &str, reply: Reply, row: MinorRow) -> Result<Answer, StoreError> {
    if row.is_folded() { Ok(answer_unkept(reply, row)) } else { answer(tx, caller, reply, row.receipt()) }
}

/// Answers without keeping the reply. The broker makes it again if the request is repeated.
pub fn answer_unkept(mut reply: Reply, row: MinorRow) -> Answer {
    reply.evidence = Some(*row.receipt());
    let (document, status) = (reply.to_bytes(), Some(reply.status));
    Answer { status, ..answer_stored(reply.request_id, document, row) }
}

/// Answers with data that is JSON already, and keeps no reply.
pub fn answer_with(mut reply: Reply, data: &[u8], row: MinorRow) -> Answer {
    reply.evidence = Some(*row.receipt());
    let (document, status) = (reply.document_with(data), Some(reply.status));
    Answer { status, ..answer_stored(reply.request_id, document, row) }
}

/// Answers a repeated request with its stored reply.
pub fn answer_stored(request_id: RequestId, document: Vec<u8>, row: MinorRow) -> Answer {
    Answer { folded: row.is_folded(), ..answer_again(request_id, document, row.receipt().seq) }
}

/// Adds the one-time value to an answer with the stored reply of the request `of`. A value that another reply has taken
/// is not added.
///
/// # Errors
/// [`StoreError`]; the reply must not leave.
pub fn with_one_time_value(
    tx: &Transaction<'_>,
    header: &Header,
    of: &RequestId,
    notices: &[String],
    answer: Answer,
) -> Result<Answer, StoreError> {
    // The row of another request does not say that the value has left.
    if answer.folded || !one_time::lacks_one_time_value(notices) {
        return Ok(answer);
    }
    let source = replies::answered_by(tx.view(), tx.steady(), &header.caller_key, of)?;
    let one_time = one_time_values::take(tx, &header.caller_key, &source, answer.seq)?;
    Ok(Answer { one_time, ..answer })
}

/// Answers with a copy of another request's reply. The ledger keeps a mark that the copy is due, and no second
/// document. The row names the request whose reply is copied.
///
/// # Errors
/// [`StoreError`]; the reply must not leave.
pub fn answer_copy(tx: &Transaction<'_>, header: &Header, reply: Reply, row: MinorRow) -> Result<Answer, StoreError> {
    // A caller at a connection gets the reply on it or not at all, so no copy is due after a restart.
    if !row.is_folded() && header.caller.group().is_some() {
        replies::keep(tx, row.receipt().seq, &header.caller_key, &header.request_id, &[], Delivery::Due)?;
    }
    Ok(answer_unkept(reply, row))
}

/// Keeps the outcome of a request whose caller already had its one reply. The caller can ask for it.
///
/// # Errors
/// [`StoreError`].
pub fn keep(tx: &Transaction<'_>, caller: &str, mut reply: Reply, row: Receipt) -> Result<(), StoreError> {
    reply.evidence = Some(*row);
    let document = reply.to_bytes();
    replies::keep(tx, row.seq, caller, &reply.request_id, &document, Delivery::Over)
}

/// Answers with a reply that rests on an earlier row, and does not keep it again.
pub fn answer_again(request_id: RequestId, document: Vec<u8>, seq: i64) -> Answer {
    Answer { seq, request_id, document, folded: false, status: None, one_time: None }
}

/// Ends an event with an approval request.
pub fn ask<'tx, E>(_: &Transaction<'tx>, source: E) -> Step<'tx, E> {
    Step::Ask(Asking { source, tx: PhantomData })
}

/// Closes an event, with a reply unless its caller gets none.
pub fn close<'tx, E>(_: &Transaction<'tx>, source: E, answer: Option<Answer>) -> Step<'tx, E> {
    Step::Close(Closing { source, answer, tx: PhantomData })
}

fn call_intent<'a>(call: &'a Call, stage: &'static str) -> Draft<'a> {
    let invocation = call.target.invocation();
    let mut body = json!({
        "request": call.header.request_digest,
        "stage": stage,
        "nonce": call.planted.nonce.as_str(),
    });
    if let Some(members) = body.as_object_mut() {
        members.extend(call.tool.as_ref().map(|tool| ("tool".to_owned(), json!(tool))));
        members.extend(call.plan.as_ref().map(|plan| ("plan".to_owned(), json!(plan.header.request_id))));
        members.extend(call.account_ref.as_ref().map(|account| ("account".to_owned(), json!(account))));
        members.extend(call.nested.as_ref().map(|nested| {
            let Call { provider, action, target, .. } = &nested.call;
            (
                "nested".to_owned(),
                json!({ "provider": provider, "action": action, "level": target.demanded().number() }),
            )
        }));
    }
    Draft {
        provider: Some(&call.provider),
        action: Some(&call.action),
        level: invocation.map(Invocation::level),
        params_digest: Some(call.params_digest),
        summary: invocation.map(Invocation::summary),
        task_id: call.task_id.as_ref(),
        body: with_about(body, invocation),
        ..call.header.draft(RowKind::Intended)
    }
}

/// Adds the call's public members to the body of a row.
pub fn with_about(mut body: Value, invocation: Option<&dyn Invocation>) -> Value {
    if let (Some(about), Some(members)) = (invocation.and_then(Invocation::about), body.as_object_mut()) {
        members.insert("about".to_owned(), about);
    }
    body
}

fn probe_intent(probe: &Probe) -> Draft<'_> {
    let declaration = probe.operation.declaration();
    Draft {
        request_id: Some(&probe.planted.request_id),
        provider: Some(&declaration.provider),
        action: Some(&declaration.action),
        level: Some(shared::Level::Read),
        body: json!({ "stage": "probe", "probes": probe.of, "asked_by": probe.asked_by }),
        ..Draft::new(RowKind::Intended, "broker")
    }
}

/// The parts of a step that outlive the borrow of its transaction. Only the commit turns them into a proof.
#[derive(Debug)]
pub(crate) enum Parts<E> {
    Start(Effect, Evidence),
    Close(E, Option<Answer>),
    Wait(E, RequestId),
    Ask(E),
    Notify(E, Vec<NoticeDraft>),
    Receive(E, Vec<String>),
}

impl<E> Step<'_, E> {
    pub(crate) fn loosen(self) -> Parts<E> {
        match self {
            Self::Start(pending) => Parts::Start(pending.effect, pending.evidence),
            Self::Close(closing) => Parts::Close(closing.source, closing.answer),
            Self::Wait(event, of) => Parts::Wait(event, of),
            Self::Ask(asking) => Parts::Ask(asking.source),
            Self::Notify(event, pending) => {
                Parts::Notify(event, pending.into_iter().map(|pending| pending.draft).collect())
            }
            Self::Receive(event, pending) => {
                Parts::Receive(event, pending.into_iter().map(|pending| pending.name).collect())
            }
        }
    }
}

impl<E: From<Effect>> Parts<E> {
    /// Returns the event as it was before it was handled.
    pub(crate) fn undo(self) -> E {
        match self {
            Self::Start(effect, _) => effect.into(),
            Self::Close(event, _)
            | Self::Wait(event, _)
            | Self::Ask(event)
            | Self::Notify(event, _)
            | Self::Receive(event, _) => event,
        }
    }
}

impl<E> Parts<E> {
    /// Returns whether its result leaves at once, so that it must be synced first.
    pub(crate) fn is_heard(&self) -> bool {
        matches!(self, Self::Close(_, Some(_)))
    }

    /// Returns whether its result leaves, and the reply rests on a row that is not synced.
    pub(crate) fn must_last(&self, synced: i64) -> bool {
        matches!(self, Self::Close(_, Some(answer)) if answer.seq > synced)
    }

    /// Returns whether its commit must be synced. After such a commit the request's file is removed, a notice leaves,
    /// or an effect starts that is no harmless read.
    pub(crate) fn cannot_wait(&self) -> bool {
        match self {
            Self::Ask(_) | Self::Start(Effect::Probe(_), _) => true,
            Self::Start(Effect::Run(call) | Effect::Prepare(call), _) => !call.is_harmless_read(),
            Self::Notify(_, notices) => !notices.is_empty(),
            Self::Receive(_, channels) => !channels.is_empty(),
            Self::Close(..) | Self::Wait(..) => false,
        }
    }

    /// Returns whether its end waits for a later sync. It waits if its reply rests on a row that is not synced, or if
    /// it wrote so many bytes.
    pub(crate) fn waits(&self, synced: i64, bytes: usize) -> bool {
        match self {
            Self::Close(_, Some(answer)) => answer.seq > synced,
            Self::Close(_, None) | Self::Notify(..) | Self::Receive(..) => bytes > 0,
            Self::Ask(_) | Self::Start(..) | Self::Wait(..) => false,
        }
    }

    /// Makes the proof. Called after the commit, and only then.
    pub(crate) fn committed(self) -> Committed<E> {
        match self {
            Self::Start(effect, evidence) => Committed::Start(Intended { effect, evidence }),
            Self::Close(event, answer) => Committed::Close(event, answer.map(Settled)),
            Self::Wait(event, of) => Committed::Wait(event, of),
            Self::Ask(event) => Committed::Ask(event),
            Self::Notify(event, drafts) => {
                Committed::Notify(event, drafts.into_iter().map(OutgoingNotice::committed).collect())
            }
            Self::Receive(event, names) => {
                Committed::Receive(event, names.into_iter().map(OpenChannel::committed).collect())
            }
        }
    }
}
