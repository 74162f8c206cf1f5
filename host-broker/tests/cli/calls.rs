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
    world.run(&["calls", "list", "--reason", "often"]).fails(2, &["--reason"]);
    world.run(&["calls", "list", "--from", "yesterday"]).fails(2, &["is not a time"]);
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
        assert_eq!(ids(&["--request", "a2"]), ["a2"]);
        assert_eq!(ids(&["--action", "echo"]), ["a1"]);
        assert_eq!(ids(&["--reason", "invalid_params"]), ["a2"]);
        assert_eq!(ids(&["--person", "ash:user-1"]).len(), 0);
        assert_eq!(ids(&["--from", "2000-01-01T00:00:00Z"]).len(), 3);
        assert_eq!(ids(&["--until", "2000-01-01T00:00:00Z"]).len(), 0);
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

#[test]
fn a_call_that_waits_for_a_person_is_listed_and_its_story_says_who_answered_when_and_where() {
    let world = World::with_mock();
    world.run(&["grant", "developer", "mock", "2"]).ok();
    let _daemon = world.serve();
    for (id, answer, status) in [("w1", "yes", "executed"), ("w2", "no", "denied")] {
        std::thread::scope(|scope| {
            let asks = scope.spawn(|| world.call(id, "person", &json!({ "id": id }), None));
            let (mut watch, mut input) = world.start_with_input(&["approvals", "watch", "--json"]);
            let approval_request: Value = serde_json::from_str(&watch.line()).unwrap();
            assert_eq!((&approval_request["request_id"], &approval_request["state"]), (&json!(id), &json!("waiting")));
            let waiting = world.run(&["calls", "list", "--status", "waiting", "--json"]).json();
            let [call] = &waiting["calls"].as_array().unwrap()[..] else { panic!("{waiting}") };
            assert_eq!((&call["request_id"], &call["group_folder"]), (&json!(id), &json!("developer")));
            assert!(world.run(&["calls", "list"]).ok().contains("waiting"));
            let code = approval_request["code"].as_str().unwrap();
            std::io::Write::write_all(&mut input, format!("{answer} {code} as agreed\n").as_bytes()).unwrap();
            let reply: Value = serde_json::from_str(&watch.line()).unwrap();
            assert_eq!(reply["status"], "executed", "{reply}");
            assert_eq!(asks.join().unwrap()["status"], status);
        });
        let story = world.run(&["calls", "show", id, "--json"]).json();
        let given = &story["approvals"][0]["answers"][0];
        assert_eq!((&given["by"], &given["channel"]), (&json!("person:tester"), &json!("cli")), "{story}");
        assert!(given["at"].as_str().unwrap().ends_with('Z'));
        let text = world.run(&["calls", "show", id]).ok();
        let decision = if answer == "yes" { "approved" } else { "denied" };
        assert!(text.contains(&format!("{decision} by person:tester, through cli, at ")), "{text}");
    }
    assert_eq!(world.run(&["calls", "list", "--status", "waiting", "--json"]).json(), json!({ "calls": [] }));
}

#[test]
fn a_person_records_the_outcome_of_a_call_with_an_unknown_outcome() {
    let world = World::with_mock();
    world.append("mock.toml", "\n[actions.vanish]\nlevel = 2\nlose_reply = true\nexposes = [\"egress\"]\n");
    world.run(&["grant", "developer", "mock", "2"]).ok();
    let daemon = world.serve();
    for id in ["u1", "u2"] {
        assert_eq!(world.call(id, "vanish", &json!({}), None)["code"], "outcome_unknown");
    }
    let unknown = || world.run(&["status", "--json"]).json()["unknown_outcomes"].as_array().unwrap().len();
    assert_eq!(unknown(), 2);
    assert!(world.run(&["status"]).ok().contains("host-broker calls settle"));
    let settle =
        |id: &str, found: &str| world.run(&["calls", "settle", id, "--as", found, "--note", "looked at the log"]);
    settle("u3", "failed").fails(3, &["no call of that name"]);
    world.run(&["calls", "settle", "u1", "--as", "failed", "--note", " "]).fails(3, &["note"]);
    settle("u1", "failed").ok();
    settle("u2", "succeeded").ok();
    settle("u2", "failed").fails(3, &["no call of that name"]);
    assert_eq!(unknown(), 0);
    let list = world.run(&["calls", "list", "--json"]).json();
    let statuses: Vec<_> = list["calls"].as_array().unwrap().iter().map(|call| call["status"].clone()).collect();
    assert_eq!(statuses, [json!("failed"), json!("executed")]);
    let story = world.run(&["calls", "show", "u1"]).ok();
    for part in ["found by", "person:tester", "looked at the log", "did not take effect"] {
        assert!(story.contains(part), "no `{part}` in {story}");
    }
    let of = |id: &str| world.ask("developer", &format!("ask-{id}"), json!({ "type": "ext_result", "of": id }));
    assert_eq!(of("u2")["data"]["reply"]["status"].as_str().or(of("u2")["status"].as_str()), Some("executed"));
    let failed = of("u1").to_string();
    assert!(failed.contains("did not take effect"), "{failed}");
    world.run(&["stop"]).ok();
    assert_eq!(daemon.end(), 0);
    assert!(world.run(&["evidence", "verify"]).ok().contains("is intact"));
}
