//! Start, calls and verification with few rows and with many.

use crate::figures::{median, micros};
use crate::history::History;
use crate::parts::{Broker, Client, Programs, Transport, call, client, timed};
use model::Clock as _;
use serde_json::json;
use shared::digest::Digest;
use shared::{Action, Level, Provider, RequestId};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};
use store::ledger::chain::{Draft, RowKind};
use store::state::replies::{self, Delivery};
use store::{ClockCheck, Durability, Receipt, Store, StoreError, Transaction, Undone};

const ROUNDS: usize = 20;
const CALLS_PER_ROUND: usize = 20;
/// The calls of one transaction while the rows are made.
const CALLS_PER_COMMIT: usize = 1_000;
/// The newest calls whose replies are still kept.
const REPLIES: usize = 50_000;

/// A broker with so many rows.
struct MeasuredBroker {
    rows: usize,
    home: PathBuf,
    ready: Duration,
    broker: Broker,
    client: Client,
    reads: Vec<Duration>,
    refusals: Vec<Duration>,
}

/// Prints a line for each number of rows.
pub(crate) async fn measure(programs: &Programs, scratch: &Path, history: &mut History) {
    let most = std::env::var("SCALE_ROWS").ok().and_then(|rows| rows.parse().ok()).unwrap_or(1_000_000_usize);
    let sizes = std::iter::successors(Some(1_000_usize), |rows| rows.checked_mul(10)).take_while(|rows| *rows <= most);
    let mut brokers = Vec::new();
    for rows in sizes {
        let home = scratch.join(format!("home-{rows}"));
        let mut first = Broker::start(programs, &home, 1);
        first.stop();
        fill(&home, rows);
        let began = Instant::now();
        let broker = Broker::serve(programs, &home);
        let ready = began.elapsed();
        let client = client(programs.shim(&broker.mailbox(0), Transport::Socket)).await;
        brokers.push(MeasuredBroker { rows, home, ready, broker, client, reads: Vec::new(), refusals: Vec::new() });
    }
    for _ in 0..ROUNDS {
        for measured in &mut brokers {
            for _ in 0..CALLS_PER_ROUND {
                measured.reads.push(timed(&measured.client, "ext_call", call("echo")).await);
                measured.refusals.push(timed(&measured.client, "ext_call", call("charge")).await);
            }
        }
    }
    println!(
        "{:>12} {:>9} {:>9} {:>10} {:>9} {:>11} {:>9} {:>9}",
        "rows", "ready ms", "read µs", "refusal µs", "RSS MiB", "ledger MiB", "verify s", "rows/s"
    );
    for measured in brokers {
        let MeasuredBroker { rows, home, ready, mut broker, client, reads, refusals } = measured;
        let memory = broker.memory_kib() as f64 / 1024.0;
        drop(client);
        broker.stop();
        let bytes = std::fs::metadata(home.join("ledger.db")).unwrap().len() as f64 / f64::from(1 << 20);
        let began = Instant::now();
        let mut verify = Command::new(&programs.broker);
        verify.args(["evidence", "verify", "--home"]).arg(&home).stdout(Stdio::null());
        assert!(verify.status().unwrap().success(), "the evidence of {rows} rows does not verify");
        let verified = began.elapsed().as_secs_f64();
        println!(
            "{rows:>12} {:>9.0} {:>9.0} {:>10.0} {memory:>9.1} {bytes:>11.0} {verified:>9.2} {:>9.0}",
            ready.as_secs_f64() * 1e3,
            micros(median(&reads)),
            micros(median(&refusals)),
            rows as f64 / verified
        );
        let figures = [
            ("ready ms", ready.as_secs_f64() * 1e3),
            ("read µs", micros(median(&reads))),
            ("refusal µs", micros(median(&refusals))),
            ("RSS MiB", memory),
            ("verified rows/s", rows as f64 / verified),
        ];
        for (unit, figure) in figures {
            history.add(format!("{rows} rows, {unit}"), figure);
        }
        std::fs::remove_dir_all(&home).ok();
    }
}

/// Appends the rows of calls until the ledger has so many.
fn fill(home: &Path, rows: usize) {
    let clock = Arc::new(platform::clock::SystemClock);
    let started = clock.now();
    let mut store = Store::open(home, clock, "scale".to_owned()).unwrap();
    let (provider, action): (Provider, Action) = ("mock".parse().unwrap(), "echo".parse().unwrap());
    let of_call = |tx: &Transaction<'_>, number: usize, is_kept: bool| -> Result<(), StoreError> {
        let id: RequestId = format!("scale-{}-{number}", started.millis()).parse().unwrap();
        let reply = json!({
            "request_id": id, "status": "executed", "data": { "a": number }, "summary": "mock.echo is done.",
            "timestamp": started,
        });
        let outcome = rows_of_call(tx, (&provider, &action), &id)?;
        if is_kept {
            replies::keep(tx, outcome.seq, "group:g0", &id, reply.to_string().as_bytes(), Delivery::Over)?;
        }
        Ok(())
    };
    let calls = rows.saturating_sub(usize::try_from(store.head().seq).unwrap()) / 2;
    for first in (0..calls).step_by(CALLS_PER_COMMIT) {
        let written = store.transaction((Durability::Deferred, ClockCheck::Required), |tx| {
            (first..calls.min(first + CALLS_PER_COMMIT))
                .try_for_each(|number| of_call(tx, number, number + REPLIES > calls))
        });
        written.map_err(|undone: Undone<(), StoreError>| format!("{undone:?}")).expect("the rows are written");
        store.shorten_log();
    }
    store.sync().unwrap();
}

fn rows_of_call(
    tx: &Transaction<'_>,
    (provider, action): (&Provider, &Action),
    id: &RequestId,
) -> Result<Receipt, StoreError> {
    let digest = Digest::of(id.as_str().as_bytes());
    let draft = |kind| Draft {
        request_id: Some(id),
        provider: Some(provider),
        action: Some(action),
        level: Some(Level::Read),
        ..Draft::new(kind, "group:g0")
    };
    let intent = tx.append(&Draft {
        params_digest: Some(digest),
        summary: Some("mock.echo".to_owned()),
        body: json!({ "request": digest, "stage": "run", "nonce": digest.hex().get(..26) }),
        ..draft(RowKind::Intended)
    })?;
    tx.append(&Draft {
        result_summary: Some("mock.echo is done.".to_owned()),
        result_digest: Some(digest),
        duration_ms: Some(0),
        body: json!({ "of": intent.seq }),
        ..draft(RowKind::Succeeded)
    })
}
