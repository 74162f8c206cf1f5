//! Whose right an access rests on: the main group's agent within its ceiling.

use super::shares::ask_main;
use super::*;
use tests::world::SCRIPT;

const MORE: &str = r#"
[actions.read_mail]
level = 1
exposes = ["untrusted"]

[actions.read_files]
level = 1
exposes = ["sensitive"]
"#;

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
        .script("demo", &format!("{SCRIPT}\n{MORE}"))
        .file("policy/profiles/main.toml", "write = \"auto\"\n")
        .up();
    approved(&world, &bundle("1.0.0", "Note it.", &["note", "charge", "files"]));
    world
}

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
    assert_eq!(given("\n[main_grants]\nmax_level = 0\nsensitive = true\n"), ["guardrail", "guardrail", "guardrail"]);
    assert_eq!(given("\n[main_grants]\nmax_level = 2\n"), ["executed", "executed", "guardrail"]);
    assert_eq!(given("\n[main_grants]\nmax_level = 1\nsensitive = true\n"), ["executed", "guardrail", "executed"]);
    // A person gives what the main group's agent may not.
    let mut world = with_ceiling("");
    Agent::with_access(&mut world, &json!({ "requested_tools": ["note", "charge", "files"] }));
}

#[test]
fn an_access_that_the_main_groups_agent_gives_is_a_way_out() {
    let mut world = with_ceiling("\n[main_grants]\nmax_level = 2\nsensitive = true\n");
    world.grant("main", 2);
    let main = world.group("main");
    assert_eq!(code(&main.call("read_mail", json!({}))), "executed");
    assert_eq!(code(&ask_main(&mut world, "one", &["note"])), "executed", "one kind alone");
    // The access has let out what the agent knew, so the other kind of reading takes a person now.
    let id = main.send(tests::group::call("read_files", json!({})));
    let question = until("the question", || world.query("SELECT code FROM approvals WHERE state = 'waiting'").pop());
    answer(&world, question["code"].as_str().unwrap(), true);
    assert_eq!(code(&main.reply(&id)), "executed");
    let refused = ask_main(&mut world, "two", &["note"]);
    assert_eq!(code(&refused), "guardrail", "{refused}");
    assert!(refused["error"].as_str().unwrap().contains("is a way out; a person must"), "{refused}");
}
