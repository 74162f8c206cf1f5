//! One client, one call after the other.

use crate::figures::{median, micros, percentile};
use crate::history::History;
use crate::parts::{Bare, Broker, Programs, Transport, call, client, timed};
use serde_json::json;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const ROUNDS: usize = 12;
const CALLS_PER_ROUND: usize = 150;

/// Everything once, in turn, many times.
pub(crate) async fn one_client(programs: &Programs, scratch: &Path, f: Duration, history: &mut History) {
    let mut broker = Broker::start(programs, &scratch.join("home"), 1);
    let bare = Bare::start(&scratch.join("bare"));
    let direct = client(Command::new(&programs.echo)).await;
    let transports = [Transport::Socket, Transport::Files];
    let [socket, files] = transports.map(|transport| programs.shim(&broker.mailbox(0), transport));
    let brokered = [client(socket).await, client(files).await];
    let without = client(programs.shim(&bare.mailbox, Transport::Files)).await;
    let mut echo = Vec::new();
    let mut protocol = Vec::new();
    let [mut read, mut write, mut refused] = [(); 3].map(|()| [Vec::new(), Vec::new()]);
    let cpu = broker.cpu();
    for _ in 0..ROUNDS {
        for _ in 0..CALLS_PER_ROUND {
            echo.push(timed(&direct, "echo", json!({ "a": 1 })).await);
            protocol.push(timed(&without, "ext_call", call("echo")).await);
            for (way, client) in brokered.iter().enumerate() {
                read[way].push(timed(client, "ext_call", call("echo")).await);
                write[way].push(timed(client, "ext_call", call("note")).await);
                refused[way].push(timed(client, "ext_call", call("charge")).await);
            }
        }
    }
    let calls = 3 * transports.len() * ROUNDS * CALLS_PER_ROUND;
    println!(
        "cpu          {:>8.1} µs   of the broker for each call",
        (broker.cpu() - cpu) as f64 / calls as f64 * 10_000.0
    );
    let [memory, peak] = [broker.memory_kib(), broker.peak_kib()].map(|kib| kib as f64 / 1024.0);
    println!("memory       {memory:>8.1} MiB  of the broker, at most {peak:.1}");
    let direct_median = median(&echo);
    let bare_median = median(&protocol);
    println!("\n{:<44} {:>9} {:>9} {:>7} {:>9}", "one client", "p50 µs", "p99 µs", "× echo", "− bare /F");
    for (name, figures) in [
        ("SDK echo, direct", &echo),
        ("directory protocol, no evidence", &protocol),
        ("read over the socket, one synced commit", &read[0]),
        ("write over the socket, two synced commits", &write[0]),
        ("refusal over the socket, one synced commit", &refused[0]),
        ("read by files, one synced commit", &read[1]),
        ("write by files, two synced commits", &write[1]),
        ("refusal by files, one synced commit", &refused[1]),
    ] {
        let p50 = median(figures);
        history.add(format!("{name}, µs"), micros(p50));
        println!(
            "{name:<44} {:>9.0} {:>9.0} {:>7.1} {:>9.2}",
            micros(p50),
            micros(percentile(figures, 99)),
            micros(p50) / micros(direct_median),
            (micros(p50) - micros(bare_median)) / micros(f)
        );
    }
    println!("{:<44} {:>9.0}", "first specification: polling every 500 ms", micros(polling(&scratch.join("polling"))));
    drop((direct, brokered, without));
    broker.stop();
    broker.verify();
}

/// The time of polling on both sides every 500 ms: each waits half a period on average, and the client a whole one.
fn polling(path: &Path) -> Duration {
    const PERIOD: Duration = Duration::from_millis(500);
    std::fs::create_dir_all(path).unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let (request, reply) = (path.join("request.json"), path.join("reply.json"));
    let (host_stop, host_request, host_reply) = (Arc::clone(&stop), request.clone(), reply.clone());
    let host = std::thread::spawn(move || {
        while !host_stop.load(Ordering::Relaxed) {
            if std::fs::remove_file(&host_request).is_ok() {
                std::fs::write(&host_reply, "{}").unwrap();
            }
            std::thread::sleep(PERIOD);
        }
    });
    let figures: Vec<Duration> = (0..5)
        .map(|_| {
            let began = Instant::now();
            std::fs::write(&request, "{}").unwrap();
            while std::fs::remove_file(&reply).is_err() {
                std::thread::sleep(PERIOD);
            }
            began.elapsed()
        })
        .collect();
    stop.store(true, Ordering::Relaxed);
    host.join().unwrap();
    median(&figures)
}
