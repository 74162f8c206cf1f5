//! The quotas that all hosts share.

use super::world::{CALLER, Home, commit};
use crate::fleet_database::{FleetDatabase, body_key};
use crate::tcp_proxy::{Direction, Proxy};
use crate::{skipped, until};
use std::sync::Barrier;
use std::time::Duration;
use store::fleet::{FleetError, look_at_quotas};
use store::ledger::chain::{Draft, RowKind};
use store::state::shared_quotas;
use store::{Store, StoreError};
use tempfile::TempDir;

const QUOTA: (&str, &str) = ("github", "write");
/// The session that sleeps.
const HOLDER: &str = "FROM pg_stat_activity WHERE datname = current_database() AND wait_event = 'PgSleep'";

/// Opens a writer of another host, with a home of its own.
pub(super) fn other(home: &Home, database: &FleetDatabase, host: &str) -> (TempDir, Store) {
    database.add(host);
    let directory = tempfile::tempdir().unwrap();
    let settings = database.settings(host, database.server.port);
    let key = body_key(directory.path());
    let store = Store::open_in_fleet(directory.path(), home.clock(), "policy-1".to_owned(), (&settings, &key)).unwrap();
    (directory, store)
}

/// Decides and charges as a call does: the row is written if the known use permits it. Returns whether it is.
fn charge(store: &mut Store, quota: (&str, &str), uses: i64, most: i64) -> Result<bool, StoreError> {
    commit(store, |tx| {
        let found = shared_quotas::find(tx.view(), quota, tx.now())?;
        if found.held.is_some() || found.used + uses > most {
            return Ok(false);
        }
        tx.append(&Draft::new(RowKind::Refused, CALLER))?;
        shared_quotas::use_up(tx, quota, uses, most)?;
        Ok(true)
    })
}

fn used(home: &Home, store: &Store) -> i64 {
    shared_quotas::find(store.view(), QUOTA, home.clock().now()).unwrap().used
}

/// Returns the database, unless a day ends soon: the quotas of the real server would begin again.
fn database(home: &Home) -> Option<&FleetDatabase> {
    let database = home.database()?;
    let left = database.run("SELECT 86400 - extract(epoch FROM (now() AT TIME ZONE 'UTC')::time)::bigint");
    if left.parse::<i64>().unwrap() < 120 {
        skipped("a day ends soon");
        return None;
    }
    Some(database)
}

fn in_database(database: &FleetDatabase) -> String {
    database.run("SELECT provider, scope, used FROM host_broker.shared_quotas ORDER BY 1, 2")
}

#[test]
fn a_host_that_knows_too_little_writes_nothing_and_then_knows_more() {
    let home = Home::new();
    let Some(database) = database(&home) else { return };
    let mut a = home.store();
    let (_directory, mut b) = other(&home, database, "b");
    assert!(charge(&mut a, QUOTA, 3, 5).unwrap());
    assert_eq!((used(&home, &a), used(&home, &b)), (3, 0));
    let error = charge(&mut b, QUOTA, 3, 5).unwrap_err();
    let StoreError::Fleet(FleetError::UsedUp { provider, scope, used: of_all, left }) = &error else {
        panic!("{error}")
    };
    assert_eq!((provider.as_str(), scope.as_str(), of_all), ("github", "write", &3));
    assert!(*left <= Duration::from_secs(86_400), "{left:?}");
    assert!(error.is_outdated() && !error.is_of_all());
    assert_eq!((b.head().seq, used(&home, &b)), (0, 3), "the rows of the batch are gone with it");
    assert_eq!(database.run("SELECT count(*) FROM host_broker.ledger"), "1");
    assert_eq!(database.run("SELECT count(*) FROM host_broker.quotas"), "1");
    // The next attempt decides with it.
    assert!(!charge(&mut b, QUOTA, 3, 5).unwrap());
    assert!(charge(&mut b, QUOTA, 2, 5).unwrap());
    assert_eq!((used(&home, &a), used(&home, &b)), (3, 5));
    assert!(charge(&mut a, QUOTA, 1, 5).unwrap_err().is_outdated());
    assert!(!charge(&mut a, QUOTA, 1, 5).unwrap());
    // Another quota of the provider is free.
    assert!(charge(&mut a, ("github", "read"), 5, 5).unwrap());
    assert_eq!(in_database(database), "github|read|5\ngithub|write|5");
    let asked = ["write", "production"].map(|scope| ("github".to_owned(), scope.to_owned())).to_vec();
    let looks = look_at_quotas(&database.settings("b", database.server.port), asked).unwrap();
    let looks: Vec<_> = looks.iter().map(|look| (look.scope.as_str(), look.used)).collect();
    assert_eq!(looks, [("write", 5)]);
}

#[test]
fn a_restart_forgets_the_others_and_the_database_does_not() {
    let home = Home::new();
    let Some(database) = database(&home) else { return };
    let (_directory, mut b) = other(&home, database, "b");
    assert!(charge(&mut b, QUOTA, 4, 5).unwrap());
    let mut a = home.store();
    assert!(charge(&mut a, QUOTA, 1, 5).unwrap());
    assert_eq!(used(&home, &a), 5);
    drop(a);
    let mut a = home.store();
    assert_eq!(used(&home, &a), 0, "the database decides");
    assert!(charge(&mut a, QUOTA, 1, 5).unwrap_err().is_outdated());
    assert_eq!(used(&home, &a), 5);
}

/// Attack: see `three_hosts_use_a_shared_quota_exactly`.
#[test]
fn hosts_that_charge_at_the_same_time_use_a_quota_exactly() {
    let home = Home::new();
    let Some(database) = database(&home) else { return };
    let (_c, c) = other(&home, database, "c");
    let (_b, b) = other(&home, database, "b");
    let begin = Barrier::new(3);
    let written = std::thread::scope(|scope| {
        let run = |mut store: Store| {
            begin.wait();
            let mut written = 0;
            // Two quotas in one transaction, in both orders: no host waits for another that waits for it.
            for number in 0..40 {
                let done = commit(&mut store, |tx| {
                    let both = if number % 2 == 0 { ["write", "read"] } else { ["read", "write"] };
                    for scope in both {
                        if shared_quotas::find(tx.view(), ("github", scope), tx.now())?.used >= 50 {
                            return Ok(false);
                        }
                    }
                    tx.append(&Draft::new(RowKind::Refused, CALLER))?;
                    both.into_iter().try_for_each(|scope| shared_quotas::use_up(tx, ("github", scope), 1, 50))?;
                    Ok(true)
                });
                match done {
                    Ok(is_written) => written += i64::from(is_written),
                    Err(error) => assert!(error.is_outdated(), "{error}"),
                }
            }
            written
        };
        let threads = [home.store(), b, c].map(|store| scope.spawn(move || run(store)));
        threads.map(|thread| thread.join().unwrap())
    });
    assert_eq!(written.iter().sum::<i64>(), 50, "{written:?}");
    assert_eq!(in_database(database), "github|read|50\ngithub|write|50");
    assert_eq!(database.run("SELECT count(*) FROM host_broker.ledger"), "50");
}

/// Attack: see `three_hosts_use_a_shared_quota_exactly`.
#[test]
fn a_quota_counts_each_row_once_when_connections_are_cut() {
    let home = Home::new();
    let Some(database) = database(&home) else { return };
    let proxy = Proxy::before(database.server.port);
    let mut store = home.try_store_through(&proxy).unwrap();
    let cuts = (0..30).map(|n| (n * 60, Direction::ToServer)).chain((0..20).map(|n| (n * 20, Direction::FromServer)));
    for (bytes, direction) in cuts {
        until("the store writes again", || charge(&mut store, QUOTA, 1, 1000).ok());
        proxy.cut_after(bytes, direction);
        charge(&mut store, QUOTA, 1, 1000).ok();
        proxy.cut_after(-1, direction);
    }
    until("the store writes again", || charge(&mut store, QUOTA, 1, 1000).ok());
    let rows = store.head().seq;
    assert!(rows > 50, "{rows}");
    assert_eq!(in_database(database), format!("github|write|{rows}"));
    assert_eq!(used(&home, &store), rows);
}

/// Attack: see `a_role_can_only_add_to_a_quota`.
#[test]
fn a_quota_begins_again_with_the_day_of_the_database() {
    let home = Home::new();
    let Some(database) = database(&home) else { return };
    let open = || home.store();
    let mut store = open();
    assert!(charge(&mut store, QUOTA, 5, 5).unwrap());
    // The host believes that a new day has begun, and the database does not.
    home.wait(Duration::from_secs(86_400));
    assert_eq!(used(&home, &store), 5);
    let refused = |store: Store| {
        drop(store);
        let mut store = open();
        let error = charge(&mut store, QUOTA, 1, 5).unwrap_err();
        let StoreError::Fleet(FleetError::UsedUp { used: 5, left, .. }) = error else { panic!("{error}") };
        (store, left)
    };
    let day = Duration::from_secs(86_400);
    let (store, left) = refused(store);
    assert!(left <= day, "{left:?}");
    // The clock of the server was ahead, so the row has a later day. The error says how long.
    database.run("UPDATE host_broker.shared_quotas SET day = day + 400");
    let (store, left) = refused(store);
    assert!((day * 400..day * 401).contains(&left), "{left:?}");
    database.run("DELETE FROM host_broker.shared_quotas");
    drop(store);
    let mut store = open();
    assert!(charge(&mut store, QUOTA, 1, 5).unwrap());
    assert_eq!(in_database(database), "github|write|1");
}

/// A session that has charged quotas and does not end its transaction.
struct Holder<'d> {
    database: &'d FleetDatabase,
    session: std::thread::JoinHandle<Result<String, String>>,
}

fn hold<'d>(database: &'d FleetDatabase, scopes: &[&str]) -> Holder<'d> {
    let (server, name, role) = (database.server.clone(), database.name.clone(), format!("{}_a", database.name));
    let charge = |scope: &&str| format!("SELECT host_broker.charge('a', 1, 'github', '{scope}', 1, 5, 1000); ");
    let charges = scopes.iter().map(charge).collect::<Vec<String>>().concat();
    let begin = "BEGIN; SELECT set_config('host_broker.batch', 'a/1', true)";
    let statements = format!("{begin}; {charges} SELECT pg_sleep(600)");
    let session = std::thread::spawn(move || server.try_run_as(&role, &name, &statements));
    until("the quotas are held", || (database.run(&format!("SELECT count(*) {HOLDER}")) == "1").then_some(()));
    Holder { database, session }
}

impl Holder<'_> {
    fn end(self) {
        self.database.run(&format!("SELECT pg_terminate_backend(pid) {HOLDER}"));
        assert!(self.session.join().unwrap().is_err());
    }
}

/// Attack: see `a_quota_that_another_host_holds_delays_others_only_for_a_while`.
#[test]
fn a_batch_learns_of_many_held_quotas_with_one_long_wait() {
    let home = Home::new();
    let Some(database) = database(&home) else { return };
    let mut store = home.store();
    let scopes = ["a", "b", "c", "d", "e", "f", "g", "h"];
    let holder = hold(database, &scopes);
    // As a batch is decided again: calls with a quota that is held are refused, and the others charge theirs.
    let mut attempt = || {
        commit(&mut store, |tx| {
            for quota in scopes.map(|scope| ("github", scope)) {
                if shared_quotas::find(tx.view(), quota, tx.now())?.held.is_none() {
                    shared_quotas::use_up(tx, quota, 1, 5)?;
                }
            }
            tx.append(&Draft::new(RowKind::Refused, CALLER)).map(drop)
        })
    };
    let attempts = std::iter::repeat_with(|| attempt().is_err_and(|error| error.is_outdated()));
    let failed = attempts.take(64).take_while(|is_outdated| *is_outdated).count();
    // Each attempt learns of one quota. On a slow machine, a quota can be tried again in between.
    assert!((scopes.len()..64).contains(&failed), "{failed}");
    assert_eq!(store.head().seq, 1);
    holder.end();
}

/// Attack (Hosts of a fleet): A host that stands still, or a stolen role, holds a shared quota, and
/// the batches of all groups wait.
/// Defence: The charges of a batch wait once for three seconds, then for half a second. Calls with
/// this quota are refused for ten seconds, and all others continue.
#[test]
fn a_quota_that_another_host_holds_delays_others_only_for_a_while() {
    let home = Home::new();
    let Some(database) = database(&home) else { return };
    let mut store = home.store();
    assert!(charge(&mut store, QUOTA, 1, 5).unwrap());
    let holder = hold(database, &["write"]);
    let error = charge(&mut store, QUOTA, 1, 5).unwrap_err();
    assert!(matches!(&error, StoreError::Fleet(FleetError::Held { scope, .. }) if scope == "write"), "{error}");
    assert!(error.is_outdated() && !error.is_of_all());
    let found = shared_quotas::find(store.view(), QUOTA, home.clock().now()).unwrap();
    assert!(found.held.is_some_and(|left| left <= Duration::from_secs(10)), "{found:?}");
    assert!(!charge(&mut store, QUOTA, 1, 5).unwrap(), "it is not tried again yet");
    assert!(charge(&mut store, ("github", "read"), 1, 5).unwrap());
    holder.end();
    until("the quota is tried again", || charge(&mut store, QUOTA, 1, 5).unwrap().then_some(()));
    assert_eq!(in_database(database), "github|read|1\ngithub|write|2");
}

/// Attack (Hosts of a fleet): A stolen role of the database, or a host with a wrong clock, gets a
/// shared quota back.
/// Defence: Only a function adds to the use. The day is that of the server.
#[test]
fn a_role_can_only_add_to_a_quota() {
    let home = Home::new();
    let Some(database) = database(&home) else { return };
    let mut store = home.store();
    assert!(charge(&mut store, QUOTA, 5, 5).unwrap());
    let entered = |charge: &str| {
        format!(
            "BEGIN; SELECT set_config('host_broker.batch', 'a/1', true); SELECT host_broker.charge('a', 1, {charge}); COMMIT"
        )
    };
    let statements = [
        "UPDATE host_broker.shared_quotas SET used = 0",
        "DELETE FROM host_broker.shared_quotas",
        "TRUNCATE host_broker.shared_quotas",
        "INSERT INTO host_broker.shared_quotas VALUES ('x', 'write', now()::date, 0)",
        "SELECT host_broker.charge('a', 1, 'github', 'write', 1, 9, 10)",
    ];
    let charges = [
        "'github', 'write', -5, 5, 10",
        "'github', 'write', 0, 5, 10",
        "'github', 'write', NULL, 5, 10",
        "'github', 'write', 1, 9223372036854775807, 10",
        "'github', 'write', 1, 9, 0",
        "repeat('x', 129), 'write', 1, 9, 10",
        "'github', repeat('x', 161), 1, 9, 10",
    ];
    for statement in statements.into_iter().map(str::to_owned).chain(charges.map(entered)) {
        let refused = database.run_as("a", &statement);
        assert!(refused.is_err(), "{statement}: {refused:?}");
    }
    assert_eq!(in_database(database), "github|write|5");
    // The most that it can do: no host can use the quota today, and none fails.
    let largest = "1000000000000000000";
    database.run_as("a", &entered(&format!("'github', 'write', {largest} - 5, {largest}, 10"))).unwrap();
    let mut restarted = {
        drop(store);
        home.store()
    };
    assert!(charge(&mut restarted, QUOTA, 1, i64::from(u32::MAX)).unwrap_err().is_outdated());
    assert!(!charge(&mut restarted, QUOTA, 1, i64::from(u32::MAX)).unwrap());
}
