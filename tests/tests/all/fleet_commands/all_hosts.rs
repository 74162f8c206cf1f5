//! A kill switch for all hosts at once.

use super::{PEOPLE, builder, cli, down, fleet_rows, up, without_groups};
use serde_json::{Value, json};
use tests::World;
use tests::group::{call, code, error};

const KILL: [&str; 4] = ["kill", "all", "--all-hosts", "--json"];

/// Runs the command with `--json`. Returns the exit code and the document.
fn run(world: &World, arguments: &[&str]) -> (Option<i32>, Value) {
    let output = world.cli(arguments);
    (output.status.code(), serde_json::from_slice(&output.stdout).unwrap())
}

#[test]
fn one_command_stops_the_calls_of_all_hosts() {
    let Some(mut two) = down(PEOPLE, builder(), builder()) else { return };
    two.a.start();
    two.b.start();
    let groups = [&two.a, &two.b].map(|world| {
        world.grant("developer", 2);
        world.group("developer")
    });
    let (exit, reply) = run(&two.a, &KILL);
    assert_eq!(exit, Some(0), "{reply}");
    let hosts = &reply["hosts"];
    assert_eq!(hosts.as_object().unwrap().keys().collect::<Vec<_>>(), ["a", "b"]);
    for host in ["a", "b"] {
        assert_eq!(hosts[host]["status"], "executed");
        assert_eq!(hosts[host]["data"]["stopped"], true, "{reply}");
    }
    for group in &groups {
        assert_eq!(code(&group.ask(call("echo", json!({})))), "kill_switch");
    }
    let (is_done, text) = cli(&two.a, &["kill", "all", "--lift", "--all-hosts"]);
    assert!(is_done && text.starts_with("HOST  STATUS    RESULT\na     executed  "), "{text}");
    for group in &groups {
        assert_eq!(code(&group.ask(call("echo", json!({})))), "executed");
    }
    // Each host has the row, and only the other one has it from elsewhere.
    assert_eq!(fleet_rows(&two.a), []);
    assert_eq!(fleet_rows(&two.b).len(), 2);
}

/// Attack (Hosts of a fleet): One host is cut off, so that a kill switch for all hosts waits for
/// it.
/// Defence: All hosts get it at the same time. The output names each host that has not confirmed
/// it.
#[test]
fn a_host_that_does_not_answer_keeps_the_kill_switch_from_no_other() {
    let Some(mut two) = down(PEOPLE, without_groups(), builder()) else { return };
    two.a.start();
    let (exit, reply) = run(&two.a, &KILL);
    assert_eq!(exit, Some(3), "{reply}");
    assert_eq!(reply["hosts"]["a"]["status"], "executed");
    assert!(error(&reply["hosts"]["b"]).contains("it was withdrawn and is not executed"), "{reply}");
    // A command that this host refuses is sent, too: the other one knows more.
    two.b.start();
    let (is_done, text) = cli(&two.a, &["kill", "group", "developer", "--all-hosts"]);
    assert!(!is_done && text.contains("1 of 2 hosts did not confirm the command"), "{text}");
    let told: Vec<&str> = text.lines().collect();
    assert!(told[1].starts_with("a     denied") && told[2].starts_with("b     executed"), "{text}");
    assert_eq!(two.b.query("SELECT scope FROM kill_switches"), [json!({ "scope": "group:developer" })]);
    // Without a daemon, it holds on this host.
    two.a.stop();
    let (exit, reply) = run(&two.a, &["kill", "all", "--lift", "--all-hosts", "--json"]);
    assert_eq!((exit, &reply["hosts"]["this host"]["status"]), (Some(3), &json!("executed")), "{reply}");
    assert!(error(&reply["hosts"]["other hosts"]).contains("no daemon is running"), "{reply}");
}

#[test]
fn only_a_command_that_one_other_host_takes_is_sent_to_all() {
    let Some(two) = up(PEOPLE) else { return };
    for command in [json!({ "type": "accept_clock" }), json!({ "type": "list_operators" })] {
        let reply = two.a.command(json!({ "type": "all_hosts_command", "command": command }));
        assert!(error(&reply).contains("run it there"), "{reply}");
    }
    let nested = json!({ "type": "all_hosts_command", "command": { "type": "kill", "scope": "all", "on": true } });
    let reply = two.a.command(json!({ "type": "fleet_command", "host": "b", "request": nested }));
    assert!(error(&reply).contains("run it there"), "{reply}");
    assert_eq!(fleet_rows(&two.b), []);
    for (arguments, words) in [
        (["kill", "all", "--all-hosts", "--host=b"], "cannot be used with"),
        (["kill", "list", "--all-hosts", "--json"], "run it on that host"),
    ] {
        let (is_done, text) = cli(&two.a, &arguments);
        assert!(!is_done && text.contains(words), "{text}");
    }
    let alone = World::new();
    let (is_done, text) = cli(&alone, &["kill", "all", "--all-hosts"]);
    assert!(!is_done && text.contains("names no other host") && text.contains("this host    executed"), "{text}");
}

#[test]
fn the_status_of_the_fleet_shows_each_host_and_its_daemon() {
    let Some(mut two) = down(PEOPLE, without_groups(), builder()) else { return };
    two.a.start();
    let daemons = |two: &super::Two| {
        let (exit, status) = run(&two.a, &["fleet", "status", "--json"]);
        assert_eq!((exit, &status["host"], &status["durability"]), (Some(0), &json!("a"), &json!("one_machine")));
        status["hosts"].as_array().unwrap().iter().map(|host| host["daemon"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(daemons(&two), ["running", "never"]);
    two.b.start();
    assert_eq!(daemons(&two), ["running", "running"]);
    two.b.stop();
    assert_eq!(daemons(&two), ["running", "stopped"]);
    let (is_done, text) = cli(&two.a, &["fleet", "status"]);
    let lines: Vec<&str> = text.lines().collect();
    assert!(is_done && lines[0].starts_with("HOST  DAEMON   SEEN                    FENCE  ROWS  BATCHES"), "{text}");
    assert!(lines[1].starts_with("a     running  now                     1      "), "{text}");
    assert!(lines[2].starts_with("b     stopped  less than a minute ago  1      "), "{text}");
}
