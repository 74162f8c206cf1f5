//! The rows of evidence.

use super::world::{Home, append, commit};
use store::StoreError;
use store::ledger::chain::RowKind;
use store::ledger::export;
use store::ledger::verifier::Verifier;

/// Returns the numbers of all rows, once the chain holds.
fn verified(home: &Home) -> Vec<i64> {
    let view = store::reader(home.path()).unwrap();
    let (mut verifier, mut numbers) = (Verifier::new(), Vec::new());
    let read = export::each(&view, 1, |row| {
        numbers.push(row.seq);
        verifier.take(&row).map_err(StoreError::from)
    });
    read.unwrap();
    numbers
}

#[test]
fn rows_are_numbered_without_gaps_and_each_names_the_one_before() {
    let home = Home::new();
    let mut store = home.store();
    let first = commit(&mut store, |tx| Ok([append(tx, RowKind::Noted)?, append(tx, RowKind::Refused)?])).unwrap();
    let next = commit(&mut store, |tx| append(tx, RowKind::Noted)).unwrap();
    assert_eq!([first[0].seq, first[1].seq, next.seq], [1, 2, 3]);
    assert_eq!([first[1].prev_hash, next.prev_hash], [first[0].event_hash, first[1].event_hash]);
    assert_eq!((store.head().seq, store.head().hash), (3, next.event_hash));
    assert_eq!(verified(&home), [1, 2, 3]);
}

#[test]
fn a_lost_transaction_uses_up_no_number() {
    let home = Home::new();
    let mut store = home.store();
    commit(&mut store, |tx| append(tx, RowKind::Noted)).unwrap();
    let head = store.head();
    let lost = commit(&mut store, |tx| {
        append(tx, RowKind::Noted)?;
        assert_eq!(tx.head().seq, 2);
        Err::<(), _>(StoreError::Conflict { what: "test" })
    });
    assert!(matches!(lost, Err(StoreError::Conflict { what: "test" })), "{lost:?}");
    assert_eq!(store.head(), head);
    assert_eq!(commit(&mut store, |tx| append(tx, RowKind::Noted)).unwrap().seq, 2);
    assert_eq!(verified(&home), [1, 2]);
}

#[test]
fn the_next_writer_goes_on_where_the_last_one_ended() {
    let home = Home::new();
    let mut store = home.store();
    let last = commit(&mut store, |tx| append(tx, RowKind::Noted)).unwrap();
    assert!(matches!(
        store::Store::open(home.path(), std::sync::Arc::new(Never), String::new()),
        Err(StoreError::Locked { .. })
    ));
    drop(store);
    let mut store = home.store();
    assert_eq!((store.head().seq, store.head().hash), (1, last.event_hash));
    assert_eq!(commit(&mut store, |tx| append(tx, RowKind::Noted)).unwrap().prev_hash, last.event_hash);
}

/// A clock that nobody reads.
struct Never;

impl model::Clock for Never {
    fn now(&self) -> shared::Timestamp {
        panic!("a second writer reads nothing")
    }

    fn monotonic(&self) -> std::time::Duration {
        panic!("a second writer reads nothing")
    }
}
