//! Whose right an access rests on: the main group's agent within its ceiling, and people as long as they administer.

use super::super::operators::{ALL, Operator};
use super::shares::{ask_main, minted_by_main};
use super::*;
use std::os::unix::fs::MetadataExt as _;
use tests::fakes::real_now;
use tests::world::{EXPOSING, SCRIPT};

const SENSITIVE: &str = r#"
[[flows.external_agent.allowed_tools]]
id = "files"
description = "Reads files"
provider = "demo"
action = "read_files"
"#;

fn with_ceiling(ceiling: &str) -> World {
    let world = World::builder()
        .config(&format!("{CONFIG}\n{TOOLS}{SENSITIVE}{ceiling}"))
        .script("demo", &format!("{SCRIPT}\n{EXPOSING}"))
        .file("policy/profiles/main.toml", "write = \"auto\"\n")
        .up();
    approved(&world, &bundle("1.0.0", "Note it.", &["note", "charge", "files"]));
    world
}

/// Attack (Order of the stages, and content): The main group's agent gives tools above its ceiling
/// to an external agent.
/// Defence: The ceiling of grants holds for accesses; a person gives the others.
#[test]
fn the_main_groups_agent_gives_external_agents_no_tool_above_its_ceiling() {
    let given = |ceiling: &str| {
        let mut world = with_ceiling(ceiling);
        ["note", "charge", "files"].map(|tool| {
            let reply = ask_main(&mut world, tool, &[tool]);
            let said = code(&reply).to_owned();
            let reason = reply["error"].as_str().unwrap_or_default();
            assert!(said == "executed" || reason.contains("a person must"), "{reply}");
            said
        })
    };
    // `note` is of L1, `charge` of L2, and `files` reads private data.
    assert_eq!(given(""), ["executed", "guardrail", "guardrail"]);
    assert_eq!(given("\n[grant_ceiling]\nmax_level = 0\nsensitive = true\n"), ["guardrail", "guardrail", "guardrail"]);
    assert_eq!(given("\n[grant_ceiling]\nmax_level = 2\n"), ["executed", "executed", "guardrail"]);
    assert_eq!(given("\n[grant_ceiling]\nmax_level = 1\nsensitive = true\n"), ["executed", "guardrail", "executed"]);
    // A person gives what the main group's agent may not.
    let mut world = with_ceiling("");
    Agent::with_access(&mut world, &json!({ "requested_tools": ["note", "charge", "files"] }));
}

/// Attack (Order of the stages, and content): The main group's agent lets data out through an
/// access.
/// Defence: An access is an egress channel, like a grant.
#[test]
fn an_access_that_the_main_groups_agent_gives_is_a_way_out() {
    let mut world = with_ceiling("\n[grant_ceiling]\nmax_level = 2\nsensitive = true\n");
    world.grant("main", 2);
    let main = world.group("main");
    assert_eq!(code(&main.call("read_mail", json!({}))), "executed");
    assert_eq!(code(&ask_main(&mut world, "one", &["note"])), "executed", "one kind alone");
    // The access has let out what the agent knew, so the other kind of reading takes a person now.
    let id = main.send(tests::group::call("read_files", json!({})));
    let approval_request =
        until("the approval request", || world.query("SELECT code FROM approvals WHERE state = 'waiting'").pop());
    answer(&world, approval_request["code"].as_str().unwrap(), true);
    assert_eq!(code(&main.reply(&id)), "executed");
    let refused = ask_main(&mut world, "two", &["note"]);
    assert_eq!(code(&refused), "guardrail", "{refused}");
    assert!(refused["error"].as_str().unwrap().contains("is an egress channel; a person must"), "{refused}");
}

/// Attack (Order of the stages, and content): An access outlives the right of the person who gave
/// it.
/// Defence: Each use checks that the issuer administers.
#[test]
fn an_access_ends_when_the_person_whose_right_it_rests_on_no_longer_administers() {
    // Commands read the real time.
    let mut world = builder("").clock(real_now()).up();
    approved(&world, &bundle("1.0.0", "Note it.", &["note", "charge"]));
    let own = Agent::with_access(&mut world, &json!({}));
    let operator = Operator::with(&mut world, &["--scopes", ALL]);
    let by_token = Agent::by_token(&mut world, &operator);
    let by_main = minted_by_main(&mut world, "main's", &["note"]);
    let again = |agent: &Agent, world: &World| Agent {
        visitor: Visitor::of(world),
        bearer: agent.bearer.clone(),
        grant: agent.grant.clone(),
    };
    for agent in [&own, &by_token, &by_main] {
        assert_eq!(agent.invoke("note", &json!({ "text": "before" })).0, 200);
    }
    let name =
        world.query(&format!("SELECT issued_by FROM flow_grants WHERE grant_id = '{}'", own.grant))[0]["issued_by"]
            .as_str()
            .and_then(|by| by.strip_prefix("person:"))
            .unwrap()
            .to_owned();
    let config = std::fs::read_to_string(world.path("broker.toml")).unwrap();
    let uid = format!("uid = {}\n", std::fs::metadata(world.home()).unwrap().uid());
    // The person is gone, or administers no longer.
    for now in [config.replace(&name, "another"), config.replace(&uid, "uid = 65533\n")] {
        assert_ne!(now, config);
        world.rewrite("broker.toml", &now);
        world.restart();
        for agent in [&own, &by_token] {
            let agent = again(agent, &world);
            assert_eq!(agent.no("note"), "FLOW_EXTERNAL_GRANT_REVOKED");
            assert_eq!(code(&agent.read("flow_daily").1), "FLOW_EXTERNAL_GRANT_REVOKED");
        }
        assert_eq!(again(&by_main, &world).invoke("note", &json!({ "text": "after" })).0, 200);
        let why = format!("{name} no longer administers");
        for (command, lines) in
            [(&["flow", "grant", "list"][..], 2), (&["operator-token", "list"], 1), (&["status"], 2)]
        {
            let output = said(&world.cli(command));
            assert_eq!(output.matches(&why).count(), lines, "{command:?}: {output}");
        }
    }
    // A person who administers again is believed again.
    world.rewrite("broker.toml", &config);
    world.restart();
    assert_eq!(again(&own, &world).invoke("note", &json!({ "text": "at last" })).0, 200);
    assert!(!said(&world.cli(&["status"])).contains("no longer administers"));
}
