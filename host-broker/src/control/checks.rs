//! The checks of connections: which providers an operator wants checked, and what each check found.

use super::{CommandDispatcher, EventSender};
use engine::event::Event;
use kernel::Finding;
use serde_json::{Map, Value, json};
use shared::Provider;
use std::sync::Arc;
use tokio::sync::oneshot;

/// A connection to be checked.
pub struct Wanted {
    provider: Provider,
    /// The account with its owner; `None` for the provider's own credential.
    account: Option<String>,
}

impl Wanted {
    /// The connection with the provider's own credential.
    pub fn own(provider: Provider) -> Self {
        Self { provider, account: None }
    }

    /// The connection with an account of this person.
    pub fn of_account(capability: Provider, person: &str, account_ref: &str) -> Self {
        Self { provider: capability, account: Some(format!("{person}/{account_ref}")) }
    }
}

/// The checks that were begun, and those that cannot be made.
pub(super) struct Checking(Vec<(Provider, Result<oneshot::Receiver<Finding>, Unchecked>)>);

/// Why a connection is not checked.
enum Unchecked {
    /// The provider has no check.
    NoCheck,
    /// The daemon uses a configuration without the provider.
    Unknown,
    /// The provider takes no calls.
    Unusable(String),
}

impl Checking {
    /// Waits for the findings. Returns the reply: `{status, data: {PROVIDER: {tried, ok, said, code}}}`. `ok` is `null` if
    /// nothing is known.
    pub(super) async fn found(self) -> Value {
        let untried = |said: &str| json!({ "tried": false, "ok": null, "said": said });
        let mut data = Map::new();
        for (provider, receiver) in self.0 {
            let document = match receiver {
                Ok(receiver) => match receiver.await {
                    Ok(Ok(said)) => json!({ "tried": true, "ok": true, "said": said }),
                    Ok(Err((code, reason))) => {
                        json!({ "tried": true, "ok": false, "said": reason, "code": code.word() })
                    }
                    Err(_gone) => {
                        let why = "it was not tried: a kill switch stops it, or an error does; for the reason: host-broker logs";
                        json!({ "tried": false, "ok": false, "said": why })
                    }
                },
                Err(Unchecked::NoCheck) => untried("not tried: this kind has no check"),
                Err(Unchecked::Unknown) => untried(
                    "not tried: the running daemon has no such provider; after a change of broker.toml: host-broker reload",
                ),
                Err(Unchecked::Unusable(reason)) => json!({ "tried": false, "ok": false, "said": reason }),
            };
            data.insert(provider.to_string(), document);
        }
        json!({ "status": "executed", "data": data })
    }
}

impl CommandDispatcher {
    /// Returns the probes that check these connections, and the receivers of their findings.
    pub(super) fn checks(&self, person: &str, wanted: Vec<Wanted>) -> (Vec<Event>, Checking) {
        let (mut events, mut checking) = (Vec::new(), Vec::new());
        for wanted in wanted {
            let begun = self.begin(person, &wanted).map(|(event, receiver)| {
                events.push(event);
                receiver
            });
            checking.push((wanted.provider, begun));
        }
        (events, Checking(checking))
    }

    fn begin(&self, person: &str, wanted: &Wanted) -> Result<(Event, oneshot::Receiver<Finding>), Unchecked> {
        let catalogue = Arc::clone(&self.catalogue.borrow());
        let listed = catalogue.provider(&wanted.provider).ok_or(Unchecked::Unknown)?;
        if let Err(reason) = &listed.state {
            return Err(Unchecked::Unusable(reason.clone()));
        }
        let operation = listed.connection.as_ref().ok_or(Unchecked::NoCheck)?;
        let probe = self.probe(person.to_owned(), ("check", Arc::clone(operation))).map_err(Unchecked::Unusable)?;
        let (report, receiver) = oneshot::channel();
        let probe = kernel::Probe { account: wanted.account.clone(), report: Some(report), ..probe };
        Ok((Event::Probe(Box::new(probe)), receiver))
    }
}

/// Checks connections through the running daemon.
pub(super) async fn through(
    dispatcher: &CommandDispatcher,
    reports: &EventSender,
    person: &str,
    wanted: Vec<Wanted>,
) -> Vec<u8> {
    let (events, checking) = dispatcher.checks(person, wanted);
    for event in events {
        reports.happened(event);
    }
    checking.found().await.to_string().into_bytes()
}
