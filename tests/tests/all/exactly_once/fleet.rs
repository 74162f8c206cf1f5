//! The same with the records in PostgreSQL, whose server dies and whose connections end, too.

use super::{nothing_twice_and_nothing_lost, patient, under_load};
use store::Store;
use store::ledger::chain::Row;
use tests::fleet_database::{FleetDatabase, body_key, differences};
use tests::{World, evidence};

const ROUNDS: usize = 36;
/// Ends the connections of daemons in the middle of a batch, or later if there is none. Returns whether there was one.
const END_CONNECTIONS: &str = "SET client_min_messages = warning;
CREATE FUNCTION pg_temp.end_connections() RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    last_moment timestamptz := clock_timestamp() + interval '3 s';
BEGIN
    PERFORM pg_sleep(random() * 0.1);
    WHILE clock_timestamp() < last_moment LOOP
        PERFORM pg_stat_clear_snapshot();
        PERFORM pg_terminate_backend(pid) FROM pg_stat_activity
            WHERE application_name = 'host-broker' AND backend_xid IS NOT NULL;
        IF FOUND THEN RETURN true; END IF;
    END LOOP;
    PERFORM pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'host-broker';
    RETURN false;
END $$;
SELECT pg_temp.end_connections()";

#[test]
fn when_the_daemon_or_the_database_dies_nothing_happens_twice_and_nothing_acknowledged_is_lost() {
    let Some(database) = FleetDatabase::alone() else { return };
    let mut world = patient().database(database.url("a", database.server.port)).process();
    let mut met = 0;
    let clients = std::thread::scope(|scope| {
        let mut end = None;
        under_load(&mut world, (ROUNDS, 12), |world, round| {
            match round % 3 {
                0 => {
                    world.kill();
                    world.start_process();
                }
                1 => {
                    database.server.crash();
                    // The clients go on until the next round.
                    end = Some(scope.spawn(|| database.run(END_CONNECTIONS)));
                }
                _ => met += usize::from(end.take().unwrap().join().unwrap() == "t"),
            }
            // A daemon that does not know whether a batch is there stops, and a service manager starts it again.
            if world.has_ended() {
                world.start_process();
            }
        })
    });
    if world.has_ended() {
        world.start_process();
    }
    assert!(met > ROUNDS / 6, "few faults met a batch: {met}");
    // A fault can end a probe. The next start asks again.
    world.restart();
    let rows = nothing_twice_and_nothing_lost(&mut world, &clients);
    assert_eq!(database.run("SELECT count(*), max(seq) FROM host_broker.ledger"), format!("{0}|{0}", rows.len()));
    another_machine_gets_everything(&mut world, &database, &rows);
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
