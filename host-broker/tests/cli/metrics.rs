//! `[metrics]`: where it is shown, and what is refused.

use super::world::World;
use serde_json::Value;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};

/// The table that serves metrics on any port.
pub(super) const METRICS: &str = "\n[metrics]\nlisten = \"127.0.0.1:0\"\n";

/// The status and the body of what this address answers.
pub(super) fn get(url: &str) -> (u16, String) {
    let (host, path) = url.strip_prefix("http://").and_then(|rest| rest.split_once('/')).unwrap();
    let mut stream = TcpStream::connect(host).unwrap();
    write!(stream, "GET /{path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n").unwrap();
    let mut reply = String::new();
    stream.read_to_string(&mut reply).unwrap();
    let (head, body) = reply.split_once("\r\n\r\n").unwrap();
    (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
}

/// The status and the document of `/healthz` of the running daemon.
pub(super) fn health(world: &World) -> (u16, Value) {
    let metrics = world.run(&["status", "--json"]).json()["metrics"].as_str().unwrap().to_owned();
    let (status, body) = get(&metrics.replace("/metrics", "/healthz"));
    (status, serde_json::from_str(&body).unwrap())
}

#[test]
fn the_address_is_printed_by_serve_and_by_status_and_answers() {
    let world = World::with_mock();
    world.append("broker.toml", METRICS);
    let mut daemon = world.start(&["serve", "--json"]);
    let ready: Value = serde_json::from_str(&daemon.line()).unwrap();
    let metrics = ready["metrics"].as_str().unwrap().to_owned();
    assert!(metrics.starts_with("http://127.0.0.1:") && metrics.ends_with("/metrics"), "{ready}");
    let shown = world.run(&["status"]).ok();
    assert!(shown.contains(&format!("Metrics {metrics}")), "{shown}");
    assert_eq!(world.run(&["status", "--json"]).json()["metrics"], metrics);
    let (status, text) = get(&metrics);
    assert!(status == 200 && text.contains("host_broker_build_info{version="), "{text}");
    assert_eq!(health(&world).0, 200);
}

#[test]
fn a_clash_of_addresses_is_a_warning_and_stops_the_start_and_a_reload() {
    let world = World::with_mock();
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let before = world.read("broker.toml");
    let table = |name: &str| format!("\n[{name}]\nlisten = \"127.0.0.1:{port}\"\n");
    world.append("broker.toml", &table("metrics"));
    let checked = world.run(&["config", "check", "--json"]).ok();
    assert!(!checked.contains("[metrics] listen"), "{checked}");
    let daemon = world.serve();
    world.append("broker.toml", &table("web"));
    let words = [format!("[metrics] listen and [web] listen are both 127.0.0.1:{port}"), "cannot start".to_owned()];
    let checked = world.run(&["config", "check", "--json"]).ok();
    assert!(words.iter().all(|word| checked.contains(word.as_str())), "{checked}");
    world.run(&["reload"]).fails(4, &["metrics", "[metrics] of broker.toml"]);
    assert_eq!(health(&world).0, 200, "the daemon keeps its configuration");
    world.run(&["stop"]).ok();
    daemon.end();
    world.run(&["serve"]).fails(4, &["metrics cannot be served on", "[metrics] of broker.toml"]);
    std::fs::write(world.home.join("broker.toml"), before).unwrap();
}

#[test]
fn a_reload_begins_and_ends_the_metrics() {
    let world = World::with_mock();
    let before = world.read("broker.toml");
    let mut daemon = world.start(&["serve"]);
    assert_eq!(daemon.line(), "ready");
    assert_eq!(world.run(&["status", "--json"]).json()["metrics"], Value::Null);
    world.append("broker.toml", METRICS);
    world.run(&["reload"]).ok();
    assert_eq!(daemon.line(), "ready");
    assert_eq!(health(&world).0, 200);
    std::fs::write(world.home.join("broker.toml"), before).unwrap();
    world.run(&["reload"]).ok();
    assert_eq!(daemon.line(), "ready");
    assert_eq!(world.run(&["status", "--json"]).json()["metrics"], Value::Null);
}
