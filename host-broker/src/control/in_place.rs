//! Commands without a daemon: the same transaction, in the process of the command line.

use super::{CommandDispatcher, ControlError, checked, refusal, seen_as_reply, wrong};
use crate::control::checks::Wanted;
use config::unlisted;
use engine::broker::Broker;
use engine::event::Event;
use engine::outcomes::report;
use engine::pipeline::run;
use engine::request::Command;
use kernel::call::Origin;
use kernel::{Committed, Ledger};
use serde_json::Value;
use shared::Provider;
use std::sync::Arc;
use store::Durability;

/// Lists the tools of a server, without a daemon.
///
/// # Errors
/// [`ControlError`].
pub fn look(
    ledger: &mut Ledger,
    broker: &mut Broker,
    dispatcher: &CommandDispatcher,
    runtime: &tokio::runtime::Handle,
    provider: &Provider,
) -> Result<Value, ControlError> {
    let person = dispatcher.person(dispatcher.uid).unwrap_or_else(|| unlisted(dispatcher.uid));
    let (event, mut seen) = match dispatcher.look(person, provider) {
        Ok(looking) => looking,
        Err(why) => return Ok(refusal(&why)),
    };
    probe(ledger, broker, runtime, vec![event])?;
    Ok(seen_as_reply(seen.try_recv().map_or_else(|_| Ok(Err("nothing was seen".to_owned())), Ok)))
}

/// Checks connections, without a daemon.
///
/// # Errors
/// [`ControlError`].
pub fn check(
    ledger: &mut Ledger,
    broker: &mut Broker,
    dispatcher: &CommandDispatcher,
    runtime: &tokio::runtime::Handle,
    wanted: Vec<Wanted>,
) -> Result<Value, ControlError> {
    let person = dispatcher.person(dispatcher.uid).unwrap_or_else(|| unlisted(dispatcher.uid));
    let (events, checking) = dispatcher.checks(&person, wanted);
    probe(ledger, broker, runtime, events)?;
    Ok(runtime.block_on(checking.found()))
}

/// Runs probes at once, each with its rows.
fn probe(
    ledger: &mut Ledger,
    broker: &mut Broker,
    runtime: &tokio::runtime::Handle,
    events: Vec<Event>,
) -> Result<(), ControlError> {
    let Some(filters) = broker.filters().cloned() else { return Ok(()) };
    let mut write = |broker: &mut Broker, events: Vec<Event>| {
        let batch = ledger.batch(Durability::Full, events, broker);
        match batch.unwritten.into_iter().next() {
            Some((_, error)) => Err(ControlError::Ledger(error)),
            None => Ok(batch.committed),
        }
    };
    let mut running = Vec::new();
    for committed in write(broker, events)? {
        if let Committed::Start(intended) = committed {
            let filters = Arc::clone(&filters);
            running.push(runtime.spawn(async move { run(intended, &filters).await }));
        }
    }
    for task in running {
        // Without an outcome, the next start closes the intent.
        let Ok(finished) = runtime.block_on(task) else { continue };
        for committed in write(broker, vec![finished])? {
            if let Committed::Close(Event::Finished(mut filtered), _) = committed {
                report(&mut filtered);
            }
        }
    }
    Ok(())
}

/// Executes a command without a daemon, in one transaction of the same broker.
///
/// # Errors
/// [`ControlError`]; nothing was changed.
pub fn administer(
    ledger: &mut Ledger,
    broker: &mut Broker,
    dispatcher: &CommandDispatcher,
    command: &Command,
) -> Result<Value, ControlError> {
    let command = match checked(command.clone(), true) {
        Ok(command) => command,
        Err(why) => return Ok(wrong(&why)),
    };
    let person = dispatcher.person(dispatcher.uid).unwrap_or_else(|| unlisted(dispatcher.uid));
    let request_id = dispatcher.request_id("cli")?;
    let event = dispatcher.command_request((person, request_id), command, Origin::Broker);
    let batch = ledger.batch(Durability::Full, vec![event], broker);
    if let Some((_, error)) = batch.unwritten.into_iter().next() {
        return Err(ControlError::Ledger(error));
    }
    let document = batch.committed.into_iter().find_map(|committed| match committed {
        Committed::Close(_, Some(settled)) => Some(settled.into_document().1),
        Committed::Close(_, None)
        | Committed::Start(_)
        | Committed::Wait(..)
        | Committed::Ask(_)
        | Committed::Notify(..)
        | Committed::Receive(..) => None,
    });
    match document.and_then(|document| serde_json::from_slice(&document).ok()) {
        Some(value) => Ok(value),
        None => Err(ControlError::NoAnswer { fault: "the command had no result".into() }),
    }
}
