//! Facts that a store may keep in memory: a read never returns an older one than the last change.

use super::world::{CALLER, Home, append, commit};
use model::{Declaration, Exposure, KillScope};
use serde_json::json;
use shared::request::GrantRequest;
use shared::{Group, Level, Provider};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::time::Duration;
use store::ledger::chain::RowKind;
use store::state::grants::Grant;
use store::state::{counters, grants, kill, sessions};
use store::{Store, StoreError, Transaction, View};

fn group() -> Group {
    "developer".parse().unwrap()
}

fn provider() -> Provider {
    "mock".parse().unwrap()
}

fn request(level: Level) -> GrantRequest {
    let document = json!({ "group_folder": group(), "provider": provider(), "access_level": level.number() });
    serde_json::from_value(document).unwrap()
}

/// A change, and the fact that it changes.
struct Case<'a, F> {
    fact: &'a dyn Fn(&View) -> F,
    change: &'a dyn Fn(&Transaction<'_>) -> Result<(), StoreError>,
}

/// Makes the change in a transaction that is lost, and in one that is committed.
fn check<F: PartialEq + Debug>(home: &Home, store: &mut Store, name: &str, case: &Case<'_, F>) {
    let Case { fact, change } = case;
    let before = fact(store.view());
    let mut inside = None;
    let lost = commit(store, |tx| {
        assert_eq!(fact(tx.view()), before, "{name}");
        change(tx)?;
        inside = Some(fact(tx.view()));
        Err::<(), _>(StoreError::Conflict { what: "test" })
    });
    lost.unwrap_err();
    let after = inside.unwrap();
    assert_ne!(after, before, "{name}: the transaction sees its change");
    assert_eq!(fact(store.view()), before, "{name}: the change is lost");
    let again = commit(store, |tx| {
        assert_eq!(fact(tx.view()), before, "{name}");
        change(tx)?;
        append(tx, RowKind::Noted)?;
        Ok(fact(tx.view()))
    });
    assert_eq!(again.unwrap(), after, "{name}");
    assert_eq!(fact(store.view()), after, "{name}: the change is committed");
    assert_eq!(fact(&store::reader(home.path()).unwrap()), after, "{name}: a reader sees it");
}

#[test]
fn a_kill_switch_holds_with_the_next_read() {
    let (home, scope) = (Home::new(), KillScope::Provider(provider()));
    let mut store = home.store();
    let fact = |view: &View| kill::find(view, Some(&group()), &provider()).unwrap();
    for on in [true, false] {
        let change = |tx: &Transaction<'_>| kill::set(tx, &scope, CALLER, on).map(drop);
        check(&home, &mut store, "kill", &Case { fact: &fact, change: &change });
    }
}

#[test]
fn a_grant_and_its_end_hold_with_the_next_read() {
    let home = Home::new();
    let mut store = home.store();
    let fact = |view: &View| (*grants::find(view, &group(), &provider()).unwrap()).clone();
    let give = |level: Level| {
        move |tx: &Transaction<'_>| {
            let request = request(level);
            let ends = Some(tx.now().plus(Duration::from_secs(60)));
            grants::put(tx, &Grant { expires_at: ends, ..Grant::of(&request, CALLER, tx.now(), BTreeMap::new()) })
        }
    };
    check(&home, &mut store, "given", &Case { fact: &fact, change: &give(Level::Read) });
    check(&home, &mut store, "widened", &Case { fact: &fact, change: &give(Level::Write) });
    let add = |tx: &Transaction<'_>| {
        let grant = Grant::of(&request(Level::Production), CALLER, tx.now(), BTreeMap::new());
        let (allowed, expires_at) = (Some(BTreeSet::new()), Some(tx.now().plus(Duration::from_secs(60))));
        grants::add_temporary(tx, &Grant { allowed, expires_at, is_temporary: true, ..grant })
    };
    check(&home, &mut store, "temporary", &Case { fact: &fact, change: &add });
    check(&home, &mut store, "given again", &Case { fact: &fact, change: &give(Level::Read) });
    check(&home, &mut store, "temporary again", &Case { fact: &fact, change: &add });
    let revoke = |tx: &Transaction<'_>| grants::revoke(tx, &group(), &provider(), CALLER).map(drop);
    check(&home, &mut store, "revoked", &Case { fact: &fact, change: &revoke });
}

#[test]
fn the_end_of_grants_of_a_clock_that_was_ahead_holds_with_the_next_read() {
    let home = Home::new();
    let mut store = home.store();
    let fact = |view: &View| {
        let grants = grants::find(view, &group(), &provider()).unwrap();
        let all = grants.own.iter().chain(&grants.temporary);
        all.map(|grant| grant.expires_at).collect::<Vec<_>>()
    };
    commit(&mut store, |tx| {
        let request = request(Level::Read);
        let later = tx.now().plus(Duration::from_secs(600));
        let ends = Some(later.plus(Duration::from_secs(600)));
        let grant = Grant { expires_at: ends, ..Grant::of(&request, CALLER, later, BTreeMap::new()) };
        grants::put(tx, &grant)?;
        grants::add_temporary(tx, &Grant { allowed: Some(BTreeSet::new()), ..grant })
    })
    .unwrap();
    let end = |tx: &Transaction<'_>| store::state::clock::end_later(tx).map(drop);
    check(&home, &mut store, "ended", &Case { fact: &fact, change: &end });
}

#[test]
fn a_breaker_and_its_end_hold_with_the_next_read() {
    let home = Home::new();
    let mut store = home.store();
    let fact = |view: &View| counters::breaker(view, CALLER, "mock").unwrap().map(|breaker| breaker.on_trial);
    let open = |tx: &Transaction<'_>| counters::count_fault(tx, (CALLER, "mock"), (1, Duration::from_secs(9)));
    check(&home, &mut store, "opened", &Case { fact: &fact, change: &open });
    let trial = |tx: &Transaction<'_>| counters::begin_trial(tx, CALLER, "mock", 1);
    check(&home, &mut store, "on trial", &Case { fact: &fact, change: &trial });
    let close = |tx: &Transaction<'_>| counters::close_breaker(tx, CALLER, "mock");
    check(&home, &mut store, "closed", &Case { fact: &fact, change: &close });
    check(&home, &mut store, "opened again", &Case { fact: &fact, change: &open });
}

#[test]
fn an_exposure_and_its_end_hold_with_the_next_read() {
    let home = Home::new();
    let mut store = home.store();
    let fact = |view: &View| sessions::exposures(view, CALLER).unwrap().to_vec();
    let declaration = |action: &str| Declaration {
        exposes: Exposure { sensitive: true, ..Exposure::NONE },
        ..Declaration::new(provider(), action.parse().unwrap(), Level::Read)
    };
    for action in ["read_mail", "read_file"] {
        let expose = |tx: &Transaction<'_>| {
            let declared = declaration(action);
            sessions::expose(tx, CALLER, (&declared.provider, &declared.action), declared.exposes, 1)
        };
        check(&home, &mut store, action, &Case { fact: &fact, change: &expose });
    }
    let let_out = |tx: &Transaction<'_>| sessions::let_out(tx, CALLER, (&provider(), "ext-1"), 1);
    check(&home, &mut store, "a way out", &Case { fact: &fact, change: &let_out });
    let reset = |tx: &Transaction<'_>| sessions::reset(tx, CALLER).map(drop);
    check(&home, &mut store, "reset", &Case { fact: &fact, change: &reset });
}
