//! The daemon: whether it runs, its version, its configuration, its evidence and its inbox.

use super::Finding;
use crate::cli::Context;
use crate::cli::ask::running;
use config::Config;
use serde::Deserialize as _;
use serde_json::Value;
use std::net::TcpListener;
use store::ledger::health::{CannotWrite, Verification};

/// Asks the daemon for its state. Adds a finding if none answers.
pub(super) fn hello(context: &Context, found: &mut Vec<Finding>) -> Option<Value> {
    match running(context) {
        Ok(Some(hello)) if hello.get("data").is_some() => Some(hello),
        Ok(Some(hello)) => {
            let said = hello.get("error").and_then(Value::as_str).unwrap_or_default();
            found.push(Finding::problem("daemon", said, "read its log; correct the cause, then: host-broker reload"));
            None
        }
        Ok(None) => {
            found.push(Finding::problem("daemon", "no daemon is running on this home", "host-broker serve"));
            None
        }
        Err(error) => {
            found.push(Finding::error("daemon", &error));
            None
        }
    }
}

pub(super) fn examine(context: &Context, config: &Config, hello: Option<&Value>) -> Vec<Finding> {
    let Some(data) = hello.and_then(|hello| hello.get("data")) else {
        return inbox(config).into_iter().collect();
    };
    let mut found = vec![version(data), evidence(data)];
    let faults = data.get("receiving").and_then(Value::as_object).into_iter().flatten();
    found.extend(faults.filter_map(|(channel, fault)| {
        let text = format!("answers of {channel} cannot be fetched: {}", fault.as_str()?);
        Some(Finding::problem("channels", text, "correct [[channels]] in broker.toml, then: host-broker reload"))
    }));
    let sinks = data.get("sinks").and_then(Value::as_object).into_iter().flatten();
    found.extend(sinks.filter_map(|(sink, state)| {
        let text = format!("{sink} accepts no rows: {}", state.pointer("/failing/reason")?.as_str()?);
        Some(Finding::problem("sinks", text, "correct [[sinks]] in broker.toml, then: host-broker reload"))
    }));
    found.push(Finding::ok("daemon", format!("it runs on {}", context.home.path().display())));
    found
}

fn version(data: &Value) -> Finding {
    let (own, said) = (env!("CARGO_PKG_VERSION"), data.get("version").and_then(Value::as_str).unwrap_or("unknown"));
    if own == said {
        return Finding::ok("version", format!("the daemon has version {own}, as this program"));
    }
    Finding::warning(
        "version",
        format!("the daemon has version {said}, and this program {own}"),
        "restart the daemon with the present program: host-broker stop, then host-broker serve",
    )
}

/// The state of the ledger, as the daemon knows it.
fn evidence(data: &Value) -> Finding {
    const CHECK: &str = "evidence";
    let member = |name: &str| data.pointer(&format!("/evidence/{name}"));
    if let Some(CannotWrite { since, reason, error }) =
        member("cannot_write").and_then(|value| CannotWrite::deserialize(value).ok())
    {
        let text = format!("no row can be written since {since}, so no call is admitted: {error}");
        return Finding::problem(CHECK, text, reason.sentence());
    }
    let Some(verification) = member("verification").and_then(|value| Verification::deserialize(value).ok()) else {
        let text = "the daemon does not say whether the evidence is intact";
        return Finding::warning(CHECK, text, "host-broker evidence verify; update the daemon to this version");
    };
    match verification {
        Verification::Broken { row, error } => Finding::problem(
            CHECK,
            format!("row {row} is missing or changed, so no call is admitted: {error}"),
            "restore the ledger or the segment from a backup, then: host-broker reload",
        ),
        Verification::Unfinished { row, error } => Finding::warning(
            CHECK,
            format!("the verification stopped at row {row}: {error}"),
            "host-broker evidence verify",
        ),
        Verification::Whole { row } => Finding::ok(CHECK, format!("the rows up to {row} are verified")),
        Verification::Running { row, of } => Finding::ok(CHECK, format!("the rows up to {row} of {of} are verified")),
        Verification::Waiting => Finding::ok(CHECK, "the rows are not verified yet"),
    }
}

/// Without a daemon, its inbox must find its address free.
fn inbox(config: &Config) -> Option<Finding> {
    let listen = config.web.as_ref()?.listen.address();
    Some(match TcpListener::bind(listen) {
        Ok(_free) => Finding::ok("inbox", format!("{listen} is free")),
        Err(error) => Finding::problem(
            "inbox",
            format!("the inbox cannot listen on {listen}: {error}"),
            "end the program that listens there, or change `listen` in [web]",
        ),
    })
}
