//! `--watch` and the pager: what is repeated, what is not, and where it is shown.

use super::world::{World, finish};
use serde_json::Value;
use std::process::Command;

#[test]
fn a_watched_command_prints_its_output_when_it_changes_and_its_errors_in_between() {
    let world = World::with_mock();
    world.run(&["group", "list", "--watch", "--lines"]).fails(2, &["--lines"]);
    let mut watched = world.start(&["group", "list", "--watch", "--json"]);
    let groups = |line: &str| serde_json::from_str::<Value>(line).unwrap()["groups"].as_array().map(Vec::len);
    let first = watched.line();
    let config = world.read("broker.toml");
    // The command reads the file at any moment.
    let put = |text: &str| {
        std::fs::write(world.home.join("next"), text).unwrap();
        std::fs::rename(world.home.join("next"), world.home.join("broker.toml")).unwrap();
    };
    put(&format!("{config}[groups.more]\n"));
    let second = watched.line();
    assert_eq!(groups(&second), groups(&first).map(|count| count + 1), "{first}\n{second}");
    put(&format!("{config}[groups.more]\n[grups]\n"));
    assert!(watched.line().contains("did you mean `groups`?"));
    put(&config);
    assert_eq!(watched.line(), first);
}

#[test]
fn a_command_that_does_something_cannot_be_watched_and_one_that_fails_at_once_ends() {
    let world = World::with_mock();
    for command in [&["kill", "all"][..], &["grant", "developer", "mock", "2"], &["serve"], &["evidence", "export"]] {
        world.run(&[command, &["--watch"]].concat()).fails(2, &["--watch is for commands that only show something"]);
    }
    assert_eq!(world.run(&["kill", "list", "--json"]).json(), serde_json::json!({ "kill_switches": [] }));
    World::empty().run(&["status", "--watch"]).fails(4, &["init"]);
}

/// Runs the program on a terminal of eight rows, and returns what the terminal got.
fn on_a_terminal(world: &World, arguments: &str, environment: &[(&str, &str)]) -> String {
    #[expect(clippy::disallowed_methods, reason = "the terminal of the program under test")]
    let mut script = Command::new("script");
    let line = format!("stty rows 8 cols 200; exec {} {arguments}", env!("CARGO_BIN_EXE_host-broker"));
    let log = world.home.join("../typescript");
    script.args(["--quiet", "--return", "--command", &line]).arg(&log);
    script.env_clear().env("PATH", "/usr/bin:/bin").env("TERM", "xterm").env("EXT_BROKER_HOME", &world.home);
    finish(script.envs(environment.iter().copied())).out
}

/// Attack (Providers and modules): A person with sudo rights for one command gets a shell from
/// `less`, the default pager.
/// Defence: `LESSSECURE=1`
#[test]
fn a_long_output_goes_through_the_operators_pager_and_a_short_one_does_not() {
    let world = World::with_mock();
    let pager = world.home.join("../pager");
    let seen = world.home.join("../seen");
    std::fs::write(&pager, format!("#!/bin/sh\ncat > '{}'\necho \"paged $LESS $LESSSECURE\"\n", seen.display()))
        .unwrap();
    std::fs::set_permissions(&pager, std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
    let environment = [("PAGER", pager.to_str().unwrap())];
    let shown = on_a_terminal(&world, "status", &environment);
    assert!(shown.contains("paged FRX 1") && !shown.contains("echo"), "{shown}");
    assert_eq!(std::fs::read_to_string(&seen).unwrap(), world.run(&["status"]).ok());
    for (arguments, environment) in [
        ("evidence sinks", &environment[..]),
        ("status --json", &environment),
        ("status", &[("PAGER", "")]),
        ("status", &[("PAGER", "/no/such/pager")]),
    ] {
        let shown = on_a_terminal(&world, arguments, environment);
        assert!(!shown.contains("paged") && !shown.is_empty(), "{arguments}: {shown}");
    }
}
