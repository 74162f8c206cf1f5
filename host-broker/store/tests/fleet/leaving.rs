//! A home leaves the database of its fleet.

use super::world::{CALLER, Home, append, commit, task};
use crate::fleet_database::{FleetDatabase, body_key};
use crate::tcp_proxy::{Direction, Proxy};
use crate::until;
use std::path::Path;
use store::fleet::{DaemonState, FleetError, look};
use store::ledger::chain::{Draft, Head, RowKind};
use store::state::gates;
use store::{Store, StoreError};

fn leave(home: &Home, directory: &Path, database: &FleetDatabase, port: u16) -> Result<Head, StoreError> {
    let fleet = (&database.settings("a", port), &body_key(home.path()));
    Store::leave_fleet(directory, home.clock(), "policy-1".to_owned(), fleet, CALLER)
}

/// A home with rows that is a copy of the host `a`.
fn joined(home: &Home) -> Option<&FleetDatabase> {
    let database = home.database()?;
    let mut store = home.store();
    for name in ["gov-0", "gov-1"] {
        commit(&mut store, |tx| append(tx, RowKind::Refused).and_then(|_| gates::create(tx, &task(name)))).unwrap();
    }
    Some(database)
}

fn is_refused(result: Result<impl Sized, StoreError>, is_expected: impl Fn(&FleetError) -> bool) {
    match result.map(drop) {
        Err(StoreError::Fleet(error)) => assert!(is_expected(&error), "{error}"),
        other => panic!("{other:?}"),
    }
}

/// The home continues alone, and no daemon serves the host from the database.
fn has_left(home: &Home, database: &FleetDatabase, rows: i64) {
    let mut store = home.store_alone();
    assert_eq!(store.head().seq, rows);
    assert_eq!(gates::tasks(store.view()).unwrap().len(), 2);
    commit(&mut store, |tx| append(tx, RowKind::Noted)).unwrap();
    drop(store);
    let other = tempfile::tempdir().unwrap();
    for directory in [home.path(), other.path()] {
        is_refused(home.try_store(directory), |error| matches!(error, FleetError::Left(_)));
        is_refused(leave(home, directory, database, database.server.port), |error| {
            matches!(error, FleetError::Left(_) | FleetError::NotJoined(_))
        });
    }
    let settings = database.settings("a", database.server.port);
    let look = look(&settings).unwrap();
    assert_eq!(look.hosts[0].daemon, DaemonState::Left);
    assert!(matches!(look.check(&settings), Err(FleetError::Left(_))));
    // Its rows stay where they are, with the one that says so.
    let last = database.run("SELECT max(seq), max(body) FILTER (WHERE kind = 'noted') FROM host_broker.ledger");
    assert_eq!(last, format!("{rows}|{{\"leaving_fleet\":\"a\"}}"));
}

/// Attack (Hosts of a fleet): A home leaves the database, and a second daemon continues with the
/// old records.
/// Defence: PostgreSQL marks the host before the copy ends. A mark counts only when a standby has
/// it.
#[test]
fn a_home_that_has_left_has_all_records_and_nobody_continues_in_the_database() {
    let home = Home::new();
    let Some(database) = joined(&home) else { return };
    let head = leave(&home, home.path(), database, database.server.port).unwrap();
    assert_eq!(head.seq, 3);
    has_left(&home, database, 3);
    // Another host can have its records.
    database.add("b");
    let store = home.try_store_as("b").unwrap();
    assert_eq!(store.head().seq, 4);
}

#[test]
fn another_machine_takes_all_records_out_of_the_database() {
    let home = Home::new();
    let Some(database) = joined(&home) else { return };
    let other = tempfile::tempdir().unwrap();
    leave(&home, other.path(), database, database.server.port).unwrap();
    let store = Store::open(other.path(), home.clock(), "policy-1".to_owned()).unwrap();
    assert_eq!((store.head().seq, gates::tasks(store.view()).unwrap().len()), (3, 2));
    // The first home lacks the last row.
    is_refused(home.try_store_alone(), |error| matches!(error, FleetError::NotConfigured(_)));
    is_refused(leave(&home, home.path(), database, database.server.port), |error| matches!(error, FleetError::Left(_)));
    // An administrator can take the mark back, and then the database has the host again.
    drop(store);
    database.run("UPDATE host_broker.hosts SET has_left = false");
    assert_eq!(home.store().head().seq, 3);
}

#[test]
fn a_home_that_is_no_copy_of_the_host_does_not_leave_and_a_daemon_keeps_it() {
    let home = Home::new();
    let Some(database) = home.database() else { return };
    let port = database.server.port;
    let nobody = tempfile::tempdir().unwrap();
    is_refused(leave(&home, nobody.path(), database, port), |error| matches!(error, FleetError::NotJoined(_)));
    let mut alone = home.store_alone();
    commit(&mut alone, |tx| append(tx, RowKind::Refused)).unwrap();
    drop(alone);
    is_refused(leave(&home, home.path(), database, port), |error| matches!(error, FleetError::NotJoined(_)));
    assert_eq!(database.run("SELECT seq, fence, has_left FROM host_broker.hosts"), "0|0|f");
    let mut store = home.store();
    let refused = leave(&home, home.path(), database, port);
    assert!(matches!(refused, Err(StoreError::Locked { .. })), "{refused:?}");
    // A daemon with another home serves the host.
    let other = tempfile::tempdir().unwrap();
    is_refused(leave(&home, other.path(), database, port), |error| matches!(error, FleetError::Served(_)));
    commit(&mut store, |tx| append(tx, RowKind::Refused)).unwrap();
    drop(store);
    database.add("b");
    let fleet = (&database.settings("b", port), &body_key(home.path()));
    let as_b = Store::leave_fleet(home.path(), home.clock(), "policy-1".to_owned(), fleet, CALLER);
    is_refused(as_b, |error| matches!(error, FleetError::NotJoined(_)));
}

/// Attack (Hosts of a fleet): A new machine probes while an effect of the old daemon is still under
/// way.
/// Defence: It waits two minutes, also after a restart. `fleet leave` is refused until then.
#[test]
fn a_home_that_shuts_a_daemon_out_does_not_leave_before_it_knows_what_that_daemon_did() {
    let home = Home::new();
    let Some(database) = joined(&home) else { return };
    let mut store = home.store();
    // Its machine dies.
    store.keep_host();
    drop(store);
    let other = tempfile::tempdir().unwrap();
    let port = database.server.port;
    is_refused(leave(&home, other.path(), database, port), |error| matches!(error, FleetError::Ousted(_)));
    assert_eq!(database.run("SELECT has_left FROM host_broker.hosts"), "f");
    // A daemon of this home finds them out, also after a restart in between.
    assert!(home.try_store(other.path()).unwrap().has_ousted());
    let mut store = home.try_store(other.path()).unwrap();
    assert!(store.has_ousted());
    store.others_have_ended();
    drop(store);
    assert!(!home.try_store(other.path()).unwrap().has_ousted());
    leave(&home, other.path(), database, port).unwrap();
}

#[test]
fn a_copy_that_was_cut_is_no_home_of_its_own_and_can_leave() {
    let home = Home::new();
    let Some(database) = joined(&home) else { return };
    let mut store = home.store();
    for _row in 0..30 {
        let long =
            Draft { body: serde_json::json!({ "text": "x".repeat(100_000) }), ..Draft::new(RowKind::Refused, CALLER) };
        commit(&mut store, |tx| tx.append(&long)).unwrap();
    }
    drop(store);
    let (other, proxy) = (tempfile::tempdir().unwrap(), Proxy::before(database.server.port));
    let alone = || Store::open(other.path(), home.clock(), "policy-1".to_owned());
    proxy.cut_after(2_000_000, Direction::FromServer);
    leave(&home, other.path(), database, proxy.port).unwrap_err();
    is_refused(alone(), |error| matches!(error, FleetError::NotConfigured(_)));
    until("it has left", || leave(&home, other.path(), database, proxy.port).ok());
    assert_eq!(alone().unwrap().head().seq, 33);
}

/// Attack: see `a_home_that_has_left_has_all_records_and_nobody_continues_in_the_database`.
#[test]
fn a_mark_that_no_standby_may_have_does_not_count() {
    let home = Home::new();
    let Some(database) = FleetDatabase::alone() else { return };
    let (settings, key) = (database.settings("a", database.server.port), body_key(home.path()));
    drop(Store::open_in_fleet(home.path(), home.clock(), "policy-1".to_owned(), (&settings, &key)).unwrap());
    // The primary has committed the mark alone, and its connection has ended.
    database.run("UPDATE host_broker.hosts SET has_left = true");
    let set = |names: &str| {
        database.run(&format!("ALTER SYSTEM SET synchronous_standby_names = '{names}'"));
        database.run("SELECT pg_reload_conf()");
        until("the setting", || (database.run("SHOW synchronous_standby_names") == names).then_some(()));
    };
    set("ANY 1 (away)");
    let refused = leave(&home, home.path(), &database, database.server.port);
    is_refused(refused, |error| matches!(error, FleetError::Unreachable(_)));
    is_refused(home.try_store_alone(), |error| matches!(error, FleetError::NotConfigured(_)));
    set("");
    leave(&home, home.path(), &database, database.server.port).unwrap();
    drop(home.store_alone());
}

/// Leaves again and again, each time with another cut: a few in the beginning, and more near the end, where the database
/// gets the mark. Returns how often it had the mark although the home had no answer.
fn leave_through_cuts(direction: Direction) -> Option<usize> {
    const MANY: i64 = 1_000_000;
    let home = Home::new();
    let database = joined(&home)?;
    let proxy = Proxy::before(database.server.port);
    let is_marked = || database.run("SELECT has_left FROM host_broker.hosts") == "t";
    proxy.cut_after(MANY, direction);
    leave(&home, home.path(), database, proxy.port).unwrap();
    let all = MANY - proxy.cut_after(-1, direction);
    let (mut cuts, mut marked) = (0, 0);
    for bytes in (0..4).map(|part| all * part / 4).chain((1..=10).map(|step| all - step * 40)) {
        // It is the same history, so the home can return when an administrator takes the mark back.
        database.run("UPDATE host_broker.hosts SET has_left = false");
        until("the host is free", || home.try_store(home.path()).ok());
        proxy.cut_after(bytes, direction);
        let left = leave(&home, home.path(), database, proxy.port);
        cuts += usize::from(proxy.cut_after(-1, direction) < 0);
        if left.is_ok() {
            // The store connects again where nothing is lost by it.
            assert!(is_marked());
        } else if is_marked() {
            marked += 1;
            is_refused(home.try_store(home.path()), |error| matches!(error, FleetError::Leaving(_)));
        }
        if left.is_err() {
            until("it has left", || leave(&home, home.path(), database, database.server.port).ok());
        }
    }
    assert!(cuts > 10, "{cuts}");
    has_left(&home, database, database.run("SELECT seq FROM host_broker.hosts").parse().unwrap());
    Some(marked)
}

#[test]
fn a_home_whose_connection_is_cut_at_any_byte_can_leave_again_and_loses_nothing() {
    let Some(marked) = leave_through_cuts(Direction::FromServer) else { return };
    assert!(marked > 0, "no cut took the answer");
    leave_through_cuts(Direction::ToServer);
}
