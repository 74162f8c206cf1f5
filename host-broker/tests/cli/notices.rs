//! People are told, and answer from a chat.

use super::world::{World, wait_for};
use serde_json::{Value, json};

#[test]
fn a_bridge_hands_in_an_answer_and_the_list_says_who_was_told() {
    let world = World::with_mock();
    let log = world.home.join("told.log").display().to_string();
    world.append(
        "broker.toml",
        &format!(
            "[people.alice]\nuid = 77001\napproves = {{}}\nchat = [\"telegram:12345\"]\n\
             [[channels]]\nname = \"ops\"\nkind = \"command\"\ncommand = [\"/bin/sh\", \"-c\", \"cat > $0\", {log:?}]\n\
             [[channels]]\nname = \"gone\"\nkind = \"command\"\ncommand = [\"no-such-program\"]\n"
        ),
    );
    world.run(&["config", "check"]).ok();
    let shown = world.run(&["config", "show", "--effective"]).ok();
    assert!(shown.contains("[[channels]]") && shown.contains("telegram:12345"), "{shown}");
    assert!(world.run(&["notices", "list"]).ok().contains("No notices."));
    world.run(&["grant", "developer", "mock", "2"]).ok();
    let _daemon = world.serve();
    let asked = std::thread::scope(|scope| {
        let call = scope.spawn(|| world.call("r-1", "person", &json!({}), None));
        let approval_requests =
            || world.run(&["approvals", "list", "--json"]).json()["approvals"].as_array().unwrap().clone();
        wait_for(|| !approval_requests().is_empty());
        let code = approval_requests()[0]["code"].as_str().unwrap().to_owned();
        wait_for(|| std::path::Path::new(&log).exists());
        wait_for(|| world.run(&["status"]).ok().contains("Notices fail:"));
        let status = world.run(&["status"]).ok();
        assert!(status.contains("there is no program `no-such-program`"), "{status}");
        let answer = |from: &str, text: &str| world.run(&["approvals", "relay", "--from", from, text]);
        answer("telegram:12345", "yes please").fails(3, &["'approve CODE'"]);
        answer("12345", &format!("approve {code}")).fails(3, &["telegram:12345"]);
        answer("telegram:1", &format!("approve {code}")).fails(3, &["an unknown sender"]);
        let said = answer("telegram:12345", &format!("approve {code}")).ok();
        assert!(said.contains("mock.person may run, once"), "{said}");
        call.join().unwrap()
    });
    assert_eq!(asked["status"], "executed");
    wait_for(|| !world.run(&["notices", "list"]).ok().contains("due at"));
    let list = world.run(&["notices", "list", "--json"]).json();
    let of = |channel: &str| list["notices"].as_array().unwrap().iter().find(|one| one["channel"] == channel).cloned();
    assert_eq!(of("ops").unwrap()["state"], "sent", "{list}");
    assert_eq!(of("gone").unwrap()["state"], "failed", "{list}");
    let one = world.run(&["notices", "list", "--channel", "gone"]).ok();
    assert!(one.contains("no further attempt") && !one.contains("ops"), "{one}");
}

/// Answers a call of the developers, and returns its reply. `answer` gets the code and the name of the request.
fn answered(world: &World, id: &str, answer: impl FnOnce(&str, &str)) -> Value {
    std::thread::scope(|scope| {
        let call = scope.spawn(|| world.call(id, "person", &json!({ "n": 1 }), None));
        let waiting = || world.run(&["approvals", "list", "--json"]).json()["approvals"][0].clone();
        wait_for(|| !waiting().is_null());
        let text = |member: &str| waiting()[member].as_str().unwrap().to_owned();
        answer(&text("code"), &text("ref"));
        call.join().unwrap()
    })
}

#[test]
fn a_name_shows_a_request_and_denies_it_but_a_yes_needs_the_code() {
    let world = World::with_mock();
    world.append("broker.toml", "[people.alice]\nuid = 77001\napproves = {}\nchat = [\"telegram:12345\"]\n");
    world.run(&["grant", "developer", "mock", "2"]).ok();
    let _daemon = world.serve();
    let shows = |code: &str, name: &str| {
        let list = world.run(&["approvals", "list"]).ok();
        assert!(list.contains(code) && list.contains(name), "{list}");
        let shown = world.run(&["approvals", "show", &name.to_uppercase()]).ok();
        assert!(shown.starts_with(&format!("{code} ({name}) · pending")), "{shown}");
        assert!(shown.contains("person with 1 parameter\n"), "{shown}");
        for word in ["approve", "deny"] {
            let relayed = format!("{word} {name}");
            let relay = world.run(&["approvals", "relay", "--from", "telegram:12345", "--", &relayed]);
            relay.fails(3, &["the six characters of the code"]);
        }
    };
    let reply = answered(&world, "n-1", |code, name| {
        shows(code, name);
        let see = format!("approvals show {name}");
        for given in [name.to_owned(), format!(" {}", name.to_uppercase())] {
            world.run(&["approvals", "approve", &given]).fails(3, &["an approval needs the code", &see]);
        }
        let (mut watch, mut input) = world.start_with_input(&["approvals", "watch", "--json"]);
        assert!(watch.line().contains(code));
        std::io::Write::write_all(&mut input, format!("yes {name}\nyes {code}\n").as_bytes()).unwrap();
        let refused = watch.line();
        assert!(refused.contains("An approval needs the code that is beside the card"), "{refused}");
        assert!(watch.line().contains("may run, once"));
    });
    assert_eq!(reply["status"], "executed", "{reply}");
    let reply = answered(&world, "n-2", |_, name| drop(world.run(&["approvals", "deny", name]).ok()));
    assert_eq!(reply["status"], "denied", "{reply}");
    world.run(&["approvals", "approve", "ask-9999"]).fails(3, &["an approval needs the code"]);
    world.run(&["approvals", "deny", "ask-9999"]).fails(3, &["no approval request with this code or name"]);
}

#[test]
fn a_yes_by_name_on_a_terminal_takes_an_answer_about_the_card() {
    let world = World::with_mock();
    world.run(&["grant", "developer", "mock", "2"]).ok();
    let _daemon = world.serve();
    let reply = answered(&world, "n-3", |code, name| {
        let Some(declined) = world.run_on_terminal("n", &["approvals", "approve", name]) else {
            world.run(&["approvals", "deny", name]).ok();
            return;
        };
        let head = format!("{code} ({name}) · pending");
        for words in [head.as_str(), "person with 1 parameter", "Approve exactly this? [y/N]", "Nothing was approved."]
        {
            assert!(declined.contains(words), "no `{words}` in {declined}");
        }
        let options = world.run_on_terminal("n", &["approvals", "approve", name, "--for", "8h"]).unwrap();
        assert!(options.contains("Approve this, with the options of this command? [y/N]"), "{options}");
        let waiting = world.run(&["approvals", "show", name, "--json"]).json();
        assert_eq!(waiting["state"], "waiting", "{waiting}");
        let approved = world.run_on_terminal("y", &["approvals", "approve", name]).unwrap();
        assert!(approved.contains("mock.person may run, once"), "{approved}");
        let late = world.run_on_terminal("y", &["approvals", "approve", name]).unwrap();
        assert!(late.contains("it is too late") && !late.contains("[y/N]"), "{late}");
        let none = world.run_on_terminal("y", &["approvals", "approve", "ask-9999"]).unwrap();
        assert!(none.contains("there is no approval request `ask-9999`"), "{none}");
    });
    assert!(reply["status"] == "executed" || World::has_no_terminal(), "{reply}");
}

#[test]
fn a_channel_that_cannot_be_is_a_fault_of_the_configuration_with_its_remedy() {
    let world = World::with_mock();
    world.append("broker.toml", "[[channels]]\nname = \"ops\"\nkind = \"command\"\ncomand = [\"x\"]\n");
    world.run(&["config", "check"]).fails(4, &["comand", "did you mean `command`?"]);
    let schema = world.run(&["config", "schema"]).json();
    assert!(schema.to_string().contains("link_base"));
}
