//! People of other users of the machine, at the control socket.

use super::world::{Done, World, finish, mode};
use rustix::process::{Gid, Uid};
use rustix::thread::{set_thread_gid, set_thread_groups, set_thread_uid};
use std::fs::Permissions;
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::time::Duration;

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
can_relay_answers = true
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

/// A home whose socket is open to the group of users; `None` where only root could make one.
fn shared_home() -> Option<World> {
    let world = World::with_mock();
    world.append("broker.toml", PEOPLE);
    std::os::unix::fs::chown(&world.home, None, Some(GROUP)).ok()?;
    let config = world.read("broker.toml").replace("[broker]", "");
    let text = format!("[broker]\nsocket_group = \"{GROUP}\"\n{config}");
    std::fs::write(world.home.join("broker.toml"), text).unwrap();
    std::fs::set_permissions(&world.home, Permissions::from_mode(0o710)).unwrap();
    std::fs::set_permissions(world.home.parent().unwrap(), Permissions::from_mode(0o711)).unwrap();
    Some(world)
}

/// Connects so many times as another user of the group, and says nothing.
fn silent(world: &World, uid: u32, count: usize) -> Vec<UnixStream> {
    let socket = world.home.join("broker.sock");
    let connect = move || {
        set_thread_groups(&[]).unwrap();
        set_thread_gid(Gid::from_raw(GROUP)).unwrap();
        set_thread_uid(Uid::from_raw(uid)).unwrap();
        (0..count).map(|_| UnixStream::connect(&socket).unwrap()).collect()
    };
    std::thread::spawn(connect).join().unwrap()
}

/// The daemon's message to a connection that has asked nothing.
fn refusal(stream: &UnixStream) -> String {
    stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line).expect("an answer");
    line
}

/// Attack (The host): another user of the host holds connections to the control socket and sends
/// nothing
/// Defence: the broker refuses users who are not in the configuration before it reads; 16
/// connections for each other user, 64 for all, more for its own user; a command has ten seconds to
/// arrive
#[test]
fn a_user_who_is_not_in_the_configuration_holds_no_connection() {
    let Some(world) = shared_home() else { return };
    let _daemon = world.serve();
    for stream in silent(&world, 77_009, 100) {
        assert!(refusal(&stream).contains("user 77009 is not in the configuration"));
    }
    world.run(&["grant", "developer", "mock", "1"]).ok();
}

/// Attack: see `a_user_who_is_not_in_the_configuration_holds_no_connection`.
#[test]
fn a_user_holds_few_connections_and_the_daemons_own_user_has_a_reserve() {
    let Some(world) = shared_home() else { return };
    let _daemon = world.serve();
    let streams = silent(&world, RITA, 40);
    for stream in &streams[16..] {
        assert!(refusal(stream).contains("too many commands of user 77003"));
    }
    run_as(&world, ADAM, GROUP, &["grant", "developer", "mock", "2"]).ok();
    world.run(&["grant", "developer", "mock", "1"]).ok();
    drop(streams);
}

/// Attack (The host): Another user of the host connects to the control socket.
/// Defence: Its mode is 0600, or 0660 for the group `socket_group`. The kernel reports the caller's
/// uid, and the uid decides.
#[test]
fn other_users_come_through_the_socket_of_their_group_and_do_what_their_table_says() {
    let Some(world) = shared_home() else { return };
    let _daemon = world.serve();
    let grant = |level: &'static str| ["grant", "developer", "mock", level];
    run_as(&world, ADAM, GROUP, &grant("2")).ok();
    run_as(&world, ADAM, GROUP, &grant("3")).fails(3, &["adam may not grant L3"]);
    run_as(&world, RITA, GROUP, &grant("1")).fails(3, &["rita may not administer", "`admin = true`"]);
    run_as(&world, RITA, GROUP, &["stop"]).fails(3, &["rita may not administer"]);
    run_as(&world, RITA, GROUP, &["kill", "all"]).fails(3, &["rita may not administer"]);
    run_as(&world, RITA, GROUP, &["web", "link"]).fails(3, &["rita may not do this"]);
    run_as(&world, RITA, GROUP, &["approvals", "relay", "--from", "telegram:1", "--", "approve aaaaaa"])
        .fails(3, &["an unknown sender"]);
    run_as(&world, 77_009, GROUP, &grant("1")).fails(3, &["user 77009 is not in the configuration"]);
    // A user outside the group of users cannot connect.
    run_as(&world, ADAM, 77_010, &grant("1")).fails(3, &["broker.sock", "socket_group"]);
}
