//! Faults between a host and the database.

use super::world::{CALLER, Home, task};
use crate::fleet_database::{FleetDatabase, body_key};
use crate::tcp_proxy::{Direction, Proxy};
use crate::until;
use std::collections::BTreeSet;
use store::fleet::FleetError;
use store::ledger::chain::{Draft, RowKind};
use store::state::gates;
use store::{ClockCheck, Durability, Store, StoreError, Undone};

/// Writes one row and one task of this name. Returns whether it was acknowledged.
fn write(store: &mut Store, name: &str, durability: Durability) -> Result<(), StoreError> {
    let done = store.transaction((durability, ClockCheck::Required), |tx| {
        let mut draft = Draft::new(RowKind::Refused, CALLER);
        draft.summary = Some(name.to_owned());
        tx.append(&draft)?;
        gates::create(tx, &task(name))
    });
    done.map(drop).map_err(|undone| match undone {
        Undone::NotBegun(error) | Undone::Failed(error) | Undone::NotCommitted(_, error) => error,
    })
}

/// The tasks in the database and in the copy, which are the same, and equal to the rows.
fn stored(database: &FleetDatabase, store: &Store) -> BTreeSet<String> {
    let there = database.run("SELECT id FROM host_broker.tasks WHERE host = 'a'");
    let there: BTreeSet<String> = there.lines().map(str::to_owned).collect();
    let here: BTreeSet<String> = gates::tasks(store.view()).unwrap().iter().map(|task| task.id.to_string()).collect();
    assert_eq!(there, here);
    let rows = database.run("SELECT summary FROM host_broker.ledger WHERE host = 'a' ORDER BY seq");
    let rows: Vec<&str> = rows.lines().collect();
    assert_eq!(rows.len(), there.len(), "no row is there twice");
    assert_eq!(rows.into_iter().map(str::to_owned).collect::<BTreeSet<String>>(), there);
    assert_eq!(store.head().seq, i64::try_from(here.len()).unwrap());
    there
}

#[test]
fn no_batch_is_lost_or_there_twice_when_connections_are_cut_at_any_byte() {
    let home = Home::new();
    let Some(database) = home.database() else { return };
    let proxy = Proxy::before(database.server.port);
    let mut store = home.try_store_through(&proxy).unwrap();
    write(&mut store, "gov-first", Durability::Full).unwrap();
    let (mut acknowledged, mut settled) = (BTreeSet::from(["gov-first".to_owned()]), 0);
    let fence = || database.run("SELECT fence FROM host_broker.hosts");
    let cuts = (0..60).map(|n| (n * 25, Direction::ToServer)).chain((0..40).map(|n| (n * 8, Direction::FromServer)));
    for (number, (bytes, direction)) in cuts.enumerate() {
        // It has a connection again, with prepared statements.
        until("the store writes again", || store.try_write().ok());
        let (before, name) = (format!("gov-{number}-before"), format!("gov-{number}"));
        write(&mut store, &before, Durability::Full).unwrap();
        acknowledged.insert(before);
        let earlier = fence();
        proxy.cut_after(bytes, direction);
        // It is sent again if it did not arrive.
        if write(&mut store, &name, Durability::Full).is_ok() {
            settled += i32::from(fence() != earlier);
            acknowledged.insert(name);
        }
        proxy.cut_after(-1, direction);
    }
    until("the store writes again", || write(&mut store, "gov-last", Durability::Full).ok());
    acknowledged.insert("gov-last".to_owned());
    let stored = stored(database, &store);
    assert!(stored.is_superset(&acknowledged), "{:?}", acknowledged.difference(&stored));
    // The fence shuts the lost connection out before the batch counts.
    assert!(settled > 0, "no cut hid a commit");
    drop(store);
    let again = home.store();
    assert_eq!(self::stored(database, &again), stored);
}

#[test]
fn nothing_is_written_while_the_database_is_away_and_everything_afterwards() {
    let home = Home::new();
    let Some(database) = home.database() else { return };
    let proxy = Proxy::before(database.server.port);
    let mut store = home.try_store_through(&proxy).unwrap();
    write(&mut store, "gov-0", Durability::Full).unwrap();
    proxy.away(true);
    for durability in [Durability::Full, Durability::Normal, Durability::Deferred] {
        let error = write(&mut store, "gov-1", durability).unwrap_err();
        let is_away = matches!(error, StoreError::Fleet(FleetError::Unreachable(_) | FleetError::Unknown(_)));
        assert!(is_away, "{error}");
    }
    assert!(store.try_write().is_err());
    assert_eq!(gates::tasks(store.view()).unwrap().len(), 1);
    proxy.away(false);
    until("the store writes again", || write(&mut store, "gov-1", Durability::Normal).ok());
    assert_eq!(store.synced(), store.head().seq, "each commit is synchronous");
    assert_eq!(stored(database, &store).len(), 2);
}

#[test]
fn a_second_daemon_waits_for_the_lease_and_shuts_the_first_out() {
    let home = Home::new();
    let Some(database) = home.database() else { return };
    let proxy = Proxy::before(database.server.port);
    let mut first = home.try_store_through(&proxy).unwrap();
    write(&mut first, "gov-0", Durability::Full).unwrap();
    let other = tempfile::tempdir().unwrap();
    let open = || {
        let settings = database.settings("a", database.server.port);
        Store::open_in_fleet(other.path(), home.clock(), "policy-1".to_owned(), (&settings, &body_key(home.path())))
    };
    // The first one raises its lease.
    let refused = open().map(drop);
    assert!(matches!(refused, Err(StoreError::Fleet(FleetError::Served(_)))), "{refused:?}");
    write(&mut first, "gov-1", Durability::Full).unwrap();
    // Its machine stands still.
    proxy.stop(true);
    let mut second = open().unwrap();
    write(&mut second, "gov-2", Durability::Full).unwrap();
    proxy.stop(false);
    let error = until("the first writes again", || match write(&mut first, "gov-3", Durability::Full) {
        Err(StoreError::Fleet(FleetError::Unreachable(_) | FleetError::Unknown(_))) => None,
        other => Some(other),
    });
    assert!(matches!(error, Err(StoreError::Fleet(FleetError::Fenced(_)))), "{error:?}");
    drop(first);
    write(&mut second, "gov-4", Durability::Full).unwrap();
    assert_eq!(stored(database, &second).len(), 4);
}

#[test]
fn a_batch_that_the_server_refuses_leaves_nothing() {
    let home = Home::new();
    let Some(database) = home.database() else { return };
    let mut store = home.store();
    write(&mut store, "gov-0", Durability::Full).unwrap();
    database.run("ALTER TABLE host_broker.tasks ADD CONSTRAINT refused CHECK (id <> 'gov-1')");
    let error = write(&mut store, "gov-1", Durability::Full).unwrap_err();
    assert!(matches!(&error, StoreError::Fleet(FleetError::Refused(text)) if text.contains("refused")), "{error}");
    assert_eq!(stored(database, &store).len(), 1);
    write(&mut store, "gov-2", Durability::Full).unwrap();
    assert_eq!(stored(database, &store).len(), 2);
}
