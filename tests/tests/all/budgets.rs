//! Endless repetition by a caller costs neither the disk nor people more than the caller's share.

use serde_json::{Value, json};
use tests::group::{Group, call, code, error, with};
use tests::world::CONFIG;
use tests::{World, evidence, until};

/// A world in which evidence is scarce, and one request of a group may wait for another.
fn scarce() -> World {
    World::builder()
        .config(&CONFIG.replace("[broker]", "[broker]\nevidence_mib_per_hour = 1\nmax_concurrent_calls = 1"))
        .up()
}

fn count(world: &World, condition: &str) -> usize {
    world.query(&format!("SELECT seq FROM ledger WHERE {condition}")).len()
}

/// Calls until the group's evidence is used up.
fn use_up(group: &Group) {
    let text = "x".repeat(100_000);
    let refused = (0..20).map(|n| group.call("echo", json!({ "n": n, "text": text }))).find(|reply| {
        assert!(["executed", "rate_limited"].contains(&code(reply)), "{reply}");
        code(reply) == "rate_limited"
    });
    assert!(refused.is_some(), "the budget is never used up");
}

/// Attack (Load and space): a group asks for the result of an open approval request without end, or
/// a caller grants, revokes and opens gates without end
/// Defence: such requests share rows and keep no reply; above its evidence a caller can only read,
/// cancel and revoke
#[test]
fn the_result_of_an_open_question_costs_no_row_and_no_reply_for_each_request() {
    const ASKED: usize = 700;
    let world = scarce();
    world.grant("developer", 1);
    let developer = world.group("developer");
    let approval_request = developer.send(with(call("agree", json!({})), "timeout_ms", 60_000));
    until("the approval request", || {
        world.query("SELECT code FROM approvals WHERE state = 'waiting'").into_iter().next()
    });
    let result = json!({ "type": "ext_result", "of": approval_request });
    // The first waits as long as it can, and once the next one is answered, no other can wait.
    developer.send(with(result.clone(), "timeout_ms", 60_000));
    developer.ask(with(result.clone(), "timeout_ms", 1));
    for _ in 0..ASKED {
        let reply = developer.ask(result.clone());
        assert_eq!(reply["status"], "pending", "{reply}");
    }
    let kept = world.query("SELECT seq FROM replies WHERE caller = 'group:developer'").len();
    assert!(kept < 5, "{kept} replies are kept");
    let rows = count(&world, "caller = 'group:developer' AND kind = 'answered'");
    assert!(rows < ASKED - 100, "{rows} rows for {ASKED} requests");
    // Callers that joined the approval request are still told its outcome.
    world.command(
        json!({ "type": "answer", "code": world.query("SELECT code FROM approvals")[0]["code"], "yes": true }),
    );
    assert_eq!(code(&developer.reply(&approval_request)), "executed");
    assert_eq!(code(&developer.ask(result)), "executed");
}

/// Attack (Load and space): Requests that wait, cards, and changes of files fill the disk. A stolen
/// operator token does so.
/// Defence: They count against the hourly budget of evidence, too, and operator tokens have one.
#[test]
fn calls_that_wait_for_a_person_count_against_the_evidence_budget() {
    const ASKED: usize = 7;
    let world = World::builder().config(&CONFIG.replace("[broker]", "[broker]\nevidence_mib_per_hour = 1")).up();
    world.grant("developer", 1);
    let developer = world.group("developer");
    let text = "x".repeat(200_000);
    for n in 0..ASKED {
        developer.send(call("agree", json!({ "n": n, "text": text })));
    }
    until("each is asked or refused", || {
        let waiting = world.query("SELECT id FROM approvals WHERE state = 'waiting'").len();
        (waiting + count(&world, "kind = 'refused'") == ASKED).then_some(())
    });
    assert_eq!(code(&developer.call("echo", json!({}))), "rate_limited");
}

/// Attack: see `the_result_of_an_open_question_costs_no_row_and_no_reply_for_each_request`.
#[test]
fn a_caller_that_has_used_up_its_evidence_changes_nothing_more_and_still_reads_and_ends() {
    let world = scarce();
    world.grant("main", 1);
    let main = world.group("main");
    let give = json!({ "type": "ext_grant", "group_folder": "developer", "provider": "demo", "access_level": 1 });
    assert_eq!(code(&main.ask(give.clone())), "executed");
    let earlier = main.send(call("echo", json!({})));
    assert_eq!(code(&main.reply(&earlier)), "executed");
    use_up(&main);
    let task = json!({ "type": "task_create", "title": "x", "group_folder": "developer" });
    for document in [give, task] {
        let refused = main.ask(document);
        assert_eq!(code(&refused), "rate_limited", "{refused}");
        assert!(error(&refused).contains("1 MiB an hour") && refused["retry_after_ms"].is_u64(), "{refused}");
    }
    for document in [
        json!({ "type": "ext_list" }),
        json!({ "type": "ext_capabilities" }),
        json!({ "type": "ext_result", "of": earlier }),
        json!({ "type": "ext_revoke", "group_folder": "developer", "provider": "demo" }),
    ] {
        let reply = main.ask(document.clone());
        assert_eq!(code(&reply), "executed", "{document}: {reply}");
    }
    assert_eq!(code(&main.ask(json!({ "type": "ext_cancel", "of": earlier }))), "executed");
    // People are not bounded.
    world.grant("developer", 1);
    world.task("gov-1", "developer");
    assert_eq!(code(&world.command(json!({ "type": "kill", "scope": "all", "on": true }))), "executed");
}

/// Attack: see `the_result_of_an_open_question_costs_no_row_and_no_reply_for_each_request`.
#[test]
fn to_revoke_what_is_revoked_is_counted_like_everything_that_changes_nothing() {
    const ASKED: usize = 600;
    let world = scarce();
    let main = world.group("main");
    let revoke = json!({ "type": "ext_revoke", "group_folder": "developer", "provider": "demo" });
    for _ in 0..ASKED {
        assert_eq!(main.ask(revoke.clone())["data"], json!({ "revoked": false }));
    }
    let rows = count(&world, "caller = 'group:main'");
    assert!(rows < ASKED - 100, "{rows} rows for {ASKED} requests");
    world.grant("developer", 1);
    assert_eq!(main.ask(revoke)["data"], json!({ "revoked": true }));
    assert_eq!(count(&world, "caller = 'group:main' AND kind = 'revoked'"), 1);
}

/// Attack (Load and space): a group swaps its directories thousands of times, at the broker's cost
/// Defence: the group is charged, one row a minute; a line in the log and a snapshot follow once a
/// second at most
#[test]
fn a_group_that_swaps_its_directories_is_charged_for_it_and_costs_a_row_a_minute() {
    const SWAPS: usize = 400;
    let world = World::new();
    let security = world.group("security");
    assert_eq!(code(&security.call("echo", json!({}))), "no_grant");
    let responses = security.directory().join("responses");
    for n in 0..SWAPS {
        std::fs::rename(&responses, security.directory().join(format!("aside-{n}"))).unwrap();
        std::fs::create_dir(&responses).unwrap();
    }
    // Replies before the last swap is seen lie in a directory that was put aside.
    let mut sent = Vec::new();
    let reply = until("a reply in the last directory", || {
        sent.push(security.send(call("echo", json!({}))));
        sent.iter().find_map(|id| security.try_reply(id))
    });
    assert_eq!(code(&reply), "no_grant");
    let noted = "kind = 'noted' AND body LIKE '%reopened%'";
    // The row may come after the reply: a reply looks at the directory itself, and the rows have a pace.
    let of_the_group = || count(&world, &format!("{noted} AND caller = 'group:security'"));
    let rows = until("a row about the swaps", || Some(of_the_group()).filter(|rows| *rows > 0));
    assert!(rows < 5, "{rows} rows for {SWAPS} swaps");
    assert_eq!(count(&world, &format!("{noted} AND caller = 'broker'")), 0);
    evidence::verify(&world.home());
}

/// Sends what takes a person, who says no; the reply.
fn denied(world: &World, group: &Group, document: Value) -> Value {
    let id = group.send(document);
    let approval_request = until("the approval request", || {
        let open = "SELECT code FROM approvals WHERE state = 'waiting'";
        world.query(open).into_iter().next()
    });
    world.command(json!({ "type": "answer", "code": approval_request["code"], "yes": false }));
    group.reply(&id)
}

fn is_not_asked_again(reply: &Value) {
    assert_eq!(code(reply), "approval_denied", "{reply}");
    assert!(error(reply).contains("the broker does not ask about it again before"), "{reply}");
}

/// Attack: see `people_are_asked_only_so_often_however_many_questions_are_withdrawn`.
#[test]
fn a_grant_to_which_a_person_said_no_is_not_asked_about_again_at_once() {
    let world = World::new();
    let main = world.group("main");
    let give =
        |level| json!({ "type": "ext_grant", "group_folder": "developer", "provider": "demo", "access_level": level });
    assert_eq!(code(&denied(&world, &main, give(2))), "approval_denied");
    let again = main.ask(give(2));
    is_not_asked_again(&again);
    assert_eq!(again["retry_after_ms"], 300_000);
    // Another grant is another question, and the same one is asked about after the pause.
    assert_eq!(code(&denied(&world, &main, give(3))), "approval_denied");
    world.clock.advance(std::time::Duration::from_secs(301));
    let after = denied(&world, &main, give(2));
    assert!(!error(&after).contains("ask about it again"), "{after}");
}

/// Attack: see `people_are_asked_only_so_often_however_many_questions_are_withdrawn`.
#[test]
fn a_change_of_a_file_to_which_a_person_said_no_is_not_asked_about_again_at_once() {
    let config = format!("{CONFIG}\n[providers.files]\nkind = \"files\"\n");
    let world = World::builder().config(&config).up();
    world.command(json!({ "type": "grant", "group_folder": "developer", "provider": "files", "access_level": 2 }));
    let developer = world.group("developer");
    let write = |content: &str| {
        let params = json!({ "path": "a.txt", "content": content });
        developer.ask(json!({ "type": "ext_call", "provider": "files", "action": "write_file", "params": params }))
    };
    assert_eq!(write("one\n")["data"]["status"], "hitl_required");
    let approval_request = world.query("SELECT code FROM approvals WHERE state = 'waiting'")[0]["code"].clone();
    world.command(json!({ "type": "answer", "code": approval_request, "yes": false }));
    is_not_asked_again(&write("one\n"));
    assert_eq!(write("two\n")["data"]["status"], "hitl_required", "another content is another question");
}
