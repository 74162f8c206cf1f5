//! Many calls at once, and neighbours that do their worst.

use crate::figures::{median, micros, percentile};
use crate::history::History;
use crate::parts::{Bare, Broker, Client, Programs, Transport, call, client, request, timed};
use rmcp::service::{Peer, RoleClient};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// So many calls in flight for each group.
const IN_FLIGHT: usize = 16;
const FOR: Duration = Duration::from_secs(3);

/// How many calls a second, with so many in flight, spread over groups of sixteen.
pub(crate) async fn many_in_flight(programs: &Programs, scratch: &Path, history: &mut History) {
    println!(
        "\n{:<44} {:>9} {:>9} {:>9} {:>10}   CPU µs a call: client, shims, broker",
        "in flight", "calls/s", "p50 µs", "p99 µs", "syncs/call"
    );
    for flight in [16, 64] {
        let direct = client(Command::new(&programs.echo)).await;
        let flood = flood(&[direct.peer().clone()], flight, "echo", json!({ "a": 1 })).await;
        print("SDK echo, direct", flight, &flood, None);
        history.add(format!("SDK echo, direct, {flight}, calls/s"), flood.0);
    }
    for flight in [16, 64] {
        let mailboxes: Vec<Bare> =
            (0..flight / IN_FLIGHT).map(|group| Bare::start(&scratch.join(format!("bare-{flight}-{group}")))).collect();
        let mailboxes = mailboxes.iter().map(|bare| bare.mailbox.clone());
        let clients = clients(programs, mailboxes, Transport::Files).await;
        let before = Shares::now();
        let flood = flood(&peers(&clients), flight, "ext_call", call("echo")).await;
        let shares = Shares::now().since(&before);
        print("directory protocol, no evidence", flight, &flood, Some((0, shares)));
    }
    for (name, action) in [("brokered read", "echo"), ("brokered write", "note")] {
        for transport in [Transport::Socket, Transport::Files] {
            for flight in [1, 16, 64, 256] {
                let home = scratch.join(format!("home-{action}-{}-{flight}", transport.word()));
                let name = format!("{name}, {}", transport.word());
                let rate = brokered(programs, &home, (&name, transport), action, flight).await;
                history.add(format!("{name}, {flight}, calls/s"), rate);
            }
        }
        let home = scratch.join(format!("home-{action}-memory"));
        if let Some(memory) = Memory::beneath(&home) {
            let name = format!("{name}, mailbox on tmpfs");
            brokered(programs, &home, (&name, Transport::Files), action, 64).await;
            drop(memory);
        }
    }
}

/// Returns the calls in a second.
async fn brokered(
    programs: &Programs,
    home: &Path,
    (name, transport): (&str, Transport),
    action: &str,
    flight: usize,
) -> f64 {
    let groups = flight.div_ceil(IN_FLIGHT);
    let mut broker = Broker::start(programs, home, groups);
    let clients = clients(programs, (0..groups).map(|group| broker.mailbox(group)), transport).await;
    let before = Shares::now();
    let flood = flood(&peers(&clients), flight, "ext_call", call(action)).await;
    let shares = Shares::now().since(&before);
    drop(clients);
    let syncs = broker.stop();
    print(name, flight, &flood, Some((syncs, shares)));
    broker.verify();
    flood.0
}

async fn clients(programs: &Programs, mailboxes: impl Iterator<Item = PathBuf>, transport: Transport) -> Vec<Client> {
    let mut clients = Vec::new();
    for mailbox in mailboxes {
        clients.push(client(programs.shim(&mailbox, transport)).await);
    }
    clients
}

fn peers(clients: &[Client]) -> Vec<Peer<RoleClient>> {
    clients.iter().map(|client| client.peer().clone()).collect()
}

fn print(name: &str, flight: usize, (rate, figures): &(f64, Vec<Duration>), cost: Option<(u64, Shares)>) {
    let calls = figures.len() as f64;
    let cost = cost.map_or(String::new(), |(syncs, shares)| {
        let [client, shims, broker] = shares.0.map(|ticks| ticks as f64 * 10_000.0 / calls);
        format!("{:.3}   {client:.0}, {shims:.0}, {broker:.0}", syncs as f64 / calls)
    });
    let (p50, p99) = (micros(median(figures)), micros(percentile(figures, 99)));
    println!("{:<44} {rate:>9.0} {p50:>9.0} {p99:>9.0}      {cost}", format!("{name}, {flight}"));
}

/// The processor time of this process, its shims and its broker, in ticks of 10 ms.
#[derive(Clone, Copy)]
struct Shares([u64; 3]);

impl Shares {
    fn now() -> Self {
        let mut shares = [0; 3];
        let own = std::process::id();
        for entry in std::fs::read_dir("/proc").unwrap().filter_map(Result::ok) {
            let Some(process) = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else { continue };
            let Ok(stat) = std::fs::read_to_string(entry.path().join("stat")) else { continue };
            let command = std::fs::read_to_string(entry.path().join("cmdline")).unwrap_or_default();
            let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
            let number = |index: usize| fields[index].parse::<u64>().unwrap();
            let whose = match command.split('\0').nth(1) {
                _ if process == own => 0,
                Some("--no-action-tools") if number(1) == u64::from(own) => 1,
                Some("serve") if number(1) == u64::from(own) => 2,
                _ => continue,
            };
            shares[whose] += number(11) + number(12);
        }
        Self(shares)
    }

    fn since(self, before: &Self) -> Self {
        Self(std::array::from_fn(|whose| self.0[whose] - before.0[whose]))
    }
}

async fn flood(
    peers: &[Peer<RoleClient>],
    flight: usize,
    tool: &'static str,
    arguments: Value,
) -> (f64, Vec<Duration>) {
    let started = Instant::now();
    let mut tasks = Vec::new();
    for index in 0..flight {
        let (peer, arguments) = (peers[index % peers.len()].clone(), arguments.clone());
        tasks.push(tokio::spawn(async move {
            let mut figures = Vec::new();
            while started.elapsed() < FOR {
                let began = Instant::now();
                let result = peer.call_tool(request(tool, arguments.clone())).await.expect("an answer");
                assert_ne!(result.is_error, Some(true), "{result:?}");
                figures.push(began.elapsed());
            }
            figures
        }));
    }
    let mut figures = Vec::new();
    for task in tasks {
        figures.extend(task.await.unwrap());
    }
    (figures.len() as f64 / started.elapsed().as_secs_f64(), figures)
}

/// One group's reads while another group's provider is slow, or while it floods; and what the same flood does when it
/// goes into a directory that nobody serves, because on a small machine whoever writes files takes time from everybody.
pub(crate) async fn beside_a_neighbour(programs: &Programs, scratch: &Path) {
    let mut broker = Broker::start(programs, &scratch.join("home-neighbours"), 2);
    let own = client(programs.shim(&broker.mailbox(0), Transport::Socket)).await;
    let other = client(programs.shim(&broker.mailbox(1), Transport::Socket)).await;
    let nobody = scratch.join("nobody").join("tasks");
    std::fs::create_dir_all(&nobody).unwrap();
    println!("\n{:<44} {:>9} {:>9} {:>9}", "one group's read", "p50 µs", "p99 µs", "p99 ×");
    let (mut alone, mut slow, mut elsewhere, mut here) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for _ in 0..6 {
        reads(&own, &mut alone).await;
        let waiting: Vec<_> = (0..IN_FLIGHT)
            .map(|_| {
                let peer = other.peer().clone();
                tokio::spawn(async move { peer.call_tool(request("ext_call", call("slow"))).await })
            })
            .collect();
        reads(&own, &mut slow).await;
        for call in waiting {
            call.await.unwrap().unwrap();
        }
        let flooding = Flood::into(&nobody);
        reads(&own, &mut elsewhere).await;
        drop(flooding);
        let flooding = Flood::into(&broker.mailbox(1).join("tasks"));
        reads(&own, &mut here).await;
        drop(flooding);
    }
    for (name, figures) in [
        ("alone", &alone),
        ("beside sixteen calls of a slow provider", &slow),
        ("beside a flood that nobody serves", &elsewhere),
        ("beside a flood into another group", &here),
    ] {
        let (p50, p99) = (micros(median(figures)), micros(percentile(figures, 99)));
        println!("{name:<44} {p50:>9.0} {p99:>9.0} {:>9.2}", p99 / micros(percentile(&alone, 99)));
    }
    drop((own, other));
    broker.stop();
    broker.verify();
}

async fn reads(client: &Client, figures: &mut Vec<Duration>) {
    for _ in 0..250 {
        figures.push(timed(client, "ext_call", call("echo")).await);
    }
}

/// Writes calls by hand, as fast as the file system takes them, and waits for no reply.
struct Flood {
    stop: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Flood {
    fn into(tasks: &Path) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let (stopped, tasks) = (Arc::clone(&stop), tasks.to_path_buf());
        let thread = std::thread::spawn(move || {
            let directory = shared::mailbox::Directory::open(&tasks).unwrap();
            let mut number = 0_u64;
            while !stopped.load(Ordering::Relaxed) {
                number += 1;
                let id = format!("flood-{}-{number}", started());
                let document = json!({
                    "type": "ext_call", "request_id": id, "provider": "mock", "action": "echo", "params": {},
                });
                directory.write(&format!("{id}.json"), document.to_string().as_bytes(), 0o644).unwrap();
            }
        });
        Self { stop, thread: Some(thread) }
    }
}

/// Tells one flood's names from those of another.
fn started() -> u128 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_nanos()
}

impl Drop for Flood {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().map(std::thread::JoinHandle::join);
    }
}

/// A home whose mailboxes lie in memory.
struct Memory(PathBuf);

impl Memory {
    fn beneath(home: &Path) -> Option<Self> {
        let memory = Path::new("/dev/shm").join(format!("bench-{}", std::process::id()));
        std::fs::create_dir_all(memory.join("ipc")).ok()?;
        std::fs::create_dir_all(home).unwrap();
        std::os::unix::fs::symlink(memory.join("ipc"), home.join("ipc")).unwrap();
        Some(Self(memory))
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).ok();
    }
}
