//! The policy that one host publishes and others use.

use super::quotas::other;
use super::world::{CALLER, Home, commit};
use crate::fleet_database::{FleetDatabase, body_key};
use crate::tcp_proxy::{Direction, Proxy};
use crate::until;
use model::{HostName, Publication};
use shared::digest::Digest;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use store::fleet::commands::{Commands, Heard};
use store::fleet::{FleetError, look, publication};
use store::ledger::chain::{Draft, RowKind};
use store::state::publications;
use store::{Store, StoreError};

/// Longer than the server takes for an answer.
const LONG: Duration = Duration::from_secs(20);

fn name(host: &str) -> HostName {
    host.parse().unwrap()
}

fn of(host: &str, number: i64) -> Publication {
    Publication { host: name(host), number, digest: Digest::of(document(number).as_bytes()) }
}

fn of_a(number: i64) -> Publication {
    of("a", number)
}

/// The last character is encoded in the database.
fn document(number: i64) -> String {
    format!("policy {number}\u{f8ff}")
}

fn publish(store: &mut Store, number: i64) -> Result<bool, StoreError> {
    commit(store, |tx| {
        tx.append(&Draft::new(RowKind::Published, CALLER))?;
        publications::publish(tx, &of_a(number), &document(number))
    })
}

/// Writes an intent, as a permitted call does.
fn admit(store: &mut Store) -> Result<(), StoreError> {
    commit(store, |tx| {
        publications::note_intent(tx);
        tx.append(&Draft::new(RowKind::Intended, CALLER)).map(drop)
    })
}

fn is_stale(done: Result<(), StoreError>, used: &Publication) -> bool {
    match done {
        Ok(()) => false,
        Err(error) => {
            let is_it = matches!(&error, StoreError::Fleet(FleetError::Stale(stale)) if stale == used);
            assert!(is_it && error.is_outdated() && !error.is_of_all(), "{error}");
            true
        }
    }
}

/// Decides until the last attempt is long enough ago, as later calls do.
fn tries_again(store: &Store) {
    until("the host tries again", || publications::stale(store.view()).is_none().then_some(()));
}

/// Attack: see `a_host_that_cannot_use_the_last_publication_executes_no_call_and_says_why`.
#[test]
fn a_host_admits_calls_with_the_last_publication_only() {
    let home = Home::new();
    let Some(database) = home.database() else { return };
    let mut a = home.store();
    let (_directory, mut b) = other(&home, database, "b");
    admit(&mut b).unwrap();
    b.follow(Some(of_a(1)));
    assert!(is_stale(admit(&mut b), &of_a(1)), "nothing is published");
    assert!(publish(&mut a, 1).unwrap());
    for number in [1, 3] {
        let error = publish(&mut a, number).unwrap_err();
        assert!(matches!(error, StoreError::Conflict { what: "publication" }), "{error}");
    }
    tries_again(&b);
    admit(&mut b).unwrap();
    assert_eq!(publications::stale(b.view()), None);
    assert!(publish(&mut a, 2).unwrap());
    let rows = b.head().seq;
    // The next attempt knows it, unless the machine has stood still for a second.
    until("the host knows it", || {
        assert!(is_stale(admit(&mut b), &of_a(1)));
        publications::stale(b.view()).filter(|stale| *stale == of_a(1))
    });
    assert_eq!(b.head().seq, rows);
    // Everything but intents is written.
    commit(&mut b, |tx| tx.append(&Draft::new(RowKind::Refused, CALLER)).map(drop)).unwrap();
    b.follow(Some(of_a(2)));
    assert_eq!(publications::stale(b.view()), None);
    admit(&mut b).unwrap();
    a.follow(Some(of_a(1)));
    assert!(is_stale(admit(&mut a), &of_a(1)), "the host itself, too");
    // An administrator has restored an older database, or has changed or deleted the row.
    for statement in [
        "UPDATE host_broker.publication SET number = 1",
        "UPDATE host_broker.publication SET number = 2, digest = ''",
        "DELETE FROM host_broker.publication",
    ] {
        database.run(statement);
        tries_again(&b);
        assert!(is_stale(admit(&mut b), &of_a(2)), "{statement}");
    }
    b.follow(None);
    admit(&mut b).unwrap();
}

/// Ends threads also if the test fails.
struct Ended<'e>(&'e AtomicBool);

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

/// Attack (Hosts of a fleet): A call is under way on a host while a stricter policy is published.
/// Defence: Its intent commits only while the publication of its decision is in force. The
/// publisher waits for it.
#[test]
fn after_a_publication_no_host_admits_a_call_with_the_one_before() {
    let home = Home::new();
    let Some(database) = home.database() else { return };
    let mut a = home.store();
    let (_b, mut b) = other(&home, database, "b");
    let (_c, mut c) = other(&home, database, "c");
    let admitted = |host: &str| -> i64 {
        let count = format!("SELECT count(*) FROM host_broker.ledger WHERE kind = 'intended' AND host = '{host}'");
        database.run(&count).parse().unwrap()
    };
    assert!(publish(&mut a, 1).unwrap());
    for number in 1..6 {
        let before = ["b", "c"].map(admitted);
        let has_ended = AtomicBool::new(false);
        let at_the_return = std::thread::scope(|scope| {
            let _ended = Ended(&has_ended);
            for store in [&mut b, &mut c] {
                let has_ended = &has_ended;
                scope.spawn(move || {
                    store.follow(Some(of_a(number)));
                    while !has_ended.load(Ordering::Acquire) && !is_stale(admit(store), &of_a(number)) {}
                });
            }
            let is_busy = |(host, before): (&str, i64)| admitted(host) > before + 10;
            until("both hosts are busy", || ["b", "c"].into_iter().zip(before).all(is_busy).then_some(()));
            assert!(publish(&mut a, number + 1).unwrap());
            ["b", "c"].map(admitted)
        });
        assert_eq!(
            ["b", "c"].map(admitted),
            at_the_return,
            "publication {number} was used after another one was in force"
        );
    }
}

/// A session that runs this statement in a transaction, and does not end it.
fn hold(database: &FleetDatabase, statement: &str) -> std::thread::JoinHandle<Result<String, String>> {
    let (server, name, role) = (database.server.clone(), database.name.clone(), format!("{}_b", database.name));
    let statements = format!("BEGIN; {statement}; SELECT pg_sleep(600)");
    let session = std::thread::spawn(move || server.try_run_as(&role, &name, &statements));
    let held = format!("SELECT count(*) {SLEEPER}");
    until("the transaction is open", || (database.run(&held) == "1").then_some(()));
    session
}

const SLEEPER: &str = "FROM pg_stat_activity WHERE datname = current_database() AND wait_event = 'PgSleep'";

fn end(database: &FleetDatabase, session: std::thread::JoinHandle<Result<String, String>>) {
    database.run(&format!("SELECT pg_terminate_backend(pid) {SLEEPER}"));
    assert!(session.join().unwrap().is_err());
}

#[test]
fn a_publication_waits_for_the_transactions_that_use_the_one_before_and_these_for_it() {
    let home = Home::new();
    let Some(database) = home.database() else { return };
    let mut a = home.store();
    let (_directory, mut b) = other(&home, database, "b");
    assert!(publish(&mut a, 1).unwrap());
    b.follow(Some(of_a(1)));
    // Another daemon of the role has decided with it, and has not committed yet.
    let digest = of_a(1).digest.hex();
    let session = hold(database, &format!("SELECT host_broker.hold_to('a', 1, decode('{digest}', 'hex'))"));
    admit(&mut b).unwrap();
    let error = publish(&mut a, 2).unwrap_err();
    assert!(matches!(&error, StoreError::Fleet(FleetError::StillUsed)), "{error}");
    assert!(error.is_outdated() && !error.is_of_all(), "the other events of the batch are written without it");
    let rows = a.head().seq;
    // The next attempt of the batch writes its other events.
    if publish(&mut a, 2).is_ok_and(|is_done| !is_done) {
        assert_eq!(a.head().seq, rows + 1);
    }
    assert_eq!(publications::last(a.view()).unwrap(), 1);
    admit(&mut b).unwrap();
    end(database, session);
    let session = hold(database, "SELECT pg_advisory_xact_lock(host_broker.publication_lock('a'))");
    assert!(is_stale(admit(&mut b), &of_a(1)), "it is unknown which publication is in force");
    commit(&mut b, |tx| tx.append(&Draft::new(RowKind::Refused, CALLER)).map(drop)).unwrap();
    end(database, session);
    tries_again(&b);
    admit(&mut b).unwrap();
    until("the host publishes", || publish(&mut a, 2).unwrap().then_some(()));
    tries_again(&b);
    assert!(is_stale(admit(&mut b), &of_a(1)));
}

#[test]
fn a_host_checks_its_publication_after_every_fault_of_the_connection() {
    let home = Home::new();
    let Some(database) = home.database() else { return };
    let proxy = Proxy::before(database.server.port);
    let (_directory, mut b) = other(&home, database, "b");
    let mut a = home.try_store_through(&proxy).unwrap();
    let published = commit(&mut b, |tx| publications::publish(tx, &of("b", 1), &document(1)));
    assert!(published.unwrap());
    a.follow(Some(of("b", 1)));
    let number = |number: i64| database.run(&format!("UPDATE host_broker.publication SET number = {number}"));
    for (bytes, direction) in (0..12).flat_map(|n| [(n * 120, Direction::ToServer), (n * 40, Direction::FromServer)]) {
        until("the host admits again", || admit(&mut a).ok());
        // The next batch begins without knowing the end of this one, and opens the copy again.
        proxy.lead_to(1);
        proxy.cut_after(bytes, direction);
        admit(&mut a).ok();
        proxy.cut_after(-1, direction);
        proxy.lead_to(database.server.port);
        number(2);
        until("the host refuses", || match admit(&mut a) {
            Err(StoreError::Fleet(FleetError::Stale(_))) => Some(()),
            Err(_) => None,
            Ok(()) => panic!("after {bytes} bytes {direction:?}, the publication is not checked"),
        });
        number(1);
    }
}

/// Attack: see `a_policy_that_its_host_has_not_signed_is_never_used`.
#[test]
fn a_role_reads_all_publications_and_writes_its_own() {
    let home = Home::new();
    let Some(database) = home.database() else { return };
    let mut a = home.store();
    let (_directory, _b) = other(&home, database, "b");
    assert!(publish(&mut a, 1).unwrap());
    let settings = database.settings("b", database.server.port);
    assert_eq!(publication(&settings, &name("a")).unwrap(), Some((1, document(1))));
    assert_eq!(publication(&settings, &name("b")).unwrap(), None);
    let entered = "BEGIN; SELECT set_config('host_broker.batch', 'a/1', true)";
    for statement in [
        "UPDATE host_broker.publication SET number = 2 WHERE host = 'a'",
        "DELETE FROM host_broker.publication WHERE host = 'a'",
    ] {
        database.run_as("b", &format!("{entered}; {statement}; COMMIT")).ok();
        assert_eq!(database.run("SELECT number FROM host_broker.publication"), "1", "{statement}");
    }
    for statement in [
        "INSERT INTO host_broker.publication (host, one, number, digest, document) VALUES ('a', 2, 2, '', '')",
        "INSERT INTO host_broker.publication (host, one, number, digest, document) VALUES ('a', 1, 2, '', '')
            ON CONFLICT (host, one) DO UPDATE SET number = 2",
        "UPDATE host_broker.hosts SET publication = 7 WHERE host = 'a' RETURNING 1/0",
        "TRUNCATE host_broker.publication",
    ] {
        let done = database.run_as("b", &format!("{entered}; {statement}; COMMIT"));
        assert!(done.as_ref().is_err() || done.as_ref().is_ok_and(|text| !text.contains('7')), "{statement}: {done:?}");
    }
    assert_eq!(database.run("SELECT count(*), max(number) FROM host_broker.publication"), "1|1");
    assert_eq!(database.run("SELECT publication FROM host_broker.hosts WHERE host = 'a'"), "0");
}

#[tokio::test]
async fn a_host_hears_of_a_publication_and_shows_which_one_it_uses() {
    let home = Home::new();
    let Some(database) = home.database() else { return };
    let mut a = home.store();
    let (directory, b) = other(&home, database, "b");
    let settings = database.settings("b", database.server.port);
    let commands = Commands::new(settings.clone());
    assert_eq!(commands.publication(&of_a(0), Duration::ZERO).await.unwrap(), Heard::Nothing);
    let heard = async {
        loop {
            // The pause is longer than the test may take, so the sign ends it.
            let found = commands.publication(&of_a(0), Duration::from_secs(3600)).await.unwrap();
            if found != Heard::Nothing {
                return found;
            }
        }
    };
    let publishing = tokio::task::spawn_blocking(move || {
        assert!(publish(&mut a, 1).unwrap());
        a
    });
    let found = tokio::time::timeout(LONG, heard).await.unwrap();
    assert_eq!(found, Heard::Other { number: 1, digest: of_a(1).digest, document: document(1) });
    let mut a = publishing.await.unwrap();
    assert_eq!(commands.publication(&of_a(1), Duration::ZERO).await.unwrap(), Heard::Same);
    assert!(publish(&mut a, 2).unwrap());
    let shown = |host: &str| {
        let looks = look(&settings).unwrap().hosts;
        let found = looks.into_iter().find(|found| found.host == host).unwrap();
        (found.publication, found.publication_fault)
    };
    commands.show_publication(&of_a(1), &"é".repeat(2000)).await.unwrap();
    assert_eq!(shown("a"), (None, String::new()));
    let published: Vec<_> = look(&settings).unwrap().hosts.into_iter().map(|one| (one.host, one.published)).collect();
    assert_eq!(published, [("a".to_owned(), Some(2)), ("b".to_owned(), None)]);
    assert_eq!(shown("b"), (Some((name("a"), 1)), "é".repeat(1000)));
    // The next daemon of the host may use another policy.
    drop(b);
    let key = body_key(directory.path());
    let _b = Store::open_in_fleet(directory.path(), home.clock(), "policy-1".to_owned(), (&settings, &key)).unwrap();
    assert_eq!(shown("b"), (None, String::new()));
}
