//! The right to perform one action, once, and the one place that does.
//!
//! To audit: `Execution { ` is constructed in [`execute`] only, from an [`Intended`], which only a commit makes.

use crate::call::Call;
use crate::contract::{Failure, Invocation, Probed, Success};
use crate::proofs::{Effect, Intended};
use crate::run_handle::RunHandle;
use crate::slots::Slots;
use futures_util::FutureExt as _;
use model::{EffectMarker, Nonce, Person, SealedRequest, Subject};
use serde_json::Value;
use shared::reply::Evidence;
use shared::{Group, IdempotencyKey, RequestId, limits};
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, timeout_at};

/// What an action is given to run with. Holding one proves that its intent is durable.
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
}

impl Execution {
    /// The request.
    pub fn request_id(&self) -> &RequestId {
        &self.planted.request_id
    }

    /// The nonce to plant into the effect, where the remote can hold one.
    pub fn nonce(&self) -> &Nonce {
        &self.planted.nonce
    }

    /// The request that a person was asked about: that one is sent, or none. `None` where nobody was asked, or where the
    /// action [seals](Invocation::seal) nothing.
    pub fn sealed(&self) -> Option<&SealedRequest> {
        self.sealed.as_ref()
    }

    /// The group that asked; `None` for the broker's own probes.
    pub fn group(&self) -> Option<&Group> {
        self.group.as_ref()
    }

    /// On whose behalf, as far as a token proved it.
    pub fn person(&self) -> Option<&Arc<Person>> {
        self.person.as_ref()
    }

    /// Which account, as its provider calls it.
    pub fn account(&self) -> Option<&str> {
        self.account.as_deref().map(|name| model::owned(name).1)
    }

    /// Whose account it works with, as the ledger writes persons: the person's own, or one that is shared.
    pub fn owner(&self) -> Option<String> {
        let shared = self.account.as_deref().and_then(|name| model::owned(name).0);
        shared.map(str::to_owned).or_else(|| self.person.as_ref().map(|person| person.key()))
    }

    /// What makes a repeated call the same call, if the caller said so.
    pub fn idempotency_key(&self) -> Option<&IdempotencyKey> {
        self.idempotency_key.as_ref()
    }

    /// The progress of the action, and the way to cancel it.
    pub fn run_handle(&self) -> &Arc<RunHandle> {
        &self.run_handle
    }

    /// What other crates keep with it.
    pub fn slots(&self) -> &Slots {
        &self.slots
    }

    /// When the action must be over. The broker stops waiting then.
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
    attempted: Attempted,
}

/// Proves that an effect was attempted: the key to the token of the classifier, which looks at what came back. It does not
/// prove that the text for the classifier is clean; `inspection` takes credentials out of it.
#[derive(Debug)]
pub struct Attempted(());

/// What an effect brought back.
pub enum ProviderOutput {
    /// An action's result.
    Result(Success),
    /// The call, with the remote facts it needs.
    Facts(Box<dyn Invocation>),
    /// What a probe found.
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

/// More than this much text is bulky: filtering it takes some hundred microseconds.
const BULK: usize = 16 * 1024;

impl Executed {
    /// Whether it brought back so much that to filter it takes long.
    pub fn is_bulky(&self) -> bool {
        match &self.result {
            Ok(ProviderOutput::Result(success) | ProviderOutput::Probe(Probed::Happened(success))) => {
                left_of(&success.data, BULK).is_none()
            }
            Ok(ProviderOutput::Facts(_) | ProviderOutput::Probe(Probed::Absent { .. } | Probed::State { .. }))
            | Err(_) => false,
        }
    }

    /// Spends it.
    pub fn into_parts(self) -> (Effect, Evidence, Result<ProviderOutput, Failure>, Duration, Attempted) {
        (self.effect, self.intent, self.result, self.took, self.attempted)
    }

    /// What other crates have kept with the execution.
    pub fn slots(&self) -> &Slots {
        &self.slots
    }
}

/// What the value leaves of so many bytes, and `None` if it is longer. It looks no further than that.
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

/// How long a probe may take.
const PROBE_TIMEOUT: Duration = Duration::from_secs(20);

/// Attempts the effect. The only place in the broker where anything leaves the host.
pub async fn execute(intended: Intended) -> Executed {
    let started = Instant::now();
    let (effect, intent) = intended.into_parts();
    let slots = Slots::default();
    let (effect, result) = match effect {
        Effect::Run(mut call) => {
            let execution = execution_for(&call, slots.clone());
            let changes = call.mutating;
            let result = match call.target.start() {
                Some(invocation) => guarded(changes, execution.deadline, invocation.run(execution)).await,
                None => Err(nothing_to_run()),
            };
            (Effect::Run(call), result.map(ProviderOutput::Result))
        }
        Effect::Prepare(mut call) => {
            let execution = execution_for(&call, slots.clone());
            let result = match call.target.start() {
                Some(invocation) => guarded(false, execution.deadline, invocation.prepare(execution)).await,
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
                account: None,
                idempotency_key: None,
                deadline,
                sealed: None,
                run_handle: Arc::default(),
                slots: slots.clone(),
            };
            let handle: Value = probe.handle.clone();
            let result = guarded(false, deadline, probe.operation.probe(handle, execution)).await;
            (Effect::Probe(probe), result.map(ProviderOutput::Probe))
        }
    };
    Executed { effect, intent, result, took: started.elapsed(), slots, attempted: Attempted(()) }
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
            // It may have waited for a person; what is begun now is given the time that it takes.
            Instant::now() + limits::TIMEOUT_DEFAULT
        } else {
            call.header.provider_deadline()
        },
        sealed: call.sealed.clone(),
        run_handle: Arc::clone(&call.run_handle),
        slots,
    }
}

/// The deadline and panics become failures that tell the truth about what may have been changed.
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

/// An intent is only written for a call with valid parameters, so this is a fault of the broker itself.
fn nothing_to_run() -> Failure {
    Failure::Refused { message: "there was nothing to run".into() }
}
