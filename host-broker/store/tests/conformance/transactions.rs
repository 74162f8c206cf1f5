//! The order of reads and writes.

use super::world::{CALLER, Home, START, append, commit, task};
use shared::Timestamp;
use std::time::Duration;
use store::StoreError;
use store::ledger::chain::RowKind;
use store::state::gates;
use store::state::kill;
use store::{Transaction, View};

fn has(view: &View, name: &str) -> bool {
    gates::task(view, &name.parse().unwrap()).unwrap().is_some()
}

#[test]
fn a_transaction_reads_its_own_changes_and_readers_read_the_last_commit() {
    let home = Home::new();
    let mut store = home.store();
    commit(&mut store, |tx| gates::create(tx, &task("gov-1"))).unwrap();
    let reader = store::reader(home.path()).unwrap();
    commit(&mut store, |tx| {
        assert!(gates::create(tx, &task("gov-2"))?);
        assert!(has(tx.view(), "gov-2") && !has(&reader, "gov-2"));
        assert!(!gates::create(tx, &task("gov-2"))?, "an id is used once");
        Ok(())
    })
    .unwrap();
    assert!(has(&reader, "gov-2") && has(store.view(), "gov-2"));
}

#[test]
fn a_lost_transaction_leaves_no_change_and_no_row() {
    let home = Home::new();
    let mut store = home.store();
    let lost = |tx: &Transaction<'_>| {
        gates::create(tx, &task("gov-1"))?;
        kill::set(tx, &model::KillScope::All, CALLER, true)?;
        append(tx, RowKind::Killed)?;
        Err::<(), _>(StoreError::Conflict { what: "test" })
    };
    commit(&mut store, lost).unwrap_err();
    assert!(!has(store.view(), "gov-1"));
    assert_eq!(kill::find(store.view(), None, &"mock".parse().unwrap()).unwrap(), None);
    assert_eq!(store.head().seq, 0);
    drop(store);
    assert!(!has(home.store().view(), "gov-1"));
}

#[test]
fn several_tables_are_read_as_of_one_moment() {
    let home = Home::new();
    let mut store = home.store();
    commit(&mut store, |tx| gates::create(tx, &task("gov-1"))).unwrap();
    let reader = store::reader(home.path()).unwrap();
    let read = reader.at_one_moment(|view| {
        assert!(has(view, "gov-1"));
        commit(&mut store, |tx| gates::create(tx, &task("gov-2"))).unwrap();
        Ok(has(view, "gov-2"))
    });
    assert!(!read.unwrap());
    assert!(has(&reader, "gov-2"));
}

#[test]
fn rows_never_go_back_in_time_and_a_clock_that_is_far_behind_stops_every_write() {
    let home = Home::new();
    let mut store = home.store();
    home.wait(Duration::from_secs(100));
    let (wall, steady) = commit(&mut store, |tx| append(tx, RowKind::Noted).map(|_| (tx.now(), tx.steady()))).unwrap();
    assert_eq!(wall, Timestamp::from_millis(START + 100_000));
    home.turn_back(Duration::from_secs(20));
    let (later, steadier) =
        commit(&mut store, |tx| append(tx, RowKind::Noted).map(|_| (tx.now(), tx.steady()))).unwrap();
    assert_eq!(later, wall);
    assert!(steadier >= steady);
    home.turn_back(Duration::from_secs(20));
    let refused = commit(&mut store, |tx| append(tx, RowKind::Noted));
    assert!(matches!(refused, Err(StoreError::Clock { .. })), "{refused:?}");
    assert_eq!(store.head().seq, 2);
}
