//! The real daemon verifies all rows of its ledger after it has started.

use super::metrics::{METRICS, health};
use super::rows::fill;
use super::world::{World, wait_for};
use flate2::Compression;
use flate2::write::GzEncoder;
use rusqlite::Connection;
use rustix::fs::{CWD, FileType, Mode, mknodat};
use serde_json::{Value, json};
use std::io::Write as _;

/// More rows than a start verifies.
pub(super) const MANY: i64 = 12_000;

/// Changes the database as somebody does who can write the file; its triggers are there afterwards.
pub(super) fn tamper(world: &World, sql: &str) {
    let database = Connection::open(world.home.join("ledger.db")).unwrap();
    let trigger: String = database
        .query_row("SELECT sql FROM sqlite_schema WHERE name = 'ledger_is_append_only_update'", [], |row| row.get(0))
        .unwrap();
    database.execute_batch(&format!("DROP TRIGGER ledger_is_append_only_update; {sql}; {trigger}")).unwrap();
}

fn verification(world: &World) -> Value {
    world.run(&["status", "--json"]).json()["daemon"]["evidence"]["verification"].clone()
}

/// Waits for the end of the verification, and returns its result.
fn result(world: &World) -> Value {
    let mut result = Value::Null;
    wait_for(|| {
        result = verification(world);
        !["waiting", "running"].contains(&result["state"].as_str().unwrap())
    });
    result
}

/// Attack (Repeats, crashes and evidence): an old row that somebody changes while no daemon runs,
/// beyond the rows that a start verifies
/// Defence: after each start a thread verifies all rows; a change is a row, a notice to every
/// channel and a line of `status`, and no call is admitted any more
#[test]
fn a_row_that_was_changed_long_ago_is_found_after_the_start_and_no_call_is_admitted_any_more() {
    let world = World::with_mock();
    fill(&world.home, MANY);
    world.run(&["grant", "developer", "mock", "2"]).ok();
    let told = world.home.join("told");
    let command = json!(["/bin/sh", "-c", "cat >> \"$0\"", told]);
    world.append("broker.toml", &format!("\n[[channels]]\nname = \"log\"\nkind = \"command\"\ncommand = {command}\n"));
    tamper(&world, "UPDATE ledger SET caller = 'group:security' WHERE seq = 5");
    let (daemon, log) = world.serve_with_log();
    let error = "row 5 does not have the hash of its content";
    assert_eq!(result(&world), json!({ "state": "broken", "row": 5, "error": error }));
    let status = world.run(&["status"]).ok();
    assert!(status.contains(&format!("EVIDENCE BROKEN at row 5; no call is admitted: {error}")), "{status}");
    let reply = world.call("r1", "note", &json!({ "n": 1 }), None);
    assert_eq!(reply["code"], "evidence_unavailable", "{reply}");
    assert!(!world.home.join("notes.log").exists());
    // People still stop and revoke.
    world.run(&["kill", "all"]).ok();
    wait_for(|| std::fs::read_to_string(&told).is_ok_and(|text| text.ends_with('\n')));
    let notice: Value = serde_json::from_str(&std::fs::read_to_string(&told).unwrap()).unwrap();
    assert_eq!((&notice["event"], &notice["verification"]["row"]), (&json!("evidence"), &json!(5)));
    assert!(notice["text"].as_str().unwrap().contains(error), "{notice}");
    let said = std::fs::read_to_string(log).unwrap();
    assert!(said.contains("ERROR") && said.contains("the evidence is broken"), "{said}");
    let noted = world.run(&["evidence", "export", "--from", "12000"]).ok();
    assert!(noted.contains(r#"\"verification\":{\"error\":"#), "a row says so");
    world.run(&["stop"]).ok();
    assert_eq!(daemon.end(), 0);
}

/// Attack (Repeats, crashes and evidence): a restart or a reload after rows were found missing or
/// changed, so that calls are admitted until the slow verification finds it again
/// Defence: the break is stored with its row; every start admits no call until a verification finds
/// all rows right
#[test]
fn broken_evidence_is_remembered_over_restarts_until_all_rows_are_verified() {
    let world = World::with_mock();
    world.append("broker.toml", METRICS);
    fill(&world.home, 1_000);
    world.run(&["grant", "developer", "mock", "2"]).ok();
    let rows: String = world.run(&["evidence", "export"]).ok().split_inclusive('\n').take(100).collect();
    let mut segment = GzEncoder::new(Vec::new(), Compression::default());
    segment.write_all(rows.as_bytes()).unwrap();
    let segment = segment.finish().unwrap();
    let database = || Connection::open(world.home.join("ledger.db")).unwrap();
    database()
        .execute("INSERT INTO segments SELECT 1, seq, event_hash, ts FROM ledger WHERE seq = 100", [])
        .expect("a segment is noted");
    let refused = |id: &str| world.call(id, "note", &json!({ "n": 1 }), None)["code"] == "evidence_unavailable";
    let executed = |id: &str| world.call(id, "note", &json!({ "n": 1 }), None)["status"] == "executed";
    let stop = |daemon: super::world::Running| {
        world.run(&["stop"]).ok();
        assert_eq!(daemon.end(), 0);
    };

    // The file of the segment is missing.
    let daemon = world.serve();
    let found = result(&world);
    assert_eq!((&found["state"], &found["row"]), (&json!("broken"), &json!(1)), "{found}");
    assert!(refused("r1"));
    let (status, document) = health(&world);
    assert_eq!((status, &document["reason"]), (503, &json!("evidence_broken")), "{document}");
    stop(daemon);

    // The next daemon remembers it while its verification waits for the rows.
    let path = world.home.join("segments/000000000001-000000000100.jsonl.gz");
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    mknodat(CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    let daemon = world.serve();
    assert!(refused("r2"));
    assert_eq!(verification(&world), found);
    assert_eq!(health(&world).0, 503);
    // The verification reads them from the pipe.
    std::fs::write(&path, &segment).unwrap();
    wait_for(|| verification(&world)["state"] == "whole");
    let (status, document) = health(&world);
    assert_eq!((status, &document["status"], &document["verification"]["state"]), (200, &json!("ok"), &json!("whole")));
    assert!(executed("r3"));
    stop(daemon);

    std::fs::remove_file(&path).unwrap();
    std::fs::write(&path, &segment).unwrap();
    let daemon = world.serve();
    assert!(executed("r4"));
    stop(daemon);
}

#[test]
fn a_sync_that_fails_while_a_refusal_waits_for_it_is_shown_by_status() {
    let world = World::with_mock();
    world.append("mock.toml", "\n[actions.slow]\nlevel = 1\nlatency_ms = 600000\nexposes = []\n");
    let _daemon = world.serve();
    world.run(&["grant", "developer", "mock", "1"]).ok();
    // While it runs, refusals wait for the sync of another event.
    let slow = world.home.join("ipc/developer/tasks/slow.json");
    let request =
        json!({ "type": "ext_call", "request_id": "slow", "provider": "mock", "action": "slow", "params": {} });
    std::fs::write(slow.with_extension("new"), request.to_string()).unwrap();
    std::fs::rename(slow.with_extension("new"), &slow).unwrap();
    wait_for(|| !slow.exists());
    Connection::open(world.home.join("ledger.db"))
        .unwrap()
        .execute_batch(
            "CREATE TRIGGER no_sync BEFORE UPDATE OF turn ON delivered
             BEGIN SELECT RAISE(ABORT, 'the disk is gone'); END;",
        )
        .unwrap();
    let request = json!({ "type": "ext_call", "provider": "mock", "action": "echo", "params": {} });
    assert_eq!(world.ask("security", "r1", request)["code"], "evidence_unavailable");
    let error = || world.run(&["status", "--json"]).json()["daemon"]["evidence"]["cannot_write"]["error"].clone();
    wait_for(|| error().as_str().is_some_and(|error| error.contains("the disk is gone")));
}
