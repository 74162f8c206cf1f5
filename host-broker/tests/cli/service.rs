//! The daemon as a service: what it tells the service manager.

use super::world::{World, finish, start};
use serde_json::json;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// The socket of a service manager.
struct Manager {
    socket: UnixDatagram,
    address: String,
}

impl Manager {
    fn at_a_path(world: &World) -> Self {
        let path = world.home.join("../notify");
        Self { socket: UnixDatagram::bind(&path).unwrap(), address: path.to_str().unwrap().to_owned() }
    }

    /// Of this name, which no file has.
    fn abstract_of(world: &World) -> Self {
        let name = format!("host-broker-test{}", world.home.display());
        let address = SocketAddr::from_abstract_name(&name).unwrap();
        Self { socket: UnixDatagram::bind_addr(&address).unwrap(), address: format!("@{name}") }
    }

    /// The program as this manager starts it.
    fn starts(&self, world: &World, arguments: &[&str]) -> Command {
        let mut command = world.command(arguments);
        command.env("NOTIFY_SOCKET", &self.address);
        command
    }

    /// The next message, without its status text.
    fn next(&self) -> String {
        self.message().split('\n').next().unwrap().to_owned()
    }

    fn message(&self) -> String {
        self.socket.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        let mut buffer = [0; 4096];
        let length = self.socket.recv(&mut buffer).expect("a message");
        String::from_utf8(buffer[..length].to_vec()).unwrap()
    }

    /// Nothing has come so far.
    fn has_heard_nothing(&self) {
        self.socket.set_nonblocking(true).unwrap();
        let error = self.socket.recv(&mut [0; 16]).expect_err("a message came");
        assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock);
        self.socket.set_nonblocking(false).unwrap();
    }
}

/// Attack (The host): A program of a provider speaks to the service manager in the daemon's name.
/// Defence: The broker takes `NOTIFY_SOCKET` out of its environment, and programs get a new one.
/// systemd accepts messages of the daemon's process only. No text of others is in a message.
#[test]
fn the_service_manager_hears_of_a_start_when_a_call_is_admitted() {
    for is_abstract in [false, true] {
        let world = World::with_mock();
        let manager = if is_abstract { Manager::abstract_of(&world) } else { Manager::at_a_path(&world) };
        world.run(&["grant", "developer", "mock", "1"]).ok();
        // The start waits for the secret of a provider. The program that supplies it shows the environment of a child.
        let (fifo, seen) = (world.home.join("fifo"), world.home.join("seen"));
        rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, rustix::fs::Mode::RWXU, 0).unwrap();
        let script = format!("env > '{}'; cat '{}'", seen.display(), fifo.display());
        world.append(
            "broker.toml",
            &format!(
                "\n[providers.github]\nkind = \"github\"\nrepos = [\"octo/hello\"]\n\
                 token = {{ command = [\"/bin/sh\", \"-c\", {script:?}] }}\n"
            ),
        );
        let mut daemon = start(&mut manager.starts(&world, &["serve"]));
        // Opened once the program reads it.
        let mut secret = std::fs::OpenOptions::new().write(true).open(&fifo).unwrap();
        manager.has_heard_nothing();
        std::io::Write::write_all(&mut secret, b"x23456789012345678901234567890123456789\n").unwrap();
        drop(secret);
        assert_eq!(manager.message(), "READY=1\nSTATUS=takes requests");
        assert_eq!(world.call("s1", "echo", &json!({}), None)["status"], "executed");
        assert_eq!(daemon.line(), "ready");
        let seen = std::fs::read_to_string(&seen).unwrap();
        assert!(seen.contains("PATH=") && !seen.contains("NOTIFY"), "{seen}");
        world.run(&["stop"]).ok();
        assert_eq!(manager.next(), "STOPPING=1");
        assert_eq!(daemon.end(), 0);
        manager.has_heard_nothing();
    }
}

#[test]
fn the_service_manager_hears_of_reloads_and_stops() {
    let world = World::with_mock();
    let manager = Manager::at_a_path(&world);
    let mut daemon = start(&mut manager.starts(&world, &["serve"]));
    assert_eq!(manager.next(), "READY=1");
    assert_eq!(daemon.line(), "ready");
    // The new program is the same process, and still knows the socket.
    for _ in 0..2 {
        world.run(&["reload"]).ok();
        assert_eq!(manager.next(), "RELOADING=1");
        assert_eq!(manager.next(), "READY=1");
        assert_eq!(daemon.line(), "ready");
    }
    // A reload that is refused changes nothing.
    let config = world.read("broker.toml");
    world.append("broker.toml", "\nunknown = 1\n");
    world.run(&["reload"]).fails(4, &["unknown"]);
    manager.has_heard_nothing();
    std::fs::write(world.home.join("broker.toml"), config).unwrap();
    daemon.signal(rustix::process::Signal::TERM);
    assert_eq!(manager.next(), "STOPPING=1");
    assert_eq!(daemon.end(), 0);
    // A start that fails is not one, and neither is a command.
    world.append("broker.toml", "\nunknown = 1\n");
    let ended = manager.starts(&world, &["serve"]).output().unwrap();
    assert_eq!(ended.status.code(), Some(4));
    manager.starts(&world, &["status"]).output().unwrap();
    manager.has_heard_nothing();
}

#[test]
fn without_its_variable_no_service_manager_hears_anything() {
    let world = World::with_mock();
    let manager = Manager::at_a_path(&world);
    let daemon = world.serve();
    world.run(&["stop"]).ok();
    assert_eq!(daemon.end(), 0);
    manager.has_heard_nothing();
    // A socket that is not there stops nothing.
    let mut command = world.command(&["serve"]);
    let mut daemon = start(command.env("NOTIFY_SOCKET", world.home.join("none")));
    assert_eq!(daemon.line(), "ready");
    world.run(&["stop"]).ok();
    assert_eq!(daemon.end(), 0);
}

/// The directories of units beside the one that the test replaces.
const UNITS: [&str; 4] =
    ["/run/systemd/system", "/usr/local/lib/systemd/system", "/usr/lib/systemd/system", "/lib/systemd/system"];

/// A bubblewrap that may make no namespace, as in a service that forbids them.
const FORBIDDEN: &str = "#!/bin/sh\n\
                         echo 'bwrap: No permissions to create new namespace, likely because the kernel does not allow it.' >&2\n\
                         exit 1\n";

#[test]
#[expect(clippy::disallowed_methods, reason = "the program under test is a child process")]
fn a_sandbox_that_the_service_forbids_is_reported_with_the_command_that_permits_it() {
    let world = World::with_mock();
    for (name, kind) in [("odd", "bridge"), ("web", "mcp")] {
        let table = format!("\n[providers.{name}]\nkind = \"{kind}\"\ncommand = [\"/usr/bin/true\"]\n");
        world.append("broker.toml", &table);
    }
    let bwrap = world.home.join("../bwrap");
    std::fs::write(&bwrap, FORBIDDEN).unwrap();
    std::fs::set_permissions(&bwrap, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    // The machine can have units of the package in other directories. Drop-ins there would count, too.
    if UNITS.iter().any(|directory| Path::new(directory).join("host-broker.service.d").exists()) {
        return eprintln!("skipped: this machine has the service of the package, with drop-ins");
    }
    let units = world.home.join("../units");
    std::fs::create_dir(&units).unwrap();
    std::fs::write(units.join("host-broker.service"), "[Service]\nRestrictNamespaces=yes\n").unwrap();
    // In a mount namespace of its own, the other program has the name, and the unit is installed.
    let script = "mount --bind \"$0\" /usr/bin/bwrap && mount --bind \"$UNITS\" /etc/systemd/system && exec \"$@\"";
    let run = |arguments: &[&str], is_service: bool| {
        let usual = world.command(arguments);
        let mut command = Command::new("unshare");
        command.args(["-rm", "sh", "-c", script]).arg(&bwrap).arg(usual.get_program()).args(usual.get_args());
        command.env_clear().envs(usual.get_envs().filter_map(|(name, value)| Some((name, value?))));
        command.env("PATH", "/usr/bin:/bin").env("UNITS", &units);
        if is_service {
            command.env("INVOCATION_ID", "0123456789abcdef");
        }
        finish(&mut command)
    };
    for arguments in [["provider", "check", "odd"], ["provider", "accept", "odd"], ["provider", "accept", "web"]] {
        let machine = run(&arguments, false);
        if machine.err.starts_with("unshare: ") || machine.err.starts_with("mount: ") {
            return eprintln!(
                "skipped: this user cannot make a mount namespace, or /usr/bin/bwrap or /etc/systemd/system is not there"
            );
        }
        machine.fails(5, &["cannot create sandbox", "No permissions", "host-broker doctor"]);
        let service = run(&arguments, true);
        assert!(!service.err.contains("host-broker doctor"), "{service:?}");
        let command = "/usr/share/host-broker/sandboxed-providers.conf && sudo systemctl daemon-reload";
        service.fails(5, &["cannot create sandbox: the service of systemd forbids", command]);
    }
}
