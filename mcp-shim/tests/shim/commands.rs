//! The command line.

use super::harness::{World, printed, snapshot};
use serde_json::{Value, json};

#[test]
fn a_call_prints_one_object_and_ends_with_its_status() {
    for (status, code) in [("executed", 0), ("denied", 3), ("pending", 4), ("failed", 5), ("timeout", 6)] {
        let world = World::with_snapshot();
        let child = world.run(&["call", "github", "list_issues", r#"{"repo":"a"}"#, "--task-id", "gov-1"]);
        let request = world.take();
        assert_eq!((&request["params"], &request["task_id"]), (&json!({"repo": "a"}), &json!("gov-1")));
        let mut members = json!({"status": status});
        if status == "executed" {
            members["data"] = json!([1]);
        } else {
            members["error"] = json!("Because.\nDo this.");
        }
        world.reply(&request, members);
        let (ended, object, stderr) = printed(child);
        assert_eq!(ended, Some(code), "{status}");
        assert_eq!((&object["ok"], &object["request_id"]), (&json!(status == "executed"), &request["request_id"]));
        if status == "executed" {
            assert_eq!((&object["output"], stderr.as_str()), (&json!([1]), ""));
        } else {
            assert_eq!(stderr, "mcp-shim: Because. Do this.\n");
        }
    }
}

#[test]
fn a_list_for_a_token_that_proves_nothing_is_a_refusal_and_not_an_empty_list() {
    for (code, words, expected) in [
        ("context_token_invalid", &["capability", "list"][..], 3),
        ("context_token_expired", &["capability", "list", "--include-unavailable"], 3),
        ("context_token_missing", &["capability", "list"], 3),
        ("context_token_missing", &["capability", "list", "--include-unavailable"], 0),
    ] {
        let world = World::with_snapshot();
        let child = world.run(words);
        let fault = json!({"code": code, "error": "Why.\nDo this."});
        let data = json!({"generatedAt": "x", "capabilities": [], "token_fault": fault});
        world.reply(&world.take(), json!({"status": "executed", "data": data}));
        let (ended, object, stderr) = printed(child);
        assert_eq!(ended, Some(expected), "{code} {words:?}");
        if expected == 3 {
            assert_eq!((&object["ok"], &object["code"]), (&json!(false), &json!(code)));
            assert_eq!((object.get("capabilities"), stderr.as_str()), (None, "mcp-shim: Why. Do this.\n"));
        } else {
            assert_eq!(object, json!({"capabilities": []}));
        }
    }
}

#[test]
fn an_earlier_result_can_be_asked_for() {
    let world = World::with_snapshot();
    let child = world.run(&["result", "ext-1-a"]);
    let request = world.take();
    assert_eq!((&request["type"], &request["of"]), (&json!("ext_result"), &json!("ext-1-a")));
    world.reply(&request, json!({"status": "executed", "data": 1}));
    assert_eq!(printed(child).0, Some(0));
}

#[test]
fn capabilities_are_printed_as_they_are() {
    let (code, object, stderr) = printed(World::with_snapshot().run(&["capabilities"]));
    assert_eq!((code, object, stderr.as_str()), (Some(0), snapshot(), ""));
    let (code, object, stderr) = printed(World::new().run(&["capabilities"]));
    assert_eq!((code, object), (Some(0), json!({"capabilities": []})));
    assert!(stderr.starts_with("mcp-shim: No external capabilities configured."), "{stderr}");
    let world = World::new();
    world.write("ext_capabilities.json", "{");
    assert_eq!(printed(world.run(&["capabilities"])).0, Some(5));
}

#[test]
fn wrong_arguments_exit_with_two_and_send_nothing() {
    let world = World::with_snapshot();
    for arguments in [
        ["call", "github", ""].as_slice(),
        &["call", "github"],
        &["call", "GitHub", "a"],
        &["call", "github", "a", "not json"],
        &["call", "github", "a", "--force"],
        &["result", "../x"],
        &["serve"],
    ] {
        let (code, _, stderr) = printed(world.run(arguments));
        assert_eq!(code, Some(2), "{arguments:?}");
        assert_eq!(stderr.lines().count(), 1, "{stderr}");
    }
    let (code, _, stderr) = printed(World::new().set("EXT_CALL_TIMEOUT", "soon").run(&["capabilities"]));
    assert_eq!(code, Some(2));
    assert!(stderr.contains("EXT_CALL_TIMEOUT"), "{stderr}");
    assert!(world.tasks().is_empty());
}

#[test]
fn a_dead_host_ends_a_command_too() {
    let world = World::with_snapshot();
    world.beat_was(std::time::Duration::from_secs(60));
    let (code, object, _) = printed(world.run(&["call", "github", "list_issues"]));
    assert_eq!((code, &object["code"]), (Some(5), &json!("host_down")));
}

#[test]
fn help_and_version_need_nobody() {
    let output = World::new().set("EXT_IPC_DIR", "/nowhere").run(&["--help"]).wait_with_output().unwrap();
    let help = String::from_utf8(output.stdout).unwrap();
    for word in ["begin", "complete", "poll", "list", "unlink"] {
        assert!(help.contains(&format!("mcp-shim capability auth {word}")), "{word}");
    }
    for word in ["call PROVIDER ACTION", "EXT_IPC_DIR", "EXT_SIGNING_KEY_FILE", "Exit codes: 0 done, 2 usage"] {
        assert!(help.contains(word), "{word}");
    }
    let output = World::new().run(&["--version"]).wait_with_output().unwrap();
    assert_eq!(String::from_utf8(output.stdout).unwrap(), format!("mcp-shim {}\n", env!("CARGO_PKG_VERSION")));
    assert_eq!(serde_json::from_slice::<Value>(&output.stderr).ok(), None);
}
