//! The messages of a client in every revision, and the answers.

use super::harness::{ERAS, Era, World, snapshot, text};
use serde_json::{Value, json};

#[test]
fn every_revision_lists_and_calls() {
    for era in ERAS {
        let world = World::with_snapshot();
        let mut client = world.start();
        let greeting = client.begin(era);
        if let Era::Handshake(version) = era {
            assert_eq!(greeting["protocolVersion"], version);
        } else {
            assert!(greeting["supportedVersions"].as_array().unwrap().contains(&json!("2026-07-28")));
        }
        assert_eq!(greeting["instructions"].as_str().unwrap().lines().count(), 10);
        assert!(client.tool_names().contains(&"github__list_issues".to_owned()));
        let id =
            client.call("ext_call", json!({"provider": "github", "action": "list_issues", "params": {"repo": "a"}}));
        let request = world.take();
        assert_eq!((&request["type"], &request["params"]), (&json!("ext_call"), &json!({"repo": "a"})));
        world.reply(&request, json!({"status": "executed", "data": [1], "summary": "One."}));
        let result = client.result(id);
        assert_eq!((text(&result), &result["isError"]), ("[\n  1\n]", &json!(false)));
        assert_eq!(result["structuredContent"]["data"], json!([1]));
        let (status, stderr) = client.ended();
        assert!(status.success() && stderr.is_empty(), "{status} {stderr}");
    }
}

#[test]
fn an_actions_own_tool_is_the_same_call() {
    let world = World::with_snapshot();
    let mut client = world.client(Era::Handshake("2025-11-25"));
    let id = client.call("github__deploy", json!({"task_id": "gov-1", "idempotency_key": "k", "ref": "main"}));
    let request = world.take();
    assert_eq!((&request["provider"], &request["action"]), (&json!("github"), &json!("deploy")));
    assert_eq!((&request["task_id"], &request["idempotency_key"]), (&json!("gov-1"), &json!("k")));
    assert_eq!(request["params"], json!({"ref": "main"}));
    world.reply(&request, json!({"status": "executed", "data": "ok"}));
    assert_eq!(text(&client.result(id)), "ok");
}

#[test]
fn action_tools_can_be_switched_off() {
    let world = World::with_snapshot().argument("--no-action-tools");
    let names = world.client(Era::Stateless).tool_names();
    assert_eq!(names, ["ext_call", "ext_capabilities", "ext_result", "ext_cancel", "ext_plan"]);
}

#[test]
fn a_list_of_tools_is_private_portable_and_annotated() {
    let world = World::with_snapshot();
    let mut client = world.client(Era::Stateless);
    let id = client.ask("tools/list", json!({}));
    let result = client.result(id);
    assert_eq!((&result["cacheScope"], &result["ttlMs"]), (&json!("private"), &json!(0)));
    for tool in result["tools"].as_array().unwrap() {
        assert_eq!(tool["inputSchema"]["type"], "object", "{tool}");
        assert_portable(&tool["inputSchema"]);
        assert!(tool.get("outputSchema").is_none(), "{tool}");
        assert!(!tool["_meta"].to_string().contains("outputSchema"), "ext_capabilities shows it: {tool}");
        for hint in ["readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"] {
            assert!(tool["annotations"][hint].is_boolean(), "{tool}");
        }
    }
}

fn assert_portable(schema: &Value) {
    if let Some(properties) = schema.get("properties") {
        for property in properties.as_object().unwrap().values() {
            assert!(property.is_object() && !property["type"].is_array(), "{property}");
            assert!(!property["format"].as_str().is_some_and(|format| format.contains("int")), "{property}");
            assert_portable(property);
        }
    }
}

#[test]
fn a_handshake_client_hears_that_its_tools_changed() {
    let world = World::with_snapshot();
    let mut client = world.client(Era::Handshake("2025-06-18"));
    assert!(client.tool_names().contains(&"github__list_issues".to_owned()));
    let mut changed = snapshot();
    changed["capabilities"] = json!([]);
    world.snapshot(&changed);
    client.notification("notifications/tools/list_changed");
    assert!(!client.tool_names().contains(&"github__list_issues".to_owned()));
    let gone = client.request("tools/call", json!({"name": "github__list_issues", "arguments": {"repo": "a"}}));
    assert_eq!(gone["error"]["message"], "Unknown tool: github__list_issues");
    assert!(gone["error"]["data"]["remedy"].as_str().unwrap().contains("ext_capabilities"), "{gone}");
}

#[test]
fn a_stateless_client_hears_it_through_its_subscription() {
    let world = World::new();
    let mut client = world.client(Era::Stateless);
    let listen = client.ask("subscriptions/listen", json!({"notifications": {"toolsListChanged": true}}));
    client.notification("notifications/subscriptions/acknowledged");
    world.snapshot(&snapshot());
    let note = client.notification("notifications/tools/list_changed");
    assert_eq!(note["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"], listen);
    assert!(client.tool_names().contains(&"github__list_issues".to_owned()));
}

#[test]
fn a_handshake_that_names_a_later_revision_is_agreed_down_and_stays_so() {
    let world = World::new();
    let mut client = world.start();
    for _ in 0..2 {
        let greeting = client.begin(Era::Handshake("2026-07-28"));
        assert_eq!(greeting["protocolVersion"], "2025-11-25");
        let ping = client.request("ping", json!({}));
        assert!(ping.get("result").is_some(), "{ping}");
    }
}

#[test]
fn a_notification_before_the_greeting_does_no_harm() {
    for early in ["notifications/initialized", "notifications/cancelled", "notifications/whatever"] {
        let world = World::new();
        let mut client = world.start();
        client.send(&json!({"jsonrpc": "2.0", "method": early, "params": {"requestId": 1}}));
        client.send_line("no JSON at all");
        client.begin(Era::Handshake("2025-11-25"));
        assert_eq!(client.tool_names().len(), 5);
    }
}

#[test]
fn methods_and_tools_that_are_not_offered_are_unknown() {
    for era in ERAS {
        let world = World::new();
        let mut client = world.client(era);
        let complete = json!({"ref": {"type": "ref/prompt", "name": "x"}, "argument": {"name": "x", "value": ""}});
        for (method, params) in
            [("prompts/list", json!({})), ("prompts/get", json!({"name": "x"})), ("completion/complete", complete)]
        {
            assert_eq!(client.request(method, params)["error"]["code"], -32601, "{method}");
        }
        for name in ["ext_nothing", "github__nothing", "read_file", ""] {
            let error = client.request("tools/call", json!({"name": name}))["error"].clone();
            let told = (&error["code"], &error["message"]);
            assert_eq!(told, (&json!(-32602), &json!(format!("Unknown tool: {name}"))));
        }
        assert_eq!(client.request("tools/call", json!({"name": 5}))["error"]["code"], -32602);
    }
}

#[test]
fn an_id_that_is_in_use_is_not_used_twice() {
    let world = World::with_snapshot();
    let mut client = world.client(Era::Handshake("2025-11-25"));
    let call = json!({"jsonrpc": "2.0", "id": 77, "method": "tools/call", "params":
        {"name": "github__list_issues", "arguments": {"repo": "a"}}});
    client.send(&call);
    client.send(&call);
    let complaint = client.next(|message| message.get("error").is_some());
    assert!(complaint.get("id").is_none_or(Value::is_null), "{complaint}");
    let request = world.take();
    world.reply(&request, json!({"status": "executed", "data": "once"}));
    assert_eq!(text(&client.result(77)), "once");
    assert!(world.tasks().is_empty());
    // Answered, so the id is free again.
    client.send(&call);
    let request = world.take();
    world.reply(&request, json!({"status": "executed", "data": "again"}));
    assert_eq!(text(&client.result(77)), "again");
}

#[test]
fn a_line_that_is_too_long_is_answered_and_forgotten() {
    let world = World::with_snapshot();
    let mut client = world.client(Era::Handshake("2025-11-25"));
    let long = "x".repeat(mcp_shim::transport::LINE_BYTES_MAX);
    client.call("ext_call", json!({"provider": "github", "action": "a", "params": {"x": long}}));
    let complaint = client.next(|message| message.get("error").is_some());
    assert!(complaint["error"]["message"].as_str().unwrap().contains("too long"), "{complaint}");
    assert!(client.request("ping", json!({})).get("result").is_some());
    assert!(world.tasks().is_empty());
}

#[test]
fn a_request_that_cannot_be_read_is_answered_under_its_id() {
    let world = World::with_snapshot();
    let mut client = world.client(Era::Handshake("2025-11-25"));
    let call = |arguments: &str| {
        format!(
            r#"{{"jsonrpc":"2.0","id":77,"method":"tools/call","params":{{"name":"ext_call","arguments":{arguments}}}}}"#
        )
    };
    let deep = call(&format!("{}{}", "[".repeat(1000), "]".repeat(1000)));
    for (line, code, why) in [
        // The result of JavaScript for a text that was cut in the middle of an emoji.
        (call(r#"{"provider": "github", "action": "a", "params": {"x": "\ud83d"}}"#), -32602, "hex escape"),
        (call(r#"{"x": 1e400}"#), -32602, "out of range"),
        (deep, -32602, "recursion"),
        (
            r#"{"jsonrpc":"2.0","id":77,"method":"tools/call","params":["secret"]}"#.to_owned(),
            -32602,
            "not one of this protocol",
        ),
    ] {
        client.send_line(line);
        let error = client.answer(77)["error"].clone();
        let said = error["message"].as_str().unwrap();
        assert_eq!(error["code"], code, "{error}");
        assert!(said.contains(why) && !said.contains("secret"), "{said}");
    }
    // Under the id of a call that is waited for, the error would look like that call's answer.
    let id = client.call("github__list_issues", json!({"repo": "a"}));
    let request = world.take();
    client.send_line(call(r#"{"x": 1e400}"#).replace("77", &id.to_string()));
    let complaint = client.next(|message| message.get("error").is_some());
    assert!(complaint.get("id").is_none_or(Value::is_null), "{complaint}");
    world.reply(&request, json!({"status": "executed", "data": "true one"}));
    assert_eq!(text(&client.result(id)), "true one");
    // Nobody waits for an answer to these.
    for line in ["", "\r", r#"{"jsonrpc":"2.0","method":"notifications/x","params":1e400}"#] {
        client.send_line(line);
    }
    let id = client.ask("ping", json!({}));
    let next = client.next(|_| true);
    assert_eq!(next["id"], id, "{next}");
    assert!(world.tasks().is_empty());
}

#[test]
fn a_request_that_the_host_would_not_read_is_not_sent() {
    let world = World::with_snapshot();
    let mut client = world.client(Era::Handshake("2025-11-25"));
    let long = "x".repeat(shared::limits::REQUEST_BYTES_MAX);
    let id = client.call("ext_call", json!({"provider": "github", "action": "a", "params": {"x": long}}));
    assert_eq!(client.result(id)["structuredContent"]["code"], "oversized_request");
}

#[test]
fn faulty_arguments_are_a_result_that_a_model_can_read() {
    let world = World::with_snapshot();
    let mut client = world.client(Era::Stateless);
    for (arguments, fault) in [
        (json!({"provider": "github"}), "missing field `action`"),
        (json!({"provider": "", "action": "a"}), "not a valid provider"),
        (json!({"provider": "github", "action": "a", "params": "{\"repo\":1}"}), "`params` is a string"),
        (json!({"provider": "github", "action": "a", "repo": 1}), "unknown field `repo`"),
        (json!({"provider": "github", "action": "a", "context_token": "x"}), "unknown field `context_token`"),
    ] {
        let id = client.call("ext_call", arguments);
        let result = client.result(id);
        assert_eq!(
            (&result["isError"], &result["structuredContent"]["code"]),
            (&json!(true), &json!("invalid_params"))
        );
        assert!(text(&result).contains(fault), "{result}");
    }
    let id = client.call(
        "ext_call",
        json!({"provider": "github", "action": "a", "params": null, "task_id": null, "dry_run": null}),
    );
    assert_eq!(world.take()["params"], json!({}));
    client.send(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}}));
}

#[test]
fn resources_show_capabilities_and_calls() {
    for era in ERAS {
        let world = World::with_snapshot();
        let mut client = world.client(era);
        let id = client.call("github__list_issues", json!({"repo": "secret-name"}));
        let request = world.take();
        world.reply(&request, json!({"status": "denied", "error": "No.", "code": "no_grant"}));
        client.result(id);
        let uris: Vec<Value> = client.request("resources/list", json!({}))["result"]["resources"]
            .as_array()
            .unwrap()
            .iter()
            .map(|resource| resource["uri"].clone())
            .collect();
        assert_eq!(uris, ["broker://capabilities", "broker://calls"]);
        let mut read = |uri: &str| client.request("resources/read", json!({"uri": uri}));
        let parsed = |answer: &Value| -> Value {
            serde_json::from_str(answer["result"]["contents"][0]["text"].as_str().unwrap()).unwrap()
        };
        assert_eq!(parsed(&read("broker://capabilities")), snapshot());
        let calls = read("broker://calls");
        assert_eq!(parsed(&calls)["calls"][0]["request_id"], request["request_id"]);
        assert_eq!(parsed(&calls)["calls"][0]["code"], "no_grant");
        assert!(!calls.to_string().contains("secret-name"));
        assert!(read("broker://nothing")["error"]["code"].is_number());
    }
}

#[test]
fn capabilities_without_a_snapshot_say_whom_to_ask() {
    let world = World::new();
    let mut client = world.client(Era::Stateless);
    let id = client.call("ext_capabilities", json!({}));
    let result = client.result(id);
    assert!(text(&result).starts_with("No external capabilities configured. Ask"), "{result}");
    assert_eq!(result["isError"], false);
    world.snapshot(&snapshot());
    let mut list = |arguments: Value| {
        let id = client.call("ext_capabilities", arguments);
        let result = client.result(id);
        let listed = result["structuredContent"].clone();
        if result["isError"] == false {
            assert_eq!(text(&result), listed.to_string(), "the text is the same, and has no white space");
        }
        listed
    };
    let summary = json!({
        "provider": "github", "access_level": 2, "actions": {"L1": 1, "L2": 1, "L3": 2},
        "available": ["list_issues"], "needs_approval": ["create_issue"], "needs_gate": ["deploy"], "unavailable": 1,
    });
    let whole = list(json!({"provider": null}));
    assert_eq!((&whole["capabilities"], &whole["group"]), (&json!([summary]), &json!("developer")));
    assert_eq!(whole.get("providers_available"), None, "it has no more than it was granted");
    let github = list(json!({"provider": "github"}));
    let (actions, kept) = (&github["actions"], &snapshot()["capabilities"][0]["actions"]);
    assert_eq!(actions["list_issues"]["input_schema"], kept["list_issues"]["input_schema"]);
    let create = json!({"level": 2, "status": "needs_approval", "description": "Create an issue"});
    assert_eq!((&actions["create_issue"], &github["DENIED"]), (&create, &json!(["merge_pr"])));
    assert_eq!(actions.get("merge_pr"), None);
    let one = list(json!({"provider": "github", "action": "list_issues"}));
    assert_eq!((&one["output_schema"], &one["tier"]), (&json!({"type": "array"}), &json!("auto")));
    for (arguments, code) in [
        (json!({"provider": "gitlab"}), "no_grant"),
        (json!({"provider": "github", "action": "nothing"}), "unknown_action"),
        (json!({"action": "list_issues"}), "invalid_params"),
        (json!({"providers": "github"}), "invalid_params"),
        (json!({"provider": 5}), "invalid_params"),
    ] {
        assert_eq!(list(arguments.clone())["code"], code, "{arguments}");
    }
    world.write("ext_capabilities.json", "{");
    let id = client.call("ext_capabilities", json!({}));
    assert_eq!(client.result(id)["isError"], true);
}

#[test]
fn nothing_is_ever_logged() {
    let world = World::with_snapshot().set("RUST_LOG", "trace").set("RUST_BACKTRACE", "1");
    let mut client = world.client(Era::Handshake("2025-11-25"));
    let id = client.call("github__list_issues", json!({"repo": "hunter2"}));
    let request = world.take();
    world.reply(&request, json!({"status": "executed", "data": 1}));
    client.result(id);
    let (status, stderr) = client.ended();
    assert!(status.success());
    assert_eq!(stderr, "");
}
