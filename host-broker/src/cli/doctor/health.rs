//! The health of the providers in use: circuit breakers, servers and the credentials of accounts.

use super::Finding;
use crate::cli::Context;
use crate::cli::output::CliError;
use model::card::visible;
use platform::home::quoted;
use serde_json::Value;
use shared::Timestamp;
use std::path::Path;
use store::state::accounts;
use store::state::counters::{self, Used};
use store::{StoreError, View};

/// The most breakers that are listed.
const BREAKERS_MAX: u32 = 100;

pub(super) fn examine(context: &Context, hello: Option<&Value>) -> Vec<Finding> {
    let now = context.platform.clock.now();
    let mut found = servers(hello);
    // A ledger that cannot be read is a finding of its own.
    if let Some(ledger) = context.ledger_if_any().ok().flatten() {
        found.extend(
            recorded(&ledger, now)
                .unwrap_or_else(|error| vec![Finding::error("providers", &CliError::internal(&error))]),
        );
    }
    found
}

/// Returns the findings of the ledger.
fn recorded(ledger: &View, now: Timestamp) -> Result<Vec<Finding>, StoreError> {
    let breakers = counters::open_breakers(ledger, now, BREAKERS_MAX)?;
    let refusals = accounts::refusals(ledger)?;
    let accounts = refusals.iter().map(|((person, capability, account), at)| {
        refused((person.as_str(), capability.as_str(), account.as_str()), *at)
    });
    Ok(breakers.iter().filter_map(|used| breaker(used, now)).chain(accounts).collect())
}

/// A breaker that is open: no call of its caller reaches the provider.
fn breaker(used: &Used, now: Timestamp) -> Option<Finding> {
    let until = used.open_until.filter(|until| *until > now)?;
    let (caller, provider, faults) = (&used.caller, &used.provider, used.used);
    Some(Finding::problem(
        &format!("provider {provider}"),
        format!("calls of {caller} are refused until {until}, because of faults in a row: {faults}"),
        format!("host-broker provider check {provider}; the first call after that time tests the provider again"),
    ))
}

/// The servers that the daemon starts, as it knows them.
fn servers(hello: Option<&Value>) -> Vec<Finding> {
    let servers = hello.and_then(|hello| hello.pointer("/data/servers")).and_then(Value::as_object);
    servers.into_iter().flatten().flat_map(|(name, health)| server(name, health)).collect()
}

fn server(name: &str, health: &Value) -> Vec<Finding> {
    let check = format!("server {name}");
    let member = |name: &str| health.get(name).and_then(Value::as_str);
    let look = format!("host-broker provider check {name}; for its messages: host-broker logs");
    let state = match (member("state").unwrap_or_default(), member("fault")) {
        ("up" | "starting", _) => Finding::ok(&check, "it runs"),
        (_, Some(fault)) => Finding::problem(&check, format!("it did not start: {fault}"), look),
        ("down", None) => Finding::warning(&check, "it has ended; the next call starts it again", look),
        // An idle server costs nothing, so this is the usual state after a start.
        (_, None) => Finding::ok(&check, "it starts with the first call"),
    };
    let withdrawn = health.get("withdrawn").and_then(Value::as_object).into_iter().flatten();
    let withdrawn = withdrawn.map(|(tool, why)| {
        let text = format!("its tool {tool} is withdrawn: {}", why.as_str().unwrap_or_default());
        Finding::warning(&check, text, format!("to see the change and accept it: host-broker provider accept {name}"))
    });
    [state].into_iter().chain(withdrawn).collect()
}

/// An account whose credential the server refused last.
fn refused((person, capability, account): (&str, &str, &str), at: Timestamp) -> Finding {
    let [person_word, account_word] = [person, account].map(|word| quoted(Path::new(&visible(word))));
    Finding::warning(
        &format!("account {}", visible(account)),
        format!("the server of {capability} has refused the credential of {} at {at}", visible(person)),
        format!(
            "store a new password: host-broker account link {person_word} {capability} {account_word} --password-file FILE; \
             or have the person sign in again"
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::super::State;
    use super::*;
    use serde_json::json;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_millis(seconds * 1000)
    }

    fn breaker_until(until: Option<Timestamp>) -> Option<Finding> {
        let used = Used {
            caller: "group:developer".to_owned(),
            provider: "github".to_owned(),
            scope: "breaker".to_owned(),
            used: 5,
            daily_quota: None,
            rate_per_minute: None,
            taken: None,
            open_until: until,
        };
        breaker(&used, at(100))
    }

    #[test]
    fn an_open_breaker_is_a_problem_and_a_closed_one_is_none() {
        let found = breaker_until(Some(at(101))).unwrap();
        assert_eq!((found.check.as_str(), found.state), ("provider github", State::Problem));
        assert!(found.text.contains("faults in a row: 5") && found.text.contains("group:developer"), "{found:?}");
        assert!(found.remedy.unwrap().contains("host-broker provider check github"));
        assert_eq!((breaker_until(Some(at(100))), breaker_until(None)), (None, None));
    }

    #[test]
    fn a_server_is_judged_by_its_state_and_each_withdrawn_tool_is_named() {
        let states = |health: Value| server("web", &health).iter().map(|found| found.state).collect::<Vec<_>>();
        assert_eq!(states(json!({ "state": "up", "starts": 1, "fault": null })), [State::Ok]);
        assert_eq!(states(json!({ "state": "idle", "starts": 0, "fault": null })), [State::Ok]);
        assert_eq!(states(json!({ "state": "down", "starts": 2, "fault": null })), [State::Warning]);
        let hello = json!({ "data": { "servers": {
            "web": { "state": "down", "starts": 1, "fault": "it exited with 1", "withdrawn": { "get": "it has changed" } },
        } } });
        let found = servers(Some(&hello));
        assert_eq!(found.iter().map(|found| found.state).collect::<Vec<_>>(), [State::Problem, State::Warning]);
        assert_eq!(found[0].text, "it did not start: it exited with 1");
        assert!(found[0].remedy.as_ref().unwrap().contains("host-broker provider check web"));
        assert_eq!(found[1].text, "its tool get is withdrawn: it has changed");
        assert!(found[1].remedy.as_ref().unwrap().contains("host-broker provider accept web"));
    }

    #[test]
    fn an_account_that_was_refused_is_named_with_the_command_that_stores_a_new_password() {
        let found = refused(("broker:ann", "person.mail", "ann@example.com"), at(0));
        assert_eq!((found.check.as_str(), found.state), ("account ann@example.com", State::Warning));
        assert!(found.text.contains("person.mail") && found.text.contains("broker:ann"), "{found:?}");
        let command = "host-broker account link broker:ann person.mail ann@example.com --password-file FILE";
        assert!(found.remedy.as_ref().unwrap().contains(command), "{found:?}");
    }
}
