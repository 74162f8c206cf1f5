//! Checkpoints in the batches of the ledger: after a rollback, a restart and an upgrade, and on broken evidence.

use crate::ledger::scribe::{Happening, commits_fail, fill, rows, write};
use crate::ledger::world::{World, open};
use engine::broker::CheckpointKeys;
use engine::event::Event;
use model::Clock as _;
use rusqlite::Connection;
use secrets::identity::issuers::OwnKey;
use store::Durability;
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
