//! A home leaves the database of its fleet, and goes on alone.

use serde_json::{Value, json};
use tests::fleet_database::FleetDatabase;
use tests::group::{call, code, with};
use tests::{World, evidence};

fn leave(world: &World) -> (bool, String) {
    let output = world.cli(&["fleet", "leave", "--json"]);
    (output.status.success(), String::from_utf8([output.stdout, output.stderr].concat()).unwrap())
}

/// Removes `[store]` from the configuration, as an operator does.
fn remove_store(world: &World) {
    let path = world.path("broker.toml");
    let text = std::fs::read_to_string(&path).unwrap();
    let (before, after) = text.split_once("\n[store]\n").unwrap();
    let rest = after.split_once("\n[").map_or(String::new(), |(_, rest)| format!("\n[{rest}"));
    std::fs::write(path, format!("{before}{rest}")).unwrap();
}

#[test]
fn a_home_that_leaves_its_database_keeps_its_access_its_keys_and_its_evidence() {
    let Some(database) = FleetDatabase::alone() else { return };
    let mut world = World::builder().database(database.url("a", database.server.port)).process();
    world.grant("developer", 2);
    let developer = world.group("developer");
    let charge = || with(call("charge", json!({ "n": 1 })), "idempotency_key", "once");
    let first = developer.ask(charge());
    assert_eq!(code(&first), "executed");
    let (has_left, text) = leave(&world);
    assert!(!has_left && text.contains("stop it first"), "{text}");
    world.stop();
    let before = evidence::rows(&world.home()).len();
    let (has_left, text) = leave(&world);
    assert!(has_left, "{text}");
    let left: Value = serde_json::from_str(&text).unwrap();
    assert_eq!((&left["host"], &left["head"]["seq"]), (&json!("a"), &json!(before + 1)));
    // Nobody serves the host from the database, not even the home that left.
    assert!(!world.try_start_process());
    assert!(world.daemon_log().contains("has left the fleet's database"), "{}", world.daemon_log());
    let status = world.cli(&["fleet", "status"]);
    assert!(String::from_utf8(status.stdout).unwrap().contains("a     left"));
    let (has_left, text) = leave(&world);
    assert!(!has_left && text.contains("has nothing to leave"), "{text}");
    remove_store(&world);
    database.server.lose();
    world.start_process();
    let again = developer.ask(charge());
    assert_eq!((code(&again), &again["data"]), ("executed", &first["data"]));
    assert_eq!(world.effects_of("charge").len(), 1);
    assert_eq!(code(&developer.ask(call("charge", json!({ "n": 2 })))), "executed");
    world.stop();
    let rows = evidence::verify(&world.home());
    let noted = rows.iter().find(|row| row.seq == i64::try_from(before).unwrap() + 1).unwrap();
    assert_eq!((noted.kind.as_str(), noted.caller.as_str()), ("noted", "person:operator"));
    assert_eq!(evidence::body(noted), json!({ "leaving_fleet": "a" }));
    let (has_left, text) = leave(&world);
    assert!(!has_left && text.contains("no table [store]"), "{text}");
}
