//! Rotation by the real daemon, on a ledger that is months old.

use super::world::{World, wait_for};
use host_broker::effects::clock::Clock;
use host_broker::ledger::chain::{Draft, Kind};
use host_broker::ledger::segments::ROWS;
use host_broker::ledger::transaction::{Effect, Scribe, Step, Transaction, Unwritten};
use host_broker::ledger::{Durability, Ledger};
use rusqlite::{Connection, OpenFlags};
use serde_json::json;
use shared::Timestamp;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// 2026-02-14T10:00:00Z, always.
struct Past;

impl Clock for Past {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(1_771_063_200_000)
    }

    fn monotonic(&self) -> Duration {
        Duration::ZERO
    }
}

#[derive(Debug)]
struct OneRow;

impl From<Effect> for OneRow {
    fn from(effect: Effect) -> Self {
        panic!("nothing starts here: {effect:?}")
    }
}

struct Writer;

impl Scribe<OneRow> for Writer {
    fn write<'tx>(&mut self, tx: &'tx Transaction<'_>, event: OneRow) -> Result<Step<'tx, OneRow>, Unwritten<OneRow>> {
        match tx.append(&Draft::new(Kind::Noted, "broker")) {
            Ok(_) => Ok(tx.close(event, None)),
            Err(error) => Err(Unwritten { event, error }),
        }
    }

    fn undone(&mut self, _seq: i64) {}
}

fn first(home: &Path) -> i64 {
    let connection = Connection::open_with_flags(home.join("ledger.db"), OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap();
    connection.query_row("SELECT min(seq) FROM ledger", [], |row| row.get(0)).unwrap()
}

#[test]
fn the_daemon_moves_old_rows_while_it_works_and_goes_on_after_a_kill() {
    let world = World::with_mock();
    let config = world.read("broker.toml");
    assert!(config.contains("[broker]"), "{config}");
    std::fs::write(world.home.join("broker.toml"), config.replace("[broker]", "[broker]\nledger_mib = 1")).unwrap();
    let mut ledger = Ledger::open(&world.home, Arc::new(Past), "v1".to_owned()).unwrap();
    while ledger.head().seq <= ROWS {
        let batch = ledger.batch(Durability::Normal, (0..1_000).map(|_| OneRow).collect(), &mut Writer);
        assert!(batch.unwritten.is_empty());
    }
    drop(ledger);
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
