//! Commands for the process and not for the ledger: no row, and nothing is changed.

use super::CommandDispatcher;
use engine::rights::Right;
use policy::facts::Outage;
use serde_json::json;
use std::sync::Arc;

/// A command that concerns the daemon itself.
pub(super) enum Own {
    WebLink,
    Stop,
    Reload,
    Hello,
    Look,
    Exchange,
    // It is no command, and this says why. Nothing is recorded, because nothing was asked.
    Wrong(String),
}

impl Own {
    /// Returns the right that it takes from a person.
    pub(super) fn right(&self) -> Right<'static> {
        match self {
            Self::Hello | Self::Wrong(_) => Right::Known,
            Self::WebLink => Right::Member,
            Self::Stop | Self::Reload | Self::Look | Self::Exchange => Right::Administer,
        }
    }

    /// Returns the answer of a running daemon.
    pub(super) fn answer(&self, person: &str, dispatcher: &CommandDispatcher) -> serde_json::Value {
        let version = env!("CARGO_PKG_VERSION");
        let inbox = dispatcher.inbox.as_ref();
        match self {
            Self::WebLink => match inbox.map(|inbox| inbox.link(person)) {
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
            },
            Self::Wrong(why) => super::wrong(why),
            Self::Look | Self::Exchange => super::refusal("it is no order"),
            Self::Stop => json!({ "status": "executed", "summary": "The daemon stops." }),
            Self::Reload => json!({ "status": "executed", "summary": "The daemon restarts." }),
            Self::Hello => json!({
                "status": "executed",
                "summary": format!("host-broker {version} is running."),
                "data": {
                    "version": version,
                    "pid": std::process::id(),
                    "start": dispatcher.start,
                    "web": inbox.map(|inbox| inbox.address().url()),
                    "callback": dispatcher.callback,
                    "is_behind": dispatcher.ruleset_builder.as_ref().is_some_and(|ruleset_builder| ruleset_builder.is_behind()),
                    "servers": servers(dispatcher),
                    "evidence": &*dispatcher.health.borrow(),
                    "unready": unready(dispatcher),
                    "classifier_fault": dispatcher.inspector.as_ref().and_then(|inspector| inspector.classifier_fault()),
                    "limits": dispatcher.limits,
                },
            }),
        }
    }
}

/// The providers that take no calls, with the reason, as the daemon's own environment has it.
fn unready(dispatcher: &CommandDispatcher) -> serde_json::Map<String, serde_json::Value> {
    let catalogue = Arc::clone(&dispatcher.catalogue.borrow());
    let failing = catalogue.providers().filter_map(|(name, listed)| {
        let reason = listed.state.as_ref().err()?;
        Some((name.to_string(), json!({ "reason": reason, "lacks_secret": listed.outage == Outage::NoSecret })))
    });
    failing.collect()
}

/// How the MCP servers are, by provider.
fn servers(dispatcher: &CommandDispatcher) -> serde_json::Map<String, serde_json::Value> {
    let catalogue = Arc::clone(&dispatcher.catalogue.borrow());
    let sources = catalogue.providers().filter_map(|(name, listed)| Some((name, listed.definitions.as_ref()?)));
    sources.map(|(name, source)| (name.to_string(), json!(source.health()))).collect()
}
