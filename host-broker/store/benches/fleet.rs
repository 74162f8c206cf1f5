//! Measures a batch of the store alone, and as a host of a fleet, at several distances of the database.
//!
//! ```text
//! cargo bench -p store --bench fleet
//! ```
//! A call is two batches: an intent with its row of state, and the outcome that deletes it. A batch has one part of so many
//! calls. All stores take turns, so that a busy machine is busy for all. The distance is the time of a round trip, which a
//! proxy adds. The server syncs its files.
//!
//! Then several hosts of one database run at the same time: alone, with a quota that they share, and with a policy that one
//! of them has published.

#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "a benchmark that cannot run has nothing to say")]
#![expect(clippy::as_conversions, clippy::cast_precision_loss, reason = "figures")]
#![expect(clippy::indexing_slicing, reason = "figures")]

#[path = "../../../tests/src/fleet_database.rs"]
#[expect(unreachable_pub, dead_code, reason = "it is a part of the harness for all tests")]
mod fleet_database;
#[path = "../../../tests/src/postgres_server.rs"]
#[expect(
    unreachable_pub,
    dead_code,
    clippy::disallowed_methods,
    clippy::expect_used,
    reason = "it is a part of the harness for all tests"
)]
mod postgres_server;
#[path = "../../../tests/src/waiting.rs"]
#[expect(unreachable_pub, reason = "it is a part of the harness for all tests")]
mod waiting;

use fleet_database::{FleetDatabase, body_key};
use model::{Clock, Publication};
use shared::digest::Digest;
use shared::{RequestId, Timestamp};
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};
use store::ledger::chain::{Draft, RowKind};
use store::state::intents::{self, OpenIntent};
use store::state::{publications, shared_quotas};
use store::{ClockCheck, Durability, Store, StoreError, Undone};
use tempfile::TempDir;
use waiting::{skipped, until};

const CALLER: &str = "group:developer";
/// A quota that is never used up.
const QUOTA: (&str, &str) = ("github", "write");
const MOST: i64 = 1_000_000_000_000;
/// The round trips, in microseconds, and whether each intent checks a published policy.
const DISTANCES: [(u64, bool); 4] = [(0, false), (500, false), (500, true), (2_000, false)];
const SIZES: [usize; 4] = [1, 16, 64, 256];
/// The numbers of hosts that run at the same time, with so many calls in a batch, for this time.
const HOSTS: [usize; 4] = [1, 2, 4, 8];
const AT_ONCE: usize = 64;
const TOGETHER: Duration = Duration::from_secs(4);
/// The turns of each store and size.
const TURNS: usize = 120;

struct RealClock(Instant);

impl Clock for RealClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(1_800_000_000_000 + i64::try_from(self.0.elapsed().as_millis()).unwrap())
    }

    fn monotonic(&self) -> Duration {
        self.0.elapsed()
    }
}

/// One store and its times.
struct Measured {
    name: String,
    store: Store,
    turn: usize,
    /// Whether each call charges a quota that all hosts share.
    shares: bool,
    /// The times of batches, by size.
    times: Vec<Vec<Duration>>,
    _home: TempDir,
}

impl Measured {
    fn new(name: String, store: Store, home: TempDir) -> Self {
        Self { name, store, turn: 0, shares: false, times: SIZES.iter().map(|_| Vec::new()).collect(), _home: home }
    }

    /// Runs so many calls: one batch of intents, and one of outcomes.
    fn calls(&mut self, size: usize) -> [Duration; 2] {
        let ids: Vec<RequestId> = (0..size).map(|n| format!("r-{}-{n}", self.turn).parse().unwrap()).collect();
        self.turn += 1;
        let began = Instant::now();
        let rows = commit(&mut self.store, |tx| {
            publications::note_intent(tx);
            ids.iter()
                .map(|id| {
                    let draft = Draft { request_id: Some(id), ..Draft::new(RowKind::Intended, CALLER) };
                    let seq = tx.append(&draft)?.seq;
                    let (stage, nonce) = ("run", "0123456789abcdef");
                    let intent =
                        OpenIntent { seq, caller: CALLER, request_id: id, stage, mutating: true, nonce, handle: None };
                    intents::open(tx, &intent)?;
                    if self.shares {
                        shared_quotas::find(tx.view(), QUOTA, tx.now())?;
                        shared_quotas::use_up(tx, QUOTA, 1, MOST)?;
                    }
                    Ok(seq)
                })
                .collect::<Result<Vec<i64>, StoreError>>()
        });
        let middle = Instant::now();
        commit(&mut self.store, |tx| {
            ids.iter().zip(&rows).try_for_each(|(id, seq)| {
                intents::close(tx, CALLER, *seq)?;
                let draft = Draft { request_id: Some(id), ..Draft::new(RowKind::Succeeded, CALLER) };
                tx.append(&draft).map(drop)
            })
        });
        [middle - began, middle.elapsed()]
    }
}

fn commit<R>(store: &mut Store, work: impl FnOnce(&store::Transaction<'_>) -> Result<R, StoreError>) -> R {
    let done = store.transaction((Durability::Full, ClockCheck::Required), work);
    done.map_err(|undone| match undone {
        Undone::NotBegun(error) | Undone::Failed(error) | Undone::NotCommitted(_, error) => error,
    })
    .unwrap()
}

fn main() {
    if std::env::args().any(|argument| argument == "--test") {
        return;
    }
    let clock: Arc<dyn Clock> = Arc::new(RealClock(Instant::now()));
    let home = tempfile::tempdir().unwrap();
    let alone = Store::open(home.path(), Arc::clone(&clock), "p".to_owned()).unwrap();
    let mut stores = vec![Measured::new("SQLite alone".to_owned(), alone, home)];
    let mut databases = Vec::new();
    for (distance, has_policy) in DISTANCES {
        let Some(database) = FleetDatabase::new() else { return };
        let server = database.server.port;
        let port = if distance == 0 { server } else { proxy(server, Duration::from_micros(distance / 2)) };
        let home = tempfile::tempdir().unwrap();
        let settings = database.settings("a", port);
        let records = (&settings, &body_key(home.path()));
        let mut store = Store::open_in_fleet(home.path(), Arc::clone(&clock), "p".to_owned(), records).unwrap();
        let name = format!("PostgreSQL at {:.1} ms", distance as f64 / 1_000.0);
        let name = if has_policy { format!("{name}, with a published policy") } else { name };
        if has_policy {
            let publication = publish(&mut store);
            store.follow(Some(publication));
        }
        stores.push(Measured::new(name, store, home));
        databases.push(database);
    }
    for turn in 0..=TURNS {
        for (index, size) in SIZES.iter().enumerate() {
            for one in &mut stores {
                let times = one.calls(*size);
                // The first turn prepares the statements.
                if turn > 0 {
                    one.times[index].extend(times);
                }
            }
        }
    }
    println!("| store | calls in a batch | p50 of a batch | p99 | calls/s |");
    println!("| --- | --- | --- | --- | --- |");
    for one in &mut stores {
        for (times, size) in one.times.iter_mut().zip(SIZES) {
            times.sort_unstable();
            let (p50, p99) = (times[times.len() / 2], times[times.len() * 99 / 100]);
            let total: Duration = times.iter().sum();
            let rate = (size * TURNS) as f64 / total.as_secs_f64();
            println!("| {} | {size} | {:.2} ms | {:.2} ms | {rate:.0} |", one.name, ms(p50), ms(p99));
        }
    }
    drop(stores);
    together(&clock);
}

/// Prints the calls a second of several hosts together.
fn together(clock: &Arc<dyn Clock>) {
    println!("\n| hosts at the same time | calls/s | with a shared quota | with a published policy |");
    println!("| --- | --- | --- | --- |");
    for hosts in HOSTS {
        let Some(database) = FleetDatabase::new() else { return };
        let stores = (0..hosts).map(|number| {
            let host = char::from_u32(u32::from('a') + u32::try_from(number).unwrap()).unwrap().to_string();
            if number > 0 {
                database.add(&host);
            }
            let home = tempfile::tempdir().unwrap();
            let settings = database.settings(&host, database.server.port);
            let records = (&settings, &body_key(home.path()));
            let store = Store::open_in_fleet(home.path(), Arc::clone(clock), "p".to_owned(), records).unwrap();
            Measured::new(host, store, home)
        });
        let mut stores: Vec<Measured> = stores.collect();
        let publication = publish(&mut stores[0].store);
        let rates = [(false, false), (true, false), (false, true)].map(|(shares, has_policy)| {
            for one in &mut stores {
                one.store.follow(has_policy.then(|| publication.clone()));
            }
            // The first round prepares the statements.
            run(&mut stores, shares, Duration::from_millis(500));
            run(&mut stores, shares, TOGETHER)
        });
        let [alone, shared, published] = rates;
        println!("| {hosts} | {alone:.0} | {shared:.0} | {published:.0} |");
    }
}

/// Runs all stores for this time. Returns their calls a second.
fn run(stores: &mut [Measured], shares: bool, time: Duration) -> f64 {
    let began = Instant::now();
    let calls: usize = std::thread::scope(|scope| {
        let threads: Vec<_> = stores
            .iter_mut()
            .map(|one| {
                one.shares = shares;
                scope.spawn(move || {
                    let mut calls = 0;
                    while began.elapsed() < time {
                        one.calls(AT_ONCE);
                        calls += AT_ONCE;
                    }
                    calls
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    calls as f64 / began.elapsed().as_secs_f64()
}

/// Publishes a policy of the host `a`.
fn publish(store: &mut Store) -> Publication {
    let publication = Publication { host: "a".parse().unwrap(), number: 1, digest: Digest::ZERO };
    assert!(commit(store, |tx| publications::publish(tx, &publication, "policy")));
    publication
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1_000.0
}

/// Starts a proxy that delivers each byte after this time, and returns its port.
fn proxy(server: u16, delay: Duration) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for client in listener.incoming() {
            let (client, upstream) = (client.unwrap(), TcpStream::connect(("127.0.0.1", server)).unwrap());
            pass(&client, &upstream, delay);
            pass(&upstream, &client, delay);
        }
    });
    port
}

fn pass(from: &TcpStream, to: &TcpStream, delay: Duration) {
    let (mut from, mut to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
    to.set_nodelay(true).unwrap();
    let (send, receive) = mpsc::channel::<(Instant, Vec<u8>)>();
    std::thread::spawn(move || {
        for (arrived, bytes) in receive {
            while let Some(left) = delay.checked_sub(arrived.elapsed()).filter(|left| !left.is_zero()) {
                std::thread::park_timeout(left);
            }
            if to.write_all(&bytes).is_err() {
                return;
            }
        }
        to.shutdown(std::net::Shutdown::Both).ok();
    });
    std::thread::spawn(move || {
        let mut buffer = vec![0; 65_536];
        while let Ok(read) = from.read(&mut buffer) {
            if read == 0 || send.send((Instant::now(), buffer[..read].to_vec())).is_err() {
                return;
            }
        }
    });
}
