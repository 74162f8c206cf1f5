//! A provider whose actions another author's program performs: `bridge-v1`, one process for each call.
//!
//! ```text
//! Call ─► request on its standard input ─► one envelope on its standard output ─► result
//!         with a context token made for it    strict, bounded, in time
//! ```
//!
//! A bridge has no catalogue of its own making: only the definitions that an operator has
//! [accepted](provider::pinned_definitions) count. The broker signs a token for the bridge and for this one call. Only
//! this token names the person on whose behalf it works.
//!
//! Source: ash-capabilities, "External Provider Bridge" and "Capability Definition".

pub mod checks;
pub mod definitions;
pub mod envelope;
mod linking;
mod table;

use provider::child::{Child, PUBLIC_KEY, SHARED_SECRET};
use provider::linking::address::Hosts;
use provider::native::faults;
use provider::schemas::validator;
use shared::numbers::counted;
pub use table::{KIND, Table};

use definitions::Registered;
use envelope::{BridgeReply, Method, Violation};
use filter::scrub::Scrubber;
use filter::{COMPLAINT_MAX, complaint};
use jsonschema::Validator;
use model::{
    Ciphertext, Clock, Declaration, EffectMarker, Exposes, Exposure, ParamError, Person, Place, Random, RecordKind,
};
use platform::commands::{Command, CommandError, Commands, Ending, Finished, Stream};
use provider::contract::{
    Execution, Failure, Guard, Invocation, Operation, Running, StoreInput, StoreRequest, Success, unprepared,
};
use schemars::JsonSchema;
use secrets::Secret;
use secrets::identity::issuers::OwnKey;
use secrets::identity::token;
use secrets::identity::token::ExpectedClaims;
use secrets::vault::Vault;
use secrets::vault::seen_secrets::SeenSecrets;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use shared::{Action, Code, Level, Provider, Timestamp};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// The most that a bridge may be given for a call, in seconds.
const SECONDS_MAX: u64 = 118;
/// How long the token for one call lives longer than the call may last: clocks differ.
const TOKEN_GRACE: Duration = Duration::from_secs(60);

/// The member of results and requests that holds a credential.
const CREDENTIAL: &str = "credential_material";

/// The settings of a bridge, in addition to those of its program.
///
/// ```toml
/// [providers.gog]
/// kind = "bridge"
/// command = ["/opt/gog/bridge"]
/// [providers.gog.exposes]
/// "gog.email.list_messages" = ["untrusted", "sensitive"]
/// ```
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// The prefix of the capabilities' names, which must be the provider's own name; absent means the same.
    #[serde(default)]
    pub namespace: Option<Provider>,
    /// The timeout of one call, in seconds: 1 to 118.
    #[serde(default = "seconds")]
    pub timeout_seconds: u64,
    /// The issuer in `[identity.issuers]` whose shared secret the bridge uses to verify tokens, as Ash's bridges do.
    /// The bridge receives the secret, so it can make tokens itself. Absent means tokens that only the broker can make.
    #[serde(default)]
    pub shares_secret_of: Option<String>,
    /// The hosts of the sign-in pages for account linking, such as `accounts.google.com`. Absent means that only people
    /// on the host can link accounts.
    #[serde(default)]
    pub auth_hosts: Vec<String>,
    /// Whether each `invoke` contains the linked account's credentials in the member `credential_material`. Use it for
    /// a program that stores nothing itself.
    #[serde(default)]
    pub hands_back_credentials: bool,
    /// The exposure of single operations, by `CAPABILITY.OPERATION`; absent means all of `untrusted`, `sensitive` and
    /// `egress`.
    #[serde(default)]
    pub exposes: BTreeMap<String, Vec<Exposes>>,
}

fn seconds() -> u64 {
    28
}

impl Settings {
    /// The keys.
    pub const KEYS: [&'static str; 6] =
        ["namespace", "timeout_seconds", "shares_secret_of", "auth_hosts", "hands_back_credentials", "exposes"];

    /// Returns the text for an entry of `exposes` that does not exist.
    pub fn unknown(&self, registered: &[Registered]) -> Option<String> {
        let is_there = |wanted: &String| {
            registered.iter().any(|capability| {
                let operations = capability.operations.iter();
                operations
                    .map(|operation| format!("{}.{}", capability.provider, operation.action))
                    .any(|n| n == *wanted)
            })
        };
        let unknown = self.exposes.keys().find(|name| !is_there(name))?;
        Some(format!("exposes: there is no operation `{unknown}`"))
    }

    /// Checks the settings against each other.
    ///
    /// # Errors
    /// One sentence without a period.
    pub fn check(&self, name: &Provider) -> Result<(), String> {
        if name.is_namespaced() {
            return Err(
                "kind: the capabilities of a bridge have names in two parts; it has a name without `.`".to_owned()
            );
        }
        // One name for the program and for its capabilities: a setting for the one applies to the other.
        if self.namespace.as_ref().is_some_and(|namespace| namespace != name) {
            return Err(format!("namespace: it must be the provider's own name, `{name}`"));
        }
        if !(1..=SECONDS_MAX).contains(&self.timeout_seconds) {
            return Err(format!("timeout_seconds must be 1 to {SECONDS_MAX}"));
        }
        Hosts::new(&self.auth_hosts)?;
        Ok(())
    }
}

/// The way in which a bridge learns the person on whose behalf it works.
#[derive(Debug)]
pub enum Vouching {
    /// By a token that the broker signs.
    Own(Arc<OwnKey>),
    /// By a token with the secret that it shares with this issuer. Only persons whom that issuer knows may use it,
    /// because the name of the person in it is the issuer's.
    Shared(String, Arc<Secret>),
}

/// A bridge that can be asked.
pub struct Bridge {
    /// The provider's name in the configuration, with which the names of its capabilities begin.
    pub name: Provider,
    /// The program, or why it cannot be started.
    pub child: Result<Child, String>,
    /// How long it may take.
    pub timeout: Duration,
    /// The way in which it learns the person; `None` for a request for its definitions.
    pub vouching: Option<Vouching>,
    /// Cleans its complaints, for the log.
    pub scrubber: Option<Arc<Scrubber>>,
    /// Whether a credential is passed back to it.
    pub hands_back: bool,
    /// The vault that opens the credential; `None` if no call is executed.
    pub vault: Option<Arc<Vault>>,
    /// The runner of its processes.
    pub commands: Arc<dyn Commands>,
    /// Where request ids come from.
    pub ids: Arc<dyn Random>,
    /// The time, for tokens.
    pub clock: Arc<dyn Clock>,
}

/// Why a bridge gave no result. The messages are for its author and the operator.
#[derive(Debug, thiserror::Error)]
pub enum BridgeError {
    /// Nothing was executed.
    #[error("it cannot be started: {0}")]
    Start(String),
    /// The sandbox was not created, so nothing was executed, as far as the output shows.
    #[error("cannot create sandbox: {0}")]
    Sandbox(String),
    /// It was not done in time and was stopped.
    #[error("it was not done within {} s and was stopped", .0.as_secs())]
    Slow(Duration),
    /// It wrote too much and was stopped.
    #[error("it wrote more than it may on standard {0} and was stopped")]
    Flood(&'static str),
    /// It ended badly.
    #[error("it ended with {how} and no envelope that says why")]
    Died {
        /// `status 1`
        how: String,
        /// Its standard error, for its author.
        said: String,
    },
    /// Its output is no answer.
    #[error("{0}")]
    Violation(#[from] Violation),
    /// It refuses the request.
    #[error("it says {code}: {message}")]
    Refused {
        /// The code, in its words.
        code: String,
        /// Why, in its words.
        message: String,
    },
}

impl BridgeError {
    /// Returns the kind of the fault, without any text of the program.
    fn kind(&self) -> &'static str {
        match self {
            Self::Start(_) => "it cannot be started",
            Self::Sandbox(_) => "its sandbox cannot be created",
            Self::Slow(_) => "it was not done in time",
            Self::Flood(_) => "it wrote too much",
            Self::Died { .. } => "it ended badly",
            Self::Violation(_) => "its answer breaks the protocol",
            Self::Refused { .. } => "it refuses the request",
        }
    }

    /// Returns the fault with the program's own text: for its author, if the program got no secret.
    pub fn in_full(&self) -> String {
        match self {
            Self::Died { said, .. } if !said.is_empty() => format!("{self}; on standard error it said:\n{said}"),
            Self::Died { .. }
            | Self::Start(_)
            | Self::Sandbox(_)
            | Self::Slow(_)
            | Self::Flood(_)
            | Self::Violation(_)
            | Self::Refused { .. } => self.to_string(),
        }
    }
}

impl Bridge {
    /// Returns its definitions, for which it gets no secret.
    ///
    /// # Errors
    /// [`BridgeError`].
    pub async fn definitions(&self) -> Result<Map<String, Value>, BridgeError> {
        let deadline = Instant::now() + self.timeout;
        let command = self.child()?.start(deadline, self.public_key());
        let command = command.map_err(|error| BridgeError::Start(error.to_string()))?;
        self.ask(Method::Definitions, &json!({}), command, None).await
    }

    async fn ask_for(
        &self,
        method: Method,
        params: &Value,
        execution: &Execution,
    ) -> Result<Map<String, Value>, BridgeError> {
        let variable = match &self.vouching {
            Some(Vouching::Shared(_, secret)) => vec![(SHARED_SECRET.into(), secret.expose(execution).into())],
            Some(Vouching::Own(_)) | None => self.public_key(),
        };
        let deadline = execution.deadline().min(Instant::now() + self.timeout);
        let command = self.child()?.start_for(execution, deadline, variable);
        let command = command.map_err(|error| BridgeError::Start(error.to_string()))?;
        self.ask(method, params, command, Some(execution)).await
    }

    fn child(&self) -> Result<&Child, BridgeError> {
        self.child.as_ref().map_err(|why| BridgeError::Start(why.clone()))
    }

    /// Returns the key that verifies its tokens, as a variable: no secret.
    fn public_key(&self) -> Vec<(OsString, OsString)> {
        match &self.vouching {
            Some(Vouching::Own(key)) => vec![(PUBLIC_KEY.into(), key.public_text().into())],
            Some(Vouching::Shared(..)) | None => Vec::new(),
        }
    }

    async fn ask(
        &self,
        method: Method,
        params: &Value,
        command: Command,
        execution: Option<&Execution>,
    ) -> Result<Map<String, Value>, BridgeError> {
        let id = envelope::fresh_id(self.ids.as_ref()).map_err(|error| BridgeError::Start(error.to_string()))?;
        let request = envelope::request(&id, &self.name, method.word(), params);
        let finished = self.exchange(request, command).await?;
        if !finished.stderr.is_empty() {
            // SECURITY: a method that makes a credential, or that gets one that is not known yet, may print it here.
            let said = match method {
                Method::AuthComplete | Method::AuthPoll => "(not shown, because it could be a credential)".to_owned(),
                Method::Definitions | Method::Invoke | Method::AuthBegin => {
                    self.cleaned(&String::from_utf8_lossy(&finished.stderr), execution)
                }
            };
            tracing::info!(provider = %self.name, said, "the bridge says on standard error");
        }
        answer(&finished, &id)
    }

    /// Returns its complaint as a line of the operator's log, without the credentials that the execution has seen.
    fn cleaned(&self, text: &str, execution: Option<&Execution>) -> String {
        const NOT_SHOWN: &str = "(it cannot be searched for the credential)";
        let Some(scrubber) = &self.scrubber else { return complaint(text, None) };
        match execution.map_or(Ok(None), |execution| scrubber.with_seen(&SeenSecrets::of(execution.slots()))) {
            Ok(wider) => complaint(text, Some(wider.as_ref().unwrap_or(scrubber))),
            Err(_too_long) => NOT_SHOWN.to_owned(),
        }
    }

    /// Runs one process: returns its output for this input.
    async fn exchange(&self, request: Vec<u8>, mut command: Command) -> Result<Finished, BridgeError> {
        command.stdin = Some(request);
        let started = Instant::now();
        let finished = self.commands.run(command).await.map_err(|fault| match fault {
            CommandError::NotFound(_) | CommandError::BadName(_) | CommandError::Start { .. } => {
                BridgeError::Start(fault.to_string())
            }
            CommandError::Deadline => BridgeError::Slow(started.elapsed()),
            CommandError::Write(_) | CommandError::Read(_) | CommandError::Wait(_) => {
                BridgeError::Died { how: fault.to_string(), said: String::new() }
            }
        })?;
        let child = self.child()?;
        if child.never_ran(&finished) {
            return Err(BridgeError::Sandbox(child.explained(&String::from_utf8_lossy(&finished.stderr))));
        }
        Ok(finished)
    }

    /// Returns a token for one call on this person's behalf, which only this bridge believes.
    fn token(&self, execution: &Execution) -> Result<String, Failure> {
        let refused = |message: &str| Failure::Refused { message: message.to_owned() };
        let person = execution.person().ok_or_else(|| refused("the call has no identified person"))?;
        let owner = execution.owner().unwrap_or_default();
        // With another's account it is asked for its owner, and told nothing of the chat, which is not that one's.
        let shared = (owner != person.key()).then(|| owner.split_once(':')).flatten();
        let other = shared.map(|(issuer, sub)| Person::new(issuer.to_owned(), sub.to_owned()));
        let person = other.as_ref().unwrap_or(person);
        let life = self.timeout + TOKEN_GRACE;
        let (jti, now) = (execution.nonce().as_str().to_owned(), self.clock.now());
        match &self.vouching {
            // Persons of two issuers may have one name.
            Some(Vouching::Own(key)) => {
                let wanted = ExpectedClaims::of(person, person.key(), execution.group());
                let claims = token::claims(&wanted, self.name.as_str(), jti, now, life);
                Ok(token::signed(&claims, |bytes| key.sign(bytes)))
            }
            Some(Vouching::Shared(issuer, secret)) if person.issuer == *issuer => {
                let wanted = ExpectedClaims::of(person, person.sub.clone(), execution.group());
                let claims = token::legacy_claims(&wanted, jti, now, life);
                Ok(token::legacy(&claims, |bytes| secret.sign(bytes, execution)))
            }
            Some(Vouching::Shared(..)) => Err(Failure::Coded {
                code: Code::CapabilityAccessDenied,
                message: "this capability knows only persons of another issuer".to_owned(),
            }),
            None => Err(Failure::Unavailable { message: "the broker's key is not there".to_owned() }),
        }
    }
}

/// Returns the answer of an ended process to the request of this id.
fn answer(finished: &Finished, id: &str) -> Result<Map<String, Value>, BridgeError> {
    let died = |how: String| {
        let said = String::from_utf8_lossy(&finished.stderr).trim().chars().take(COMPLAINT_MAX).collect();
        let how = match finished.exceeded {
            Some(limit) => format!("{how} ({limit})"),
            None => how,
        };
        Some(BridgeError::Died { how, said })
    };
    let died = match finished.ending {
        Ending::Exited(0) => None,
        Ending::Exited(status) => died(format!("status {status}")),
        Ending::Signalled(signal) => died(format!("signal {signal}")),
        Ending::Overflowed(Stream::Stdout) => return Err(BridgeError::Flood("output")),
        Ending::Overflowed(Stream::Stderr) => return Err(BridgeError::Flood("error")),
    };
    match (envelope::read(&finished.stdout, id), died) {
        (Ok(BridgeReply::Error { code, message }), _) => Err(BridgeError::Refused { code, message }),
        (Ok(BridgeReply::Result(result)), None) => Ok(result),
        (Ok(BridgeReply::Result(_)) | Err(Violation::Empty), Some(died)) => Err(died),
        (Err(violation), _) => Err(violation.into()),
    }
}

/// The operations of a capability.
///
/// # Errors
/// A schema that is none.
pub fn operations(
    bridge: &Arc<Bridge>,
    registered: &Registered,
    exposes: &BTreeMap<String, Vec<Exposes>>,
) -> Result<Vec<Arc<dyn Operation>>, String> {
    let of = |operation: &definitions::Operation| -> Result<Arc<dyn Operation>, String> {
        let name = format!("{}.{}", registered.provider, operation.action);
        let validator = validator(&operation.input_schema).map_err(|fault| format!("{name}: input_schema: {fault}"))?;
        let declaration = Declaration {
            provider: registered.provider.clone(),
            action: operation.action.clone(),
            level: operation.level,
            tier: operation.tier,
            description: operation.description.clone(),
            input_schema: operation.input_schema.clone(),
            output_schema: operation.output_schema.clone(),
            idempotent: !operation.mutating,
            exposes: exposes.get(&name).map_or(Exposure::ALL, |listed| Exposes::all(listed)),
            destinations: None,
            deadline: Some(bridge.timeout),
            proposes: false,
            verbatim: false,
            reveals: false,
            chat_types: registered.chat_types.clone(),
            needs_account: operation.requires_auth,
            may_vary: Vec::new(),
        };
        Ok(Arc::new(Performed { declaration, validator, bridge: Arc::clone(bridge) }))
    };
    registered.operations.iter().map(of).collect()
}

/// An operation of a capability.
struct Performed {
    declaration: Declaration,
    validator: Validator,
    bridge: Arc<Bridge>,
}

/// A call of one.
struct Asked {
    capability: Provider,
    operation: Action,
    level: Level,
    input: Map<String, Value>,
    bridge: Arc<Bridge>,
    works_with_credential: bool,
    sealed: Option<Ciphertext>,
}

impl Asked {
    /// Returns the credential of the account, if it is passed back.
    fn credential(&self, execution: &Execution) -> Result<Option<Value>, Failure> {
        let (Some(sealed), Some(vault)) = (&self.sealed, &self.bridge.vault) else { return Ok(None) };
        let person = execution.owner().unwrap_or_default();
        let name = execution.account().unwrap_or_default();
        let place = Place { what: RecordKind::Credential, person: &person, capability: &self.capability, name };
        let unusable = |why: String| Failure::Coded { code: Code::CapabilityAuthRequired, message: why };
        let credential = vault.open_credential(&place, sealed, execution);
        credential.map(|credential| Some(credential.given.clone())).map_err(|fault| unusable(fault.to_string()))
    }
}

impl Operation for Performed {
    fn declaration(&self) -> &Declaration {
        &self.declaration
    }

    fn parse(&self, params: &Map<String, Value>) -> Result<Box<dyn Invocation>, Vec<ParamError>> {
        let faults = faults(&self.validator, &Value::Object(params.clone()));
        if !faults.is_empty() {
            return Err(faults);
        }
        let Declaration { provider, action, level, .. } = &self.declaration;
        Ok(Box::new(Asked {
            sealed: None,
            works_with_credential: self.declaration.needs_account && self.bridge.hands_back,
            capability: provider.clone(),
            operation: action.clone(),
            level: *level,
            input: params.clone(),
            bridge: Arc::clone(&self.bridge),
        }))
    }
}

impl Invocation for Asked {
    fn level(&self) -> Level {
        self.level
    }

    fn summary(&self) -> String {
        format!("{} with {}", self.operation, counted(self.input.len(), "parameter", "parameters"))
    }

    fn guard(&self, _now: Timestamp) -> Guard {
        Guard::Pass
    }

    fn needs(&self) -> StoreRequest<'_> {
        if self.works_with_credential { StoreRequest::Credential } else { StoreRequest::Nothing }
    }

    fn supply(&mut self, supplied: StoreInput) {
        if let StoreInput::Credential(account) = supplied {
            self.sealed = account.credential.map(|(sealed, _until)| sealed);
        }
    }

    fn prepare(self: Box<Self>, _execution: Execution) -> Running<Result<Box<dyn Invocation>, Failure>> {
        unprepared(self)
    }

    fn probe_handle(&self, _planted: &EffectMarker) -> Option<Value> {
        None
    }

    fn run(self: Box<Self>, execution: Execution) -> Running<Result<Success, Failure>> {
        Box::pin(async move {
            let changes = self.level > Level::Read;
            let mut params = json!({
                "capability_id": self.capability,
                "operation": self.operation,
                "input_data": self.input,
                "account_ref": execution.account(),
                "idempotency_key": key(&execution),
                "context_token": self.bridge.token(&execution)?,
            });
            if let (true, Some(members)) = (self.works_with_credential, params.as_object_mut()) {
                members.insert(CREDENTIAL.to_owned(), json!(self.credential(&execution)?));
            }
            let mut result = self.bridge.ask_for(Method::Invoke, &params, &execution).await.map_err(|fault| {
                let why = self.bridge.cleaned(&fault.to_string(), Some(&execution));
                tracing::warn!(provider = %self.capability, operation = %self.operation, why, "the bridge failed");
                failure(fault, changes)
            })?;
            match (result.remove("output"), result.is_empty()) {
                (Some(output @ Value::Object(_)), true) => {
                    Ok(Success::new(output, format!("{} answered", self.operation)))
                }
                _ => Err(Failure::InvalidOutput { message: "its result is not an object `output` alone".into() }),
            }
        })
    }
}

/// Groups choose their keys for themselves; one person may ask in several, and several in one.
fn key(execution: &Execution) -> Option<String> {
    let key = execution.idempotency_key()?;
    let group = execution.group().map(shared::Group::as_str).unwrap_or_default();
    let person = execution.person().map(|person| person.key()).unwrap_or_default();
    Some(format!("{group}:{person}:{key}"))
}

/// Returns the failure for the caller, with whether anything may have been changed.
///
/// A program that ran without a proper answer may have had its effect before.
fn failure(fault: BridgeError, changes: bool) -> Failure {
    match fault {
        BridgeError::Start(_) | BridgeError::Sandbox(_) => {
            Failure::Unavailable { message: "it cannot be started; the operator's log says why".into() }
        }
        BridgeError::Slow(_) if !changes => Failure::Timeout,
        BridgeError::Slow(_) => Failure::Unknown { message: "it was not done in time".into() },
        BridgeError::Flood(_) | BridgeError::Violation(_) => Failure::InvalidOutput { message: fault.to_string() },
        BridgeError::Died { .. } if !changes => Failure::Unavailable { message: fault.to_string() },
        BridgeError::Died { .. } => Failure::Unknown { message: fault.to_string() },
        BridgeError::Refused { code, message } => match code.parse() {
            // Said before anything is done.
            Ok(
                code @ (Code::CapabilityAccessDenied
                | Code::CapabilityAuthRequired
                | Code::CapabilityAccountAmbiguous
                | Code::CapabilityAuthFlowInvalid
                | Code::CapabilityAuthFlowExpired
                | Code::CapabilityAuthFlowDenied
                | Code::CapabilityCodeMissing
                | Code::CapabilityCodeConflict
                | Code::CapabilityStateMismatch
                | Code::CapabilityInvalidInput),
            ) => Failure::Coded { code, message },
            // Every other fault leaves open how far the program had got.
            Ok(_) | Err(_) if changes => Failure::Unknown { message: format!("{code}: {message}") },
            Ok(code @ (Code::CapabilityBackendUnavailable | Code::CapabilityInvalidOutput)) => {
                Failure::Coded { code, message }
            }
            Ok(_) | Err(_) => Failure::Refused { message: format!("{code}: {message}") },
        },
    }
}

#[cfg(test)]
mod tests;
