//! A home is a copy of the rows of its host.

use super::conflicts::{ask, external_grant};
use super::world::{CALLER, Home, append, commit, task};
use crate::fleet_database::{body_key, differences};
use crate::tcp_proxy::Proxy;
use crate::until;
use model::approval::ApprovalState;
use model::{KillScope, LedgerKey};
use rusqlite::Connection;
use shared::digest::Digest;
use std::path::Path;
use std::time::Duration;
use store::fleet::{BodyKey, DaemonState, FleetError, ServerDurability, Settings, look};
use store::ledger::chain::{Draft, RowKind};
use store::ledger::segments;
use store::state::external_grants::Issued;
use store::state::replies::Delivery;
use store::state::{external_grants, gates, kill, replies};
use store::{Store, StoreError};

/// Makes rows of several tables, changes some, and deletes some.
fn work(home: &Home, store: &mut Store, round: i64) {
    commit(store, |tx| {
        let mut draft = Draft::new(RowKind::Refused, CALLER);
        draft.summary = Some(format!("a \0 and a \u{f8ff}0 of round {round} with ü and \u{1f600}"));
        tx.append(&draft)?;
        gates::create(tx, &task(&format!("gov-{round}")))?;
        let (asked, reply) = (format!("r-{round}"), vec![b'x'; 100]);
        ask(tx, &asked, &format!("CODE-{round}"), ApprovalState::Waiting)?;
        replies::keep(tx, tx.head().seq, CALLER, &asked.parse().unwrap(), &reply, Delivery::Due)?;
        let grant = external_grant(home, 2);
        let issued = external_grants::issue(tx, &grant, &Digest::of(grant.grant_id.as_str().as_bytes()))?;
        assert_eq!(issued, Issued::Stored);
        kill::set(tx, &of("github"), CALLER, true)?;
        kill::set(tx, &of(&format!("p{round}")), CALLER, true)?;
        Ok(())
    })
    .unwrap();
    commit(store, |tx| kill::set(tx, &of("github"), CALLER, false)).unwrap();
}

fn of(provider: &str) -> KillScope {
    KillScope::Provider(provider.parse().unwrap())
}

fn rows(store: &Store) -> i64 {
    store.head().seq
}

/// Leaves the test where there is no PostgreSQL.
macro_rules! database {
    ($home:expr) => {
        match $home.database() {
            Some(database) => database,
            None => return,
        }
    };
}

#[test]
fn another_directory_gets_every_row() {
    let home = Home::new();
    let database = database!(home);
    let mut store = home.store();
    (0..5).for_each(|round| work(&home, &mut store, round));
    let head = store.head();
    drop(store);
    let other = tempfile::tempdir().unwrap();
    let mut copy = home.try_store(other.path()).unwrap();
    assert_eq!(copy.head(), head);
    assert_eq!(differences(home.path(), other.path()), Vec::<String>::new());
    // The copy goes on, and the first home catches up.
    work(&home, &mut copy, 5);
    drop(copy);
    assert_ne!(differences(home.path(), other.path()), Vec::<String>::new());
    let store = home.store();
    assert_eq!(rows(&store), 12);
    assert_eq!(differences(home.path(), other.path()), Vec::<String>::new());
    assert_eq!(database.run("SELECT count(*), max(seq) FROM host_broker.ledger"), "12|12");
}

#[test]
fn a_home_with_rows_fills_an_empty_database() {
    let home = Home::new();
    let database = database!(home);
    let mut store = home.store_alone();
    // More than one part, and the oldest rows in a segment.
    let long = "x".repeat(100_000);
    for round in 0..30 {
        commit(&mut store, |tx| {
            let mut draft = Draft::new(RowKind::Refused, CALLER);
            draft.body = serde_json::json!({ "text": long });
            tx.append(&draft)?;
            gates::create(tx, &task(&format!("gov-{round}")))
        })
        .unwrap();
    }
    home.wait(Duration::from_secs(2 * 86_400));
    commit(&mut store, |tx| append(tx, RowKind::Refused)).unwrap();
    let due = store.due_segment(1, 10).unwrap().unwrap();
    let written = segments::write(home.path(), due).unwrap();
    commit(&mut store, |tx| segments::note(tx, &written)).unwrap();
    commit(&mut store, segments::delete_rows).unwrap();
    let head = store.head();
    drop(store);
    let mut store = home.store();
    assert_eq!(store.head(), head);
    let (first, last) = (1, head.seq);
    assert_eq!(
        database.run("SELECT min(seq), max(seq), count(*) FROM host_broker.ledger"),
        format!("{first}|{last}|{last}")
    );
    commit(&mut store, |tx| append(tx, RowKind::Refused)).unwrap();
    drop(store);
    let other = tempfile::tempdir().unwrap();
    let copy = home.try_store(other.path()).unwrap();
    let mut rows = Vec::new();
    segments::each(other.path(), copy.view(), 1, |row| {
        rows.push(row.seq);
        Ok(())
    })
    .unwrap();
    assert_eq!(rows, (1..=last + 1).collect::<Vec<i64>>());
    assert_eq!(gates::tasks(copy.view()).unwrap().len(), 30);
}

#[test]
fn a_copy_that_lacks_batches_catches_up_and_one_that_has_more_is_refused() {
    let home = Home::new();
    let database = database!(home);
    let mut store = home.store();
    work(&home, &mut store, 0);
    drop(store);
    let (now, old) = (home.path().join("ledger.db"), home.path().join("old.db"));
    // The writer has emptied the log.
    let put = |from: &Path, to: &Path| {
        for end in ["-wal", "-shm"] {
            std::fs::remove_file(format!("{}{end}", to.display())).ok();
        }
        std::fs::copy(from, to).unwrap();
    };
    checkpoint(&now);
    put(&now, &old);
    let mut store = home.store();
    work(&home, &mut store, 1);
    let head = store.head();
    drop(store);
    put(&old, &now);
    let store = home.store();
    assert_eq!(store.head(), head);
    assert!(gates::task(store.view(), &"gov-1".parse().unwrap()).unwrap().is_some());
    drop(store);
    // The database is restored from a backup, so it lacks a batch.
    database.run("UPDATE host_broker.hosts SET batch = batch - 1");
    let refused = home.try_store(home.path()).unwrap_err();
    assert!(matches!(refused, StoreError::Fleet(FleetError::Older { .. })), "{refused}");
}

/// Moves the log into the database.
fn checkpoint(path: &Path) {
    let connection = Connection::open(path).unwrap();
    connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
}

#[test]
fn a_home_with_another_history_is_refused() {
    let home = Home::new();
    database!(home);
    let mut store = home.store();
    work(&home, &mut store, 0);
    drop(store);
    let other = Home::new();
    let mut alone = other.store_alone();
    work(&other, &mut alone, 7);
    drop(alone);
    let refused = home.try_store(other.path()).unwrap_err();
    assert!(matches!(refused, StoreError::Fleet(FleetError::Other(_))), "{refused}");
}

#[test]
fn a_copy_without_its_database_is_not_opened() {
    let home = Home::new();
    database!(home);
    drop(home.store());
    let refused = home.try_store_alone().unwrap_err();
    assert!(matches!(refused, StoreError::Fleet(FleetError::NotConfigured(_))), "{refused}");
    drop(home.restored());
    drop(home.store_alone());
}

#[test]
fn a_home_gets_another_host_when_its_database_has_lost_rows() {
    let home = Home::new();
    let database = database!(home);
    let mut store = home.store();
    work(&home, &mut store, 0);
    let head = store.head();
    drop(store);
    database.run("UPDATE host_broker.hosts SET batch = batch - 1");
    database.add("b");
    let mut store = home.try_store_as("b").unwrap();
    assert_eq!(store.head(), head);
    assert_eq!(database.run("SELECT seq FROM host_broker.hosts WHERE host = 'b'"), head.seq.to_string());
    work(&home, &mut store, 1);
    drop(store);
    assert!(matches!(home.try_store(home.path()), Err(StoreError::Fleet(FleetError::Other(_)))));
}

#[test]
fn a_role_reads_and_writes_the_rows_of_its_host_only_and_no_row_of_the_ledger_changes() {
    let home = Home::new();
    let database = database!(home);
    let mut store = home.store();
    work(&home, &mut store, 0);
    database.add("b");
    let as_b = |statement: &str| database.run_as("b", statement);
    assert_eq!(as_b("SELECT count(*) FROM host_broker.ledger").unwrap(), "0");
    assert_eq!(as_b("SELECT count(*) FROM host_broker.tasks").unwrap(), "0");
    assert_eq!(as_b("UPDATE host_broker.tasks SET title = 'x' RETURNING 1").unwrap(), "");
    assert_eq!(as_b("UPDATE host_broker.hosts SET fence = 9 WHERE host = 'a' RETURNING 1").unwrap(), "");
    for forbidden in [
        "INSERT INTO host_broker.kill_switches VALUES ('a', 'all', 'x', 1)",
        "INSERT INTO host_broker.kill_switches VALUES ('b', 'all', 'x', 1) ON CONFLICT DO NOTHING; \
         UPDATE host_broker.kill_switches SET host = 'a'",
        "UPDATE host_broker.hosts SET role = session_user WHERE host = 'b'",
        "INSERT INTO host_broker.hosts (host, role) VALUES ('c', 'x')",
        "SELECT host_broker.admit('a', session_user)",
        "DELETE FROM host_broker.ledger",
        "TRUNCATE host_broker.ledger",
        "SELECT host_broker.enter('a', 9, 1, 4, 9, '', false)",
    ] {
        assert!(as_b(forbidden).is_err(), "{forbidden}");
    }
    // Its own rows, too, and those of the owner of the tables.
    for statement in ["UPDATE host_broker.ledger SET body = '{}'", "DELETE FROM host_broker.ledger"] {
        assert!(database.run_as("a", statement).unwrap_err().contains("permission denied"), "{statement}");
        assert!(database.try_run(statement).unwrap_err().contains("append-only"), "{statement}");
    }
    work(&home, &mut store, 1);
}

#[test]
fn a_copied_home_does_not_count_as_the_one_that_runs() {
    let home = Home::new();
    let database = database!(home);
    drop(home.store());
    let proxy = Proxy::before(database.server.port);
    let mut first = home.try_store_through(&proxy).unwrap();
    work(&home, &mut first, 0);
    let copy = tempfile::tempdir().unwrap();
    for name in ["ledger.db", "ledger.db-wal"] {
        std::fs::copy(home.path().join(name), copy.path().join(name)).unwrap();
    }
    // The batch of the first one does not arrive, and the copy writes another one with its number.
    proxy.away(true);
    let mut second = home.try_store(copy.path()).unwrap();
    commit(&mut second, |tx| append(tx, RowKind::Started)).unwrap();
    proxy.away(false);
    let refused = until("the first is shut out", || {
        let error = commit(&mut first, |tx| append(tx, RowKind::Stopped)).unwrap_err();
        (!matches!(error, StoreError::Fleet(FleetError::Unreachable(_)))).then_some(error)
    });
    assert!(matches!(refused, StoreError::Fleet(FleetError::Fenced(_))), "{refused}");
    assert_eq!(database.run("SELECT kind FROM host_broker.ledger ORDER BY seq DESC LIMIT 1"), "started");
}

#[test]
fn tables_of_another_version_are_refused_at_the_start_and_in_each_batch() {
    let home = Home::new();
    let database = database!(home);
    let mut store = home.store();
    database.run("UPDATE host_broker.version SET version = version + 1");
    let refused = commit(&mut store, |tx| append(tx, RowKind::Refused)).unwrap_err();
    assert!(matches!(&refused, StoreError::Fleet(FleetError::Refused(text)) if text.contains("version")), "{refused}");
    drop(store);
    let refused = home.try_store(home.path()).unwrap_err();
    assert!(matches!(refused, StoreError::Fleet(FleetError::Version { .. })), "{refused}");
}

#[test]
fn a_server_that_can_lose_rows_is_refused_unless_an_operator_accepts_it() {
    let home = Home::new();
    let database = database!(home);
    let strict = Settings::new("a".parse().unwrap(), &database.url("a", database.server.port), None).unwrap();
    let open =
        || Store::open_in_fleet(home.path(), home.clock(), "policy-1".to_owned(), (&strict, &body_key(home.path())));
    assert!(matches!(open(), Err(StoreError::Fleet(FleetError::Durability(_)))));
    let look = look(&strict).unwrap();
    assert_eq!(look.durability, ServerDurability::OneMachine);
    assert_eq!(look.hosts.len(), 1);
    drop(home.store());
}

#[test]
fn a_home_with_another_key_is_refused_before_it_shuts_the_daemon_out() {
    let home = Home::new();
    let Some(database) = home.database() else { return };
    let settings = database.settings("a", database.server.port);
    let mut store = home.store();
    work(&home, &mut store, 0);
    drop(store);
    let host = || database.run("SELECT fence, batch, holder FROM host_broker.hosts WHERE host = 'a'");
    let before = host();
    let other = tempfile::tempdir().unwrap();
    let key = BodyKey::new(&LedgerKey::new(vec![8; 32]));
    let opened = Store::open_in_fleet(other.path(), home.clock(), "policy-1".to_owned(), (&settings, &key)).map(drop);
    assert!(matches!(opened, Err(StoreError::Fleet(FleetError::OtherKey(_)))), "{opened:?}");
    assert_eq!(host(), before);
    drop(home.store());
}

#[test]
fn a_home_whose_daemon_died_during_its_takeover_is_still_the_same_home() {
    let home = Home::new();
    let Some(database) = home.database() else { return };
    let mut store = home.store();
    work(&home, &mut store, 0);
    // It dies without a release.
    store.keep_host();
    drop(store);
    let names = || {
        let copy = Connection::open(home.path().join("ledger.db")).unwrap();
        copy.query_row("SELECT holder FROM fleet", [], |row| row.get::<_, String>(0)).unwrap()
    };
    let former = names();
    database.run("ALTER TABLE host_broker.hosts ADD CONSTRAINT refused CHECK (fence < 0) NOT VALID");
    assert!(home.try_store_as("a").is_err());
    let both = names();
    let (known, fresh) = both.split_once(' ').unwrap();
    assert_eq!(known, former);
    // As if the takeover had been committed before the death.
    database.run("ALTER TABLE host_broker.hosts DROP CONSTRAINT refused");
    database.run(&format!("UPDATE host_broker.hosts SET holder = '{fresh}'"));
    let store = home.store();
    assert!(!store.has_ousted(), "its own effects have ended with it");
    assert!(!names().contains(' ') && names() != fresh);
}

#[test]
fn the_database_shows_whether_a_daemon_serves_a_host() {
    let home = Home::new();
    let database = database!(home);
    let settings = database.settings("a", database.server.port);
    let host = || look(&settings).unwrap().hosts.remove(0);
    database.add("b");
    let other = look(&settings).unwrap().hosts.remove(1);
    assert_eq!((other.daemon, other.seen), (DaemonState::Never, None));
    let store = home.store();
    assert_eq!(host().daemon, DaemonState::Running);
    drop(store);
    assert_eq!(host().daemon, DaemonState::Stopped);
    let mut store = home.store();
    store.keep_host();
    drop(store);
    assert_eq!(host().daemon, DaemonState::Running, "it has been seen just now");
    let age = "UPDATE host_broker.hosts SET seen_at = clock_timestamp() - interval";
    database.run(&format!("{age} '14 s'"));
    assert_eq!(host().daemon, DaemonState::Running);
    database.run(&format!("{age} '70 s'"));
    assert_eq!(host().daemon, DaemonState::Silent);
    assert!((70..100).contains(&host().seen.unwrap().as_secs()));
    // A server whose clock was set back.
    database.run(&format!("{age} '-1 h'"));
    assert_eq!((host().daemon, host().seen), (DaemonState::Silent, None));
    // Each transaction of the host is a sign, and its role cannot write the time.
    let mut store = home.store();
    database.run(&format!("{age} '1 h'"));
    commit(&mut store, |tx| append(tx, RowKind::Noted)).unwrap();
    assert_eq!(host().daemon, DaemonState::Running);
    let refused = database.run_as("a", "UPDATE host_broker.hosts SET seen_at = now()").unwrap_err();
    assert!(refused.contains("permission denied"), "{refused}");
}
