//! Requests to the daemon's process and not to the ledger: no row, and nothing is changed there.

use super::CommandDispatcher;
use super::approvals::ApprovalsRequest;
use crate::mailboxes::Mailboxes;
use crate::sockets::GroupSocket;
use engine::rights::Right;
use policy::facts::Outage;
use provider::connection::CHECK_TIMEOUT;
use provider::definitions::LISTING_TIMEOUT;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use shared::digest::Digest;
use shared::{Provider, limits};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

/// A request to the daemon's process.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ProcessRequest {
    /// List the tools of a server, with the broker's secrets.
    Look {
        /// The provider.
        provider: Provider,
    },
    /// Check the connections of providers, with their own credentials.
    Check {
        /// The providers.
        providers: BTreeSet<Provider>,
    },
    /// Check the connection of a provider with an account of a person.
    CheckAccount {
        /// The owner of the account, in the ledger's form.
        person: String,
        /// The provider.
        capability: Provider,
        /// The provider's name of the account.
        account_ref: String,
    },
    /// Put the accepted definitions of a provider in force.
    Exchange {
        /// The provider, as the configuration names it.
        provider: Provider,
        /// The digest that identifies the accepted definitions.
        digest: Digest,
    },
    /// Return the approval requests that the person may answer.
    Approvals(ApprovalsRequest),
    /// Return a link with which the person signs in to the inbox.
    WebLink,
    /// Stop the daemon.
    Stop,
    /// Read the configuration again.
    Reload,
    /// Return the state of the daemon.
    Hello,
}

impl ProcessRequest {
    /// Returns how long the process may take until it answers.
    pub(super) fn timeout(&self) -> Duration {
        match self {
            Self::Look { .. } => LISTING_TIMEOUT + limits::PROVIDER_MARGIN,
            Self::Check { .. } | Self::CheckAccount { .. } => CHECK_TIMEOUT + limits::PROVIDER_MARGIN,
            Self::Exchange { .. } | Self::Approvals(_) | Self::WebLink | Self::Stop | Self::Reload | Self::Hello => {
                limits::TIMEOUT_DEFAULT
            }
        }
    }

    /// The types of these requests.
    pub(super) const WORDS: [&str; 9] =
        ["look", "check", "check_account", "exchange", "approvals", "web_link", "stop", "reload", "hello"];

    /// Returns the right that it takes from a person.
    pub(super) fn right(&self) -> Right<'static> {
        match self {
            Self::Hello => Right::Known,
            Self::Approvals(_) | Self::WebLink => Right::Member,
            Self::Stop
            | Self::Reload
            | Self::Look { .. }
            | Self::Check { .. }
            | Self::CheckAccount { .. }
            | Self::Exchange { .. } => Right::Administer,
        }
    }
}

/// Returns the reply to [`ProcessRequest::WebLink`].
pub(super) fn web_link(dispatcher: &CommandDispatcher, person: &str) -> Value {
    match dispatcher.inbox.as_ref().map(|inbox| inbox.link(person)) {
        Some(Ok(link)) => json!({
            "status": "executed",
            "summary": link.url,
            "data": { "url": link.url, "person": person, "expires_at": link.expires_at },
        }),
        Some(Err(none)) => json!({ "status": "failed", "error": none.to_string() }),
        None => json!({
            "status": "denied",
            "error": "no inbox is served; add a [web] table with listen = \"127.0.0.1:7420\" to broker.toml, \
                      then: host-broker reload",
        }),
    }
}

/// Returns the reply to [`ProcessRequest::Hello`].
pub(super) fn hello(dispatcher: &CommandDispatcher) -> Value {
    let version = env!("CARGO_PKG_VERSION");
    let inspector = dispatcher.inspector.as_ref();
    json!({
        "status": "executed",
        "summary": format!("host-broker {version} is running."),
        "data": {
            "version": version,
            "pid": std::process::id(),
            "start": dispatcher.start,
            "web": dispatcher.inbox.as_ref().map(|inbox| inbox.address().url()),
            "callback": dispatcher.callback,
            "metrics": dispatcher.metrics,
            "policy": dispatcher.policy.as_ref().map(|policy| policy.borrow().clone()),
            "is_behind": dispatcher.ruleset_builder.as_ref().is_some_and(|builder| builder.is_behind()),
            "servers": servers(dispatcher),
            "sockets": sockets(dispatcher),
            "evidence": &*dispatcher.health.borrow(),
            "providers": providers(dispatcher),
            "unready": unready(dispatcher),
            "classifier_fault": inspector.and_then(|inspector| inspector.classifier_fault()),
            "limits": dispatcher.limits,
            "receiving": dispatcher.receiving.all(),
            "sinks": dispatcher.sinks.all(),
        },
    })
}

/// Returns the names of all providers.
fn providers(dispatcher: &CommandDispatcher) -> Vec<String> {
    dispatcher.catalogue.borrow().providers().map(|(name, _)| name.to_string()).collect()
}

/// Returns the providers that take no calls, with the reason, as the daemon's own environment has it.
fn unready(dispatcher: &CommandDispatcher) -> serde_json::Map<String, Value> {
    let catalogue = Arc::clone(&dispatcher.catalogue.borrow());
    let failing = catalogue.providers().filter_map(|(name, listed)| {
        let reason = listed.state.as_ref().err()?;
        Some((name.to_string(), json!({ "reason": reason, "lacks_secret": listed.outage == Outage::NoSecret })))
    });
    failing.collect()
}

/// Returns the state of the groups' sockets, by group.
fn sockets(dispatcher: &CommandDispatcher) -> serde_json::Map<String, Value> {
    let mailboxes = dispatcher.mailboxes.iter().flat_map(Mailboxes::mailboxes);
    let state = |socket: &GroupSocket| json!({ "open": socket.is_open(), "connections": socket.connections() });
    mailboxes.map(|mailbox| (mailbox.group.to_string(), state(&mailbox.socket))).collect()
}

/// Returns the health of the MCP servers, by provider.
fn servers(dispatcher: &CommandDispatcher) -> serde_json::Map<String, Value> {
    let catalogue = Arc::clone(&dispatcher.catalogue.borrow());
    let sources = catalogue.providers().filter_map(|(name, listed)| Some((name, listed.definitions.as_ref()?)));
    sources.map(|(name, source)| (name.to_string(), json!(source.health()))).collect()
}
