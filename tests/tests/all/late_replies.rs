//! Replies that leave after their call is over: only to a caller that may have the result at that moment.

use serde_json::json;
use tests::group::{call, code, with};
use tests::{World, until};

/// Attack (Approvals and notices): a result leaves after a kill switch or a narrower grant: asked
/// for, repeated, not written in time, or left by an earlier daemon
/// Defence: each late reply passes the steps of the decision up to the lists
#[test]
fn a_stored_result_is_given_again_only_as_far_as_the_access_still_goes() {
    let mut world = World::with_grant();
    let developer = world.group("developer");
    let request = with(call("echo", json!({ "n": 1 })), "request_id", "same");
    let result = json!({ "type": "ext_result", "of": "same" });
    assert_eq!(developer.ask(request.clone())["data"], json!({ "n": 1 }));
    let collected = developer.send(result.clone());
    assert_eq!(code(&developer.reply(&collected)), "executed");
    let all = |expected: &str| {
        assert_eq!(code(&developer.ask(request.clone())), expected, "the same request");
        assert_eq!(code(&developer.ask(result.clone())), expected, "its result");
        let again = developer.ask(json!({ "type": "ext_result", "of": collected }));
        assert_eq!(code(&again), expected, "what the request for its result was answered");
    };
    world.grant_with("developer", 1, json!({ "denied_actions": ["echo"] }));
    all("action_denied");
    world.grant_with("developer", 1, json!({ "allowed_actions": ["wait"] }));
    all("action_not_allowed");
    world.grant_with("developer", 1, json!({ "chat_types": ["private"] }));
    all("context_token_missing");
    world.grant_with("developer", 1, json!({ "allowed_actions": ["echo"] }));
    all("executed");
    // A write is not given again to who may only read.
    world.grant("developer", 2);
    let written = developer.send(call("charge", json!({})));
    assert_eq!(code(&developer.reply(&written)), "executed");
    let of_the_write = json!({ "type": "ext_result", "of": written });
    world.grant("developer", 1);
    assert_eq!(code(&developer.ask(of_the_write.clone())), "level_too_low");
    world.grant("developer", 2);
    assert_eq!(code(&developer.ask(of_the_write)), "executed");
    world.rewrite("policy/profiles/developer.toml", "[providers.demo]\nactions = { echo = \"off\" }\n");
    world.restart();
    all("action_denied");
}

/// A result that cannot be written, because there is no `responses/`; its request.
fn unwritten(world: &World) -> String {
    let developer = world.group("developer").by_files();
    developer.remove_responses();
    let id = developer.send(call("echo", json!({ "text": "the result" })));
    until("its outcome", || world.kinds_of(&developer, &id).contains(&"succeeded".to_owned()).then_some(()));
    id
}

/// Attack: see `a_stored_result_is_given_again_only_as_far_as_the_access_still_goes`.
#[test]
fn a_reply_that_could_not_be_written_is_not_handed_over_after_a_kill() {
    let world = World::with_grant();
    let developer = world.group("developer").by_files();
    let id = unwritten(&world);
    world.command(json!({ "type": "kill", "scope": { "group": "developer" }, "on": true }));
    std::fs::create_dir(developer.directory().join("responses")).unwrap();
    let line = format!("id={id}");
    until("the reply is withheld", || {
        assert_eq!(developer.try_reply(&id), None, "it is handed over");
        tests::logs::read(|log| {
            String::from_utf8_lossy(log).lines().any(|entry| entry.contains("withheld") && entry.contains(&line))
        })
        .then_some(())
    });
    let result = json!({ "type": "ext_result", "of": id });
    assert_eq!(code(&developer.ask(result.clone())), "kill_switch");
    world.command(json!({ "type": "kill", "scope": { "group": "developer" }, "on": false }));
    assert_eq!(developer.ask(result)["data"], json!({ "text": "the result" }));
}

/// Attack: see `a_stored_result_is_given_again_only_as_far_as_the_access_still_goes`.
#[test]
fn a_reply_from_before_a_restart_is_not_handed_over_under_a_narrower_grant() {
    let mut world = World::with_grant();
    let developer = world.group("developer");
    let id = unwritten(&world);
    let (of_the_result, n) = (json!({ "type": "ext_result", "of": id }), json!({ "text": "the result" }));
    world.grant_with("developer", 1, json!({ "denied_actions": ["echo"] }));
    world.restart();
    // Replies that are delivered again at a start leave before the answer to a later request.
    assert_eq!(code(&developer.ask(of_the_result.clone())), "action_denied");
    assert_eq!(developer.names("responses"), [""; 0]);
    world.grant("developer", 1);
    assert_eq!(developer.ask(of_the_result)["data"], n);
}

#[test]
fn a_reply_from_before_a_restart_is_handed_over_where_the_access_is_as_it_was() {
    let mut world = World::with_grant();
    let id = unwritten(&world);
    world.restart();
    assert_eq!(world.group("developer").reply(&id)["data"], json!({ "text": "the result" }));
}
