//! Waiting for a host: one that is dead, slow, late or talkative, and a client that leaves.

use super::harness::{ERAS, Era, World, exists, text, until};
use serde_json::{Value, json};
use std::time::Duration;

const CALL: &str = "github__list_issues";

fn arguments() -> Value {
    json!({"repo": "a"})
}

fn code(result: &Value) -> &str {
    result["structuredContent"]["code"].as_str().unwrap()
}

#[test]
fn a_dead_host_is_reported_and_the_request_taken_back() {
    let world = World::with_snapshot();
    world.beat_was(Duration::from_secs(60));
    let mut client = world.client(Era::Stateless);
    let id = client.call(CALL, arguments());
    let result = client.result(id);
    assert_eq!(code(&result), "host_down");
    assert_eq!(result["isError"], true);
    assert!(text(&result).starts_with("External call failed: The host broker is not running"), "{result}");
    assert!(world.tasks().is_empty());
}

#[test]
fn a_host_that_gives_no_sign_of_life_is_waited_for() {
    let world = World::new();
    let mut client = world.client(Era::Stateless);
    let id = client.call("ext_call", json!({"provider": "github", "action": "list_issues"}));
    let request = world.take();
    world.reply(&request, json!({"status": "executed", "data": 1}));
    assert_eq!(text(&client.result(id)), "1");
}

#[test]
fn a_request_that_nobody_takes_is_withdrawn() {
    let world = World::with_snapshot().set("EXT_CALL_TIMEOUT", "200");
    let mut client = world.client(Era::Stateless);
    let id = client.call(CALL, arguments());
    let result = client.result(id);
    assert_eq!((code(&result), &result["structuredContent"]["status"]), ("withdrawn", &json!("timeout")));
    assert!(text(&result).contains("withdrawn and not executed"), "{result}");
    assert!(world.tasks().is_empty());
}

#[test]
fn a_late_reply_is_found_by_asking_for_the_result() {
    let world = World::with_snapshot().set("EXT_CALL_TIMEOUT", "1000");
    let mut client = world.client(Era::Stateless);
    let id = client.call(CALL, arguments());
    let request = world.take();
    assert_eq!(request["timeout_ms"], 1000);
    let result = client.result(id);
    let asked = request["request_id"].as_str().unwrap();
    assert_eq!(code(&result), "no_answer");
    assert!(text(&result).contains("ext_result") && text(&result).contains(asked), "{result}");
    // The host answers after all, under the first request's name.
    world.reply(&request, json!({"status": "executed", "data": "late"}));
    let id = client.call("ext_result", json!({"of": asked}));
    assert_eq!(text(&client.result(id)), "late");
    // A host that knows the request answers the question itself.
    let id = client.call("ext_result", json!({"of": asked}));
    let question = world.take();
    assert_eq!((&question["type"], &question["of"]), (&json!("ext_result"), &json!(asked)));
    world.reply(
        &question,
        json!({"status": "failed", "code": "still_running", "error": "Not yet.", "retry_after_ms": 500}),
    );
    let result = client.result(id);
    assert!(text(&result).contains("retry_after_ms: 500"), "{result}");
}

#[test]
fn the_provider_says_how_long_to_wait_and_the_sandbox_can_only_shorten_it() {
    for (set, expected) in [(None, 90_000), (Some("60000"), 60_000)] {
        let mut world = World::with_snapshot();
        if let Some(set) = set {
            world = world.set("EXT_CALL_TIMEOUT", set);
        }
        let mut snapshot = super::harness::snapshot();
        snapshot["capabilities"][0]["timeout_ms"] = json!(90_000);
        world.snapshot(&snapshot);
        let mut client = world.client(Era::Stateless);
        client.call(CALL, arguments());
        assert_eq!(world.take()["timeout_ms"], expected);
    }
}

#[test]
fn progress_reaches_a_client_that_asked_for_it() {
    for era in ERAS {
        let world = World::with_snapshot();
        let mut client = world.client(era);
        let params = json!({"name": CALL, "arguments": arguments(), "_meta": {"progressToken": "tok"}});
        let id = client.ask("tools/call", params);
        let request = world.take();
        let progress = world.reply_path(&request).with_extension("progress.json");
        let name = format!("responses/{}", progress.file_name().unwrap().to_str().unwrap());
        let mut last = 0.0;
        for (message, numbers) in [("asked", json!({})), ("half", json!({"progress": 50.0, "total": 100.0}))] {
            let mut document = numbers.clone();
            document["message"] = json!(message);
            world.write(&name, document.to_string());
            let heard = client.notification("notifications/progress");
            assert_eq!(
                (&heard["params"]["progressToken"], &heard["params"]["message"]),
                (&json!("tok"), &json!(message))
            );
            let value = heard["params"]["progress"].as_f64().unwrap();
            assert!(value > last, "{heard}");
            last = value;
        }
        world.reply(&request, json!({"status": "executed", "data": 1}));
        client.result(id);
        assert!(!exists(&progress), "what was read is cleared up");
        assert!(!exists(&world.reply_path(&request)));
    }
}

#[test]
fn a_cancelled_call_is_withdrawn() {
    for era in ERAS {
        let world = World::with_snapshot();
        let mut client = world.client(era);
        let id = client.call(CALL, arguments());
        world.see();
        client.send(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}}));
        until(|| world.tasks().is_empty().then_some(()));
        assert!(!client.tool_names().is_empty());
    }
}

#[test]
fn a_cancelled_call_that_was_taken_is_cancelled_at_the_host() {
    let world = World::with_snapshot();
    let mut client = world.client(Era::Handshake("2025-06-18"));
    let id = client.call(CALL, arguments());
    let request = world.take();
    client.send(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}}));
    let cancel = world.take();
    assert_eq!((&cancel["type"], &cancel["of"]), (&json!("ext_cancel"), &request["request_id"]));
}

#[test]
fn the_end_of_input_ends_every_wait() {
    let world = World::with_snapshot();
    let mut client = world.client(Era::Stateless);
    let listen = client.ask("subscriptions/listen", json!({"notifications": {"toolsListChanged": true}}));
    client.notification("notifications/subscriptions/acknowledged");
    let taken = client.call(CALL, arguments());
    world.take();
    let waiting = client.call(CALL, arguments());
    world.see();
    client.close_input();
    // Both are answered, which they would not be if the server had to give up on its handlers first.
    assert_eq!(code(&client.result(waiting)), "cancelled");
    assert_eq!(code(&client.result(taken)), "no_answer");
    assert!(client.answer(listen).get("result").is_some());
    let (status, stderr) = client.ended();
    assert!(status.success() && stderr.is_empty(), "{status} {stderr}");
    let left: Vec<Value> = world.tasks().iter().map(|_| world.take()).collect();
    assert_eq!(left.len(), 1);
    assert_eq!(left[0]["type"], "ext_cancel");
}

#[test]
fn a_signal_ends_every_wait_too() {
    for signal in [rustix::process::Signal::TERM, rustix::process::Signal::INT] {
        let world = World::with_snapshot();
        let mut client = world.client(Era::Handshake("2025-11-25"));
        let id = client.call(CALL, arguments());
        world.see();
        client.signal(signal);
        let result = client.result(id);
        assert_eq!(code(&result), "cancelled", "{result}");
        assert!(client.ended().0.success());
        assert!(world.tasks().is_empty());
        let command = world.run(&["call", "github", "list_issues"]);
        world.see();
        rustix::process::kill_process(rustix::process::Pid::from_child(&command), signal).unwrap();
        assert_eq!(super::harness::printed(command).1["code"], "cancelled");
        assert!(world.tasks().is_empty());
    }
}

#[test]
fn a_client_that_leaves_without_a_word_is_no_failure() {
    let (status, stderr) = World::new().start().ended();
    assert!(status.success() && stderr.is_empty(), "{status} {stderr}");
}

#[test]
fn many_calls_wait_side_by_side() {
    let world = World::with_snapshot();
    let mut client = world.client(Era::Stateless);
    let ids: Vec<u64> = (0..32).map(|n| client.call(CALL, json!({"repo": format!("r{n}")}))).collect();
    for _ in &ids {
        let request = world.take();
        world.reply(&request, json!({"status": "executed", "data": request["params"]["repo"]}));
    }
    for (n, id) in ids.into_iter().enumerate() {
        assert_eq!(text(&client.result(id)), format!("r{n}"));
    }
}

#[test]
fn a_directory_that_is_not_mounted_is_said_and_how_it_is_mounted() {
    for (variable, missing) in [("EXT_IPC_DIR", "/nowhere/at/all"), ("NANOCLAW_WORKSPACE_IPC", "/nowhere/else")] {
        let world = World::with_snapshot().set("EXT_IPC_DIR", "").set(variable, missing);
        let mut client = world.client(Era::Stateless);
        let id = client.call("ext_call", json!({"provider": "github", "action": "a"}));
        let result = client.result(id);
        assert_eq!(code(&result), "no_mailbox");
        let id = client.call("ext_capabilities", json!({}));
        let capabilities = client.result(id);
        assert_eq!(capabilities["isError"], true);
        for said in [text(&result), text(&capabilities)] {
            for part in [
                "is not mounted in this sandbox",
                missing,
                variable,
                &format!("docker run -v DIR:{missing}:ro -v DIR/tasks:{missing}/tasks"),
                &format!("bwrap --ro-bind DIR {missing} --bind DIR/tasks {missing}/tasks"),
            ] {
                assert!(said.contains(part), "{part}: {said}");
            }
            assert!(!said.contains("start it"), "{said}");
        }
        assert!(text(&result).contains("Nothing was sent"), "{result}");
    }
}

#[test]
fn a_directory_without_tasks_is_not_the_groups() {
    let world = World::with_snapshot();
    std::fs::remove_dir(world.path("tasks")).unwrap();
    let mut client = world.client(Era::Stateless);
    let id = client.call(CALL, arguments());
    let result = client.result(id);
    assert_eq!(code(&result), "no_mailbox");
    assert!(text(&result).contains("there is no tasks in /"), "{result}");
}

#[test]
fn tasks_that_cannot_be_written_to_are_told_from_tasks_that_are_not_there() {
    use std::os::unix::fs::PermissionsExt as _;
    let world = World::with_snapshot().unprivileged();
    std::fs::set_permissions(world.path("tasks"), std::fs::Permissions::from_mode(0o555)).unwrap();
    let mut client = world.client(Era::Stateless);
    let id = client.call(CALL, arguments());
    let result = client.result(id);
    assert_eq!(code(&result), "no_mailbox");
    // Another mount changes nothing about that.
    let user = world.user();
    for part in [
        format!("is mounted, but user {user}, as whom this sandbox runs, may not write to it"),
        format!("chown {user} DIR/tasks"),
        format!("uid = {user} under [groups.GROUP] in broker.toml"),
    ] {
        assert!(text(&result).contains(&part), "{part}: {result}");
    }
    assert!(!text(&result).contains("docker run"), "{result}");
}

#[test]
fn a_request_that_is_withdrawn_tells_what_the_host_has_not_left() {
    for (missing, said) in [("host.json", "has no host.json"), ("responses", "has no responses")] {
        let world = World::with_snapshot().set("EXT_CALL_TIMEOUT", "200");
        std::fs::remove_file(world.path("host.json")).unwrap();
        if missing == "responses" {
            std::fs::remove_dir(world.path("responses")).unwrap();
        }
        let mut client = world.client(Era::Stateless);
        let id = client.call(CALL, arguments());
        let result = client.result(id);
        assert_eq!(code(&result), "withdrawn");
        assert!(text(&result).contains(said), "{result}");
    }
}

#[test]
fn responses_may_be_read_only() {
    use std::os::unix::fs::PermissionsExt as _;
    let world = World::with_snapshot();
    let mut client = world.client(Era::Stateless);
    let id = client.call(CALL, arguments());
    let request = world.take();
    world.reply(&request, json!({"status": "executed", "data": 1}));
    let responses = world.path("responses");
    std::fs::set_permissions(&responses, std::fs::Permissions::from_mode(0o555)).unwrap();
    assert_eq!(text(&client.result(id)), "1");
    std::fs::set_permissions(&responses, std::fs::Permissions::from_mode(0o755)).unwrap();
}
