//! The check of a connection: whether the servers of a provider answer, and accept its credential.
//!
//! ```text
//! operator ─► probe of the check ─► intent ─► one harmless request ─► outcome row ─► the finding, cleaned
//! ```
//!
//! The check is a probe of the broker itself, so it has an intent and an outcome, and counts for no caller. It uses the
//! provider's own credential, or that of one account that the operator names. An agent cannot call it.

use crate::native::SharedState;
use kernel::contract::{Failure, Invocation, Operation, Probed, Running, UsedAccount, not_callable};
use kernel::execution::Execution;
use model::{Declaration, Exposure, ParamError};
use serde_json::{Map, Value, json};
use shared::{Level, Provider};
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

/// The longest time of a check.
pub const CHECK_TIMEOUT: Duration = Duration::from_secs(15);

/// A provider whose connection can be checked by a request that changes nothing and costs little.
pub trait Connects: SharedState {
    /// Contacts the servers. It signs in if the state has a credential. Without one, it only checks that the servers
    /// answer. Returns what was tried, as a sentence.
    ///
    /// # Errors
    /// [`Failure`]; a read, nothing was changed.
    fn connect(&self, execution: &Execution) -> impl Future<Output = Result<String, Failure>> + Send;
}

/// Returns the check of a provider with this state.
///
/// # Panics
/// Never: the word satisfies the grammar.
pub fn check<S: Connects>(provider: &Provider, shared: &Arc<S>) -> Arc<dyn Operation> {
    #[expect(clippy::expect_used, reason = "letters and a period satisfy the grammar")]
    let action = "connection.check".parse().expect("an action");
    let declaration = Declaration {
        description: "The check of the connection.".to_owned(),
        input_schema: json!({ "type": "object" }),
        idempotent: true,
        exposes: Exposure::NONE,
        deadline: Some(CHECK_TIMEOUT),
        ..Declaration::new(provider.clone(), action, Level::Read)
    };
    Arc::new(Check { declaration, shared: Arc::clone(shared) })
}

/// The check of one provider.
struct Check<S> {
    declaration: Declaration,
    shared: Arc<S>,
}

impl<S: Connects> Operation for Check<S> {
    fn declaration(&self) -> &Declaration {
        &self.declaration
    }

    fn parse(&self, _params: &Map<String, Value>) -> Result<Box<dyn Invocation>, Vec<ParamError>> {
        not_callable()
    }

    fn probe(
        &self,
        _handle: Value,
        account: Option<UsedAccount>,
        execution: Execution,
    ) -> Running<Result<Probed, Failure>> {
        let shared = Arc::clone(&self.shared);
        Box::pin(async move {
            let of_account = match account {
                None => None,
                Some(used) => {
                    let undecided = shared.account();
                    let of_account = undecided.and_then(|mut account| {
                        account.supply(used);
                        shared.with_account(&account)
                    });
                    Some(of_account.ok_or_else(unusable)?)
                }
            };
            let message = of_account.as_ref().unwrap_or(&shared).connect(&execution).await?;
            Ok(Probed::State { message })
        })
    }
}

/// SECURITY: a check of an account never falls back to another credential.
fn unusable() -> Failure {
    Failure::Refused { message: "the provider cannot use this account".to_owned() }
}
