//! The daemon: whether it runs, its program, its configuration, its evidence and its addresses.

use super::Finding;
use crate::cli::Context;
use crate::cli::ask::running;
use crate::cli::home_reader::stale_policy;
use config::Config;
use config::web::Loopback;
use serde::Deserialize as _;
use serde_json::Value;
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use store::ledger::health::{CannotWrite, Verification};

/// The name of the daemon's program.
const PROGRAM: &str = "host-broker";

/// Asks the daemon for its state. Adds a finding if none answers. Only if none runs, its addresses must be free.
pub(super) fn hello(context: &Context, config: &Config, found: &mut Vec<Finding>) -> Option<Value> {
    match running(context) {
        Ok(Some(hello)) if hello.get("data").is_some() => Some(hello),
        Ok(Some(hello)) => {
            let said = hello.get("error").and_then(Value::as_str).unwrap_or_default();
            found.push(Finding::problem(
                "daemon",
                said,
                "for the cause: host-broker logs; correct it, then: host-broker reload",
            ));
            None
        }
        Ok(None) => {
            found.push(Finding::problem("daemon", "no daemon is running on this home", "host-broker serve"));
            found.extend(addresses(config));
            None
        }
        Err(error) => {
            found.push(Finding::error("daemon", &error));
            None
        }
    }
}

pub(super) fn examine(context: &Context, hello: Option<&Value>) -> Vec<Finding> {
    let Some(data) = hello.and_then(|hello| hello.get("data")) else { return Vec::new() };
    let mut found = vec![version(data), evidence(data)];
    found.extend(program(data));
    found.extend(connections(data));
    found.extend(hello.and_then(stale_policy).map(|(fault, remedy)| Finding::problem("policy", fault, remedy)));
    found.push(Finding::ok("daemon", format!("it runs on {}", context.home.path().display())));
    found
}

/// The channels and the sinks that fail.
fn connections(data: &Value) -> Vec<Finding> {
    let faults = data.get("receiving").and_then(Value::as_object).into_iter().flatten();
    let channels = faults.filter_map(|(channel, fault)| {
        let text = format!("answers of {channel} cannot be fetched: {}", fault.as_str()?);
        Some(Finding::problem("channels", text, "correct [[channels]] in broker.toml, then: host-broker reload"))
    });
    let sinks = data.get("sinks").and_then(Value::as_object).into_iter().flatten();
    let sinks = sinks.filter_map(|(sink, state)| {
        let text = format!("{sink} accepts no rows: {}", state.pointer("/failing/reason")?.as_str()?);
        Some(Finding::problem("sinks", text, "correct [[sinks]] in broker.toml, then: host-broker reload"))
    });
    channels.chain(sinks).collect()
}

/// Compares the program of the daemon's process with the file of that name. A process of another user, or beyond a
/// container, cannot be seen.
fn program(data: &Value) -> Option<Finding> {
    let pid = data.get("pid").and_then(Value::as_u64)?;
    replaced(&std::fs::read_link(format!("/proc/{pid}/exe")).ok()?)
}

/// Judges the link to the program, which the kernel marks once another file has taken the place of the program.
fn replaced(link: &Path) -> Option<Finding> {
    const CHECK: &str = "program";
    let link = link.to_str()?;
    let path = link.strip_suffix(" (deleted)");
    // Inside a container, the number can be that of another process.
    if Path::new(path.unwrap_or(link)).file_name()? != PROGRAM {
        return None;
    }
    Some(match path {
        Some(path) => Finding::warning(
            CHECK,
            format!("{path} was replaced or removed since the start of the daemon"),
            "restart the daemon with the present program: host-broker stop, then host-broker serve",
        ),
        None => Finding::ok(CHECK, format!("the daemon runs {link}")),
    })
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

/// The addresses that a daemon of this configuration listens on must be free.
fn addresses(config: &Config) -> Vec<Finding> {
    let addresses = [
        ("inbox", "`listen` in [web]", config.web.as_ref().map(|table| table.listen.address())),
        ("metrics", "`listen` in [metrics]", config.metrics.as_ref().map(|table| table.listen.address())),
        ("callback", "`callback` in [identity]", config.identity.callback.map(Loopback::address)),
    ];
    let address = |(check, setting, listen): (&str, &str, Option<SocketAddr>)| {
        let listen = listen?;
        Some(match TcpListener::bind(listen) {
            Ok(_free) => Finding::ok(check, format!("{listen} is free")),
            Err(error) => Finding::problem(
                check,
                format!("the daemon cannot listen on {listen}: {error}"),
                format!("end the program that listens there, or change {setting} of broker.toml"),
            ),
        })
    };
    addresses.into_iter().filter_map(address).collect()
}

#[cfg(test)]
mod tests {
    use super::super::State;
    use super::*;
    use serde_json::json;
    use shared::Timestamp;
    use store::ledger::health::Reason;

    #[test]
    fn another_version_and_a_replaced_program_are_warnings_with_the_commands_that_restart() {
        let own = env!("CARGO_PKG_VERSION");
        assert_eq!(version(&json!({ "version": own })).state, State::Ok);
        let other = version(&json!({ "version": "0.0.1" }));
        assert_eq!(other.state, State::Warning);
        assert!(other.text.contains("0.0.1") && other.text.contains(own), "{other:?}");
        assert!(other.remedy.unwrap().contains("host-broker stop"));
        let found = |link: &str| replaced(Path::new(link)).map(|found| found.state);
        assert_eq!(found("/usr/bin/host-broker"), Some(State::Ok));
        assert_eq!(found("/usr/bin/host-broker (deleted)"), Some(State::Warning));
        assert_eq!(found("/usr/bin/sleep (deleted)"), None);
    }

    #[test]
    fn the_evidence_is_judged_as_the_daemon_knows_it() {
        let found = |evidence: Value| evidence_of(&evidence);
        let broken = found(json!({ "verification": { "state": "broken", "row": 7, "error": "its hash differs" } }));
        assert_eq!(broken.state, State::Problem);
        assert!(broken.text.contains("row 7") && broken.text.contains("its hash differs"), "{broken:?}");
        assert!(broken.remedy.unwrap().contains("backup"));
        let since = Timestamp::from_millis(0);
        let full = CannotWrite { since, reason: Reason::DiskFull, error: "no space".to_owned() };
        let unwritable = found(json!({ "cannot_write": full, "verification": { "state": "waiting" } }));
        assert_eq!(unwritable.state, State::Problem);
        assert!(unwritable.text.contains("no space") && unwritable.remedy.unwrap().contains("make space"));
        let whole = found(json!({ "verification": { "state": "whole", "row": 7 } }));
        assert_eq!((whole.state, whole.text.as_str()), (State::Ok, "the rows up to 7 are verified"));
        let unfinished = found(json!({ "verification": { "state": "unfinished", "row": 8, "error": "it is locked" } }));
        assert_eq!((unfinished.state, found(json!({})).state), (State::Warning, State::Warning));
    }

    fn evidence_of(value: &Value) -> Finding {
        evidence(&json!({ "evidence": value }))
    }

    #[test]
    fn channels_and_sinks_that_fail_are_problems() {
        let found = connections(&json!({
            "receiving": { "phone": "the server refuses the token" },
            "sinks": { "archive": { "failing": { "reason": "no route" } }, "other": { "failing": null } },
        }));
        let texts: Vec<_> =
            found.iter().map(|found| (found.check.as_str(), found.state, found.text.as_str())).collect();
        let channel = ("channels", State::Problem, "answers of phone cannot be fetched: the server refuses the token");
        assert_eq!(texts, [channel, ("sinks", State::Problem, "archive accepts no rows: no route")]);
        assert!(found.iter().all(|found| found.remedy.as_ref().unwrap().contains("host-broker reload")));
    }
}
