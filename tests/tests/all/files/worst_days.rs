//! Bad days of proposals: late, cancelled, tightened, taken back, too much.

use super::{answer, apply, approval_request, builder, call, document, give, propose, read, workspace, world, write};
use serde_json::{Value, json};
use std::fs;
use tests::group::{code, error};
use tests::{World, until};

/// A patch that changes the first line of so many files.
fn patch_of(world: &World, files: usize, rest: &str) -> String {
    let sections = (0..files).map(|n| {
        write(world, &format!("src/{n}.txt"), format!("{n} old\n{rest}"));
        let file = format!("diff --git a/src/{n}.txt b/src/{n}.txt\n--- a/src/{n}.txt\n+++ b/src/{n}.txt\n");
        let context = rest.lines().next().map(|line| format!(" {line}\n")).unwrap_or_default();
        let lines = if context.is_empty() { 1 } else { 2 };
        format!("{file}@@ -1,{lines} +1,{lines} @@\n-{n} old\n+{n} new\n{context}")
    });
    sections.collect::<Vec<_>>().concat()
}

#[test]
fn a_change_is_given_the_time_that_it_takes() {
    let world = world();
    let developer = world.group("developer");
    let reply = call(&developer, "apply_patch", json!({ "patch": patch_of(&world, 80, "") }));
    let id = reply["data"]["hitl"]["hitl_id"].as_str().unwrap();
    answer(&world, id, true);
    let mut hurried = document("apply_proposal", json!({ "path": reply["data"]["data"]["path"], "hitl_id": id }));
    hurried["timeout_ms"] = json!(60);
    let reply = developer.ask(hurried);
    assert_eq!(code(&reply), "executed", "it was begun, so its end is told: {reply}");
    assert_eq!(read(&world, "src/79.txt"), "79 new\n");
}

#[test]
fn a_rename_is_applied_under_the_path_that_was_told() {
    let world = world();
    let developer = world.group("developer");
    write(&world, "src/z.rs", "z\n");
    let patch = "diff --git a/src/z.rs b/src/a.rs\nsimilarity index 100%\nrename from src/z.rs\nrename to src/a.rs\n";
    let reply = call(&developer, "apply_patch", json!({ "patch": patch }));
    let (id, told) = (&reply["data"]["hitl"]["hitl_id"], reply["data"]["data"]["path"].as_str().unwrap());
    assert_eq!(told, "src/a.rs");
    answer(&world, id.as_str().unwrap(), true);
    assert_eq!(code(&apply(&developer, told, id.as_str().unwrap())), "executed");
    assert_eq!(read(&world, "src/a.rs"), "z\n");
}

#[test]
fn a_small_patch_of_many_large_files_is_a_large_change() {
    let world = world();
    let developer = world.group("developer");
    let rest = "x\n".repeat(250_000);
    let fits = call(&developer, "apply_patch", json!({ "patch": patch_of(&world, 4, &rest) }));
    assert_eq!(fits["data"]["status"], "hitl_required", "{fits}");
    let many = call(&developer, "apply_patch", json!({ "patch": patch_of(&world, 20, &rest) }));
    assert_eq!(code(&many), "too_large", "{many}");
}

#[test]
fn a_cancelled_apply_applies_nothing() {
    let world = world();
    let developer = world.group("developer");
    let id = propose(&developer, "src/a.rs", "x\n");
    let waits = developer.send(document("apply_proposal", json!({ "path": "src/a.rs", "hitl_id": id })));
    let cancel = json!({ "type": "ext_cancel", "of": waits });
    let stopped = until("it waits", || {
        let reply = developer.ask(cancel.clone());
        (code(&reply) == "executed").then_some(reply)
    });
    assert_eq!(stopped["data"]["cancelled"], true, "{stopped}");
    assert_eq!(code(&developer.reply(&waits)), "cancelled");
    answer(&world, &id, true);
    world.settle();
    assert!(!workspace(&world).join("src/a.rs").exists());
    assert_eq!(code(&apply(&developer, "src/a.rs", &id)), "executed", "the proposal itself was not taken back");
}

#[test]
fn proposals_made_under_auto_need_an_approval_once_the_tier_is_human() {
    let free = "[providers.files]\npaths = { \"docs/\" = \"auto\" }\n";
    let mut world = builder().file("policy/profiles/developer.toml", free).up();
    give(&world);
    let developer = world.group("developer");
    let id = propose(&developer, "docs/a.md", "x\n");
    world.stop();
    world.rewrite("policy/profiles/developer.toml", "write = \"human\"\n");
    world.start();
    assert_eq!(code(&apply(&developer, "docs/a.md", &id)), "approval_required");
    assert!(!workspace(&world).join("docs/a.md").exists());
    for line in ["write = \"off\"\n", "[providers.files]\nwrite = \"off\"\n"] {
        world.stop();
        world.rewrite("policy/profiles/developer.toml", line);
        world.start();
        let reply = call(&developer, "write_file", json!({ "path": "src/a", "content": "x" }));
        assert_eq!(code(&reply), "action_denied", "{line}");
    }
}

#[test]
fn a_yes_is_taken_back_until_it_is_used() {
    let world = world();
    let developer = world.group("developer");
    let id = propose(&developer, "src/a.rs", "x\n");
    answer(&world, &id, true);
    assert_eq!(code(&answer(&world, &id, false)), "executed", "the same person thinks again");
    let refused = apply(&developer, "src/a.rs", &id);
    assert_eq!(code(&refused), "approval_denied", "{refused}");
    assert_eq!(error(&answer(&world, &id, true)).split(':').next(), Some("It is too late"));
}

#[test]
fn approvals_to_apply_at_once_outlive_a_daemon_that_is_down() {
    let mut world = world();
    let developer = world.group("developer");
    let id = propose(&developer, "src/a.rs", "x\n");
    let code_of = approval_request(&world, &id);
    world.stop();
    let control = json!({ "type": "answer", "code": code_of, "yes": true, "apply": true });
    let reply = world.in_place(&serde_json::from_value(control).unwrap());
    assert_eq!(reply["data"]["state"], "approved", "{reply}");
    assert!(!workspace(&world).join("src/a.rs").exists());
    world.start();
    until("the file", || workspace(&world).join("src/a.rs").exists().then_some(()));
    world.settle();
    world.restart();
    world.settle();
    let request: Value = reply["data"]["applied_by"].clone();
    assert_eq!(world.kinds_of(&developer, request.as_str().unwrap()), ["intended", "succeeded"], "once");
}

#[test]
fn people_without_the_right_to_answer_revert_nothing_and_leave_nothing() {
    let mut world = world();
    let developer = world.group("developer");
    let id = propose(&developer, "src/a.rs", "x\n");
    answer(&world, &id, true);
    apply(&developer, "src/a.rs", &id);
    world.stop();
    let config = fs::read_to_string(world.path("broker.toml")).unwrap();
    world.rewrite("broker.toml", &config.replace("approves = {}", "approves = { groups = [\"main\"] }"));
    world.start();
    let refused = world.command(json!({ "type": "revert", "id": id }));
    assert_eq!(code(&refused), "guardrail", "{refused}");
    assert_eq!(world.query("SELECT id FROM approvals WHERE state <> 'closed'"), [Value::Null; 0]);
    assert_eq!(read(&world, "src/a.rs"), "x\n");
}

#[test]
fn an_undoing_that_is_refused_is_not_left_for_the_agent() {
    let world = world();
    let developer = world.group("developer");
    let id = propose(&developer, "src/a.rs", "x\n");
    answer(&world, &id, true);
    apply(&developer, "src/a.rs", &id);
    world.command(json!({ "type": "kill", "scope": { "group": "developer" }, "on": true }));
    let reply = world.command(json!({ "type": "revert", "id": id }));
    let request = reply["data"]["applied_by"].as_str().unwrap().to_owned();
    until("its end", || (world.kinds_of(&developer, &request) == ["refused"]).then_some(()));
    assert_eq!(read(&world, "src/a.rs"), "x\n");
    let left = world.query("SELECT became FROM approvals ORDER BY id DESC LIMIT 1");
    assert_eq!(left, [json!({ "became": "kill_switch" })]);
    world.command(json!({ "type": "kill", "scope": { "group": "developer" }, "on": false }));
    let listed = call(&developer, "list_proposals", json!({}));
    assert_eq!(listed["data"]["data"]["proposals"].as_array().unwrap().len(), 1, "an undoing is a person's: {listed}");
    // And once nothing stands against it, it is undone.
    world.command(json!({ "type": "revert", "id": id }));
    until("it is undone", || (!workspace(&world).join("src/a.rs").exists()).then_some(()));
}

#[test]
fn reads_too_large_for_a_reply_as_json_are_refused() {
    let world = world();
    let developer = world.group("developer");
    write(&world, "src/quotes.txt", format!("{}\n", "\"".repeat(130_000)));
    let params = json!({ "path": "src/quotes.txt", "max_bytes": 131_072 });
    assert_eq!(code(&call(&developer, "read_file", params)), "too_large");
    let fewer = call(&developer, "read_file", json!({ "path": "src/quotes.txt", "max_bytes": 100_000 }));
    assert_eq!(fewer["data"]["data"]["truncated"], true, "{}", fewer["code"]);
}
