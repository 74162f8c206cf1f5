//! Sinks by the real daemon: programs, requests and a syslog server get every row once, in order, or wait for it.

use super::metrics::{METRICS, get};
use super::rows::fill;
use super::verification::{MANY, tamper};
use super::world::{World, start, wait_for};
use serde_json::{Value, json};
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

/// The numbers of the rows in these lines.
fn numbers(lines: &str) -> Vec<i64> {
    let number = |line: &str| serde_json::from_str::<Value>(line).unwrap()["seq"].as_i64().unwrap();
    lines.lines().map(number).collect()
}

/// Adds a sink that appends the rows to a file, after what this script does.
fn with_program(world: &World, script: &str) -> std::path::PathBuf {
    let [received, gate] = ["received", "gate"].map(|name| world.home.parent().unwrap().join(name));
    let script = format!("received='{}'; gate='{}'; {script}", received.display(), gate.display());
    world.append(
        "broker.toml",
        &format!("\n[[sinks]]\nname = \"file\"\nkind = \"command\"\ncommand = [\"/bin/sh\", \"-c\", {script:?}]\n"),
    );
    received
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}

fn state(world: &World) -> Value {
    world.run(&["evidence", "sinks", "--json"]).json()[0].clone()
}

/// A server that answers each request with the next status of the list, and then always with 200.
fn server(statuses: &[u16]) -> (String, Receiver<(String, String)>, JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/rows", listener.local_addr().unwrap());
    let (sender, seen) = channel();
    let statuses = statuses.to_vec();
    let serving = std::thread::spawn(move || {
        for (turn, stream) in listener.incoming().enumerate() {
            let status = statuses.get(turn).copied().unwrap_or(200);
            if answer(stream.unwrap(), status, &sender).is_none() {
                return;
            }
        }
    });
    (url, seen, serving)
}

/// Answers one request. Returns `None` once nobody wants to know of it any more.
fn answer(mut stream: TcpStream, status: u16, seen: &Sender<(String, String)>) -> Option<()> {
    let mut bytes = Vec::new();
    let (head, body) = loop {
        let mut piece = [0; 8 * 1024];
        let count = stream.read(&mut piece).unwrap();
        if count == 0 {
            // The daemon was killed.
            return Some(());
        }
        bytes.extend_from_slice(&piece[..count]);
        let text = String::from_utf8_lossy(&bytes);
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
        if body.len() == length.parse::<usize>().unwrap() {
            break (head.to_owned(), body.to_owned());
        }
    };
    write!(stream, "HTTP/1.1 {status} x\r\ncontent-length: 0\r\n\r\n").unwrap();
    seen.send((head, body)).ok()
}

/// Each line once, in the order of the first. A stop that takes long leaves the last rows to the next daemon, which then
/// may send some twice.
fn once(lines: &str) -> String {
    let mut seen = std::collections::BTreeSet::new();
    lines.split_inclusive('\n').filter(|line| seen.insert(*line)).collect()
}

/// Waits until the sink has every row of the ledger, also the last one of an earlier daemon.
fn all_sent(world: &World) {
    wait_for(|| state(world)["behind"] == 0);
}

#[test]
fn a_program_gets_every_row_of_three_daemons_and_they_verify_as_an_export() {
    let world = World::with_mock();
    // The lines count before they are stored, as the page for operators has it.
    let received = with_program(
        &world,
        "cat > \"$gate\" && [ \"$(wc -l < \"$gate\")\" -eq \"$EXT_SINK_ROWS\" ] && echo \"$EXT_SINK_LAST\" >> \"$gate.last\" \
         && cat \"$gate\" >> \"$received\"",
    );
    world.run(&["grant", "developer", "mock", "2"]).ok();
    for turn in 0..3 {
        let (daemon, log) = world.serve_with_log();
        world.call(&format!("r{turn}"), "note", &json!({ "n": turn }), None);
        all_sent(&world);
        // A start is no other ledger.
        assert!(!read(&log).contains("the sink does not accept rows"), "{}", read(&log));
        let exported = world.run(&["evidence", "export"]).ok();
        assert_eq!(once(&read(&received)), exported);
        world.run(&["stop"]).ok();
        assert_eq!(daemon.end(), 0);
    }
    std::fs::write(&received, once(&read(&received))).unwrap();
    let verified = world.run(&["evidence", "verify", "--json", "--file", received.to_str().unwrap()]).json();
    assert_eq!(verified["ok"], true, "{verified}");
    let last = read(&world.home.join("../gate.last")).lines().last().unwrap().to_owned();
    assert!(world.run(&["evidence", "export"]).ok().contains(last.split_once(':').unwrap().1), "{last}");
    assert_eq!(super::world::mode(&world.home.join("sinks/file.json")), 0o600);
}

/// Attack: see `a_sink_that_has_rows_of_another_ledger_waits_for_an_operator`.
#[test]
fn after_a_restore_every_sink_waits_for_an_operator() {
    let world = World::with_mock();
    let received = with_program(&world, "cat >> \"$received\"");
    let daemon = world.serve();
    all_sent(&world);
    let backup = world.home.parent().unwrap().join("backup");
    world.run(&["backup", "--with-keys", backup.to_str().unwrap()]).ok();
    // The sink gets rows that are not in the backup.
    world.run(&["grant", "developer", "mock", "2"]).ok();
    all_sent(&world);
    world.run(&["stop"]).ok();
    assert_eq!(daemon.end(), 0);
    let before = read(&received);
    std::fs::remove_dir_all(&world.home).unwrap();
    world.run(&["restore", backup.to_str().unwrap()]).ok();
    let daemon = world.serve();
    let words = "the ledger was restored from a backup";
    wait_for(|| state(&world)["failing"]["reason"].as_str().is_some_and(|reason| reason.contains(words)));
    world.run(&["stop"]).ok();
    assert_eq!(daemon.end(), 0);
    assert_eq!(read(&received), before, "nothing was sent");
    let head = world.run(&["evidence", "head", "--json"]).json()["seq"].as_i64().unwrap();
    world.run(&["evidence", "resume", "file", "--from", &(head + 1).to_string()]).ok();
    let _daemon = world.serve();
    wait_for(|| state(&world)["accepted"].as_i64() > Some(head));
    let sent = numbers(read(&received).strip_prefix(&before).unwrap());
    assert_eq!(sent[0], head + 1);
}

/// Attack: see `a_daemon_that_is_killed_again_and_again_leaves_no_row_out`.
#[test]
fn rows_wait_in_the_ledger_while_a_sink_accepts_none_and_everyone_who_looks_is_told() {
    let world = World::with_mock();
    world.append("broker.toml", METRICS);
    let received = with_program(&world, "test -e \"$gate\" && cat >> \"$received\"");
    world.run(&["grant", "developer", "mock", "2"]).ok();
    let _daemon = world.serve();
    wait_for(|| state(&world)["failing"].is_object());
    // It stops no call.
    let reply = world.call("r1", "note", &json!({ "n": 1 }), None);
    assert_eq!(reply["status"], "executed");
    wait_for(|| state(&world)["behind"].as_i64() >= Some(4));
    let words = "`/bin/sh` ended with status 1";
    assert!(world.run(&["evidence", "sinks"]).ok().contains(words));
    let shown = world.run(&["status"]).ok();
    assert!(shown.contains("Sinks accept no rows") && shown.contains(words), "{shown}");
    let found = world.run(&["doctor", "--json"]);
    assert!(found.out.contains(words) && found.code == 5, "{found:?}");
    let metrics = world.run(&["status", "--json"]).json()["metrics"].as_str().unwrap().to_owned();
    let text = get(&metrics).1;
    assert!(text.contains("host_broker_sink_failing{sink=\"file\"} 1"), "{text}");
    assert!(text.contains("host_broker_sink_rows_behind{sink=\"file\"} "), "{text}");
    std::fs::write(world.home.join("../gate"), "").unwrap();
    wait_for(|| state(&world)["failing"].is_null() && state(&world)["behind"] == 0);
    assert_eq!(read(&received), world.run(&["evidence", "export"]).ok());
    assert!(get(&metrics).1.contains("host_broker_sink_failing{sink=\"file\"} 0"));
}

/// Attack (Providers and modules): Rows do not reach a sink: it is down, its answer is lost, the
/// daemon is killed in between.
/// Defence: the position follows the acceptance; the rows wait in the ledger
#[test]
fn a_daemon_that_is_killed_again_and_again_leaves_no_row_out() {
    let world = World::with_mock();
    // A slow program, so that many kills fall between its acceptance and the position.
    let received = with_program(&world, "cat >> \"$received\"; sleep 0.02");
    world.run(&["grant", "developer", "mock", "2"]).ok();
    for turn in 0..8 {
        let daemon = world.serve();
        world.call(&format!("r{turn}"), "note", &json!({ "n": turn }), None);
        let so_far = read(&received).len();
        wait_for(|| read(&received).len() > so_far);
        drop(daemon);
    }
    let _daemon = world.serve();
    all_sent(&world);
    let (all, exported) = (read(&received), world.run(&["evidence", "export"]).ok());
    // Twice is possible, another text or another order is not.
    let mut seen = std::collections::BTreeMap::new();
    let mut reached = 0;
    for (line, number) in all.lines().zip(numbers(&all)) {
        assert!(number <= reached + 1, "row {number} comes after row {reached}");
        reached = reached.max(number);
        assert_eq!(*seen.entry(number).or_insert(line), line);
    }
    let once: Vec<&str> = seen.into_values().collect();
    assert_eq!(once, exported.lines().collect::<Vec<_>>());
}

#[test]
fn a_request_carries_the_token_and_the_same_key_until_it_is_accepted() {
    let (url, seen, _serving) = server(&[503]);
    let world = World::with_mock();
    let token = world.home.join("token");
    world.append(
        "broker.toml",
        &format!(
            "\n[[sinks]]\nname = \"siem\"\nkind = \"http\"\nurl = \"{url}\"\nbearer = {{ file = \"{}\" }}\n",
            token.display()
        ),
    );
    std::fs::write(&token, "sesame-sesame\n").unwrap();
    std::fs::set_permissions(&token, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    world.run(&["grant", "developer", "mock", "2"]).ok();
    let (_daemon, log) = world.serve_with_log();
    let [(refused, rows), (accepted, again)] = [seen.recv().unwrap(), seen.recv().unwrap()];
    for word in ["POST /rows ", "authorization: Bearer sesame-sesame", "content-type: application/x-ndjson"] {
        assert!(refused.contains(word), "no `{word}` in {refused}");
    }
    let key = |head: &str| head.lines().find(|line| line.starts_with("idempotency-key: 1-")).map(str::to_owned);
    assert!(key(&refused).is_some(), "{refused}");
    // New rows may have come since.
    assert!(again.starts_with(&rows) && (again != rows || key(&refused) == key(&accepted)), "{rows}\n{again}");
    wait_for(|| read(&log).contains("accepts rows again"));
    assert!(read(&log).contains("HTTP 503") && !read(&log).contains("sesame"), "{}", read(&log));
}

#[test]
fn a_missing_token_a_redirect_and_a_server_that_is_not_there_are_named() {
    let (url, _seen, _serving) = server(&[302; 3]);
    // No program listens on it.
    let port = 1;
    for (lines, words) in [
        (
            format!("kind = \"http\"\nurl = \"{url}\"\nbearer = {{ file = \"/none\" }}"),
            "its secret `bearer` is missing",
        ),
        (format!("kind = \"http\"\nurl = \"{url}\""), "it answered HTTP 302: name the address that it leads to"),
        (format!("kind = \"http\"\nurl = \"http://127.0.0.1:{port}/\""), "refused"),
        (format!("kind = \"syslog\"\nserver = \"127.0.0.1:{port}\""), "it cannot be reached: "),
        ("kind = \"command\"\ncommand = [\"no-such-program\"]".to_owned(), "no-such-program"),
    ] {
        let world = World::with_mock();
        world.append("broker.toml", &format!("\n[[sinks]]\nname = \"one\"\n{lines}\n"));
        let _daemon = world.serve();
        wait_for(|| state(&world)["failing"].is_object());
        let state = state(&world);
        assert!(state["failing"]["reason"].as_str().unwrap().contains(words), "{state}");
    }
}

#[test]
fn a_syslog_server_gets_messages_of_rfc_5424_without_bodies() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let server = listener.local_addr().unwrap();
    let (sender, seen) = channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut text = String::new();
            stream.unwrap().read_to_string(&mut text).unwrap();
            if sender.send(text).is_err() {
                return;
            }
        }
    });
    let world = World::with_mock();
    world.append("broker.toml", &format!("\n[[sinks]]\nname = \"log\"\nkind = \"syslog\"\nserver = \"{server}\"\n"));
    let _daemon = world.serve();
    let sent = seen.recv().unwrap();
    let (mut rest, mut reached) = (sent.as_str(), 0);
    while !rest.is_empty() {
        let (length, after) = rest.split_once(' ').unwrap();
        let (message, next) = after.split_at(length.parse().unwrap());
        let parts: Vec<&str> = message.splitn(8, ' ').collect();
        let [priority, time, host, program, process, kind, data, document] = parts[..] else { panic!("{message}") };
        assert_eq!((priority, program, data), ("<110>1", "host-broker", "-"));
        assert!(time.ends_with('Z') && !host.is_empty() && process.parse::<u32>().is_ok(), "{message}");
        let row: Value = serde_json::from_str(document).unwrap();
        reached += 1;
        assert_eq!((row["seq"].as_i64(), row["kind"].as_str(), row.get("body")), (Some(reached), Some(kind), None));
        rest = next;
    }
    assert!(reached > 0);
    wait_for(|| state(&world)["behind"] == 0);
}

/// Receives messages over TLS: prints its port, and then what each connection sent, as one JSON text a line.
const TLS_SERVER: &str = "
import json, socket, ssl, sys
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain('cert.pem', 'key.pem')
listener = socket.create_server(('127.0.0.2', 0))
print(listener.getsockname()[1], flush=True)
while True:
    connection, _ = listener.accept()
    try:
        with context.wrap_socket(connection, server_side=True) as stream:
            received = b''.join(iter(lambda: stream.recv(65536), b''))
            print(json.dumps(received.decode()), flush=True)
    except (ssl.SSLError, ConnectionError):
        pass
";

/// Makes an authority and a certificate of 127.0.0.2 by it.
const CERTIFICATE: &str = "
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout ca.key -out ca.pem -days 30 -subj /CN=ca
openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout key.pem -out req.pem -subj /CN=logs
printf 'subjectAltName=IP:127.0.0.2\\nbasicConstraints=CA:FALSE\\n' > ext
openssl x509 -req -in req.pem -CA ca.pem -CAkey ca.key -CAcreateserial -days 30 -extfile ext -out cert.pem
";

#[test]
fn a_syslog_server_on_another_address_gets_rows_over_tls_only_with_a_certificate_of_a_known_authority() {
    if !Path::new("/usr/bin/openssl").exists() || !Path::new("/usr/bin/python3").exists() {
        println!("skipped: there is no openssl or no python3; apt-get install openssl python3");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    #[expect(clippy::disallowed_methods, reason = "the server is a child process")]
    let program = |name: &str| {
        let mut command = std::process::Command::new(name);
        command.current_dir(folder.path());
        command
    };
    let made = program("sh").args(["-e", "-c", CERTIFICATE]).output().unwrap();
    assert!(made.status.success(), "{made:?}");
    let mut server = start(program("python3").args(["-c", TLS_SERVER]));
    let port = server.line();
    let world = World::with_mock();
    world.append(
        "broker.toml",
        &format!("\n[[sinks]]\nname = \"log\"\nkind = \"syslog\"\nserver = \"127.0.0.2:{port}\"\n"),
    );

    let serve = |authority: &Path| {
        let mut daemon = start(world.command(&["serve"]).env("SSL_CERT_FILE", authority));
        assert_eq!(daemon.line(), "ready");
        daemon
    };
    // The server's certificate is valid, but no known authority has signed it.
    let other = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout other.key -out other.pem \
        -days 30 -subj /CN=other";
    assert!(program("sh").args(["-e", "-c", other]).output().unwrap().status.success());
    let daemon = serve(&folder.path().join("other.pem"));
    wait_for(|| state(&world)["failing"]["reason"].as_str().is_some_and(|reason| reason.contains("certificate")));
    assert_eq!(state(&world)["accepted"], 0);
    world.run(&["stop"]).ok();
    assert_eq!(daemon.end(), 0);

    let _daemon = serve(&folder.path().join("ca.pem"));
    let sent: String = serde_json::from_str(&server.line()).unwrap();
    let (length, message) = sent.split_once(' ').unwrap();
    assert!(length.parse::<usize>().unwrap() <= message.len() && message.starts_with("<110>1 "), "{message}");
    wait_for(|| state(&world)["behind"] == 0);
}

#[test]
fn rsyslog_gets_every_row_over_restarts() {
    if !Path::new("/usr/sbin/rsyslogd").exists() {
        println!("skipped: there is no /usr/sbin/rsyslogd; apt-get install rsyslog");
        return;
    }
    let world = World::with_mock();
    let place = |name: &str| world.home.join("..").join(name).display().to_string();
    let (port, received) = (place("port"), place("syslog"));
    let settings = format!(
        "module(load=\"imtcp\")\n\
         input(type=\"imtcp\" port=\"0\" address=\"127.0.0.1\" listenPortFileName=\"{port}\")\n\
         template(name=\"row\" type=\"string\" string=\"%msg%\\n\")\n\
         action(type=\"omfile\" file=\"{received}\" template=\"row\")\n"
    );
    std::fs::write(place("settings"), settings).unwrap();
    #[expect(clippy::disallowed_methods, reason = "the server of the test")]
    let mut server = std::process::Command::new("/usr/sbin/rsyslogd");
    let _server = start(server.args(["-n", "-f", &place("settings"), "-i", &place("pid")]));
    wait_for(|| read(Path::new(&port)).trim().parse::<u16>().is_ok());
    let port = read(Path::new(&port)).trim().to_owned();
    world.append(
        "broker.toml",
        &format!("\n[[sinks]]\nname = \"log\"\nkind = \"syslog\"\nserver = \"127.0.0.1:{port}\"\n"),
    );
    for _turn in 0..2 {
        let daemon = world.serve();
        world.run(&["kill", "group", "developer"]).ok();
        all_sent(&world);
        world.run(&["stop"]).ok();
        assert_eq!(daemon.end(), 0);
    }
    let _daemon = world.serve();
    all_sent(&world);
    let last = world.run(&["evidence", "head", "--json"]).json()["seq"].as_i64().unwrap();
    // The server writes what it has read a moment later.
    let received = Path::new(&received);
    wait_for(|| numbers(&once(&read(received))).len() >= usize::try_from(last).unwrap());
    assert!(numbers(&once(&read(received))).into_iter().eq(1..=last));
}

#[test]
fn old_rows_come_from_their_segments_in_pieces() {
    let world = World::with_mock();
    let config = world.read("broker.toml");
    std::fs::write(world.home.join("broker.toml"), config.replace("[broker]", "[broker]\nledger_mib = 1")).unwrap();
    fill(&world.home, store::ledger::segments::ROWS);
    let daemon = world.serve();
    wait_for(|| world.home.join("segments/000000000001-000000050000.jsonl.gz").exists());
    world.run(&["stop"]).ok();
    assert_eq!(daemon.end(), 0);
    let received = with_program(&world, "cat >> \"$received\"");
    // The rows before are elsewhere already.
    world.run(&["evidence", "resume", "file", "--from", "45001"]).ok();
    let _daemon = world.serve();
    wait_for(|| state(&world)["accepted"].as_i64() > Some(50_000) && state(&world)["behind"] == 0);
    let numbers = numbers(&read(&received));
    assert!(numbers.iter().copied().eq(45_001..=*numbers.last().unwrap()), "from {:?}", numbers.first());
}

/// Attack (Providers and modules): The ledger is replaced by an older one, and the sink's copy is
/// continued with other rows.
/// Defence: the next row must name the hash of the last accepted one
#[test]
fn a_sink_that_has_rows_of_another_ledger_waits_for_an_operator() {
    let world = World::with_mock();
    let received = with_program(&world, "cat >> \"$received\"");
    let daemon = world.serve();
    wait_for(|| state(&world)["accepted"].as_i64() > Some(0));
    world.run(&["evidence", "resume", "file", "--from", "1"]).fails(3, &["another host-broker runs"]);
    world.run(&["stop"]).ok();
    assert_eq!(daemon.end(), 0);
    let before = read(&received);
    let position = world.read("sinks/file.json");
    let resume = |from: &str| world.run(&["evidence", "resume", "file", "--from", from]);
    resume("9").fails(3, &["the ledger ends at row"]);
    world.run(&["evidence", "resume", "fil", "--from", "1"]).fails(3, &["did you mean `file`?"]);
    let other = |member: &str, value: Value| {
        let mut position: Value = serde_json::from_str(&position).unwrap();
        position[member] = value;
        position.to_string()
    };
    for (spoilt, words) in [
        (other("seq", json!(9000)), "the ledger was restored or replaced"),
        (other("event_hash", json!(format!("sha256:{}", "0".repeat(64)))), "the evidence is broken"),
        ("{}".to_owned(), "cannot be read"),
    ] {
        std::fs::write(world.home.join("sinks/file.json"), spoilt).unwrap();
        let daemon = world.serve();
        wait_for(|| state(&world)["failing"]["reason"].as_str().is_some_and(|reason| reason.contains(words)));
        world.run(&["stop"]).ok();
        assert_eq!(daemon.end(), 0);
        assert_eq!(read(&received), before, "nothing was sent");
    }
    resume("2").ok();
    let _daemon = world.serve();
    all_sent(&world);
    let sent = read(&received);
    let exported = world.run(&["evidence", "export", "--from", "2"]).ok();
    assert_eq!(sent.strip_prefix(&before), Some(exported.as_str()));
}

/// Attack (Providers and modules): A sink gets rows that a power cut then takes away, or rows that
/// somebody has changed.
/// Defence: `kernel::SyncedRows` is the only key to its secrets and rows; each row is verified
/// before it is sent
#[test]
fn a_changed_row_leaves_for_no_sink() {
    let world = World::with_mock();
    fill(&world.home, MANY);
    tamper(&world, "UPDATE ledger SET caller = 'group:security' WHERE seq = 5");
    let received = with_program(&world, "cat >> \"$received\"");
    let _daemon = world.serve();
    let words = "row 5 does not have the hash of its content";
    wait_for(|| state(&world)["failing"]["reason"].as_str().is_some_and(|reason| reason.contains(words)));
    assert_eq!(numbers(&read(&received)), [1, 2, 3, 4]);
}
