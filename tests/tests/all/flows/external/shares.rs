//! The limits that the accesses of one agent share, and those that all accesses of one issuer share.

use super::*;

/// Asks for a write, which takes a person; the reply or the place of the outcome.
fn ask(agent: &Agent, n: u64) -> Page {
    let path = "/api/v1/flows/external-tools/charge/invoke";
    agent.say("POST", path, &[("Prefer", "wait=0")], &json!({ "n": n }).to_string())
}

fn deny(world: &World) {
    let approval_request = world.query("SELECT code FROM approvals WHERE state = 'waiting'")[0]["code"].clone();
    answer(world, approval_request.as_str().unwrap(), false);
}

/// Attack (Flows and external agents): an external agent uses a second access to ask again, or an
/// issuer makes up agents for new amounts
/// Defence: approval requests, refusals and evidence count for the agent; living accesses and a
/// day's amounts for the issuer, too
#[test]
fn a_call_to_which_a_person_said_no_is_not_asked_about_again_with_another_access_of_the_agent() {
    let mut world = world();
    let mut of = |label: &str| Agent::with_access(&mut world, &json!({ "actor_label": label }));
    let (first, second, other) = (of("bot"), of("bot"), of("another bot"));
    assert_eq!(ask(&first, 1).status, 202);
    deny(&world);
    let (_, refused) = heard(&ask(&second, 1));
    assert_eq!(code(&refused), "approval_denied", "{refused}");
    assert_eq!(refused["retry_after_ms"], 300_000, "{refused}");
    assert_eq!(ask(&other, 1).status, 202, "another agent's call is another call");
}

/// Attack: see
/// `a_call_to_which_a_person_said_no_is_not_asked_about_again_with_another_access_of_the_agent`.
#[test]
fn the_accesses_of_one_agent_put_no_more_questions_than_one_caller() {
    let mut world = world();
    let mut of = || Agent::with_access(&mut world, &json!({ "actor_label": "bot" }));
    let agents = [of(), of()];
    let asked = (0..40).filter(|n| ask(&agents[usize::from(n % 2 == 0)], *n).status == 202).count();
    assert_eq!(asked, 20, "twenty questions are open at most");
}

/// Attack: see
/// `a_call_to_which_a_person_said_no_is_not_asked_about_again_with_another_access_of_the_agent`.
#[test]
fn an_issuer_has_a_maximum_of_living_accesses_under_any_agent_names() {
    let mut world = world();
    let given = (0..80).map(|n| by_main(&mut world, &format!("same{n}"))).take_while(|reply| code(reply) == "executed");
    assert_eq!(given.count(), 64);
    let refused = by_main(&mut world, "yet another");
    assert_eq!(code(&refused), "busy", "{refused}");
    assert!(refused["error"].as_str().unwrap().contains("that can be active at once"), "{refused}");
    // A person is no agent, and gives as many as there are places.
    assert_eq!(code(&mint(&world, &json!({ "actor_label": "a person's" }))), "executed");
}

fn by_main(world: &mut World, label: &str) -> Value {
    ask_main(world, label, &["note"])
}

/// The main group's agent gives access to an agent that it calls so; the bearer must be found nowhere at the end.
pub(super) fn ask_main(world: &mut World, label: &str, tools: &[&str]) -> Value {
    let reply = world.group("main").ask(json!({
        "type": "flow_external_grant_mint", "flow_id": "flow_daily", "flow_version": "1.0.0",
        "requested_tools": tools, "actor_label": label,
    }));
    if let Some(bearer) = reply["data"]["bearer"].as_str() {
        world.keep_secret(bearer.to_owned());
    }
    reply
}

/// The agent to which the main group's agent gives access.
pub(super) fn minted_by_main(world: &mut World, label: &str, tools: &[&str]) -> Agent {
    let minted = ask_main(world, label, tools);
    let text = |value: &Value| value.as_str().unwrap_or_else(|| panic!("{minted}")).to_owned();
    let (bearer, grant) = (text(&minted["data"]["bearer"]), text(&minted["data"]["grant"]["grant_id"]));
    Agent { visitor: Visitor::of(world), bearer, grant }
}

/// Attack: see
/// `a_call_to_which_a_person_said_no_is_not_asked_about_again_with_another_access_of_the_agent`.
#[test]
fn the_amounts_of_a_day_are_those_of_all_agents_of_one_issuer() {
    let mut world =
        builder("\n[limits.external.demo]\namounts = { echo = { param = \"/text\", per_day = 10 } }\n").up();
    approved(&world, &bundle("1.0.0", "Note it.", &["note", "charge"]));
    let [first, second] = ["same1", "same2"].map(|label| minted_by_main(&mut world, label, &["note"]));
    let spend = |agent: &Agent| code(&agent.invoke("note", &json!({ "text": 6 })).1).to_owned();
    assert_eq!(spend(&first), "executed");
    assert_eq!(spend(&second), "quota_exceeded", "another name is no other purse");
}
