//! Grants above the ceiling of the main group's agent: asked, and given after a yes to exactly this.

use serde_json::{Value, json};
use std::time::Duration;
use tests::group::{Group, code, error, with};
use tests::{World, until};

fn grant(level: u8) -> Value {
    json!({ "type": "ext_grant", "group_folder": "developer", "provider": "demo", "access_level": level })
}

/// Sends a grant that takes a person; the request's id and the question's code.
fn ask(world: &World, main: &Group, document: Value) -> (String, String) {
    let id = main.send(document);
    let approval_request = until("the approval request", || {
        let open = world.query("SELECT code, request_id FROM approvals WHERE kind = 'grant' AND state = 'waiting'");
        open.into_iter().find(|approval| approval["request_id"] == id.as_str())
    });
    (id, approval_request["code"].as_str().unwrap().to_owned())
}

fn answer(world: &World, code: &str, yes: bool) -> Value {
    world.command(json!({ "type": "answer", "code": code, "yes": yes }))
}

fn grants(world: &World) -> Vec<Value> {
    world.query("SELECT access_level, granted_by, expires_at, active FROM grants WHERE group_folder = 'developer'")
}

/// Attack: see `the_main_groups_agent_grants_up_to_its_ceiling_and_no_further`.
#[test]
fn a_grant_above_the_ceiling_is_given_after_a_yes_once_and_as_it_was_shown() {
    let world = World::new();
    let main = world.group("main");
    let (id, approval_request) = ask(&world, &main, with(grant(2), "expires_in_s", 600));
    let card = world.query("SELECT card, for_group FROM approvals").remove(0);
    assert_eq!(card["for_group"], "developer");
    let text = card["card"].as_str().unwrap();
    for shown in ["gives.access_level", "gives.actions[0]", "gives.expires_at", "instead_of", "may grant up to L1"] {
        assert!(text.contains(shown), "{shown}: {text}");
    }
    assert_eq!(grants(&world), [Value::Null; 0], "nothing is given while it waits");
    let asked = world.now();
    world.clock.advance(Duration::from_secs(60));
    assert_eq!(code(&answer(&world, &approval_request, true)), "executed");
    let reply = main.reply(&id);
    assert_eq!(reply["data"]["grant"]["access_level"], 2, "{reply}");
    let given = grants(&world).remove(0);
    assert_eq!(given["granted_by"], "person:operator", "an agent gives no more later than what the person agreed to");
    let expires = given["expires_at"].as_i64().unwrap();
    assert_eq!(expires, asked.millis() + 600_000, "the time that was shown is the time that is given");
    assert_eq!(world.kinds_of(&main, &id), ["asked", "granted"]);
    let rows = world.rows_of(&main, &id);
    assert_eq!(rows[1].approval, Some(format!("ask-{}", rows[0].seq)));
    assert_eq!(code(&world.group("developer").call("charge", json!({}))), "executed");
    assert_eq!(error(&answer(&world, &approval_request, true)).split(':').next(), Some("It is too late"));
}

#[test]
fn a_no_and_silence_give_nothing_and_are_told_apart() {
    let world = World::new();
    let main = world.group("main");
    let (denied, approval_request) = ask(&world, &main, grant(2));
    assert_eq!(code(&answer(&world, &approval_request, false)), "executed");
    assert_eq!(code(&main.reply(&denied)), "approval_denied");
    let (silent, _) = ask(&world, &main, grant(3));
    world.clock.advance(Duration::from_secs(301));
    assert_eq!(code(&main.reply(&silent)), "approval_expired");
    let (cancelled, approval_request) = ask(&world, &main, grant(3));
    assert_eq!(main.ask(json!({ "type": "ext_cancel", "of": cancelled }))["data"]["cancelled"], true);
    assert_eq!(code(&main.reply(&cancelled)), "cancelled");
    assert_eq!(code(&answer(&world, &approval_request, true)), "approval_expired");
    assert_eq!(grants(&world), [Value::Null; 0]);
}

/// Attack (Authority): A grant changes between the approval request and the approval.
/// Defence: The approval covers the shown change of the shown grant. Anything else is refused.
#[test]
fn a_yes_to_one_grant_is_none_to_another() {
    let world = World::new();
    let main = world.group("main");
    let (id, approval_request) = ask(&world, &main, grant(2));
    // The grant that it would replace is another one now.
    world.grant_with("developer", 1, json!({ "denied_actions": ["broken"] }));
    assert_eq!(code(&answer(&world, &approval_request, true)), "executed");
    assert_eq!(code(&main.reply(&id)), "approval_required");
    assert_eq!(grants(&world)[0]["access_level"], 1);
}

#[test]
fn an_equal_request_joins_the_open_question() {
    let world = World::new();
    let main = world.group("main");
    let (first, approval_request) = ask(&world, &main, grant(2));
    let second = main.ask(grant(2));
    assert_eq!(second["status"], "pending", "{second}");
    assert_eq!(world.query("SELECT id FROM approvals").len(), 1);
    answer(&world, &approval_request, true);
    assert_eq!(code(&main.reply(&first)), "executed");
    let later = main.ask(json!({ "type": "ext_result", "of": second["request_id"] }));
    assert_eq!(later["data"]["granted"], true, "{later}");
}

#[test]
fn a_question_about_a_grant_outlives_the_daemon_and_is_given_once() {
    let mut world = World::new();
    let main = world.group("main").by_files();
    let (id, approval_request) = ask(&world, &main, grant(2));
    world.restart();
    assert_eq!(code(&answer(&world, &approval_request, true)), "executed");
    assert_eq!(code(&main.reply(&id)), "executed");
    assert_eq!(world.kinds_of(&main, &id), ["asked", "granted"]);
}

#[test]
fn an_approver_of_one_group_cannot_grant_access_to_another() {
    let world = World::builder().down();
    let config = std::fs::read_to_string(world.path("broker.toml")).unwrap();
    world.rewrite("broker.toml", &config.replace("approves = {}", "approves = { groups = [\"main\"] }"));
    let mut world = world;
    world.start();
    let main = world.group("main");
    let (id, approval_request) = ask(&world, &main, grant(2));
    let refused = answer(&world, &approval_request, true);
    assert_eq!(code(&refused), "guardrail", "{refused}");
    assert_eq!(main.try_reply(&id), None);
    assert_eq!(grants(&world), [Value::Null; 0]);
}
