//! Rotation by the real daemon, on a ledger that is months old.

use super::rows::fill;
use super::world::{World, wait_for};
use rusqlite::{Connection, OpenFlags};
use serde_json::json;
use std::path::Path;
use store::ledger::segments::ROWS;

fn first(home: &Path) -> i64 {
    let connection = Connection::open_with_flags(home.join("ledger.db"), OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap();
    connection.query_row("SELECT min(seq) FROM ledger", [], |row| row.get(0)).unwrap()
}

/// Attack: see `old_rows_move_into_segments_and_the_chain_goes_on`.
#[test]
fn the_daemon_moves_old_rows_while_it_works_and_goes_on_after_a_kill() {
    let world = World::with_mock();
    let config = world.read("broker.toml");
    assert!(config.contains("[broker]"), "{config}");
    std::fs::write(world.home.join("broker.toml"), config.replace("[broker]", "[broker]\nledger_mib = 1")).unwrap();
    fill(&world.home, ROWS);
    let segment = world.home.join("segments/000000000001-000000050000.jsonl.gz");

    let daemon = world.serve();
    wait_for(|| segment.exists());
    // Killed before the segment is named, or after, or while the rows are deleted.
    drop(daemon);
    world.run(&["evidence", "verify"]).ok();

    world.run(&["grant", "developer", "mock", "2"]).ok();
    let daemon = world.serve();
    wait_for(|| first(&world.home) > 1);
    world.call("r1", "note", &json!({ "n": 1 }), None);
    let verified = world.run(&["evidence", "verify", "--json"]).json();
    assert_eq!((&verified["ok"], verified["rows"].as_i64() > Some(ROWS)), (&json!(true), true), "{verified}");
    world.run(&["stop"]).ok();
    assert_eq!(daemon.end(), 0);
    let export = world.run(&["evidence", "export"]).ok();
    assert_eq!(export.matches(r#""kind":"rotated""#).count(), 1);
}
