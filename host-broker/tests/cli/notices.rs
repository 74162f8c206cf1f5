//! People are told, and answer from a chat.

use super::world::{World, wait_for};
use serde_json::json;

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

#[test]
fn a_channel_that_cannot_be_is_a_fault_of_the_configuration_with_its_remedy() {
    let world = World::with_mock();
    world.append("broker.toml", "[[channels]]\nname = \"ops\"\nkind = \"command\"\ncomand = [\"x\"]\n");
    world.run(&["config", "check"]).fails(4, &["comand", "did you mean `command`?"]);
    let schema = world.run(&["config", "schema"]).json();
    assert!(schema.to_string().contains("link_base"));
}
