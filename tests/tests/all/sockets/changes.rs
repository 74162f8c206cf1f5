//! The real shim, whose connections break, end and come back: nothing is executed twice, and nothing after a reply that
//! says that it was not executed.

use serde_json::{Value, json};
use shared::frame::Kind;
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use tests::group::{call, code};
use tests::programs::programs;
use tests::shim::{Shim, ended, in_front, isolated, text};
use tests::socket::Connection;
use tests::{World, is_long, until};

fn result_code(result: &Value) -> String {
    let data = &result["structuredContent"];
    data["code"].as_str().or(data["status"].as_str()).unwrap_or_else(|| panic!("{result}")).to_owned()
}

/// The number of connections that the host has of a group.
fn connections(world: &World, group: &str) -> u64 {
    let output = world.cli(&["status", "--json"]);
    let status: Value = serde_json::from_slice(&output.stdout).unwrap();
    let groups = status["groups"].as_array().unwrap();
    let of = groups.iter().find(|of| of["group"] == group).unwrap();
    of["socket"]["connections"].as_u64().unwrap_or_default()
}

fn process() -> World {
    let world = World::builder().process();
    world.grant("developer", 2);
    world
}

#[test]
fn the_shim_uses_the_socket_by_default_and_files_if_it_is_told_to() {
    let world = process();
    let shim = Shim::start(&world, "developer");
    assert_eq!(result_code(&shim.call("demo__charge", json!({}))), "executed");
    assert_eq!(connections(&world, "developer"), 1);
    drop(shim);
    until("the end of the connection", || (connections(&world, "developer") == 0).then_some(()));
    let shim = Shim::start_with(&world, "developer", &[("EXT_TRANSPORT", "files")]);
    assert_eq!(result_code(&shim.call("demo__charge", json!({}))), "executed");
    assert_eq!(connections(&world, "developer"), 0);
    let output = ended(&[("EXT_TRANSPORT", "carrier pigeon")]);
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("EXT_TRANSPORT must be auto, socket or files"), "{said}");
}

/// Puts a file in the place of a socket, so that there is no moment without a name.
pub(super) fn obstruct(path: &Path) {
    let aside = path.with_extension("aside");
    std::fs::write(&aside, "no socket").unwrap();
    std::fs::rename(aside, path).unwrap();
}

#[test]
fn without_a_socket_the_shim_uses_files_and_comes_back_to_the_socket() {
    let world = process();
    let path = world.group("developer").directory().join("broker.sock");
    obstruct(&path);
    let shim = Shim::start(&world, "developer");
    let only = Shim::start_with(&world, "developer", &[("EXT_TRANSPORT", "socket")]);
    assert_eq!(result_code(&shim.call("demo__charge", json!({}))), "executed");
    let refused = only.call("demo__charge", json!({}));
    assert_eq!(result_code(&refused), "no_mailbox");
    assert!(text(&refused).contains("EXT_TRANSPORT=auto"), "{refused}");
    assert_eq!((connections(&world, "developer"), world.effects_of("charge").len()), (0, 1));
    std::fs::remove_file(&path).unwrap();
    until("a call over the socket", || {
        assert_eq!(result_code(&shim.call("demo__charge", json!({}))), "executed");
        (connections(&world, "developer") > 0).then_some(())
    });
}

#[test]
fn a_call_whose_host_is_killed_has_its_one_outcome_from_the_next_host() {
    let mut world = process();
    let shim = Shim::start(&world, "developer");
    assert_eq!(result_code(&shim.call("demo__echo", json!({}))), "executed");
    let result = std::thread::scope(|scope| {
        let asked = scope.spawn(|| shim.call("demo__charge", json!({ "ms": 2000 })));
        until("the intent", || world.query("SELECT * FROM open_intents").pop());
        world.kill();
        world.start_process();
        asked.join().unwrap()
    });
    assert_eq!(result_code(&result), "outcome_unknown", "{result}");
    assert_eq!(result_code(&shim.call("demo__echo", json!({}))), "executed", "the shim goes on with the next host");
}

#[test]
fn a_call_to_a_stopped_host_is_withdrawn_and_never_executed() {
    let world = process();
    let shim = Shim::start_with(&world, "developer", &[("EXT_CALL_TIMEOUT", "1000")]);
    // The first connection of this shim meets a host that stands still.
    world.stand_still();
    let result = shim.call("demo__charge", json!({}));
    world.go_on();
    assert_eq!(result_code(&result), "withdrawn", "{result}");
    assert_eq!(result_code(&shim.call("demo__echo", json!({}))), "executed");
    // Of a request over a connection that the host knows, nobody can say what has become of it.
    let shim = Shim::start_with(&world, "developer", &[("EXT_CALL_TIMEOUT", "1000")]);
    assert_eq!(result_code(&shim.call("demo__echo", json!({}))), "executed");
    world.stand_still();
    let result = shim.call("demo__charge", json!({}));
    world.go_on();
    assert_eq!(result_code(&result), "no_answer", "{result}");
    assert_eq!(result_code(&shim.call("demo__echo", json!({}))), "executed");
    assert_eq!(world.effects_of("charge"), [""; 0], "the host drops what a closed connection has sent");
}

#[test]
fn a_shim_without_network_reaches_the_socket_through_a_read_only_mount() {
    let world = process();
    let mut command = match isolated(&world, "developer") {
        Ok(command) => command,
        Err(why) => return tests::skipped(&format!("there is no sandbox: {why}")),
    };
    command.env("EXT_TRANSPORT", "socket");
    let shim = Shim::of(command);
    assert_eq!(result_code(&shim.call("demo__charge", json!({}))), "executed");
    assert_eq!((connections(&world, "developer"), world.effects_of("charge").len()), (1, 1));
}

#[test]
fn a_shim_for_which_there_is_no_connection_uses_files() {
    let world = process();
    let group = world.group("developer");
    let mut held: Vec<Connection> = (0..8).map(|_| Connection::open(&group)).collect();
    for connection in &mut held {
        connection.next_of(Kind::Hello);
    }
    let shim = Shim::start(&world, "developer");
    assert_eq!(result_code(&shim.call("demo__charge", json!({}))), "executed");
    assert_eq!((connections(&world, "developer"), world.effects_of("charge").len()), (8, 1));
}

/// A socket in front of the host's, whose connections break after a number of bytes that nobody knows before.
struct Cutter {
    path: PathBuf,
    stops: Arc<AtomicBool>,
    cuts: Arc<AtomicUsize>,
    thread: Option<std::thread::JoinHandle<()>>,
}

/// How many calls there are at once.
const THREADS: usize = 4;

/// Numbers that look random and are the same in each run.
struct Numbers(AtomicU64);

impl Numbers {
    fn below(&self, most: u64) -> u64 {
        let step =
            |seed: u64| Some(seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407));
        let seed = self.0.fetch_update(Ordering::SeqCst, Ordering::SeqCst, step).unwrap();
        (seed >> 33) % most
    }
}

impl Cutter {
    fn start(path: &Path, real: &Path) -> Self {
        let (stops, cuts) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let (path, real) = (path.to_owned(), real.to_owned());
        let numbers = Numbers(AtomicU64::new(20_261_125));
        let (stopped, counted, at) = (Arc::clone(&stops), Arc::clone(&cuts), path.clone());
        let mut listener = UnixListener::bind(&path).unwrap();
        let thread = std::thread::spawn(move || {
            while let Ok((shim, _)) = listener.accept() {
                if stopped.load(Ordering::SeqCst) {
                    return;
                }
                if numbers.below(4) == 0 {
                    // For a while there is no socket, and then it is another one: the shim uses files in between.
                    std::fs::remove_file(&at).unwrap();
                    listener = UnixListener::bind(&at).unwrap();
                }
                let Ok(host) = UnixStream::connect(&real) else { continue };
                let budget = Arc::new(AtomicUsize::new(usize::try_from(200 + numbers.below(4_000)).unwrap()));
                for (from, to) in [(&shim, &host), (&host, &shim)] {
                    let (from, to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
                    let (budget, counted) = (Arc::clone(&budget), Arc::clone(&counted));
                    std::thread::spawn(move || forward(from, to, &budget, &counted));
                }
            }
        });
        Self { path, stops, cuts, thread: Some(thread) }
    }
}

fn forward(mut from: UnixStream, mut to: UnixStream, budget: &AtomicUsize, cuts: &AtomicUsize) {
    let mut buffer = [0; 4096];
    while let Ok(read) = from.read(&mut buffer) {
        let left =
            budget.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| Some(left.saturating_sub(read))).unwrap();
        let passed = read.min(left);
        let is_over = read == 0 || to.write_all(&buffer[..passed]).is_err() || passed < read;
        if is_over {
            if passed < read {
                cuts.fetch_add(1, Ordering::SeqCst);
            }
            break;
        }
    }
    for end in [from, to] {
        end.shutdown(Shutdown::Both).ok();
    }
}

impl Drop for Cutter {
    fn drop(&mut self) {
        self.stops.store(true, Ordering::SeqCst);
        UnixStream::connect(&self.path).ok();
        self.thread.take().map(std::thread::JoinHandle::join);
    }
}

/// Attack: see `a_request_whose_sender_has_hung_up_is_not_executed`.
#[test]
fn of_calls_whose_connections_are_cut_none_runs_twice_and_none_after_it_was_said_not_to() {
    let calls = if is_long() { 1_000 } else { 80 };
    let world = process();
    let front = tempfile::tempdir().unwrap();
    let command = match in_front(&world, "developer", front.path()) {
        Ok(command) => command,
        Err(why) => return tests::skipped(&format!("bwrap cannot be started: {why}")),
    };
    let directory = world.group("developer").directory().to_owned();
    let cutter = Cutter::start(&front.path().join("broker.sock"), &directory.join("broker.sock"));
    let shim = Shim::of(command);
    let replies: Vec<(String, String)> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|_| {
                scope.spawn(|| {
                    let asked = (0..calls / THREADS).map(|n| {
                        let mut arguments = call("charge", json!({ "ms": if n % 7 == 0 { 150 } else { n % 5 } }));
                        arguments.as_object_mut().unwrap().remove("type");
                        let result = shim.call("ext_call", arguments);
                        let id = result["_meta"]["broker/request_id"].as_str().unwrap().to_owned();
                        (id, result_code(&result))
                    });
                    asked.collect::<Vec<_>>()
                })
            })
            .collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    drop(shim);
    world.settle();
    let mut effects: BTreeMap<String, usize> = BTreeMap::new();
    for id in world.effects_of("charge") {
        *effects.entry(id).or_default() += 1;
    }
    assert_eq!(replies.len(), calls);
    for (id, code) in &replies {
        let happened = effects.remove(id).unwrap_or_default();
        let is_true = match code.as_str() {
            "executed" => happened == 1,
            "no_answer" | "outcome_unknown" => happened <= 1,
            _ => happened == 0,
        };
        assert!(is_true, "{id}: {code}, and it happened {happened} times");
    }
    assert_eq!(effects, BTreeMap::new(), "nothing else happened");
    let cuts = cutter.cuts.load(Ordering::SeqCst);
    assert!(cuts >= calls / 20, "only {cuts} connections were cut");
    let executed = replies.iter().filter(|(_, code)| code == "executed").count();
    assert!(executed * 10 >= calls * 9, "only {executed} of {calls} calls came through: {replies:?}");
}

/// Attack: see `a_request_whose_sender_has_hung_up_is_not_executed`.
#[test]
#[expect(clippy::disallowed_methods, reason = "the shim is a process that is killed")]
fn of_calls_whose_shim_is_killed_at_any_moment_each_happens_once() {
    let world = World::with_grant();
    let group = world.group("developer");
    group.snapshot();
    let calls = if is_long() { 500 } else { 24 };
    for n in 0..calls {
        let arguments = json!({
            "provider": "demo", "action": "charge", "params": { "ms": n % 5 * 10 }, "idempotency_key": format!("kill-{n}"),
        });
        let greeting = json!({
            "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": { "name": "t", "version": "1" },
        });
        let messages = [
            json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": greeting }),
            json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }),
            json!({
                "jsonrpc": "2.0", "id": 2, "method": "tools/call",
                "params": { "name": "ext_call", "arguments": arguments },
            }),
        ];
        let before = world.rows().len();
        let mut shim = Command::new(programs().mcp_shim())
            .env_clear()
            .env("EXT_IPC_DIR", group.directory())
            .env("EXT_TRANSPORT", if n % 2 == 0 { "socket" } else { "files" })
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let lines = messages.map(|message| message.to_string()).join("\n") + "\n";
        shim.stdin.as_mut().unwrap().write_all(lines.as_bytes()).unwrap();
        // At once, after the row of the intent, or after that of the outcome.
        until("the rows before the kill", || (world.rows().len() >= before + n / 2 % 3).then_some(()));
        shim.kill().unwrap();
        shim.wait().unwrap();
        // As a client does that starts its shim again.
        let mut again = call("charge", json!({ "ms": n % 5 * 10 }));
        again["idempotency_key"] = json!(format!("kill-{n}"));
        let reply = if n % 2 == 0 { Connection::open(&group).ask(again) } else { group.ask(again) };
        assert_eq!(code(&reply), "executed", "{n}: {reply}");
        assert_eq!(world.effects_of("charge").len(), n + 1, "call {n} happened once");
    }
}
