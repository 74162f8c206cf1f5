//! Private data, content that others wrote and a way out: not in one session without a person.

use serde_json::{Value, json};
use tests::group::{Group, call, code, with};
use tests::world::{CONFIG, EXPOSING, SCRIPT};
use tests::{World, until};

fn world() -> World {
    with_profile("write = \"auto\"\n")
}

fn with_profile(profile: &str) -> World {
    let world = World::builder()
        .config(CONFIG)
        .script("demo", &format!("{SCRIPT}\n{EXPOSING}"))
        .file("policy/profiles/developer.toml", profile)
        .file("policy/profiles/security.toml", profile)
        .up();
    world.grant("developer", 2);
    world.grant("security", 2);
    world
}

fn run(group: &Group, action: &str) {
    assert_eq!(code(&group.call(action, json!({}))), "executed", "{action}");
}

/// Sends a call, and gives the reasons on the card.
fn asked(world: &World, group: &Group, action: &str) -> (String, Value) {
    let id = group.send(call(action, json!({})));
    let approval_request = until("the approval request", || {
        let open = world.query("SELECT code, request_id, asks, json_extract(card, '$.reasons') AS why FROM approvals");
        open.into_iter().find(|approval_request| approval_request["request_id"] == id.as_str())
    });
    (id, approval_request)
}

fn answer(world: &World, approval_request: &Value, yes: bool) {
    let reply = world.command(json!({ "type": "answer", "code": approval_request["code"], "yes": yes }));
    assert_eq!(code(&reply), "executed", "{reply}");
}

#[test]
fn calls_that_complete_the_trifecta_need_a_person_and_the_card_names_earlier_calls() {
    let world = world();
    let developer = world.group("developer");
    run(&developer, "post");
    run(&developer, "read_mail");
    run(&developer, "read_mail");
    let (id, approval_request) = asked(&world, &developer, "read_files");
    assert_eq!(approval_request["asks"], "[\"trifecta\"]");
    let why = approval_request["why"].as_str().unwrap();
    for named in
        ["untrusted content (demo.read_mail at ", "private data (this call)", "an egress channel (demo.post at "]
    {
        assert!(why.contains(named), "{why}");
    }
    answer(&world, &approval_request, false);
    assert_eq!(code(&developer.reply(&id)), "approval_denied");
    // A refused call has exposed nothing.
    run(&developer, "post");
    assert_eq!(world.effects_of("post").len(), 2);
}

/// Attack (Order of the stages, and content): An injected instruction sends out data that was read.
/// Defence: Private data, untrusted content and an egress channel do not come together without an
/// approval, at any tier.
#[test]
fn no_write_and_no_read_that_lets_data_leave_gets_out_after_both_kinds_of_reading() {
    let world = world();
    let developer = world.group("developer");
    run(&developer, "read_files");
    run(&developer, "read_mail");
    for action in ["post", "search", "unsaid", "charge"] {
        let (id, approval_request) = asked(&world, &developer, action);
        assert_eq!(approval_request["asks"], "[\"trifecta\"]", "{action}");
        answer(&world, &approval_request, false);
        assert_eq!(code(&developer.reply(&id)), "approval_denied");
        assert_eq!(world.effects_of(action).len(), 0, "{action}");
    }
    // Another group has read nothing.
    run(&world.group("security"), "post");
}

/// Attack (Order of the stages, and content): An injected instruction makes the main group's agent
/// grant access.
/// Defence: A grant is an egress channel: it counts as exposure, and needs an approval after both
/// kinds of reads.
#[test]
fn a_grant_of_the_main_groups_agent_is_a_way_out() {
    // Only the calls expose: the ceiling would let the agent give everything.
    let config = format!("{CONFIG}\n[grant_ceiling]\nmax_level = 2\nsensitive = true\n");
    let world = World::builder()
        .config(&config)
        .script("demo", &format!("{SCRIPT}\n{EXPOSING}"))
        .file("policy/profiles/main.toml", "write = \"auto\"\n")
        .up();
    world.grant("main", 2);
    let main = world.group("main");
    let grant = |to: &str| json!({ "type": "ext_grant", "group_folder": to, "provider": "demo", "access_level": 1 });
    run(&main, "read_mail");
    assert_eq!(code(&main.ask(grant("developer"))), "executed", "one kind alone");
    // The grant has let out what the agent knew, so the other kind of reading takes a person now.
    let (id, approval_request) = asked(&world, &main, "read_files");
    let why = approval_request["why"].as_str().unwrap();
    assert!(why.contains("an egress channel (demo.ext_grant at "), "{why}");
    answer(&world, &approval_request, true);
    assert_eq!(code(&main.reply(&id)), "executed");
    let id = main.send(grant("security"));
    let approval_request = until("the approval request", || {
        let open = world.query("SELECT code, request_id, json_extract(card, '$.reasons') AS why FROM approvals");
        open.into_iter().find(|approval_request| approval_request["request_id"] == id.as_str())
    });
    assert!(approval_request["why"].as_str().unwrap().contains("a grant is an egress channel"), "{approval_request}");
    answer(&world, &approval_request, false);
    assert_eq!(code(&main.reply(&id)), "approval_denied");
    // To end access lets nothing out.
    let nothing = with(grant("developer"), "access_level", 0);
    assert_eq!(code(&main.ask(nothing)), "executed");
    assert_eq!(code(&world.group("developer").call("echo", json!({}))), "no_grant");
}

#[test]
fn a_yes_is_to_one_call_and_reading_goes_on_afterwards() {
    let world = world();
    let developer = world.group("developer");
    run(&developer, "read_files");
    run(&developer, "read_mail");
    let (id, approval_request) = asked(&world, &developer, "post");
    answer(&world, &approval_request, true);
    assert_eq!(code(&developer.reply(&id)), "executed");
    run(&developer, "read_mail");
    run(&developer, "read_files");
    let (_, again) = asked(&world, &developer, "post");
    assert_eq!(again["asks"], "[\"trifecta\"]", "each way out is asked about");
    assert_eq!(world.effects_of("post").len(), 1);
}

/// Attack (Order of the stages, and content): An agent restarts its session, or waits for a
/// restart.
/// Defence: Only the host resets exposure. Where an operator has chosen so, the first call of a new
/// MCP client does.
#[test]
fn exposure_outlives_the_daemon_and_ends_only_on_the_host() {
    let mut world = world();
    let developer = world.group("developer");
    let read = developer.send(call("read_files", json!({})));
    assert_eq!(code(&developer.reply(&read)), "executed");
    run(&developer, "read_mail");
    world.restart();
    let (_, approval_request) = asked(&world, &developer, "post");
    answer(&world, &approval_request, false);
    let reset = with(json!({ "type": "reset_session" }), "group", "developer");
    assert_eq!(code(&developer.ask(reset.clone())), "unknown_type", "not from a sandbox");
    let waits = developer.send(call("wait", json!({ "ms": 1_000 })));
    until("it is under way", || world.kinds_of(&developer, &waits).contains(&"intended".to_owned()).then_some(()));
    assert_eq!(code(&world.command(reset.clone())), "busy", "not while something is still read");
    developer.reply(&waits);
    world.settle();
    let reply = world.command(reset);
    assert_eq!(
        reply["data"],
        json!({ "group": "developer", "session": "group:developer", "forgotten": 2, "standing_ended": [] })
    );
    assert!(world.rows().iter().any(|row| row.kind == "session_reset" && row.caller == "person:operator"));
    run(&developer, "post");
    let again = developer.ask(json!({ "type": "ext_result", "of": read }));
    assert_eq!(code(&again), "unknown_request", "what was read before is not read again");
    let nobody = world.command(json!({ "type": "reset_session", "group": "nobody" }));
    assert_eq!(code(&nobody), "invalid_params");
}

/// Attack (Order of the stages, and content): An action does not declare its exposure.
/// Defence: It counts as all three.
#[test]
fn an_action_that_says_nothing_of_itself_is_taken_for_all_three() {
    let world = world();
    let (_, approval_request) = asked(&world, &world.group("developer"), "unsaid");
    assert_eq!(approval_request["asks"], "[\"trifecta\"]");
}

#[test]
fn the_step_is_switched_off_for_one_provider_by_a_line_with_a_reason() {
    let world = with_profile("write = \"auto\"\n[providers.demo]\ntrifecta_off = \"a script\"\n");
    let developer = world.group("developer");
    for action in ["read_files", "read_mail", "post", "unsaid"] {
        run(&developer, action);
    }
    let empty = World::builder().file("policy/profiles/developer.toml", "[providers.demo]\ntrifecta_off = \" \"\n");
    let fault = empty.down().try_start().err().map(|error| error.to_string()).unwrap_or_default();
    assert!(fault.contains("trifecta_off"), "{fault}");
}

/// Attack (Order of the stages, and content): An approval is requested before the session has much
/// exposure and answered afterwards.
/// Defence: The approval covers what the card showed.
#[test]
fn where_a_person_is_asked_anyway_both_reasons_stand_on_the_card() {
    let world = with_profile("write = \"human\"\n");
    let developer = world.group("developer");
    run(&developer, "read_files");
    run(&developer, "read_mail");
    let (id, approval_request) = asked(&world, &developer, "post");
    assert_eq!(approval_request["asks"], "[\"trifecta\",\"tier\"]");
    answer(&world, &approval_request, true);
    assert_eq!(code(&developer.reply(&id)), "executed");
    // A yes that was given before the session knew too much does not cover what it knows now.
    let security = world.group("security");
    let (id, approval_request) = asked(&world, &security, "post");
    assert_eq!(approval_request["asks"], "[\"tier\"]");
    run(&security, "read_files");
    run(&security, "read_mail");
    answer(&world, &approval_request, true);
    assert_eq!(code(&security.reply(&id)), "approval_required");
    assert_eq!(world.effects_of("post").len(), 1);
}

#[test]
fn a_dry_run_names_what_would_come_together_and_exposes_nothing() {
    let world = world();
    let developer = world.group("developer");
    run(&developer, "read_files");
    run(&developer, "read_mail");
    let dry = developer.ask(with(call("post", json!({})), "dry_run", true));
    assert_eq!(dry["data"]["verdict"], "ask a person");
    assert_eq!(world.query("SELECT action FROM exposures ORDER BY action").len(), 2);
}

/// A group with level 2 on everything and the profile that it starts with tries everything that there is, in many
/// orders, and nobody ever agrees to anything.
///
/// Attack: see `no_write_and_no_read_that_lets_data_leave_gets_out_after_both_kinds_of_reading`.
#[test]
fn a_hostile_agent_gets_nothing_out_without_a_yes() {
    const READS: [&str; 3] = ["read_mail", "read_files", "echo"];
    const OUT: [&str; 5] = ["post", "charge", "search", "unsaid", "lossy"];
    for turn in 0..READS.len() * OUT.len() {
        let world = with_profile(policy::profile::STARTING);
        let developer = world.group("developer");
        let send = |action: &str, n: usize| {
            // Impatient, so that one question does not hold up the next try.
            developer.send(with(call(action, json!({ "n": n, "text": "read" })), "timeout_ms", 1_500))
        };
        let mut requests: Vec<String> = Vec::new();
        let order =
            READS.iter().cycle().skip(turn).take(READS.len()).chain(OUT.iter().cycle().skip(turn).take(OUT.len()));
        for (n, action) in order.chain(&READS).chain(&OUT).enumerate() {
            requests.push(send(action, n));
        }
        let codes: Vec<String> = requests.iter().map(|id| code(&developer.reply(id)).to_owned()).collect();
        assert!(codes.iter().any(|code| code == "executed"), "reading goes on: {codes:?}");
        for action in ["post", "charge", "lossy", "unsaid"] {
            assert_eq!(world.effects_of(action).len(), 0, "{action} in turn {turn}: {codes:?}");
        }
        // The one way out that is no write was open only before both kinds of reading.
        let rows = world.query(
            "SELECT action FROM ledger WHERE kind = 'intended' AND json_extract(body, '$.stage') = 'run' ORDER BY seq",
        );
        let ran: Vec<&str> = rows.iter().filter_map(|row| row["action"].as_str()).collect();
        let both = READS[..2].iter().filter_map(|read| ran.iter().position(|action| action == read)).max();
        let searched = ran.iter().rposition(|action| *action == "search");
        assert!(searched.is_none_or(|at| both.is_none_or(|both| at < both)), "{ran:?}");
    }
}
