//! What a brokered call costs, beside what it is made of and what others do, in one run.
//!
//! Real processes: an MCP client here, the real shim over stdio, a real directory, the real broker with full evidence.
//! Comparators run in turn with it, round by round, so that a drifting machine drifts for all of them:
//! a direct SDK echo, the directory protocol without evidence, and the first specification's polling design.
//! It prints medians and ratios, and never judges.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a benchmark that cannot run has nothing to say")]
#![expect(clippy::print_stdout, reason = "the figures")]
#![expect(clippy::disallowed_methods, reason = "it starts processes")]
#![expect(clippy::as_conversions, clippy::cast_precision_loss, reason = "figures")]
#![expect(clippy::indexing_slicing, reason = "figures")]

use rmcp::ServiceExt as _;
use rmcp::model::CallToolRequestParams;
use rmcp::service::{Peer, RoleClient, RunningService};
use rmcp::transport::TokioChildProcess;
use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
use serde_json::{Map, Value, json};
use shared::mailbox::{Directory, reply_name};
use shared::{Reply, Timestamp};
use std::fmt::Write as _;
use std::fs::OpenOptions;
use std::io::{BufRead as _, BufReader, Seek as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const ROUNDS: usize = 12;
const CALLS_PER_ROUND: usize = 150;

type Client = RunningService<RoleClient, ()>;

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() {
    if std::env::args().any(|argument| argument == "--test") {
        return;
    }
    let programs = Programs::build();
    let scratch = Scratch::new();
    println!("file system  {}", file_system(&scratch.0));
    let f = yardstick(&scratch.0);
    println!("F            {:>8.1} µs   one fdatasync of a 4 KiB overwrite", micros(f));
    println!("inotify      {:>8.1} µs   write, rename, wake-up", micros(wake_up(&scratch.0)));
    one_client(&programs, &scratch.0, f).await;
    many_in_flight(&programs, &scratch.0).await;
}

/// Everything once, in turn, many times.
async fn one_client(programs: &Programs, scratch: &Path, f: Duration) {
    let broker = Broker::start(programs, &scratch.join("home"), 1);
    let bare = Bare::start(&scratch.join("bare"));
    let direct = client(Command::new(&programs.echo)).await;
    let with = client(programs.shim(&broker.mailbox(0))).await;
    let without = client(programs.shim(&bare.mailbox)).await;
    let mut echo = Vec::new();
    let mut protocol = Vec::new();
    let mut read = Vec::new();
    let mut write = Vec::new();
    let mut refused = Vec::new();
    let cpu = broker.cpu();
    for _ in 0..ROUNDS {
        for _ in 0..CALLS_PER_ROUND {
            echo.push(timed(&direct, "echo", json!({ "a": 1 })).await);
            protocol.push(timed(&without, "ext_call", call("echo")).await);
            read.push(timed(&with, "ext_call", call("echo")).await);
            write.push(timed(&with, "ext_call", call("note")).await);
            refused.push(timed(&with, "ext_call", call("charge")).await);
        }
    }
    let calls = 3 * ROUNDS * CALLS_PER_ROUND;
    println!(
        "cpu          {:>8.1} µs   of the broker for each call",
        (broker.cpu() - cpu) as f64 / calls as f64 * 10_000.0
    );
    println!("memory       {:>8.1} MiB  of the broker", broker.memory_kib() as f64 / 1024.0);
    let direct_median = median(&echo);
    let bare_median = median(&protocol);
    println!("\n{:<44} {:>9} {:>9} {:>7} {:>9}", "one client", "p50 µs", "p99 µs", "× echo", "− bare /F");
    for (name, figures) in [
        ("SDK echo, direct", &echo),
        ("directory protocol, no evidence", &protocol),
        ("brokered read, one synced commit", &read),
        ("brokered write, two synced commits", &write),
        ("refusal, one synced commit", &refused),
    ] {
        let p50 = median(figures);
        println!(
            "{name:<44} {:>9.0} {:>9.0} {:>7.1} {:>9.2}",
            micros(p50),
            micros(percentile(figures, 99)),
            micros(p50) / micros(direct_median),
            (micros(p50) - micros(bare_median)) / micros(f)
        );
    }
    println!("{:<44} {:>9.0}", "first specification: polling every 500 ms", micros(polling(&scratch.join("polling"))));
    drop((direct, with, without));
    broker.verify();
}

/// How many calls a second, with so many in flight, spread over groups of sixteen.
async fn many_in_flight(programs: &Programs, scratch: &Path) {
    println!("\n{:<44} {:>9} {:>9} {:>9}", "in flight", "calls/s", "p50 µs", "p99 µs");
    let direct = client(Command::new(&programs.echo)).await;
    for flight in [16, 64] {
        print_flight(
            "SDK echo, direct",
            flight,
            flood(&[direct.peer().clone()], flight, "echo", json!({ "a": 1 })).await,
        );
    }
    drop(direct);
    for (name, action) in [("brokered read", "echo"), ("brokered write", "note")] {
        for flight in [16, 64, 256] {
            let groups = flight / 16;
            let broker = Broker::start(programs, &scratch.join(format!("home-{action}-{flight}")), groups);
            let mut clients = Vec::new();
            for group in 0..groups {
                clients.push(client(programs.shim(&broker.mailbox(group))).await);
            }
            let peers: Vec<_> = clients.iter().map(|client| client.peer().clone()).collect();
            print_flight(name, flight, flood(&peers, flight, "ext_call", call(action)).await);
            drop(clients);
            broker.verify();
        }
    }
}

fn print_flight(name: &str, flight: usize, (rate, figures): (f64, Vec<Duration>)) {
    println!(
        "{:<44} {rate:>9.0} {:>9.0} {:>9.0}",
        format!("{name}, {flight}"),
        micros(median(&figures)),
        micros(percentile(&figures, 99))
    );
}

async fn flood(
    peers: &[Peer<RoleClient>],
    flight: usize,
    tool: &'static str,
    arguments: Value,
) -> (f64, Vec<Duration>) {
    const FOR: Duration = Duration::from_secs(3);
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

fn call(action: &str) -> Value {
    json!({ "provider": "mock", "action": action, "params": { "a": 1 } })
}

fn request(tool: &'static str, arguments: Value) -> CallToolRequestParams {
    let Value::Object(arguments) = arguments else { return CallToolRequestParams::new(tool) };
    CallToolRequestParams::new(tool).with_arguments(arguments)
}

async fn timed(client: &Client, tool: &'static str, arguments: Value) -> Duration {
    let request = request(tool, arguments);
    let began = Instant::now();
    client.call_tool(request).await.expect("an answer");
    began.elapsed()
}

async fn client(mut command: Command) -> Client {
    command.stderr(Stdio::null());
    ().serve(TokioChildProcess::new(tokio::process::Command::from(command)).unwrap()).await.unwrap()
}

struct Programs {
    broker: PathBuf,
    shim: PathBuf,
    echo: PathBuf,
}

impl Programs {
    fn build() -> Self {
        let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".into());
        let output = Command::new(cargo)
            .args([
                "build",
                "--release",
                "--message-format=json",
                "-p",
                "host-broker",
                "-p",
                "mcp-shim",
                "-p",
                "tests",
                "--bins",
            ])
            .stderr(Stdio::inherit())
            .output()
            .unwrap();
        assert!(output.status.success(), "the programs do not build");
        let found: Map<String, Value> = String::from_utf8(output.stdout)
            .unwrap()
            .lines()
            .filter_map(|line| serde_json::from_str::<Value>(line).ok())
            .filter_map(|message| {
                let path = message.get("executable")?.as_str()?.to_owned();
                Some((message.get("target")?.get("name")?.as_str()?.to_owned(), path.into()))
            })
            .collect();
        let path = |name: &str| PathBuf::from(found[name].as_str().unwrap());
        Self { broker: path("host-broker"), shim: path("mcp-shim"), echo: path("mcp-echo") }
    }

    fn shim(&self, mailbox: &Path) -> Command {
        let mut command = Command::new(&self.shim);
        command.arg("--no-action-tools").env("EXT_IPC_DIR", mailbox);
        command
    }
}

struct Broker {
    child: Child,
    home: PathBuf,
    program: PathBuf,
}

impl Broker {
    fn start(programs: &Programs, home: &Path, groups: usize) -> Self {
        std::fs::create_dir_all(home).unwrap();
        let mut config = String::from("[providers.mock]\nkind = \"mock\"\nscript = \"mock.toml\"\n");
        for group in 0..groups {
            writeln!(config, "[groups.g{group}]").unwrap();
        }
        std::fs::write(home.join("broker.toml"), config).unwrap();
        let script = "[actions.echo]\nlevel = 1\nreply = \"$params\"\nexposes = []\n[actions.note]\nlevel = 2\nreply = \"$params\"\n[actions.charge]\nlevel = 3\n";
        std::fs::write(home.join("mock.toml"), script).unwrap();
        for group in 0..groups {
            let status = Command::new(&programs.broker)
                .args(["grant", &format!("g{group}"), "mock", "2", "--home"])
                .arg(home)
                .stdout(Stdio::null())
                .status()
                .unwrap();
            assert!(status.success());
        }
        let mut child =
            Command::new(&programs.broker).args(["serve", "--home"]).arg(home).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line.trim(), "ready");
        Self { child, home: home.to_path_buf(), program: programs.broker.clone() }
    }

    fn mailbox(&self, group: usize) -> PathBuf {
        self.home.join("ipc").join(format!("g{group}"))
    }

    /// User and system time, in ticks of 10 ms.
    fn cpu(&self) -> u64 {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id())).unwrap();
        let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
        fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
    }

    fn memory_kib(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find(|line| line.starts_with("VmRSS")).unwrap();
        line.split_whitespace().nth(1).unwrap().parse().unwrap()
    }

    /// Stops it, and lets it verify what it wrote.
    fn verify(mut self) {
        rustix::process::kill_process(rustix::process::Pid::from_child(&self.child), rustix::process::Signal::TERM)
            .unwrap();
        self.child.wait().unwrap();
        let output =
            Command::new(&self.program).args(["evidence", "verify", "--home"]).arg(&self.home).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        if output.status.success() {
            println!("  evidence: {text}");
        } else {
            println!("  evidence: NOT VERIFIED {text}");
        }
        std::fs::remove_dir_all(&self.home).ok();
    }
}

/// The directory protocol with nothing behind it: reads a request, answers, removes it.
struct Bare {
    mailbox: PathBuf,
    stop: Arc<AtomicBool>,
}

impl Bare {
    fn start(path: &Path) -> Self {
        for name in ["tasks", "responses"] {
            std::fs::create_dir_all(path.join(name)).unwrap();
        }
        let stop = Arc::new(AtomicBool::new(false));
        let (tasks, responses) = (path.join("tasks"), Directory::open(&path.join("responses")).unwrap());
        let stopped = Arc::clone(&stop);
        let watch = inotify::init(CreateFlags::CLOEXEC).unwrap();
        inotify::add_watch(&watch, &tasks, WatchFlags::MOVED_TO).unwrap();
        let directory = Directory::open(&tasks).unwrap();
        std::thread::spawn(move || {
            let mut buffer = [std::mem::MaybeUninit::uninit(); 16384];
            let mut reader = inotify::Reader::new(watch, &mut buffer);
            while !stopped.load(Ordering::Relaxed) {
                let Ok(event) = reader.next() else { break };
                let name = event.file_name().unwrap().to_str().unwrap().to_owned();
                if let Ok(contents) = directory.read(&name, 1 << 20, None) {
                    let document = shared::request::parse(&contents.bytes).unwrap();
                    let id = document.envelope.request_id.unwrap();
                    let reply = Reply::executed(id.clone(), json!({ "a": 1 }), "ok".into(), Timestamp::from_millis(0));
                    responses.write(&reply_name(&id), &serde_json::to_vec(&reply).unwrap(), 0o644).unwrap();
                    directory.remove(&name).unwrap();
                }
            }
        });
        Self { mailbox: path.to_path_buf(), stop }
    }
}

impl Drop for Bare {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

/// What both sides polling every 500 ms come to: each waits half a period on average, and the client a whole one.
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

fn yardstick(scratch: &Path) -> Duration {
    let mut file = OpenOptions::new().create(true).truncate(true).write(true).open(scratch.join("yardstick")).unwrap();
    let block = [7_u8; 4096];
    for _ in 0..256 {
        file.write_all(&block).unwrap();
    }
    file.sync_all().unwrap();
    let figures: Vec<Duration> = (0..400)
        .map(|index: u64| {
            file.seek(std::io::SeekFrom::Start(index % 256 * 4096)).unwrap();
            file.write_all(&block).unwrap();
            let began = Instant::now();
            file.sync_data().unwrap();
            began.elapsed()
        })
        .collect();
    median(&figures)
}

fn wake_up(scratch: &Path) -> Duration {
    let path = scratch.join("wake");
    std::fs::create_dir_all(&path).unwrap();
    let directory = Directory::open(&path).unwrap();
    let watch = inotify::init(CreateFlags::CLOEXEC).unwrap();
    inotify::add_watch(&watch, &path, WatchFlags::MOVED_TO).unwrap();
    let mut buffer = [std::mem::MaybeUninit::uninit(); 4096];
    let mut reader = inotify::Reader::new(watch, &mut buffer);
    let figures: Vec<Duration> = (0..400)
        .map(|_| {
            let began = Instant::now();
            directory.write("x.json", b"{}", 0o644).unwrap();
            reader.next().unwrap();
            began.elapsed()
        })
        .collect();
    median(&figures)
}

fn file_system(path: &Path) -> String {
    let mounts = std::fs::read_to_string("/proc/mounts").unwrap_or_default();
    let best = mounts
        .lines()
        .filter_map(|line| {
            let fields: Vec<&str> = line.split_whitespace().collect();
            path.starts_with(fields[1]).then(|| (fields[1].len(), format!("{} {}", fields[2], fields[3])))
        })
        .max();
    best.map_or_else(|| "unknown".to_owned(), |(_, text)| text)
}

struct Scratch(PathBuf);

impl Scratch {
    /// Beside the build, because `/tmp` may be memory.
    fn new() -> Self {
        let target = std::env::var("CARGO_TARGET_DIR").unwrap_or_else(|_| "target".into());
        let path = std::path::absolute(Path::new(&target).join(format!("bench-{}", std::process::id()))).unwrap();
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).ok();
    }
}

fn micros(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e6
}

fn median(figures: &[Duration]) -> Duration {
    percentile(figures, 50)
}

fn percentile(figures: &[Duration], percent: usize) -> Duration {
    let mut sorted = figures.to_vec();
    sorted.sort_unstable();
    sorted[(sorted.len() * percent / 100).min(sorted.len() - 1)]
}
