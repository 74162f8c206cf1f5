//! Homes that others could change, and homes that lack files: refused, or reported.

use super::world::{World, finish};
use std::fs::Permissions;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;

fn mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

/// Attack (The host): Another user of the host changes the configuration, a rule, a profile, a
/// script, a key or the ledger.
/// Defence: `config::permissions`: each command that reads the home checks owners and modes up to
/// `/`, like `StrictModes` of sshd.
#[test]
fn nothing_starts_and_no_command_reads_a_home_that_others_can_write() {
    let world = World::with_mock();
    world.run(&["grant", "developer", "mock", "1"]).ok();
    let readers: [&[&str]; 6] = [
        &["serve"],
        &["status"],
        &["config", "check"],
        &["grant", "developer", "mock", "2"],
        &["explain", "developer", "mock.echo"],
        &["calls", "list"],
    ];
    for (name, bits, command) in [
        ("", 0o770, "chmod g-w "),
        ("broker.toml", 0o664, "chmod g-w "),
        ("policy/default.cedar", 0o606, "chmod o-w "),
        ("policy/profiles", 0o777, "chmod go-w "),
        ("keys/ledger.key", 0o620, "chmod g-w "),
        ("ledger.db", 0o660, "chmod g-w "),
    ] {
        let path = world.home.join(name);
        let before = std::fs::metadata(&path).unwrap().permissions();
        mode(&path, bits);
        let words =
            [path.canonicalize().unwrap().display().to_string(), format!("mode {bits:04o}"), command.to_owned()];
        for reader in readers {
            world.run(reader).fails(4, &words.each_ref().map(String::as_str));
        }
        std::fs::set_permissions(&path, before).unwrap();
    }
    // The configuration names a script.
    mode(&world.home.join("mock.toml"), 0o666);
    for reader in &readers[..5] {
        world.run(reader).fails(4, &["mock.toml", "mode 0666", "chmod go-w "]);
    }
    mode(&world.home.join("mock.toml"), 0o644);
    world.run(&["status"]).ok();
}

#[test]
fn root_is_told_to_run_a_command_as_the_user_of_the_home() {
    let world = World::with_mock();
    if std::os::unix::fs::chown(&world.home, Some(54_321), None).is_err() {
        return;
    }
    let command = format!("sudo -u '#54321' host-broker --home {} …", world.home.display());
    for reader in [&["status"][..], &["serve"], &["config", "check"], &["grant", "developer", "mock", "1"]] {
        let done = world.run(reader);
        assert!(!done.err.contains("chown"), "{done:?}");
        done.fails(4, &["belongs to user #54321", &command]);
    }
}

#[test]
fn files_of_a_new_home_are_private_under_any_umask() {
    let world = World::empty();
    let program = world.command(&["init"]).get_program().to_owned();
    #[expect(clippy::disallowed_methods, reason = "the program under test is a child process")]
    let mut shell = std::process::Command::new("/bin/sh");
    shell.args(["-c", "umask 000; exec \"$0\" init --home \"$1\""]).arg(program).arg(&world.home);
    assert!(shell.env_clear().output().unwrap().status.success());
    world.run(&["config", "check"]).ok();
    world.run(&["status"]).ok();
}

/// Attack (The host): The ledger or its key is lost and silently replaced.
/// Defence: The broker makes no key if a ledger exists. It reports a new ledger and each other new
/// key.
#[test]
fn a_lost_key_of_the_ledger_is_not_made_again_and_a_lost_ledger_is_said_aloud() {
    let world = World::with_mock();
    world.run(&["grant", "developer", "mock", "1"]).ok();
    let key = world.home.join("keys/ledger.key");
    let aside = world.home.join("keys/aside");
    std::fs::rename(&key, &aside).unwrap();
    for command in [&["serve"][..], &["grant", "developer", "mock", "2"]] {
        world.run(command).fails(4, &["ledger.key", "is missing", "restore it from a backup"]);
        assert!(!key.exists());
    }
    assert!(world.run(&["status"]).ok().contains("restore it from a backup"));
    std::fs::rename(&aside, &key).unwrap();
    for name in ["ledger.db", "ledger.db-wal", "ledger.db-shm"] {
        std::fs::remove_file(world.home.join(name)).ok();
    }
    assert!(world.run(&["status"]).ok().contains("ledger.db is missing"));
    let granted = world.run(&["grant", "developer", "mock", "1"]);
    assert!(granted.err.contains("ledger.db is missing and is made new"), "{granted:?}");
    granted.ok();
    std::fs::remove_file(world.home.join("keys/identity.key")).unwrap();
    let (_daemon, log) = world.serve_with_log();
    let log = std::fs::read_to_string(log).unwrap();
    assert!(log.contains("identity.key is missing and is made new"), "{log}");
}

#[test]
fn an_exit_code_says_of_which_kind_a_fault_is() {
    let world = World::with_mock();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let config = world.read("broker.toml");
    world.append("broker.toml", &format!("\n[web]\nlisten = \"{}\"\n", taken.local_addr().unwrap()));
    world.run(&["serve"]).fails(4, &["the inbox cannot listen on", "name another port"]);
    std::fs::write(world.home.join("broker.toml"), config).unwrap();
    let _daemon = world.serve();
    world.run(&["serve"]).fails(3, &["another host-broker runs on this home"]);
}

#[test]
fn a_sandbox_with_another_user_has_its_directories_and_where_it_has_not_that_is_said() {
    let world = World::empty();
    let owner = |group: &str, name: &str| {
        std::fs::metadata(world.home.join("ipc").join(group).join(name)).map(|found| found.uid())
    };
    let own = rustix::process::geteuid().as_raw();
    let other = if own == 0 { 54_321 } else { own };
    let text = other.to_string();
    world.run(&["init", "--uid", &text]).ok();
    world.run(&["group", "add", "night", "--uid", &text]).ok();
    for (group, name) in [("developer", "tasks"), ("main", "responses"), ("night", "tasks"), ("night", "responses")] {
        assert_eq!(owner(group, name).unwrap(), other, "{group}/{name}");
    }
    assert!(world.read("broker.toml").contains(&format!("[groups.developer]\nuid = {other}\n")));
    assert!(!world.run(&["status"]).ok().contains("cannot write"));
    // A group whose sandbox's user was named later.
    world.run(&["group", "add", "day"]).ok();
    std::fs::create_dir_all(world.home.join("ipc/day/tasks")).unwrap();
    let config = world.read("broker.toml").replace("[groups.day]\n", "[groups.day]\nuid = 54322\n");
    std::fs::write(world.home.join("broker.toml"), config).unwrap();
    let tasks = world.home.join("ipc/day/tasks");
    let remedy = format!("chown 54322 {}", tasks.display());
    for command in [&["status"][..], &["config", "check"]] {
        let said = world.run(command).ok();
        assert!(said.contains("sandbox of group day runs as user 54322") && said.contains(&remedy), "{said}");
    }
}

#[test]
fn a_home_that_cannot_be_written_to_is_shown_and_verified_and_nothing_else() {
    let world = World::with_mock();
    world.run(&["grant", "developer", "mock", "1"]).ok();
    let daemon = world.serve();
    world.call("r1", "echo", &serde_json::json!({}), None);
    world.run(&["stop"]).ok();
    assert_eq!(daemon.end(), 0);
    let home = world.home.to_str().unwrap().to_owned();
    let on_read_only = |arguments: &[&str]| {
        let program = world.command(&[]).get_program().to_owned();
        #[expect(clippy::disallowed_methods, reason = "the program under test is a child process")]
        let mut sandbox = std::process::Command::new("bwrap");
        sandbox.args(["--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--"]).arg(program).args(arguments);
        super::world::finish(sandbox.args(["--home", &home]))
    };
    if on_read_only(&["--version"]).code != 0 {
        eprintln!("skipped: there is no bubblewrap here");
        return;
    }
    for arguments in [&["evidence", "verify"][..], &["status"], &["calls", "list"], &["evidence", "export"]] {
        on_read_only(arguments).ok();
    }
    assert!(on_read_only(&["calls", "show", "r1"]).ok().contains("mock.echo"));
    on_read_only(&["serve"]).fails(4, &["Read-only file system"]);
    on_read_only(&["grant", "developer", "mock", "2"]).fails(4, &["Read-only file system"]);
}

#[test]
fn a_classifier_that_cannot_run_is_a_warning_where_people_look() {
    let world = World::with_mock();
    world.append("broker.toml", "\n[inspection.classifier]\ncommand = [\"/nowhere/judge\"]\n");
    for command in [&["status"][..], &["config", "check"]] {
        let said = world.run(command).ok();
        assert!(said.contains("/nowhere/judge") && said.contains("count as suspicious"), "{said}");
    }
    // One that runs and answers nonsense is found out by the first result that it is asked about.
    let config = world.read("broker.toml").replace("/nowhere/judge", "/bin/false");
    std::fs::write(world.home.join("broker.toml"), config).unwrap();
    world.append("mock.toml", "\n[actions.read]\nlevel = 1\nreply = \"hello\"\nexposes = [\"untrusted\"]\n");
    world.run(&["grant", "developer", "mock", "1"]).ok();
    let _daemon = world.serve();
    let warned = || world.run(&["status"]).ok().contains("the classifier failed");
    assert!(!warned());
    world.call("j1", "read", &serde_json::json!({}), None);
    assert!(warned());
}

#[test]
fn a_variable_that_is_no_text_stops_nothing() {
    use std::os::unix::ffi::OsStrExt as _;
    let world = World::with_mock();
    let mut command = world.command(&["status"]);
    finish(command.env("LATIN", std::ffi::OsStr::from_bytes(b"Stra\xdfe"))).ok();
}
