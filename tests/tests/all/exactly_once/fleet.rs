//! The same with the records in PostgreSQL, whose server dies and whose connections end, too.

use super::{nothing_twice_and_nothing_lost, patient, under_load};
use store::Store;
use store::ledger::chain::Row;
use tests::fleet_database::{FleetDatabase, body_key, differences};
use tests::{World, evidence};

const ROUNDS: usize = 36;

#[test]
fn when_the_daemon_or_the_database_dies_nothing_happens_twice_and_nothing_acknowledged_is_lost() {
    let Some(database) = FleetDatabase::alone() else { return };
    let mut world = patient().database(database.url("a", database.server.port)).process();
    let (mut halted, mut fences) = (0, Vec::new());
    let clients = under_load(&mut world, (ROUNDS, 12), |world, round| {
        match round % 3 {
            0 => {
                world.kill();
                world.start_process();
            }
            1 => database.server.crash(),
            _ => {
                database.run(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'host-broker'",
                );
            }
        }
        // A daemon that does not know whether a batch is there stops, and a service manager starts it again.
        if world.has_ended() {
            halted += 1;
            world.start_process();
        }
        fences.push(database.run("SELECT fence FROM host_broker.hosts"));
    });
    if world.has_ended() {
        world.start_process();
    }
    // A fault can end a probe. The next start asks again.
    world.restart();
    let rows = nothing_twice_and_nothing_lost(&mut world, &clients);
    assert_eq!(database.run("SELECT count(*), max(seq) FROM host_broker.ledger"), format!("{0}|{0}", rows.len()));
    another_machine_gets_everything(&mut world, &database, &rows);
    fences.dedup();
    assert!(fences.len() > ROUNDS / 3, "few faults met a daemon: {fences:?}, and it stopped {halted} times");
}

/// The machine is lost. Another one gets its configuration and its keys, and the rows from the database.
fn another_machine_gets_everything(world: &mut World, database: &FleetDatabase, rows: &[Row]) {
    let other = tempfile::tempdir().unwrap();
    let settings = database.settings("a", database.server.port);
    let records = (&settings, &body_key(&world.home()));
    drop(Store::open_in_fleet(other.path(), world.clock.clone(), "policy-1".to_owned(), records).unwrap());
    assert_eq!(differences(&world.home(), other.path()), Vec::<String>::new());
    for name in ["ledger.db", "ledger.db-wal", "ledger.db-shm"] {
        std::fs::remove_file(world.path(name)).ok();
    }
    world.start_process();
    let found = evidence::rows(&world.home());
    let hashes = |rows: &[Row]| rows.iter().map(|row| row.event_hash).collect::<Vec<_>>();
    assert_eq!(hashes(&found)[..rows.len()], hashes(rows)[..]);
    assert!(found.len() > rows.len(), "the new daemon writes its first row");
    world.stop();
    evidence::verify(&world.home());
}
