//! `grant`, `revoke`, `capabilities`, `explain`, `task`, `gate`, `kill`: without a daemon, and through a running one.

use super::world::World;
use serde_json::{Value, json};

#[test]
fn a_grant_that_cannot_be_is_refused_with_the_reason() {
    let world = World::with_mock();
    world
        .run(&["grant", "developer", "mock", "4"])
        .fails(2, &["a level is 0 (none), 1 (read), 2 (write) or 3 (production)"]);
    world.run(&["grant", "Developer", "mock", "1"]).fails(2, &["not a valid group"]);
    world.run(&["grant", "developer", "mock", "1", "--expires-in", "soon"]).fails(2, &["90m, 12h, 7d"]);
    world.run(&["grant", "developer", "mock", "1", "--expires", "tomorrow"]).fails(2, &["is not a time"]);
    world
        .run(&["grant", "nobody", "mock", "1"])
        .fails(3, &["there is no group 'nobody'; see: host-broker", "group list"]);
    world.run(&["grant", "developer", "mock", "1", "--deny", "fly"]).fails(3, &["has no action 'fly'"]);
    world.run(&["grant", "developer", "mock", "3", "--gate", "Finance"]).fails(3, &["no gate 'Finance'"]);
    let done = world.run(&["--json", "grant", "developer", "nothing", "1"]);
    let document: Value = serde_json::from_str(&done.out).unwrap();
    assert_eq!((done.code, &document["code"], &document["exit"]), (3, &json!("invalid_params"), &json!(3)));
    assert_eq!(world.run(&["status", "--json"]).json()["groups"][0]["grants"], 0);
}

#[test]
fn a_mistyped_name_is_not_found_and_the_nearest_one_is_named() {
    let world = World::with_mock();
    for _daemon in [None, Some(world.serve())] {
        for (arguments, words) in [
            (&["grant", "develper", "mock", "1"][..], &["no group 'develper'", "did you mean 'developer'?"][..]),
            (&["grant", "developer", "mok", "1"], &["no provider 'mok'", "did you mean 'mock'?"]),
            (&["grant", "developer", "mock", "2", "--deny", "chrge"], &["no action 'chrge'", "did you mean 'charge'?"]),
            (
                &["grant", "developer", "mock", "3", "--gate", "Securty"],
                &["gate 'Securty'", "did you mean 'Security'?"],
            ),
            (&["revoke", "develper", "mock"], &["no group 'develper'", "did you mean 'developer'?"]),
            (&["revoke", "developer", "mok"], &["no provider 'mok'", "did you mean 'mock'?"]),
            (&["task", "create", "develper", "Ship"], &["did you mean 'developer'?"]),
            (&["gate", "approve", "gov-1", "Securty"], &["did you mean 'Security'?"]),
            (&["grant", "developer", "mock", "1", "--allow", "charge"], &["none of the allowed actions is within L1"]),
        ] {
            let done = world.run(arguments);
            assert!(!done.err.contains("Call again") && !done.err.contains("Change the"), "{done:?}");
            done.fails(3, words);
        }
    }
    // A grant can be revoked although its provider is no longer configured.
    world.run(&["grant", "developer", "mock", "1"]).ok();
    let config = world.read("broker.toml");
    let (without, _) = config.split_once("[providers.mock]").unwrap();
    std::fs::write(world.home.join("broker.toml"), without).unwrap();
    assert!(world.run(&["revoke", "developer", "mock"]).ok().contains("no longer has access"));
    world.run(&["revoke", "developer", "mock"]).ok();
}

#[test]
fn a_grant_that_gives_nothing_says_so_and_a_duration_has_a_unit() {
    let world = World::with_mock();
    world.append("mock.toml", "");
    let given = world.run(&["grant", "developer", "mock", "1", "--deny", "echo"]).ok();
    assert!(given.contains("It gives nothing now"), "{given}");
    assert!(!world.run(&["grant", "developer", "mock", "1"]).ok().contains("gives nothing"));
    assert!(!world.run(&["grant", "developer", "mock", "0"]).ok().contains("gives nothing"));
    world.run(&["grant", "developer", "mock", "1", "--expires-in", "7d"]).ok();
    world.run(&["grant", "developer", "mock", "1", "--expires-in", "3600"]).fails(2, &["its unit", "90m, 12h, 7d"]);
}

#[test]
fn actions_without_a_permitting_rule_or_a_secret_are_not_shown_as_available() {
    let world = World::with_mock();
    world.run(&["grant", "developer", "mock", "2"]).ok();
    let status = |action: &str| {
        let shown = world.run(&["capabilities", "developer", "--all", "--json"]).json();
        shown["capabilities"][0]["actions"][action]["status"].as_str().unwrap().to_owned()
    };
    assert_eq!(status("note"), "available");
    std::fs::write(world.home.join("policy/default.cedar"), "").unwrap();
    assert_eq!(status("note"), "DENIED", "writes are left to rules, and none permits it");
    assert_eq!(status("echo"), "available");
    let forbid = "@id(\"none\")\nforbid (principal, action == Action::\"mock.echo\", resource);\n";
    std::fs::write(world.home.join("policy/default.cedar"), forbid).unwrap();
    assert_eq!(status("echo"), "DENIED", "a forbid holds at every tier");
    let github = "[providers.github]\nkind = \"github\"\nrepos = [\"octo/hello\"]\ntoken = { file = \"/nowhere\" }\n";
    world.append("broker.toml", github);
    let explained = world.run(&["explain", "developer", "github.list_issues", "{}", "--json"]).json();
    let catalogue = explained["steps"].as_array().unwrap().iter().find(|step| step["step"] == "catalogue").unwrap();
    assert_eq!(catalogue["reason"], "Provider github lacks its secret.");
    let text = world.read("broker.toml").replace("kind = \"github\"", "kind = \"github\"\nenabled = false");
    std::fs::write(world.home.join("broker.toml"), text).unwrap();
    let explained = world.run(&["explain", "developer", "github.list_issues", "{}", "--json"]).json();
    let catalogue = explained["steps"].as_array().unwrap().iter().find(|step| step["step"] == "catalogue").unwrap();
    assert_eq!(catalogue["reason"], "Provider github is switched off.");
}

#[test]
fn a_suggested_command_names_the_home_that_it_is_for() {
    let world = World::with_mock();
    world.run(&["grant", "developer", "mock", "0"]).ok();
    let home = world.home.to_str().unwrap();
    let here = format!("host-broker --home {home} calls list");
    world.run(&["calls", "show", "nothing", "--home", home]).fails(3, &[&here]);
    let shown = world.run(&["capabilities", "developer", "--home", home]).ok();
    assert!(shown.contains(&format!("host-broker --home {home} grant GROUP")), "{shown}");
    // A variable is still set for the next command.
    world.run(&["calls", "show", "nothing"]).fails(3, &["host-broker calls list"]);
}

#[test]
fn access_is_given_shown_and_ended_with_and_without_a_daemon() {
    let world = World::with_mock();
    for daemon in [false, true] {
        let _running = daemon.then(|| world.serve());
        let granted = world.run(&["--json", "grant", "developer", "mock", "2", "--expires-in", "12h"]).json();
        assert_eq!(granted["data"]["grant"]["access_level"], 2);
        assert!(granted["evidence"]["seq"].as_i64().unwrap() > 0);
        let shown = world.run(&["capabilities", "developer", "--json"]).json();
        assert_eq!(shown["capabilities"][0]["actions"]["note"]["status"], "available");
        assert_eq!(shown["capabilities"][0]["actions"]["charge"]["status"], "requires_higher_level");
        let table = world.run(&["capabilities", "developer"]).ok();
        assert!(table.contains("note") && !table.contains("charge"), "{table}");
        assert!(world.run(&["capabilities", "developer", "--all"]).ok().contains("charge"));
        let status = world.run(&["status", "--json"]).json();
        assert_eq!((&status["running"], &status["ending_soon"][0]["provider"]), (&json!(daemon), &json!("mock")));
        assert!(world.run(&["revoke", "developer", "mock"]).ok().contains("no longer has access"));
        assert_eq!(world.run(&["--json", "revoke", "developer", "mock"]).json()["data"]["revoked"], false);
        assert!(world.run(&["capabilities", "developer"]).ok().contains("has no access"));
    }
    world.run(&["capabilities", "develper"]).fails(3, &["did you mean `developer`?"]);
}

#[test]
fn commands_at_once_without_a_daemon_all_take_effect() {
    let world = World::with_mock();
    let mut running: Vec<_> =
        (0..6).map(|n| world.start(&["task", "create", "developer", "Work", "--id", &format!("gov-{n}")])).collect();
    for command in &mut running {
        assert!(command.line().contains("is open for developer"));
    }
    assert_eq!(world.run(&["task", "list", "--json"]).json()["tasks"].as_array().unwrap().len(), 6);
}

#[test]
fn explanations_agree_with_the_decisions_of_the_daemon() {
    let world = World::with_mock();
    world.run(&["grant", "developer", "mock", "3", "--gate", "Security", "--deny", "lose"]).ok();
    world.run(&["task", "create", "developer", "Charge", "--id", "gov-1"]).ok();
    world.run(&["task", "create", "security", "Other", "--id", "gov-2"]).ok();
    world.run(&["gate", "approve", "gov-1", "Security"]).ok();
    let _daemon = world.serve();
    let cases: [(&str, Value, Option<&str>, &str); 10] = [
        ("fly", json!({}), None, "unknown_action"),
        ("lose", json!({}), None, "action_denied"),
        ("note", json!({}), None, "invalid_params"),
        ("note", json!({ "n": "x" }), None, "invalid_params"),
        ("note", json!({ "n": 1 }), Some("gov-2"), "task_unknown"),
        ("person", json!({}), None, "approval_required"),
        ("charge", json!({}), None, "task_required"),
        ("charge", json!({}), Some("gov-1"), ""),
        ("charge", json!({}), Some("gov-1"), "gate_missing"),
        ("echo", json!({ "a": 1 }), None, ""),
    ];
    for (number, (action, params, task, code)) in cases.into_iter().enumerate() {
        let (target, text) = (format!("mock.{action}"), params.to_string());
        let mut arguments = vec!["explain", "developer", &target, &text, "--json"];
        arguments.extend(task.iter().flat_map(|task| ["--task", task]));
        let explained = world.run(&arguments).json();
        let reply = world.call(&format!("r{number}"), action, &params, task);
        let said = match explained["verdict"].as_str().unwrap() {
            "permit" => "",
            "ask a person" => "approval_required",
            _ => explained["code"].as_str().unwrap(),
        };
        assert_eq!((said, reply["code"].as_str().unwrap_or("")), (code, code), "{action}: {explained} {reply}");
    }
}

#[test]
fn explain_says_what_is_wrong_with_the_question() {
    let world = World::with_mock();
    world.run(&["explain", "developr", "mock.echo"]).fails(3, &["did you mean `developer`?"]);
    world.run(&["explain", "developer", "echo"]).fails(2, &["a dot between them"]);
    world.run(&["explain", "developer", "mock.echo", "[1]"]).fails(2, &["not a JSON object"]);
    world.run(&["explain", "developer", "mock.echo", "{}, \"dry_run\": true"]).fails(2, &["not a JSON object"]);
    let table = world.run(&["explain", "developer", "mock.echo"]).ok();
    assert!(table.contains("refuse (no_grant") && table.contains("kill switch"), "{table}");
    // A number that would not survive is a fault, as it is for a real call.
    world.run(&["grant", "developer", "mock", "2"]).ok();
    let exact = world.run(&["explain", "developer", "mock.note", r#"{"n":9007199254740993}"#, "--json"]).json();
    assert_eq!(exact["code"], "invalid_params");
    assert_eq!(world.run(&["evidence", "head", "--json"]).json()["seq"], 1, "the grant; explaining writes nothing");
}

#[test]
fn tasks_and_gates_are_made_listed_and_ended() {
    let world = World::with_mock();
    world
        .run(&["task", "create", "nobody", "Work"])
        .fails(3, &["there is no group 'nobody'; see: host-broker", "group list"]);
    world.run(&["task", "close", "gov-9"]).fails(3, &["no open task 'gov-9'"]);
    world.run(&["gate", "approve", "gov-9", "Security"]).fails(3, &["no open task"]);
    assert!(world.run(&["task", "list"]).ok().contains("no open tasks"));
    let made = world.run(&["--json", "task", "create", "developer", "Work"]).json();
    let id = made["data"]["task_id"].as_str().unwrap();
    world.run(&["task", "create", "developer", "Again", "--id", id]).fails(3, &["a task"]);
    world.run(&["gate", "approve", id, "Finance"]).fails(3, &["no gate 'Finance'"]);
    assert!(world.run(&["gate", "approve", id, "Security"]).ok().contains("for one call"));
    let gates = world.run(&["gate", "list", "--json"]).json();
    assert_eq!((&gates["gates"][0]["gate"], &gates["approvals"][0]["task"]), (&json!("Security"), &json!(id)));
    assert_eq!(gates["approvals"][0]["approved_by"], "person:tester");
    assert!(world.run(&["gate", "list"]).ok().contains("not yet"));
    world.run(&["task", "close", id, "--cancelled"]).ok();
    assert_eq!(world.run(&["task", "list", "--json"]).json(), json!({ "tasks": [] }));
    assert_eq!(world.run(&["task", "list", "--all", "--json"]).json()["tasks"][0]["state"], "cancelled");
}

#[test]
fn text_of_an_agent_cannot_redraw_the_terminal() {
    let world = World::with_mock();
    world.run(&["task", "create", "developer", "a\u{1b}[2Jb\u{202e}c"]).ok();
    let table = world.run(&["task", "list"]).ok();
    assert!(table.contains(r"a\u{1b}[2Jb\u{202e}c") && !table.contains('\u{1b}'), "{table}");
}

#[test]
fn a_stop_under_a_mistyped_name_is_refused() {
    let world = World::with_mock();
    world.run(&["kill", "provider", "mok"]).fails(3, &["did you mean 'mock'?"]);
    world.run(&["kill", "group", "develper"]).fails(3, &["did you mean 'developer'?"]);
    world.run(&["kill", "group", "develper", "--lift"]).fails(3, &["did you mean 'developer'?"]);
    world.run(&["kill"]).fails(2, &[]);
    assert_eq!(world.run(&["kill", "list", "--json"]).json(), json!({ "kill_switches": [] }));
}

#[test]
fn a_stop_holds_for_the_next_call_until_it_is_lifted() {
    let world = World::with_mock();
    world.run(&["grant", "developer", "mock", "1"]).ok();
    let _daemon = world.serve();
    let scopes = [&["all"][..], &["provider", "mock"], &["group", "developer"]];
    for (number, scope) in scopes.into_iter().enumerate() {
        world.run(&[&["kill"], scope].concat()).ok();
        assert_eq!(world.call(&format!("k{number}"), "echo", &json!({}), None)["code"], "kill_switch");
        assert!(world.run(&["status"]).ok().contains("STOPPED"));
        world.run(&[&["kill"], scope, &["--lift"]].concat()).ok();
        assert_eq!(world.call(&format!("l{number}"), "echo", &json!({}), None)["status"], "executed");
    }
}
