//! Requests for access: a group asks, and a person gives the access on the card, or less, or more, for a while.

use serde_json::{Value, json};
use std::time::Duration;
use tests::group::{Group, call, code, error, with};
use tests::world::{CONFIG, SCRIPT};
use tests::{World, until};

const PROFILE: &str = "write = \"rules\"\nproduction = \"human\"\n[providers.demo]\nactions = { lossy = \"human\" }\n";

fn config() -> String {
    CONFIG.replace("[groups.developer]", "[groups.developer]\nmay_request = [\"demo\", \"other\"]")
}

fn world() -> World {
    let builder = World::builder().config(&config()).script("demo", SCRIPT).script("other", SCRIPT);
    builder.file("policy/profiles/developer.toml", PROFILE).up()
}

/// A request for `charge` at the provider `demo`, for an hour.
fn request() -> Value {
    json!({
        "type": "ext_request", "provider": "demo", "access_level": 2, "actions": ["charge"],
        "reason": "To pay for the domain.", "duration_s": 3600
    })
}

fn charge() -> Value {
    call("charge", json!({ "n": 1 }))
}

/// Waits for the approval request, and returns its code.
fn asked(world: &World, id: &str) -> String {
    until("the approval request", || {
        let found = world.query("SELECT code, request_id FROM approvals WHERE state = 'waiting'");
        Some(found.into_iter().find(|approval| approval["request_id"] == id)?["code"].as_str()?.to_owned())
    })
}

fn answer(world: &World, code: &str, access: &Value) -> Value {
    world.command(json!({ "type": "answer", "code": code, "yes": true, "reason": null, "access": access }))
}

/// Requests access and has a person give this. Returns the reply to the agent.
fn given(world: &World, group: &Group, document: Value, access: &Value) -> Value {
    let id = group.send(document);
    let reply = answer(world, &asked(world, &id), access);
    assert_eq!(code(&reply), "executed", "{reply}");
    group.reply(&id)
}

/// The status of an action in the snapshot.
fn status(group: &Group, action: &str) -> String {
    let snapshot = group.snapshot();
    let of = |capability: &Value| capability["actions"][action]["status"].as_str().map(str::to_owned);
    snapshot["capabilities"].as_array().unwrap().iter().find_map(of).unwrap_or_else(|| "no grant".to_owned())
}

fn until_status(group: &Group, action: &str, status_is: &str) {
    until(&format!("{action} {status_is}"), || (status(group, action) == status_is).then_some(()));
}

#[test]
fn a_caller_that_does_not_wait_for_a_person_gets_pending() {
    let world = world();
    let grant = json!({ "type": "ext_grant", "group_folder": "developer", "provider": "demo", "access_level": 3 });
    for (group, document) in [("developer", request()), ("main", grant)] {
        let pending = world.group(group).ask(with(document, "timeout_ms", 50));
        assert_eq!(pending["status"], "pending", "{pending}");
        asked(&world, pending["request_id"].as_str().unwrap());
    }
}

#[test]
fn a_person_gives_exactly_the_requested_access_and_it_ends_by_itself() {
    let world = world();
    let developer = world.group("developer");
    assert_eq!(code(&developer.ask(charge())), "no_grant");
    let id = developer.send(request());
    let secret = asked(&world, &id);
    let shown = world.query("SELECT card, kind FROM approvals");
    assert_eq!(shown[0]["kind"], "access");
    let card = shown[0]["card"].as_str().unwrap().to_owned();
    for words in ["To pay for the domain.", "actions.charge", "get access for a while", "1h"] {
        assert!(card.contains(words), "no `{words}` in {card}");
    }
    assert_eq!(code(&developer.ask(charge())), "no_grant", "a request gives nothing");
    assert_eq!(code(&answer(&world, &secret, &Value::Null)), "executed");
    let reply = developer.reply(&id);
    assert_eq!(code(&reply), "executed", "{reply}");
    let grant = &reply["data"]["grant"];
    assert_eq!((&grant["temporary"], &grant["access_level"]), (&json!(true), &json!(2)));
    assert_eq!(grant["allowed_actions"], json!(["charge"]));
    assert_eq!(grant["granted_by"], "person:operator");
    until_status(&developer, "charge", "available");
    assert_eq!(status(&developer, "lossy"), "DENIED");
    assert_eq!(code(&developer.ask(charge())), "executed");
    assert_eq!(code(&developer.ask(call("echo", json!({})))), "action_not_allowed");
    assert_eq!(code(&developer.ask(with(charge(), "provider", "other"))), "no_grant");
    assert_eq!(world.kinds_of(&developer, &id), ["asked", "granted"]);
    let row = world.rows().into_iter().find(|row| row.kind == "granted").unwrap();
    let approved = world.rows().into_iter().find(|row| row.kind == "approved").unwrap();
    assert_eq!(row.approval, approved.approval);

    // It is requested again: the group has it.
    let again = developer.ask(with(request(), "duration_s", 60));
    assert_eq!((code(&again), &again["data"]["granted"]), ("executed", &json!(false)), "{again}");

    world.clock.advance(Duration::from_secs(3601));
    assert_eq!(code(&developer.ask(charge())), "grant_expired");
    until_status(&developer, "charge", "no grant");
}

#[test]
fn a_person_gives_less_or_more_within_the_own_right() {
    let world = world();
    let developer = world.group("developer");
    let id = developer.send(request());
    let secret = asked(&world, &id);
    for (access, fault) in [
        (json!({ "actions": ["chrage"] }), "has no action 'chrage'"),
        (json!({ "access_level": 1, "actions": ["charge"] }), "is above L1"),
        (json!({ "access_level": 1 }), "no such action within L1"),
        (json!({ "access_level": 0 }), "must be 1, 2 or 3"),
        (json!({ "duration_s": 59 }), "must last 1m to 30d"),
        (json!({ "duration_s": 2_592_001 }), "must last 1m to 30d"),
        (json!({ "gate": "Securty" }), "There is no gate 'Securty'"),
    ] {
        let refused = answer(&world, &secret, &access);
        assert!(error(&refused).contains(fault), "{access}: {refused}");
        assert_eq!(world.query("SELECT state FROM approvals"), [json!({ "state": "waiting" })], "{access}");
    }
    let less = json!({ "access_level": 1, "actions": ["echo", "strict"], "duration_s": 60 });
    assert_eq!(code(&answer(&world, &secret, &less)), "executed");
    let reply = developer.reply(&id);
    assert!(reply["summary"].as_str().unwrap().contains("A person changed the request."), "{reply}");
    assert_eq!(reply["data"]["grant"]["allowed_actions"], json!(["echo", "strict"]));
    assert_eq!(code(&developer.ask(call("echo", json!({})))), "executed");
    assert_eq!(code(&developer.ask(charge())), "level_too_low");
    let row = world.rows().into_iter().find(|row| row.kind == "approved").unwrap();
    assert_eq!(tests::evidence::body(&row)["access"], less);

    let more = given(&world, &developer, request(), &json!({ "actions": ["charge", "lossy"], "duration_s": 86_400 }));
    assert_eq!(more["data"]["grant"]["allowed_actions"], json!(["charge", "lossy"]));
    assert_eq!(code(&developer.ask(charge())), "executed");
    world.clock.advance(Duration::from_secs(3601));
    assert_eq!(code(&developer.ask(charge())), "executed", "the second one lasts a day");
    assert_eq!(code(&developer.ask(call("echo", json!({})))), "action_not_allowed", "the first one is over");

    // Of production, only with a gate.
    let all = json!({ "access_level": 3, "actions": ["deploy"], "gate": "Security" });
    given(&world, &developer, with(request(), "actions", json!(["vanish"])), &all);
    world.task("gov-1", "developer");
    let deploy = with(call("deploy", json!({})), "task_id", "gov-1");
    assert_eq!(code(&developer.ask(deploy.clone())), "gate_missing");
    let approve = json!({ "type": "gate_approve", "task_id": "gov-1", "gate": "Security" });
    assert_eq!(code(&world.command(approve)), "executed");
    let id = developer.send(deploy);
    assert_eq!(code(&answer(&world, &asked(&world, &id), &Value::Null)), "executed");
    assert_eq!(code(&developer.reply(&id)), "executed");
}

/// Attack: see `access_is_given_on_the_page_within_the_own_right_and_no_further`.
#[test]
fn temporary_access_adds_to_the_grant_until_the_next_grant_or_revocation() {
    let world = world();
    let developer = world.group("developer");
    world.grant_with("developer", 1, json!({ "denied_actions": ["lossy"], "rate_per_minute": 100 }));
    assert_eq!(code(&developer.ask(charge())), "level_too_low");
    let refused = developer.ask(with(request(), "actions", json!(["lossy"])));
    assert!(code(&refused) == "invalid_params" && error(&refused).contains("denies 'lossy'"), "{refused}");
    let reply = given(&world, &developer, request(), &Value::Null);
    assert_eq!(reply["data"]["grant"]["rate_per_minute"], 100, "the limits of the own grant");
    until_status(&developer, "charge", "available");
    let of = |action: &str| developer.snapshot()["capabilities"][0]["actions"][action]["expires_at"].clone();
    assert!(of("charge").is_string() && of("echo").is_null());
    assert_eq!(
        (code(&developer.ask(charge())), code(&developer.ask(call("echo", json!({}))))),
        ("executed", "executed")
    );
    let listed = world.command(json!({ "type": "list", "group_folder": "developer" }));
    let listed: Vec<&Value> =
        listed["data"]["grants"].as_array().unwrap().iter().map(|one| &one["temporary"]).collect();
    assert_eq!(listed, [&json!(false), &json!(true)]);

    // The own grant is not touched by the end of the temporary one.
    world.clock.advance(Duration::from_secs(3601));
    assert_eq!(
        (code(&developer.ask(charge())), code(&developer.ask(call("echo", json!({}))))),
        ("level_too_low", "executed")
    );
    until_status(&developer, "charge", "requires_higher_level");

    // A revocation and another grant end it.
    given(&world, &developer, request(), &Value::Null);
    world.revoke("developer");
    assert_eq!(code(&developer.ask(charge())), "no_grant");
    let refused = developer.ask(with(request(), "actions", json!(["lossy"])));
    assert!(error(&refused).contains("denies 'lossy'"), "{refused}");
    given(&world, &developer, request(), &Value::Null);
    assert_eq!(code(&developer.ask(charge())), "executed");
    world.grant("developer", 1);
    assert_eq!(code(&developer.ask(charge())), "level_too_low");
    assert!(world.query("SELECT id FROM temporary_grants").is_empty());
}

/// Attack (Order of the stages, and content): An agent requests access when the group's restricted
/// grant has expired.
/// Defence: The restrictions of the own grant hold in any state, and the card shows its state.
#[test]
fn the_restrictions_of_an_expired_grant_hold_and_a_higher_level_adds_no_action() {
    let world = world();
    let developer = world.group("developer");
    let limits = json!({ "denied_actions": ["strict"], "daily_quota": 2, "expires_in_s": 100 });
    world.grant_with("developer", 1, limits);
    let mut all = with(request(), "access_level", 2);
    all.as_object_mut().unwrap().remove("actions");
    let id = developer.send(all.clone());
    let secret = asked(&world, &id);
    let card = world.query("SELECT card FROM approvals")[0]["card"].as_str().unwrap().to_owned();
    for words in ["L1 (read), until", "denies strict", "daily_quota", "every call of the workspace"] {
        assert!(card.contains(words), "no `{words}` in {card}");
    }
    world.clock.advance(Duration::from_secs(101));
    assert_eq!(code(&answer(&world, &secret, &Value::Null)), "executed");
    let grant = developer.reply(&id)["data"]["grant"].clone();
    assert_eq!(grant["daily_quota"], 2);
    let allowed = grant["allowed_actions"].as_array().unwrap();
    assert!(allowed.contains(&json!("charge")) && !allowed.contains(&json!("strict")), "{grant}");
    assert!(!allowed.contains(&json!("deploy")), "{grant}");
    assert_eq!(code(&developer.ask(call("strict", json!({})))), "action_not_allowed");

    // A grant of nothing with a ban is shown, and the ban holds.
    world.grant_with("developer", 0, json!({ "denied_actions": ["lossy"] }));
    let id = developer.send(all);
    let secret = asked(&world, &id);
    assert_eq!(code(&answer(&world, &secret, &json!({ "access_level": 3, "gate": "Security" }))), "executed");
    let grant = developer.reply(&id)["data"]["grant"].clone();
    let allowed = grant["allowed_actions"].as_array().unwrap();
    assert_eq!(grant["access_level"], 3);
    assert!(
        !allowed.contains(&json!("deploy")) && !allowed.contains(&json!("lossy")),
        "it was not on the card: {grant}"
    );
}

#[test]
fn the_main_group_gives_nothing_that_a_person_has_ended_and_a_killed_group_gets_nothing() {
    let world = world();
    let (main, developer) = (world.group("main"), world.group("developer"));
    let read = with(with(request(), "access_level", 1), "actions", json!(["echo"]));
    given(&world, &developer, read.clone(), &Value::Null);
    world.revoke("developer");
    let grant = json!({ "type": "ext_grant", "group_folder": "developer", "provider": "demo", "access_level": 1 });
    let id = main.send(grant.clone());
    asked(&world, &id);
    assert_eq!(code(&main.ask(json!({ "type": "ext_cancel", "of": id }))), "executed");
    // Its own revocation later does not hide the person's.
    given(&world, &developer, read.clone(), &Value::Null);
    let revoke = json!({ "type": "ext_revoke", "group_folder": "developer", "provider": "demo" });
    assert_eq!(main.ask(revoke.clone())["data"]["revoked"], true);
    assert_eq!(main.ask(revoke)["data"]["revoked"], false);
    let id = main.send(with(grant, "expires_in_s", 60));
    asked(&world, &id);
    assert_eq!(code(&main.ask(json!({ "type": "ext_cancel", "of": id }))), "executed");

    let kill = |on: bool| {
        let reply = world.command(json!({ "type": "kill", "scope": { "group": "developer" }, "on": on }));
        assert_eq!(code(&reply), "executed", "{reply}");
    };
    let waits = developer.send(read.clone());
    let secret = asked(&world, &waits);
    kill(true);
    assert_eq!(code(&developer.ask(request())), "kill_switch");
    assert_eq!(code(&answer(&world, &secret, &Value::Null)), "executed");
    assert_eq!(code(&developer.reply(&waits)), "kill_switch");
    kill(false);
    assert_eq!(code(&developer.ask(call("echo", json!({})))), "no_grant");
}

/// Attack (Order of the stages, and content): A group finds out with requests for access which
/// providers exist.
/// Defence: Only named providers can be requested; every other request has the same refusal.
#[test]
fn without_a_line_of_the_configuration_nobody_is_asked_and_no_provider_is_named() {
    let world = world();
    let (security, developer) = (world.group("security"), world.group("developer"));
    let refused = security.ask(request());
    assert_eq!(code(&refused), "no_grant");
    let unknown = security.ask(with(request(), "provider", "nowhere"));
    assert_eq!(error(&refused), error(&unknown), "it does not tell whether the provider exists");
    assert_eq!(error(&developer.ask(with(request(), "provider", "nowhere"))), error(&unknown));
    let unknown = developer.ask(with(request(), "actions", json!(["chrage"])));
    assert!(code(&unknown) == "invalid_params" && error(&unknown).contains("has no action 'chrage'"), "{unknown}");
    let above = developer.ask(with(request(), "access_level", 1));
    assert!(error(&above).contains("'charge' is above L1"), "{above}");
    assert!(world.query("SELECT id FROM approvals").is_empty());
    assert_eq!(developer.snapshot()["may_request"], json!(["demo", "other"]));
    assert_eq!(security.snapshot()["may_request"], Value::Null);

    // People give access at the command line, not by a request.
    let path = world.home().join("broker.toml");
    let text = std::fs::read_to_string(&path).unwrap().replace("\"other\"]", "\"nowhere\"]");
    std::fs::write(&path, text).unwrap();
    let output = world.cli(&["config", "check"]);
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && error.contains("may_request: there is no provider `nowhere`"), "{error}");
}

/// Attack (Order of the stages, and content): An agent requests access again and again, with
/// another reason or time.
/// Defence: A denial pauses all requests for the provider; approval requests have a rate per group.
#[test]
fn a_no_pauses_the_request_with_any_reason_and_a_changed_grant_voids_the_yes() {
    let world = world();
    let developer = world.group("developer");
    let id = developer.send(request());
    let secret = asked(&world, &id);
    let equal = developer.send(request());
    until("the reply to an equal request", || (developer.try_reply(&equal)?["status"] == "pending").then_some(()));
    let no = json!({ "type": "answer", "code": secret, "yes": false, "reason": "not today" });
    assert_eq!(code(&world.command(no)), "executed");
    assert_eq!(code(&developer.reply(&id)), "approval_denied");
    let other = with(with(request(), "reason", "Please!"), "duration_s", 60);
    assert_eq!(code(&developer.ask(other)), "approval_denied");
    let narrower = with(with(request(), "access_level", 1), "actions", json!(["echo"]));
    let paused = developer.ask(narrower.clone());
    assert!(code(&paused) == "approval_denied" && error(&paused).contains("denied access to demo"), "{paused}");
    let other = developer.send(with(request(), "provider", "other"));
    asked(&world, &other);
    world.clock.advance(Duration::from_secs(301));
    let id = developer.send(narrower);
    let secret = asked(&world, &id);
    world.grant_with("developer", 1, json!({ "allowed_actions": ["strict"] }));
    assert_eq!(code(&answer(&world, &secret, &Value::Null)), "executed");
    let reply = developer.reply(&id);
    assert!(code(&reply) == "approval_required" && error(&reply).contains("differs"), "{reply}");
    assert_eq!(code(&developer.ask(call("echo", json!({})))), "action_not_allowed");

    // The scope is for requests for access alone.
    world.grant("developer", 2);
    let id = developer.send(call("lossy", json!({})));
    let refused = answer(&world, &asked(&world, &id), &json!({ "access_level": 3 }));
    assert!(error(&refused).contains("Only a request for access"), "{refused}");
}

#[test]
fn temporary_access_survives_kills_and_is_given_once() {
    let mut world = world();
    world.stop();
    world.start_process();
    let developer = world.group("developer");
    let id = developer.send(request());
    let secret = asked(&world, &id);
    world.kill();
    world.start_process();
    let output = world.cli(&["approvals", "show", &secret]);
    let shown = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(shown.contains("To give less or more") && shown.contains("To pay for the domain."), "{shown}");
    let refused = world.cli(&["approvals", "approve", &secret, "--for", "2h", "--session"]);
    let text = String::from_utf8_lossy(&refused.stderr).into_owned() + &String::from_utf8_lossy(&refused.stdout);
    assert!(!refused.status.success() && text.contains("no --session"), "{refused:?}");
    let output = world.cli(&["approvals", "approve", &secret, "--level", "1", "--actions", "echo", "--for", "2h"]);
    assert!(output.status.success(), "{output:?}");
    world.kill();
    world.start_process();
    let reply = until("a reply", || {
        let reply = developer.ask(json!({ "type": "ext_result", "of": id }));
        (code(&reply) != "still_running").then_some(reply)
    });
    assert_eq!(reply["data"]["grant"]["allowed_actions"], json!(["echo"]), "{reply}");
    assert_eq!(world.query("SELECT access_level FROM temporary_grants"), [json!({ "access_level": 1 })]);
    assert_eq!(world.rows().iter().filter(|row| row.kind == "granted").count(), 1);
    assert_eq!(code(&developer.ask(call("echo", json!({})))), "executed");
    world.stop();
}
