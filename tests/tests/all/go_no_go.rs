//! The checklist that the first specification asks for before anything ships: one test for each line, with its words.

use serde_json::{Value, json};
use std::time::Duration;
use tests::group::{call, code, error, with};
use tests::{World, until};

/// Every action of the script, as a call that would be well formed, and what is not there at all.
fn every_call() -> Vec<Value> {
    ["echo", "wait", "broken", "strict", "agree", "charge", "lossy", "vanish", "deploy", "no_such_action"]
        .iter()
        .map(|action| call(action, json!({})))
        .chain([json!({ "type": "ext_call", "provider": "private", "action": "read" })])
        .chain([json!({ "type": "ext_call", "provider": "nobody", "action": "read" })])
        .collect()
}

#[test]
fn fail_closed_remove_all_capabilities_and_every_ext_call_is_denied() {
    let world = World::new();
    world.grant("developer", 3);
    let developer = world.group("developer");
    assert_eq!(developer.call("echo", json!({}))["status"], "executed");
    world.revoke("developer");
    for group in ["developer", "security", "main"] {
        for document in every_call() {
            let reply = world.group(group).ask(document.clone());
            assert_eq!((code(&reply), &reply["status"]), ("no_grant", &json!("denied")), "{group}: {document}");
        }
    }
    for action in ["agree", "charge", "lossy", "vanish", "deploy"] {
        assert!(world.effects_of(action).is_empty(), "{action}");
    }
}

#[test]
fn read_only_enforcement_an_l1_group_cannot_execute_l2_actions() {
    let world = World::new();
    world.grant("developer", 1);
    let developer = world.group("developer");
    assert_eq!(developer.call("echo", json!({}))["status"], "executed");
    for action in ["charge", "lossy", "vanish"] {
        let reply = developer.call(action, json!({}));
        assert_eq!(code(&reply), "level_too_low");
        let sentence =
            format!("Group 'developer' has L1 (read) access to demo, but action '{action}' requires L2 (write)");
        assert!(error(&reply).starts_with(&sentence), "{reply}");
        assert!(world.effects_of(action).is_empty());
    }
    assert_eq!(code(&developer.call("deploy", json!({}))), "level_too_low");
}

#[test]
fn l3_gate_requirement_an_l3_action_without_governance_gate_approval_is_denied() {
    let world = World::new();
    world.grant_with("developer", 3, json!({ "requires_task_gate": "Security" }));
    let developer = world.group("developer");
    assert_eq!(code(&developer.call("deploy", json!({}))), "task_required");
    world.task("gov-1", "developer");
    let deploy = || with(call("deploy", json!({})), "task_id", "gov-1");
    assert_eq!(code(&developer.ask(deploy())), "gate_missing");
    assert!(world.effects_of("deploy").is_empty());
    let opened = world.group("security").ask(json!({ "type": "gate_approve", "task_id": "gov-1", "gate": "Security" }));
    assert_eq!(code(&opened), "executed");
    assert_eq!(code(&developer.ask(deploy())), "executed");
    assert_eq!(code(&developer.ask(deploy())), "gate_missing", "an approval serves one call");
    assert_eq!(world.effects_of("deploy").len(), 1);
}

#[test]
fn evidence_generation_every_call_success_and_denial_has_an_ext_calls_row() {
    let world = World::with_grant();
    let developer = world.group("developer");
    let mut expected = Vec::new();
    for (action, status) in [
        ("echo", "executed"),
        ("broken", "failed"),
        ("charge", "executed"),
        ("vanish", "failed"),
        ("deploy", "denied"),
        ("no_such_action", "denied"),
        ("agree", "denied"),
        ("strict", "denied"),
    ] {
        let id = developer.send(call(action, json!({})));
        if action == "agree" {
            let approval_request = until("the approval request", || world.query("SELECT code FROM approvals").pop());
            world.command(json!({ "type": "answer", "code": approval_request["code"], "yes": false }));
        }
        let reply = developer.reply(&id);
        assert_eq!(reply["status"], status, "{reply}");
        expected.push((id, action, status));
    }
    let rows = world.query("SELECT * FROM ext_calls ORDER BY id");
    let text = |value: &'_ Value| value.as_str().unwrap().to_owned();
    let found: Vec<_> =
        rows.iter().map(|row| (text(&row["request_id"]), text(&row["action"]), text(&row["status"]))).collect();
    let expected: Vec<_> =
        expected.into_iter().map(|(id, action, status)| (id, action.into(), status.into())).collect();
    assert_eq!(found, expected);
    for row in &rows {
        assert_eq!((&row["group_folder"], &row["provider"]), (&json!("developer"), &json!("demo")));
        assert_eq!(row["denial_reason"].is_null(), row["status"] != "denied", "{row}");
        assert_eq!(row["duration_ms"].is_null(), row["status"] == "denied", "{row}");
        assert_eq!(row["created_at"], world.now().to_string());
    }
}

#[test]
fn no_secrets_in_logs_ext_calls_params_hash_is_a_hash_not_cleartext() {
    let mut world = World::with_grant();
    world.keep_secret("correct horse battery staple");
    let developer = world.group("developer");
    let params = json!({ "words": "correct horse battery staple" });
    for action in ["charge", "broken", "deploy", "no_such_action", "strict"] {
        developer.call(action, params.clone());
    }
    // The same through every other door: an unknown type, a wrong member, a bad name, a dry run, half a document.
    developer.ask(json!({ "type": "correct horse battery staple" }));
    developer.ask(with(call("echo", json!({})), "correct horse battery staple", 1));
    developer.ask(with(call("echo", json!({})), "task_id", "correct horse battery staple"));
    developer.ask(with(call("charge", params.clone()), "dry_run", true));
    developer.put("half.json", "{\"type\": correct horse battery staple");
    developer.reply("half");
    let plain = shared::digest::Digest::of(&shared::json::canonical(&params)).to_string();
    let rows = world.query("SELECT params_hash FROM ext_calls");
    assert!(!rows.is_empty());
    for row in rows {
        let hash = row["params_hash"].as_str().unwrap();
        assert!(hash.strip_prefix("sha256:").is_some_and(|hex| hex.len() == 64), "{hash}");
        assert_ne!(hash, plain, "a plain digest of small parameters can be guessed");
    }
}

#[test]
fn no_secrets_in_containers_the_directory_holds_nothing_of_the_host() {
    use std::os::unix::fs::PermissionsExt as _;
    let config = format!("{}\n[groups.signer]\nsigning_key_file = \"signer.key\"\n", tests::world::CONFIG);
    let mut world = World::builder().config(&config).file("signer.key", "not for the sandbox\n").up();
    world.keep_secret("not for the sandbox");
    world.grant("developer", 2);
    world.grant("signer", 2);
    world.group("developer").call("echo", json!({}));
    world.group("signer").call("echo", json!({}));
    for group in ["main", "developer", "security", "signer"] {
        let entries = std::fs::read_dir(world.group(group).directory()).unwrap();
        let mut names: Vec<String> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.retain(|name| !name.starts_with(".tmp-"));
        names.sort();
        assert_eq!(names, ["broker.sock", "ext_capabilities.json", "host.json", "responses", "tasks"], "{group}");
    }
    let private = [("", 0o700), ("ledger.db", 0o600), ("keys", 0o700), ("keys/ledger.key", 0o600), ("lock", 0o600)];
    for (name, mode) in private {
        let found = std::fs::metadata(world.path(name)).unwrap().permissions().mode() & 0o777;
        assert_eq!(found, mode, "{name} is {found:o}");
    }
}

#[test]
fn idempotent_grants_a_double_ext_grant_with_same_params_is_no_error_but_an_upsert() {
    let world = World::new();
    let main = world.group("main");
    let grant = || {
        json!({ "type": "ext_grant", "group_folder": "developer", "provider": "demo", "access_level": 1,
                "allowed_actions": null, "denied_actions": ["broken"], "timestamp": "2026-02-14T09:00:00.000Z" })
    };
    let first = main.ask(grant());
    let second = main.ask(grant());
    assert_eq!((code(&first), code(&second)), ("executed", "executed"), "{first} {second}");
    assert_eq!(first["data"], second["data"]);
    let stored = world.query("SELECT * FROM ext_capabilities");
    assert_eq!(stored.len(), 1);
    assert_eq!((&stored[0]["denied_actions"], &stored[0]["active"]), (&json!("[\"broken\"]"), &json!(1)));
    assert_eq!(world.rows().iter().filter(|row| row.kind == "granted").count(), 2, "each is a row");
}

#[test]
fn response_cleanup_the_container_deletes_the_response_file_after_reading() {
    let world = World::with_grant();
    let developer = world.group("developer");
    let shim = tests::shim::Shim::start(&world, "developer");
    let result = shim.call("ext_call", json!({ "provider": "demo", "action": "echo", "params": { "n": 7 } }));
    assert_eq!(result["structuredContent"]["data"], json!({ "n": 7 }), "{result}");
    assert_eq!(developer.names("responses"), [""; 0]);
    assert_eq!(developer.names("tasks"), [""; 0]);
}

#[test]
fn timeout_handling_a_slow_provider_gives_the_container_a_timeout_error_not_a_hang() {
    let world = World::with_grant();
    let developer = world.group("developer");
    let forever = json!({ "ms": 3_600_000 });
    let read = developer.ask(with(call("wait", forever.clone()), "timeout_ms", 300));
    assert_eq!((code(&read), &read["status"]), ("provider_timeout", &json!("timeout")), "{read}");
    let write = developer.ask(with(call("charge", forever), "timeout_ms", 300));
    assert_eq!((code(&write), &write["status"]), ("outcome_unknown", &json!("failed")), "{write}");
    assert_eq!(code(&developer.call("echo", json!({}))), "executed");
}

#[test]
fn denied_actions_an_action_in_denied_actions_is_denied_even_if_the_level_is_sufficient() {
    let world = World::new();
    world.grant_with("developer", 3, json!({ "denied_actions": ["charge"] }));
    let developer = world.group("developer");
    assert_eq!(code(&developer.call("charge", json!({}))), "action_denied");
    assert_eq!(code(&developer.call("echo", json!({}))), "executed");
    // Denied wins over allowed.
    world.grant_with("developer", 3, json!({ "denied_actions": ["charge"], "allowed_actions": ["charge", "echo"] }));
    assert_eq!(code(&developer.call("charge", json!({}))), "action_denied");
    assert_eq!(code(&developer.call("lossy", json!({}))), "action_not_allowed");
    world.grant_with("developer", 3, json!({ "allowed_actions": [] }));
    assert_eq!(code(&developer.call("echo", json!({}))), "action_not_allowed");
    assert!(world.effects_of("charge").is_empty());
}

#[test]
fn snapshot_accuracy_ext_capabilities_json_reflects_current_db_state() {
    let world = World::new();
    let developer = world.group("developer");
    let same_as_live = |step: &str| {
        // The second answer is the first one's, which the broker has kept.
        for _ in 0..2 {
            let live = developer.ask(json!({ "type": "ext_capabilities", "include_unavailable": true }));
            let written = developer.snapshot();
            for member in ["capabilities", "providers_available", "group", "is_main", "protocol"] {
                assert_eq!(written[member], live["data"][member], "{member} after {step}");
            }
        }
        developer.snapshot()
    };
    assert_eq!(same_as_live("the start")["capabilities"], json!([]));
    world.grant_with("developer", 2, json!({ "denied_actions": ["lossy"], "expires_in_s": 60 }));
    let snapshot = same_as_live("a grant");
    let capability = &snapshot["capabilities"][0];
    assert_eq!(capability["access_level"], 2);
    assert_eq!(capability["denied_actions"], json!(["lossy"]));
    let status = |action: &str| capability["actions"][action]["status"].as_str().unwrap().to_owned();
    assert_eq!(
        [status("echo"), status("charge"), status("lossy"), status("deploy"), status("agree")],
        ["available", "available", "DENIED", "requires_higher_level", "needs_approval"]
    );
    assert_eq!(capability["actions"]["deploy"]["description"], "A scripted action. (DENIED)");
    let others = world.group("security").snapshot().to_string();
    assert!(!others.contains("demo"), "nothing of other groups: {others}");
    world.clock.advance(Duration::from_secs(59));
    assert_ne!(same_as_live("a while")["capabilities"], json!([]));
    world.clock.advance(Duration::from_secs(2));
    tests::until("the snapshot after the expiry", || (developer.snapshot()["capabilities"] == json!([])).then_some(()));
    assert_eq!(same_as_live("the expiry")["capabilities"], json!([]));
    assert_eq!(code(&developer.call("echo", json!({}))), "grant_expired");
    world.grant("developer", 1);
    assert_eq!(same_as_live("another grant")["capabilities"][0]["access_level"], 1);
    world.revoke("developer");
    assert_eq!(same_as_live("the end of it")["capabilities"], json!([]));
}

/// Attack: see
/// `requests_that_only_look_permitted_get_little_of_the_time_while_another_group_works`.
#[test]
fn snapshots_of_a_group_are_built_once_for_each_change() {
    let mut world = World::with_grant();
    let developer = world.group("developer");
    let live = |all: bool| developer.ask(json!({ "type": "ext_capabilities", "include_unavailable": all }));
    let (first, usable) = (live(true), live(false));
    world.clock.advance(Duration::from_secs(10));
    assert_eq!((&live(true)["data"], &live(false)["data"]), (&first["data"], &usable["data"]));
    assert_ne!(first["data"]["capabilities"], usable["data"]["capabilities"]);
    // Every reply rests on its own row.
    assert_ne!(live(true)["evidence"], first["evidence"]);
    // A bad token is another answer.
    let bad = developer.ask(json!({ "type": "ext_capabilities", "context_token": "x.y.z" }));
    assert_eq!(bad["data"]["token_fault"]["code"], "context_token_invalid", "{bad}");
    assert_eq!(live(false)["data"], usable["data"]);
    // Another group's grant is none of this one's; its own is.
    world.grant("security", 1);
    assert_eq!(live(true)["data"], first["data"]);
    world.grant("developer", 1);
    let after = live(true);
    assert_eq!(after["data"]["capabilities"], developer.snapshot()["capabilities"]);
    assert_ne!(after["data"]["capabilities"], first["data"]["capabilities"]);
    // Another profile is another answer.
    world.stop();
    world.rewrite("policy/profiles/developer.toml", "write = \"human\"\nproduction = \"off\"\n");
    world.start();
    world.grant("developer", 3);
    let after = live(true);
    assert_eq!(after["data"]["capabilities"], developer.snapshot()["capabilities"]);
    assert_eq!(after["data"]["capabilities"][0]["actions"]["charge"]["status"], "needs_approval");
}
