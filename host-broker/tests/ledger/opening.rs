//! Opening: one writer, what a crash leaves behind, and what a start refuses.

use crate::ledger::dice::Dice;
use crate::ledger::scribe::{Clerk, Happening, fill, raw, rows, verify, write};
use crate::ledger::world::{World, open};
use engine::event::Event;
use kernel::{BatchWriter, Committed, Step, WriteError};
use model::Clock as _;
use rusqlite::Connection;
use serde_json::json;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use store::ledger::calls;
use store::ledger::verifier::{Break, Verifier};
use store::state::{approvals, grants, intents};
use store::{Durability, StoreError, Transaction};
use tempfile::TempDir;

/// The state after a loss of power: the database and its log, as they are on the disk now.
fn crashed(home: &Path) -> TempDir {
    let copy = tempfile::tempdir().unwrap();
    for name in ["ledger.db", "ledger.db-wal"] {
        fs::copy(home.join(name), copy.path().join(name)).unwrap();
    }
    copy
}

#[test]
fn a_home_has_one_writer() {
    let world = World::new();
    let lock = world.home.path().join("lock");
    let second = open(world.home.path(), &world.clock).unwrap_err();
    assert!(matches!(&second, StoreError::Locked { path } if *path == lock), "{second}");
    let (home, clock) = (world.home, world.clock);
    drop(world.ledger);
    // A child that another test of this process starts just now holds a copy of the lock until its program runs.
    let free = std::iter::repeat_with(|| open(home.path(), &clock)).take(10_000);
    assert!(free.inspect(|_| std::thread::yield_now()).any(|opened| opened.is_ok()));
}

#[test]
fn only_its_owner_may_read_a_ledger() {
    let world = World::new();
    for name in ["ledger.db", "ledger.db-wal", "lock"] {
        let mode = fs::metadata(world.home.path().join(name)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{name}");
    }
}

#[test]
fn a_chain_goes_on_where_it_ended() {
    let mut world = World::new();
    fill(&mut world.ledger, 20);
    let head = world.ledger.head();
    drop(world.ledger);
    world.ledger = open(world.home.path(), &world.clock).unwrap();
    assert_eq!(world.ledger.head(), head);
    fill(&mut world.ledger, 40);
    assert_eq!(verify(&rows(world.ledger.view()), head), Ok(()));
}

/// Copies the home in the middle of a transaction.
struct Crashing {
    home: PathBuf,
    copy: Option<TempDir>,
}

impl BatchWriter<Happening> for Crashing {
    type FollowUps = ();

    fn write<'tx>(
        &mut self,
        tx: &Transaction<'tx>,
        event: Happening,
    ) -> Result<Step<'tx, Happening>, WriteError<Happening>> {
        let step = Clerk::default().write(tx, event)?;
        self.copy = Some(crashed(&self.home));
        Ok(step)
    }

    fn committed(&mut self) {}

    fn rolled_back(&mut self) {}
}

#[test]
fn after_a_crash_everything_acknowledged_is_there_and_nothing_that_was_not_committed() {
    let mut world = World::new();
    fill(&mut world.ledger, 30);
    let head = world.ledger.head();
    let mut crashing = Crashing { home: world.home.path().to_owned(), copy: None };
    world.ledger.batch(Durability::Full, vec![Happening::Row("a"), Happening::Row("b")], &mut crashing);
    let copy = crashing.copy.unwrap();
    let mut after = open(copy.path(), &world.clock).unwrap();
    assert_eq!(after.head(), head);
    assert_eq!(verify(&rows(after.view()), head), Ok(()));
    assert!(write(&mut after, vec![Happening::Row("c")]).unwritten.is_empty());
}

#[test]
fn a_log_that_is_torn_anywhere_gives_the_beginning_of_the_same_chain() {
    let mut world = World::new();
    for _ in 0..12 {
        let rows = world.ledger.head().seq + 3;
        fill(&mut world.ledger, rows);
    }
    let (original, head) = (rows(world.ledger.view()), world.ledger.head());
    let mut dice = Dice(7);
    let mut shortest = head.seq;
    for _ in 0..40 {
        let copy = crashed(world.home.path());
        let log = copy.path().join("ledger.db-wal");
        let mut bytes = fs::read(&log).unwrap();
        // The written part is at the beginning of a log that was grown before.
        let cut = dice.roll(400_000.min(bytes.len()));
        bytes[cut..].fill(0);
        fs::write(&log, bytes).unwrap();
        let after = open(copy.path(), &world.clock).unwrap();
        let found = rows(after.view());
        assert_eq!(found, original[..found.len()], "cut at {cut}");
        shortest = shortest.min(after.head().seq);
    }
    assert!(shortest < head.seq, "no cut took anything");
}

#[test]
fn a_start_closes_the_intents_that_a_crash_left_open() {
    let mut world = World::new();
    world.say(json!({ "type": "grant", "group_folder": "developer", "provider": "mock", "access_level": 2 }));
    let calls = vec![
        world.call("developer", "read", &json!({}), None),
        world.call("developer", "write", &json!({}), None),
        world.call("developer", "read", &json!({ "guard": "remote" }), None),
    ];
    let batch = world.admit(Durability::Full, calls);
    let started = batch.committed.iter().filter(|committed| matches!(committed, Committed::Start(_))).count();
    assert_eq!(started, 3);
    let copy = crashed(world.home.path());
    let mut after = open(copy.path(), &world.clock).unwrap();
    let open_intents = |connection: &Connection| -> Vec<i64> {
        let mut statement = connection.prepare("SELECT seq FROM open_intents ORDER BY seq").unwrap();
        statement.query_map([], |row| row.get(0)).unwrap().collect::<Result<_, _>>().unwrap()
    };
    let mut verifier = Verifier::new();
    rows(after.view()).iter().try_for_each(|row| verifier.take(row)).unwrap();
    assert_eq!(verifier.open().collect::<Vec<_>>(), [2, 3, 4]);
    assert_eq!(open_intents(&raw(&after)), [2, 3, 4]);

    let batch = after.batch(Durability::Full, vec![Event::Started], &mut world.broker);
    assert!(batch.unwritten.is_empty());
    let found = rows(after.view());
    let kinds: Vec<&str> = found.iter().map(|row| row.kind.as_str()).collect();
    let expected = ["granted", "intended", "intended", "intended", "started", "timed_out", "unknown", "timed_out"];
    assert_eq!(kinds, expected);
    let mut verifier = Verifier::new();
    found.iter().try_for_each(|row| verifier.take(row)).unwrap();
    assert_eq!(verifier.open().count(), 0);
    assert_eq!(open_intents(&raw(&after)), Vec::<i64>::new());
}

#[test]
fn an_outcome_that_nothing_settles_is_asked_for_at_the_starts_of_a_week_and_stays_listed() {
    let mut world = World::new();
    world.say(json!({ "type": "grant", "group_folder": "developer", "provider": "mock", "access_level": 2 }));
    let call = world.call("developer", "write", &json!({}), None);
    world.admit(Durability::Full, vec![call]);
    world.ledger.batch(Durability::Full, vec![Event::Started], &mut world.broker);
    let asked = |world: &World| intents::unknown_outcomes(world.ledger.view(), world.clock.now()).unwrap().len();
    assert_eq!(asked(&world), 1);
    world.clock.turn(7 * 24 * 3_600_000 - 1);
    assert_eq!(asked(&world), 1);
    world.clock.turn(1);
    assert_eq!(asked(&world), 0);
    assert_eq!(calls::unknown_outcomes(world.ledger.view()).unwrap().len(), 1);
}

/// Does to a closed ledger what its tables refuse.
fn attack(home: &Path, sql: &str) {
    let connection = Connection::open(home.join("ledger.db")).unwrap();
    connection
        .execute_batch(
            "DROP TRIGGER ledger_is_append_only_update; DROP TRIGGER ledger_is_append_only_delete;
             DROP TRIGGER ledger_has_no_gaps;",
        )
        .unwrap();
    connection.execute_batch(sql).unwrap();
}

#[test]
fn a_start_refuses_a_broken_chain_and_says_where() {
    for (sql, expected) in [
        ("UPDATE ledger SET caller = 'x' WHERE seq = 5", Break::Content { seq: 5 }),
        ("UPDATE ledger SET event_hash = zeroblob(32) WHERE seq = 5", Break::Content { seq: 5 }),
        ("UPDATE ledger SET prev_hash = zeroblob(32) WHERE seq = 5", Break::Link { seq: 5 }),
        ("UPDATE ledger SET prev_hash = x'00' WHERE seq = 5", Break::Content { seq: 5 }),
        ("UPDATE ledger SET body = CAST(x'ff' AS TEXT) WHERE seq = 5", Break::Content { seq: 5 }),
        ("DELETE FROM ledger WHERE seq = 5", Break::Gap { expected: 5, found: 6 }),
        ("DELETE FROM ledger WHERE seq = 1", Break::Gap { expected: 1, found: 2 }),
        ("UPDATE ledger SET event_hash = x'00' WHERE seq = (SELECT max(seq) FROM ledger)", Break::Content { seq: 12 }),
    ] {
        let mut world = World::new();
        write(&mut world.ledger, vec![Happening::Row("a"); 12]);
        let (home, clock) = (world.home, world.clock);
        drop(world.ledger);
        attack(home.path(), sql);
        match open(home.path(), &clock) {
            Err(StoreError::Broken(found)) => assert_eq!(found, expected, "{sql}"),
            other => panic!("{sql}: {other:?}"),
        }
    }
}

#[test]
fn a_start_verifies_the_last_ten_thousand_rows_and_leaves_the_rest_to_the_command() {
    let mut world = World::new();
    while world.ledger.head().seq < 10_100 {
        write(&mut world.ledger, vec![Happening::Row("a"); 505]);
    }
    let (home, clock) = (world.home, world.clock);
    drop(world.ledger);
    attack(home.path(), "UPDATE ledger SET caller = 'x' WHERE seq = 50");
    let ledger = open(home.path(), &clock).unwrap();
    let all = rows(ledger.view());
    assert!(verify(&all, ledger.head()).unwrap_err().contains("row 50 "));
    raw(&ledger).execute_batch("UPDATE ledger SET caller = 'x' WHERE seq = 101").unwrap();
    drop(ledger);
    let found = open(home.path(), &clock).unwrap_err();
    assert!(matches!(found, StoreError::Broken(Break::Content { seq: 101 })), "{found}");
}

#[test]
fn a_ledger_of_another_version_is_left_alone() {
    let world = World::new();
    let (home, clock) = (world.home, world.clock);
    drop(world.ledger);
    Connection::open(home.path().join("ledger.db")).unwrap().execute_batch("PRAGMA user_version = 99").unwrap();
    let found = open(home.path(), &clock).unwrap_err();
    assert!(matches!(found, StoreError::Version { found: 99, .. }), "{found}");
}

/// Homes as versions of the schema wrote them. Every later version opens them.
#[test]
fn a_home_of_an_earlier_version_opens_and_keeps_what_it_has() {
    // The version, its home, its rows at least, its grants and its closed approvals.
    let homes = [(1, include_str!("version_1.sql"), 20, 3, 2), (7, include_str!("version_7.sql"), 11, 3, 0)];
    for (version, written, fewest, granted, closed) in homes {
        let clock = World::new().clock;
        let home = tempfile::tempdir().unwrap();
        let database = Connection::open(home.path().join("ledger.db")).unwrap();
        database.execute_batch(written).unwrap();
        assert_eq!(database.query_row("PRAGMA user_version", [], |row| row.get(0)), Ok(version));
        drop(database);
        let mut ledger = open(home.path(), &clock).unwrap();
        let (head, count) = (ledger.head(), rows(ledger.view()).len());
        assert!(count >= fewest, "version {version}: {count} rows");
        assert_eq!(verify(&rows(ledger.view()), head), Ok(()));
        assert_eq!(grants::list(ledger.view(), None).unwrap().len(), granted);
        assert_eq!(approvals::closed(ledger.view(), 10).unwrap().len(), closed);
        clock.turn(head.ts - clock.now().millis());
        write(&mut ledger, vec![Happening::Row("a")]);
        assert_eq!(ledger.head().seq, head.seq + 1);
    }
}
