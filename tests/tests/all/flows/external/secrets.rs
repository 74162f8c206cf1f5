//! The broker's own secrets in what external agents and operators send, and in what they would read.

use super::super::super::own_secrets::{SECRET, learn};
use super::super::operators::{ALL, Operator};
use super::*;

/// Attack (Order of the stages, and content): the same from an external agent or an operator
/// elsewhere, also in an address or a header
/// Defence: each HTTP request is searched whole
#[test]
fn requests_with_a_secret_of_the_broker_are_refused_and_stored_nowhere() {
    let mut world = builder("").down();
    learn(&world);
    world.keep_secret(SECRET);
    world.start();
    approved(&world, &bundle("1.0.0", "Note it.", &["note", "charge"]));
    let agent = Agent::with_access(&mut world, &json!({}));
    assert_eq!(agent.invoke("note", &json!({ "text": "hello" })).0, 200);
    let invoke = "/api/v1/flows/external-tools/note/invoke";
    for page in [
        agent.say("POST", invoke, &[], &json!({ "text": format!("so: {SECRET}") }).to_string()),
        agent.say("POST", invoke, &[("Idempotency-Key", SECRET)], "{}"),
        agent.say("GET", &format!("/api/v1/flows/external-calls/{SECRET}"), &[], ""),
        agent.say("POST", &format!("/api/v1/flows/external-tools/{SECRET}/invoke"), &[], "{}"),
        agent.say(
            "POST",
            "/mcp",
            &[("Accept", "application/json, text/event-stream")],
            &json!({
                "jsonrpc": "2.0", "id": 1, "method": "tools/call",
                "params": { "name": "note", "arguments": { "text": SECRET } },
            })
            .to_string(),
        ),
    ] {
        assert_eq!(page.status, 403, "{page:?}");
        assert!(page.text.contains("a secret of the broker") && !page.text.contains(SECRET), "{page:?}");
    }
    let operator = Operator::with(&mut world, &["--scopes", ALL]);
    let (status, reply) = operator.ask(&with("flow_propose", &bundle("1.1.0", SECRET, &[])));
    assert_eq!((status, code(&reply)), (403, "own_secret"), "{reply}");
    let refused = |caller: &str| {
        let rows = world.rows().into_iter();
        rows.filter(|row| row.caller == caller && row.reason_code.as_deref() == Some("own_secret")).count()
    };
    until("the rows", || {
        let of = [format!("outside:{}", agent.grant), format!("operator:{}", operator.token)];
        of.iter().all(|caller| refused(caller) > 0).then_some(())
    });
}

/// Attack (Order of the stages, and content): a text that was stored before the broker had the
/// secret is put on a card or into an external agent's projection
/// Defence: each finished card and projection is searched
#[test]
fn a_flow_that_holds_a_secret_of_the_brokers_own_is_shown_to_nobody() {
    let mut world = builder("").up();
    // The broker has the secret later than the flow.
    approved(&world, &bundle("1.0.0", &format!("Note {SECRET}."), &["note", "charge"]));
    assert_eq!(code(&flow(&world, &with("flow_propose", &bundle("1.1.0", SECRET, &[])))), "executed");
    let agent = Agent::with_access(&mut world, &json!({}));
    assert_eq!(agent.read("flow_daily").0, 200);
    world.stop();
    learn(&world);
    world.start();
    let agent = Agent { visitor: Visitor::of(&world), ..agent };
    let (status, read) = agent.read("flow_daily");
    assert_eq!(status, 403, "{read}");
    assert!(!read.to_string().contains(SECRET), "{read}");
    for kind in ["flow_get", "flow_export", "flow_approve"] {
        let asked = flow(&world, &version(kind, "1.1.0"));
        assert_eq!(code(&asked), "own_secret", "{kind}: {asked}");
        assert!(!asked.to_string().contains(SECRET), "{kind}: {asked}");
    }
    assert_eq!(world.query("SELECT 1 FROM approvals WHERE state = 'waiting'"), Vec::<Value>::new());
}
