//! A provider whose actions are the tools of an MCP server.
//!
//! ```text
//! Call ─► link, made when it is first needed and kept ─► are the tools the accepted ones? ─► tools/call ─► result
//!          started again when it has ended, but not at      a different one is withdrawn
//!          once if it ends again and again
//! ```
//!
//! A server has no catalogue of its own making. The configuration names the callable tools among the definitions that
//! an operator has [accepted](provider::pinned_definitions), each with its level. Later definitions of a server are
//! compared with those, and no agent sees them. A server's own requests are refused; a call is sent once.
//!
//! Source: Model Context Protocol, revisions up to 2026-07-28, "Tools".

pub mod accounts;
mod http;
mod link;
mod listener;
mod tool_listing;
mod pipe;
pub mod presets;
pub mod proposals;
mod result;
pub mod settings;
mod table;
pub mod tools;
pub mod upstream;

use provider::native::faults;
use provider::schemas::validator;
use shared::numbers::counted;
pub use table::{KIND, Table, Transport};

use accounts::Accounts;
use jsonschema::Validator;
use link::CallError;
use model::{Declaration, EffectMarker, Exposes, Exposure, ParamError, Refusal, Renewal};
use provider::accounts::CallAccount;
use provider::contract::{
    Execution, Failure, Guard, Invocation, LinkedByOperator, Operation, Running, StoreInput, StoreRequest, Success,
    unprepared,
};
use serde_json::{Map, Value};
use settings::Settings;
use shared::digest::Digest;
use shared::{Action, Code, Level, Timestamp};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout_at;
use tools::{Offered, result_schema};
use upstream::Upstream;

/// So long before its own end a call is given up that has not been sent: that nothing was done is then certain.
const ANSWER_MARGIN: Duration = Duration::from_millis(250);

/// The tools that are offered, as actions.
///
/// # Errors
/// A schema that is none.
pub fn operations(
    upstream: &Arc<Upstream>,
    offered: &[Offered<'_>],
    settings: &Settings,
    accounts: Option<&Arc<Accounts>>,
) -> Result<Vec<Arc<dyn Operation>>, String> {
    let timeout = Duration::from_secs(settings.timeout_seconds);
    let of = |tool: &Offered<'_>| -> Result<Arc<dyn Operation>, String> {
        let Offered { action, said, table } = *tool;
        let input_schema = said.input_schema();
        let validator = validator(&input_schema).map_err(|fault| format!("tools.{action}: {fault}"))?;
        let declaration = Declaration {
            provider: upstream.name().clone(),
            action: action.clone(),
            level: table.level,
            tier: table.tier,
            description: said.description().to_owned(),
            input_schema,
            output_schema: Some(result_schema(said.output_schema())),
            idempotent: table.idempotent,
            exposes: table.exposes.as_ref().map_or(Exposure::ALL, |listed| Exposes::all(listed)),
            destinations: None,
            deadline: Some(timeout),
            proposes: false,
            verbatim: false,
            reveals: false,
            chat_types: Vec::new(),
            needs_account: accounts.is_some(),
            may_vary: Vec::new(),
        };
        let (upstream, accounts) = (Arc::clone(upstream), accounts.cloned());
        Ok(Arc::new(Tool { declaration, accepted: said.digest(), validator, timeout, upstream, accounts }))
    };
    offered.iter().map(of).collect()
}

/// A tool of a server.
struct Tool {
    declaration: Declaration,
    // The digest of the accepted definitions.
    accepted: Digest,
    validator: Validator,
    timeout: Duration,
    upstream: Arc<Upstream>,
    accounts: Option<Arc<Accounts>>,
}

/// A call of one.
struct Asked {
    tool: Action,
    accepted: Digest,
    level: Level,
    timeout: Duration,
    arguments: Map<String, Value>,
    upstream: Arc<Upstream>,
    accounts: Option<(Arc<Accounts>, CallAccount)>,
}

impl Operation for Tool {
    fn declaration(&self) -> &Declaration {
        &self.declaration
    }

    fn withdrawn(&self) -> Option<Refusal> {
        self.upstream.withdrawn(&self.declaration.action, &self.accepted)
    }

    fn linked_by_operator(&self) -> LinkedByOperator {
        // Only a sign-in gives a token.
        if self.accounts.is_some() { LinkedByOperator::No } else { LinkedByOperator::Name }
    }

    fn parse(&self, params: &Map<String, Value>) -> Result<Box<dyn Invocation>, Vec<ParamError>> {
        let faults = faults(&self.validator, &Value::Object(params.clone()));
        if !faults.is_empty() {
            return Err(faults);
        }
        Ok(Box::new(Asked {
            tool: self.declaration.action.clone(),
            accepted: self.accepted,
            level: self.declaration.level,
            timeout: self.timeout,
            arguments: params.clone(),
            upstream: Arc::clone(&self.upstream),
            accounts: self.accounts.as_ref().map(|accounts| (Arc::clone(accounts), accounts.of_call())),
        }))
    }
}

impl Invocation for Asked {
    fn level(&self) -> Level {
        self.level
    }

    fn summary(&self) -> String {
        format!("{} with {}", self.tool, counted(self.arguments.len(), "parameter", "parameters"))
    }

    fn guard(&self, _now: Timestamp) -> Guard {
        Guard::Pass
    }

    fn is_renewal_due(&self, now: Timestamp) -> bool {
        self.accounts.as_ref().is_some_and(|(_, account)| account.is_stale(now))
    }

    fn needs(&self) -> StoreRequest<'_> {
        if self.accounts.is_some() { StoreRequest::Credential } else { StoreRequest::Nothing }
    }

    fn supply(&mut self, supplied: StoreInput) {
        if let (StoreInput::Credential(used), Some((_, account))) = (supplied, &mut self.accounts) {
            account.supply(used);
        }
    }

    fn prepare(self: Box<Self>, _execution: Execution) -> Running<Result<Box<dyn Invocation>, Failure>> {
        unprepared(self)
    }

    fn renew(mut self: Box<Self>, execution: Execution) -> Running<Result<Box<dyn Invocation>, Failure>> {
        Box::pin(async move {
            if let Some((_, account)) = &mut self.accounts {
                account.renew(execution).await?;
            }
            let renewed: Box<dyn Invocation> = self;
            Ok(renewed)
        })
    }

    fn renewed(&self) -> Option<&Renewal> {
        self.accounts.as_ref()?.1.renewed()
    }

    fn probe_handle(&self, _planted: &EffectMarker) -> Option<Value> {
        None
    }

    fn run(self: Box<Self>, execution: Execution) -> Running<Result<Success, Failure>> {
        Box::pin(async move {
            let Self { tool, accepted, level, timeout, arguments, upstream, accounts } = *self;
            execution.run_handle().listen();
            let upstream = match &accounts {
                Some((accounts, account)) => {
                    // The filter that keeps the token out of the log takes a while to build.
                    tokio::task::yield_now().await;
                    accounts.upstream(account, &execution)?
                }
                None => upstream,
            };
            let told = |failure, is_unknown| match &accounts {
                Some((_, account)) if is_unknown => account.refused("It answers 401 Unauthorized."),
                Some(_) | None => failure,
            };
            if !upstream.is_up() {
                // The start of a program reads directories, and must not delay the thread that serves every group.
                tokio::task::yield_now().await;
            }
            let before_the_end = execution.deadline().checked_sub(ANSWER_MARGIN).unwrap_or(execution.deadline());
            let Ok(link) = timeout_at(before_the_end, upstream.looked_at(&execution)).await else {
                return Err(Failure::Unavailable { message: "it was not ready in time, and was not asked".to_owned() });
            };
            let link = link.map_err(|failure| told(failure, upstream.does_not_know_who_asks()))?;
            if let Some(refusal) = upstream.withdrawn(&tool, &accepted) {
                return Err(Failure::Guard(refusal));
            }
            if execution.run_handle().is_cancelled() {
                let message = "it had not been asked yet".to_owned();
                return Err(Failure::Coded { code: Code::Cancelled, message });
            }
            let changes = level > Level::Read;
            let called = tokio::time::timeout(timeout, link.call(tool.as_str(), arguments, changes, &execution));
            match called.await {
                Ok(Ok(answered)) => {
                    let data = result::data(answered);
                    let how = if result::has_failed(&data) { "says that it failed" } else { "answered" };
                    Ok(Success::new(data, format!("{tool} {how}")))
                }
                Ok(Err(fault)) => {
                    let is_unknown = matches!(fault, CallError::Unauthorized);
                    Err(told(failure(fault, changes), is_unknown))
                }
                Err(_elapsed) if changes => Err(Failure::Unknown { message: "it was not done in time".to_owned() }),
                Err(_elapsed) => Err(Failure::Timeout),
            }
        })
    }
}

/// Returns the failure for the caller, with whether anything may have been changed.
fn failure(fault: CallError, changes: bool) -> Failure {
    let gone = || "it ended in the middle of the call".to_owned();
    match fault {
        CallError::NotSent => Failure::Unavailable { message: "it had ended before it was asked".to_owned() },
        CallError::Unauthorized => Failure::Refused { message: "it answers 401 Unauthorized".to_owned() },
        CallError::Failed(message) if changes => Failure::Unknown { message },
        CallError::Refused(message) | CallError::Failed(message) => Failure::Refused { message },
        CallError::NoResult(message) => Failure::InvalidOutput { message: message.to_owned() },
        CallError::Unwanted => Failure::Refused { message: "it was cancelled".to_owned() },
        CallError::Lost if changes => Failure::Unknown { message: gone() },
        CallError::Lost => Failure::Unavailable { message: gone() },
    }
}
