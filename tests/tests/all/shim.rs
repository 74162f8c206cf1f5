//! The real shim on a real mailbox, at the end of a real MCP client, with the real host behind it.

use serde_json::json;
use tests::group::code;
use tests::shim::{Shim, text};
use tests::world::CONFIG;
use tests::{World, until};

#[test]
fn an_agent_lists_its_tools_and_calls_an_action_by_its_own_tool() {
    let world = World::with_grant();
    let shim = Shim::start(&world, "developer");
    let names = shim.tool_names();
    for name in ["ext_call", "ext_capabilities", "ext_result", "ext_cancel", "demo__echo", "demo__charge"] {
        assert!(names.contains(&name.to_owned()), "{name}: {names:?}");
    }
    assert!(!names.contains(&"demo__deploy".to_owned()), "above its level: {names:?}");
    assert!(!names.contains(&"ext_grant".to_owned()), "not the main group: {names:?}");
    let strict = shim.tools().into_iter().find(|tool| tool["name"] == "demo__strict").unwrap();
    assert_eq!(strict["inputSchema"]["required"], json!(["repo"]), "{strict}");
    let result = shim.call("demo__echo", json!({ "n": 1 }));
    assert_eq!(result["structuredContent"]["data"], json!({ "n": 1 }));
    assert_eq!(text(&result), "{\n  \"n\": 1\n}");
    let charged = shim.call("demo__charge", json!({}));
    assert_eq!(charged["isError"], false, "{charged}");
    assert_eq!(world.effects_of("charge").len(), 1);
    let seq = charged["_meta"]["broker/evidence"]["seq"].as_i64().expect("a receipt");
    assert_eq!(world.rows().iter().find(|row| row.seq == seq).map(|row| row.kind.clone()), Some("succeeded".into()));
    assert_eq!(world.group("developer").names("responses"), [""; 0]);
}

#[test]
fn a_refusal_tells_the_agent_why_and_what_to_do_next() {
    let world = World::with_grant();
    let shim = Shim::start(&world, "developer");
    let refused = shim.call("ext_call", json!({ "provider": "demo", "action": "deploy", "params": {} }));
    assert_eq!(refused["isError"], true);
    assert_eq!(
        text(&refused),
        "External call denied: Group 'developer' has L2 (write) access to demo, but action 'deploy' requires L3 \
         (production). Ask the main group's agent or the operator for a higher level."
    );
    assert_eq!(refused["structuredContent"]["code"], "level_too_low");
    let failed = shim.call("demo__broken", json!({}));
    assert!(text(&failed).starts_with("External call failed: "), "{failed}");
    let wrong = shim.call("demo__strict", json!({ "page": "x" }));
    assert!(text(&wrong).contains("/page"), "{wrong}");
    assert_eq!(world.group("developer").names("responses"), [""; 0], "refusals are taken away too");
}

#[test]
fn the_tools_change_when_a_person_grants_and_revokes() {
    let world = World::new();
    let shim = Shim::start(&world, "developer");
    assert!(!shim.tool_names().iter().any(|name| name.starts_with("demo__")));
    assert!(text(&shim.call("ext_capabilities", json!({}))).contains("\"capabilities\":[]"));
    world.grant("developer", 1);
    until("the news of the grant", || (shim.changes() > 0).then_some(()));
    until("the tool", || shim.tool_names().contains(&"demo__echo".to_owned()).then_some(()));
    assert_eq!(shim.call("demo__echo", json!({}))["isError"], false);
    let before = shim.changes();
    world.revoke("developer");
    until("the news of the end", || (shim.changes() > before).then_some(()));
    until("no tool", || (!shim.tool_names().contains(&"demo__echo".to_owned())).then_some(()));
    let late = shim.call("ext_call", json!({ "provider": "demo", "action": "echo" }));
    assert_eq!(late["structuredContent"]["code"], "no_grant");
}

#[test]
fn the_main_groups_agent_grants_through_its_tools_and_hears_whether_it_took_effect() {
    let world = World::new();
    let main = Shim::start(&world, "main");
    let developer = Shim::start(&world, "developer");
    let grant = json!({ "group_folder": "developer", "provider": "demo", "access_level": 1 });
    let granted = main.call("ext_grant", grant.clone());
    assert_eq!(granted["isError"], false, "{granted}");
    assert_eq!(developer.call("ext_call", json!({ "provider": "demo", "action": "echo" }))["isError"], false);
    let too_much = json!({ "group_folder": "developer", "provider": "demo", "access_level": 3 });
    let above = std::thread::scope(|scope| {
        let above = scope.spawn(|| main.call("ext_grant", too_much));
        let approval_request = until("the approval request", || {
            world.query("SELECT code FROM approvals WHERE kind = 'grant' AND state = 'waiting'").pop()
        });
        let yes = json!({ "type": "answer", "code": approval_request["code"], "yes": true });
        assert_eq!(code(&world.command(yes)), "executed");
        above.join().unwrap()
    });
    assert_eq!(above["structuredContent"]["data"]["grant"]["access_level"], 3, "{above}");
    let others = developer.call("ext_grant", grant);
    assert_eq!(others["isError"], true);
    assert!(text(&others).contains("Only the main group can grant capabilities"), "{others}");
    let listed = main.call("ext_list", json!({}));
    assert_eq!(listed["structuredContent"]["data"]["grants"][0]["group_folder"], "developer", "{listed}");
    main.call("ext_revoke", json!({ "group_folder": "developer", "provider": "demo" }));
    let refused = developer.call("ext_call", json!({ "provider": "demo", "action": "echo" }));
    assert_eq!(refused["structuredContent"]["code"], "no_grant");
}

#[test]
fn a_production_action_goes_through_its_gate_with_agents_on_all_sides() {
    let world = World::new();
    world.grant_with("developer", 3, json!({ "requires_task_gate": "Security" }));
    let (main, developer, security) =
        (Shim::start(&world, "main"), Shim::start(&world, "developer"), Shim::start(&world, "security"));
    let task = main.call("task_create", json!({ "title": "Ship it", "group_folder": "developer", "task_id": "gov-1" }));
    assert_eq!(task["isError"], false, "{task}");
    let deploy = json!({ "provider": "demo", "action": "deploy", "params": {}, "task_id": "gov-1" });
    assert_eq!(developer.call("ext_call", deploy.clone())["structuredContent"]["code"], "gate_missing");
    let opened = security.call("gate_approve", json!({ "task_id": "gov-1", "gate": "Security" }));
    assert_eq!(opened["isError"], false, "{opened}");
    assert_eq!(developer.call("ext_call", deploy)["isError"], false);
    assert_eq!(world.effects_of("deploy").len(), 1);
}

#[test]
fn a_slow_provider_ends_in_an_error_for_the_agent_and_the_outcome_can_be_asked_for() {
    let world = World::with_grant();
    let shim = Shim::start_with(&world, "developer", &[("EXT_CALL_TIMEOUT", "1500")]);
    let slow = shim.call("demo__charge", json!({ "ms": 60_000 }));
    assert_eq!(slow["isError"], true);
    let id = slow["structuredContent"]["request_id"].as_str().expect("its id").to_owned();
    assert!(
        ["outcome_unknown", "no_answer"].contains(&slow["structuredContent"]["code"].as_str().unwrap()),
        "a write that may have left is never a plain timeout: {slow}"
    );
    let asked = until("the outcome", || {
        let asked = shim.call("ext_result", json!({ "of": id }));
        (asked["structuredContent"]["code"] != "still_running" && asked["structuredContent"]["code"] != "no_answer")
            .then_some(asked)
    });
    assert_eq!(asked["structuredContent"]["code"], "outcome_unknown", "{asked}");
}

#[test]
fn a_signing_shim_is_believed_and_one_with_another_key_is_not() {
    let config = format!("{CONFIG}\n[groups.signer]\nsigning_key_file = \"signer.key\"\n");
    let mut world = World::builder()
        .config(&config)
        .clock(tests::fakes::real_now())
        .file("signer.key", "the true key of the signer\n")
        .file("other.key", "another key\n")
        .up();
    world.keep_secret("the true key of the signer");
    world.grant("signer", 1);
    let with_key = |name: &str| {
        let path = world.path(name).to_str().unwrap().to_owned();
        Shim::start_with(&world, "signer", &[("EXT_SIGNING_KEY_FILE", path.as_str())])
    };
    let echo = json!({ "provider": "demo", "action": "echo" });
    assert_eq!(with_key("signer.key").call("ext_call", echo.clone())["isError"], false);
    assert_eq!(with_key("other.key").call("ext_call", echo.clone())["structuredContent"]["code"], "bad_signature");
    assert_eq!(Shim::start(&world, "signer").call("ext_call", echo)["structuredContent"]["code"], "bad_signature");
}

#[test]
fn a_dead_host_is_reported_at_once_and_nothing_is_executed_later() {
    let mut world = World::builder().process();
    world.grant("developer", 2);
    let developer = world.group("developer");
    assert_eq!(developer.snapshot()["group"], "developer");
    world.kill();
    // As long dead as a shim needs to be sure.
    let beat = std::fs::File::options().write(true).open(developer.directory().join("host.json")).unwrap();
    let modified = beat.metadata().unwrap().modified().unwrap();
    beat.set_modified(modified - std::time::Duration::from_secs(60)).unwrap();
    let shim = Shim::start(&world, "developer");
    let down = shim.call("demo__charge", json!({}));
    assert_eq!(down["structuredContent"]["code"], "host_down", "{down}");
    assert_eq!(developer.waiting(), 0, "the request was taken back");
    world.start_process();
    assert_eq!(shim.call("demo__charge", json!({}))["isError"], false);
    assert_eq!(world.effects_of("charge").len(), 1);
}

#[test]
fn an_agent_works_on_files_by_their_own_tools() {
    let config = format!("{CONFIG}\n[providers.files]\nkind = \"files\"\n");
    let world = World::builder().config(&config).up();
    let grant = json!({ "type": "grant", "group_folder": "developer", "provider": "files", "access_level": 2 });
    assert_eq!(code(&world.command(grant)), "executed");
    let shim = Shim::start(&world, "developer");
    let names = shim.tool_names();
    for name in shared::names::FILE_TOOLS {
        assert!(names.iter().any(|known| known == name), "{name}: {names:?}");
    }
    assert!(!names.iter().any(|name| name.starts_with("files__")), "no second set: {names:?}");
    let proposed = shim.call("write_file", json!({ "path": "docs/a.md", "content": "a\n" }));
    let id = proposed["structuredContent"]["data"]["hitl"]["hitl_id"].clone();
    assert!(text(&proposed).contains("hitl_required"), "{proposed}");
    let applied = std::thread::scope(|scope| {
        let applied = scope.spawn(|| shim.call("apply_proposal", json!({ "path": "docs/a.md", "hitl_id": id })));
        let approval_request =
            until("the approval request", || world.query("SELECT code FROM approvals WHERE kind = 'file'").pop());
        assert_eq!(
            code(&world.command(json!({ "type": "answer", "code": approval_request["code"], "yes": true }))),
            "executed"
        );
        applied.join().unwrap()
    });
    assert_eq!(applied["isError"], false, "{applied}");
    let read = shim.call("read_file", json!({ "path": "docs/a.md" }));
    assert_eq!(read["structuredContent"]["data"]["data"]["content"], "a\n", "{read}");
}
