//! The table of the calls of plans.

use super::approvals::changed_one;
use crate::{StoreError, Transaction, View, at};
use model::SealedRequest;
use model::plan::{PlanStep, StepState};
use rusqlite::{OptionalExtension as _, Row, params};
use shared::RequestId;
use shared::digest::Digest;

const COLUMNS: &str = "plan, step, request_id, provider, action, level, digest, asks, outcome, code";

fn select(view: &View, condition: &str, with: impl rusqlite::Params) -> Result<Vec<PlanStep>, StoreError> {
    let statement = format!("SELECT {COLUMNS} FROM plan_steps WHERE {condition}");
    let mut statement = view.prepare_cached(&statement).map_err(at("look the calls of a plan up"))?;
    let mut rows = statement.query(with).map_err(at("look the calls of a plan up"))?;
    let mut found = Vec::new();
    while let Some(row) = rows.next().map_err(at("look the calls of a plan up"))? {
        found.push(read(row)?);
    }
    Ok(found)
}

fn read(row: &Row<'_>) -> Result<PlanStep, StoreError> {
    let bad = |what: &'static str| StoreError::Stored { what };
    let text = |index: usize| row.get::<_, String>(index).map_err(at("read a call of a plan"));
    let number = |index: usize| row.get::<_, i64>(index).map_err(at("read a call of a plan"));
    let optional = |index: usize| row.get::<_, Option<String>>(index).map_err(at("read a call of a plan"));
    let state = match optional(8)? {
        None => StepState::Waiting,
        Some(word) => StepState::STORED.into_iter().find(|state| state.word() == word).ok_or_else(|| bad("outcome"))?,
    };
    Ok(PlanStep {
        plan: number(0)?,
        step: number(1)?,
        request_id: text(2)?.parse().map_err(|_bad| bad("request id"))?,
        provider: text(3)?.parse().map_err(|_bad| bad("provider"))?,
        action: text(4)?.parse().map_err(|_bad| bad("action"))?,
        level: crate::state::requests::level(number(5)?)?,
        digest: Digest::from_bytes(row.get(6).map_err(at("read a call of a plan"))?),
        asks: serde_json::from_str(&text(7)?).map_err(|_bad| bad("reasons"))?,
        state,
        code: optional(9)?,
    })
}

/// Adds a call to a plan, with its document and the request that it will send.
///
/// # Errors
/// [`StoreError`]; the plan must then not be stored either.
pub fn add(
    tx: &Transaction<'_>,
    caller: &str,
    step: &PlanStep,
    (document, sealed): (&[u8], Option<&SealedRequest>),
) -> Result<(), StoreError> {
    const INSERT: &str = "INSERT INTO plan_steps
        (plan, step, caller, request_id, provider, action, level, digest, asks, document, sealed)
        VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)";
    let asks = serde_json::to_string(&step.asks).map_err(|_bad| StoreError::Stored { what: "reasons" })?;
    let sealed = sealed.map(serde_json::to_string).transpose();
    let sealed = sealed.map_err(|_bad| StoreError::Stored { what: "sealed request" })?;
    let bytes = document.len() + sealed.as_ref().map_or(0, String::len);
    let insert = params![
        step.plan,
        step.step,
        caller,
        step.request_id.as_str(),
        step.provider.as_str(),
        step.action.as_str(),
        i64::from(step.level.number()),
        step.digest.as_bytes(),
        asks,
        document,
        sealed,
    ];
    changed_one(tx, INSERT, insert)?;
    tx.charge_bytes(caller, bytes)
}

/// Returns the calls of a plan, in their order.
///
/// # Errors
/// [`StoreError`] if they cannot be read.
pub fn of_plan(view: &View, plan: i64) -> Result<Vec<PlanStep>, StoreError> {
    select(view, "plan = ?1 ORDER BY step", params![plan])
}

/// Returns the call of a plan that runs under this request.
///
/// # Errors
/// [`StoreError`] if it cannot be read; the call must then not run.
pub fn of_request(view: &View, caller: &str, id: &RequestId) -> Result<Option<PlanStep>, StoreError> {
    let found = select(view, "caller = ?1 AND request_id = ?2", params![caller, id.as_str()])?;
    Ok(found.into_iter().next())
}

/// Returns the request that a call sends, if it has not started.
///
/// # Errors
/// [`StoreError`] if it cannot be read.
pub fn sealed(view: &View, step: &PlanStep) -> Result<Option<SealedRequest>, StoreError> {
    let found: Option<Option<String>> = view
        .prepare_cached("SELECT sealed FROM plan_steps WHERE plan = ?1 AND step = ?2")
        .and_then(|mut s| s.query_row(params![step.plan, step.step], |row| row.get(0)).optional())
        .map_err(at("look the request of a call up"))?;
    Ok(found.flatten().and_then(|text| serde_json::from_str(&text).ok()))
}

/// The document of a call, and the request that it sends.
pub type Stored = (Vec<u8>, Option<SealedRequest>);

/// Starts a call: returns its document and the request that it sends, and deletes both.
///
/// # Errors
/// [`StoreError`], also if it has started before or will not start.
pub fn start(tx: &Transaction<'_>, step: &PlanStep) -> Result<Stored, StoreError> {
    const SELECT: &str = "SELECT document, sealed FROM plan_steps WHERE plan = ?1 AND step = ?2 AND outcome IS NULL";
    const START: &str = "UPDATE plan_steps SET outcome = 'started', document = NULL, sealed = NULL
        WHERE plan = ?1 AND step = ?2 AND outcome IS NULL";
    let found: Option<(Option<Vec<u8>>, Option<String>)> = tx
        .view()
        .prepare_cached(SELECT)
        .and_then(|mut s| s.query_row(params![step.plan, step.step], |row| Ok((row.get(0)?, row.get(1)?))).optional())
        .map_err(at("start a call of a plan"))?;
    let Some((Some(document), sealed)) = found else { return Err(StoreError::Conflict { what: "call of a plan" }) };
    // An unreadable one counts as none: the approval of the call then does not hold.
    let sealed = sealed.and_then(|text| serde_json::from_str(&text).ok());
    changed_one(tx, START, params![step.plan, step.step])?;
    Ok((document, sealed))
}

/// Ends a call that has started.
///
/// # Errors
/// [`StoreError`], also if it has not started or has ended before.
pub fn end(tx: &Transaction<'_>, step: &PlanStep, state: StepState, code: Option<&str>) -> Result<(), StoreError> {
    const UPDATE: &str = "UPDATE plan_steps SET outcome = ?3, code = ?4
        WHERE plan = ?1 AND step = ?2 AND outcome = 'started'";
    changed_one(tx, UPDATE, params![step.plan, step.step, state.word(), code])
}

/// Ends the calls of a plan that have not started.
///
/// # Errors
/// [`StoreError`].
pub fn skip_rest(tx: &Transaction<'_>, plan: i64) -> Result<(), StoreError> {
    const UPDATE: &str = "UPDATE plan_steps SET outcome = 'skipped', document = NULL, sealed = NULL
        WHERE plan = ?1 AND outcome IS NULL";
    tx.view().prepare_cached(UPDATE).and_then(|mut s| s.execute(params![plan])).map_err(at("end a plan"))?;
    Ok(())
}
