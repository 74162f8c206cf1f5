//! The exposure of external agents: the accesses of one agent share it, and so do all agents that one issuer names.

use super::super::operators::{ALL, Operator};
use super::shares::minted_by_main;
use super::*;
use tests::world::{EXPOSING, SCRIPT};

const TOOLS: &str = r#"
[web]
listen = "127.0.0.1:0"

[grant_ceiling]
max_level = 2
sensitive = true

[flows.external_agent]
enabled = true
max_invocations = 5
allowed_tools = [
    { id = "mail", description = "Reads mail", provider = "demo", action = "read_mail" },
    { id = "files", description = "Reads files", provider = "demo", action = "read_files" },
    { id = "search", description = "Searches", provider = "demo", action = "search" },
]
"#;

/// A flow whose step names a tool for each of the three properties.
fn world() -> World {
    let world = World::builder()
        .config(&format!("{CONFIG}\n{TOOLS}"))
        .script("demo", &format!("{SCRIPT}\n{EXPOSING}"))
        .file("policy/profiles/external.toml", "write = \"human\"\n")
        .up();
    approved(&world, &bundle("1.0.0", "Search it.", &["mail", "files", "search"]));
    world
}

/// An access by a person, to an agent that the person calls so.
fn by_person(world: &mut World, label: &str) -> Agent {
    Agent::with_access(world, &json!({ "requested_tools": ["mail", "files", "search"], "actor_label": label }))
}

/// Whether a call of the tool is made without a person.
fn runs(agent: &Agent, tool: &str) -> bool {
    agent.invoke(tool, &json!({})).0 == 200
}

/// Whether a call of the tool waits for a person.
fn asks(agent: &Agent, tool: &str) -> bool {
    let path = format!("/api/v1/flows/external-tools/{tool}/invoke");
    agent.say("POST", &path, &[("Prefer", "wait=0")], "{}").status == 202
}

fn listed(world: &World) -> Vec<Value> {
    let listed = world.cli(&["--json", "exposure", "list"]);
    let listed: Value = serde_json::from_slice(&listed.stdout).unwrap_or_else(|_| panic!("{}", said(&listed)));
    listed["external"].as_array().unwrap_or_else(|| panic!("{listed}")).clone()
}

/// Attack (Order of the stages, and content): An external agent reads with one access and sends out
/// with another.
/// Defence: Exposure counts for the agent, and for all agents of an issuer that is no person.
#[test]
fn agents_of_one_issuer_share_their_exposure_under_any_name() {
    let mut world = world();
    let tools = ["mail", "files", "search"];
    let [first, second, third] = ["one", "two", "three"].map(|label| minted_by_main(&mut world, label, &tools));
    assert!(runs(&first, "mail") && runs(&second, "files"));
    assert!(asks(&third, "search"), "another name is no other session");
    // A token names agents as freely as the main group's agent.
    let operator = Operator::with(&mut world, &["--scopes", ALL]);
    let [first, second, third] = ["one", "two", "three"].map(|label| {
        let wanted = json!({ "type": "flow_external_grant_mint", "flow_id": "flow_daily", "flow_version": "1.0.0",
                             "requested_tools": tools, "actor_label": label });
        let minted = operator.ask(&wanted).1;
        let text = |value: &Value| value.as_str().unwrap_or_else(|| panic!("{minted}")).to_owned();
        let (bearer, grant) = (text(&minted["data"]["bearer"]), text(&minted["data"]["grant"]["grant_id"]));
        world.keep_secret(bearer.clone());
        Agent { visitor: Visitor::of(&world), bearer, grant }
    });
    assert!(runs(&first, "mail") && runs(&second, "files") && asks(&third, "search"));
    assert_eq!(world.effects_of("search").len(), 0);
    // A person tells one agent from another.
    let [first, other] = ["one", "two"].map(|label| by_person(&mut world, label));
    assert!(runs(&first, "mail") && runs(&first, "files") && runs(&other, "search"));
    let again = by_person(&mut world, "one");
    assert!(asks(&again, "search"));
}

/// Attack (Order of the stages, and content): An external agent waits until its old access is
/// forgotten.
/// Defence: Exposure outlives accesses; a person resets it, with a row.
#[test]
fn a_new_access_after_the_old_one_is_forgotten_does_not_end_the_exposure() {
    let mut world = world();
    let first = by_person(&mut world, "bot");
    assert!(runs(&first, "mail") && runs(&first, "files"));
    world.clock.advance(Duration::from_hours(60));
    world.restart();
    let again = by_person(&mut world, "bot");
    assert_eq!(world.query("SELECT count(*) AS n FROM flow_grants")[0]["n"], 1, "the old access is forgotten");
    assert!(asks(&again, "search"));
}

/// Attack: see `a_new_access_after_the_old_one_is_forgotten_does_not_end_the_exposure`.
#[test]
fn a_person_ends_the_session_of_an_external_agent_with_evidence_and_what_it_was_answered_goes() {
    let mut world = world();
    let (first, second) = (by_person(&mut world, "bot"), by_person(&mut world, "bot"));
    assert!(runs(&first, "mail") && runs(&first, "files"));
    let sessions = listed(&world);
    assert_eq!(sessions.len(), 1, "{sessions:?}");
    let session = sessions[0]["session"].as_str().unwrap().to_owned();
    assert_eq!(sessions[0]["exposed"].as_array().unwrap().len(), 2, "{sessions:?}");
    assert!(session.starts_with("agent:"), "{session}");
    let replies = || world.query("SELECT count(*) AS n FROM replies WHERE caller LIKE 'outside:%'")[0]["n"].clone();
    assert_ne!(replies(), 0);
    // The main group's agent cannot; a name of nothing ends nothing.
    assert_eq!(code(&world.group("main").ask(json!({ "type": "reset_session", "group": session }))), "unknown_type");
    for wrong in ["fgrnt_000000000000000000000000", "agent:nobody", "issuer:group:nobody"] {
        assert!(!world.cli(&["exposure", "reset", wrong]).status.success(), "{wrong}");
    }
    assert!(asks(&second, "search"));
    answer(
        &world,
        world.query("SELECT code FROM approvals WHERE state = 'waiting'")[0]["code"].as_str().unwrap(),
        false,
    );
    // By the name of any of its accesses.
    let reset = world.cli(&["exposure", "reset", &second.grant]);
    assert!(reset.status.success(), "{}", said(&reset));
    let row = world.rows().into_iter().rfind(|row| row.kind == "session_reset").unwrap();
    assert!(row.body.contains(&session) && row.caller.starts_with("person:"), "{row:?}");
    assert_eq!((listed(&world), replies()), (Vec::new(), json!(0)));
    assert!(runs(&second, "search"));
    // And by its own name.
    let reset = world.cli(&["exposure", "reset", &session]);
    assert!(reset.status.success(), "{}", said(&reset));
    assert_eq!(listed(&world), Vec::<Value>::new());
}
