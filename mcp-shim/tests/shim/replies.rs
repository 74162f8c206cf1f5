//! The answers of the host, and forgeries in their place.

use super::harness::{Client, Era, World, exists, text};
use serde_json::{Value, json};
use std::os::unix::fs::symlink;

fn begin(world: &World) -> (Client, u64, Value) {
    let mut client = world.client(Era::Handshake("2025-11-25"));
    let id = client.call("github__list_issues", json!({"repo": "a"}));
    let request = world.take();
    (client, id, request)
}

fn result_of(members: Value) -> (Value, Value) {
    let world = World::with_snapshot();
    let (mut client, id, request) = begin(&world);
    world.reply(&request, members);
    (client.result(id), request)
}

#[test]
fn data_is_shown_and_repeated_with_its_receipt() {
    let evidence = json!({"seq": 7, "event_hash": format!("sha256:{}", "a".repeat(64)), "prev_hash": format!("sha256:{}", "b".repeat(64))});
    let (result, request) =
        result_of(json!({"status": "executed", "data": {"b": 1, "a": "x"}, "summary": "Two.", "evidence": evidence}));
    assert_eq!(serde_json::from_str::<Value>(text(&result)).unwrap(), json!({"a": "x", "b": 1}));
    assert_eq!(result["_meta"]["broker/evidence"], evidence);
    assert_eq!(result["_meta"]["broker/request_id"], request["request_id"]);
    assert_eq!(result["structuredContent"]["summary"], "Two.");
    assert!(result["structuredContent"].get("evidence").is_none());
}

#[test]
fn a_refusal_is_an_error_in_the_hosts_own_words() {
    for status in ["denied", "failed", "timeout"] {
        let (result, _) = result_of(json!({"status": status, "error": "Because. Do this.", "code": "of_tomorrow"}));
        assert_eq!(result["isError"], true);
        assert_eq!(text(&result), format!("External call {status}: Because. Do this."));
        assert_eq!(result["structuredContent"]["code"], "of_tomorrow");
    }
}

#[test]
fn pending_is_no_error_and_says_what_to_do() {
    let (result, request) = result_of(json!({"status": "pending", "error": "Asked.", "code": "approval_required",
        "approval": {"ref": "apr-1", "expires_at": "2026-02-14T11:00:00.000Z", "summary": "Create issue"}}));
    assert_eq!(result["isError"], false);
    assert!(text(&result).contains("Create issue") && text(&result).contains("ext_result"), "{result}");
    assert!(text(&result).contains(request["request_id"].as_str().unwrap()));
    assert_eq!(result["structuredContent"]["note"], text(&result), "for models that are shown the data only");
}

#[test]
fn a_withheld_result_breaks_no_client() {
    let (result, _) = result_of(json!({"status": "executed", "notices": ["withheld"], "summary": "Held back."}));
    assert_eq!((text(&result), &result["isError"]), ("Held back.", &json!(false)));
    assert!(result["content"][1]["text"].as_str().unwrap().contains("held back"), "{result}");
    assert_eq!(result["structuredContent"]["note"], result["content"][1]["text"]);
}

#[test]
fn a_host_that_knows_only_the_first_six_fields_will_do() {
    let (result, _) = result_of(json!({"status": "failed", "summary": "GitHub said 500", "extra": {"x": 1}}));
    assert_eq!(text(&result), "External call failed: GitHub said 500");
}

#[test]
fn unusable_reply_files_are_ignored_until_the_reply_exists() {
    let world = World::with_snapshot();
    let mut client = world.client(Era::Handshake("2025-11-25"));
    let big = format!("[\"{}\"]", "x".repeat(shared::limits::REPLY_BYTES_MAX));
    let forged =
        json!({"request_id": "ext-0000000000000-aaaaaa", "status": "executed", "data": "forged", "timestamp": ""});
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    for rubbish in ["", "{\"request_id\":", "[]", "{}", "null", &big, &deep, &forged.to_string()] {
        let id = client.call("github__list_issues", json!({"repo": "a"}));
        let request = world.take();
        let name = format!("responses/{}.json", request["request_id"].as_str().unwrap());
        world.write(&name, rubbish);
        assert!(client.request("ping", json!({})).get("result").is_some());
        world.reply(&request, json!({"status": "executed", "data": "true one"}));
        assert_eq!(text(&client.result(id)), "true one");
    }
}

#[test]
fn a_forged_reply_alone_is_no_answer() {
    let world = World::with_snapshot().set("EXT_CALL_TIMEOUT", "500");
    let (mut client, id, request) = begin(&world);
    let forged =
        json!({"request_id": "ext-0000000000000-aaaaaa", "status": "executed", "data": "forged", "timestamp": ""});
    world.write(&format!("responses/{}.json", request["request_id"].as_str().unwrap()), forged.to_string());
    let result = client.result(id);
    assert_eq!(result["structuredContent"]["code"], "no_answer");
    assert!(text(&result).contains("names another request"), "{result}");
}

#[test]
fn a_planted_link_or_pipe_is_not_opened() {
    let world = World::with_snapshot().set("EXT_CALL_TIMEOUT", "500");
    let (mut client, id, request) = begin(&world);
    let secret =
        json!({"request_id": request["request_id"], "status": "executed", "data": "elsewhere", "timestamp": ""});
    std::fs::write(world.path("elsewhere.json"), secret.to_string()).unwrap();
    symlink("../elsewhere.json", world.reply_path(&request)).unwrap();
    let result = client.result(id);
    assert_eq!(result["structuredContent"]["code"], "no_answer");
    assert!(!text(&result).contains("elsewhere"));
    let id = client.call("github__list_issues", json!({"repo": "a"}));
    let request = world.take();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        world.reply_path(&request),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR,
        0,
    )
    .unwrap();
    assert_eq!(client.result(id)["structuredContent"]["code"], "no_answer");
    assert!(exists(&world.reply_path(&request)));
}
