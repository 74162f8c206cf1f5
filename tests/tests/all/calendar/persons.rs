//! Calendar accounts of persons: each call uses the account of the person behind it.

use super::{approval, yes};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use model::ChatType;
use serde_json::{Value, json};
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use tests::bridges::{call as on_behalf, token};
use tests::calendar_server::{CalendarServer, PASSWORD};
use tests::fakes::real_now;
use tests::group::{Group, code, error, with};
use tests::servers::{Remote, sign_in};
use tests::{World, skipped};

const PROFILE: &str =
    "[providers.\"person.calendar\"]\nwrite = \"auto\"\ntrifecta_off = \"the test reads what it has written\"\n";

/// A world with calendar accounts of persons at this address, and a group that may change them.
pub(super) fn world(url: &str, lines: &str) -> (World, Group) {
    let mut world = World::builder().clock(real_now()).file("policy/profiles/developer.toml", PROFILE).down();
    let config = std::fs::read_to_string(world.path("broker.toml")).unwrap();
    let table = format!(
        "[providers.\"person.calendar\"]\nkind = \"calendar\"\nurl = \"{url}\"\nwritable = [\"work\", \"team\", \"primary\"]\n{lines}"
    );
    world.rewrite("broker.toml", &format!("{config}\n{table}"));
    world.keep_secret(PASSWORD);
    world.start();
    world.grant_with("developer", 2, json!({ "provider": "person.calendar" }));
    let developer = world.group("developer");
    (world, developer)
}

pub(super) fn calendar(action: &str, params: &Value, token: &str) -> Value {
    on_behalf("person.calendar", action, params, token)
}

fn link(world: &World, person: &str, account: &str, password: &str) {
    let reply = world.command(json!({
        "type": "link_account", "person": person, "capability": "person.calendar", "account_ref": account,
        "password": password,
    }));
    assert_eq!(code(&reply), "executed", "{reply}");
}

fn ids(reply: &Value) -> Vec<&str> {
    let calendars = reply["data"]["calendars"].as_array().unwrap_or_else(|| panic!("{reply}"));
    calendars.iter().map(|calendar| calendar["id"].as_str().unwrap()).collect()
}

pub(super) fn lunch(calendar: &str) -> Value {
    json!({ "calendar": calendar, "summary": "Lunch", "start": "2026-12-01T12:00", "end": "2026-12-01T13:30" })
}

#[test]
fn a_person_reads_and_changes_their_own_calendars_only() {
    let Some(server) = CalendarServer::start() else { return };
    let (mut world, developer) = world(&server.url("/"), "");
    let ann = token(&mut world, "ann", ChatType::Private);
    let bob = token(&mut world, "bob", ChatType::Private);
    link(&world, "broker:ann", "ada", PASSWORD);
    link(&world, "broker:bob", "bob", PASSWORD);
    let list = |token: &str| developer.ask(calendar("list_calendars", &json!({}), token));
    for _ in 0..2 {
        assert_eq!(ids(&list(&ann)), ["private", "work"]);
        assert_eq!(ids(&list(&bob)), ["team"]);
    }
    let created = developer.ask(calendar("create_event", &lunch("work"), &ann));
    assert_eq!(code(&created), "executed", "{created}");
    let id = created["data"]["id"].as_str().unwrap();
    assert!(server.stored(id).unwrap().contains("SUMMARY:Lunch"));
    // The same id is nothing in the account of another person.
    assert_eq!(code(&developer.ask(calendar("get_event", &json!({ "id": id }), &bob))), "provider_failed");
    let deleted = developer.send(calendar("delete_event", &json!({ "id": id }), &ann));
    let (code_of_it, sealed) = approval(&world, &deleted);
    assert!(sealed["url"].as_str().unwrap().ends_with(&format!("/ada/{id}")), "{sealed}");
    yes(&world, &code_of_it);
    assert_eq!(code(&developer.reply(&deleted)), "executed");
    assert!(server.stored(id).is_none());

    link(&world, "broker:ann", "ada", "not-the-password-any-more");
    let refused = list(&ann);
    assert_eq!(code(&refused), "capability_auth_required", "{refused}");
    assert!(error(&refused).contains("the account's password is refused"), "{refused}");
    assert_eq!(ids(&list(&bob)), ["team"]);
    world.settle();
}

/// A server in front of the calendar that takes bearer tokens and signs in behind it with this header.
pub(super) fn bearer_server(behind: u16, authorization: String) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let authorization = Arc::new(authorization);
    std::thread::spawn(move || {
        while let Ok((stream, _)) = listener.accept() {
            let authorization = Arc::clone(&authorization);
            std::thread::spawn(move || relay(stream, behind, &authorization));
        }
    });
    port
}

fn relay(mut stream: TcpStream, behind: u16, authorization: &str) {
    let mut request = Vec::new();
    let mut piece = [0; 8192];
    loop {
        let read = stream.read(&mut piece).unwrap_or(0);
        request.extend_from_slice(piece.get(..read).unwrap());
        let text = String::from_utf8_lossy(&request);
        let Some((head, body)) = text.split_once("\r\n\r\n") else {
            assert!(read > 0, "half a request");
            continue;
        };
        let length = head
            .lines()
            .find_map(|line| line.to_ascii_lowercase().strip_prefix("content-length:")?.trim().parse().ok());
        if body.len() >= length.unwrap_or(0_usize) {
            break;
        }
    }
    let request = String::from_utf8(request).unwrap();
    let (head, body) = request.split_once("\r\n\r\n").unwrap();
    let is_bearer = |line: &str| line.to_ascii_lowercase().starts_with("authorization: bearer at-");
    if !head.lines().any(is_bearer) {
        stream.write_all(b"HTTP/1.1 401 no\r\ncontent-length: 0\r\nconnection: close\r\n\r\n").ok();
        return;
    }
    let lines = head.lines().filter(|line| !line.to_ascii_lowercase().starts_with("connection:"));
    let lines = lines.map(|line| if is_bearer(line) { authorization } else { line });
    let head: Vec<&str> = lines.chain(["connection: close"]).collect();
    let mut server = TcpStream::connect(("127.0.0.1", behind)).unwrap();
    write!(server, "{}\r\n\r\n{body}", head.join("\r\n")).unwrap();
    let mut answer = Vec::new();
    server.read_to_end(&mut answer).ok();
    stream.write_all(&answer).ok();
}

/// The lines of a table whose persons sign in at this server, which ends with the value. Its tokens live so many seconds.
pub(super) fn sign_in_lines(seconds: &str) -> Option<(Remote, String)> {
    let Some(remote) = Remote::run("/usr/bin/python3".as_ref(), "oauth.py", &["--lives", seconds]) else {
        skipped("there is no python3 to run a server with");
        return None;
    };
    let base = remote.url().replace("/mcp", "");
    let lines = format!(
        "auth = \"bearer\"\n[providers.\"person.calendar\".oauth]\nclient_id = \"public\"\n\
         authorize_url = \"{base}/authorize\"\ntoken_url = \"{base}/token\"\nscopes = [\"openid\", \"email\"]\n"
    );
    Some((remote, lines))
}

/// Links the account of a person, who signs in.
pub(super) fn link_by_sign_in(world: &World, developer: &Group, token: &str) {
    let auth = |word: &str, more: &Value| {
        let document = json!({ "type": format!("ext_auth_{word}"), "context_token": token });
        let members = more.as_object().unwrap().iter();
        developer.ask(members.fold(document, |document, (name, value)| with(document, name, value.clone())))
    };
    let begun = auth("begin", &json!({ "capability": "person.calendar", "account_hint": "ann" }));
    let url = begun["data"]["auth_url"].as_str().unwrap_or_else(|| panic!("{begun}")).to_owned();
    let completed = auth("complete", &json!({ "flow_id": begun["data"]["flow_id"], "callback_url": sign_in(&url) }));
    assert_eq!(code(&completed), "executed", "{completed}");
    let asked = world.query("SELECT code FROM approvals WHERE state = 'waiting' AND kind = 'account'");
    yes(world, asked[0]["code"].as_str().unwrap());
}

#[test]
fn a_token_is_renewed_and_then_the_event_is_read_and_changed() {
    let Some(server) = CalendarServer::start() else { return };
    let Some((_remote, lines)) = sign_in_lines("30") else { return };
    let basic = format!("authorization: Basic {}", BASE64_STANDARD.encode(format!("ada:{PASSWORD}")));
    let url = format!("http://127.0.0.1:{}/ada/", bearer_server(server.port, basic));
    let (mut world, developer) = world(&url, &lines);
    let ann = token(&mut world, "ann", ChatType::Private);
    link_by_sign_in(&world, &developer, &ann);

    // The change needs a renewal and then the facts of the event: two preparations, one effect.
    let request = developer.send(calendar("create_event", &lunch("work"), &ann));
    let created = developer.reply(&request);
    assert_eq!(code(&created), "executed", "{created}");
    let stages = world.rows_of(&developer, &request);
    let intents = stages.iter().filter(|row| row.kind == "intended").count();
    assert_eq!(intents, 3, "{stages:?}");
    let id = created["data"]["id"].as_str().unwrap();
    assert!(server.stored(id).unwrap().contains("SUMMARY:Lunch"));
    let moved = developer.ask(calendar("update_event", &json!({ "id": id, "location": "Café" }), &ann));
    assert_eq!(code(&moved), "executed", "{moved}");
    assert!(server.stored(id).unwrap().contains("LOCATION:Café"));
    world.settle();
}
