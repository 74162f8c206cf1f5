//! The same request again, the same call again, and questions about earlier calls.

use serde_json::{Value, json};
use std::time::Duration;
use tests::group::{call, code, with};
use tests::{World, until};

const LONG: Duration = Duration::from_secs(24 * 3600 + 1);

#[test]
fn a_repeat_of_a_settled_request_gets_the_stored_reply_and_executes_nothing() {
    let mut world = World::with_grant();
    let developer = world.group("developer");
    let request = with(call("charge", json!({ "n": 1 })), "request_id", "same");
    let first = developer.ask(request.clone());
    assert_eq!(code(&first), "executed");
    for _ in 0..3 {
        assert_eq!(developer.ask(request.clone()), first);
    }
    // Members of the envelope are no part of what is asked.
    assert_eq!(developer.ask(with(request.clone(), "timestamp", "2026-02-14T10:00:00Z")), first);
    world.restart();
    assert_eq!(developer.ask(request), first);
    assert_eq!(world.effects_of("charge"), ["same"]);
    let kinds = world.kinds_of(&developer, "same");
    assert_eq!(kinds, ["intended", "succeeded", "repeated", "repeated", "repeated", "repeated", "repeated"]);
}

/// Attack (Approvals and notices): A caller repeats a request to get its result: from another chat,
/// after its access has ended, under a kill switch.
/// Defence: A repeat passes the same checks as `ext_result`: person, chat, access, kill switches.
#[test]
fn a_stored_result_is_not_given_again_without_access_or_under_a_kill_switch() {
    let world = World::with_grant();
    let developer = world.group("developer");
    let request = with(call("echo", json!({ "n": 1 })), "request_id", "same");
    let result = json!({ "type": "ext_result", "of": "same" });
    let first = developer.ask(request.clone());
    assert_eq!(first["data"], json!({ "n": 1 }));
    let both = |expected: &str| {
        assert_eq!(code(&developer.ask(request.clone())), expected, "the same request");
        assert_eq!(code(&developer.ask(result.clone())), expected, "its result");
    };
    world.revoke("developer");
    both("no_grant");
    world.grant_with("developer", 1, json!({ "expires_in_s": 60 }));
    both("executed");
    world.clock.advance(Duration::from_secs(61));
    both("grant_expired");
    world.grant("developer", 1);
    for scope in [vec!["all"], vec!["provider", "demo"], vec!["group", "developer"]] {
        let kill = |more: &[&str]| assert!(world.cli(&[&["kill"], scope.as_slice(), more].concat()).status.success());
        kill(&[]);
        both("kill_switch");
        kill(&["--lift"]);
    }
    assert_eq!(developer.ask(request), first, "what was stored is as it was");
}

#[test]
fn a_call_with_a_key_that_was_used_is_answered_again_under_its_own_id() {
    let world = World::with_grant();
    let developer = world.group("developer");
    let keyed = |id: &str| with(with(call("charge", json!({ "n": 1 })), "idempotency_key", "k"), "request_id", id);
    let first = developer.ask(keyed("one"));
    assert_eq!(code(&first), "executed");
    let stored = || world.query("SELECT seq FROM replies WHERE length(reply) > 0").len();
    let before = stored();
    let second = developer.ask(keyed("two"));
    assert_eq!((&second["data"], &second["request_id"]), (&first["data"], &json!("two")));
    assert_eq!(developer.ask(keyed("two"))["data"], first["data"], "the same request again");
    let result = developer.ask(json!({ "type": "ext_result", "of": "two" }));
    assert_eq!(result["data"], first["data"]);
    assert_eq!(stored(), before, "one copy is kept");
    assert_eq!(world.effects_of("charge"), ["one"]);
}

#[test]
fn a_host_that_was_stopped_delivers_nothing_twice() {
    let mut world = World::with_grant();
    let developer = world.group("developer");
    for _ in 0..5 {
        assert_eq!(code(&developer.call("charge", json!({}))), "executed");
        world.restart();
    }
    // Replies that are delivered again at a start leave before the answer to a later request.
    assert_eq!(code(&developer.call("echo", json!({}))), "executed");
    assert_eq!(developer.names("responses"), [""; 0]);
}

#[test]
fn a_repeat_of_an_open_request_joins_its_reply() {
    let world = World::with_grant();
    let developer = world.group("developer");
    let request = with(call("charge", json!({ "ms": 400 })), "request_id", "same");
    developer.send(request.clone());
    until("the intent", || (world.kinds_of(&developer, "same") == ["intended"]).then_some(()));
    developer.send(request);
    until("the repeat", || world.kinds_of(&developer, "same").contains(&"repeated".to_owned()).then_some(()));
    assert_eq!(code(&developer.reply("same")), "executed");
    world.settle();
    assert_eq!(world.effects_of("charge"), ["same"]);
}

/// Attack (Repeats, crashes and evidence): The same request id is used again with other content.
/// Defence: A request id is never free again.
#[test]
fn other_content_under_a_burnt_id_is_refused_and_the_first_reply_stays() {
    let world = World::with_grant();
    let developer = world.group("developer");
    let request = with(call("charge", json!({ "n": 1 })), "request_id", "same");
    let first = developer.ask(request.clone());
    for other in [
        with(call("charge", json!({ "n": 2 })), "request_id", "same"),
        with(call("echo", json!({ "n": 1 })), "request_id", "same"),
        json!({ "type": "ext_capabilities", "request_id": "same" }),
    ] {
        assert_eq!(code(&developer.ask(other)), "replayed_request");
    }
    assert_eq!(developer.ask(request), first);
    assert_eq!(world.effects_of("charge"), ["same"]);
}

/// Attack (Repeats, crashes and evidence): Other content arrives under an id that is still open.
/// Defence: No reply file is written that could pass for the first reply.
#[test]
fn other_content_under_an_open_id_gets_no_reply_file_that_could_be_taken_for_the_firsts() {
    let world = World::with_grant();
    let developer = world.group("developer");
    developer.send(with(call("charge", json!({ "ms": 500 })), "request_id", "same"));
    until("the intent", || (world.kinds_of(&developer, "same") == ["intended"]).then_some(()));
    developer.send(with(call("charge", json!({ "n": 2 })), "request_id", "same"));
    developer.put("rubbish.json", r#"{"type":"ext_call","request_id":"same","no_such_member":1}"#);
    until("both refusals", || {
        let refused = world.kinds_of(&developer, "same").iter().filter(|kind| *kind == "refused").count();
        (refused == 2 && developer.waiting() == 0).then_some(())
    });
    let reply = developer.reply("same");
    assert_eq!(code(&reply), "executed", "the one reply is the first's");
    assert_eq!(world.effects_of("charge"), ["same"]);
    assert_eq!(developer.names("responses"), [""; 0]);
}

#[test]
fn ids_are_used_up_permanently_but_replies_are_kept_for_a_day() {
    let mut world = World::with_grant();
    let developer = world.group("developer");
    let request = with(call("charge", json!({})), "request_id", "same");
    assert_eq!(code(&developer.ask(request.clone())), "executed");
    world.clock.advance(LONG);
    assert_eq!(code(&developer.ask(request.clone())), "replayed_request");
    world.restart();
    assert_eq!(code(&developer.ask(request)), "replayed_request");
    assert_eq!(world.effects_of("charge"), ["same"]);
}

#[test]
fn one_groups_ids_are_nothing_to_another_group() {
    let world = World::with_grant();
    world.grant("security", 2);
    let request = with(call("charge", json!({})), "request_id", "same");
    assert_eq!(code(&world.group("developer").ask(request.clone())), "executed");
    assert_eq!(code(&world.group("security").ask(request)), "executed");
    assert_eq!(world.effects_of("charge"), ["same", "same"]);
    let asked = world.group("main").ask(json!({ "type": "ext_result", "of": "same" }));
    assert_eq!(code(&asked), "unknown_request");
}

#[test]
fn a_request_without_an_id_is_answered_under_the_stem_of_its_file() {
    let world = World::with_grant();
    let developer = world.group("developer");
    developer.put("whatever.json", call("charge", json!({})).to_string());
    // Its writer can only look for a reply under the name of the file.
    let path = developer.response("whatever.json");
    let reply: Value = until("a reply", || serde_json::from_slice(&std::fs::read(&path).ok()?).ok());
    assert_eq!(code(&reply), "executed");
    assert!(reply["request_id"].as_str().is_some_and(|id| id.starts_with("anon-")), "{reply}");
    assert_eq!(world.effects_of("charge").len(), 1);
}

fn keyed(params: Value, key: &str) -> Value {
    with(call("charge", params), "idempotency_key", key)
}

#[test]
fn the_same_idempotency_key_executes_once_and_answers_under_each_id() {
    let mut world = World::with_grant();
    let developer = world.group("developer");
    let first = developer.ask(keyed(json!({ "n": 1 }), "k"));
    let second = developer.ask(keyed(json!({ "n": 1 }), "k"));
    world.restart();
    let third = developer.ask(keyed(json!({ "n": 1 }), "k"));
    for reply in [&second, &third] {
        assert_eq!(code(reply), "executed");
        assert_eq!((&reply["data"], &reply["summary"]), (&first["data"], &first["summary"]));
        assert_ne!(reply["request_id"], first["request_id"]);
    }
    assert_eq!(code(&developer.ask(keyed(json!({ "n": 2 }), "k"))), "idempotency_conflict");
    assert_eq!(code(&developer.ask(keyed(json!({ "n": 2 }), "other"))), "executed");
    assert_eq!(world.effects_of("charge").len(), 2);
    world.grant("security", 2);
    assert_eq!(code(&world.group("security").ask(keyed(json!({ "n": 3 }), "k"))), "executed");
}

#[test]
fn equal_keyed_calls_at_once_execute_once_and_all_are_answered() {
    let world = World::with_grant();
    let developer = world.group("developer");
    let ids: Vec<String> = (0..8).map(|_| developer.send(keyed(json!({ "ms": 300 }), "k"))).collect();
    for id in ids {
        assert_eq!(code(&developer.reply(&id)), "executed");
    }
    assert_eq!(world.effects_of("charge").len(), 1);
}

/// Attack (Repeats, crashes and evidence): A request with a known idempotency key arrives after the
/// grant was revoked.
/// Defence: The authority is checked first.
#[test]
fn a_keyed_repeat_after_the_grant_was_revoked_is_refused_and_learns_nothing() {
    let world = World::with_grant();
    let developer = world.group("developer");
    assert_eq!(code(&developer.ask(keyed(json!({ "n": 1 }), "k"))), "executed");
    world.revoke("developer");
    assert_eq!(code(&developer.ask(keyed(json!({ "n": 1 }), "k"))), "no_grant");
    assert_eq!(code(&developer.ask(keyed(json!({ "n": 2 }), "k"))), "no_grant", "not a conflict either");
    assert_eq!(world.effects_of("charge").len(), 1);
}

#[test]
fn a_key_is_held_as_long_as_its_outcome_is_unknown() {
    let world = World::with_grant();
    let developer = world.group("developer");
    let vanish = || with(call("vanish", json!({})), "idempotency_key", "k");
    assert_eq!(code(&developer.ask(vanish())), "outcome_unknown");
    world.clock.advance(LONG);
    // A minute of rows, so that what is old is forgotten.
    until("the tick after a day", || {
        developer.call("echo", json!({}));
        world.query("SELECT count(*) AS n FROM replies")[0]["n"].as_i64().filter(|kept| *kept < 200)
    });
    assert_ne!(code(&developer.ask(vanish())), "executed");
    assert_eq!(world.effects_of("vanish").len(), 1, "a key whose outcome nobody knows is never free again");
}

#[test]
fn a_key_is_free_again_a_day_after_its_settled_call() {
    let world = World::with_grant();
    let developer = world.group("developer");
    assert_eq!(code(&developer.ask(keyed(json!({ "n": 1 }), "k"))), "executed");
    world.clock.advance(LONG);
    until("the key is forgotten", || {
        developer.call("echo", json!({}));
        (world.query("SELECT count(*) AS n FROM idempotency")[0]["n"] == 0).then_some(())
    });
    assert_eq!(code(&developer.ask(keyed(json!({ "n": 2 }), "k"))), "executed");
}

#[test]
fn ext_result_waits_for_the_reply_like_the_call_does() {
    let world = World::with_grant();
    let developer = world.group("developer");
    let id = developer.send(call("wait", json!({ "ms": 400 })));
    until("the intent", || (world.kinds_of(&developer, &id) == ["intended"]).then_some(()));
    let asked = developer.ask(json!({ "type": "ext_result", "of": id }));
    assert_eq!((code(&asked), &asked["data"]), ("executed", &json!({ "ok": true })));
    assert_eq!(code(&developer.reply(&id)), "executed");
    // Again, later, as often as wanted, and after a restart.
    assert_eq!(developer.ask(json!({ "type": "ext_result", "of": id }))["data"], json!({ "ok": true }));
}

#[test]
fn ext_result_says_still_running_when_its_own_time_is_over() {
    let world = World::with_grant();
    let developer = world.group("developer");
    let id = developer.send(call("wait", json!({ "ms": 3000 })));
    until("the intent", || (world.kinds_of(&developer, &id) == ["intended"]).then_some(()));
    let asked = developer.ask(json!({ "type": "ext_result", "of": id, "timeout_ms": 200 }));
    assert_eq!(code(&asked), "still_running", "{asked}");
    assert!(asked["retry_after_ms"].as_u64().is_some_and(|ms| ms > 0));
    assert_eq!(code(&developer.reply(&id)), "executed");
}

#[test]
fn ext_result_of_what_is_unknown_or_anothers_says_so_alike() {
    let world = World::with_grant();
    let developer = world.group("developer");
    let id = developer.send(call("echo", json!({ "mine": true })));
    developer.reply(&id);
    let unknown = world.group("security").ask(json!({ "type": "ext_result", "of": "never-was" }));
    let anothers = world.group("security").ask(json!({ "type": "ext_result", "of": id }));
    assert_eq!((code(&unknown), code(&anothers)), ("unknown_request", "unknown_request"));
    assert_eq!(unknown["error"], anothers["error"]);
    // Main has no right to another group's replies either.
    assert_eq!(code(&world.group("main").ask(json!({ "type": "ext_result", "of": id }))), "unknown_request");
}

/// Attack (Repeats, crashes and evidence): An answer is lost and the client tries again.
/// Defence: The holder of the key answers. The broker asks for the outcome and never repeats the
/// effect.
#[test]
fn an_unknown_outcome_settles_itself_by_probe_and_ext_result_tells() {
    let world = World::with_grant();
    let developer = world.group("developer");
    let id = developer.send(call("lossy", json!({})));
    assert_eq!(code(&developer.reply(&id)), "outcome_unknown");
    until("the settlement", || world.kinds_of(&developer, &id).contains(&"settled".to_owned()).then_some(()));
    let asked = developer.ask(json!({ "type": "ext_result", "of": id }));
    assert_eq!((code(&asked), &asked["data"]), ("executed", &json!({ "found": true })), "{asked}");
    let status = &world.query("SELECT status FROM ext_calls WHERE action = 'lossy'")[0]["status"];
    assert_eq!(status, "executed");
    assert_eq!(world.effects_of("lossy").len(), 1);
}

#[test]
fn cancelling_stops_nothing_that_has_started_and_says_so() {
    let world = World::with_grant();
    let developer = world.group("developer");
    let id = developer.send(call("charge", json!({ "ms": 300 })));
    until("the intent", || (world.kinds_of(&developer, &id) == ["intended"]).then_some(()));
    let running = developer.ask(json!({ "type": "ext_cancel", "of": id }));
    assert_eq!(running["data"], json!({ "cancelled": false, "state": "running" }));
    assert_eq!(code(&developer.reply(&id)), "executed");
    let over = developer.ask(json!({ "type": "ext_cancel", "of": id }));
    assert_eq!(over["data"], json!({ "cancelled": false, "state": "over" }));
    assert_eq!(code(&developer.ask(json!({ "type": "ext_cancel", "of": "never-was" }))), "unknown_request");
    assert_eq!(code(&world.group("security").ask(json!({ "type": "ext_cancel", "of": id }))), "unknown_request");
}
