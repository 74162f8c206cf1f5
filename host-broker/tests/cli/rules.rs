//! Rules: as the operator writes, checks and tries them.

use super::world::{World, wait_for};
use serde_json::{Value, json};

/// The step of the rules in the explanation.
fn step(world: &World, action: &str, params: &str) -> Value {
    let explained = world.run(&["explain", "developer", action, params, "--json"]).json();
    let steps = explained["steps"].as_array().unwrap();
    steps.iter().find(|step| step["step"] == "rules").unwrap().clone()
}

fn write(world: &World, name: &str, text: &str) {
    std::fs::write(world.home.join(name), text).unwrap();
}

const ONLY_ONE: &str = r#"
@id("one-note")
@reason("Only note 1.")
forbid (principal, action == Action::"mock.note", resource) unless { context.params.n == 1 };
"#;

#[test]
fn a_new_home_has_the_shipped_rules_and_an_older_one_gets_them_when_it_is_served() {
    let world = World::with_mock();
    let path = world.home.join("policy/default.cedar");
    let shipped = std::fs::read_to_string(&path).unwrap();
    assert!(shipped.contains("native-writes"), "{shipped}");
    std::fs::remove_file(&path).unwrap();
    let permitted = json!({ "step": "rules", "verdict": "permit", "rule": "native-writes" });
    assert_eq!(step(&world, "mock.note", r#"{"n":1}"#), permitted);
    assert!(!path.exists(), "explaining writes nothing");
    drop(world.serve());
    assert_eq!(std::fs::read_to_string(&path).unwrap(), shipped);
}

#[test]
fn a_rule_decides_and_its_reason_is_told() {
    let world = World::with_mock();
    write(&world, "policy/own.cedar", ONLY_ONE);
    let refused = json!({ "step": "rules", "verdict": "refuse", "code": "rule_denied",
        "reason": "The rule 'one-note' forbids this: Only note 1.", "rule": "one-note" });
    assert_eq!(step(&world, "mock.note", r#"{"n":2}"#), refused);
    assert_eq!(step(&world, "mock.note", r#"{"n":1}"#)["rule"], "native-writes");
    write(&world, "policy/default.cedar", "");
    assert_eq!(step(&world, "mock.note", r#"{"n":1}"#)["reason"], "No rule permits action 'note' like this.");
}

#[test]
fn rules_that_cannot_be_used_are_named_with_their_line_and_remedy_and_nothing_starts() {
    let world = World::with_mock();
    let any = "(principal, action, resource)";
    for (text, words) in [
        (format!("\npermit {any}\n"), &["own.cedar:2: ", "unexpected end"][..]),
        ("permit (principal, action == Action::\"mock.not\", resource);".into(), &["own.cedar:1: ", "did you mean"]),
        (format!("permit {any} when {{ context.params.n == 1 }};"), &["own.cedar:1: ", "policy check --schema"]),
        ("permit (principal == Group::\"dev\", action, resource);".into(), &["no group `dev`", "[groups.dev]"]),
    ] {
        write(&world, "policy/own.cedar", &text);
        for command in [&["policy", "check"][..], &["config", "check"], &["serve"], &["policy", "test"]] {
            world.run(command).fails(4, words);
        }
    }
    world.run(&["policy", "check", world.home.join("policy/default.cedar").to_str().unwrap()]).ok();
}

#[test]
fn a_check_lists_the_rules_and_what_they_do_not_reach() {
    let world = World::with_mock();
    world.append("policy/profiles/developer.toml", "read = \"rules\"\n");
    let checked = world.run(&["policy", "check", "--json"]).json();
    let path = world.home.join("policy/default.cedar").display().to_string();
    assert_eq!(checked["files"], json!([path]));
    assert_eq!(checked["rules"][0]["id"], "native-writes");
    assert_eq!(
        checked["unpermitted"],
        json!([{ "group": "developer", "action": "mock.echo", "why": "no rule permits it" }])
    );
    let note = json!({ "action": "mock.note", "parameter": "/*", "why": "is not named by the schema" });
    assert!(checked["unseen"].as_array().unwrap().contains(&note), "{checked}");
    let schema = world.run(&["policy", "check", "--schema"]).ok();
    assert!(schema.contains("action \"mock.note\" in [Action::\"mock\", Action::\"write\"]"), "{schema}");
}

/// Two writes that expose nothing.
const QUIET: &str = r#"
[actions.jot]
level = 2
exposes = []
input_schema = { type = "object", properties = { n = { type = "integer" } }, required = ["n"] }
[actions.tidy]
level = 2
exposes = []
"#;

const NEW: &str = r#"
@id("jot")
permit (principal, action == Action::"mock.jot", resource);
@id("one-jot")
forbid (principal, action == Action::"mock.jot", resource) unless { context.params.n == 1 };
"#;

#[test]
fn rules_are_tried_on_what_was_decided_and_what_the_ledger_does_not_hold_is_not_guessed() {
    let world = World::with_mock();
    world.append("mock.toml", QUIET);
    world.run(&["grant", "developer", "mock", "2"]).ok();
    let daemon = world.serve();
    for (id, action) in [("ext-1", "jot"), ("ext-2", "tidy"), ("ext-3", "echo")] {
        assert_eq!(world.call(id, action, &json!({ "n": 1 }), None)["status"], "executed");
    }
    drop(daemon);
    let tried = world.run(&["policy", "test", "--json"]).json();
    assert_eq!(tried, json!({ "calls": 3, "asked": 2, "same": 2, "changes": [], "cannot_tell": [] }));
    write(&world, "new.cedar", NEW);
    let new = world.home.join("new.cedar");
    let tried = world.run(&["policy", "test", new.to_str().unwrap(), "--json"]).json();
    let change = &tried["changes"][0];
    assert_eq!(
        json!([
            tried["same"],
            change["action"],
            change["request_id"],
            change["was"],
            change["would_be"],
            change["why"]
        ]),
        json!([0, "mock.tidy", "ext-2", "permitted", "refused", "no rule permits it"])
    );
    let why = "the ledger does not hold the data that `one-jot` reads";
    assert_eq!(tried["cannot_tell"], json!([{ "action": "mock.jot", "calls": 1, "why": why }]));
    let all = world.run(&["policy", "test", "--all", "--json"]).json();
    assert_eq!(all["changes"][0]["action"], "mock.echo");
}

#[test]
fn rules_are_tried_on_what_a_person_was_asked_about_and_did_not_agree_to() {
    let world = World::with_mock();
    world.append("mock.toml", QUIET);
    world.run(&["grant", "developer", "mock", "2"]).ok();
    std::fs::write(
        world.home.join("policy/profiles/developer.toml"),
        "write = \"rules\"\n[providers.mock]\nactions = { tidy = \"human\" }\n",
    )
    .unwrap();
    let daemon = world.serve();
    let ask = |id: &str| {
        let call = json!({ "type": "ext_call", "provider": "mock", "action": "tidy", "params": { "of": id }, "timeout_ms": 300 });
        assert_eq!(world.ask("developer", id, call)["status"], "pending");
        let waiting = world.run(&["approvals", "list", "--json"]).json();
        waiting["approvals"][0]["code"].as_str().unwrap().to_owned()
    };
    let agreed = ask("ext-1");
    // A person also shows a request by the name that its agent hears.
    let by_code = world.run(&["approvals", "show", &agreed, "--json"]).json();
    let name = by_code["ref"].as_str().unwrap();
    assert!(name.starts_with("ask-"), "{by_code}");
    assert_eq!(world.run(&["approvals", "show", name, "--json"]).json(), by_code);
    world.run(&["approvals", "show", "ask-9999"]).fails(3, &["no approval request `ask-9999`"]);
    world.run(&["approvals", "approve", &agreed]).ok();
    wait_for(|| world.run(&["calls", "list", "--json"]).json()["calls"].to_string().contains("\"executed\""));
    let denied = ask("ext-2");
    world.run(&["approvals", "deny", &denied]).ok();
    ask("ext-3");
    drop(daemon);
    write(&world, "new.cedar", "@id(\"none\")\nforbid (principal, action == Action::\"mock.tidy\", resource);\n");
    let new = world.home.join("new.cedar");
    let tried = world.run(&["policy", "test", new.to_str().unwrap(), "--json"]).json();
    let told = |change: &Value| json!([change["request_id"], change["was"], change["would_be"]]);
    let changes: Vec<Value> = tried["changes"].as_array().unwrap().iter().map(told).collect();
    let expected = [("ext-1", "permitted"), ("ext-2", "asked of a person"), ("ext-3", "asked of a person")];
    // In the order of their rows; whoever waits was asked before another was told no.
    let mut found: Vec<String> = changes.iter().map(Value::to_string).collect();
    found.sort();
    assert_eq!(found, expected.map(|(id, was)| json!([id, was, "refused"]).to_string()), "{tried}");
}
