//! Conversations: for a group whose operator chose so, the start of an MCP client ends the exposure.

use serde_json::{Value, json};
use tests::group::{Group, call, code, error, with};
use tests::shim::{Shim, text};
use tests::world::{CONFIG, EXPOSING, SCRIPT};
use tests::{World, until};

fn world() -> World {
    let chosen = CONFIG.replace("[groups.developer]", "[groups.developer]\nexposure_ends = \"conversation\"");
    let world = World::builder()
        .config(&chosen)
        .script("demo", &format!("{SCRIPT}\n{EXPOSING}"))
        .file("policy/profiles/developer.toml", "write = \"auto\"\n")
        .up();
    world.grant("developer", 2);
    world.grant("security", 2);
    world
}

fn begin(group: &Group) -> String {
    let reply = group.ask(json!({ "type": "ext_begin" }));
    assert_eq!(code(&reply), "executed", "{reply}");
    assert_eq!(reply["data"]["conversation"], reply["request_id"]);
    reply["request_id"].as_str().unwrap().to_owned()
}

fn of(conversation: &str, document: Value) -> Value {
    with(document, "conversation", conversation)
}

fn exposed(world: &World) -> Vec<String> {
    let rows = world.query("SELECT action FROM exposures WHERE caller = 'group:developer' ORDER BY action");
    rows.iter().map(|row| row["action"].as_str().unwrap().to_owned()).collect()
}

/// Waits until the call waits for a person.
fn waits(world: &World, id: &str) {
    until("the approval request", || {
        let open = world.query("SELECT request_id FROM approvals WHERE state = 'waiting'");
        open.iter().any(|approval| approval["request_id"] == id).then_some(())
    });
}

/// Attack (Order of the stages, and content): An agent continues after its conversation has ended,
/// or names no conversation.
/// Defence: Its requests are refused, and its stored results are deleted.
#[test]
fn a_new_client_begins_without_exposure_and_the_earlier_client_is_refused() {
    let world = world();
    let first = Shim::start(&world, "developer");
    let read = first.call("demo__read_files", json!({}));
    assert_eq!(read["isError"], false, "{read}");
    assert_eq!(first.call("demo__read_mail", json!({}))["isError"], false);
    assert_eq!(exposed(&world), ["read_files", "read_mail"]);

    // Listing tools begins nothing.
    let second = Shim::start(&world, "developer");
    assert!(second.tool_names().contains(&"demo__post".to_owned()));
    assert_eq!(exposed(&world), ["read_files", "read_mail"]);
    assert_eq!(second.call("demo__post", json!({}))["isError"], false);
    assert_eq!(exposed(&world), ["post"]);
    assert_eq!(world.effects_of("post").len(), 1);

    // The results of the earlier conversation are gone, and its client can do nothing more.
    let of = &read["_meta"]["broker/request_id"];
    let result = second.call("ext_result", json!({ "of": of }));
    assert_eq!(result["structuredContent"]["code"], "unknown_request", "{result}");
    for tool in ["demo__echo", "demo__post", "demo__read_mail"] {
        let reply = first.call(tool, json!({}));
        assert_eq!(reply["structuredContent"]["code"], "conversation_ended", "{tool}: {reply}");
    }
    let reply = first.call("ext_result", json!({ "of": of }));
    assert!(text(&reply).contains("Begin a new conversation"), "{reply}");
    assert_eq!((exposed(&world), world.effects_of("post").len()), (vec!["post".to_owned()], 1));

    // The evidence names both conversations.
    let rows = world.rows();
    let begun: Vec<_> = rows.iter().filter(|row| row.kind == "session_reset").collect();
    assert_eq!(begun.len(), 2);
    let last = tests::evidence::body(begun[1]);
    assert_eq!((&last["forgotten"], &last["group"]), (&json!(2), &json!("developer")), "{last}");
}

/// Attack (Order of the stages, and content): A call of an ended conversation gets its approval, or
/// its result, in the next one.
/// Defence: Waiting calls are cancelled. While a call is under way, no conversation begins.
#[test]
fn a_call_and_a_plan_that_wait_for_a_person_end_with_their_conversation() {
    let world = world();
    let developer = world.group("developer");
    let first = begin(&developer);
    for action in ["read_files", "read_mail"] {
        assert_eq!(code(&developer.ask(of(&first, call(action, json!({}))))), "executed");
    }
    let post = developer.send(of(&first, call("post", json!({}))));
    let charge = json!({ "provider": "demo", "action": "charge" });
    let plan = developer.send(of(&first, json!({ "type": "ext_plan", "reason": "x", "calls": [charge, charge] })));
    waits(&world, &post);
    waits(&world, &plan);
    // A request for its result waits, too, and holds nothing up.
    let result = developer.send(of(&first, json!({ "type": "ext_result", "of": post })));
    let codes = world.query("SELECT code FROM approvals");
    let second = begin(&developer);
    for id in [&post, &plan] {
        assert_eq!(code(&developer.reply(id)), "cancelled");
    }
    let result = developer.reply(&result);
    assert!(["cancelled", "conversation_ended"].contains(&code(&result)), "{result}");
    for asked in codes {
        let late = world.command(json!({ "type": "answer", "code": asked["code"], "yes": true, "reason": null }));
        assert_eq!(code(&late), "approval_expired", "{late}");
    }
    assert_eq!(code(&developer.ask(of(&second, call("echo", json!({}))))), "executed");
    assert_eq!((world.effects_of("post").len(), world.effects_of("charge").len()), (0, 0));
}

/// Attack: see `a_call_and_a_plan_that_wait_for_a_person_end_with_their_conversation`.
#[test]
fn a_conversation_begins_only_when_no_call_of_the_earlier_one_is_under_way() {
    let world = world();
    let developer = world.group("developer");
    let first = begin(&developer);
    let slow = developer.send(of(&first, call("charge", json!({ "ms": 1500 }))));
    until("the call runs", || (!world.query("SELECT seq FROM open_intents").is_empty()).then_some(()));
    let refused = developer.ask(json!({ "type": "ext_begin" }));
    assert_eq!(code(&refused), "busy", "{refused}");
    // A client waits.
    let shim = Shim::start(&world, "developer");
    assert_eq!(shim.call("demo__echo", json!({}))["isError"], false);
    assert_eq!(code(&developer.reply(&slow)), "executed");
    assert_eq!(code(&developer.ask(of(&first, call("echo", json!({}))))), "conversation_ended");
}

/// Attack: see `a_new_client_begins_without_exposure_and_the_earlier_client_is_refused`.
#[test]
fn a_request_without_the_present_conversation_is_refused() {
    let mut world = world();
    let developer = world.group("developer");
    let asks = |conversation: Option<&str>, document: Value| match conversation {
        Some(conversation) => developer.ask(of(conversation, document)),
        None => developer.ask(document),
    };
    let documents = [
        call("post", json!({})),
        call("read_files", json!({})),
        json!({ "type": "ext_result", "of": "r1" }),
        json!({ "type": "ext_capabilities" }),
        json!({ "type": "ext_plan", "reason": "x", "calls": [{ "provider": "demo", "action": "echo" },
            { "provider": "demo", "action": "echo" }] }),
    ];
    let refuses = |present: Option<&str>| {
        for document in &documents {
            assert_eq!(code(&asks(None, document.clone())), "no_conversation", "{document}");
            assert_eq!(code(&asks(Some("never-begun"), document.clone())), "conversation_ended", "{document}");
        }
        if let Some(present) = present {
            assert_eq!(code(&asks(Some(present), call("echo", json!({})))), "executed");
        }
    };
    refuses(None);
    let present = begin(&developer);
    refuses(Some(&present));
    assert_eq!(code(&asks(Some("not an id"), call("echo", json!({})))), "malformed_request");
    assert_eq!(code(&developer.ask(with(call("echo", json!({})), "conversation", 7))), "malformed_request");
    // A conversation outlives the host.
    world.restart();
    refuses(Some(&present));
    assert_eq!((exposed(&world), world.effects_of("post").len()), (Vec::new(), 0));
    // A begin that is sent again is answered with the same reply.
    let before = world.query("SELECT seq FROM ledger WHERE kind = 'session_reset'");
    let again = developer.ask(json!({ "type": "ext_begin", "request_id": present }));
    assert_eq!(again["evidence"]["seq"], before[0]["seq"], "{again}");
    assert_eq!(world.query("SELECT seq FROM ledger WHERE kind = 'session_reset'"), before);
    assert_eq!(code(&asks(Some(&present), call("echo", json!({})))), "executed");

    // The command line has a process for each request, so it begins none.
    let said = tests::shim::told(&world, "developer", &["call", "demo", "echo"]);
    assert!(String::from_utf8_lossy(&said.stdout).contains("no_conversation"), "{said:?}");
}

/// Attack: see `exposure_outlives_the_daemon_and_ends_only_on_the_host`.
#[test]
fn a_group_without_conversations_cannot_begin_one() {
    let world = world();
    let security = world.group("security");
    assert_eq!(code(&security.call("read_files", json!({}))), "executed");
    let refused = security.ask(json!({ "type": "ext_begin" }));
    assert_eq!(code(&refused), "action_denied", "{refused}");
    assert!(error(&refused).contains("does not end with a conversation"), "{refused}");
    assert_eq!(world.query("SELECT action FROM exposures WHERE caller = 'group:security'").len(), 1);
    // The member is ignored there, so a shim may always name its conversation.
    assert_eq!(code(&security.ask(of("some", call("echo", json!({}))))), "executed");
}

#[test]
fn a_conversation_goes_on_over_files_and_ends_with_an_operators_reset() {
    let world = world();
    let by_files = [("EXT_TRANSPORT", "files")];
    let first = Shim::start_with(&world, "developer", &by_files);
    for tool in ["demo__read_files", "demo__echo"] {
        assert_eq!(first.call(tool, json!({}))["isError"], false, "{tool}");
    }
    assert_eq!(exposed(&world), ["read_files"]);
    assert_eq!(code(&world.command(json!({ "type": "reset_session", "group": "developer" }))), "executed");
    let refused = first.call("demo__echo", json!({}));
    assert_eq!(refused["structuredContent"]["code"], "conversation_ended", "{refused}");
    let second = Shim::start_with(&world, "developer", &by_files);
    assert_eq!(second.call("demo__echo", json!({}))["isError"], false);
}

#[test]
fn many_calls_and_clients_at_once_have_one_conversation_at_a_time() {
    let world = world();
    let [first, second] = [(); 2].map(|()| Shim::start(&world, "developer"));
    std::thread::scope(|scope| {
        for shim in [&first, &second] {
            for _ in 0..8 {
                scope.spawn(|| {
                    let reply = shim.call("demo__echo", json!({}));
                    let code = &reply["structuredContent"]["code"];
                    assert!(reply["isError"] == false || code == "conversation_ended", "{reply}");
                });
            }
        }
    });
    let begun = world.query("SELECT seq FROM ledger WHERE kind = 'session_reset'");
    assert_eq!(begun.len(), 2, "one for each client: {begun:?}");
    let ended = |shim: &Shim| shim.call("demo__echo", json!({}))["structuredContent"]["code"] == "conversation_ended";
    assert_ne!(ended(&first), ended(&second));
}

#[test]
fn an_idempotency_key_and_a_standing_approval_bring_nothing_into_the_next_conversation() {
    let world = world();
    let developer = world.group("developer");
    let keyed = || with(call("charge", json!({ "n": 1 })), "idempotency_key", "k1");
    let first = begin(&developer);
    for action in ["read_files", "read_mail"] {
        assert_eq!(code(&developer.ask(of(&first, call(action, json!({}))))), "executed");
    }
    let id = developer.send(of(&first, keyed()));
    waits(&world, &id);
    let asked = &world.query("SELECT code FROM approvals")[0];
    let standing = json!({ "for_s": 3600, "session": true, "trifecta": true });
    let yes = json!({ "type": "answer", "code": asked["code"], "yes": true, "reason": null, "standing": standing });
    assert_eq!(code(&world.command(yes)), "executed");
    assert_eq!(code(&developer.reply(&id)), "executed");
    let second = begin(&developer);
    let again = developer.ask(of(&second, keyed()));
    assert_ne!(code(&again), "executed", "{again}");
    assert_eq!(again.get("data"), None, "{again}");
    assert_eq!(world.effects_of("charge").len(), 1);
    assert!(world.query("SELECT id FROM standing_approvals WHERE ended_at IS NULL").is_empty());
}
