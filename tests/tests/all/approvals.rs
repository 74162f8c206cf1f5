//! A person's yes: asked once, to exactly this, spent once, silence is a no.

use serde_json::{Value, json};
use std::time::Duration;
use tests::group::{Group, call, code, error, with};
use tests::world::SCRIPT;
use tests::{World, until};

const ASKS: &str =
    "write = \"rules\"\n[providers.demo]\nactions = { charge = \"human\", agree = \"human\", lossy = \"human\" }\n";

fn world() -> World {
    let world = world_down().up();
    world.grant("developer", 2);
    world
}

fn world_down() -> tests::world::Builder {
    World::builder().file("policy/profiles/developer.toml", ASKS)
}

/// The questions that wait, oldest first.
fn open(world: &World) -> Vec<Value> {
    world.query("SELECT code, request_id, state, asked_seq FROM approvals WHERE state = 'waiting' ORDER BY id")
}

fn asked(world: &World, id: &str) -> String {
    until("the approval request", || {
        let found = open(world).into_iter().find(|approval| approval["request_id"] == id)?;
        Some(found["code"].as_str()?.to_owned())
    })
}

fn answer(world: &World, code: &str, yes: bool, reason: Option<&str>) -> Value {
    world.command(json!({ "type": "answer", "code": code, "yes": yes, "reason": reason }))
}

/// Sends a call that needs a person, and waits for the question; the request's id and the code.
fn ask(world: &World, group: &Group, document: Value) -> (String, String) {
    let id = group.send(document);
    let code = asked(world, &id);
    (id, code)
}

fn kinds(world: &World, caller: &str) -> Vec<String> {
    world.rows().into_iter().filter(|row| row.caller == caller).map(|row| row.kind).collect()
}

/// Returns how often the daemon's parser has begun to wait.
fn waits_of_the_parser(world: &World) -> u64 {
    let (_, parser) = world.threads().into_iter().find(|(name, _)| name == "parser").expect("a parser");
    let path = format!("/proc/{}/task/{}/status", world.pid().as_raw_nonzero(), parser.as_raw_nonzero());
    let status = std::fs::read_to_string(path).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:")).expect("a count");
    line.trim().parse().unwrap()
}

#[test]
fn an_approved_call_is_parsed_beside_the_loop() {
    let world = world_down().process();
    world.grant("developer", 2);
    let developer = world.group("developer");
    let (id, approval_request) = ask(&world, &developer, call("charge", json!({ "n": 1 })));
    let before = waits_of_the_parser(&world);
    assert_eq!(code(&answer(&world, &approval_request, true, None)), "executed");
    assert_eq!(code(&developer.reply(&id)), "executed");
    until("the parser waits again", || (waits_of_the_parser(&world) > before).then_some(()));
    // A long one, too.
    let (id, approval_request) = ask(&world, &developer, call("charge", json!({ "text": "x".repeat(600_000) })));
    assert_eq!(code(&answer(&world, &approval_request, true, None)), "executed");
    assert_eq!(code(&developer.reply(&id)), "executed");
    assert_eq!(world.effects_of("charge").len(), 2);
}

#[test]
fn a_call_waits_for_a_yes_and_runs_once() {
    let world = world();
    let developer = world.group("developer").by_files();
    let (id, approval_request) = ask(&world, &developer, call("charge", json!({ "to": "alice", "n": 3 })));
    until("its row is durable, so the request's file goes", || (developer.waiting() == 0).then_some(()));
    assert_eq!(world.effects_of("charge"), Vec::<String>::new());
    assert_eq!(developer.try_reply(&id), None);
    let progress = until("progress", || developer.names("responses").pop());
    assert_eq!(progress, format!("{id}.progress.json"));
    assert_eq!(code(&answer(&world, &approval_request.to_uppercase(), true, None)), "executed", "codes are read aloud");
    assert_eq!(code(&developer.reply(&id)), "executed");
    assert_eq!(world.effects_of("charge"), std::slice::from_ref(&id));
    assert_eq!(world.kinds_of(&developer, &id), ["asked", "intended", "succeeded"]);
    let rows = world.rows_of(&developer, &id);
    let reference = format!("ask-{}", rows[0].seq);
    assert_eq!(rows[1].approval.as_deref(), Some(reference.as_str()));
    let yes = world.rows().into_iter().find(|row| row.kind == "approved").unwrap();
    assert_eq!((yes.caller.as_str(), yes.approval.as_deref()), ("person:operator", Some(reference.as_str())));
    // Spent: nothing is left that could be answered or that shows the parameters.
    assert_eq!(error(&answer(&world, &approval_request, true, None)).split(':').next(), Some("It is too late"));
    let left = world.query("SELECT state, became, card, document FROM approvals");
    assert_eq!(left, [json!({ "state": "closed", "became": "spent", "card": null, "document": null })]);
    until("the progress is gone", || developer.names("responses").is_empty().then_some(()));
    assert_eq!(world.effects_of("charge").len(), 1);
}

#[test]
fn a_no_is_told_with_its_reason_and_nothing_runs() {
    let world = world();
    let developer = world.group("developer");
    let (id, approval_request) = ask(&world, &developer, call("charge", json!({})));
    assert_eq!(code(&answer(&world, &approval_request, false, Some("not on a Friday\u{202e}"))), "executed");
    let reply = developer.reply(&id);
    assert_eq!(code(&reply), "approval_denied");
    assert!(error(&reply).contains("not on a Friday<U+202E>"), "{reply}");
    assert_eq!(world.kinds_of(&developer, &id), ["asked", "refused"]);
    assert_eq!(code(&answer(&world, &approval_request, true, None)), "approval_expired");
    assert_eq!(world.effects_of("charge").len(), 0);
}

/// Attack (Approvals and notices): A caller waits until nobody reads.
/// Defence: No answer is a denial.
#[test]
fn silence_is_a_no_and_a_late_yes_changes_nothing() {
    let world = world();
    let developer = world.group("developer");
    let (id, approval_request) = ask(&world, &developer, call("charge", json!({})));
    world.clock.advance(Duration::from_secs(301));
    assert_eq!(
        code(&answer(&world, &approval_request, true, None)),
        "approval_expired",
        "also before anybody has noticed"
    );
    assert_eq!(code(&developer.reply(&id)), "approval_expired");
    assert_eq!(world.kinds_of(&developer, &id), ["asked", "lapsed", "refused"]);
    assert_eq!(code(&answer(&world, &approval_request, true, None)), "approval_expired");
    assert_eq!(world.effects_of("charge").len(), 0);
    assert_eq!(world.query("SELECT * FROM approval_answers").len(), 0);
}

#[test]
fn callers_that_stop_waiting_get_pending_and_collect_the_outcome_later() {
    let world = world();
    let developer = world.group("developer");
    let (id, approval_request) = ask(&world, &developer, with(call("charge", json!({ "n": 1 })), "timeout_ms", 1200));
    let reply = developer.reply(&id);
    assert_eq!((&reply["status"], code(&reply)), (&json!("pending"), "approval_required"));
    assert_eq!(reply["approval"]["ref"], format!("ask-{}", world.rows_of(&developer, &id)[0].seq));
    assert!(!reply.to_string().contains(&approval_request), "an agent never learns the code: {reply}");
    // The same request again, and the question for its result, hear the same.
    let again = with(with(call("charge", json!({ "n": 1 })), "timeout_ms", 1200), "request_id", id.clone());
    assert_eq!(developer.ask(again)["status"], "pending");
    let result = |timeout: u64| json!({ "type": "ext_result", "of": id, "timeout_ms": timeout });
    assert_eq!(developer.ask(result(600))["status"], "pending");
    let waits = developer.send(result(60_000));
    assert_eq!(code(&answer(&world, &approval_request, true, None)), "executed");
    assert_eq!(code(&developer.reply(&waits)), "executed");
    assert_eq!(code(&developer.ask(result(1_000))), "executed");
    assert_eq!(world.effects_of("charge"), std::slice::from_ref(&id));
    assert_eq!(developer.try_reply(&id), None, "one request has one reply");
}

#[test]
fn a_question_outlives_the_daemon_and_its_caller_is_answered_once() {
    let mut world = world_down().process();
    world.grant("developer", 2);
    let developer = world.group("developer");
    let (first, yes) = ask(&world, &developer, call("charge", json!({ "n": 1 })));
    let (told, later) = ask(&world, &developer, with(call("charge", json!({ "n": 2 })), "timeout_ms", 1000));
    assert_eq!(developer.reply(&told)["status"], "pending");
    let (third, no) = ask(&world, &developer, call("charge", json!({ "n": 3 })));
    world.kill();
    world.start_process();
    for (code, said) in [(&yes, true), (&later, true), (&no, false)] {
        assert_eq!(answer(&world, code, said, None)["status"], "executed");
    }
    assert_eq!(code(&developer.reply(&first)), "executed");
    assert_eq!(code(&developer.reply(&third)), "approval_denied");
    let collected = developer.ask(json!({ "type": "ext_result", "of": told }));
    assert_eq!(code(&collected), "executed");
    world.kill();
    world.start_process();
    let mut effects = world.effects_of("charge");
    effects.sort();
    let mut expected = [first, told.clone()];
    expected.sort();
    assert_eq!(effects, expected);
    // Replies that may not have left before a kill are delivered again; replies that were only kept never are.
    let again = developer.try_reply(&told);
    assert!(again.is_none_or(|reply| reply["status"] == "pending"), "one request has one reply");
}

#[test]
fn calls_approved_while_no_daemon_ran_run_once_at_the_next_start() {
    let mut world = world_down().process();
    world.grant("developer", 2);
    let developer = world.group("developer");
    let (id, approval_request) = ask(&world, &developer, call("charge", json!({})));
    world.kill();
    let shown = world.cli(&["approvals", "show", &approval_request]);
    assert!(String::from_utf8_lossy(&shown.stdout).contains("Action: demo.charge"), "{shown:?}");
    let done = world.cli(&["approvals", "approve", &approval_request]);
    assert!(done.status.success(), "{done:?}");
    assert_eq!(world.effects_of("charge").len(), 0);
    for _ in 0..3 {
        world.start_process();
        until("the effect", || (world.effects_of("charge").len() == 1).then_some(()));
        world.settle();
        world.kill();
    }
    assert_eq!(world.effects_of("charge"), [id]);
    world.start_process();
}

/// Attack (Approvals and notices): `kill -9` around an approval.
/// Defence: The approval is consumed with the intent. An approval without an intent is found at
/// start.
#[test]
fn killed_at_any_moment_around_a_yes_the_effect_happens_at_most_once_and_the_truth_is_told() {
    let mut world = world_down().process();
    world.grant("developer", 2);
    let developer = world.group("developer");
    for round in 0..12_u32 {
        let (id, approval_request) = ask(&world, &developer, call("charge", json!({ "round": round })));
        let socket = world.path("broker.sock");
        let said = std::thread::spawn(move || {
            let control =
                serde_json::from_value(json!({ "type": "answer", "code": approval_request, "yes": true })).unwrap();
            // The daemon may die before it answers.
            host_broker::control::send(&socket, &control).ok();
        });
        // From before the answer arrives to after the effect.
        for _ in 0..round * 2_000 {
            std::hint::spin_loop();
        }
        world.kill();
        said.join().unwrap();
        world.start_process();
        if let Some(waiting) = open(&world).first() {
            // The yes was not recorded, so it was not given.
            assert_eq!(code(&answer(&world, waiting["code"].as_str().unwrap(), true, None)), "executed");
        }
        let reply = developer.reply(&id);
        let effects = world.effects_of("charge").into_iter().filter(|effect| *effect == id).count();
        match code(&reply) {
            "executed" => assert_eq!(effects, 1, "{reply}"),
            "outcome_unknown" => assert!(effects <= 1, "{reply}"),
            other => panic!("{other}: {reply}"),
        }
    }
}

/// Attack (Approvals and notices): A person without the right answers.
/// Defence: `approves` in the configuration decides; there is a row.
#[test]
fn people_without_the_right_to_answer_change_nothing_and_are_recorded() {
    let mut world = world_down().down();
    let text = std::fs::read_to_string(world.path("broker.toml")).unwrap();
    let approves = |world: &World, what: &str| world.rewrite("broker.toml", &text.replace("approves = {}", what));
    // A person who grants must approve up to the level of the grant; later, this person does not.
    world.start();
    world.grant("developer", 2);
    world.stop();
    for (narrow, wide) in [
        ("", "approves = {}"),
        ("approves = { groups = [\"security\"] }", "approves = { groups = [\"developer\"] }"),
        ("approves = { providers = [\"private\"] }", "approves = { providers = [\"demo\"] }"),
        ("approves = { max_level = 1 }", "approves = { max_level = 2 }"),
    ] {
        approves(&world, narrow);
        world.start();
        let developer = world.group("developer");
        let (id, approval_request) = ask(&world, &developer, call("charge", json!({})));
        let before = world.rows().len();
        assert_eq!(code(&answer(&world, &approval_request, true, None)), "guardrail", "{narrow}");
        assert_eq!(world.rows().len(), before + 1);
        assert_eq!(developer.try_reply(&id), None);
        world.stop();
        approves(&world, wide);
        world.start();
        assert_eq!(code(&answer(&world, &approval_request, true, None)), "executed", "{wide}");
        assert_eq!(code(&developer.reply(&id)), "executed");
        world.stop();
    }
    world.start();
}

/// Attack (Authority): A sandbox forges an answer, under any type, code, reference or file name.
/// Defence: No document is an answer. People answer through the control socket, and an agent never
/// learns the code.
#[test]
fn nothing_that_a_sandbox_writes_answers_a_question() {
    let world = world();
    let developer = world.group("developer");
    let (id, approval_request) = ask(&world, &developer, call("charge", json!({})));
    let reference = format!("ask-{}", world.rows_of(&developer, &id)[0].seq);
    for group in ["developer", "main", "security"] {
        let group = world.group(group);
        for word in ["answer", "ext_answer", "approve", "ext_approve", "approval"] {
            for name in [&approval_request, &reference, &id] {
                let forged = json!({ "type": word, "code": name, "yes": true, "ref": name, "of": name });
                assert_eq!(code(&group.ask(forged)), "unknown_type");
            }
        }
        let call =
            with(call("charge", json!({})), "approval", json!({ "code": approval_request, "state": "approved" }));
        assert_eq!(code(&group.ask(call)), "malformed_request");
    }
    // A file under the reply's or the question's name is not read.
    developer.put(&format!("{approval_request}.json"), r#"{"type":"answer","yes":true}"#);
    std::fs::write(developer.response(&format!("{id}.json")), r#"{"status":"executed"}"#).unwrap();
    until("everything is read", || (developer.waiting() == 0).then_some(()));
    assert_eq!(world.effects_of("charge").len(), 0);
    assert_eq!(open(&world).len(), 1, "it still waits");
    std::fs::remove_file(developer.response(&format!("{id}.json"))).unwrap();
    answer(&world, &approval_request, false, None);
    assert_eq!(code(&developer.reply(&id)), "approval_denied");
}

/// Attack (Approvals and notices): An approval is used for a second or another call.
/// Defence: It belongs to one request and is consumed in the intent's transaction.
#[test]
fn an_equal_call_joins_the_question_and_another_one_does_not() {
    let world = world();
    let developer = world.group("developer");
    let (first, approval_request) = ask(&world, &developer, call("charge", json!({ "n": 1 })));
    let equal = developer.send(call("charge", json!({ "n": 1 })));
    let (other, second) = ask(&world, &developer, call("charge", json!({ "n": 2 })));
    assert_eq!(open(&world).len(), 2);
    answer(&world, &approval_request, true, None);
    assert_eq!(code(&developer.reply(&first)), "executed");
    assert_eq!(code(&developer.reply(&equal)), "executed", "it has the outcome of the first");
    assert_eq!(world.effects_of("charge"), [first]);
    assert_eq!(developer.try_reply(&other), None, "one yes serves one request");
    answer(&world, &second, false, None);
    assert_eq!(code(&developer.reply(&other)), "approval_denied");
    // The next equal one is a new question.
    let (third, approval_request) = ask(&world, &developer, call("charge", json!({ "n": 1 })));
    answer(&world, &approval_request, false, None);
    assert_eq!(code(&developer.reply(&third)), "approval_denied");
}

#[test]
fn callers_that_joined_an_approval_request_and_left_collect_its_outcome() {
    let world = world();
    let developer = world.group("developer");
    let (first, approval_request) = ask(&world, &developer, call("charge", json!({ "n": 1 })));
    let joined = developer.ask(with(call("charge", json!({ "n": 1 })), "timeout_ms", 1000));
    assert_eq!(joined["status"], "pending");
    let result = |of: &Value| json!({ "type": "ext_result", "of": of, "timeout_ms": 1000 });
    assert_eq!(developer.ask(result(&joined["request_id"]))["status"], "pending");
    answer(&world, &approval_request, true, None);
    assert_eq!(code(&developer.reply(&first)), "executed");
    assert_eq!(code(&developer.ask(result(&joined["request_id"]))), "executed");
    assert_eq!(world.effects_of("charge"), [first]);
}

#[test]
fn two_questions_under_one_idempotency_key_are_one_effect_and_both_end() {
    let mut world = world();
    world.task("t1", "developer");
    world.task("t2", "developer");
    let developer = world.group("developer");
    let keyed = |task: &str| with(with(call("charge", json!({})), "idempotency_key", "k"), "task_id", task);
    let (first, yes) = ask(&world, &developer, keyed("t1"));
    let (second, also) = ask(&world, &developer, keyed("t2"));
    for approval_request in [&yes, &also] {
        assert_eq!(code(&answer(&world, approval_request, true, None)), "executed");
    }
    assert_eq!(code(&developer.reply(&first)), "executed");
    assert_eq!(code(&developer.reply(&second)), "executed");
    assert_eq!(world.query("SELECT id FROM approvals WHERE state <> 'closed'"), [Value::Null; 0]);
    world.stop();
    // The key is forgotten after a day; what was agreed to then must not run now.
    world.clock.advance(Duration::from_secs(25 * 3600));
    world.start();
    world.settle();
    assert_eq!(world.effects_of("charge"), [first]);
}

#[test]
fn an_approval_does_not_wait_permanently_for_a_daemon() {
    let mut world = world();
    let developer = world.group("developer");
    let (id, approval_request) = ask(&world, &developer, call("charge", json!({})));
    world.stop();
    let office_says = |yes: bool| {
        let control =
            serde_json::from_value(json!({ "type": "answer", "code": approval_request, "yes": yes })).unwrap();
        world.in_place(&control)
    };
    assert_eq!(code(&office_says(true)), "executed");
    world.clock.advance(Duration::from_secs(3600));
    world.start();
    assert_eq!(code(&developer.reply(&id)), "approval_expired");
    assert_eq!(world.effects_of("charge").len(), 0);
}

#[test]
fn a_name_that_would_fill_the_memory_is_refused_like_a_long_call() {
    let world = world();
    let items = "1,".repeat(19_000);
    let id = "long-name";
    let name = "n".repeat(500 * 1024);
    let developer = world.group("developer");
    let text = format!(
        r#"{{"type":"ext_call","request_id":"{id}","provider":"demo","action":"charge","params":{{"{name}":[{items}1]}}}}"#
    );
    developer.put(&format!("{id}.json"), text);
    assert_eq!(code(&developer.reply(id)), "guardrail");
}

#[test]
fn a_cancelled_question_can_no_longer_be_answered() {
    let world = world();
    let developer = world.group("developer");
    let (id, approval_request) = ask(&world, &developer, call("charge", json!({})));
    let foreign = world.group("security").ask(json!({ "type": "ext_cancel", "of": id }));
    assert_eq!(code(&foreign), "unknown_request", "a caller reaches only its own");
    let cancelled = developer.ask(json!({ "type": "ext_cancel", "of": id }));
    assert_eq!(cancelled["data"]["cancelled"], true, "{cancelled}");
    assert_eq!(code(&developer.reply(&id)), "cancelled");
    assert_eq!(code(&answer(&world, &approval_request, true, None)), "approval_expired");
    assert_eq!(world.effects_of("charge").len(), 0);
}

/// Attack (Approvals and notices): Access is withdrawn between the approval request and the
/// approval.
/// Defence: The request is decided again.
#[test]
fn approved_calls_are_decided_again_before_they_run() {
    let world = world();
    let developer = world.group("developer");
    let (id, approval_request) = ask(&world, &developer, call("charge", json!({})));
    world.revoke("developer");
    assert_eq!(code(&answer(&world, &approval_request, true, None)), "executed");
    assert_eq!(code(&developer.reply(&id)), "no_grant", "a yes is no grant");
    world.grant("developer", 2);
    let (id, approval_request) = ask(&world, &developer, call("charge", json!({})));
    world.command(json!({ "type": "kill", "scope": "all", "on": true }));
    answer(&world, &approval_request, true, None);
    assert_eq!(code(&developer.reply(&id)), "kill_switch");
    world.command(json!({ "type": "kill", "scope": "all", "on": false }));
    assert_eq!(world.effects_of("charge").len(), 0);
    assert_eq!(open(&world).len(), 0, "a refused call closes its question");
}

/// Attack (Approvals and notices): A provider changes between the approval request and the
/// approval.
/// Defence: The digest covers the declaration and the facts of the remote.
#[test]
fn a_yes_to_one_definition_is_none_to_another() {
    let mut world = world_down().process();
    world.grant("developer", 2);
    let developer = world.group("developer");
    let (id, approval_request) = ask(&world, &developer, call("charge", json!({})));
    world.kill();
    let script = std::fs::read_to_string(world.path("demo.toml")).unwrap();
    let changed = script.replace("[actions.charge]", "[actions.charge]\ndescription = \"Pays twice.\"");
    world.rewrite("demo.toml", &changed);
    world.start_process();
    assert_eq!(code(&answer(&world, &approval_request, true, None)), "executed");
    let reply = developer.reply(&id);
    assert_eq!(code(&reply), "approval_required");
    assert!(error(&reply).contains("differs from the call that would run now"), "{reply}");
    assert_eq!(world.effects_of("charge").len(), 0);
}

/// Attack (Approvals and notices): A caller causes a flood of approval requests.
/// Defence: Twenty can be open per group, then `busy`.
#[test]
fn only_so_many_questions_of_a_group_are_open_and_other_groups_are_not_held_up() {
    let world = world();
    let developer = world.group("developer");
    let ids: Vec<String> = (0..20).map(|n| ask(&world, &developer, call("charge", json!({ "n": n }))).0).collect();
    assert_eq!(code(&developer.call("charge", json!({ "n": 20 }))), "busy");
    assert_eq!(code(&developer.call("echo", json!({}))), "executed", "questions take no place among the calls");
    world.grant("security", 2);
    assert_eq!(code(&world.group("security").call("charge", json!({}))), "executed");
    for id in ids {
        answer(&world, &asked(&world, &id), false, None);
        assert_eq!(code(&developer.reply(&id)), "approval_denied");
    }
    // As many as may be asked at once were asked.
    world.clock.advance(Duration::from_secs(30));
    let (id, approval_request) = ask(&world, &developer, call("charge", json!({ "n": 20 })));
    answer(&world, &approval_request, true, None);
    assert_eq!(code(&developer.reply(&id)), "executed");
}

/// Attack (Approvals and notices): A call is too large to read.
/// Defence: It is refused before anybody is asked.
#[test]
fn a_call_that_cannot_be_shown_in_full_is_refused_before_anybody_is_asked() {
    let world = world();
    let developer = world.group("developer");
    let reply = developer.call("charge", json!({ "text": "x".repeat(800 * 1024) }));
    assert_eq!(code(&reply), "guardrail");
    assert!(error(&reply).contains("too large for an approval request"), "{reply}");
    let (id, approval_request) = ask(&world, &developer, call("charge", json!({ "text": "y".repeat(500 * 1024) })));
    let card = &world.query("SELECT card FROM approvals WHERE state = 'waiting'")[0]["card"];
    assert!(card.as_str().unwrap().contains(&"y".repeat(500 * 1024)), "nothing is folded away");
    answer(&world, &approval_request, false, None);
    assert_eq!(code(&developer.reply(&id)), "approval_denied");
}

#[test]
fn a_dry_run_says_that_a_person_would_be_asked_and_asks_nobody() {
    let world = world();
    let reply = world.group("developer").ask(with(call("charge", json!({})), "dry_run", true));
    assert_eq!(reply["data"]["verdict"], "ask a person");
    assert_eq!(world.query("SELECT * FROM approvals").len(), 0);
    assert_eq!(kinds(&world, "person:operator"), ["granted"]);
}

#[test]
fn an_action_that_always_needs_a_person_does_so_for_every_group() {
    let world = World::with_grant();
    let developer = world.group("developer");
    let (id, approval_request) = ask(&world, &developer, call("agree", json!({})));
    answer(&world, &approval_request, true, None);
    assert_eq!(code(&developer.reply(&id)), "executed");
    assert_eq!(world.effects_of("agree"), [id]);
}

/// How each approval ended.
fn endings(world: &World) -> Vec<Value> {
    world.query("SELECT request_id, state, became FROM approvals ORDER BY id")
}

#[test]
fn an_approval_of_a_group_that_is_gone_is_closed_at_the_start_with_a_row() {
    let mut world = world();
    let developer = world.group("developer");
    let (waiting, _) = ask(&world, &developer, call("charge", json!({ "n": 1 })));
    let (answered, approval_request) = ask(&world, &developer, call("charge", json!({ "n": 2 })));
    world.stop();
    let yes =
        serde_json::from_value(json!({ "type": "answer", "code": approval_request, "yes": true, "reason": null }))
            .unwrap();
    assert_eq!(code(&world.in_place(&yes)), "executed");
    let config = std::fs::read_to_string(world.path("broker.toml")).unwrap();
    world.rewrite("broker.toml", &config.replace("[groups.developer]\n", ""));
    std::fs::remove_file(world.path("policy/profiles/developer.toml")).unwrap();
    world.start();
    let closed = |id: &str| json!({ "request_id": id, "state": "closed", "became": "cancelled" });
    until("the end of both", || (endings(&world) == [closed(&waiting), closed(&answered)]).then_some(()));
    let rows = world.rows_of(&developer, &waiting);
    let last = rows.last().unwrap();
    assert_eq!((last.kind.as_str(), last.reason_code.as_deref()), ("refused", Some("cancelled")));
    assert!(last.body.contains("not configured any more"), "{}", last.body);
    assert_eq!(world.effects_of("charge"), [""; 0]);
    world.restart();
    assert_eq!(world.rows_of(&developer, &waiting).len(), rows.len(), "once is enough");
}

#[test]
fn an_approval_of_a_call_that_takes_other_parameters_now_is_closed_at_the_start_and_its_caller_hears_why() {
    let script = |schema: &str| {
        format!("{SCRIPT}\n[actions.pay]\nlevel = 2\nhuman = true\nappend_to = \"pay.log\"\nexposes = []\n{schema}")
    };
    let mut world = world_down().script("demo", &script("")).up();
    world.grant("developer", 2);
    let developer = world.group("developer");
    let (waiting, _) = ask(&world, &developer, call("pay", json!({ "n": 1 })));
    let (answered, approval_request) = ask(&world, &developer, call("pay", json!({ "n": 2 })));
    let (damaged, _) = ask(&world, &developer, call("charge", json!({ "n": 3 })));
    world.stop();
    // As a tool of an external agent is that cannot be put together any more.
    let database = rusqlite::Connection::open(world.path("ledger.db")).unwrap();
    let damage = "UPDATE approvals SET document = CAST('{}' AS BLOB) WHERE request_id = ?1";
    assert_eq!(database.execute(damage, [&damaged]), Ok(1));
    drop(database);
    let yes =
        serde_json::from_value(json!({ "type": "answer", "code": approval_request, "yes": true, "reason": null }))
            .unwrap();
    assert_eq!(code(&world.in_place(&yes)), "executed");
    let schema = "input_schema = { type = \"object\", additionalProperties = false, required = [\"m\"], properties = { m = { type = \"integer\" } } }\n";
    world.rewrite("demo.toml", &script(schema));
    world.start();
    for id in [&waiting, &answered, &damaged] {
        let reply = developer.reply(id);
        assert_eq!(code(&reply), "invalid_params", "{reply}");
        assert_eq!(error(&reply).contains("is not valid any more"), *id == damaged, "{reply}");
    }
    until("the end of all", || endings(&world).iter().all(|ending| ending["state"] == "closed").then_some(()));
    assert_eq!(world.effects_of("pay"), [""; 0]);
}
