//! Account linking: the five actions of every capability whose provider can link a person's account.
//!
//! ```text
//! auth_begin ─► an address (and perhaps a code) for the person to open
//! auth_complete ◄─ the address to which the page led, or the code that it showed
//! auth_poll ─► where there is nothing to bring back: whether the person is done
//! ```
//!
//! A provider implements a [`Linker`]. Everything else is here and the same for all providers. This module checks the
//! addresses that a person may open, and ties each answer to its link session. It seals the credential before any other
//! step uses it. A person decides whether the account is linked ([`crate::linking`]).
//!
//! Source: ash-capabilities, "capability.auth.begin" and "capability.auth.complete"; RFC 6749 and 8628 for the meaning
//! of the answers.

pub mod address;
mod auth_begin;
mod auth_complete;
mod auth_list;
mod auth_poll;
mod auth_unlink;

use crate::native::{self, SharedState};
use address::{Brought, Hosts};
use kernel::contract::{Failure, Found, Operation, Progress, SideOutput};
use kernel::execution::Execution;
use model::{ChatType, Ciphertext, Clock, Declaration, Flow, Place, Random, RecordKind};
use secrets::vault::seen_secrets::Credential;
use secrets::vault::{Vault, VaultError};
use serde_json::{Map, Value, json};
use shared::{AccountRef, Code, FlowId, Provider, Timestamp};
use std::fmt::Display;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use zeroize::Zeroizing;

/// How long a flow lives at most.
pub const FLOW_LIFE: Duration = Duration::from_secs(600);
/// How many flows of one person in one group are begun within the time that one lives.
pub const BEGUN_MAX: usize = 20;
/// The longest description of an account by its provider, in bytes of JSON. A person sees it in full, so it is short.
const SHOWN_MAX: usize = 4096;
/// The longest that goes back to a provider with a flow.
const STATE_MAX: usize = 16 * 1024;

/// A future that a linker returns.
pub type Linking<'a, T> = Pin<Box<dyn Future<Output = Result<T, Failure>> + Send + 'a>>;

/// The part of account linking that a provider implements.
pub trait Linker: Send + Sync {
    /// Begins a link session. `hint` is the person's own name for the account.
    ///
    /// # Errors
    /// [`Failure`]; nothing was begun.
    fn begin<'a>(
        &'a self,
        capability: &'a Provider,
        hint: Option<&'a str>,
        execution: &'a Execution,
    ) -> Linking<'a, Opened>;

    /// Completes a link session with the values that the person brought back.
    ///
    /// # Errors
    /// [`Failure`]; the session is over in every case.
    fn complete<'a>(
        &'a self,
        capability: &'a Provider,
        state: &'a Value,
        brought: &'a Brought,
        execution: &'a Execution,
    ) -> Linking<'a, Given>;

    /// Asks how far a flow is that needs nothing brought back.
    ///
    /// # Errors
    /// [`Failure`]; the flow can be asked about again, unless it says that it is over.
    fn poll<'a>(&'a self, capability: &'a Provider, state: &'a Value, execution: &'a Execution) -> Linking<'a, Polled>;
}

/// A flow, as a provider began it.
pub struct Opened {
    /// The page that the person is to open.
    pub auth_url: String,
    /// The code to be entered there.
    pub user_code: Option<String>,
    /// The kind of the link session, in the provider's word: `authorization_code`, `device_code`.
    pub flow_type: String,
    /// When it is over, if the provider says so.
    pub expires_at: Option<Timestamp>,
    /// How often the provider may be asked how far it is; `None` where something must be brought back.
    pub pace: Option<Duration>,
    /// The data that the provider needs back when the session continues.
    pub state: Value,
    /// The `state` that the address must come back with.
    pub expected: Option<String>,
}

/// An account, as a provider gave it.
pub struct Given {
    /// The provider's name of the account.
    pub account: AccountRef,
    /// The credential of the account, if the broker keeps it.
    pub credential: Option<Value>,
    /// Until when that can be used without being renewed; `None` where it does not end, or is the provider's affair.
    pub fresh_until: Option<Timestamp>,
    /// The provider's description of the account, for the person who decides.
    pub shown: Map<String, Value>,
}

/// How far a flow is.
pub enum Polled {
    /// The person is not done; asked again not before this time has passed, if that is another one.
    Pending(Option<Duration>),
    /// It is done.
    Given(Given),
}

/// The state that the linking actions of one capability share.
pub struct LinkContext {
    /// The capability.
    pub capability: Provider,
    /// The linker of its provider.
    pub linker: Arc<dyn Linker>,
    /// Where a person may be sent to.
    pub hosts: Hosts,
    /// In which kinds of chats the capability may be used.
    pub chat_types: Vec<ChatType>,
    /// How long its provider may take.
    pub deadline: Duration,
    /// The vault that seals credentials; `None` if no call is executed.
    pub vault: Option<Arc<Vault>>,
    /// Where handles come from.
    pub ids: Arc<dyn Random>,
    /// The time.
    pub clock: Arc<dyn Clock>,
}

impl SharedState for LinkContext {}

/// The actions.
///
/// # Errors
/// A fault of their own declaration.
pub fn operations(context: &Arc<LinkContext>) -> Result<Vec<Arc<dyn Operation>>, String> {
    let capability = &context.capability;
    let operations = [
        native::operation::<auth_begin::AuthBegin>(capability, context),
        native::operation::<auth_complete::AuthComplete>(capability, context),
        native::operation::<auth_poll::AuthPoll>(capability, context),
        native::operation::<auth_list::AuthList>(capability, context),
        native::operation::<auth_unlink::AuthUnlink>(capability, context),
    ];
    operations.into_iter().map(|operation| operation.map_err(|bad| bad.to_string())).collect()
}

impl LinkContext {
    /// Adds the entries that only this capability knows to the declaration of an action.
    fn declare(&self, declaration: &mut Declaration) {
        declaration.chat_types.clone_from(&self.chat_types);
        declaration.deadline = Some(self.deadline);
    }

    /// Seals the data that returns to the provider with this link session.
    fn sealed_state(&self, flow: &FlowId, state: &Value, execution: &Execution) -> Result<Ciphertext, Failure> {
        let person = person(execution)?;
        let record = Zeroizing::new(serde_json::to_vec(state).unwrap_or_default());
        if record.len() > STATE_MAX {
            return Err(bad_answer(&"the state of the link session is too long"));
        }
        let place =
            Place { what: RecordKind::Flow, person: &person, capability: &self.capability, name: flow.as_str() };
        self.vault()?.seal(&place, &record, execution).map_err(unsealed)
    }

    /// Returns the data that returns to the provider with this link session.
    fn state(&self, id: &FlowId, flow: &Flow, execution: &Execution) -> Result<Value, Failure> {
        let person = person(execution)?;
        let place = Place { what: RecordKind::Flow, person: &person, capability: &self.capability, name: id.as_str() };
        let state = self.vault()?.open(&place, &flow.sealed, execution).map_err(unopened)?;
        serde_json::from_slice(&state).map_err(|_damaged| unopened(VaultError::Damaged))
    }

    /// Seals the credential from the provider, and checks the description of the account.
    ///
    /// The description must hold nothing of the credential.
    fn found(&self, flow: &FlowId, given: Given, execution: &Execution) -> Result<Found, Failure> {
        let Given { account, credential, fresh_until, shown } = given;
        let shown = Value::Object(shown);
        if shown.to_string().len() > SHOWN_MAX {
            return Err(bad_answer(&"its description of the account is too long"));
        }
        let credential = match credential {
            None => None,
            Some(given) => {
                let credential =
                    Credential::new(given, account.as_str(), &shown).map_err(|unfit| bad_answer(&unfit))?;
                let person = person(execution)?;
                let (what, capability, name) = (RecordKind::Credential, &self.capability, account.as_str());
                let place = Place { what, person: &person, capability, name };
                Some(self.vault()?.seal_credential(&place, &credential, execution).map_err(unsealed)?)
            }
        };
        Ok(Found { flow: flow.clone(), account, shown, credential, fresh_until })
    }

    fn vault(&self) -> Result<&Vault, Failure> {
        self.vault.as_deref().ok_or_else(|| Failure::Unavailable { message: "the vault is not open".to_owned() })
    }
}

fn person(execution: &Execution) -> Result<String, Failure> {
    let person = execution.person().map(|person| person.key());
    person.ok_or_else(|| Failure::Refused { message: "the call has no identified person".into() })
}

/// Returns the failure for an answer of the provider that breaks the contract.
fn bad_answer(what: &dyn Display) -> Failure {
    Failure::InvalidOutput { message: what.to_string() }
}

/// Returns the failure for an answer that cannot be sealed. The provider has done its part, and the answer is lost.
fn unsealed(fault: VaultError) -> Failure {
    Failure::Unknown { message: fault.to_string() }
}

/// Returns the failure for session data that cannot be read any more.
fn unopened(fault: VaultError) -> Failure {
    Failure::Coded { code: Code::CapabilityAuthFlowInvalid, message: fault.to_string() }
}

/// Returns a refusal in the terms of this protocol.
fn no(code: Code, message: &str) -> Failure {
    Failure::Coded { code, message: message.to_owned() }
}

/// Returns the output that an action leaves to the broker.
fn aside(step: &'static str, progress: Progress) -> SideOutput {
    SideOutput { noted: json!({ "step": step }), progress: Some(progress), ..SideOutput::default() }
}

/// Why no more flows are begun.
pub fn too_many_flows() -> String {
    format!("{BEGUN_MAX} flows of this person were begun within the last ten minutes; wait a while.")
}

/// Creates a handle that cannot be guessed.
///
/// # Errors
/// There is no randomness.
pub fn handle(capability: &Provider, ids: &dyn model::Random) -> Result<FlowId, model::NoRandomness> {
    let mut random = [0; 16];
    ids.fill(&mut random)?;
    Ok(FlowId::of(capability, random))
}
