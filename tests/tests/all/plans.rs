//! Plans: an agent proposes several calls, a person answers once, and the calls run in order.

mod reads;

use serde_json::{Value, json};
use std::time::Duration;
use tests::group::{call, code, error, with};
use tests::world::{CONFIG, EXPOSING, SCRIPT};
use tests::{World, until};

const PROFILE: &str = "write = \"human\"\nproduction = \"human\"\n";

fn world() -> World {
    let world = down().up();
    world.grant("developer", 2);
    world
}

fn down() -> tests::world::Builder {
    let script = format!("{SCRIPT}\n{EXPOSING}");
    let builder = World::builder().config(CONFIG).script("demo", &script).script("other", SCRIPT);
    builder.file("policy/profiles/developer.toml", PROFILE)
}

/// A call of the provider `demo`.
fn planned(action: &str, params: Value) -> Value {
    let mut call = json!({ "provider": "demo", "action": action });
    call["params"] = params;
    call
}

fn plan(calls: &[Value]) -> Value {
    json!({ "type": "ext_plan", "reason": "To pay for the domain.", "calls": calls })
}

/// So many charges, which take this long.
fn charges(number: u64, ms: u64) -> Vec<Value> {
    (1..=number).map(|n| planned("charge", json!({ "n": n, "ms": ms }))).collect()
}

/// Waits for the approval request, and returns its code.
fn asked(world: &World, id: &str) -> String {
    until("the approval request", || {
        let found = world.query("SELECT code, request_id FROM approvals WHERE kind = 'plan'");
        Some(found.into_iter().find(|approval| approval["request_id"] == id)?["code"].as_str()?.to_owned())
    })
}

fn answer(world: &World, code: &str, yes: bool) -> Value {
    world.command(json!({ "type": "answer", "code": code, "yes": yes, "reason": null }))
}

fn approve(world: &World, id: &str) {
    let reply = answer(world, &asked(world, id), true);
    assert_eq!(code(&reply), "executed", "{reply}");
}

/// The states of the calls in a reply.
fn states(reply: &Value) -> Vec<&str> {
    reply["data"]["calls"].as_array().unwrap().iter().map(|call| call["state"].as_str().unwrap()).collect()
}

fn effects(world: &World) -> usize {
    world.effects_of("charge").len()
}

/// Waits until the first call is with its provider.
fn first_runs(world: &World) {
    until("the first call runs", || (!world.query("SELECT seq FROM open_intents").is_empty()).then_some(()));
}

fn nobody_is_asked(world: &World) {
    assert!(world.query("SELECT id FROM approvals").is_empty());
    assert!(world.query("SELECT step FROM plan_steps").is_empty());
}

/// Attack: see
/// `a_plan_with_a_call_that_is_not_permitted_is_refused_as_a_whole_and_nobody_is_asked`.
#[test]
fn one_answer_runs_all_calls_in_their_order_and_each_result_is_kept() {
    let world = world();
    let developer = world.group("developer");
    let echo = planned("echo", json!({ "text": "after the first" }));
    let id = developer.send(plan(&[charges(1, 0).remove(0), echo, planned("charge", json!({ "n": 3 }))]));
    let secret = asked(&world, &id);
    let card = world.query("SELECT card FROM approvals")[0]["card"].as_str().unwrap().to_owned();
    for words in ["To pay for the domain.", "run 3 calls in this order", "1: Action", "2: text", "3: n", "demo.echo"] {
        assert!(card.contains(words), "no `{words}` in {card}");
    }
    assert_eq!(effects(&world), 0);
    assert_eq!(code(&answer(&world, &secret, true)), "executed");
    let reply = developer.reply(&id);
    assert_eq!(code(&reply), "executed", "{reply}");
    assert_eq!(states(&reply), ["succeeded"; 3]);
    assert_eq!(reply["summary"], "All 3 calls succeeded.");
    assert_eq!(effects(&world), 2);

    // The result of each call is kept under its own request.
    let calls = reply["data"]["calls"].as_array().unwrap();
    let of = |place: usize| calls[place]["request_id"].as_str().unwrap();
    let result = developer.ask(json!({ "type": "ext_result", "of": of(1) }));
    assert_eq!(result["data"]["text"], "after the first", "{result}");

    // The evidence: one question, one answer, and an intent and an outcome for each call, in order.
    assert_eq!(world.kinds_of(&developer, &id), ["asked", "answered"]);
    let rows = world.rows();
    let approved = rows.iter().find(|row| row.kind == "approved").unwrap();
    let mut last = approved.seq;
    for place in 0..3 {
        let own = world.rows_of(&developer, of(place));
        let kinds: Vec<&str> = own.iter().map(|row| row.kind.as_str()).collect();
        assert_eq!(kinds, ["intended", "succeeded"]);
        assert_eq!(own[0].approval, approved.approval, "the intent names the approval of the plan");
        assert!(own[0].seq > last);
        last = own[1].seq;
    }
    let question = rows.iter().find(|row| row.kind == "asked").unwrap();
    let listed = tests::evidence::body(question)["calls"].clone();
    assert_eq!(listed.as_array().unwrap().len(), 3);
    assert_eq!(listed[2]["request_id"], of(2));

    // Sent again, it is answered from the store.
    let again = plan(&[charges(1, 0).remove(0), planned("echo", json!({})), planned("charge", json!({ "n": 3 }))]);
    assert_eq!(code(&developer.ask(with(again, "request_id", id.as_str()))), "replayed_request");
    assert_eq!(effects(&world), 2);
}

#[test]
fn the_first_call_that_does_not_succeed_ends_the_plan() {
    let world = world();
    let developer = world.group("developer");
    for failing in ["broken", "vanish"] {
        let before = effects(&world);
        let calls = [charges(1, 0).remove(0), planned(failing, json!({})), planned("charge", json!({ "n": 2 }))];
        let id = developer.send(plan(&calls));
        approve(&world, &id);
        let reply = developer.reply(&id);
        assert_eq!(code(&reply), "plan_ended", "{reply}");
        assert!(error(&reply).contains(&format!("Call 2, demo.{failing}, did not succeed.")), "{reply}");
        assert!(error(&reply).contains("Of 3 calls, 1 succeeded and 1 did not start."), "{reply}");
        assert_eq!(states(&reply), ["succeeded", "failed", "skipped"]);
        assert!(reply["data"]["calls"][2].get("request_id").is_none());
        assert_eq!(effects(&world), before + 1);
    }
    let left = world.query("SELECT step FROM plan_steps WHERE document IS NOT NULL OR sealed IS NOT NULL");
    assert!(left.is_empty(), "{left:?}");
}

/// Attack (Order of the stages, and content): A plan repeats a call that a person has denied.
/// Defence: The pause after a denial holds for the calls of a plan, too.
#[test]
fn a_denial_and_silence_run_nothing_and_neither_the_plan_nor_its_calls_are_asked_again_at_once() {
    let world = world();
    let developer = world.group("developer");
    let id = developer.send(plan(&charges(2, 0)));
    assert_eq!(code(&answer(&world, &asked(&world, &id), false)), "executed");
    assert_eq!(code(&developer.reply(&id)), "approval_denied");
    let again = developer.ask(plan(&charges(2, 0)));
    assert!(error(&again).contains("A person has denied exactly this plan"), "{again}");

    // A call that a person has denied is not asked about as a part of a plan.
    let single = developer.send(call("charge", json!({ "n": 7 })));
    let secret = until("the approval request", || {
        let found = world.query("SELECT code FROM approvals WHERE state = 'waiting'");
        Some(found.first()?["code"].as_str()?.to_owned())
    });
    assert_eq!(code(&answer(&world, &secret, false)), "executed");
    assert_eq!(code(&developer.reply(&single)), "approval_denied");
    let refused = developer.ask(plan(&[planned("echo", json!({})), planned("charge", json!({ "n": 7 }))]));
    assert_eq!(code(&refused), "approval_denied", "{refused}");
    assert!(error(&refused).contains("Call 2 of the plan, demo.charge, cannot run"), "{refused}");

    let id = developer.send(plan(&charges(3, 0)));
    let secret = asked(&world, &id);
    world.clock.advance(Duration::from_secs(24 * 3600));
    assert_eq!(code(&developer.reply(&id)), "approval_expired");
    assert_eq!(code(&answer(&world, &secret, true)), "approval_expired");
    assert_eq!(effects(&world), 0);
    assert!(world.query("SELECT step FROM plan_steps WHERE outcome IS NULL OR outcome <> 'skipped'").is_empty());
}

/// Attack (Order of the stages, and content): A plan has a call that the group may not make, or one
/// that is not shown.
/// Defence: The card shows every call in full. A plan with a refused call is refused as a whole,
/// and nobody is asked.
#[test]
fn a_plan_with_a_call_that_is_not_permitted_is_refused_as_a_whole_and_nobody_is_asked() {
    let world = world();
    let developer = world.group("developer").by_files();
    let first = charges(1, 0).remove(0);
    for (second, refused_as, fault) in [
        (planned("deploy", json!({})), "level_too_low", "Call 2 of the plan, demo.deploy, cannot run"),
        (planned("chrage", json!({})), "unknown_action", "has no action 'chrage'"),
        (planned("strict", json!({ "page": 1 })), "invalid_params", "repo"),
        (with(first.clone(), "provider", json!("other")), "no_grant", "has no access to other"),
        (with(first.clone(), "provider", json!("nowhere")), "no_grant", "has no access to nowhere"),
        (with(first.clone(), "task_id", json!("gov-404")), "task_unknown", "Call 2"),
    ] {
        let refused = developer.ask(plan(&[first.clone(), second.clone()]));
        assert_eq!(code(&refused), refused_as, "{second}: {refused}");
        assert!(error(&refused).contains(fault), "{second}: {refused}");
    }
    for calls in [json!([]), json!([first]), json!(vec![first.clone(); 17]), json!("charge"), json!([first, 1])] {
        let refused = developer.ask(with(plan(&[]), "calls", calls.clone()));
        assert_eq!(code(&refused), "malformed_request", "{calls}: {refused}");
    }
    for (member, value) in [("dry_run", json!(true)), ("idempotency_key", json!("k")), ("timeout_ms", json!(1))] {
        let refused = developer.ask(plan(&[first.clone(), with(first.clone(), member, value)]));
        assert_eq!(code(&refused), "malformed_request", "{member}: {refused}");
    }
    for reason in [json!(""), json!(" "), json!("x".repeat(2_001)), json!(1)] {
        let refused = developer.ask(with(plan(&charges(2, 0)), "reason", reason.clone()));
        assert_eq!(code(&refused), "malformed_request", "{reason}: {refused}");
    }
    // A number that cannot be kept exactly is found in the text of the plan.
    let text = plan(&charges(2, 0)).to_string().replacen("\"n\":2", "\"n\":12345678901234567890123", 1);
    developer.put("inexact.json", text.replacen('{', "{\"request_id\":\"inexact\",", 1));
    let refused = developer.reply("inexact");
    assert!(error(&refused).contains("cannot be kept exactly"), "{refused}");
    let security = world.group("security");
    assert_eq!(code(&security.ask(plan(&charges(2, 0)))), "no_grant");
    nobody_is_asked(&world);
    assert_eq!(effects(&world), 0);
}

/// Attack (Order of the stages, and content): A plan spreads private data, untrusted content and an
/// egress channel over its calls.
/// Defence: Each call is judged with the exposure of the calls before it, at the question and at
/// its turn.
#[test]
fn the_card_says_what_the_calls_bring_together() {
    let world = world();
    let developer = world.group("developer");
    let calls = ["read_mail", "read_files", "post"].map(|action| planned(action, json!({})));
    let id = developer.send(plan(&calls));
    let secret = asked(&world, &id);
    let shown = world.query("SELECT asks, json_extract(card, '$.reasons') AS why FROM approvals");
    assert!(shown[0]["asks"].as_str().unwrap().contains("trifecta"), "{shown:?}");
    let why = shown[0]["why"].as_str().unwrap();
    assert!(why.contains("3: The session would combine untrusted content (demo.read_mail at "), "{why}");
    assert_eq!(code(&answer(&world, &secret, true)), "executed");
    assert_eq!(states(&developer.reply(&id)), ["succeeded"; 3]);

    // A read between the question and its turn was not on the card: the call does not run.
    let world = self::world();
    let developer = world.group("developer");
    let id = developer.send(plan(&[planned("echo", json!({})), planned("post", json!({}))]));
    let secret = asked(&world, &id);
    for action in ["read_mail", "read_files"] {
        assert_eq!(code(&developer.ask(call(action, json!({})))), "executed");
    }
    assert_eq!(code(&answer(&world, &secret, true)), "executed");
    let reply = developer.reply(&id);
    assert_eq!(states(&reply), ["succeeded", "failed"]);
    assert_eq!(reply["data"]["calls"][1]["code"], "approval_required", "{reply}");
    assert!(world.effects_of("post").is_empty());
}

#[test]
fn an_approver_needs_the_right_for_each_provider_and_every_quorum_holds() {
    let quorum = "\n[people.cleo]\nuid = 77009\napproves = {}\n[approvals.actions.demo.echo]\nquorum = 2\n";
    let mut world = down().config(&format!("{CONFIG}{quorum}")).up();
    world.grant("developer", 2);
    let grant = json!({ "type": "grant", "group_folder": "developer", "provider": "other", "access_level": 2 });
    assert_eq!(code(&world.command(grant)), "executed");
    let developer = world.group("developer");
    let other = with(planned("charge", json!({ "n": 2 })), "provider", json!("other"));
    let id = developer.send(plan(&[planned("echo", json!({})), other]));
    let secret = asked(&world, &id);
    let shown = world.query("SELECT nested, quorum, level FROM approvals");
    assert_eq!(shown, [json!({ "nested": "other", "quorum": 2, "level": 2 })]);

    world.stop();
    let config = std::fs::read_to_string(world.path("broker.toml")).unwrap();
    let config = config.replace("approves = {}", "approves = { providers = [\"demo\"] }");
    world.rewrite("broker.toml", &config);
    world.start();
    let refused = answer(&world, &secret, true);
    assert_eq!(code(&refused), "guardrail", "{refused}");
    world.stop();
    world.rewrite("broker.toml", &config.replace("approves = { providers = [\"demo\"] }", "approves = {}"));
    world.start();
    assert_eq!(code(&answer(&world, &secret, true)), "executed");
    assert_eq!(world.query("SELECT state FROM approvals"), [json!({ "state": "waiting" })], "one of two");
    assert!(world.query("SELECT outcome FROM plan_steps WHERE outcome IS NOT NULL").is_empty());
    assert_eq!(code(&answer(&world, &secret, true)), "guardrail", "the same person counts once");
}

/// Attack: see `a_broker_that_is_killed_in_the_middle_runs_each_call_at_most_once_and_in_order`.
#[test]
fn a_person_or_the_agent_stops_a_plan_that_runs() {
    let world = world();
    let developer = world.group("developer");
    for by_person in [true, false] {
        let before = effects(&world);
        let n = if by_person { 1 } else { 2 };
        let calls = [planned("charge", json!({ "n": n, "ms": 1_000 })), planned("charge", json!({ "n": n + 10 }))];
        let id = developer.send(plan(&calls));
        let secret = asked(&world, &id);
        assert_eq!(code(&answer(&world, &secret, true)), "executed");
        first_runs(&world);
        let stopped = if by_person {
            answer(&world, &secret, false)
        } else {
            developer.ask(json!({ "type": "ext_cancel", "of": id }))
        };
        assert_eq!(code(&stopped), "executed", "{stopped}");
        assert!(stopped["summary"].as_str().unwrap().contains("that has not started will run"), "{stopped}");
        let reply = developer.reply(&id);
        assert_eq!(code(&reply), "plan_ended", "{reply}");
        assert_eq!(states(&reply), ["succeeded", "skipped"], "{reply}");
        let why = if by_person { "A person has stopped the plan." } else { "The plan was cancelled." };
        assert!(error(&reply).contains(why), "{reply}");
        assert_eq!(effects(&world), before + 1);
        assert_eq!(code(&answer(&world, &secret, true)), "approval_expired");
        if by_person {
            let again = developer.ask(plan(&calls));
            assert_eq!(code(&again), "approval_denied", "{again}");
        }
    }
    // One that waits is withdrawn.
    let id = developer.send(plan(&charges(2, 0)));
    let secret = asked(&world, &id);
    assert_eq!(code(&developer.ask(json!({ "type": "ext_cancel", "of": id }))), "executed");
    assert_eq!(code(&developer.reply(&id)), "cancelled");
    assert_eq!(code(&answer(&world, &secret, true)), "approval_expired");
}

#[test]
fn each_call_is_decided_on_again_when_its_turn_comes() {
    let world = world();
    let developer = world.group("developer");
    let calls = [planned("charge", json!({ "n": 1, "ms": 1_000 })), planned("charge", json!({ "n": 2 }))];
    let id = developer.send(plan(&calls));
    approve(&world, &id);
    first_runs(&world);
    world.revoke("developer");
    let reply = developer.reply(&id);
    assert_eq!(states(&reply), ["succeeded", "failed"], "{reply}");
    assert_eq!(reply["data"]["calls"][1]["code"], "no_grant", "{reply}");
    assert_eq!(effects(&world), 1);
}

#[test]
fn a_caller_that_does_not_wait_gets_pending_and_collects_the_outcome() {
    let world = world();
    let developer = world.group("developer");
    let pending = developer.ask(with(plan(&charges(2, 0)), "timeout_ms", 50));
    assert_eq!((code(&pending), pending["status"].as_str()), ("approval_required", Some("pending")), "{pending}");
    let id = pending["request_id"].as_str().unwrap();
    approve(&world, id);
    let result = developer.ask(json!({ "type": "ext_result", "of": id }));
    assert_eq!(states(&result), ["succeeded"; 2], "{result}");
}

#[test]
fn two_plans_at_once_run_each_in_its_own_order() {
    let world = world();
    let developer = world.group("developer");
    let ids: Vec<String> = [100, 200]
        .map(|first| {
            let calls: Vec<Value> = (1..=4).map(|n| planned("charge", json!({ "n": first + n, "ms": 20 }))).collect();
            developer.send(plan(&calls))
        })
        .into();
    for id in &ids {
        approve(&world, id);
    }
    let mut ran = Vec::new();
    for id in &ids {
        let reply = developer.reply(id);
        assert_eq!(states(&reply), ["succeeded"; 4], "{reply}");
        let calls = reply["data"]["calls"].as_array().unwrap().clone();
        ran.push(calls.iter().map(|call| call["request_id"].as_str().unwrap().to_owned()).collect::<Vec<_>>());
    }
    // The remote has written down the request of each effect.
    let effects = world.effects_of("charge");
    assert_eq!(effects.len(), 8);
    for own in ran {
        let places = own.iter().map(|id| effects.iter().position(|effect| effect == id).unwrap());
        assert!(places.is_sorted(), "{own:?} in {effects:?}");
    }
}

#[test]
fn an_equal_plan_that_waits_serves_both_requests() {
    let world = world();
    let developer = world.group("developer");
    let id = developer.send(plan(&charges(2, 0)));
    let secret = asked(&world, &id);
    let second = developer.ask(plan(&charges(2, 0)));
    assert_eq!(code(&second), "approval_required", "{second}");
    assert_eq!(world.query("SELECT id FROM approvals").len(), 1);
    assert_eq!(code(&answer(&world, &secret, true)), "executed");
    assert_eq!(states(&developer.reply(&id)), ["succeeded"; 2]);
    let result = developer.ask(json!({ "type": "ext_result", "of": second["request_id"] }));
    assert_eq!(states(&result), ["succeeded"; 2], "{result}");
    assert_eq!(effects(&world), 2);
}

#[test]
fn a_call_that_differs_at_its_turn_does_not_run_although_nobody_needs_to_be_asked_about_it() {
    let mut world = world();
    let developer = world.group("developer");
    let id = developer.send(plan(&[planned("echo", json!({ "n": 1 })), planned("charge", json!({ "n": 1 }))]));
    let secret = asked(&world, &id);
    world.stop();
    let other = "[actions.echo]\ndescription = \"Something else.\"\n";
    world.rewrite("demo.toml", &format!("{SCRIPT}\n{EXPOSING}").replacen("[actions.echo]\n", other, 1));
    world.start();
    assert_eq!(code(&answer(&world, &secret, true)), "executed");
    let reply = developer.reply(&id);
    assert_eq!(states(&reply), ["failed", "skipped"], "{reply}");
    assert_eq!(reply["data"]["calls"][0]["code"], "approval_required");
    assert!(world.rows().iter().all(|row| row.kind != "intended"));
}

#[test]
fn a_plan_that_differs_in_more_than_its_parameters_is_another_question() {
    let world = world();
    let developer = world.group("developer");
    world.task("gov-1", "developer");
    let id = developer.send(plan(&charges(2, 0)));
    asked(&world, &id);
    let calls: Vec<Value> = charges(2, 0).into_iter().map(|call| with(call, "task_id", json!("gov-1"))).collect();
    let other = developer.send(plan(&calls));
    let secret = asked(&world, &other);
    assert_eq!(code(&answer(&world, &secret, true)), "executed");
    assert_eq!(states(&developer.reply(&other)), ["succeeded"; 2]);
    assert_eq!(effects(&world), 2);
    assert_eq!(world.query("SELECT id FROM approvals WHERE state = 'waiting'").len(), 1);
}

/// The approval request of a plan, from the command line's answer on.
fn approved_by_cli(world: &World, id: &str) {
    let output = world.cli(&["approvals", "approve", &asked(world, id)]);
    assert!(output.status.success(), "{output:?}");
}

/// Attack (Order of the stages, and content): A call of a plan runs twice, out of order, or after
/// the plan has ended.
/// Defence: The change that ends a call starts the next one. A call whose turn it is not is
/// refused.
#[test]
fn a_broker_that_is_killed_in_the_middle_runs_each_call_at_most_once_and_in_order() {
    let mut world = down().down();
    world.start_process();
    let output = world.cli(&["grant", "developer", "demo", "2"]);
    assert!(output.status.success(), "{output:?}");
    let developer = world.group("developer");
    let mut seen = Vec::new();
    for kill_after in 1..=3 {
        let before = effects(&world);
        let calls: Vec<Value> =
            (1..=4).map(|n| planned("charge", json!({ "n": kill_after * 100 + n, "ms": 100 }))).collect();
        let id = developer.send(plan(&calls));
        approved_by_cli(&world, &id);
        until("some calls have run", || (effects(&world) >= before + kill_after).then_some(()));
        world.end_with(true, &[]);
        world.start_process();
        let reply = until("the plan is over", || {
            let reply = developer.ask(json!({ "type": "ext_result", "of": id }));
            reply["data"]["calls"].is_array().then_some(reply)
        });
        let states = states(&reply);
        let done = states.iter().take_while(|state| **state == "succeeded").count();
        let ran = effects(&world) - before;
        // The call in whose middle the broker died has an unknown outcome, and ends the plan.
        let rest: Vec<&str> = states[done..].to_vec();
        assert!(rest.iter().skip(1).all(|state| *state == "skipped"), "{states:?}");
        assert!(rest.first().is_none_or(|state| *state == "failed"), "{states:?}");
        assert!(ran == done || ran == done + 1 && !rest.is_empty(), "{ran} effects, {states:?}");
        seen.push(states.join(" "));
        if let Some(failed) = reply["data"]["calls"].as_array().unwrap().get(done) {
            assert_eq!(failed["code"], "outcome_unknown", "{reply}");
        }
    }
    let mut charged = world.effects_of("charge");
    let all = charged.len();
    charged.sort();
    charged.dedup();
    assert_eq!(charged.len(), all, "a call ran twice: {seen:?}");
    world.end_with(false, &[]);
}
