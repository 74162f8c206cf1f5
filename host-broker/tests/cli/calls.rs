//! `calls list`, `calls show`, `calls tail`.

use super::world::{World, wait_for};
use serde_json::{Value, json};

fn busy_world() -> World {
    let world = World::with_mock();
    world.run(&["grant", "developer", "mock", "3", "--gate", "Security"]).ok();
    world.run(&["task", "create", "developer", "Charge", "--id", "gov-1"]).ok();
    world.run(&["gate", "approve", "gov-1", "Security"]).ok();
    world
}

#[test]
fn calls_are_listed_and_filtered() {
    let world = busy_world();
    world.run(&["calls", "list", "--status", "done"]).fails(2, &["executed"]);
    world.run(&["calls", "list", "--limit", "0"]).fails(2, &["limit"]);
    assert_eq!(world.run(&["calls", "list"]).ok(), "No calls match.\n");
    let daemon = world.serve();
    world.call("a1", "echo", &json!({}), None);
    world.call("a2", "note", &json!({}), None);
    world.call("a3", "charge", &json!({}), Some("gov-1"));
    for _with_and_without in 0..2 {
        let ids = |arguments: &[&str]| -> Vec<String> {
            let list = world.run(&[&["calls", "list", "--json"], arguments].concat()).json();
            let id = |call: &Value| call["request_id"].as_str().unwrap().to_owned();
            list["calls"].as_array().unwrap().iter().map(id).collect()
        };
        assert_eq!(ids(&[]), ["a1", "a2", "a3"]);
        assert_eq!(ids(&["--status", "denied"]), ["a2"]);
        assert_eq!(ids(&["--status", "executed", "--limit", "1"]), ["a3"]);
        assert_eq!(ids(&["--provider", "mock", "--group", "developer"]).len(), 3);
        assert_eq!(ids(&["--group", "main"]).len(), 0);
        world.run(&["stop"]).ok();
    }
    assert_eq!(daemon.end(), 0);
    let table = world.run(&["calls", "list"]).ok();
    assert!(table.contains("mock.note") && table.contains("invalid_params"), "{table}");
}

#[test]
fn the_story_of_a_call_says_who_what_why_and_what_came_of_it() {
    let world = busy_world();
    world.run(&["calls", "show", "nothing"]).fails(3, &["no request `nothing`", "calls list"]);
    let _daemon = world.serve();
    world.call("s1", "charge", &json!({}), Some("gov-1"));
    let story = world.run(&["calls", "show", "s1"]).ok();
    for words in ["group:developer", "mock.charge, L3", "gov-1", "opened by person:tester", "succeeded"] {
        assert!(story.contains(words), "no `{words}` in {story}");
    }
    // An answer that was lost: the intent, the unknown outcome, and what a probe found out.
    assert_eq!(world.call("s2", "lose", &json!({}), None)["code"], "outcome_unknown");
    let rows = || world.run(&["calls", "show", "s2", "--json"]).json()["rows"].as_array().unwrap().clone();
    wait_for(|| rows().last().unwrap()["kind"] == "settled");
    let kinds: Vec<_> = rows().iter().map(|row| row["kind"].as_str().unwrap().to_owned()).collect();
    assert_eq!(kinds, ["intended", "unknown", "intended", "succeeded", "settled"]);
    assert!(world.run(&["calls", "show", "s2"]).ok().contains("settles"));
    world.run(&["calls", "show", "s2", "--group", "main"]).fails(3, &["no request"]);
}

#[test]
fn calls_are_followed_as_they_happen() {
    let world = busy_world();
    let _daemon = world.serve();
    world.call("t1", "echo", &json!({}), None);
    let mut tail = world.start(&["calls", "tail", "--json", "--status", "executed"]);
    let mut next = || serde_json::from_str::<Value>(&tail.line()).unwrap()["request_id"].as_str().unwrap().to_owned();
    assert_eq!(next(), "t1");
    world.call("t2", "note", &json!({}), None);
    world.call("t3", "echo", &json!({}), None);
    assert_eq!(next(), "t3");
}
