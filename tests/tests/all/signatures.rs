//! Groups whose requests must be signed.

use serde_json::{Value, json};
use shared::{Timestamp, signature};
use std::time::Duration;
use tests::fakes::real_now;
use tests::group::{call, code, with};
use tests::world::CONFIG;
use tests::{Group, World, skipped};

const VECTORS: &str = include_str!("../../fixtures/nanoclaw-signed-requests.json");

struct Vectors {
    key: String,
    vectors: Vec<Vector>,
}

struct Vector {
    name: String,
    raw: String,
    signed: String,
    sig: String,
}

fn vectors() -> Vectors {
    let file: Value = serde_json::from_str(VECTORS).unwrap();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let vectors = file["vectors"].as_array().unwrap().iter().map(|vector| Vector {
        name: text(&vector["name"]),
        raw: text(&vector["raw"]),
        signed: text(&vector["signed"]),
        sig: text(&vector["sig"]),
    });
    Vectors { key: text(&file["secret_file_content"]), vectors: vectors.collect() }
}

/// The script that the vectors call: provider `mock`, action `write_stuff`.
const STUFF: &str = "[actions.write_stuff]\nlevel = 2\nreply = \"$params\"\nappend_to = \"stuff.log\"\nexposes = []\n";

fn signing_world(key: &str, start: Timestamp) -> World {
    let config = format!("{CONFIG}\n[groups.signer]\nsigning_key_file = \"signer.key\"\n");
    let mut world = World::builder().config(&config).file("signer.key", key).script("mock", STUFF).clock(start).up();
    world.keep_secret(key.trim());
    let grant = json!({ "type": "grant", "group_folder": "signer", "provider": "mock", "access_level": 2 });
    assert_eq!(code(&world.command(grant)), "executed");
    let grant = json!({ "type": "grant", "group_folder": "signer", "provider": "demo", "access_level": 2 });
    assert_eq!(code(&world.command(grant)), "executed");
    world.task("gov-1", "signer");
    world
}

#[test]
fn the_original_shims_signatures_verify_byte_for_byte() {
    let Vectors { key, vectors } = vectors();
    assert_eq!(vectors.len(), 22);
    for Vector { name, raw, signed, sig } in vectors {
        assert_eq!(signature::verify(raw.as_bytes(), &key), Ok(()), "{name}");
        let ours = signature::sign(signed.as_bytes(), &key);
        assert!(ours.ends_with(format!(",\"sig\":\"{sig}\"}}").as_bytes()), "{name}");
        let parsed = shared::request::parse(raw.as_bytes());
        if name == "lone_surrogate" {
            assert!(matches!(parsed.unwrap_err().why, shared::request::Malformed::Json(_)), "{name}");
        } else {
            assert_eq!(parsed.unwrap().envelope.sig, Some(sig), "{name}");
        }
    }
}

#[test]
fn the_original_shims_requests_are_executed_as_they_are() {
    let Vectors { key, vectors } = vectors();
    let written: Timestamp = "2026-11-20T08:26:06.300Z".parse().unwrap();
    if real_now() < written {
        return skipped("the machine's clock is before the time at which these requests were signed");
    }
    let world = signing_world(&key, written);
    let signer = world.group("signer");
    let mut executed = 0;
    for Vector { name, raw, .. } in &vectors {
        let id = raw.split('"').skip_while(|part| *part != "request_id").nth(2).unwrap();
        signer.put(&format!("ext-{id}.json"), raw);
        if name == "lone_surrogate" {
            // A document that cannot be parsed has no id to be answered under but its file's.
            assert_eq!(code(&signer.reply(&format!("ext-{id}"))), "malformed_request");
            continue;
        }
        let reply = signer.reply(id);
        if raw.contains("\"idempotency_key\"") && executed > 0 && code(&reply) == "idempotency_conflict" {
            continue;
        }
        if name == "numbers" {
            // Numbers that canonical JSON would change are said to be so, not silently changed.
            assert!(["executed", "invalid_params"].contains(&code(&reply)), "{name}: {reply}");
        } else {
            assert_eq!(code(&reply), "executed", "{name}: {reply}");
        }
        executed += 1;
    }
    assert!(executed > 9);
}

/// Makes a wrong text of a document and the true key.
type Spoil = fn(&Value, &str) -> String;

fn sign(document: &Value, key: &str) -> String {
    String::from_utf8(signature::sign(document.to_string().as_bytes(), key)).unwrap()
}

/// Sends a text under an id of its own and returns the reply's code.
fn try_text(group: &Group, document: &Value, text: impl FnOnce(&Value) -> String) -> String {
    let id = group.fresh_id();
    let document = with(document.clone(), "request_id", id.clone());
    group.put(&format!("{id}.json"), text(&document));
    code(&group.reply(&id)).to_owned()
}

/// Attack (Repeats, crashes and evidence): A signature is missing, wrong or stale.
/// Defence: The request is refused before any part of it is believed.
#[test]
fn a_missing_wrong_or_stale_signature_is_refused_with_evidence_and_nothing_is_executed() {
    let key = "a key that signs things";
    let world = signing_world(key, real_now().minus(Duration::from_secs(24 * 3600)));
    let signer = world.group("signer");
    let fresh = with(call("charge", json!({})), "timestamp", world.now().to_string());
    let properly = |document: &Value| sign(document, key);
    assert_eq!(try_text(&signer, &fresh, properly), "executed");
    let spoilt: [(&str, Spoil); 10] = [
        ("none", |document, _| document.to_string()),
        ("empty", |document, _| with(document.clone(), "sig", "").to_string()),
        ("short", |document, _| with(document.clone(), "sig", "abc").to_string()),
        ("of zeros", |document, _| with(document.clone(), "sig", "0".repeat(64)).to_string()),
        ("a number", |document, _| with(document.clone(), "sig", 7).to_string()),
        ("of another key", |document, _| sign(document, "another key")),
        ("of another text", |document, key| sign(document, key).replace("charge", "vanish")),
        ("in capitals", |document, key| {
            let text = sign(document, key);
            let (head, sig) = text.split_at(text.len() - 66);
            format!("{head}{}", sig.to_uppercase())
        }),
        ("not last", |document, key| sign(document, key).replacen('{', "{\"task_id\":null,", 1)),
        ("followed by more", |document, key| sign(document, key).replace("\"}", "\",\"task_id\":null}")),
    ];
    for (what, spoil) in spoilt {
        assert_eq!(try_text(&signer, &fresh, |document| spoil(document, key)), "bad_signature", "{what}");
    }
    for timestamp in [
        json!(null),
        json!("yesterday"),
        json!(world.now().minus(Duration::from_secs(301)).to_string()),
        json!(world.now().plus(Duration::from_secs(301)).to_string()),
    ] {
        let document = with(fresh.clone(), "timestamp", timestamp.clone());
        assert_eq!(try_text(&signer, &document, properly), "bad_signature", "{timestamp}");
    }
    for seconds in [-300, 300] {
        let millis = world.now().millis() + seconds * 1000;
        let document = with(fresh.clone(), "timestamp", Timestamp::from_millis(millis).to_string());
        assert_eq!(try_text(&signer, &document, properly), "executed", "{seconds}");
    }
    assert_eq!(world.effects_of("charge").len(), 3);
    assert!(world.effects_of("vanish").is_empty());
    let rows = world.rows();
    assert!(rows.iter().any(|row| row.kind == "refused" && row.reason_code.as_deref() == Some("bad_signature")));
}

#[test]
fn grants_are_signed_too_where_the_main_group_has_a_key() {
    let config = CONFIG.replace("main = true", "main = true\nsigning_key_file = \"main.key\"");
    let mut world = World::builder().config(&config).file("main.key", "the main key").up();
    world.keep_secret("the main key");
    let main = world.group("main");
    let grant = json!({ "type": "ext_grant", "group_folder": "developer", "provider": "demo", "access_level": 1,
                        "timestamp": world.now().to_string() });
    assert_eq!(code(&main.ask(grant.clone())), "bad_signature");
    assert_eq!(code(&world.group("developer").call("echo", json!({}))), "no_grant");
    assert_eq!(try_text(&main, &grant, |document| sign(document, "the main key")), "executed");
    assert_eq!(code(&world.group("developer").call("echo", json!({}))), "executed");
}

/// Attack (Repeats, crashes and evidence): The sandbox can write the signing key.
/// Defence: The host does not start.
#[test]
fn a_key_file_that_the_sandbox_could_write_keeps_the_host_from_starting() {
    let config = format!("{CONFIG}\n[groups.signer]\nsigning_key_file = \"ipc/signer/tasks/key\"\n");
    let mut world = World::builder().config(&config).down();
    std::fs::create_dir_all(world.path("ipc/signer/tasks")).unwrap();
    std::fs::write(world.path("ipc/signer/tasks/key"), "k").unwrap();
    let fault = world.try_start().unwrap_err().to_string();
    assert!(fault.contains("lies in the directory that the sandbox can write"), "{fault}");
    // A link out of the mailbox that leads into it is seen through.
    world.rewrite("broker.toml", &format!("{CONFIG}\n[groups.signer]\nsigning_key_file = \"link.key\"\n"));
    std::os::unix::fs::symlink(world.path("ipc/signer/tasks/key"), world.path("link.key")).unwrap();
    let config = std::fs::read_to_string(world.path("broker.toml")).unwrap();
    let uid = rustix::process::geteuid().as_raw();
    world.rewrite("broker.toml", &format!("{config}\n[people.operator]\nuid = {uid}\n"));
    let fault = world.try_start().unwrap_err().to_string();
    assert!(fault.contains("lies in the directory that the sandbox can write"), "{fault}");
}
