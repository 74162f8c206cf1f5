//! `group`.

use super::world::{World, mode};
use serde_json::json;
use std::os::unix::process::ExitStatusExt as _;
use std::process::Command;

#[test]
fn a_group_is_added_below_what_a_person_wrote() {
    let world = World::with_mock();
    world.run(&["group", "add", "../web"]).fails(2, &["not a valid group"]);
    world.run(&["group", "add", "main"]).fails(2, &["a group `main` already"]);
    let before = world.read("broker.toml");
    assert!(world.run(&["group", "add", "web", "--uid", "1000"]).ok().contains("without access"));
    assert_eq!(world.read("broker.toml"), format!("{}\n\n[groups.web]\nuid = 1000\n", before.trim_end()));
    assert_eq!(mode(&world.home.join("broker.toml")), 0o600);
    let listed = world.run(&["group", "list", "--json"]).json();
    assert_eq!(listed["groups"][3]["uid"], 1000);
    assert!(world.run(&["group", "list"]).ok().contains("ipc/web"));
}

#[test]
fn a_group_is_removed_only_without_access_and_leaves_the_rest_as_it_was() {
    let world = World::with_mock();
    world.run(&["group", "remove", "web"]).fails(3, &["no group `web`"]);
    let before = world.read("broker.toml");
    world.run(&["group", "add", "web"]).ok();
    world.run(&["grant", "web", "mock", "1"]).ok();
    world.run(&["group", "remove", "web"]).fails(3, &["still has access", "host-broker revoke web mock"]);
    world.run(&["revoke", "web", "mock"]).ok();
    assert_eq!(world.run(&["group", "remove", "web", "--json"]).json()["restart_needed"], false);
    assert_eq!(world.read("broker.toml").trim_end(), before.trim_end());
}

#[test]
fn a_group_whose_removal_was_killed_is_removed_by_another_one() {
    let world = World::with_mock();
    world.run(&["group", "add", "web"]).ok();
    let profile = world.home.join("policy/profiles/web.toml");
    assert!(profile.exists());
    // The last change replaces broker.toml by a rename.
    let calls = "?rename,?renameat,?renameat2";
    #[expect(clippy::disallowed_methods, reason = "the program under test is a child process")]
    let mut strace = Command::new("strace");
    strace.args(["-D", "-f", "-qq", "-o", "/dev/null", "-e", &format!("trace={calls}")]);
    strace.args(["-e", &format!("inject={calls}:signal=SIGKILL")]).arg(env!("CARGO_BIN_EXE_host-broker"));
    let strace = strace.args(["group", "remove", "web"]).env("EXT_BROKER_HOME", &world.home).env("USER", "tester");
    match strace.status() {
        Ok(status) if status.signal() == Some(9) => {}
        other => return eprintln!("skipped: strace cannot kill a process here ({other:?})"),
    }
    assert!(world.read("broker.toml").contains("[groups.web]") && !profile.exists());
    assert!(world.run(&["config", "check"]).ok().contains("web has no profile"));
    world.run(&["group", "remove", "web"]).ok();
    assert!(!world.read("broker.toml").contains("[groups.web]"));
    world.run(&["config", "check"]).ok();
}

#[test]
fn a_group_that_cannot_be_removed_keeps_its_profile() {
    let world = World::with_mock();
    world.run(&["group", "add", "web"]).ok();
    let profile = || std::fs::read_to_string(world.home.join("policy/profiles/web.toml")).unwrap();
    let (config, before) = (world.read("broker.toml"), profile());
    // No file replaces a directory.
    std::fs::create_dir(world.home.join("broker.toml.new")).unwrap();
    world.run(&["group", "remove", "web"]).fails(4, &["nothing was changed"]);
    assert_eq!((world.read("broker.toml"), profile()), (config, before));
}

#[test]
fn groups_that_gates_refer_to_are_not_removed() {
    let world = World::with_mock();
    let before = world.read("broker.toml");
    world.run(&["group", "remove", "security"]).fails(4, &["gates.Security", "nothing was changed"]);
    assert_eq!(world.read("broker.toml"), before);
}

#[test]
fn a_running_daemon_takes_a_group_up_with_a_reload() {
    let world = World::with_mock();
    let _daemon = world.serve();
    assert!(world.run(&["group", "add", "web"]).ok().contains("host-broker reload"));
    world.run(&["grant", "web", "mock", "1"]).fails(3, &["there is no group 'web'", "host-broker reload"]);
    world.run(&["reload"]).ok();
    world.run(&["grant", "web", "mock", "1"]).ok();
    let call = json!({ "type": "ext_call", "provider": "mock", "action": "echo" });
    assert_eq!(world.ask("web", "w1", call)["status"], "executed");
}

#[test]
fn commands_that_edit_the_configuration_at_once_lose_nothing() {
    let world = World::with_mock();
    let daemon = world.serve();
    let names: Vec<String> = (0..6).map(|number| format!("g{number}")).collect();
    let adding: Vec<_> = names.iter().map(|name| world.start(&["group", "add", name])).collect();
    let reloading: Vec<_> = (0..2).map(|_| world.start(&["reload"])).collect();
    for running in adding.into_iter().chain(reloading) {
        assert_eq!(running.end(), 0);
    }
    let config = world.read("broker.toml");
    assert!(names.iter().all(|name| config.contains(&format!("[groups.{name}]"))), "{config}");
    world.run(&["reload"]).ok();
    world.run(&["grant", "g5", "mock", "1"]).ok();
    world.run(&["stop"]).ok();
    assert_eq!(daemon.end(), 0);
}

#[test]
fn a_group_whose_profile_cannot_be_written_has_the_strict_one() {
    let world = World::with_mock();
    let profiles = world.home.join("policy/profiles");
    std::fs::remove_dir_all(&profiles).unwrap();
    std::fs::write(&profiles, "").unwrap();
    world.run(&["group", "add", "web"]).fails(4, &["the group is added, with the strict profile"]);
    std::fs::remove_file(&profiles).unwrap();
    assert!(world.run(&["config", "check"]).ok().contains("web has no profile"));
}
