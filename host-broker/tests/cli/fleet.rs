//! `fleet` and `[store]`, without a database: scripts, secrets, and what is said when the database cannot be used.

use super::world::{Done, World, finish};
use serde_json::{Value, json};
use std::os::unix::fs::PermissionsExt as _;

/// The password of the database.
const PASSWORD: &str = "open sesame";
/// A server that nobody runs.
const NOWHERE: &str = "postgresql://broker_a:open%20sesame@127.0.0.1:1/broker";

/// Adds the table of a host whose URL is in the environment.
fn with_store(world: &World) {
    world.append("broker.toml", "\n[store]\nurl = { env = \"STORE_URL\" }\nhost = \"a\"\n");
}

fn with_url(world: &World, url: &str, arguments: &[&str]) -> Done {
    finish(world.command(arguments).env("STORE_URL", url))
}

#[test]
fn the_scripts_of_a_fleet_need_no_home_and_name_what_they_are_given() {
    let world = World::empty();
    let script = world.run(&["fleet", "schema"]).ok();
    assert!(script.contains("CREATE SCHEMA IF NOT EXISTS host_broker") && script.trim_end().ends_with(';'));
    let document = world.run(&["fleet", "schema", "--json"]).json();
    assert_eq!(document["sql"].as_str().map(str::trim_end), Some(script.trim_end()));
    let longer = "r".repeat(64);
    let host = world.run(&["fleet", "schema", "--host", "eu-1", "--role", "broker_a"]).ok();
    assert!(host.contains("'eu-1'") && host.contains("'broker_a'") && !host.contains("CREATE"), "{host}");
    for (arguments, words) in [
        (&["--host", "a"][..], "--role"),
        (&["--role", "broker_a"], "--host"),
        (&["--host", "Eu_1", "--role", "broker_a"], "not a valid host"),
        (&["--host", "a", "--role", &longer], "1 to 63 bytes"),
    ] {
        world.run(&[&["fleet", "schema"], arguments].concat()).fails(2, &[words]);
    }
    assert!(!world.home.exists());
}

#[test]
fn a_home_without_the_table_is_no_host_of_a_fleet() {
    let world = World::with_mock();
    for command in ["status", "leave"] {
        world.run(&["fleet", command]).fails(3, &["no table [store]"]);
    }
    world.run(&["fleet", "publish", "policy"]).fails(3, &["no table [store]"]);
    World::empty().run(&["fleet", "status"]).fails(4, &["host-broker init"]);
}

#[test]
fn a_store_that_cannot_be_used_is_named_and_its_password_is_not() {
    let world = World::with_mock();
    with_store(&world);
    for command in [&["serve"][..], &["fleet", "status"], &["fleet", "leave"], &["grant", "developer", "mock", "1"]] {
        world.run(command).fails(4, &["[store]", "its secret `url` is missing", "STORE_URL"]);
        for (url, code, words) in [
            ("postgresql://broker_a:sesame@127.0.0.1:1/broker", 4, "its password has fewer than 8 characters"),
            ("mysql://broker_a:open%20sesame@127.0.0.1:1/broker", 4, "postgresql://"),
            ("postgresql://broker_a:open%20sesame@127.0.0.1:1", 4, "[store]"),
            ("postgresql://broker_a:open%20sesame@db.example.com/broker?sslmode=disable", 4, "TLS"),
            (NOWHERE, 1, "cannot be reached"),
        ] {
            let done = with_url(&world, url, command);
            assert!(!done.err.contains("sesame") && !done.err.contains(url), "{done:?}");
            done.fails(code, &[words]);
        }
    }
    world.append("broker.toml", "authorities = \"none.pem\"\n");
    with_url(&world, NOWHERE, &["fleet", "status"]).fails(4, &["the authorities", "none.pem", "No such file"]);
}

#[test]
fn a_home_that_lacks_a_key_does_not_leave_and_gets_no_other_one() {
    let world = World::with_mock();
    world.run(&["grant", "developer", "mock", "1"]).ok();
    with_store(&world);
    let key = world.home.join("keys/vault.key");
    std::fs::remove_file(&key).unwrap();
    for _time in 0..2 {
        with_url(&world, NOWHERE, &["fleet", "leave"]).fails(3, &["vault.key", "nothing was changed"]);
        assert!(!key.exists());
    }
}

/// Attack: see `the_password_in_the_url_of_the_database_is_a_secret_of_its_own`.
#[test]
fn the_password_of_the_database_is_redacted_also_without_its_url() {
    let world = World::with_mock();
    with_store(&world);
    let text = world.home.with_extension("log");
    let scrubbed = |written: &str| -> Value {
        std::fs::write(&text, written).unwrap();
        with_url(&world, NOWHERE, &["scrub", "--json", text.to_str().unwrap()]).json()
    };
    for written in [format!("it is {PASSWORD}, is it").as_str(), "encoded: b3BlbiBzZXNhbWU="] {
        let cleaned = scrubbed(written);
        assert_eq!(cleaned["kinds"], json!(["store password"]), "{cleaned}");
        assert!(!cleaned["text"].as_str().unwrap().contains("sesame"), "{cleaned}");
    }
    let cleaned = scrubbed(&format!("connects to {NOWHERE}"));
    assert!(cleaned["altered"] == true && !cleaned.to_string().contains("sesame"), "{cleaned}");
}

#[test]
fn a_reload_with_a_store_that_cannot_be_used_keeps_the_daemon_as_it_is() {
    let world = World::with_mock();
    let daemon = world.serve();
    let secret = world.home.join("store-url");
    let before = world.read("broker.toml");
    world.append("broker.toml", &format!("\n[store]\nurl = {{ file = {secret:?} }}\nhost = \"a\"\n"));
    assert!(world.run(&["config", "check"]).ok().contains("the secret store url is missing"));
    let kept = "keeps its current configuration";
    world.run(&["reload"]).fails(4, &["its secret `url` is missing", "store-url", kept]);
    std::fs::write(&secret, NOWHERE).unwrap();
    std::fs::set_permissions(&secret, std::fs::Permissions::from_mode(0o600)).unwrap();
    assert!(!world.run(&["config", "check"]).ok().contains("store url"));
    world.run(&["reload"]).fails(4, &["cannot be reached", kept]);
    world.run(&["grant", "developer", "mock", "2"]).ok();
    std::fs::write(world.home.join("broker.toml"), before).unwrap();
    world.run(&["reload"]).ok();
    world.run(&["stop"]).ok();
    assert_eq!(daemon.end(), 0);
}
