//! Opening: one writer, what a crash leaves behind, and what a start refuses.

use crate::ledger::dice::Dice;
use crate::ledger::scribe::{Clerk, Happening, fill, rows, verify, write};
use crate::ledger::world::{World, open};
use host_broker::event::Event;
use host_broker::ledger::chain::{Break, Verifier};
use host_broker::ledger::transaction::{Committed, Scribe, Step, Transaction, Unwritten};
use host_broker::ledger::{Durability, LedgerError, calls, store};
use model::Clock as _;
use rusqlite::Connection;
use serde_json::json;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// What a machine that lost its power would have: the database and its log, as they are on the disk now.
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
    assert!(matches!(&second, LedgerError::Locked { path } if *path == lock), "{second}");
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
    assert_eq!(verify(&rows(world.ledger.reader()), head), Ok(()));
}

/// Copies the home in the middle of a transaction.
struct Crashing {
    home: PathBuf,
    copy: Option<TempDir>,
}

impl Scribe<Happening> for Crashing {
    fn write<'tx>(
        &mut self,
        tx: &'tx Transaction<'_>,
        event: Happening,
    ) -> Result<Step<'tx, Happening>, Unwritten<Happening>> {
        let step = Clerk::default().write(tx, event)?;
        self.copy = Some(crashed(&self.home));
        Ok(step)
    }

    fn undone(&mut self, _seq: i64) {}
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
    assert_eq!(verify(&rows(after.reader()), head), Ok(()));
    assert!(write(&mut after, vec![Happening::Row("c")]).unwritten.is_empty());
}

#[test]
fn a_log_that_is_torn_anywhere_gives_the_beginning_of_the_same_chain() {
    let mut world = World::new();
    for _ in 0..12 {
        let rows = world.ledger.head().seq + 3;
        fill(&mut world.ledger, rows);
    }
    let (original, head) = (rows(world.ledger.reader()), world.ledger.head());
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
        let found = rows(after.reader());
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
    rows(after.reader()).iter().try_for_each(|row| verifier.take(row)).unwrap();
    assert_eq!(verifier.open().collect::<Vec<_>>(), [2, 3, 4]);
    assert_eq!(open_intents(after.reader()), [2, 3, 4]);

    let batch = after.batch(Durability::Full, vec![Event::Started], &mut world.broker);
    assert!(batch.unwritten.is_empty());
    let found = rows(after.reader());
    let kinds: Vec<&str> = found.iter().map(|row| row.kind.as_str()).collect();
    let expected = ["granted", "intended", "intended", "intended", "started", "timed_out", "unknown", "timed_out"];
    assert_eq!(kinds, expected);
    let mut verifier = Verifier::new();
    found.iter().try_for_each(|row| verifier.take(row)).unwrap();
    assert_eq!(verifier.open().count(), 0);
    assert_eq!(open_intents(after.reader()), Vec::<i64>::new());
}

#[test]
fn an_outcome_that_nothing_settles_is_asked_for_at_the_starts_of_a_week_and_stays_listed() {
    let mut world = World::new();
    world.say(json!({ "type": "grant", "group_folder": "developer", "provider": "mock", "access_level": 2 }));
    let call = world.call("developer", "write", &json!({}), None);
    world.admit(Durability::Full, vec![call]);
    world.ledger.batch(Durability::Full, vec![Event::Started], &mut world.broker);
    let asked = |world: &World| store::unknown_outcomes(world.ledger.reader(), world.clock.now()).unwrap().len();
    assert_eq!(asked(&world), 1);
    world.clock.turn(7 * 24 * 3_600_000 - 1);
    assert_eq!(asked(&world), 1);
    world.clock.turn(1);
    assert_eq!(asked(&world), 0);
    assert_eq!(calls::unknown_outcomes(world.ledger.reader()).unwrap().len(), 1);
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
            Err(LedgerError::Broken(found)) => assert_eq!(found, expected, "{sql}"),
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
    let all = rows(ledger.reader());
    assert!(verify(&all, ledger.head()).unwrap_err().contains("row 50 "));
    ledger.reader().execute_batch("UPDATE ledger SET caller = 'x' WHERE seq = 101").unwrap();
    drop(ledger);
    let found = open(home.path(), &clock).unwrap_err();
    assert!(matches!(found, LedgerError::Broken(Break::Content { seq: 101 })), "{found}");
}

#[test]
fn a_ledger_of_another_version_is_left_alone() {
    let world = World::new();
    let (home, clock) = (world.home, world.clock);
    drop(world.ledger);
    Connection::open(home.path().join("ledger.db")).unwrap().execute_batch("PRAGMA user_version = 99").unwrap();
    let found = open(home.path(), &clock).unwrap_err();
    assert!(matches!(found, LedgerError::Version { found: 99, .. }), "{found}");
}

#[test]
fn a_home_of_an_earlier_version_gets_what_was_added_and_keeps_what_it_has() {
    const VERSIONS: [&str; 15] = [
        include_str!("../../src/ledger/schema.sql"),
        include_str!("../../src/ledger/approvals.sql"),
        include_str!("../../src/ledger/notices.sql"),
        include_str!("../../src/ledger/proposals.sql"),
        include_str!("../../src/ledger/sealed.sql"),
        include_str!("../../src/ledger/policy.sql"),
        include_str!("../../src/ledger/identity.sql"),
        include_str!("../../src/ledger/accounts.sql"),
        include_str!("../../src/ledger/vault.sql"),
        include_str!("../../src/ledger/definitions.sql"),
        include_str!("../../src/ledger/flows.sql"),
        include_str!("../../src/ledger/outside.sql"),
        include_str!("../../src/ledger/operators.sql"),
        include_str!("../../src/ledger/issuers.sql"),
        include_str!("../../src/ledger/budgets.sql"),
    ];
    const KEY: &str = "INSERT INTO idempotency VALUES
        ('group:developer', 'work', 'demo', 'charge', 'k1', x'01', 'r-0', 7, 8)";
    const TOKEN: &str = r#"UPDATE approvals SET document =
        CAST('{"type":"ext_call","context_token":"a.b.c","params":{"n":1e2,"m":0.10}}' AS BLOB)"#;
    const ACCESS: &str = "INSERT INTO flow_grants VALUES
        ('fgrnt_1', x'01', 'default', 'project', 'flow_daily', '1.0.0', '[]', x'02', 'group:main', 0, 1, 1, 0, 0)";
    const QUESTION: &str = "INSERT INTO approvals
        (code, kind, caller, request_id, provider, action, level, digest, quorum, state, asked_seq, asked_at,
         expires_at, reply_by, told)
        VALUES ('aaaaaa', 'call', 'group:developer', 'r-1', 'demo', 'charge', 2, x'00', 1, 'waiting', 1, 0, 1, 1, 0)";
    for version in 1..=VERSIONS.len() {
        let world = World::new();
        let clock = world.clock;
        let home = tempfile::tempdir().unwrap();
        let database = Connection::open(home.path().join("ledger.db")).unwrap();
        database.execute_batch(&VERSIONS[..version].join("\n")).unwrap();
        database.execute_batch(&format!("PRAGMA user_version = {version}")).unwrap();
        let has_questions = version > 1;
        // From the seventh version on a key names a person, and no token was kept.
        let knows_persons = version >= 7;
        let key = if knows_persons { KEY.replace("'work'", "'', 'work'") } else { KEY.to_owned() };
        let token = if knows_persons { TOKEN.replace(r#""context_token":"a.b.c","#, "") } else { TOKEN.to_owned() };
        database.execute_batch(&key).unwrap();
        if has_questions {
            database.execute_batch(&format!("{QUESTION}; {token}")).unwrap();
        }
        // From the twelfth on there are accesses.
        let has_accesses = version >= 12;
        if has_accesses {
            database.execute_batch(ACCESS).unwrap();
        }
        drop(database);
        let mut ledger = open(home.path(), &clock).unwrap();
        write(&mut ledger, vec![Happening::Row("a")]);
        let count = |table: &str| -> i64 {
            ledger.reader().query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get(0)).unwrap()
        };
        // Whoever waits when this version comes is not forgotten.
        assert_eq!((count("notice_events"), count("notices")), (i64::from(has_questions), 0), "from {version}");
        assert_eq!(count("approvals WHERE sealed IS NULL"), i64::from(has_questions), "from {version}");
        // A key stays the group's own, and no token stays.
        let key =
            "idempotency WHERE caller = 'group:developer' AND person = '' AND account = 'work' AND provider = 'demo'
            AND action = 'charge' AND key = 'k1' AND params_digest = x'01' AND request_id = 'r-0' AND seq = 7
            AND claimed_at = 8";
        assert_eq!(count(key), 1, "from {version}");
        assert_eq!(count("sqlite_schema WHERE name = 'idempotency_age' AND tbl_name = 'idempotency'"), 1);
        let stripped = r#"approvals WHERE CAST(document AS TEXT) = '{"type":"ext_call","params":{"n":1e2,"m":0.10}}'"#;
        assert_eq!(count(stripped), i64::from(has_questions), "from {version}");
        // Whoever has given accesses has them counted.
        let counted = "flow_grants_by WHERE issued_by = 'group:main' AND n = 1";
        assert_eq!((count(counted), count("flow_grants_by")), (i64::from(has_accesses), i64::from(has_accesses)));
        drop(ledger);
        let again = open(home.path(), &clock).unwrap();
        assert_eq!(again.head().seq, 1);
    }
}
