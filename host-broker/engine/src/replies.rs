//! Replies: the row of each way to end a request, and the reply that rests on it.
//!
//! No decision is made here. [`crate::broker`] chooses among these.

use crate::approval_requests;
use crate::broker::{Broker, WaitingRequest};
use crate::clean::{Filtered, Outcome, Shown};
use filter::inspect::Reason;
use kernel::authorize::Refusal;
use kernel::call::{Call, Header};
use kernel::contract::Invocation;
use kernel::{Answer, Effect, with_about};
use policy::decide::Decision;
use policy::explain::explain;
use policy::facts::Facts;
use serde_json::{Map, Value, json};
use shared::reply::{Notice, Status};
use shared::{Code, Reply, RequestId, limits};
use std::time::Duration;
use store::ledger::chain::{Draft, RowKind};
use store::ledger::minor::MinorRow;
use store::state::intents;
use store::state::one_time_values;
use store::state::replies;
use store::state::requests::Earlier;
use store::{StoreError, Transaction};

/// The time after which to ask again for a request that is not over yet.
const STILL_RUNNING_RETRY_MS: u64 = 1_000;

/// The reply to a repeated request.
enum Repeat {
    /// None: the reply of the first is on its way.
    Join,
    /// The stored reply.
    Again(Box<[u8]>),
    /// A refusal with this code.
    Refuse(Code),
    /// None: an answer would be taken for the answer of the first, which is still open.
    Silence,
}

impl Broker {
    /// Answers a request whose id was used before. The caller gets the stored reply only if it may have that result
    /// now.
    pub(crate) fn repeated(
        &self,
        tx: &Transaction<'_>,
        header: &Header,
        earlier: Earlier,
    ) -> Result<Option<Answer>, StoreError> {
        let same = earlier.request_digest == Some(header.request_digest);
        let repeat = match (same, earlier.open, earlier.reply) {
            (true, true, _) => Repeat::Join,
            // A reply without a result is repeated to every caller that had it.
            (true, false, Some(reply)) if says_no_more_than_a_refusal(&reply) => Repeat::Again(reply),
            (true, false, Some(reply)) => match self.may_have_result(tx, header, &header.request_id)? {
                Ok(()) => Repeat::Again(reply),
                Err(code) => Repeat::Refuse(code),
            },
            (false, true, _) => Repeat::Silence,
            (true | false, false, _) => Repeat::Refuse(Code::ReplayedRequest),
        };
        let code = match &repeat {
            Repeat::Join | Repeat::Again(_) => None,
            Repeat::Refuse(code) => Some(*code),
            Repeat::Silence => Some(Code::ReplayedRequest),
        };
        let notices = match &repeat {
            Repeat::Again(document) => notices_of(document),
            Repeat::Join | Repeat::Refuse(_) | Repeat::Silence => Vec::new(),
        };
        let delivers = delivers_value(tx, header, &header.request_id, &notices)?;
        let body = json!({ "request": header.request_digest });
        let row = append_delivery(tx, delivers, body, |body| Draft {
            reason_code: code,
            body,
            ..header.draft(if code.is_some() { RowKind::Refused } else { RowKind::Repeated })
        })?;
        Ok(match repeat {
            Repeat::Join | Repeat::Silence => None,
            Repeat::Again(document) => {
                let answer = kernel::answer_stored(header.request_id.clone(), document.into_vec(), row);
                Some(kernel::with_one_time_value(tx, header, &header.request_id, &notices, answer)?)
            }
            // Not kept: the reply of the first, if there is one, stays the reply under this id.
            Repeat::Refuse(code) => {
                Some(kernel::answer_unkept(Reply::of_code(header.request_id.clone(), code, tx.now()), row))
            }
        })
    }
}

/// Returns whether a stored reply holds no result.
pub fn says_no_more_than_a_refusal(document: &[u8]) -> bool {
    let status = serde_json::from_slice::<Reply>(document).map(|reply| reply.status);
    matches!(status, Ok(Status::Denied | Status::Pending))
}

/// Handles a request under the id of a parked one, which waits for another and has no row yet. It gets no reply,
/// because the id belongs to the parked one. Its row is not under that id, which would then be taken.
pub(crate) fn while_parked(tx: &Transaction<'_>, header: &Header, parked: &WaitingRequest) -> Result<(), StoreError> {
    let same = parked.request_digest == header.request_digest;
    tx.append_minor(&Draft {
        person: header.behalf.key(),
        reason_code: (!same).then_some(Code::ReplayedRequest),
        body: json!({ "request": header.request_digest, "of_request": header.request_id }),
        ..Draft::new(if same { RowKind::Repeated } else { RowKind::Refused }, &header.caller_key)
    })
    .map(|_row| ())
}

/// Answers with the kept reply of another request, under this request's id. The ledger keeps one copy: the first.
pub(crate) fn copy_of(tx: &Transaction<'_>, header: &Header, of: &RequestId) -> Result<Answer, StoreError> {
    let (reply, row) = copied(tx, header, of, true)?;
    answer_copy(tx, header, of, reply, row)
}

/// Answers with a copy of the reply of the request `of`. It has the one-time value unless another reply has it.
pub(crate) fn answer_copy(
    tx: &Transaction<'_>,
    header: &Header,
    of: &RequestId,
    reply: Reply,
    row: MinorRow,
) -> Result<Answer, StoreError> {
    let notices = reply.notices.clone();
    let answer = kernel::answer_copy(tx, header, reply, row)?;
    kernel::with_one_time_value(tx, header, of, &notices, answer)
}

/// Returns the notices of a stored reply.
fn notices_of(document: &[u8]) -> Vec<String> {
    serde_json::from_slice::<Reply>(document).map(|reply| reply.notices).unwrap_or_default()
}

/// Returns whether an answer with the stored reply of the request `of` takes its one-time value.
fn delivers_value(
    tx: &Transaction<'_>,
    header: &Header,
    of: &RequestId,
    notices: &[String],
) -> Result<bool, StoreError> {
    if !kernel::lacks_one_time_value(notices) {
        return Ok(false);
    }
    let source = replies::answered_by(tx.view(), tx.steady(), &header.caller_key, of)?;
    one_time_values::is_free(tx, &header.caller_key, &source)
}

/// Appends the row of an answer. The delivery of a one-time value has a row of its own, which no other row stands for.
fn append_delivery<'a>(
    tx: &Transaction<'_>,
    delivers: bool,
    mut body: Value,
    draft: impl FnOnce(Value) -> Draft<'a>,
) -> Result<MinorRow, StoreError> {
    if !delivers {
        return tx.append_minor(&draft(body));
    }
    body.as_object_mut().map(|body| body.insert("delivers_one_time_value".to_owned(), true.into()));
    tx.append(&draft(body)).map(MinorRow::own)
}

/// Returns the same as a reply and its row. `takes_value` says whether the answer takes the one-time value.
pub(crate) fn copied(
    tx: &Transaction<'_>,
    header: &Header,
    of: &RequestId,
    takes_value: bool,
) -> Result<(Reply, MinorRow), StoreError> {
    let stored = replies::find(tx, &header.caller_key, of)?;
    let reply = stored.and_then(|document| serde_json::from_slice::<Reply>(&document).ok());
    let code = if reply.is_some() { None } else { Some(Code::UnknownRequest) };
    let rests_on = reply.as_ref().and_then(|reply| reply.evidence).map(|evidence| evidence.seq);
    let body = json!({ "request": header.request_digest, "of_request": of, "rests_on": rests_on });
    let delivers = match &reply {
        Some(reply) if takes_value => delivers_value(tx, header, of, &reply.notices)?,
        Some(_) | None => false,
    };
    let row = append_delivery(tx, delivers, body, |body| Draft {
        reason_code: code,
        body,
        ..header.draft(RowKind::Answered)
    })?;
    let reply = match reply {
        Some(reply) => Reply { request_id: header.request_id.clone(), ..reply },
        None => Reply::of_code(header.request_id.clone(), Code::UnknownRequest, tx.now()),
    };
    Ok((reply, row))
}

/// Answers that the other request is not over yet, because this one's time is.
pub(crate) fn still_running(tx: &Transaction<'_>, header: &Header, of: &RequestId) -> Result<Answer, StoreError> {
    let (reply, row) = unfinished(tx, header, of)?;
    Ok(kernel::answer_unkept(reply, row))
}

/// Makes the same reply without keeping it.
pub(crate) fn unfinished(
    tx: &Transaction<'_>,
    header: &Header,
    of: &RequestId,
) -> Result<(Reply, MinorRow), StoreError> {
    let row = tx.append_minor(&Draft {
        reason_code: Some(Code::StillRunning),
        body: json!({ "request": header.request_digest, "of_request": of }),
        ..header.draft(RowKind::Answered)
    })?;
    let mut reply = Reply::of_code(header.request_id.clone(), Code::StillRunning, tx.now());
    reply.retry_after_ms = Some(STILL_RUNNING_RETRY_MS);
    Ok((reply, row))
}

/// Refuses a call: one row with everything that is known of it, and a reply with no more than the caller may know.
pub(crate) fn refused(tx: &Transaction<'_>, call: &Call, refusal: &Refusal) -> Result<Option<Answer>, StoreError> {
    let header = &call.header;
    let level = call.target.operation().map(|operation| operation.declaration().level);
    let row = tx.append_minor(&Draft {
        provider: Some(&call.provider),
        action: Some(&call.action),
        level: call.target.invocation().map(Invocation::level).max(level),
        params_digest: Some(call.params_digest),
        summary: call.target.invocation().map(Invocation::summary),
        reason_code: Some(refusal.code),
        task_id: call.task_id.as_ref(),
        body: about(json!({ "request": header.request_digest }), call),
        ..header.draft(RowKind::Refused)
    })?;
    let mut reply = Reply::of_reason(header.request_id.clone(), refusal.code, &refusal.reason, tx.now());
    let busy = (refusal.code == Code::Busy).then_some(limits::BUSY_RETRY);
    reply.retry_after_ms = millis(refusal.retry_after.or(busy));
    if call.is_resumed() {
        return approval_requests::answer(tx, &call.header, true, reply, row.receipt());
    }
    kernel::answer_minor(tx, &header.caller_key, reply, row).map(Some)
}

/// Adds the call's public members to the body of a row. A call of files whose parameters do not fit has them too.
fn about(body: Value, call: &Call) -> Value {
    let mut body = with_about(body, call.target.invocation());
    if let (None, Some(about), Some(members)) = (call.target.invocation(), &call.about_unparsed, body.as_object_mut()) {
        members.insert("about".to_owned(), about.0.clone());
    }
    body
}

/// Answers a dry run with the decision. Without authority the reply reveals no more than the refusal would.
pub(crate) fn explained(
    tx: &Transaction<'_>,
    call: &Call,
    facts: &Facts,
    decision: &Decision,
) -> Result<Option<Answer>, StoreError> {
    let header = &call.header;
    let mut data = explain(facts, decision);
    if let (false, Some(object)) = (decision.has_authority(), data.as_object_mut()) {
        object.remove("steps");
    }
    let row = tx.append_minor(&Draft {
        provider: Some(&call.provider),
        action: Some(&call.action),
        params_digest: Some(call.params_digest),
        body: json!({ "request": header.request_digest, "dry_run": true }),
        ..header.draft(RowKind::Answered)
    })?;
    let summary = "Decided only; nothing was executed.".to_owned();
    Ok(Some(kernel::answer_unkept(Reply::executed(header.request_id.clone(), data, summary, tx.now()), row)))
}

/// Makes the row that closes an intent.
pub(crate) fn outcome_row<'a>(filtered: &'a Filtered, closed: &'a intents::Closed) -> Draft<'a> {
    let (provider, action, task_id, person) = match &filtered.effect {
        Effect::Run(call) | Effect::Prepare(call) => {
            (&call.provider, &call.action, call.task_id.as_ref(), call.header.behalf.key())
        }
        Effect::Probe(probe) => {
            let declaration = probe.operation.declaration();
            (&declaration.provider, &declaration.action, None, None)
        }
    };
    let kind = filtered.row_kind();
    let (code, shown) = match &filtered.outcome {
        Outcome::Succeeded(shown) | Outcome::Probed { shown, .. } => (None, Some(shown)),
        Outcome::Prepared(_) => (None, None),
        Outcome::Failed { code, .. } => (Some(*code), None),
    };
    Draft {
        person,
        request_id: Some(&closed.request_id),
        provider: Some(provider),
        action: Some(action),
        reason_code: code,
        result_summary: shown.map(|shown| shown.summary.clone()),
        result_digest: shown.map(|shown| shown.digest),
        task_id,
        duration_ms: i64::try_from(filtered.took.as_millis()).ok(),
        body: outcome_body(filtered, closed, kind),
        ..Draft::new(kind, &closed.caller)
    }
}

fn outcome_body(filtered: &Filtered, closed: &intents::Closed, kind: RowKind) -> Value {
    let mut body = Map::from_iter([("of".to_owned(), json!(closed.seq)), ("stage".to_owned(), json!(closed.stage))]);
    // The finding of a probe is noted only if it settles an outcome.
    if let Some(aside) = filtered.aside.as_ref().filter(|_| kind == RowKind::Succeeded && closed.stage == "run") {
        body.insert("noted".to_owned(), aside.noted.clone());
    }
    if let Some(looked) = &filtered.looked {
        let reasons: Vec<&str> = looked.verdict.reasons().iter().map(Reason::word).collect();
        let inspected = json!({ "verdict": looked.verdict.word(), "reasons": reasons, "treatment": looked.treatment });
        body.insert("inspected".to_owned(), inspected);
    }
    Value::Object(body)
}

/// Makes the reply to the caller.
pub(crate) fn reply_to(id: RequestId, outcome: &Outcome, tx: &Transaction<'_>) -> Reply {
    match outcome {
        Outcome::Succeeded(shown) => success(id, shown, tx),
        Outcome::Failed { code, reason, retry_after, .. } => {
            let mut reply = Reply::of_reason(id, *code, reason, tx.now());
            reply.retry_after_ms = millis(*retry_after);
            reply
        }
        // Neither can be the outcome of a call's own action.
        Outcome::Prepared(_) | Outcome::Probed { .. } => Reply::of_code(id, Code::OutcomeUnknown, tx.now()),
    }
}

/// Makes the reply of a success, known now or later.
pub(crate) fn success(id: RequestId, shown: &Shown, tx: &Transaction<'_>) -> Reply {
    let mut reply = Reply::executed(id, shown.data.clone(), shown.summary.clone(), tx.now());
    reply.notices = shown.notices.iter().map(|notice| Notice::word(*notice).to_owned()).collect();
    reply
}

fn millis(duration: Option<Duration>) -> Option<u64> {
    duration.and_then(|duration| u64::try_from(duration.as_millis()).ok())
}
