//! Webhooks: signed, tried again, accepted once.

use super::{answer, ask, rows, states, world};
use serde_json::{Value, json};
use shared::digest::Digest;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;
use tests::group::{call, code};
use tests::until;

const SECRET: &str = "a signing secret";
const TOKEN: &str = "a-bearer-token";

/// One request, as it came in.
struct Seen {
    head: String,
    body: Vec<u8>,
}

impl Seen {
    fn header(&self, name: &str) -> &str {
        let value = self.head.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
        value.unwrap_or_else(|| panic!("no {name} in {}", self.head))
    }
}

fn read(stream: &mut TcpStream) -> Seen {
    let (mut bytes, mut buffer) = (Vec::new(), [0; 4096]);
    loop {
        let count = stream.read(&mut buffer).unwrap();
        bytes.extend_from_slice(&buffer[..count]);
        let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") else { continue };
        let head = String::from_utf8(bytes[..end].to_vec()).unwrap();
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap().parse::<usize>();
        if bytes.len() >= end + 4 + length.unwrap() {
            return Seen { head, body: bytes[end + 4..].to_vec() };
        }
    }
}

/// A server that gives these answers, one after the other, and hands out what it was sent.
fn server(answers: Vec<&'static str>) -> (String, Receiver<Seen>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/hook", listener.local_addr().unwrap());
    let (sender, seen) = channel();
    std::thread::spawn(move || {
        for answer in answers {
            let (mut stream, _) = listener.accept().unwrap();
            sender.send(read(&mut stream)).ok();
            write!(stream, "HTTP/1.1 {answer}\r\ncontent-length: 0\r\n\r\n").ok();
        }
        // Nobody is to come any more; who does is heard of.
        while let Ok((mut stream, _)) = listener.accept() {
            sender.send(read(&mut stream)).ok();
        }
    });
    (url, seen)
}

fn verify(seen: &Seen) {
    assert_eq!(seen.header("authorization"), format!("Bearer {TOKEN}"));
    let signed = [seen.header("x-broker-timestamp").as_bytes(), b".", &seen.body].concat();
    let expected = format!("sha256={}", Digest::keyed(SECRET.as_bytes(), &signed).hex());
    assert_eq!(seen.header("x-broker-signature"), expected);
}

#[test]
fn a_webhook_that_fails_twice_accepts_one_signed_notice() {
    let (url, seen) = server(vec!["503 x", "302 x\r\nlocation: http://127.0.0.1:1/", "204 x"]);
    let mut world = super::world_down(|world| {
        for (name, secret) in [("signing.key", SECRET), ("token.key", TOKEN)] {
            let path = world.path(name);
            std::fs::write(&path, secret).unwrap();
            std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
        }
        let file = |name: &str| format!("{{ file = {:?} }}", world.path(name).display().to_string());
        format!(
            "[[channels]]\nname = \"hook\"\nkind = \"webhook\"\nurl = \"{url}\"\nsigning = {}\nbearer = {}\n",
            file("signing.key"),
            file("token.key")
        )
    });
    world.keep_secret(SECRET);
    world.keep_secret(TOKEN);
    world.start();
    world.grant("developer", 2);
    let (_id, approval_request) = ask(&world, &world.group("developer"), call("charge", json!({ "to": "alice" })));
    let timeout = Duration::from_secs(30);
    let mut bodies = Vec::new();
    for attempt in 1..=3_u32 {
        let request = seen.recv_timeout(timeout).unwrap();
        verify(&request);
        bodies.push(request.body);
        if attempt < 3 {
            let tried = format!("SELECT 1 FROM notices WHERE attempts = {attempt}");
            until("the attempt is recorded", || world.query(&tried).pop());
            assert!(seen.try_recv().is_err(), "not before its time");
            world.clock.advance(Duration::from_secs(u64::from(attempt)));
        }
    }
    assert_eq!(states(&world), [json!({ "event": "asked", "channel": "hook", "state": "sent" })]);
    world.clock.advance(Duration::from_secs(250));
    assert!(bodies.windows(2).all(|pair| pair[0] == pair[1]), "it says the same each time");
    let document: Value = serde_json::from_slice(&bodies[0]).unwrap();
    assert_eq!(document["type"], "approval_notice");
    assert!(!document.to_string().contains(&approval_request));
    let kinds: Vec<String> = rows(&world).into_iter().map(|(kind, _)| kind).collect();
    assert_eq!(kinds, ["notifying", "notified"]);
    answer(&world, &approval_request, false);
    assert!(seen.try_recv().is_err(), "accepted once");
}

#[test]
fn a_webhook_whose_secret_is_missing_sends_nothing_and_says_so() {
    let (url, seen) = server(Vec::new());
    let world = world(|_| {
        format!(
            "[[channels]]\nname = \"hook\"\nkind = \"webhook\"\nurl = \"{url}\"\nsigning = {{ env = \"NOT_THERE\" }}\n"
        )
    });
    let developer = world.group("developer");
    let (id, approval_request) = ask(&world, &developer, call("charge", json!({})));
    let failed = until("an attempt", || world.query("SELECT fault FROM notices WHERE attempts > 0").pop());
    assert!(failed["fault"].as_str().unwrap().contains("its secret `signing` is missing"), "{failed}");
    answer(&world, &approval_request, true);
    assert_eq!(code(&developer.reply(&id)), "executed");
    assert!(seen.try_recv().is_err());
}

#[test]
fn a_webhook_that_never_answers_holds_nobody_up() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let world =
        world(|_| format!("[[channels]]\nname = \"hook\"\nkind = \"webhook\"\nformat = \"ntfy\"\nurl = \"{url}\"\n"));
    let developer = world.group("developer");
    let (id, approval_request) = ask(&world, &developer, call("charge", json!({})));
    let (mut held, _) = listener.accept().unwrap();
    let request = read(&mut held);
    assert!(String::from_utf8(request.body.clone()).unwrap().starts_with("[APPROVAL REQUIRED] ask-"));
    assert_eq!(request.header("title"), "APPROVAL REQUIRED: demo.charge (L2)");
    assert_eq!(code(&developer.call("echo", json!({}))), "executed");
    answer(&world, &approval_request, true);
    assert_eq!(code(&developer.reply(&id)), "executed");
}
