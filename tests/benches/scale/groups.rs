//! Start, memory and calls with few groups and with many, each with a connection.

use crate::figures::{median, micros, percentile};
use crate::history::History;
use crate::parts::{Broker, Client, Programs, Transport, call, client, timed};
use serde_json::json;
use shared::frame::{self, Kind};
use shared::mailbox::SOCKET;
use shared::snapshot::PROTOCOL;
use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

const SIZES: [usize; 4] = [3, 30, 300, 1_000];
const ROUNDS: usize = 20;
const CALLS_PER_ROUND: usize = 20;
/// How long nothing happens while the broker's time is taken.
const IDLE: Duration = Duration::from_secs(10);

/// A broker with so many groups. All but the first are connected and silent.
struct MeasuredBroker {
    groups: usize,
    ready: Duration,
    alone_kib: u64,
    idle_ticks: u64,
    broker: Broker,
    client: Client,
    others: Vec<UnixStream>,
    reads: Vec<Duration>,
}

/// Prints a line for each number of groups.
pub(crate) async fn measure(programs: &Programs, scratch: &Path, history: &mut History) {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    let raised = rustix::process::Rlimit { current: limit.maximum, maximum: limit.maximum };
    rustix::process::setrlimit(rustix::process::Resource::Nofile, raised).unwrap();
    let mut brokers = Vec::new();
    for groups in SIZES {
        let home = scratch.join(format!("home-{groups}-groups"));
        Broker::prepare_home(&home, groups);
        Broker::grant(programs, &home, 0);
        let began = Instant::now();
        let broker = Broker::serve(programs, &home);
        let ready = began.elapsed();
        let client = client(programs.shim(&broker.mailbox(0), Transport::Socket)).await;
        timed(&client, "ext_call", call("echo")).await;
        let alone_kib = broker.memory_kib();
        let others = (1..groups).map(|group| connect(&broker.mailbox(group))).collect();
        brokers.push(MeasuredBroker {
            groups,
            ready,
            alone_kib,
            idle_ticks: 0,
            broker,
            client,
            others,
            reads: Vec::new(),
        });
    }
    let before: Vec<u64> = brokers.iter().map(|measured| measured.broker.cpu()).collect();
    tokio::time::sleep(IDLE).await;
    for (measured, before) in brokers.iter_mut().zip(before) {
        measured.idle_ticks = measured.broker.cpu() - before;
    }
    for _ in 0..ROUNDS {
        for measured in &mut brokers {
            for _ in 0..CALLS_PER_ROUND {
                measured.reads.push(timed(&measured.client, "ext_call", call("echo")).await);
            }
        }
    }
    println!(
        "\n{:>12} {:>9} {:>9} {:>14} {:>12} {:>9} {:>9}",
        "groups", "ready ms", "RSS MiB", "connected MiB", "% of a core", "read µs", "p99 µs"
    );
    for measured in brokers {
        let MeasuredBroker { groups, ready, alone_kib, idle_ticks, mut broker, client, others, reads } = measured;
        println!(
            "{groups:>12} {:>9.0} {:>9.1} {:>14.1} {:>12.2} {:>9.0} {:>9.0}",
            ready.as_secs_f64() * 1e3,
            alone_kib as f64 / 1024.0,
            broker.memory_kib() as f64 / 1024.0,
            idle_ticks as f64 / IDLE.as_secs_f64(),
            micros(median(&reads)),
            micros(percentile(&reads, 99))
        );
        let connected = broker.memory_kib() as f64 / 1024.0;
        let figures = [
            ("ready ms", ready.as_secs_f64() * 1e3),
            ("connected MiB", connected),
            ("read µs", micros(median(&reads))),
        ];
        for (unit, figure) in figures {
            history.add(format!("{groups} groups, {unit}"), figure);
        }
        drop((client, others));
        broker.stop();
        broker.verify();
    }
}

/// A connection that has said hello and heard the host's.
fn connect(mailbox: &Path) -> UnixStream {
    let mut stream = UnixStream::connect(mailbox.join(SOCKET)).unwrap();
    let hello = json!({ "protocols": [PROTOCOL] }).to_string();
    stream.write_all(&frame::encode(Kind::Hello, hello.as_bytes()).unwrap()).unwrap();
    assert!(stream.read(&mut [0; 1024]).unwrap() > 0, "the host closes a connection");
    stream
}
