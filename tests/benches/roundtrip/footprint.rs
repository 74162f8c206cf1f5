//! The resources that the processes take before the first call.

use crate::figures::{median, micros, percentile};
use crate::parts::{Broker, Programs, Transport, client, memory_kib};
use serde_json::{Value, json};
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

/// How long nothing happens while the broker's time is taken.
const IDLE: Duration = Duration::from_secs(10);

/// From its start to its first answer. This one is built like the rest, not the static one.
pub(crate) fn shim(programs: &Programs, scratch: &Path) {
    let mailbox = scratch.join("cold");
    for name in ["tasks", "responses"] {
        std::fs::create_dir_all(mailbox.join(name)).unwrap();
    }
    println!("\n{:<44} {:>9} {:>9} {:>9}", "shim, cold", "p50 µs", "p99 µs", "RSS MiB");
    let initialize = json!({
        "jsonrpc": "2.0", "id": 1, "method": "initialize",
        "params": { "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "b", "version": "1" } },
    });
    let discover = json!({
        "jsonrpc": "2.0", "id": 1, "method": "server/discover",
        "params": { "_meta": {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": { "name": "b", "version": "1" },
            "io.modelcontextprotocol/clientCapabilities": {},
        } },
    });
    for (name, approval_request) in
        [("to the answer of initialize", initialize), ("to the answer of server/discover", discover)]
    {
        let mut memory = 0;
        let figures: Vec<Duration> = (0..40)
            .map(|_| {
                let mut command = programs.shim(&mailbox, Transport::Files);
                command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
                let began = Instant::now();
                let mut child = command.spawn().unwrap();
                let mut stdin = child.stdin.take().unwrap();
                writeln!(stdin, "{approval_request}").unwrap();
                let mut answer = String::new();
                BufReader::new(child.stdout.take().unwrap()).read_line(&mut answer).unwrap();
                let took = began.elapsed();
                let answer: Value = serde_json::from_str(&answer).unwrap();
                assert!(answer.get("result").is_some(), "{answer}");
                memory = memory.max(memory_kib(child.id()));
                drop(stdin);
                child.wait().unwrap();
                took
            })
            .collect();
        let (p50, p99) = (micros(median(&figures)), micros(percentile(&figures, 99)));
        println!("{name:<44} {p50:>9.0} {p99:>9.0} {:>9.1}", memory as f64 / 1024.0);
    }
    let bytes = std::fs::metadata(&programs.shim).unwrap().len();
    println!("{:<44} {:>9.1} MiB", "executable", bytes as f64 / f64::from(1 << 20));
}

/// Memory and time of a broker that nobody asks anything, with few groups and with many.
pub(crate) async fn broker(programs: &Programs, scratch: &Path) {
    println!("\n{:<44} {:>9} {:>9} {:>12}", "broker, idle", "ready ms", "RSS MiB", "% of a core");
    for groups in [3, 1_000] {
        let home = scratch.join(format!("home-idle-{groups}"));
        Broker::prepare_home(&home, groups);
        let began = Instant::now();
        let mut broker = Broker::serve(programs, &home);
        let ready = began.elapsed();
        // One call, so that what every broker needs is there.
        let shim = client(programs.shim(&broker.mailbox(0), Transport::Socket)).await;
        shim.list_all_tools().await.unwrap();
        drop(shim);
        let before = broker.cpu();
        tokio::time::sleep(IDLE).await;
        let ticks = broker.cpu() - before;
        println!(
            "{:<44} {:>9.0} {:>9.1} {:>12.2}",
            format!("{groups} groups"),
            ready.as_secs_f64() * 1e3,
            broker.memory_kib() as f64 / 1024.0,
            ticks as f64 / IDLE.as_secs_f64()
        );
        broker.stop();
        broker.verify();
    }
}
