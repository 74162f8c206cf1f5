//! The socket of a group: the same documents, the same promises, and no thread of the host that waits for a shim.

mod changes;

use rustix::process::{Signal, kill_process};
use serde_json::{Value, json};
use shared::frame::{self, Kind};
use std::collections::BTreeSet;
use std::io::Read as _;
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsFd as _;
use std::os::unix::fs::{MetadataExt as _, symlink};
use std::os::unix::net::{UnixListener, UnixStream};
use std::time::Duration;
use tests::group::{call, code};
use tests::socket::Connection;
use tests::world::{CONFIG, SCRIPT};
use tests::{Group, World, until};

#[test]
fn a_call_over_the_socket_leaves_the_same_rows_as_one_in_a_file() {
    let world = World::with_grant();
    let group = world.group("developer");
    let mut connection = Connection::open(&group);
    let hello = connection.next_of(Kind::Hello);
    assert_eq!((&hello["protocol"], &hello["group"]), (&json!("ext-broker/1"), &json!("developer")), "{hello}");
    for (action, params) in
        [("echo", json!({ "n": 1 })), ("charge", json!({})), ("deploy", json!({})), ("strict", json!({}))]
    {
        let by_file = group.send(call(action, params.clone()));
        let by_socket = connection.request(call(action, params));
        let mut replies = [group.reply(&by_file), connection.reply(&by_socket)];
        for reply in &mut replies {
            for member in ["request_id", "evidence", "timestamp"] {
                reply.as_object_mut().unwrap().remove(member);
            }
        }
        assert_eq!(replies[0], replies[1], "{action}");
        assert_eq!(world.kinds_of(&group, &by_file), world.kinds_of(&group, &by_socket), "{action}");
    }
    assert_eq!(world.effects_of("charge").len(), 2);
    assert_eq!(group.names("responses"), [""; 0]);
}

#[test]
fn replies_come_in_any_order_and_a_repeated_request_has_the_same_outcome() {
    let world = World::with_grant();
    let group = world.group("developer");
    let mut connection = Connection::open(&group);
    let slow = connection.request(call("charge", json!({ "ms": 300 })));
    let quick = connection.request(call("echo", json!({})));
    let first = connection.next_of(Kind::Reply);
    assert_eq!(first["request_id"], json!(quick));
    let charged = connection.reply(&slow);
    assert_eq!(code(&charged), "executed");
    // By another connection, and as a file, the same id is the same call.
    let mut again = call("charge", json!({ "ms": 300 }));
    again["request_id"] = json!(slow);
    assert_eq!(code(&Connection::open(&group).ask(again.clone())), "executed");
    assert_eq!(code(&group.ask(again)), "executed");
    assert_eq!(world.effects_of("charge"), [slow]);
}

#[test]
fn a_long_document_and_a_question_to_a_person_go_over_the_socket() {
    let world = World::with_grant();
    let group = world.group("developer");
    let mut connection = Connection::open(&group);
    let text = "x".repeat(200_000);
    let reply = connection.ask(call("echo", json!({ "text": text })));
    assert_eq!(reply["data"]["text"], json!(text));
    let asked = connection.request(call("agree", json!({})));
    let progress = connection.next_of(Kind::Progress);
    assert_eq!(progress["request_id"], json!(asked), "{progress}");
    let waiting = until("the question", || world.query("SELECT code FROM approvals WHERE state = 'waiting'").pop());
    world.command(json!({ "type": "answer", "code": waiting["code"], "yes": true }));
    assert_eq!(code(&connection.reply(&asked)), "executed");
    assert_eq!(group.names("responses"), [""; 0]);
}

#[test]
fn the_shim_hears_that_its_snapshot_has_changed() {
    let world = World::new();
    let group = world.group("developer");
    let mut connection = Connection::open(&group);
    connection.next_of(Kind::Hello);
    world.grant("developer", 1);
    let changed = connection.next_of(Kind::Changed);
    assert_eq!(changed["digest"].as_str().map(str::len), Some(64), "{changed}");
}

#[test]
fn a_request_in_flight_is_answered_wherever_it_is_asked_again() {
    let world = World::with_grant();
    let group = world.group("developer");
    let begin = |ms: u64| {
        let mut connection = Connection::open(&group);
        let mut document = call("charge", json!({ "ms": ms }));
        let id = connection.request(document.clone());
        until("the intent", || (!world.kinds_of(&group, &id).is_empty()).then_some(()));
        document["request_id"] = json!(id);
        drop(connection);
        (id, document)
    };
    let (over_a_socket, document) = begin(500);
    assert_eq!(code(&Connection::open(&group).ask(document)), "executed");
    let (as_a_file, document) = begin(500);
    assert_eq!(code(&group.ask(document)), "executed");
    // The first one as a file, and then over a socket: both hear it.
    let mut document = call("charge", json!({ "ms": 500 }));
    let first = group.send(document.clone());
    until("the intent", || (!world.kinds_of(&group, &first).is_empty()).then_some(()));
    document["request_id"] = json!(first);
    assert_eq!(code(&Connection::open(&group).ask(document)), "executed");
    assert_eq!(code(&group.reply(&first)), "executed");
    assert_eq!(world.effects_of("charge"), [over_a_socket, as_a_file, first]);
}

/// Attack: see `a_request_whose_sender_has_hung_up_is_not_executed`.
#[test]
fn a_request_that_is_repeated_at_any_moment_is_answered_and_happens_once() {
    let world = World::with_grant();
    let group = world.group("developer");
    let mut other = Connection::open(&group);
    let mut asked = Vec::new();
    for n in 0..50 {
        let mut connection = Connection::open(&group);
        let mut document = call("charge", json!({ "ms": n % 5 }));
        let id = connection.request(document.clone());
        if n % 2 == 0 {
            until("the intent", || (!world.kinds_of(&group, &id).is_empty()).then_some(()));
        }
        drop(connection);
        document["request_id"] = json!(id);
        assert_eq!(code(&other.ask(document)), "executed", "{n}");
        asked.push(id);
    }
    assert_eq!(world.effects_of("charge"), asked);
}

#[test]
fn of_a_request_under_way_no_repeat_is_told_that_nothing_was_executed() {
    let (world, group) = process();
    let mut connection = Connection::open(&group);
    let mut document = call("charge", json!({ "ms": 1500 }));
    let id = connection.request(document.clone());
    until("the intent", || (!world.kinds_of(&group, &id).is_empty()).then_some(()));
    let ledger = rusqlite::Connection::open(world.path("ledger.db")).unwrap();
    ledger
        .execute_batch("CREATE TRIGGER no_rows BEFORE INSERT ON ledger BEGIN SELECT RAISE(ABORT, 'no'); END;")
        .unwrap();
    document["request_id"] = json!(id);
    assert_eq!(code(&Connection::open(&group).ask(document)), "outcome_unknown");
    let other = Connection::open(&group).ask(call("charge", json!({})));
    assert_eq!(code(&other), "evidence_unavailable", "a request that is new was not executed");
    ledger.execute_batch("DROP TRIGGER no_rows").unwrap();
    assert_eq!(code(&connection.reply(&id)), "executed");
    assert_eq!(world.effects_of("charge"), [id]);
}

/// A world whose host can be stopped, with its connections.
fn process() -> (World, Group) {
    let world = World::builder().process();
    world.grant("developer", 2);
    let group = world.group("developer");
    (world, group)
}

/// Attack (The group's socket): A connection breaks at any moment, so that a call runs twice or the
/// caller gets a false answer.
/// Defence: A request whose sender has hung up is dropped. An id is executed once.
#[test]
fn a_request_whose_sender_has_hung_up_is_not_executed() {
    let (world, group) = process();
    for ends in [|connection: Connection| drop(connection), |connection: Connection| connection.shut_down()] {
        let mut connection = Connection::open(&group);
        assert_eq!(code(&connection.ask(call("echo", json!({})))), "executed");
        world.stand_still();
        let lost = connection.request(call("charge", json!({})));
        ends(connection);
        world.go_on();
        let mut other = Connection::open(&group);
        let asked = other.ask(json!({ "type": "ext_result", "of": lost }));
        assert_eq!(code(&asked), "unknown_request");
        assert_eq!(world.kinds_of(&group, &lost), [""; 0]);
    }
    assert_eq!(world.effects_of("charge"), [""; 0]);
}

#[test]
fn a_request_whose_sender_only_sends_nothing_more_is_answered() {
    let world = World::with_grant();
    let mut connection = Connection::open(&world.group("developer"));
    let id = connection.request(call("charge", json!({ "ms": 50 })));
    connection.end_sending();
    assert_eq!(code(&connection.reply(&id)), "executed");
    assert_eq!(connection.next_frame(), None, "nothing can come of it any more");
}

/// Attack (The group's socket): A shim withdraws a request while it is decided.
/// Defence: The request is either dropped and never executed, or `taken`.
#[test]
fn a_request_that_is_withdrawn_in_time_is_not_executed() {
    let (world, group) = process();
    let mut connection = Connection::open(&group);
    connection.next_of(Kind::Hello);
    world.stand_still();
    let early = connection.request(call("charge", json!({})));
    let kept = connection.request(call("charge", json!({})));
    connection.withdraw(&early);
    world.go_on();
    let mut seen = Vec::new();
    while seen.len() < 2 {
        match connection.next_frame().expect("an answer") {
            (Kind::Withdrawn, answer) => {
                seen.push(("withdrawn", answer["request_id"].clone(), answer["state"].clone()));
            }
            (Kind::Reply, reply) => seen.push(("reply", reply["request_id"].clone(), json!(code(&reply)))),
            (kind, document) => panic!("{kind:?} {document}"),
        }
    }
    seen.sort_by_key(|(what, ..)| *what);
    assert_eq!(seen, [("reply", json!(kept), json!("executed")), ("withdrawn", json!(early), json!("never_taken")),]);
    let late = connection.request(call("charge", json!({ "ms": 200 })));
    until("the intent", || (!world.kinds_of(&group, &late).is_empty()).then_some(()));
    connection.withdraw(&late);
    let answer = connection.next_of(Kind::Withdrawn);
    assert_eq!((&answer["request_id"], &answer["state"]), (&json!(late), &json!("taken")));
    assert_eq!(code(&connection.reply(&late)), "executed");
    assert_eq!(world.effects_of("charge"), [kept, late]);
}

/// Attack (The group's socket): A frame is too long, has an unknown kind, or comes before `hello`.
/// Defence: The connection ends. The first such frame gets a row; equal ones are counted.
#[test]
fn a_frame_that_is_none_gets_a_row_and_a_goodbye() {
    let world = World::with_grant();
    let group = world.group("developer");
    let hello = |connection: &mut Connection| {
        connection.send(Kind::Hello, &json!({ "protocols": ["ext-broker/1"] }));
    };
    let too_long = [&u32::MAX.to_be_bytes()[..], &[Kind::Request.byte()]].concat();
    let refused: [(&str, &str, bool, Vec<u8>); 8] = [
        ("an unknown kind", "malformed_request", true, vec![0, 0, 0, 0, 99]),
        ("a frame that is too long", "oversized_request", true, too_long),
        ("a request before hello", "malformed_request", false, frame::encode(Kind::Request, b"{}").unwrap()),
        ("a request without an id", "malformed_request", true, {
            frame::encode(Kind::Request, call("echo", json!({})).to_string().as_bytes()).unwrap()
        }),
        ("a reply", "malformed_request", true, frame::encode(Kind::Reply, b"{}").unwrap()),
        ("a second hello", "malformed_request", true, frame::encode(Kind::Hello, b"{}").unwrap()),
        ("a withdrawal of nothing", "malformed_request", true, frame::encode(Kind::Withdraw, b"{}").unwrap()),
        ("another protocol", "unsupported_protocol", false, {
            frame::encode(Kind::Hello, br#"{"protocols":["ext-broker/99"]}"#).unwrap()
        }),
    ];
    for (what, expected, greets, bytes) in refused {
        let mut connection = Connection::silent(&group);
        if greets {
            hello(&mut connection);
        }
        connection.send_bytes(&bytes);
        let goodbye = connection.next_of(Kind::Goodbye);
        assert_eq!(goodbye["code"], expected, "{what}: {goodbye}");
        assert_eq!(connection.next_frame(), None, "{what}");
    }
    // Equal rows of the same hour are counted.
    let codes: BTreeSet<String> = world.rows().into_iter().filter_map(|row| row.reason_code).collect();
    assert!(["malformed_request", "oversized_request"].iter().all(|code| codes.contains(*code)), "{codes:?}");
    assert_eq!(code(&Connection::open(&group).ask(call("echo", json!({})))), "executed");
}

#[test]
fn frames_that_come_byte_by_byte_are_whole_in_the_end() {
    let world = World::with_grant();
    let mut connection = Connection::silent(&world.group("developer"));
    let mut document = call("echo", json!({ "n": 7 }));
    document["request_id"] = json!("drop-by-drop");
    let hello = frame::encode(Kind::Hello, br#"{"protocols":["ext-broker/1","ext-broker/2"]}"#).unwrap();
    for byte in [hello, frame::encode(Kind::Request, document.to_string().as_bytes()).unwrap()].concat() {
        connection.send_bytes(&[byte]);
    }
    assert_eq!(connection.reply("drop-by-drop")["data"], json!({ "n": 7 }));
}

/// A TCP connection whose close blocks, because its other end reads nothing; and that end.
fn lingering() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (other, _) = listener.accept().unwrap();
    rustix::net::sockopt::set_socket_linger(&stream, Some(Duration::from_secs(600))).unwrap();
    stream.set_nonblocking(true).unwrap();
    let full = vec![0; 1 << 20];
    until("a full buffer", || std::io::Write::write(&mut &stream, &full).is_err().then_some(()));
    // The last close waits until this is read.
    stream.set_nonblocking(false).unwrap();
    (stream, other)
}

/// Attack (The group's socket): A file descriptor comes with the bytes. Its close blocks for
/// minutes.
/// Defence: The loop looks before it receives. Another thread closes the connection. Until then, it
/// counts as one of the eight.
#[test]
fn a_descriptor_whose_close_blocks_delays_nobody() {
    let world = World::with_grant();
    world.grant("security", 1);
    let (group, other) = (world.group("developer"), world.group("security"));
    for is_out_of_band in [false, true] {
        let (stream, mut end) = lingering();
        let mut connection = Connection::open(&group);
        connection.next_of(Kind::Hello);
        connection.send_descriptor(0, stream.as_fd(), is_out_of_band);
        // It blocks here if the host is faster.
        std::thread::spawn(|| drop(stream));
        assert_eq!(connection.next_frame(), None, "the connection is of no use any more");
        assert_eq!(code(&other.ask(call("echo", json!({})))), "executed");
        assert_eq!(code(&Connection::open(&group).ask(call("echo", json!({})))), "executed");
        // Only now can the close be over.
        let mut read = Vec::new();
        end.set_read_timeout(Some(tests::DEADLINE)).unwrap();
        end.read_to_end(&mut read).unwrap();
        assert!(read.len() >= 1 << 16);
    }
    // A connection that ends with such a descriptor in its queue is closed elsewhere, too.
    let (stream, mut end) = lingering();
    let mut connection = Connection::silent(&group);
    connection.send_bytes(&[0, 0, 0, 0, 99]);
    connection.send_descriptor(0, stream.as_fd(), false);
    std::thread::spawn(|| drop(stream));
    assert_eq!(code(&other.ask(call("echo", json!({})))), "executed");
    drop(connection);
    assert_eq!(code(&other.ask(call("echo", json!({})))), "executed");
    end.set_read_timeout(Some(tests::DEADLINE)).unwrap();
    end.read_to_end(&mut Vec::new()).unwrap();
}

/// Attack: see `a_descriptor_whose_close_blocks_delays_nobody`.
#[test]
fn a_descriptor_that_comes_while_the_host_stops_does_not_hold_up_its_reload() {
    let (world, group) = process();
    let (stream, mut end) = lingering();
    let mut connection = Connection::open(&group);
    let slow = connection.request(call("charge", json!({ "ms": 2000 })));
    until("the intent", || (!world.kinds_of(&group, &slow).is_empty()).then_some(()));
    let attack = std::thread::spawn(move || {
        connection.next_of(Kind::Goodbye);
        connection.send_descriptor(0, stream.as_fd(), false);
        std::thread::spawn(|| drop(stream));
        connection.reply(&slow)
    });
    assert!(world.cli(&["reload"]).status.success(), "the new daemon is there");
    assert_eq!(code(&attack.join().unwrap()), "executed");
    assert_eq!(code(&Connection::open(&group).ask(call("echo", json!({})))), "executed");
    end.set_read_timeout(Some(tests::DEADLINE)).unwrap();
    end.read_to_end(&mut Vec::new()).unwrap();
}

/// Attack (The group's socket): A group opens connections without end.
/// Defence: Eight connections; new ones 20 per second.
#[test]
fn a_group_has_eight_connections_and_more_wait() {
    let world = World::with_grant();
    world.grant("security", 1);
    let group = world.group("developer").by_files();
    let mut held: Vec<Connection> = (0..8).map(|_| Connection::open(&group)).collect();
    for connection in &mut held {
        connection.next_of(Kind::Hello);
    }
    let mut ninth = Connection::open(&group);
    let id = ninth.request(call("echo", json!({})));
    assert_eq!(code(&Connection::open(&world.group("security").by_files()).ask(call("echo", json!({})))), "executed");
    assert_eq!(code(&group.ask(call("echo", json!({})))), "executed", "files are served at the same time");
    assert_eq!(world.kinds_of(&group, &id), [""; 0]);
    held.pop();
    assert_eq!(code(&ninth.reply(&id)), "executed");
}

/// Attack (The group's socket): A group begins a thousand connections at once, and holds or drops them.
/// Defence: The host accepts eight of a group, and new ones twenty a second. The others stay with the system.
#[test]
fn a_thousand_connections_of_one_group_delay_no_other_group() {
    let world = World::with_grant();
    world.grant("security", 1);
    let (group, other) = (world.group("developer"), world.group("security"));
    assert_eq!(code(&Connection::open(&group).ask(call("echo", json!({})))), "executed");
    let path = group.directory().join("broker.sock");
    let connect = || {
        let kind = (rustix::net::SocketType::STREAM, rustix::net::SocketFlags::NONBLOCK);
        let fd = rustix::net::socket_with(rustix::net::AddressFamily::UNIX, kind.0, kind.1, None).unwrap();
        let address = rustix::net::SocketAddrUnix::new(&path).unwrap();
        // The system refuses it when too many wait.
        rustix::net::connect(&fd, &address).is_ok().then(|| UnixStream::from(fd))
    };
    let hello = frame::encode(Kind::Hello, br#"{"protocols":["ext-broker/1"]}"#).unwrap();
    let mut held: Vec<UnixStream> = (0..1_000).filter_map(|_| connect()).collect();
    assert!(held.len() >= 8, "{} connections", held.len());
    for stream in &mut held {
        std::io::Write::write_all(stream, &hello).unwrap();
    }
    let answered = |held: &[UnixStream]| {
        let has_frame = |stream: &&UnixStream| {
            let flags = rustix::net::RecvFlags::PEEK | rustix::net::RecvFlags::DONTWAIT;
            rustix::net::recv(stream, &mut [0; 1][..], flags).is_ok_and(|(_, read)| read == 1)
        };
        held.iter().filter(has_frame).count()
    };
    until("eight of them", || (answered(&held) >= 8).then_some(()));
    for _ in 0..20 {
        assert_eq!(code(&other.ask(call("echo", json!({})))), "executed", "another group is served");
    }
    assert_eq!(answered(&held), 8);
    // Connections that end at once are as many.
    drop(held);
    (0..1_000).filter_map(|_| connect()).for_each(drop);
    assert_eq!(code(&other.ask(call("echo", json!({})))), "executed");
    assert_eq!(code(&group.by_files().ask(call("echo", json!({})))), "executed");
    let again = world.group("developer");
    assert_eq!(code(&Connection::open(&again).ask(call("echo", json!({})))), "executed", "and so is the group, later");
}

/// Attack (The group's socket): The sandbox puts a socket of its own, or a link to another group's socket, in its place.
/// Defence: The host replaces a foreign socket, and follows no link. It never connects to either.
#[test]
fn a_foreign_socket_or_a_link_in_its_place_gets_nothing_from_the_host() {
    let world = World::with_grant();
    world.grant("security", 1);
    let (group, other) = (world.group("developer").by_files(), world.group("security"));
    let path = group.directory().join("broker.sock");
    let of_other = other.directory().join("broker.sock");
    assert_eq!(code(&Connection::open(&group).ask(call("echo", json!({})))), "executed");
    std::fs::remove_file(&path).unwrap();
    // The host can be faster, and make its own again.
    let foreign = until("a place for a foreign socket", || {
        std::fs::remove_file(&path).ok();
        UnixListener::bind(&path).ok()
    });
    foreign.set_nonblocking(true).unwrap();
    let inode = std::fs::metadata(&path).unwrap().ino();
    assert_eq!(code(&group.ask(call("echo", json!({})))), "executed");
    until("the host's own socket", || {
        std::fs::symlink_metadata(&path).ok().filter(|found| found.ino() != inode).map(|_| ())
    });
    assert_eq!(code(&Connection::open(&group).ask(call("echo", json!({})))), "executed");
    assert!(foreign.accept().is_err(), "nobody has connected to the foreign one");

    let aside = path.with_extension("aside");
    symlink(&of_other, &aside).unwrap();
    let (before, rows) = (std::fs::metadata(&of_other).unwrap().ino(), world.rows().len());
    std::fs::rename(&aside, &path).unwrap();
    for _ in 0..3 {
        assert_eq!(code(&group.ask(call("echo", json!({})))), "executed");
    }
    assert_eq!(std::fs::read_link(&path).unwrap(), of_other, "the host leaves the link");
    assert_eq!(std::fs::metadata(&of_other).unwrap().ino(), before, "and the other group's socket");
    assert_eq!(code(&Connection::open(&other).ask(call("echo", json!({})))), "executed");
    let groups: BTreeSet<String> = world.rows()[rows..].iter().map(|row| row.caller.clone()).collect();
    assert_eq!(groups.len(), 2, "each with its own caller: {groups:?}");
    std::fs::remove_file(&path).unwrap();
    assert_eq!(code(&Connection::open(&group).ask(call("echo", json!({})))), "executed");
}

/// Attack (The group's socket): A shim sends and never reads.
/// Defence: The host does not read a connection with more than 64 KiB unread. It keeps at most 16
/// MiB for a group.
#[test]
fn a_shim_that_reads_nothing_is_not_read_either_and_loses_nothing() {
    let world = World::builder().config(&format!("{CONFIG}[limits.\"*\".\"*\"]\n")).up();
    world.grant("developer", 2);
    world.grant("security", 1);
    let group = world.group("developer");
    let mut connection = Connection::open(&group);
    connection.next_of(Kind::Hello);
    let (mut sender, text) = (connection.another_end(), "x".repeat(240_000));
    let sent = std::thread::spawn(move || {
        (0..40).map(|_| sender.request(call("echo", json!({ "text": text })))).collect::<Vec<_>>()
    });
    until("a connection that is full", || (!sent.is_finished() && connection.is_full()).then_some(()));
    for _ in 0..20 {
        assert_eq!(code(&world.group("security").ask(call("echo", json!({})))), "executed", "another group is served");
    }
    assert!(!sent.is_finished(), "forty long replies do not fit");
    // Sixteen calls of a group are under way at most, and others are busy.
    let replies: Vec<(String, String)> = (0..40)
        .map(|_| connection.next_of(Kind::Reply))
        .map(|reply| (reply["request_id"].as_str().unwrap().to_owned(), code(&reply).to_owned()))
        .collect();
    let mut answered: Vec<&String> = replies.iter().map(|(id, _)| id).collect();
    answered.sort();
    let mut sent = sent.join().unwrap();
    sent.sort();
    assert_eq!(answered, sent.iter().collect::<Vec<_>>());
    assert!(replies.iter().all(|(_, code)| code == "executed" || code == "busy"), "{replies:?}");
}

/// Attack: see `a_shim_that_reads_nothing_is_not_read_either_and_loses_nothing`.
#[test]
fn withdrawals_whose_answers_nobody_reads_fill_no_memory() {
    let world = World::with_grant();
    world.grant("security", 1);
    let mut connection = Connection::open(&world.group("developer"));
    let mut sender = connection.another_end();
    // A megabyte of answers fits into no buffer of the system.
    let sent = std::thread::spawn(move || (0..20_000).for_each(|_| sender.withdraw("never-sent")));
    until("a connection that is full", || connection.is_full().then_some(()));
    assert_eq!(code(&world.group("security").ask(call("echo", json!({})))), "executed");
    assert!(!sent.is_finished(), "the host reads on, and keeps the answers");
    for _ in 0..20_000 {
        assert_eq!(connection.next_of(Kind::Withdrawn)["state"], "taken");
    }
    sent.join().unwrap();
}

/// Attack: see `a_request_that_is_withdrawn_in_time_is_not_executed`.
#[test]
fn all_requests_under_a_withdrawn_id_are_dropped() {
    let (world, group) = process();
    let mut connection = Connection::open(&group);
    connection.next_of(Kind::Hello);
    world.stand_still();
    let mut document = call("charge", json!({}));
    document["request_id"] = json!("twice");
    connection.request(document.clone());
    connection.request(document);
    connection.withdraw("twice");
    world.go_on();
    assert_eq!(connection.next_of(Kind::Withdrawn)["state"], "never_taken");
    assert_eq!(code(&connection.ask(call("echo", json!({})))), "executed");
    assert_eq!(world.effects_of("charge"), [""; 0]);
}

/// Attack (The group's socket): A user other than the configured one connects.
/// Defence: The kernel names the user of the connection.
#[test]
fn another_user_than_the_configured_one_is_refused_with_the_reason() {
    if !rustix::process::geteuid().is_root() {
        return tests::skipped("only root can give a directory to another user");
    }
    let world = World::builder().config(&CONFIG.replace("[groups.developer]", "[groups.developer]\nuid = 4242")).up();
    let group = world.group("developer");
    let mut connection = Connection::open(&group);
    let goodbye = connection.next_of(Kind::Goodbye);
    assert_eq!(goodbye["code"], "malformed_request");
    let reason = goodbye["reason"].as_str().unwrap();
    assert!(reason.contains("user 0") && reason.contains("4242"), "{reason}");
    let socket = std::fs::metadata(group.directory().join("broker.sock")).unwrap();
    assert_eq!(socket.uid(), 4242);
}

/// Attack (The group's socket): The sandbox removes the socket, or puts another file in its place.
/// Defence: The host makes the socket again through a handle of the directory. It replaces nothing
/// but a socket, and never connects.
#[test]
fn the_socket_comes_back_when_its_name_is_taken_away_and_nothing_else_is_replaced() {
    let world = World::with_grant();
    let group = world.group("developer");
    let path = group.directory().join("broker.sock");
    assert_eq!(code(&Connection::open(&group).ask(call("echo", json!({})))), "executed");
    std::fs::remove_file(&path).unwrap();
    assert_eq!(code(&Connection::open(&group).ask(call("echo", json!({})))), "executed");
    changes::obstruct(&path);
    assert_eq!(code(&group.ask(call("echo", json!({})))), "executed");
    assert_eq!(std::fs::read(&path).unwrap(), b"no socket");
    std::fs::remove_file(&path).unwrap();
    assert_eq!(code(&Connection::open(&group).ask(call("echo", json!({})))), "executed");
    // A whole directory that is another one has a socket of its own.
    let aside = group.directory().with_extension("aside");
    std::fs::rename(group.directory(), &aside).unwrap();
    for name in ["tasks", "responses"] {
        std::fs::create_dir_all(group.directory().join(name)).unwrap();
    }
    assert_eq!(code(&Connection::open(&group).ask(call("echo", json!({})))), "executed");
    std::fs::remove_dir_all(aside).unwrap();
}

#[test]
fn a_host_that_stops_says_goodbye_and_still_answers() {
    let mut world = World::builder().script("demo", SCRIPT).process();
    world.grant("developer", 2);
    let group = world.group("developer");
    let mut connection = Connection::open(&group);
    let id = connection.request(call("charge", json!({ "ms": 500 })));
    until("the intent", || (!world.kinds_of(&group, &id).is_empty()).then_some(()));
    kill_process(world.pid(), Signal::TERM).unwrap();
    assert_eq!(connection.next_of(Kind::Goodbye)["code"], "stopping");
    assert_eq!(code(&connection.reply(&id)), "executed");
    assert_eq!(connection.next_frame(), None);
    world.kill_if_it_runs();
    assert!(!group.directory().join("broker.sock").exists(), "a socket that leads nowhere is taken away");
    world.start_process();
    assert_eq!(code(&Connection::open(&group).ask(call("echo", json!({})))), "executed");
}

#[test]
fn a_host_that_stops_sends_the_whole_of_each_reply() {
    let (world, developer) = process();
    let mut connection = Connection::open(&developer);
    // Together more than a socket holds unread.
    let text = "x".repeat(240_000);
    let ids: Vec<String> = (0..4).map(|_| connection.request(call("echo", json!({ "text": text })))).collect();
    let is_over = |id: &String| world.kinds_of(&developer, id).contains(&"succeeded".to_owned());
    until("each has its outcome", || ids.iter().all(is_over).then_some(()));
    kill_process(world.pid(), Signal::TERM).unwrap();
    let replies = std::iter::from_fn(|| connection.next_frame()).filter(|(kind, _)| *kind == Kind::Reply);
    assert_eq!(replies.map(|(_, reply)| code(&reply).to_owned()).collect::<Vec<_>>(), ["executed"; 4]);
}

#[test]
fn bench_measures_this_machine_and_leaves_nothing() {
    let world = World::builder().process();
    let output = world.cli(&["bench", "--calls", "20", "--json"]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let measured: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{said}"));
    for pointer in ["/sync", "/socket/read", "/socket/write", "/files/read", "/files/write"] {
        let figures = measured.pointer(pointer).unwrap();
        let [p50, p99] = ["p50_us", "p99_us"].map(|member| figures[member].as_u64().unwrap());
        assert!(0 < p50 && p50 <= p99, "{pointer}: {measured}");
    }
    assert!(measured["socket"]["reads_per_second"].as_f64().unwrap() > 0.0);
    assert!(measured["verdict"][0].as_str().unwrap().starts_with("A sync of this disk takes "), "{measured}");
    let left =
        std::fs::read_dir(world.home()).unwrap().filter_map(|entry| entry.unwrap().file_name().into_string().ok());
    assert_eq!(left.filter(|name| name.starts_with("bench-")).count(), 0);
    assert_eq!(world.cli(&["bench", "--calls", "0"]).status.code(), Some(2));
}

#[test]
fn status_names_the_transport_of_each_group() {
    let world = World::builder().process();
    let group = world.group("developer");
    let mut connection = Connection::open(&group);
    connection.next_of(Kind::Hello);
    let output = world.cli(&["status", "--json"]);
    let status: Value = serde_json::from_slice(&output.stdout).unwrap();
    let of = |name: &str| {
        let groups = status["groups"].as_array().unwrap();
        groups.iter().find(|group| group["group"] == name).unwrap()["socket"].clone()
    };
    assert_eq!(of("developer"), json!({ "open": true, "connections": 1 }));
    assert_eq!(of("main"), json!({ "open": true, "connections": 0 }));
    let text = String::from_utf8(world.cli(&["status"]).stdout).unwrap();
    assert!(text.contains("socket (1 connection)"), "{text}");
    assert!(text.contains("files"), "{text}");
    assert!(!text.contains("responses/"), "{text}");
    // `status` says which sandbox removes no replies, because each call is slower then.
    for number in 0..=1_000 {
        std::fs::write(group.directory().join(format!("responses/old-{number}.json")), "{}").unwrap();
    }
    let text = String::from_utf8(world.cli(&["status"]).stdout).unwrap();
    assert!(text.contains("developer: the sandbox has left 1001 replies in responses/"), "{text}");
}
