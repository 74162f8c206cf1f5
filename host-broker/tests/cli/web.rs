//! `web`, and what other commands say of the inbox.

use super::world::World;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;

/// A home whose inbox listens on any port.
fn with_inbox() -> World {
    let world = World::with_mock();
    world.append("broker.toml", "\n[web]\nlisten = \"127.0.0.1:0\"\n");
    world
}

#[test]
fn a_link_needs_a_daemon_that_serves_an_inbox() {
    let world = World::with_mock();
    world.run(&["web", "link"]).fails(3, &["no daemon is running", "host-broker serve"]);
    let daemon = world.serve();
    world.run(&["web", "link"]).fails(3, &["[web]", "listen", "broker.toml"]);
    assert_eq!(world.run(&["status", "--json"]).json()["web"], serde_json::Value::Null);
    world.run(&["stop"]).ok();
    daemon.end();
    world.append("broker.toml", "\n[web]\nlisten = \"127.0.0.1:0\"\n");
    let _daemon = world.serve();
    let said = world.run(&["web", "link"]).ok();
    assert!(said.starts_with("http://inbox-") && said.contains(".localhost:") && said.contains("link="), "{said}");
    let link = world.run(&["web", "link", "--json"]).json();
    assert_eq!((&link["status"], &link["data"]["person"]), (&"executed".into(), &"tester".into()));
    let shown = world.run(&["status"]).ok();
    let web = world.run(&["status", "--json"]).json()["web"].as_str().unwrap().to_owned();
    assert!(link["data"]["url"].as_str().unwrap().starts_with(&web) && shown.contains(&web), "{shown}");
}

#[test]
fn serve_prints_where_the_inbox_is_in_its_document() {
    let world = with_inbox();
    let mut daemon = world.start(&["serve", "--json"]);
    let ready: serde_json::Value = serde_json::from_str(&daemon.line()).unwrap();
    assert_eq!(ready["ready"], true);
    assert!(ready["web"].as_str().unwrap().starts_with("http://inbox-"), "{ready}");
}

#[test]
fn a_tokens_line_lets_its_person_in_and_the_token_is_stored_nowhere() {
    let world = with_inbox();
    let before = world.read("broker.toml");
    let made = world.run(&["web", "token", "alice", "--json"]).json();
    let (token, line) = (made["token"].as_str().unwrap(), made["line"].as_str().unwrap());
    assert_eq!(world.read("broker.toml"), before, "nothing is changed");
    assert!(token.len() >= 43 && !line.contains(token));
    assert_ne!(world.run(&["web", "token", "alice", "--json"]).json()["token"], token);
    let text = world.run(&["web", "token", "alice"]).ok();
    for words in ["[people.alice]", "web_token_sha256 = \"", "shown only now", "approves"] {
        assert!(text.contains(words), "no `{words}` in {text}");
    }
    world.append("broker.toml", &format!("\n[people.alice]\n{line}\napproves = {{}}\n"));
    world.run(&["config", "check"]).ok();
    let _daemon = world.serve();
    let web = world.run(&["status", "--json"]).json()["web"].as_str().unwrap().to_owned();
    let origin = web.trim_end_matches('/');
    let (host, body) = (origin.trim_start_matches("http://"), format!("secret={token}"));
    let mut stream = TcpStream::connect(("127.0.0.1", host.rsplit(':').next().unwrap().parse().unwrap())).unwrap();
    write!(
        stream,
        "POST /sign-in/token HTTP/1.1\r\nHost: {host}\r\nOrigin: {origin}\r\nConnection: close\r\n\
         Content-Type: application/x-www-form-urlencoded\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
    .unwrap();
    let mut reply = String::new();
    stream.read_to_string(&mut reply).unwrap();
    assert!(reply.starts_with("HTTP/1.1 303") && reply.contains("set-cookie: inbox="), "{reply}");
}

#[test]
fn a_public_address_to_listen_on_is_a_fault_of_the_configuration() {
    let world = World::with_mock();
    world.append("broker.toml", "\n[web]\nlisten = \"0.0.0.0:7420\"\n");
    for command in [&["config", "check"][..], &["serve"]] {
        world.run(command).fails(4, &["broker.toml", "line", "web.listen", "TLS proxy", "public_url"]);
    }
    let schema = world.run(&["config", "schema"]).ok();
    for words in ["WebTable", "public_url", "web_token_sha256"] {
        assert!(schema.contains(words), "no `{words}`");
    }
}
