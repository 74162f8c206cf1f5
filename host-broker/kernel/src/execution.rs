//! The right to perform one action once, and the only place that performs it.
//!
//! To audit: `Execution { ` is constructed in this file only, for [`execute`] of an [`Intended`], which only a commit makes.

use crate::call::{Call, NestedCall, Preparation};
use crate::contract::{Failure, Guard, Invocation, Operation, Probed, Success, can_be_nested};
use crate::proofs::{Effect, Intended};
use crate::run_handle::RunHandle;
use crate::slots::Slots;
use futures_util::FutureExt as _;
use model::{EffectMarker, Nonce, Person, Refusal, SealedRequest, StoredCredential, Subject};
use serde_json::{Map, Value};
use shared::reply::Evidence;
use shared::{Code, Group, IdempotencyKey, Level, RequestId, Timestamp, limits};
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::time::{Instant, timeout_at};

/// The context that an action runs with. Holding one proves that its intent is durable.
#[derive(Debug)]
pub struct Execution {
    planted: EffectMarker,
    group: Option<Group>,
    person: Option<Arc<Person>>,
    account: Option<String>,
    idempotency_key: Option<IdempotencyKey>,
    deadline: Instant,
    sealed: Option<SealedRequest>,
    run_handle: Arc<RunHandle>,
    slots: Slots,
    nested: Mutex<Option<Box<NestedRun>>>,
}

/// The right to run the nested call once.
struct NestedRun {
    operation: Arc<dyn Operation>,
    params: Map<String, Value>,
    field: String,
    level: Level,
    permitted_at: Timestamp,
    execution: Execution,
    has_begun: Arc<AtomicBool>,
}

impl std::fmt::Debug for NestedRun {
    /// Omits the parameters.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NestedRun").field("field", &self.field).finish_non_exhaustive()
    }
}

impl Execution {
    /// Runs the [nested call](crate::contract::Invocation::nested) with this value, once.
    ///
    /// The decision has judged the call with a placeholder in the place of the value.
    ///
    /// # Errors
    /// [`Failure`]: of the nested call, or because the value does not fit its parameter, or because there is none.
    pub async fn run_nested(&self, value: &str) -> Result<Success, Failure> {
        let nested = self.nested.lock().unwrap_or_else(PoisonError::into_inner).take();
        let NestedRun { operation, mut params, field, level, permitted_at, execution, has_begun } =
            *nested.ok_or_else(nothing_to_run)?;
        params.insert(field, Value::String(value.to_owned()));
        let unfit = || Failure::Refused { message: "The value does not fit the parameter.".to_owned() };
        let invocation = operation.parse(&params).map_err(|_faults| unfit())?;
        // The decision has judged the call with the placeholder.
        let is_as_judged =
            can_be_nested(operation.declaration(), invocation.as_ref(), &execution.planted, permitted_at)
                && invocation.guard(permitted_at) == Guard::Pass
                && invocation.level() <= level;
        if !is_as_judged {
            return Err(unfit());
        }
        has_begun.store(true, Ordering::Release);
        invocation.run(execution).await
    }

    /// Returns the request id.
    pub fn request_id(&self) -> &RequestId {
        &self.planted.request_id
    }

    /// Returns the nonce to plant into the effect, where the remote can hold one.
    pub fn nonce(&self) -> &Nonce {
        &self.planted.nonce
    }

    /// Returns the request that a person approved. The action sends exactly this request or none. Returns `None` if no
    /// person was asked, or if the action [seals](Invocation::seal) nothing.
    pub fn sealed(&self) -> Option<&SealedRequest> {
        self.sealed.as_ref()
    }

    /// Returns the group of the call; `None` for the broker's own probes.
    pub fn group(&self) -> Option<&Group> {
        self.group.as_ref()
    }

    /// Returns the person on whose behalf the action runs, if a token proved one.
    pub fn person(&self) -> Option<&Arc<Person>> {
        self.person.as_ref()
    }

    /// Returns the account, by the provider's name.
    pub fn account(&self) -> Option<&str> {
        self.account.as_deref().map(|name| model::owned(name).1)
    }

    /// Returns the owner of the account, in the ledger's form: the person, or another person who shares it.
    pub fn owner(&self) -> Option<String> {
        let shared = self.account.as_deref().and_then(|name| model::owned(name).0);
        shared.map(str::to_owned).or_else(|| self.person.as_ref().map(|person| person.key()))
    }

    /// Returns the idempotency key, if the caller gave one.
    pub fn idempotency_key(&self) -> Option<&IdempotencyKey> {
        self.idempotency_key.as_ref()
    }

    /// Returns the handle that reports progress and cancels the action.
    pub fn run_handle(&self) -> &Arc<RunHandle> {
        &self.run_handle
    }

    /// Returns the values that other crates keep with it.
    pub fn slots(&self) -> &Slots {
        &self.slots
    }

    /// Returns the time at which the action must be over. The broker stops waiting then.
    pub fn deadline(&self) -> Instant {
        self.deadline
    }
}

/// An effect that was attempted.
#[must_use]
#[derive(Debug)]
pub struct Executed {
    effect: Effect,
    intent: Evidence,
    result: Result<ProviderOutput, Failure>,
    took: Duration,
    slots: Slots,
    nested_begun: bool,
    attempted: Attempted,
}

/// Proof that an effect was attempted: the key to the token of the classifier, which inspects the result. It does not
/// prove that the text for the classifier is clean. `inspection` takes credentials out of it.
#[derive(Debug)]
pub struct Attempted(());

/// The output of an effect.
pub enum ProviderOutput {
    /// An action's result.
    Result(Success),
    /// The call, with its remote facts.
    Facts(Box<dyn Invocation>),
    /// The finding of a probe.
    Probe(Probed),
}

impl std::fmt::Debug for ProviderOutput {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Result(_) => "Result",
            Self::Facts(_) => "Facts",
            Self::Probe(_) => "Probe",
        })
    }
}

/// The number of bytes of text above which a result is bulky: filtering it takes some hundred microseconds.
const BULK: usize = 16 * 1024;

impl Executed {
    /// Returns whether the result is so large that filtering it takes long.
    pub fn is_bulky(&self) -> bool {
        match &self.result {
            Ok(ProviderOutput::Result(success) | ProviderOutput::Probe(Probed::Happened(success))) => {
                left_of(&success.data, BULK).is_none()
            }
            Ok(ProviderOutput::Facts(_) | ProviderOutput::Probe(Probed::Absent { .. } | Probed::State { .. }))
            | Err(_) => false,
        }
    }

    /// Spends the proof.
    pub fn into_parts(self) -> (Effect, Evidence, Result<ProviderOutput, Failure>, Duration, Attempted) {
        (self.effect, self.intent, self.result, self.took, self.attempted)
    }

    /// Returns the values that other crates kept with the execution.
    pub fn slots(&self) -> &Slots {
        &self.slots
    }

    /// Returns the credentials that must not come back, beside that of the account.
    pub fn kept_out(&self) -> &[StoredCredential] {
        match &self.effect {
            Effect::Run(call) | Effect::Prepare(call) => &call.kept_out,
            Effect::Probe(_) => &[],
        }
    }

    /// Returns whether the nested call was started.
    pub fn nested_begun(&self) -> bool {
        self.nested_begun
    }
}

/// Returns how much of a number of bytes the value leaves, or `None` if it is longer. It reads no further than that.
fn left_of(value: &Value, bytes: usize) -> Option<usize> {
    let own = match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 8,
        Value::String(text) => text.len() + 8,
        Value::Array(items) => return items.iter().try_fold(bytes.checked_sub(8)?, |left, item| left_of(item, left)),
        Value::Object(entries) => {
            return entries.iter().try_fold(bytes.checked_sub(8)?, |left, (name, item)| {
                left_of(item, left.checked_sub(name.len() + 8)?)
            });
        }
    };
    bytes.checked_sub(own)
}

/// The longest time that a probe may take.
const PROBE_TIMEOUT: Duration = Duration::from_secs(20);

/// Attempts the effect. Data leaves the host only here.
pub async fn execute(intended: Intended) -> Executed {
    let started = Instant::now();
    let (effect, intent) = intended.into_parts();
    let slots = Slots::default();
    let nested_begun = Arc::new(AtomicBool::new(false));
    let (effect, result) = match effect {
        Effect::Run(mut call) => {
            let execution = execution_for(&call, slots.clone());
            let nested = nested_run(&call, &execution, &nested_begun);
            let execution = Execution { nested: Mutex::new(nested), ..execution };
            let changes = call.mutating;
            let result = match call.target.start() {
                Some(_) if call.run_handle.is_withdrawn() => Err(not_begun()),
                Some(invocation) => guarded(changes, execution.deadline, invocation.run(execution)).await,
                None => Err(nothing_to_run()),
            };
            (Effect::Run(call), result.map(ProviderOutput::Result))
        }
        Effect::Prepare(mut call) => {
            let execution = execution_for(&call, slots.clone());
            let result = match call.target.start() {
                Some(_) if call.run_handle.is_withdrawn() => Err(not_begun()),
                Some(invocation) => {
                    let deadline = execution.deadline;
                    let preparing = match call.preparation {
                        Preparation::Renewal => invocation.renew(execution),
                        Preparation::Facts => invocation.prepare(execution),
                    };
                    guarded(false, deadline, preparing).await
                }
                None => Err(nothing_to_run()),
            };
            (Effect::Prepare(call), result.map(ProviderOutput::Facts))
        }
        Effect::Probe(probe) => {
            let deadline = started + probe.operation.declaration().deadline.unwrap_or(PROBE_TIMEOUT);
            let execution = Execution {
                planted: probe.planted.clone(),
                group: None,
                person: None,
                account: probe.account.clone(),
                idempotency_key: None,
                deadline,
                sealed: None,
                run_handle: Arc::default(),
                slots: slots.clone(),
                nested: Mutex::default(),
            };
            let (handle, account): (Value, _) = (probe.handle.clone(), probe.used.clone());
            let result = guarded(false, deadline, probe.operation.probe(handle, account, execution)).await;
            (Effect::Probe(probe), result.map(ProviderOutput::Probe))
        }
    };
    let nested_begun = nested_begun.load(Ordering::Acquire);
    Executed { effect, intent, result, took: started.elapsed(), slots, nested_begun, attempted: Attempted(()) }
}

fn execution_for(call: &Call, slots: Slots) -> Execution {
    Execution {
        planted: call.planted.clone(),
        group: call.header.caller.group().cloned(),
        person: match &call.header.behalf {
            Subject::Person(person) => Some(Arc::clone(person)),
            Subject::Nobody(_) => None,
        },
        account: call.account_ref.clone(),
        idempotency_key: call.idempotency_key.clone(),
        deadline: if call.applies.is_some() {
            // The call may have waited for a person, so the action gets its full time from now on.
            Instant::now() + limits::TIMEOUT_DEFAULT
        } else {
            call.header.provider_deadline()
        },
        sealed: call.sealed.clone(),
        run_handle: Arc::clone(&call.run_handle),
        slots,
        nested: Mutex::default(),
    }
}

/// Returns the right to run the nested call of an authorized call.
fn nested_run(call: &Call, outer: &Execution, has_begun: &Arc<AtomicBool>) -> Option<Box<NestedRun>> {
    let NestedCall { call, field, permitted_at } = call.nested.as_deref()?;
    Some(Box::new(NestedRun {
        operation: Arc::clone(call.target.operation()?),
        params: call.params.members()?.clone(),
        field: field.clone(),
        level: call.target.demanded(),
        permitted_at: (*permitted_at)?,
        // The secrets that either of the two sees are kept out of the result.
        execution: Execution {
            deadline: outer.deadline,
            run_handle: Arc::clone(&outer.run_handle),
            ..execution_for(call, outer.slots.clone())
        },
        has_begun: Arc::clone(has_begun),
    }))
}

/// A call that was withdrawn before it began.
fn not_begun() -> Failure {
    Failure::Guard(Refusal { code: Code::Cancelled, reason: Code::Cancelled.meaning().to_owned() })
}

/// Turns the deadline and panics into failures that say truly what may have been changed.
async fn guarded<T>(
    changes: bool,
    deadline: Instant,
    running: impl Future<Output = Result<T, Failure>>,
) -> Result<T, Failure> {
    match timeout_at(deadline, AssertUnwindSafe(running).catch_unwind()).await {
        Ok(Ok(result)) => result,
        Ok(Err(_panic)) if changes => Err(Failure::Unknown { message: "the provider failed inside".into() }),
        Ok(Err(_panic)) => Err(Failure::Unavailable { message: "the provider failed inside".into() }),
        Err(_elapsed) if changes => Err(Failure::Unknown { message: "no answer from the provider in time".into() }),
        Err(_elapsed) => Err(Failure::Timeout),
    }
}

/// Reports a fault of the broker itself: an intent is only written for a call with valid parameters.
fn nothing_to_run() -> Failure {
    Failure::Refused { message: "there was nothing to run".into() }
}
