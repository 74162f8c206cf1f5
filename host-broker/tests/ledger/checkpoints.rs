//! Checkpoints in the batches of the ledger: after a rollback, a restart and an upgrade, and on broken evidence.

use crate::ledger::scribe::{Happening, commits_fail, fill, raw, rows, write};
use crate::ledger::world::{World, open};
use engine::broker::CheckpointKeys;
use engine::event::Event;
use model::Clock as _;
use rusqlite::Connection;
use secrets::identity::issuers::OwnKey;
use std::time::Duration;
use store::Durability;
use store::ledger::checkpoints::{Coverage, Covered, OVERDUE, Uncovered, coverage};
use store::ledger::health::Verification;
use store::ledger::verifier::Verifier;

/// A world whose broker signs.
pub(super) fn signing(mut world: World) -> World {
    let key = OwnKey::new(&[1; 32]).unwrap();
    world.broker = world.broker.with_checkpoint_keys(CheckpointKeys { key, earlier: None });
    world
}

fn handle(world: &mut World, event: Event) {
    let batch = world.ledger.batch(Durability::Full, vec![event], &mut world.broker);
    assert!(batch.unwritten.is_empty(), "{batch:?}");
}

/// Has a checkpoint written, and verifies the whole chain: the checkpoint is its last row and covers all others.
fn sign(world: &mut World) {
    let before = world.ledger.head().seq;
    handle(world, Event::CheckpointDue);
    let mut verifier = Verifier::new();
    for row in rows(world.ledger.view()) {
        verifier.take(&row).unwrap();
    }
    let (seq, checkpoint) = verifier.checkpoints().latest().unwrap();
    assert_eq!((*seq, checkpoint.size(), world.ledger.head().seq), (before + 1, before, before + 1));
    assert_eq!(world.ledger.signed().unwrap().unsigned(), 0);
}

#[test]
fn rows_that_were_undone_are_not_in_the_tree() {
    let mut world = signing(World::new());
    fill(&mut world.ledger, 20);
    sign(&mut world);
    let batch = write(&mut world.ledger, vec![Happening::Row("a"), Happening::Fails("b"), Happening::Row("c")]);
    assert_eq!((batch.committed.len(), batch.unwritten.len()), (2, 1));
    sign(&mut world);
    // The commit itself fails.
    commits_fail(&world.ledger, "NEW.caller = 'orphan'");
    assert_eq!(write(&mut world.ledger, vec![Happening::Row("orphan")]).unwritten.len(), 1);
    sign(&mut world);
}

#[test]
fn a_start_continues_the_tree_with_the_rows_after_the_last_checkpoint() {
    let mut world = signing(World::new());
    fill(&mut world.ledger, 300);
    sign(&mut world);
    let signed = world.ledger.head().seq;
    fill(&mut world.ledger, 321);
    drop(world.ledger);
    world.ledger = open(world.home.path(), &world.clock).unwrap();
    let since = world.ledger.signed().unwrap().unsigned();
    assert!(since > 0 && since == world.ledger.head().seq - signed, "{since}");
    sign(&mut world);
}

#[test]
fn a_home_without_checkpoints_gets_one_over_all_of_its_rows() {
    let mut world = signing(World::new());
    let home = tempfile::tempdir().unwrap();
    let database = Connection::open(home.path().join("ledger.db")).unwrap();
    database.execute_batch(include_str!("version_7.sql")).unwrap();
    drop(database);
    world.ledger = open(home.path(), &world.clock).unwrap();
    world.clock.turn(world.ledger.head().ts - world.clock.now().millis());
    sign(&mut world);
}

#[test]
fn broken_evidence_gets_no_checkpoint() {
    let mut world = signing(World::new());
    fill(&mut world.ledger, 5);
    handle(&mut world, Event::Verified(Box::new(Verification::Broken { row: 2, error: "changed".to_owned() })));
    let head = world.ledger.head();
    handle(&mut world, Event::CheckpointDue);
    assert_eq!(world.ledger.head(), head);
    handle(&mut world, Event::Verified(Box::new(Verification::Whole { row: 5 })));
    sign(&mut world);
}

fn covered(world: &World) -> Coverage {
    coverage(world.ledger.view()).unwrap()
}

#[test]
fn rows_without_a_checkpoint_are_counted_from_the_oldest_and_are_overdue_after_a_while() {
    let mut world = signing(World::new());
    assert_eq!(covered(&world), Coverage::default());
    fill(&mut world.ledger, 20);
    let (begun, rows) = (world.clock.now(), world.ledger.head().seq);
    let none = Coverage { covered: None, uncovered: Some(Uncovered { rows, since: begun }) };
    assert_eq!(covered(&world), none, "there is no checkpoint");
    sign(&mut world);
    let signed = Some(Covered { size: rows, at: Some(begun) });
    assert_eq!(covered(&world), Coverage { covered: signed, uncovered: None });
    // The rows of two times, of which the first counts.
    world.clock.turn(1_000);
    let since = world.clock.now();
    write(&mut world.ledger, vec![Happening::Row("a")]);
    world.clock.turn(1_000);
    write(&mut world.ledger, vec![Happening::Row("b")]);
    let found = covered(&world);
    assert_eq!(found, Coverage { covered: signed, uncovered: Some(Uncovered { rows: 2, since }) });
    assert_eq!(found.lag(world.clock.now()), Duration::from_secs(1));
    assert!(!found.is_overdue(since.plus(OVERDUE)) && found.is_overdue(since.plus(OVERDUE + Duration::from_millis(1))));
    world.clock.turn(3_600_000);
    sign(&mut world);
    let found = covered(&world);
    assert_eq!((found.lag(world.clock.now()), found.is_overdue(world.clock.now())), (Duration::ZERO, false));
    // A table that its row does not confirm is no checkpoint, and neither is an empty one.
    let rows = world.ledger.head().seq;
    let none = Coverage { covered: None, uncovered: Some(Uncovered { rows, since: begun }) };
    raw(&world.ledger).execute_batch("CREATE TABLE kept AS SELECT * FROM checkpoint").unwrap();
    for change in ["seq = seq - 1", "seq = 0", "seq = seq + 1", "key = 'x'", "peaks = zeroblob(32)"] {
        raw(&world.ledger).execute_batch(&format!("UPDATE checkpoint SET {change}")).unwrap();
        assert_eq!(covered(&world), none, "{change}");
        raw(&world.ledger).execute_batch("INSERT OR REPLACE INTO checkpoint SELECT * FROM kept").unwrap();
        assert_eq!(covered(&world).uncovered, None);
    }
    raw(&world.ledger).execute_batch("DELETE FROM checkpoint").unwrap();
    assert_eq!(covered(&world), none);
    assert!(none.is_overdue(world.clock.now()));
}
