//! The proofs that the ledger gives out, and the transaction that makes them.
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
use crate::ledger::chain::{Draft, Head, Kind, Row};
use crate::ledger::minor::{Minor, MinorRow};
use crate::ledger::store::{Handing, keep_reply};
use crate::ledger::{LedgerError, at};
use crate::providers::contract::{Invocation, Operation};
use crate::providers::meanwhile::Meanwhile;
use model::EffectMarker;
use rusqlite::{Connection, params};
use serde_json::{Value, json};
use shared::reply::Evidence;
use shared::{Group, Reply, RequestId, Timestamp};
use std::cell::{Cell, RefCell};
use std::marker::PhantomData;
use std::sync::Arc;

/// One open transaction. Only [`crate::ledger::Ledger::batch`] makes one.
#[derive(Debug)]
pub struct Transaction<'c> {
    connection: &'c Connection,
    head: Cell<Head>,
    clock: Timestamp,
    now: Cell<Timestamp>,
    steady: Timestamp,
    policy_version: &'c str,
    pub(super) minor: &'c RefCell<Minor>,
    // The bytes of its rows and stored replies.
    written: Cell<usize>,
}

/// What is to be attempted.
pub enum Effect {
    /// The call's action.
    Run(Box<Call>),
    /// The read that fetches the remote facts for the call.
    Prepare(Box<Call>),
    /// The read that asks what became of an unknown outcome.
    Probe(Box<Probe>),
}

/// A question to the remote about an effect whose outcome was lost.
pub struct Probe {
    /// The action whose effect it was.
    pub operation: Arc<dyn Operation>,
    /// What the action gave for this purpose before the effect.
    pub handle: Value,
    /// What was planted.
    pub planted: EffectMarker,
    /// Who had asked for the effect, as the ledger writes it.
    pub asked_by: String,
    /// The intent whose outcome is unknown; `None` where the broker looks at something of its own accord.
    pub of: Option<i64>,
}

/// An effect whose intent is written here and not yet durable.
#[must_use]
#[derive(Debug)]
pub struct Pending<'tx> {
    effect: Effect,
    evidence: Evidence,
    tx: PhantomData<&'tx Transaction<'tx>>,
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
    tx: PhantomData<&'tx Transaction<'tx>>,
}

/// A reply document and the row it rests on, kept with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    seq: i64,
    request_id: RequestId,
    document: Vec<u8>,
    folded: bool,
}

/// A reply whose evidence is durable: the only thing that may be handed over.
#[must_use]
#[derive(Debug)]
pub struct Settled(Answer);

/// What an event came to, inside the transaction.
#[must_use]
#[derive(Debug)]
pub enum Step<'tx, E> {
    /// An effect may start once this is durable.
    Start(Pending<'tx>),
    /// A request is closed once this is durable.
    Close(Closing<'tx, E>),
    /// Nothing was written; the event waits for another request of the same caller.
    Wait(E, RequestId),
    /// A person is asked once this is durable; the request waits for the answer.
    Ask(Asking<'tx, E>),
}

/// A question that is written here and not yet durable.
#[must_use]
#[derive(Debug)]
pub struct Asking<'tx, E> {
    source: E,
    tx: PhantomData<&'tx Transaction<'tx>>,
}

/// The same, after the commit.
#[derive(Debug)]
pub enum Committed<E> {
    /// Start this.
    Start(Intended),
    /// This event is over; hand over the reply if there is one.
    Close(E, Option<Settled>),
    /// This event waits for that request.
    Wait(E, RequestId),
    /// A person is asked about this event.
    Ask(E),
}

/// Turns events into rows. The broker does; the ledger only says when.
pub trait Scribe<E> {
    /// Handles one event inside a transaction.
    ///
    /// # Errors
    /// [`Unwritten`] with the whole event; nothing was executed, and the whole transaction is undone.
    fn write<'tx>(&mut self, tx: &'tx Transaction<'_>, event: E) -> Result<Step<'tx, E>, Unwritten<E>>;

    /// Rows after this one were undone: whatever is remembered of them must be forgotten.
    fn undone(&mut self, seq: i64);

    /// Whether the event accepts the machine's clock: it is written although the clock is behind the last row.
    fn accepts_clock(&self, _event: &E) -> bool {
        false
    }
}

/// An event that could not be written, and why.
#[derive(Debug)]
pub struct Unwritten<E> {
    /// The event, whole.
    pub event: E,
    /// Why.
    pub error: LedgerError,
}

impl Effect {
    /// Whose intent it is, as the ledger writes it.
    pub fn caller(&self) -> &str {
        match self {
            Self::Run(call) | Self::Prepare(call) => &call.header.caller_key,
            Self::Probe(_) => "broker",
        }
    }

    /// The stage in the ledger's words.
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
    /// The receipt of the intent.
    pub fn evidence(&self) -> Evidence {
        self.evidence
    }

    /// What is to be attempted.
    pub fn effect(&self) -> &Effect {
        &self.effect
    }

    /// The group that waits for it, if one does.
    pub fn caller_group(&self) -> Option<Group> {
        match &self.effect {
            Effect::Run(call) | Effect::Prepare(call) => call.header.caller.group().cloned(),
            Effect::Probe(_) => None,
        }
    }

    /// The request it belongs to.
    pub fn request_id(&self) -> &RequestId {
        match &self.effect {
            Effect::Run(call) | Effect::Prepare(call) => &call.header.request_id,
            Effect::Probe(probe) => &probe.planted.request_id,
        }
    }

    /// The name among all of the request it belongs to, if it is a call's.
    pub fn call_key(&self) -> Option<(Arc<str>, RequestId)> {
        match &self.effect {
            Effect::Run(call) | Effect::Prepare(call) => Some(call.header.key()),
            Effect::Probe(_) => None,
        }
    }

    /// What passes between the effect and whoever waits for it; `None` where nobody does.
    pub fn meanwhile(&self) -> Option<&Arc<Meanwhile>> {
        match &self.effect {
            Effect::Run(call) | Effect::Prepare(call) => Some(&call.meanwhile),
            Effect::Probe(_) => None,
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
    pub fn into_parts(self) -> (Effect, Evidence) {
        (self.effect, self.evidence)
    }
}

impl Settled {
    /// Returns whether the request has no row of its own, because its caller has caused too many.
    pub fn is_folded(&self) -> bool {
        self.0.folded
    }

    /// The row that the reply rests on.
    pub fn seq(&self) -> i64 {
        self.0.seq
    }

    /// Spends the proof.
    pub fn into_document(self) -> (RequestId, Vec<u8>) {
        (self.0.request_id, self.0.document)
    }
}

impl<'c> Transaction<'c> {
    pub(super) fn new(
        connection: &'c Connection,
        head: Head,
        (clock, steady): (Timestamp, Timestamp),
        policy_version: &'c str,
        minor: &'c RefCell<Minor>,
    ) -> Self {
        // Rows never go back in time, even when the machine's clock does.
        let now = Cell::new(clock.max(Timestamp::from_millis(head.ts)));
        let (head, written) = (Cell::new(head), Cell::new(0));
        Self { connection, head, clock, now, steady, policy_version, minor, written }
    }

    /// Returns how many bytes of rows and stored replies are written so far.
    pub(super) fn written(&self) -> usize {
        self.written.get()
    }

    pub(super) fn count(&self, bytes: usize) {
        self.written.set(self.written.get().saturating_add(bytes));
    }

    /// The transaction's time: every row and every decision in it has this one.
    pub fn now(&self) -> Timestamp {
        self.now.get()
    }

    /// What the steady clock says, for all that permits something once it is forgotten.
    pub fn steady(&self) -> Timestamp {
        self.steady
    }

    /// Takes the machine's clock for right although the last row is later. Returns the time of the last row and the
    /// machine's. If it is earlier, the next row must be of the kind [`Kind::ClockAccepted`].
    pub(crate) fn accept_clock(&self) -> (Timestamp, Timestamp) {
        let last = Timestamp::from_millis(self.head.get().ts);
        self.now.set(self.clock);
        (last, self.clock)
    }

    /// For the stores beside the ledger.
    pub fn connection(&self) -> &Connection {
        self.connection
    }

    pub(crate) fn head(&self) -> Head {
        self.head.get()
    }

    /// Appends a row.
    ///
    /// # Errors
    /// [`LedgerError`]; nothing was written.
    pub fn append(&self, draft: &Draft<'_>) -> Result<Evidence, LedgerError> {
        let head = self.head.get();
        let mut row = Row {
            seq: head.seq + 1,
            ts: self.now().millis(),
            kind: draft.kind.word().to_owned(),
            caller: draft.caller.to_owned(),
            person: draft.person.clone(),
            request_id: draft.request_id.map(ToString::to_string),
            provider: draft.provider.map(ToString::to_string),
            action: draft.action.map(ToString::to_string),
            level: draft.level.map(|level| i64::from(level.number())),
            params_digest: draft.params_digest,
            summary: draft.summary.clone(),
            reason_code: draft.reason_code.map(|code| code.word().to_owned()),
            result_summary: draft.result_summary.clone(),
            result_digest: draft.result_digest,
            task_id: draft.task_id.map(ToString::to_string),
            approval: draft.approval.clone(),
            policy_version: self.policy_version.to_owned(),
            duration_ms: draft.duration_ms,
            body: String::from_utf8(shared::json::canonical(&draft.body)).unwrap_or_default(),
            prev_hash: head.hash,
            event_hash: head.hash,
        };
        row.event_hash = row.hash();
        self.insert(&row)?;
        self.charge_row(&row, draft.kind)?;
        self.head.set(Head { seq: row.seq, hash: row.event_hash, ts: row.ts });
        Ok(Evidence { seq: row.seq, event_hash: row.event_hash, prev_hash: row.prev_hash })
    }

    fn insert(&self, row: &Row) -> Result<(), LedgerError> {
        const INSERT: &str =
            "INSERT INTO ledger VALUES (?1,?2,?3,?4,?5,?6,?7,?8,?9,?10,?11,?12,?13,?14,?15,?16,?17,?18,?19,?20,?21)";
        let blob = |digest: &Option<shared::digest::Digest>| digest.map(|digest| *digest.as_bytes());
        let mut statement = self.connection.prepare_cached(INSERT).map_err(at("append a row"))?;
        statement
            .execute(params![
                row.seq,
                row.ts,
                row.kind,
                row.caller,
                row.person,
                row.request_id,
                row.provider,
                row.action,
                row.level,
                blob(&row.params_digest),
                row.summary,
                row.reason_code,
                row.result_summary,
                blob(&row.result_digest),
                row.task_id,
                row.approval,
                row.policy_version,
                row.duration_ms,
                row.body,
                row.prev_hash.as_bytes(),
                row.event_hash.as_bytes(),
            ])
            .map_err(at("append a row"))?;
        Ok(())
    }

    /// Writes the intent of an authorized effect, and spends what it was authorized with.
    ///
    /// # Errors
    /// [`Unwritten`] with the event; nothing was executed.
    pub fn record_intent<'tx, E: From<Effect>>(
        &'tx self,
        authorized: Authorized<'tx>,
    ) -> Result<Pending<'tx>, Unwritten<E>> {
        let (effect, obligations) = authorized.into_parts();
        match self.intent(&effect, &obligations) {
            Ok(evidence) => Ok(Pending { effect, evidence, tx: PhantomData }),
            Err(error) => Err(Unwritten { event: effect.into(), error }),
        }
    }

    fn intent(&self, effect: &Effect, obligations: &Obligations) -> Result<Evidence, LedgerError> {
        let approval = obligations.spend_approval.as_ref();
        let evidence = match effect {
            Effect::Run(call) | Effect::Prepare(call) => self.append(&Draft {
                approval: approval.map(|approval| approval.reference.clone()),
                ..call_intent(call, effect.stage())
            })?,
            Effect::Probe(probe) => self.append(&probe_intent(probe))?,
        };
        crate::gates::spend(self, &obligations.spend_gates, evidence.seq)?;
        if let Some(approval) = approval {
            crate::approvals::spend(self, approval.id)?;
        }
        crate::limits::charge(self, effect, (&obligations.charges, &obligations.counted_as), evidence.seq)?;
        if let Some(access) = &obligations.invokes {
            crate::flows::grants::spend(self, access)?;
        }
        match effect {
            Effect::Run(call) => {
                if let (true, Some(operation)) = (obligations.exposes, call.target.operation()) {
                    let declaration = operation.declaration();
                    let session = crate::flows::grants::session_of(self.connection(), &call.header.caller_key)?;
                    crate::sessions::expose(self, &session, declaration, evidence.seq)?;
                }
                if let (Some(_), Some(approval)) = (&call.applies, approval) {
                    crate::proposals::begin(self, approval.id, &call.header.request_id)?;
                }
                let handle = call.target.invocation().and_then(|invocation| invocation.probe_handle(&call.planted));
                crate::ledger::store::open(self, evidence.seq, effect, handle.as_ref())?;
                crate::ledger::store::claim(self, call, evidence.seq)?;
            }
            Effect::Prepare(_) | Effect::Probe(_) => crate::ledger::store::open(self, evidence.seq, effect, None)?,
        }
        Ok(evidence)
    }

    /// Keeps a reply with the row it rests on.
    ///
    /// # Errors
    /// [`LedgerError`]; the reply must not be handed over.
    pub fn answer(&self, caller: &str, mut reply: Reply, evidence: Evidence) -> Result<Answer, LedgerError> {
        reply.evidence = Some(evidence);
        let answer = Answer {
            seq: evidence.seq,
            document: serde_json::to_vec(&reply).unwrap_or_default(),
            request_id: reply.request_id,
            folded: false,
        };
        keep_reply(self, answer.seq, caller, &answer.request_id, &answer.document, Handing::Due)?;
        Ok(answer)
    }

    /// Answers a request that changed nothing. The reply is kept only with a row of the request's own.
    ///
    /// # Errors
    /// [`LedgerError`]; the reply must not be handed over.
    pub fn answer_minor(&self, caller: &str, reply: Reply, row: MinorRow) -> Result<Answer, LedgerError> {
        if row.is_folded() { Ok(self.answer_unkept(reply, row)) } else { self.answer(caller, reply, row.evidence()) }
    }

    /// Answers without keeping the reply. The broker makes it again if the request is repeated.
    pub fn answer_unkept(&self, mut reply: Reply, row: MinorRow) -> Answer {
        reply.evidence = Some(row.evidence());
        let document = serde_json::to_vec(&reply).unwrap_or_default();
        self.answer_stored(reply.request_id, document, row)
    }

    /// Answers with data that is JSON already, and keeps no reply.
    pub fn answer_with(&self, mut reply: Reply, data: &[u8], row: MinorRow) -> Answer {
        reply.evidence = Some(row.evidence());
        let document = reply.document_with(data);
        self.answer_stored(reply.request_id, document, row)
    }

    /// Answers a repeated request with its stored reply.
    pub fn answer_stored(&self, request_id: RequestId, document: Vec<u8>, row: MinorRow) -> Answer {
        Answer { folded: row.is_folded(), ..self.answer_again(request_id, document, row.evidence().seq) }
    }

    /// Answers with a copy of another request's reply. The ledger keeps a mark that the copy is due, and no second
    /// document. The row names the request whose reply it is.
    ///
    /// # Errors
    /// [`LedgerError`]; the reply must not be handed over.
    pub fn answer_copy(&self, header: &Header, reply: Reply, row: MinorRow) -> Result<Answer, LedgerError> {
        // A caller at a connection gets the reply there or never, so no copy is due after a restart.
        if !row.is_folded() && header.caller.group().is_some() {
            keep_reply(self, row.evidence().seq, &header.caller_key, &header.request_id, &[], Handing::Due)?;
        }
        Ok(self.answer_unkept(reply, row))
    }

    /// Keeps what became of a request whose caller has had its one reply: it can be asked for.
    ///
    /// # Errors
    /// [`LedgerError`].
    pub fn keep(&self, caller: &str, mut reply: Reply, evidence: Evidence) -> Result<(), LedgerError> {
        reply.evidence = Some(evidence);
        let document = serde_json::to_vec(&reply).unwrap_or_default();
        keep_reply(self, evidence.seq, caller, &reply.request_id, &document, Handing::Over)
    }

    /// A reply that rests on an earlier row, and is not kept again.
    pub fn answer_again(&self, request_id: RequestId, document: Vec<u8>, seq: i64) -> Answer {
        Answer { seq, request_id, document, folded: false }
    }

    /// Ends an event with a question to a person.
    pub fn ask<E>(&self, source: E) -> Step<'_, E> {
        Step::Ask(Asking { source, tx: PhantomData })
    }

    /// Closes an event, with a reply unless its caller gets none.
    pub fn close<E>(&self, source: E, answer: Option<Answer>) -> Step<'_, E> {
        Step::Close(Closing { source, answer, tx: PhantomData })
    }
}

fn call_intent<'a>(call: &'a Call, stage: &'static str) -> Draft<'a> {
    let invocation = call.target.invocation();
    let mut body = json!({
        "request": call.header.request_digest,
        "stage": stage,
        "nonce": call.planted.nonce.as_str(),
    });
    if let (Some(tool), Some(members)) = (&call.tool, body.as_object_mut()) {
        members.insert("tool".to_owned(), json!(tool));
    }
    Draft {
        provider: Some(&call.provider),
        action: Some(&call.action),
        level: invocation.map(Invocation::level),
        params_digest: Some(call.params_digest),
        summary: invocation.map(Invocation::summary),
        task_id: call.task_id.as_ref(),
        body: with_about(body, invocation),
        ..Draft::about(Kind::Intended, &call.header)
    }
}

/// Adds the call's public members to the body of a row.
pub(crate) fn with_about(mut body: Value, invocation: Option<&dyn Invocation>) -> Value {
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
        ..Draft::new(Kind::Intended, "broker")
    }
}

/// What is left of a step when the borrow of its transaction ends; becomes a proof only by the commit.
#[derive(Debug)]
pub(super) enum Parts<E> {
    Start(Effect, Evidence),
    Close(E, Option<Answer>),
    Wait(E, RequestId),
    Ask(E),
}

impl<E> Step<'_, E> {
    pub(super) fn loosen(self) -> Parts<E> {
        match self {
            Self::Start(pending) => Parts::Start(pending.effect, pending.evidence),
            Self::Close(closing) => Parts::Close(closing.source, closing.answer),
            Self::Wait(event, of) => Parts::Wait(event, of),
            Self::Ask(asking) => Parts::Ask(asking.source),
        }
    }
}

impl<E: From<Effect>> Parts<E> {
    /// The event, as it was before it was handled.
    pub(super) fn undo(self) -> E {
        match self {
            Self::Start(effect, _) => effect.into(),
            Self::Close(event, _) | Self::Wait(event, _) | Self::Ask(event) => event,
        }
    }
}

impl<E> Parts<E> {
    /// Whether somebody hears of it at once, so that it must be synced first.
    pub(super) fn is_heard(&self) -> bool {
        matches!(self, Self::Close(_, Some(_)))
    }

    /// Returns whether somebody hears of it, and the reply rests on a row that is not synced.
    pub(super) fn must_last(&self, synced: i64) -> bool {
        matches!(self, Self::Close(_, Some(answer)) if answer.seq > synced)
    }

    /// Returns whether its commit must be synced: after it the request's file is removed, or an effect starts that is no
    /// harmless read.
    pub(super) fn cannot_wait(&self) -> bool {
        match self {
            Self::Ask(_) | Self::Start(Effect::Probe(_), _) => true,
            Self::Start(Effect::Run(call) | Effect::Prepare(call), _) => !call.is_harmless_read(),
            Self::Close(..) | Self::Wait(..) => false,
        }
    }

    /// Returns whether its end waits for a later sync: its reply rests on a row that is not synced, or it wrote so many
    /// bytes.
    pub(super) fn waits(&self, synced: i64, bytes: usize) -> bool {
        match self {
            Self::Close(_, Some(answer)) => answer.seq > synced,
            Self::Close(_, None) => bytes > 0,
            Self::Ask(_) | Self::Start(..) | Self::Wait(..) => false,
        }
    }

    /// Called after the commit, and only then.
    pub(super) fn committed(self) -> Committed<E> {
        match self {
            Self::Start(effect, evidence) => Committed::Start(Intended { effect, evidence }),
            Self::Close(event, answer) => Committed::Close(event, answer.map(Settled)),
            Self::Wait(event, of) => Committed::Wait(event, of),
            Self::Ask(event) => Committed::Ask(event),
        }
    }
}
