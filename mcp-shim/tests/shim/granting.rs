//! The main group's tools, other hosts, and what every request carries.

use super::harness::{Client, Era, World, snapshot, text};
use serde_json::{Value, json};

fn grant() -> Value {
    json!({"group_folder": "developer", "provider": "github", "access_level": 2, "denied_actions": ["merge_pr"],
        "requires_task_gate": "Security"})
}

fn main_snapshot() -> Value {
    let mut snapshot = snapshot();
    snapshot["is_main"] = json!(true);
    snapshot
}

fn stateless(world: &World) -> Client {
    world.client(Era::Stateless)
}

#[test]
fn only_the_main_group_can_grant() {
    let world = World::with_snapshot().set("NANOCLAW_IS_MAIN", "1");
    let mut client = stateless(&world);
    assert!(!client.tool_names().iter().any(|name| name == "ext_grant" || name == "gate_approve"));
    for tool in ["ext_grant", "ext_revoke", "ext_list", "task_create"] {
        let id = client.call(tool, grant());
        let result = client.result(id);
        assert_eq!(result["structuredContent"]["code"], "main_only");
        assert!(text(&result).contains("Only the main group can grant capabilities"), "{result}");
    }
    assert!(world.tasks().is_empty());
}

#[test]
fn the_main_group_grants_and_hears_whether_it_took_effect() {
    let world = World::with_snapshot();
    world.snapshot(&main_snapshot());
    let mut client = stateless(&world);
    assert!(client.tool_names().contains(&"ext_grant".to_owned()));
    let id = client.call("ext_grant", grant());
    let request = world.take();
    for (member, value) in grant().as_object().unwrap() {
        assert_eq!(&request[member], value);
    }
    world.reply(&request, json!({"status": "executed", "data": {"granted": true}}));
    assert_eq!(client.result(id)["structuredContent"]["data"]["granted"], true);
    for (level, fault) in [(json!(4), "is no level"), (json!("2"), "wrong type"), (json!(1.0), "wrong type")] {
        let mut arguments = grant();
        arguments["access_level"] = level;
        let id = client.call("ext_grant", arguments);
        let result = client.result(id);
        assert!(text(&result).contains(fault), "{result}");
    }
}

#[test]
fn without_a_snapshot_the_environment_says_who_is_main() {
    let world = World::new().set("NANOCLAW_IS_MAIN", "1");
    assert!(stateless(&world).tool_names().contains(&"ext_grant".to_owned()));
    let world = World::new();
    assert!(!stateless(&world).tool_names().contains(&"ext_grant".to_owned()));
}

#[test]
fn a_group_that_may_open_gates_sees_the_tool() {
    let world = World::with_snapshot();
    let mut opens = snapshot();
    opens["opens_gates"] = json!(["Security"]);
    world.snapshot(&opens);
    let mut client = stateless(&world);
    assert!(client.tool_names().contains(&"gate_approve".to_owned()));
    let id = client.call("gate_approve", json!({"task_id": "gov-1", "gate": "Security"}));
    let request = world.take();
    assert_eq!((&request["type"], &request["gate"]), (&json!("gate_approve"), &json!("Security")));
    world.reply(&request, json!({"status": "executed", "data": "open"}));
    assert_eq!(text(&client.result(id)), "open");
}

/// Such a host writes no `host.json`, answers no grant, and lists actions without status or schema.
#[test]
fn a_host_that_answers_no_grant_leaves_it_requested_but_not_confirmed() {
    let world = World::new().set("NANOCLAW_IS_MAIN", "1").set("EXT_CALL_TIMEOUT", "500");
    world.snapshot(&json!({"generatedAt": "2026-02-14T10:00:00.000Z", "capabilities": [{
        "provider": "github", "access_level": 2, "allowed_actions": null, "denied_actions": ["merge_pr"], "actions": {
            "list_issues": {"level": 1, "description": "List issues with filters"},
            "merge_pr": {"level": 3, "description": "Merge PR (DENIED)"}}}],
        "providers_available": ["github", "cloud-logs"]}));
    let mut client = stateless(&world);
    let names = client.tool_names();
    assert!(names.contains(&"github__list_issues".to_owned()) && !names.contains(&"github__merge_pr".to_owned()));
    let id = client.call("ext_grant", grant());
    let request = world.take();
    assert_eq!(request["type"], "ext_grant");
    let result = client.result(id);
    assert_eq!((&result["isError"], &result["structuredContent"]["code"]), (&json!(true), &json!("no_answer")));
    assert!(text(&result).contains("requested but not confirmed"), "{result}");
}

#[test]
fn every_request_is_signed_where_there_is_a_key() {
    let keys = tempfile::tempdir().unwrap();
    let key = keys.path().join("key");
    let world = World::with_snapshot().set("EXT_SIGNING_KEY_FILE", key.as_os_str());
    let mut client = stateless(&world);
    let id = client.call("github__list_issues", json!({"repo": "a"}));
    let result = client.result(id);
    assert_eq!(result["structuredContent"]["code"], "bad_signature");
    assert!(world.tasks().is_empty());
    std::fs::write(&key, "k1\n").unwrap();
    for tool in ["github__list_issues", "ext_cancel"] {
        client.call(tool, if tool == "ext_cancel" { json!({"of": "r1"}) } else { json!({"repo": "ä \" \\ "}) });
        let (path, _) = world.see();
        let document = std::fs::read(&path).unwrap();
        assert_eq!(shared::signature::verify(&document, "k1"), Ok(()));
        assert!(shared::signature::verify(&document, "k2").is_err());
        std::fs::remove_file(path).unwrap();
    }
}

#[test]
fn a_token_file_is_read_again_for_every_request() {
    let secrets = tempfile::tempdir().unwrap();
    let file = secrets.path().join("token");
    let world =
        World::with_snapshot().set("EXT_CONTEXT_TOKEN_FILE", file.as_os_str()).set("EXT_CONTEXT_TOKEN", "fixed");
    let mut client = stateless(&world);
    for token in ["first", "second"] {
        std::fs::write(&file, format!("{token}\n")).unwrap();
        client.call("github__list_issues", json!({"repo": "a"}));
        assert_eq!(world.take()["context_token"], token);
    }
    let world = World::with_snapshot().set("ASH_CONTEXT_TOKEN", "ash");
    let mut client = stateless(&world);
    client.call("github__list_issues", json!({"repo": "a"}));
    assert_eq!(world.take()["context_token"], "ash");
}
