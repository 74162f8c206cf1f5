//! Native actions: structs whose fields are the parameters.
//!
//! One struct is the parser, the JSON Schema and the documentation of its parameters; the trait demands guard and
//! summary, so forgetting one does not compile. [`operation`] erases it behind the contract.

use crate::accounts::CallAccount;
use jsonschema::Validator;
use kernel::contract::{
    Failure, Guard, InverseError, Invocation, LinkedByOperator, NestedRequest, Operation, Probed, Proposed, Running,
    SideOutput, StoreInput, StoreRequest, Success, UsedAccount,
};
use kernel::execution::Execution;
use model::{
    Declaration, Destination, DestinationKind, EffectMarker, Exposure, Nonce, ParamError, ProposalId, Renewal,
    SealedRequest, Tier,
};
use schemars::JsonSchema;
use schemars::generate::Contract;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use shared::{Action, Code, Level, Provider, Timestamp};
use std::future::Future;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

/// The state that all actions of a provider share: settings, clients.
pub trait SharedState: Send + Sync + Sized + 'static {
    /// Returns the account of a call that has not been decided; `None` if the provider has one account for all, or none.
    fn account(&self) -> Option<CallAccount> {
        None
    }

    /// Returns the state of a call with this account.
    fn with_account(&self, _account: &CallAccount) -> Option<Self> {
        None
    }

    /// Returns the fault of a name of an account, as a sentence.
    fn account_fault(&self, _name: &str) -> Option<&'static str> {
        None
    }

    /// Returns whether two names are names of the same account.
    fn is_same_account(&self, one: &str, other: &str) -> bool {
        one == other
    }
}

/// An action known at compile time. The implementor's fields are its parameters; unknown ones must be refused
/// (`#[serde(deny_unknown_fields)]`).
pub trait NativeAction: DeserializeOwned + JsonSchema + Send + Sync + Sized + 'static {
    /// The state that all actions of the provider share: settings, clients.
    type Shared: SharedState;
    /// The facts that `prepare` fetches; `()` where the guard needs nothing from the remote.
    type Facts: Send + Sync + 'static;
    /// The documented shape of the result.
    type Output: Serialize + JsonSchema;

    /// The action's name.
    const NAME: &'static str;
    /// The least level it demands.
    const LEVEL: Level;
    /// The description of the action for an agent: one or two sentences.
    const DESCRIPTION: &'static str;
    /// Whether repeating it does no harm.
    const IDEMPOTENT: bool;
    /// The exposure of the action.
    const EXPOSES: Exposure;
    /// The kind of its destinations, if [`destinations`](NativeAction::destinations) names them.
    const DESTINATIONS: Option<DestinationKind> = None;
    /// A stricter tier than the level's own.
    const TIER: Option<Tier> = None;
    /// Whether it only describes a change, or takes such a description back.
    const PROPOSES: bool = false;
    /// Whether its results must come back as they are.
    const VERBATIM: bool = false;

    /// The parameters that may vary under a standing approval ([`Declaration::may_vary`]): never one that says where the
    /// data goes.
    const MAY_VARY: &[&str] = &[];

    /// Whether its result has a one-time value ([`SideOutput::one_time`]). Its tier is then [`Tier::Human`].
    const REVEALS: bool = false;

    /// Adds the entries that depend on the settings of the provider to the declaration.
    fn declared(_shared: &Self::Shared, _declaration: &mut Declaration) {}

    /// The level that this very call demands.
    fn level(&self, _shared: &Self::Shared) -> Level {
        Self::LEVEL
    }

    /// One line made of public parts only.
    fn summary(&self) -> String;

    /// Returns the members that its record has beside the summary ([`Invocation::about`]).
    fn about(&self) -> Option<Value> {
        None
    }

    /// Checks whether the guardrails let it pass; `facts` are there once `prepare` has run.
    fn guard(&self, shared: &Self::Shared, facts: Option<&Self::Facts>, now: Timestamp) -> Guard;

    /// Returns every place to which its data goes, each as the kind [`DESTINATIONS`](NativeAction::DESTINATIONS) reads it
    /// ([`Invocation::destinations`]).
    fn destinations(&self, _shared: &Self::Shared) -> Option<Vec<Destination>> {
        None
    }

    /// Returns the condition that must still hold at the remote at execution, from the facts of `prepare`.
    fn precondition(&self, _facts: &Self::Facts) -> Option<Value> {
        None
    }

    /// The very request that [`NativeAction::run`] will send, with this nonce in it ([`Invocation::seal`]).
    fn seal(&self, _shared: &Self::Shared, _facts: Option<&Self::Facts>, _nonce: &Nonce) -> Option<SealedRequest> {
        None
    }

    /// Fetches the facts that the guard needs from the remote. Only called after [`Guard::NeedsRemote`].
    ///
    /// # Errors
    /// [`Failure`]; a read, nothing was changed.
    fn prepare(
        &self,
        _shared: &Self::Shared,
        _execution: &Execution,
    ) -> impl Future<Output = Result<Self::Facts, Failure>> + Send {
        async { Err(Failure::Refused { message: "this action has no remote facts".into() }) }
    }

    /// Returns the input that the action needs from the broker's own stores, beside its parameters.
    fn needs(&self) -> StoreRequest<'_> {
        StoreRequest::Nothing
    }

    /// Returns the call of another provider that it makes ([`Invocation::nested`]).
    fn nested(&self, _shared: &Self::Shared) -> Option<NestedRequest> {
        None
    }

    /// Converts the input from the stores to facts.
    fn supplied(_supplied: StoreInput) -> Option<Self::Facts> {
        None
    }

    /// Removes the part that is not for the caller from the result, and returns it.
    fn aside(_output: &mut Self::Output) -> Option<SideOutput> {
        None
    }

    /// Describes the change that undoes an applied proposal ([`Operation::inverse`]).
    ///
    /// # Errors
    /// [`InverseError`]; nothing was changed.
    fn inverse(_changes: &[u8], _id: ProposalId, _ttl: Duration) -> Result<Proposed, InverseError> {
        Err(InverseError::Unsupported)
    }

    /// Returns the handle that [`NativeAction::probe`] will need.
    fn probe_handle(&self, _facts: Option<&Self::Facts>, _planted: &EffectMarker) -> Option<Value> {
        None
    }

    /// Asks the remote whether the effect described by the handle happened.
    ///
    /// # Errors
    /// [`Failure`]; a read, nothing was changed.
    fn probe(
        _shared: &Self::Shared,
        _handle: Value,
        _execution: &Execution,
    ) -> impl Future<Output = Result<Probed, Failure>> + Send {
        async { Ok(Probed::State { message: "this action cannot be probed".into() }) }
    }

    /// Performs the action.
    ///
    /// # Errors
    /// [`Failure`] says whether anything may have been changed.
    fn run(
        self,
        shared: &Self::Shared,
        facts: Option<Self::Facts>,
        execution: &Execution,
    ) -> impl Future<Output = Result<(Self::Output, String), Failure>> + Send;
}

/// The erased form of a native action.
///
/// # Errors
/// [`BadDeclaration`] if its own name or schemas are wrong: a fault of the provider's author, found at start.
pub fn operation<A: NativeAction>(
    provider: &Provider,
    shared: &Arc<A::Shared>,
) -> Result<Arc<dyn Operation>, BadDeclaration> {
    let bad = |what: String| BadDeclaration { action: A::NAME, what };
    let input_schema = schema_of::<A>(Contract::Deserialize);
    let validator = jsonschema::options().build(&input_schema).map_err(|e| bad(e.to_string()))?;
    let account = shared.account();
    let mut declaration = Declaration {
        provider: provider.clone(),
        action: A::NAME.parse::<Action>().map_err(|e| bad(e.to_string()))?,
        level: A::LEVEL,
        tier: A::TIER,
        description: A::DESCRIPTION.to_owned(),
        input_schema,
        output_schema: Some(schema_of::<A::Output>(Contract::Serialize)),
        idempotent: A::IDEMPOTENT,
        exposes: A::EXPOSES,
        destinations: A::DESTINATIONS,
        deadline: None,
        proposes: A::PROPOSES,
        verbatim: A::VERBATIM,
        reveals: A::REVEALS,
        chat_types: account.as_ref().map(CallAccount::chat_types).unwrap_or_default(),
        needs_account: account.is_some(),
        may_vary: A::MAY_VARY.iter().copied().map(str::to_owned).collect(),
    };
    A::declared(shared, &mut declaration);
    if declaration.reveals && declaration.tier != Some(Tier::Human) {
        return Err(bad("an action with a one-time value needs the tier `human`".to_owned()));
    }
    Ok(Arc::new(Native::<A> { declaration, validator, shared: Arc::clone(shared), action: PhantomData }))
}

/// A native action declares something impossible.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("action `{action}` is declared wrongly: {what}")]
pub struct BadDeclaration {
    action: &'static str,
    what: String,
}

/// Returns the schema of the parsed or of the written form.
///
/// A field that is left out when empty is required in the one and not in the other.
fn schema_of<T: JsonSchema>(contract: Contract) -> Value {
    let settings = schemars::generate::SchemaSettings::draft2020_12().with(|s| {
        s.inline_subschemas = true;
        s.meta_schema = None;
        s.contract = contract;
    });
    settings.into_generator().into_root_schema_for::<T>().into()
}

/// The most faults that one refusal names. A caller that corrects them hears of the others with the next call.
const FAULTS_MAX: usize = 20;

/// The faults of the parameters against their schema, without their values.
pub fn faults(validator: &Validator, params: &Value) -> Vec<ParamError> {
    validator
        .iter_errors(params)
        .take(FAULTS_MAX)
        .map(|error| ParamError { pointer: error.instance_path().to_string(), fault: error.masked().to_string() })
        .collect()
}

struct Native<A: NativeAction> {
    declaration: Declaration,
    validator: Validator,
    shared: Arc<A::Shared>,
    action: PhantomData<fn() -> A>,
}

struct Typed<A: NativeAction> {
    params: A,
    facts: Option<A::Facts>,
    account: Option<CallAccount>,
    shared: Arc<A::Shared>,
}

impl<A: NativeAction> Typed<A> {
    /// Takes the account that the call uses.
    fn use_account(&mut self, used: UsedAccount) {
        let Some(account) = &mut self.account else { return };
        account.supply(used);
        if let Some(shared) = self.shared.with_account(account) {
            self.shared = Arc::new(shared);
        }
    }
}

impl<A: NativeAction> Operation for Native<A> {
    fn declaration(&self) -> &Declaration {
        &self.declaration
    }

    fn fills_defaults(&self) -> bool {
        // The schema has them from the type that parses the parameters.
        true
    }

    fn account_fault(&self, name: &str) -> Option<&'static str> {
        self.shared.account_fault(name)
    }

    fn is_same_account(&self, one: &str, other: &str) -> bool {
        self.shared.is_same_account(one, other)
    }

    fn linked_by_operator(&self) -> LinkedByOperator {
        self.shared.account().map_or(LinkedByOperator::Name, |account| account.linked_by_operator())
    }

    fn parse(&self, params: &Map<String, Value>) -> Result<Box<dyn Invocation>, Vec<ParamError>> {
        let mut params = params.clone();
        // Absent and `null` options mean the same.
        params.retain(|_, value| !value.is_null());
        let params = Value::Object(params);
        let faults = faults(&self.validator, &params);
        if !faults.is_empty() {
            return Err(faults);
        }
        match A::deserialize(params) {
            Ok(params) => {
                let (account, shared) = (self.shared.account(), Arc::clone(&self.shared));
                Ok(Box::new(Typed { params, facts: None, account, shared }))
            }
            // The schema is derived from the type, so this is a constraint that only the type knows.
            Err(_) => Err(vec![ParamError { pointer: String::new(), fault: "the parameters do not fit".into() }]),
        }
    }

    fn inverse(&self, changes: &[u8], id: ProposalId, ttl: Duration) -> Result<Proposed, InverseError> {
        A::inverse(changes, id, ttl)
    }

    fn probe(
        &self,
        handle: Value,
        account: Option<UsedAccount>,
        execution: Execution,
    ) -> Running<Result<Probed, Failure>> {
        let of_account = account.zip(self.shared.account()).and_then(|(used, mut account)| {
            account.supply(used);
            self.shared.with_account(&account)
        });
        let shared = of_account.map_or_else(|| Arc::clone(&self.shared), Arc::new);
        Box::pin(async move {
            let probed = A::probe(&shared, handle, &execution).await;
            // The text of this failure advises to call again. The effect must not be repeated.
            match probed {
                Err(Failure::Coded { code: Code::CapabilityAuthRequired, .. }) => {
                    Err(Failure::Unavailable { message: "the account cannot be used to look at the target".into() })
                }
                Ok(_) | Err(_) => probed,
            }
        })
    }
}

impl<A: NativeAction> Invocation for Typed<A> {
    fn level(&self) -> Level {
        self.params.level(&self.shared).max(A::LEVEL)
    }

    fn summary(&self) -> String {
        self.params.summary()
    }

    fn about(&self) -> Option<Value> {
        self.params.about()
    }

    fn guard(&self, now: Timestamp) -> Guard {
        self.params.guard(&self.shared, self.facts.as_ref(), now)
    }

    fn is_renewal_due(&self, now: Timestamp) -> bool {
        self.account.as_ref().is_some_and(|account| account.is_stale(now))
    }

    fn renew(mut self: Box<Self>, execution: Execution) -> Running<Result<Box<dyn Invocation>, Failure>> {
        Box::pin(async move {
            if let Some(account) = &mut self.account {
                account.renew(execution).await?;
            }
            let renewed: Box<dyn Invocation> = self;
            Ok(renewed)
        })
    }

    fn prepare(self: Box<Self>, execution: Execution) -> Running<Result<Box<dyn Invocation>, Failure>> {
        Box::pin(async move {
            let facts = self.params.prepare(&self.shared, &execution).await?;
            let prepared: Box<dyn Invocation> = Box::new(Self { facts: Some(facts), ..*self });
            Ok(prepared)
        })
    }

    fn destinations(&self) -> Option<Vec<Destination>> {
        self.params.destinations(&self.shared)
    }

    fn precondition(&self) -> Option<Value> {
        self.params.precondition(self.facts.as_ref()?)
    }

    fn seal(&self, nonce: &Nonce) -> Option<SealedRequest> {
        self.params.seal(&self.shared, self.facts.as_ref(), nonce)
    }

    fn needs(&self) -> StoreRequest<'_> {
        if self.account.is_some() { StoreRequest::Credential } else { self.params.needs() }
    }

    fn renewed(&self) -> Option<&Renewal> {
        self.account.as_ref()?.renewed()
    }

    fn nested(&self) -> Option<NestedRequest> {
        self.params.nested(&self.shared)
    }

    fn supply(&mut self, supplied: StoreInput) {
        match supplied {
            StoreInput::Credential(used) => self.use_account(used),
            supplied @ (StoreInput::Begun(_)
            | StoreInput::Flow(..)
            | StoreInput::Accounts(_)
            | StoreInput::Unlinked(_)
            | StoreInput::Changes(_)
            | StoreInput::Withdrawn(_)
            | StoreInput::Proposals(_)) => self.facts = A::supplied(supplied),
        }
    }

    fn probe_handle(&self, planted: &EffectMarker) -> Option<Value> {
        self.params.probe_handle(self.facts.as_ref(), planted)
    }

    fn run(self: Box<Self>, execution: Execution) -> Running<Result<Success, Failure>> {
        Box::pin(async move {
            let Self { params, facts, shared, account: _ } = *self;
            let (mut output, summary) = params.run(&shared, facts, &execution).await?;
            let aside = A::aside(&mut output).map(Box::new);
            match serde_json::to_value(output) {
                Ok(data) => Ok(Success { data, summary, aside }),
                Err(_) if A::LEVEL >= Level::Write && !A::REVEALS => {
                    Err(Failure::Unknown { message: "the result could not be written as JSON".into() })
                }
                Err(_) => Err(Failure::InvalidOutput { message: "the result could not be written as JSON".into() }),
            }
        })
    }
}
