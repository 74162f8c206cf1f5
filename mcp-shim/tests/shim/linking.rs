//! Accounts of persons are linked, by a model and by a script.

use super::harness::{Era, World, printed, snapshot, text};
use serde_json::{Value, json};

const FLOW: &str = "caf_gog.email_0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a";
const LINKING: [&str; 5] = ["ext_auth_begin", "ext_auth_complete", "ext_auth_poll", "ext_auth_list", "ext_auth_unlink"];

/// A host with a capability whose accounts can be linked.
fn world() -> World {
    let world = World::with_snapshot();
    let action = |level| json!({"level": level, "description": "x", "status": "available"});
    let actions = json!({
        "send": action(2), "auth_begin": action(2), "auth_complete": action(2), "auth_poll": action(1),
        "auth_list": action(1), "auth_unlink": action(2),
    });
    let mut snapshot = snapshot();
    let capabilities = snapshot["capabilities"].as_array_mut().unwrap();
    capabilities.push(json!({"provider": "gog.email", "access_level": 2, "timeout_ms": 90_000, "actions": actions}));
    world.snapshot(&snapshot);
    world
}

#[test]
fn an_agent_finds_the_tools_where_accounts_can_be_linked_and_nothing_twice() {
    let names = world().client(Era::Stateless).tool_names();
    assert!(LINKING.iter().all(|name| names.iter().any(|listed| listed == name)), "{names:?}");
    let typed: Vec<_> = names.iter().filter(|name| name.starts_with("gog_email__")).collect();
    assert_eq!(typed, ["gog_email__send"]);
    let names = world().argument("--no-action-tools").client(Era::Stateless).tool_names();
    assert_eq!(names.len(), 5 + LINKING.len(), "{names:?}");
    let names = World::with_snapshot().client(Era::Stateless).tool_names();
    assert!(!names.iter().any(|name| name.starts_with("ext_auth_")), "{names:?}");
}

#[test]
fn each_tool_is_the_request_of_its_name_and_the_host_decides() {
    let begin = json!({"capability": "gog.email", "account_hint": "work"});
    let account = json!({"capability": "gog.email", "account_ref": "work"});
    // Not being listed is no refusal: the host of the second knows no such capability, and says so itself.
    for (world, timeout) in [(world(), 90_000), (World::with_snapshot(), 30_000)] {
        let mut client = world.client(Era::Handshake("2025-11-25"));
        for (tool, arguments, is_told) in [
            ("ext_auth_begin", &begin, true),
            ("ext_auth_complete", &json!({"flow_id": FLOW, "code": "4/x"}), true),
            ("ext_auth_poll", &json!({"flow_id": FLOW}), true),
            ("ext_auth_list", &json!({"capability": "gog.email"}), false),
            ("ext_auth_unlink", &account, false),
        ] {
            let id = client.call(tool, arguments.clone());
            let request = world.take();
            assert_eq!(request["type"], tool);
            for (member, value) in arguments.as_object().unwrap() {
                assert_eq!(&request[member], value);
            }
            assert_eq!(request["timeout_ms"].as_u64(), is_told.then_some(timeout), "{tool}");
            world.reply(&request, json!({"status": "executed", "data": {"flow_id": FLOW}}));
            assert!(text(&client.result(id)).contains(FLOW));
        }
        let calls = client.request("resources/read", json!({"uri": "broker://calls"}));
        let calls = calls["result"]["contents"][0]["text"].as_str().unwrap().to_owned();
        assert!(calls.contains("ext_auth_complete") && calls.contains("gog.email"), "{calls}");
        assert!(!calls.contains("4/x") && !calls.contains(FLOW), "{calls}");
    }
}

#[test]
fn a_script_reads_the_members_of_the_result_at_the_top() {
    let url = "http://localhost/?state=s&code=4/x";
    let begun = json!({"flow_id": FLOW, "auth_url": "https://a/o?state=s", "expires_at": "2026-02-14T10:10:00.000Z"});
    let complete = |way, value| ["complete", "--flow-id", FLOW, way, value];
    for (words, request, data) in [
        (
            ["begin", "--capability", "gog.email", "--account", "work"].as_slice(),
            json!({"type": "ext_auth_begin", "capability": "gog.email", "account_hint": "work", "timeout_ms": 90_000}),
            begun,
        ),
        (
            &complete("--callback-url", url),
            json!({"type": "ext_auth_complete", "flow_id": FLOW, "callback_url": url, "timeout_ms": 90_000}),
            json!({"account_ref": "work"}),
        ),
        (
            &complete("--code", "4/x"),
            json!({"type": "ext_auth_complete", "flow_id": FLOW, "code": "4/x", "timeout_ms": 90_000}),
            json!({"account_ref": "work"}),
        ),
        (
            &["poll", "--flow-id", FLOW],
            json!({"type": "ext_auth_poll", "flow_id": FLOW, "timeout_ms": 90_000}),
            json!({"status": "pending"}),
        ),
        (
            &["list", "--capability", "gog.email"],
            json!({"type": "ext_auth_list", "capability": "gog.email"}),
            json!({"accounts": ["work"]}),
        ),
        (
            &["unlink", "--capability", "gog.email", "--account", "work"],
            json!({"type": "ext_auth_unlink", "capability": "gog.email", "account_ref": "work"}),
            json!({"unlinked": true}),
        ),
    ] {
        let world = world();
        let child = world.run(&[&["capability", "auth"], words].concat());
        let mut sent = world.take();
        world.reply(&sent, json!({"status": "executed", "data": data, "summary": "Done.", "notices": []}));
        let mut expected = data;
        expected["ok"] = json!(true);
        expected["request_id"] = sent["request_id"].clone();
        assert_eq!(printed(child), (Some(0), expected, String::new()), "{words:?}");
        sent.as_object_mut().unwrap().retain(|member, _| !["request_id", "timestamp"].contains(&member.as_str()));
        assert_eq!(sent, request);
    }
}

#[test]
fn a_refused_link_is_printed_like_any_other_refusal() {
    for (status, code) in [("denied", 3), ("pending", 4), ("failed", 5), ("timeout", 6)] {
        let world = world();
        let child = world.run(&["capability", "auth", "complete", "--flow-id", FLOW, "--code", "4/x"]);
        let request = world.take();
        world.reply(&request, json!({"status": status, "code": "of_tomorrow", "error": "Because. Do this."}));
        let (ended, object, stderr) = printed(child);
        assert_eq!((ended, stderr.as_str()), (Some(code), "mcp-shim: Because. Do this.\n"), "{status}");
        let expected = [json!(false), json!(status), json!("of_tomorrow"), json!("Because. Do this.")];
        assert_eq!(["ok", "status", "code", "error"].map(|member| object[member].clone()), expected);
    }
}

#[test]
fn wrong_linking_commands_send_nothing_and_repeat_neither_code_nor_address() {
    let world = world();
    let (code, url) = ("hunter2", "http://localhost/?code=hunter2");
    for (words, fault) in [
        (["complete", "--flow-id", FLOW].as_slice(), "exactly one of --callback-url and --code is needed"),
        (
            &["complete", "--flow-id", FLOW, "--code", code, "--callback-url", url],
            "exactly one of --callback-url and --code is needed",
        ),
        (&["complete", "--flow-id", FLOW, "--callback-url=http://localhost/?code=hunter2"], "takes --flow-id, "),
        (&["complete", "--flow-id", url, "--code", code], "not a valid flow_id"),
        (&["complete", "--flow-id", code, "--callback-url", url], "not a valid flow_id"),
        (&["complete", url], "takes --flow-id, "),
        (&[url], "takes begin, "),
        (&["poll", "--flow-id", code], "not a valid flow_id"),
        (&["begin", "--capability", url], "not a valid provider"),
        (&["unlink", "--capability", "gog.email", "--account", url], "not a valid account_ref"),
    ] {
        let (ended, object, stderr) = printed(world.run(&[&["capability", "auth"], words].concat()));
        assert_eq!((ended, stderr.lines().count()), (Some(2), 1), "{words:?}: {stderr}");
        assert!(stderr.contains(fault), "{words:?}: {stderr}");
        assert!(object == Value::Null || object["ok"] == false, "{object}");
        let said = format!("{stderr}{object}");
        assert!(!said.contains("hunter2") && !said.contains("localhost"), "{said}");
    }
    assert!(world.tasks().is_empty());
}
