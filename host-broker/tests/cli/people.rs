//! People of other users of the machine, at the control socket.

use super::world::{Done, World, finish, mode};
use std::fs::Permissions;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::os::unix::process::CommandExt as _;

/// A group of users and two users of it, which need no entry anywhere.
const GROUP: u32 = 77_000;
const ADAM: u32 = 77_001;
const RITA: u32 = 77_003;

const PEOPLE: &str = "
[people.adam]
uid = 77001
admin = true
approves = { max_level = 2 }
[people.rita]
uid = 77003
relays = true
";

/// Runs a command as a user of this group.
fn run_as(world: &World, uid: u32, group: u32, arguments: &[&str]) -> Done {
    finish(world.command(arguments).uid(uid).gid(group))
}

#[test]
fn the_control_socket_is_the_owners_alone_unless_a_group_of_users_is_named() {
    let world = World::with_mock();
    let daemon = world.serve();
    assert_eq!(mode(&world.home.join("broker.sock")), 0o600);
    drop(daemon);
    let config = world.read("broker.toml");
    let of = |group: &str| {
        let text = format!("[broker]\nsocket_group = \"{group}\"\n{}", config.replace("[broker]", ""));
        std::fs::write(world.home.join("broker.toml"), text).unwrap();
    };
    of("no-such-group-here");
    for command in [&["serve"][..], &["config", "check"]] {
        world.run(command).fails(4, &["socket_group", "groupadd no-such-group-here"]);
    }
    let own = std::fs::metadata(&world.home).unwrap().gid();
    of(&own.to_string());
    let said = world.run(&["config", "check"]).ok();
    assert!(said.contains("members cannot enter the home") && said.contains("chmod 710"), "{said}");
    std::fs::set_permissions(&world.home, Permissions::from_mode(0o710)).unwrap();
    assert!(!world.run(&["config", "check"]).ok().contains("cannot enter"));
    let _daemon = world.serve();
    assert_eq!(mode(&world.home.join("broker.sock")), 0o660);
}

#[test]
fn other_users_come_through_the_socket_of_their_group_and_do_what_their_table_says() {
    let world = World::with_mock();
    world.append("broker.toml", PEOPLE);
    let open = |path: &std::path::Path| std::fs::set_permissions(path, Permissions::from_mode(0o711)).unwrap();
    if std::os::unix::fs::chown(&world.home, None, Some(GROUP)).is_err() {
        // Only root can run a command as another user.
        return;
    }
    let config = world.read("broker.toml").replace("[broker]", "");
    let text = format!("[broker]\nsocket_group = \"{GROUP}\"\n{config}");
    std::fs::write(world.home.join("broker.toml"), text).unwrap();
    std::fs::set_permissions(&world.home, Permissions::from_mode(0o710)).unwrap();
    open(world.home.parent().unwrap());
    let _daemon = world.serve();
    let grant = |level: &'static str| ["grant", "developer", "mock", level];
    run_as(&world, ADAM, GROUP, &grant("2")).ok();
    run_as(&world, ADAM, GROUP, &grant("3")).fails(3, &["adam may not grant L3"]);
    run_as(&world, RITA, GROUP, &grant("1")).fails(3, &["rita may not administer", "`admin = true`"]);
    run_as(&world, RITA, GROUP, &["stop"]).fails(3, &["rita may not administer"]);
    run_as(&world, RITA, GROUP, &["kill", "all"]).fails(3, &["rita may not administer"]);
    run_as(&world, RITA, GROUP, &["web", "link"]).fails(3, &["rita may not do this"]);
    run_as(&world, RITA, GROUP, &["answer", "--from", "telegram:1", "--", "approve aaaaaa"])
        .fails(3, &["nobody known"]);
    run_as(&world, 77_009, GROUP, &grant("1")).fails(3, &["user 77009 is not in the configuration"]);
    // A user outside the group of users cannot connect.
    run_as(&world, ADAM, 77_010, &grant("1")).fails(3, &["broker.sock", "socket_group"]);
}
