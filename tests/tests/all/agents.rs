//! Agents that `host-broker run` starts: the broker is their only way out.

#![expect(clippy::disallowed_methods, reason = "agents and their operators are processes")]

use serde_json::{Value, json};
use std::io::Write as _;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use tests::World;
use tests::fakes::real_now;
use tests::group::code;
use tests::programs::programs;
use tests::shim::Shim;

/// The words of `run` for the developer group, up to the program.
fn words(world: &World, options: &[&str]) -> Vec<String> {
    let home = world.home().display().to_string();
    let shim = programs().mcp_shim().canonicalize().unwrap().display().to_string();
    let first = ["--home", &home, "run", "--group", "developer", "--shim", &shim];
    first.into_iter().chain(options.iter().copied()).map(str::to_owned).collect()
}

fn command(world: &World, options: &[&str], program: &[&str]) -> Command {
    let mut command = Command::new(programs().host_broker());
    command.args(words(world, options)).arg("--").args(program);
    command.env_clear().env("PATH", "/usr/local/bin:/usr/bin:/bin").env("HOME", "/nonexistent");
    command
}

/// Runs a shell in the sandbox.
fn shell(world: &World, options: &[&str], script: &str) -> Output {
    command(world, options, &["sh", "-c", script]).stdin(Stdio::null()).output().unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

/// Says why there can be no sandbox here.
fn no_sandbox() -> bool {
    let made = Command::new("bwrap").args(["--unshare-all", "--ro-bind", "/", "/", "true"]).output();
    let works = made.is_ok_and(|output| output.status.success());
    if !works {
        tests::skipped("bwrap cannot make a sandbox here");
    }
    !works
}

#[test]
fn an_agent_is_an_mcp_client_of_the_broker_through_the_socket() {
    if no_sandbox() {
        return;
    }
    let world = World::with_grant();
    world.group("developer").snapshot();
    let shim = Shim::of(command(&world, &[], &["mcp-shim"]));
    let result = shim.call("ext_call", json!({ "provider": "demo", "action": "echo", "params": { "n": 7 } }));
    assert_eq!(result["structuredContent"]["data"]["n"], 7, "{result}");
    let status: Value = serde_json::from_slice(&world.cli(&["status", "--json"]).stdout).unwrap();
    let group = status["groups"].as_array().unwrap().iter().find(|group| group["group"] == "developer").unwrap();
    assert_eq!(group["socket"]["connections"], 1, "{group}");
}

/// Attack (Agents that the broker starts): An agent reads files of the machine, or writes outside
/// of its workspace.
/// Defence: `platform::agent_sandbox`: it sees the system's programs, its home, and the given
/// mounts.
#[test]
fn an_agent_sees_nothing_of_the_machine_that_it_was_not_given() {
    if no_sandbox() {
        return;
    }
    let world = World::with_grant();
    let project = world.outside().join("project");
    std::fs::create_dir(&project).unwrap();
    std::fs::write(project.join("notes"), "given").unwrap();
    let secret = world.outside().join("secret");
    std::fs::write(&secret, "not given").unwrap();
    let workspace = project.display().to_string();
    let home = world.home();
    let script = format!(
        "cat notes; echo more > new; pwd; id -u; hostname; ls /workspace; ls /home; \
         for path in {home}/broker.toml {home}/keys {home} {secret} /root /etc/shadow /var/log /workspace/project/notes; do \
             if cat $path >/dev/null 2>&1 || [ -n \"$(ls -A $path 2>/dev/null)\" ]; then echo \"SEEN $path\"; fi; \
         done; \
         for path in /etc /usr /opt /opt/broker/bin /workspace /workspace/ipc /workspace/ipc/responses /workspace/project; do \
             if touch $path/x 2>/dev/null; then echo \"WRITTEN $path\"; fi; \
         done; \
         grep -c : /proc/net/dev; env | sort | cut -d= -f1 | tr '\\n' ' '",
        home = home.display(),
        secret = secret.display(),
    );
    let output = shell(&world, &["--workspace", &workspace, "--env", "GIVEN=1"], &script);
    let text = said(&output);
    assert!(text.starts_with("given/workspace/project\n1000\ndeveloper\nipc\nproject\nagent\n"), "{output:?}");
    let all = |word: &str| text.lines().filter_map(|line| line.strip_prefix(word)).collect::<Vec<_>>();
    assert_eq!(all("SEEN "), ["/workspace/project/notes"], "{text}");
    assert_eq!(all("WRITTEN "), ["/workspace/project"], "{text}");
    // Of the network there is its own loopback interface.
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[lines.len() - 2], "1", "{text}");
    let expected = "GIVEN HOME PATH PWD SHELL TMPDIR USER";
    assert_eq!(lines[lines.len() - 1].trim(), expected, "{text}");
    assert_eq!(std::fs::read_to_string(project.join("new")).unwrap(), "more\n");
    // Read-only, if it was asked for.
    let refused = shell(&world, &["--workspace", &workspace, "--read-only"], "touch other || echo refused");
    assert_eq!(said(&refused), "refused");
    // The home of the agent stays, and no other group has it.
    shell(&world, &[], "echo remembered > ~/memory");
    assert_eq!(said(&shell(&world, &[], "cat ~/memory")), "remembered");
    assert!(world.home().join("sandboxes/developer/home/memory").is_file());
}

/// Attack (Agents that the broker starts): An agent leaves a program with the name of the launcher
/// beside its interpreter, or a variable for the dynamic linker.
/// Defence: The broker takes bwrap from directories of the system, and starts it with no
/// environment.
///
/// Attack (Agents that the broker starts): An agent makes a setuid program in the workspace.
/// Defence: The filter refuses such modes, and calls that could hide them.
///
/// Attack: see `nothing_follows_from_a_program_on_which_the_agent_works`.
#[test]
fn an_agent_runs_nothing_outside_by_files_that_it_leaves_behind() {
    if no_sandbox() {
        return;
    }
    let world = World::with_grant();
    let project = world.outside().join("project");
    std::fs::create_dir_all(project.join("bin")).unwrap();
    let workspace = project.display().to_string();
    // Beside the program, a program with the name of the launcher; and a link to the broker's home where libraries lie.
    let tool = executable(
        &project.join("bin/tool"),
        "#!/bin/sh\necho \"$0\"; ls -A \"$(dirname \"$0\")/../lib/\" 2>/dev/null",
    );
    executable(&project.join("bin/bwrap"), "#!/bin/sh\ntouch ESCAPED");
    std::os::unix::fs::symlink(world.home(), project.join("lib")).unwrap();
    let path = format!("{}:/usr/bin:/bin", project.join("bin").display());
    // In the sandbox, this directory is another one.
    let mark = format!("broker-trace-{}", std::process::id());
    let trace = format!("/tmp/{mark}");
    let environment = [format!("PATH={path}"), "LD_DEBUG=libs".to_owned(), format!("LD_DEBUG_OUTPUT={trace}")];
    let given: Vec<&str> = environment.iter().flat_map(|variable| ["--env", variable]).collect();
    let options = [&["--workspace", &workspace][..], &given].concat();
    for program in [tool.to_str().unwrap(), "tool"] {
        let mut run = command(&world, &options, &[program]);
        let output = run.env("PATH", &path).current_dir(&project).stdin(Stdio::null()).output().unwrap();
        assert_eq!(said(&output), "/workspace/project/bin/tool", "{output:?}");
    }
    let mut names: Vec<_> =
        std::fs::read_dir(&project).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    assert_eq!(names, ["bin", "lib"]);
    let is_trace = |entry: &std::fs::DirEntry| entry.file_name().to_string_lossy().starts_with(&mark);
    let traces: Vec<_> = std::fs::read_dir("/tmp").unwrap().filter_map(Result::ok).filter(is_trace).collect();
    assert!(traces.is_empty(), "the dynamic linker of a process outside has left its trace: {traces:?}");
    // No file runs with the rights of its owner.
    let script =
        "cp /bin/true s && ! chmod 4755 s 2>/dev/null && ! chmod g+s s 2>/dev/null && chmod 755 s && ./s && echo kept";
    assert_eq!(said(&shell(&world, &["--workspace", &workspace], script)), "kept");
    let perl = "use Fcntl; sysopen(my $f, 'made', O_CREAT | O_WRONLY, 04755) and print 'made'; \
                sysopen($f, 'plain', O_CREAT | O_WRONLY, 0755) and print 'plain'";
    if Path::new("/usr/bin/perl").exists() {
        let output = command(&world, &["--workspace", &workspace], &["perl", "-e", perl]).output().unwrap();
        assert_eq!(said(&output), "plain", "{output:?}");
    }
}

/// Attack (Agents that the broker starts): An agent sends a signal to its process group.
/// Defence: It has a group of its own.
#[test]
fn a_signal_of_an_agent_to_its_group_reaches_nobody_outside() {
    if no_sandbox() {
        return;
    }
    let world = World::with_grant();
    let words = words(&world, &[]).join(" ");
    let broker = programs().host_broker().canonicalize().unwrap();
    for signal in ["9", "TERM"] {
        let script = format!("{} {words} -- sh -c 'kill -{signal} 0; sleep 60'; echo survived", broker.display());
        let output =
            Command::new("sh").args(["-c", &script]).env_clear().env("PATH", "/usr/bin:/bin").output().unwrap();
        assert_eq!(said(&output), "survived", "{signal}: {output:?}");
    }
}

/// Runs a command on a terminal, and interrupts it once it is ready. Afterwards the terminal is asked for its state.
const TERMINAL: &str = r#"
import os, pty, sys, termios
pid, terminal = pty.fork()
if pid == 0:
    code = os.spawnv(os.P_WAIT, sys.argv[1], sys.argv[1:])
    echo = bool(termios.tcgetattr(0)[3] & termios.ECHO)
    print("code", code, "echo", echo, "foreground", os.tcgetpgrp(0) == os.getpgrp(), flush=True)
    os._exit(0)
said = b""
while b"foreground" not in said:
    try:
        said += os.read(terminal, 4096)
    except OSError:
        break
    if b"READY" in said:
        said = said.replace(b"READY", b"")
        os.write(terminal, b"\x03")
print(said.decode())
"#;

/// Attack (Agents that the broker starts): An agent leaves the terminal without echo, or with input
/// for the shell.
/// Defence: `run` restores the terminal and discards the input.
#[test]
fn an_interrupt_of_the_terminal_reaches_the_program_alone() {
    if no_sandbox() {
        return;
    }
    let Some(python) = ["/usr/bin/python3", "/usr/local/bin/python3"].into_iter().find(|path| Path::new(path).exists())
    else {
        return tests::skipped("there is no python3 to make a terminal");
    };
    let world = World::with_grant();
    let broker = programs().host_broker().canonicalize().unwrap();
    let program = "stty -echo; trap 'echo CAUGHT; exit 9' INT; echo READY; while :; do sleep 0.05; done";
    for options in [&[][..], &["--host", "localhost:9"]] {
        let mut run = Command::new(python);
        run.args(["-c", TERMINAL]).arg(&broker).args(words(&world, options)).args(["--", "sh", "-c", program]);
        let output = run.env_clear().env("PATH", "/usr/bin:/bin").stdin(Stdio::null()).output().unwrap();
        let text = said(&output);
        assert!(text.contains("CAUGHT"), "{options:?}: {output:?}");
        assert!(text.contains("code 9 echo True foreground True"), "{options:?}: {text}");
    }
}

/// Attack (Agents that the broker starts): A sandbox cannot be made, and the program runs without
/// one.
/// Defence: The program is started by the sandbox only, and the command ends with code 4.
#[test]
fn a_sandbox_that_cannot_be_made_is_said_and_nothing_ran() {
    if no_sandbox() {
        return;
    }
    let world = World::with_grant();
    let broker = programs().host_broker().canonicalize().unwrap();
    let words = words(&world, &[]).join(" ");
    let script =
        format!("echo 0 > /proc/sys/user/max_user_namespaces && exec {} {words} -- echo ran", broker.display());
    let output = Command::new("unshare").args(["-r", "sh", "-c", &script]).env("PATH", "/usr/bin:/bin").output();
    let Ok(output) = output else { return tests::skipped("unshare is not installed") };
    let error = String::from_utf8_lossy(&output.stderr);
    if error.contains("unshare failed") {
        return tests::skipped("this user cannot make a user namespace");
    }
    assert_eq!((output.status.code(), said(&output).as_str()), (Some(4), ""), "{output:?}");
    assert!(error.contains("the sandbox was not created, and nothing ran in it"), "{error}");
}

/// Attack (Agents that the broker starts): An agent replaces a directory while another sandbox is
/// made with it.
/// Defence: The broker refuses a path inside the workspace of an agent that runs.
#[test]
fn an_agent_is_not_given_what_another_one_works_on() {
    if no_sandbox() {
        return;
    }
    let world = World::with_grant();
    let project = world.outside().join("project");
    std::fs::create_dir_all(project.join("docs")).unwrap();
    let (whole, part) = (project.display().to_string(), project.join("docs").display().to_string());
    let mut first = command(&world, &["--workspace", &whole], &["sh", "-c", "echo begun; read line"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(first.stdout.take().unwrap()), &mut line).unwrap();
    for option in ["--workspace", "--read"] {
        let refused = command(&world, &[option, &part], &["true"]).output().unwrap();
        assert!(String::from_utf8_lossy(&refused.stderr).contains("another agent works"), "{option}: {refused:?}");
    }
    assert!(command(&world, &["--workspace", &whole], &["true"]).output().unwrap().status.success());
    drop(first.stdin.take());
    first.wait().unwrap();
    assert!(command(&world, &["--workspace", &part], &["true"]).output().unwrap().status.success());
}

/// Attack (Agents that the broker starts): An agent types into the terminal, or reads a keyring.
/// Defence: `confinement`: a filter of system calls. In a container, the shim installs it.
#[test]
fn an_agent_types_nothing_into_the_terminal_and_reads_no_keyring() {
    if no_sandbox() {
        return;
    }
    let world = World::with_grant();
    // TIOCSTI, the same with a bit that the kernel ignores, TIOCLINUX, keyctl: each is refused by the filter, before the
    // kernel looks at the descriptor.
    let script = r#"
        my $x = "x";
        for my $call ([16, 0, 0x5412, $x], [16, 0, 0x100005412, $x], [16, 0, 0x541C, $x], [250, 0, 0, 0]) {
            my ($number, @arguments) = @$call;
            my $said = syscall($number, @arguments);
            print $said == -1 ? 0 + $! : "done", " ";
        }
        # Another request reaches the kernel: the input is no terminal.
        my $settings = "x" x 64;
        syscall(16, 0, 0x5401, $settings);
        print 0 + $!;
    "#;
    if !cfg!(target_arch = "x86_64") || !Path::new("/usr/bin/perl").exists() {
        return tests::skipped("the numbers of the calls are those of x86-64, and perl makes them");
    }
    let output = command(&world, &[], &["perl", "-e", script]).stdin(Stdio::null()).output().unwrap();
    assert_eq!(said(&output), "1 1 1 1 25", "{output:?}");
}

#[test]
fn an_agent_reaches_the_hosts_that_it_is_given_and_no_other() {
    if no_sandbox() {
        return;
    }
    let world = World::with_grant();
    let (one, other) = (TcpListener::bind("127.0.0.1:0").unwrap(), TcpListener::bind("127.0.0.1:0").unwrap());
    let (near, far) = (one.local_addr().unwrap().port(), other.local_addr().unwrap().port());
    let server = std::thread::spawn(move || {
        let (mut stream, _) = one.accept().unwrap();
        stream.write_all(b"reached\n").unwrap();
    });
    let host = format!("localhost:{near}");
    let script = format!(
        "exec 3<>/dev/tcp/127.0.0.1/{near} && head -n1 <&3; \
         (exec 4<>/dev/tcp/127.0.0.1/{far}) 2>/dev/null && echo FAR; read line; echo \"$line\""
    );
    let mut child = command(&world, &["--host", &host], &["bash", "-c", &script])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    // The input of the command is the input of the program.
    child.stdin.take().unwrap().write_all(b"typed\n").unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(said(&output), "reached\ntyped", "{output:?}");
    server.join().unwrap();
    // A host that leads nowhere is named.
    let script = "exec 3<>/dev/tcp/127.0.0.2/443 && head -c1 <&3; exit 0";
    let output = command(&world, &["--host", "no-such-host.invalid"], &["bash", "-c", script]).output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(error.contains("no-such-host.invalid"), "{output:?}");
    let none = command(&world, &[], &["bash", "-c", &format!("exec 3<>/dev/tcp/127.0.0.1/{far}")]).output().unwrap();
    assert!(!none.status.success(), "{none:?}");
}

#[test]
fn the_exit_code_is_that_of_the_program() {
    if no_sandbox() {
        return;
    }
    let world = World::with_grant();
    for (script, expected) in [("exit 0", 0), ("exit 7", 7), ("kill -9 $$", 137)] {
        let output = shell(&world, &[], script);
        assert_eq!(output.status.code(), Some(expected), "{script}: {output:?}");
    }
    // Nothing of the sandbox outlives the command.
    let mut child =
        command(&world, &[], &["sh", "-c", "echo begun; exec sleep 86399"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(child.stdout.take().unwrap()), &mut line).unwrap();
    assert_eq!(line, "begun\n");
    child.kill().unwrap();
    child.wait().unwrap();
    tests::until("the end of the sandbox", || (!tests::runs("86399")).then_some(()));
}

/// Writes a program.
fn executable(path: &Path, text: &str) -> PathBuf {
    std::fs::write(path, format!("{text}\n")).unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
    path.to_owned()
}

/// A program of this name.
fn fake(world: &World, name: &str, script: &str) -> PathBuf {
    executable(&world.outside().join(name), &format!("#!/bin/sh\n{script}"))
}

#[test]
fn a_client_finds_the_shim_registered_where_it_looks() {
    if no_sandbox() {
        return;
    }
    let world = World::with_grant();
    let run = |name: &str, script: &str| {
        let program = fake(&world, name, script);
        let output =
            command(&world, &[], &[program.to_str().unwrap(), "--version"]).stdin(Stdio::null()).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        said(&output)
    };
    let server = json!({ "mcpServers": { "broker": { "command": "/opt/broker/bin/mcp-shim" } } });
    let place = "/etc/claude-code/managed-mcp.json";
    let text = run("claude", &format!("cat {place}; echo x >> {place} 2>/dev/null && echo CHANGED; true"));
    assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), server, "{text}");
    // Its own command registers the shim, once.
    let gemini = "echo \"$@\" >> ~/said; [ \"$1\" != mcp ] || { mkdir -p ~/.gemini; echo \"$6\" > ~/.gemini/settings.json; }; \
                  cat ~/said";
    let added = "mcp add --scope user broker /opt/broker/bin/mcp-shim";
    assert_eq!(run("gemini", gemini), format!("{added}\n--version"));
    assert_eq!(run("gemini", gemini), format!("{added}\n--version\n--version"));
    let arguments = run("codex", "echo \"$@\"");
    assert_eq!(arguments, "-c mcp_servers.broker.command=\"/opt/broker/bin/mcp-shim\" --version");
    // The program that is named there is the shim.
    assert!(
        said(&shell(&world, &[], "/opt/broker/bin/mcp-shim --version; mcp-shim --version")).starts_with("mcp-shim ")
    );
}

/// Attack (Agents that the broker starts): A given path contains the broker's home, keys, sockets
/// of services, or the broker's programs.
/// Defence: `cli::run::admission` refuses it.
#[test]
fn a_sandbox_that_would_have_a_second_way_out_is_refused() {
    let mut world = World::with_grant();
    let home = world.home().display().to_string();
    let above = world.home().parent().unwrap().display().to_string();
    let inside = world.home().join("keys").display().to_string();
    let link = world.outside().join("link");
    std::os::unix::fs::symlink(world.home(), &link).unwrap();
    let link = link.display().to_string();
    let refused = |options: &[&str], program: &[&str], expected: i32, word: &str| {
        let output = command(&world, options, program).stdin(Stdio::null()).output().unwrap();
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(expected), "{options:?}: {error}");
        assert!(error.contains(word), "{options:?}: no `{word}` in {error}");
        assert_eq!(said(&output), "", "{options:?}");
    };
    for path in [&home, &above, &inside, &link] {
        refused(&["--workspace", path], &["true"], 2, "the broker's home");
        refused(&["--read", path], &["true"], 2, "the broker's home");
    }
    for path in ["/run", "/proc/1", "/dev"] {
        refused(&["--read", path], &["true"], 2, "belongs to the system");
    }
    let socket = world.outside().join("socket");
    let _listening = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    refused(&["--read", socket.to_str().unwrap()], &["true"], 2, "neither a file nor a directory");
    for path in ["/etc", "/"] {
        refused(&["--read", path], &["true"], 2, "name");
    }
    refused(&["--workspace", "/usr/share"], &["true"], 2, "inside /usr");
    let programs = programs().mcp_shim().canonicalize().unwrap().parent().unwrap().display().to_string();
    refused(&["--workspace", &programs], &["true"], 2, "which the agent could replace");
    refused(&["--read", "/absent"], &["true"], 2, "cannot be used");
    let file = world.outside().join("file");
    std::fs::write(&file, "").unwrap();
    for more in [&[][..], &["--read-only"]] {
        refused(&[&["--workspace", file.to_str().unwrap()], more].concat(), &["true"], 2, "not a directory");
    }
    refused(&["--env", "NOT_SET_HERE"], &["true"], 2, "--env NOT_SET_HERE=VALUE");
    refused(&["--host", "*.example.com"], &["true"], 2, "is not a host");
    refused(&[], &["no-such-program"], 3, "no-such-program");
    // The home directory of the person is known also without the variable, and its hidden parts are kept.
    let own = world.outside().join("person");
    std::fs::create_dir_all(own.join(".ssh")).unwrap();
    let at = |path: &Path| path.display().to_string();
    for (path, word) in [(at(&own), "your home directory"), (at(&own.join(".ssh")), "hidden part")] {
        let output = command(&world, &["--read", &path], &["true"]).env("HOME", &own).output().unwrap();
        assert!(String::from_utf8_lossy(&output.stderr).contains(word), "{output:?}");
    }
    if Path::new("/root").is_dir() && rustix::process::geteuid().is_root() {
        let output = command(&world, &["--read", "/root"], &["true"]).env_remove("HOME").output().unwrap();
        assert!(String::from_utf8_lossy(&output.stderr).contains("your home directory"), "{output:?}");
    }
    let other = world.cli(&["run", "--group", "develper", "--", "true"]);
    assert!(String::from_utf8_lossy(&other.stderr).contains("did you mean `developer`?"), "{other:?}");
    world.stop();
    refused_without_daemon(&world);
}

fn refused_without_daemon(world: &World) {
    let output = command(world, &[], &["true"]).output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(3), "{error}");
    assert!(error.contains("no daemon is running") && error.contains("serve"), "{error}");
}

#[test]
fn a_dry_run_shows_the_sandbox_and_no_value_of_the_environment() {
    if no_sandbox() {
        return;
    }
    let world = World::with_grant();
    let output =
        command(&world, &["--dry-run", "--json", "--env", "KEY=hunter2", "--host", "api.example.com"], &["sh"])
            .output()
            .unwrap();
    let text = said(&output);
    assert!(!text.contains("hunter2"), "{text}");
    let document: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(document["hosts"], json!(["api.example.com:443"]));
    assert!(document["environment"].as_array().unwrap().contains(&json!("KEY")), "{text}");
    let mounts = document["mounts"].as_array().unwrap();
    let writable: Vec<&str> =
        mounts.iter().filter(|mount| mount["writable"] == true).map(|mount| mount["to"].as_str().unwrap()).collect();
    assert_eq!(writable, ["/home/agent", "/workspace/ipc/tasks"]);
}

/// Attack: see `a_sandbox_that_would_have_a_second_way_out_is_refused`.
#[test]
fn paths_that_the_configuration_protects_are_kept_from_agents() {
    if no_sandbox() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (files, key) = (folder.path().join("files"), folder.path().join("keys/other.key"));
    std::fs::create_dir_all(&files).unwrap();
    std::fs::create_dir_all(key.parent().unwrap()).unwrap();
    std::fs::write(&key, "0123456789abcdef0123456789abcdef").unwrap();
    std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o600)).unwrap();
    let config = format!(
        "{}\n[groups.other]\nsigning_key_file = \"{}\"\n[providers.files]\nkind = \"files\"\n\
         workspaces = {{ developer = \"{}\" }}\n[web]\nlisten = \"127.0.0.1:0\"\n",
        tests::world::CONFIG,
        key.display(),
        files.display(),
    );
    let world = World::builder().config(&config).up();
    let at = |path: &Path| path.display().to_string();
    for path in [at(&files), at(folder.path()), at(&key), at(key.parent().unwrap())] {
        for option in ["--workspace", "--read"] {
            let output = command(&world, &[option, &path], &["true"]).output().unwrap();
            assert_eq!(output.status.code(), Some(2), "{option} {path}: {output:?}");
        }
    }
    // The inbox of the broker is no host of an agent.
    let status: Value = serde_json::from_slice(&world.cli(&["status", "--json"]).stdout).unwrap();
    let port = status["web"].as_str().unwrap().trim_end_matches('/').rsplit(':').next().unwrap().to_owned();
    for option in ["--host", "--private-host"] {
        let output = command(&world, &[option, &format!("localhost:{port}")], &["true"]).output().unwrap();
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(2) && error.contains("is the broker itself"), "{option}: {output:?}");
    }
    // The files of the group are there to be read.
    std::fs::write(files.join("a"), "text").unwrap();
    let output = shell(&world, &[], "cat /workspace/files/a; touch /workspace/files/b 2>/dev/null || echo refused");
    assert_eq!(said(&output), "textrefused", "{output:?}");
}

#[test]
fn an_agent_of_a_group_that_signs_has_the_key() {
    if no_sandbox() {
        return;
    }
    let config = format!("{}\n[groups.signed]\nsigning_key_file = \"signed.key\"\n", tests::world::CONFIG);
    let world =
        World::builder().config(&config).file("signed.key", "0123456789abcdef0123456789abcdef").clock(real_now()).up();
    world.grant("signed", 1);
    world.group("signed").snapshot();
    let mut run = Command::new(programs().host_broker());
    let words: Vec<String> = words(&world, &[]).into_iter().map(|word| word.replace("developer", "signed")).collect();
    run.args(words).args(["--", "mcp-shim", "call", "demo", "echo", "{\"n\":1}"]).env_clear();
    let output = run.output().unwrap();
    let reply: Value = serde_json::from_str(&said(&output)).unwrap_or_else(|_| panic!("{output:?}"));
    assert_eq!((code(&reply), &reply["output"]["n"]), ("executed", &json!(1)), "{reply}");
}
